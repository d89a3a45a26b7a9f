//! Copies to, from and between address spaces: the page tables of each side are walked and the bytes moved through the direct map, page by page.
//! The nucleus never touches user addresses themselves, so no copy can fault and SMAP stays closed.

use super::memory::{frame_pointer, PAGE};
use super::paging::{
    existing_slot, set_bits, Recents, Root, ACCESSED, ADDRESS, DIRTY, PRESENT, UNCACHED, WRITABLE,
};
use crate::arch::CopyFault;
use cairn_abi::state::Registers;
use core::arch::asm;
use core::hint::black_box;

/// [`crate::copy::OPENING`] here.
const OPENING: usize = crate::copy::OPENING as usize;

/// The nucleus, where a copy may let interrupts in on its way; null: it may not.
pub type Opened = *mut ();
pub const CLOSED: Opened = core::ptr::null_mut();

#[cfg(target_os = "none")]
use super::glue::{open_or_note as let_in, opens_or_notes as opens};
/// There are no interrupts on the host.
#[cfg(not(target_os = "none"))]
fn opens() -> bool {
    false
}
#[cfg(not(target_os = "none"))]
unsafe fn let_in<T>(_: *mut T) {}

/// Move `len` bytes upwards.
///
/// # Safety
/// Both ranges must be accessible. They may overlap, the bytes that then arrive in the destination are unspecified.
#[inline(always)]
pub unsafe fn move_bytes(to: *mut u8, from: *const u8, len: usize) {
    if wide::pays(len) {
        // SAFETY: by the contract.
        return unsafe { wide::copy(to, from, len) };
    }
    // SAFETY: by the contract; the direction flag is clear in the nucleus.
    unsafe {
        asm!(
            "rep movsq",
            "mov ecx, {tail:e}",
            "rep movsb",
            tail = in(reg) len & 7,
            inout("rcx") len >> 3 => _,
            inout("rdi") to => _,
            inout("rsi") from => _,
            options(nostack, preserves_flags),
        );
    }
}

/// Copy a page; before and behind that interrupts may come in.
///
/// # Safety
/// As for [`move_bytes`]; and the portable part says that the running thread may be taken for interrupted, if something is opened.
pub unsafe fn copy_page(to: *mut u8, from: *const u8, open: Opened) {
    // SAFETY: by the contract.
    unsafe {
        if !open.is_null() {
            let_in(open);
        }
        move_bytes(to, from, PAGE as usize);
        if !open.is_null() {
            let_in(open);
        }
    }
}

/// All registers of a thread, with fewer instructions than one by one or by a function that has to ask how many bytes and where.
#[inline(always)]
pub fn copy_registers(to: &mut Registers, from: &Registers) {
    // SAFETY: two objects of this size, of words; the direction flag is clear in the nucleus.
    unsafe {
        asm!(
            "rep movsq",
            inout("ecx") size_of::<Registers>() / 8 => _,
            inout("rdi") to => _,
            inout("rsi") from => _,
            options(nostack, preserves_flags),
        );
    }
}

/// Fill a page with two words, again and again.
///
/// # Safety
/// The 4096 bytes at `page` must be writable and aligned to 32, and nobody may hold a reference to them.
#[inline(never)]
pub unsafe fn fill_page(page: *mut u8, words: (u64, u64)) {
    // SAFETY: by the contract.
    unsafe {
        let first: *mut (u64, u64) = page.cast();
        first.write(words);
        if wide::pays(PAGE as usize) {
            return wide::repeat(page);
        }
        for i in 1..PAGE as usize / size_of::<(u64, u64)>() {
            first.add(i).write(words);
        }
    }
}

