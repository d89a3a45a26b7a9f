//! The chain of headers of an IPv6 packet (RFC 8200, 4): options for every hop or the destination, routes, and pieces.

pub const IPV6: usize = 40;
/// A fragment header (RFC 8200, 4.5).
pub const FRAGMENT: usize = 8;
const LONGEST: usize = 65_535;

/// Next headers.
pub const HOP_BY_HOP: u8 = 0;
const TCP: u8 = 6;
pub const ROUTING: u8 = 43;
pub const PIECE: u8 = 44;
const NOTHING: u8 = 59;
pub const DESTINATION: u8 = 60;

/// Codes of the ICMPv6 message *parameter problem* (RFC 4443, 3.4; RFC 7112, 5).
const WRONG_FIELD: u8 = 0;
const UNKNOWN_HEADER: u8 = 1;
const UNKNOWN_OPTION: u8 = 2;
const INCOMPLETE_CHAIN: u8 = 3;

/// Where a chain leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chain {
    /// To what is above IP: its protocol, where the byte with it stands, and where it begins.
    Upper {
        protocol: u8,
        named_at: usize,
        start: usize,
    },
    /// The packet is a piece.
    Piece(Piece),
    /// Nobody hears of the packet.
    Drop,
    /// The sender is told what is wrong, and where; `group`: even if the packet went to a group.
    Problem { code: u8, at: usize, group: bool },
}

/// A piece of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Where its fragment header is, and the byte that names it.
    pub at: usize,
    pub named_at: usize,
    pub protocol: u8,
    pub offset: usize,
    pub more: bool,
    pub number: u32,
}

/// Where the packet ends, as its header says. None: it is none, or not all of it is there.
pub fn end(packet: &[u8]) -> Option<usize> {
    let head = packet.first_chunk::<IPV6>()?;
    let end = IPV6 + usize::from(u16::from_be_bytes([head[4], head[5]]));
    (head[0] >> 4 == 6 && end <= packet.len()).then_some(end)
}

/// Follow the chain of a packet.
pub fn follow(packet: &[u8]) -> Chain {
    let Some(packet) = end(packet).and_then(|end| packet.get(..end)) else {
        return Chain::Drop;
    };
    let chain = walk(packet, packet[6], 6, IPV6);
    let Chain::Piece(piece) = chain else {
        return chain;
    };
    let wrong = |at| Chain::Problem {
        code: WRONG_FIELD,
        at,
        group: false,
    };
    let length = packet.len() - piece.at - FRAGMENT;
    if piece.more && !length.is_multiple_of(8) {
        return wrong(4);
    }
    if piece.at - IPV6 + piece.offset + length > LONGEST {
        return wrong(piece.at + 2);
    }
    // The first piece has all headers (RFC 7112).
    if piece.offset == 0 && piece.more && !reaches_upper(packet, &piece) {
        return Chain::Problem {
            code: INCOMPLETE_CHAIN,
            at: 0,
            group: false,
        };
    }
    match piece.offset == 0 && !piece.more {
        // The only piece of its packet (RFC 6946). No piece is cut again.
        true => match walk(packet, piece.protocol, piece.at, piece.at + FRAGMENT) {
            Chain::Piece(_) => Chain::Drop,
            rest => rest,
        },
        false => chain,
    }
}

fn reaches_upper(packet: &[u8], piece: &Piece) -> bool {
    match walk(packet, piece.protocol, piece.at, piece.at + FRAGMENT) {
        Chain::Upper {
            protocol, start, ..
        } => packet.len() - start >= if protocol == TCP { 20 } else { 8 },
        Chain::Piece(_) | Chain::Drop => false,
        // That is told of the whole.
        Chain::Problem { .. } => true,
    }
}

