//! The devices: which there are, what file each has, who uses it, and when it gives the file back.

use crate::backing::{sectors, About, Ask, Backing, Helper, Outside, HELPER_FIRST};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use cairn_abi::{Error, Id, Token};
use cairn_block::serve::{Backend, Disk};
use cairn_block::SECTOR;
use cairn_idl::block::{self, BADGE_SESSION_FIRST};
use cairn_idl::device;
use cairn_idl::errno::*;
use cairn_idl::loops::{self, *};
use cairn_idl::wire::{self, Caller, Errno, Given, Outcome};

/// Bits of a disk's badge that say which partition.
const PARTITION: u64 = (1 << DISK_SHIFT) - 1;
/// Bit of the bell.
const TOLD: u64 = 1;

type Served<S> = Disk<Backing<S>, S>;

struct Bound<S: Outside> {
    disk: Served<S>,
    /// The file is there, and known.
    ready: bool,
    /// It is given back as soon as nothing is under way.
    clearing: bool,
    /// What of it is mounted, by partition.
    mounted: BTreeSet<u64>,
}

struct Device<S: Outside> {
    bound: Option<Bound<S>>,
    /// Somebody has it open.
    used: bool,
    /// What came of what was begun last, until it is asked for.
    result: Option<Result<(), i64>>,
}

/// The component.
pub struct Loops<S: Outside> {
    system: S,
    devices: BTreeMap<u32, Device<S>>,
    /// By session, and by helper.
    sessions: BTreeMap<u64, u32>,
    helpers: Vec<Option<u32>>,
    resting: Vec<S::Helper>,
    next_session: u64,
    bell: Option<u32>,
    changed: BTreeSet<u32>,
}

/// Which device and which partition a disk's badge means.
fn disk_of(badge: u64) -> Option<(u32, u64)> {
    let badge = badge & !BADGE_BYSTANDER;
    let number = (badge >> DISK_SHIFT).checked_sub(1)?;
    (number <= NUMBER_MOST).then_some((number as u32, badge & PARTITION))
}

/// The badge of a disk.
fn badge_of(number: u32) -> u64 {
    (u64::from(number) + 1) << DISK_SHIFT
}

/// A caller as the disk's own server knows it: by the partition.
struct Part<'c, C>(&'c C, u64);

impl<C: Caller> Caller for Part<'_, C> {
    const SIGNED: bool = C::SIGNED;
    fn words(&self) -> &[u64; 8] {
        self.0.words()
    }
    fn badge(&self) -> u64 {
        self.1
    }
    fn sender(&self) -> Id {
        self.0.sender()
    }
    fn label(&self) -> u64 {
        self.0.label()
    }
    fn token(&self) -> Token {
        self.0.token()
    }
    fn out_len(&self) -> usize {
        self.0.out_len()
    }
    fn in_len(&self) -> usize {
        self.0.in_len()
    }
    fn portals(&self) -> usize {
        self.0.portals()
    }
    fn read(&self, offset: usize, into: &mut [u8]) -> Result<usize, Error> {
        self.0.read(offset, into)
    }
    fn write(&self, offset: usize, from: &[u8]) -> Result<usize, Error> {
        self.0.write(offset, from)
    }
    fn close(&self, slot: u32) {
        self.0.close(slot)
    }
}

impl<S: Outside> Loops<S> {
    /// With the devices that there are at first. Sessions have badges from this on.
    pub fn new(system: S, first_session: u64) -> Loops<S> {
        let mut loops = Loops {
            system,
            devices: BTreeMap::new(),
            sessions: BTreeMap::new(),
            helpers: Vec::new(),
            resting: Vec::new(),
            next_session: first_session.max(BADGE_SESSION_FIRST),
            bell: None,
            changed: BTreeSet::new(),
        };
        (0..DEVICES_AT_FIRST).for_each(|number| loops.make(number));
        loops
    }

    fn make(&mut self, number: u32) {
        let device = Device {
            bound: None,
            used: false,
            result: None,
        };
        self.devices.insert(number, device);
    }

