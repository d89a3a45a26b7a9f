//! Object stores: typed pools whose memory is given frame by frame, and arrays that live in single frames.
//! With the machine layer this is the only module of the nucleus that uses `unsafe`.
//!
//! What always holds in a [`Pool`]:
//! 1. It has a region of which the first `bytes` bytes are mapped, writable, and used by this pool only.
//! 2. Slots 1 to `made` lie inside these bytes and were initialised; they stay so as long as they are among these (freeing keeps the old value, which needs no drop). Slot 0 is never used.
//! 3. A handle says where one of these slots lies: handles are made by this module only, after a check or of a [`Target`] that was made of one. `made` goes down ([`Extent::shrink`]) over slots only that are free, to which nobody has a handle.
//! 4. A slot is live (`live`) or on the free list that starts at `free`: the slots near the start before the others, so that the end empties.
//! 5. No id comes twice before its slot was used 4,095 times more: what the generation was of a slot that went back is kept at the end of the region, in `kept` pages, for slots up to `ever`.
//!
//! On the machine a pool's region is at an address that is known when the nucleus is built, in the last 2 GiB: a handle is an object's address, without the upper half, which is all ones.
//! On the host, where there are many nuclei, it is the distance from the region's start. So nothing is multiplied or loaded to reach an object, at the thousands of places where one is.
#![allow(unsafe_code)]

use crate::arch::{Arch, Frame};
use crate::portal::table::Target;
use crate::Kernel;
use cairn_abi::layout::PAGE;
use cairn_abi::service::memory::pool;
use cairn_abi::{Error, PortalKind};
use core::marker::PhantomData;
use core::num::NonZeroU32;
use core::ops::{Index, IndexMut};
use core::ptr::NonNull;

/// An object in one pool. Holding one means that the object exists: the nucleus keeps counts and links so that it does.
/// Only a pool makes them, and only for slots that it has initialised; there is one pool for each type of handle.
pub trait Handle: Copy + Eq + sealed::Make {
    /// Which pool (`cairn_abi::service::memory::pool`).
    const POOL: u64;
    /// What stands for it where there is no type (in entries, and for code): [`Pool::handle`] makes it a handle again.
    fn number(self) -> u32;
}

mod sealed {
    pub trait Make {
        fn make(number: core::num::NonZeroU32) -> Self;
    }
}

macro_rules! handles {
    ($($name:ident: $pool:ident),*) => {$(
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(transparent)]
        pub struct $name(NonZeroU32);
        impl sealed::Make for $name {
            #[inline]
            fn make(number: NonZeroU32) -> Self {
                $name(number)
            }
        }
        impl Handle for $name {
            const POOL: u64 = pool::$pool;
            #[inline]
            fn number(self) -> u32 {
                self.0.get()
            }
        }
    )*};
}

handles!(
    ThreadRef: THREAD,
    DomainRef: DOMAIN,
    SpaceRef: SPACE,
    ChannelRef: CHANNEL,
    PortalRef: PORTAL,
    BlockRef: CODE,
    SemaphoreRef: SEMAPHORE,
    WindowRef: WINDOW,
    SignatureRef: SIGNATURE
);

/// Handles of what portals lead to.
pub trait Object: Handle {
    /// Does a portal of this kind lead to such an object? Then its target was made of a handle ([`Target::to`]).
    fn is_led_to(kind: PortalKind) -> bool;
}

macro_rules! objects {
    ($($name:ident: $kinds:pat),*) => {$(
        impl Object for $name {
            #[inline(always)]
            fn is_led_to(kind: PortalKind) -> bool {
                matches!(kind, $kinds)
            }
        }
    )*};
}

objects!(
    ThreadRef: PortalKind::Thread,
    DomainRef: PortalKind::Domain,
    SpaceRef: PortalKind::Space,
    ChannelRef: PortalKind::Receive,
    PortalRef: PortalKind::Channel | PortalKind::Derived,
    SemaphoreRef: PortalKind::Semaphore,
    WindowRef: PortalKind::Window
);

/// Ids carry 20 bits of index.
pub(crate) const MOST: usize = 1 << 20;
pub(crate) const INDEX_MASK: u32 = MOST as u32 - 1;

#[repr(C)]
struct Slot<T> {
    value: T,
    tail: Tail,
}

/// What a slot has behind its object.
#[repr(C)]
struct Tail {
    /// Bits 0..12 count how often the slot was used.
    generation: u16,
    live: bool,
    /// As in [`Extent::free`], if it is free; the first one's previous and the last one's next are anything.
    next_free: Option<NonZeroU32>,
    previous_free: Option<NonZeroU32>,
}

