//! `./cairn powercut`: cuts of power, one after each flush of the disk and some in between, in games of file operations that the host has the guest play.
//!
//! The guest's disk is a file system that this process serves ([`recorder`]), so every write and flush is known, and so is when the guest said that something is durable. From that come the disks as
//! a cut may leave them ([`cut`]). Each is replayed by `e2fsck -p`, which may mend nothing, then read, and must be a state that [`game`] allows.
//! `--lose N` leaves out every N-th flush: then the campaign has to find something, or it is worth nothing.

mod cut;
mod game;
mod recorder;
mod workload;

use crate::cli::{self, Machine, Pair, Root};
use crate::disk::{self, Disk, Scratch, Shape};
use crate::exec::ENVIRONMENT;
use crate::guest::{Guest, Input, Outcome, Stream};
use crate::machine::Boot;
use crate::test::compile;
use crate::{places, progress};
use anyhow::{bail, Context, Result};
use cairn_hostlink::{Ended, Spec};
use cut::{Cut, Cuts};
use game::{Found, Game};
use recorder::{Event, Record, Recorder};
use std::collections::VecDeque;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::time::Duration;
pub use workload::Workload;

const PROGRAM: &str = "/bin/powercut-work";
/// For one game on the guest.
const LIMIT: Duration = Duration::from_secs(1800);
/// Violations of one game that are shown.
const SHOWN: usize = 3;

/// What became of one game's disks.
struct Verdict {
    cuts: usize,
    violations: Vec<String>,
}

pub fn powercut(arguments: &cli::Powercut) -> Result<u8> {
    let (mut cuts, mut violations) = (0, 0);
    for seed in arguments.seed..arguments.seed + arguments.games {
        let work = Work::new(arguments, seed);
        let (base, events) = play(arguments, seed, &work)?;
        let verdict = judge(base, &events, &work, arguments.samples, seed)?;
        println!(
            "game {seed}: {} {}, {} writes, {} flushes, {} disks looked at, {} wrong",
            work.promises(),
            work.of_what(),
            count(&events, |e| matches!(e, Event::Write { .. })),
            count(&events, |e| matches!(e, Event::Flush { .. })),
            verdict.cuts,
            verdict.violations.len()
        );
        for text in verdict.violations.iter().take(SHOWN) {
            for (number, line) in text.lines().enumerate() {
                println!("  {}{line}", if number == 0 { "" } else { "  " });
            }
        }
        cuts += verdict.cuts;
        violations += verdict.violations.len();
    }
    println!("{cuts} disks, {violations} wrong");
    Ok(match arguments.lose {
        Some(_) if violations == 0 => {
            println!("flushes were left out and nobody noticed: the campaign is worth nothing");
            1
        }
        Some(_) => 0,
        None => u8::from(violations > 0 || cuts == 0),
    })
}

fn count(events: &[Event], kind: fn(&Event) -> bool) -> usize {
    events.iter().filter(|event| kind(event)).count()
}

/// What a guest does, and how its disks are judged.
enum Work {
    Game(Game),
    Script(Workload),
}

impl Work {
    fn new(arguments: &cli::Powercut, seed: u64) -> Work {
        match arguments.workload {
            Workload::Games => Work::Game(Game::new(seed, arguments.operations)),
            workload => Work::Script(workload),
        }
    }

    fn promises(&self) -> usize {
        match self {
            Work::Game(game) => game.ops.len(),
            Work::Script(workload) => workload.promises(),
        }
    }

    fn of_what(&self) -> &'static str {
        match self {
            Work::Game(_) => "operations",
            Work::Script(_) => "promises",
        }
    }
}