    /// A request, by its badge. [`Loops::after`] belongs to it, when the answer was sent.
    pub fn request<C: Caller>(&mut self, caller: &C) -> Outcome<'_> {
        let badge = caller.badge();
        if badge == BADGE_CONTROL || badge == BADGE_LOOK {
            return loops::dispatch(self, caller);
        }
        let session = self.sessions.get(&badge).map(|number| (*number, badge));
        let place = match badge >= BADGE_SESSION_FIRST {
            true => session,
            false => disk_of(badge),
        };
        let first = self.next_session;
        let bound = place.and_then(|(number, _)| self.devices.get_mut(&number)?.bound.as_mut());
        match (bound.filter(|bound| bound.ready && !bound.clearing), place) {
            (Some(bound), Some((_, part))) => {
                bound.disk.number_from(first);
                block::dispatch(&mut bound.disk, &Part(caller, part))
            }
            _ => wire::finish(caller, Err(ENXIO), None),
        }
    }

    /// The request through this badge was answered, and the answer `delivered`.
    pub fn after(&mut self, badge: u64, delivered: bool) {
        if badge >= BADGE_SESSION_FIRST || badge == BADGE_CONTROL || badge == BADGE_LOOK {
            return self.ring();
        }
        let Some((number, part)) = disk_of(badge) else {
            return;
        };
        let Some(bound) = self.bound(number) else {
            return;
        };
        let made = bound.disk.newest();
        if made < self.next_session {
            return;
        }
        self.next_session = made + 1;
        if let Some(bound) = self.bound(number) {
            match delivered {
                true if badge & BADGE_BYSTANDER == 0 => drop(bound.mounted.insert(part)),
                true => {}
                false => bound.disk.closed(made),
            }
        }
        if delivered {
            self.sessions.insert(made, number);
        }
        // The session's ring tells from now on that something comes.
        self.serve(number);
    }

    fn bound(&mut self, number: u32) -> Option<&mut Bound<S>> {
        self.devices.get_mut(&number)?.bound.as_mut()
    }

    /// A notification with this badge.
    pub fn notified(&mut self, badge: u64) {
        if let Some(number) = self.sessions.get(&badge) {
            self.serve(*number);
        } else if let Some(helper) = badge.checked_sub(HELPER_FIRST).map(|at| at as usize) {
            if let Some(Some(number)) = self.helpers.get(helper) {
                self.serve(*number);
            }
        } else if let Some((number, part)) = disk_of(badge) {
            self.unmounted(number, part);
        }
        self.ring();
    }

    /// Nobody holds a portal with this badge any more.
    pub fn closed(&mut self, badge: u64) {
        if let Some(number) = self.sessions.remove(&badge) {
            if let Some(bound) = self.bound(number) {
                bound.disk.closed(badge);
            }
            self.serve(number);
            self.ring();
        }
    }

    fn unmounted(&mut self, number: u32, part: u64) {
        if let Some(bound) = self.bound(number) {
            bound.mounted.remove(&part);
        }
        self.perhaps_clear(number);
    }

    /// A device that is to give its file back when nobody uses it does so.
    fn perhaps_clear(&mut self, number: u32) {
        let Some(device) = self.devices.get_mut(&number) else {
            return;
        };
        let used = device.used;
        if let Some(bound) = &mut device.bound {
            let alone = !used && bound.mounted.is_empty() && bound.ready;
            if alone && bound.disk.backend.how.flags & lo::AUTOCLEAR != 0 {
                self.begin_clear(number);
            }
        }
    }

    fn begin_clear(&mut self, number: u32) {
        if let Some(bound) = self.bound(number) {
            bound.clearing = true;
            bound.disk.end_all();
        }
        self.serve(number);
    }

    /// Have a device do what it can.
    fn serve(&mut self, number: u32) {
        while let Some(bound) = self.bound(number) {
            let disk = &mut bound.disk;
            disk.backend.advance();
            while let Some((tag, outcome)) = disk.backend.completed() {
                disk.done(tag, outcome);
            }
            disk.pump();
            disk.backend.advance();
            if let Some((ask, result)) = disk.backend.answered() {
                self.settle(number, ask, result);
                continue;
            }
            if bound.disk.backend.has_completed() {
                continue;
            }
            if bound.clearing && bound.disk.under_way() == 0 && bound.disk.backend.is_idle() {
                self.give_back(number);
                return;
            }
            if !bound.disk.arm() {
                return;
            }
        }
    }

    /// A file was asked what it is.
    fn settle(&mut self, number: u32, ask: Ask, result: Result<About, i64>) {
        let result = result.and_then(|about| {
            match ask.file.is_some() && self.leads_to(about.device, number) {
                true => Err(EBADF),
                false => Ok(about),
            }
        });
        let Some(device) = self.devices.get_mut(&number) else {
            return;
        };
        let Some(bound) = &mut device.bound else {
            return;
        };
        let backing = &mut bound.disk.backend;
        let result = result.and_then(|about| {
            // Another file in the place of one must be as long.
            let same = sectors(about.size, &ask.how) == sectors(backing.about.size, &backing.how);
            match bound.ready && ask.file.is_some() && !same {
                true => Err(EINVAL),
                false => Ok(about),
            }
        });
        let mut over = false;
        match result {
            Ok(about) => {
                let mut how = ask.how;
                if let Some(file) = ask.file {
                    if bound.ready {
                        self.system.close(backing.file);
                    }
                    backing.file = file;
                    if about.read_only {
                        how.flags |= lo::READ_ONLY;
                    }
                }
                backing.about = About {
                    // Kept where the question was only about the size.
                    path: match ask.file {
                        Some(_) => about.path.clone(),
                        None => core::mem::take(&mut backing.about.path),
                    },
                    ..about
                };
                backing.how = how;
                bound.ready = true;
                bound.disk.resized();
                device.result = Some(Ok(()));
            }
            Err(errno) => {
                if let Some(file) = ask.file {
                    self.system.close(file);
                }
                device.result = Some(Err(errno));
                over = !bound.ready;
            }
        }
        self.changed.insert(number);
        match over {
            true => self.drop_bound(number),
            false => self.perhaps_clear(number),
        }
    }

    /// Does a file on this device (st_dev) lie, by way of other loop devices, on this one?
    fn leads_to(&self, mut st_dev: u64, number: u32) -> bool {
        // Such a way has each of them once.
        for _ in 0..=self.devices.len() {
            let Some(next) = device::loop_of(st_dev) else {
                return false;
            };
            if next == number {
                return true;
            }
            let Ok(disk) = self.look(next) else {
                return false;
            };
            st_dev = disk.backend.about.device;
        }
        true
    }

    /// Nobody uses the file any more, and nothing is under way.
    fn give_back(&mut self, number: u32) {
        if let Some(bound) = self.bound(number) {
            let file = bound.disk.backend.file;
            self.system.close(file);
        }
        if let Some(device) = self.devices.get_mut(&number) {
            device.result = Some(Ok(()));
        }
        self.changed.insert(number);
        self.drop_bound(number);
    }

    fn drop_bound(&mut self, number: u32) {
        let device = self.devices.get_mut(&number);
        let Some(bound) = device.and_then(|device| device.bound.take()) else {
            return;
        };
        self.sessions.retain(|_, of| *of != number);
        let mut helper = bound.disk.backend.helper;
        helper.rest();
        if let Some(place) = self.helpers.get_mut(helper.number() as usize) {
            *place = None;
        }
        self.resting.push(helper);
    }

    /// Who has the bell hears that there is something.
    fn ring(&mut self) {
        if let (Some(bell), false) = (self.bell, self.changed.is_empty()) {
            self.system.notify(bell, TOLD);
        }
    }

    fn helper(&mut self, number: u32) -> Result<S::Helper, Errno> {
        let helper = match self.resting.pop() {
            Some(helper) => helper,
            None => {
                let made = self.system.helper(self.helpers.len() as u64);
                self.helpers.push(None);
                made.ok_or(ENOMEM)?
            }
        };
        if let Some(place) = self.helpers.get_mut(helper.number() as usize) {
            *place = Some(number);
        }
        Ok(helper)
    }

    fn look(&self, number: u32) -> Result<&Served<S>, Errno> {
        let bound = self.devices.get(&number).and_then(|it| it.bound.as_ref());
        let ready = bound.filter(|bound| bound.ready && !bound.clearing);
        ready.map(|bound| &bound.disk).ok_or(ENXIO)
    }
}

