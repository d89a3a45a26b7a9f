//! Packets that come in pieces (IPv4: RFC 791, 3.2; IPv6: RFC 8200, 4.5), put together within an account.
//!
//! Pieces that overlap end the packet, as RFC 8200 asks for of IPv6 and Linux does of both. When the account is full the oldest packet goes: who sends pieces
//! without end harms packets in pieces, and nothing else.

use crate::extensions::{end, follow, Chain, FRAGMENT, IPV6};
use crate::{NEVER, SECOND};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

/// Bytes that are kept, packets, and pieces of one.
pub const BYTES: usize = 1 << 20;
pub const PACKETS: usize = 128;
const PIECES: usize = 128;
/// How long a packet's pieces may take: of IPv4, as on Linux, and of IPv6.
pub const PATIENCE_V4: u64 = 30 * SECOND;
pub const PATIENCE_V6: u64 = 60 * SECOND;
/// Each costs its table's entry, too.
const OVERHEAD: usize = 128;
const HEADER: usize = 20;
const LONGEST: usize = 65_535;

/// What pieces of a packet have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    /// Addresses of IPv4 stand at the end.
    source: [u8; 16],
    destination: [u8; 16],
    number: u32,
    /// None: of IPv6, which does not tell packets apart by it.
    protocol: Option<u8>,
}

