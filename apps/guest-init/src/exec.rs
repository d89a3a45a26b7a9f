//! `mode=exec`: the guest's end of the link to the host. One loop waits for the link, for signals and for the running command's pipes.

use crate::command::{Command, Refused};
use crate::end::{asked, end, kill_everything};
use crate::sys::{self, End, Wait};
use crate::tree;
use cairn_hostlink::{
    encode, guest, host, Decoder, Frame, Spec, GUEST_PAYLOAD, HEAD, MAGIC, WINDOW,
};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

/// The port that the host is at.
const PORT: &str = "/dev/ttyS1";
/// Credit is granted in pieces of at least this size while input keeps coming.
const GRANT: u32 = WINDOW / 4;

/// The serial line to the host.
struct Link {
    port: OwnedFd,
    decoder: Decoder,
    /// Bytes taken from the line that have not been granted again.
    owed: u32,
}

impl Link {
    fn open() -> io::Result<Link> {
        let port = std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NOCTTY)
            .open(PORT)?;
        sys::make_raw(port.as_raw_fd())?;
        Ok(Link {
            port: port.into(),
            decoder: Decoder::new(),
            owed: 0,
        })
    }

    fn write(&self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            match sys::write(self.port.as_raw_fd(), bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                // Without the line there is nobody to tell anything.
                Err(_) => end(End::PowerOff),
            }
        }
    }

    fn send(&self, kind: u8, payload: &[u8]) {
        let mut bytes = Vec::with_capacity(payload.len() + HEAD);
        if payload.is_empty() {
            encode(kind, payload, &mut bytes);
        }
        for piece in payload.chunks(GUEST_PAYLOAD) {
            encode(kind, piece, &mut bytes);
        }
        self.write(&bytes);
    }

    fn send_number(&self, kind: u8, number: u32) {
        self.send(kind, &number.to_le_bytes());
    }

    /// So many bytes of the host's have been dealt with.
    fn owe(&mut self, bytes: usize) {
        self.owed += bytes as u32;
    }

    /// Grant what is owed; small amounts wait for more unless `now`.
    fn grant(&mut self, now: bool) {
        if self.owed >= GRANT || (now && self.owed > 0) {
            let owed = std::mem::take(&mut self.owed);
            self.send_number(guest::CREDIT, owed);
        }
    }
}

/// Serve the host until it says POWER_OFF. `begun`: the time stamp at this program's first line.
pub fn serve(begun: u64) {
    let mut link = match Link::open() {
        Ok(link) => link,
        Err(e) => {
            eprintln!("guest-init: {PORT}: {e}");
            return end(End::PowerOff);
        }
    };
    link.write(MAGIC);
    let mut hello = WINDOW.to_le_bytes().to_vec();
    hello.extend_from_slice(&begun.to_le_bytes());
    link.send(guest::HELLO, &hello);
    let mut spec = Vec::new();
    let mut command: Option<Command> = None;
    loop {
        let port = link.port.as_raw_fd();
        let signals = sys::signal_descriptor();
        let mut waits = vec![reading(port), reading(signals)];
        if let Some(command) = &command {
            let pipes = [&command.out, &command.err];
            waits.extend(pipes.into_iter().flatten().map(|p| reading(p.as_raw_fd())));
            waits.extend(command.wants_to_feed());
        }
        let ready = sys::poll(&waits);
        let is_ready = |fd: i32| waits.iter().zip(&ready).any(|(w, &r)| r && w.fd == fd);

        if is_ready(signals) {
            let asked = asked(&sys::take_signals());
            // While a command of the host's runs, its own end is what the host waits for.
            if let (Some(how), None) = (asked, &command) {
                link.send(guest::ENDING, &[]);
                end(how);
            }
        }
        // Also without a signal: a signal pipe that is full loses bytes, and looking costs little.
        while let Some((pid, status)) = sys::reap(false) {
            if let Some(command) = &mut command {
                command.note_death(pid, status);
            }
        }
        if let Some(running) = &mut command {
            for (kind, pipe) in [
                (guest::OUT, &mut running.out),
                (guest::ERR, &mut running.err),
            ] {
                if pipe.as_ref().is_some_and(|p| is_ready(p.as_raw_fd())) {
                    forward(&link, kind, pipe);
                }
            }
            let fed = running.feed();
            link.owe(fed);
            if let Some(ended) = running.ended() {
                let [out, err] = running.last_words();
                for (kind, words) in [(guest::OUT, out), (guest::ERR, err)] {
                    if !words.is_empty() {
                        link.send(kind, &words);
                    }
                }
                link.owe(running.unused_input());
                link.send(guest::EXIT, &ended.encode());
                command = None;
            }
        }
        if is_ready(port) {
            let mut buffer = [0; WINDOW as usize];
            match sys::read(port, &mut buffer) {
                Ok(count) => link.decoder.push(&buffer[..count]),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => end(End::PowerOff),
            }
            loop {
                match link.decoder.next_frame() {
                    Ok(Some(frame)) => answer(&mut link, &frame, &mut spec, &mut command),
                    Ok(None) => break,
                    Err(e) => {
                        eprintln!("guest-init: the link is out of step (kind {})", e.kind);
                        end(End::PowerOff);
                    }
                }
            }
        }
        let quiet = command.as_ref().is_none_or(|c| c.unused_input() == 0);
        link.grant(quiet);
    }
}

