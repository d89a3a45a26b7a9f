//! Copies to, from and between address spaces: the page tables of each side are walked and the bytes moved through the direct map, page by page.
//! The nucleus never touches user addresses themselves, so no copy can fault and SMAP stays closed.

use super::memory::{frame_pointer, PAGE};
use super::paging::{
    existing_slot, Recents, Root, ACCESSED, ADDRESS, DIRTY, PRESENT, UNCACHED, WRITABLE,
};
use crate::arch::CopyFault;
use crate::copy::OPENING;
use cairn_abi::state::Registers;
use core::arch::asm;
use core::hint::black_box;
use core::mem::MaybeUninit;

/// The nucleus, where a copy may let interrupts in on its way; null: it may not.
pub type Opened = *mut ();
pub const CLOSED: Opened = core::ptr::null_mut();

#[cfg(target_os = "none")]
use super::glue::{open as let_in, opens};
/// There are no interrupts on the host.
#[cfg(not(target_os = "none"))]
fn opens() -> bool {
    false
}
#[cfg(not(target_os = "none"))]
unsafe fn let_in<T>(_: *mut T) {}

/// A copy of so many bytes lets interrupts in if there are more than [`OPENING`].
#[inline(always)]
fn opened(open: Opened, len: usize) -> Opened {
    if len as u64 > OPENING && opens() {
        open
    } else {
        CLOSED
    }
}

/// Move `len` bytes upwards.
///
/// # Safety
/// Both ranges must be accessible. They may overlap, the bytes that then arrive in the destination are unspecified.
#[inline(always)]
pub unsafe fn move_bytes(to: *mut u8, from: *const u8, len: usize) {
    // SAFETY: by the contract.
    unsafe { move_open(to, from, len, CLOSED) }
}

