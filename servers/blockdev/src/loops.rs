//! Loop devices: disks that get their blocks, and lose them, while the system runs. The driver `loop` has them (`idl/loops.idl`); here are their nodes and the
//! requests of ioctl(2).
//!
//! The driver answers at once. What it has to ask a file's server is begun, and its bell ([`Disks::loops_rang`]) tells when something has come out: a request
//! waits for that, and then asks what.

use crate::disk::{long, Absent, Disks, Drive, FIRST_BADGE};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::vec::Vec;
use cairn_block::SECTOR;
use cairn_idl::errno::*;
use cairn_idl::label;
use cairn_idl::loops::{lo, How, Status, ANY};
use cairn_resmgr::server::Answer;
use cairn_resmgr::{Context, Failure};
use cairn_rt::channel::Reply;
use cairn_rt::Portal;

/// Badges of bells, one after the other: the driver closes the one before when it gets another, also that of a predecessor of this server.
pub const BELLS: core::ops::Range<u64> = FIRST_BADGE - 64..FIRST_BADGE;
/// Key of requests that wait for the bell.
const RANG: u64 = 0x80;
/// Progress of a request whose question was begun, and of one that is reading the table of partitions. (No job has such a number.)
const BEGUN: u64 = 1 << 62;
const SCANNING: u64 = 1 << 61;
/// What a device costs, and one with a file (a thread, a buffer, sessions), in bytes.
const COST: usize = 4096;
const COST_BOUND: usize = 160 * 1024;
/// Jobs of all of them, and of one, so that a file whose server does not answer leaves the others, and disks, enough.
pub(crate) const JOBS: usize = 24;
pub(crate) const JOBS_OF_ONE: usize = 8;

/// The driver.
pub trait Control {
    /// Have it ring the bell from now on; it has been started again, perhaps. False: it is not there.
    fn begin(&mut self) -> bool;
    /// The badge of that bell.
    fn bell(&self) -> u64;
    /// The device with this number or the next one behind it.
    fn device(&mut self, from: u32) -> Option<u32>;
    fn status(&mut self, number: u32) -> Result<Status, i64>;
    fn free(&mut self) -> Result<u32, i64>;
    fn add(&mut self, number: u64) -> Result<u32, i64>;
    fn remove(&mut self, number: u32) -> Result<(), i64>;
    /// The file is the driver's from then on, whatever comes out.
    fn bind(&mut self, number: u32, replace: bool, how: &How, file: Portal) -> Result<(), i64>;
    fn change(&mut self, number: u32, how: &How) -> Result<(), i64>;
    fn outcome(&mut self, number: u32) -> Result<(), i64>;
    fn clear(&mut self, number: u32, others: bool) -> Result<bool, i64>;
    fn used(&mut self, number: u32, used: bool);
    fn changed(&mut self) -> Option<u32>;
    /// Memory for the arena of all disks, if there is none.
    fn arena(&mut self) -> Option<&'static mut [u8]>;
    /// The disk, whose pulses have this badge.
    fn drive(&mut self, number: u32, badge: u64, arena: &mut [u8]) -> Option<Box<dyn Drive>>;
}

/// A device.
struct Loop {
    drive: usize,
    /// Its disk is there.
    connected: bool,
    /// Who pays for the device (None: it was there from the start), and for its file.
    maker: Option<u32>,
    binder: Option<u32>,
}

#[derive(Default)]
pub struct Loops {
    control: Option<Box<dyn Control>>,
    devices: BTreeMap<u32, Loop>,
    /// Number by drive.
    numbers: BTreeMap<usize, u32>,
    /// Drives of devices that were removed.
    spare: Vec<usize>,
}

impl Loops {
    /// The device that a drive is.
    pub fn number(&self, drive: usize) -> Option<u32> {
        self.numbers.get(&drive).copied()
    }

    fn control(&mut self) -> Answer<&mut dyn Control> {
        match &mut self.control {
            Some(control) => Ok(&mut **control),
            None => Err(Failure::Errno(ENXIO)),
        }
    }
}

