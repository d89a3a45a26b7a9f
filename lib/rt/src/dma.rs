//! What a driver needs whose device reads and writes memory by itself: memory for both ([`Piece`]), and pages of clients, pinned for as long as the device has them ([`Driver`]). See docs/block.md.

use crate::portal::Portal;
use cairn_idl::errno::EFAULT;
use cairn_idl::vm::{self, COPY_MOST, DMA_ALLOC_MAX, PIN_FEW, PIN_MOST};
use cairn_idl::wire::Failure;
use core::sync::atomic::{fence, Ordering};

/// Most pages, or frames, of one request.
pub const MOST: usize = PIN_MOST as usize;
/// Bytes of a [`Piece`].
pub const PIECE: usize = DMA_ALLOC_MAX as usize;
/// Most bytes of one [`Driver::read`] or [`Driver::write`].
pub const COPY: usize = COPY_MOST as usize;
const FEW: usize = PIN_FEW as usize;

/// A driver as `vm` knows it, by the portal that the manifest gave it (`{ to = "vm", badge = N }` with a badge from [`vm::BADGE_DRIVER_FIRST`] on).
#[derive(Clone, Copy, Debug)]
pub struct Driver(Portal);

/// Memory that the device sees as well, as long as this driver lives: [`PIECE`] bytes of zeroes at first. What the device writes there is not to be trusted, and may change at any time.
pub struct Piece {
    base: *mut u8,
    physical: u64,
}

/// Everything that was written before is seen by the device before anything that is written behind it, and what is read behind it was not read before.
#[inline]
pub fn barrier() {
    fence(Ordering::SeqCst);
}

/// Up to eight numbers in words, two in each.
fn pack(numbers: &[u32]) -> [u64; 4] {
    let mut words = [0; 4];
    for (i, &number) in numbers.iter().take(FEW).enumerate() {
        words[i / 2] |= u64::from(number) << (i % 2 * 32);
    }
    words
}

fn whole(moved: u64, wanted: u64) -> Result<(), Failure> {
    match moved == wanted {
        true => Ok(()),
        false => Err(Failure::Refused(EFAULT)),
    }
}

/// Some numbers and further ones, as far as there is room.
fn bytes(some: &[u32], further: &[u32]) -> [u8; MOST * 4] {
    let mut list = [0; MOST * 4];
    let (places, _) = list.as_chunks_mut();
    let (before, behind) = places.split_at_mut(some.len().min(MOST));
    // Two loops: one over a chain looks at which of the two it is in each time.
    for (places, numbers) in [(before, some), (behind, further)] {
        for (place, number) in places.iter_mut().zip(numbers) {
            *place = number.to_le_bytes();
        }
    }
    list
}

impl Driver {
    /// The device was reset and does nothing: what the one before had pinned is free.
    pub fn begin(portal: Portal) -> Result<Driver, Failure> {
        vm::Client(&portal).dma_begin()?;
        Ok(Driver(portal))
    }

    pub fn piece(&self) -> Result<Piece, Failure> {
        let made = vm::Client(&self.0).dma_alloc(DMA_ALLOC_MAX)?;
        Ok(Piece {
            base: made.address as *mut u8,
            physical: made.physical,
        })
    }

    /// The frames of these pages of a client's arena, which are nobody else's until [`Driver::unpin`]. The device is done with the frames in `done`: they are unpinned by the same call, also if the pages cannot be pinned. At most [`MOST`] together.
    pub fn pin(
        &self,
        arena: Portal,
        pages: &[u32],
        frames: &mut [u32],
        done: &[u32],
    ) -> Result<(), Failure> {
        let client = vm::Client(&arena);
        let (count, frames) = (pages.len().min(MOST), &mut frames[..pages.len()]);
        if count <= FEW && done.is_empty() {
            let [a, b, c, d] = pack(pages);
            let told = client.dma_pin_few(count as u64, a, b, c, d)?;
            let words = [told.frames_a, told.frames_b, told.frames_c, told.frames_d];
            for (i, place) in frames.iter_mut().enumerate() {
                *place = (words[i / 2] >> (i % 2 * 32)) as u32;
            }
            return Ok(());
        }
        let mut told = [0; MOST * 4];
        let told = &mut told[..count * 4];
        let asked = bytes(done, pages);
        let asked = &asked[..(done.len() + count).min(MOST) * 4];
        if client.dma_pin(done.len() as u64, asked, told)? != count * 4 {
            return Err(Failure::Nonsense);
        }
        let (numbers, _) = told.as_chunks();
        for (place, number) in frames.iter_mut().zip(numbers) {
            *place = u32::from_le_bytes(*number);
        }
        Ok(())
    }

    /// Bytes of a client's arena, for devices that do not reach it by themselves: from byte `at` on (at most [`COPY`] of them).
    pub fn read(&self, arena: Portal, at: u64, into: &mut [u8]) -> Result<(), Failure> {
        let wanted = into.len() as u64;
        whole(vm::Client(&arena).share_read(at, into)?, wanted)
    }

    pub fn write(&self, arena: Portal, at: u64, from: &[u8]) -> Result<(), Failure> {
        whole(vm::Client(&arena).share_write(at, from)?, from.len() as u64)
    }

    /// The device is done with these.
    pub fn unpin(&self, frames: &[u32]) -> Result<(), Failure> {
        let client = vm::Client(&self.0);
        if frames.len() <= FEW {
            let [a, b, c, d] = pack(frames);
            return client.dma_unpin_few(frames.len() as u64, a, b, c, d);
        }
        let count = frames.len().min(MOST);
        client.dma_unpin(&bytes(frames, &[])[..count * 4])
    }
}

impl Piece {
    /// Where byte `offset` is for the device.
    pub fn physical(&self, offset: usize) -> u64 {
        self.physical + offset as u64
    }

    /// The value of this type at byte `offset`; None outside, or if it is not aligned.
    fn at<T>(&self, offset: usize) -> Option<*mut T> {
        let size = size_of::<T>();
        let inside = offset.is_multiple_of(size) && offset.checked_add(size)? <= PIECE;
        inside.then(|| self.base.wrapping_add(offset).cast())
    }

    /// 0 outside.
    pub fn read<T: Plain>(&self, offset: usize) -> T {
        match self.at::<T>(offset) {
            // SAFETY: `vm` says that these PIECE bytes are mapped for this domain, and nothing unmaps them; they are reached only through volatile accesses like this one, aligned, and any bits are a value of the type.
            Some(place) => unsafe { place.read_volatile() },
            None => T::default(),
        }
    }

    /// Nothing outside.
    pub fn write<T: Plain>(&self, offset: usize, value: T) {
        if let Some(place) = self.at::<T>(offset) {
            // SAFETY: as in `read`; no object of the language lies there.
            unsafe { place.write_volatile(value) };
        }
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for u8 {}
    impl Sealed for u16 {}
    impl Sealed for u32 {}
    impl Sealed for u64 {}
}

/// Integers of the sizes that devices know.
pub trait Plain: Copy + Default + sealed::Sealed {}
impl Plain for u8 {}
impl Plain for u16 {}
impl Plain for u32 {}
impl Plain for u64 {}
