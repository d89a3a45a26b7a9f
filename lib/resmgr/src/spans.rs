//! Ranges with owners, to be asked which one is in the way: those of one kind of record lock in one file.
//!
//! They lie in blocks of at most [`BLOCK`], in order of their starts, and each block knows how far its ranges go. So a question looks at the blocks, and into those that have an answer
//! (or are the asker's own).

use crate::lock::Owner;
use alloc::vec::Vec;

const BLOCK: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub start: u64,
    pub end: u64,
    pub owner: Owner,
}

struct Block {
    /// The greatest end.
    reach: u64,
    /// Never empty.
    spans: Vec<Span>,
}

impl Block {
    fn measure(&mut self) {
        self.reach = self.spans.iter().map(|span| span.end).max().unwrap_or(0);
    }
}

#[derive(Default)]
pub(crate) struct Spans {
    blocks: Vec<Block>,
}

impl Spans {
    /// The block where this one is or belongs.
    fn block(&self, start: u64, owner: Owner) -> usize {
        let before = |block: &Block| {
            let first = block.spans.first();
            first.is_some_and(|first| (first.start, first.owner) <= (start, owner))
        };
        self.blocks.partition_point(before).saturating_sub(1)
    }

    pub fn insert(&mut self, span: Span) {
        let at = self.block(span.start, span.owner);
        let Some(block) = self.blocks.get_mut(at) else {
            self.blocks.push(Block {
                reach: span.end,
                spans: Vec::from([span]),
            });
            return;
        };
        let spans = &mut block.spans;
        let place =
            spans.partition_point(|other| (other.start, other.owner) < (span.start, span.owner));
        spans.insert(place, span);
        block.reach = block.reach.max(span.end);
        if block.spans.len() > BLOCK {
            let mut behind = Block {
                reach: 0,
                spans: block.spans.split_off(BLOCK / 2),
            };
            behind.measure();
            block.measure();
            self.blocks.insert(at + 1, behind);
        }
    }

    /// The range of this owner that begins here goes.
    pub fn remove(&mut self, start: u64, owner: Owner) {
        let at = self.block(start, owner);
        let Some(block) = self.blocks.get_mut(at) else {
            return;
        };
        let is = |span: &Span| (span.start, span.owner) == (start, owner);
        if let Some(place) = block.spans.iter().position(is) {
            block.spans.remove(place);
            block.measure();
        }
        if block.spans.is_empty() {
            self.blocks.remove(at);
        }
    }

    /// The first one that has something of `start..end` and is not this owner's.
    pub fn in_the_way(&self, start: u64, end: u64, owner: Owner) -> Option<Span> {
        let blocks = self.blocks.iter().filter(|block| block.reach > start);
        for block in blocks {
            for span in &block.spans {
                if span.start >= end {
                    return None;
                }
                if span.end > start && span.owner != owner {
                    return Some(*span);
                }
            }
        }
        None
    }

    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_a_list() {
        let mut random = 17u64;
        let mut next = |most: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % most
        };
        let (mut spans, mut list) = (Spans::default(), Vec::<Span>::new());
        for step in 0..20_000 {
            if next(if step / 2000 % 2 == 0 { 3 } else { 8 }) != 0 {
                let start = next(500);
                let length = [300, 9][(next(50) != 0) as usize];
                let span = Span {
                    start,
                    end: start + 1 + next(length),
                    owner: Owner::Process(next(40) as u32),
                };
                if !list
                    .iter()
                    .any(|o| (o.start, o.owner) == (span.start, span.owner))
                {
                    spans.insert(span);
                    list.push(span);
                }
            } else if !list.is_empty() {
                let gone = list.swap_remove(next(list.len() as u64) as usize);
                spans.remove(gone.start, gone.owner);
            }
            let (start, owner) = (next(500), Owner::Process(next(40) as u32));
            let end = start + 1 + next(30);
            let found = list
                .iter()
                .filter(|s| s.start < end && start < s.end && s.owner != owner)
                .min_by_key(|span| (span.start, span.owner));
            assert_eq!(spans.in_the_way(start, end, owner), found.copied());
        }
        for span in list {
            spans.remove(span.start, span.owner);
        }
        assert!(spans.is_empty());
    }
}
