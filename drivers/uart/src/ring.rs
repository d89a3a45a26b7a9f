//! A bounded first-in first-out queue of bytes. Its memory is taken once; a byte that finds no room is refused, never overwrites.

use alloc::boxed::Box;
use alloc::vec;

/// Indices run freely and are masked on use, so `tail - head` is always the fill.
pub struct Ring {
    bytes: Box<[u8]>,
    head: usize,
    tail: usize,
}

impl Ring {
    /// `size` must be a power of two.
    pub fn new(size: usize) -> Ring {
        assert!(size.is_power_of_two());
        Ring {
            bytes: vec![0; size].into_boxed_slice(),
            head: 0,
            tail: 0,
        }
    }

    pub fn len(&self) -> usize {
        self.tail.wrapping_sub(self.head)
    }

    pub fn is_empty(&self) -> bool {
        self.head == self.tail
    }

    pub fn room(&self) -> usize {
        self.bytes.len() - self.len()
    }

    /// Appends what fits and says how much that was.
    pub fn push(&mut self, from: &[u8]) -> usize {
        let count = from.len().min(self.room());
        let start = self.tail & (self.bytes.len() - 1);
        let first = count.min(self.bytes.len() - start);
        self.bytes[start..start + first].copy_from_slice(&from[..first]);
        self.bytes[..count - first].copy_from_slice(&from[first..count]);
        self.tail = self.tail.wrapping_add(count);
        count
    }

    /// Takes up to `into.len()` bytes from the front.
    pub fn pop(&mut self, into: &mut [u8]) -> usize {
        let count = into.len().min(self.len());
        let start = self.head & (self.bytes.len() - 1);
        let first = count.min(self.bytes.len() - start);
        into[..first].copy_from_slice(&self.bytes[start..start + first]);
        into[first..count].copy_from_slice(&self.bytes[..count - first]);
        self.head = self.head.wrapping_add(count);
        count
    }

    pub fn clear(&mut self) {
        self.head = self.tail;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_order_around_the_end_and_refuses_what_does_not_fit() {
        let mut ring = Ring::new(8);
        let mut out = [0; 8];
        assert_eq!(ring.push(b"abcdef"), 6);
        assert_eq!(ring.pop(&mut out[..4]), 4);
        assert_eq!(&out[..4], b"abcd");
        assert_eq!(ring.push(b"ghijklmn"), 6);
        assert_eq!((ring.len(), ring.room()), (8, 0));
        assert_eq!(ring.push(b"z"), 0);
        assert_eq!(ring.pop(&mut out), 8);
        assert_eq!(&out, b"efghijkl");
        assert!(ring.is_empty());
    }

    #[test]
    fn many_sizes_agree_with_a_plain_queue() {
        let mut ring = Ring::new(16);
        let mut model = std::collections::VecDeque::new();
        let mut next = 0u8;
        for step in 0..1000usize {
            let offer: Vec<u8> = (0..step * 7 % 20)
                .map(|_| {
                    next = next.wrapping_add(1);
                    next
                })
                .collect();
            let taken = ring.push(&offer);
            assert_eq!(taken, offer.len().min(16 - model.len()));
            model.extend(&offer[..taken]);
            let mut out = vec![0; step * 5 % 13];
            let count = ring.pop(&mut out);
            let expected: Vec<u8> = model.drain(..out.len().min(model.len())).collect();
            assert_eq!(out[..count], expected);
        }
    }
}