fn reading(fd: i32) -> Wait {
    Wait {
        fd,
        for_writing: false,
    }
}

/// One frame's worth from a pipe to the host; a pipe at its end is closed.
fn forward(link: &Link, kind: u8, pipe: &mut Option<OwnedFd>) {
    let Some(fd) = pipe else { return };
    let mut buffer = [0; GUEST_PAYLOAD];
    match sys::read(fd.as_raw_fd(), &mut buffer) {
        Ok(0) => *pipe = None,
        Ok(count) => link.send(kind, &buffer[..count]),
        Err(e)
            if matches!(
                e.kind(),
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
            ) => {}
        Err(_) => *pipe = None,
    }
}

/// Do what one frame asks.
fn answer(link: &mut Link, frame: &Frame, spec: &mut Vec<u8>, command: &mut Option<Command>) {
    let mut held_back = 0;
    match frame.kind {
        host::SPEC => spec.extend_from_slice(&frame.payload),
        host::RUN => match start(&std::mem::take(spec)) {
            Ok(started) if command.is_none() => *command = Some(started),
            Ok(_) => {}
            Err(refused) => {
                let mut payload = (refused.errno as u32).to_le_bytes().to_vec();
                payload.extend_from_slice(refused.reason.as_bytes());
                link.send(guest::REFUSED, &payload);
            }
        },
        // Input that waits for the command is granted again when the command has taken it: this is how a slow reader slows the host down.
        host::STDIN => {
            if let Some(command) = command {
                held_back = frame.payload.len();
                let done = command.push_input(&frame.payload);
                link.owe(done);
            }
        }
        host::STDIN_END => {
            if let Some(command) = command {
                let done = command.end_input();
                link.owe(done);
            }
        }
        host::SIGNAL => {
            if let (Some(command), [number]) = (command, frame.payload.as_slice()) {
                command.signal(i32::from(*number));
            }
        }
        host::TREE => {
            let mut send = |piece: &[u8]| link.send(guest::LISTING, piece);
            let errno = tree::list(&frame.payload, &mut send);
            link.send_number(guest::LISTING_END, errno as u32);
        }
        host::CLEAN => {
            kill_everything();
            let errno = tree::remove(&frame.payload);
            link.send_number(guest::CLEANED, errno as u32);
        }
        host::POWER_OFF => end(End::PowerOff),
        _ => {}
    }
    link.owe(HEAD + frame.payload.len() - held_back);
}

fn start(spec: &[u8]) -> Result<Command, Refused> {
    let spec = Spec::decode(spec).map_err(|_| Refused {
        errno: libc::EINVAL,
        reason: "the command arrived damaged".to_string(),
    })?;
    Command::start(&spec)
}
