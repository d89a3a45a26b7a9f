//! File-system contexts (fsopen(2), fspick(2)): a text for each, of which the server knows nothing but its length and how often it changed.
//!
//! What stands in it is its clients' business, and no right: whoever has the descriptor reads and changes it, and what is asked for with it is judged when it
//! is asked.
//! The room for the longest text is taken and charged when the context is made, so a change cannot fail for want of it.

use alloc::vec::Vec;
use cairn_idl::errno::{EAGAIN, EFAULT, EINVAL, ENOMEM};
use cairn_idl::event::CONTEXT_MAX;
use cairn_resmgr::table::Table;
use cairn_resmgr::Context;

struct Text {
    bytes: Vec<u8>,
    version: u64,
    payer: u32,
}

/// What is charged for one.
const COST: usize = size_of::<Text>() + CONTEXT_MAX + 16;

#[derive(Default)]
pub struct Contexts(Table<Text>);

impl Contexts {
    /// A new one, with the text that the request has.
    pub fn add(&mut self, cx: &mut Context) -> Result<u32, i64> {
        let payer = cx.payer();
        let mut bytes = Vec::new();
        let room = self.0.reserve(1) && bytes.try_reserve_exact(CONTEXT_MAX).is_ok();
        if !room || cx.charge(payer, COST).is_err() {
            return Err(ENOMEM);
        }
        let new = Text {
            bytes,
            version: 0,
            payer,
        };
        let Some(at) = self.0.insert(new) else {
            cx.refund(payer, COST);
            return Err(ENOMEM);
        };
        match self.set(cx, at, 0) {
            Ok(_) => Ok(at),
            Err(number) => {
                self.remove(cx, at);
                Err(number)
            }
        }
    }

    /// The text as it is, and its version.
    pub fn get(&self, at: u32) -> Result<(&[u8], u64), i64> {
        let text = self.0.get(at).ok_or(EINVAL)?;
        Ok((&text.bytes, text.version))
    }

    /// The request's text takes the place of this version → the new one. EAGAIN: it is another by now.
    pub fn set(&mut self, cx: &mut Context, at: u32, version: u64) -> Result<u64, i64> {
        let text = self.0.get_mut(at).ok_or(EINVAL)?;
        if text.version != version {
            return Err(EAGAIN);
        }
        let length = cx.request.out_len;
        if length > CONTEXT_MAX {
            return Err(EINVAL);
        }
        // What cannot be read changes nothing.
        let mut new = [0; CONTEXT_MAX];
        let new = &mut new[..length];
        cx.fetch(0, new).map_err(|_| EFAULT)?;
        text.bytes.clear();
        text.bytes.extend_from_slice(new);
        text.version += 1;
        Ok(text.version)
    }

    pub fn remove(&mut self, cx: &mut Context, at: u32) {
        if let Some(gone) = self.0.remove(at) {
            cx.refund(gone.payer, COST);
        }
    }

    pub fn count(&self) -> usize {
        self.0.len()
    }
}
