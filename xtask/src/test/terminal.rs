//! Suite `terminal`: a person's session at the console, typed by a program: each step sends keys and waits for what must appear.
//! After a step that failed the next one gets a new machine.
//!
//! Nothing here depends on how fast the machine is: a key that is meant for a program is sent when the program has shown that it is there.

use super::{batch, Report, Verdict};
use crate::cli::System;
use crate::guest;
use crate::machine::{self, Boot};
use anyhow::{Context, Result};
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// For everything but booting. Only a failure takes so long.
const PATIENCE: Duration = Duration::from_secs(120);
const BOOT: Duration = Duration::from_secs(180);
const PROMPT: &str = "ready> ";

/// Says that the terminal is as programs have it, not as the shell edits lines. (The quotes keep the echo of the line from looking like it.)
const SAY_GO: &str = "echo g''o;";
/// Sleeps in the foreground, and says so from there. (Not `sh -c`: busybox's main shell ignores SIGQUIT until it is done with `exec`.)
const SLEEPER: &str = "(echo g''o; exec sleep 1000)";
const GO: &str = "\ngo\r\n";

/// One step, beginning and ending at the prompt.
struct Step {
    name: &'static str,
    does: fn(&mut Console) -> Verdict,
}

const STEPS: [Step; 17] = [
    Step {
        name: "prompt",
        does: |c| c.line("echo a$((1+1))b", "a2b"),
    },
    Step {
        name: "erase",
        does: |c| c.line("echo abX\x7fc", "\nabc"),
    },
    Step {
        name: "cursor",
        does: |c| c.line("echo ac\x1b[Db", "\nabc"),
    },
    Step {
        name: "history",
        does: history,
    },
    Step {
        name: "canonical",
        does: canonical,
    },
    Step {
        name: "end-of-file",
        does: end_of_file,
    },
    Step {
        name: "interrupt",
        does: interrupt,
    },
    Step {
        name: "quit",
        does: quit,
    },
    Step {
        name: "interrupt-pipeline",
        does: interrupt_pipeline,
    },
    Step {
        name: "stop-and-continue",
        does: stop_and_continue,
    },
    Step {
        name: "background",
        does: background,
    },
    Step {
        name: "window-size",
        does: window_size,
    },
    Step {
        name: "no-echo",
        does: no_echo,
    },
    Step {
        name: "vi",
        does: vi,
    },
    Step {
        name: "top",
        does: top,
    },
    Step {
        name: "long-output",
        does: |c| c.line("seq 1 3000 | tail -n 2", "2999\r\n3000\r\n"),
    },
    Step {
        name: "exit-and-again",
        does: exit_and_again,
    },
];

fn history(c: &mut Console) -> Verdict {
    c.line("echo remembered", "\nremembered")?;
    c.send("\x1b[A")?;
    c.expect("echo remembered")?;
    c.line("", "\nremembered")
}

/// The terminal's own line editing, under a program that knows nothing of it.
fn canonical(c: &mut Console) -> Verdict {
    c.go(&format!("{SAY_GO} cat"))?;
    c.send("xy\x7fz\r")?;
    c.expect("xz\r\n")?;
    c.send("rubbish\x15word\r")?;
    c.expect("\nword\r\n")?;
    c.send("\x04")?;
    c.prompt()
}

fn end_of_file(c: &mut Console) -> Verdict {
    c.go(&format!("{SAY_GO} wc -c"))?;
    c.send("12345\r\x04")?;
    c.expect("\n6\r\n")?;
    c.prompt()
}

fn interrupt(c: &mut Console) -> Verdict {
    c.go(SLEEPER)?;
    c.send("\x03")?;
    c.prompt()?;
    c.line("echo status=$?", "status=130")
}

fn quit(c: &mut Console) -> Verdict {
    c.go(SLEEPER)?;
    c.send("\x1c")?;
    c.prompt()?;
    c.line("echo status=$?", "status=131")
}

/// The whole foreground job is meant, and nothing else.
fn interrupt_pipeline(c: &mut Console) -> Verdict {
    c.line("sleep 900 &", "")?;
    // Whoever is last in the pipeline is started last.
    c.go("sleep 1000 | cat | (echo g''o; exec cat)")?;
    c.send("\x03")?;
    c.prompt()?;
    c.line(
        "while ps | grep -q 'sleep 100[0]'; do usleep 10000; done; ps | grep -c 'sleep [19]'",
        "\n1\r\n",
    )?;
    c.line("kill %1; wait %1; echo status=$?", "status=143")
}