/// All of a pool that does not depend on what is in it.
pub struct Extent {
    /// Where the region starts.
    base: *mut u8,
    /// Pages that the region can have.
    pages: u32,
    bytes: u32,
    /// Of an object and its tail, and how far behind its start that is.
    size: u32,
    tail: u32,
    capacity: u32,
    made: u32,
    /// By its number, as all objects here.
    free: Option<NonZeroU32>,
    last_free: Option<NonZeroU32>,
    count: u32,
    /// Pages at the region's end for generations, which never go back, and the last slot that has one there.
    kept: u32,
    ever: u32,
}

/// A pool of so many pages gives none back. It has them since boot.
pub const STAYS: u32 = 12;
/// Generations of a page.
const GENERATIONS: u32 = PAGE as u32 / 2;
/// Free slots that are used before those beyond them, which may go back.
const NEAR: u32 = 64;

pub struct Pool<R, T> {
    extent: Extent,
    slots: PhantomData<(R, *mut Slot<T>)>,
}

impl Extent {
    /// The page of the region that the machine layer maps next. None: that is full.
    #[inline(never)]
    pub fn next_page(&self) -> Option<u32> {
        let page = self.bytes / PAGE as u32;
        let last = self.pages - self.kept - 1;
        if page > last {
            return None;
        }
        // What goes back needs a place for its generations first.
        if page >= STAYS && self.kept * GENERATIONS < self.capacity_with(page) {
            return (page < last).then_some(last);
        }
        Some(page)
    }

    /// That page is mapped.
    pub fn grow(&mut self, page: u32) {
        if page == self.bytes / PAGE as u32 {
            self.capacity = self.capacity_with(page);
            self.bytes += PAGE as u32;
        } else {
            self.kept += 1;
        }
    }

    /// How many objects (and slot 0) fit with this page as the last one.
    fn capacity_with(&self, page: u32) -> u32 {
        let bytes = (page + 1) * PAGE as u32;
        bytes
            .checked_div(self.size)
            .map_or(0, |most| most.min(MOST as u32))
    }

    /// The last page goes, if nothing lives there: its number in the region. The machine layer takes it out.
    #[inline(never)]
    pub fn shrink(&mut self) -> Option<u32> {
        let page = self.bytes / PAGE as u32 - 1;
        let first = (page * PAGE as u32).checked_div(self.size)?;
        if page < STAYS {
            return None;
        }
        // SAFETY: they were made (also below); `&self` keeps writers out.
        let lives = |index| unsafe { (*self.tail(self.number(index))).live };
        if (first..=self.made).any(lives) {
            return None;
        }
        for index in first..=self.made {
            // SAFETY: these slots were made and are free (invariant 4), and so are those beside them on the list; there is a place for the generation (see `grow`).
            // `&mut self` is the pool's, so nobody else refers to any of it.
            unsafe {
                let tail = self.tail(self.number(index)).read();
                let number = NonZeroU32::new(self.number(index));
                match tail.previous_free {
                    Some(previous) if self.free != number => {
                        (*self.tail(previous.get())).next_free = tail.next_free;
                    }
                    _ => self.free = tail.next_free,
                }
                match tail.next_free {
                    Some(next) => (*self.tail(next.get())).previous_free = tail.previous_free,
                    None => self.last_free = self.free.and(tail.previous_free),
                }
                self.generation(index).write(tail.generation);
            }
        }
        self.ever = self.ever.max(self.made);
        self.made = self.made.min(first - 1);
        (self.bytes, self.capacity) = (page * PAGE as u32, first);
        Some(page)
    }

    /// How many pages go at once: some objects' worth.
    pub fn most_pages(&self) -> usize {
        if self.size < 1024 {
            1
        } else {
            4
        }
    }

    /// Where the generation of this slot is kept.
    fn generation(&self, index: u32) -> *mut u16 {
        let end = self.base.wrapping_add(self.pages as usize * PAGE as usize);
        end.cast::<u16>().wrapping_sub(index as usize + 1)
    }

    /// The number of the slot with this index.
    fn number(&self, index: u32) -> u32 {
        self.origin().wrapping_add(index * self.size)
    }

    /// Live objects, how many fit, and an object's size.
    pub fn info(&self) -> [u64; 3] {
        let room = self.room_for();
        [self.count as u64, room as u64, self.size as u64]
    }

    /// How many objects fit (slot 0 is never used).
    fn room_for(&self) -> u32 {
        self.capacity.saturating_sub(1)
    }

    /// What a number would be that stands for slot 0.
    #[cfg(target_os = "none")]
    fn origin(&self) -> u32 {
        self.base.addr() as u32
    }
    #[cfg(not(target_os = "none"))]
    fn origin(&self) -> u32 {
        0
    }

