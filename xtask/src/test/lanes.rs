//! Several machines at once: each suite gives its machines as pieces of work, and as many of them as the host has processors are under way at any time. What is given first begins first:
//! the long ones should be.

use anyhow::{anyhow, Context, Result};
use std::collections::VecDeque;
use std::sync::{Mutex, OnceLock};

/// One or several machines, one after the other.
pub type Work<'a> = Box<dyn FnOnce() -> Result<()> + Send + 'a>;

/// A machine has some 300 MiB of the host's memory, the largest 1 GiB.
const MOST: usize = 4;

/// As many as this host can run at once.
pub fn of_this_host() -> usize {
    let processors = std::thread::available_parallelism().map_or(1, |n| n.get());
    processors.min(MOST)
}

/// Do all of it in so many lanes. After an error nothing more is begun, and the first one is the result.
pub fn run(work: Vec<Work>, lanes: usize) -> Result<()> {
    let waiting = Mutex::new(VecDeque::from(work));
    let next = || waiting.lock().ok()?.pop_front();
    let lane = || -> Result<()> {
        while let Some(piece) = next() {
            if let Err(error) = piece() {
                if let Ok(mut waiting) = waiting.lock() {
                    waiting.clear();
                }
                return Err(error);
            }
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let lanes: Vec<_> = (0..lanes).map(|_| scope.spawn(lane)).collect();
        let ends = lanes.into_iter().map(|lane| lane.join());
        // All are waited for before any result is looked at.
        let ends: Vec<_> = ends.collect();
        ends.into_iter()
            .try_for_each(|end| end.unwrap_or_else(|_| Err(anyhow!("a lane of tests panicked"))))
    })
}

/// What becomes of each, in order; as many of them at once as the host has processors.
pub fn each<T: Sync, R: Send + Sync>(all: &[T], make: impl Fn(&T) -> R + Sync) -> Result<Vec<R>> {
    let made: Vec<OnceLock<R>> = all.iter().map(|_| OnceLock::new()).collect();
    let one = |(from, to): (_, &OnceLock<R>)| {
        to.get_or_init(|| make(from));
        Ok(())
    };
    let one = &one;
    let pieces = all.iter().zip(&made);
    let pieces = pieces.map(|pair| -> Work { Box::new(move || one(pair)) });
    run(pieces.collect(), of_this_host())?;
    let made = made.into_iter().map(OnceLock::into_inner);
    made.map(|one| one.context("a lane left something out"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::Barrier;

    #[test]
    fn all_is_done_once_and_at_the_same_time() {
        let (done, both) = (AtomicUsize::new(0), Barrier::new(2));
        let work = (0..6).map(|_| -> Work {
            Box::new(|| {
                // Nobody passes alone.
                both.wait();
                done.fetch_add(1, Ordering::Relaxed);
                Ok(())
            })
        });
        assert!(run(work.collect(), 2).is_ok());
        assert_eq!(done.into_inner(), 6);
    }

    #[test]
    fn each_has_its_result_in_order() {
        let all: Vec<u32> = (0..50).collect();
        let twice: Vec<u32> = all.iter().map(|n| n * 2).collect();
        assert_eq!(each(&all, |n| n * 2).unwrap(), twice);
        assert!(each(&[], |n: &u32| *n).unwrap().is_empty());
    }

    #[test]
    fn nothing_is_begun_after_an_error() {
        let done = AtomicUsize::new(0);
        let ok = || -> Work {
            Box::new(|| {
                done.fetch_add(1, Ordering::Relaxed);
                Ok(())
            })
        };
        let work = vec![ok(), Box::new(|| Err(anyhow!("x"))), ok()];
        assert!(run(work, 1).is_err_and(|error| error.to_string() == "x"));
        assert_eq!(done.into_inner(), 1);
    }
}
