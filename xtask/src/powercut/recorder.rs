//! A disk that remembers: a network block device on a local socket, which QEMU shows to the guest, with its content in memory and a record of all writes and flushes.
//!
//! A flush promises what was answered before it was asked for, and nothing more: two threads see to it that this is known. One reads requests and notes how many writes had been
//! answered when a flush came in; the other does them in order. (Protocol: the NBD project's doc/proto.md, fixed newstyle, simple replies. Neither trim nor forced unit access is
//! offered, so QEMU makes flushes of the latter.)

use anyhow::{Context, Result};
use std::io::{self, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};

const MAGIC: u64 = 0x4e42_444d_4147_4943;
const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
const OPTION_REPLY: u64 = 0x0003_e889_0455_65a9;
const REQUEST: u32 = 0x2560_9513;
const REPLY: u32 = 0x6744_6698;
/// Fixed newstyle, no padding of zeros.
const HANDSHAKE: u16 = 3;
/// Flags are there; flush is understood.
const EXPORT: u16 = 1 | 4;
const UNSUPPORTED: u32 = 1 << 31 | 1;
/// The longest request that is taken: QEMU's own limit.
const LONGEST: u32 = 32 << 20;
const INVALID: u32 = 22;

/// What happened, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    Write {
        at: u64,
        data: Arc<[u8]>,
    },
    /// The first so many writes are durable.
    Flush {
        covers: usize,
    },
    /// The guest may have done the first so many operations.
    Issued(usize),
    /// It was told that what they promise is kept.
    Done(usize),
}

/// Shared with whoever looks on.
#[derive(Default)]
pub struct Record {
    pub events: Vec<Event>,
    /// Writes that were answered.
    writes: usize,
    /// What the last flush covered.
    covered: usize,
    flushes: u64,
}

/// A disk that is served until this value goes.
pub struct Recorder {
    pub record: Arc<Mutex<Record>>,
    socket: PathBuf,
}

impl Recorder {
    /// Serve `content`. `lose`: every so many flushes one does nothing.
    pub fn serve(content: Vec<u8>, socket: &Path, lose: Option<u64>) -> Result<Recorder> {
        let _ = std::fs::remove_file(socket);
        let listener = UnixListener::bind(socket)
            .with_context(|| format!("cannot make {}", socket.display()))?;
        let record = Arc::new(Mutex::new(Record::default()));
        let shared = record.clone();
        std::thread::spawn(move || {
            // One guest, one connection. When it breaks the machine has ended.
            if let Ok((link, _)) = listener.accept() {
                let _ = serve(link, content, &shared, lose);
            }
        });
        Ok(Recorder {
            record,
            socket: socket.to_path_buf(),
        })
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.socket);
    }
}

/// Add to the record what did not come over the link.
pub fn note(record: &Mutex<Record>, event: Event) {
    if let Ok(mut record) = record.lock() {
        record.events.push(event);
    }
}

enum Kind {
    Read(u32),
    Write(Vec<u8>),
    /// With the number of writes that were answered when it came in.
    Flush(usize),
    Unknown,
}

struct Request {
    handle: u64,
    at: u64,
    kind: Kind,
}

fn serve(
    mut link: UnixStream,
    mut content: Vec<u8>,
    record: &Arc<Mutex<Record>>,
    lose: Option<u64>,
) -> io::Result<()> {
    negotiate(&mut link, content.len() as u64)?;
    let (queue, requests) = mpsc::channel();
    let reading = link.try_clone()?;
    let seen = record.clone();
    std::thread::spawn(move || {
        // It ends with the link.
        let _ = read_requests(reading, &seen, &queue);
    });
    answer(link, &mut content, &requests, record, lose)
}

