//! The nucleus's object pools: they get frames when objects are wanted, and give back those at their ends in which no object lives, some time after many domains have ended.

use crate::accounts::SYSTEM;
use crate::nucleus::Nucleus;
use crate::slab::Handle;
use crate::space::{Errno, Vm, NATIVE_RESERVE};
use alloc::vec::Vec;
use cairn_abi::layout::PAGE;
use cairn_abi::service::memory::pool;
use cairn_abi::Id;
use cairn_idl::errno::*;

/// The pools are looked at when this many domains were made.
const POOL_PERIOD: u32 = 16;
/// Objects that are free after a look, per pool: domains, spaces, threads, channels, portals, portals' code, semaphores, windows, signatures.
pub(crate) const POOL_FREE: [u64; pool::COUNT] = [32, 32, 48, 32, 256, 64, 64, 16, 4];

/// With so many frames or fewer pools are left alone.
const QUIET: u64 = 64;
/// From the end of a domain to the next look for what may go back, and between two looks, of which each that finds nothing doubles it, up to the last.
const REST: u64 = 100_000_000;
const REST_MOST: u64 = 6_400_000_000;

pub(crate) struct Pools {
    /// Frames that were given to them.
    pub frames: u64,
    /// Domains made since they were last looked at.
    since_look: u32,
    /// When to look for what may go back, and the time between looks.
    pub rest_at: Option<u64>,
    wait: u64,
    /// The components that pay for some of the frames, as often as they had some given.
    growers: Vec<Handle>,
}

impl Pools {
    pub const fn new() -> Pools {
        Pools {
            frames: 0,
            since_look: u32::MAX,
            rest_at: None,
            wait: REST,
            growers: Vec::new(),
        }
    }
}

impl<N: Nucleus> Vm<N> {
    /// Give a pool so many frames that `wanted` objects are free. False if there is no memory for it.
    pub(crate) fn fill_pool(&mut self, kind: u64, wanted: u64) -> bool {
        self.fill_pool_above(kind, wanted, self.frames.floor())
    }

    fn fill_pool_above(&mut self, kind: u64, wanted: u64, floor: usize) -> bool {
        // Whoever comes later uses what they have: all pay.
        let keep = self.frames.pay(SYSTEM, floor);
        loop {
            let Ok((used, capacity, bytes)) = self.nucleus.pool_info(kind) else {
                return false;
            };
            let free = capacity.saturating_sub(used);
            if free >= wanted {
                return true;
            }
            // The nucleus keeps one now and then for what it must know of pages that it gives back.
            let missing = ((wanted - free) * bytes.max(1)).div_ceil(PAGE);
            for _ in 0..missing {
                // They get no more than a quarter of all memory.
                if self.pools.frames > self.frames.total() as u64 / 4 {
                    return false;
                }
                let Some(frame) = self.frames.alloc(keep) else {
                    return false;
                };
                if self.nucleus.give(kind, frame, 1).is_err() {
                    self.frames.release(frame);
                    return false;
                }
                self.pools.frames += 1;
            }
        }
    }

    /// MORE_OBJECTS: a pool ran empty.
    pub(crate) fn more_objects(&mut self, kind: u64) -> Result<u64, Errno> {
        self.more_objects_above(kind, self.frames.floor())
    }

    fn more_objects_above(&mut self, kind: u64, floor: usize) -> Result<u64, Errno> {
        let free = POOL_FREE
            .get(kind as usize)
            .filter(|&&free| free != 0)
            .ok_or(EINVAL)?;
        if !self.fill_pool_above(kind, 2 * free, floor) {
            return Err(ENOMEM);
        }
        Ok(0)
    }

    /// The same for a program that makes mutexes (FUTEX_LOCK_PI): threads wait for one each, so there need not be more than two for each thread that may be.
    pub(crate) fn more_semaphores(&mut self) -> Result<u64, Errno> {
        let mut capacity = |kind| self.nucleus.pool_info(kind).map_err(|_| ENOMEM);
        let (_, threads, _) = capacity(pool::THREAD)?;
        let (_, semaphores, _) = capacity(pool::SEMAPHORE)?;
        if semaphores > 2 * threads + POOL_FREE[pool::SEMAPHORE as usize] {
            return Err(ENOMEM);
        }
        self.more_objects(pool::SEMAPHORE)
    }