/// ioctl requests (linux/loop.h).
mod request {
    pub const SET_FD: u64 = 0x4c00;
    pub const CLR_FD: u64 = 0x4c01;
    pub const SET_STATUS: u64 = 0x4c02;
    pub const GET_STATUS: u64 = 0x4c03;
    pub const SET_STATUS64: u64 = 0x4c04;
    pub const GET_STATUS64: u64 = 0x4c05;
    pub const CHANGE_FD: u64 = 0x4c06;
    pub const SET_CAPACITY: u64 = 0x4c07;
    pub const SET_DIRECT_IO: u64 = 0x4c08;
    pub const SET_BLOCK_SIZE: u64 = 0x4c09;
    pub const CONFIGURE: u64 = 0x4c0a;
    pub const ADD: u64 = 0x4c80;
    pub const REMOVE: u64 = 0x4c81;
    pub const GET_FREE: u64 = 0x4c82;
    /// Requests of loop devices.
    pub const ALL: core::ops::RangeInclusive<u64> = SET_FD..=0x4cff;
}

/// Flags that LOOP_SET_STATUS sets, that it takes away, and that LOOP_CONFIGURE knows.
const SETTABLE: u32 = lo::AUTOCLEAR | lo::PARTSCAN;
const CLEARABLE: u32 = lo::AUTOCLEAR;
const CONFIGURABLE: u32 = lo::READ_ONLY | lo::AUTOCLEAR | lo::PARTSCAN | lo::DIRECT_IO;

/// `struct loop_info64`, and the old `struct loop_info`.
pub const INFO64: usize = 232;
const INFO: usize = 168;
/// Where the first lies in `struct loop_config`.
const IN_CONFIG: usize = 8;

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(core::array::from_fn(|i| bytes[at + i]))
}

fn name(bytes: &[u8], at: usize) -> [u8; 64] {
    let mut name: [u8; 64] = core::array::from_fn(|i| bytes[at + i]);
    name[63] = 0;
    name
}

/// What a `struct loop_info64` asks for; nothing is encrypted.
fn how_of(bytes: &[u8; INFO64]) -> Answer<How> {
    let how = How {
        offset: long(bytes, 24),
        limit: long(bytes, 32),
        flags: word(bytes, 52),
        block: 0,
        name: name(bytes, 56),
    };
    if word(bytes, 44) != 0 || word(bytes, 48) > 32 {
        return Err(Failure::Errno(EINVAL));
    }
    match how.offset.max(how.limit) > i64::MAX as u64 {
        true => Err(Failure::Errno(EOVERFLOW)),
        false => Ok(how),
    }
}

fn how_of_old(bytes: &[u8; INFO]) -> Answer<How> {
    if word(bytes, 36) != 0 || word(bytes, 40) > 32 {
        return Err(Failure::Errno(EINVAL));
    }
    let offset = i64::from(word(bytes, 32) as i32) as u64;
    match offset > i64::MAX as u64 {
        true => Err(Failure::Errno(EOVERFLOW)),
        false => Ok(How {
            offset,
            limit: 0,
            flags: word(bytes, 44),
            block: 0,
            name: name(bytes, 48),
        }),
    }
}

fn info64(number: u32, status: &Status) -> [u8; INFO64] {
    let mut bytes = [0; INFO64];
    let mut put = |at: usize, from: &[u8]| bytes[at..][..from.len()].copy_from_slice(from);
    put(0, &status.device.to_le_bytes());
    put(8, &status.inode.to_le_bytes());
    put(24, &status.offset.to_le_bytes());
    put(32, &status.limit.to_le_bytes());
    put(40, &number.to_le_bytes());
    put(52, &status.flags.to_le_bytes());
    put(56, &status.name);
    bytes
}

fn info_old(number: u32, status: &Status) -> Answer<[u8; INFO]> {
    let offset = u32::try_from(status.offset)
        .ok()
        .filter(|it| *it >> 31 == 0);
    let offset = offset.ok_or(Failure::Errno(EOVERFLOW))?;
    let mut bytes = [0; INFO];
    let mut put = |at: usize, from: &[u8]| bytes[at..][..from.len()].copy_from_slice(from);
    put(0, &number.to_le_bytes());
    put(8, &status.device.to_le_bytes());
    put(16, &status.inode.to_le_bytes());
    put(32, &offset.to_le_bytes());
    put(44, &status.flags.to_le_bytes());
    put(48, &status.name);
    Ok(bytes)
}

fn is_block_size(size: u64) -> bool {
    size.is_power_of_two() && (SECTOR..=4096).contains(&size)
}

