//! Object stores: typed pools whose memory is given frame by frame, and arrays that live in single frames.
//! With the machine layer this is the only module of the nucleus that uses `unsafe`.
//!
//! What always holds in a [`Pool`]:
//! 1. `base` starts a region of which the first `bytes` bytes are mapped, writable, and used by this pool only.
//! 2. Slots `1..high` lie inside these bytes and were initialised; they stay initialised for ever (freeing keeps the old value, which needs no drop).
//! 3. A slot is live (`live`) or on the free list that starts at `free`.
#![allow(unsafe_code)]

use crate::arch::{Arch, Frame};
use core::marker::PhantomData;
use core::num::NonZeroU32;
use core::ops::{Index, IndexMut};

/// An index into one pool. Holding one means that the object exists: the nucleus keeps counts and links so that it does.
pub trait Handle: Copy + Eq {
    fn new(index: NonZeroU32) -> Self;
    fn index(self) -> u32;
}

macro_rules! handles {
    ($($(#[$doc:meta])* $name:ident),*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub struct $name(NonZeroU32);
        impl Handle for $name {
            #[inline]
            fn new(index: NonZeroU32) -> Self {
                $name(index)
            }
            #[inline]
            fn index(self) -> u32 {
                self.0.get()
            }
        }
    )*};
}

handles!(ThreadRef, DomainRef, SpaceRef, ChannelRef, PortalRef);

/// Ids carry 20 bits of index.
const MOST: usize = 1 << 20;
const INDEX_MASK: u32 = MOST as u32 - 1;

#[repr(C)]
struct Slot<T> {
    value: T,
    /// Bits 0..12 count how often the slot was used.
    generation: u32,
    next_free: u32,
    /// A word that belongs to the slot's position, not to its object (the timer heap uses it).
    aux: u32,
    live: bool,
}

pub struct Pool<R, T> {
    base: *mut Slot<T>,
    bytes: usize,
    capacity: u32,
    high: u32,
    free: u32,
    count: u32,
    handle: PhantomData<R>,
}

impl<R: Handle, T> Pool<R, T> {
    /// An empty pool in the region that starts at `base` (page-aligned; nothing is mapped there yet).
    pub fn new(base: *mut u8) -> Pool<R, T> {
        const {
            assert!(!core::mem::needs_drop::<T>());
            assert!(core::mem::align_of::<Slot<T>>() <= 4096);
        }
        Pool {
            base: base.cast(),
            bytes: 0,
            capacity: 0,
            high: 1,
            free: 0,
            count: 0,
            handle: PhantomData,
        }
    }

    /// The machine layer has mapped one more page at the end of the region.
    pub fn grown(&mut self) {
        self.bytes += 4096;
        self.capacity = (self.bytes / Self::object_size()).min(MOST) as u32;
    }

    pub const fn object_size() -> usize {
        core::mem::size_of::<Slot<T>>()
    }

    pub fn live_objects(&self) -> u32 {
        self.count
    }

    /// How many objects fit (slot 0 is never used).
    pub fn capacity(&self) -> u32 {
        self.capacity.saturating_sub(1)
    }

    /// Can `n` more objects be made?
    pub fn room(&self, n: u32) -> bool {
        self.capacity().saturating_sub(self.count) >= n
    }

    #[inline]
    fn slot(&self, index: u32) -> &Slot<T> {
        assert!(index < self.high);
        // SAFETY: 1. handles are never 0, and index < high, so the slot is initialised (invariant 2); 2. `&self` keeps writers out.
        unsafe { &*self.base.add(index as usize) }
    }

    #[inline]
    fn slot_mut(&mut self, index: u32) -> &mut Slot<T> {
        assert!(index < self.high);
        // SAFETY: as in `slot`; `&mut self` makes it the only reference.
        unsafe { &mut *self.base.add(index as usize) }
    }

    /// Store a new object. None: the pool is empty.
    pub fn insert(&mut self, value: T) -> Option<R> {
        let index = if self.free != 0 {
            let index = self.free;
            let slot = self.slot_mut(index);
            slot.value = value;
            slot.live = true;
            self.free = slot.next_free;
            index
        } else if self.high < self.capacity {
            let index = self.high;
            let slot = Slot {
                value,
                generation: 1,
                next_free: 0,
                aux: 0,
                live: true,
            };
            // SAFETY: index < capacity, so the slot lies inside the mapped bytes (invariant 1); it was never initialised, so nothing is overwritten that anybody refers to.
            unsafe { self.base.add(index as usize).write(slot) };
            self.high += 1;
            index
        } else {
            return None;
        };
        self.count += 1;
        NonZeroU32::new(index).map(R::new)
    }

    /// The object's id and every reference that carries a generation become invalid; the slot stays in use.
    pub fn retire(&mut self, r: R) {
        let slot = self.slot_mut(r.index());
        slot.generation = (slot.generation + 1) & 0xfff;
    }

    /// Give the slot back. The caller has removed every reference.
    pub fn remove(&mut self, r: R) {
        self.retire(r);
        let free = self.free;
        let slot = self.slot_mut(r.index());
        assert!(slot.live);
        slot.live = false;
        slot.next_free = free;
        self.free = r.index();
        self.count -= 1;
    }

    /// The id of an object (never 0).
    #[inline]
    pub fn id(&self, r: R) -> u32 {
        r.index() | self.slot(r.index()).generation << 20
    }

    /// The object with this id, if it still exists.
    #[inline]
    pub fn lookup(&self, id: u32) -> Option<R> {
        let index = id & INDEX_MASK;
        if index >= self.high {
            return None;
        }
        let r = NonZeroU32::new(index)?;
        let slot = self.slot(index);
        (slot.generation == id >> 20 && slot.live).then(|| R::new(r))
    }

    /// Two different objects at once.
    #[inline]
    pub fn pair(&mut self, a: R, b: R) -> (&mut T, &mut T) {
        assert!(a != b && a.index() < self.high && b.index() < self.high);
        // SAFETY: both slots are initialised (invariant 2) and they are different slots, so the references do not overlap.
        unsafe {
            (
                &mut (*self.base.add(a.index() as usize)).value,
                &mut (*self.base.add(b.index() as usize)).value,
            )
        }
    }

    /// The word that belongs to position `index` (1 ≤ index ≤ number of objects that were ever live at once).
    pub fn aux(&self, index: u32) -> u32 {
        assert!(index != 0);
        self.slot(index).aux
    }

    pub fn set_aux(&mut self, index: u32, value: u32) {
        assert!(index != 0);
        self.slot_mut(index).aux = value;
    }

    /// All live objects, for checks.
    #[cfg(any(test, feature = "sim"))]
    pub fn all(&self) -> impl Iterator<Item = R> + '_ {
        (1..self.high)
            .filter(|&i| self.slot(i).live)
            .filter_map(|i| NonZeroU32::new(i).map(R::new))
    }
}

