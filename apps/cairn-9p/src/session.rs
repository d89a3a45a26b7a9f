//! A session: requests from one stream, served by some threads, answers to another one.
//!
//! The caller's thread reads. What can wait is done by others, so that VERSION and FLUSH are always heard. An answer is written whole, and a tag is free for
//! its next request before the answer is: both under the lock of the output, so that a client never hears of a tag that it has used again.

use crate::cancel::Cancel;
use crate::tree::{Export, Tree};
use cairn_ninep::request::{head, request, Request};
use cairn_ninep::{answer, kind, Reply, AROUND_DATA, HEAD, NO_TAG, VERSION};
use rustix::io::Errno;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Bytes of the longest message, and of the shortest that a client may want to be the longest.
pub const MOST: usize = (256 << 10) + AROUND_DATA + 1;
const LEAST: usize = 4096;
/// Threads of a session; twice as many as may wait ([`crate::tree::WAITING`]).
const THREADS: usize = 2 * crate::tree::WAITING;
const STACK: usize = 256 << 10;
/// What may be read ahead of those that are under way: bytes, and messages. Beyond it the stream is not read.
const AHEAD: usize = 2 << 20;
const AHEAD_MESSAGES: usize = 512;
/// FLUSHes of one request, at most.
const FLUSHES: usize = 64;

/// Between two VERSIONs.
struct Period {
    tree: Tree,
    most: usize,
    under_way: Mutex<HashMap<u16, UnderWay>>,
    /// Nobody wants its answers any more.
    over: AtomicBool,
}

struct UnderWay {
    cancel: Arc<Cancel>,
    begun: bool,
    /// Tags of FLUSHes that wait for its end.
    flushes: Vec<u16>,
}

struct Job {
    period: Arc<Period>,
    tag: u16,
    cancel: Arc<Cancel>,
    message: Vec<u8>,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    bytes: usize,
    idle: usize,
    threads: usize,
    over: bool,
}

type Output = Box<dyn Write + Send>;

struct Shared {
    output: Mutex<Output>,
    queue: Mutex<Queue>,
    /// There is a job, or the end.
    work: Condvar,
    /// There is room again.
    room: Condvar,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The next message; None: the stream has ended, or what it says is no message.
pub fn message(input: &mut impl Read, most: usize) -> Option<Vec<u8>> {
    let mut length = [0; 4];
    input.read_exact(&mut length).ok()?;
    let count = answer::length(length, most).ok()?;
    let mut message = Vec::with_capacity(count);
    message.extend(length);
    let rest = (count - length.len()) as u64;
    input.by_ref().take(rest).read_to_end(&mut message).ok()?;
    (message.len() == count).then_some(message)
}

/// Until the input ends or makes no sense. What is under way then is given up.
pub fn serve(mut input: impl Read, output: impl Write + Send + 'static, export: Export) {
    let shared = Arc::new(Shared {
        output: Mutex::new(Box::new(output)),
        queue: Mutex::default(),
        work: Condvar::new(),
        room: Condvar::new(),
    });
    let mut period: Option<Arc<Period>> = None;
    while let Some(message) = message(&mut input, period.as_ref().map_or(MOST, |p| p.most)) {
        let Some((kind, tag)) = head(&message) else {
            break;
        };
        let goes_on = match (kind, &period) {
            (kind::VERSION, _) => {
                if let Some(old) = period.take() {
                    old.end(&shared);
                }
                match version(&message, &export) {
                    Ok((new, reply)) => {
                        period = new;
                        shared.say(reply, tag)
                    }
                    Err(error) => shared.say(refusal(error), tag),
                }
            }
            (_, None) => shared.say(refusal(Errno::PROTO), tag),
            (kind::FLUSH, Some(period)) => shared.flush(period, &message, tag),
            (_, Some(period)) => shared.begin(period, message, tag),
        };
        if !goes_on {
            break;
        }
    }
    if let Some(period) = period {
        period.end(&shared);
    }
    locked(&shared.queue).over = true;
    shared.work.notify_all();
}

fn refusal(error: Errno) -> Reply {
    Reply::error(error.raw_os_error() as u32)
}

/// A new period, if the client speaks the dialect.
fn version(message: &[u8], export: &Export) -> Result<(Option<Arc<Period>>, Reply), Errno> {
    let Ok(Request::Version { most, dialect }) = request(message) else {
        return Err(Errno::INVAL);
    };
    let most = (most as usize).min(MOST);
    if most < LEAST {
        return Err(Errno::INVAL);
    }
    if dialect != VERSION {
        return Ok((None, Reply::version(most as u32, b"unknown")));
    }
    let period = Period {
        tree: Tree::new(export.clone(), most),
        most,
        under_way: Mutex::default(),
        over: AtomicBool::new(false),
    };
    let reply = Reply::version(most as u32, VERSION);
    Ok((Some(Arc::new(period)), reply))
}

impl Period {
    /// Give up what is under way; its answers are not sent.
    fn end(&self, shared: &Shared) {
        let _output = locked(&shared.output);
        self.over.store(true, Ordering::Relaxed);
        for (_, request) in locked(&self.under_way).drain() {
            request.cancel.trip();
        }
    }
}

impl Shared {
    /// False: nobody hears it.
    fn say(&self, reply: Reply, tag: u16) -> bool {
        say(&mut locked(&self.output), reply, tag)
    }

