//! Asynchronous input and output: io_setup(2) and its family.
//!
//! A context is a ring of events in the program's memory, as Linux has it there (the C library libaio looks into it), and what the personality knows of it.
//! Reading, writing and syncing are done by io_submit itself, as Linux does it with files that are cached. What IOCB_CMD_POLL waits for is asked when the
//! program looks for events; while something is waited for the ring does not have its magic number, so that nobody takes an empty ring for an answer.
//!
//! Contexts are the process's own: a child has none, and exec ends them.

use super::epoll::has_readiness;
use super::io::{self, access_mode, file as any_file, usable};
use super::peers;
use super::poll::{self, Watched, ALWAYS};
use crate::descriptors::{event_kind, OpenFile};
use crate::errno::{
    Errno, Result, EAGAIN, EBADF, EFAULT, EINPROGRESS, EINTR, EINVAL, RESTART, RESTART_ALWAYS,
    RESTART_NO_HANDLER,
};
use crate::machine::area::{process, Frame};
use crate::machine::lock::Lock;
use crate::machine::request::{Request, Vector};
use crate::machine::{gate, user};
use crate::memory::{self, flags, prot};
use crate::path::{make_room, scheme};
use crate::signal::calls::{begin_mask, end_mask};
use crate::time;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use cairn_abi::layout::PAGE;
use cairn_idl::fs::{self, kind, o, s};

/// `struct aio_ring`: id, nr, head, tail, magic, compat_features, incompat_features, header_length; behind it `struct io_event`s.
const HEADER: u64 = 32;
const EVENT: u64 = 32;
const HEAD: u64 = 8;
const TAIL: u64 = 12;
const MAGIC_AT: u64 = 16;
const MAGIC: u32 = 0xa10a_10a1;

/// `/proc/sys/fs/aio-max-nr`, which is for each process here.
pub const MOST: u64 = 65_536;
/// Events that are handed over at a time.
const TOGETHER: usize = 32;

mod command {
    pub const PREAD: u64 = 0;
    pub const PWRITE: u64 = 1;
    pub const FSYNC: u64 = 2;
    pub const FDSYNC: u64 = 3;
    pub const POLL: u64 = 5;
    pub const PREADV: u64 = 7;
    pub const PWRITEV: u64 = 8;
}

const FLAG_RESFD: u64 = 1;
const FLAG_IOPRIO: u64 = 2;

/// Contexts by the address of their ring, which is their id.
pub type Contexts = BTreeMap<u64, Arc<Context>>;

pub struct Context {
    ring: u64,
    /// Events of the ring.
    events: u32,
    /// How many may be on the way or not taken.
    most: u32,
    /// What io_setup was asked for.
    wanted: u64,
    inner: Lock<Inner>,
}

#[derive(Default)]
struct Inner {
    tail: u32,
    /// Being read or written now.
    on_the_way: u32,
    /// What IOCB_CMD_POLL waits for, by the address of the control block and a number of its own (the same block may be given twice).
    waiting: BTreeMap<(u64, u64), Waiting>,
    next: u64,
    /// Event counters of threads that wait for events, by a number of their own.
    bells: BTreeMap<u64, Arc<OpenFile>>,
    ended: bool,
}

struct Waiting {
    file: Arc<OpenFile>,
    mask: u64,
    data: u64,
}

/// Events of the ring, its pages, and how many requests may be on the way, of a context for so many on so many cores: as Linux counts.
fn geometry(wanted: u32, cores: u32) -> Result<(u32, u64, u32)> {
    const LARGEST: u32 = 0x1000_0000 / EVENT as u32;
    let doubled = wanted.max(cores * 4).wrapping_mul(2);
    if doubled > LARGEST {
        return Err(EINVAL);
    }
    if doubled == 0 || u64::from(wanted) > MOST {
        return Err(EAGAIN);
    }
    let pages = (HEADER + EVENT * (u64::from(doubled) + 2)).div_ceil(PAGE);
    let events = ((pages * PAGE - HEADER) / EVENT) as u32;
    // Each core takes some at a time.
    let batch = ((events - 1) / (cores * 4)).max(1);
    Ok((events, pages, (events - 1) / batch * batch))
}

