//! POSIX message queues: by name, each a file that is open as a descriptor. The oldest message of the highest priority is received first; priorities that a queue has messages of are in order.

use crate::line::{Line, Waiters, NONE};
use crate::msg::Text;
use crate::server::Kept;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use cairn_abi::Id;
use cairn_idl::errno::*;
use cairn_rt::Portal;
use cairn_slab::Slab;

/// Priorities are below this.
pub const PRIORITIES: u64 = 32768;
/// What mq_open(3) gives without attributes, the most that anybody asks for, unless the limits say otherwise; and the most that who has the privilege over the
/// system does.
pub const DEFAULT: (u64, u64) = (10, 8192);
pub const MOST: (u64, u64) = (10, 8192);
pub const HARD: (u64, u64) = (65536, 16 << 20);
/// A limit of bytes is no less.
pub const SIZE_LEAST: u64 = 128;
/// Queues of a name space, for who lacks that privilege, unless the limits say otherwise.
pub const QUEUES: u64 = 256;
pub const NAME: usize = 255;
/// What a message costs beside its text.
pub const MESSAGE_COST: usize = size_of::<Option<Message>>() + 16;

#[derive(Debug)]
pub struct Message {
    pub text: Text,
    next: u32,
}

#[derive(Clone, Copy, Debug)]
struct OfPriority {
    priority: u32,
    first: u32,
    last: u32,
}

/// mq_notify(3): by which signal (0: none) and value which process is told, or by which portal.
#[derive(Clone, Copy, Debug)]
pub struct Notify {
    pub domain: Id,
    pub life: u64,
    pub signal: u64,
    pub value: u64,
    pub portal: Option<Portal>,
}

#[derive(Debug)]
pub struct Queue {
    pub space: u32,
    pub name: Vec<u8>,
    /// It has its name still.
    pub named: bool,
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub ino: u64,
    pub most: u64,
    pub size: u64,
    pub count: u64,
    pub bytes: u64,
    /// Descriptors that are open.
    pub open: u32,
    list: Vec<OfPriority>,
    /// Who is to be told of the next message.
    pub notify: Option<Notify>,
    pub receivers: Line,
    pub senders: Line,
    /// What RLIMIT_MSGQUEUE counts of it, for its maker.
    pub counted: u64,
    pub kept: Kept,
}

/// What RLIMIT_MSGQUEUE counts of a queue: its messages' texts and records, full.
pub fn counted(most: u64, size: u64) -> Option<u64> {
    const NODE: u64 = 56;
    const RECORD: u64 = 48;
    most.checked_mul(size)?
        .checked_add(most.min(PRIORITIES) * NODE + most * RECORD)
}

impl Queue {
    pub fn is_full(&self) -> bool {
        self.count >= self.most
    }

    /// Is somebody to be told when the next message comes?
    pub fn tells(&self) -> bool {
        self.notify.is_some() && self.count == 0 && self.receivers.is_empty()
    }

    /// What is to be charged before a message of so many bytes more comes in, beside what is.
    pub fn lacks(&self, length: usize) -> usize {
        let needed = self.bytes as usize
            + length
            + (self.count as usize + 1) * MESSAGE_COST
            + own_cost(self.name.len());
        match needed > self.kept.bytes {
            true => (needed - self.kept.bytes).next_multiple_of(1024),
            false => 0,
        }
    }
}

/// What a queue costs without messages.
pub fn own_cost(name: usize) -> usize {
    size_of::<Queue>() + 2 * name + 128
}

#[derive(Default)]
pub struct Queues {
    pub all: Slab<Queue>,
    names: BTreeMap<(u32, Vec<u8>), u32>,
    messages: Slab<Message>,
    /// By name space, and by user what RLIMIT_MSGQUEUE counts.
    counts: BTreeMap<u32, u64>,
    pub users: BTreeMap<u32, u64>,
    last_ino: u64,
}

impl Queues {
    pub fn with_name(&self, space: u32, name: Vec<u8>) -> Option<u32> {
        self.names.get(&(space, name)).copied()
    }

    /// One that has a name there.
    pub fn first_of(&self, space: u32) -> Option<u32> {
        let from = (space, Vec::new());
        let (place, at) = self.names.range(from..).next()?;
        (place.0 == space).then_some(*at)
    }

    pub fn count(&self, space: u32) -> u64 {
        self.counts.get(&space).copied().unwrap_or(0)
    }

    pub fn messages(&self) -> usize {
        self.messages.len()
    }

