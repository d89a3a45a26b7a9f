//! The wire of tests: QEMU's `-netdev dgram` puts each Ethernet frame of a machine into one datagram, and this is what is between the machines, or between a machine and a test: a [`switch`] with a [`line`] behind each end, and a [`station`] that answers. No privilege is needed.

pub mod line;
pub mod station;
pub mod switch;

use crate::cli;
use anyhow::{bail, Context, Result};
use line::{Line, Quality};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use switch::Switch;

/// Most bytes of a datagram.
const LONGEST: usize = 65_536;
/// How long an idle wire sleeps before it looks whether it is to end.
const NAP: Duration = Duration::from_millis(50);

/// Where a machine's frames come to (`-netdev dgram`'s remote), and where it waits for some (its local).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    pub host: PathBuf,
    pub guest: PathBuf,
}

impl End {
    /// The ends of a link that is called by this path.
    pub fn of(path: &Path) -> End {
        let with = |more: &str| {
            let mut name = path.as_os_str().to_owned();
            name.push(more);
            PathBuf::from(name)
        };
        End {
            host: with(".host"),
            guest: with(".guest"),
        }
    }
}

/// One machine's end, with a socket.
struct Port {
    socket: UnixDatagram,
    guest: PathBuf,
}

impl Port {
    fn open(end: &End) -> Result<Port> {
        let _ = std::fs::remove_file(&end.host);
        let socket = UnixDatagram::bind(&end.host)
            .with_context(|| format!("cannot make {}", end.host.display()))?;
        Ok(Port {
            socket,
            guest: end.guest.clone(),
        })
    }

    /// A frame for the machine. If it is not there (any more) nothing is to be done; if it is slow, it is waited for, so what is lost is lost by the machine.
    fn send(&self, frame: &[u8]) {
        let _ = self.socket.send_to(frame, &self.guest);
    }
}

/// The station of a test, in a thread that ends with this value.
pub struct Station {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Station {
    pub fn start(end: &End) -> Result<Station> {
        let port = Port::open(end)?;
        port.socket.set_read_timeout(Some(NAP))?;
        port.socket.set_write_timeout(Some(NAP))?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let mut bytes = vec![0; LONGEST];
            while !stopped.load(Relaxed) {
                let Ok(length) = port.socket.recv(&mut bytes) else {
                    continue;
                };
                for answer in station::answers(&bytes[..length]) {
                    port.send(&answer);
                    if stopped.load(Relaxed) {
                        break;
                    }
                }
            }
        });
        Ok(Station {
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for Station {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// `./cairn wire`: a switch between machines, until it is interrupted.
pub fn command(arguments: &cli::Wire) -> Result<u8> {
    if arguments.ends.len() < 2 {
        bail!("a wire has two ends or more");
    }
    let quality = Quality {
        loss: arguments.loss,
        duplicates: arguments.duplicates,
        damage: arguments.damage,
        reorder: arguments.reorder,
        delay: Duration::from_millis(arguments.delay),
    };
    let ports = arguments.ends.iter().map(|path| Port::open(&End::of(path)));
    let ports: Vec<Port> = ports.collect::<Result<_>>()?;
    for (port, path) in ports.iter().zip(&arguments.ends) {
        port.socket.set_nonblocking(true)?;
        eprintln!("end: --net dgram={}", path.display());
    }
    let begun = Instant::now();
    let (mut switch, mut bytes) = (Switch::default(), vec![0; LONGEST]);
    let mut line = Line::new(quality, arguments.seed);
    loop {
        let mut idle = true;
        for (from, port) in ports.iter().enumerate() {
            while let Ok(length) = port.socket.recv(&mut bytes) {
                idle = false;
                let frame = &bytes[..length];
                for to in switch.ends(from, ports.len(), frame) {
                    line.send(begun.elapsed(), to, frame);
                }
            }
        }
        while let Some((to, frame)) = line.arrived(begun.elapsed()) {
            idle = false;
            ports[to].send(&frame);
        }
        if idle {
            let next = line.next().map(|at| at.saturating_sub(begun.elapsed()));
            let most = Duration::from_micros(500);
            std::thread::sleep(next.map_or(most, |next| next.min(most)));
        }
    }
}