/// How many events wait in a ring of so many. Head and tail are what the program may have written.
fn held(events: u32, head: u32, tail: u32) -> u32 {
    let (head, tail) = (head % events, tail % events);
    (tail + events - head) % events
}

impl Inner {
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

impl Context {
    fn make(wanted: u64) -> Result<Arc<Context>> {
        let cores = gate::affinity(0, 0).map_or(1, |[_, _, there]| there.count_ones());
        let (events, pages, most) = geometry(wanted as u32, cores.max(1))?;
        let used: u64 = {
            let state = process().state();
            state.contexts.values().map(|context| context.wanted).sum()
        };
        if used + wanted > MOST {
            return Err(EAGAIN);
        }
        let ring = memory::map(0, pages * PAGE, prot::READ | prot::WRITE, flags::POPULATE)?;
        let context = Arc::new(Context {
            ring,
            events,
            most,
            wanted,
            inner: Lock::new(Inner::default()),
        });
        let header = [0, events, 0, 0, MAGIC, 1, 0, HEADER as u32];
        user::write(ring, &header)?;
        process().state().contexts.insert(ring, context.clone());
        Ok(context)
    }

    fn find(id: u64) -> Result<Arc<Context>> {
        let state = process().state();
        state.contexts.get(&id).cloned().ok_or(EINVAL)
    }

    fn head(&self) -> Result<u32> {
        user::read::<u32>(self.ring + HEAD)
    }

    /// Room for one more request, which is on the way then.
    fn reserve(&self) -> Result<()> {
        let mut inner = self.inner.lock();
        let used = inner.waiting.len() as u32 + inner.on_the_way;
        if used + held(self.events, self.head()?, inner.tail) >= self.most {
            return Err(EAGAIN);
        }
        inner.on_the_way += 1;
        Ok(())
    }

    fn done(&self, block: u64, data: u64, result: u64) {
        let mut inner = self.inner.lock();
        inner.on_the_way -= 1;
        self.put(&mut inner, block, data, result);
    }

    /// An event goes into the ring. A ring that the program took away is its own loss.
    fn put(&self, inner: &mut Inner, block: u64, data: u64, result: u64) {
        let at = self.ring + HEADER + EVENT * u64::from(inner.tail);
        let _ = user::write(at, &[data, block, result, 0]);
        inner.tail = (inner.tail + 1) % self.events;
        let _ = user::write(self.ring + TAIL, &inner.tail);
        ring_all(inner);
    }

    /// Does the ring say what there is?
    fn mark(&self, inner: &Inner) {
        let magic = match inner.waiting.is_empty() {
            true => MAGIC,
            false => 0,
        };
        let _ = user::write(self.ring + MAGIC_AT, &magic);
    }

    fn wait_for(&self, block: u64, waiting: Waiting) {
        let mut inner = self.inner.lock();
        inner.on_the_way -= 1;
        let number = inner.number();
        inner.waiting.insert((block, number), waiting);
        self.mark(&inner);
        ring_all(&mut inner);
    }

    /// What was waited for is there.
    fn arrived(&self, key: (u64, u64), result: u64) {
        let mut inner = self.inner.lock();
        if let Some(waiting) = inner.waiting.remove(&key) {
            self.put(&mut inner, key.0, waiting.data, result);
            self.mark(&inner);
        }
    }

    /// Hand over at most `most` events of the ring → how many, and whether the context is still there.
    fn take(&self, to: u64, most: u64) -> Result<u64> {
        let inner = self.inner.lock();
        let mut done = 0;
        while done < most {
            let head = self.head()? % self.events;
            // (A tail that the program wrote means nothing.)
            let there = held(self.events, head, inner.tail).min(self.events - head);
            let count = (most - done).min(u64::from(there)).min(TOGETHER as u64);
            if count == 0 {
                break;
            }
            let mut events = [[0u64; 4]; TOGETHER];
            let bytes = &mut user::bytes_of_many_mut(&mut events)[..(EVENT * count) as usize];
            user::read_bytes(self.ring + HEADER + EVENT * u64::from(head), bytes)?;
            match user::write_bytes(to.wrapping_add(EVENT * done), bytes) {
                Ok(()) => {}
                Err(_) if done != 0 => break,
                Err(error) => return Err(error),
            }
            user::write(self.ring + HEAD, &((head + count as u32) % self.events))?;
            done += count;
        }
        match inner.ended && done == 0 {
            true => Err(EINVAL),
            false => Ok(done),
        }
    }