/// Copying with AVX registers. They hold some program's values: the few that are used are put aside and brought back, which is all the care they need since nobody
/// else uses them in the nucleus.
pub mod wide {
    use super::PAGE;
    use core::arch::asm;
    use core::mem::MaybeUninit;
    use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};

    /// What is copied at a time. From this length on putting registers aside pays.
    const BLOCK: usize = 512;

    /// From which length on there is something to copy with: [`BLOCK`] with AVX.
    static LEAST: AtomicUsize = AtomicUsize::new(usize::MAX);
    /// What XGETBV is asked for: 1 where it tells which states are in use, otherwise 0, which are switched on.
    static ASKED: AtomicU32 = AtomicU32::new(0);

    /// Say what the processor has: AVX switched on, XGETBV with index 1.
    pub fn init(avx: bool, in_use_known: bool) {
        LEAST.store(if avx { BLOCK } else { usize::MAX }, Relaxed);
        ASKED.store(in_use_known as u32, Relaxed);
    }

    /// Is [`copy`] there for so many bytes, and pays?
    #[inline(always)]
    pub fn pays(len: usize) -> bool {
        len >= LEAST.load(Relaxed)
    }

    /// Values of ymm0 and ymm1.
    type Aside = [u8; 64];

    /// Which states the program may have in use (bit 2: upper halves). If upper halves were all in their initial state they are so again behind a copy, and the processor is told (a
    /// program in SSE code would be slowed down otherwise).
    #[inline(always)]
    fn in_use() -> u32 {
        let in_use: u32;
        // SAFETY: reads a register that is there with AVX.
        unsafe {
            asm!("xgetbv", in("ecx") ASKED.load(Relaxed), out("eax") in_use, out("edx") _, options(nomem, nostack, preserves_flags))
        };
        in_use
    }

    /// Copy [`BLOCK`] bytes or more.
    ///
    /// # Safety
    /// Both ranges are accessible, and it [`pays`].
    #[inline(never)]
    pub unsafe fn copy(to: *mut u8, from: *const u8, len: usize) {
        let in_use = in_use();
        let mut aside = MaybeUninit::<Aside>::uninit();
        // SAFETY: by the contract. The compiler does not use these registers (the nucleus is soft-float); all are as before in the end.
        unsafe {
            asm!(
                "vmovdqu [{aside}], ymm0",
                "vmovdqu [{aside} + 32], ymm1",
                "2:",
                ".set at, 0",
                ".rept 8",
                "vmovdqu ymm0, [{from} + {left} + at]",
                "vmovdqu ymm1, [{from} + {left} + at + 32]",
                "vmovdqu [{to} + {left} + at], ymm0",
                "vmovdqu [{to} + {left} + at + 32], ymm1",
                ".set at, at + 64",
                ".endr",
                "add {left}, {step}",
                "mov {step:e}, {block}",
                "jnz 2b",
                "vmovdqu ymm0, [{aside}]",
                "vmovdqu ymm1, [{aside} + 32]",
                "test {in_use:e}, 4",
                "jnz 4f",
                "vzeroupper",
                "4:",
                in_use = in(reg) in_use,
                aside = in(reg) aside.as_mut_ptr(),
                block = const BLOCK,
                to = in(reg) to.wrapping_add(len),
                from = in(reg) from.wrapping_add(len),
                // To the end, below zero. Behind the first block so far that whole ones are left, of which the next has bytes of the first once more.
                left = inout(reg) len.wrapping_neg() => _,
                step = inout(reg) (len - 1) % BLOCK + 1 => _,
                options(nostack),
            );
        }
    }

    /// The page's first 16 bytes fill it.
    ///
    /// # Safety
    /// The page at `to` is writable and aligned, AVX is on.
    #[inline(always)]
    pub unsafe fn repeat(to: *mut u8) {
        let in_use = in_use();
        let mut aside = MaybeUninit::<Aside>::uninit();
        // SAFETY: as in `copy`.
        unsafe {
            asm!(
                "vmovdqu [{aside}], ymm0",
                "vbroadcastf128 ymm0, [{end} - {page}]",
                "2:",
                ".set at, 0",
                ".rept 32",
                "vmovdqa [{end} + {at} + at], ymm0",
                ".set at, at + 32",
                ".endr",
                "add {at}, 1024",
                "jnz 2b",
                "vmovdqu ymm0, [{aside}]",
                "test {in_use:e}, 4",
                "jnz 4f",
                "vzeroupper",
                "4:",
                in_use = in(reg) in_use,
                aside = in(reg) aside.as_mut_ptr(),
                page = const PAGE,
                end = in(reg) to.wrapping_add(PAGE as usize),
                at = inout(reg) -(PAGE as isize) => _,
                options(nostack),
            );
        }
    }
}

