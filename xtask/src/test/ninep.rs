//! `entrance/9p`: trees of a running Cairn, which `cairn-9p` serves. Linux in another machine mounts one and does with it what it does with its own disk; a
//! client here does what Linux does not: FIFOs across machines, messages that make no sense, connections without end.

use super::entrance::{free_port, ourselves};
use super::Verdict;
use crate::{packages, places};
use anyhow::{bail, ensure, Context, Result};
use cairn_ninep::answer::{self, Trouble};
use cairn_ninep::{kind, Ask, NO_TAG};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::{Duration, Instant};

/// How long the machine may take to serve.
const READY: Duration = Duration::from_secs(300);
const PATIENCE: Duration = Duration::from_secs(60);
/// Bytes of a message.
const MOST: u32 = 65_536;

const FIFO: u32 = 0o010_600;
const WRITE_ONLY: u32 = 1;
const EACCES: i64 = 13;
const EROFS: i64 = 30;

pub fn served() -> Result<Verdict> {
    let ports = [free_port()?, free_port()?, free_port()?];
    let scripts = places::root().join("tests/9p").display().to_string() + ":/9p";
    let cairn = std::thread::spawn({
        let scripts = scripts.clone();
        let forward = [0, 1, 2].map(|n| format!("{}:{}", ports[n], 564 + n));
        move || {
            let mut words = vec![
                "exec",
                "--root",
                "debian",
                "--snapshot",
                "--timeout",
                "800",
                "--add",
                &scripts,
            ];
            forward
                .iter()
                .for_each(|port| words.extend(["--forward", port]));
            words.extend(["--", "sh", "/9p/serve.sh"]);
            ourselves(&words)
        }
    });
    let here = std::thread::spawn(move || client(ports[1], ports[2]));
    let busybox = format!("{}:/usr/local/bin/busybox", packages::busybox()?.display());
    let port = ports[0].to_string();
    let words = "exec --root debian --snapshot --system linux --net user --timeout 800 --add";
    let words = words.split(' ').chain([&scripts, "--add", &busybox]);
    let words = words.chain(["--", "sh", "/9p/mount.sh", &port]);
    let linux = ourselves(&words.collect::<Vec<_>>())?;
    let failed = |_| anyhow::anyhow!("a thread failed");
    let here = here.join().map_err(failed)?;
    let cairn = cairn.join().map_err(failed)??;
    if let Err(why) = here {
        return Ok(Err(format!("the client here: {why:#}")));
    }
    let (text, said, status) = linux;
    let both = text.split_once("there\n");
    let Some((own, served)) = both.filter(|_| status == Some(0)) else {
        return Ok(Err(format!("Linux: status {status:?}\n{text}{said}")));
    };
    let other = own
        .lines()
        .zip(served.lines())
        .find(|(own, served)| own != served);
    if let Some((own, served)) = other {
        return Ok(Err(format!("Linux's disk: {own}\nthe tree:     {served}")));
    }
    // The last part was reached, and both have as much.
    if own.len() != served.len() || !own.contains("# at_once\n") {
        return Ok(Err(format!("some is missing:\n{text}{said}")));
    }
    let (text, said, status) = cairn;
    let expected = "3\nuser 640 /root/own/made\nuser 600 /root/own/fifo\n";
    Ok(match text == expected && status == Some(0) {
        true => Ok(()),
        false => Err(format!("Cairn: status {status:?}\n{text}{said}")),
    })
}

/// A connection, with the tree's root as number 0.
struct Client {
    stream: TcpStream,
    tag: u16,
}

impl Client {
    fn new(port: u16) -> Result<Client> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut client = Client { stream, tag: 0 };
        client
            .stream
            .write_all(Ask::version(MOST).with_tag(NO_TAG))?;
        let (kind, tag, _) = client.message()?;
        ensure!(
            (kind, tag) == (kind::VERSION + 1, NO_TAG),
            "it speaks otherwise"
        );
        // Whoever it says that it is.
        client.ask(Ask::attach(0))??;
        Ok(client)
    }

    /// Kind, tag, and the whole.
    fn message(&mut self) -> Result<(u8, u16, Vec<u8>)> {
        let mut head = [0; 4];
        self.stream.read_exact(&mut head)?;
        let Ok(length) = answer::length(head, MOST as usize) else {
            bail!("a message of {head:?}");
        };
        let mut message = head.to_vec();
        message.resize(length, 0);
        self.stream.read_exact(&mut message[4..])?;
        Ok((
            message[4],
            u16::from_le_bytes([message[5], message[6]]),
            message,
        ))
    }

    fn send(&mut self, mut ask: Ask) -> Result<u16> {
        self.tag += 1;
        self.stream.write_all(ask.with_tag(self.tag))?;
        Ok(self.tag)
    }

    /// The answer that comes next is this request's.
    fn answer(&mut self, asked: u8, tag: u16) -> Result<Result<Vec<u8>, Refused>> {
        let (_, _, message) = self.message()?;
        match answer::body(&message, asked, tag) {
            Ok(body) => Ok(Ok(body.to_vec())),
            Err(Trouble::Refused(number)) => Ok(Err(Refused(number))),
            Err(Trouble::Nonsense) => bail!("{message:?} answers {asked} with tag {tag}"),
        }
    }

    fn ask(&mut self, ask: Ask) -> Result<Result<Vec<u8>, Refused>> {
        let kind = ask.kind();
        let tag = self.send(ask)?;
        self.answer(kind, tag)
    }
}

