//! A disk in memory. What it holds is the component's keepsake, so that a driver that is started again finds it as it was; how large it is says the manifest. See docs/block.md.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

use alloc::collections::VecDeque;
use cairn_block::serve::{AtOnce, Backend, Order, TAGS};
use cairn_block::{Info, Kind, Outcome, PAGE, SECTOR};
use cairn_idl::block::PAGES;

/// The memory of clients, which a driver does not see itself.
pub trait Arenas {
    /// Most bytes of one copy.
    const MOST: usize;
    /// Bytes from byte `at` of an arena on. False: they are not there.
    fn read(&mut self, arena: u32, at: u64, into: &mut [u8]) -> bool;
    fn write(&mut self, arena: u32, at: u64, from: &[u8]) -> bool;
}

pub struct Ram<'m, A> {
    memory: &'m mut [u8],
    arenas: A,
    done: VecDeque<(usize, Outcome)>,
}

impl<'m, A: Arenas> Ram<'m, A> {
    pub fn new(memory: &'m mut [u8], arenas: A) -> Ram<'m, A> {
        Ram {
            memory,
            arenas,
            done: VecDeque::with_capacity(TAGS),
        }
    }

    /// Pages that are neighbours in the arena go together.
    fn copy(&mut self, order: &Order) -> Option<()> {
        let start = usize::try_from(order.sector.checked_mul(SECTOR)?).ok()?;
        let length = usize::try_from(order.bytes).ok()?;
        let mut disk = self.memory.get_mut(start..)?.get_mut(..length)?;
        let mut offset = order.offset as usize;
        for run in order.pages.chunk_by(|a, b| a.checked_add(1) == Some(*b)) {
            let mut at = u64::from(run[0]) * PAGE as u64 + offset as u64;
            let mut left = disk.len().min((run.len() * PAGE).checked_sub(offset)?);
            while left > 0 {
                let (some, rest) = disk.split_at_mut(left.min(A::MOST));
                let copied = match order.kind {
                    Kind::Write => self.arenas.read(order.arena, at, some),
                    _ => self.arenas.write(order.arena, at, some),
                };
                copied.then_some(())?;
                at += some.len() as u64;
                left -= some.len();
                disk = rest;
            }
            offset = 0;
        }
        disk.is_empty().then_some(())
    }
}

impl<A: Arenas> Backend for Ram<'_, A> {
    fn info(&self) -> Info {
        Info {
            sectors: self.memory.len() as u64 / SECTOR,
            block: SECTOR as u32,
            read_only: false,
            caches_writes: false,
            discards: false,
            rotates: false,
            most_pages: PAGES as u32,
            most_requests: TAGS as u32,
        }
    }

    fn start(&mut self, tag: usize, order: &Order) -> bool {
        let outcome = match order.kind {
            Kind::Read | Kind::Write => self.copy(order),
            Kind::Flush => Some(()),
            Kind::Discard => None,
        };
        if outcome.is_some() {
            self.done.push_back((tag, Outcome::Done));
        }
        outcome.is_some()
    }
}

impl<A: Arenas> AtOnce for Ram<'_, A> {
    fn completed(&mut self) -> Option<(usize, Outcome)> {
        self.done.pop_front()
    }
}

#[cfg(test)]
mod tests;