/// Where the byte at `address` is in the direct map, if the space's program itself might read (or write) it. Marks the page used as the processor would.
#[inline(always)]
fn reach(
    root: Root,
    address: u64,
    write: bool,
    recents: &mut Recents,
) -> Result<*mut u8, CopyFault> {
    let slot = existing_slot(root, address, recents.at(root, address, write));
    reach_slot(slot, address, write)
}

/// [`reach`] when the page-table entry is known (None: there is not even a table).
#[inline(always)]
fn reach_slot(slot: Option<*mut u64>, address: u64, write: bool) -> Result<*mut u8, CopyFault> {
    let fault = |present| CopyFault {
        destination: write,
        address,
        present,
    };
    let slot = slot.ok_or(fault(false))?;
    // SAFETY: the slot is an entry of a live table; the nucleus lock is held.
    let entry = unsafe { *slot };
    let (needed, mark) = if write {
        (PRESENT | WRITABLE, ACCESSED | DIRTY)
    } else {
        (PRESENT, ACCESSED)
    };
    // Device registers are outside the direct map and not for copies.
    if entry & needed != needed || entry & UNCACHED != 0 {
        return Err(fault(entry != 0));
    }
    if entry & mark != mark {
        // SAFETY: as before.
        unsafe { set_bits(slot, mark) };
    }
    let frame = ((entry & ADDRESS) / PAGE) as crate::arch::Frame;
    // SAFETY: the offset stays within the frame.
    Ok(unsafe { frame_pointer(frame).add((address % PAGE) as usize) })
}

/// One side of a copy over several pages.
struct Side {
    root: Root,
    address: u64,
    write: bool,
    /// Entry of the page before; null: it was not looked up.
    slot: *mut u64,
    /// Where the next byte is, and how many lie there.
    at: *mut u8,
    left: usize,
}

/// Bytes that one page table maps.
const TABLE_SPAN: u64 = PAGE * 512;

impl Side {
    fn new((root, address): (Root, u64), write: bool) -> Side {
        Side {
            root,
            address,
            write,
            slot: core::ptr::null_mut(),
            at: core::ptr::null_mut(),
            left: 0,
        }
    }

    /// Have at least one byte, that at offset `done`.
    #[inline(always)]
    fn reach(&mut self, done: usize, recents: &mut Recents) -> Result<(), (usize, CopyFault)> {
        if self.left != 0 {
            return Ok(());
        }
        let address = self.address.wrapping_add(done as u64);
        let slot = if self.slot.is_null() || address.is_multiple_of(TABLE_SPAN) {
            existing_slot(
                self.root,
                address,
                recents.at(self.root, address, self.write),
            )
        } else {
            // SAFETY: the page is in the same table as the one before, whose entry this was, so the next entry is in it.
            Some(unsafe { self.slot.add(1) })
        };
        let reached = reach_slot(slot, address, self.write);
        self.slot = slot.unwrap_or(core::ptr::null_mut());
        self.at = reached.map_err(|fault| (done, fault))?;
        self.left = rest_of_page(address);
        Ok(())
    }

    #[inline(always)]
    fn advance(&mut self, bytes: usize) {
        self.at = self.at.wrapping_add(bytes);
        self.left -= bytes;
    }
}

/// How many bytes are left in the page of `address`.
fn rest_of_page(address: u64) -> usize {
    (PAGE - address % PAGE) as usize
}

