//! Where a virtio device has its registers: vendor capabilities of its configuration space (4.1.4). What they say is checked by whoever maps the windows.

/// Offsets in the configuration space.
const STATUS: u32 = 4;
const HAS_CAPABILITIES: u32 = 1 << 20;
const FIRST: u32 = 0x34;
const VENDOR: u32 = 9;
/// More do not fit into 256 bytes.
const MOST: usize = 48;
/// Kinds of capabilities.
const COMMON: u32 = 1;
const NOTIFY: u32 = 2;
const DEVICE: u32 = 4;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    pub bar: u32,
    pub offset: u32,
    pub length: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Places {
    pub common: Place,
    pub notify: Place,
    /// A queue's number there times this is where it is notified.
    pub multiplier: u32,
    pub device: Place,
}

/// `read` gives aligned words of the configuration space. None: it is no device of virtio 1.
pub fn find(mut read: impl FnMut(u32) -> Option<u32>) -> Option<Places> {
    if read(STATUS)? & HAS_CAPABILITIES == 0 {
        return None;
    }
    let mut places = Places::default();
    let mut found = [false; 3];
    let mut at = read(FIRST)? & 0xfc;
    for _ in 0..MOST {
        if at == 0 || at > 240 {
            break;
        }
        let head = read(at)?;
        if head & 0xff == VENDOR {
            let place = Place {
                bar: read(at + 4)? & 0xff,
                offset: read(at + 8)?,
                length: read(at + 12)?,
            };
            // The first of each kind is the one that the device likes best.
            match head >> 24 {
                COMMON if !found[0] => (places.common, found[0]) = (place, true),
                NOTIFY if !found[1] => {
                    (places.notify, found[1]) = (place, true);
                    places.multiplier = read(at + 16)?;
                }
                DEVICE if !found[2] => (places.device, found[2]) = (place, true),
                _ => {}
            }
        }
        at = head >> 8 & 0xfc;
    }
    (found == [true; 3]).then_some(places)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space(capabilities: &[(u32, [u32; 5])]) -> impl FnMut(u32) -> Option<u32> + '_ {
        move |at| match at {
            STATUS => Some(HAS_CAPABILITIES),
            FIRST => Some(capabilities.first().map_or(0, |c| c.0)),
            _ => Some(capabilities.iter().fold(0, |word, (place, words)| {
                let i = (at.wrapping_sub(*place) / 4) as usize;
                *words.get(i).unwrap_or(&word)
            })),
        }
    }

    #[test]
    fn the_first_of_each_kind_is_found() {
        let list = [
            (0x40, [9 | 0x50 << 8 | 16 << 16 | 1 << 24, 4, 0, 0x1000, 0]),
            (0x50, [5 | 0x60 << 8, 1, 2, 3, 4]),
            (0x60, [9 | 0x74 << 8 | 2 << 24, 4, 0x3000, 0x1000, 4]),
            (0x74, [9 | 0x88 << 8 | 4 << 24, 4, 0x2000, 0x1000, 0]),
            (0x88, [9 | 1 << 24, 1, 7, 7, 0]),
        ];
        let places = find(space(&list)).expect("all three");
        let common = Place {
            bar: 4,
            offset: 0,
            length: 0x1000,
        };
        assert_eq!((places.common, places.multiplier), (common, 4));
        assert_eq!(
            (places.notify.offset, places.device.offset),
            (0x3000, 0x2000)
        );
        assert_eq!(find(space(&list[..3])), None);
        // A chain without end.
        let round = [(0x40, [9 | 0x40 << 8 | 1 << 24, 0, 0, 0, 0])];
        assert_eq!(find(space(&round)), None);
        assert_eq!(find(|_| None), None);
        assert_eq!(find(|_| Some(0)), None);
    }
}
