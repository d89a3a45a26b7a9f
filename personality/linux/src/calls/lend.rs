//! Long reads and writes of disks: the program's memory is lent to the server for the length of the request, so that the device has the data go there by itself (`vm`'s DMA_LEND).
//! Where that is not possible (a hole, a file's pages, memory that may not be written, addresses between sectors) the data is copied as ever, and errors are those of that.

use crate::descriptors::OpenFile;
use crate::errno::Result;
use crate::machine::gate;
use crate::machine::request::Request;
use crate::machine::user::UserRange;
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
    let words = [vm::DMA_LEND, range.base(), range.len()];
    let lent = Request::new(&words).brings(1).call(linux_slot::VM).ok()?;
    let loan = lent[7] as u32;
    let request = Request::new(&[operation, offset, 0, inside]).pass(loan);
    let request = match operation {
        fs::READ => request.input_user(range),
        _ => request.out_user(range),
    };
    let result = request.wait(file.slot());
    gate::close(loan);
    Some(result)
}