    /// The same for a component, which pays for it out of its own limit: nobody can take what all others need.
    pub(crate) fn more_objects_for(&mut self, id: Id, kind: u64) -> Result<u64, Errno> {
        let index = self.domain(id).ok_or(ESRCH)?.space;
        let before = self.pools.frames;
        if !self.spaces.get(index).is_some_and(|s| s.within_limit(1)) {
            return Err(ENOMEM);
        }
        let result = self.more_objects_above(kind, NATIVE_RESERVE);
        if let Some(space) = self.spaces.get_mut(index) {
            let more = self.pools.frames - before;
            // If there is no memory for this it pays for ever.
            if more != 0 && self.pools.growers.try_reserve(1).is_ok() {
                self.pools.growers.push(space.handle);
            }
            space.objects += more;
        }
        result
    }

    pub(crate) fn look_at_pools(&mut self) {
        self.pools.since_look = self.pools.since_look.saturating_add(1);
        if self.pools.since_look >= POOL_PERIOD {
            self.pools.since_look = 0;
            for kind in pool::ALL {
                // Too little memory shows when the object is made.
                self.fill_pool(kind, POOL_FREE[kind as usize]);
            }
        }
    }

    /// A domain ends: its objects are free soon.
    #[inline]
    pub(crate) fn pools_may_rest(&mut self) {
        if self.pools.frames > QUIET && self.pools.rest_at.is_none() && !self.later.pools_rest {
            self.pools.wait = REST;
            self.pools.rest_at = Some(self.nucleus.now() + REST);
        }
    }

    /// If it is time, pools are looked at when nobody wants anything. (After a request: an alarm would have `vm` finish what it just does at its own priority.)
    #[inline]
    pub(crate) fn look_at_time(&mut self) {
        if self.pools.rest_at.is_some() {
            self.pools_late();
        }
    }

    fn pools_late(&mut self) {
        let now = self.nucleus.now();
        if self.pools.rest_at.is_some_and(|at| at <= now) {
            self.pools.rest_at = None;
            self.later.pools_rest = true;
        }
    }

    /// What nobody uses at the ends of the pools goes back. They keep a quarter more than what is used, so that they do not grow again at once.
    /// A piece at a time, as nobody waits for it; whether there may be more.
    pub(crate) fn rest_pools(&mut self) -> bool {
        let now = self.nucleus.now();
        let mut left = false;
        for kind in pool::ALL {
            let Ok((used, capacity, bytes)) = self.nucleus.pool_info(kind) else {
                continue;
            };
            let stay = used + used / 4 + 2 * POOL_FREE[kind as usize];
            if capacity.saturating_sub(stay) * bytes < PAGE {
                continue;
            }
            let Ok((frames, count @ 1..)) = self.nucleus.take_back(kind) else {
                left = true;
                continue;
            };
            for &frame in &frames[..count] {
                self.frames.release(frame);
                self.pools.frames -= 1;
                self.grower_pays_less();
            }
            self.pools.wait = REST;
            self.wake_waiting();
            return true;
        }
        self.pools.wait *= 2;
        // What an object pins that lives long comes back when the next domains end after its own end.
        let again = left && self.pools.wait <= REST_MOST;
        self.pools.rest_at = again.then(|| now + self.pools.wait);
        false
    }

    /// A frame came back: the component that had one given last pays for one less.
    fn grower_pays_less(&mut self) {
        while let Some(&last) = self.pools.growers.last() {
            let index = self.spaces.resolve(last);
            if let Some(space) = index.and_then(|index| self.spaces.get_mut(index)) {
                if space.objects != 0 {
                    space.objects -= 1;
                    return;
                }
            }
            self.pools.growers.pop();
        }
    }
}
