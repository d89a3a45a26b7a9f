//! exec of files with set-id bits or capabilities: EXEC_FRESH, SET_ID, BEGIN; and SET_ROOT.
//!
//! The caller cannot be believed, nor anything that lies in its memory, its personality included. So the program begins in a new domain: a copy of one in which nobody ever ran, with this server's own portals in the
//! reserved slots and with such of the caller's portals as are data (open files). The personality there asks the manager of the file that it executes (`fs::EXECUTE`), and the manager, known by its role, tells mode, owner
//! and capabilities here. A process can be told so before its BEGIN only, when nothing but the personality has run in the domain. Nobody waits for anybody here: this server asks no file server.

use crate::boot::{block, room_for_block, HEAD, OWN, STACK};
use crate::dispatch::Outcome;
use crate::limits::{FSIZE, NOFILE};
use crate::manager::{done, Manager};
use crate::process::{Beginning, Root, Thread};
use crate::signal::{Queue, SIGKILL};
use crate::system::{Domain, Errno, Slots, Start, System};
use crate::table::Slot;
use crate::user_spaces::{is_mapped, user_0, Above};
use alloc::rc::Rc;
use alloc::vec::Vec;
use cairn_abi::layout::{linux_slot, PERSONALITY_HEAP, RESERVED_SLOTS};
use cairn_abi::service::thread;
use cairn_idl::capability::{FileCapabilities, ALL, SYS_CHROOT};
use cairn_idl::errno::{E2BIG, EFAULT, EINVAL, ENAMETOOLONG, ENOEXEC, ENOMEM, EPERM, ESRCH};
use cairn_idl::fs::{s, PATH_MAX};
use cairn_idl::label;
use cairn_idl::proc::file::{CAPABLE, EFFECTIVE};
use cairn_idl::proc::Credentials;
use cairn_idl::vm::flags;
use cairn_rt::{Portal, Received};

/// Most bytes that one half of the personality may tell the other: arguments and environment, and some for each descriptor.
const TOLD_MOST: usize = 4 * 1024 * 1024;
/// They are copied in pieces of this size.
const PIECE: usize = 16 * 1024;
/// Slots of the first word that no caller's portals come into.
const RESERVED: u64 = u64::MAX >> (64 - RESERVED_SLOTS);

/// The ids of a process that executes a file of this mode and owner, with these capabilities; whether it is to be careful. None: it is not to be executed.
fn ids_of_file(
    creds: &Credentials,
    (mode, uid, gid): (u32, u32, u32),
    file: Option<FileCapabilities>,
    space: &Above,
) -> Option<(Credentials, bool)> {
    let mut new = *creds;
    // Whom the user name space does not know, nobody becomes there.
    let known = is_mapped(space, false, uid) && is_mapped(space, true, gid);
    let mode = if known { mode } else { 0 };
    if mode & s::ISUID != 0 {
        (new.euid, new.suid) = (uid, uid);
    }
    // Without the group's execute bit ISGID means mandatory locking.
    if mode & (s::ISGID | 0o010) == s::ISGID | 0o010 {
        (new.egid, new.sgid) = (gid, gid);
    }
    let careful = crate::capabilities::follow_exec(&mut new, file, user_0(space))?;
    Some((new, careful))
}