/// Most copies are short, lie in one page on each side, and not the first in their tables; see [`crate::arch::Arch::copy_near`].
#[inline(always)]
pub fn copy_near(
    source: (Root, u64),
    destination: (Root, u64),
    len: usize,
    recents: &mut Recents,
) -> bool {
    if len > rest_of_page(source.1) || len > rest_of_page(destination.1) {
        return false;
    }
    let Some(from) = reach_recent(source, false, recents) else {
        return false;
    };
    let Some(to) = reach_recent(destination, true, recents) else {
        return false;
    };
    // SAFETY: both pointers show at least `len` bytes of mapped frames of programs.
    unsafe { move_bytes(to, from, len) };
    true
}

/// [`reach`] where a table is known, and the page marked; None: it is not, or there is a fault.
#[inline(always)]
fn reach_recent(
    (root, address): (Root, u64),
    write: bool,
    recents: &mut Recents,
) -> Option<*mut u8> {
    let slot = recents.at(root, address, write).known(root, address)?;
    // SAFETY: the slot is an entry of a live table; the nucleus lock is held.
    let entry = unsafe { *slot };
    let wanted = if write {
        PRESENT | WRITABLE | ACCESSED | DIRTY
    } else {
        PRESENT | ACCESSED
    };
    if entry & (wanted | UNCACHED) != wanted {
        return None;
    }
    let frame = ((entry & ADDRESS) / PAGE) as crate::arch::Frame;
    // SAFETY: the offset stays within the frame.
    Some(unsafe { frame_pointer(frame).add((address % PAGE) as usize) })
}

/// Copy between spaces; see [`crate::arch::Arch::copy`]. Interrupts come in after each piece of at most [`OPENING`] bytes, if that is said.
///
/// # Safety
/// The portable part says that the running thread may be taken for interrupted, if something is opened.
pub unsafe fn copy(
    source: (Root, u64),
    destination: (Root, u64),
    len: usize,
    recents: &mut Recents,
    open: Opened,
) -> Result<(), (usize, CopyFault)> {
    let opens = !open.is_null() && len > OPENING && opens();
    let most = if opens { OPENING } else { len };
    // A pointer that the compiler knows nothing of, so that what is changed behind it is changed when interrupts come in.
    let recents = black_box(recents);
    let (mut from, mut to) = (Side::new(source, false), Side::new(destination, true));
    let mut done = 0;
    while done < len {
        from.reach(done, recents)?;
        to.reach(done, recents)?;
        let piece = most.min(len - done).min(from.left).min(to.left);
        // SAFETY: both places have so many bytes of mapped frames of programs.
        unsafe { move_bytes(to.at, from.at, piece) };
        from.advance(piece);
        to.advance(piece);
        done += piece;
        if opens {
            // SAFETY: by the contract.
            unsafe { let_in(recents) }
        }
    }
    Ok(())
}

/// Read a program's memory.
pub fn read(
    root: Root,
    address: u64,
    into: &mut [u8],
    recents: &mut Recents,
) -> Result<(), CopyFault> {
    // SAFETY: the slice's bytes.
    unsafe { transfer(root, address, into.as_mut_ptr(), into.len(), false, recents) }
}

/// Write a program's memory.
pub fn write(
    root: Root,
    address: u64,
    from: &[u8],
    recents: &mut Recents,
) -> Result<(), CopyFault> {
    // SAFETY: the slice's bytes, which are read.
    unsafe {
        transfer(
            root,
            address,
            from.as_ptr().cast_mut(),
            from.len(),
            true,
            recents,
        )
    }
}

