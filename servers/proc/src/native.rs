//! [`System`] by messages to `vm` and by nucleus services.

use crate::priority::CEILING;
use crate::system::{
    AccountStat, Domain, Entries, Errno, Faults, Slots, Space, SpaceLimits, Start, System,
};
use alloc::format;
use alloc::vec::Vec;
use cairn_abi::layout::{FRAMES, PERSONALITY, RESERVED_SLOTS};
use cairn_abi::machine::Counters;
use cairn_abi::service::memory::pool;
use cairn_abi::service::{current, domain, machine, thread};
use cairn_abi::state::Registers;
use cairn_abi::{flag, rights, Error, Id, Token};
use cairn_idl::errno::{EAGAIN, EBADF, EBUSY, EFAULT, EINVAL, EIO, EMFILE, ENOMEM};
use cairn_idl::wire::Failure;
use cairn_idl::{deadline, vm};
use cairn_random::SEED;
use cairn_rt::background::Background;
use cairn_rt::deputy;
#[cfg(target_os = "none")]
use cairn_rt::deputy::Deputy;
use cairn_rt::{entropy, Message, Portal, Receiver};

/// Slots that one TABLE_COPY is about.
const SLOT_SHARE: usize = 256;

/// Entries that a portal table has at first, and gets with each growth.
const TABLE_SHARE: u32 = 256;
/// Free entries to keep for what others pass.
const SPARE: u32 = 48;

pub struct Native {
    receiver: Receiver,
    /// `vm` with its control badge.
    vm: Portal,
    power: Option<Portal>,
    /// Who schedules threads with deadlines.
    deadline: Option<Portal>,
    background: Background,
    /// The thread for long calls to `vm`, once it was wanted; if there could be one.
    #[cfg(target_os = "none")]
    deputy: Option<Option<Deputy>>,
    /// Portals held, roughly; and the room for them.
    held: u32,
    room: u32,
}

impl Native {
    pub fn new(receiver: Receiver, vm: Portal, power: Option<Portal>) -> Native {
        Native {
            receiver,
            vm,
            power,
            deadline: None,
            background: Background::default(),
            #[cfg(target_os = "none")]
            deputy: None,
            held: SPARE,
            room: TABLE_SHARE - RESERVED_SLOTS,
        }
    }

    pub fn with_deadlines(self, deadline: Option<Portal>) -> Native {
        Native { deadline, ..self }
    }

    /// A call to who schedules threads with deadlines. Without it there is no time left.
    fn ask_deadline(&self, message: Message) -> Result<(), Errno> {
        let portal = self.deadline.ok_or(EBUSY)?;
        match portal.call(message).map(|words| words[0] as i64) {
            Ok(0..) => Ok(()),
            Ok(failed) => Err(-failed),
            Err(_) => Err(EBUSY),
        }
    }

    /// A call to `vm`.
    fn ask(&self, message: Message) -> Result<[u64; 8], Errno> {
        let words = self.vm.call(message).map_err(errno_of)?;
        match words[0] as i64 {
            failed @ -4095..=-1 => Err(-failed),
            _ => Ok(words),
        }
    }

    /// A call to `vm` whose answer brings a portal, in w7.
    fn ask_portal(&self, message: Message) -> Result<[u64; 8], Errno> {
        self.vm
            .call_for(message, 1)
            .map_err(|failure| match failure {
                Failure::Gate(error) => errno_of(error),
                other => other.errno(),
            })
    }

    /// Before a portal arrives, or one that did is kept: is there room for the next ones?
    fn make_room(&mut self) -> Result<(), Errno> {
        if self.held + SPARE > self.room {
            self.ask(Message::new(&[vm::GROW_TABLE, 0]))?;
            self.room += TABLE_SHARE;
        }
        self.held += 1;
        Ok(())
    }

    /// An answer that brings a domain portal in w7 and the domain's id in w1.
    fn new_domain(&mut self, words: &[u64]) -> Result<Domain, Errno> {
        self.make_room()?;
        match self.ask_portal(Message::new(words)) {
            Ok(answer) => Ok(Domain {
                portal: Portal(answer[7] as u32),
                id: answer[1] as u32,
            }),
            Err(errno) => {
                self.held -= 1;
                Err(errno)
            }
        }
    }

