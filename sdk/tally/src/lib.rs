//! A sum that clients add to: the server without its wiring. The interface is `tally.idl`; docs/guide/interfaces.md begins with it.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

use cairn_idl::errno::EOVERFLOW;
use cairn_idl::wire::{Caller, Errno};

include!(concat!(env!("OUT_DIR"), "/interfaces.rs"));

#[derive(Default)]
pub struct Tally {
    sum: u32,
}

impl Tally {
    /// A sum that would not fit stays as it was.
    fn add_up(&mut self, amount: u32) -> Result<u32, Errno> {
        self.sum = self.sum.checked_add(amount).ok_or(EOVERFLOW)?;
        Ok(self.sum)
    }
}

impl tally::Server for Tally {
    fn add<C: Caller>(&mut self, _: &C, amount: u32) -> Result<u32, Errno> {
        self.add_up(amount)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_add_up_and_do_not_run_over() {
        let mut tally = Tally::default();
        assert_eq!(tally.add_up(3), Ok(3));
        assert_eq!(tally.add_up(4), Ok(7));
        assert_eq!(tally.add_up(u32::MAX), Err(EOVERFLOW));
        assert_eq!(tally.add_up(0), Ok(7));
    }
}
