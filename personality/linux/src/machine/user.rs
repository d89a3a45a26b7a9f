//! The program's memory. Every access of the personality goes through the routines below, which lie between two labels each: an exception inside is turned into "fault" by the upcall
//! ([`super::upcall`]). Ranges that reach into the personality are refused before.
//!
//! A [`UserRange`] is the program's *allegation* that memory is there; the gate's parts take it as it is, since the nucleus checks when it copies.

use crate::errno::{Errno, Result, EFAULT, ENAMETOOLONG};
use alloc::vec::Vec;
use cairn_abi::{layout, Part};
use core::arch::global_asm;
use core::mem::MaybeUninit;

/// Checked not to touch the personality; nothing is known of its mappings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UserRange {
    base: u64,
    len: u64,
}

impl UserRange {
    pub const EMPTY: UserRange = UserRange { base: 0, len: 0 };

    /// What a piece of a vector, which was made of a range, is.
    pub fn of_part(part: &Part) -> UserRange {
        UserRange {
            base: part.base,
            len: part.len,
        }
    }

    pub fn base(self) -> u64 {
        self.base
    }

    pub fn len(self) -> u64 {
        self.len
    }

    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    /// The first `len` bytes at most.
    pub fn first(self, len: u64) -> UserRange {
        UserRange {
            base: self.base,
            len: self.len.min(len),
        }
    }

    /// What follows the first `count` bytes.
    pub fn after(self, count: u64) -> UserRange {
        let count = count.min(self.len);
        UserRange {
            base: self.base + count,
            len: self.len - count,
        }
    }
}

/// Memory of the program from `base` on; EFAULT if it reaches into the personality.
pub fn range(base: u64, len: u64) -> Result<UserRange> {
    match base.checked_add(len) {
        Some(end) if end <= layout::PERSONALITY => Ok(UserRange { base, len }),
        _ => Err(EFAULT),
    }
}