fn walk(packet: &[u8], mut protocol: u8, mut named_at: usize, mut at: usize) -> Chain {
    loop {
        let length = match protocol {
            HOP_BY_HOP if at != IPV6 => {
                return Chain::Problem {
                    code: UNKNOWN_HEADER,
                    at: named_at,
                    group: false,
                }
            }
            NOTHING => return Chain::Drop,
            HOP_BY_HOP | DESTINATION | ROUTING => match packet.get(at + 1) {
                Some(length) => usize::from(*length) * 8 + 8,
                None => return Chain::Drop,
            },
            PIECE => FRAGMENT,
            _ => {
                return Chain::Upper {
                    protocol,
                    named_at,
                    start: at,
                }
            }
        };
        let Some(header) = packet.get(at..at + length) else {
            return Chain::Drop;
        };
        match protocol {
            PIECE => {
                let flags = u16::from_be_bytes([header[2], header[3]]);
                return Chain::Piece(Piece {
                    at,
                    named_at,
                    protocol: header[0],
                    offset: usize::from(flags & !7),
                    more: flags & 1 != 0,
                    number: u32::from_be_bytes([header[4], header[5], header[6], header[7]]),
                });
            }
            // This machine is on nobody's route (RFC 8200, 4.4; RFC 5095).
            ROUTING if header[3] != 0 => {
                return Chain::Problem {
                    code: WRONG_FIELD,
                    at: at + 2,
                    group: false,
                }
            }
            ROUTING => {}
            _ => {
                if let Err(refused) = options(header, at) {
                    return refused;
                }
            }
        }
        (protocol, named_at, at) = (header[0], at, at + length);
    }
}

/// What is above IP in a packet of which perhaps only the beginning is there: its protocol, and where it begins. Whatever its headers say is passed over. None:
/// they lead nowhere, or less than eight bytes of it are there.
pub fn upper(packet: &[u8]) -> Option<(u8, usize)> {
    let mut protocol = *packet.get(6)?;
    let mut at = IPV6;
    loop {
        let header = packet.get(at..).filter(|rest| rest.len() >= FRAGMENT)?;
        let length = match protocol {
            // Behind its first piece nobody knows.
            PIECE if header[2] != 0 || header[3] & !7 != 0 => return None,
            PIECE => FRAGMENT,
            HOP_BY_HOP | DESTINATION | ROUTING => usize::from(header[1]) * 8 + 8,
            _ => return Some((protocol, at)),
        };
        (protocol, at) = (header[0], at + length);
    }
}

/// Does the packet carry a message of an error, as far as it can be seen? What leads nowhere is taken for one.
pub fn carries_error(packet: &[u8]) -> bool {
    const ICMP: u8 = 58;
    upper(packet).is_none_or(|(protocol, at)| protocol == ICMP && packet[at] < 128)
}

/// The headers with options and routes of a packet, each with its kind, until one is not there as a whole.
pub fn each(packet: &[u8], mut with: impl FnMut(u8, &[u8])) {
    let (mut protocol, mut at) = (packet.get(6).copied().unwrap_or(NOTHING), IPV6);
    loop {
        let length = match (protocol, packet.get(at + 1)) {
            (HOP_BY_HOP | DESTINATION | ROUTING, Some(length)) => usize::from(*length) * 8 + 8,
            (PIECE, Some(_)) => FRAGMENT,
            _ => return,
        };
        let Some(header) = packet.get(at..at + length) else {
            return;
        };
        if protocol != PIECE {
            with(protocol, header);
        }
        (protocol, at) = (header[0], at + length);
    }
}

/// How much of a packet stands in front of its fragment header, when it is cut: what is for every hop (RFC 8200, 4.5); and the byte that names what follows.
pub fn uncut(packet: &[u8]) -> (usize, usize) {
    let mut found = (IPV6, 6);
    let mut at = IPV6;
    each(packet, |kind, header| {
        let before = at;
        at += header.len();
        if matches!(kind, HOP_BY_HOP | ROUTING) {
            found = (at, before);
        }
    });
    found
}

