//! A packet that is longer than its link carries, in pieces. Each has so many bytes `front` before it, which are the link's.

use crate::packet::{IPV4, IPV6};
use alloc::vec::Vec;
use cairn_ethernet::extensions::{FRAGMENT, PIECE};
use cairn_ethernet::fragments::checksum;

/// RFC 791, 3.2. (Who forbids it has been told of the MTU by its way.)
pub fn v4(packet: &[u8], mtu: usize, front: usize, mut put: impl FnMut(&mut [u8])) {
    let Some((head, payload)) = packet.split_first_chunk::<IPV4>() else {
        return;
    };
    let each = mtu.saturating_sub(IPV4) / 8 * 8;
    // This machine's packets have no options.
    if head[0] != 0x45 || head[6] & 0x40 != 0 || each == 0 {
        return;
    }
    let mut bytes = Vec::new();
    if bytes.try_reserve_exact(front + IPV4 + each).is_err() {
        return;
    }
    for (i, piece) in payload.chunks(each).enumerate() {
        let more = (i + 1) * each < payload.len();
        bytes.clear();
        bytes.resize(front, 0);
        bytes.extend_from_slice(head);
        bytes.extend_from_slice(piece);
        let own = &mut bytes[front..];
        own[2..4].copy_from_slice(&((IPV4 + piece.len()) as u16).to_be_bytes());
        let flags = (i * each / 8) as u16 | u16::from(more) << 13;
        own[6..8].copy_from_slice(&flags.to_be_bytes());
        own[10..12].fill(0);
        let sum = checksum(&own[..IPV4]);
        own[10..12].copy_from_slice(&sum.to_be_bytes());
        put(&mut bytes);
    }
}

/// RFC 8200, 4.5; the number is one that nobody guesses (RFC 7739).
pub fn v6(packet: &[u8], mtu: usize, front: usize, number: u32, mut put: impl FnMut(&mut [u8])) {
    let Some((head, payload)) = packet.split_first_chunk::<IPV6>() else {
        return;
    };
    let each = mtu.saturating_sub(IPV6 + FRAGMENT) / 8 * 8;
    let mut bytes = Vec::new();
    if each == 0 || bytes.try_reserve_exact(front + mtu).is_err() {
        return;
    }
    for (i, piece) in payload.chunks(each).enumerate() {
        let more = (i + 1) * each < payload.len();
        bytes.clear();
        bytes.resize(front, 0);
        bytes.extend_from_slice(head);
        let [a, b] = ((i * each) as u16 | u16::from(more)).to_be_bytes();
        bytes.extend_from_slice(&[head[6], 0, a, b]);
        bytes.extend_from_slice(&number.to_be_bytes());
        bytes.extend_from_slice(piece);
        let own = &mut bytes[front..];
        own[4..6].copy_from_slice(&((FRAGMENT + piece.len()) as u16).to_be_bytes());
        own[6] = PIECE;
        put(&mut bytes);
    }
}
