//! Options of IPv4 (RFC 791, 3.1): those that a program asks for, those that come, and what an answer says of them. Source routes are taken from nobody.

use alloc::vec::Vec;

/// Most bytes of them.
pub const MOST: usize = 40;

const END: u8 = 0;
const NOTHING: u8 = 1;
const RECORD: u8 = 7;
const TIME: u8 = 68;
const LOOSE_ROUTE: u8 = 131;
const STRICT_ROUTE: u8 = 137;
const ALERT: u8 = 148;
/// An option with this bit is in every piece of a packet.
const COPIED: u8 = 0x80;

/// Why options are not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// The byte here is wrong.
    At(usize),
    /// They would lead the packet elsewhere.
    Route,
    /// Only somebody with a privilege may send the one here.
    Privileged(usize),
}

/// What stands in the place of a time, and whose: milliseconds since midnight (UT), and which addresses are this machine's.
pub struct Here<'a> {
    pub address: [u8; 4],
    pub time: u32,
    pub is_own: &'a dyn Fn([u8; 4]) -> bool,
}

/// An option's place and length.
fn each(
    options: &[u8],
    mut with: impl FnMut(usize, &[u8]) -> Result<(), Wrong>,
) -> Result<(), Wrong> {
    let mut at = 0;
    while let Some(kind) = options.get(at).copied() {
        match kind {
            END => return Ok(()),
            NOTHING => {
                at += 1;
                continue;
            }
            _ => {}
        }
        let length = options.get(at + 1).map_or(0, |length| usize::from(*length));
        let own = options.get(at..at + length).filter(|_| length >= 2);
        with(at, own.ok_or(Wrong::At(at))?)?;
        at += length;
    }
    Ok(())
}

/// How long what one machine writes is, in an option for times. None: nobody knows this kind.
fn time_entry(option: &[u8]) -> Option<usize> {
    match option[3] & 15 {
        0 => Some(4),
        1 | 3 => Some(8),
        _ => None,
    }
}

/// Look at all of them; nothing is changed.
pub fn check(options: &[u8]) -> Result<(), Wrong> {
    let (mut records, mut times) = (false, false);
    each(options, |at, option| {
        let pointer = option.get(2).map_or(0, |pointer| usize::from(*pointer));
        match option[0] {
            RECORD => {
                if core::mem::replace(&mut records, true) {
                    return Err(Wrong::At(at));
                }
                if option.len() < 3 {
                    return Err(Wrong::At(at + 1));
                }
                if pointer < 4 || pointer <= option.len() && pointer + 3 > option.len() {
                    return Err(Wrong::At(at + 2));
                }
            }
            TIME => {
                if core::mem::replace(&mut times, true) {
                    return Err(Wrong::At(at));
                }
                if option.len() < 4 {
                    return Err(Wrong::At(at + 1));
                }
                if pointer < 5 {
                    return Err(Wrong::At(at + 2));
                }
                let full = pointer > option.len();
                match time_entry(option) {
                    // So many machines found no place that it cannot be said any more.
                    _ if full && option[3] >> 4 == 15 => return Err(Wrong::At(at + 3)),
                    _ if full => {}
                    None => return Err(Wrong::Privileged(at + 3)),
                    Some(entry) if pointer + entry - 1 > option.len() => {
                        return Err(Wrong::At(at + 2))
                    }
                    Some(_) => {}
                }
            }
            LOOSE_ROUTE | STRICT_ROUTE => return Err(Wrong::Route),
            ALERT if option.len() < 4 => return Err(Wrong::At(at + 1)),
            ALERT => {}
            _ => return Err(Wrong::Privileged(at)),
        }
        Ok(())
    })
}

/// Those that a program wants to send, as long as a header has them: up to a multiple of four bytes. `privileged`: also such as nobody here knows.
pub fn asked(options: &[u8], privileged: bool) -> Option<Vec<u8>> {
    match check(options) {
        Ok(()) => {}
        Err(Wrong::Privileged(_)) if privileged => {}
        Err(_) => return None,
    }
    let mut bytes = Vec::from(options);
    // Behind the end there is nothing.
    let mut end = bytes.len();
    let mut at = 0;
    while let Some(kind) = bytes.get(at).copied() {
        at += match kind {
            END => {
                end = at;
                break;
            }
            NOTHING => 1,
            _ => usize::from(*bytes.get(at + 1)?).max(1),
        };
    }
    bytes[end..].fill(END);
    bytes.resize(bytes.len().next_multiple_of(4), END);
    (bytes.len() <= MOST).then_some(bytes)
}

