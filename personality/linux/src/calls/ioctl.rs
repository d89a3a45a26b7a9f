//! ioctl(2): the request tells how much memory goes which way; the server behind the descriptor does the rest.

use super::descriptors::set_nonblocking;
use super::internet;
use super::io::usable;
use super::open::open_file;
use super::owners;
use super::spaces::{self, number_inside, number_outside};
use crate::descriptors::{number, OpenFile};
use crate::errno::{Result, EINVAL, EIO, ENOTTY};
use crate::frames;
use crate::machine::area::{area, process, Frame};
use crate::machine::request::Request;
use crate::machine::user::{self, UserRange};
use crate::path::AT_FDCWD;
use crate::signal::{bit, SIGTTOU};
use alloc::sync::Arc;
use alloc::vec::Vec;
use cairn_idl::fs::{self, o, s};
use core::sync::atomic::Ordering;

const FIONREAD: u64 = 0x541b;
const FIBMAP: u64 = 1;
const FIGETBSZ: u64 = 2;
const FIOQSIZE: u64 = 0x5460;
const FIONCLEX: u64 = 0x5450;
const TIOCGPGRP: u64 = 0x540f;
const TIOCSPGRP: u64 = 0x5410;
const TIOCGSID: u64 = 0x5429;
const FIOCLEX: u64 = 0x5451;
const FIONBIO: u64 = 0x5421;
const FIOASYNC: u64 = 0x5452;
const FIOSETOWN: u64 = 0x8901;
const SIOCSPGRP: u64 = 0x8902;
const FIOGETOWN: u64 = 0x8903;
const SIOCGPGRP: u64 = 0x8904;
/// Requests about interfaces (netdevice(7)).
const INTERFACES: core::ops::RangeInclusive<u64> = 0x8910..=0x897f;
/// Those about addresses of IPv4: SIOCGIFADDR to SIOCSIFNETMASK.
const ADDRESSES: core::ops::RangeInclusive<u64> = 0x8915..=0x891c;
const BLKPG: u64 = 0x1269;
const TIOCGPTPEER: u64 = 0x5441;
/// Requests about the file of a loop device.
const LOOP_SET_FD: u64 = 0x4c00;
const LOOP_CHANGE_FD: u64 = 0x4c06;
const LOOP_CONFIGURE: u64 = 0x4c0a;

/// Bytes that the server reads, bytes that it writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sizes(u64, u64);

/// Old requests carry no size; newer ones have it in bits 16..30, the direction in 30..32.
fn sizes(request: u64) -> Sizes {
    match request {
        0x5401 | 0x5456 => Sizes(0, 36),          // TCGETS, TIOCGLCKTRMIOS
        0x5402..=0x5404 | 0x5457 => Sizes(36, 0), // TCSETS, TCSETSW, TCSETSF, TIOCSLCKTRMIOS
        0x5405 => Sizes(0, 18),                   // TCGETA
        0x5406..=0x5408 => Sizes(18, 0),          // TCSETA, TCSETAW, TCSETAF
        0x540f | 0x5411 | 0x5415 | 0x541b => Sizes(0, 4), // TIOCGPGRP, TIOCOUTQ, TIOCMGET, FIONREAD
        0x5410 | 0x5416..=0x5418 => Sizes(4, 0),  // TIOCSPGRP, TIOCMBIS, TIOCMBIC, TIOCMSET
        0x5412 => Sizes(1, 0),                    // TIOCSTI
        0x8905 | 0x894b => Sizes(0, 4),           // SIOCATMARK, SIOCOUTQNSD
        0x8906 | 0x8907 => Sizes(0, 16),          // SIOCGSTAMP, SIOCGSTAMPNS
        0x8910..=0x897f => Sizes(40, 40),         // of interfaces: struct ifreq
        0x5413 => Sizes(0, 8),                    // TIOCGWINSZ
        0x5414 => Sizes(8, 0),                    // TIOCSWINSZ
        0x541e => Sizes(0, 72),                   // TIOCGSERIAL
        0x5419 | 0x5424 => Sizes(0, 4),           // TIOCGSOFTCAR, TIOCGETD
        0x541a | 0x5420 | 0x5423 => Sizes(4, 0),  // TIOCSSOFTCAR, TIOCPKT, TIOCSETD
        0x5429 => Sizes(0, 4),                    // TIOCGSID
        0x4b33 => Sizes(0, 1),                    // KDGKBTYPE
        0x4b3b => Sizes(0, 4),                    // KDGETMODE
        0x1260 | 0x1263 => Sizes(0, 8),           // BLKGETSIZE, BLKRAGET
        0x125e | 0x1268 | 0x1278..=0x127c => Sizes(0, 4), // BLKROGET, BLKSSZGET, BLKIOMIN to BLKDISCARDZEROES
        0x1277 => Sizes(16, 0),                           // BLKDISCARD
        0x127e => Sizes(0, 2),                            // BLKROTATIONAL
        0x0301 => Sizes(0, 16),                           // HDIO_GETGEO
        0x4c02 => Sizes(168, 0),                          // LOOP_SET_STATUS
        0x4c03 => Sizes(0, 168),                          // LOOP_GET_STATUS
        0x4c04 => Sizes(232, 0),                          // LOOP_SET_STATUS64
        0x4c05 => Sizes(0, 232),                          // LOOP_GET_STATUS64
        0x4c0a => Sizes(304, 0),                          // LOOP_CONFIGURE
        fs::NS_GET_OWNER_UID => Sizes(0, 4),
        // Of TUN and TAP some say the size of another thing: TUNSETIFF and TUNGETIFF are about a struct ifreq, and TUNSETNOCSUM, TUNSETPERSIST, TUNSETOWNER,
        // TUNSETLINK, TUNSETGROUP and TUNSETOFFLOAD take a word.
        0x4004_54ca => Sizes(40, 40),
        0x8004_54d2 => Sizes(0, 40),
        0x4004_54c8 | 0x4004_54cb..=0x4004_54ce | 0x4004_54d0 => Sizes(0, 0),
        // Of files' flags and versions the size is that of a long, and what is there is an int.
        0x8008_6601 | 0x8008_7601 => Sizes(0, 4),
        0x4008_6602 | 0x4008_7602 => Sizes(4, 0),
        request if request > 0xffff => {
            let size = request >> 16 & 0x3fff;
            let (out, input) = (request >> 30 & 1, request >> 31 & 1);
            Sizes(out * size, input * size)
        }
        _ => Sizes(0, 0),
    }
}