fn read_requests(
    mut link: UnixStream,
    record: &Mutex<Record>,
    queue: &mpsc::Sender<Request>,
) -> io::Result<()> {
    loop {
        let magic = u32::from_be_bytes(bytes(&mut link)?);
        let _flags: [u8; 2] = bytes(&mut link)?;
        let kind = u16::from_be_bytes(bytes(&mut link)?);
        let handle = u64::from_be_bytes(bytes(&mut link)?);
        let at = u64::from_be_bytes(bytes(&mut link)?);
        let length = u32::from_be_bytes(bytes(&mut link)?);
        if magic != REQUEST || length > LONGEST {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let kind = match kind {
            0 => Kind::Read(length),
            1 => {
                let mut data = vec![0; length as usize];
                link.read_exact(&mut data)?;
                Kind::Write(data)
            }
            2 => return Ok(()),
            3 => Kind::Flush(record.lock().map_or(0, |record| record.writes)),
            _ => Kind::Unknown,
        };
        if queue.send(Request { handle, at, kind }).is_err() {
            return Ok(());
        }
    }
}

fn answer(
    mut link: UnixStream,
    content: &mut [u8],
    requests: &Receiver<Request>,
    record: &Mutex<Record>,
    lose: Option<u64>,
) -> io::Result<()> {
    for request in requests {
        let mut data = None;
        let mut error = 0;
        let mut written = false;
        match request.kind {
            Kind::Read(length) => match piece(content, request.at, length as usize) {
                Some(piece) => data = Some(piece.to_vec()),
                None => error = INVALID,
            },
            Kind::Write(new) => match piece(content, request.at, new.len()) {
                Some(piece) => {
                    piece.copy_from_slice(&new);
                    let (at, data) = (request.at, new.into());
                    note(record, Event::Write { at, data });
                    written = true;
                }
                None => error = INVALID,
            },
            Kind::Flush(answered) => {
                if let Ok(mut record) = record.lock() {
                    record.flush(answered, lose);
                }
            }
            Kind::Unknown => error = INVALID,
        }
        // Counted before the guest can know of it, so never too late.
        if let (true, Ok(mut record)) = (written, record.lock()) {
            record.writes += 1;
        }
        let mut reply = REPLY.to_be_bytes().to_vec();
        reply.extend_from_slice(&error.to_be_bytes());
        reply.extend_from_slice(&request.handle.to_be_bytes());
        reply.extend_from_slice(&data.unwrap_or_default());
        link.write_all(&reply)?;
    }
    Ok(())
}

impl Record {
    fn flush(&mut self, answered: usize, lose: Option<u64>) {
        self.flushes += 1;
        if lose.is_none_or(|every| !self.flushes.is_multiple_of(every)) {
            self.covered = self.covered.max(answered);
        }
        let covers = self.covered;
        self.events.push(Event::Flush { covers });
    }
}

/// The bytes that a request names, if they are on the disk.
fn piece(content: &mut [u8], at: u64, length: usize) -> Option<&mut [u8]> {
    let begin = usize::try_from(at).ok()?;
    content.get_mut(begin..begin.checked_add(length)?)
}

fn negotiate(link: &mut UnixStream, size: u64) -> io::Result<()> {
    let mut hello = MAGIC.to_be_bytes().to_vec();
    hello.extend_from_slice(&OPTION_MAGIC.to_be_bytes());
    hello.extend_from_slice(&HANDSHAKE.to_be_bytes());
    link.write_all(&hello)?;
    let _flags: [u8; 4] = bytes(link)?;
    let mut export = size.to_be_bytes().to_vec();
    export.extend_from_slice(&EXPORT.to_be_bytes());
    loop {
        let magic = u64::from_be_bytes(bytes(link)?);
        let option = u32::from_be_bytes(bytes(link)?);
        let length = u32::from_be_bytes(bytes(link)?);
        if magic != OPTION_MAGIC || length > 65_536 {
            return Err(io::ErrorKind::InvalidData.into());
        }
        io::copy(&mut (&mut *link).take(length.into()), &mut io::sink())?;
        let mut reply = |kind: u32, data: &[u8]| {
            let mut bytes = OPTION_REPLY.to_be_bytes().to_vec();
            bytes.extend_from_slice(&option.to_be_bytes());
            bytes.extend_from_slice(&kind.to_be_bytes());
            bytes.extend_from_slice(&(data.len() as u32).to_be_bytes());
            bytes.extend_from_slice(data);
            link.write_all(&bytes)
        };
        match option {
            // EXPORT_NAME: no reply but the export itself.
            1 => return link.write_all(&export),
            // ABORT
            2 => return Err(io::ErrorKind::ConnectionAborted.into()),
            // GO: what it is (information 0), then acknowledged.
            7 => {
                let mut information = 0u16.to_be_bytes().to_vec();
                information.extend_from_slice(&export);
                reply(3, &information)?;
                return reply(1, &[]);
            }
            _ => reply(UNSUPPORTED, &[])?,
        }
    }
}

fn bytes<const N: usize>(link: &mut UnixStream) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    link.read_exact(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(link: &mut UnixStream, kind: u16, at: u64, length: u32, data: &[u8]) {
        let mut bytes = REQUEST.to_be_bytes().to_vec();
        bytes.extend_from_slice(&[0, 0]);
        bytes.extend_from_slice(&kind.to_be_bytes());
        bytes.extend_from_slice(&7u64.to_be_bytes());
        bytes.extend_from_slice(&at.to_be_bytes());
        bytes.extend_from_slice(&length.to_be_bytes());
        bytes.extend_from_slice(data);
        link.write_all(&bytes).unwrap();
    }

    /// The error of a reply, and so many bytes of data.
    fn reply(link: &mut UnixStream, length: usize) -> (u32, Vec<u8>) {
        assert_eq!(bytes(link).unwrap(), REPLY.to_be_bytes());
        let error = u32::from_be_bytes(bytes(link).unwrap());
        assert_eq!(bytes(link).unwrap(), 7u64.to_be_bytes());
        let mut data = vec![0; length];
        link.read_exact(&mut data).unwrap();
        (error, data)
    }

    fn connected(name: &str, lose: Option<u64>) -> (Recorder, UnixStream) {
        let socket = std::env::temp_dir().join(format!("xtask-{name}-{}", std::process::id()));
        let recorder = Recorder::serve(vec![0; 8192], &socket, lose).unwrap();
        let mut link = UnixStream::connect(&socket).unwrap();
        let _: [u8; 18] = bytes(&mut link).unwrap();
        link.write_all(&3u32.to_be_bytes()).unwrap();
        link.write_all(&OPTION_MAGIC.to_be_bytes()).unwrap();
        link.write_all(&[0, 0, 0, 1, 0, 0, 0, 0]).unwrap();
        let size = u64::from_be_bytes(bytes(&mut link).unwrap());
        assert_eq!(size, 8192);
        let _: [u8; 2] = bytes(&mut link).unwrap();
        (recorder, link)
    }

    #[test]
    fn a_flush_covers_what_was_answered_before() {
        let (recorder, mut link) = connected("recorder", None);
        request(&mut link, 1, 4096, 3, b"abc");
        assert_eq!(reply(&mut link, 0), (0, vec![]));
        request(&mut link, 3, 0, 0, b"");
        reply(&mut link, 0);
        request(&mut link, 0, 4095, 5, b"");
        assert_eq!(reply(&mut link, 5), (0, b"\0abc\0".to_vec()));
        request(&mut link, 1, 8190, 3, b"abc");
        assert_eq!(reply(&mut link, 0).0, INVALID);
        let record = recorder.record.lock().unwrap();
        let data: Arc<[u8]> = (*b"abc").into();
        let events = [Event::Write { at: 4096, data }, Event::Flush { covers: 1 }];
        assert_eq!(record.events, events);
    }

    #[test]
    fn a_lost_flush_covers_nothing_new() {
        let mut record = Record::default();
        record.flush(3, Some(2));
        record.flush(5, Some(2));
        record.flush(6, Some(2));
        let covers = [3, 3, 6].map(|covers| Event::Flush { covers });
        assert_eq!(record.events, covers);
    }
}
