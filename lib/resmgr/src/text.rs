//! What a file of a synthetic file system said when it was opened: kept with the handle, and charged to who opened it.

use crate::context::{Context, Failure};
use crate::server::{Answer, Data};
use alloc::vec::Vec;
use cairn_idl::errno::ENOMEM;

#[derive(Default)]
pub struct Text {
    bytes: Vec<u8>,
    /// What is charged, and to whom.
    charged: usize,
    payer: u32,
}

impl Text {
    /// As the last thing that an `open` does: what fails behind it would leave the charge.
    pub fn new(cx: &mut Context, mut bytes: Vec<u8>) -> Answer<Text> {
        bytes.shrink_to_fit();
        let (payer, charged) = (cx.payer(), bytes.capacity());
        match cx.charge(payer, charged) {
            Ok(()) => Ok(Text {
                bytes,
                charged,
                payer,
            }),
            Err(_) => Err(Failure::Errno(ENOMEM)),
        }
    }

    pub fn read(&self, offset: u64, length: usize) -> Data<'_> {
        let text = self.bytes.get(offset as usize..).unwrap_or(&[]);
        Data::from(&text[..length.min(text.len())])
    }

    /// For `close`.
    pub fn end(self, cx: &mut Context) {
        cx.refund(self.payer, self.charged);
    }
}