    /// What is waited for, to be looked at, with the names it has in [`Inner::waiting`].
    fn watched(&self) -> (Vec<(u64, u64)>, Vec<Watched>) {
        let inner = self.inner.lock();
        let watched = |waiting: &Waiting| Watched {
            file: Some(waiting.file.clone()),
            mask: waiting.mask | ALWAYS,
            ready: 0,
        };
        let keys = inner.waiting.keys().copied().collect();
        (keys, inner.waiting.values().map(watched).collect())
    }

    fn arrived_of(&self, keys: &[(u64, u64)], watched: &[Watched]) {
        for (key, one) in keys.iter().zip(watched) {
            if one.ready != 0 {
                let ready = one.ready & (one.mask | ALWAYS);
                let pipe = one.file.as_ref().is_some_and(|file| io::is_pipe(file));
                self.arrived(*key, if pipe { as_pipes_tell(ready) } else { ready });
            }
        }
    }

    /// See what has arrived of what is waited for; wait for something until the deadline (0: not at all).
    fn look(&self, deadline: Option<u64>) -> Result<()> {
        if deadline == Some(0) {
            let (keys, mut watched) = self.watched();
            for one in &mut watched {
                if let Some(file) = &one.file {
                    one.ready = poll::look(file, one.mask) & one.mask;
                }
            }
            self.arrived_of(&keys, &watched);
            return Ok(());
        }
        // A thread that is not alone hears a bell when another one brings an event.
        let bell = match process().is_alone() {
            true => None,
            false => Some(make_bell()?),
        };
        let mut name = 0;
        if let Some(bell) = &bell {
            let mut inner = self.inner.lock();
            name = inner.number();
            inner.bells.insert(name, bell.clone());
        }
        let there = self.inner.lock();
        let nothing = held(self.events, self.head()?, there.tail) == 0 && !there.ended;
        drop(there);
        let (keys, mut watched) = self.watched();
        watched.extend(bell.iter().map(|bell| Watched {
            file: Some(bell.clone()),
            mask: fs::poll::IN,
            ready: 0,
        }));
        let result = match nothing {
            true => poll::wait_or_sleep(&mut watched, deadline).map(|_| ()),
            false => Ok(()),
        };
        if bell.is_some() {
            self.inner.lock().bells.remove(&name);
        }
        self.arrived_of(&keys, &watched);
        result
    }

