//! A caller for the tests of those who serve interfaces.

use crate::wire::Caller;
use cairn_abi::{Error, Id, Token};

/// A request without parts of the memory of domain 1.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    pub badge: u64,
    pub words: [u64; 8],
    pub portals: usize,
}

impl Sent {
    /// Through a portal with this badge, with two portals.
    pub const fn through(badge: u64) -> Sent {
        Sent {
            badge,
            words: [0; 8],
            portals: 2,
        }
    }
}

impl Caller for Sent {
    fn words(&self) -> &[u64; 8] {
        &self.words
    }
    fn badge(&self) -> u64 {
        self.badge
    }
    fn sender(&self) -> Id {
        1
    }
    fn label(&self) -> u64 {
        0
    }
    fn token(&self) -> Token {
        1
    }
    fn out_len(&self) -> usize {
        0
    }
    fn in_len(&self) -> usize {
        0
    }
    fn portals(&self) -> usize {
        self.portals
    }
    fn read(&self, _: usize, _: &mut [u8]) -> Result<usize, Error> {
        Ok(0)
    }
    fn write(&self, _: usize, _: &[u8]) -> Result<usize, Error> {
        Ok(0)
    }
    fn close(&self, _: u32) {}
}
