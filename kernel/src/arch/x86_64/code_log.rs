//! `nucleus.code=log` on the command line: the console hears of all code that is made for portals, so that the host can look at every instruction that was ever there to be executed.
//!
//! A line: `nucleus: code ADDRESS OFFSET BYTES`, in hexadecimal. The code is entered at the address, and at the offset from there if it is not 0; filler at the end is left out.

use super::console;
use super::templates::FILLER;
use crate::log::Line;
use crate::portal::code::CODE_BYTES;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

static ON: AtomicBool = AtomicBool::new(false);

pub fn begin() {
    ON.store(true, Relaxed);
}

/// Code was made that is executed at `at`.
#[inline]
pub fn made(at: u64, second: usize, code: &[u8; CODE_BYTES]) {
    if ON.load(Relaxed) {
        tell(at, second, code);
    }
}

#[cold]
#[inline(never)]
fn tell(at: u64, second: usize, code: &[u8; CODE_BYTES]) {
    let last = code.iter().rposition(|&byte| byte != FILLER).unwrap_or(0);
    let mut line = Line::new();
    line.text("nucleus: code ").digits(at, 16);
    line.text(" ").digits(second as u64, 4).text(" ");
    console::write(line.as_bytes());
    for some in code[..=last].chunks(256) {
        line = Line::new();
        for &byte in some {
            line.digits(byte.into(), 2);
        }
        console::write(line.as_bytes());
    }
    console::write(b"\n");
}