    fn events(&self, least: u64, most: u64, to: u64, deadline: Option<u64>) -> Result<u64> {
        let mut done = 0;
        loop {
            match self.take(to.wrapping_add(EVENT * done), most - done) {
                Ok(count) => done += count,
                Err(error) if done == 0 => return Err(error),
                Err(_) => return Ok(done),
            }
            if done >= least && (done != 0 || least == 0 && most == 0) || done == most {
                return Ok(done);
            }
            let over = deadline.is_some_and(|at| at <= time::now());
            let before = self.inner.lock().tail;
            match self.look(if over || done >= least {
                Some(0)
            } else {
                deadline
            }) {
                Ok(()) => {}
                Err(error) if done == 0 => return Err(error),
                Err(_) => return Ok(done),
            }
            let same = self.inner.lock().tail == before;
            if same && (over || done >= least) {
                return Ok(done);
            }
        }
    }
}

/// What wakes a waiter of a pipe on Linux says this, whatever was asked for.
fn as_pipes_tell(ready: u64) -> u64 {
    use fs::poll::{IN, OUT, RDNORM, WRNORM};
    match ready {
        ready if ready & IN != 0 => ready | RDNORM,
        ready if ready & OUT != 0 => ready | WRNORM,
        ready => ready,
    }
}

/// Whoever waits looks again.
fn ring_all(inner: &mut Inner) {
    let mut data = [0; fs::INLINE_MAX / 8];
    data[0] = 1;
    for bell in inner.bells.values() {
        let _ = io::send_inline(bell, &data, 8, fs::POSITION, 0);
    }
}

fn make_bell() -> Result<Arc<OpenFile>> {
    make_room()?;
    let words = [fs::EVENTFD, 0, o::NONBLOCK];
    let manager = scheme(super::pipes::MANAGER)?;
    let words = Request::new(&words).brings(1).call(manager)?;
    Ok(Arc::new(OpenFile::portal(words[7] as u32, 0, 0o600)))
}

pub fn io_setup(f: &mut Frame) -> Result<u64> {
    let (wanted, place) = (f.arg(0) & 0xffff_ffff, f.arg(1));
    if user::read::<u64>(place)? != 0 || wanted == 0 {
        return Err(EINVAL);
    }
    let context = Context::make(wanted)?;
    user::write(place, &context.ring)
        .map(|()| 0)
        .inspect_err(|_| {
            let _ = destroy(context.ring);
        })
}

fn destroy(id: u64) -> Result<u64> {
    let context = process().state().contexts.remove(&id).ok_or(EINVAL)?;
    let waiting = {
        let mut inner = context.inner.lock();
        inner.ended = true;
        ring_all(&mut inner);
        core::mem::take(&mut inner.waiting)
    };
    drop(waiting);
    let length = (HEADER + EVENT * u64::from(context.events)).next_multiple_of(PAGE);
    let _ = memory::unmap(context.ring, length);
    Ok(0)
}

pub fn io_destroy(f: &mut Frame) -> Result<u64> {
    destroy(f.arg(0))
}

/// `struct iocb`, of 64 bytes.
struct Block {
    address: u64,
    data: u64,
    rw_flags: u64,
    command: u64,
    priority: u64,
    fd: u64,
    buffer: u64,
    length: u64,
    offset: u64,
    flags: u64,
    counter: u64,
}

impl Block {
    fn read(address: u64) -> Result<Block> {
        let words: [u64; 8] = user::read(address)?;
        let [data, key_and_flags, file, buffer, length, offset, reserved, flags] = words;
        if reserved != 0 || length > i64::MAX as u64 {
            return Err(EINVAL);
        }
        Ok(Block {
            address,
            data,
            rw_flags: key_and_flags >> 32,
            command: file & 0xffff,
            priority: file >> 16 & 0xffff,
            fd: file >> 32,
            buffer,
            length,
            offset,
            flags: flags & 0xffff_ffff,
            counter: flags >> 32,
        })
    }
}

pub fn io_submit(f: &mut Frame) -> Result<u64> {
    let (id, count, array) = (f.arg(0), f.arg(1), f.arg(2));
    if (count as i64) < 0 {
        return Err(EINVAL);
    }
    let context = Context::find(id)?;
    let count = count.min(u64::from(context.events));
    for at in 0..count {
        let address = array.wrapping_add(8 * at);
        let one = user::read(address).and_then(|block| submit(&context, block));
        match one {
            Ok(()) => {}
            Err(error) if at == 0 => return Err(error),
            Err(_) => return Ok(at),
        }
    }
    Ok(count)
}

/// An eventfd: the pipe manager's, of no type.
fn counter(argument: u64) -> Result<Arc<OpenFile>> {
    const OTHERS: u64 = event_kind::SET
        | event_kind::TIMER
        | event_kind::SIGNALS
        | event_kind::NOTICES
        | event_kind::PROCESS
        | event_kind::CONTEXT
        | event_kind::QUEUE
        | event_kind::TREE;
    let file = usable(argument)?;
    match file.object.is_none() && file.mode & s::IFMT == 0 && !file.is(OTHERS) {
        true => Ok(file),
        false => Err(EINVAL),
    }
}

fn submit(context: &Context, address: u64) -> Result<()> {
    let block = Block::read(address)?;
    context.reserve()?;
    let result = begin(context, &block);
    match result {
        Ok(Some(result)) => {
            let counter = match block.flags & FLAG_RESFD {
                0 => None,
                // (It was there a moment ago.)
                _ => counter(block.counter).ok(),
            };
            context.done(address, block.data, result);
            if let Some(counter) = counter {
                count_up(&counter);
            }
            Ok(())
        }
        Ok(None) => Ok(()),
        Err(error) => {
            context.inner.lock().on_the_way -= 1;
            Err(error)
        }
    }
}

/// One more; a counter that is full stays so.
fn count_up(counter: &OpenFile) {
    let mut data = [0; fs::INLINE_MAX / 8];
    data[0] = 1;
    if poll::look(counter, fs::poll::OUT) & fs::poll::OUT != 0 {
        let _ = io::send_inline(counter, &data, 8, fs::POSITION, 0);
    }
}

/// Do what is asked for → the event's result; nothing, if it is waited for.
fn begin(context: &Context, block: &Block) -> Result<Option<u64>> {
    let file = any_file(block.fd)?;
    if file.path_only {
        return Err(EBADF);
    }
    if block.flags & FLAG_RESFD != 0 {
        counter(block.counter)?;
    }
    user::write(block.address + 8, &0u32)?;
    match block.command {
        command::PREAD | command::PREADV => transfer(&file, block, true).map(Some),
        command::PWRITE | command::PWRITEV => transfer(&file, block, false).map(Some),
        command::FSYNC | command::FDSYNC => sync(&file, block).map(Some),
        command::POLL => wait(context, file, block),
        _ => Err(EINVAL),
    }
}

/// The result of an operation as an event tells it.
fn told(result: Result<u64>) -> u64 {
    match result {
        Ok(count) => count,
        Err(RESTART | RESTART_ALWAYS | RESTART_NO_HANDLER) => EINTR.value(),
        Err(error) => error.value(),
    }
}

/// Can it be read or written in this way?
fn transferable(file: &OpenFile, reads: bool) -> bool {
    const NEITHER: u64 = event_kind::SET
        | event_kind::TIMER
        | event_kind::SIGNALS
        | event_kind::NOTICES
        | event_kind::PROCESS
        | event_kind::CONTEXT;
    let counter = file.mode & s::IFMT == 0 && !reads;
    file.object.is_none() && !file.is(NEITHER | kind::DIRECTORY) && !counter
}

fn transfer(file: &OpenFile, block: &Block, reads: bool) -> Result<u64> {
    if block.flags & FLAG_IOPRIO != 0 {
        peers::may_have_priority(block.priority)?;
    }
    let flags = io::flags_of(file, block.rw_flags, reads)?;
    let wrong = if reads { o::WRONLY } else { o::RDONLY };
    if access_mode(file)? == wrong {
        return Err(EBADF);
    }
    if !transferable(file, reads) {
        return Err(EINVAL);
    }
    let vector = match block.command {
        command::PREAD | command::PWRITE => {
            let range = user::range(block.buffer, block.length).map_err(|_| EFAULT)?;
            Vector::of(range.first(io::MOST))
        }
        _ => io::vector(block.buffer, block.length)?,
    };
    if (block.offset as i64) < 0 {
        return Err(EINVAL);
    }
    // What has no positions is read as it comes.
    let at = match file.is(kind::SEEKABLE) {
        true => block.offset,
        false => fs::POSITION,
    };
    let result = match reads {
        true => io::read_pieces(file, &vector, at, flags),
        false => io::write_pieces_synced(file, &vector, at, flags),
    };
    Ok(told(result))
}

fn sync(file: &OpenFile, block: &Block) -> Result<u64> {
    if (block.buffer | block.offset | block.length | block.rw_flags) != 0 {
        return Err(EINVAL);
    }
    match io::sync_open(file, u64::from(block.command == command::FDSYNC)) {
        // It is nothing to be synced.
        Err(EINVAL) => Err(EINVAL),
        result => Ok(told(result)),
    }
}

fn wait(context: &Context, file: Arc<OpenFile>, block: &Block) -> Result<Option<u64>> {
    if block.buffer > 0xffff || (block.offset | block.length | block.rw_flags) != 0 {
        return Err(EINVAL);
    }
    let mask = block.buffer;
    let ready = poll::look(&file, mask | ALWAYS) & (mask | ALWAYS);
    if ready != 0 {
        return Ok(Some(ready));
    }
    // Nobody would count when it is ready.
    if !has_readiness(&file) || block.flags & FLAG_RESFD != 0 {
        return Err(EINVAL);
    }
    let data = block.data;
    context.wait_for(block.address, Waiting { file, mask, data });
    Ok(None)
}

pub fn io_cancel(f: &mut Frame) -> Result<u64> {
    let (id, block) = (f.arg(0), f.arg(1));
    if user::read::<u32>(block.wrapping_add(8))? != 0 {
        return Err(EINVAL);
    }
    let context = Context::find(id)?;
    let key = {
        let inner = context.inner.lock();
        let mut all = inner.waiting.range((block, 0)..=(block, u64::MAX));
        all.next().map(|(key, _)| *key).ok_or(EINVAL)?
    };
    context.arrived(key, 0);
    Err(EINPROGRESS)
}

/// A `struct timespec` as io_getevents takes it: any number of nanoseconds, and what lies behind is over.
fn deadline(address: u64) -> Result<Option<u64>> {
    if address == 0 {
        return Ok(None);
    }
    let [seconds, more] = user::read::<[i64; 2]>(address)?;
    let length = seconds
        .saturating_mul(time::SECOND as i64)
        .saturating_add(more);
    Ok(Some(match length {
        ..=0 => 0,
        length => time::deadline_after(length as u64),
    }))
}

fn wanted_events(f: &Frame, until: Option<u64>) -> Result<u64> {
    let context = Context::find(f.arg(0))?;
    let (least, most) = (f.arg(1) as i64, f.arg(2) as i64);
    if least < 0 || least > most {
        return Err(EINVAL);
    }
    context.events(least as u64, most as u64, f.arg(3), until)
}

pub fn io_getevents(f: &mut Frame) -> Result<u64> {
    let until = deadline(f.arg(4))?;
    match wanted_events(f, until) {
        Err(RESTART | RESTART_NO_HANDLER) => Err(EINTR),
        result => result,
    }
}

pub fn io_pgetevents(f: &mut Frame) -> Result<u64> {
    let until = deadline(f.arg(4))?;
    let begun = match f.arg(5) {
        0 => false,
        pair => {
            let [mask, size] = user::read::<[u64; 2]>(pair)?;
            begin_mask(mask, size)?
        }
    };
    let result = wanted_events(f, until).map_err(|error: Errno| match error {
        RESTART => RESTART_NO_HANDLER,
        error => error,
    });
    end_mask(begun, result)
}

/// The parent's contexts are not the child's. `beside`: other threads may have been working with them, of whose portals the child has none.
pub fn leave(contexts: Contexts, beside: bool) {
    match beside {
        true => core::mem::forget(contexts),
        false => drop(contexts),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_rings() {
        assert_eq!(geometry(1, 1), Ok((127, 1, 124)));
        assert_eq!(geometry(128, 1), Ok((383, 3, 380)));
        assert_eq!(geometry(1, 4), Ok((127, 1, 126)));
        assert_eq!(geometry(65_536, 1).map(|g| g.1), Ok(1025));
        assert_eq!(geometry(65_537, 1), Err(EAGAIN));
        assert_eq!(geometry(0x8000_0000, 1), Err(EAGAIN));
        assert_eq!(geometry(u32::MAX, 1), Err(EINVAL));
        for wanted in 1..2000 {
            let (events, pages, most) = geometry(wanted, 2).unwrap();
            assert!(most >= wanted && most < events);
            assert!(HEADER + EVENT * u64::from(events) <= pages * PAGE);
        }
    }

    #[test]
    fn events_in_a_ring() {
        assert_eq!(held(127, 0, 0), 0);
        assert_eq!(held(127, 0, 126), 126);
        assert_eq!(held(127, 126, 0), 1);
        // The program may write anything.
        assert_eq!(held(127, u32::MAX, 3), 115);
    }
}
