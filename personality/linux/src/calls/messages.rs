//! Sending and receiving on sockets: the families of send(2) and recv(2), and the control messages that carry descriptors and credentials.
//!
//! What has neither an address nor a control message goes as a write or read. A descriptor goes as its portal; whoever receives it asks what it leads to (DESCRIBE) and believes nobody else. More portals than one message takes go in a *parcel* of the manager's.

use super::internet::{self, is_internet};
use super::io;
use super::socket_options::TYPE;
use super::sockets::{
    address_of, manager, option, put_name, socket_of, with_receiver, write_name, Passing,
};
use super::spaces::{number_inside, number_outside};
use crate::descriptors::{number, OpenFile};
use crate::errno::*;
use crate::frames::{self, Frames};
use crate::machine::area::{process, Frame};
use crate::machine::request::{Request, Vector};
use crate::machine::user::{self, UserRange};
use crate::path::make_room;
use crate::signal::calls::broken_pipe;
use crate::time;
use crate::user_space;
use alloc::sync::Arc;
use alloc::vec::Vec;
use cairn_abi::MAX_PORTALS;
use cairn_idl::fs::{self, o, POSITION};
use cairn_idl::local::{self, msg, with, NAME_MAX, RIGHTS_MAX};

const NO_SIGNAL: u64 = 0x4000;
pub(super) const CMSG_CLOEXEC: u64 = 0x4000_0000;
const WAIT_FOR_ONE: u64 = 0x1_0000;
/// RWF_NOWAIT of READ and WRITE.
const NOWAIT: u64 = 8;
const SOL_SOCKET: i32 = 1;
const SCM_RIGHTS: i32 = 1;
const SCM_CREDENTIALS: i32 = 2;
/// `struct cmsghdr`, and how control messages are aligned.
const HEAD: usize = 16;
const ALIGN: usize = 8;
/// `struct ucred`.
const CREDENTIALS: usize = 12;
/// Most bytes of control messages (net.core.optmem_max).
const CONTROL_MAX: u64 = 20_480;
/// Most pieces (UIO_MAXIOV), and messages of one call.
const PIECES_MAX: u64 = 1024;
/// Whoever made a descriptor that we got must say so soon what it is.
const PATIENCE: u64 = time::SECOND;

// ---- sending

fn sent(result: Result<[u64; 8]>, flags: u64) -> Result<u64> {
    if result == Err(EPIPE) && flags & NO_SIGNAL == 0 {
        broken_pipe();
    }
    result.map(|w| w[0])
}

/// What has nothing with it is a write.
fn send_plain(file: &OpenFile, range: UserRange, flags: u64) -> Result<u64> {
    if is_internet(file) && !internet::is_plain(flags) {
        let words = internet::sending(None, flags, &internet::Control::default());
        let request = Request::new(&words).out_user(range);
        return sent(request.wait(file.slot()), flags);
    }
    if flags & msg::OOB != 0 {
        let words = [local::SEND, flags & (msg::OOB | msg::DONTWAIT)];
        let request = Request::new(&words).out_user(range);
        return sent(request.wait(file.slot()), flags);
    }
    let nowait = if flags & msg::DONTWAIT != 0 {
        NOWAIT
    } else {
        0
    };
    if (1..=fs::INLINE_MAX as u64).contains(&range.len()) {
        return sent(io::write_inline(file, range, POSITION, nowait), flags);
    }
    let request = Request::new(&[fs::WRITE, POSITION, nowait]).out_user(range);
    sent(request.wait(file.slot()), flags)
}