pub fn ioctl(f: &mut Frame) -> Result<u64> {
    let (fd, request, argument) = (f.arg(0), f.arg(1) & 0xffff_ffff, f.arg(2));
    let file = usable(fd)?;
    match request {
        FIOCLEX | FIONCLEX => {
            let on = request == FIOCLEX;
            process().state().files.set_close_on_exec(number(fd)?, on)?;
            return Ok(0);
        }
        FIONBIO => {
            let on: u32 = user::read(argument)?;
            return set_nonblocking(fd, on != 0);
        }
        FIOASYNC => {
            let on: u32 = user::read(argument)?;
            // What tells nobody that it is ready cannot send signals.
            if on != 0 && !owners::can_signal(&file) {
                return Err(ENOTTY);
            }
            return owners::set_async(fd, &file, on != 0);
        }
        FIOSETOWN | SIOCSPGRP if file.mode & s::IFMT == s::IFSOCK => {
            let owner: i32 = user::read(argument)?;
            return owners::set_owner(fd, &file, owner);
        }
        FIOGETOWN | SIOCGPGRP if file.mode & s::IFMT == s::IFSOCK => {
            user::write(argument, &(owners::owner(&file) as u32))?;
            return Ok(0);
        }
        _ => {}
    }
    if file.object.is_some() {
        return Err(ENOTTY);
    }
    let format = file.mode & s::IFMT;
    if format == s::IFREG && matches!(request, FIONREAD | FIGETBSZ | FIOQSIZE)
        || format == s::IFDIR && request == FIOQSIZE
    {
        return of_regular_file(&file, request, argument);
    }
    // Numbers of a disk's blocks, which user 0 may ask for: no file system tells them.
    if format == s::IFREG && request == FIBMAP {
        user::read::<u32>(argument)?;
        return Err(EINVAL);
    }
    if matches!(request, fs::NS_GET_USERNS | fs::NS_GET_PARENT) && format == s::IFREG {
        return spaces::related(&file, request);
    }
    if request == TIOCGPTPEER {
        return open_peer(&file, argument);
    }
    if request == BLKPG {
        return change_partition(&file, argument);
    }
    if request == internet::SIOCGIFCONF && file.mode & s::IFMT == s::IFSOCK {
        let other = match internet::is_internet(&file) {
            true => None,
            false => Some(internet::asker()?),
        };
        let slot = other.as_ref().map_or(file.slot(), |other| other.0);
        return internet::configurations(slot, argument);
    }
    if matches!(request, TIOCGPGRP | TIOCSPGRP | TIOCGSID)
        && process().in_pid_space.load(Ordering::Relaxed)
    {
        return number_ioctl(&file, request, argument);
    }
    // Interfaces are asked for through any socket, as on Linux.
    let asked = INTERFACES.contains(&request) && file.mode & s::IFMT == s::IFSOCK;
    let other = match asked && !internet::is_internet(&file) {
        // Addresses are of IP.
        true if ADDRESSES.contains(&request) => return Err(ENOTTY),
        true => Some(internet::asker()?),
        false => None,
    };
    let slot = other.as_ref().map_or(file.slot(), |other| other.0);
    let Sizes(out, input) = sizes(request);
    let part = |size: u64| match size {
        0 => Ok(UserRange::EMPTY),
        size => user::range(argument, size),
    };
    let blocked = area().mask() & bit(SIGTTOU) != 0;
    let flags = u64::from(blocked) * fs::BLOCKS_TTOU;
    let mut message = Request::new(&[fs::IOCTL, request, argument, flags]);
    let given = loop_file(&file, request, argument)?;
    if let Some(given) = &given {
        message = message.pass(given.slot());
    }
    if out != 0 {
        message = message.out_user(part(out)?);
    }
    if input != 0 {
        message = message.input_user(part(input)?);
    }
    message.wait(slot).map(|w| w[0])
}

