//! The component.
#![no_std]
#![no_main]
#![forbid(unsafe_code)]

use cairn_abi::Id;
use cairn_idl::errno::{ENOMEM, ENOSYS};
use cairn_idl::proc::{self, KeyRings};
use cairn_keys::caller::Process;
use cairn_keys::server::{Outside, NUMBERED};
use cairn_keys::Keys;
use cairn_resmgr::event::serve;
use cairn_resmgr::{Manager, Native, Transport};
use cairn_rt::{entropy, startup, Portal};

cairn_rt::entry!(main);

struct Machine {
    proc: Option<Portal>,
    own: Native,
}

impl Outside for Machine {
    fn process(&mut self, domain: Id) -> Option<Process> {
        let mut bytes = [0; 128];
        let told = proc::Client(&self.proc?).keys_of(domain, &mut bytes).ok()?;
        let mut groups = [0; 32];
        for (group, four) in groups.iter_mut().zip(bytes.as_chunks::<4>().0) {
            *group = u32::from_le_bytes(*four);
        }
        Some(Process {
            groups,
            count: (told.count as usize).min(groups.len()),
            session: told.session,
            program: told.program,
            uid: told.user as u32,
            gid: told.group as u32,
            above: told.above,
        })
    }

    fn keep(&mut self, domain: Id, whose: KeyRings, number: u64) -> Result<(), i64> {
        let proc = self.proc.ok_or(ENOSYS)?;
        let end = self.own.make_portal(NUMBERED | number);
        let end = end.map_err(|_| ENOMEM)?;
        let kept = proc::Client(&proc).keys_set(domain, whose, number, end.0);
        // `proc` has its own slot for it now.
        end.close();
        kept.map(|_| ()).map_err(|failure| failure.errno())
    }

    fn random(&mut self) -> u64 {
        entropy::hardware().unwrap_or_else(entropy::cycles)
    }
}

fn main() -> ! {
    let mut native = Native::new();
    let proc = startup::portal("proc");
    let mut keys = Keys::new(Machine { proc, own: native });
    serve(&mut Manager::new(b"keys:"), &mut keys, &mut native)
}