    /// A nucleus service that may need an object of this pool.
    fn with_pool(
        &self,
        portal: Portal,
        operation: u8,
        words: &[u64],
        pool: u64,
    ) -> Result<[u64; 8], Errno> {
        match portal.service(operation, words) {
            Err(Error::NoMemory) => {
                self.ask(Message::new(&[vm::MORE_OBJECTS, pool]))?;
                portal.service(operation, words).map_err(errno_of)
            }
            other => other.map_err(errno_of),
        }
    }

    /// An operation on a domain that works in shares until it no longer answers `Again`.
    fn in_shares(&self, target: Portal, operation: u8, words: &[u64]) {
        while let Err(Error::Again) = target.service(operation, words) {}
    }
}

fn errno_of(error: Error) -> Errno {
    match error {
        Error::NoMemory | Error::NoTable => ENOMEM,
        Error::NoSlot => EMFILE,
        Error::BadAddress => EFAULT,
        Error::BadArgument => EINVAL,
        Error::BadPortal => EBADF,
        Error::Again | Error::Busy => EAGAIN,
        _ => EIO,
    }
}

impl System for Native {
    fn now(&mut self) -> u64 {
        cairn_rt::time::monotonic()
    }

    fn wall(&mut self) -> u64 {
        cairn_rt::time::wall_clock()
    }

    fn set_wall(&mut self, wall: u64) -> bool {
        let set = self
            .power
            .map(|machine| machine.service(machine::WALL_CLOCK, &[wall]));
        matches!(set, Some(Ok(_)))
    }

    fn entropy(&mut self) -> [u8; SEED] {
        entropy::of_moment(self.now())
    }

    fn fork_few(&mut self, parent: Id, share: bool) -> Result<Domain, Errno> {
        let words = [vm::FORK, parent.into(), share.into(), 0, 0, 0, 1];
        self.new_domain(&words)
    }

    #[cfg(target_os = "none")]
    fn begin_forks(&mut self, level: u8) -> bool {
        let (receiver, vm) = (self.receiver, self.vm);
        let start = || {
            let told = receiver.make_portal(crate::BADGE_FORKS);
            told.and_then(|told| Deputy::start(told, vm)).ok()
        };
        let Some(deputy) = *self.deputy.get_or_insert_with(start) else {
            return false;
        };
        deputy.set_priority(level);
        deputy.begin();
        true
    }

    #[cfg(target_os = "none")]
    fn set_forks_priority(&mut self, level: u8) {
        if let Some(deputy) = self.deputy.flatten() {
            deputy.set_priority(level);
        }
    }

    #[cfg(not(target_os = "none"))]
    fn begin_forks(&mut self, _: u8) -> bool {
        false
    }

    #[cfg(not(target_os = "none"))]
    fn set_forks_priority(&mut self, _: u8) {}

    fn errand(&mut self, parent: Id) -> Result<[u64; 8], Errno> {
        self.make_room()?;
        Ok([1, vm::FORK, parent.into(), 0, 0, 0, 0, 0])
    }

    fn forked(&mut self, words: &[u64; 8]) -> Result<Domain, Errno> {
        match words[1] {
            deputy::DONE => Ok(Domain {
                portal: Portal(words[3] as u32),
                id: words[2] as Id,
            }),
            _ => {
                self.held -= 1;
                Err(words[2] as Errno)
            }
        }
    }

    fn begin_background(&mut self) -> bool {
        self.background
            .begin(self.receiver, crate::BADGE_BACKGROUND)
    }

    fn end_background(&mut self) {
        self.background.end();
    }

    fn log(&mut self, line: &str) {
        cairn_rt::log::write_plain(format_args!("{line}"));
    }

    fn idle(&mut self) -> u64 {
        let mut counters = [Counters::default()];
        let told = Portal::CURRENT.service_into(current::COUNTERS, &[0], 0, &mut counters);
        told.map_or(0, |_| counters[0].idle)
    }

    fn read(&mut self, token: Token, offset: u64, into: &mut [u8]) -> Result<usize, Error> {
        self.receiver.read(token, offset, into)
    }

    fn write(&mut self, token: Token, offset: u64, from: &[u8]) -> Result<usize, Error> {
        self.receiver.write(token, offset, from)
    }

    fn reply(&mut self, token: Token, words: [u64; 8]) {
        // Nobody is waiting any more if this fails.
        let _ = self.receiver.reply_words(token, &words);
    }

