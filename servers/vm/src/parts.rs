//! OBJECT_MAP_PARTS: the parts of a program or library, mapped by one request, so that their pages are shown by one operation of the nucleus.

use crate::mapping::Backing;
use crate::nucleus::Nucleus;
use crate::space::{Errno, Vm};
use cairn_abi::layout::PAGE;
use cairn_idl::errno::*;
use cairn_idl::vm::flags;

/// Parts that fit into a request.
const MOST: usize = 5;

/// A part as the request's words say it.
#[derive(Clone, Copy, Default)]
struct Part {
    /// From the start of all.
    page: u64,
    pages: u64,
    /// Of the object.
    shown: u64,
    prot: u64,
}

impl Part {
    fn from(word: u64) -> Part {
        Part {
            page: word & 0xf_ffff,
            pages: word >> 20 & 0xf_ffff,
            shown: word >> 40 & 0x1f_ffff,
            prot: word >> 61,
        }
    }
}

impl<N: Nucleus> Vm<N> {
    /// Map parts of an object into a space → where they begin.
    pub(crate) fn map_parts(
        &mut self,
        index: usize,
        object: u32,
        address: u64,
        pages: u64,
        words: &[u64],
    ) -> Result<u64, Errno> {
        let code = self.spaces.get(index).ok_or(ESRCH)?.code;
        let mut parts = [Part::default(); MOST];
        let (mut count, mut end) = (0, 0);
        for (part, &word) in parts
            .iter_mut()
            .zip(words)
            .take_while(|(_, &word)| word != 0)
        {
            *part = Part::from(word);
            if part.pages == 0 || part.page < end {
                return Err(EINVAL);
            }
            code.check(part.prot)?;
            code.check_own(part.prot)?;
            end = part.page + part.pages;
            count += 1;
        }
        if end > pages || count == 0 {
            return Err(EINVAL);
        }
        let start = match address {
            0 => self.place(index, 0, pages, 0)? * PAGE,
            address => address,
        };
        crate::mapping::range(start, pages.checked_mul(PAGE).ok_or(ENOMEM)?, ENOMEM)?;
        let mut result = Ok(start);
        for part in &parts[..count] {
            let at = start + part.page * PAGE;
            let backing = Backing::Object(object, part.shown, false);
            let flag = flags::FIXED | flags::PROGRAM;
            let mapped = self.map_unseen(index, at, part.pages * PAGE, part.prot, flag, backing);
            if let Err(errno) = mapped {
                result = Err(errno);
                break;
            }
        }
        self.show_found(index);
        result
    }
}