impl<S: System> Manager<S> {
    /// EXEC_FRESH
    pub(crate) fn exec_fresh(&mut self, message: &Received, slot: Slot) -> Result<Outcome, Errno> {
        // Its tracer has what it has: there is nothing more for it.
        if self.processes[slot].traced != 0 {
            return Err(EPERM);
        }
        let [_, path_len, line_len, name_len, slots_len, stack, ..] = message.words;
        let (texts, at) = self.executed_texts(message, [path_len, line_len, name_len], stack)?;
        let slots_len = usize::try_from(slots_len).map_err(|_| EINVAL)?;
        let told_at = at.checked_add(slots_len).ok_or(EINVAL)?;
        let told = message.out_len.checked_sub(told_at).ok_or(EINVAL)?;
        if told > TOLD_MOST {
            return Err(E2BIG);
        }
        let mut slots = [0; _];
        self.read_slots(message, (at, slots_len), &mut slots)?;
        slots[0] &= !RESERVED;

        let caller = message.token as u32;
        let scheduling = self.processes[slot].scheduling_of(caller);
        let start = Start {
            rdi: PERSONALITY_HEAP,
            priority: crate::priority::of(&scheduling, self.processes[slot].shift),
            policy: crate::priority::policy_of(&scheduling),
            ..Start::default()
        };
        let from = self.pristine()?;
        let pays = (self.account(slot), self.processes[slot].creds.euid == 0);
        let before = self.processes[slot].domain.id;
        let domain = self.system.fork(from.id, false, Some(pays), before)?;
        let made = self.prepare(message, slot, domain, &slots, (told_at, told), start);
        let id = match made {
            Ok(id) => id,
            Err(errno) => {
                self.system.destroy(domain);
                return Err(errno);
            }
        };

        // From here on nothing fails.
        let process = &mut self.processes[slot];
        let queue = process
            .thread(caller)
            .map(|thread| core::mem::take(&mut thread.queue))
            .unwrap_or_default();
        let filters = process.filters_of(caller);
        let old = core::mem::replace(&mut process.domain, domain);
        process.cpu += self.system.cpu(old);
        self.forget_threads(slot);
        self.domains.clear(old.id, slot);
        let faults = self.system.destroy(old);
        self.processes[slot].faults += faults;
        self.domains.set(domain.id, slot);
        self.threads.set(id, slot);
        self.move_in(slot, id, scheduling, queue);
        self.filter_first(slot, filters);
        let before = self.processes[slot].creds.permitted;
        self.executes(slot, texts);
        let process = &mut self.processes[slot];
        process.permitted_before = before;
        process.beginning = Beginning::Open;
        process.dumpable = 0;
        let stops = usize::from(process.stopped.is_some()) + usize::from(process.halted);
        (0..stops).for_each(|_| self.system.stop(domain));
        self.release_vfork_parent(slot);
        self.apply_turn(slot, 0);
        if self
            .system
            .control(domain, id, thread::START, [0; 3])
            .is_err()
        {
            self.doom(slot, SIGKILL);
        }
        Ok(Outcome::Later)
    }

    /// The only thread of the new domain is the process's first, whichever called.
    fn move_in(
        &mut self,
        slot: Slot,
        id: u32,
        scheduling: crate::process::Scheduling,
        queue: Queue,
    ) {
        let process = &mut self.processes[slot];
        let thread = Thread::new(id, process.pid, scheduling);
        process.threads.push(Thread { queue, ..thread });
    }

    /// Everything that the new domain has before it runs; its first thread.
    fn prepare(
        &mut self,
        message: &Received,
        slot: Slot,
        domain: Domain,
        slots: &Slots,
        (told_at, told): (usize, usize),
        start: Start,
    ) -> Result<u32, Errno> {
        let process = &self.processes[slot];
        let (pid, root) = (process.pid, process.root.clone());
        let old = process.domain;
        self.system.copy_table(old, domain, Some(slots))?;
        self.system.close_on_exec(domain);
        self.give_portals(slot, domain)?;
        // What else is mounted it gets as all do: by the folders above.
        let own = root.directory;
        let (space, directory) = self.root_of(slot, own)?;
        match (directory, self.prefixes.root()) {
            (Some(directory), _) => self.system.put(domain, directory, linux_slot::ROOT)?,
            (None, Some((index, mount))) => {
                self.system.put(domain, mount, linux_slot::MOUNTS + index)?;
            }
            (None, None) => {}
        }
        let length = root.path.len() + told;
        let mapped = room_for_block(HEAD + length as u64);
        if mapped > STACK {
            self.map_block(domain, mapped, 0)?;
        }
        let mut bytes = Vec::new();
        let room = HEAD as usize + root.path.len() + told.min(PIECE);
        bytes.try_reserve_exact(room).map_err(|_| ENOMEM)?;
        for word in [
            pid as u64,
            block::FRESH,
            root.path.len() as u64,
            u64::from(directory.is_some()),
            space,
            length as u64,
            PERSONALITY_HEAP + mapped,
            OWN,
        ] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend_from_slice(&root.path);
        let (mut to, mut done) = (PERSONALITY_HEAP, 0);
        loop {
            let begins = bytes.len();
            bytes.resize(begins + PIECE.min(told - done), 0);
            let piece = &mut bytes[begins..];
            match self
                .system
                .read(message.token, (told_at + done) as u64, piece)
            {
                Ok(read) if read == piece.len() => done += read,
                _ => return Err(EFAULT),
            }
            self.system.write_into(domain.id, to, &bytes)?;
            if done == told {
                break;
            }
            to += bytes.len() as u64;
            bytes.clear();
        }
        self.adjust_fresh(slot, domain.id);
        let start = Start {
            rip: self.image.as_ref().ok_or(ENOEXEC)?.start,
            rsp: PERSONALITY_HEAP + mapped,
            ..start
        };
        self.furnish(slot, domain, &start)
    }

