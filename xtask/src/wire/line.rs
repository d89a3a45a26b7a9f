//! A bad line: what becomes of a frame between two ends. Times come in and go out, and randomness has a seed, so a game can be played again.

use std::collections::BinaryHeap;
use std::time::Duration;

/// In parts of a million, and how long a frame travels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quality {
    pub loss: u32,
    pub duplicates: u32,
    /// A byte is changed.
    pub damage: u32,
    /// Overtaken by what comes behind it.
    pub reorder: u32,
    pub delay: Duration,
}

const MILLION: u64 = 1_000_000;
/// How much longer a frame travels that is overtaken, at least.
const LATER: Duration = Duration::from_millis(2);

/// A frame under way: when it arrives; frames with the same time stay in order.
struct Travelling {
    at: Duration,
    number: u64,
    to: usize,
    bytes: Vec<u8>,
}

impl PartialEq for Travelling {
    fn eq(&self, other: &Travelling) -> bool {
        self.cmp(other).is_eq()
    }
}
impl Eq for Travelling {}
impl PartialOrd for Travelling {
    fn partial_cmp(&self, other: &Travelling) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Travelling {
    /// The earliest is the greatest.
    fn cmp(&self, other: &Travelling) -> std::cmp::Ordering {
        (other.at, other.number).cmp(&(self.at, self.number))
    }
}

pub struct Line {
    pub quality: Quality,
    random: u64,
    travelling: BinaryHeap<Travelling>,
    number: u64,
}

impl Line {
    pub fn new(quality: Quality, seed: u64) -> Line {
        Line {
            quality,
            random: seed | 1,
            travelling: BinaryHeap::new(),
            number: 0,
        }
    }

    fn below(&mut self, n: u64) -> u64 {
        // xorshift64*.
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        (self.random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 20) % n
    }

    fn happens(&mut self, millionths: u32) -> bool {
        millionths > 0 && self.below(MILLION) < u64::from(millionths)
    }

    /// A frame sets out to the end `to`.
    pub fn send(&mut self, now: Duration, to: usize, frame: &[u8]) {
        let copies = 1 + u32::from(self.happens(self.quality.duplicates));
        for _ in 0..copies {
            if self.happens(self.quality.loss) {
                continue;
            }
            let mut bytes = frame.to_vec();
            if self.happens(self.quality.damage) && !bytes.is_empty() {
                let at = self.below(bytes.len() as u64) as usize;
                bytes[at] ^= 1 << self.below(8);
            }
            let mut at = now + self.quality.delay;
            if self.happens(self.quality.reorder) {
                at += LATER + self.quality.delay / 2;
            }
            self.number += 1;
            self.travelling.push(Travelling {
                at,
                number: self.number,
                to,
                bytes,
            });
        }
    }

    /// A frame that has arrived by now.
    pub fn arrived(&mut self, now: Duration) -> Option<(usize, Vec<u8>)> {
        if self.travelling.peek()?.at > now {
            return None;
        }
        self.travelling.pop().map(|frame| (frame.to, frame.bytes))
    }

    /// When the next one arrives.
    pub fn next(&self) -> Option<Duration> {
        self.travelling.peek().map(|frame| frame.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn play(quality: Quality) -> Vec<Vec<u8>> {
        let mut line = Line::new(quality, 5);
        let mut out = Vec::new();
        for i in 0..1000u32 {
            let now = Duration::from_millis(i.into());
            line.send(now, 0, &i.to_be_bytes());
            while let Some((_, frame)) = line.arrived(now) {
                out.push(frame);
            }
        }
        while let Some((_, frame)) = line.arrived(Duration::MAX) {
            out.push(frame);
        }
        out
    }

    #[test]
    fn a_good_line_changes_nothing() {
        let expected: Vec<Vec<u8>> = (0..1000u32).map(|i| i.to_be_bytes().to_vec()).collect();
        assert_eq!(play(Quality::default()), expected);
        let slow = Quality {
            delay: Duration::from_millis(30),
            ..Quality::default()
        };
        assert_eq!(play(slow), expected);
    }

    #[test]
    fn a_bad_one_does_what_was_asked_for() {
        let tenth = 100_000;
        let lossy = play(Quality {
            loss: tenth,
            ..Quality::default()
        });
        assert!((850..950).contains(&lossy.len()));
        let doubled = play(Quality {
            duplicates: tenth,
            ..Quality::default()
        });
        assert!((1050..1150).contains(&doubled.len()));
        let mixed = play(Quality {
            reorder: tenth,
            ..Quality::default()
        });
        assert_eq!(mixed.len(), 1000);
        let late = mixed.windows(2).filter(|two| two[0] > two[1]).count();
        assert!((50..150).contains(&late), "{late}");
        let damaged = play(Quality {
            damage: tenth,
            ..Quality::default()
        });
        let wrong = damaged.iter().enumerate();
        let wrong = wrong.filter(|(i, frame)| **frame != (*i as u32).to_be_bytes());
        assert!((50..150).contains(&wrong.count()));
    }
}