    fn flush(&self, period: &Period, message: &[u8], tag: u16) -> bool {
        let Ok(Request::Flush { tag: old }) = request(message) else {
            return self.say(refusal(Errno::INVAL), tag);
        };
        let mut output = locked(&self.output);
        let mut under_way = locked(&period.under_way);
        match under_way.entry(old) {
            Entry::Occupied(mut there) if there.get().begun => {
                let there = there.get_mut();
                there.cancel.trip();
                there.flushes.push(tag);
                return there.flushes.len() <= FLUSHES;
            }
            Entry::Occupied(there) => {
                there.remove();
            }
            Entry::Vacant(_) => {}
        }
        drop(under_way);
        say(&mut output, Reply::to(kind::FLUSH), tag)
    }

    /// Have it done by somebody else.
    fn begin(self: &Arc<Shared>, period: &Arc<Period>, message: Vec<u8>, tag: u16) -> bool {
        let cancel = Arc::new(Cancel::default());
        match locked(&period.under_way).entry(tag) {
            // A tag that is in use, or none: who does that cannot tell the answers apart.
            Entry::Occupied(_) => return false,
            Entry::Vacant(_) if tag == NO_TAG => return false,
            Entry::Vacant(free) => free.insert(UnderWay {
                cancel: cancel.clone(),
                begun: false,
                flushes: Vec::new(),
            }),
        };
        let mut queue = locked(&self.queue);
        while queue.bytes > AHEAD || queue.jobs.len() >= AHEAD_MESSAGES {
            queue = self
                .room
                .wait(queue)
                .unwrap_or_else(PoisonError::into_inner);
        }
        queue.bytes += message.len();
        queue.jobs.push_back(Job {
            period: period.clone(),
            tag,
            cancel,
            message,
        });
        if queue.idle >= queue.jobs.len() {
            drop(queue);
            self.work.notify_one();
            return true;
        }
        if queue.threads < THREADS {
            let shared = self.clone();
            let thread = std::thread::Builder::new().stack_size(STACK);
            match thread.spawn(move || shared.work()) {
                Ok(_) => queue.threads += 1,
                // Nobody will do it.
                Err(_) if queue.threads == 0 => return false,
                Err(_) => {}
            }
        }
        true
    }

    /// A thread.
    fn work(&self) {
        let mut queue = locked(&self.queue);
        loop {
            let Some(job) = queue.jobs.pop_front() else {
                if queue.over {
                    return;
                }
                queue.idle += 1;
                queue = self
                    .work
                    .wait(queue)
                    .unwrap_or_else(PoisonError::into_inner);
                queue.idle -= 1;
                continue;
            };
            queue.bytes -= job.message.len();
            drop(queue);
            self.room.notify_one();
            self.run(&job);
            queue = locked(&self.queue);
        }
    }

    fn run(&self, job: &Job) {
        let period = &job.period;
        // Was it given up before it began?
        match locked(&period.under_way).get_mut(&job.tag) {
            Some(own) if Arc::ptr_eq(&own.cancel, &job.cancel) => own.begun = true,
            _ => return,
        }
        let done = match request(&job.message) {
            Ok(request) => period.tree.perform(&request, &job.cancel),
            Err(_) => Err(Errno::INVAL),
        };
        let mut output = locked(&self.output);
        if period.over.load(Ordering::Relaxed) {
            return;
        }
        let under_way = locked(&period.under_way).remove(&job.tag);
        let flushes = under_way.map_or_else(Vec::new, |own| own.flushes);
        // What was done nevertheless is told: the client has to know of it.
        let given_up = !flushes.is_empty() && matches!(done, Err(Errno::INTR));
        if !given_up {
            say(&mut output, done.unwrap_or_else(refusal), job.tag);
        }
        for tag in flushes {
            say(&mut output, Reply::to(kind::FLUSH), tag);
        }
    }
}

/// Who does not hear it is noticed where the input ends.
fn say(output: &mut Output, reply: Reply, tag: u16) -> bool {
    output.write_all(&reply.with_tag(tag)).is_ok()
}

const _: () = assert!(LEAST > HEAD + AROUND_DATA);