pub fn sendto(f: &mut Frame) -> Result<u64> {
    let file = socket_of(f.arg(0))?;
    user::range(f.arg(1), 0)?;
    let range = user::range(f.arg(1), f.arg(2));
    let flags = f.arg(3) & 0xffff_ffff;
    let is_internet = is_internet(&file);
    if f.arg(4) == 0 || (f.arg(5) as u32 == 0 && !is_internet) {
        let range = range?;
        return send_plain(&file, range, flags);
    }
    if is_internet {
        let range = range?;
        let result = internet::send_to(&file, (f.arg(4), f.arg(5)), |to| {
            let words = internet::sending(to, flags, &internet::Control::default());
            Request::new(&words).out_user(range).wait(file.slot())
        });
        return sent(result, flags);
    }
    let range = range?;
    let result = with_receiver(&file, f.arg(4), f.arg(5), |name| {
        let address = address_of(&file, name)?;
        let bits = flags & (msg::OOB | msg::DONTWAIT) | with::ADDRESS;
        let words = [local::SEND, bits];
        let request = Request::new(&words).pass(address.0).out_user(range);
        request.wait(file.slot())
    });
    match result {
        Err(error) if looks_at_none(&file, f.arg(5), error) => send_plain(&file, range, flags),
        other => sent(other, flags),
    }
}

/// Whether an address was refused that a socket of sequenced packets does not look at.
fn looks_at_none(file: &OpenFile, length: u64, error: Errno) -> bool {
    let about_it = !matches!(error, EAGAIN | EINTR | EPIPE | EMSGSIZE | EFAULT);
    let fits = length as u32 as usize <= internet::STORAGE;
    about_it && fits && option(file, TYPE) == Ok(local::SEQPACKET)
}

/// `struct msghdr`.
pub(super) struct Header {
    pub name: u64,
    pub name_length: u64,
    pub pieces: u64,
    pub count: u64,
    pub control: u64,
    pub control_length: u64,
}

fn header(address: u64) -> Result<Header> {
    let [name, name_length, pieces, count, control, control_length, _] =
        user::read::<[u64; 7]>(address)?;
    if name != 0 && (name_length as u32 as i32) < 0 {
        return Err(EINVAL);
    }
    if count > PIECES_MAX {
        return Err(EMSGSIZE);
    }
    Ok(Header {
        name,
        // (More than the longest address has is not looked at.)
        name_length: (name_length & 0xffff_ffff).min(internet::STORAGE as u64),
        pieces,
        count,
        control,
        control_length,
    })
}

/// What control messages say.
#[derive(Debug, Default, PartialEq, Eq)]
struct Control {
    descriptors: Vec<i32>,
    /// pid, uid, gid.
    credentials: Option<[u32; 3]>,
}