    /// The tail of the object with this number.
    fn tail(&self, number: u32) -> *mut Tail {
        let offset = number.wrapping_sub(self.origin()) + self.tail;
        self.base.wrapping_add(offset as usize).cast()
    }

    /// A slot that nobody uses, one that was given back if there is any.
    /// If it was never used, the caller writes the value at once (invariant 2).
    #[inline(never)]
    fn take(&mut self) -> Option<NonZeroU32> {
        let index = self.made + 1;
        let number = match self.free {
            Some(free) => free,
            None if index < self.capacity => NonZeroU32::new(self.number(index))?,
            None => return None,
        };
        let tail = self.tail(number.get());
        // SAFETY: 1. what is on the free list is initialised (invariant 4); 2. index < capacity, so else the slot lies inside the mapped bytes (invariant 1) and nothing is
        // overwritten that anybody refers to; 3. `&mut self` is the pool's, so nobody else refers to tails; 4. generations up to `ever` were written.
        unsafe {
            if self.free.is_some() {
                self.free = (*tail).next_free;
                (*tail).live = true;
                if self.free.is_none() {
                    self.last_free = None;
                }
            } else {
                self.made = index;
                let generation = if index <= self.ever {
                    self.generation(index).read()
                } else {
                    1
                };
                tail.write(Tail {
                    generation,
                    live: true,
                    next_free: None,
                    previous_free: None,
                });
            }
        }
        self.count += 1;
        Some(number)
    }

    /// The slot with this number is free from now on.
    ///
    /// # Safety
    /// It is one that was made.
    #[inline(never)]
    unsafe fn put(&mut self, number: u32) {
        let near = number.wrapping_sub(self.origin()) < (self.count + NEAR) * self.size;
        let (free, last) = (self.free, self.last_free);
        self.count -= 1;
        // SAFETY: the slot was made (by the contract), and so were those on the list; `&mut self` is the pool's, so nobody else refers to them. The slot is on no list, as it is live.
        unsafe {
            let tail = self.tail(number);
            assert!((*tail).live);
            (*tail).retire();
            (*tail).live = false;
            let new = NonZeroU32::new(number);
            match (free, last) {
                (Some(free), _) if near => {
                    (*tail).next_free = Some(free);
                    (*self.tail(free.get())).previous_free = new;
                    self.free = new;
                }
                (_, Some(last)) => {
                    ((*tail).next_free, (*tail).previous_free) = (None, Some(last));
                    (*self.tail(last.get())).next_free = new;
                    self.last_free = new;
                }
                _ => {
                    (*tail).next_free = None;
                    (self.free, self.last_free) = (new, new);
                }
            }
        }
    }

    /// See [`Pool::lookup`].
    #[inline(never)]
    fn lookup(&self, id: u32) -> Option<NonZeroU32> {
        let index = id & INDEX_MASK;
        if index.wrapping_sub(1) >= self.made {
            return None;
        }
        let number = NonZeroU32::new(self.number(index))?;
        // SAFETY: the slot was made.
        let tail = unsafe { &*self.tail(number.get()) };
        (u32::from(tail.generation) == id >> 20 && tail.live).then_some(number)
    }
}

impl Tail {
    fn retire(&mut self) {
        self.generation = (self.generation + 1) & 0xfff;
    }
}

impl<R: Handle, T> Pool<R, T> {
    /// An empty pool in its region of that machine; nothing is mapped there yet.
    pub fn new(arch: &impl Arch) -> Pool<R, T> {
        let base = arch.pool_base(R::POOL as usize);
        const {
            assert!(!core::mem::needs_drop::<T>());
            assert!(core::mem::align_of::<Slot<T>>() <= 4096);
        }
        #[cfg(target_os = "none")]
        assert!(base.addr() as u32 == Self::ORIGIN);
        Pool {
            extent: Extent {
                base,
                pages: arch.pool_pages(R::POOL as usize),
                bytes: 0,
                size: Self::SIZE,
                tail: core::mem::offset_of!(Slot<T>, tail) as u32,
                capacity: 0,
                made: 0,
                free: None,
                last_free: None,
                count: 0,
                kept: 0,
                ever: 0,
            },
            slots: PhantomData,
        }
    }

    pub fn extent(&mut self) -> &mut Extent {
        &mut self.extent
    }

    /// What a number would be that stands for slot 0.
    #[cfg(target_os = "none")]
    pub(crate) const ORIGIN: u32 = crate::arch::x86_64::memory::pool(R::POOL) as u32;
    #[cfg(not(target_os = "none"))]
    const ORIGIN: u32 = 0;
    const SIZE: u32 = Self::object_size() as u32;

