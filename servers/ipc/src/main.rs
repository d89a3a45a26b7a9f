//! The component.
#![no_std]
#![no_main]
#![forbid(unsafe_code)]

extern crate alloc;

use cairn_abi::Id;
use cairn_idl::proc;
use cairn_ipc::mq::Notify;
use cairn_ipc::server::Outside;
use cairn_ipc::Ipc;
use cairn_resmgr::event::serve;
use cairn_resmgr::objects::tell_names;
use cairn_resmgr::{Manager, Native, Transport};
use cairn_rt::paging::{self, Request};
use cairn_rt::{log, startup, time, Portal};

cairn_rt::entry!(main);

/// si_code of a signal about a message queue.
const SI_MESGQ: i64 = -3;

/// Badge of `vm`'s notifications.
const UNUSED: u64 = 1 << 31;

struct Machine {
    /// To ask for the limits of processes.
    proc: Option<Portal>,
}

/// RLIMIT_MSGQUEUE, and what it is where nobody says.
const MSGQUEUE: u64 = 12;
const USUAL: u64 = 819_200;

impl Outside for Machine {
    fn make(&mut self, pages: u64, tag: u64) -> Option<Portal> {
        paging::fresh(pages, tag).ok()
    }

    fn reader(&mut self, object: Portal) -> Option<Portal> {
        paging::reader(object).ok()
    }

    fn mapped(&mut self, object: Portal) -> u64 {
        paging::mapped(object)
    }

    fn unused(&mut self) -> Option<u64> {
        loop {
            match paging::wanted()? {
                Request::Unused { tag } => return Some(tag),
                _ => continue,
            }
        }
    }

    fn close(&mut self, object: Portal) {
        object.close();
    }

    fn queue_limit(&mut self, domain: Id) -> u64 {
        let limit = || {
            let proc = proc::Client(&self.proc?);
            let pid = proc.ids_of(domain, 0, &mut []).ok()?.pid;
            let mut limits = [0; 16];
            proc.limits_of(MSGQUEUE, pid, &mut limits).ok()?;
            Some(u64::from_le_bytes(*limits.first_chunk()?))
        };
        limit().unwrap_or(USUAL)
    }

    fn life(&mut self, domain: Id) -> Option<u64> {
        let proc = proc::Client(&self.proc?);
        Some(proc.life_of(domain, 0).ok()?.life)
    }

    fn notify(&mut self, whom: &Notify, by: Id) -> bool {
        let Some(proc) = self.proc else {
            return false;
        };
        let Notify {
            domain,
            life,
            signal,
            value,
            ..
        } = *whom;
        let proc = proc::Client(&proc);
        let told = proc.signal_for(life, domain, signal, SI_MESGQ, value, by);
        told.is_ok_and(|_| true)
    }

    fn seconds(&mut self) -> u64 {
        time::realtime() / 1_000_000_000
    }
}

fn main() -> ! {
    let mut native = Native::new();
    tell_names(native.receiver);
    let watching = native.make_portal(UNUSED).and_then(paging::watch);
    if watching.is_err() {
        log!("there is no shared memory: vm does not tell who uses it");
    }
    serve(
        &mut Manager::new(b"ipc:"),
        &mut Ipc::new(Machine {
            proc: startup::portal("proc"),
        }),
        &mut native,
    )
}