fn word(bytes: &[u8], at: usize) -> Option<i32> {
    Some(i32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn parse_control(mut bytes: &[u8]) -> Result<Control> {
    let mut control = Control::default();
    while bytes.len() >= HEAD {
        let length = bytes.first_chunk().map_or(0, |b| u64::from_ne_bytes(*b)) as usize;
        if length < HEAD || length > bytes.len() {
            return Err(EINVAL);
        }
        let data = &bytes[HEAD..length];
        let (level, kind) = (word(bytes, 8), word(bytes, 12));
        if level == Some(SOL_SOCKET) {
            match kind {
                Some(SCM_RIGHTS) => {
                    let (descriptors, _) = data.as_chunks();
                    if control.descriptors.len() + descriptors.len() > RIGHTS_MAX {
                        return Err(EINVAL);
                    }
                    let descriptors = descriptors.iter().map(|fd| i32::from_ne_bytes(*fd));
                    control.descriptors.extend(descriptors);
                }
                Some(SCM_CREDENTIALS) if data.len() == CREDENTIALS => {
                    let word = |at| word(data, at).unwrap_or(0) as u32;
                    control.credentials = Some([word(0), word(4), word(8)]);
                }
                _ => return Err(EINVAL),
            }
        }
        bytes = &bytes[length.next_multiple_of(ALIGN).min(bytes.len())..];
    }
    Ok(control)
}

fn take_control<C: Default>(header: &Header, parse: impl FnOnce(&[u8]) -> Result<C>) -> Result<C> {
    if header.control_length == 0 {
        return Ok(C::default());
    }
    if header.control_length > CONTROL_MAX {
        return Err(ENOBUFS);
    }
    let mut bytes = alloc::vec![0; header.control_length as usize];
    user::read_bytes(header.control, &mut bytes)?;
    parse(&bytes)
}

/// sendmsg(2) on an Internet socket.
fn send_internet(file: &OpenFile, header: &Header, flags: u64) -> Result<u64> {
    let control = take_control(header, internet::Control::parse)?;
    let named = header.name != 0 && header.name_length != 0;
    let vector = io::vector(header.pieces, header.count)?;
    let whole = match control.notes.is_empty() {
        true => None,
        false => {
            let mut bytes = control.notes.clone();
            gather(header, &mut bytes)?;
            Some(bytes)
        }
    };
    let send = |to| {
        let words = internet::sending(to, flags, &control);
        let request = Request::new(&words);
        let request = match &whole {
            Some(bytes) => request.out(bytes),
            None => request.out_vector(&vector),
        };
        request.wait(file.slot())
    };
    let result = match named {
        true => internet::send_to(file, (header.name, header.name_length), send),
        false => send(None),
    };
    sent(result, flags)
}

/// The open files of descriptors that are to be passed: from now on others may have them as well.
fn files_of(descriptors: &[i32]) -> Result<Vec<Arc<OpenFile>>> {
    let mut files = Vec::with_capacity(descriptors.len());
    for &fd in descriptors {
        let file = process().state().files.get(number(fd as u32 as u64)?)?;
        if file.object.is_some() {
            // The personality's own has no portal.
            return Err(EOPNOTSUPP);
        }
        files.push(file);
    }
    files.iter().for_each(|file| frames::before_passing(file));
    Ok(files)
}

/// A parcel with these portals.
fn parcel(slots: &[u32]) -> Result<Passing> {
    make_room()?;
    let words = Request::new(&[local::PARCEL]).brings(1).call(manager()?)?;
    let parcel = Passing(words[7] as u32);
    for some in slots.chunks(MAX_PORTALS) {
        let put = Request::new(&[local::PUT]).pass_all(some);
        put.call(parcel.0)?;
    }
    Ok(parcel)
}

fn send_message(file: &OpenFile, address: u64, flags: u64) -> Result<u64> {
    let header = header(address)?;
    if is_internet(file) {
        return send_internet(file, &header, flags);
    }
    let control = take_control(&header, parse_control)?;
    let named = header.name != 0 && header.name_length != 0;
    let vector = io::vector(header.pieces, header.count)?;
    if let (Some(range), false, true) = (vector.single(), named, control == Control::default()) {
        return send_plain(file, range, flags);
    }
    let to = match named {
        true => {
            let found = with_receiver(file, header.name, header.name_length, |name| {
                address_of(file, name)
            });
            match found {
                Err(error) if looks_at_none(file, header.name_length, error) => None,
                other => Some(other?),
            }
        }
        false => None,
    };
    let files = files_of(&control.descriptors)?;
    let mut slots: Vec<u32> = files.iter().map(|file| file.slot()).collect();
    let mut bits = flags & (msg::OOB | msg::DONTWAIT | msg::EOR);
    let mut parcelled = None;
    if slots.len() + to.is_some() as usize > MAX_PORTALS {
        let parcel = parcel(&slots)?;
        slots.clear();
        slots.push(parcel.0);
        parcelled = Some(parcel);
        bits |= with::PARCEL;
    }
    if let Some(to) = &to {
        slots.insert(0, to.0);
        bits |= with::ADDRESS;
    }
    let [pid, uid, gid] = match control.credentials {
        Some([pid, uid, gid]) => {
            bits |= with::CREDENTIALS;
            let uid = user_space::outside_user(uid).ok_or(EINVAL)?;
            let pid = number_outside(pid)?;
            [pid, uid, user_space::outside_group(gid).ok_or(EINVAL)?]
        }
        None => [0; 3],
    };
    let words = [
        local::SEND,
        bits,
        u64::from(uid) | u64::from(gid) << 32,
        u64::from(pid),
    ];
    let request = Request::new(&words).pass_all(&slots).out_vector(&vector);
    let result = sent(request.wait(file.slot()), flags);
    drop(parcelled);
    result
}

/// More does not fit in any socket.
const TOGETHER: u64 = 1 << 20;

/// What a message has, behind what is there.
fn gather(header: &Header, bytes: &mut Vec<u8>) -> Result<()> {
    let before = bytes.len();
    for at in 0..header.count {
        let [base, length] = user::read::<[u64; 2]>(header.pieces.wrapping_add(16 * at))?;
        let from = bytes.len();
        let end = from.saturating_add(length as usize);
        let end = end.min(before + TOGETHER as usize);
        bytes.resize(end, 0);
        user::read_bytes(base, &mut bytes[from..])?;
    }
    Ok(())
}

/// MSG_CMSG_COMPAT, which the kernel's own callers of 32 bits say: programs may not.
fn not_compatible(flags: u64) -> Result<u64> {
    const COMPATIBLE: u64 = 1 << 31;
    match flags & COMPATIBLE {
        0 => Ok(flags & 0xffff_ffff),
        _ => Err(EINVAL),
    }
}

pub fn sendmsg(f: &mut Frame) -> Result<u64> {
    let flags = not_compatible(f.arg(2))?;
    let file = socket_of(f.arg(0))?;
    send_message(&file, f.arg(1), flags)
}

/// `struct mmsghdr` is a `struct msghdr` and a count.
const MANY: u64 = 64;
const COUNT: u64 = 56;

pub fn sendmmsg(f: &mut Frame) -> Result<u64> {
    let flags = not_compatible(f.arg(3))?;
    let file = socket_of(f.arg(0))?;
    let messages = f.arg(1);
    many(f.arg(2), |at| {
        let address = messages.wrapping_add(MANY * at);
        let count = send_message(&file, address, flags)?;
        user::write(address.wrapping_add(COUNT), &(count as u32))?;
        Ok(true)
    })
}

/// Until one fails (if it is not the first one) or says that it was the last.
fn many(count: u64, mut one: impl FnMut(u64) -> Result<bool>) -> Result<u64> {
    let count = (count & 0xffff_ffff).min(PIECES_MAX);
    for at in 0..count {
        match one(at) {
            Ok(true) => {}
            Ok(false) => return Ok(at + 1),
            Err(error) if at == 0 => return Err(error),
            Err(_) => return Ok(at),
        }
    }
    Ok(count)
}

// ---- receiving

/// Flags that RECEIVE knows.
const RECEIVED: u64 = msg::OOB | msg::PEEK | msg::TRUNC | msg::DONTWAIT | msg::WAITALL;

pub fn recvfrom(f: &mut Frame) -> Result<u64> {
    let file = socket_of(f.arg(0))?;
    let range = user::range(f.arg(1), f.arg(2).min(io::MOST))?;
    let flags = f.arg(3) & 0xffff_ffff;
    if is_internet(&file) {
        if f.arg(4) == 0 && internet::is_read(flags, range.len()) && user::is_writable(range) {
            return io::read_inline(&file, range, POSITION, 0);
        }
        let vector = Vector::of(range);
        return internet::receive_from(&file, &vector, flags, [f.arg(4), f.arg(5)]);
    }
    let named = f.arg(4) != 0;
    let is_read = !named && io::is_few(range) && flags & RECEIVED == 0;
    if is_read && user::is_writable(range) {
        return io::read_inline(&file, range, POSITION, 0);
    }
    let mut vector = Vector::of(range);
    let mut came = Came::default();
    came.receive(&file, &mut vector, flags, named, [0; 2])?;
    if named {
        match came.name() {
            Some(name) => write_name(f.arg(4), f.arg(5), name)?,
            None => internet::no_name(f.arg(5))?,
        }
    }
    Ok(came.words[0])
}

/// What RECEIVE brought.
struct Came {
    words: [u64; 8],
    name: [u8; NAME_MAX],
    /// Portals that came with the answer.
    slots: Vec<Passing>,
}

impl Default for Came {
    fn default() -> Came {
        Came {
            words: [0; 8],
            name: [0; NAME_MAX],
            slots: Vec::new(),
        }
    }
}

impl Came {
    fn receive(
        &mut self,
        file: &OpenFile,
        vector: &mut Vector,
        flags: u64,
        named: bool,
        [room, behind]: [u64; 2],
    ) -> Result<()> {
        make_room()?;
        let bits = flags & RECEIVED | if named { with::NAME } else { 0 };
        let request = Request::new(&[local::RECEIVE, bits, room, behind]).brings_any();
        let request = match named {
            true => request.input_behind(&mut self.name, vector)?,
            false => request.input_vector(vector),
        };
        self.words = request.wait(file.slot())?;
        let count = (self.words[1] >> 56) as usize;
        let slots = &self.words[8 - count.min(MAX_PORTALS)..];
        self.slots = slots.iter().map(|slot| Passing(*slot as u32)).collect();
        Ok(())
    }

    fn has(&self, bit: u64) -> bool {
        self.words[1] & bit != 0
    }

    fn name(&self) -> Option<&[u8]> {
        let length = (self.words[3] >> 32) as usize;
        self.has(with::NAME)
            .then(|| &self.name[..length.min(NAME_MAX)])
    }

    /// All descriptors, also those in a parcel.
    fn take_all(&mut self) -> Result<Vec<Passing>> {
        let slots = core::mem::take(&mut self.slots);
        if !self.has(with::PARCEL) {
            return Ok(slots);
        }
        let Some(parcel) = slots.into_iter().next() else {
            return Ok(Vec::new());
        };
        let mut all = Vec::new();
        while all.len() < RIGHTS_MAX {
            // Each has a descriptor's worth of room in the table, beside what `make_room` knows of.
            make_room_for(all.len())?;
            let words = Request::new(&[local::TAKE]).brings_any().call(parcel.0)?;
            let count = ((words[1] >> 56) as usize).min(MAX_PORTALS);
            if count == 0 {
                break;
            }
            let slots = words[8 - count..].iter();
            all.extend(slots.map(|slot| Passing(*slot as u32)));
        }
        Ok(all)
    }
}

/// Portals that are no descriptors yet count as well.
fn make_room_for(held: usize) -> Result<()> {
    match held % 128 {
        124.. => crate::path::grow_room(),
        _ => make_room(),
    }
}

/// A descriptor for a portal that somebody sent: what it leads to, its server says.
pub(super) fn describe(portal: Passing) -> Result<OpenFile> {
    let request = Request::new(&[fs::DESCRIBE]);
    let words = request.wait_until(portal.0, Some(time::deadline_after(PATIENCE)))?;
    Ok(as_described(portal, &words))
}

/// The open file of which DESCRIBE says this.
pub(super) fn as_described(portal: Passing, words: &[u64; 8]) -> OpenFile {
    let slot = portal.0;
    core::mem::forget(portal);
    let mut file = OpenFile::portal(slot, words[2], words[1] as u32);
    file.path_only = words[3] & o::PATH != 0;
    file.frames = Frames::new(false);
    file
}

/// A control message of this type into the program's buffer, cut where that ends; how much of it is used, and whether it was cut.
pub(super) fn put_control(
    address: u64,
    room: u64,
    level: i32,
    kind: i32,
    data: &[u8],
) -> Result<(u64, bool)> {
    if room < HEAD as u64 {
        return Ok((0, true));
    }
    let whole = HEAD + data.len();
    let length = whole.min(room as usize);
    let mut bytes = Vec::with_capacity(whole);
    bytes.extend_from_slice(&(length as u64).to_ne_bytes());
    bytes.extend_from_slice(&level.to_ne_bytes());
    bytes.extend_from_slice(&kind.to_ne_bytes());
    bytes.extend_from_slice(data);
    user::write_bytes(address, &bytes[..length])?;
    let used = whole.next_multiple_of(ALIGN) as u64;
    Ok((used.min(room), length < whole))
}

/// How many descriptors a control message in so many bytes has room for.
fn fits(room: u64) -> u64 {
    room.saturating_sub(HEAD as u64) / 4
}

fn receive_message(file: &OpenFile, address: u64, flags: u64) -> Result<u64> {
    if is_internet(file) {
        return internet::receive_message(file, &header(address)?, address, flags);
    }
    let header = header(address)?;
    let mut vector = io::vector(header.pieces, header.count)?;
    let control = match header.control {
        0 => 0,
        _ => header.control_length,
    };
    let space = (HEAD + CREDENTIALS).next_multiple_of(ALIGN) as u64;
    let rooms = [fits(control), fits(control.saturating_sub(space))];
    let mut came = Came::default();
    let named = header.name != 0;
    came.receive(file, &mut vector, flags, named, rooms)?;
    let mut bits =
        came.words[1] & (msg::OOB | msg::TRUNC | msg::CTRUNC | msg::EOR) | flags & CMSG_CLOEXEC;
    let mut used = 0;
    if came.has(with::STAMP) && control != 0 {
        let (kind, data) = stamp_of(file)?;
        let (count, cut) = put_control(header.control, control, SOL_SOCKET, kind, &data)?;
        used += count;
        bits |= if cut { msg::CTRUNC } else { 0 };
    }
    if came.has(with::CREDENTIALS) {
        let mut data = [0; CREDENTIALS];
        data[..4].copy_from_slice(&number_inside(came.words[3] as u32).to_ne_bytes());
        let [uid, gid] = [came.words[2] as u32, (came.words[2] >> 32) as u32];
        data[4..8].copy_from_slice(&user_space::user(uid).to_ne_bytes());
        data[8..].copy_from_slice(&user_space::group(gid).to_ne_bytes());
        let place = header.control.wrapping_add(used);
        let (count, cut) = put_control(place, control - used, SOL_SOCKET, SCM_CREDENTIALS, &data)?;
        used += count;
        bits |= if cut { msg::CTRUNC } else { 0 };
    }
    let portals = came.take_all()?;
    if !portals.is_empty() {
        let (descriptors, cut) = give_descriptors(portals, flags & CMSG_CLOEXEC != 0);
        bits |= if cut { msg::CTRUNC } else { 0 };
        if !descriptors.is_empty() {
            let place = header.control.wrapping_add(used);
            let (count, cut) =
                put_control(place, control - used, SOL_SOCKET, SCM_RIGHTS, &descriptors)?;
            used += count;
            bits |= if cut { msg::CTRUNC } else { 0 };
        }
    }
    if let (Some(name), true) = (came.name(), named) {
        let length = put_name(header.name, header.name_length as usize, name)?;
        user::write(address.wrapping_add(8), &(length as u32))?;
    } else if named {
        user::write(address.wrapping_add(8), &0u32)?;
    }
    user::write(address.wrapping_add(40), &used)?;
    user::write(address.wrapping_add(48), &(bits as u32))?;
    Ok(came.words[0])
}

/// When what a local socket has received last was sent: SCM_TIMESTAMP or SCM_TIMESTAMPNS.
fn stamp_of(file: &OpenFile) -> Result<(i32, [u8; 16])> {
    const SCM_TIMESTAMP: i32 = 29;
    const SCM_TIMESTAMPNS: i32 = 35;
    let words = Request::new(&[local::GET_OPTION, local::LAST_STAMP]).call(file.slot())?;
    let (stamp, in_ns) = (words[1], words[2] != 0);
    let (kind, part) = match in_ns {
        true => (SCM_TIMESTAMPNS, 1),
        false => (SCM_TIMESTAMP, 1000),
    };
    let mut data = [0; 16];
    data[..8].copy_from_slice(&(stamp / time::SECOND).to_ne_bytes());
    data[8..].copy_from_slice(&(stamp % time::SECOND / part).to_ne_bytes());
    Ok((kind, data))
}

/// Descriptors for portals, as bytes of a control message; whether some were lost.
fn give_descriptors(portals: Vec<Passing>, cloexec: bool) -> (Vec<u8>, bool) {
    let mut bytes = Vec::with_capacity(4 * portals.len());
    let mut cut = false;
    for portal in portals {
        let fd = describe(portal).and_then(|file| {
            let mut state = process().state();
            state.files.insert(Arc::new(file), cloexec, 0)
        });
        match fd {
            Ok(fd) => bytes.extend_from_slice(&fd.to_ne_bytes()),
            Err(_) => cut = true,
        }
    }
    (bytes, cut)
}

pub fn recvmsg(f: &mut Frame) -> Result<u64> {
    let flags = not_compatible(f.arg(2))?;
    let file = socket_of(f.arg(0))?;
    receive_message(&file, f.arg(1), flags)
}

pub fn recvmmsg(f: &mut Frame) -> Result<u64> {
    let (messages, mut flags) = (f.arg(1), not_compatible(f.arg(3))?);
    let deadline = match f.arg(4) {
        0 => None,
        address => {
            let [seconds, ns] = user::read::<[u64; 2]>(address)?;
            if (seconds as i64) < 0 || ns >= time::SECOND {
                return Err(EINVAL);
            }
            let length = seconds.saturating_mul(time::SECOND).saturating_add(ns);
            Some(time::deadline_after(length))
        }
    };
    let file = socket_of(f.arg(0))?;
    many(f.arg(2), |at| {
        let address = messages.wrapping_add(MANY * at);
        let count = receive_message(&file, address, flags & !WAIT_FOR_ONE)?;
        user::write(address.wrapping_add(COUNT), &(count as u32))?;
        if flags & WAIT_FOR_ONE != 0 {
            flags |= msg::DONTWAIT;
        }
        // As on Linux the time is looked at after each message only.
        Ok(deadline.is_none_or(|at| time::now() < at))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: i32, data: &[u8]) -> Vec<u8> {
        let mut bytes = (HEAD + data.len()).to_ne_bytes().to_vec();
        bytes.extend(SOL_SOCKET.to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(data);
        bytes.resize(bytes.len().next_multiple_of(ALIGN), 0);
        bytes
    }

    #[test]
    fn control_messages() {
        let mut bytes = message(SCM_RIGHTS, &[3, 0, 0, 0, 9, 0, 0, 0, 255, 255, 255, 255]);
        bytes.extend(message(
            SCM_CREDENTIALS,
            &[1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0],
        ));
        let control = parse_control(&bytes).unwrap();
        assert_eq!(control.descriptors, [3, 9, -1]);
        assert_eq!(control.credentials, Some([1, 2, 3]));
        assert_eq!(parse_control(b""), Ok(Control::default()));
        assert_eq!(parse_control(&[0; 15]), Ok(Control::default()));
        // Lengths that cannot be.
        for length in [0u64, 15, 25, u64::MAX] {
            let mut bytes = message(SCM_RIGHTS, &[1; 8]);
            bytes[..8].copy_from_slice(&length.to_ne_bytes());
            assert_eq!(parse_control(&bytes), Err(EINVAL), "{length}");
        }
        assert_eq!(parse_control(&message(3, &[])), Err(EINVAL));
        assert_eq!(
            parse_control(&message(SCM_CREDENTIALS, &[0; 8])),
            Err(EINVAL)
        );
        let many = message(SCM_RIGHTS, &[0; 4 * RIGHTS_MAX]);
        assert_eq!(parse_control(&many).unwrap().descriptors.len(), RIGHTS_MAX);
        let more = message(SCM_RIGHTS, &[0; 4 * RIGHTS_MAX + 4]);
        assert_eq!(parse_control(&more), Err(EINVAL));
        assert_eq!((fits(15), fits(16), fits(20), fits(24)), (0, 0, 1, 2));
    }
}
