//! Tracing, and failures on request, at the border of the nucleus.
//!
//! While either is on, the machine layer enters through the twins here ([`Kernel::traced_syscall`], [`Kernel::traced`]) instead of the ordinary
//! entries, and no machine code behind portals is used: so every entry passes, and nothing else in the nucleus knows of tracing. While both are off the twins are not reached from anywhere,
//! and no path asks whether they are on.
//!
//! The ring lies in memory that was set aside at boot (`nucleus.trace=KIB` on the command line); the newest records stay.

use crate::arch::Arch;
use crate::machine::RIGHTS;
use crate::pool::ThreadRef;
use crate::portal::table::Target;
use crate::{plain, Answer, Kernel, Resume};
use cairn_abi::service::{current, domain, memory, receive, trace};
use cairn_abi::trace::{inject, kind, Record, SIZE};
use cairn_abi::{death, flag, rights, Error, PortalKind};

/// Words of a record in the ring.
pub type Slot = [u64; SIZE / 8];
/// Records that one READ gives.
const SHARE: usize = 64;
/// The errors that services may be made to fail with.
const FAILURES: [Error; 3] = [Error::NoMemory, Error::NoTable, Error::NoSlot];

pub struct Trace {
    ring: &'static mut [Slot],
    /// Records since START.
    written: u64,
    on: bool,
    plan: Plan,
    /// Failures that were made since boot.
    made: u64,
}

/// A failure that is to come.
#[derive(Clone, Copy, Debug, Default)]
struct Plan {
    action: u64,
    /// Fitting entries until then.
    left: u64,
    detail: u64,
    domain: u64,
    portal: u64,
    operation: u64,
}

impl Trace {
    pub fn new(ring: &'static mut [Slot]) -> Trace {
        Trace {
            ring,
            written: 0,
            on: false,
            plan: Plan::default(),
            made: 0,
        }
    }

    /// Where the record of this number is, or will be.
    fn slot(&mut self, number: u64) -> Option<&mut Slot> {
        let at = number.checked_rem(self.ring.len() as u64)?;
        self.ring.get_mut(at as usize)
    }

    /// The oldest record that is still there.
    fn oldest(&self) -> u64 {
        self.written.saturating_sub(self.ring.len() as u64)
    }
}

/// Which services may end with which errors before they have changed anything (what a caller has to expect, by the pages in docs/services), and one of which flags is needed for it, if any.
const MAY_FAIL: [(PortalKind, u8, Error, u64); 19] = [
    (PortalKind::Memory, memory::MAP, Error::NoTable, 0),
    (PortalKind::Memory, memory::MAP_LIST, Error::NoTable, 0),
    (PortalKind::Memory, memory::SHARE, Error::NoTable, 0),
    (PortalKind::Memory, memory::FILL, Error::NoTable, 0),
    (PortalKind::Memory, memory::SHOW_TABLE, Error::NoTable, 0),
    (PortalKind::Memory, memory::DOMAIN_CREATE, Error::NoTable, 0),
    (PortalKind::Memory, memory::GROW_TABLE, Error::NoTable, 0),
    (PortalKind::Memory, memory::SPACE_CREATE, Error::NoMemory, 0),
    (
        PortalKind::Memory,
        memory::DOMAIN_CREATE,
        Error::NoMemory,
        0,
    ),
    (
        PortalKind::Domain,
        domain::THREAD_CREATE,
        Error::NoMemory,
        0,
    ),
    (PortalKind::Domain, domain::PORTAL_PUT, Error::NoSlot, 0),
    (PortalKind::Domain, domain::TABLE_COPY, Error::NoSlot, 0),
    (
        PortalKind::Receive,
        receive::MAKE_PORTAL,
        Error::NoMemory,
        0,
    ),
    (PortalKind::Receive, receive::MAKE_PORTAL, Error::NoSlot, 0),
    (
        PortalKind::Receive,
        receive::REPLY,
        Error::NoMemory,
        flag::MINT,
    ),
    (
        PortalKind::Receive,
        receive::REPLY,
        Error::NoSlot,
        flag::PORTALS_MASK | flag::MINT,
    ),
    (
        PortalKind::Current,
        current::CHANNEL_CREATE,
        Error::NoMemory,
        0,
    ),
    (
        PortalKind::Current,
        current::CHANNEL_CREATE,
        Error::NoSlot,
        0,
    ),
    (PortalKind::Current, current::PORTAL_COPY, Error::NoSlot, 0),
];