fn stop_and_continue(c: &mut Console) -> Verdict {
    // It is in the foreground again when it has noticed that it goes on.
    c.go("sh -c \"trap 'echo awa''ke' CONT; echo g''o; while :; do sleep 0.1; done\"")?;
    c.send("\x1a")?;
    c.expect("Stopped")?;
    c.prompt()?;
    c.line("jobs", "Stopped")?;
    c.send("fg\r")?;
    c.expect("\nawake\r\n")?;
    c.send("\x03")?;
    c.prompt()?;
    c.line("jobs; echo none", "\nnone")
}

/// A background job that reads the terminal stops.
fn background(c: &mut Console) -> Verdict {
    c.line("cat &", "")?;
    c.line(
        "until jobs >/tmp/jobs; grep -q Stopped /tmp/jobs; do usleep 10000; done; cat /tmp/jobs; rm /tmp/jobs",
        "Stopped (tty input)",
    )?;
    c.line("kill -9 %1; wait; echo gone", "\ngone")
}

fn window_size(c: &mut Console) -> Verdict {
    c.line("stty size", "30 100")?;
    c.line("stty rows 40 cols 90; stty size", "40 90")?;
    c.line("stty rows 30 cols 100", "")
}

fn no_echo(c: &mut Console) -> Verdict {
    c.go(&format!(
        "stty -echo; {SAY_GO} read x; stty echo; echo [$x]"
    ))?;
    c.send("hidden\r")?;
    let seen = c.until("[hidden]")?;
    if seen.matches("hidden").count() > 1 {
        return Err("it was echoed".to_string());
    }
    c.prompt()
}

fn vi(c: &mut Console) -> Verdict {
    c.send("vi /tmp/typed\r")?;
    c.expect("- /tmp/typed")?;
    // The key ESC is one only when nothing follows it for a while: each time the status line shows that it was taken so.
    c.send("ihello wurld\x1b")?;
    c.expect("- /tmp/typed [Modified] 1/1")?;
    c.send("bfuroosecond\x1b")?;
    c.expect("- /tmp/typed [Modified] 2/2")?;
    c.send(":wq\r")?;
    c.prompt()?;
    c.line("cat /tmp/typed; rm /tmp/typed", "hello world\r\nsecond\r\n")
}

fn top(c: &mut Console) -> Verdict {
    c.send("top\r")?;
    c.expect("Mem:")?;
    c.expect("COMMAND")?;
    c.expect("top")?;
    c.send("q")?;
    c.prompt()
}

/// The shell of the console comes back.
fn exit_and_again(c: &mut Console) -> Verdict {
    c.send("exit\r")?;
    c.expect("# ")?;
    c.set_prompt()?;
    c.line("echo back", "\nback")
}

/// The machine and its console.
struct Console {
    qemu: Child,
    stream: UnixStream,
    seen: String,
    _boot: Boot,
}

