//! Object stores: typed pools whose memory is given frame by frame, and arrays that live in single frames.
//! With the machine layer this is the only module of the nucleus that uses `unsafe`.
//!
//! What always holds in a [`Pool`]:
//! 1. `base` starts a region of which the first `bytes` bytes are mapped, writable, and used by this pool only.
//! 2. Slots `1..high` lie inside these bytes and were initialised; they stay initialised for ever (freeing keeps the old value, which needs no drop).
//! 3. A handle names a slot in `1..high`: handles are made by this module only, after a check, and `high` never goes down.
//! 4. A slot is live (`live`) or on the free list that starts at `free`.
#![allow(unsafe_code)]

use crate::arch::{Arch, Frame};
use core::marker::PhantomData;
use core::num::NonZeroU32;
use core::ops::{Index, IndexMut};
use core::ptr::NonNull;

/// An index into one pool. Holding one means that the object exists: the nucleus keeps counts and links so that it does.
/// Only a pool makes them, and only for slots that it has initialised; there is one pool for each type of handle.
pub trait Handle: Copy + Eq + sealed::Make {
    fn index(self) -> u32;
}

mod sealed {
    pub trait Make {
        fn make(index: core::num::NonZeroU32) -> Self;
    }
}

macro_rules! handles {
    ($($(#[$doc:meta])* $name:ident),*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(transparent)]
        pub struct $name(NonZeroU32);
        impl sealed::Make for $name {
            #[inline]
            fn make(index: NonZeroU32) -> Self {
                $name(index)
            }
        }
        impl Handle for $name {
            #[inline]
            fn index(self) -> u32 {
                self.0.get()
            }
        }
    )*};
}

handles!(
    ThreadRef,
    DomainRef,
    SpaceRef,
    ChannelRef,
    PortalRef,
    BlockRef,
    SemaphoreRef,
    WindowRef
);

/// Ids carry 20 bits of index.
pub(crate) const MOST: usize = 1 << 20;
pub(crate) const INDEX_MASK: u32 = MOST as u32 - 1;

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

    /// Where the portal code finds things: the base in the pool; in a slot (whose value comes first) the generation.
    #[cfg(target_os = "none")]
    pub(crate) const BASE: usize = core::mem::offset_of!(Self, base);
    #[cfg(target_os = "none")]
    pub(crate) const GENERATION: usize = core::mem::offset_of!(Slot<T>, generation);

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

    /// The handle that a number stands for which [`Handle::index`] once gave (entries and nodes keep numbers).
    #[inline]
    pub fn handle(&self, index: u32) -> R {
        assert!(index < self.high);
        R::make(NonZeroU32::new(index).unwrap_or(NonZeroU32::MIN))
    }

    /// The object that such a number stands for.
    #[inline]
    pub fn at(&self, index: u32) -> &T {
        &self[self.handle(index)]
    }

    #[inline]
    pub fn at_mut(&mut self, index: u32) -> &mut T {
        let r = self.handle(index);
        &mut self[r]
    }

    #[inline]
    fn slot(&self, r: R) -> &Slot<T> {
        debug_assert!(r.index() < self.high);
        // SAFETY: 1. the slot is initialised (invariants 2 and 3); 2. `&self` keeps writers out.
        unsafe { &*self.base.add(r.index() as usize) }
    }

    #[inline]
    fn slot_mut(&mut self, r: R) -> &mut Slot<T> {
        debug_assert!(r.index() < self.high);
        // SAFETY: as in `slot`; `&mut self` makes it the only reference.
        unsafe { &mut *self.base.add(r.index() as usize) }
    }

    /// Store a new object. None: the pool is empty.
    pub fn insert(&mut self, value: T) -> Option<R> {
        match self.reuse() {
            Some(r) => {
                self.slot_mut(r).value = value;
                Some(r)
            }
            None => self.insert_beyond(value),
        }
    }

    /// An object of which all that counts will be written: some object that was removed before, or a new one.
    pub fn insert_any(&mut self, new: impl FnOnce() -> T) -> Option<R> {
        self.reuse().or_else(|| self.insert_beyond(new()))
    }

    /// A slot that was given back, with what was in it.
    #[inline(always)]
    fn reuse(&mut self) -> Option<R> {
        let r = R::make(NonZeroU32::new(self.free)?);
        let slot = self.slot_mut(r);
        slot.live = true;
        self.free = slot.next_free;
        self.count += 1;
        Some(r)
    }

    /// Store a new object in a slot that was never used.
    #[inline(always)]
    fn insert_beyond(&mut self, value: T) -> Option<R> {
        if self.high >= self.capacity {
            return None;
        }
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
        self.count += 1;
        NonZeroU32::new(index).map(R::make)
    }

    /// The object's id and every reference that carries a generation become invalid; the slot stays in use.
    pub fn retire(&mut self, r: R) {
        let slot = self.slot_mut(r);
        slot.generation = (slot.generation + 1) & 0xfff;
    }

    /// Give the slot back. The caller has removed every reference.
    pub fn remove(&mut self, r: R) {
        self.retire(r);
        let free = self.free;
        let slot = self.slot_mut(r);
        assert!(slot.live);
        slot.live = false;
        slot.next_free = free;
        self.free = r.index();
        self.count -= 1;
    }

    /// The id of an object (never 0).
    #[inline]
    pub fn id(&self, r: R) -> u32 {
        r.index() | self.slot(r).generation << 20
    }

    /// The object with this id, if it still exists.
    #[inline]
    pub fn lookup(&self, id: u32) -> Option<R> {
        let index = id & INDEX_MASK;
        if index >= self.high {
            return None;
        }
        let r = R::make(NonZeroU32::new(index)?);
        let slot = self.slot(r);
        (slot.generation == id >> 20 && slot.live).then_some(r)
    }

    /// The slot that an id names, whatever became of its object.
    #[inline]
    pub fn place_of(&self, id: u32) -> Option<R> {
        let index = id & INDEX_MASK;
        let some = NonZeroU32::new(index)?;
        (index < self.high).then(|| R::make(some))
    }

    /// [`Pool::lookup`] of an id that somebody keeps, so that its slot has not been given back: only whether it was retired is asked.
    #[inline]
    pub fn lookup_kept(&self, id: u32) -> Option<R> {
        let r = self.place_of(id)?;
        let slot = self.slot(r);
        debug_assert!(slot.live);
        (slot.generation == id >> 20).then_some(r)
    }

    /// Where an object lies, for code that has its address as a constant; and the object that lies there.
    #[inline]
    pub fn address(&self, r: R) -> usize {
        self.base as usize + r.index() as usize * Self::object_size()
    }

    #[inline(always)]
    pub fn at_address(&self, address: usize) -> Option<R> {
        // Exact division: the odd part's inverse turns multiples of the size into quotients, and all else into greater numbers (Hacker's Delight, 10-17).
        let offset = address.wrapping_sub(self.base as usize);
        let index = offset
            .wrapping_mul(Self::INVERSE)
            .rotate_right(Self::object_size().trailing_zeros());
        if index >= self.high as usize {
            return None;
        }
        NonZeroU32::new(index as u32).map(R::make)
    }

    /// Of an object's size without its factors of two, modulo 2⁶⁴, by Newton's method: each step doubles how many bits are right, of which there are three at first.
    const INVERSE: usize = {
        let odd = Self::object_size() >> Self::object_size().trailing_zeros();
        let (mut inverse, mut right) = (odd, 3);
        while right < usize::BITS {
            inverse = inverse.wrapping_mul(2usize.wrapping_sub(odd.wrapping_mul(inverse)));
            right *= 2;
        }
        inverse
    };

    /// Two different objects at once.
    #[inline]
    pub fn pair(&mut self, a: R, b: R) -> (&mut T, &mut T) {
        assert!(a != b);
        // SAFETY: both slots are initialised (invariants 2 and 3) and they are different slots, so the references do not overlap.
        unsafe {
            (
                &mut (*self.base.add(a.index() as usize)).value,
                &mut (*self.base.add(b.index() as usize)).value,
            )
        }
    }

    /// The word that belongs to position `index` (1 ≤ index ≤ number of objects that were ever live at once).
    pub fn aux(&self, index: u32) -> u32 {
        self.slot(self.handle(index)).aux
    }

    pub fn set_aux(&mut self, index: u32, value: u32) {
        let r = self.handle(index);
        self.slot_mut(r).aux = value;
    }

    /// All live objects, for checks.
    #[cfg(any(test, feature = "sim"))]
    pub fn all(&self) -> impl Iterator<Item = R> + '_ {
        (1..self.high)
            .map(|i| self.handle(i))
            .filter(|&r| self.slot(r).live)
    }
}

