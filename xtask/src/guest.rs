//! A machine that runs commands for the host: the host's end of `cairn-hostlink`.
//!
//! Three threads: the caller's; one that reads the link (data and credit); one that sends standard input while a command runs. The reader never
//! waits for the others to send, so credit always arrives. Every wait of the caller ends: by an answer, by the machine's end, by a panic in the log, or by time.

use crate::cli::{Accel, Machine};
use crate::image;
use crate::log::Log;
use crate::machine::{self, Boot};
use crate::progress::Step;
use crate::verdict::Failure;
use anyhow::{anyhow, bail, Context, Result};
use cairn_hostlink::{encode, guest, host, Decoder, Ended, Frame, Spec, HEAD, HOST_PAYLOAD, MAGIC};
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// Where QEMU's own words go, in a run's folder.
const QEMU_LOG: &str = "qemu.log";
/// How often the log and the machine are looked at while nothing comes over the link.
const LOOK: Duration = Duration::from_millis(50);
/// How long a machine may take from start to its first process: much, because nobody knows how slow the host is (Linux in deterministic mode takes 15 s
/// where Cairn takes one). A kernel that gives up is heard of at once.
const BOOT: Duration = Duration::from_secs(240);
/// How long anything may take that is not a command: a listing, cleaning up.
const ANSWER: Duration = Duration::from_secs(240);
/// How long it may take to switch itself off: file systems on disks are written out before.
const OFF: Duration = Duration::from_secs(60);
/// After a panic, time for the backtrace to be written.
const LAST_WORDS: Duration = Duration::from_millis(300);

/// Where a command's standard input comes from.
pub enum Input {
    Empty,
    /// This process's own.
    Host,
    From(Box<dyn Read + Send>),
}

/// Which stream a piece of output belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    Out,
    Err,
}

/// How a time without commands ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stay {
    /// What was waited for has happened.
    Over,
    /// Somebody in the machine switches it off.
    Ending,
}

/// How a command ended, or why there was none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Ended(Ended),
    Refused { errno: u32, reason: String },
}

impl Outcome {
    /// As a shell reports it.
    pub fn status(&self) -> u8 {
        match self {
            Outcome::Ended(ended) => ended.shell_status(),
            // ENOENT, ENOTDIR
            Outcome::Refused { errno: 2 | 20, .. } => 127,
            Outcome::Refused { .. } => 126,
        }
    }
}

enum Event {
    Frame(Frame),
    /// The link ended.
    Closed,
}

/// Bytes that may be sent; closed when the link is.
#[derive(Default)]
struct Credit {
    state: Mutex<(u32, bool)>,
    changed: Condvar,
}

impl Credit {
    fn add(&self, bytes: u32) {
        if let Ok(mut state) = self.state.lock() {
            state.0 = state.0.saturating_add(bytes);
        }
        self.changed.notify_all();
    }

    fn close(&self) {
        if let Ok(mut state) = self.state.lock() {
            state.1 = true;
        }
        self.changed.notify_all();
    }

    /// Wait until so many bytes may be sent and take them; false if the link or the time is at its end.
    fn take(&self, bytes: u32, limit: Duration) -> bool {
        let Ok(state) = self.state.lock() else {
            return false;
        };
        let waiting = |state: &mut (u32, bool)| state.0 < bytes && !state.1;
        match self.changed.wait_timeout_while(state, limit, waiting) {
            Ok((mut state, _)) if state.0 >= bytes && !state.1 => {
                state.0 -= bytes;
                true
            }
            _ => false,
        }
    }
}

/// The sending side, shared by the caller and the thread that sends standard input. Frames are written whole.
#[derive(Clone)]
struct Sender {
    link: Arc<Mutex<UnixStream>>,
    credit: Arc<Credit>,
}

impl Sender {
    fn send(&self, kind: u8, payload: &[u8], limit: Duration) -> bool {
        let pieces: Vec<&[u8]> = match payload.is_empty() {
            true => vec![payload],
            false => payload.chunks(HOST_PAYLOAD).collect(),
        };
        pieces.into_iter().all(|piece| {
            let mut bytes = Vec::with_capacity(HEAD + piece.len());
            encode(kind, piece, &mut bytes);
            self.credit.take(bytes.len() as u32, limit)
                && self
                    .link
                    .lock()
                    .is_ok_and(|mut link| link.write_all(&bytes).is_ok())
        })
    }
}

