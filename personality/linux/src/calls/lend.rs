//! Long reads and writes of disks: the program's memory is lent to the server for the length of the request, so that the device has the data go there by itself (`vm`'s DMA_LEND).
//! The server keeps the loan of a buffer for a while, so that the next request with it needs none.
//!
//! Where that is not possible (a hole, a file's pages, memory that may not be written, addresses between sectors) the data is copied as ever, and errors are those of that.

use crate::descriptors::OpenFile;
use crate::errno::{Result, ESTALE};
use crate::machine::area::process;
use crate::machine::gate;
use crate::machine::request::Request;
use crate::machine::user::UserRange;
use crate::memory;
use cairn_abi::layout::{linux_slot, PAGE};
use cairn_idl::fs::{self, kind};
use cairn_idl::vm::{self, LOAN_MOST};

/// Least bytes of which a copy costs more than lending them.
const LEAST: u64 = 32 * 1024;
/// Devices take no other addresses.
const SECTOR: u64 = 512;

/// A disk's data is copied, as any file's, if it is so short.
#[cold]
#[inline(never)]
pub fn is_copied(file: &OpenFile, length: u64) -> bool {
    let plain = !file.path_only && file.object.is_none();
    plain && file.is(kind::BORROWS) && length < LEAST
}

/// Loans that a process remembers.
const REMEMBERED: usize = 4;

/// Memory that was lent, which the server may have kept: it need not be lent again as long as it is the same memory.
pub struct Lent {
    slot: u32,
    /// The loan's.
    number: u64,
    /// Where its first page begins, and what was used of it ends.
    start: u64,
    end: u64,
    /// [`memory::generation`] when it was lent.
    generation: u64,
}

/// A READ or WRITE with a loan of its memory. None: as without.
#[cold]
#[inline(never)]
pub fn transfer(
    file: &OpenFile,
    operation: u64,
    range: UserRange,
    offset: u64,
) -> Option<Result<[u64; 8]>> {
    let inside = range.base() % PAGE;
    let fits = range.base().is_multiple_of(SECTOR) && range.len() + inside <= LOAN_MOST * PAGE;
    if !fits || range.len() < LEAST {
        return None;
    }
    let generation = memory::generation();
    if let Some((number, inside)) = remembered(file.slot(), range, generation) {
        let request = Request::new(&[operation, offset, fs::NAMED, inside, number]);
        match send(request, file, operation, range) {
            Err(ESTALE) => {}
            result => return Some(result),
        }
    }
    let words = [vm::DMA_LEND, range.base(), range.len()];
    let lent = Request::new(&words).brings(1).call(linux_slot::VM).ok()?;
    let (number, loan) = (lent[1], lent[7] as u32);
    let request = Request::new(&[operation, offset, fs::NAMED, inside, number]).pass(loan);
    let result = send(request, file, operation, range);
    gate::close(loan);
    if result.is_ok() && range.len() + inside <= fs::KEPT_LOAN * PAGE {
        remember(Lent {
            slot: file.slot(),
            number,
            start: range.base() - inside,
            end: range.base() + range.len(),
            generation,
        });
    }
    Some(result)
}

fn send(request: Request, file: &OpenFile, operation: u64, range: UserRange) -> Result<[u64; 8]> {
    let request = match operation {
        fs::READ => request.input_user(range),
        _ => request.out_user(range),
    };
    request.wait(file.slot())
}

/// The number of a loan by the same file that has all of this, and where in it this begins.
fn remembered(slot: u32, range: UserRange, generation: u64) -> Option<(u64, u64)> {
    let (start, end) = (range.base(), range.base() + range.len());
    let mut state = process().state();
    state.lent.retain(|lent| lent.generation == generation);
    let mut all = state.lent.iter();
    let has = |lent: &&Lent| lent.slot == slot && lent.start <= start && end <= lent.end;
    all.find(has).map(|lent| (lent.number, start - lent.start))
}

fn remember(lent: Lent) {
    let mut state = process().state();
    // What was about the same memory was not kept.
    let apart =
        |old: &Lent| old.slot != lent.slot || old.end <= lent.start || lent.end <= old.start;
    state.lent.retain(apart);
    if state.lent.len() >= REMEMBERED {
        state.lent.remove(0);
    }
    state.lent.push(lent);
}
