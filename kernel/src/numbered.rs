//! Fixed tables of objects that other objects name by their numbers.
//!
//! There are as many as a power of two. A number that the nucleus keeps names one of them, so nothing is asked where it is used (but in tests): its low bits say which.

use core::ops::{Deref, Index, IndexMut};

pub struct Numbered<T, const N: usize>(pub [T; N]);

impl<T, const N: usize> Numbered<T, N> {
    #[inline(always)]
    fn place(number: usize) -> usize {
        const { assert!(N.is_power_of_two()) };
        debug_assert!(number < N);
        number % N
    }
}

impl<T, const N: usize> Index<usize> for Numbered<T, N> {
    type Output = T;

    #[inline(always)]
    fn index(&self, number: usize) -> &T {
        &self.0[Self::place(number)]
    }
}

impl<T, const N: usize> IndexMut<usize> for Numbered<T, N> {
    #[inline(always)]
    fn index_mut(&mut self, number: usize) -> &mut T {
        &mut self.0[Self::place(number)]
    }
}

impl<T, const N: usize> Deref for Numbered<T, N> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        &self.0
    }
}
