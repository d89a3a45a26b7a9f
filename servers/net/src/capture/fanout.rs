//! Groups of packet sockets that share frames (PACKET_FANOUT, packet(7)): each frame goes to one member, which the group's kind chooses.
//!
//! A group has at least one member and at most [`MEMBERS`]; all take the same frames, and the last one takes the group with it. Frames are given to groups
//! after those sockets that are in none.

use super::{kind, Capture, Seen, HEADER};
use crate::server::{fail, Net};
use alloc::vec::Vec;
use cairn_ethernet::extensions;
use cairn_idl::errno::*;
use cairn_resmgr::server::Answer;
use cairn_resmgr::Context;
use core::hash::BuildHasher;

const MEMBERS: usize = 256;
/// Kinds: by a flow's addresses and ports, in turn, by processor, by chance, by the link's queue.
const HASH: u8 = 0;
const IN_TURN: u8 = 1;
const PROCESSOR: u8 = 2;
const CHANCE: u8 = 4;
const QUEUE: u8 = 5;
/// Flags: any number that nobody has; and no frames that leave.
const UNIQUE: u16 = 0x2000;
const IGNORE_OUTGOING: u16 = 0x4000;
const TCP: u8 = 6;
const UDP: u8 = 17;

#[derive(Debug)]
pub(crate) struct Group {
    number: u16,
    kind: u8,
    flags: u16,
    takes: (u16, u32),
    members: Vec<u32>,
    next: usize,
}

/// Both ends of a frame's flow, so that both of its directions come to the same: addresses, and ports if it is no piece.
fn flow(frame: &[u8]) -> [&[u8]; 4] {
    let packet = frame.get(HEADER..).unwrap_or(&[]);
    let (addresses, protocol, start) = match (frame.get(12..HEADER), packet.get(9)) {
        (Some([8, 0]), Some(protocol)) => {
            let piece = packet[6] & 0x3f != 0 || packet[7] != 0;
            let start = usize::from(packet[0] & 15) * 4;
            (12..20, if piece { 0 } else { *protocol }, start)
        }
        (Some([0x86, 0xdd]), _) => match extensions::upper(packet) {
            Some((protocol, start)) => (8..40, protocol, start),
            None => (8..40, 0, 0),
        },
        _ => return [&[]; 4],
    };
    let ends = packet.get(addresses).unwrap_or(&[]);
    let (from, to) = ends.split_at(ends.len() / 2);
    let ports = match protocol {
        TCP | UDP => packet.get(start..start + 4).unwrap_or(&[]),
        _ => &[],
    };
    let (out, into) = ports.split_at(ports.len() / 2);
    match (from, out) <= (to, into) {
        true => [from, out, to, into],
        false => [to, into, from, out],
    }
}

impl Net {
    /// PACKET_FANOUT: `value` is the group's number, its kind and flags.
    pub(super) fn join_fanout(&mut self, index: u32, value: u32) -> Answer<()> {
        let [low, high, kind, flags] = value.to_le_bytes();
        let (mut number, flags) = (u16::from_le_bytes([low, high]), u16::from(flags) << 8);
        let further = self.socket(index)?.further;
        let capture = self.capture(index)?;
        if !matches!(kind, HASH | IN_TURN | PROCESSOR | CHANCE | QUEUE)
            || flags & !(UNIQUE | IGNORE_OUTGOING) != 0
            || capture.protocol == 0
        {
            return fail(EINVAL);
        }
        if capture.fanout.is_some() {
            return fail(EALREADY);
        }
        let takes = (capture.protocol, capture.interface);
        if flags & UNIQUE != 0 {
            if number != 0 {
                return fail(EINVAL);
            }
            match (1..=u16::MAX).find(|number| self.group(*number).is_none()) {
                Some(free) => number = free,
                None => return fail(ENOMEM),
            }
        }
        let flags = flags & !UNIQUE;
        let at = match self.group(number) {
            Some(at) => at,
            None => {
                if self.fanouts.try_reserve(1).is_err() {
                    return fail(ENOMEM);
                }
                self.fanouts.push(Group {
                    number,
                    kind,
                    flags,
                    takes,
                    members: Vec::new(),
                    next: 0,
                });
                self.fanouts.len() - 1
            }
        };
        let group = &mut self.fanouts[at];
        let joined = match () {
            _ if (group.kind, group.flags, group.takes) != (kind, flags, takes) => fail(EINVAL),
            _ if group.members.len() >= MEMBERS => fail(ENOSPC),
            _ if group.members.try_reserve(1).is_err() => fail(ENOMEM),
            _ => {
                group.members.push(further);
                Ok(())
            }
        };
        if self.fanouts[at].members.is_empty() {
            self.fanouts.swap_remove(at);
        }
        if joined.is_ok() {
            self.capture(index)?.fanout = Some(number);
        }
        joined
    }