impl<R: Handle, T> Index<R> for Pool<R, T> {
    type Output = T;
    #[inline]
    fn index(&self, r: R) -> &T {
        &self.slot(r.index()).value
    }
}

impl<R: Handle, T> IndexMut<R> for Pool<R, T> {
    #[inline]
    fn index_mut(&mut self, r: R) -> &mut T {
        &mut self.slot_mut(r.index()).value
    }
}

/// An array of `T` that fills one frame which the nucleus owns.
pub struct FrameArray<T> {
    first: *mut T,
    frame: Frame,
}

impl<T: Copy> FrameArray<T> {
    pub const LEN: usize = 4096 / core::mem::size_of::<T>();

    /// Take a frame that belongs to the nucleus and that nothing else uses, and fill it.
    pub fn new<A: Arch>(arch: &A, frame: Frame, fill: T) -> FrameArray<T> {
        let first: *mut T = arch.frame_pointer(frame).cast();
        for i in 0..Self::LEN {
            // SAFETY: the machine layer vouches for 4096 page-aligned bytes that stay valid; the caller owns the frame alone.
            unsafe { first.add(i).write(fill) };
        }
        FrameArray { first, frame }
    }

    /// The frame; the array ends with this.
    pub fn into_frame(self) -> Frame {
        self.frame
    }
}

impl<T: Copy> Index<usize> for FrameArray<T> {
    type Output = T;
    #[inline]
    fn index(&self, index: usize) -> &T {
        assert!(index < Self::LEN);
        // SAFETY: in bounds, and `new` initialised every element.
        unsafe { &*self.first.add(index) }
    }
}

impl<T: Copy> IndexMut<usize> for FrameArray<T> {
    #[inline]
    fn index_mut(&mut self, index: usize) -> &mut T {
        assert!(index < Self::LEN);
        // SAFETY: as above, and `&mut self` makes it the only reference.
        unsafe { &mut *self.first.add(index) }
    }
}