    /// The first slot's. For objects that begin as a constant, in which what counts is put before they are used.
    // SAFETY: handles are such numbers, and the first slot is made before all others.
    pub(crate) const FIRST: R =
        unsafe { core::mem::transmute_copy(&Self::ORIGIN.wrapping_add(Self::SIZE)) };

    pub const fn object_size() -> usize {
        core::mem::size_of::<Slot<T>>()
    }

    pub fn live_objects(&self) -> u32 {
        self.extent.count
    }

    /// Can `n` more objects be made?
    pub fn room(&self, n: u32) -> bool {
        // (Slot 0 is never used.)
        self.extent.count + n < self.extent.capacity
    }

    /// The handle that a number stands for which [`Handle::number`] once gave.
    #[inline]
    pub fn handle(&self, number: u32) -> R {
        match self.of_number(number) {
            Some(r) => r,
            None => no_such_object(),
        }
    }

    /// Is it the number of a slot that was made?
    #[inline(always)]
    fn of_number(&self, number: u32) -> Option<R> {
        // Before the first slot is a gap of one slot, so that what lies there is not taken for one.
        let before = Self::ORIGIN.wrapping_add(Self::SIZE);
        if Self::quotient(number.wrapping_sub(before)) >= self.extent.made {
            return None;
        }
        // SAFETY: slot 0, and all that lies before it, is not among the slots that were made.
        Some(R::make(unsafe { NonZeroU32::new_unchecked(number) }))
    }

    /// How many objects so many bytes are. Exact division: the odd part's inverse turns multiples of the size into quotients, and all else into greater numbers (Hacker's Delight, 10-17).
    #[inline(always)]
    fn quotient(bytes: u32) -> u32 {
        bytes
            .wrapping_mul(Self::INVERSE)
            .rotate_right(Self::SIZE.trailing_zeros())
    }

    /// Of an object's size without its factors of two, modulo 2³², by Newton's method: each step doubles how many bits are right, of which there are three at first.
    const INVERSE: u32 = {
        let odd = Self::SIZE >> Self::SIZE.trailing_zeros();
        let (mut inverse, mut right) = (odd, 3);
        while right < u32::BITS {
            inverse = inverse.wrapping_mul(2u32.wrapping_sub(odd.wrapping_mul(inverse)));
            right *= 2;
        }
        inverse
    };

    /// The slot of this index, from 1 on, if it was made; and the index of one.
    #[inline]
    pub fn nth(&self, index: u32) -> Option<R> {
        if index.wrapping_sub(1) >= self.extent.made {
            return None;
        }
        let number = Self::ORIGIN + index * Self::SIZE;
        // SAFETY: as in `of_number`.
        Some(R::make(unsafe { NonZeroU32::new_unchecked(number) }))
    }

    #[inline]
    pub fn index(&self, r: R) -> u32 {
        Self::quotient(r.number().wrapping_sub(Self::ORIGIN))
    }

    /// Where the slot of this handle lies: inside the region (invariants 2 and 3).
    #[cfg(target_os = "none")]
    #[inline(always)]
    fn place(&self, r: R) -> *mut Slot<T> {
        core::ptr::with_exposed_provenance_mut(r.number() as i32 as usize)
    }
    #[cfg(not(target_os = "none"))]
    fn place(&self, r: R) -> *mut Slot<T> {
        self.extent.base.wrapping_add(r.number() as usize).cast()
    }

    #[inline]
    fn slot(&self, r: R) -> &Slot<T> {
        // SAFETY: 1. the slot is initialised (invariants 2 and 3); 2. `&self` keeps writers out.
        unsafe { &*self.place(r) }
    }

    #[inline]
    fn slot_mut(&mut self, r: R) -> &mut Slot<T> {
        // SAFETY: as in `slot`; `&mut self` makes it the only reference.
        unsafe { &mut *self.place(r) }
    }

    /// Store a new object. None: the pool is empty.
    #[inline]
    pub fn insert(&mut self, value: T) -> Option<R> {
        let r = self.take()?;
        // SAFETY: the slot is this object's alone, and what was in it needs no drop.
        unsafe { (&raw mut (*self.place(r)).value).write(value) };
        Some(r)
    }

    /// An object of which all that counts will be written: some object that was removed before, or a new one.
    #[inline]
    pub fn insert_any(&mut self, new: impl FnOnce() -> T) -> Option<R> {
        if self.extent.free.is_none() {
            return self.insert(new());
        }
        self.take()
    }