global_asm!(
    // rdi target, rsi source, rdx length → rax 0, or 1 after a fault.
    ".globl personality_user_copy",
    "personality_user_copy:",
    "mov rcx, rdx",
    "shr rcx, 3",
    "rep movsq",
    "mov ecx, edx",
    "and ecx, 7",
    "rep movsb",
    "personality_user_copy_end:",
    "xor eax, eax",
    "ret",
    // rdi target, rsi the byte eight times, rdx length.
    ".globl personality_user_fill",
    "personality_user_fill:",
    "mov rax, rsi",
    "mov rcx, rdx",
    "shr rcx, 3",
    "rep stosq",
    "mov ecx, edx",
    "and ecx, 7",
    "rep stosb",
    "personality_user_fill_end:",
    "xor eax, eax",
    "ret",
    // rdi target, rsi length: zeroes, by a register that is the program's.
    ".globl personality_user_clear",
    "personality_user_clear:",
    "pxor xmm0, xmm0",
    "2: sub rsi, 128",
    "jb 3f",
    ".set at, 0",
    ".rept 8",
    "movups [rdi + at], xmm0",
    ".set at, at + 16",
    ".endr",
    "add rdi, 128",
    "jmp 2b",
    "3: xor eax, eax",
    "lea ecx, [rsi + 128]",
    "shr ecx, 3",
    "rep stosq",
    "mov ecx, esi",
    "and ecx, 7",
    "rep stosb",
    "personality_user_clear_end:",
    "xor eax, eax",
    "ret",
    // rdi target, rsi source string, rdx room → rax length without NUL; room if there is no NUL; −1 after a fault.
    ".globl personality_user_string",
    "personality_user_string:",
    "xor eax, eax",
    "movabs r9, 0x0101010101010101",
    "movabs r10, 0x8080808080808080",
    // Eight bytes at a time, as far as neither the page nor the room ends within them: what follows the string may not be there.
    "2: lea rcx, [rsi + rax]",
    "not ecx",
    "test ecx, 0xff8",
    "jz 4f",
    "lea rcx, [rax + 8]",
    "cmp rcx, rdx",
    "ja 4f",
    "mov r8, [rsi + rax]",
    "mov [rdi + rax], r8",
    // The top bits of bytes that are zero, of the lowest one at least.
    "mov r11, r8",
    "sub r11, r9",
    "not r8",
    "and r8, r10",
    "and r11, r8",
    "jnz 5f",
    "mov rax, rcx",
    "jmp 2b",
    "4: cmp rax, rdx",
    "jae 3f",
    "mov cl, [rsi + rax]",
    "mov [rdi + rax], cl",
    "test cl, cl",
    "jz 3f",
    "inc rax",
    "jmp 2b",
    "5: bsf r11, r11",
    "shr r11d, 3",
    "add rax, r11",
    "personality_user_string_end:",
    "3: ret",
    // rdi area, rsi mask (0: FXSAVE), edx 1 = save.
    ".globl personality_user_fpu",
    "personality_user_fpu:",
    "mov ecx, edx",
    "mov eax, esi",
    "mov rdx, rsi",
    "shr rdx, 32",
    "test rsi, rsi",
    "jz 5f",
    "test ecx, ecx",
    "jz 4f",
    "xsave64 [rdi]",
    "jmp 6f",
    "4: xrstor64 [rdi]",
    "jmp 6f",
    "5: test ecx, ecx",
    "jz 7f",
    "fxsave64 [rdi]",
    "jmp 6f",
    "7: fxrstor64 [rdi]",
    "personality_user_fpu_end:",
    "6: xor eax, eax",
    "ret",
    // rdi address of a u32, esi expected, edx new → rax old value, or 1 << 32 after a fault.
    ".globl personality_user_exchange",
    "personality_user_exchange:",
    "mov eax, esi",
    "lock cmpxchg [rdi], edx",
    "personality_user_exchange_end:",
    "mov eax, eax",
    "ret",
    // rdi source, rsi length (1 to 8) → rax the bytes as a word; rdx 1 after a fault.
    ".globl personality_user_load",
    "personality_user_load:",
    "movzx eax, byte ptr [rdi]",
    "cmp esi, 1",
    "je personality_user_load_end",
    "mov ecx, 8",
    "sub ecx, esi",
    "jz 8f",
    "shl ecx, 3",
    "test sil, 4",
    "jnz 4f",
    // The first half, and what of the last bytes is not in it.
    "movzx eax, word ptr [rdi]",
    "movzx edx, word ptr [rdi + rsi - 2]",
    "sub ecx, 32",
    "shr edx, cl",
    "shl edx, 16",
    "or eax, edx",
    "jmp personality_user_load_end",
    "4: mov eax, [rdi]",
    "mov edx, [rdi + rsi - 4]",
    "shr rdx, cl",
    "shl rdx, 32",
    "or rax, rdx",
    "jmp personality_user_load_end",
    "8: mov rax, [rdi]",
    "personality_user_load_end:",
    "xor edx, edx",
    "ret",
    // rdi source, aligned → eax; rdx 1 after a fault.
    ".globl personality_user_word",
    "personality_user_word:",
    "mov eax, [rdi]",
    "personality_user_word_end:",
    "xor edx, edx",
    "ret",
    // rdi target, rsi word, rdx length (1 to 8) → rax 0, or 1 after a fault.
    ".globl personality_user_store",
    "personality_user_store:",
    "mov [rdi], sil",
    "cmp edx, 2",
    "jb personality_user_store_end",
    "je 2f",
    "test dl, 8",
    "jnz 8f",
    "lea ecx, [rdx * 8]",
    "test dl, 4",
    "jnz 4f",
    // The first half, and the last bytes over it.
    "mov [rdi], si",
    "sub ecx, 16",
    "shr esi, cl",
    "mov [rdi + rdx - 2], si",
    "jmp personality_user_store_end",
    "4: mov [rdi], esi",
    "sub ecx, 32",
    "shr rsi, cl",
    "mov [rdi + rdx - 4], esi",
    "jmp personality_user_store_end",
    "2: mov [rdi], si",
    "jmp personality_user_store_end",
    "8: mov [rdi], rsi",
    "personality_user_store_end:",
    "xor eax, eax",
    "ret",
    // rdi first byte, rsi last byte: what is there is written back → rax 0, or 1 after a fault.
    ".globl personality_user_probe",
    "personality_user_probe:",
    "lock or byte ptr [rdi], 0",
    "lock or byte ptr [rsi], 0",
    "personality_user_probe_end:",
    "xor eax, eax",
    "ret",
    // Where faults of the routines above continue.
    "personality_user_fault_second:",
    "mov edx, 1",
    "ret",
    "personality_user_fault_one:",
    "mov eax, 1",
    "ret",
    "personality_user_fault_minus:",
    "mov rax, -1",
    "ret",
    "personality_user_fault_high:",
    "mov eax, 1",
    "shl rax, 32",
    "ret",
    // start, end, continuation, relative to the table.
    ".pushsection .rodata.personality_fixups, \"a\"",
    ".balign 4",
    ".globl personality_fixups",
    "personality_fixups:",
    ".long personality_user_copy - personality_fixups, personality_user_copy_end - personality_fixups, personality_user_fault_one - personality_fixups",
    ".long personality_user_fill - personality_fixups, personality_user_fill_end - personality_fixups, personality_user_fault_one - personality_fixups",
    ".long personality_user_clear - personality_fixups, personality_user_clear_end - personality_fixups, personality_user_fault_one - personality_fixups",
    ".long personality_user_string - personality_fixups, personality_user_string_end - personality_fixups, personality_user_fault_minus - personality_fixups",
    ".long personality_user_fpu - personality_fixups, personality_user_fpu_end - personality_fixups, personality_user_fault_one - personality_fixups",
    ".long personality_user_exchange - personality_fixups, personality_user_exchange_end - personality_fixups, personality_user_fault_high - personality_fixups",
    ".long personality_user_load - personality_fixups, personality_user_load_end - personality_fixups, personality_user_fault_second - personality_fixups",
    ".long personality_user_word - personality_fixups, personality_user_word_end - personality_fixups, personality_user_fault_second - personality_fixups",
    ".long personality_user_store - personality_fixups, personality_user_store_end - personality_fixups, personality_user_fault_one - personality_fixups",
    ".long personality_user_probe - personality_fixups, personality_user_probe_end - personality_fixups, personality_user_fault_one - personality_fixups",
    ".long personality_frames_copy - personality_fixups, personality_frames_copy_end - personality_fixups, personality_frames_fault - personality_fixups",
    ".globl personality_fixups_end",
    "personality_fixups_end:",
    ".byte 0",
    ".popsection",
);