    fn close(&mut self, portal: Portal) {
        portal.close();
    }

    fn keep(&mut self) -> Result<(), Errno> {
        self.make_room()
    }

    fn drop_kept(&mut self, portal: Portal) {
        portal.close();
        self.held = self.held.saturating_sub(1);
    }

    fn notify(&mut self, portal: Portal, value: u64) {
        let _ = portal.notify(value);
    }

    fn power(&mut self, how: u64, code: u64) {
        if let Some(power) = self.power {
            let _ = power.service(machine::POWER, &[how, code]);
        }
    }

    fn create(&mut self) -> Result<Domain, Errno> {
        self.new_domain(&[vm::CREATE, 0, 1])
    }

    fn make_common(&mut self, id: Id) -> Result<(), Errno> {
        self.ask(Message::new(&[vm::MAKE_COMMON, id as u64]))
            .map(|_| ())
    }

    fn fork(
        &mut self,
        parent: Id,
        share: bool,
        pays: Option<(u32, bool)>,
        before: Id,
    ) -> Result<Domain, Errno> {
        let (pays, root) = pays.map_or((0, false), |(uid, root)| (u64::from(uid) + 1, root));
        let (share, root, before) = (share.into(), root.into(), before.into());
        let words = [vm::FORK, parent.into(), share, pays, root, before];
        self.new_domain(&words)
    }

    fn reset(&mut self, id: Id, heap: (u64, u64)) -> Result<(), Errno> {
        let words = [vm::RESET, id as u64, PERSONALITY, FRAMES, heap.0, heap.1];
        self.ask(Message::new(&words)).map(|_| ())
    }

    fn limit_space(&mut self, id: Id, limits: SpaceLimits) {
        // (`vm` has 0 for none.)
        let (data, lock) = (limits.data.wrapping_add(1), limits.lock.wrapping_add(1));
        let words = [vm::LIMIT, id as u64, limits.pages, data, lock];
        // It fails only for a domain that is gone.
        let _ = self.ask(Message::new(&words));
    }

    fn adjust_oom(&mut self, id: Id, adjust: i16) {
        let words = [vm::OOM_ADJUST, id as u64, i64::from(adjust) as u64];
        // It fails only for a domain that is gone.
        let _ = self.ask(Message::new(&words));
    }

    fn memory(&mut self) -> u64 {
        self.ask(Message::new(&[vm::MEMORY_STAT]))
            .map_or(0, |words| words[1])
    }

    fn space(&mut self, id: Id) -> Space {
        self.ask(Message::new(&[vm::SPACE_STAT, 0, id as u64]))
            .map_or(Space::default(), |words| Space {
                resident: words[1],
                mapped: words[2],
                shared: words[3],
                locked: words[4],
                data: words[5],
                faults: Faults {
                    minor: words[6],
                    major: words[7],
                },
            })
    }

    fn account_group(&mut self, account: u32, above: u32, there: bool) -> Result<(), Errno> {
        let words = [vm::GROUP, account.into(), above.into(), there.into()];
        self.ask(Message::new(&words)).map(|_| ())
    }

    fn limit_account(&mut self, account: u32, pages: u64) -> Result<(), Errno> {
        let words = [vm::ACCOUNT_LIMIT, account.into(), pages];
        self.ask(Message::new(&words)).map(|_| ())
    }

    fn account_stat(&mut self, account: u32) -> AccountStat {
        self.ask(Message::new(&[vm::ACCOUNT_STAT, account.into()]))
            .map_or(AccountStat::default(), |words| AccountStat {
                held: words[1],
                charged: words[2],
                records: words[5],
                refused: words[6],
                ended: words[7],
                peak: words[4] >> 32,
            })
    }

    fn set_account(&mut self, id: Id, uid: u32, root: bool) {
        let words = [vm::SET_ACCOUNT, id as u64, uid.into(), root.into()];
        let asked = self.ask(Message::new(&words));
        if let Err(errno) = asked {
            let line =
                format!("proc: domain {id} pays as before, not as user {uid}: error {errno}");
            self.log(&line);
        }
    }

    fn exhausted(&mut self, spared: Id) -> Option<(Id, u32)> {
        self.ask(Message::new(&[vm::EXHAUSTED, spared as u64]))
            .ok()
            .map(|words| (words[1] as u32, words[2] as u32))
    }

