//! A packet that is longer than its link carries, in pieces. Each has so many bytes `front` before it, which are the link's.

use crate::packet::{IPV4, IPV6};
use alloc::vec::Vec;
use cairn_ethernet::extensions::{uncut, FRAGMENT, PIECE};
use cairn_ethernet::fragments::checksum;
use cairn_ethernet::options::of_later_piece;

/// RFC 791, 3.2. (Who forbids it has been told of the MTU by its way.)
pub fn v4(packet: &[u8], mtu: usize, front: usize, mut put: impl FnMut(&mut [u8])) {
    let length = packet
        .first()
        .map_or(0, |first| usize::from(first & 15) * 4);
    let Some((head, payload)) = packet.split_at_checked(length) else {
        return;
    };
    let each = mtu.saturating_sub(length) / 8 * 8;
    if length < IPV4 || head[6] & 0x40 != 0 || each == 0 {
        return;
    }
    let mut bytes = Vec::new();
    if bytes.try_reserve_exact(front + length + each).is_err() {
        return;
    }
    for (i, piece) in payload.chunks(each).enumerate() {
        let more = (i + 1) * each < payload.len();
        bytes.clear();
        bytes.resize(front, 0);
        bytes.extend_from_slice(head);
        bytes.extend_from_slice(piece);
        let own = &mut bytes[front..];
        if i != 0 {
            of_later_piece(&mut own[IPV4..length]);
        }
        own[2..4].copy_from_slice(&((length + piece.len()) as u16).to_be_bytes());
        let flags = (i * each / 8) as u16 | u16::from(more) << 13;
        own[6..8].copy_from_slice(&flags.to_be_bytes());
        own[10..12].fill(0);
        let sum = checksum(&own[..length]);
        own[10..12].copy_from_slice(&sum.to_be_bytes());
        put(&mut bytes);
    }
}

/// RFC 8200, 4.5; the number is one that nobody guesses (RFC 7739).
pub fn v6(packet: &[u8], mtu: usize, front: usize, number: u32, mut put: impl FnMut(&mut [u8])) {
    let (length, named_at) = uncut(packet);
    let Some((head, payload)) = packet.split_at_checked(length) else {
        return;
    };
    let each = mtu.saturating_sub(length + FRAGMENT) / 8 * 8;
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
        bytes.extend_from_slice(&[head[named_at], 0, a, b]);
        bytes.extend_from_slice(&number.to_be_bytes());
        bytes.extend_from_slice(piece);
        let own = &mut bytes[front..];
        let behind = length - IPV6 + FRAGMENT + piece.len();
        own[4..6].copy_from_slice(&(behind as u16).to_be_bytes());
        own[named_at] = PIECE;
        put(&mut bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_ethernet::extensions::{follow, Chain};
    use cairn_ethernet::fragments::{Fragments, Outcome};

    #[test]
    fn options_of_one_machine_are_in_the_first_piece_alone() {
        let mut packet = vec![
            0x48, 0, 0, 0, 0, 7, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
        ];
        packet.extend([148, 4, 0, 0, 7, 7, 4, 0, 0, 0, 0, 0]);
        packet.extend((0..100).map(|at| at as u8));
        let length = packet.len() as u16;
        packet[2..4].copy_from_slice(&length.to_be_bytes());
        let mut fragments = Fragments::new(1_000_000);
        let (mut pieces, mut whole) = (Vec::new(), None);
        v4(&packet, 80, 4, |piece| {
            assert!(piece.len() <= 84);
            assert_eq!(checksum(&piece[4..36]), 0);
            if let Outcome::Complete(joined) = fragments.arrives(5, &piece[4..]) {
                whole = Some(joined);
            }
            pieces.push(piece[24..36].to_vec());
        });
        assert_eq!(pieces.len(), 3);
        assert_eq!(pieces[0], packet[20..32]);
        assert_eq!(pieces[1], [148, 4, 0, 0, 1, 1, 1, 1, 1, 1, 1, 0]);
        assert_eq!(whole.unwrap()[32..], packet[32..]);
    }

    #[test]
    fn what_is_for_every_hop_is_in_every_piece() {
        let mut packet = vec![0; IPV6];
        (packet[0], packet[6], packet[7], packet[23], packet[39]) = (0x60, 0, 64, 1, 2);
        packet.extend([60, 0, 1, 4, 0, 0, 0, 0, 17, 0, 1, 4, 0, 0, 0, 0]);
        packet.extend((0..200).map(|at| at as u8));
        packet[4..6].copy_from_slice(&216u16.to_be_bytes());
        let mut fragments = Fragments::new(1_000_000);
        let (mut count, mut whole) = (0, None);
        v6(&packet, 120, 2, 99, |piece| {
            count += 1;
            assert!(piece.len() <= 122 && piece[2 + 6] == 0);
            assert!(matches!(follow(&piece[2..]), Chain::Piece(of) if of.at == 48));
            if let Outcome::Complete(joined) = fragments.arrives_v6(5, &piece[2..]) {
                whole = Some(joined);
            }
        });
        assert_eq!((count, whole.unwrap()), (4, packet));
    }
}