    /// The domain in which nobody ran. It has the pages that a personality writes, so that the copies which programs begin with can get these at once.
    fn pristine(&mut self) -> Result<Domain, Errno> {
        if let Some(domain) = self.pristine {
            return Ok(domain);
        }
        let image = self.image.take().ok_or(ENOEXEC)?;
        let made = self.system.create().and_then(|domain| {
            // What is common to all Linux processes is there by itself.
            let own: Vec<_> = image.pieces.iter().filter(|p| p.write).cloned().collect();
            let mapped = self
                .map_image(domain, &own, flags::POPULATE)
                .and_then(|()| self.map_block(domain, STACK, flags::POPULATE));
            if mapped.is_err() {
                self.system.destroy(domain);
            }
            mapped.map(|()| domain)
        });
        self.image = Some(image);
        let domain = made?;
        self.limit_pristine_memory(domain.id);
        self.pristine = Some(domain);
        Ok(domain)
    }

    /// If memory is wanted from that domain it goes; it is made again when it is needed.
    pub(crate) fn drop_pristine(&mut self, id: u32) -> bool {
        match self.pristine {
            Some(domain) if domain.id == id => {
                self.pristine = None;
                self.system.destroy(domain);
                true
            }
            _ => false,
        }
    }

    /// SET_ID
    pub(crate) fn set_id(&mut self, words: &[u64; 8]) -> Result<Outcome, Errno> {
        let [_, domain, mode, uid, gid, file, permitted, inheritable] = *words;
        let narrow = |word: u64| u32::try_from(word).map_err(|_| EINVAL);
        let (mode, uid, gid) = (narrow(mode)?, narrow(uid)?, narrow(gid)?);
        if uid >= cairn_idl::vm::GROUP_FIRST
            || gid > label::GID_MAX
            || file & !(CAPABLE | EFFECTIVE) != 0
        {
            return Err(EINVAL);
        }
        let capabilities = (file & CAPABLE != 0).then_some(FileCapabilities {
            permitted: permitted & ALL,
            inheritable: inheritable & ALL,
            effective: file & EFFECTIVE != 0,
        });
        let slot = self.by_domain(domain)?;
        let process = &mut self.processes[slot];
        if process.beginning != Beginning::Open {
            return Err(ESRCH);
        }
        process.beginning = Beginning::Told;
        if !process.no_new_privileges {
            let ids = (mode, uid, gid);
            let of_file = ids_of_file(&process.creds, ids, capabilities, &process.user);
            let (new, careful) = of_file.ok_or(EPERM)?;
            process.death_signal = 0;
            process.careful = careful;
            self.assume(slot, new);
        }
        done(0)
    }

    /// BEGIN
    pub(crate) fn begin_program(
        &mut self,
        message: &Received,
        slot: Slot,
    ) -> Result<Outcome, Errno> {
        let process = &mut self.processes[slot];
        if core::mem::take(&mut process.beginning) != Beginning::Over {
            let creds = &process.creds;
            let own = creds.euid == creds.ruid && creds.egid == creds.rgid;
            process.careful |= !own;
            let more = creds.permitted & !process.permitted_before != 0;
            process.dumpable = (own && !more) as u32;
            self.limit_fresh_memory(slot);
        }
        let process = &mut self.processes[slot];
        let careful = core::mem::take(&mut process.careful);
        let bytes = process.creds.to_bytes();
        let kept = [NOFILE, FSIZE].map(|resource| process.limits.soft(resource));
        self.answer(message, &bytes)?;
        let [low, high] = self.seed();
        let [files, size] = kept;
        Ok(Outcome::words(&[0, careful.into(), low, high, files, size]))
    }

    /// SET_ROOT
    pub(crate) fn set_root(&mut self, message: &Received, slot: Slot) -> Result<Outcome, Errno> {
        if !self.processes[slot].creds.has_inside(SYS_CHROOT) {
            return Err(EPERM);
        }
        if message.portals != 1 {
            return Err(EINVAL);
        }
        if message.out_len >= PATH_MAX {
            return Err(ENAMETOOLONG);
        }
        let path = self.bytes(message, 0, message.out_len)?;
        self.system.keep()?;
        self.leave_root(slot);
        let directory = Some(Portal(message.words[7] as u32));
        self.processes[slot].root = Rc::new(Root { path, directory });
        Ok(Outcome::Kept(0))
    }

    /// The process has no root directory of its own any more. The last one's handle goes.
    pub(crate) fn leave_root(&mut self, slot: Slot) {
        let root = core::mem::take(&mut self.processes[slot].root);
        if let Some(directory) = Rc::into_inner(root).and_then(|root| root.directory) {
            self.system.drop_kept(directory);
        }
    }
}