    fn object(&mut self, pages: &[u64], shared_writable: bool) -> Result<Portal, Errno> {
        let bytes: Vec<u8> = pages.iter().flat_map(|page| page.to_le_bytes()).collect();
        let words = [
            vm::OBJECT_CREATE,
            pages.len() as u64,
            shared_writable as u64,
        ];
        self.ask_portal(Message::new(&words).out(&bytes))
            .map(|answer| Portal(answer[7] as u32))
    }

    fn map_object(
        &mut self,
        id: Id,
        object: Portal,
        address: u64,
        length: u64,
        prot: u64,
        flags: u64,
    ) -> Result<(), Errno> {
        let words = [
            vm::OBJECT_MAP_INTO,
            id as u64,
            address,
            length,
            prot,
            flags,
            0,
        ];
        self.ask(Message::new(&words).portal(object)).map(|_| ())
    }

    fn map(
        &mut self,
        id: Id,
        address: u64,
        length: u64,
        prot: u64,
        flags: u64,
    ) -> Result<(), Errno> {
        let words = [vm::MAP_INTO, id as u64, address, length, prot, flags];
        self.ask(Message::new(&words)).map(|_| ())
    }

    fn write_into(&mut self, id: Id, address: u64, bytes: &[u8]) -> Result<(), Errno> {
        let words = self.ask(Message::new(&[vm::WRITE_INTO, id as u64, address]).out(bytes))?;
        if words[0] == bytes.len() as u64 {
            Ok(())
        } else {
            Err(EFAULT)
        }
    }

    fn set_up(
        &mut self,
        target: Domain,
        entries: Entries,
        label: u64,
        watch: u64,
    ) -> Result<(), Errno> {
        let receive = self.receiver.0 .0 as u64;
        let steps: [(u8, &[u64]); 4] = [
            (
                domain::SET_TURN,
                &[PERSONALITY, entries.syscall, entries.upcall],
            ),
            (domain::SET_LABEL, &[label]),
            (domain::CONFIGURE, &[1, CEILING as u64]),
            (domain::WATCH, &[receive, watch]),
        ];
        for (operation, words) in steps {
            target.portal.service(operation, words).map_err(errno_of)?;
        }
        Ok(())
    }

    fn turn(&mut self, target: Domain, entries: Entries, traced: bool) {
        let entry = match traced {
            true => entries.traced,
            false => entries.syscall,
        };
        let words = [PERSONALITY, entry, entries.upcall];
        let _ = target.portal.service(domain::SET_TURN, &words);
    }

    fn read_from(&mut self, id: Id, address: u64, into: &mut [u8]) -> Result<usize, Errno> {
        let message = Message::new(&[vm::READ_FROM, id.into(), address]).input(into);
        self.ask(message).map(|words| words[0] as usize)
    }

    fn shared_key(&mut self, id: Id, address: u64) -> Option<u64> {
        let words = self.ask(Message::new(&[vm::IDENTITY_OF, id.into(), address]));
        words.ok().filter(|w| w[0] == 1).map(|w| w[1])
    }

    fn write_for_tracer(&mut self, id: Id, address: u64, bytes: &[u8]) -> Result<usize, Errno> {
        let message = Message::new(&[vm::WRITE_INTO, id.into(), address, 1]).out(bytes);
        self.ask(message).map(|words| words[0] as usize)
    }

    fn set_label(&mut self, target: Domain, label: u64) {
        let _ = target.portal.service(domain::SET_LABEL, &[label]);
    }

    fn copy_table(&mut self, from: Domain, to: Domain, slots: Option<&Slots>) -> Result<(), Errno> {
        let source = from.portal.0 as u64;
        let mut next = 0;
        loop {
            let mut words = [source, next, 0, 0, 0, 0];
            if let Some(slots) = slots {
                let share = slots.as_chunks().0.get(next as usize / SLOT_SHARE);
                let [a, b, c, d] = share.copied().unwrap_or_default();
                words = [source, next, !a, !b, !c, !d];
            }
            match to.portal.service(domain::TABLE_COPY, &words) {
                Ok(words) if words[0] == 0 => return Ok(()),
                Ok(words) => next = words[0],
                Err(Error::NoSlot) => {
                    self.ask(Message::new(&[vm::GROW_TABLE, to.id as u64]))?;
                }
                Err(error) => return Err(errno_of(error)),
            }
        }
    }

