//! Which pages of the disks' arena are in use. What is taken lies in a row: a power of two of pages, at a multiple of itself.

/// Pages of the arena.
pub const PAGES: usize = 512;
const WORD: usize = 64;

#[derive(Default)]
pub struct Room([u64; PAGES / WORD]);

/// Bits for so many pages from the beginning of a word.
fn bits(pages: usize) -> (usize, u64) {
    let size = pages.clamp(1, WORD).next_power_of_two();
    (size, u64::MAX >> (WORD - size))
}

impl Room {
    /// The first of so many pages, at most 64.
    pub fn take(&mut self, pages: usize) -> Option<usize> {
        let (size, bits) = bits(pages);
        for (i, word) in self.0.iter_mut().enumerate() {
            if *word == u64::MAX {
                continue;
            }
            let mut shifts = (0..WORD).step_by(size);
            if let Some(shift) = shifts.find(|shift| *word & bits << shift == 0) {
                *word |= bits << shift;
                return Some(i * WORD + shift);
            }
        }
        None
    }

    pub fn give(&mut self, first: usize, pages: usize) {
        let (_, bits) = bits(pages);
        if let Some(word) = self.0.get_mut(first / WORD) {
            *word &= !(bits << (first % WORD));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_is_nobody_elses_until_it_is_given() {
        let mut room = Room::default();
        let mut taken = Vec::new();
        let mut used = [false; PAGES];
        for pages in [1, 64, 3, 2, 33, 1, 8].into_iter().cycle() {
            let Some(first) = room.take(pages) else { break };
            for page in &mut used[first..first + pages] {
                assert!(!core::mem::replace(page, true));
            }
            taken.push((first, pages));
        }
        assert!(taken.len() > 14);
        for (first, pages) in taken {
            room.give(first, pages);
        }
        assert_eq!(room.0, [0; PAGES / WORD]);
        let firsts: Vec<usize> = (0..PAGES / 64).filter_map(|_| room.take(64)).collect();
        assert_eq!(firsts.len(), PAGES / 64);
        assert_eq!(room.take(1), None);
    }
}
