//! The vDSO: a small ELF shared object in the personality's text, found by programs through AT_SYSINFO_EHDR. It reads the system page and the time stamp counter, and
//! for everything else goes to where a program's `syscall` is turned round to, with the same registers (a `syscall` from here would not be). C libraries do not make the call themselves: what comes
//! from here is the answer.
//!
//! Laid out by the assembler: header, program headers, dynamic section, symbols, strings, hash table and version definitions as the System V ABI and the
//! GNU symbol-versioning format have them, then the functions.

use cairn_abi::layout::SYSTEM_PAGE;
use cairn_abi::state::SystemPage;
use core::arch::global_asm;
use core::mem::offset_of;

global_asm!(
    ".pushsection .vdso, \"ax\"",
    ".balign 4096",
    ".globl personality_vdso",
    "personality_vdso:",
    "500: .byte 0x7f, 0x45, 0x4c, 0x46, 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0",
    ".short 3, 62",                 // ET_DYN, x86-64
    ".long 1",
    ".quad 0, 64, 0",               // entry, program headers, section headers
    ".long 0",
    ".short 64, 56, 2, 64, 0, 0",
    // PT_LOAD, PT_DYNAMIC
    ".long 1, 5",
    ".quad 0, 0, 0, 599f - 500b, 599f - 500b, 4096",
    ".long 2, 4",
    ".quad 510f - 500b, 510f - 500b, 510f - 500b, 519f - 510f, 519f - 510f, 8",
    ".balign 8",
    "510: .quad 14, 9f - 501f",     // SONAME
    ".quad 4, 530f - 500b",         // HASH
    ".quad 5, 501f - 500b",         // STRTAB
    ".quad 6, 520f - 500b",         // SYMTAB
    ".quad 10, 502f - 501f",        // STRSZ
    ".quad 11, 24",                 // SYMENT
    ".quad 0x6ffffff0, 540f - 500b", // VERSYM
    ".quad 0x6ffffffc, 550f - 500b", // VERDEF
    ".quad 0x6ffffffd, 2",          // VERDEFNUM
    ".quad 0, 0",
    "519:",
    // Symbols: name, info (GLOBAL FUNC), other, section (any defined), value, size.
    "520: .long 0, 0",
    ".quad 0, 0",
    ".long 2f - 501f, 0x00010012",
    ".quad 560f - 500b, 561f - 560f",
    ".long 3f - 501f, 0x00010012",
    ".quad 561f - 500b, 562f - 561f",
    ".long 4f - 501f, 0x00010012",
    ".quad 562f - 500b, 563f - 562f",
    ".long 5f - 501f, 0x00010012",
    ".quad 563f - 500b, 564f - 563f",
    ".long 6f - 501f, 0x00010012",
    ".quad 564f - 500b, 565f - 564f",
    "501: .byte 0",
    "9: .asciz \"linux-vdso.so.1\"",
    "2: .asciz \"__vdso_clock_gettime\"",
    "3: .asciz \"__vdso_gettimeofday\"",
    "4: .asciz \"__vdso_time\"",
    "5: .asciz \"__vdso_getcpu\"",
    "6: .asciz \"__vdso_clock_getres\"",
    "7: .asciz \"LINUX_2.6\"",
    "502:",
    ".balign 8",
    // One bucket, the symbols in a chain.
    "530: .long 1, 6",
    ".long 1",
    ".long 0, 2, 3, 4, 5, 0",
    ".balign 8",
    "540: .short 0, 2, 2, 2, 2, 2",
    ".balign 8",
    // Version definitions: the object itself (base), LINUX_2.6.
    "550: .short 1, 1, 1, 1",
    ".long 0x0d4d0d31, 20, 28",     // hash of linux-vdso.so.1 (nobody compares it)
    ".long 9b - 501b, 0",
    ".short 1, 0, 2, 1",
    ".long 0x03ae75f6, 20, 0",      // hash of LINUX_2.6
    ".long 7b - 501b, 0",
    ".balign 16",
    // edi clock, rsi struct timespec.
    "560: cmp edi, 7",
    "ja 570f",
    "mov eax, 0xf2",                // clocks 1, 4, 5, 6, 7: monotonic, raw, coarse, boot time
    "bt eax, edi",
    "jc 571f",
    "test edi, edi",                // 0: real time
    "jnz 570f",
    "572: call 580f",
    "mov rdx, {page} + {realtime}",
    "add rax, [rdx]",
    "jmp 573f",
    "571: cmp edi, 5",              // 5: real time, coarse
    "je 572b",
    "call 580f",
    "573: xor edx, edx",
    "mov ecx, 1000000000",
    "div rcx",
    "mov [rsi], rax",
    "mov [rsi + 8], rdx",
    "xor eax, eax",
    "ret",
    // clock_gettime and clock_getres of other clocks, getcpu: the system call, as if from 569.
    "570: mov ecx, 228",
    "568: lea rax, [rip + 569f]",
    "shl rax, 16",
    "or rax, rcx",
    "jmp personality_syscall_entry",
    "569: ret",
    // rdi struct timeval, rsi struct timezone.
    "561: test rdi, rdi",
    "jz 574f",
    "call 580f",
    "mov rdx, {page} + {realtime}",
    "add rax, [rdx]",
    "xor edx, edx",
    "mov ecx, 1000000000",
    "div rcx",
    "mov [rdi], rax",
    "mov rax, rdx",
    "xor edx, edx",
    "mov ecx, 1000",
    "div rcx",
    "mov [rdi + 8], rax",
    "574: test rsi, rsi",
    "jz 575f",
    "mov qword ptr [rsi], 0",
    "575: xor eax, eax",
    "ret",
    // rdi time_t or null.
    "562: call 580f",
    "mov rdx, {page} + {realtime}",
    "add rax, [rdx]",
    "xor edx, edx",
    "mov ecx, 1000000000",
    "div rcx",
    "test rdi, rdi",
    "jz 576f",
    "mov [rdi], rax",
    "576: ret",
    // Which processor is not known here.
    "563: mov ecx, 309",
    "jmp 568b",
    // edi clock, rsi struct timespec or null.
    "564: cmp edi, 7",
    "ja 578f",
    "mov eax, 0xf3",
    "bt eax, edi",
    "jnc 578f",
    "test rsi, rsi",
    "jz 577f",
    "mov qword ptr [rsi], 0",
    "mov qword ptr [rsi + 8], 1",
    "577: xor eax, eax",
    "ret",
    "578: mov ecx, 229",
    "jmp 568b",
    "565:",
    // → rax monotonic ns; rcx, rdx, r8 lost.
    "580: rdtsc",
    "shl rdx, 32",
    "or rax, rdx",
    "mov r8, {page}",
    "sub rax, [r8 + {base}]",
    "mul qword ptr [r8 + {mult}]",
    "mov rcx, [r8 + {shift}]",
    "shrd rax, rdx, cl",
    "ret",
    "599:",
    ".globl personality_vdso_end",
    "personality_vdso_end:",
    ".popsection",
    page = const SYSTEM_PAGE,
    realtime = const offset_of!(SystemPage, boot_realtime),
    base = const offset_of!(SystemPage, tsc_base),
    mult = const offset_of!(SystemPage, tsc_mult),
    shift = const offset_of!(SystemPage, tsc_shift),
);

