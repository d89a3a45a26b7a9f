//! The first instructions: entered by the PVH protocol in 32-bit mode without paging (Xen's "x86/HVM direct boot ABI"), `ebx` = physical address of the
//! start information; the other cores come here later, in real mode. Builds tables that map the first 4 GiB at 0, at the direct map and (its first GiB) at the top 2 GiB, enters long mode and calls
//! [`super::start::start`] on the nucleus stack. These tables are writable and executable; they live until `start` has made the real ones.

use core::arch::global_asm;
use core::sync::atomic::AtomicU64;

/// What stands in the others' page while no core is expected.
pub const NOBODY: u32 = u32::MAX;

/// Where the stack of the core that is being started ends.
pub static OTHER_STACK: AtomicU64 = AtomicU64::new(0);

extern "C" {
    static others_start: u8;
    static others_end: u8;
    static others_expected: u8;
}

/// Where in their page the number of the local APIC stands whose core may go on. The core takes it away.
pub fn expected() -> usize {
    (&raw const others_expected as usize) - (&raw const others_start as usize)
}

/// The first instructions of the other cores, to be put onto a page below 1 MiB: real mode.
pub fn others() -> (*const u8, usize) {
    let (start, end) = (&raw const others_start, &raw const others_end);
    (start, end as usize - start as usize)
}

global_asm!(
    r#"
    .section .note.Xen, "a", @note
    .balign 4
    .long 4, 8, 18              # name length, descriptor length, XEN_ELFNOTE_PHYS32_ENTRY
    .asciz "Xen"
    .quad pvh_start - {base}

    .section .text.boot, "ax"
    .code32
    .global pvh_start
pvh_start:
    cli
    cld
    movl %ebx, %esi             # cpuid destroys ebx
    movl $0x80000001, %eax
    cpuid
    btl $29, %edx               # long mode
    jnc 9f
    btl $20, %edx               # no-execute
    jnc 9f

    # 2048 pages of 2 MiB; the addition carries at 4 GiB
    movl $(boot_directories - {base}), %edi
    movl $0x83, %eax
1:  movl %eax, (%edi)
    addl $8, %edi
    addl $0x200000, %eax
    jnc 1b

    movl $(boot_pointers - {base}), %edi
    movl $(boot_directories - {base} + 3), %eax
    movl %eax, 0xff0(%edi)      # slot 510: the image
    movl %eax, (%edi)
    addl $0x1000, %eax
    movl %eax, 8(%edi)
    addl $0x1000, %eax
    movl %eax, 16(%edi)
    addl $0x1000, %eax
    movl %eax, 24(%edi)

    leal 3(%edi), %eax
    movl $(boot_root - {base}), %edi
    movl %eax, (%edi)
    movl %eax, 0x800(%edi)      # slot 256: the direct map
    movl %eax, 0xff8(%edi)      # slot 511: the image
    movl %edi, %cr3

    movl $0x20, %eax            # PAE
    movl %eax, %cr4
    movl $0xc0000080, %ecx      # EFER: long mode, no-execute
    movl $0x900, %eax
    xorl %edx, %edx
    wrmsr
    movl $0x80010033, %eax      # PG WP NE ET MP PE
    movl %eax, %cr0
    lgdt boot_gdt_pointer - {base}
    ljmp $8, $(2f - {base})
9:  hlt
    jmp 9b

    .code64
2:  movabsq $3f, %rax
    jmp *%rax
3:  xorl %eax, %eax
    movl %eax, %ds
    movl %eax, %es
    movl %eax, %fs
    movl %eax, %gs
    movl %eax, %ss
    leaq {stack}+{stack_offset}(%rip), %rsp
    movl %esi, %edi             # the start information, upper half cleared
    xorl %ebp, %ebp
    call {start}
4:  hlt
    jmp 4b

    .balign 8
boot_gdt:
    .quad 0
    .quad 0x00209b0000000000    # 64-bit code, accessed
boot_gdt_pointer:
    .word 15
    .long boot_gdt - {base}

    # The other cores, in real mode: cs is this page, what is in it has moved. One that nobody expects (any more: it was given up, and comes late) stays here for ever, without a stack.
    # The other: to flat 32-bit segments, and out of here.
    .code16
    .global others_start
    .global others_end
others_start:
    cli
    cld
    movw %cs, %ax
    movw %ax, %ds
    movl $1, %eax
    cpuid
    shrl $24, %ebx              # its local APIC's number, the last eight bits
    movl %ebx, %eax
    movl ${nobody}, %ecx
    lock cmpxchgl %ecx, others_expected - others_start
    je 2f
1:  hlt
    jmp 1b
    .balign 4
    .global others_expected
others_expected:
    .long {nobody}
2:  lgdtl others_gdt_pointer - others_start
    movl %cr0, %eax
    orb $1, %al
    movl %eax, %cr0
    ljmpl $8, $(others_flat - {base})
    .balign 4
others_gdt_pointer:
    .word 31
    .long others_gdt - {base}
others_end:

    .balign 8
others_gdt:
    .quad 0
    .quad 0x00cf9b000000ffff    # 32-bit code
    .quad 0x00cf93000000ffff    # data
    .quad 0x00209b0000000000    # 64-bit code

    .code32
others_flat:
    movl $16, %eax
    movl %eax, %ds
    movl %eax, %es
    movl %eax, %ss
    movl $(boot_root - {base}), %eax
    movl %eax, %cr3
    movl $0x20, %eax            # as above
    movl %eax, %cr4
    movl $0xc0000080, %ecx
    movl $0x900, %eax
    xorl %edx, %edx
    wrmsr
    movl $0x80010033, %eax
    movl %eax, %cr0
    ljmp $24, $(5f - {base})

    .code64
5:  movabsq $6f, %rax
    jmp *%rax
6:  xorl %eax, %eax
    movl %eax, %ds
    movl %eax, %es
    movl %eax, %fs
    movl %eax, %gs
    movl %eax, %ss
    movq {other_stack}(%rip), %rsp
    xorl %ebp, %ebp
    call {start_other}
7:  hlt
    jmp 7b

    .section .bss.boot, "aw", @nobits
    .balign 4096
boot_root:
    .skip 4096
boot_pointers:
    .skip 4096
boot_directories:
    .skip 16384
    .text
    "#,
    base = const super::memory::IMAGE_BASE,
    stack = sym super::descriptors::STACKS,
    stack_offset = const super::descriptors::NUCLEUS_STACK_OFFSET,
    start = sym super::start::start,
    nobody = const NOBODY,
    other_stack = sym OTHER_STACK,
    start_other = sym super::other_cores::start_other,
    options(att_syntax),
);
