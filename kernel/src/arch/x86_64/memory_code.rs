//! The code behind the memory portal: MAP and UNMAP of one page ([`crate::one_page`]). Nobody else runs afterwards, and nothing but what these operations answer has changed, so
//! only the registers are stored that the functions may lose. Everything else that the portal does goes on in the general path.
//!
//! The rules are those of [`super::portal_code`], and the decoder checks them.

use super::descriptors::PerCpu;
use super::entry::{general_stored, settle_again};
use super::float::FloatState;
use super::glue;
use crate::portal::table::CHUNK;
use crate::thread::{Thread, USER_FLAGS};
use cairn_abi::service::memory;
use cairn_abi::state::Registers;
use core::arch::global_asm;
use core::mem::offset_of;

type MachineThread = Thread<FloatState>;

extern "C" {
    /// For entries with the right to control.
    pub fn portal_memory();
}

/// A selector without the bits that name a slot of the table's first frame: this operation and nothing else.
const fn plain(operation: u8) -> u64 {
    (operation as u64) << (32 - CHUNK.trailing_zeros())
}

global_asm!(
    ".text",
    ".balign 16",
    ".global portal_memory",
    "portal_memory:",
    "mov [r11 + {rip}], rcx",
    "mov rsp, r11",
    "mov rcx, rax",
    "shr rcx, {slot_bits}",
    "cmp rcx, {map}",
    "jne 2f",
    // MAP.
    "cmp r10, 1",
    "jne {general_stored}",
    "cmp qword ptr [rsp + {reply_code}], offset portal_receive",
    "jne {settle_again}",
    "mov [rsp + {rax}], rax",
    "mov [rsp + {rdi}], rdi",
    "mov [rsp + {rsi}], rsi",
    "mov [rsp + {rdx}], rdx",
    "mov [rsp + {r8}], r8",
    "mov [rsp + {r9}], r9",
    "mov rcx, r8",
    "mov r8, r9",
    "mov rsp, gs:[{stack}]",
    "call {map_one}",
    "mov rsp, gs:[{registers}]",
    "mov rsi, [rsp + {rsi}]",
    "mov rdx, [rsp + {rdx}]",
    "mov r8, [rsp + {r8}]",
    "mov r9, [rsp + {r9}]",
    "mov r10d, 1",
    "test al, al",
    "jz 5f",
    // One more than earlier entries of the same operation.
    "mov rdi, r12",
    "inc rdi",
    "xor eax, eax",
    "mov rcx, [rsp + {rip}]",
    "mov rsp, [rsp + {rsp}]",
    "mov r11d, {user_flags}",
    "swapgs",
    "sysretq",
    "2:",
    "cmp rcx, {unmap}",
    "jne {general_stored}",
    "cmp rdx, 1",
    "jne {general_stored}",
    "cmp qword ptr [rsp + {reply_code}], offset portal_receive",
    "jne {settle_again}",
    "mov [rsp + {rax}], rax",
    "mov [rsp + {rdi}], rdi",
    "mov [rsp + {rsi}], rsi",
    "mov [rsp + {r8}], r8",
    "mov [rsp + {r9}], r9",
    "mov [rsp + {r10}], r10",
    "mov rsp, gs:[{stack}]",
    "call {unmap_one}",
    "mov rsp, gs:[{registers}]",
    "mov rsi, [rsp + {rsi}]",
    "mov r8, [rsp + {r8}]",
    "mov r9, [rsp + {r9}]",
    "mov r10, [rsp + {r10}]",
    "mov edx, 1",
    "cmp rax, -1",
    "je 5f",
    "mov rdi, r10",
    "add rdi, rax",
    "jmp 4f",
    "5:",
    "mov rax, [rsp + {rax}]",
    "mov rdi, [rsp + {rdi}]",
    "jmp {general_stored}",
    "4:",
    "xor eax, eax",
    "mov rcx, [rsp + {rip}]",
    "mov rsp, [rsp + {rsp}]",
    "mov r11d, {user_flags}",
    "swapgs",
    "sysretq",
    ".global portal_memory_end",
    "portal_memory_end:",
    slot_bits = const CHUNK.trailing_zeros(),
    map = const plain(memory::MAP),
    unmap = const plain(memory::UNMAP),
    map_one = sym glue::map_one,
    unmap_one = sym glue::unmap_one,
    general_stored = sym general_stored,
    settle_again = sym settle_again,
    reply_code = const offset_of!(MachineThread, reply_code),
    registers = const offset_of!(PerCpu, registers),
    stack = const offset_of!(PerCpu, stack),
    user_flags = const USER_FLAGS,
    rax = const offset_of!(Registers, rax),
    rdi = const offset_of!(Registers, rdi),
    rsi = const offset_of!(Registers, rsi),
    rdx = const offset_of!(Registers, rdx),
    r8 = const offset_of!(Registers, r8),
    r9 = const offset_of!(Registers, r9),
    r10 = const offset_of!(Registers, r10),
    rip = const offset_of!(Registers, rip),
    rsp = const offset_of!(Registers, rsp),
);
