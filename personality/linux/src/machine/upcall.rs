//! Upcalls: the nucleus stopped the thread, keeps its registers, and asks the personality. Where the thread was decides what is done:
//!
//! | interrupted at | poke | exception |
//! | --- | --- | --- |
//! | the program, the vDSO | take the registers into the frame, deliver signals | the same, with the exception's signal first |
//! | a quick call | the call goes the slow way | – |
//! | the exit window | the exit starts over and sees the mark | the frame cannot be left: SIGSEGV |
//! | before the `syscall` of a wait | the wait answers "interrupted" | – |
//! | a copy from or to the program | mark and go on | the copy's fixup |
//! | elsewhere in the personality | mark and go on | a mistake of the personality: logged, the process ends |

use super::area::{area, Exception, Frame, ThreadArea};
use super::entry::{label, resume};
use super::gate::{selector, service, Gate};
use super::{user, vdso};
use crate::text::Line;
use cairn_abi::layout::{linux_slot, PERSONALITY};
use cairn_abi::service::current;
use cairn_abi::state::{upcall as reason, Registers};
use core::sync::atomic::Ordering;

/// Vector of a single step.
const DEBUG: u64 = 1;

pub extern "C" fn upcall(
    why: u64,
    vector: u64,
    error: u64,
    address: u64,
    rip: u64,
    detail: u64,
) -> ! {
    let area = area();
    let in_program = rip < PERSONALITY || vdso::contains(rip);
    if why == reason::POKE {
        area.mark_poked();
        if in_program {
            to_frame(area)
        }
        match moved_by_poke(area, rip) {
            Some(change) => go_on(area, change),
            None => go_on_unchanged(),
        }
    }
    if vector == DEBUG && !in_program {
        step_on(area, rip)
    }
    if in_program {
        area.exception.set(Some(Exception {
            vector,
            error,
            address,
            detail,
        }));
        area.mark();
        to_frame(area)
    }
    let (window, window_end, _) = label::exit();
    let next = if (window..window_end).contains(&rip) {
        Some(label::exit_fault())
    } else {
        user::fixup(rip)
    };
    if let Some(next) = next {
        go_on(
            area,
            Change {
                rip: next,
                rax: None,
            },
        )
    }
    let mut line = Line::new();
    line.text("linux: exception ")
        .number(vector)
        .text(" in the personality at ")
        .hex(rip);
    line.text(" address ")
        .hex(address)
        .text(" error ")
        .hex(error);
    super::gate::log_line(line.bytes());
    crate::calls::exit::die(11)
}

/// What to change in the interrupted registers.
struct Change {
    rip: u64,
    rax: Option<u64>,
}

fn moved_by_poke(area: &ThreadArea, rip: u64) -> Option<Change> {
    let (quick, quick_end, slow) = label::quick();
    if (quick..quick_end).contains(&rip) {
        // At the very first instruction `rax` has not been kept yet, but it is still what it was.
        let rax = (rip != quick).then_some(area.entry_rax);
        return Some(Change { rip: slow, rax });
    }
    let (window, window_end, exit) = label::exit();
    if (window..window_end).contains(&rip) {
        return Some(Change {
            rip: exit,
            rax: None,
        });
    }
    let wait = label::waits().into_iter();
    wait.filter(|(check, syscall, _)| (check..=syscall).contains(&&rip))
        .map(|(_, _, interrupted)| Change {
            rip: interrupted,
            rax: None,
        })
        .next()
}

fn read_registers(area: &ThreadArea) -> &'static mut Registers {
    let mut gate = Gate {
        rax: selector(linux_slot::CURRENT, current::UPCALL_READ, 0),
        ..Gate::default()
    };
    gate.words[0] = area.registers() as u64;
    // SAFETY: the registers' place in the area is used during upcalls only, of which there is one at a time.
    unsafe {
        if gate.traverse().is_err() {
            super::gate::log_line(b"linux: an upcall without registers");
            crate::calls::exit::die(11)
        }
        &mut *area.registers()
    }
}

/// Take the program's registers into the frame and deliver what there is.
fn to_frame(area: &ThreadArea) -> ! {
    let registers = read_registers(area);
    // SAFETY: the program ran, so the personality's stack is empty and nobody uses the frame.
    let frame = unsafe { &mut *(area.frame as *mut Frame) };
    frame.load(registers);
    if area.is_traced() {
        frame.rflags &= !crate::trace::TRAP;
    }
    area.upcall_held.store(1, Ordering::Relaxed);
    resume()
}

/// Second half of an upcall from the program, on the personality's stack: the nucleus may forget its copy (and make upcalls again).
pub fn drop_registers() {
    let area = area();
    if area.upcall_held.swap(0, Ordering::Relaxed) != 0 {
        let _ = service(linux_slot::CURRENT, current::UPCALL_DROP, &[]);
    }
}

/// A single step of the personality itself: where it leaves for the program the step goes on as one of the program; elsewhere a `syscall` was stepped, and the
/// personality does not step.
fn step_on(area: &ThreadArea, rip: u64) -> ! {
    let (window, window_end, _) = label::exit();
    let registers = read_registers(area);
    if (window..window_end).contains(&rip) {
        let frame = area.frame_now();
        frame.store(registers);
    } else {
        registers.rflags &= !crate::trace::TRAP;
    }
    return_to(area)
}

fn go_on(area: &ThreadArea, change: Change) -> ! {
    let registers = read_registers(area);
    registers.rip = change.rip;
    if let Some(rax) = change.rax {
        registers.rax = rax;
    }
    return_to(area)
}

/// Continue with the registers of the area.
fn return_to(area: &ThreadArea) -> ! {
    let mut gate = Gate {
        rax: selector(linux_slot::CURRENT, current::UPCALL_RETURN, 0),
        ..Gate::default()
    };
    gate.words[0] = area.registers() as u64;
    // SAFETY: the nucleus reads the registers; the thread goes on at a label of the entry code with its own stack.
    let _ = unsafe { gate.traverse() };
    crate::calls::exit::die(11)
}

fn go_on_unchanged() -> ! {
    let _ = service(linux_slot::CURRENT, current::UPCALL_RETURN, &[0]);
    crate::calls::exit::die(11)
}
