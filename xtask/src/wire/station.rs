//! The other end of a native test's link: it answers frames of a kind of its own, and leaves all others alone. What it is asked for stands behind the Ethernet header:
//!
//! | byte 0 | bytes | it sends |
//! | --- | --- | --- |
//! | 1 | anything | the frame back, to its sender |
//! | 2 | 1–4 count, 5–6 length | so many frames of this length, numbered from 0 in bytes 1 to 4, whose further bytes are number + place; then one with 3 in byte 0 |
//! | 5 | – | a frame to a group, one to all, one to another station, each with 5 in byte 0 and 1, 2, 3 in byte 1; then one with 3 in byte 0 |
//! | (of IPv4) | – | all behind the header, with 6 in front; the frame back to its sender; the same with its last byte changed; then one with 3 in byte 0 |
//! | 4 | – | frames that are none: too short, far too long, of other kinds, with wrong lengths inside; then one with 3 in byte 0 |

use super::switch::{Address, HEADER};

/// "Local experimental" (IEEE 802).
const KIND: [u8; 2] = [0x88, 0xb5];
pub const ADDRESS: Address = [2, 0, 0, 0, 0, 1];
const ECHO: u8 = 1;
const FLOOD: u8 = 2;
const END: u8 = 3;
const DAMAGED: u8 = 4;
const OTHERS: u8 = 5;
const SUMS: u8 = 6;
const IPV4: [u8; 2] = [8, 0];
/// A group of IPv4's (RFC 1112), all, and nobody.
const TO_OTHERS: [Address; 3] = [[1, 0, 0x5e, 1, 2, 3], [0xff; 6], [2, 0, 0, 0, 0, 0x77]];
/// A flood has at most so many frames.
const MOST: u32 = 1_000_000;

fn frame(to: &[u8], body: &[u8]) -> Vec<u8> {
    [to, &ADDRESS, &KIND, body].concat()
}

/// What it says to a frame.
pub fn answers(came: &[u8]) -> Box<dyn Iterator<Item = Vec<u8>> + Send> {
    let nothing = || Box::new(std::iter::empty());
    let (Some(header), Some(body)) = (came.get(..HEADER), came.get(HEADER..)) else {
        return nothing();
    };
    if header[..6] != ADDRESS {
        return nothing();
    }
    let sender = header[6..12].to_vec();
    let end = std::iter::once(frame(&sender, &[END]));
    if header[12..] == IPV4 {
        let told = frame(&sender, &[&[SUMS], body].concat());
        let back = [&sender, &ADDRESS[..], &IPV4, body].concat();
        let mut other = back.clone();
        if let Some(last) = other.last_mut() {
            *last ^= 0xff;
        }
        return Box::new([told, back, other].into_iter().chain(end));
    }
    if header[12..] != KIND {
        return nothing();
    }
    match body {
        [ECHO, ..] => Box::new(std::iter::once(frame(&sender, body))),
        &[FLOOD, a, b, c, d, e, f, ..] => {
            let count = u32::from_le_bytes([a, b, c, d]).min(MOST);
            let length = usize::from(u16::from_le_bytes([e, f])).clamp(HEADER + 5, 1514) - HEADER;
            let frames = (0..count).map(move |number| {
                let mut body: Vec<u8> = (0..length).map(|i| (i as u32 + number) as u8).collect();
                body[0] = FLOOD;
                body[1..5].copy_from_slice(&number.to_le_bytes());
                frame(&sender, &body)
            });
            Box::new(frames.chain(end))
        }
        [DAMAGED, ..] => {
            let short = (1..60).map(|length| vec![0xee; length]);
            let long =
                [1515, 2036, 2037, 4084, 4085, 9000, 20_000].map(|length| vec![0xee; length]);
            let strange = (0..200u16).map(move |i| {
                let mut body = frame(&sender, &[0xee; 100]);
                body[12..14].copy_from_slice(&i.wrapping_mul(331).to_be_bytes());
                body
            });
            Box::new(short.chain(long).chain(strange).chain(end))
        }
        [OTHERS, ..] => {
            let numbered = TO_OTHERS.into_iter().zip(1..);
            let frames = numbered.map(|(to, number)| frame(&to, &[OTHERS, number]));
            Box::new(frames.chain(end))
        }
        _ => nothing(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(body: &[u8]) -> Vec<u8> {
        [&ADDRESS[..], &[2, 0, 0, 0, 0, 9], &KIND, body].concat()
    }

    #[test]
    fn it_answers_its_own_frames_only() {
        let echo: Vec<_> = answers(&asked(&[ECHO, 7, 8])).collect();
        assert_eq!(echo, [frame(&[2, 0, 0, 0, 0, 9], &[ECHO, 7, 8])]);
        assert_eq!(answers(&asked(&[])).count(), 0);
        assert_eq!(answers(&asked(&[END])).count(), 0);
        assert_eq!(answers(&[1, 2, 3]).count(), 0);
        let mut other = asked(&[ECHO]);
        other[12] = 9;
        assert_eq!(answers(&other).count(), 0);
    }

    #[test]
    fn there_is_much_that_is_no_frame() {
        let all: Vec<_> = answers(&asked(&[DAMAGED])).collect();
        assert!(all.iter().any(|frame| frame.len() < HEADER));
        assert!(all.iter().any(|frame| frame.len() > 16_000));
        assert_eq!(all.last().map(|frame| frame[HEADER]), Some(END));
    }

    #[test]
    fn a_packet_comes_back_told_right_and_wrong() {
        let asked = [&ADDRESS[..], &[2, 0, 0, 0, 0, 9], &IPV4, &[1, 2, 3]].concat();
        let all: Vec<_> = answers(&asked).collect();
        assert_eq!(all[0][HEADER..], [SUMS, 1, 2, 3]);
        assert_eq!(all[1][6..], [&ADDRESS[..], &IPV4, &[1, 2, 3]].concat());
        assert_eq!((all[2][HEADER + 2], all.len()), (3 ^ 0xff, 4));
    }

    #[test]
    fn others_get_a_frame_each() {
        let all: Vec<_> = answers(&asked(&[OTHERS])).collect();
        let groups: Vec<u8> = all.iter().map(|frame| frame[0] & 1).collect();
        assert_eq!(groups, [1, 1, 0, 0]);
        assert_eq!(all[2][HEADER..], [OTHERS, 3]);
    }

    #[test]
    fn a_flood_has_as_many_as_were_asked_for() {
        let all: Vec<_> = answers(&asked(&[FLOOD, 3, 0, 0, 0, 64, 0])).collect();
        assert_eq!(all.len(), 4);
        assert_eq!(all[2].len(), 64);
        assert_eq!(all[2][HEADER..HEADER + 6], [FLOOD, 2, 0, 0, 0, 5 + 2]);
        assert_eq!(all[3][HEADER], END);
    }
}
