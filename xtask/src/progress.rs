//! Long steps show that they go on: a spinner on a terminal, one line elsewhere. Quick steps show nothing.

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// Steps shorter than this are not mentioned.
const QUIET: Duration = Duration::from_millis(700);

/// Set when standard error belongs to somebody else (`exec`): then only a terminal gets to see progress.
static SILENT: AtomicBool = AtomicBool::new(false);

/// From now on nothing goes to a standard error that is not a terminal.
pub fn only_on_terminals() {
    SILENT.store(true, Ordering::Relaxed);
}

/// Several may be under way at once, one below the other.
static BARS: LazyLock<MultiProgress> = LazyLock::new(MultiProgress::new);

/// A step that is under way.
pub struct Step {
    what: String,
    begun: Instant,
    bar: Option<ProgressBar>,
    mentioned: bool,
}

impl Step {
    pub fn begin(what: &str) -> Step {
        Step {
            what: what.to_string(),
            begun: Instant::now(),
            bar: None,
            mentioned: false,
        }
    }

    /// Another part of the same step is under way.
    pub fn say(&mut self, what: &str) {
        self.what = what.to_string();
        if let Some(bar) = &self.bar {
            bar.set_message(self.what.clone());
        }
    }

    /// To be called now and then.
    pub fn tick(&mut self) {
        if self.begun.elapsed() < QUIET {
            return;
        }
        if std::io::stderr().is_terminal() {
            let what = self.what.clone();
            let bar = self.bar.get_or_insert_with(|| {
                let bar = BARS.add(ProgressBar::new_spinner()).with_message(what);
                if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} … {elapsed}") {
                    bar.set_style(style);
                }
                bar
            });
            bar.tick();
        } else if !self.mentioned && !SILENT.load(Ordering::Relaxed) {
            self.mentioned = true;
            eprintln!("cairn: {} …", self.what);
        }
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

/// Something worth a line, unless standard error is somebody else's.
pub fn note(text: &str) {
    if std::io::stderr().is_terminal() || !SILENT.load(Ordering::Relaxed) {
        eprintln!("cairn: {text}");
    }
}

/// Run a program to its end as one step. Its output is shown only if it fails.
pub fn run(what: &str, command: &mut std::process::Command) -> anyhow::Result<Vec<u8>> {
    use anyhow::{bail, Context};
    use std::process::Stdio;
    let program = command.get_program().to_string_lossy().into_owned();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("{what}: cannot start {program}"))?;
    let collect = |pipe: Option<Box<dyn std::io::Read + Send>>| {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            if let Some(mut pipe) = pipe {
                // What could be read is all that there is to show.
                let _ = pipe.read_to_end(&mut bytes);
            }
            bytes
        })
    };
    let out = collect(child.stdout.take().map(|p| Box::new(p) as _));
    let err = collect(child.stderr.take().map(|p| Box::new(p) as _));
    let mut step = Step::begin(what);
    let mut pause = Duration::from_millis(2);
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(80));
        step.tick();
    };
    drop(step);
    let (out, err) = (
        out.join().unwrap_or_default(),
        err.join().unwrap_or_default(),
    );
    if !status.success() {
        eprintln!(
            "{}{}",
            String::from_utf8_lossy(&out),
            String::from_utf8_lossy(&err)
        );
        bail!("{what} failed: {program} ended with {status}; its output is above");
    }
    Ok(out)
}