/// A booted machine.
pub struct Guest {
    qemu: Child,
    sender: Sender,
    events: Receiver<Event>,
    pub log: Log,
    socket: PathBuf,
    accel: Accel,
    booted: bool,
    /// It switches itself off.
    ending: bool,
    /// The guest's time stamp at the first line of its first process: in deterministic mode, instructions since the machine was switched on.
    pub boot_ticks: u64,
    // Dropped last: it removes the archive.
    boot: Boot,
}

impl Guest {
    /// Start QEMU and wait for the first process. The outer error is the host's, the inner one the machine's.
    pub fn start(
        boot: Boot,
        machine: &Machine,
        deterministic: bool,
    ) -> Result<Result<Guest, Failure>> {
        if machine.only && !image::manifest(machine)?.1.has_processes() {
            bail!("without `proc` in its manifest the system runs no commands: `./cairn run` boots it");
        }
        let socket = std::env::temp_dir().join(format!(
            "cairn-{}-{}.link",
            std::process::id(),
            boot.run.file_name().unwrap_or_default().to_string_lossy()
        ));
        let _ = std::fs::remove_file(&socket);
        let listener = UnixListener::bind(&socket)
            .with_context(|| format!("cannot make {}", socket.display()))?;
        let errors = std::fs::File::create(boot.run.join(QEMU_LOG))?;
        let mut command = machine::qemu(&boot, machine, deterministic, "mode=exec")?;
        command
            .args([
                "-serial",
                &machine::option_path("file:", &boot.console_log()),
            ])
            .args([
                "-chardev",
                &machine::option_path("socket,id=link,path=", &socket),
            ])
            .args(["-serial", "chardev:link", "-monitor", "none"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(errors);
        let mut qemu = command.spawn().with_context(|| {
            format!(
                "cannot start {}; is qemu-system-x86 installed?",
                machine::QEMU
            )
        })?;
        let accepted = accept(&listener, &mut qemu);
        let link = match accepted {
            Ok(link) => link,
            Err(error) => {
                // It has ended already, or is of no use.
                let _ = qemu.kill();
                let _ = qemu.wait();
                let _ = std::fs::remove_file(&socket);
                let said = std::fs::read_to_string(boot.run.join(QEMU_LOG)).unwrap_or_default();
                return Err(error.context(format!("QEMU: {}", said.trim())));
            }
        };
        let credit = Arc::new(Credit::default());
        let (events_in, events) = mpsc::sync_channel(1024);
        let reading = link.try_clone()?;
        let granted = credit.clone();
        std::thread::spawn(move || read_link(reading, &granted, &events_in));
        let mut guest = Guest {
            qemu,
            sender: Sender {
                link: Arc::new(Mutex::new(link)),
                credit,
            },
            events,
            log: Log::follow(&boot.kernel_log(), machine.verbose),
            socket,
            accel: machine.accel,
            booted: false,
            ending: false,
            boot_ticks: 0,
            boot,
        };
        let mut step = Step::begin("booting");
        let answer = guest.answer(Instant::now() + BOOT, &mut |_| step.tick());
        drop(step);
        Ok(match answer {
            Ok(frame) if frame.kind == guest::HELLO => {
                guest.booted = true;
                let ticks = frame.payload.get(4..12).and_then(|b| b.try_into().ok());
                guest.boot_ticks = ticks.map(u64::from_le_bytes).unwrap_or(0);
                Ok(guest)
            }
            Ok(frame) => Err(Failure::NoBoot(format!(
                "unexpected first frame {}",
                frame.kind
            ))),
            Err(failure) => Err(failure),
        })
    }

    /// Run a command; `output` gets its streams in pieces. `limit`: no longer than this.
    pub fn run(
        &mut self,
        spec: &Spec,
        input: Input,
        limit: Option<Duration>,
        output: &mut dyn FnMut(Stream, &[u8]),
    ) -> Result<Outcome, Failure> {
        let deadline = limit.map(|limit| Instant::now() + limit);
        let mut spec = spec.clone();
        spec.no_stdin = matches!(input, Input::Empty);
        self.send(host::SPEC, &spec.encode())?;
        self.send(host::RUN, &[])?;
        match input {
            Input::Empty => {}
            Input::Host => self.pump(std::io::stdin()),
            Input::From(source) => self.pump(source),
        }
        let far = Instant::now() + Duration::from_secs(365 * 24 * 3600);
        loop {
            let frame = self.answer(deadline.unwrap_or(far), &mut |_| ())?;
            match frame.kind {
                guest::OUT => output(Stream::Out, &frame.payload),
                guest::ERR => output(Stream::Err, &frame.payload),
                guest::EXIT => {
                    return Ended::decode(&frame.payload)
                        .map(Outcome::Ended)
                        .ok_or_else(|| Failure::Crashed("an answer arrived damaged".to_string()));
                }
                guest::REFUSED => {
                    return Ok(Outcome::Refused {
                        errno: frame.number(),
                        reason: String::from_utf8_lossy(frame.payload.get(4..).unwrap_or(&[]))
                            .into_owned(),
                    });
                }
                _ => {}
            }
        }
    }

    /// The listing of a folder of the guest.
    pub fn tree(&mut self, path: &str) -> Result<Vec<u8>, Failure> {
        self.send(host::TREE, path.as_bytes())?;
        let mut text = Vec::new();
        loop {
            let frame = self.answer(Instant::now() + ANSWER, &mut |_| ())?;
            match frame.kind {
                guest::LISTING => text.extend_from_slice(&frame.payload),
                guest::LISTING_END => {
                    if frame.number() != 0 {
                        let error = std::io::Error::from_raw_os_error(frame.number() as i32);
                        text.extend_from_slice(format!("! {path}: {error}\n").as_bytes());
                    }
                    return Ok(text);
                }
                _ => {}
            }
        }
    }

    /// Kill what a command left behind and remove a folder.
    pub fn clean(&mut self, path: &str) -> Result<(), Failure> {
        self.send(host::CLEAN, path.as_bytes())?;
        loop {
            let frame = self.answer(Instant::now() + ANSWER, &mut |_| ())?;
            match (frame.kind, frame.number()) {
                (guest::CLEANED, 0) => return Ok(()),
                (guest::CLEANED, errno) => {
                    let error = std::io::Error::from_raw_os_error(errno as i32);
                    return Err(Failure::Crashed(format!(
                        "cannot remove {path} in the guest: {error}"
                    )));
                }
                _ => {}
            }
        }
    }

    fn send(&mut self, kind: u8, payload: &[u8]) -> Result<(), Failure> {
        if self.sender.send(kind, payload, ANSWER) {
            return Ok(());
        }
        // Why? The machine's end and a panic are better reasons than silence.
        match self.answer(Instant::now() + LAST_WORDS, &mut |_| ()) {
            Err(failure @ Failure::Crashed(_)) => Err(failure),
            _ => Err(Failure::Hung("it takes no more requests".to_string())),
        }
    }

    /// Wait, while no command runs, until `over` says that what the machine is there for has happened, or somebody in the machine switches it off.
    /// The inner error is a machine's that ends otherwise.
    pub fn stay(
        &mut self,
        over: &mut dyn FnMut() -> Result<bool>,
    ) -> Result<Result<Stay, Failure>> {
        let mut panicked: Option<Instant> = None;
        while !over()? {
            match self.events.recv_timeout(LOOK) {
                Ok(Event::Frame(frame)) if frame.kind == guest::ENDING => {
                    self.ending = true;
                    return Ok(Ok(Stay::Ending));
                }
                Ok(Event::Closed) | Err(RecvTimeoutError::Disconnected) => {
                    self.log.look();
                    return Ok(Err(self.ended()));
                }
                Ok(Event::Frame(_)) | Err(RecvTimeoutError::Timeout) => {}
            }
            self.log.look();
            let gave_up = self.kvm_gave_up().is_some()
                || self.log.panic().is_some()
                    && panicked.get_or_insert_with(Instant::now).elapsed() > LAST_WORDS;
            if gave_up {
                return Ok(Err(self.ended()));
            }
        }
        // What came with the end of it.
        while let Ok(Event::Frame(frame)) = self.events.try_recv() {
            self.ending |= frame.kind == guest::ENDING;
        }
        Ok(Ok(match self.ending {
            true => Stay::Ending,
            false => Stay::Over,
        }))
    }

    /// Send standard input from a thread of its own, so that output flows meanwhile.
    fn pump(&self, mut source: impl Read + Send + 'static) {
        let sender = self.sender.clone();
        let forever = Duration::from_secs(365 * 24 * 3600);
        std::thread::spawn(move || {
            let mut buffer = [0; HOST_PAYLOAD];
            loop {
                match source.read(&mut buffer) {
                    Ok(0) | Err(_) => break,
                    Ok(count) => {
                        if !sender.send(host::STDIN, &buffer[..count], forever) {
                            return;
                        }
                    }
                }
            }
            sender.send(host::STDIN_END, &[], forever);
        });
    }

    /// The next frame that is not credit. `waiting` is called now and then.
    fn answer(
        &mut self,
        deadline: Instant,
        waiting: &mut dyn FnMut(&mut Log),
    ) -> Result<Frame, Failure> {
        let mut panicked: Option<Instant> = None;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.events.recv_timeout(left.min(LOOK)) {
                Ok(Event::Frame(frame)) => return Ok(frame),
                Ok(Event::Closed) | Err(RecvTimeoutError::Disconnected) => {
                    self.log.look();
                    return Err(self.ended());
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            if let Some(said) = self.kvm_gave_up() {
                let why = machine::silent_end(self.accel, Some(&said));
                return Err(match self.booted {
                    true => Failure::Crashed(why),
                    false => Failure::NoBoot(why),
                });
            }
            self.log.look();
            waiting(&mut self.log);
            let since = match self.log.panic() {
                Some(_) => *panicked.get_or_insert_with(Instant::now),
                None => Instant::now(),
            };
            if since.elapsed() > LAST_WORDS {
                return Err(self.ended());
            }
            if Instant::now() >= deadline {
                let last = self
                    .log
                    .last_line()
                    .map(|l| format!("; last log line: {l}"))
                    .unwrap_or_default();
                return Err(match self.booted {
                    true => Failure::Hung("its time was up".to_string()),
                    false => Failure::NoBoot(format!(
                        "nothing heard from it for {} s{last}",
                        BOOT.as_secs()
                    )),
                });
            }
        }
    }

    /// The last line of what QEMU itself has written.
    fn qemu_said(&self) -> Option<String> {
        let said = std::fs::read_to_string(self.boot.run.join(QEMU_LOG)).ok()?;
        let last = said.lines().rfind(|line| !line.trim().is_empty())?;
        Some(last.trim().to_string())
    }

    /// QEMU's line that says that KVM cannot go on. (QEMU itself stays then, with a machine that stands still.)
    fn kvm_gave_up(&self) -> Option<String> {
        if !matches!(self.accel, Accel::Kvm) {
            return None;
        }
        let said = std::fs::read_to_string(self.boot.run.join(QEMU_LOG)).ok()?;
        machine::kvm_error(&said).map(str::to_string)
    }

    /// The failure of a machine that is at its end.
    fn ended(&mut self) -> Failure {
        let why = match (self.log.panic(), self.log.last_line()) {
            (Some(text), _) => text.to_string(),
            (None, Some(line)) => format!("it ended without a word; last log line: {line}"),
            (None, None) => machine::silent_end(self.accel, self.qemu_said().as_deref()),
        };
        match self.booted {
            true => Failure::Crashed(why),
            false => Failure::NoBoot(why),
        }
    }

    /// Ask the machine to switch itself off, if nobody in it has, and see that it does within a short time.
    pub fn power_off(mut self) -> bool {
        if !self.ending
            && !self
                .sender
                .send(host::POWER_OFF, &[], Duration::from_secs(2))
        {
            return false;
        }
        let deadline = Instant::now() + OFF;
        while Instant::now() < deadline {
            if matches!(self.qemu.try_wait(), Ok(Some(_))) {
                return true;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        false
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.sender.credit.close();
        // It may have ended already.
        let _ = self.qemu.kill();
        let _ = self.qemu.wait();
        let _ = std::fs::remove_file(&self.socket);
    }
}

/// QEMU connects at its start; if it ends instead, its options or files are wrong.
pub fn accept(listener: &UnixListener, qemu: &mut Child) -> Result<UnixStream> {
    listener.set_nonblocking(true)?;
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false)?;
                return Ok(stream);
            }
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(e) => return Err(e.into()),
        }
        if let Some(status) = qemu.try_wait()? {
            return Err(anyhow!("it ended at once ({status})"));
        }
        if Instant::now() > deadline {
            return Err(anyhow!("it did not open its serial port"));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Read frames until the link ends. Credit is added at once; all else goes to the caller.
fn read_link(mut link: UnixStream, credit: &Credit, events: &mpsc::SyncSender<Event>) {
    let mut decoder = Decoder::after(MAGIC);
    let mut buffer = vec![0; 64 * 1024];
    'link: while let Ok(count @ 1..) = link.read(&mut buffer) {
        decoder.push(&buffer[..count]);
        loop {
            match decoder.next_frame() {
                Ok(None) => break,
                Ok(Some(frame)) => {
                    if matches!(frame.kind, guest::CREDIT | guest::HELLO) {
                        credit.add(frame.number());
                    }
                    if frame.kind != guest::CREDIT && events.send(Event::Frame(frame)).is_err() {
                        break 'link;
                    }
                }
                Err(_) => break 'link,
            }
        }
    }
    credit.close();
    // The caller may be gone already.
    let _ = events.send(Event::Closed);
}