extern "C" {
    fn personality_user_copy(target: u64, source: u64, length: u64) -> u64;
    fn personality_user_fill(target: u64, bytes: u64, length: u64) -> u64;
    fn personality_user_clear(target: u64, length: u64) -> u64;
    fn personality_user_string(target: u64, source: u64, room: u64) -> i64;
    fn personality_user_fpu(area: u64, mask: u64, save: u64) -> u64;
    fn personality_user_exchange(address: u64, expected: u32, new: u32) -> u64;
    fn personality_user_load(source: u64, length: u64) -> Loaded;
    fn personality_user_word(source: u64) -> Loaded;
    fn personality_user_store(target: u64, word: u64, length: u64) -> u64;
    fn personality_user_probe(first: u64, last: u64) -> u64;
    static personality_fixups: [i32; 3];
    static personality_fixups_end: u8;
}

/// Where a fault at `rip` continues, if it is in one of the routines here.
pub fn fixup(rip: u64) -> Option<u64> {
    let first = &raw const personality_fixups;
    let base = first as u64;
    let count = (&raw const personality_fixups_end as u64 - base) / 12;
    // SAFETY: the table lies between the two labels and is constant.
    let table = unsafe { core::slice::from_raw_parts(first, count as usize) };
    let at = |offset: i32| base.wrapping_add_signed(offset as i64);
    table
        .iter()
        .find(|entry| rip >= at(entry[0]) && rip < at(entry[1]))
        .map(|entry| at(entry[2]))
}

