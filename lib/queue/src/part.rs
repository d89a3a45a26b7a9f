//! Several rings in one piece of memory: parts of it, one behind the other.

use alloc::rc::Rc;
use core::ops::Deref;
use core::sync::atomic::AtomicU64;

/// A part of memory that others are in as well.
pub struct Part<M> {
    memory: Rc<M>,
    start: usize,
    end: usize,
}

impl<M: Deref<Target = [AtomicU64]>> Deref for Part<M> {
    type Target = [AtomicU64];
    fn deref(&self) -> &[AtomicU64] {
        &self.memory[self.start..self.end]
    }
}

/// Parts of so many words each; None: there is too little memory.
pub fn split<M: Deref<Target = [AtomicU64]>, const N: usize>(
    memory: M,
    words: [usize; N],
) -> Option<[Part<M>; N]> {
    if memory.len() < words.iter().sum() {
        return None;
    }
    let memory = Rc::new(memory);
    let mut end = 0;
    Some(words.map(|words| {
        let start = end;
        end += words;
        Part {
            memory: memory.clone(),
            start,
            end,
        }
    }))
}
