//! START: the first process, built from the personality's image by hand. All others come from it by fork.

use crate::dispatch::Outcome;
use crate::limits::Limits;
use crate::login::Login;
use crate::manager::{done, Manager};
use crate::process::{Inheritance, Text};
use crate::signal::SIGKILL;
use crate::system::{Domain, Errno, Start, System};
use crate::table::NONE;
use alloc::rc::Rc;
use alloc::vec::Vec;
use cairn_abi::layout::{linux_slot, PAGE, PERSONALITY_HEAP, PREFIX_TABLE};
use cairn_abi::service::thread;
use cairn_idl::errno::{E2BIG, EBUSY, EINVAL, ENOEXEC, ENOMEM};
use cairn_idl::label;
use cairn_idl::vm::{flags, prot};
use cairn_rt::Received;

/// Memory for the first stack and the strings; more if the strings are long.
pub(crate) const STACK: u64 = 64 * 1024;
/// Of which this much must stay for the stack.
const STACK_LEAST: u64 = 32 * 1024;
const STRINGS_MOST: usize = 256 * 1024;
/// Words in front of the strings.
pub(crate) const HEAD: u64 = 64;
/// Memory behind the first stack for what a personality needs at once: what its heap begins with, and the area of its first thread. It is told where this is,
/// and asks for more when it is used up.
pub(crate) const OWN: u64 = 144 * 1024;

/// The room for a block of so many bytes and the first stack behind it.
pub(crate) fn room_for_block(block: u64) -> u64 {
    (block + STACK_LEAST).next_multiple_of(PAGE).max(STACK)
}

/// The block's second word: what a personality begins with.
pub(crate) mod block {
    /// The first process.
    pub const FIRST: u64 = 0;
    /// Another program of a process (EXEC_FRESH).
    pub const FRESH: u64 = 1;

    /// In FRESH's fifth word: it is in a mount name space that is not the first one, and its root is that one's; it has a UTS name space of its own, is in a PID name space that is not the first one, and its children are.
    pub const SPACE: u64 = 1;
    pub const AT_ROOT: u64 = 2;
    pub const OWN_HOST: u64 = 4;
    pub const OWN_PIDS: u64 = 8;
    pub const CHILDREN_OWN_PIDS: u64 = 16;
}

impl<S: System> Manager<S> {
    /// Whether the first process's exit code becomes the machine's.
    pub fn set_exit_with_code(&mut self, with_code: bool) {
        self.exit_with_code = with_code;
    }

    /// Say in the log which program each domain executes (for readers of a trace).
    pub fn set_log_names(&mut self, log_names: bool) {
        self.log_names = log_names;
    }

    /// START
    pub(crate) fn start(&mut self, message: &Received) -> Result<Outcome, Errno> {
        let [_, path_len, argc, envc, ..] = message.words;
        if self.first != NONE {
            return Err(EBUSY);
        }
        if self.image.is_none() {
            return Err(ENOEXEC);
        }
        if message.out_len > STRINGS_MOST {
            return Err(E2BIG);
        }
        let strings = self.bytes(message, 0, message.out_len)?;
        let path_len = usize::try_from(path_len).map_err(|_| EINVAL)?;
        let path = strings.get(..path_len).ok_or(EINVAL)?.to_vec();
        let arguments = strings.get(path_len + 1..).ok_or(EINVAL)?;
        let count = arguments.iter().filter(|b| **b == 0).count() as u64;
        if count != argc.checked_add(envc).ok_or(EINVAL)? {
            return Err(EINVAL);
        }
        let line_len = ends_of(arguments, argc);
        let command_line = arguments[..line_len].to_vec();

        if !self.groups.reserve() || !self.sessions.reserve() {
            return Err(ENOMEM);
        }
        let slot = self.processes.take().ok_or(ENOMEM)?;
        let Some(pid) = self.numbers.allocate(slot, false) else {
            self.give_back(slot);
            return Err(EBUSY);
        };
        let length = HEAD + strings.len() as u64;
        let mut block = Vec::with_capacity(length as usize);
        for word in [
            pid as u64,
            block::FIRST,
            argc,
            envc,
            path_len as u64,
            strings.len() as u64,
            PERSONALITY_HEAP + room_for_block(length),
            OWN,
        ] {
            block.extend(word.to_le_bytes());
        }
        block.extend(&strings);

        let inheritance = Inheritance {
            has_left_terminal: false,
            creds: crate::capabilities::first(),
            dispositions: Default::default(),
            scheduling: Default::default(),
            limits: Rc::new(Limits::of_machine(self.system.memory())),
            text: Rc::new(Text {
                path: path.clone(),
                command_line,
                stack: Default::default(),
            }),
            comm: [0; 16],
            dumpable: 1,
            no_new_privileges: false,
            login: Login::default(),
            oom: Default::default(),
            core_filter: cairn_idl::proc::CORE_FILTER,
            slack: Default::default(),
            root: Rc::default(),
            cgroup: crate::cgroups::ROOT,
            space: None,
            host: None,
            user: None,
            ipc: None,
            session_keys: None,
            cgroups: None,
            pids: None,
        };
        self.begin(slot, inheritance);
        self.processes[slot].pid = pid;
        self.processes[slot].set_comm(&path);
        let made = self.system.create().and_then(|domain| {
            let made = self.fill(slot, domain, &block);
            if made.is_err() {
                self.system.destroy(domain);
            }
            made.map(|id| (domain, id))
        });
        let (domain, id) = match made {
            Ok(made) => made,
            Err(errno) => {
                self.processes[slot].used = false;
                self.numbers.release(pid);
                self.give_back(slot);
                return Err(errno);
            }
        };
        let now = self.system.now();
        self.processes[slot].start = now;
        self.processes[slot].executed = true;
        self.enter(slot, domain, id);
        self.first = slot;
        self.new_session(slot);
        if self
            .system
            .control(domain, id, thread::START, [0; 3])
            .is_err()
        {
            self.doom(slot, SIGKILL);
        }
        done(pid as i64)
    }