/// Have a guest play a game; the disk at its beginning, and what happened to it.
fn play(arguments: &cli::Powercut, seed: u64, work: &Work) -> Result<(Vec<u8>, Vec<Event>)> {
    // Both sizes of blocks; a log that is soon full.
    let block = if seed.is_multiple_of(2) {
        "4096"
    } else {
        "1024"
    };
    let options = ["-b", block, "-N", "256", "-J", "size=4"];
    let shape = Shape {
        size: "16M".to_string(),
        options: options.map(str::to_string).to_vec(),
    };
    let base = fs::read(&Scratch::ext4(&shape)?.path)?;
    let socket = std::env::temp_dir().join(format!("cairn-{}.disk", std::process::id()));
    let recorder = Recorder::serve(base.clone(), &socket, arguments.lose)?;
    let (root, add, argv) = match work {
        Work::Game(_) => {
            let binary = places::build().join("tests/powercut-work");
            let source = places::root().join("tests/powercut/work.c");
            compile("gcc", &source, &binary)?;
            let add = Pair {
                first: binary.display().to_string(),
                second: PROGRAM.to_string(),
            };
            let argv = [PROGRAM, disk::PLACE].map(str::to_string).to_vec();
            (Root::Small, vec![add], argv)
        }
        Work::Script(workload) => {
            let argv = ["bash".to_string(), "-c".to_string(), workload.script(seed)];
            (Root::Debian, Vec::new(), argv.to_vec())
        }
    };
    let machine = Machine {
        root_as_made: true,
        add,
        disks: vec![Disk::Served(socket)],
        mounts: vec![disk::mount(&root)],
        ..Machine::on(arguments.system, root)
    };
    let mut guest = match Guest::start(Boot::prepare("powercut", &machine)?, &machine, false)? {
        Ok(guest) => guest,
        Err(failure) => bail!("{failure}"),
    };
    let mut input = Input::Empty;
    let mut script = None;
    if let Work::Game(game) = work {
        let (sender, lines) = mpsc::channel();
        input = Input::From(Box::new(Lines::new(lines)));
        let script = script.insert(Script {
            game,
            sent: 0,
            lines: Some(sender),
            record: recorder.record.clone(),
        });
        script.go_on();
    }
    let spec = Spec {
        argv: argv.into_iter().map(String::into_bytes).collect(),
        env: ENVIRONMENT.iter().map(|v| v.as_bytes().to_vec()).collect(),
        cwd: disk::PLACE.as_bytes().to_vec(),
        no_stdin: false,
    };
    let mut step = progress::Step::begin(&format!("playing game {seed}"));
    let mut said = Vec::new();
    let mut promises = 0;
    let outcome = guest.run(&spec, input, Some(LIMIT), &mut |stream, bytes| {
        step.tick();
        said.extend_from_slice(bytes);
        if stream == Stream::Out {
            let ends = bytes.iter().filter(|&&byte| byte == b'\n').count();
            for _ in 0..ends {
                promises += 1;
                match &mut script {
                    Some(script) => script.done(),
                    None => recorder::note(&recorder.record, Event::Done(promises)),
                }
            }
        }
    });
    drop(step);
    let said = String::from_utf8_lossy(&said).into_owned();
    let all = match &script {
        Some(script) => script.sent,
        None => promises,
    };
    match outcome {
        Ok(Outcome::Ended(Ended::Exited(0))) if all == work.promises() => {}
        Ok(outcome) => bail!("the game ended early: {outcome:?} {}", last_line(&said)),
        Err(failure) => bail!("{failure}; {}", last_line(&said)),
    }
    // What the end of the machine writes is cut as well.
    if !guest.power_off() {
        bail!("the machine did not switch itself off");
    }
    let events = match recorder.record.lock() {
        Ok(mut record) => std::mem::take(&mut record.events),
        Err(_) => bail!("the recorder broke"),
    };
    Ok((base, events))
}

fn last_line(text: &str) -> &str {
    text.lines().last().unwrap_or_default()
}

/// The host's side of a game: operations go out up to the next one that promises something, and on when that was answered.
struct Script<'a> {
    game: &'a Game,
    sent: usize,
    /// Closed when everything was said.
    lines: Option<Sender<Vec<u8>>>,
    record: Arc<Mutex<Record>>,
}

impl Script<'_> {
    fn go_on(&mut self) {
        let rest = &self.game.ops[self.sent..];
        let count = rest.iter().position(game::Op::promises).map(|at| at + 1);
        let batch = &rest[..count.unwrap_or(rest.len())];
        self.sent += batch.len();
        recorder::note(&self.record, Event::Issued(self.sent));
        let text: String = batch.iter().map(game::Op::line).collect();
        if let Some(lines) = &self.lines {
            // If the other end is gone the machine is, which its caller hears of.
            let _ = lines.send(text.into_bytes());
        }
        if self.sent == self.game.ops.len() {
            self.lines = None;
        }
    }

    /// The guest says that what it was asked for last is durable.
    fn done(&mut self) {
        recorder::note(&self.record, Event::Done(self.sent));
        if self.sent < self.game.ops.len() {
            self.go_on();
        }
    }
}

