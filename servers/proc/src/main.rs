//! The process manager's program. Portals: `vm` with its control badge, `vm-client` for the processes, `power` (the machine, may be missing).
//! It reads the boot archive for the personality; the argument `cmdline` tells whether the machine runs one command for its host.
#![no_std]
#![no_main]
#![forbid(unsafe_code)]

extern crate alloc;

use cairn_abi::layout::native_slot;
use cairn_abi::Error;
use cairn_idl::errno::EMFILE;
use cairn_idl::{proc, vm};
use cairn_proc::native::Native;
use cairn_proc::{Gifts, Manager, Outcome, PrefixPage, BADGE_EXHAUSTED};
use cairn_rt::{log, startup, Message, Portal, Received, Receiver, Reply};

cairn_rt::entry!(main);

fn main() -> ! {
    let receiver = Receiver(Portal(native_slot::RECEIVE));
    let own_vm = Portal(native_slot::VM);
    let control = startup::portal("vm").unwrap_or(own_vm);
    let client = match receiver.make_portal(proc::BADGE_CLIENT) {
        Ok(portal) => portal,
        Err(error) => {
            log!("no portal for processes: {error:?}");
            Portal(u32::MAX)
        }
    };
    watch_memory(receiver, control);
    let gifts = Gifts {
        vm: startup::portal("vm-client").unwrap_or(own_vm),
        proc: client,
        log: Portal(native_slot::LOG),
    };
    let system = Native::new(receiver, control, startup::portal("power"));
    let mut manager = Manager::new(system, gifts, startup::archive(), PrefixPage::leak());
    let command_line = startup::argument("cmdline").unwrap_or("");
    manager.set_exit_with_code(command_line.split(' ').any(|word| word == "mode=exec"));
    serve(receiver, &mut manager)
}

/// Ask `vm` to say when memory is exhausted.
fn watch_memory(receiver: Receiver, vm: Portal) {
    let asked = receiver
        .make_portal(BADGE_EXHAUSTED)
        .and_then(|portal| vm.call(Message::new(&[vm::WATCH_EXHAUSTED]).portal(portal)));
    match asked {
        Ok(words) if words[0] as i64 >= 0 => {}
        other => log!("nobody tells when memory is exhausted: {other:?}"),
    }
}

fn serve(receiver: Receiver, manager: &mut Manager<Native>) -> ! {
    let mut message = Received::default();
    let mut answer: Option<(u64, Outcome)> = None;
    loop {
        let deadline = manager.deadline();
        if deadline.is_some_and(|due| due <= cairn_rt::time::monotonic()) {
            // Also when messages come without a pause.
            manager.expire();
            continue;
        }
        let result = match answer.take() {
            None => receiver.receive_into(deadline, &mut message),
            Some((token, outcome)) => {
                let reply = match outcome {
                    Outcome::Words(words) => Reply::new(&words),
                    Outcome::Portal(portal) => Reply::result(0).portal(portal, false),
                    Outcome::Kept(_) | Outcome::Later => Reply::result(0),
                };
                let result = receiver.reply_receive_into(token, &reply, deadline, &mut message);
                if let (Err(Error::NoSlot), Outcome::Portal(_)) = (&result, outcome) {
                    // The caller has no room for the portal and still waits.
                    answer = Some((token, Outcome::result(-EMFILE)));
                    continue;
                }
                result
            }
        };
        answer = match result {
            Ok(()) => handle(manager, &message),
            // The deadline passed, or the caller is gone: in both cases the loop's head goes on.
            Err(_) => None,
        };
    }
}

fn handle(manager: &mut Manager<Native>, message: &Received) -> Option<(u64, Outcome)> {
    match manager.handle(message) {
        Outcome::Later => None,
        outcome => Some((message.token, outcome)),
    }
}