impl<A: Arch> Kernel<A> {
    /// `machine::TRACE`.
    pub(crate) fn trace_portal(&mut self, t: ThreadRef, slot: u64) -> Answer {
        let d = self.threads[t].domain;
        let slot = self.make_place(d, slot)?;
        let target = Target::new(PortalKind::Trace, 0, RIGHTS | rights::CONTROL);
        self.place_made(t, slot, target);
        Ok(())
    }

    pub(crate) fn trace_service(&mut self, t: ThreadRef, operation: u8) -> Answer {
        let w = self.threads[t].registers.words();
        match operation {
            trace::START => {
                if self.trace.ring.is_empty() {
                    return Err(Error::NoMemory.into());
                }
                self.trace.written = 0;
                self.trace.on = true;
                self.twins();
            }
            trace::STOP => {
                self.trace.on = false;
                self.twins();
            }
            trace::READ => return self.trace_read(t, w),
            trace::STATUS => {
                let told = [
                    self.trace.on as u64,
                    self.trace.written,
                    self.trace.ring.len() as u64,
                    self.trace.plan.left,
                    self.trace.made,
                ];
                self.answers(t, &told);
            }
            trace::INJECT => {
                let known = match w[0] {
                    inject::NOTHING | inject::KILL | inject::DROP => true,
                    inject::FAIL => FAILURES.iter().any(|&error| error as u64 == w[2]),
                    _ => false,
                };
                if !known || w[0] != inject::NOTHING && w[1] == 0 {
                    return Err(Error::BadArgument.into());
                }
                self.trace.plan = Plan {
                    action: w[0],
                    left: w[1],
                    detail: w[2],
                    domain: w[3],
                    portal: w[4],
                    operation: w[5],
                };
                self.twins();
            }
            _ => return Err(Error::BadOperation.into()),
        }
        Ok(())
    }

    /// The machine layer enters through the twins exactly while somebody needs them.
    fn twins(&mut self) {
        let wanted = self.trace.on || self.trace.plan.action != inject::NOTHING;
        self.arch.enter_through_twins(wanted);
    }

    /// w0 address, w1 bytes, w2 first record.
    fn trace_read(&mut self, t: ThreadRef, w: [u64; 8]) -> Answer {
        let first = w[2].max(self.trace.oldest()).min(self.trace.written);
        let count = (w[1] / SIZE as u64)
            .min(SHARE as u64)
            .min(self.trace.written - first);
        let mut records = [[0; SIZE / 8]; SHARE];
        let share = &mut records[..count as usize];
        for (to, number) in share.iter_mut().zip(first..) {
            if let Some(slot) = self.trace.slot(number) {
                *to = *slot;
            }
        }
        if count != 0 {
            self.write_own(t, w[0], plain::bytes(share))?;
        }
        self.answer(t, 0, count);
        self.answer(t, 1, first);
        Ok(())
    }

    /// Who runs: thread and domain by their ids.
    fn running(&self) -> (u32, u32) {
        self.dispatch.current.map_or((0, 0), |t| {
            let domain = self.threads[t].domain;
            (self.threads.id(t), self.domains[domain].id)
        })
    }