/// What the offset, block and flags may be; the disk's own server cuts the rest.
fn checked(how: How) -> Result<How, Errno> {
    let block = u64::from(how.block);
    let sane = block == 0 || block.is_power_of_two() && (SECTOR..=4096).contains(&block);
    let flags = lo::READ_ONLY | lo::AUTOCLEAR | lo::PARTSCAN;
    let most = i64::MAX as u64;
    match sane && how.flags & !flags == 0 && how.offset <= most && how.limit <= most {
        true => Ok(how),
        false => Err(EINVAL),
    }
}

impl<S: Outside> loops::Server for Loops<S> {
    fn device<C: Caller>(&mut self, _: &C, number: u64) -> Result<DeviceAnswer, Errno> {
        let from = u32::try_from(number).map_err(|_| ENXIO)?;
        let (found, _) = self.devices.range(from..).next().ok_or(ENXIO)?;
        Ok(DeviceAnswer {
            found: *found,
            bound: self.look(*found).is_ok(),
        })
    }

    fn status<C: Caller>(&mut self, _: &C, number: u32) -> Result<Status, Errno> {
        let backing = &self.look(number)?.backend;
        let (how, about) = (&backing.how, &backing.about);
        let mut path = [0; PATH];
        let length = about.path.len().min(PATH);
        path[..length].copy_from_slice(&about.path[..length]);
        Ok(Status {
            sectors: sectors(about.size, how),
            device: about.device,
            inode: about.inode,
            offset: how.offset,
            limit: how.limit,
            flags: how.flags,
            block: backing.info().block,
            name: how.name,
            path,
        })
    }

