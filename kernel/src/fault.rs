//! Faults and exceptions: messages to pagers, upcalls into personalities, the end of a domain.

use crate::arch::{Arch, CopyFault, Mapping};
use crate::log::Line;
use crate::plain::words;
use crate::pool::{DomainRef, SpaceRef, ThreadRef};
use crate::pulse::Node;

use crate::thread::{FaultReport, Sending};
use crate::{Kernel, Resume, Stop};
use cairn_abi::layout::USER_TOP;
use cairn_abi::service::memory::prot;
use cairn_abi::state::upcall;
use cairn_abi::{death, fault, priority, Error};

/// Vector of a page fault.
const PAGE_FAULT: u64 = 14;
/// Error-code bit of a page fault that user code caused.
const FROM_USER: u64 = 4;
/// Status of a machine whose first domain ended (init itself uses 90 and 91).
pub(crate) const FIRST_DOMAIN_ENDED: u64 = 92;
/// Most words of a backtrace, and how much of the stack is looked through for them.
const FRAMES: usize = 32;
const STACK_WORDS: u64 = 128;
/// Registers that the log shows, in their order.
const NAMES: [&str; 18] = [
    "rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp", "r8", "r9", "r10", "r11", "r12", "r13", "r14",
    "r15", "rip", "rflags", "rsp",
];

impl<A: Arch> Kernel<A> {
    /// A page fault of the current thread's own code; `bits` are those of `cairn_abi::fault`.
    #[inline(never)]
    pub fn page_fault(&mut self, address: u64, bits: u64) -> Resume {
        self.entered_by_interrupt();
        let Some(t) = self.dispatch.current else {
            return self.resume();
        };
        let domain = &self.domains[self.threads[t].domain];
        let (space, id, label) = (domain.space, domain.id, domain.label);
        self.threads[t].fault = FaultReport {
            address,
            bits,
            domain: id,
            label,
        };
        if bits & fault::WRITE != 0 && self.copy_shown_page(space, address) {
            return self.leave();
        }
        if address >= USER_TOP || !self.ask_pager(t, space, Sending::Fault) {
            self.page_exception(t, 0);
        }
        self.leave()
    }

    /// Any other exception of the current thread.
    pub fn exception(&mut self, vector: u64, error: u64, address: u64) -> Resume {
        self.settle_entry();
        if let Some(t) = self.dispatch.current {
            if let Some(resume) = self.except_short(t, vector, error, address) {
                return resume;
            }
        }
        self.exception_general(vector, error, address)
    }

    #[inline(never)]
    fn exception_general(&mut self, vector: u64, error: u64, address: u64) -> Resume {
        self.entered_by_interrupt();
        if let Some(t) = self.dispatch.current {
            self.except(t, vector, error, address, 0);
        }
        self.leave()
    }

    /// Send the fault in `t.fault` to the space's pager. False: there is none that could help.
    #[inline(never)]
    fn ask_pager(&mut self, t: ThreadRef, space: SpaceRef, sending: Sending) -> bool {
        let (pager, badge) = (self.spaces[space].pager, self.spaces[space].badge);
        let Some(c) = self.channels.lookup(pager) else {
            return false;
        };
        // A pager's own faults cannot be served by itself.
        if self.channels[c].home == Some(self.threads[t].domain) {
            return false;
        }
        self.counters.faults += 1;
        let thread = &mut self.threads[t];
        thread.sending = sending;
        thread.badge = badge;
        thread.parts = 0;
        // A deadline is for an operation, not for the memory that it needs.
        let deadline = core::mem::take(&mut thread.deadline);
        let sent = self.send(t, c, None).is_ok();
        self.threads[t].deadline = deadline;
        sent
    }

    /// While the nucleus copied for `t`, memory of `owner`'s space was not there: `t` waits for the pager and then starts again.
    pub(crate) fn copy_fault(&mut self, t: ThreadRef, owner: ThreadRef, met: CopyFault) -> Stop {
        if met.address >= USER_TOP {
            return Error::BadAddress.into();
        }
        let domain = &self.domains[self.threads[owner].domain];
        let space = domain.space;
        let mut bits = fault::COPY;
        if met.destination {
            bits |= fault::WRITE;
        }
        if met.present {
            bits |= fault::PRESENT;
        }
        let report = FaultReport {
            address: met.address,
            bits,
            domain: domain.id,
            label: domain.label,
        };
        self.threads[t].fault = report;
        self.rewind(t);
        if self.ask_pager(t, space, Sending::CopyFault) {
            return Stop::Left;
        }
        self.forward(t);
        Error::BadAddress.into()
    }