fn outcome(code: u64) -> Result<()> {
    if code == 0 {
        Ok(())
    } else {
        Err(EFAULT)
    }
}

/// Copy from the program.
pub fn read_bytes(address: u64, into: &mut [u8]) -> Result<()> {
    let range = range(address, into.len() as u64)?;
    // SAFETY: the target is borrowed mutably; the source is the program's, and a fault there ends the copy.
    outcome(unsafe { personality_user_copy(into.as_mut_ptr() as u64, range.base, range.len) })
}

/// Copy to the program.
pub fn write_bytes(address: u64, from: &[u8]) -> Result<()> {
    let range = range(address, from.len() as u64)?;
    // SAFETY: the source is borrowed; the target is the program's own memory.
    outcome(unsafe { personality_user_copy(range.base, from.as_ptr() as u64, range.len) })
}

/// A word and whether there was a fault, as C returns two words.
#[repr(C)]
struct Loaded {
    word: u64,
    fault: u64,
}

/// One to eight bytes of the program. `None` near the personality, or if there are more or none: then nobody has checked.
#[derive(Clone, Copy, Debug)]
pub struct Few(UserRange);

#[inline(always)]
pub fn few(base: u64, len: u64) -> Option<Few> {
    if base > layout::PERSONALITY - 8 || len.wrapping_sub(1) >= 8 {
        return None;
    }
    Some(Few(UserRange { base, len }))
}

impl Few {
    #[inline(always)]
    pub fn count(self) -> u64 {
        self.0.len
    }

    #[inline(always)]
    pub fn range(self) -> UserRange {
        self.0
    }

    /// The first `len` bytes, if they are fewer; at least one.
    #[inline(always)]
    pub fn first(self, len: u64) -> Few {
        Few(self.0.first(len.max(1)))
    }
}

/// The bytes as a word.
#[inline(always)]
pub fn load(from: Few) -> Result<u64> {
    // SAFETY: the source is the program's, and a fault there is told in the second word; nothing is written.
    let loaded = unsafe { personality_user_load(from.0.base, from.0.len) };
    match loaded.fault {
        0 => Ok(loaded.word),
        _ => Err(EFAULT),
    }
}

/// An aligned word that others may be changing: read at once.
pub fn word(address: u64) -> Result<u32> {
    range(address, 4)?;
    // SAFETY: as in `load`.
    let loaded = unsafe { personality_user_word(address) };
    match loaded.fault {
        0 => Ok(loaded.word as u32),
        _ => Err(EFAULT),
    }
}

/// The first bytes of a word to the program.
#[inline(always)]
pub fn store(target: Few, word: u64) -> Result<()> {
    // SAFETY: the target is the program's own memory.
    outcome(unsafe { personality_user_store(target.0.base, word, target.0.len) })
}

/// May all of this be written, at most a page long and not empty? What is there stays.
#[inline(always)]
pub fn is_writable(range: UserRange) -> bool {
    // SAFETY: the two bytes are the program's; each is written as it is, at once, and a fault there is told.
    unsafe { personality_user_probe(range.base, range.base + range.len - 1) == 0 }
}

/// Fill memory of the program.
pub fn fill(address: u64, byte: u8, len: u64) -> Result<()> {
    let range = range(address, len)?;
    let bytes = u64::from_ne_bytes([byte; 8]);
    // SAFETY: the target is the program's own memory.
    outcome(unsafe { personality_user_fill(range.base, bytes, range.len) })
}

/// Zeroes for a program that has not begun: its vector registers hold nothing yet.
pub fn clear(address: u64, len: u64) -> Result<()> {
    let range = range(address, len)?;
    // SAFETY: the target is the program's own memory. The register that is used is the program's, which exec resets before it runs.
    outcome(unsafe { personality_user_clear(range.base, range.len) })
}