impl Disks {
    /// There is a driver of loop devices.
    pub fn set_loops(&mut self, mut control: Box<dyn Control>) {
        if !control.begin() {
            return;
        }
        let mut from = 0;
        let mut all = Vec::new();
        while let Some(number) = control.device(from) {
            all.push(number);
            from = number + 1;
        }
        self.loops.control = Some(control);
        for number in all {
            self.add_loop(number, None);
            self.connect(number);
        }
    }

    pub fn has_loops(&self) -> bool {
        self.loops.control.is_some()
    }

    /// Whether there are disks beside loop devices.
    pub fn has_others(&self) -> bool {
        self.drives.len() > self.loops.numbers.len() + self.loops.spare.len()
    }

    fn add_loop(&mut self, number: u32, maker: Option<u32>) {
        let disk = format!("loop{number}");
        let drive = match self.loops.spare.pop() {
            Some(drive) => {
                self.names[drive] = disk;
                drive
            }
            None => {
                self.drives.push(Box::new(Absent));
                self.names.push(disk);
                self.looks.push(Default::default());
                self.drives.len() - 1
            }
        };
        self.rename_parts(drive);
        self.put_part(drive, (0, 0, 0));
        self.loops.numbers.insert(drive, number);
        let new = Loop {
            drive,
            connected: false,
            maker,
            binder: None,
        };
        self.loops.devices.insert(number, new);
    }

    /// What the driver says of a device now: its disk is opened, or is not there any more.
    fn connect(&mut self, number: u32) {
        let Some(device) = self.loops.devices.get_mut(&number) else {
            return;
        };
        let (drive, connected) = (device.drive, device.connected);
        let status = self.loops.control().and_then(|control| {
            let status = control.status(number);
            status.map_err(Failure::Errno)
        });
        let Ok(status) = status else {
            return self.disconnect(number, drive, connected);
        };
        let block = self.drives[drive].info().block;
        // A new block size is another session's.
        if !connected || block != status.block && !self.has_jobs(drive) {
            if self.arena.is_empty() {
                let Ok(Some(arena)) = self.loops.control().map(|control| control.arena()) else {
                    return;
                };
                self.arena = arena;
            }
            let badge = FIRST_BADGE + drive as u64;
            let Some(control) = &mut self.loops.control else {
                return;
            };
            let Some(mut disk) = control.drive(number, badge, self.arena) else {
                return;
            };
            // From now on it tells what comes out.
            let _ = disk.completed();
            core::mem::replace(&mut self.drives[drive], disk).end();
            if let Some(device) = self.loops.devices.get_mut(&number) {
                device.connected = true;
            }
        }
        self.drives[drive].resize(status.sectors);
        self.set_size(drive, status.sectors);
    }

    fn disconnect(&mut self, number: u32, drive: usize, connected: bool) {
        if connected {
            self.fail_jobs(drive);
            core::mem::replace(&mut self.drives[drive], Box::new(Absent)).end();
            for part in &mut self.parts {
                part.gone |= part.drive == drive && part.number != 0;
            }
        }
        if let Some(device) = self.loops.devices.get_mut(&number) {
            device.connected = false;
        }
        self.set_size(drive, 0);
    }

    fn set_size(&mut self, drive: usize, sectors: u64) {
        let mut parts = self.parts.iter_mut();
        if let Some(whole) = parts.find(|it| it.drive == drive && it.number == 0) {
            whole.sectors = sectors;
        }
        self.looks[drive].forget();
    }

    pub(crate) fn bell_closed(&mut self, cx: &mut Context, bell: u64) {
        let control = self.loops.control();
        if control.is_ok_and(|control| control.bell() == bell) {
            self.loops_restarted(cx);
        }
    }

    /// The driver has died: its successor has none of the files. Devices stay.
    fn loops_restarted(&mut self, cx: &mut Context) {
        let begun = self.loops.control().map(|control| control.begin());
        let all: Vec<(u32, usize)> = self
            .loops
            .devices
            .iter()
            .map(|(number, it)| (*number, it.drive))
            .collect();
        for (number, drive) in all {
            let used = self.holders(drive) > 0;
            if let (Ok(true), Ok(control)) = (&begun, self.loops.control()) {
                // (Those that it has at first are there.)
                let _ = control.add(number.into());
                control.used(number, used);
            }
            self.connect(number);
            self.settle_loop(cx, number);
        }
        self.loops_rang(cx);
    }