    fn partition<C: Caller>(
        &mut self,
        caller: &C,
        number: u32,
        partition: u32,
    ) -> Result<PartitionAnswer, Errno> {
        self.look(number)?;
        let bound = self.bound(number).ok_or(ENXIO)?;
        let found = block::Server::partition(&mut bound.disk, &Part(caller, 0), partition)?;
        Ok(PartitionAnswer {
            found: found.found,
            first: found.first,
            sectors: found.sectors,
        })
    }

    fn counts<C: Caller>(&mut self, caller: &C, number: u32, part: u64) -> Result<Counts, Errno> {
        self.look(number)?;
        let bound = self.bound(number).ok_or(ENXIO)?;
        let counts = block::Server::counts(&mut bound.disk, &Part(caller, 0), part)?;
        Ok(Counts::from_bytes(&counts.to_bytes()))
    }

    fn free<C: Caller>(&mut self, caller: &C) -> Result<u32, Errno> {
        let mut all = self.devices.iter();
        if let Some((number, _)) = all.find(|(_, it)| it.bound.is_none()) {
            return Ok(*number);
        }
        self.add(caller, ANY)
    }

    fn add<C: Caller>(&mut self, _: &C, number: u64) -> Result<u32, Errno> {
        let number = match number {
            ANY => (0..).find(|number| !self.devices.contains_key(number)),
            number => u32::try_from(number)
                .ok()
                .filter(|number| u64::from(*number) <= NUMBER_MOST),
        };
        let number = number.ok_or(EINVAL)?;
        if self.devices.contains_key(&number) {
            return Err(EEXIST);
        }
        if self.devices.len() >= DEVICES_MOST {
            return Err(ENOSPC);
        }
        self.make(number);
        self.changed.insert(number);
        Ok(number)
    }

    fn remove<C: Caller>(&mut self, _: &C, number: u32) -> Result<(), Errno> {
        let device = self.devices.get(&number).ok_or(ENODEV)?;
        if device.bound.is_some() || device.used {
            return Err(EBUSY);
        }
        self.devices.remove(&number);
        self.changed.insert(number);
        Ok(())
    }

    fn disk<C: Caller>(&mut self, _: &C, number: u32) -> Result<Given, Errno> {
        self.look(number)?;
        Ok(Given(badge_of(number) | BADGE_BYSTANDER))
    }