/// Types that are any bytes: integers, and structures of them without padding.
///
/// # Safety
/// Every bit pattern must be a value and the type must have no padding.
pub unsafe trait Plain: Copy {}

macro_rules! plain {
    ($($t:ty)*) => { $(
        // SAFETY: integers (and Linux's structures made of them, with their padding named as fields).
        unsafe impl Plain for $t {}
    )* };
}

plain!(u8 u16 u32 u64 i16 i32 i64 cairn_idl::fs::Prefix cairn_idl::fs::Stat cairn_idl::fs::Statfs cairn_idl::proc::Credentials cairn_idl::proc::Status);

// SAFETY: an array of values without padding has none either.
unsafe impl<T: Plain, const N: usize> Plain for [T; N] {}

/// The bytes of a plain value.
pub fn bytes_of<T: Plain>(value: &T) -> &[u8] {
    // SAFETY: `Plain` has no padding; the slice borrows the value.
    unsafe { core::slice::from_raw_parts((value as *const T).cast(), core::mem::size_of::<T>()) }
}

/// The bytes of a plain value, for filling.
pub fn bytes_of_mut<T: Plain>(value: &mut T) -> &mut [u8] {
    // SAFETY: as above, and any bytes are a value.
    unsafe { core::slice::from_raw_parts_mut((value as *mut T).cast(), core::mem::size_of::<T>()) }
}

/// The bytes of plain values, for filling.
pub fn bytes_of_many_mut<T: Plain>(values: &mut [T]) -> &mut [u8] {
    // SAFETY: as above, for each of them.
    unsafe {
        core::slice::from_raw_parts_mut(values.as_mut_ptr().cast(), core::mem::size_of_val(values))
    }
}

pub fn read<T: Plain>(address: u64) -> Result<T> {
    let range = range(address, core::mem::size_of::<T>() as u64)?;
    let mut value = MaybeUninit::<T>::uninit();
    // SAFETY: the target has the size of T; on success all of it is written and any bytes are a value.
    unsafe {
        outcome(personality_user_copy(
            value.as_mut_ptr() as u64,
            range.base,
            range.len,
        ))?;
        Ok(value.assume_init())
    }
}

pub fn write<T: Plain>(address: u64, value: &T) -> Result<()> {
    write_bytes(address, bytes_of(value))
}

/// Atomically replace `expected` by `new`; gives the value found.
pub fn compare_exchange(address: u64, expected: u32, new: u32) -> Result<u32> {
    range(address, 4)?;
    // SAFETY: the address is the program's; a fault there is told apart by bit 32.
    let value = unsafe { personality_user_exchange(address, expected, new) };
    u32::try_from(value).map_err(|_| EFAULT)
}

/// Touch each page: may all of it be read (or written)? What is there stays, and what was not there has come.
#[cold]
pub fn touch(range: UserRange, write: bool) -> bool {
    reach(range, write) == range.len
}

/// The first bytes that may be read (or written), up to the first page that may not.
#[cold]
pub fn reach(range: UserRange, write: bool) -> u64 {
    let end = range.base + range.len;
    let mut at = range.base;
    while at < end {
        let there = match write {
            // Whatever the word is, it is written back.
            true => compare_exchange(at & !3, 0, 0).is_ok(),
            false => load(Few(UserRange { base: at, len: 1 })).is_ok(),
        };
        if !there {
            return at - range.base;
        }
        at = (at | (layout::PAGE - 1)) + 1;
    }
    range.len
}

/// Copy to the program as far as there is memory: how many bytes.
pub fn write_as_far(address: u64, from: &[u8]) -> u64 {
    if write_bytes(address, from).is_ok() {
        return from.len() as u64;
    }
    let there = range(address, from.len() as u64).map_or(0, |range| reach(range, true));
    match write_bytes(address, &from[..there as usize]) {
        Ok(()) => there,
        Err(_) => 0,
    }
}

