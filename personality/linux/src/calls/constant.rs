//! Devices whose content is constant: what is read from /dev/null, /dev/zero and /dev/full, and what becomes of data written to the first two, is known without asking. Their server
//! says at opening which handles these are ([`cairn_idl::fs::kind`]), and only for the directions that the handle is open for, so that no right is decided here: all else goes to the server.

use crate::descriptors::OpenFile;
use crate::errno::Result;
use crate::machine::area::area;
use crate::machine::user::{self, UserRange};
use crate::signal::deliver;
use cairn_abi::layout::PAGE;
use cairn_idl::fs::kind;
use core::sync::atomic::Ordering;

/// Zeros given between two looks for signals.
const PIECE: u64 = 1 << 20;

/// Nothing, or zeros for all of the range. A signal ends it between two pieces, as it ends Linux's.
pub fn read(file: &OpenFile, range: UserRange) -> Result<u64> {
    if file.is(kind::READS_NOTHING) {
        return Ok(0);
    }
    let mut done = 0;
    loop {
        let piece = range.after(done).first(PIECE);
        match user::fill(piece.base(), 0, piece.len()) {
            Err(error) => {
                done += zeroed(piece);
                return if done == 0 { Err(error) } else { Ok(done) };
            }
            Ok(()) => done += piece.len(),
        }
        if done == range.len() || area().poked.load(Ordering::Relaxed) != 0 && deliver::pending() {
            return Ok(done);
        }
    }
}

/// Zeros page by page, until one is not there; how many bytes.
fn zeroed(range: UserRange) -> u64 {
    let mut done = 0;
    while done < range.len() {
        let left = range.after(done);
        let page = left.first(PAGE - left.base() % PAGE);
        if user::fill(page.base(), 0, page.len()).is_err() {
            break;
        }
        done += page.len();
    }
    done
}