struct Pieces {
    since: u64,
    /// By where they begin; what lies there.
    list: BTreeMap<usize, Vec<u8>>,
    /// The first one's headers, a fragment header at the end included; and which byte names that.
    header: Option<(Vec<u8>, usize)>,
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

pub struct Fragments {
    patience: u64,
    packets: BTreeMap<Key, Pieces>,
    /// Oldest first. (Some may be gone.)
    order: VecDeque<(u64, Key)>,
    bytes: usize,
    /// Packets that were given up.
    pub lost: u64,
    /// The first pieces of those whose time was up: their senders are told (RFC 792; RFC 4443, 3.3).
    pub late: Vec<Vec<u8>>,
}

impl Pieces {
    fn put(&mut self, at: usize, bytes: &[u8], more: bool, most: usize) -> bool {
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
        if overlaps || beyond || odd || end > most || self.list.len() >= PIECES {
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
        let (length, (header, named_at)) = (self.length?, self.header.as_ref()?);
        let mut end = 0;
        for (start, piece) in &self.list {
            if *start != end {
                return None;
            }
            end += piece.len();
        }
        let is_v4 = header.first()? >> 4 == 4;
        let head = match is_v4 {
            true => header.len(),
            false => header.len() - FRAGMENT,
        };
        let whole = head + length;
        // What a header's length can say.
        let said = if is_v4 { whole } else { whole - IPV6 };
        if end != length || said > LONGEST {
            return None;
        }
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(whole).ok()?;
        bytes.extend_from_slice(&header[..head]);
        for piece in self.list.values() {
            bytes.extend_from_slice(piece);
        }
        let said = (said as u16).to_be_bytes();
        if is_v4 {
            bytes[2..4].copy_from_slice(&said);
            bytes[6..8].fill(0);
            bytes[10..12].fill(0);
            let sum = checksum(&bytes[..head]);
            bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        } else {
            bytes[4..6].copy_from_slice(&said);
            bytes[*named_at] = header[head];
        }
        Some(bytes)
    }

    /// The first piece as it came.
    fn first(&self) -> Option<Vec<u8>> {
        let ((header, _), (0, piece)) = (self.header.as_ref()?, self.list.first_key_value()?)
        else {
            return None;
        };
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(header.len() + piece.len()).ok()?;
        bytes.extend_from_slice(header);
        bytes.extend_from_slice(piece);
        Some(bytes)
    }
}

/// The Internet checksum (RFC 1071).
pub fn checksum(bytes: &[u8]) -> u16 {
    fold(sum(bytes))
}

/// The sum that a checksum is made of; of several parts, all but the last have an even length.
#[inline]
pub fn sum(bytes: &[u8]) -> u64 {
    // Eight bytes at a time, their first byte lowest: the sum's two bytes change places at the end (RFC 1071, 2).
    let (words, rest) = bytes.as_chunks::<8>();
    let mut wide = 0u64;
    for word in words {
        let (next, carry) = wide.overflowing_add(u64::from_le_bytes(*word));
        wide = next + u64::from(carry);
    }
    let mut sum = (wide & 0xffff_ffff) + (wide >> 32);
    let (pairs, rest) = rest.as_chunks::<2>();
    for pair in pairs {
        sum += u64::from(u16::from_le_bytes(*pair));
    }
    if let [last] = rest {
        sum += u64::from(*last);
    }
    u64::from((!fold(sum)).swap_bytes())
}

/// What is sent of a sum.
pub fn fold(mut sum: u64) -> u16 {
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

impl Fragments {
    /// Pieces of a packet may take so long.
    pub fn new(patience: u64) -> Fragments {
        Fragments {
            patience,
            packets: BTreeMap::new(),
            order: VecDeque::new(),
            bytes: 0,
            lost: 0,
            late: Vec::new(),
        }
    }

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

    fn keep_late(&mut self, late: bool, key: &Key) {
        let first = self
            .packets
            .get(key)
            .filter(|_| late)
            .and_then(Pieces::first);
        if let Some(first) = first {
            if self.late.len() < PACKETS && self.late.try_reserve(1).is_ok() {
                self.late.push(first);
            }
        }
    }

    /// Make room for so much more.
    fn shed(&mut self, now: u64, more: usize) {
        while let Some(&(since, key)) = self.order.front() {
            let there = self.packets.get(&key).is_some_and(|p| p.since == since);
            let full = self.packets.len() >= PACKETS
                || self.bytes + more > BYTES
                || self.order.len() >= 4 * PACKETS;
            let late = now.saturating_sub(since) >= self.patience;
            if there && !full && !late {
                return;
            }
            self.order.pop_front();
            if there {
                self.keep_late(late, &key);
                self.lose(&key);
            }
        }
    }

    /// When [`Fragments::time_passes`] is to be called.
    pub fn deadline(&self) -> u64 {
        self.order
            .front()
            .map_or(NEVER, |(since, _)| since + self.patience)
    }

    pub fn time_passes(&mut self, now: u64) {
        self.shed(now, 0);
    }

    /// A packet of IPv4 that came. Its header is looked at, and is not believed.
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
        let address = |at: usize| {
            let mut own = [0; 16];
            own[12..].copy_from_slice(&head[at..at + 4]);
            own
        };
        let key = Key {
            source: address(12),
            destination: address(16),
            number: u16::from_be_bytes([head[4], head[5]]).into(),
            protocol: Some(head[9]),
        };
        self.keep(now, key, (header, 0), (at, payload, more))
    }

    /// The same of IPv6. (What is wrong with a packet is said by [`follow`], to whoever gets it whole.)
    pub fn arrives_v6(&mut self, now: u64, packet: &[u8]) -> Outcome {
        let (Chain::Piece(piece), Some(end)) = (follow(packet), end(packet)) else {
            return Outcome::Whole;
        };
        let start = piece.at + FRAGMENT;
        let address = |at: usize| packet[at..].first_chunk().copied().unwrap_or_default();
        let key = Key {
            source: address(8),
            destination: address(24),
            number: piece.number,
            protocol: None,
        };
        let header = (&packet[..start], piece.named_at);
        let payload = (piece.offset, &packet[start..end], piece.more);
        self.keep(now, key, header, payload)
    }

    /// A piece: its headers, where in the packet it lies, its bytes, and whether more follow.
    fn keep(
        &mut self,
        now: u64,
        key: Key,
        (header, named_at): (&[u8], usize),
        (at, payload, more): (usize, &[u8], bool),
    ) -> Outcome {
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
        let most = match key.protocol {
            Some(_) => LONGEST - HEADER,
            None => LONGEST,
        };
        let fits = pieces.put(at, payload, more, most);
        if at == 0 && fits {
            pieces.bytes += header.len();
            pieces.header = Some((header.to_vec(), named_at));
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

    /// Eight bytes at a time or two: the same, whatever the length, and of parts as of the whole.
    #[test]
    fn a_sum_is_that_of_its_pairs() {
        let mut word = 9u64;
        let mut bytes = Vec::new();
        for length in 0..300 {
            let pairs = bytes.chunks(2).map(|pair: &[u8]| {
                u64::from(pair[0]) << 8 | u64::from(pair.get(1).copied().unwrap_or(0))
            });
            assert_eq!(checksum(&bytes), fold(pairs.sum()), "{length}");
            let (first, rest) = bytes.split_at(length / 4 * 2);
            assert_eq!(checksum(&bytes), fold(sum(first) + sum(rest)));
            word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            // (Many ones, so that much is carried.)
            bytes.push((word >> 56) as u8 | if word >> 40 & 1 == 0 { 0xff } else { 0 });
        }
        assert_eq!(checksum(&[0; 16]), 0xffff);
        assert_eq!(checksum(&[0xff; 16]), 0);
    }

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
            let mut fragments = Fragments::new(PATIENCE_V4);
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
        let mut fragments = Fragments::new(PATIENCE_V4);
        assert_eq!(
            fragments.arrives(0, &piece(9, 0, &data[..80], false)),
            Outcome::Whole
        );
    }

    #[test]
    fn pieces_that_cannot_be_end_their_packet() {
        let data = content(65_536);
        let wrong = |pieces: &[(usize, usize, bool)]| {
            let mut fragments = Fragments::new(PATIENCE_V4);
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
        let mut fragments = Fragments::new(PATIENCE_V4);
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
        let mut fragments = Fragments::new(PATIENCE_V4);
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
        fragments.time_passes(60_001 + PATIENCE_V4);
        assert_eq!((fragments.kept(), fragments.deadline()), ((0, 0), NEVER));
    }

    /// A piece of IPv6, behind eight bytes of options.
    fn piece_v6(number: u32, at: usize, bytes: &[u8], more: bool) -> Vec<u8> {
        let mut packet = vec![0; IPV6];
        (packet[0], packet[6], packet[7], packet[39]) = (0x60, 60, 64, 1);
        packet[4..6].copy_from_slice(&(16 + bytes.len() as u16).to_be_bytes());
        packet.extend_from_slice(&[44, 0, 1, 4, 0, 0, 0, 0]);
        let [a, b] = (at as u16 | u16::from(more)).to_be_bytes();
        packet.extend_from_slice(&[17, 0, a, b]);
        packet.extend_from_slice(&number.to_be_bytes());
        packet.extend_from_slice(bytes);
        packet
    }

    #[test]
    fn pieces_of_ipv6_are_put_together_in_any_order() {
        let data: Vec<u8> = (0..3000u32).map(|i| i as u8).collect();
        let parts = [(0, 1232), (1232, 2464), (2464, 3000)];
        for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0], [0, 2, 1]] {
            let mut fragments = Fragments::new(PATIENCE_V6);
            let mut last = Outcome::Whole;
            for i in order {
                let (from, to) = parts[i];
                last = fragments.arrives_v6(5, &piece_v6(9, from, &data[from..to], i < 2));
            }
            let Outcome::Complete(whole) = last else {
                panic!("{order:?}")
            };
            // The options stay, the fragment header goes.
            assert_eq!((whole.len(), whole[6], whole[40]), (48 + 3000, 60, 17));
            assert_eq!(
                (&whole[4..6], &whole[48..]),
                (&3008u16.to_be_bytes()[..], &data[..])
            );
            assert_eq!(fragments.kept(), (0, 0));
        }
        // Of others' numbers and addresses they are not.
        let mut fragments = Fragments::new(PATIENCE_V6);
        fragments.arrives_v6(0, &piece_v6(1, 0, &data[..1232], true));
        let mut foreign = piece_v6(1, 1232, &data[1232..], false);
        foreign[20] = 1;
        assert_eq!(fragments.arrives_v6(0, &foreign), Outcome::Kept);
        let other = piece_v6(2, 1232, &data[1232..], false);
        assert_eq!(fragments.arrives_v6(0, &other), Outcome::Kept);
        assert_eq!(fragments.kept().0, 3);
        // An overlap ends the packet.
        fragments.arrives_v6(0, &piece_v6(1, 1224, &data[1224..], false));
        assert_eq!((fragments.kept().0, fragments.lost), (2, 1));
    }

    #[test]
    fn the_first_piece_of_a_late_packet_is_told() {
        let data = [7; 64];
        let mut fragments = Fragments::new(PATIENCE_V6);
        let first = piece_v6(1, 0, &data, true);
        fragments.arrives_v6(0, &first);
        fragments.arrives_v6(0, &piece_v6(2, 64, &data, false));
        fragments.time_passes(PATIENCE_V6 - 1);
        assert!(fragments.late.is_empty());
        fragments.time_passes(PATIENCE_V6);
        assert_eq!(
            (&fragments.late[..], fragments.kept()),
            (&[first][..], (0, 0))
        );
        let mut fragments = Fragments::new(PATIENCE_V4);
        let first = piece(9, 0, &data, true);
        fragments.arrives(0, &first);
        fragments.time_passes(PATIENCE_V4);
        assert_eq!(fragments.late, [first]);
    }

    #[test]
    fn the_longest_packet_of_ipv6_and_no_longer_one() {
        let data = vec![1; 65_528];
        for (last, complete) in [(7, true), (8, false)] {
            let mut fragments = Fragments::new(PATIENCE_V6);
            // (Without options: what its length counts is what was cut.)
            let plain = |at: usize, bytes: &[u8], more| {
                let mut packet = piece_v6(3, at, bytes, more);
                packet.drain(IPV6..IPV6 + 8);
                packet[6] = 44;
                packet[4..6].copy_from_slice(&((8 + bytes.len()) as u16).to_be_bytes());
                packet
            };
            for at in (0..65_528).step_by(1424) {
                let to = (at + 1424).min(65_528);
                fragments.arrives_v6(0, &plain(at, &data[at..to], true));
            }
            let end = fragments.arrives_v6(0, &plain(65_528, &data[..last], false));
            assert_eq!(matches!(end, Outcome::Complete(_)), complete);
        }
    }
}
