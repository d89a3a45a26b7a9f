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
}

impl Segment {
    /// Bytes of a stream that come with nothing may go on a segment that has nothing either.
    fn is_plain(&self) -> bool {
        self.credentials.is_none() && self.from.is_none() && self.rights.is_empty()
    }
}

pub struct Queue {
    pub ring: Ring,
    pub segments: VecDeque<Segment>,
    /// Bytes in the ring that are in no segment: where there are any there is no segment, but room for one.
    plain: usize,
}

impl Default for Queue {
    fn default() -> Self {
        Queue {
            ring: Ring::new(CAPACITY_MAX),
            segments: VecDeque::new(),
            plain: 0,
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
                self.segments.pop_front();
                true
            }
        }
    }

    /// Everything goes; the segments come back, as the descriptors in them are to be closed.
    pub fn clear(&mut self, buffers: &mut Buffers) -> VecDeque<Segment> {
        self.ring.clear(buffers);
        self.plain = 0;
        core::mem::take(&mut self.segments)
    }
}