    /// Undo [`Kernel::rewind`].
    fn forward(&mut self, t: ThreadRef) {
        let registers = &mut self.threads[t].registers;
        registers.rip = registers.rip.wrapping_add(2);
    }

    /// The pager refused, or is gone. The thread is in no queue.
    pub(crate) fn fault_refused(&mut self, t: ThreadRef, detail: u64) {
        if self.threads[t].sending == Sending::CopyFault {
            self.forward(t);
            self.threads[t].measuring = false;
            self.finish(t, Error::BadAddress as u64);
        } else {
            self.page_exception(t, detail);
            self.wake(t);
        }
    }

    fn page_exception(&mut self, t: ThreadRef, detail: u64) {
        let FaultReport { address, bits, .. } = self.threads[t].fault;
        let mut error = FROM_USER;
        if bits & fault::PRESENT != 0 {
            error |= 1;
        }
        if bits & fault::WRITE != 0 {
            error |= 2;
        }
        if bits & fault::EXECUTE != 0 {
            error |= 16;
        }
        self.except(t, PAGE_FAULT, error, address, detail);
    }

    /// An upcall if the domain takes them and is not in one; otherwise its end.
    fn except(&mut self, t: ThreadRef, vector: u64, error: u64, address: u64, detail: u64) {
        let d = self.threads[t].domain;
        if self.domains[d].upcall_entry != 0 && !self.threads[t].in_upcall {
            self.upcall(t, upcall::EXCEPTION, vector, error, address, detail);
            return;
        }
        self.log_exception(t, d, vector, error, address);
        if vector == PAGE_FAULT {
            self.die(d, death::FAULT, address);
        } else {
            self.die(d, death::EXCEPTION, vector);
        }
    }

    /// Registers of a thread that ends its domain, and what on its stack may be return addresses, each with the number of words that lie below it, for the log.
    fn log_exception(&mut self, t: ThreadRef, d: DomainRef, vector: u64, error: u64, address: u64) {
        let id = (self.domains[d].id & 0xf_ffff).into();
        let mut line = Line::new();
        line.number("nucleus: domain ", id);
        line.number(" ends by exception ", vector);
        line.hex(" error ", error).hex(" address ", address);
        self.log(&line);
        line = Line::new();
        let registers = &self.threads[t].registers;
        let (rip, rsp) = (registers.rip, registers.rsp);
        line.text("nucleus:").named(&NAMES, words(registers));
        self.log(&line);
        line = Line::new();
        line.number("!backtrace ", id).hex(" ", rip);
        let root = self.root_of(t);
        let mut found = 0;
        for below in 0..STACK_WORDS {
            let mut word = [0; 8];
            let address = rsp.wrapping_add(8 * below);
            if found == FRAMES || self.arch.read_user(root, address, &mut word).is_err() {
                break;
            }
            let word = u64::from_le_bytes(word);
            let executable = |mapping: Mapping| mapping.prot & prot::EXECUTE != 0;
            if word < USER_TOP && self.arch.query(root, word).is_some_and(executable) {
                line.return_address(word, below);
                found += 1;
            }
        }
        self.log(&line);
    }

    /// The domain is dead: its threads stop for good, its watcher is told. What it held is closed by DESTROY, or when nobody holds it.
    pub(crate) fn die(&mut self, d: DomainRef, reason: u64, detail: u64) {
        let by = self.dispatch.current;
        let by = by.map_or(0, |t| self.threads[t].unfallen());
        let domain = &mut self.domains[d];
        if domain.dead {
            return;
        }
        domain.dead = true;
        domain.death_priority = by.max(priority::NORMAL);
        domain.stops = domain.stops.saturating_add(1);
        domain.death_reason = reason;
        domain.death_detail = detail;
        self.dispatch.preempt = true;
        self.interrupt_domain(d);
        self.domain_changed(d);
        if let Some(c) = self.channels.lookup(self.domains[d].watch_channel) {
            self.pulse_post(c, Node::Domain(d));
        }
        let first = Some(self.domains[d].space) == self.first_space;
        self.release_domain_object(d);
        if first {
            // Who watches the others is gone: a machine without it would only wait for ever.
            self.log(
                Line::new().text("nucleus: the first domain has ended, and the machine with it"),
            );
            self.arch.power(2, FIRST_DOMAIN_ENDED);
        }
    }
}
