//! Packets of IPv4 that come in pieces (RFC 791, 3.2), put together within an account.
//!
//! Pieces that overlap end the packet, as RFC 5722 asks for of IPv6 and Linux does of both. When the account is full the oldest packet goes: who sends pieces without end harms packets in pieces, and nothing else.

use crate::{Ip, NEVER, SECOND};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

/// Bytes that are kept, packets, and pieces of one.
pub const BYTES: usize = 1 << 20;
pub const PACKETS: usize = 128;
const PIECES: usize = 128;
/// How long a packet's pieces may take.
const PATIENCE: u64 = 30 * SECOND;
/// Each costs its table's entry, too.
const OVERHEAD: usize = 128;
const HEADER: usize = 20;
const LONGEST: usize = 65_535;

/// What pieces of a packet have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    source: Ip,
    destination: Ip,
    number: u16,
    protocol: u8,
}

struct Pieces {
    since: u64,
    /// By where they begin; what lies there.
    list: BTreeMap<usize, Vec<u8>>,
    /// The first one's header.
    header: Option<Vec<u8>>,
    /// The whole length, when the last piece is there.
    length: Option<usize>,
    bytes: usize,
}

/// What became of a packet.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is no piece.
    Whole,
    /// It is kept, or nothing came of it.
    Kept,
    /// The whole packet, with a header that says so.
    Complete(Vec<u8>),
}

#[derive(Default)]
pub struct Fragments {
    packets: BTreeMap<Key, Pieces>,
    /// Oldest first. (Some may be gone.)
    order: VecDeque<(u64, Key)>,
    bytes: usize,
    /// Packets that were given up.
    pub lost: u64,
}

impl Pieces {
    fn put(&mut self, at: usize, bytes: &[u8], more: bool) -> bool {
        let end = at + bytes.len();
        let before = self.list.range(..=at).next_back();
        let overlaps = before.is_some_and(|(start, piece)| start + piece.len() > at)
            || self.list.range(at..end).next().is_some();
        let last = self.list.iter().next_back();
        let furthest = last.map_or(0, |(start, piece)| start + piece.len());
        let beyond = match (self.length, more) {
            (Some(length), true) => end > length,
            (Some(_), false) => true,
            (None, false) => furthest > end,
            (None, true) => false,
        };
        let odd = more && !bytes.len().is_multiple_of(8) || bytes.is_empty();
        if overlaps || beyond || odd || end + HEADER > LONGEST || self.list.len() >= PIECES {
            return false;
        }
        let mut own = Vec::new();
        if own.try_reserve_exact(bytes.len()).is_err() {
            return false;
        }
        own.extend_from_slice(bytes);
        if !more {
            self.length = Some(end);
        }
        self.bytes += own.len() + OVERHEAD;
        self.list.insert(at, own);
        true
    }

    /// All of it, if all of it is there.
    fn complete(&self) -> Option<Vec<u8>> {
        let (length, header) = (self.length?, self.header.as_ref()?);
        let mut end = 0;
        for (start, piece) in &self.list {
            if *start != end {
                return None;
            }
            end += piece.len();
        }
        let whole = header.len() + length;
        if end != length || whole > LONGEST {
            return None;
        }
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(whole).ok()?;
        bytes.extend_from_slice(header);
        for piece in self.list.values() {
            bytes.extend_from_slice(piece);
        }
        bytes[2..4].copy_from_slice(&(whole as u16).to_be_bytes());
        bytes[6..8].fill(0);
        bytes[10..12].fill(0);
        let sum = checksum(&bytes[..header.len()]);
        bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        Some(bytes)
    }
}

/// The Internet checksum (RFC 1071).
pub fn checksum(bytes: &[u8]) -> u16 {
    fold(sum(bytes))
}

/// The sum that a checksum is made of; of several parts, all but the last have an even length.
pub fn sum(bytes: &[u8]) -> u64 {
    let (pairs, rest) = bytes.as_chunks::<2>();
    let mut sum: u64 = pairs
        .iter()
        .map(|pair| u64::from(u16::from_be_bytes(*pair)))
        .sum();
    if let [last] = rest {
        sum += u64::from(*last) << 8;
    }
    sum
}

