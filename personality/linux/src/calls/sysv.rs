//! System V messages, semaphores and shared memory: asked of their server ([`cairn_idl::ipc`]), which knows who asks. Segments are memory objects of `vm`, which are mapped here.
//!
//! What is attached where is remembered for shmdt(2) only, by the number that `vm` has for the first byte: so what lies at an address is known to be the segment still.

use crate::errno::{Result, EEXIST, EFAULT, EINVAL};
use crate::machine::area::{process, Frame};
use crate::machine::gate;
use crate::machine::request::{without_handler, Request};
use crate::machine::user::{self, UserRange};
use crate::memory::{self, flags, prot};
use crate::path::{make_room, scheme};
use crate::time;
use crate::user_space;
use cairn_abi::layout::{linux_slot, LINUX_LOW, LINUX_TOP, PAGE};
use cairn_idl::{ipc, vm};

/// The name of their server.
pub const MANAGER: &[u8] = b"ipc:";
const SHM_RDONLY: u64 = 0o10000;
const SHM_RND: u64 = 0o20000;
const SHM_REMAP: u64 = 0o40000;
const SHM_EXEC: u64 = 0o100000;
const IPC_SET: u64 = 1;
const GETALL: u64 = 13;
const SETVAL: u64 = 16;
const SETALL: u64 = 17;
/// Bytes of `struct sembuf`, and most of all values of a set.
const SEMBUF: u64 = 6;
const VALUES: u64 = 131_072;
/// More operations than any limit allows.
const OPERATIONS_MOST: u64 = 65536;

/// A segment that this process has attached.
#[derive(Clone, Copy, Debug)]
pub struct Attached {
    id: u32,
    length: u64,
    /// How often.
    count: u32,
}

pub fn manager() -> Result<u32> {
    scheme(MANAGER)
}

/// An identifier: none is negative.
fn id(argument: u64) -> Result<u64> {
    match argument as i32 {
        0.. => Ok(argument as u32 as u64),
        _ => Err(EINVAL),
    }
}

/// Up to so many bytes at an address; nothing if that is no address of the program's.
pub fn room(address: u64, most: u64) -> UserRange {
    let length = LINUX_TOP.saturating_sub(address).min(most);
    user::range(address, length).unwrap_or(UserRange::EMPTY)
}

/// A request with a message: in its last words if it is short, otherwise as its part.
pub fn with_message<'a>(head: [u64; 4], text: u64, length: u64) -> Result<Request<'a>> {
    let [a, b, c, d] = head;
    let mut words = [a, b, c, d, 0, 0, 0, 0];
    if length > ipc::SENT as u64 {
        return Ok(Request::new(&words).out_user(room(text, length)));
    }
    let mut bytes = [0; ipc::SENT];
    user::read_bytes(text, &mut bytes[..length as usize])?;
    for (word, eight) in words[4..].iter_mut().zip(bytes.as_chunks::<8>().0) {
        *word = u64::from_le_bytes(*eight);
    }
    Ok(Request::new(&words))
}