/// Options are none of this machine's: what is to be done is in two bits of an option's type (RFC 8200, 4.2).
fn options(header: &[u8], place: usize) -> Result<(), Chain> {
    /// Padding, and a word for routers.
    const KNOWN: [u8; 2] = [1, 5];
    let mut at = 2;
    while let Some(kind) = header.get(at).copied() {
        if kind == 0 {
            at += 1;
            continue;
        }
        let Some(length) = header.get(at + 1).map(|length| usize::from(*length)) else {
            return Err(Chain::Drop);
        };
        if at + 2 + length > header.len() {
            return Err(Chain::Drop);
        }
        let action = kind >> 6;
        if action != 0 && !KNOWN.contains(&kind) {
            return Err(match action {
                1 => Chain::Drop,
                _ => Chain::Problem {
                    code: UNKNOWN_OPTION,
                    at: place + at,
                    group: action == 2,
                },
            });
        }
        at += 2 + length;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;

    fn packet(first: u8, rest: &[u8]) -> Vec<u8> {
        let mut packet = vec![0; IPV6];
        (packet[0], packet[6], packet[7]) = (0x60, first, 64);
        packet[4..6].copy_from_slice(&(rest.len() as u16).to_be_bytes());
        packet.extend_from_slice(rest);
        packet
    }

    fn problem(code: u8, at: usize) -> Chain {
        Chain::Problem {
            code,
            at,
            group: false,
        }
    }

    fn piece(offset: u16, more: bool, protocol: u8, data: usize) -> Vec<u8> {
        let [a, b] = (offset | u16::from(more)).to_be_bytes();
        let mut rest = vec![protocol, 0, a, b, 0, 0, 0, 9];
        rest.resize(FRAGMENT + data, 0);
        packet(PIECE, &rest)
    }

    #[test]
    fn a_chain_leads_to_its_end() {
        let upper = |protocol, named_at, start| Chain::Upper {
            protocol,
            named_at,
            start,
        };
        assert_eq!(follow(&packet(17, &[0; 8])), upper(17, 6, 40));
        // Hop by hop with padding, destination of 16 bytes, a route that is at its end, an unknown protocol.
        let mut rest = vec![60, 0, 5, 2, 0, 0, 1, 0];
        rest.extend_from_slice(&[43, 1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        rest.extend_from_slice(&[99, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(follow(&packet(0, &rest)), upper(99, 64, 72));
        assert_eq!(follow(&packet(59, &[0; 8])), Chain::Drop);
        // Behind another, it is no header for each hop.
        let rest = [0, 0, 1, 4, 0, 0, 0, 0, 17, 0, 1, 4, 0, 0, 0, 0];
        assert_eq!(follow(&packet(60, &rest)), problem(1, 40));
        assert_eq!(
            follow(&packet(43, &[17, 0, 0, 3, 0, 0, 0, 0])),
            problem(0, 42)
        );
        // What says that it is longer than the packet.
        assert_eq!(follow(&packet(60, &[17, 1, 1, 4, 0, 0, 0, 0])), Chain::Drop);
        assert_eq!(follow(&packet(60, &[17])), Chain::Drop);
        assert_eq!(follow(&packet(60, &[17, 0, 1, 9, 0, 0, 0, 0])), Chain::Drop);
        let mut short = packet(17, &[0; 8]);
        short.pop();
        assert_eq!(follow(&short), Chain::Drop);
    }

    #[test]
    fn what_becomes_of_an_unknown_option_says_its_type() {
        let with = |kind| follow(&packet(60, &[17, 0, kind, 4, 0, 0, 0, 0]));
        assert!(matches!(with(0x1e), Chain::Upper { start: 48, .. }));
        assert_eq!(with(0x5e), Chain::Drop);
        let group = |group| Chain::Problem {
            code: 2,
            at: 42,
            group,
        };
        assert_eq!((with(0x9e), with(0xde)), (group(true), group(false)));
    }

    #[test]
    fn pieces_are_found_and_wrong_ones_refused() {
        let Chain::Piece(found) = follow(&piece(1232, true, 17, 64)) else {
            panic!()
        };
        let expected = Piece {
            at: 40,
            named_at: 6,
            protocol: 17,
            offset: 1232,
            more: true,
            number: 9,
        };
        assert_eq!(found, expected);
        assert_eq!(follow(&piece(8, true, 17, 63)), problem(0, 4));
        assert_eq!(follow(&piece(65_528, false, 17, 8)), problem(0, 42));
        // The first one without all of the header above.
        assert_eq!(follow(&piece(0, true, TCP, 16)), problem(3, 0));
        let mut behind_options = piece(0, true, DESTINATION, 8);
        behind_options[48] = 17;
        assert_eq!(follow(&behind_options), problem(3, 0));
        assert!(matches!(follow(&piece(0, true, 17, 8)), Chain::Piece(_)));
        let mut twice = piece(0, false, PIECE, 16);
        twice[50] = 1;
        assert_eq!(follow(&twice), Chain::Drop);
        // The only one is no piece.
        assert!(matches!(
            follow(&piece(0, false, 17, 8)),
            Chain::Upper { start: 48, .. }
        ));
    }

    #[test]
    fn errors_are_known_behind_any_headers() {
        let error = |kind| {
            carries_error(&packet(
                60,
                &[58, 0, 0xde, 4, 0, 0, 0, 0, kind, 0, 0, 0, 0, 0, 0, 0],
            ))
        };
        assert!(error(1) && !error(128));
        assert!(carries_error(&packet(60, &[58, 7, 0, 0, 0, 0, 0, 0])));
        assert!(!carries_error(&piece(0, true, 17, 8)) && carries_error(&piece(0, true, 58, 8)));
        assert!(carries_error(&piece(8, false, 17, 8)) && carries_error(&[]));
    }

    #[test]
    fn headers_one_by_one_and_what_is_in_every_piece() {
        let mut rest = vec![60, 0, 1, 4, 0, 0, 0, 0];
        rest.extend_from_slice(&[43, 0, 1, 4, 1, 1, 1, 1]);
        rest.extend_from_slice(&[60, 0, 1, 0, 0, 0, 0, 0]);
        rest.extend_from_slice(&[17, 0, 1, 4, 2, 2, 2, 2, 7, 7, 7, 7, 7, 7, 7, 7]);
        let whole = packet(0, &rest);
        let mut seen = Vec::new();
        each(&whole, |kind, header| seen.push((kind, header[4])));
        assert_eq!(seen, [(0, 0), (60, 1), (43, 0), (60, 2)]);
        assert_eq!(uncut(&whole), (64, 56));
        assert_eq!(upper(&whole), Some((17, 72)));
        assert_eq!(upper(&whole[..79]), None);
        assert_eq!(uncut(&packet(60, &rest[24..])), (40, 6));
        assert_eq!(uncut(&packet(0, &rest[24..])), (48, 40));
    }

    #[test]
    fn whatever_comes_is_looked_at_and_no_further() {
        let mut word = 7u64;
        let mut random = || {
            word = word.wrapping_mul(6364136223846793005).wrapping_add(1);
            (word >> 40) as u8
        };
        for _ in 0..200_000 {
            let length = usize::from(random() % 80);
            let kinds = [0, 43, 44, 60, 59, 6, 17, 58];
            let mut rest: Vec<u8> = (0..length).map(|_| random() % 8).collect();
            for at in (0..length).step_by(8) {
                rest[at] = kinds[usize::from(random() % 8)];
            }
            let whole = packet(kinds[usize::from(random() % 8)], &rest);
            carries_error(&whole);
            let (end, named_at) = uncut(&whole);
            assert!(named_at < end && end <= whole.len());
            let (mut read, mut last) = (IPV6, None);
            each(&whole, |kind, header| {
                read += header.len();
                last = Some((kind, header.len()));
            });
            assert!(read <= whole.len());
            // Both ways through it come to the same.
            if let (
                Chain::Upper {
                    protocol, start, ..
                },
                Some(found),
            ) = (follow(&whole), upper(&whole))
            {
                assert_eq!((protocol, start), found);
            }
            match follow(&whole) {
                Chain::Upper {
                    start, named_at, ..
                } => assert!(named_at < start && start <= whole.len()),
                Chain::Piece(piece) => assert!(piece.at + FRAGMENT <= whole.len()),
                Chain::Problem { at, .. } => assert!(at < whole.len()),
                Chain::Drop => {}
            }
        }
    }
}
