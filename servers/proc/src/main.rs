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
use cairn_proc::{Gifts, Held, Manager, Outcome, PrefixPage, BADGE_EXHAUSTED};
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
    let system = Native::new(receiver, control, startup::portal("power"))
        .with_deadlines(startup::portal("deadline"));
    let mut manager = Manager::new(system, gifts, startup::archive(), PrefixPage::leak());
    let command_line = startup::argument("cmdline").unwrap_or("");
    manager.set_exit_with_code(command_line.split(' ').any(|word| word == "mode=exec"));
    manager.set_log_names(command_line.contains("nucleus.trace="));
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
    let mut result = receiver.receive_into(manager.deadline(), &mut message);
    loop {
        let outcome = match result {
            Ok(()) => manager.handle(&message),
            // The deadline passed, or the caller is gone.
            Err(_) => Outcome::Later,
        };
        if manager.has_ready() {
            handle_ready(receiver, manager);
        }
        let deadline = next_deadline(manager);
        let token = message.token;
        result = match outcome {
            Outcome::Words(words) => {
                message.words = words;
                receiver.reply_words_receive(token, deadline, &mut message)
            }
            Outcome::Portal(_) | Outcome::Taken(..) => {
                let reply = reply_of(outcome);
                match receiver.reply_receive_into(token, &reply, deadline, &mut message) {
                    // The caller has no room for the portal and still waits.
                    Err(Error::NoSlot) => {
                        message.words = Reply::result(-EMFILE).words;
                        receiver.reply_words_receive(token, deadline, &mut message)
                    }
                    other => other,
                }
            }
            Outcome::Kept(_) | Outcome::Later => receiver.receive_into(deadline, &mut message),
        };
        if let Outcome::Taken(portal, _) = outcome {
            manager.close(portal);
        }
    }
}

/// An answer with its portal, if it brings one.
fn reply_of(outcome: Outcome) -> Reply<'static> {
    match outcome {
        Outcome::Words(words) => Reply::new(&words),
        Outcome::Portal(portal) => Reply::result(0).portal(portal, false),
        Outcome::Taken(portal, word) => {
            let mut reply = Reply::result(0).portal(portal, false);
            reply.words[1] = word;
            reply
        }
        Outcome::Kept(_) | Outcome::Later => Reply::result(0),
    }
}

/// Messages that were held back until now.
#[cold]
#[inline(never)]
fn handle_ready(receiver: Receiver, manager: &mut Manager<Native>) {
    while let Some(held) = manager.ready() {
        let outcome = manager.handle(&held.message);
        answer(receiver, manager, &held, outcome);
    }
}

/// Answer one whose message was held back.
fn answer(receiver: Receiver, manager: &mut Manager<Native>, held: &Held, outcome: Outcome) {
    let token = held.message.token;
    if let Outcome::Kept(_) | Outcome::Later = outcome {
        if held.interrupted {
            manager.interrupt(token);
        }
        return;
    }
    if let Err(Error::NoSlot) = receiver.reply(token, reply_of(outcome)) {
        // The caller has no room for the portal and still waits.
        let _ = receiver.reply(token, Reply::result(-EMFILE));
    }
    if let Outcome::Taken(portal, _) = outcome {
        manager.close(portal);
    }
}

/// When something is due next. Of what is due already a share is done, also when messages come without a pause; the rest waits for the next turn, as messages do.
fn next_deadline(manager: &mut Manager<Native>) -> Option<u64> {
    let deadline = manager.deadline();
    if deadline.is_none_or(|due| due > cairn_rt::time::monotonic()) {
        return deadline;
    }
    manager.expire();
    manager.deadline()
}