/// Copy `len` bytes between a program's memory and the nucleus's: to the program's (`write`), or from there.
///
/// # Safety
/// `own` shows so many bytes, to be read or written.
#[inline(never)]
unsafe fn transfer(
    root: Root,
    address: u64,
    own: *mut u8,
    len: usize,
    write: bool,
    recents: &mut Recents,
) -> Result<(), CopyFault> {
    let mut done = 0;
    while done < len {
        let at = address.wrapping_add(done as u64);
        let theirs = reach(root, at, write, recents)?;
        let ours = own.wrapping_add(done);
        let (to, from) = if write {
            (theirs, ours)
        } else {
            (ours, theirs)
        };
        let piece = (len - done).min(rest_of_page(at));
        // SAFETY: the one is within a mapped frame, the other by the contract.
        unsafe { move_bytes(to, from, piece) };
        done += piece;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::paging::{
        change_row, list_push, map, protect, query, root_new, share_row, Recent,
    };
    use super::*;
    use crate::arch::FrameList;
    use cairn_abi::layout::USER_TOP;
    use cairn_abi::service::memory::prot::{READ, WRITE};
    use core::sync::atomic::{AtomicU64, Ordering::SeqCst};

    fn copy(
        source: (Root, u64),
        destination: (Root, u64),
        len: usize,
    ) -> Result<(), (usize, CopyFault)> {
        // SAFETY: nothing is opened.
        unsafe { super::copy(source, destination, len, &mut { Recents::NONE }, CLOSED) }
    }

    fn read(root: Root, address: u64, into: &mut [u8]) -> Result<(), CopyFault> {
        super::read(root, address, into, &mut { Recents::NONE })
    }

    fn write(root: Root, address: u64, from: &[u8]) -> Result<(), CopyFault> {
        super::write(root, address, from, &mut { Recents::NONE })
    }

    fn space(root: u32, first_table: u32, pages: &[(u64, u32, u64)]) -> Root {
        let root = root_new(root, 0);
        let mut tables = FrameList::default();
        for frame in first_table..first_table + 12 {
            list_push(&mut tables, frame);
        }
        let mut recent = Recent::NONE;
        for &(address, frame, protection) in pages {
            map(root, address, frame, protection, &mut tables, &mut recent).unwrap();
        }
        root
    }

    #[test]
    fn copies_across_page_borders() {
        let a = space(1, 10, &[(0x1000, 100, READ), (0x2000, 101, READ)]);
        let b = space(
            2,
            30,
            &[
                (0x5000, 110, READ | WRITE),
                (0x6000, 111, READ | WRITE),
                (0x7000, 112, READ | WRITE),
            ],
        );
        let bytes: Vec<u8> = (0..8192u32).map(|i| (i * 7 % 251) as u8).collect();
        for (i, frame) in [100, 101].into_iter().enumerate() {
            // SAFETY: the arena's frame is 4096 bytes.
            unsafe { move_bytes(frame_pointer(frame), bytes[i * 4096..].as_ptr(), 4096) };
        }
        // Long and short, with every kind of rest, pieces of all lengths.
        let mut cases = vec![(0, 0, 8192), (3, 5, 8000), (4095, 1, 2), (4090, 4095, 4000)];
        cases.extend((0..70).map(|n| (4096 - n, 100, 520 + n)));
        cases.extend((0..70).map(|n| (100, 4096 - n, 1 + n)));
        let ways = [false, true];
        for (wide_registers, (from, to, len)) in cases
            .into_iter()
            .flat_map(|case| ways.map(|way| (way, case)))
        {
            wide::init(
                wide_registers && std::is_x86_feature_detected!("avx"),
                false,
            );
            // SAFETY: frames of the arena that the target space maps.
            let fill = |words: (u64, u64)| unsafe {
                (110..113).for_each(|frame| fill_page(frame_pointer(frame), words));
                for frame in 110..113 {
                    let page = std::slice::from_raw_parts(frame_pointer(frame).cast(), 256);
                    assert!(page.iter().all(|&found: &(u64, u64)| found == words));
                }
            };
            fill((0x0123_4567_89ab_cdef, 77));
            fill((0, 0));
            copy((a, 0x1000 + from), (b, 0x5000 + to), len as usize).unwrap();
            let mut seen = vec![0; len as usize];
            read(b, 0x5000 + to, &mut seen).unwrap();
            assert_eq!(seen, &bytes[from as usize..(from + len) as usize]);
            // Not a byte more.
            let mut next = [1];
            if read(b, 0x5000 + to + len, &mut next).is_ok() {
                assert_eq!(next, [0]);
            }
        }
        assert!(query(b, 0x5000, &mut { Recent::NONE }).unwrap().dirty);
        assert!(
            !query(a, 0x1000, &mut { Recent::NONE }).unwrap().dirty
                && query(a, 0x1000, &mut { Recent::NONE }).unwrap().accessed
        );
    }

    /// While an entry is marked, protected anew and shared, another core writes the page: its processor's DIRTY stays.
    #[test]
    fn what_another_core_marks_stays() {
        const ROUNDS: u64 = 400_000;
        let (a, b) = (
            space(3, 10, &[(0x1000, 100, READ | WRITE)]),
            space(4, 30, &[]),
        );
        let (mut here, mut there) = (Recent::NONE, Recent::NONE);
        let slot = existing_slot(a, 0x1000, &mut here).unwrap();
        let mut tables = FrameList::default();
        (40..50).for_each(|frame| list_push(&mut tables, frame));
        // SAFETY: an entry of the arena, which this test's threads alone use.
        let entry = unsafe { AtomicU64::from_ptr(slot) };
        let (begun, done) = (&AtomicU64::new(0), &AtomicU64::new(0));
        let wait = |told: &AtomicU64, round| {
            while told.load(SeqCst) != round {
                std::thread::yield_now();
            }
        };
        let pause = |steps| (0..steps).for_each(|_: u64| core::hint::spin_loop());
        let mut lost = [0; 4];
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for round in 1..=ROUNDS {
                    wait(begun, round);
                    pause(round % 7);
                    entry.fetch_or(ACCESSED | DIRTY, SeqCst);
                    done.store(round, SeqCst);
                }
            });
            for round in 1..=ROUNDS {
                map(a, 0x1000, 100, READ | WRITE, &mut tables, &mut here).unwrap();
                begun.store(round, SeqCst);
                pause(round % 5);
                let how = (round % 4) as usize;
                match how {
                    0 => super::read(a, 0x1000, &mut [0], &mut { Recents::NONE }).unwrap(),
                    1 => drop(protect(a, 0x1000, READ, &mut here)),
                    2 => change_row(a, 0x1000, 1, Some(READ), &mut here, |_| true, |_| {}),
                    _ => {
                        let row = [&mut here, &mut there];
                        let list = &mut tables;
                        share_row(
                            a,
                            b,
                            0x1000,
                            1,
                            true,
                            list,
                            row,
                            |_, _| {},
                            |_, _| {},
                            || {},
                        )
                        .unwrap()
                    }
                }
                wait(done, round);
                lost[how] += u64::from(entry.load(SeqCst) & DIRTY == 0);
            }
        });
        assert_eq!(lost, [0; 4]);
    }

    #[test]
    fn reports_what_faulted_and_how_far_it_came() {
        let a = space(1, 10, &[(0x1000, 100, READ)]);
        let b = space(2, 30, &[(0x5000, 110, READ | WRITE), (0x6000, 111, READ)]);
        let fault = |destination, address, present| CopyFault {
            destination,
            address,
            present,
        };
        assert_eq!(
            copy((a, 0x1800), (b, 0x5000), 4096),
            Err((0x800, fault(false, 0x2000, false)))
        );
        assert_eq!(
            copy((a, 0x1000), (b, 0x5ff0), 64),
            Err((16, fault(true, 0x6000, true)))
        );
        assert_eq!(write(b, 0x6004, &[1]), Err(fault(true, 0x6004, true)));
        assert_eq!(
            read(b, u64::MAX - 3, &mut [0; 8]),
            Err(fault(false, u64::MAX - 3, false))
        );
        assert_eq!(
            read(b, USER_TOP, &mut [0; 8]),
            Err(fault(false, USER_TOP, false))
        );
        assert_eq!(
            read(b, 0xffff_8000_0000_0000, &mut [0; 8]),
            Err(fault(false, 0xffff_8000_0000_0000, false))
        );
    }
}
