//! An ELF program on its way into memory: checked by `cairn_elf`, mapped segment by segment from the file's memory object.

use crate::calls::exec::read_into;
use crate::calls::status::stat_handle;
use crate::descriptors::OpenFile;
use crate::errno::{Result, EBADF, ENOEXEC, ENOMEM};
use crate::machine::gate;
use crate::machine::request::Request;
use crate::machine::user;
use crate::memory::{self, flags, prot};
use crate::path::make_room;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use cairn_abi::layout::{LINUX_LOW, LINUX_PIE_BASE, LINUX_TOP, PAGE};
use cairn_elf::{Image, Segment};
use cairn_idl::fs;

/// A checked program and its file. `object` is the file's memory object, if it has one.
pub struct Program {
    /// It has room for many segments, and a program is handed on several times.
    image: Box<Image>,
    file: Arc<OpenFile>,
    object: Object,
    pub interpreter: Option<Vec<u8>>,
}

/// Where the program headers end, by the ELF header; 0 for other files.
pub fn headers_end(head: &[u8]) -> u64 {
    if head.len() < 64 || head[..4] != *b"\x7fELF" {
        return 0;
    }
    let mut offset = [0; 8];
    offset.copy_from_slice(&head[32..40]);
    let count = u16::from_le_bytes([head[56], head[57]]);
    u64::from_le_bytes(offset).saturating_add(56 * count as u64)
}

/// (By itself, for an image takes much of the stack until it is in its box.)
#[inline(never)]
fn read_image(head: &[u8], size: u64) -> Result<Box<Image>> {
    let mut image = Box::<Image>::default();
    cairn_elf::parse_into(&mut image, head, size).map_err(|_| ENOEXEC)?;
    Ok(image)
}

struct Object(Option<u32>);

impl Drop for Object {
    fn drop(&mut self) {
        if let Some(object) = self.0 {
            gate::close(object);
        }
    }
}

impl Program {
    /// Check a file: ENOEXEC if it is no program for this machine.
    pub fn check(file: &Arc<OpenFile>, head: &[u8]) -> Result<Program> {
        make_room()?;
        let words = [fs::MMAP, 0, 0, 0];
        let object = Request::new(&words).brings(1).call(file.slot()).ok();
        // With whole pages: what its last page has behind its end reads as zeroes.
        let size = match object {
            Some(words) => words[0].saturating_mul(PAGE),
            None => stat_handle(file)?.size.max(0) as u64,
        };
        let object = Object(object.map(|words| words[7] as u32));
        let image = read_image(head, size)?;
        let (first, last) = image.extent();
        if !image.relocatable && (first < LINUX_LOW || last > LINUX_TOP) {
            return Err(ENOEXEC);
        }
        let interpreter = match image.interpreter {
            None => None,
            Some((offset, length)) => Some(interpreter(file, head, offset, length)?),
        };
        Ok(Program {
            image,
            file: file.clone(),
            object,
            interpreter,
        })
    }

    /// It is mapped, or will not be.
    pub fn into_file(self) -> Arc<OpenFile> {
        self.file
    }

    /// Bias of the main program's addresses.
    pub fn place(&self) -> Result<u64> {
        if !self.image.relocatable {
            return Ok(0);
        }
        Ok(LINUX_PIE_BASE - self.image.extent().0)
    }

    /// Bias for an interpreter: wherever there is room.
    fn place_anywhere(&self) -> Result<u64> {
        let (first, last) = self.image.extent();
        let base = memory::map(0, last - first, prot::READ, flags::NO_RESERVE)?;
        Ok(base - first)
    }

    pub fn entry(&self, bias: u64) -> u64 {
        self.image.entry.wrapping_add(bias)
    }

    /// First address behind the program.
    pub fn end(&self, bias: u64) -> u64 {
        self.image.extent().1 + bias
    }

    /// AT_PHDR (0 if no segment holds the headers).
    pub fn headers(&self, bias: u64) -> u64 {
        self.image.headers.map_or(0, |address| address + bias)
    }

    pub fn executable_stack(&self) -> bool {
        self.image.executable_stack
    }

    pub fn header_count(&self) -> u64 {
        self.image.header_count
    }

    /// Map all segments, at this bias or wherever there is room (an interpreter's) → the bias.
    pub fn map(&self, wanted: Option<u64>) -> Result<u64> {
        let first = self.image.extent().0;
        let wanted = if self.image.relocatable {
            wanted
        } else {
            Some(0)
        };
        let at_once = self.parts().zip(self.object.0).and_then(|(parts, object)| {
            let pages = (self.image.extent().1 - first).div_ceil(PAGE);
            let address = wanted.map_or(0, |bias| first + bias);
            memory::map_parts(object, address, pages, parts).ok()
        });
        let bias = match (at_once, wanted) {
            (Some(start), _) => start - first,
            (None, Some(bias)) => bias,
            (None, None) => self.place_anywhere()?,
        };
        for segment in self.image.segments() {
            self.map_segment(segment, bias, at_once.is_some())?;
        }
        Ok(bias)
    }