    pub fn make(
        &mut self,
        (space, name): (u32, Vec<u8>),
        (mode, uid, gid): (u32, u32, u32),
        (most, size, counted): (u64, u64, u64),
        kept: Kept,
    ) -> Result<u32, i64> {
        self.last_ino += 1;
        let at = self.all.insert(Queue {
            space,
            name: name.clone(),
            named: true,
            mode,
            uid,
            gid,
            ino: self.last_ino,
            most,
            size,
            count: 0,
            bytes: 0,
            open: 0,
            list: Vec::new(),
            notify: None,
            receivers: Line::default(),
            senders: Line::default(),
            counted,
            kept,
        });
        let at = at.ok_or(ENOMEM)?;
        self.names.insert((space, name), at);
        *self.counts.entry(space).or_default() += 1;
        *self.users.entry(uid).or_default() += counted;
        Ok(at)
    }

    /// Its name goes; it lives as long as it is open → what is to be given back.
    pub fn unlink(&mut self, at: u32) -> Option<Kept> {
        let queue = self.all.get_mut(at)?;
        queue.named = false;
        let place = (queue.space, queue.name.clone());
        let space = queue.space;
        self.names.remove(&place);
        lower(&mut self.counts, space, 1);
        self.drop_unused(at)
    }

    /// One descriptor fewer.
    pub fn close(&mut self, at: u32) -> Option<Kept> {
        let queue = self.all.get_mut(at)?;
        queue.open = queue.open.saturating_sub(1);
        self.drop_unused(at)
    }

    fn drop_unused(&mut self, at: u32) -> Option<Kept> {
        let queue = self.all.get(at)?;
        if queue.named || queue.open != 0 {
            return None;
        }
        let queue = self.all.remove(at)?;
        for of in &queue.list {
            let mut number = of.first;
            while let Some(message) = self.messages.remove(number) {
                number = message.next;
            }
        }
        lower(&mut self.users, queue.uid, queue.counted);
        Some(queue.kept)
    }

    /// A message goes in, for which there is room, and the first receiver goes on.
    pub fn send(
        &mut self,
        waiters: &mut Waiters,
        at: u32,
        priority: u32,
        text: Text,
    ) -> Result<(), i64> {
        let queue = self.all.get_mut(at).ok_or(EBADF)?;
        let place = queue.list.binary_search_by_key(&priority, |of| of.priority);
        if place.is_err() && queue.list.try_reserve(1).is_err() {
            return Err(ENOMEM);
        }
        let length = text.len() as u64;
        let number = self.messages.insert(Message { text, next: NONE });
        let number = number.ok_or(ENOMEM)?;
        match place {
            Ok(place) => {
                let last = core::mem::replace(&mut queue.list[place].last, number);
                if let Some(last) = self.messages.get_mut(last) {
                    last.next = number;
                }
            }
            Err(place) => {
                let (first, last) = (number, number);
                let of = OfPriority {
                    priority,
                    first,
                    last,
                };
                queue.list.insert(place, of);
            }
        }
        queue.count += 1;
        queue.bytes += length;
        if !queue.receivers.is_empty() {
            waiters.wake(queue.receivers.first);
        }
        Ok(())
    }

    /// The message that comes next.
    pub fn next(&self, at: u32) -> Option<&[u8]> {
        let of = self.all.get(at)?.list.last()?;
        Some(self.messages.get(of.first)?.text.bytes())
    }

    /// Take it; the first sender goes on.
    pub fn take(&mut self, waiters: &mut Waiters, at: u32) -> Option<(u32, Text)> {
        let queue = self.all.get_mut(at)?;
        let of = queue.list.last_mut()?;
        let priority = of.priority;
        let message = self.messages.remove(of.first)?;
        match message.next {
            NONE => drop(queue.list.pop()),
            next => of.first = next,
        }
        queue.count -= 1;
        queue.bytes -= message.text.len() as u64;
        if !queue.senders.is_empty() {
            waiters.wake(queue.senders.first);
        }
        Some((priority, message.text))
    }

    /// Who waits first goes on, if there is something for it: another one that was woken did not take it.
    pub fn offer(&self, waiters: &mut Waiters, at: u32) {
        let Some(queue) = self.all.get(at) else {
            return;
        };
        if queue.count != 0 && !queue.receivers.is_empty() {
            waiters.wake(queue.receivers.first);
        }
        if !queue.is_full() && !queue.senders.is_empty() {
            waiters.wake(queue.senders.first);
        }
    }
}

fn lower(map: &mut BTreeMap<u32, u64>, key: u32, by: u64) {
    match map.get_mut(&key) {
        Some(value) if *value > by => *value -= by,
        _ => drop(map.remove(&key)),
    }
}
