//! Calls about what this system does not have: they answer as Linux answers who may not use them, or who names what is not there. What remains is ENOSYS,
//! as a kernel without them says.

use super::io::file;
use super::status::stat_handle;
use crate::errno::{
    Result, EBADF, EINTR, EINVAL, EISDIR, ENODEV, ENOENT, ENOEXEC, ENOMEM, ENOSYS, ENOTBLK, ENXIO,
    EPERM, ESRCH,
};
use crate::machine::area::{process, Frame};
use crate::machine::user::{self, UserString};
use cairn_idl::capability::{SYS_ADMIN, SYS_BOOT, SYS_MODULE, SYS_NICE, SYS_PACCT, SYS_RAWIO};
use cairn_idl::fs::{o, s};

fn needs(capability: u32) -> Result<()> {
    match process().is_capable(capability) {
        true => Ok(()),
        false => Err(EPERM),
    }
}

/// The type of the file of this name (its mode's bits).
fn type_of(address: u64) -> Result<u32> {
    let mut name = UserString::empty();
    name.fill(address)?;
    let file = super::open::open_file(crate::path::AT_FDCWD, name.as_bytes(), o::PATH, 0)?;
    Ok(stat_handle(&file)?.mode & s::IFMT)
}

/// acct: there is no accounting, so it can be ended.
pub fn acct(f: &mut Frame) -> Result<u64> {
    needs(SYS_PACCT)?;
    if f.arg(0) == 0 {
        return Ok(0);
    }
    match type_of(f.arg(0))? {
        s::IFDIR => Err(EISDIR),
        s::IFREG => Err(ENOSYS),
        _ => Err(crate::errno::EACCES),
    }
}

pub fn swapon(f: &mut Frame) -> Result<u64> {
    const FLAGS: u64 = 0x7_ffff;
    if f.arg(1) & 0xffff_ffff & !FLAGS != 0 {
        return Err(EINVAL);
    }
    needs(SYS_ADMIN)?;
    match type_of(f.arg(0))? {
        s::IFDIR => Err(EISDIR),
        s::IFREG | s::IFBLK => Err(ENOSYS),
        s::IFSOCK => Err(ENXIO),
        _ => Err(EINVAL),
    }
}

/// swapoff: nothing is swapped to.
pub fn swapoff(f: &mut Frame) -> Result<u64> {
    needs(SYS_ADMIN)?;
    match type_of(f.arg(0))? {
        s::IFDIR => Err(EISDIR),
        s::IFSOCK => Err(ENXIO),
        _ => Err(EINVAL),
    }
}

/// quotactl: no file system has quotas.
pub fn quotactl(f: &mut Frame) -> Result<u64> {
    const SYNC: u64 = 0x80_0001;
    let command = (f.arg(0) & 0xffff_ffff) >> 8;
    let kind = f.arg(0) & 0xff;
    if kind > 2 {
        return Err(EINVAL);
    }
    if f.arg(1) == 0 {
        return match command {
            SYNC => Ok(0),
            _ => Err(ENODEV),
        };
    }
    match type_of(f.arg(1))? {
        s::IFBLK => Err(ESRCH),
        _ => Err(ENOTBLK),
    }
}

pub fn quotactl_fd(f: &mut Frame) -> Result<u64> {
    file(f.arg(0))?;
    match f.arg(1) & 0xff {
        0..=2 => Err(ENOSYS),
        _ => Err(EINVAL),
    }
}

/// init_module: no driver is a module.
pub fn init_module(f: &mut Frame) -> Result<u64> {
    const LEAST: u64 = 64;
    /// No machine has so much memory.
    const MOST: u64 = 1 << 46;
    needs(SYS_MODULE)?;
    match f.arg(1) {
        ..LEAST => return Err(ENOEXEC),
        MOST.. => return Err(ENOMEM),
        _ => {}
    }
    user::read::<u64>(f.arg(0))?;
    Err(ENOSYS)
}

pub fn finit_module(f: &mut Frame) -> Result<u64> {
    const FLAGS: u64 = 7;
    needs(SYS_MODULE)?;
    if f.arg(2) & 0xffff_ffff & !FLAGS != 0 {
        return Err(EINVAL);
    }
    let file = super::io::usable(f.arg(0))?;
    match super::io::access_mode(&file)? {
        o::WRONLY => Err(EBADF),
        _ => Err(ENOSYS),
    }
}

/// delete_module: none is there.
pub fn delete_module(f: &mut Frame) -> Result<u64> {
    needs(SYS_MODULE)?;
    user::string_length(f.arg(0), 56, ENOENT)?;
    Err(ENOENT)
}

pub fn kexec_load(f: &mut Frame) -> Result<u64> {
    const SEGMENTS: u64 = 16;
    needs(SYS_BOOT)?;
    match f.arg(1) {
        0 if f.arg(3) == 0 => Ok(0),
        0..=SEGMENTS => Err(ENOSYS),
        _ => Err(EINVAL),
    }
}

pub fn kexec_file_load(f: &mut Frame) -> Result<u64> {
    needs(SYS_BOOT)?;
    if f.arg(4) & !7 != 0 {
        return Err(EINVAL);
    }
    file(f.arg(0))?;
    Err(ENOSYS)
}

/// iopl: ports are reached through portals, so a program is at level 0 and stays there.
pub fn iopl(f: &mut Frame) -> Result<u64> {
    match f.arg(0) & 0xffff_ffff {
        0 => Ok(0),
        1..=3 => needs(SYS_RAWIO).and(Err(ENOSYS)),
        _ => Err(EINVAL),
    }
}

pub fn ioperm(f: &mut Frame) -> Result<u64> {
    const PORTS: u64 = 65_536;
    let (first, count) = (f.arg(0), f.arg(1));
    match first.checked_add(count) {
        Some(end @ 1..=PORTS) if end > first => {}
        _ => return Err(EINVAL),
    }
    match f.arg(2) & 0xffff_ffff {
        0 => Ok(0),
        _ => needs(SYS_RAWIO).and(Err(ENOSYS)),
    }
}

/// bpf and userfaultfd: Debian leaves them to the privileged.
pub fn for_the_privileged(_: &mut Frame) -> Result<u64> {
    needs(SYS_ADMIN)?;
    Err(ENOSYS)
}

/// process_madvise: advice about the memory of others is not taken.
pub fn process_madvise(f: &mut Frame) -> Result<u64> {
    if f.arg(4) & 0xffff_ffff != 0 {
        return Err(EINVAL);
    }
    super::io::vector(f.arg(1), f.arg(2))?;
    super::pidfds::life(&*super::io::usable(f.arg(0))?)?;
    // MADV_WILLNEED, MADV_COLD, MADV_PAGEOUT, MADV_COLLAPSE: what others may be advised.
    if !matches!(f.arg(3) & 0xffff_ffff, 3 | 20 | 21 | 25) {
        return Err(EINVAL);
    }
    needs(SYS_NICE)?;
    Err(ENOSYS)
}

/// process_mrelease: of a process that ends, memory goes anyway.
pub fn process_mrelease(f: &mut Frame) -> Result<u64> {
    if f.arg(1) & 0xffff_ffff != 0 {
        return Err(EINVAL);
    }
    file(f.arg(0))?;
    Err(ENOSYS)
}

/// restart_syscall: calls are made again with their own numbers.
pub fn restart_syscall(_: &mut Frame) -> Result<u64> {
    Err(EINTR)
}