/// This machine writes what they ask of each: into what it sends, and into what came to it. They were checked.
pub fn mark(options: &mut [u8], here: &Here) {
    let mut at = 0;
    while let Some(kind) = options.get(at).copied() {
        if kind == END {
            return;
        }
        if kind == NOTHING {
            at += 1;
            continue;
        }
        let length = options.get(at + 1).map_or(0, |length| usize::from(*length));
        let Some(option) = options.get_mut(at..at + length).filter(|_| length >= 2) else {
            return;
        };
        match kind {
            RECORD => record(option, here),
            TIME => time(option, here),
            _ => {}
        }
        at += length;
    }
}

fn record(option: &mut [u8], here: &Here) {
    let Some(pointer) = option.get(2).map(|pointer| usize::from(*pointer)) else {
        return;
    };
    let Some(place) = pointer
        .checked_sub(1)
        .and_then(|at| option.get_mut(at..at + 4))
    else {
        return;
    };
    place.copy_from_slice(&here.address);
    option[2] += 4;
}

fn time(option: &mut [u8], here: &Here) {
    let Some(at) = option
        .get(2)
        .and_then(|pointer| usize::from(*pointer).checked_sub(1))
    else {
        return;
    };
    if at >= option.len() {
        // There is no place.
        if let Some(flags) = option.get_mut(3).filter(|flags| **flags >> 4 != 15) {
            *flags += 16;
        }
        return;
    }
    if option.len() < 4 {
        return;
    }
    let (kind, entry) = (option[3] & 15, time_entry(option));
    let Some(place) = entry.and_then(|entry| option.get_mut(at..at + entry)) else {
        return;
    };
    match (kind, place.first_chunk::<4>()) {
        (1, _) => place[..4].copy_from_slice(&here.address),
        // The next one is another machine's.
        (3, Some(theirs)) if !(here.is_own)(*theirs) => return,
        _ => {}
    }
    let end = place.len();
    place[end - 4..].copy_from_slice(&here.time.to_be_bytes());
    option[2] += end as u8;
}

/// What an answer to a packet with these says: where it has been, and when.
pub fn answer(options: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let _ = each(options, |_, option| {
        if matches!(option[0], RECORD | TIME) {
            bytes.extend_from_slice(option);
        }
        Ok(())
    });
    bytes.resize(bytes.len().next_multiple_of(4).min(MOST), END);
    bytes
}

