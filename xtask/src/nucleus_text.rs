//! The nucleus's code as it is linked: how much of it stays and how much only boot or an option needs (`.init.text`, `.asked.text`, given up when the first thread runs), that nothing which stays refers
//! to what is gone then, and that the nucleus formats nothing by `core::fmt`.

use crate::places;
use anyhow::{Context, Result};
use iced_x86::{Decoder, DecoderOptions, Instruction, OpKind, Register};
use object::{Object, ObjectSection, ObjectSymbol, SectionKind};
use std::fs;
use std::ops::Range;

/// The sections of the code that only boot needs, and that is kept only if an option asks for it.
const BOOT: [&str; 2] = [".init.text", ".asked.text"];
/// Where the linker keeps the addresses of functions that are called through there.
const FUNCTIONS: &str = ".got";
/// In the names of `core::fmt`, which would be some KiB: the nucleus has `log::Line`.
const FORMATTING: &str = "4core3fmt";
/// What boot's sections lie between.
const BOUNDS: [&str; 2] = ["image_start", "image_init_end"];

/// Bytes of code.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    pub stays: u64,
    pub boot: u64,
}

/// The nucleus that was built last.
fn built() -> Result<Vec<u8>> {
    let path = places::symbols().join("cairn-nucleus");
    fs::read(&path).with_context(|| format!("cannot read {}", path.display()))
}

/// The code that stays.
pub struct Text {
    pub address: u64,
    pub code: Vec<u8>,
}

pub fn text() -> Result<Text> {
    let bytes = built()?;
    let file = object::File::parse(&*bytes)?;
    let section = file
        .section_by_name(".text")
        .context("the nucleus has no .text")?;
    Ok(Text {
        address: section.address(),
        code: section.data()?.to_vec(),
    })
}

pub fn sizes() -> Result<Sizes> {
    let bytes = built()?;
    let file = object::File::parse(&*bytes)?;
    let mut sizes = Sizes { stays: 0, boot: 0 };
    for section in file.sections().filter(|s| s.kind() == SectionKind::Text) {
        match BOOT.contains(&section.name()?) {
            true => sizes.boot += section.size(),
            false => sizes.stays += section.size(),
        }
    }
    Ok(sizes)
}

/// What stays must not refer to what boot gives up, and `core::fmt` must not be there. The error names the first place that does.
pub fn check() -> Result<Result<(), String>> {
    let bytes = built()?;
    let file = object::File::parse(&*bytes)?;
    let bound = |name: &str| {
        let symbol = file.symbols().find(|s| s.name() == Ok(name));
        symbol
            .map(|s| s.address())
            .with_context(|| format!("the nucleus has no {name}"))
    };
    let boot = bound(BOUNDS[0])?..bound(BOUNDS[1])?;
    if boot.is_empty() {
        return Ok(Err("there is nothing that only boot needs".into()));
    }
    let mut names = file.symbols().filter_map(|symbol| symbol.name().ok());
    if let Some(name) = names.find(|name| name.contains(FORMATTING)) {
        return Ok(Err(format!("{name} has come into the nucleus")));
    }
    let mut kept = Vec::new();
    for section in file.sections() {
        if !boot.contains(&section.address()) {
            kept.push((
                section.name()?,
                section.kind(),
                section.address(),
                section.data()?,
            ));
        }
    }
    // Who calls a function by its address there?
    let called = |slot: u64| {
        let mut code = kept
            .iter()
            .filter(|(_, kind, ..)| *kind == SectionKind::Text);
        code.any(|(_, _, at, data)| in_code(*at, data, &(slot..slot + 8)).is_some())
    };
    for &(name, kind, at, data) in &kept {
        let found = match kind {
            SectionKind::Data if name == FUNCTIONS => {
                in_data(at, data, &boot).find(|(slot, _)| called(*slot))
            }
            SectionKind::Text => in_code(at, data, &boot),
            SectionKind::Data | SectionKind::ReadOnlyData => in_data(at, data, &boot).next(),
            _ => None,
        };
        if let Some((place, target)) = found {
            return Ok(Err(format!(
                "{place:#x} refers to {target:#x}, which is gone when boot is over"
            )));
        }
    }
    Ok(Ok(()))
}

/// The first instruction that names an address within `boot`, and that address.
fn in_code(at: u64, code: &[u8], boot: &Range<u64>) -> Option<(u64, u64)> {
    Decoder::with_ip(64, code, at, DecoderOptions::NONE)
        .into_iter()
        .find_map(|instruction| {
            let named = addresses(&instruction);
            let target = named.into_iter().find(|address| boot.contains(address))?;
            Some((instruction.ip(), target))
        })
}

/// Every address that an instruction may name.
fn addresses(instruction: &Instruction) -> Vec<u64> {
    let operands = (0..instruction.op_count()).filter_map(|i| match instruction.op_kind(i) {
        OpKind::NearBranch64 => Some(instruction.near_branch64()),
        OpKind::Immediate64 | OpKind::Immediate32to64 => Some(instruction.immediate(i)),
        // A register's lower half.
        OpKind::Immediate32 => Some(instruction.immediate32() as i32 as u64),
        OpKind::Memory if instruction.memory_base() == Register::RIP => {
            Some(instruction.ip_rel_memory_address())
        }
        OpKind::Memory => Some(instruction.memory_displacement64()),
        _ => None,
    });
    operands.collect()
}

/// The words that are addresses within `boot`, and where they are.
fn in_data<'a>(
    at: u64,
    data: &'a [u8],
    boot: &'a Range<u64>,
) -> impl Iterator<Item = (u64, u64)> + 'a {
    let (words, _) = data.as_chunks();
    let words = words.iter().map(|word| u64::from_le_bytes(*word));
    (at..)
        .step_by(8)
        .zip(words)
        .filter(|(_, word)| boot.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOOT: Range<u64> = 0xffff_ffff_8020_0000..0xffff_ffff_8020_1000;
    const AT: u64 = 0xffff_ffff_8020_1000;

    #[test]
    fn finds_every_sort_of_reference() {
        let call = [0x90, 0xe8, 0xfb, 0xfe, 0xff, 0xff];
        assert_eq!(in_code(AT, &call, &BOOT), Some((AT + 1, AT - 0xff)));
        let lea = [0x48, 0x8d, 0x05, 0xf0, 0xff, 0xff, 0xff];
        assert_eq!(in_code(AT, &lea, &BOOT), Some((AT, AT - 9)));
        let mov = [0x48, 0xc7, 0xc0, 0x10, 0x00, 0x20, 0x80];
        assert_eq!(in_code(AT, &mov, &BOOT), Some((AT, BOOT.start + 0x10)));
        let jump_by_table = [0xff, 0x24, 0xc5, 0x08, 0x00, 0x20, 0x80];
        assert_eq!(
            in_code(AT, &jump_by_table, &BOOT),
            Some((AT, BOOT.start + 8))
        );
        let elsewhere = [0xe8, 0, 0, 0, 0, 0xc3];
        assert_eq!(in_code(AT, &elsewhere, &BOOT), None);
    }

    #[test]
    fn finds_words_of_data() {
        let words = [1u64, BOOT.end, BOOT.start + 4].map(u64::to_le_bytes);
        let found = in_data(AT, words.as_flattened(), &BOOT).next();
        assert_eq!(found, Some((AT + 16, BOOT.start + 4)));
        assert_eq!(in_data(AT, &words.as_flattened()[..16], &BOOT).next(), None);
    }
}
