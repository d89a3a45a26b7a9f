//! A client whose users are believed: each of them is served by a process that is that user, and this one leads messages to them.
//!
//! A number belongs to the user whose ATTACH it came from, and a tag to the user whose request has it. The processes judge all else: what they answer tells
//! which numbers there are. When one of them ends so does the whole connection.

use crate::session::{message, MOST};
use crate::users::Believed;
use cairn_ninep::answer;
use cairn_ninep::request::{head, request, Request};
use cairn_ninep::{kind, Ask, Reply, NO_FID, NO_TAG, VERSION};
use rustix::io::Errno;
use std::collections::HashMap;
use std::io::{self, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Most users of a connection at the same time.
const USERS: usize = 64;

/// Starts a session for a user, at the other end of the stream.
pub type Start<'a> = dyn Fn(u32) -> io::Result<UnixStream> + 'a;

/// What becomes of numbers when an answer comes.
#[derive(Clone, Copy)]
enum Then {
    Nothing,
    /// There is a new one, if it came so many names far.
    Made {
        fid: u32,
        names: u16,
    },
    /// It is gone, whatever the answer.
    Gone(u32),
    /// The request with this tag has no answer any more.
    Flushed(u16),
}

/// A request that was led on.
struct Led {
    uid: u32,
    kind: u8,
    then: Then,
}

#[derive(Default)]
struct Tables {
    fids: HashMap<u32, u32>,
    tags: HashMap<u16, Led>,
    /// Between which two VERSIONs: threads of users before know that they are.
    period: u32,
}

struct Shared {
    tables: Mutex<Tables>,
    output: Mutex<Box<dyn Write + Send>>,
    /// Has the reader of the client end, too.
    end: Box<dyn Fn() + Send + Sync>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where a request goes.
enum Way {
    To(u32, Then),
    Refused(Errno),
    /// A FLUSH of what is done already.
    Flushed,
}

/// `user` is who everybody is who is not believed. `end`: what makes the input end, since a user's process did.
pub fn serve(
    mut input: impl Read,
    output: impl Write + Send + 'static,
    end: impl Fn() + Send + Sync + 'static,
    (believed, user): (&Believed, u32),
    start: &Start,
) {
    let shared = Arc::new(Shared {
        tables: Mutex::default(),
        output: Mutex::new(Box::new(output)),
        end: Box::new(end),
    });
    let mut users: HashMap<u32, UnixStream> = HashMap::new();
    let mut most = None;
    while let Some(message) = message(&mut input, most.unwrap_or(MOST)) {
        let Some((kind, tag)) = head(&message) else {
            break;
        };
        let asked = request(&message);
        if kind == kind::VERSION {
            shared.forget();
            end_all(&mut users);
            most = None;
            let reply = match asked {
                Ok(Request::Version { most: wanted, .. }) if wanted < 4096 => refusal(Errno::INVAL),
                Ok(Request::Version {
                    most: wanted,
                    dialect,
                }) if dialect == VERSION => {
                    let agreed = (wanted as usize).min(MOST);
                    most = Some(agreed);
                    Reply::version(agreed as u32, VERSION)
                }
                Ok(_) => Reply::version(MOST as u32, b"unknown"),
                Err(_) => refusal(Errno::INVAL),
            };
            shared.say(reply, tag);
            continue;
        }
        let way = match (&asked, most) {
            (_, None) => Way::Refused(Errno::PROTO),
            (Err(_), _) => Way::Refused(Errno::INVAL),
            (Ok(asked), _) => shared.way(asked, believed, user),
        };
        let (uid, then) = match way {
            Way::To(uid, then) => (uid, then),
            Way::Flushed => {
                shared.say(Reply::to(kind::FLUSH), tag);
                continue;
            }
            Way::Refused(error) => {
                shared.say(refusal(error), tag);
                continue;
            }
        };
        if !users.contains_key(&uid) {
            let stream = match users.len() < USERS {
                true => shared.greet(uid, most.unwrap_or(MOST), start),
                false => Err(Errno::USERS),
            };
            match stream {
                Ok(stream) => drop(users.insert(uid, stream)),
                Err(error) => {
                    shared.say(refusal(error), tag);
                    continue;
                }
            }
        }
        let led = Led { uid, kind, then };
        let stream = users.get_mut(&uid);
        // A tag that is in use, or none, tells no answers apart.
        let free = tag != NO_TAG && locked(&shared.tables).tags.insert(tag, led).is_none();
        if !free || stream.is_none_or(|stream| stream.write_all(&message).is_err()) {
            break;
        }
    }
    shared.forget();
    end_all(&mut users);
}

fn end_all(users: &mut HashMap<u32, UnixStream>) {
    for (_, stream) in users.drain() {
        let _ = stream.shutdown(Shutdown::Both);
    }
}

fn refusal(error: Errno) -> Reply {
    Reply::error(error.raw_os_error() as u32)
}

impl Shared {
    fn say(&self, reply: Reply, tag: u16) {
        // Who does not hear it is noticed where the input ends.
        let _ = locked(&self.output).write_all(&reply.with_tag(tag));
    }

    /// No user before is heard any more.
    fn forget(&self) {
        let _output = locked(&self.output);
        let mut tables = locked(&self.tables);
        let period = tables.period.wrapping_add(1);
        *tables = Tables {
            period,
            ..Tables::default()
        };
    }

    fn way(&self, asked: &Request, believed: &Believed, user: u32) -> Way {
        let tables = locked(&self.tables);
        let (fid, then) = match *asked {
            Request::Attach { fid, uid, .. } => {
                let uid = match uid != NO_FID && believed.has(uid) {
                    true => uid,
                    false => user,
                };
                return match tables.fids.contains_key(&fid) {
                    true => Way::Refused(Errno::EXIST),
                    false => Way::To(uid, Then::Made { fid, names: 0 }),
                };
            }
            Request::Flush { tag } => {
                return match tables.tags.get(&tag) {
                    Some(led) => Way::To(led.uid, Then::Flushed(tag)),
                    None => Way::Flushed,
                };
            }
            Request::Walk {
                fid,
                new,
                ref names,
            } => match fid == new {
                true => (fid, Then::Nothing),
                false if tables.fids.contains_key(&new) => return Way::Refused(Errno::EXIST),
                false => {
                    let names = names.len() as u16;
                    (fid, Then::Made { fid: new, names })
                }
            },
            Request::Attribute { fid, new, .. } => match fid == new {
                true => (fid, Then::Nothing),
                false if tables.fids.contains_key(&new) => return Way::Refused(Errno::EXIST),
                false => (fid, Then::Made { fid: new, names: 0 }),
            },
            Request::End { fid } | Request::Remove { fid } => (fid, Then::Gone(fid)),
            // Two numbers of different users.
            Request::Link {
                folder: one,
                fid: other,
                ..
            }
            | Request::Rename {
                fid: one,
                folder: other,
                ..
            }
            | Request::RenameAt {
                from: one,
                to: other,
                ..
            } => {
                let users = [one, other].map(|fid| tables.fids.get(&fid));
                match users {
                    [Some(one), Some(other)] if one != other => return Way::Refused(Errno::XDEV),
                    _ => (one, Then::Nothing),
                }
            }
            Request::Open { fid, .. }
            | Request::Create { folder: fid, .. }
            | Request::Symlink { folder: fid, .. }
            | Request::Node { folder: fid, .. }
            | Request::Directory { folder: fid, .. }
            | Request::Unlink { folder: fid, .. }
            | Request::Target { fid }
            | Request::Attributes { fid, .. }
            | Request::Set { fid, .. }
            | Request::SetAttribute { fid, .. }
            | Request::Entries { fid, .. }
            | Request::Sync { fid, .. }
            | Request::Lock { fid, .. }
            | Request::LockThere { fid, .. }
            | Request::Read { fid, .. }
            | Request::Write { fid, .. }
            | Request::Space { fid } => (fid, Then::Nothing),
            Request::Auth { .. } | Request::Other => return Way::Refused(Errno::OPNOTSUPP),
            Request::Version { .. } => return Way::Refused(Errno::PROTO),
        };
        match tables.fids.get(&fid) {
            Some(uid) => Way::To(*uid, then),
            None => Way::Refused(Errno::BADF),
        }
    }

    /// A new user's process, and a thread for its answers.
    fn greet(
        self: &Arc<Shared>,
        uid: u32,
        most: usize,
        start: &Start,
    ) -> Result<UnixStream, Errno> {
        let wrong = |error: io::Error| Errno::from_io_error(&error).unwrap_or(Errno::IO);
        let mut stream = start(uid).map_err(wrong)?;
        let mut hello = Ask::version(most as u32);
        stream.write_all(hello.with_tag(NO_TAG)).map_err(wrong)?;
        let answered = message(&mut stream, most).ok_or(Errno::IO)?;
        let body = answer::body(&answered, kind::VERSION, NO_TAG);
        match body.and_then(answer::version) {
            Ok(agreed) if agreed as usize == most => {}
            _ => return Err(Errno::IO),
        }
        let input = stream.try_clone().map_err(wrong)?;
        let (shared, period) = (self.clone(), locked(&self.tables).period);
        let thread = std::thread::Builder::new().stack_size(256 << 10);
        let run =
            move || shared.answers(&mut BufReader::with_capacity(64 << 10, input), most, period);
        thread.spawn(run).map_err(wrong)?;
        Ok(stream)
    }

    /// What a user's process answers goes to the client, after the tables have it.
    fn answers(&self, input: &mut impl Read, most: usize, period: u32) {
        while let Some(message) = message(input, most) {
            let Some((kind, tag)) = head(&message) else {
                break;
            };
            let mut output = locked(&self.output);
            let mut tables = locked(&self.tables);
            if tables.period != period {
                return;
            }
            let Some(led) = tables.tags.remove(&tag) else {
                break;
            };
            match led.then {
                Then::Nothing => {}
                Then::Gone(fid) => drop(tables.fids.remove(&fid)),
                Then::Flushed(tag) => drop(tables.tags.remove(&tag)),
                Then::Made { fid, names } => {
                    let walked = || {
                        let body = answer::body(&message, led.kind, tag);
                        body.and_then(|body| answer::walked(body, names)) == Ok(true)
                    };
                    if kind == led.kind + 1 && (kind != kind::WALK + 1 || walked()) {
                        tables.fids.insert(fid, led.uid);
                    }
                }
            }
            drop(tables);
            if output.write_all(&message).is_err() {
                break;
            }
        }
        if locked(&self.tables).period == period {
            (self.end)();
        }
    }
}