/// What is sent of a sum.
pub fn fold(mut sum: u64) -> u16 {
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

impl Fragments {
    /// How much is kept: packets and bytes.
    pub fn kept(&self) -> (usize, usize) {
        (self.packets.len(), self.bytes)
    }

    fn remove(&mut self, key: &Key) {
        if let Some(pieces) = self.packets.remove(key) {
            self.bytes -= pieces.bytes;
        }
    }

    fn lose(&mut self, key: &Key) {
        self.lost += u64::from(self.packets.contains_key(key));
        self.remove(key);
    }

    /// Make room for so much more.
    fn shed(&mut self, now: u64, more: usize) {
        while let Some(&(since, key)) = self.order.front() {
            let there = self.packets.get(&key).is_some_and(|p| p.since == since);
            let full = self.packets.len() >= PACKETS
                || self.bytes + more > BYTES
                || self.order.len() >= 4 * PACKETS;
            let late = now.saturating_sub(since) >= PATIENCE;
            if there && !full && !late {
                return;
            }
            self.order.pop_front();
            if there {
                self.lose(&key);
            }
        }
    }

    /// When [`Fragments::time_passes`] is to be called.
    pub fn deadline(&self) -> u64 {
        self.order
            .front()
            .map_or(NEVER, |(since, _)| since + PATIENCE)
    }

    pub fn time_passes(&mut self, now: u64) {
        self.shed(now, 0);
    }

    /// A packet that came. Its header is looked at, and is not believed.
    pub fn arrives(&mut self, now: u64, packet: &[u8]) -> Outcome {
        let Some(head) = packet.first_chunk::<HEADER>() else {
            return Outcome::Whole;
        };
        let flags = u16::from_be_bytes([head[6], head[7]]);
        let (more, at) = (flags & 0x2000 != 0, usize::from(flags & 0x1fff) * 8);
        if !more && at == 0 {
            return Outcome::Whole;
        }
        let length = usize::from(head[0] & 15) * 4;
        let total = usize::from(u16::from_be_bytes([head[2], head[3]]));
        let sane = head[0] >> 4 == 4 && length >= HEADER && total > length;
        let (Some(header), Some(payload), true) =
            (packet.get(..length), packet.get(length..total), sane)
        else {
            return Outcome::Kept;
        };
        if checksum(header) != 0 {
            return Outcome::Kept;
        }
        let key = Key {
            source: [head[12], head[13], head[14], head[15]],
            destination: [head[16], head[17], head[18], head[19]],
            number: u16::from_be_bytes([head[4], head[5]]),
            protocol: head[9],
        };
        self.shed(now, payload.len() + OVERHEAD);
        if !self.packets.contains_key(&key) {
            if self.order.try_reserve(1).is_err() {
                return Outcome::Kept;
            }
            self.order.push_back((now, key));
            let new = Pieces {
                since: now,
                list: BTreeMap::new(),
                header: None,
                length: None,
                bytes: 0,
            };
            self.packets.insert(key, new);
        }
        let Some(pieces) = self.packets.get_mut(&key) else {
            return Outcome::Kept;
        };
        let before = pieces.bytes;
        let fits = pieces.put(at, payload, more);
        if at == 0 && fits {
            pieces.header = Some(header.to_vec());
        }
        self.bytes += pieces.bytes - before;
        if !fits {
            self.lose(&key);
            return Outcome::Kept;
        }
        match pieces.complete() {
            Some(whole) => {
                self.remove(&key);
                Outcome::Complete(whole)
            }
            None => Outcome::Kept,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A piece of packet `number`, from byte `at` on.
    fn piece(number: u16, at: usize, bytes: &[u8], more: bool) -> Vec<u8> {
        let mut packet = vec![
            0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 2, 2, 10, 0, 2, 15,
        ];
        packet[2..4].copy_from_slice(&(20 + bytes.len() as u16).to_be_bytes());
        packet[4..6].copy_from_slice(&number.to_be_bytes());
        let flags = (at / 8) as u16 | u16::from(more) << 13;
        packet[6..8].copy_from_slice(&flags.to_be_bytes());
        let sum = checksum(&packet);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        packet.extend_from_slice(bytes);
        packet
    }

    fn content(length: usize) -> Vec<u8> {
        (0..length).map(|i| (i * 7 + i / 256) as u8).collect()
    }

    #[test]
    fn pieces_come_together_in_any_order() {
        let data = content(3000);
        let parts = [(0, 1480), (1480, 2960), (2960, 3000)];
        for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2], [2, 0, 1]] {
            let mut fragments = Fragments::default();
            let mut last = Outcome::Kept;
            for i in order {
                assert_eq!(last, Outcome::Kept);
                let (from, to) = parts[i];
                last = fragments.arrives(5, &piece(9, from, &data[from..to], i < 2));
            }
            let Outcome::Complete(whole) = last else {
                panic!("{order:?}");
            };
            assert_eq!(whole[20..], data);
            assert_eq!((checksum(&whole[..20]), whole.len()), (0, 3020));
            assert_eq!((&whole[6..8], fragments.kept()), (&[0, 0][..], (0, 0)));
        }
        let mut fragments = Fragments::default();
        assert_eq!(
            fragments.arrives(0, &piece(9, 0, &data[..80], false)),
            Outcome::Whole
        );
    }

    #[test]
    fn pieces_that_cannot_be_end_their_packet() {
        let data = content(65_536);
        let wrong = |pieces: &[(usize, usize, bool)]| {
            let mut fragments = Fragments::default();
            for &(from, to, more) in pieces {
                let outcome = fragments.arrives(0, &piece(1, from, &data[from..to], more));
                assert_eq!(outcome, Outcome::Kept);
            }
            fragments.kept().0 == 0 && fragments.lost == 1
        };
        assert!(wrong(&[(0, 16, true), (8, 24, true)]), "they overlap");
        assert!(wrong(&[(8, 24, true), (0, 16, true)]));
        assert!(wrong(&[(0, 16, true), (0, 16, true)]));
        assert!(wrong(&[(8, 16, true), (0, 24, true)]));
        assert!(wrong(&[(0, 13, true)]), "no multiple of eight");
        assert!(wrong(&[(16, 32, false), (32, 40, true)]), "beyond the end");
        assert!(wrong(&[(32, 40, true), (16, 24, false)]));
        assert!(wrong(&[(16, 32, false), (40, 48, false)]), "two ends");
        assert!(wrong(&[(65_504, 65_536, true)]), "too long");
        assert!(!wrong(&[(0, 16, true), (24, 32, true)]));
    }

    #[test]
    fn headers_are_not_believed() {
        let mut fragments = Fragments::default();
        let good = piece(1, 0, &content(64), true);
        for cut in 0..good.len() {
            fragments.arrives(0, &good[..cut]);
        }
        for bit in 0..20 * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            fragments.arrives(0, &bad);
        }
        assert_eq!(fragments.kept(), (0, 0));
    }

    #[test]
    fn the_account_holds() {
        let mut fragments = Fragments::default();
        let data = content(1480);
        for number in 0..60_000u32 {
            fragments.arrives(u64::from(number), &piece(number as u16, 1480, &data, true));
            let (packets, bytes) = fragments.kept();
            assert!(packets <= PACKETS && bytes <= BYTES);
        }
        // Many that come through while one does not.
        for number in 0..10_000 {
            fragments.arrives(60_000, &piece(number, 0, &data, true));
            fragments.arrives(60_000, &piece(number, 1480, &data, false));
        }
        assert!(fragments.order.len() <= 4 * PACKETS);
        // A packet that is whole meanwhile comes through.
        fragments.arrives(60_000, &piece(60_000, 0, &data, true));
        let last = fragments.arrives(60_001, &piece(60_000, 1480, &data, false));
        assert!(matches!(last, Outcome::Complete(_)));
        // Whatever is left goes with time.
        fragments.time_passes(60_001 + PATIENCE);
        assert_eq!((fragments.kept(), fragments.deadline()), ((0, 0), NEVER));
    }
}