/// XSAVE or XRSTOR on memory of the program. False after a fault.
pub fn fpu_operation(area: UserRange, mask: u64, save: bool) -> bool {
    // SAFETY: the area is the program's memory; its floating-point registers are its own, and the personality uses none.
    unsafe { personality_user_fpu(area.base, mask, save as u64) == 0 }
}

/// A path or other string of the program, at most 4,095 bytes, kept on the stack.
pub struct UserString {
    bytes: MaybeUninit<[u8; 4096]>,
    len: usize,
}

impl UserString {
    /// Take the NUL-terminated string at `address`: EFAULT, ENAMETOOLONG. (In place: a string that is moved is copied whole.)
    pub fn fill(&mut self, address: u64) -> Result<()> {
        // SAFETY: an array of bytes that need not be initialised.
        let bytes = unsafe { &mut *self.bytes.as_mut_ptr().cast::<[MaybeUninit<u8>; 4096]>() };
        let (len, whole) = read_string(address, bytes)?;
        if !whole {
            return Err(ENAMETOOLONG);
        }
        self.len = len;
        Ok(())
    }

    pub fn empty() -> UserString {
        UserString {
            bytes: MaybeUninit::uninit(),
            // Not a constant to the compiler, which would clear the whole structure then.
            len: core::hint::black_box(0),
        }
    }

    pub fn as_bytes(&self) -> &[u8] {
        // SAFETY: the first `len` bytes were written by the copy.
        unsafe { core::slice::from_raw_parts(self.bytes.as_ptr().cast(), self.len) }
    }
}

/// How much of the string (without NUL) at `address` was read, and whether that is all of it; if not, `into` is full.
fn read_string(address: u64, into: &mut [MaybeUninit<u8>]) -> Result<(usize, bool)> {
    if address >= layout::PERSONALITY {
        return Err(EFAULT);
    }
    let all = into.len() as u64;
    let room = all.min(layout::PERSONALITY - address);
    // SAFETY: the target holds `room` bytes, more are not written; a fault of the source ends the copy.
    let len = unsafe { personality_user_string(into.as_mut_ptr() as u64, address, room) };
    match u64::try_from(len) {
        Ok(len) if len < room => Ok((len as usize, true)),
        Ok(_) if room == all => Ok((into.len(), false)),
        _ => Err(EFAULT),
    }
}

/// Add the string at `address` (without NUL) to `into`; `too_long` if it has `limit` bytes or more.
pub fn append_string(into: &mut Vec<u8>, address: u64, limit: u64, too_long: Errno) -> Result<()> {
    let mut total = 0;
    loop {
        if into.len() == into.capacity() {
            into.reserve(4096);
        }
        let (count, whole) = read_string(address + total, into.spare_capacity_mut())?;
        total += count as u64;
        if total >= limit {
            return Err(too_long);
        }
        // SAFETY: read_string filled so many bytes of the capacity.
        unsafe { into.set_len(into.len() + count) };
        if whole {
            return Ok(());
        }
    }
}