extern "C" {
    static personality_vdso: u8;
    static personality_vdso_end: u8;
}

/// Where the image lies (AT_SYSINFO_EHDR).
pub fn address() -> u64 {
    &raw const personality_vdso as u64
}

/// True for code of the vDSO: it counts as the program's.
pub fn contains(rip: u64) -> bool {
    (address()..&raw const personality_vdso_end as u64).contains(&rip)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(name: &[u8]) -> u32 {
        name.iter().fold(0u32, |h, b| {
            let h = (h << 4) + *b as u32;
            let high = h & 0xf000_0000;
            (h ^ (high >> 24)) & !high
        })
    }

    #[test]
    fn the_image_is_a_shared_object_with_linux_version_hash() {
        let length = &raw const personality_vdso_end as usize - address() as usize;
        // SAFETY: the image lies between its two labels.
        let image = unsafe { core::slice::from_raw_parts(&raw const personality_vdso, length) };
        assert_eq!(&image[..4], b"\x7fELF");
        assert_eq!(&image[16..20], &[3, 0, 62, 0]);
        let wanted = hash(b"LINUX_2.6").to_le_bytes();
        assert!(image.windows(4).any(|w| w == wanted));
        assert!(image.windows(20).any(|w| w == b"__vdso_clock_gettime"));
    }
}