    /// The driver has something to tell.
    pub fn loops_rang(&mut self, cx: &mut Context) {
        while let Some(number) = self.loops.control.as_mut().and_then(|it| it.changed()) {
            self.connect(number);
            self.settle_loop(cx, number);
        }
        cx.wake(RANG);
    }

    /// Of a device without a file nobody pays for it, or waits.
    fn settle_loop(&mut self, cx: &mut Context, number: u32) {
        let connected = self.is_connected(number);
        if let Some(device) = self.loops.devices.get_mut(&number).filter(|_| !connected) {
            if let Some(uid) = device.binder.take() {
                cx.refund(uid, COST_BOUND);
            }
        }
        for key in self.failed.drain(..) {
            cx.wake(key);
        }
    }

    fn is_connected(&self, number: u32) -> bool {
        let device = self.loops.devices.get(&number);
        device.is_some_and(|device| device.connected)
    }

    /// Handles of a drive, by all of its parts.
    fn holders(&self, drive: usize) -> u32 {
        let parts = self.parts.iter().filter(|part| part.drive == drive);
        parts.map(|part| part.held).sum()
    }

    /// A part is held once more, or less.
    pub(crate) fn loop_held(&mut self, part: usize, on: bool) {
        let Some(drive) = self.parts.get(part).map(|part| part.drive) else {
            return;
        };
        let Some(number) = self.loops.number(drive) else {
            return;
        };
        let holders = self.holders(drive);
        if let (true, Ok(control)) = (holders == u32::from(on), self.loops.control()) {
            control.used(number, on);
        }
    }

