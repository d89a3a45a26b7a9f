//! The first instructions: entered by the PVH protocol in 32-bit mode without paging (Xen's "x86/HVM direct boot ABI"), `ebx` = physical address of the
//! start information. Builds tables that map the first 4 GiB at 0, at the direct map and (its first GiB) at the top 2 GiB, enters long mode and calls
//! [`super::start::start`] on the nucleus stack. These tables are writable and executable; they live until `start` has made the real ones.

use core::arch::global_asm;

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
    options(att_syntax),
);