    #[inline]
    fn take(&mut self) -> Option<R> {
        self.extent.take().map(R::make)
    }

    /// The object's id and every reference that carries a generation become invalid; the slot stays in use.
    pub fn retire(&mut self, r: R) {
        self.slot_mut(r).tail.retire();
    }

    /// Give the slot back. The caller has removed every reference.
    #[inline]
    pub fn remove(&mut self, r: R) {
        // SAFETY: the slot of a handle was made (invariant 3).
        unsafe { self.extent.put(r.number()) };
    }

    /// The id of an object (never 0).
    #[inline(never)]
    pub fn id(&self, r: R) -> u32 {
        self.index(r) | u32::from(self.slot(r).tail.generation) << 20
    }

    /// The object with this id, if it still exists.
    #[inline]
    pub fn lookup(&self, id: u32) -> Option<R> {
        self.extent.lookup(id).map(R::make)
    }

    /// The slot that an id names, whatever became of its object.
    #[inline]
    pub fn place_of(&self, id: u32) -> Option<R> {
        self.nth(id & INDEX_MASK)
    }

    /// [`Pool::lookup`] of an id that somebody keeps, so that its slot has not been given back: only whether it was retired is asked.
    #[inline]
    pub fn lookup_kept(&self, id: u32) -> Option<R> {
        let r = self.place_of(id)?;
        let slot = self.slot(r);
        debug_assert!(slot.tail.live);
        (u32::from(slot.tail.generation) == id >> 20).then_some(r)
    }

    /// Where an object lies, for code that has its address as a constant; and the object that lies there.
    #[inline]
    pub fn address(&self, r: R) -> usize {
        self.place(r).addr()
    }

    #[inline(always)]
    pub fn at_address(&self, address: usize) -> Option<R> {
        #[cfg(target_os = "none")]
        let number = address as u32;
        #[cfg(not(target_os = "none"))]
        let number = u32::try_from(address.wrapping_sub(self.extent.base.addr())).ok()?;
        self.of_number(number)
    }

    /// Two different objects at once.
    #[inline]
    pub fn pair(&mut self, a: R, b: R) -> (&mut T, &mut T) {
        if a == b {
            no_such_object();
        }
        // SAFETY: both slots are initialised (invariants 2 and 3) and they are different slots, so the references do not overlap.
        unsafe { (&mut (*self.place(a)).value, &mut (*self.place(b)).value) }
    }

    /// All live objects, for checks.
    #[cfg(any(test, feature = "sim"))]
    pub fn all(&self) -> impl Iterator<Item = R> + '_ {
        (1..=self.extent.made)
            .filter_map(|i| self.nth(i))
            .filter(|&r| self.slot(r).tail.live)
    }
}

/// No object has this number, a target leads to one of another kind, or two that must differ are one. (A function of its own: the backtrace says whose error it is.)
#[cold]
#[inline(never)]
fn no_such_object() -> ! {
    panic!("no such object")
}

impl<A: Arch> Kernel<A> {
    /// The object that a slot of `t`'s leads to, by a portal of this kind with these rights.
    #[inline(always)]
    pub(crate) fn own_object<R: Object>(
        &self,
        t: ThreadRef,
        slot: u64,
        kind: PortalKind,
        rights: u16,
    ) -> Result<R, Error> {
        assert!(R::is_led_to(kind));
        // A kind that leads to such objects, so the number is a handle's.
        self.own_number(t, slot, kind, rights).map(R::make)
    }

    /// The number of the object.
    #[inline(never)]
    fn own_number(
        &self,
        t: ThreadRef,
        slot: u64,
        kind: PortalKind,
        rights: u16,
    ) -> Result<NonZeroU32, Error> {
        let target = self.own_target_of(t, slot, kind)?;
        if !target.may(rights) {
            return Err(Error::NoRight);
        }
        NonZeroU32::new(target.object()).ok_or(Error::BadPortal)
    }
}

impl<R: Object, T> Pool<R, T> {
    /// The handle of which a target was made. (Where the kind has been asked for, nothing is asked here.)
    #[inline(always)]
    pub fn of(&self, target: Target) -> R {
        if !R::is_led_to(target.kind()) {
            no_such_object();
        }
        // SAFETY: a target of this kind has a handle's number, which is not 0 ([`Target::to`]).
        R::make(unsafe { NonZeroU32::new_unchecked(target.object()) })
    }

    /// The object that a target leads to.
    #[inline(always)]
    pub fn at(&self, target: Target) -> &T {
        &self[self.of(target)]
    }

    #[inline(always)]
    pub fn at_mut(&mut self, target: Target) -> &mut T {
        let r = self.of(target);
        &mut self[r]
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