/// The file that a loop device is to have: its portal goes along.
fn loop_file(file: &OpenFile, request: u64, argument: u64) -> Result<Option<Arc<OpenFile>>> {
    if file.mode & s::IFMT != s::IFBLK {
        return Ok(None);
    }
    let fd = match request {
        LOOP_SET_FD | LOOP_CHANGE_FD => argument & 0xffff_ffff,
        LOOP_CONFIGURE => user::read::<u32>(argument)?.into(),
        _ => return Ok(None),
    };
    let given = usable(fd)?;
    match given.object {
        // What this library has itself is no file with blocks.
        Some(_) => Err(EINVAL),
        None => Ok(Some(given)),
    }
}

/// A terminal's group or session, which it knows by a number outside.
fn number_ioctl(file: &OpenFile, request: u64, argument: u64) -> Result<u64> {
    let blocked = area().mask() & bit(SIGTTOU) != 0;
    let flags = u64::from(blocked) * fs::BLOCKS_TTOU;
    let message = Request::new(&[fs::IOCTL, request, argument, flags]);
    if request == TIOCSPGRP {
        let number = number_outside(user::read(argument)?)?;
        let words = message.out(&number.to_ne_bytes()).wait(file.slot())?;
        return Ok(words[0]);
    }
    let mut number = [0; 4];
    let words = message.input(&mut number).wait(file.slot())?;
    user::write(argument, &number_inside(u32::from_ne_bytes(number)))?;
    Ok(words[0])
}

/// Its argument leads to another structure: `blockdev` gets what is to be done, start, length (bytes) and number, 64 bits each.
fn change_partition(file: &OpenFile, argument: u64) -> Result<u64> {
    let (what, data): (u32, u64) = (user::read(argument)?, user::read(argument + 16)?);
    let number: u32 = user::read(data + 16)?;
    let words: [u64; 4] = [
        what.into(),
        user::read(data)?,
        user::read(data + 8)?,
        number.into(),
    ];
    let bytes: Vec<u8> = words.into_iter().flat_map(u64::to_le_bytes).collect();
    let request = Request::new(&[fs::IOCTL, BLKPG, argument, 0]).out(&bytes);
    request.wait(file.slot()).map(|w| w[0])
}

/// How much there is to read, the size of blocks, or what the file takes of its disk.
fn of_regular_file(file: &OpenFile, request: u64, argument: u64) -> Result<u64> {
    let stat = super::status::stat_handle(file)?;
    if request == FIOQSIZE {
        return user::write(argument, &(stat.blocks * 512)).map(|()| 0);
    }
    let value = match request {
        FIGETBSZ => stat.blksize,
        _ => {
            frames::settle(file);
            let at = Request::new(&[fs::SEEK, 0, 1]).call(file.slot())?[0];
            stat.size - at as i64
        }
    };
    user::write(argument, &(value as u32)).map(|()| 0)
}

/// The other side of a pseudo-terminal, opened by its name.
fn open_peer(file: &OpenFile, flags: u64) -> Result<u64> {
    const TIOCGPTN: u64 = 0x8004_5430;
    let mut number = [0; 4];
    let request = Request::new(&[fs::IOCTL, TIOCGPTN]).input(&mut number);
    request.call(file.slot()).map_err(|errno| match errno {
        // The slave itself.
        ENOTTY if file.is(fs::kind::TERMINAL) => EIO,
        errno => errno,
    })?;
    let name = alloc::format!("/dev/pts/{}", u32::from_le_bytes(number));
    let peer = open_file(AT_FDCWD, name.as_bytes(), flags & !o::CLOEXEC, 0)?;
    let cloexec = flags & o::CLOEXEC != 0;
    let mut state = process().state();
    state.files.insert(peer, cloexec, 0).map(u64::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_requests() {
        assert_eq!(sizes(0x5401), Sizes(0, 36));
        assert_eq!(sizes(0x5405), Sizes(0, 18), "struct termio");
        assert_eq!(sizes(0x5408), Sizes(18, 0));
        assert_eq!(sizes(0x5414), Sizes(8, 0));
        assert_eq!(sizes(0x8004_5430), Sizes(0, 4), "TIOCGPTN");
        assert_eq!(sizes(0x4004_5431), Sizes(4, 0), "TIOCSPTLCK");
        assert_eq!(sizes(0x802c_542a), Sizes(0, 44), "TCGETS2");
        assert_eq!(sizes(0x540e), Sizes(0, 0), "TIOCSCTTY takes a word");
        assert_eq!(sizes(0x4004_54ca), Sizes(40, 40), "TUNSETIFF");
        assert_eq!(sizes(0x8004_54d2), Sizes(0, 40), "TUNGETIFF");
        assert_eq!(
            sizes(0x4004_54cb),
            Sizes(0, 0),
            "TUNSETPERSIST takes a word"
        );
        assert_eq!(sizes(0x8004_54cf), Sizes(0, 4), "TUNGETFEATURES");
    }
}
