//! CRC-32C (Castagnoli), nothing inverted at either end: by the processor's instruction (SSE4.2 `crc32`, which needs general registers only) where it has one, by tables elsewhere.
//!
//! A crate of its own because its users forbid `unsafe`; those of the registry use vector registers, which servers do not have.
#![cfg_attr(not(test), no_std)]

use core::sync::atomic::{AtomicU8, Ordering};

const POLYNOMIAL: u32 = 0x82F6_3B78;

static TABLES: [[u32; 256]; 8] = tables();

const fn tables() -> [[u32; 256]; 8] {
    let mut all = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut value = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            value = (value >> 1) ^ (POLYNOMIAL * (value & 1));
            bit += 1;
        }
        all[0][byte] = value;
        byte += 1;
    }
    let mut table = 1;
    while table < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before = all[table - 1][byte];
            all[table][byte] = (before >> 8) ^ all[0][(before & 0xFF) as usize];
            byte += 1;
        }
        table += 1;
    }
    all
}

/// The sum of what `begin` is the sum of and these bytes behind it; `!0` is where a sum begins.
#[inline]
pub fn crc32c(begin: u32, bytes: &[u8]) -> u32 {
    match has_instruction() {
        true => by_instruction(begin, bytes),
        false => by_tables(begin, bytes),
    }
}

fn by_tables(begin: u32, bytes: &[u8]) -> u32 {
    let mut crc = begin;
    let (eights, rest) = bytes.as_chunks();
    for eight in eights {
        let word = u64::from_le_bytes(*eight) ^ u64::from(crc);
        crc = 0;
        for (table, byte) in TABLES.iter().rev().zip(word.to_le_bytes()) {
            crc ^= table[byte as usize];
        }
    }
    for &byte in rest {
        crc = (crc >> 8) ^ TABLES[0][(crc as u8 ^ byte) as usize];
    }
    crc
}

/// Whether the processor has the instruction: asked once, because virtual machines take long to answer.
#[cfg(target_arch = "x86_64")]
#[inline]
fn has_instruction() -> bool {
    const UNKNOWN: u8 = 2;
    static KNOWN: AtomicU8 = AtomicU8::new(UNKNOWN);
    match KNOWN.load(Ordering::Relaxed) {
        UNKNOWN => {
            const SSE4_2: u32 = 1 << 20;
            // SAFETY: every x86-64 processor has CPUID and its leaf 1. (A safe function in newer compilers.)
            #[allow(unused_unsafe)]
            let has = unsafe { core::arch::x86_64::__cpuid(1) }.ecx & SSE4_2 != 0;
            KNOWN.store(u8::from(has), Ordering::Relaxed);
            has
        }
        known => known == 1,
    }
}

#[cfg(target_arch = "x86_64")]
fn by_instruction(begin: u32, bytes: &[u8]) -> u32 {
    let mut crc = u64::from(begin);
    let (blocks, rest) = bytes.as_chunks::<64>();
    for block in blocks {
        // SAFETY: the processor has the instruction; it reads 64 bytes of a block of 64.
        unsafe {
            core::arch::asm!(
                "crc32 {crc}, qword ptr [{at}]",
                "crc32 {crc}, qword ptr [{at} + 8]",
                "crc32 {crc}, qword ptr [{at} + 16]",
                "crc32 {crc}, qword ptr [{at} + 24]",
                "crc32 {crc}, qword ptr [{at} + 32]",
                "crc32 {crc}, qword ptr [{at} + 40]",
                "crc32 {crc}, qword ptr [{at} + 48]",
                "crc32 {crc}, qword ptr [{at} + 56]",
                crc = inout(reg) crc, at = in(reg) block.as_ptr(),
                options(pure, readonly, nostack, preserves_flags)
            );
        }
    }
    let (eights, rest) = rest.as_chunks();
    for eight in eights {
        let word = u64::from_le_bytes(*eight);
        // SAFETY: the processor has the instruction, which touches these two registers only.
        unsafe {
            core::arch::asm!("crc32 {crc}, {word}", crc = inout(reg) crc, word = in(reg) word, options(pure, nomem, nostack, preserves_flags));
        }
    }
    let mut crc = crc as u32;
    for &byte in rest {
        // SAFETY: as above.
        unsafe {
            core::arch::asm!("crc32 {crc:e}, {byte}", crc = inout(reg) crc, byte = in(reg_byte) byte, options(pure, nomem, nostack, preserves_flags));
        }
    }
    crc
}

#[cfg(not(target_arch = "x86_64"))]
fn has_instruction() -> bool {
    false
}

#[cfg(not(target_arch = "x86_64"))]
fn by_instruction(begin: u32, bytes: &[u8]) -> u32 {
    by_tables(begin, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values() {
        // The check value of the catalogue of CRCs, and 32 zero bytes from RFC 3720, B.4.
        for sum in [crc32c, by_tables] {
            assert_eq!(!sum(!0, b"123456789"), 0xE306_9283);
            assert_eq!(!sum(!0, &[0; 32]), 0x8A91_36AA);
            assert_eq!(sum(sum(!0, b"12345"), b"6789"), sum(!0, b"123456789"));
        }
    }

    #[test]
    fn instruction_and_tables_agree_at_every_length_and_place() {
        let bytes: Vec<u8> = (0..600u32)
            .map(|i| (i.wrapping_mul(0x9E37_79B1) >> 13) as u8)
            .collect();
        for from in 0..9 {
            for to in from..bytes.len() {
                let part = &bytes[from..to];
                assert_eq!(crc32c(0x1234_5678, part), by_tables(0x1234_5678, part));
            }
        }
        assert!(has_instruction() || !std::arch::is_x86_feature_detected!("sse4.2"));
    }
}