/// Of a later piece: only those that belong in every piece.
pub fn of_later_piece(options: &mut [u8]) {
    let mut at = 0;
    while let Some(kind) = options.get(at).copied() {
        let length = match kind {
            END => return,
            NOTHING => 1,
            _ => options.get(at + 1).map_or(0, |length| usize::from(*length)),
        };
        let Some(option) = options.get_mut(at..at + length).filter(|_| length != 0) else {
            return;
        };
        if kind & COPIED == 0 {
            option.fill(NOTHING);
        }
        at += length;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn here(is_own: &dyn Fn([u8; 4]) -> bool) -> Here<'_> {
        Here {
            address: [10, 0, 0, 9],
            time: 0x01020304,
            is_own,
        }
    }

    #[test]
    fn what_programs_may_ask_for() {
        let record = [7, 11, 4, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(asked(&record, false).map(|of| of.len()), Some(12));
        assert_eq!(asked(&[1], false), Some(vec![1, 0, 0, 0]));
        assert_eq!(asked(&[1, 0, 9, 9], false), Some(vec![1, 0, 0, 0]));
        assert_eq!(asked(&[148, 4, 0, 0], false), Some(vec![148, 4, 0, 0]));
        assert_eq!(asked(&[130, 4, 0, 0], false), None);
        assert_eq!(asked(&[130, 4, 0, 0], true), Some(vec![130, 4, 0, 0]));
        for wrong in [
            &[7, 2][..],
            &[7, 7, 3, 0, 0, 0, 0],
            &[7, 7, 5, 0, 0, 0, 0],
            &[7, 9, 4, 0, 0, 0, 0],
            &[7, 3, 4, 7, 3, 4],
            &[7, 1, 4],
            &[7],
            &[131, 7, 4, 127, 0, 0, 1],
            &[137, 7, 4, 127, 0, 0, 1],
            &[68, 3, 5],
            &[68, 8, 4, 0, 0, 0, 0, 0],
            &[68, 8, 5, 1, 0, 0, 0, 0],
            &[68, 8, 9, 0xf0, 0, 0, 0, 0],
            &[148, 3, 0],
        ] {
            assert_eq!(asked(wrong, true), None, "{wrong:?}");
        }
        assert_eq!(asked(&[1; 41], true), None);
        assert!(asked(&[1; 40], true).is_some());
    }

    #[test]
    fn each_machine_writes_what_is_asked() {
        let own = |of: [u8; 4]| of == [10, 0, 0, 9];
        let mut record = vec![7, 11, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        mark(&mut record, &here(&own));
        assert_eq!(record, [7, 11, 8, 10, 0, 0, 9, 0, 0, 0, 0, 0]);
        mark(&mut record, &here(&own));
        mark(&mut record, &here(&own));
        assert_eq!(record, [7, 11, 12, 10, 0, 0, 9, 10, 0, 0, 9, 0]);
        let mut time = vec![68, 12, 5, 1, 0, 0, 0, 0, 0, 0, 0, 0];
        mark(&mut time, &here(&own));
        assert_eq!(time, [68, 12, 13, 1, 10, 0, 0, 9, 1, 2, 3, 4]);
        mark(&mut time, &here(&own));
        assert_eq!(time[3], 0x11);
        let mut asked = vec![68, 12, 5, 3, 10, 0, 0, 8, 0, 0, 0, 0];
        mark(&mut asked, &here(&own));
        assert_eq!(asked, [68, 12, 5, 3, 10, 0, 0, 8, 0, 0, 0, 0]);
        asked[7] = 9;
        mark(&mut asked, &here(&own));
        assert_eq!(asked, [68, 12, 13, 3, 10, 0, 0, 9, 1, 2, 3, 4]);
    }

    #[test]
    fn answers_and_pieces_have_some_of_them() {
        let all = [148, 4, 0, 0, 7, 7, 4, 0, 0, 0, 0, 1, 0, 0, 0, 0];
        assert_eq!(answer(&all), [7, 7, 4, 0, 0, 0, 0, 0]);
        let mut piece = all;
        of_later_piece(&mut piece);
        assert_eq!(piece, [148, 4, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0]);
    }

    #[test]
    fn whatever_comes_is_looked_at_and_no_further() {
        let mut word = 11u64;
        let mut random = || {
            word = word.wrapping_mul(6364136223846793005).wrapping_add(1);
            (word >> 40) as u8
        };
        let own = |of: [u8; 4]| of[0] < 2;
        for _ in 0..300_000 {
            let kinds = [0, 1, 7, 68, 131, 137, 148, 130];
            let length = usize::from(random() % 41);
            let mut bytes: Vec<u8> = (0..length).map(|_| random() % 14).collect();
            for at in (0..length).step_by(4) {
                bytes[at] = kinds[usize::from(random() % 8)];
            }
            let sound = check(&bytes);
            if let Err(Wrong::At(at) | Wrong::Privileged(at)) = sound {
                assert!(at <= length);
            }
            if let Some(asked) = asked(&bytes, true) {
                assert!(asked.len() <= MOST && asked.len().is_multiple_of(4));
            }
            mark(&mut bytes, &here(&own));
            // What was sound stays so.
            if sound.is_ok() {
                let again = check(&bytes);
                assert!(matches!(again, Ok(()) | Err(Wrong::At(_))), "{bytes:?}");
            }
            assert!(answer(&bytes).len() <= MOST);
            of_later_piece(&mut bytes);
        }
    }
}