    fn bind<C: Caller>(
        &mut self,
        _: &C,
        number: u32,
        replace: bool,
        file: u32,
        how: How,
    ) -> Result<(), Errno> {
        let how = checked(how)?;
        let device = self.devices.get(&number).ok_or(ENXIO)?;
        match (&device.bound, replace) {
            (None, true) => return Err(ENXIO),
            (Some(_), false) => return Err(EBUSY),
            (Some(bound), true) if !bound.ready || bound.clearing => return Err(ENXIO),
            (Some(bound), true) if bound.disk.backend.how.flags & lo::READ_ONLY == 0 => {
                return Err(EINVAL)
            }
            _ => {}
        }
        if !replace {
            let helper = self.helper(number)?;
            let backing = Backing::new(self.system.clone(), helper, how);
            let disk = Disk::new(backing, self.system.clone(), Vec::new());
            if let Some(device) = self.devices.get_mut(&number) {
                device.bound = Some(Bound {
                    disk,
                    ready: false,
                    clearing: false,
                    mounted: BTreeSet::new(),
                });
            }
        }
        let bound = self.bound(number).ok_or(ENXIO)?;
        let how = match replace {
            true => bound.disk.backend.how,
            false => how,
        };
        self.ask(number, Ask::new(Some(file), how, About::default()))
    }

    fn change<C: Caller>(&mut self, _: &C, number: u32, how: How) -> Result<(), Errno> {
        let how = checked(how)?;
        let about = self.look(number)?.backend.about.clone();
        self.ask(number, Ask::new(None, how, about))
    }

    fn outcome<C: Caller>(&mut self, _: &C, number: u32) -> Result<(), Errno> {
        let device = self.devices.get_mut(&number).ok_or(ENXIO)?;
        match (device.result.take(), &device.bound) {
            (Some(result), _) => result,
            (None, Some(bound)) if bound.clearing || bound.disk.backend.is_asking() => Err(EAGAIN),
            _ => Err(ENXIO),
        }
    }

    fn clear<C: Caller>(&mut self, _: &C, number: u32, others: bool) -> Result<bool, Errno> {
        self.look(number)?;
        let bound = self.bound(number).ok_or(ENXIO)?;
        if bound.disk.backend.is_asking() {
            return Err(EBUSY);
        }
        if others || !bound.mounted.is_empty() {
            bound.disk.backend.how.flags |= lo::AUTOCLEAR;
            return Ok(true);
        }
        self.begin_clear(number);
        let device = self.devices.get_mut(&number).ok_or(ENXIO)?;
        let done = device.bound.is_none();
        if done {
            device.result = None;
        }
        Ok(done)
    }

    fn used<C: Caller>(&mut self, _: &C, number: u32, used: bool) -> Result<(), Errno> {
        let device = self.devices.get_mut(&number).ok_or(ENXIO)?;
        device.used = used;
        self.perhaps_clear(number);
        Ok(())
    }

    fn bell<C: Caller>(&mut self, _: &C, bell: u32) -> Result<(), Errno> {
        if let Some(before) = self.bell.replace(bell) {
            self.system.close(before);
        }
        // A new `blockdev` has nothing open.
        let all: Vec<u32> = self.devices.keys().copied().collect();
        for number in all {
            if let Some(device) = self.devices.get_mut(&number) {
                device.used = false;
            }
            self.perhaps_clear(number);
        }
        Ok(())
    }

    fn changed<C: Caller>(&mut self, _: &C) -> Result<u32, Errno> {
        self.changed.pop_first().ok_or(EAGAIN)
    }
}

impl<S: Outside> Loops<S> {
    /// Ask a file what it is; the answer comes by [`Loops::settle`].
    fn ask(&mut self, number: u32, ask: Ask) -> Result<(), Errno> {
        let device = self.devices.get_mut(&number).ok_or(ENXIO)?;
        let bound = device.bound.as_mut().ok_or(ENXIO)?;
        if !bound.disk.backend.begin(ask) {
            return Err(EBUSY);
        }
        device.result = None;
        self.serve(number);
        Ok(())
    }
}
