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

/// A text that is made anew each time that its reader reads the beginning: so what is read in pieces fits together.
#[derive(Default)]
pub struct Snapshot {
    text: Option<Text>,
    /// It was made by `open`, and nobody has read it.
    unread: bool,
}

impl Snapshot {
    /// For an `open` that makes the text: what is read first is that. As the last thing that it does.
    pub fn opened(cx: &mut Context, bytes: Vec<u8>) -> Answer<Snapshot> {
        Ok(Snapshot {
            text: Some(Text::new(cx, bytes)?),
            unread: true,
        })
    }

    /// For `read`: of what was there before, or at the beginning (and the first time) of what is there `now`.
    pub fn read(
        &mut self,
        cx: &mut Context,
        offset: u64,
        length: usize,
        now: impl FnOnce() -> Answer<Vec<u8>>,
    ) -> Answer<Data<'_>> {
        let unread = core::mem::take(&mut self.unread);
        if offset == 0 && !unread || self.text.is_none() {
            self.end(cx);
            self.text = Some(Text::new(cx, now()?)?);
        }
        let text = self.text.as_ref();
        Ok(text.map_or(Data::default(), |text| text.read(offset, length)))
    }

    /// For `close`.
    pub fn end(&mut self, cx: &mut Context) {
        if let Some(text) = self.text.take() {
            text.end(cx);
        }
    }
}