/// The same, where interrupts may be let in if vector registers do it.
///
/// # Safety
/// As for [`move_bytes`], and for [`wide::copy`] with what is opened.
#[inline(always)]
pub unsafe fn move_open(to: *mut u8, from: *const u8, len: usize, open: Opened) {
    if len >= wide::WORTH_IT && wide::available() {
        // SAFETY: by the contract.
        return unsafe { wide::copy_piece(to, from, len, open) };
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
pub unsafe fn fill_page(page: *mut u8, words: [u64; 2]) {
    // SAFETY: by the contract.
    unsafe {
        let first: *mut [u64; 2] = page.cast();
        first.write(words);
        if wide::available() {
            return wide::repeat(page);
        }
        for i in 1..PAGE as usize / size_of::<[u64; 2]>() {
            first.add(i).write(words);
        }
    }
}

/// Copying with AVX registers. They hold some program's values: the few that are used are put aside and brought back, which is all the care they need since nobody
/// else uses them in the nucleus.
pub mod wide {
    use super::{opened, Opened, OPENING, PAGE};
    use core::arch::asm;
    use core::mem::MaybeUninit;
    use core::sync::atomic::{AtomicU8, Ordering::Relaxed};

    /// From this length on putting registers aside pays.
    pub const WORTH_IT: usize = 512;

    /// 0: no AVX. 1: AVX. 2: AVX, and the processor tells whether upper halves are in use.
    static LEVEL: AtomicU8 = AtomicU8::new(0);

    /// Say what the processor has: AVX switched on, XGETBV with index 1.
    pub fn init(avx: bool, in_use_known: bool) {
        LEVEL.store(avx as u8 * (1 + in_use_known as u8), Relaxed);
    }

    #[inline(always)]
    pub fn available() -> bool {
        LEVEL.load(Relaxed) != 0
    }

    /// Values of ymm0 and ymm1.
    #[repr(align(32))]
    struct Aside(#[allow(dead_code, reason = "only assembly touches it")] [u8; 64]);

    /// If the program's upper halves were all in their initial state they are so again, and the processor is told (a program in SSE code would be slowed down otherwise).
    #[inline(always)]
    fn upper_halves_clean() -> bool {
        if LEVEL.load(Relaxed) < 2 {
            return false;
        }
        let in_use: u32;
        // SAFETY: reads a register that `init` was told to exist.
        unsafe {
            asm!("xgetbv", in("ecx") 1, out("eax") in_use, out("edx") _, options(nomem, nostack, preserves_flags))
        };
        in_use & 4 == 0
    }

    /// # Safety
    /// Only after `upper_halves_clean`, when the lower halves have been brought back.
    #[inline(always)]
    unsafe fn clean_upper_halves() {
        // SAFETY: by the contract this changes no value.
        unsafe { asm!("vzeroupper", options(nomem, nostack, preserves_flags)) }
    }

    /// Copy [`WORTH_IT`] bytes or more.
    ///
    /// # Safety
    /// Both ranges are accessible, AVX is on; as for [`copy`] with what is opened.
    #[inline(always)]
    pub unsafe fn copy_piece(to: *mut u8, from: *const u8, len: usize, open: Opened) {
        if len != WORTH_IT {
            // SAFETY: by the contract.
            return unsafe { copy(&[Piece { to, from, len }], opened(open, len)) };
        }
        let clean = upper_halves_clean();
        let mut aside = MaybeUninit::<[u8; 64]>::uninit();
        // SAFETY: by the contract; registers as in `copy`.
        unsafe {
            asm!(
                "vmovdqu [{aside}], ymm0",
                "vmovdqu [{aside} + 32], ymm1",
                ".set at, 0",
                ".rept 8",
                "vmovdqu ymm0, [{from} + at]",
                "vmovdqu ymm1, [{from} + at + 32]",
                "vmovdqu [{to} + at], ymm0",
                "vmovdqu [{to} + at + 32], ymm1",
                ".set at, at + 64",
                ".endr",
                "vmovdqu ymm0, [{aside}]",
                "vmovdqu ymm1, [{aside} + 32]",
                aside = in(reg) aside.as_mut_ptr(),
                from = in(reg) from,
                to = in(reg) to,
                options(nostack, preserves_flags),
            );
            if clean {
                clean_upper_halves();
            }
        }
    }

    /// Bytes that lie together on both sides.
    #[derive(Clone, Copy)]
    #[repr(C)]
    pub struct Piece {
        pub to: *mut u8,
        pub from: *const u8,
        pub len: usize,
    }

    /// Copy one piece after the other. In long ones interrupts are let in after each [`OPENING`] bytes, if that is said.
    ///
    /// # Safety
    /// The ranges of all pieces are accessible, AVX is on; and the portable part says that the running thread may be taken for interrupted, if something is opened.
    #[inline(never)]
    pub unsafe fn copy(pieces: &[Piece], open: Opened) {
        if pieces.is_empty() {
            return;
        }
        let clean = upper_halves_clean();
        let mut aside = MaybeUninit::<Aside>::uninit();
        // SAFETY: by the contract. The compiler does not use these registers (the nucleus is soft-float); all are as before in the end.
        unsafe {
            asm!(
                "vmovdqa [{aside}], ymm0",
                "vmovdqa [{aside} + 32], ymm1",
                "xor {rest:e}, {rest:e}",
                "2:",
                "mov rdi, [{piece}]",
                "mov rsi, [{piece} + 8]",
                "mov rcx, [{piece} + 16]",
                "test {open}, {open}",
                "jz 22f",
                // Of a long one first this much.
                "21:",
                "cmp rcx, {opening} + 512",
                "jb 22f",
                "lea {rest}, [rcx - {opening}]",
                "mov ecx, {opening}",
                // Blocks of 512 bytes.
                "22:",
                "sub rcx, 512",
                "jb 4f",
                "3:",
                "vmovdqu ymm0, [rsi]",
                "vmovdqu ymm1, [rsi + 32]",
                "vmovdqu [rdi], ymm0",
                "vmovdqu [rdi + 32], ymm1",
                "vmovdqu ymm0, [rsi + 64]",
                "vmovdqu ymm1, [rsi + 96]",
                "vmovdqu [rdi + 64], ymm0",
                "vmovdqu [rdi + 96], ymm1",
                "vmovdqu ymm0, [rsi + 128]",
                "vmovdqu ymm1, [rsi + 160]",
                "vmovdqu [rdi + 128], ymm0",
                "vmovdqu [rdi + 160], ymm1",
                "vmovdqu ymm0, [rsi + 192]",
                "vmovdqu ymm1, [rsi + 224]",
                "vmovdqu [rdi + 192], ymm0",
                "vmovdqu [rdi + 224], ymm1",
                "vmovdqu ymm0, [rsi + 256]",
                "vmovdqu ymm1, [rsi + 288]",
                "vmovdqu [rdi + 256], ymm0",
                "vmovdqu [rdi + 288], ymm1",
                "vmovdqu ymm0, [rsi + 320]",
                "vmovdqu ymm1, [rsi + 352]",
                "vmovdqu [rdi + 320], ymm0",
                "vmovdqu [rdi + 352], ymm1",
                "vmovdqu ymm0, [rsi + 384]",
                "vmovdqu ymm1, [rsi + 416]",
                "vmovdqu [rdi + 384], ymm0",
                "vmovdqu [rdi + 416], ymm1",
                "vmovdqu ymm0, [rsi + 448]",
                "vmovdqu ymm1, [rsi + 480]",
                "vmovdqu [rdi + 448], ymm0",
                "vmovdqu [rdi + 480], ymm1",
                "add rsi, 512",
                "add rdi, 512",
                "sub rcx, 512",
                "jae 3b",
                "test {rest}, {rest}",
                "jnz 23f",
                // Of 64.
                "4:",
                "add rcx, 512 - 64",
                "js 6f",
                "5:",
                "vmovdqu ymm0, [rsi]",
                "vmovdqu ymm1, [rsi + 32]",
                "vmovdqu [rdi], ymm0",
                "vmovdqu [rdi + 32], ymm1",
                "add rsi, 64",
                "add rdi, 64",
                "sub rcx, 64",
                "jns 5b",
                // The rest, once more with bytes before it if there are any.
                "6:",
                "add rcx, 64",
                "jz 8f",
                "cmp qword ptr [{piece} + 16], 64",
                "jb 7f",
                "vmovdqu ymm0, [rsi + rcx - 64]",
                "vmovdqu ymm1, [rsi + rcx - 32]",
                "vmovdqu [rdi + rcx - 64], ymm0",
                "vmovdqu [rdi + rcx - 32], ymm1",
                "jmp 8f",
                "7:",
                "cmp rcx, 32",
                "jb 24f",
                "vmovdqu ymm0, [rsi]",
                "vmovdqu ymm1, [rsi + rcx - 32]",
                "vmovdqu [rdi], ymm0",
                "vmovdqu [rdi + rcx - 32], ymm1",
                "jmp 8f",
                "24:",
                "rep movsb",
                "8:",
                "add {piece}, 24",
                "dec {pieces:e}",
                "jnz 2b",
                "jmp 9f",
                // Whoever comes in here finds the program's values.
                "23:",
                "vmovdqa ymm0, [{aside}]",
                "vmovdqa ymm1, [{aside} + 32]",
                "test {clean:e}, {clean:e}",
                "jz 20f",
                "vzeroupper",
                "20:",
                "sti",
                "nop",
                "cli",
                "mov rcx, {rest}",
                "xor {rest:e}, {rest:e}",
                "jmp 21b",
                "9:",
                "vmovdqa ymm0, [{aside}]",
                "vmovdqa ymm1, [{aside} + 32]",
                aside = in(reg) aside.as_mut_ptr(),
                piece = inout(reg) pieces.as_ptr() => _,
                pieces = inout(reg) pieces.len() => _,
                opening = const OPENING,
                rest = out(reg) _,
                open = in(reg) open,
                clean = in(reg) clean as u32,
                out("rdi") _,
                out("rsi") _,
                out("rcx") _,
                options(nostack),
            );
            if clean {
                clean_upper_halves();
            }
        }
    }

    /// The page's first 16 bytes fill it.
    ///
    /// # Safety
    /// The page at `to` is writable and aligned, AVX is on.
    #[inline(never)]
    pub unsafe fn repeat(to: *mut u8) {
        let clean = upper_halves_clean();
        let mut aside = MaybeUninit::<Aside>::uninit();
        // SAFETY: as in `copy`.
        unsafe {
            asm!(
                "vmovdqa [{aside}], ymm0",
                "vbroadcastf128 ymm0, [{to}]",
                "2:",
                "vmovdqa [{to}], ymm0",
                "vmovdqa [{to} + 32], ymm0",
                "vmovdqa [{to} + 64], ymm0",
                "vmovdqa [{to} + 96], ymm0",
                "vmovdqa [{to} + 128], ymm0",
                "vmovdqa [{to} + 160], ymm0",
                "vmovdqa [{to} + 192], ymm0",
                "vmovdqa [{to} + 224], ymm0",
                "vmovdqa [{to} + 256], ymm0",
                "vmovdqa [{to} + 288], ymm0",
                "vmovdqa [{to} + 320], ymm0",
                "vmovdqa [{to} + 352], ymm0",
                "vmovdqa [{to} + 384], ymm0",
                "vmovdqa [{to} + 416], ymm0",
                "vmovdqa [{to} + 448], ymm0",
                "vmovdqa [{to} + 480], ymm0",
                "add {to}, 512",
                "sub {len:e}, 512",
                "jnz 2b",
                "vmovdqa ymm0, [{aside}]",
                aside = in(reg) aside.as_mut_ptr(),
                to = inout(reg) to => _,
                len = inout(reg) PAGE => _,
                options(nostack),
            );
            if clean {
                clean_upper_halves();
            }
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
    let slot = existing_slot(root, address, recents.at(root, address));
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
    let entry = unsafe { &mut *slot };
    let (needed, mark) = if write {
        (PRESENT | WRITABLE, ACCESSED | DIRTY)
    } else {
        (PRESENT, ACCESSED)
    };
    // Device registers are outside the direct map and not for copies.
    if *entry & needed != needed || *entry & UNCACHED != 0 {
        return Err(fault(*entry != 0));
    }
    if *entry & mark != mark {
        *entry |= mark;
    }
    let frame = ((*entry & ADDRESS) / PAGE) as crate::arch::Frame;
    // SAFETY: the offset stays within the frame.
    Ok(unsafe { frame_pointer(frame).add((address % PAGE) as usize) })
}

/// One side of a copy over several pages.
struct Side {
    root: Root,
    address: u64,
    write: bool,
    /// Entry of the page before, if it was looked up.
    slot: Option<*mut u64>,
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
            slot: None,
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
        self.slot = match self.slot {
            // SAFETY: the page is in the same table as the one before, whose entry this was, so the next entry is in it.
            Some(slot) if !address.is_multiple_of(TABLE_SPAN) => Some(unsafe { slot.add(1) }),
            _ => existing_slot(self.root, address, recents.at(self.root, address)),
        };
        let reached = reach_slot(self.slot, address, self.write);
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

/// Copy between spaces; see [`crate::arch::Arch::copy`].
///
/// # Safety
/// As for [`wide::copy`] with what is opened.
#[inline(always)]
pub unsafe fn copy(
    source: (Root, u64),
    destination: (Root, u64),
    len: usize,
    recents: &mut Recents,
    open: Opened,
) -> Result<(), (usize, CopyFault)> {
    if let Some((to, from)) = in_two_pages(source, destination, len, recents) {
        // SAFETY: both pointers show at least `len` bytes of mapped frames of programs; by the contract.
        unsafe { move_open(to, from, len, open) };
        return Ok(());
    }
    // SAFETY: by the contract.
    unsafe { copy_pages(source, destination, len, recents, open) }
}

/// Most copies are short, lie in one page on each side, and not the first in their tables: these are then the places.
#[inline(always)]
fn in_two_pages(
    source: (Root, u64),
    destination: (Root, u64),
    len: usize,
    recents: &mut Recents,
) -> Option<(*mut u8, *mut u8)> {
    if len > rest_of_page(source.1) || len > rest_of_page(destination.1) {
        return None;
    }
    let from = reach_recent(source, false, recents)?;
    Some((reach_recent(destination, true, recents)?, from))
}

/// [`reach`] where a table is known, and the page marked; None: it is not, or there is a fault.
#[inline(always)]
fn reach_recent(
    (root, address): (Root, u64),
    write: bool,
    recents: &mut Recents,
) -> Option<*mut u8> {
    let slot = recents.at(root, address).known(root, address)?;
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

/// The same where a side has several pages, or one that was not reached lately.
///
/// # Safety
/// As for [`copy`].
#[inline(never)]
unsafe fn copy_pages(
    source: (Root, u64),
    destination: (Root, u64),
    len: usize,
    recents: &mut Recents,
    open: Opened,
) -> Result<(), (usize, CopyFault)> {
    let open = opened(open, len);
    // A pointer that the compiler knows nothing of, so that what is changed behind it is changed when interrupts come in.
    let recents = black_box(recents);
    let mut done = 0;
    while done < len {
        let mut pieces = Pieces::new();
        let walked = walk(source, destination, done, len, recents, &mut pieces);
        if !open.is_null() {
            // To find the pieces takes as long as some of their bytes.
            // SAFETY: by the contract.
            unsafe { let_in(recents) }
        }
        // SAFETY: every piece lies within mapped frames of programs; by the contract.
        unsafe { pieces.copy(open) };
        done = walked?;
    }
    Ok(())
}

/// Pieces of a copy between two spaces, for as many bytes as one message share has.
struct Pieces {
    list: [MaybeUninit<wide::Piece>; Pieces::MOST],
    len: usize,
}

impl Pieces {
    /// A share of two pages touches at most three on either side.
    const MOST: usize = 5;

    fn new() -> Pieces {
        Pieces {
            list: [const { MaybeUninit::uninit() }; Pieces::MOST],
            len: 0,
        }
    }

    /// # Safety
    /// As for [`wide::copy`], but for AVX.
    unsafe fn copy(&self, open: Opened) {
        // SAFETY: the first `len` were written by `walk`.
        let pieces = unsafe {
            core::slice::from_raw_parts(self.list.as_ptr().cast::<wide::Piece>(), self.len)
        };
        if wide::available() {
            // SAFETY: by the contract.
            return unsafe { wide::copy(pieces, open) };
        }
        for piece in pieces {
            // SAFETY: by the contract.
            unsafe { move_bytes(piece.to, piece.from, piece.len) };
        }
    }
}

/// Find the pieces from byte `done` on, until the list is full or `len` bytes are reached. Returns how far it came, or with a fault which pieces come before it.
fn walk(
    source: (Root, u64),
    destination: (Root, u64),
    mut done: usize,
    len: usize,
    recents: &mut Recents,
    pieces: &mut Pieces,
) -> Result<usize, (usize, CopyFault)> {
    let mut from = Side::new(source, false);
    let mut to = Side::new(destination, true);
    while done < len {
        let Some(place) = pieces.list.get_mut(pieces.len) else {
            break;
        };
        from.reach(done, recents)?;
        to.reach(done, recents)?;
        let len = (len - done).min(from.left).min(to.left);
        place.write(wide::Piece {
            to: to.at,
            from: from.at,
            len,
        });
        pieces.len += 1;
        from.advance(len);
        to.advance(len);
        done += len;
    }
    Ok(done)
}

/// Read a program's memory.
pub fn read(
    root: Root,
    address: u64,
    into: &mut [u8],
    recents: &mut Recents,
) -> Result<(), CopyFault> {
    let mut done = 0;
    while done < into.len() {
        let at = address.wrapping_add(done as u64);
        let from = reach(root, at, false, recents)?;
        let chunk = (into.len() - done).min(rest_of_page(at));
        // SAFETY: the source is within a mapped frame, the destination within the slice.
        unsafe { move_bytes(into.as_mut_ptr().add(done), from, chunk) };
        done += chunk;
    }
    Ok(())
}

/// Write a program's memory.
pub fn write(
    root: Root,
    address: u64,
    from: &[u8],
    recents: &mut Recents,
) -> Result<(), CopyFault> {
    let mut done = 0;
    while done < from.len() {
        let at = address.wrapping_add(done as u64);
        let to = reach(root, at, true, recents)?;
        let chunk = (from.len() - done).min(rest_of_page(at));
        // SAFETY: the destination is within a mapped frame, the source within the slice.
        unsafe { move_bytes(to, from.as_ptr().add(done), chunk) };
        done += chunk;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::paging::{list_push, map, query, root_new, Recent};
    use super::*;
    use crate::arch::FrameList;
    use cairn_abi::layout::USER_TOP;
    use cairn_abi::service::memory::prot::{READ, WRITE};

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
            let fill = |words: [u64; 2]| unsafe {
                (110..113).for_each(|frame| fill_page(frame_pointer(frame), words));
                for frame in 110..113 {
                    let page = std::slice::from_raw_parts(frame_pointer(frame).cast(), 256);
                    assert!(page.iter().all(|&found: &[u64; 2]| found == words));
                }
            };
            fill([0x0123_4567_89ab_cdef, 77]);
            fill([0; 2]);
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