    /// Memory, portals and first thread of the first process.
    fn fill(&mut self, slot: u32, domain: Domain, block: &[u8]) -> Result<u32, Errno> {
        let image = self.image.take().ok_or(ENOEXEC)?;
        let loaded = self.map_image(domain, &image.pieces, 0);
        let start = image.start;
        self.image = Some(image);
        loaded?;

        let page = self.prefixes.page().address();
        let object = self.system.object(&[page], false)?;
        let mapped = self.system.map_object(
            domain.id,
            object,
            PREFIX_TABLE,
            PAGE,
            prot::READ,
            flags::FIXED | flags::SHARED,
        );
        self.system.close(object);
        mapped?;
        self.system.make_common(domain.id)?;

        let length = room_for_block(block.len() as u64);
        self.map_block(domain, length, 0)?;
        self.system.write_into(domain.id, PERSONALITY_HEAP, block)?;
        self.give_portals(slot, domain)?;
        let mounts: Vec<_> = self.prefixes.portals().collect();
        for (index, portal) in mounts {
            self.system
                .put(domain, portal, linux_slot::MOUNTS + index)?;
        }
        let first = Start {
            rip: start,
            rsp: PERSONALITY_HEAP + length,
            rdi: PERSONALITY_HEAP,
            priority: crate::priority::of(&self.processes[slot].scheduling, 0),
            policy: crate::priority::policy_of(&self.processes[slot].scheduling),
            ..Start::default()
        };
        self.furnish(slot, domain, &first)
    }

    /// The room for the block and the first stack, and [`OWN`] behind it; `how`: further `vm::flags`.
    pub(crate) fn map_block(&mut self, domain: Domain, length: u64, how: u64) -> Result<(), Errno> {
        self.system.map(
            domain.id,
            PERSONALITY_HEAP,
            length + OWN,
            prot::READ | prot::WRITE,
            flags::FIXED | flags::PERSONALITY | how,
        )
    }

    /// What every process has by itself, and the log for the privileged.
    pub(crate) fn give_portals(&mut self, slot: u32, domain: Domain) -> Result<(), Errno> {
        let gifts = self.gifts;
        self.system.put(domain, gifts.vm, linux_slot::VM)?;
        self.system.put(domain, gifts.proc, linux_slot::PROC)?;
        if label::has(self.processes[slot].label(), label::SYSTEM) {
            self.system.put(domain, gifts.log, linux_slot::LOG)?;
        }
        Ok(())
    }

    /// `how`: further `vm::flags`.
    pub(crate) fn map_image(
        &mut self,
        domain: Domain,
        pieces: &[crate::image::Piece],
        how: u64,
    ) -> Result<(), Errno> {
        for piece in pieces {
            let mut access = prot::READ;
            let mut how = flags::FIXED | flags::PERSONALITY | how;
            if piece.write {
                access |= prot::WRITE;
            } else {
                how |= flags::SHARED;
                if piece.execute {
                    access |= prot::EXECUTE;
                }
            }
            let from_file = piece.pages.len() as u64 * PAGE;
            if from_file != 0 {
                let object = self.system.object(&piece.pages, false)?;
                let mapped = self.system.map_object(
                    domain.id,
                    object,
                    piece.address,
                    from_file,
                    access,
                    how,
                );
                self.system.close(object);
                mapped?;
            }
            if piece.write && piece.filled < from_file {
                let zeroes = [0; PAGE as usize];
                let tail = (from_file - piece.filled) as usize;
                self.system
                    .write_into(domain.id, piece.address + piece.filled, &zeroes[..tail])?;
            }
            if piece.length > from_file {
                self.system.map(
                    domain.id,
                    piece.address + from_file,
                    piece.length - from_file,
                    access,
                    how & !flags::SHARED,
                )?;
            }
        }
        Ok(())
    }
}

/// Bytes of the first `count` NUL-terminated strings.
fn ends_of(strings: &[u8], count: u64) -> usize {
    let mut left = count;
    strings
        .iter()
        .position(|b| {
            if *b == 0 {
                left = left.saturating_sub(1);
            }
            *b == 0 && left == 0
        })
        .map_or(0, |at| if count == 0 { 0 } else { at + 1 })
}

#[cfg(test)]
mod tests {
    use super::ends_of;

    #[test]
    fn the_command_line_ends_with_its_last_argument() {
        assert_eq!(ends_of(b"sh\0-c\0A=1\0", 2), 6);
        assert_eq!(ends_of(b"sh\0", 1), 3);
        assert_eq!(ends_of(b"sh\0", 0), 0);
        assert_eq!(ends_of(b"", 1), 0);
    }
}