impl<R: Handle, T> Index<R> for Pool<R, T> {
    type Output = T;
    #[inline]
    fn index(&self, r: R) -> &T {
        &self.slot(r).value
    }
}

impl<R: Handle, T> IndexMut<R> for Pool<R, T> {
    #[inline]
    fn index_mut(&mut self, r: R) -> &mut T {
        &mut self.slot_mut(r).value
    }
}

/// An array of `T` that fills one frame which the nucleus owns. The portal code reads the address.
#[repr(C)]
pub struct FrameArray<T> {
    first: NonNull<T>,
    frame: Frame,
}

impl<T: Copy> FrameArray<T> {
    pub const LEN: usize = 4096 / core::mem::size_of::<T>();

    /// Take a frame that belongs to the nucleus and that nothing else uses, and fill it.
    pub fn new<A: Arch>(arch: &mut A, frame: Frame, fill: T) -> FrameArray<T> {
        let first: *mut T = arch.frame_pointer(frame).cast();
        assert!(!first.is_null());
        const { assert!(core::mem::size_of::<T>() == core::mem::size_of::<[u64; 2]>()) };
        // SAFETY: of the same size, and every sort of word is one.
        let words = unsafe { (&raw const fill).cast::<[u64; 2]>().read_unaligned() };
        // The machine layer vouches for 4096 page-aligned bytes that stay valid; the caller owns the frame alone.
        arch.fill_frame(frame, words);
        FrameArray {
            first: NonNull::new(first).unwrap_or(NonNull::dangling()),
            frame,
        }
    }

    pub fn address(&self) -> usize {
        self.first.as_ptr() as usize
    }

    /// All elements.
    #[inline]
    pub fn as_slice(&self) -> &[T] {
        // SAFETY: `new` initialised every element, and they stay valid as long as `self`.
        unsafe { core::slice::from_raw_parts(self.first.as_ptr(), Self::LEN) }
    }

    #[inline]
    pub fn as_mut_slice(&mut self) -> &mut [T] {
        // SAFETY: as above, and `&mut self` makes it the only reference.
        unsafe { core::slice::from_raw_parts_mut(self.first.as_ptr(), Self::LEN) }
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
        unsafe { &*self.first.as_ptr().add(index) }
    }
}

impl<T: Copy> IndexMut<usize> for FrameArray<T> {
    #[inline]
    fn index_mut(&mut self, index: usize) -> &mut T {
        assert!(index < Self::LEN);
        // SAFETY: as above, and `&mut self` makes it the only reference.
        unsafe { &mut *self.first.as_ptr().add(index) }
    }
}
