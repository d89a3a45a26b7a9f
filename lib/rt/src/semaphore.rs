//! Semaphores and mutexes of the nucleus (docs/services/semaphore.md).

use crate::portal::Portal;
use cairn_abi::service::{current, semaphore, AUTO};
use cairn_abi::Error;

/// A portal to a semaphore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Semaphore(pub Portal);

impl Semaphore {
    /// A semaphore that lets `count` P through.
    pub fn new(count: u32) -> Result<Semaphore, Error> {
        Semaphore::create(count, semaphore::PLAIN)
    }

    /// A free mutex.
    pub fn mutex() -> Result<Semaphore, Error> {
        Semaphore::create(1, semaphore::MUTEX)
    }

    fn create(count: u32, kind: u64) -> Result<Semaphore, Error> {
        let words = [count as u64, kind, AUTO];
        let words = Portal::CURRENT.service(current::SEMAPHORE_CREATE, &words)?;
        Ok(Semaphore(Portal(words[0] as u32)))
    }

    /// Take one, or wait. A mutex that ends with [`Error::OwnerDead`] is the caller's all the same.
    pub fn p(self) -> Result<(), Error> {
        self.0.service(semaphore::P, &[]).map(|_| ())
    }

    /// Give one.
    pub fn v(self) -> Result<(), Error> {
        self.0.service(semaphore::V, &[]).map(|_| ())
    }

    /// Give one of this, then take one of `other`, in one entry.
    pub fn v_then_p(self, other: Semaphore) -> Result<(), Error> {
        let words = [other.0 .0 as u64];
        self.0.service(semaphore::V_THEN_P, &words).map(|_| ())
    }
}