    fn put(&mut self, target: Domain, portal: Portal, slot: u32) -> Result<(), Errno> {
        let words = [portal.0 as u64, slot as u64, rights::DEFAULT as u64];
        self.with_pool(target.portal, domain::PORTAL_PUT, &words, pool::PORTAL)
            .map(|_| ())
    }

    fn remove(&mut self, target: Domain, slot: u32) {
        let _ = target.portal.service(domain::PORTAL_REMOVE, &[slot.into()]);
    }

    fn thread(&mut self, target: Domain, start: &Start) -> Result<Id, Errno> {
        let words = [
            start.rip,
            start.rsp,
            start.rdi,
            start.fs_base,
            start.gs_base,
            start.priority as u64 | start.policy << 8,
            0,
        ];
        self.with_pool(target.portal, domain::THREAD_CREATE, &words, pool::THREAD)
            .map(|answer| answer[1] as u32)
    }

    fn control(
        &mut self,
        target: Domain,
        thread: Id,
        operation: u8,
        [a, b, c]: [u64; 3],
    ) -> Result<[u64; 8], Error> {
        target.portal.service(
            domain::THREAD_CONTROL,
            &[thread as u64, operation as u64, a, b, c],
        )
    }

    fn set_deadline(&mut self, target: Domain, id: Id, times: [u64; 3]) -> Result<(), Errno> {
        let [runtime, deadline, period] = times;
        let words = [deadline::SET, id.into(), runtime, deadline, period];
        let mut message = Message::new(&words).portal(target.portal);
        message.flags |= flag::NOT_FURTHER;
        self.ask_deadline(message)
    }

    fn end_deadline(&mut self, id: Id) {
        // It fails only if nobody schedules it.
        let _ = self.ask_deadline(Message::new(&[deadline::LEAVE, id.into()]));
    }

    fn end_period(&mut self, id: Id) -> Result<(), Errno> {
        self.ask_deadline(Message::new(&[deadline::END_PERIOD, id.into()]))
    }

    fn registers(&mut self, target: Domain, thread: Id) -> Option<Registers> {
        let mut registers = [Registers::ZERO];
        let words = [thread as u64, u64::from(thread::READ_STATE), 0];
        let read = target
            .portal
            .service_into(domain::THREAD_CONTROL, &words, 2, &mut registers);
        read.is_ok().then_some(registers[0])
    }

    fn take(&mut self, target: Domain, slot: u32) -> Result<Portal, Errno> {
        let words = [
            slot.into(),
            cairn_abi::service::AUTO,
            rights::DEFAULT.into(),
        ];
        let taken = target.portal.service(domain::PORTAL_TAKE, &words);
        match taken {
            Ok(words) => Ok(Portal(words[0] as u32)),
            Err(Error::NoSlot) => Err(EMFILE),
            Err(_) => Err(EBADF),
        }
    }

    fn stop(&mut self, target: Domain) {
        let _ = target.portal.service(domain::STOP, &[]);
    }

    fn resume(&mut self, target: Domain) {
        let _ = target.portal.service(domain::CONTINUE, &[]);
    }

    fn keep_only(&mut self, target: Domain, thread: Id) {
        self.in_shares(target.portal, domain::KILL_OTHERS, &[thread as u64]);
    }

    fn close_on_exec(&mut self, target: Domain) {
        let mut next = 0;
        while let Ok(words) = target.portal.service(domain::CLOSE_ON_EXEC, &[next]) {
            next = words[0];
            if next == 0 {
                break;
            }
        }
    }

    fn cores(&mut self) -> u64 {
        let told = Portal::CURRENT.service(current::AFFINITY, &[0, 0]);
        told.map_or(1, |words| words[2].count_ones().max(1).into())
    }

    fn cpu(&mut self, target: Domain) -> u64 {
        target
            .portal
            .service(domain::INFO, &[])
            .map_or(0, |words| words[3])
    }

    fn destroy(&mut self, target: Domain) -> Faults {
        self.in_shares(target.portal, domain::DESTROY, &[0]);
        let told = self.ask(Message::new(&[vm::DESTROY, target.id as u64]));
        target.portal.close();
        self.held = self.held.saturating_sub(1);
        told.map_or(Faults::default(), |words| Faults {
            minor: words[1],
            major: words[2],
        })
    }
}
