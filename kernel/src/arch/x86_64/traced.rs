//! The entries' twins while tracing or failures on request are on ([`crate::trace`]). `syscall` then arrives at [`traced_entry`], which stores all registers and takes the general path, past all
//! machine code behind portals; the vectors call what [`ON_TRAP`] says. Both are switched by [`enter_through_twins`]; the ordinary entries are the same instructions as without all this.

use super::cpu;
use super::descriptors::{PerCpu, Single};
use super::entry::{leave, syscall_entry};
use super::glue;
use super::stretch;
use crate::Resume;
use cairn_abi::state::Registers;
use core::arch::naked_asm;
use core::mem::offset_of;

/// What the vector stubs call.
pub static ON_TRAP: Single<unsafe extern "C" fn(u64, u64) -> Resume> = Single::new(glue::on_trap);

/// Switch this processor's `syscall` entry, and the vectors of all. The entry that the others shall have.
pub fn enter_through_twins(on: bool) -> u64 {
    let (entry, trap) = if on {
        (traced_entry as *const (), stretch::traced_trap())
    } else {
        (syscall_entry as *const (), stretch::ordinary_trap())
    };
    glue::asks(glue::TWINS, on);
    // SAFETY: the nucleus is not interrupted here, and both are entries.
    unsafe {
        *ON_TRAP.get() = trap;
        cpu::write_msr(cpu::LSTAR, entry as u64);
    }
    entry as u64
}

/// As [`syscall_entry`], to the traced general path.
///
/// # Safety
/// Reached by the processor only.
#[unsafe(naked)]
unsafe extern "C" fn traced_entry() {
    naked_asm!(
        "swapgs",
        "cmp rcx, gs:[{turn_base}]",
        "jae 2f",
        // Turned round: no entry of the nucleus.
        "swapgs",
        "jmp {syscall_entry}",
        "2:",
        "mov r11, gs:[{registers}]",
        "mov [r11 + {rsp}], rsp",
        "mov [r11 + {rip}], rcx",
        "mov rsp, r11",
        "lea rcx, [rip + 3f]",
        "jmp general_store_all",
        "3:",
        "call {on_syscall}",
        "jmp {leave}",
        syscall_entry = sym syscall_entry,
        on_syscall = sym glue::on_traced_syscall,
        leave = sym leave,
        turn_base = const offset_of!(PerCpu, turn_base),
        registers = const offset_of!(PerCpu, registers),
        rip = const offset_of!(Registers, rip),
        rsp = const offset_of!(Registers, rsp),
    )
}