/// A short message, which came in the last words of an answer, to the program.
pub fn take_message(words: &[u64; 8], text: u64) -> Result<()> {
    let mut bytes = [0; ipc::RECEIVED];
    for (eight, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(&words[2..]) {
        *eight = word.to_le_bytes();
    }
    user::write_bytes(text, bytes.get(..words[0] as usize).ok_or(EFAULT)?)
}

pub fn shmget(f: &mut Frame) -> Result<u64> {
    let words = [
        ipc::SHM_GET,
        f.arg(0) as u32 as u64,
        f.arg(1),
        f.arg(2) as u32 as u64,
    ];
    Ok(Request::new(&words).call(manager()?)?[0])
}

pub fn shmat(f: &mut Frame) -> Result<u64> {
    let (id, mut address, how) = (id(f.arg(0))?, f.arg(1), f.arg(2));
    if how & SHM_RND != 0 {
        address &= !(PAGE - 1);
    }
    if !address.is_multiple_of(PAGE) || address == 0 && how & SHM_REMAP != 0 {
        return Err(EINVAL);
    }
    make_room()?;
    let words = [ipc::SHM_ATTACH, id, how & (SHM_RDONLY | SHM_EXEC)];
    let words = Request::new(&words).brings(1).call(manager()?)?;
    let (size, object) = (words[1], words[7] as u32);
    if how & SHM_REMAP != 0 {
        replaced(address);
    }
    let start = attach(object, size, address, how);
    gate::close(object);
    remember(start?, id as u32, size);
    start
}

fn attach(object: u32, size: u64, address: u64, how: u64) -> Result<u64> {
    let length = memory::pages_up(size)?;
    let end = address.checked_add(length).ok_or(EINVAL)?;
    if address != 0 && (end > LINUX_TOP || address < LINUX_LOW) {
        return Err(EINVAL);
    }
    let mut rights = prot::READ;
    if how & SHM_RDONLY == 0 {
        rights |= prot::WRITE;
    }
    if how & SHM_EXEC != 0 {
        rights |= prot::EXECUTE;
    }
    let place = match (address, how & SHM_REMAP) {
        (0, _) => 0,
        (_, 0) => flags::FIXED_NOREPLACE,
        _ => flags::FIXED,
    };
    match memory::map_object(object, address, length, rights, flags::SHARED | place, 0) {
        Err(EEXIST) => Err(EINVAL),
        result => result,
    }
}

/// The number that `vm` has for what lies at an address.
fn number(address: u64) -> Option<u64> {
    let words = Request::new(&[vm::IDENTITY, address]).call(linux_slot::VM);
    words
        .ok()
        .filter(|words| words[0] == 1)
        .map(|words| words[1])
}

fn remember(start: u64, id: u32, length: u64) {
    let Some(number) = number(start) else { return };
    let mut state = process().state();
    let attached = state.attached.entry(number).or_insert(Attached {
        id,
        length,
        count: 0,
    });
    // Whose number this was is gone: it was unmapped, or replaced, without shmdt(2).
    if attached.id != id {
        *attached = Attached {
            id,
            length,
            count: 0,
        };
    }
    attached.count += 1;
}

/// A segment that begins here is replaced.
fn replaced(address: u64) {
    let Some(number) = number(address) else {
        return;
    };
    let mut state = process().state();
    if let Some(attached) = state.attached.get_mut(&number) {
        attached.count -= 1;
        if attached.count == 0 {
            state.attached.remove(&number);
        }
    }
}

pub fn shmdt(f: &mut Frame) -> Result<u64> {
    let address = f.arg(0);
    if !address.is_multiple_of(PAGE) {
        return Err(EINVAL);
    }
    let number = number(address).ok_or(EINVAL)?;
    let found = {
        let mut state = process().state();
        let attached = state.attached.get_mut(&number).ok_or(EINVAL)?;
        attached.count -= 1;
        let found = *attached;
        if found.count == 0 {
            state.attached.remove(&number);
        }
        found
    };
    memory::unmap(address, memory::pages_up(found.length)?)?;
    let words = [ipc::SHM_DETACHED, found.id.into()];
    let _ = Request::new(&words).call(manager()?);
    Ok(0)
}

/// A command whose structure has so many bytes, with what IPC_SET takes of it; `qbytes` is where that stands.
fn control(
    operation: u64,
    f: &Frame,
    (command, address): (u64, u64),
    length: u64,
    qbytes: Option<u64>,
) -> Result<u64> {
    let id = id(f.arg(0))?;
    let mut words = [operation, id, command, 0, 0, 0];
    if command as u32 as u64 == IPC_SET {
        let [uid, gid] = user::read::<[u32; 2]>(address.wrapping_add(4))?;
        let uid = user_space::outside_user(uid).ok_or(EINVAL)?;
        let gid = user_space::outside_group(gid).ok_or(EINVAL)?;
        words[3] = u64::from(uid) | u64::from(gid) << 32;
        words[4] = u64::from(user::read::<u32>(address.wrapping_add(20))?);
        if let Some(at) = qbytes {
            words[5] = user::read::<u64>(address.wrapping_add(at))?;
        }
    }
    let request = Request::new(&words).input_user(room(address, length));
    Ok(request.call(manager()?)?[0])
}

pub fn shmctl(f: &mut Frame) -> Result<u64> {
    let command = f.arg(1) as u32 as u64;
    control(ipc::SHM_CTL, f, (command, f.arg(2)), 112, None)
}

pub fn msgget(f: &mut Frame) -> Result<u64> {
    let words = [ipc::MSG_GET, f.arg(0) as u32 as u64, f.arg(1) as u32 as u64];
    Ok(Request::new(&words).call(manager()?)?[0])
}

pub fn msgctl(f: &mut Frame) -> Result<u64> {
    let command = f.arg(1) as u32 as u64;
    control(ipc::MSG_CTL, f, (command, f.arg(2)), 120, Some(88))
}

/// Length of a message: not negative.
fn length(argument: u64) -> Result<u64> {
    match argument as i64 {
        0.. => Ok(argument),
        _ => Err(EINVAL),
    }
}

pub fn msgsnd(f: &mut Frame) -> Result<u64> {
    let kind = user::read::<i64>(f.arg(1))?;
    let (id, length, how) = (id(f.arg(0))?, length(f.arg(2))?, f.arg(3) as u32 as u64);
    let text = f.arg(1).wrapping_add(8);
    let head = [ipc::MSG_SEND, id | how << 32, kind as u64, length];
    let sent = with_message(head, text, length)?.wait_here(manager()?);
    sent.map(|_| 0).map_err(without_handler)
}

pub fn msgrcv(f: &mut Frame) -> Result<u64> {
    let (id, most) = (id(f.arg(0))?, length(f.arg(2))?);
    let (kind, how) = (f.arg(3), f.arg(4) as u32 as u64);
    let text = f.arg(1).wrapping_add(8);
    let words = [ipc::MSG_RECEIVE, id | how << 32, kind, most];
    let short = most <= ipc::RECEIVED as u64;
    let request = match short {
        true => Request::new(&words),
        false => Request::new(&words).input_user(room(text, most)),
    };
    let words = request.wait_here(manager()?).map_err(without_handler)?;
    user::write(f.arg(1), &words[1])?;
    if short {
        take_message(&words, text)?;
    }
    Ok(words[0])
}

pub fn semget(f: &mut Frame) -> Result<u64> {
    let words = [
        ipc::SEM_GET,
        f.arg(0) as u32 as u64,
        f.arg(1) as u32 as u64,
        f.arg(2) as u32 as u64,
    ];
    Ok(Request::new(&words).call(manager()?)?[0])
}

pub fn semctl(f: &mut Frame) -> Result<u64> {
    let (number, command, argument) = (f.arg(1), f.arg(2) as u32 as u64, f.arg(3));
    let what = command | number << 32;
    match command {
        GETALL => {
            let words = [ipc::SEM_CTL, id(f.arg(0))?, what];
            let request = Request::new(&words).input_user(room(argument, VALUES));
            Ok(request.call(manager()?)?[0])
        }
        SETALL => {
            let words = [ipc::SEM_CTL, id(f.arg(0))?, what];
            let request = Request::new(&words).out_user(room(argument, VALUES));
            Ok(request.call(manager()?)?[0])
        }
        SETVAL => {
            let words = [ipc::SEM_CTL, id(f.arg(0))?, what, argument as u32 as u64];
            Ok(Request::new(&words).call(manager()?)?[0])
        }
        _ => control(ipc::SEM_CTL, f, (what, argument), 104, None),
    }
}

pub fn semop(f: &mut Frame) -> Result<u64> {
    operate(f, None)
}

pub fn semtimedop(f: &mut Frame) -> Result<u64> {
    let given = match f.arg(3) {
        0 => None,
        address => Some(user::read(address)?),
    };
    operate(f, given)
}

/// The operations are read before it is judged what they are for, and for how long.
fn operate(f: &Frame, given: Option<[u64; 2]>) -> Result<u64> {
    let (id, list, count) = (f.arg(0), f.arg(1), f.arg(2) as u32 as u64);
    if count > OPERATIONS_MOST {
        return Err(crate::errno::E2BIG);
    }
    if count == 0 {
        return Err(EINVAL);
    }
    let mut words = [ipc::SEM_OP, 0, 0, 0, 0, 0, 0, 0];
    let part = if count <= ipc::OPERATIONS as u64 {
        let mut bytes = [0; ipc::OPERATIONS * SEMBUF as usize];
        let length = (count * SEMBUF) as usize;
        user::read_bytes(list, &mut bytes[..length])?;
        for (word, six) in words[3..].iter_mut().zip(bytes.as_chunks::<6>().0) {
            let [a, b, c, d, e, f] = *six;
            *word = u64::from_le_bytes([a, b, c, d, e, f, 0, 0]);
        }
        None
    } else {
        Some(room(list, count * SEMBUF))
    };
    words[1] = self::id(id)? | count << 32;
    words[2] = match given {
        None => 0,
        Some([seconds, ns]) if (seconds as i64) < 0 || ns >= time::SECOND => return Err(EINVAL),
        Some([seconds, ns]) => {
            let length = seconds.saturating_mul(time::SECOND).saturating_add(ns);
            time::deadline_after(length).max(1)
        }
    };
    let request = match part {
        None => Request::new(&words),
        Some(part) => Request::new(&words).out_user(part),
    };
    let done = request.wait_here(manager()?);
    done.map(|_| 0).map_err(without_handler)
}