/// With this number.
#[derive(Debug, PartialEq, Eq)]
struct Refused(i64);

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "refused with {}", self.0)
    }
}

impl std::error::Error for Refused {}

/// As soon as somebody listens.
fn connect(port: u16) -> Result<Client> {
    let begun = Instant::now();
    loop {
        match Client::new(port) {
            Err(_) if begun.elapsed() < READY => std::thread::sleep(Duration::from_millis(200)),
            client => return client,
        }
    }
}

fn client(port: u16, read_only: u16) -> Result<()> {
    let mut c = connect(port)?;
    // Everybody is user 1000 there.
    c.ask(Ask::walk(0, 1, &[b"secret"]))??;
    let refused = c.ask(Ask::open(1, 0))?;
    ensure!(refused == Err(Refused(EACCES)), "root's file: {refused:?}");
    c.ask(Ask::walk(0, 2, &[]))??;
    c.ask(Ask::create(2, b"made", WRITE_ONLY, 0o640, 1000))??;
    c.ask(Ask::write(2, 0, b"text"))??;
    // A FIFO that nobody writes to holds up nothing, is given up, and read when there is something.
    c.ask(Ask::node(0, b"fifo", FIFO, 1000))??;
    for (fid, flags) in [(3, 0), (4, WRITE_ONLY)] {
        c.ask(Ask::walk(0, fid, &[b"fifo"]))??;
        if fid == 3 {
            c.ask(Ask::open(fid, flags))??;
        }
    }
    let given_up = c.send(Ask::read(3, 0, 10))?;
    c.ask(Ask::space(0))??;
    c.ask(Ask::flush(given_up))??;
    let reading = c.send(Ask::read(3, 0, 10))?;
    c.ask(Ask::open(4, WRITE_ONLY))??;
    let writing = c.send(Ask::write(4, 0, b"through"))?;
    let mut bodies = Vec::new();
    for _ in 0..2 {
        let (_, tag, message) = c.message()?;
        let asked = if tag == reading {
            kind::READ
        } else {
            kind::WRITE
        };
        let Ok(body) = answer::body(&message, asked, tag) else {
            bail!("{message:?}");
        };
        bodies.push((tag, body.to_vec()));
    }
    bodies.sort();
    let expected = [
        (reading, b"\x07\0\0\0through".to_vec()),
        (writing, vec![7, 0, 0, 0]),
    ];
    ensure!(bodies == expected, "{bodies:?}");
    // Three that say nothing and this one are all that there may be.
    let silent = (0..3).map(|_| Client::new(port));
    let silent = silent.collect::<Result<Vec<_>>>().context("four clients")?;
    ensure!(Client::new(port).is_err(), "a fifth client is served");
    drop(silent);
    drop(c);
    // What makes no sense ends nobody but who says it.
    for turn in 0..40u32 {
        let Ok(mut stream) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)) else {
            continue;
        };
        let noise = (0..300u32).map(|n| (n.wrapping_mul(2_654_435_761 ^ turn << 7) >> 13) as u8);
        let mut bytes: Vec<u8> = noise.collect();
        if turn % 2 == 0 {
            bytes[..7].copy_from_slice(&[44, 1, 0, 0, 100 + (turn % 24) as u8, 1, 0]);
        }
        let _ = stream.write_all(&bytes);
    }
    let mut c = connect(port)?;
    c.ask(Ask::walk(0, 1, &[b"text"]))??;
    c.ask(Ask::open(1, 0))??;
    let body = c.ask(Ask::read(1, 0, 100))??;
    ensure!(answer::data(&body, 100) == Ok(b"text\n"), "{body:?}");
    let mut c = connect(read_only)?;
    c.ask(Ask::walk(0, 1, &[b"text"]))??;
    let refused = c.ask(Ask::open(1, WRITE_ONLY))?;
    ensure!(
        refused == Err(Refused(EROFS)),
        "to be read only: {refused:?}"
    );
    Ok(())
}
