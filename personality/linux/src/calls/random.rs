//! Random bytes: from the processor where it has RDRAND, else a few from `proc` and many from the manager of /dev/urandom. Where a program sees no /dev, `proc`
//! gives all.

use super::open::open_file;
use crate::errno::{Result, EFAULT, EINVAL};
use crate::machine::area::{self, Frame};
use crate::machine::request::Request;
use crate::machine::user;
use crate::path::AT_FDCWD;
use cairn_abi::layout::linux_slot;
use cairn_idl::fs::{self, o};
use cairn_idl::proc;

/// Bytes that `proc` gives at a time.
const FROM_PROC: usize = 32;

/// Fill from RDRAND. False if the processor has none, or none to give.
fn from_processor(into: &mut [u8]) -> bool {
    if !area::has_random() {
        return false;
    }
    for chunk in into.chunks_mut(8) {
        // Ten tries are what Intel advises.
        let Some(word) = (0..10).find_map(|_| area::random_word()) else {
            return false;
        };
        chunk.copy_from_slice(&word.to_le_bytes()[..chunk.len()]);
    }
    true
}

/// A number that nobody guesses.
pub(super) fn word() -> Result<u64> {
    let mut bytes = [0; 8];
    fill(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

fn fill(into: &mut [u8]) -> Result<()> {
    if from_processor(into) {
        return Ok(());
    }
    let file = match into.len() {
        0..=FROM_PROC => None,
        _ => open_file(AT_FDCWD, b"/dev/urandom", o::RDONLY, 0).ok(),
    };
    let Some(file) = file else {
        for part in into.chunks_mut(FROM_PROC) {
            let said = Request::new(&[proc::RANDOM]).call(linux_slot::PROC)?;
            let bytes = [said[1], said[2], said[3], said[4]].map(u64::to_le_bytes);
            part.copy_from_slice(&bytes.as_flattened()[..part.len()]);
        }
        return Ok(());
    };
    let mut done = 0;
    while done < into.len() {
        let words = [fs::READ, fs::POSITION, 0];
        let got = Request::new(&words)
            .input(&mut into[done..])
            .call(file.slot())?[0] as usize;
        if got == 0 {
            return Err(crate::errno::EIO);
        }
        done += got;
    }
    Ok(())
}

/// For AT_RANDOM: from the processor, else what `proc` said.
pub fn at_random(told: [u64; 2]) -> [u8; 16] {
    let mut bytes = [0; 16];
    if !from_processor(&mut bytes) {
        bytes[..8].copy_from_slice(&told[0].to_le_bytes());
        bytes[8..].copy_from_slice(&told[1].to_le_bytes());
    }
    bytes
}

pub fn getrandom(f: &mut Frame) -> Result<u64> {
    let flags = f.arg(2) & 0xffff_ffff;
    if flags & !7 != 0 || flags & 6 == 6 {
        return Err(EINVAL);
    }
    let range = user::range(f.arg(0), f.arg(1).min(0x7fff_ffff))?;
    let mut buffer = [0; 256];
    let mut done = 0;
    while done < range.len() {
        let count = (range.len() - done).min(256) as usize;
        fill(&mut buffer[..count])?;
        let given = user::write_as_far(range.base() + done, &buffer[..count]);
        done += given;
        if given < count as u64 {
            break;
        }
    }
    match done {
        0 if !range.is_empty() => Err(EFAULT),
        // Memory that ends is no error once something is in it.
        done => Ok(done),
    }
}