/// Standard input that comes in pieces.
struct Lines {
    pieces: Receiver<Vec<u8>>,
    rest: VecDeque<u8>,
}

impl Lines {
    fn new(pieces: Receiver<Vec<u8>>) -> Lines {
        let rest = VecDeque::new();
        Lines { pieces, rest }
    }
}

impl Read for Lines {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.rest.is_empty() {
            // The end of the channel is the end of the input.
            self.rest.extend(self.pieces.recv().unwrap_or_default());
        }
        self.rest.read(buffer)
    }
}

/// Look at every disk that a cut may leave.
fn judge(base: Vec<u8>, events: &[Event], work: &Work, samples: u32, seed: u64) -> Result<Verdict> {
    let folder = places::build()
        .join("disks")
        .join(format!("cut-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let mut verdict = Verdict {
        cuts: 0,
        violations: Vec::new(),
    };
    let mut step = progress::Step::begin(&format!("cutting the power of game {seed}"));
    for cut in Cuts::new(base, events, samples, seed) {
        step.tick();
        verdict.cuts += 1;
        if let Err(why) = look(&folder, &cut, work)? {
            let kept = keep(&folder, &cut, verdict.violations.len(), seed)?;
            verdict
                .violations
                .push(format!("{}: {why}{kept}", cut.what));
        }
    }
    drop(step);
    fs::remove_dir_all(&folder)?;
    Ok(verdict)
}

/// The first bad disk of a game stays, to be looked into.
fn keep(folder: &Path, cut: &Cut, before: usize, seed: u64) -> Result<String> {
    if before > 0 {
        return Ok(String::new());
    }
    let place = folder.with_file_name(format!("powercut-{seed}.ext4"));
    fs::write(&place, &cut.image)?;
    Ok(format!("\n(the disk as it was found: {})", place.display()))
}

/// Is this disk as it may be? The outer error is the host's.
fn look(folder: &Path, cut: &Cut, work: &Work) -> Result<Result<(), String>> {
    let image = folder.join("image");
    fs::write(&image, &cut.image)?;
    let output = disk::tool("e2fsck")
        .arg("-fp")
        .arg(&image)
        .output()
        .context("cannot start e2fsck; is e2fsprogs installed?")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let mended = ["UNEXPECTED INCONSISTENCY", "FIXED", "ignoring"];
    // 1: something was changed, which the replay of a journal and the end of orphans are.
    if !matches!(output.status.code(), Some(0 | 1)) || mended.iter().any(|m| text.contains(m)) {
        return Ok(Err(format!("e2fsck: {}", text.trim())));
    }
    let tree = folder.join("tree");
    let found = read(&image, &tree)?;
    match work {
        Work::Game(game) => Ok(game.judge(&found, cut.done, cut.issued)),
        Work::Script(workload) => workload.judge(&tree, &found, cut.done),
    }
}

/// All files of a file system, by debugfs.
fn read(image: &Path, into: &Path) -> Result<Found> {
    if into.exists() {
        fs::remove_dir_all(into)?;
    }
    fs::create_dir_all(into)?;
    let output = disk::tool("debugfs")
        .arg("-R")
        .arg(format!("rdump / {}", into.display()))
        .arg(image)
        .output()
        .context("cannot start debugfs; is e2fsprogs installed?")?;
    if !output.status.success() {
        bail!("debugfs: {}", String::from_utf8_lossy(&output.stderr));
    }
    let mut found = Found::new();
    collect(into, into, &mut found)?;
    found.remove("lost+found");
    Ok(found)
}

fn collect(folder: &Path, root: &Path, found: &mut Found) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path: PathBuf = entry?.path();
        let name = path.strip_prefix(root)?.display().to_string();
        if path.is_dir() {
            found.insert(name, None);
            collect(&path, root, found)?;
        } else {
            found.insert(name, Some(fs::read(&path)?));
        }
    }
    Ok(())
}