/// The length of the string at `address` (without NUL), at most `limit`; `too_long` beyond.
pub fn string_length(address: u64, limit: u64, too_long: Errno) -> Result<u64> {
    let mut buffer = [const { MaybeUninit::uninit() }; 4096];
    let mut total = 0;
    loop {
        let (count, whole) = read_string(address + total, &mut buffer)?;
        total += count as u64;
        if total >= limit {
            return Err(too_long);
        }
        if whole {
            return Ok(total);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn string_at(address: u64) -> Result<UserString> {
        let mut string = UserString::empty();
        string.fill(address)?;
        Ok(string)
    }

    #[test]
    fn ranges_into_the_personality_are_refused() {
        assert!(range(0x1000, 16).is_ok());
        assert!(range(layout::PERSONALITY - 16, 16).is_ok());
        assert_eq!(range(layout::PERSONALITY - 16, 17), Err(EFAULT));
        assert_eq!(range(u64::MAX, 2), Err(EFAULT));
        assert_eq!(range(layout::PERSONALITY, 1), Err(EFAULT));
        assert_eq!(range(layout::PERSONALITY + 1, 0), Err(EFAULT));
        assert!(few(layout::PERSONALITY - 8, 8).is_some());
        assert!(few(layout::PERSONALITY - 7, 1).is_none());
        assert!(few(u64::MAX, 1).is_none() && few(0, 0).is_none() && few(0, 9).is_none());
    }

    #[test]
    fn few_bytes_and_no_others() {
        let text = [0x81u8, 2, 0x83, 4, 0x85, 6, 0x87, 8];
        if text.as_ptr() as u64 >= layout::PERSONALITY - 64 {
            return;
        }
        for len in 1..=8 {
            let from = few(text.as_ptr() as u64, len).unwrap();
            let word = load(from).unwrap();
            let mut want = [0; 8];
            want[..len as usize].copy_from_slice(&text[..len as usize]);
            assert_eq!(word, u64::from_le_bytes(want), "{len}");
            let mut target = [0xaau8; 10];
            let place = few(target.as_mut_ptr() as u64 + 1, len).unwrap();
            store(place, u64::from_le_bytes(text)).unwrap();
            let mut want = [0xaa; 10];
            want[1..][..len as usize].copy_from_slice(&text[..len as usize]);
            assert_eq!(target, want, "{len}");
        }
    }

    #[test]
    fn copies_strings_and_exchanges() {
        let text = b"/etc/passwd\0rest";
        let address = text.as_ptr() as u64;
        // Host addresses lie below the personality only by chance of the loader: stack and heap may not.
        if address + 16 < layout::PERSONALITY {
            assert_eq!(string_at(address).unwrap().as_bytes(), b"/etc/passwd");
            assert_eq!(string_length(address, 100, EFAULT), Ok(11));
            assert_eq!(string_length(address, 11, ENAMETOOLONG), Err(ENAMETOOLONG));
        }
        let mut page = vec![b'/'; 3 * 4096];
        let start = page.as_ptr() as u64;
        if start + 3 * 4096 < layout::PERSONALITY {
            let ends = (0..40).chain(4080..4120).chain(4096 + 4080..4096 + 4100);
            for (from, end) in ends.flat_map(|end| (0..20).map(move |from| (from, from + end))) {
                page[end] = 0;
                let string = string_at(start + from as u64);
                match end - from {
                    0..4096 => assert_eq!(string.unwrap().as_bytes(), &page[from..end]),
                    _ => assert_eq!(string.err(), Some(ENAMETOOLONG)),
                }
                page[end] = b'/';
            }
        }
        let mut bytes = *b"abcdefghi";
        let address = &raw mut bytes as u64;
        if address < layout::PERSONALITY - 16 {
            let few = |at, len| few(address + at, len).unwrap();
            assert_eq!(load(few(0, 1)), Ok(0x61));
            assert_eq!(load(few(0, 3)), Ok(0x63_6261));
            assert_eq!(load(few(1, 8)), Ok(0x6968_6766_6564_6362));
            assert_eq!(store(few(0, 8).first(1), 0x31), Ok(()));
            assert_eq!(store(few(2, 6), 0x3736_3534_3332), Ok(()));
            assert_eq!(&bytes, b"1b234567i");
        }
        let mut word = 5u32;
        let address = &raw mut word as u64;
        if address < layout::PERSONALITY - 4 {
            assert_eq!(compare_exchange(address, 5, 6), Ok(5));
            assert_eq!(compare_exchange(address, 5, 7), Ok(6));
            assert_eq!(super::word(address), Ok(6));
            assert!(touch(super::range(address, 4).unwrap(), true));
            assert!(touch(super::range(address, 4).unwrap(), false));
            assert_eq!(super::word(address), Ok(6));
        }
        assert!(fixup(personality_user_copy as *const () as u64 + 1).is_some());
        assert!(fixup(0x1234).is_none());
    }
}
