//! What a socket has to read: its bytes in one ring, cut into segments. A segment is a datagram or packet, or a piece of a stream that came with the same credentials and at most one message's descriptors.
//!
//! The lengths of all segments together are what the ring holds. While nothing but bytes of a stream that came with nothing waits, they are only counted
//! ([`Queue::plain`]): they become a segment when anything else is done than to add and take such bytes.

use crate::names::Name;
use crate::rights::Rights;
use alloc::collections::VecDeque;
use alloc::rc::Rc;
use cairn_resmgr::ring::{Buffers, Ring};

/// Bytes that fit unless SO_SNDBUF says otherwise, and the most and least that it may say.
pub const CAPACITY: usize = 212_992;
pub const CAPACITY_MAX: usize = 425_984;
pub const CAPACITY_MIN: usize = 4608;
/// Most segments of one queue.
pub const SEGMENTS: usize = 256;

/// Who sent something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Credentials {
    pub pid: u32,
    pub uid: u32,
    pub gid: u32,
}

#[derive(Default)]
pub struct Segment {
    pub length: usize,
    pub credentials: Option<Credentials>,
    /// The name of a datagram's sender.
    pub from: Option<Rc<Name>>,
    pub rights: Rights,
    /// When it was sent (ns since 1970), if its receiver asked.
    pub stamp: u64,
    pub urgent: Urgent,
}

/// Is a segment of one byte what was sent with MSG_OOB last?
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Urgent {
    #[default]
    No,
    Waits,
    /// It was received with MSG_OOB: only its place is left.
    Taken,
}

impl Segment {
    /// Bytes of a stream that come with nothing may go on a segment that has nothing either.
    fn is_plain(&self) -> bool {
        self.credentials.is_none()
            && self.from.is_none()
            && self.rights.is_empty()
            && self.urgent == Urgent::No
    }
}

pub struct Queue {
    pub ring: Ring,
    pub segments: VecDeque<Segment>,
    /// Bytes in the ring that are in no segment: where there are any there is no segment, but room for one.
    plain: usize,
    /// Segments that [wait](Urgent::Waits) urgently, of which there is one at most, and that were [taken](Urgent::Taken).
    pub urgent: usize,
    pub taken: usize,
}

impl Default for Queue {
    fn default() -> Self {
        Queue {
            ring: Ring::new(CAPACITY_MAX),
            segments: VecDeque::new(),
            plain: 0,
            urgent: 0,
            taken: 0,
        }
    }
}

impl Queue {
    #[inline]
    pub fn bytes(&self) -> usize {
        self.ring.len()
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.ring.is_empty() && self.segments.is_empty()
    }

    /// Room for so many bytes more of who may have `limit` there. None if no further segment fits.
    #[inline]
    pub fn room(&self, limit: usize) -> usize {
        match self.segments.len() < SEGMENTS {
            true => limit.min(CAPACITY_MAX).saturating_sub(self.bytes()),
            false => 0,
        }
    }

    /// The plain bytes, if they are all that waits.
    #[inline(always)]
    pub fn plain(&self) -> usize {
        self.plain
    }

    /// More plain bytes were put in the ring. False: they must be in a segment ([`Queue::added`]).
    #[inline(always)]
    pub fn added_plain(&mut self, length: usize) -> bool {
        let counted = self.segments.is_empty();
        if counted {
            self.plain += length;
        }
        counted
    }

    #[inline(always)]
    pub fn used_plain(&mut self, length: usize) {
        self.plain -= length;
    }

    /// From here on all bytes are in segments.
    #[inline]
    pub fn cut(&mut self) {
        if self.plain != 0 {
            self.segments.push_back(Segment {
                length: core::mem::take(&mut self.plain),
                ..Segment::default()
            });
        }
    }

    /// Bytes of a stream were put in the ring: they are part of the last segment if they and it came with nothing else.
    #[inline]
    pub fn added(&mut self, segment: Segment) {
        match self.segments.back_mut() {
            Some(last) if segment.is_plain() && last.is_plain() => last.length += segment.length,
            _ => self.segments.push_back(segment),
        }
    }

    /// The first `length` bytes of the first segment have left the ring; true if that was all of it.
    #[inline]
    pub fn used(&mut self, length: usize) -> bool {
        match self.segments.front_mut() {
            Some(first) if first.length > length => {
                first.length -= length;
                false
            }
            _ => {
                match self.segments.pop_front().map_or(Urgent::No, |of| of.urgent) {
                    Urgent::No => {}
                    Urgent::Waits => self.urgent -= 1,
                    Urgent::Taken => self.taken -= 1,
                }
                true
            }
        }
    }

    /// The last segment is urgent: the one that was so before is a byte as any other.
    #[cold]
    pub fn last_is_urgent(&mut self) {
        let mut segments = self.segments.iter_mut();
        if let Some(before) = segments.rfind(|of| of.urgent == Urgent::Waits) {
            before.urgent = Urgent::No;
            self.urgent -= 1;
        }
        if let Some(last) = self.segments.back_mut() {
            last.urgent = Urgent::Waits;
            self.urgent += 1;
        }
    }

    /// Where the urgent byte is: its segment, and how many bytes are before it.
    #[cold]
    pub fn urgent_place(&self) -> Option<(usize, usize)> {
        let mut before = 0;
        for (at, segment) in self.segments.iter().enumerate() {
            if segment.urgent == Urgent::Waits {
                return Some((at, before));
            }
            before += segment.length;
        }
        None
    }

    /// Is the next byte that is read the one behind an urgent one, or that one itself?
    pub fn at_mark(&self) -> bool {
        let first = self.segments.front();
        first.is_some_and(|first| first.urgent != Urgent::No)
    }

    /// Has it anything to be read but places of bytes that were taken?
    #[inline]
    pub fn is_readable(&self) -> bool {
        !self.is_empty() && (self.taken == 0 || self.bytes() > self.taken)
    }

    /// Is its first segment passed over by what reads the bytes in order? `inline`: an urgent byte is one of them.
    pub fn passes(&self, at: usize, inline: bool) -> bool {
        match self.segments.get(at).map(|of| of.urgent) {
            Some(Urgent::Taken) => true,
            Some(Urgent::Waits) => !inline,
            _ => false,
        }
    }

    /// Everything goes; the segments come back, as the descriptors in them are to be closed.
    pub fn clear(&mut self, buffers: &mut Buffers) -> VecDeque<Segment> {
        self.ring.clear(buffers);
        (self.plain, self.urgent, self.taken) = (0, 0, 0);
        core::mem::take(&mut self.segments)
    }
}