    /// What the segments show of the file, for one request, if it takes that.
    fn parts(&self) -> Option<[u64; memory::PARTS]> {
        let first = self.image.extent().0;
        let mut parts = [0; memory::PARTS];
        let shown = self.image.segments().iter().filter(|s| s.file_size != 0);
        for (i, segment) in shown.enumerate() {
            let place = Place::of(segment, 0).ok()?;
            let page = place.start.checked_sub(first)? / PAGE;
            let pages = (place.mapped_end - place.start) / PAGE;
            *parts.get_mut(i)? =
                memory::part(page, pages, segment.offset / PAGE, place.early(segment))?;
        }
        Some(parts)
    }

    /// `shown`: what it shows of the file is mapped already.
    fn map_segment(&self, segment: &Segment, bias: u64, shown: bool) -> Result<()> {
        let place = Place::of(segment, bias)?;
        let Place {
            start,
            file_end,
            mapped_end,
            end,
        } = place;
        let (protection, early) = (protection(segment), place.early(segment));
        if mapped_end > start && !shown {
            let offset = segment.offset & !(PAGE - 1);
            self.map_file(start, mapped_end - start, early, offset, file_end - start)?;
        }
        if place.has_zeroes(segment) {
            user::clear(file_end, (mapped_end - file_end).min(end - file_end))?;
            if early != protection {
                memory::protect(start, mapped_end - start, protection)?;
            }
        }
        if end > mapped_end {
            memory::map(mapped_end, end - mapped_end, protection, flags::FIXED)?;
        }
        Ok(())
    }

    fn map_file(
        &self,
        start: u64,
        length: u64,
        protection: u64,
        offset: u64,
        bytes: u64,
    ) -> Result<()> {
        if let Some(object) = self.object.0 {
            let kind = flags::FIXED | flags::PROGRAM;
            let map = |object| memory::map_object(object, start, length, protection, kind, offset);
            let mapped = match map(object) {
                Err(EBADF) => memory::map_file(self.file.slot(), [0; 3], map),
                mapped => mapped,
            };
            return mapped.map(|_| ());
        }
        memory::map(start, length, prot::READ | prot::WRITE, flags::FIXED)?;
        read_into(&self.file, start, bytes, offset)?;
        memory::protect(start, length, protection)
    }
}

/// Where a segment lies: its first page, where its bytes of the file end, the pages with these, and all of it.
struct Place {
    start: u64,
    file_end: u64,
    mapped_end: u64,
    end: u64,
}

impl Place {
    fn of(segment: &Segment, bias: u64) -> Result<Place> {
        let address = segment.address.checked_add(bias).ok_or(ENOMEM)?;
        let start = address & !(PAGE - 1);
        let file_end = address + segment.file_size;
        let mapped_end = match segment.file_size {
            0 => start,
            _ => memory::pages_up(file_end)?,
        };
        Ok(Place {
            start,
            file_end,
            mapped_end,
            end: memory::pages_up(address + segment.memory_size)?,
        })
    }

    /// Its last page of the file ends with zeroes.
    fn has_zeroes(&self, segment: &Segment) -> bool {
        segment.memory_size > segment.file_size && self.mapped_end > self.file_end
    }

    /// The protection until these are written.
    fn early(&self, segment: &Segment) -> u64 {
        match self.has_zeroes(segment) {
            true => prot::READ | prot::WRITE,
            false => protection(segment),
        }
    }
}

fn protection(segment: &Segment) -> u64 {
    let bit = |on: bool, bit: u64| if on { bit } else { 0 };
    bit(segment.read, prot::READ)
        | bit(segment.write, prot::WRITE)
        | bit(segment.execute, prot::EXECUTE)
}

/// The interpreter's name, which most files have among their first bytes.
fn interpreter(file: &OpenFile, head: &[u8], offset: u64, length: u64) -> Result<Vec<u8>> {
    let end = offset.saturating_add(length);
    let mut name = match head.get(offset as usize..end as usize) {
        Some(name) => name.to_vec(),
        None => {
            let mut name = alloc::vec![0; length as usize];
            let words = Request::new(&[fs::READ, offset, 0])
                .input(&mut name)
                .call(file.slot())?;
            name.truncate(words[0] as usize);
            name
        }
    };
    match name.iter().position(|b| *b == 0) {
        Some(end) if end > 0 => {
            name.truncate(end);
            Ok(name)
        }
        _ => Err(ENOEXEC),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_found_by_the_elf_header() {
        let mut head = [0u8; 64];
        assert_eq!(headers_end(&head), 0);
        head[..4].copy_from_slice(b"\x7fELF");
        head[32] = 64;
        head[56] = 2;
        assert_eq!(headers_end(&head), 64 + 112);
        head[32..40].fill(0xff);
        assert_eq!(headers_end(&head), u64::MAX);
        assert_eq!(headers_end(&head[..10]), 0);
    }
}
