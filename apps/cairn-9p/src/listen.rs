//! Where clients come from. Each gets a process of its own, with the connection as its standard input and output.

use crate::fid::Node;
use crate::{relay, Options, NAME};
use rustix::fs::{open, Mode, OFlags};
use std::fs::File;
use std::io::{self, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::Duration;

/// After a connection that could not be taken.
const PAUSE: Duration = Duration::from_millis(100);

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Address and port.
    Tcp(SocketAddr),
    Unix(PathBuf),
    /// Standard input and output.
    Here,
}

impl Place {
    pub fn parse(word: &str) -> Result<Place, String> {
        let wrong = || format!("no place: {word}");
        if word == "-" {
            return Ok(Place::Here);
        }
        match word.split_once(':').ok_or_else(wrong)? {
            ("unix", path) if !path.is_empty() => Ok(Place::Unix(path.into())),
            // (No names: what looks them up would be a fifth of the program.)
            ("tcp", address) => match (address.parse(), address.parse()) {
                (Ok(port), _) => Ok(Place::Tcp((Ipv4Addr::UNSPECIFIED, port).into())),
                (_, Ok(address)) => Ok(Place::Tcp(address)),
                _ => Err(wrong()),
            },
            _ => Err(wrong()),
        }
    }
}

/// The root of what is served, and that it is a folder.
pub fn folder(options: &Options) -> Result<Arc<Node>, String> {
    let wrong = |error| format!("{}: {error}", options.folder.display());
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = open(&options.folder, flags, Mode::empty()).map_err(wrong)?;
    Node::new(folder).map_err(wrong)
}

fn duplicate(stream: impl AsFd) -> Result<File, String> {
    let own: io::Result<OwnedFd> = stream.as_fd().try_clone_to_owned();
    own.map(File::from).map_err(|error| error.to_string())
}

pub fn input() -> Result<File, String> {
    duplicate(io::stdin())
}

pub fn output() -> Result<File, String> {
    duplicate(io::stdout())
}

/// This program again, with its standard input and output here.
fn start(words: &[&str], options: &Options, stream: OwnedFd) -> io::Result<Child> {
    // As it was called: the name decides which program the file is.
    let own = std::env::args_os().next();
    let mut command = Command::new(own.unwrap_or_else(|| NAME.into()));
    command.args(words);
    if options.read_only {
        command.arg("--read-only");
    }
    command.arg("-").arg(&options.folder);
    let output = stream.try_clone()?;
    command
        .stdin(Stdio::from(stream))
        .stdout(Stdio::from(output));
    command.spawn()
}

/// The client at standard input and output, whose users are believed.
pub fn relay(options: &Options) -> Result<(), String> {
    let end = {
        let input = input()?;
        move || {
            let _ = rustix::net::shutdown(&input, rustix::net::Shutdown::Both);
        }
    };
    let begin = |uid: u32| {
        let (here, there) = UnixStream::pair()?;
        let mut child = start(&["--user", &uid.to_string()], options, there.into())?;
        std::thread::Builder::new().spawn(move || child.wait())?;
        Ok(here)
    };
    let input = BufReader::with_capacity(64 << 10, input()?);
    let users = (&options.believed, options.user);
    relay::serve(input, output()?, end, users, &begin);
    Ok(())
}

/// Serve who comes, until this process is ended.
pub fn listen(place: &Place, options: &Options) -> Result<(), String> {
    // A folder that is none is told at once.
    folder(options)?;
    let count = Arc::new(AtomicUsize::new(0));
    match place {
        Place::Tcp(address) => {
            let listener =
                TcpListener::bind(address).map_err(|error| format!("{address}: {error}"))?;
            loop {
                let stream = listener.accept().and_then(|(stream, _)| prepared(stream));
                taken(stream.map(OwnedFd::from), options, &count);
            }
        }
        Place::Unix(path) => {
            let listener =
                UnixListener::bind(path).map_err(|error| format!("{}: {error}", path.display()))?;
            loop {
                let stream = listener.accept().map(|(stream, _)| stream);
                taken(stream.map(OwnedFd::from), options, &count);
            }
        }
        Place::Here => Err("standard input is no place to listen".to_string()),
    }
}

/// Small answers go at once, and a client that is gone without a word is noticed some time.
fn prepared(stream: TcpStream) -> io::Result<TcpStream> {
    stream.set_nodelay(true)?;
    rustix::net::sockopt::set_socket_keepalive(&stream, true)?;
    Ok(stream)
}

/// A connection, if there was one.
fn taken(stream: io::Result<OwnedFd>, options: &Options, count: &Arc<AtomicUsize>) {
    let Ok(stream) = stream else {
        return std::thread::sleep(PAUSE);
    };
    // One too many is closed.
    if count.fetch_add(1, Ordering::Relaxed) >= options.most {
        count.fetch_sub(1, Ordering::Relaxed);
        return;
    }
    let user = options.user.to_string();
    let mut words = vec!["--user", &user];
    let list = options.believed.to_string();
    if !options.believed.is_empty() {
        words.extend(["--believe", &list]);
    }
    let counted = count.clone();
    let waited = start(&words, options, stream).and_then(|mut child| {
        std::thread::Builder::new().spawn(move || {
            let _ = child.wait();
            counted.fetch_sub(1, Ordering::Relaxed);
        })
    });
    if let Err(error) = waited {
        count.fetch_sub(1, Ordering::Relaxed);
        eprintln!("{NAME}: no process for a client: {error}");
    }
}
