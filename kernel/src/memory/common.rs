//! The common table: a page table whose pages (the personality's code) are the same in many spaces, and which all of these show, so that for each of them one entry is made and taken away.
//!
//! What always holds: no page of it can be written through it; it is nobody's and nobody changes it; its frames count as mapped for ever, so they never become the nucleus's.

use crate::arch::Arch;
use crate::pool::ThreadRef;
use crate::{Answer, Kernel};
use cairn_abi::layout::USER_TOP;
use cairn_abi::service::memory::TABLE_BYTES;
use cairn_abi::Error;

impl<A: Arch> Kernel<A> {
    /// KEEP_TABLE.
    pub(crate) fn keep_table(&mut self, t: ThreadRef, w: [u64; 8]) -> Answer {
        let s = self.space_at(t, w[0])?;
        let Some(root) = self.spaces[s].root else {
            return Err(Error::NoTable.into());
        };
        if !w[1].is_multiple_of(TABLE_BYTES) || w[1] >= USER_TOP {
            return Err(Error::BadArgument.into());
        }
        if self.common.is_some() || self.spaces[s].open_windows != 0 {
            return Err(Error::Busy.into());
        }
        let table = self.arch.keep_table(root, w[1]);
        self.common = Some((w[1], table.ok_or(Error::BadArgument)?));
        self.spaces[s].tables.used -= 1;
        Ok(())
    }

    /// SHOW_TABLE.
    pub(crate) fn show_table(&mut self, t: ThreadRef, w: [u64; 8]) -> Answer {
        let s = self.space_at(t, w[0])?;
        let Some(root) = self.spaces[s].root else {
            return Err(Error::NoTable.into());
        };
        let (address, table) = self.common.ok_or(Error::BadArgument)?;
        let tables = &mut self.spaces[s].tables;
        let shown = self.arch.show_table(root, address, table, tables);
        Ok(shown.map_err(Error::from)?)
    }
}
