//! Disks as a cut of power may leave them. What a flush covered is there; of what was written since, any part: each piece of 4 KiB is there or not. (A device that tears
//! a smaller piece apart is not in the model.)

use super::game::Random;
use super::recorder::Event;
use std::sync::Arc;

const PIECE: usize = 4096;

/// One disk to be looked at: which operations may show and which must.
pub struct Cut {
    pub image: Vec<u8>,
    pub done: usize,
    pub issued: usize,
    /// For whoever reads of a violation.
    pub what: String,
}

/// All disks of a record, one by one: after every flush what is durable, and `samples` others before it.
pub struct Cuts<'a> {
    events: &'a [Event],
    next: usize,
    durable: Vec<u8>,
    /// Writes that no flush covers yet, in order.
    pending: Vec<(u64, Arc<[u8]>)>,
    covered: usize,
    done: usize,
    issued: usize,
    /// Since the last disk of what is durable something has changed.
    fresh: bool,
    samples: u32,
    ready: Vec<Cut>,
    random: Random,
}

impl<'a> Cuts<'a> {
    pub fn new(base: Vec<u8>, events: &'a [Event], samples: u32, seed: u64) -> Cuts<'a> {
        Cuts {
            events,
            next: 0,
            durable: base,
            pending: Vec::new(),
            covered: 0,
            done: 0,
            issued: 0,
            fresh: true,
            samples,
            ready: Vec::new(),
            random: Random::new(seed),
        }
    }

    fn cut(&self, image: Vec<u8>, what: &str) -> Cut {
        Cut {
            image,
            done: self.done,
            issued: self.issued,
            what: format!("event {}, {what}", self.next),
        }
    }

    /// What is durable and nothing else, with all that was promised until now.
    fn boundary(&mut self) {
        if std::mem::take(&mut self.fresh) {
            let cut = self.cut(self.durable.clone(), "what the flushes covered");
            self.ready.push(cut);
        }
    }

    /// Some of the pending pieces beside it: all, the first ones, or any.
    fn sample(&mut self) {
        let mut image = self.durable.clone();
        let how = self.random.below(4);
        let first = self.random.below(self.pending.len() as u32 + 1) as usize;
        let mut pieces = 0;
        for (number, (at, data)) in self.pending.iter().enumerate() {
            for (index, piece) in data.chunks(PIECE).enumerate() {
                let there = match how {
                    0 => true,
                    1 => number < first,
                    _ => self.random.below(2) == 0,
                };
                if there {
                    put(&mut image, *at + (index * PIECE) as u64, piece);
                    pieces += 1;
                }
            }
        }
        let text = format!("and {pieces} pieces of {} writes", self.pending.len());
        let cut = self.cut(image, &text);
        self.ready.push(cut);
    }
}

/// The recorder took only writes that fit.
fn put(image: &mut [u8], at: u64, data: &[u8]) {
    if let Some(place) = image.get_mut(at as usize..at as usize + data.len()) {
        place.copy_from_slice(data);
    }
}

impl Iterator for Cuts<'_> {
    type Item = Cut;

    fn next(&mut self) -> Option<Cut> {
        while self.ready.is_empty() {
            let Some(event) = self.events.get(self.next) else {
                self.boundary();
                return self.ready.pop();
            };
            match event {
                Event::Write { at, data } => {
                    self.boundary();
                    self.pending.push((*at, data.clone()));
                    // A cut in the middle now and then, with what was promised at that time.
                    if self.samples > 0 && self.random.below(16) == 0 {
                        self.sample();
                    }
                }
                Event::Flush { covers } => {
                    if !self.pending.is_empty() {
                        (0..self.samples).for_each(|_| self.sample());
                    }
                    let count = covers.saturating_sub(self.covered).min(self.pending.len());
                    for (at, data) in self.pending.drain(..count) {
                        put(&mut self.durable, at, &data);
                    }
                    self.covered += count;
                    self.fresh |= count > 0;
                }
                Event::Issued(number) => self.issued = *number,
                Event::Done(number) => {
                    self.done = *number;
                    // Now more is promised of the same disk.
                    self.fresh = true;
                }
            }
            self.next += 1;
        }
        self.ready.pop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(at: u64, byte: u8) -> Event {
        let data = [byte].into();
        Event::Write { at, data }
    }

    #[test]
    fn every_boundary_is_seen_with_what_was_promised_by_then() {
        let events = [
            Event::Issued(1),
            write(0, 1),
            write(1, 2),
            Event::Flush { covers: 1 },
            Event::Done(1),
            write(2, 3),
            Event::Flush { covers: 3 },
        ];
        let cuts: Vec<Cut> = Cuts::new(vec![0; 3], &events, 0, 1).collect();
        let seen: Vec<_> = cuts.iter().map(|c| (c.image.as_slice(), c.done)).collect();
        let wanted: [(&[u8], usize); 3] = [(&[0, 0, 0], 0), (&[1, 0, 0], 1), (&[1, 2, 3], 1)];
        assert_eq!(seen, wanted);
    }

    #[test]
    fn any_part_of_what_is_pending_may_be_there() {
        let events = [write(0, 1), write(1, 2), Event::Flush { covers: 2 }];
        let cuts = Cuts::new(vec![0; 2], &events, 60, 5);
        let mut images: Vec<Vec<u8>> = cuts.map(|cut| cut.image).collect();
        images.sort();
        images.dedup();
        assert_eq!(images, [[0, 0], [0, 2], [1, 0], [1, 2]]);
    }
}