    /// [`Kernel::syscall`] while tracing or failures are on.
    pub fn traced_syscall(&mut self) -> Resume {
        let Some(t) = self.dispatch.current else {
            return self.syscall();
        };
        let selector = self.threads[t].registers.rax;
        let table = &self.domains[self.threads[t].domain].table;
        let target = table.target(selector & u32::MAX as u64);
        let target = target.unwrap_or(Target::EMPTY);
        let portal = target.kind();
        let detail = match portal {
            PortalKind::Channel => {
                let portal = self.portals.at(target);
                portal.channel as u64 | portal.badge << 32
            }
            PortalKind::Receive => self.channels.id(self.channels.of(target)) as u64,
            _ => 0,
        };
        let operation = (selector >> 32) as u8;
        let mut record = self.begin_record(kind::SYSCALL, detail);
        record.operation = operation;
        record.portal = portal as u8;
        let resume = match self.failure(t, portal, operation, selector) {
            None => self.syscall(),
            Some(Failing::Service(error)) => {
                self.threads[t].full = false;
                if portal == PortalKind::Memory {
                    // Nothing was done: the count of what was.
                    self.answer(t, 0, 0);
                }
                self.complete(t, Err(error.into()))
            }
            Some(Failing::Domain) => {
                let d = self.threads[t].domain;
                self.die(d, death::KILLED, 0);
                self.resume()
            }
        };
        self.end_record(record);
        resume
    }

    /// Any other entry while tracing or failures are on; `kind` is one of [`kind`].
    pub fn traced(
        &mut self,
        kind: u8,
        detail: u64,
        entry: impl FnOnce(&mut Kernel<A>) -> Resume,
    ) -> Resume {
        let record = self.begin_record(kind, detail);
        let resume = entry(self);
        self.end_record(record);
        resume
    }

    /// An entry of the thread that runs begins.
    #[inline(never)]
    fn begin_record(&self, kind: u8, detail: u64) -> Record {
        let (thread, domain) = self.running();
        Record {
            time: self.arch.now(),
            kind,
            core: self.cores.here as u8,
            thread,
            domain,
            detail,
            ..Record::default()
        }
    }

    /// It is over.
    #[inline(never)]
    fn end_record(&mut self, mut record: Record) {
        if !self.trace.on {
            return;
        }
        record.length = self.arch.now().saturating_sub(record.time) as u32;
        (record.next_thread, record.next_domain) = self.running();
        if let (kind::SYSCALL, Some(t)) = (record.kind, self.dispatch.current) {
            if record.next_thread == record.thread {
                record.error = self.threads[t].registers.rax as u8;
            }
        }
        if let Some(slot) = self.trace.slot(self.trace.written) {
            *slot = record.to_words();
            self.trace.written += 1;
        }
    }

    /// Whether the interrupt of this source is to be lost.
    pub fn loses_interrupt(&mut self, source: u32) -> bool {
        let plan = self.trace.plan;
        plan.action == inject::DROP && plan.detail == source as u64 && self.comes_now()
    }

    /// The failure that this service is to have.
    fn failure(
        &mut self,
        t: ThreadRef,
        portal: PortalKind,
        operation: u8,
        selector: u64,
    ) -> Option<Failing> {
        let plan = self.trace.plan;
        let fits = |wanted: u64, is: u64| wanted == inject::ANY || wanted == is;
        let id = self.domains[self.threads[t].domain].id;
        if !fits(plan.domain, id as u64 & 0xf_ffff)
            || !fits(plan.portal, portal as u64)
            || !fits(plan.operation, operation as u64)
        {
            return None;
        }
        let failing = match plan.action {
            inject::FAIL => {
                let mut known = MAY_FAIL.iter();
                let &(_, _, error, _) = known.find(|&&(kind, number, error, flags)| {
                    kind == portal
                        && number == operation
                        && error as u64 == plan.detail
                        && (flags == 0 || selector & flags != 0)
                })?;
                Failing::Service(error)
            }
            inject::KILL => Failing::Domain,
            _ => return None,
        };
        self.comes_now().then_some(failing)
    }

    /// One fitting entry more; true if it was the one.
    fn comes_now(&mut self) -> bool {
        self.trace.plan.left -= 1;
        if self.trace.plan.left != 0 {
            return false;
        }
        self.trace.plan = Plan::default();
        self.trace.made += 1;
        self.twins();
        true
    }
}

enum Failing {
    Service(Error),
    Domain,
}