    fn group(&self, number: u16) -> Option<usize> {
        self.fanouts.iter().position(|of| of.number == number)
    }

    pub(super) fn fanout_of(&mut self, index: u32) -> Answer<u64> {
        let number = self.capture(index)?.fanout;
        let group = number.and_then(|number| self.fanouts.get(self.group(number)?));
        Ok(group.map_or(0, |group| {
            u64::from(group.number) | u64::from(group.kind) << 16 | u64::from(group.flags) << 16
        }))
    }

    /// A socket is in its group no more.
    pub(super) fn leave_fanout(&mut self, further: u32, capture: &Capture) {
        let Some(at) = capture.fanout.and_then(|number| self.group(number)) else {
            return;
        };
        let members = &mut self.fanouts[at].members;
        members.retain(|of| *of != further);
        if members.is_empty() {
            self.fanouts.swap_remove(at);
        }
    }

    /// One member of each group that wants it gets a frame; of the group that it comes from nobody.
    pub(super) fn fan_out(&mut self, cx: &mut Context, seen: &Seen, time: u64, from: Option<u32>) {
        let from = from.and_then(|from| self.captures.get(from)?.fanout);
        for at in 0..self.fanouts.len() {
            let group = &self.fanouts[at];
            let first = group.members.first().copied();
            let wants = first.and_then(|first| self.captures.get(first));
            let outgoing = seen.kind == kind::OUTGOING && group.flags & IGNORE_OUTGOING != 0;
            if from == Some(group.number) || outgoing || !wants.is_some_and(|of| of.wants(seen)) {
                continue;
            }
            let place = match group.kind {
                IN_TURN => group.next,
                CHANCE => self.random_word() as usize >> 1,
                HASH => self.hash_key.hash_one(flow(seen.frame)) as usize,
                // (All frames are taken in by the one thread of this server, and a link has one queue.)
                _ => 0,
            };
            let group = &mut self.fanouts[at];
            group.next = group.next.wrapping_add(1);
            let count = group.members.len().max(1);
            if let Some(member) = group.members.get(place % count).copied() {
                self.give_frame(cx, member, seen, time);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_of_a_flow_are_one() {
        let packet = |from: [u8; 6], to: [u8; 6], more: u8| {
            let mut frame = vec![0; 12];
            frame.extend([8, 0, 0x45, 0, 0, 28, 0, 1, more, 0, 64, 17, 0, 0]);
            frame.extend(&from[..4]);
            frame.extend(&to[..4]);
            frame.extend(&from[4..]);
            frame.extend(&to[4..]);
            frame
        };
        let (one, two) = ([10, 0, 0, 1, 9, 9], [10, 0, 0, 2, 0, 53]);
        let (there, back) = (packet(one, two, 0), packet(two, one, 0));
        assert_eq!(flow(&there), flow(&back));
        assert_eq!(flow(&there)[1].len(), 2);
        let other = packet([10, 0, 0, 1, 9, 8], two, 0);
        assert_ne!(flow(&there), flow(&other));
        // Pieces have no ports.
        assert_eq!(flow(&packet(one, two, 0x20))[1], []);
        assert_eq!(flow(&there[..20])[0], []);
        let mut v6 = vec![0; 12];
        v6.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 16, 0, 64]);
        v6.extend([1; 16]);
        v6.extend([2; 16]);
        v6.extend([17, 0, 1, 4, 0, 0, 0, 0, 1, 2, 3, 4, 0, 8, 0, 0]);
        assert_eq!(flow(&v6)[1], [1, 2]);
        for length in 0..v6.len() {
            flow(&v6[..length]);
        }
    }
}