impl Console {
    fn start(system: System, smp: u32) -> Result<Console> {
        let mut machine = batch::machine(system, "256M", Vec::new());
        machine.smp = smp;
        let boot = Boot::prepare("terminal", &machine)?;
        let socket = std::env::temp_dir().join(format!("cairn-{}.console", std::process::id()));
        let _ = std::fs::remove_file(&socket);
        let listener = UnixListener::bind(&socket)
            .with_context(|| format!("cannot make {}", socket.display()))?;
        let mut qemu = machine::qemu(
            &boot,
            &machine,
            false,
            "mode=shell rows=30 cols=100 term=vt100",
        )?
        .args([
            "-chardev",
            &machine::option_path("socket,id=console,path=", &socket),
        ])
        .args([
            "-serial",
            "chardev:console",
            "-serial",
            "null",
            "-monitor",
            "none",
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .context("cannot start QEMU")?;
        let stream = guest::accept(&listener, &mut qemu).context("QEMU");
        let _ = std::fs::remove_file(&socket);
        let stream = stream?;
        stream.set_read_timeout(Some(Duration::from_millis(50)))?;
        Ok(Console {
            qemu,
            stream,
            seen: String::new(),
            _boot: boot,
        })
    }

    fn send(&mut self, keys: &str) -> Verdict {
        self.stream
            .write_all(keys.as_bytes())
            .map_err(|e| format!("the machine is gone: {e}"))
    }

    fn wait(&mut self, text: &str, limit: Duration) -> Result<String, String> {
        let deadline = Instant::now() + limit;
        let mut buffer = [0; 4096];
        loop {
            if let Some(at) = self.seen.find(text) {
                let end = at + text.len();
                let before = self.seen[..end].to_string();
                self.seen.drain(..end);
                return Ok(before);
            }
            let problem = match self.stream.read(&mut buffer) {
                Ok(0) => "the machine ended",
                Ok(count) => {
                    self.seen
                        .push_str(&String::from_utf8_lossy(&buffer[..count]));
                    continue;
                }
                Err(_) if Instant::now() > deadline => "nothing more came",
                Err(_) => continue,
            };
            let seen: Vec<char> = self.seen.chars().collect();
            let tail: String = seen[seen.len().saturating_sub(400)..].iter().collect();
            return Err(format!("waited for {text:?}: {problem}; seen: {tail:?}"));
        }
    }

    fn until(&mut self, text: &str) -> Result<String, String> {
        self.wait(text, PATIENCE)
    }

    fn expect(&mut self, text: &str) -> Verdict {
        self.until(text).map(|_| ())
    }

    fn prompt(&mut self) -> Verdict {
        self.expect(PROMPT)
    }

    /// A line for the shell that starts a program, which says when it is there.
    fn go(&mut self, line: &str) -> Verdict {
        self.send(line)?;
        self.send("\r")?;
        self.expect(GO)
    }

    /// A line for the shell, what must appear, and the prompt again.
    fn line(&mut self, line: &str, expected: &str) -> Verdict {
        self.send(line)?;
        self.send("\r")?;
        self.expect(expected)?;
        self.prompt()
    }

    /// A prompt that nothing else looks like; the quotes keep the echo of this line from looking like it.
    fn set_prompt(&mut self) -> Verdict {
        self.send("PS1=rea''dy'> '\r")?;
        self.prompt()
    }

    fn first_prompt(&mut self) -> Verdict {
        self.wait("# ", BOOT)?;
        self.set_prompt()
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.qemu.kill();
        let _ = self.qemu.wait();
    }
}

pub fn run(report: &Report, system: System, smp: u32) -> Result<()> {
    let mut console: Option<Console> = None;
    for step in &STEPS {
        let name = format!("terminal/{}", step.name);
        if !report.wants(&name) {
            continue;
        }
        let ready = ready(&mut console, system, smp)?;
        let begun = Instant::now();
        let verdict = ready.and_then(|()| match &mut console {
            Some(console) => (step.does)(console),
            None => Err("no machine".to_string()),
        });
        if verdict.is_err() {
            console = None;
        }
        report.result(&name, begun.elapsed(), verdict);
    }
    if report.wants("terminal/poweroff") {
        let ready = ready(&mut console, system, smp)?;
        let begun = Instant::now();
        let verdict = ready.and_then(|()| match console {
            Some(console) => poweroff(console),
            None => Err("no machine".to_string()),
        });
        report.result("terminal/poweroff", begun.elapsed(), verdict);
    }
    Ok(())
}

/// A machine at its prompt, if there is none.
fn ready(console: &mut Option<Console>, system: System, smp: u32) -> Result<Verdict> {
    if console.is_some() {
        return Ok(Ok(()));
    }
    let mut started = Console::start(system, smp)?;
    let verdict = started.first_prompt();
    *console = Some(started);
    Ok(verdict)
}

fn poweroff(mut console: Console) -> Verdict {
    console.send("poweroff\r")?;
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        if let Ok(Some(status)) = console.qemu.try_wait() {
            return match status.success() {
                true => Ok(()),
                false => Err(format!("QEMU ended with {status}")),
            };
        }
        // Keep reading, so that the console does not stand still.
        let _ = console.stream.read(&mut [0; 4096]);
    }
    Err("the machine still runs".to_string())
}