    /// `/dev/loop-control`.
    pub fn control_ioctl(
        &mut self,
        cx: &mut Context,
        what: u64,
        argument: u64,
    ) -> Answer<Reply<'_>> {
        let number = argument as i32;
        let made = |number: u32| Ok(Reply::result(number.into()));
        match what {
            request::GET_FREE => {
                let found = self.loops.control()?.free().map_err(Failure::Errno)?;
                self.made(cx, found)?;
                made(found)
            }
            request::ADD => {
                let wanted = u64::try_from(number).unwrap_or(ANY);
                let found = self.loops.control()?.add(wanted).map_err(Failure::Errno)?;
                self.made(cx, found)?;
                made(found)
            }
            request::REMOVE => {
                let number = u32::try_from(number).map_err(|_| Failure::Errno(EINVAL))?;
                let control = self.loops.control()?;
                control.remove(number).map_err(Failure::Errno)?;
                self.removed(cx, number);
                Ok(Reply::result(0))
            }
            _ => Err(Failure::Errno(ENOSYS)),
        }
    }

    /// The driver has made a device, perhaps; the caller pays for it.
    fn made(&mut self, cx: &mut Context, number: u32) -> Answer<()> {
        if self.loops.devices.contains_key(&number) {
            return Ok(());
        }
        let uid = cx.payer();
        if let Err(failure) = cx.charge(uid, COST) {
            let _ = self.loops.control()?.remove(number);
            return Err(failure);
        }
        self.add_loop(number, Some(uid));
        Ok(())
    }

    fn removed(&mut self, cx: &mut Context, number: u32) {
        let Some(device) = self.loops.devices.remove(&number) else {
            return;
        };
        for part in &mut self.parts {
            part.gone |= part.drive == device.drive;
        }
        self.loops.numbers.remove(&device.drive);
        self.loops.spare.push(device.drive);
        if let Some(uid) = device.maker {
            cx.refund(uid, COST);
        }
    }

    /// Whether a request is one of loop devices alone, to one.
    pub(crate) fn is_of_loop(&self, part: usize, what: u64) -> bool {
        let part = self.parts.get(part);
        part.is_some_and(|it| self.loops.number(it.drive).is_some()) && request::ALL.contains(&what)
    }

    /// Whether a request's portal is what it is about.
    pub fn takes_file(&self, part: usize, what: u64) -> bool {
        use request::{CHANGE_FD, CONFIGURE, SET_FD};
        self.is_of_loop(part, what) && matches!(what, SET_FD | CONFIGURE | CHANGE_FD)
    }

    /// Such a request.
    pub(crate) fn loop_ioctl(
        &mut self,
        cx: &mut Context,
        part: usize,
        what: u64,
        argument: u64,
        writable: bool,
    ) -> Answer<Reply<'_>> {
        let (drive, _) = self.drive(part)?;
        let number = self.loops.number(drive).ok_or(Failure::Errno(ENXIO))?;
        if cx.progress != 0 {
            return self.loop_goes_on(cx, (part, number), what);
        }
        let may = writable || cx.has(label::SYSTEM);
        let status = self.loops.control()?.status(number);
        let passed = passed(cx);
        match what {
            request::SET_FD | request::CONFIGURE | request::CHANGE_FD => {
                let file = passed.ok_or(Failure::Errno(EBADF))?;
                let begun = self.bind(cx, number, what, writable, status, file);
                begun?;
            }
            request::GET_STATUS | request::GET_STATUS64 => {
                let status = status.map_err(Failure::Errno)?;
                let old = what == request::GET_STATUS;
                let length = match old {
                    true => INFO,
                    false => INFO64,
                };
                self.answer[..INFO64].copy_from_slice(&info64(number, &status));
                if old {
                    self.answer[..INFO].copy_from_slice(&info_old(number, &status)?);
                }
                return Ok(Reply::result(0).data(&self.answer[..length]));
            }
            request::CLR_FD => {
                status.map_err(Failure::Errno)?;
                let drive = self.drive(part)?.0;
                let others = self.holders(drive) > 1;
                let done = self.loops.control()?.clear(number, others);
                if done.map_err(Failure::Errno)? {
                    self.loops_rang(cx);
                    return Ok(Reply::result(0));
                }
            }
            request::SET_STATUS | request::SET_STATUS64 | request::SET_CAPACITY if !may => {
                return Err(Failure::Errno(EPERM));
            }
            request::SET_DIRECT_IO | request::SET_BLOCK_SIZE if !may => {
                return Err(Failure::Errno(EPERM));
            }
            request::SET_STATUS | request::SET_STATUS64 => {
                let (mut old, mut new) = ([0; INFO], [0; INFO64]);
                match what {
                    request::SET_STATUS => cx.fetch(0, &mut old)?,
                    _ => cx.fetch(0, &mut new)?,
                }
                let now = status.map_err(Failure::Errno)?;
                let mut how = match what {
                    request::SET_STATUS => how_of_old(&old)?,
                    _ => how_of(&new)?,
                };
                how.flags = how.flags & SETTABLE | now.flags & !SETTABLE;
                how.flags |= now.flags & SETTABLE & !CLEARABLE;
                how.block = now.block;
                self.change(number, &how)?;
            }
            request::SET_CAPACITY => {
                let now = status.map_err(Failure::Errno)?;
                self.change(number, &how_now(&now))?;
            }
            request::SET_BLOCK_SIZE => {
                let now = status.map_err(Failure::Errno)?;
                if !is_block_size(argument) {
                    return Err(Failure::Errno(EINVAL));
                }
                let mut how = how_now(&now);
                how.block = argument as u32;
                self.change(number, &how)?;
            }
            request::SET_DIRECT_IO => {
                status.map_err(Failure::Errno)?;
                return match argument {
                    0 => Ok(Reply::result(0)),
                    // Files are not read around their servers' memory.
                    _ => Err(Failure::Errno(EINVAL)),
                };
            }
            _ => {
                status.map_err(Failure::Errno)?;
                return Err(Failure::Errno(EINVAL));
            }
        }
        cx.progress = BEGUN;
        self.loop_goes_on(cx, (part, number), what)
    }

    fn change(&mut self, number: u32, how: &How) -> Answer<()> {
        let begun = self.loops.control()?.change(number, how);
        begun.map_err(Failure::Errno)
    }

    /// LOOP_SET_FD, LOOP_CONFIGURE, LOOP_CHANGE_FD.
    fn bind(
        &mut self,
        cx: &mut Context,
        number: u32,
        what: u64,
        writable: bool,
        status: Result<Status, i64>,
        file: Portal,
    ) -> Answer<()> {
        let checked = self.what_to_bind(cx, what, writable, status);
        let paid = checked.and_then(|how| {
            let uid = cx.payer();
            if what != request::CHANGE_FD {
                cx.charge(uid, COST_BOUND)?;
            }
            Ok((how, uid))
        });
        let (how, uid) = paid.inspect_err(|_| cx.transport.close(file))?;
        let replace = what == request::CHANGE_FD;
        let begun = self.loops.control()?.bind(number, replace, &how, file);
        match (begun, self.loops.devices.get_mut(&number)) {
            (Ok(()), Some(device)) if !replace => device.binder = Some(uid),
            (Ok(()), _) => {}
            (Err(errno), _) => {
                if !replace {
                    cx.refund(uid, COST_BOUND);
                }
                return Err(Failure::Errno(errno));
            }
        }
        Ok(())
    }

    fn what_to_bind(
        &mut self,
        cx: &mut Context,
        what: u64,
        writable: bool,
        status: Result<Status, i64>,
    ) -> Answer<How> {
        let mut how = How {
            offset: 0,
            limit: 0,
            flags: 0,
            block: 0,
            name: [0; 64],
        };
        match (what, status) {
            (request::CHANGE_FD, status) => {
                let now = status.map_err(Failure::Errno)?;
                if now.flags & lo::READ_ONLY == 0 {
                    return Err(Failure::Errno(EINVAL));
                }
                return Ok(how_now(&now));
            }
            (_, Ok(_)) => return Err(Failure::Errno(EBUSY)),
            (request::CONFIGURE, _) => {
                let mut bytes = [0; IN_CONFIG + INFO64];
                cx.fetch(0, &mut bytes)?;
                let block = word(&bytes, 4);
                let info = core::array::from_fn(|i| bytes[IN_CONFIG + i]);
                let flags = word(&info, 52);
                if flags & !CONFIGURABLE != 0 || block != 0 && !is_block_size(block.into()) {
                    return Err(Failure::Errno(EINVAL));
                }
                how = how_of(&info)?;
                // Linux goes on without it, too, where a file does not have it.
                (how.flags, how.block) = (flags & !lo::DIRECT_IO, block);
            }
            _ => {}
        }
        if !writable {
            how.flags |= lo::READ_ONLY;
        }
        Ok(how)
    }

    /// What was begun has come out, or the table of partitions is being read.
    fn loop_goes_on(
        &mut self,
        cx: &mut Context,
        (part, number): (usize, u32),
        what: u64,
    ) -> Answer<Reply<'_>> {
        if cx.progress == BEGUN {
            match self.loops.control()?.outcome(number) {
                Err(EAGAIN) => return Err(Failure::Wait(RANG)),
                // Somebody else was told, or the driver was started again: the device says.
                Ok(()) | Err(ENXIO) => {}
                Err(errno) => {
                    self.loops_rang(cx);
                    return Err(Failure::Errno(errno));
                }
            }
            self.loops_rang(cx);
            let status = self.loops.control()?.status(number);
            if what != request::CLR_FD && status.is_err() {
                return Err(Failure::Errno(EIO));
            }
            let scans = status.is_ok_and(|it| it.flags & lo::PARTSCAN != 0);
            if what == request::CLR_FD || !scans || !self.is_connected(number) {
                cx.progress = 0;
                return Ok(Reply::result(0));
            }
            cx.progress = SCANNING;
        }
        // What the table says is nothing that the request could fail of.
        match self.scan(cx, part) {
            Err(Failure::Wait(key)) => Err(Failure::Wait(key)),
            _ => {
                cx.progress = 0;
                Ok(Reply::result(0))
            }
        }
    }

    /// Whether a device has partitions at all.
    pub(crate) fn has_partitions(&mut self, drive: usize) -> bool {
        let Some(number) = self.loops.number(drive) else {
            return true;
        };
        let status = self.loops.control().map(|control| control.status(number));
        matches!(status, Ok(Ok(status)) if status.flags & lo::PARTSCAN != 0)
    }
}

fn how_now(now: &Status) -> How {
    How {
        offset: now.offset,
        limit: now.limit,
        flags: now.flags,
        block: now.block,
        name: now.name,
    }
}

/// The portal that a new request passes.
fn passed(cx: &Context) -> Option<Portal> {
    let some = cx.request.portals == 1;
    some.then(|| Portal(cx.request.words[7] as u32))
}
