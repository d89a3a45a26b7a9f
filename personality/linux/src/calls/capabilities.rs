//! capget(2) and capset(2). What a process may is `proc`'s business.

use super::ids::credentials;
use crate::errno::{Result, EINVAL, EPERM, ESRCH};
use crate::machine::area::{process, Frame};
use crate::machine::request::Request;
use crate::machine::user;
use cairn_abi::layout::linux_slot;
use cairn_idl::capability::ALL;
use cairn_idl::proc::{self, Credentials, Status};

const VERSION_1: u32 = 0x1998_0330;
const VERSION_2: u32 = 0x2007_1026;
const VERSION_3: u32 = 0x2008_0522;

/// The header: how many words each set has, and whose it is. A version that is not known is answered with the one that is preferred.
fn header(address: u64) -> Result<Option<(usize, u32)>> {
    let [version, pid] = user::read::<[u32; 2]>(address)?;
    match version {
        VERSION_1 => Ok(Some((1, pid))),
        VERSION_2 | VERSION_3 => Ok(Some((2, pid))),
        _ => {
            user::write(address, &VERSION_3)?;
            Ok(None)
        }
    }
}

fn credentials_of(pid: u32) -> Result<Credentials> {
    if pid == 0 || pid == process().pid() {
        return credentials();
    }
    if (pid as i32) < 0 {
        return Err(EINVAL);
    }
    let mut status = Status::default();
    Request::new(&[proc::STATUS, pid as u64])
        .input_value(&mut status)
        .call(linux_slot::PROC)
        .map_err(|_| ESRCH)?;
    Ok(status.creds)
}

pub fn capget(f: &mut Frame) -> Result<u64> {
    let Some((words, pid)) = header(f.arg(0))? else {
        // Who asks for the version only wants no data.
        return if f.arg(1) == 0 { Ok(0) } else { Err(EINVAL) };
    };
    let creds = credentials_of(pid)?;
    if f.arg(1) == 0 {
        return Ok(0);
    }
    let sets = [creds.effective, creds.permitted, creds.inheritable];
    for word in 0..words {
        let part = sets.map(|set| (set >> (32 * word)) as u32);
        user::write(f.arg(1).wrapping_add(12 * word as u64), &part)?;
    }
    Ok(0)
}

pub fn capset(f: &mut Frame) -> Result<u64> {
    let (words, pid) = header(f.arg(0))?.ok_or(EINVAL)?;
    if pid != 0 && pid != process().pid() {
        return Err(EPERM);
    }
    let mut sets = [0u64; 3];
    for word in 0..words {
        let part = user::read::<[u32; 3]>(f.arg(1).wrapping_add(12 * word as u64))?;
        for (set, part) in sets.iter_mut().zip(part) {
            *set |= (part as u64) << (32 * word);
        }
    }
    let [effective, permitted, inheritable] = sets.map(|set| set & ALL);
    Request::new(&[proc::SET_CAPABILITIES, effective, permitted, inheritable])
        .call(linux_slot::PROC)?;
    process().set_capabilities(effective, permitted);
    crate::path::look_at_mounts();
    Ok(0)
}
