//! Addresses become functions and lines, from the programs with symbols under `build/symbols`.

use crate::places;
use crate::unwind::{callers, Frames, Word};
use cairn_abi::layout;
use std::collections::HashMap;

/// The upper half of the address space belongs to the nucleus.
const NUCLEUS_BASE: u64 = 0xffff_8000_0000_0000;

/// Programs that have been looked into. A program without symbols is remembered as such.
#[derive(Default)]
pub struct Symbols {
    loaded: HashMap<String, Option<addr2line::Loader>>,
}

impl Symbols {
    /// `NAME ADDRESS…` as several lines; `NAME ADDRESS WORD@PLACE…` from who has no frame pointers.
    pub fn backtrace(&mut self, text: &str) -> String {
        let mut words = text.split_whitespace();
        let name = words.next().unwrap_or("?");
        let mut out = format!("backtrace of {name}:");
        let words: Vec<&str> = words.collect();
        let found: Vec<Word> = words.iter().filter_map(|word| Word::parse(word)).collect();
        let address = |word: &str| u64::from_str_radix(word.trim_start_matches("0x"), 16);
        let first = words.first().and_then(|word| address(word).ok());
        match first {
            Some(rip) if !found.is_empty() => {
                self.place(&mut out, name, 0, "", rip);
                let frames = Frames::read(&places::symbols().join(program_of(name, rip))).ok();
                let callers = callers(rip, &found, |at| frames.as_ref()?.words(at));
                for (number, caller) in callers.iter().enumerate() {
                    let doubt = if caller.sure { "" } else { "perhaps " };
                    self.place(&mut out, name, number + 1, doubt, caller.address);
                }
            }
            _ => {
                for (number, word) in words.iter().enumerate() {
                    match address(word) {
                        Ok(address) => self.place(&mut out, name, number, "", address),
                        Err(_) => out.push_str(&format!("\n  {number:2}  {word}")),
                    }
                }
            }
        }
        out
    }

    /// A line for each function at an address, the inlined ones first.
    fn place(&mut self, out: &mut String, name: &str, number: usize, doubt: &str, address: u64) {
        // All addresses but the first are return addresses: the call is before them.
        let inside = address.saturating_sub(u64::from(number > 0));
        let frames = self.frames(program_of(name, address), inside);
        if frames.is_empty() {
            out.push_str(&format!("\n  {number:2}  {doubt}{address:#x}"));
        }
        for frame in frames {
            out.push_str(&format!("\n  {number:2}  {doubt}{address:#x}  {frame}"));
        }
    }

    fn frames(&mut self, program: &str, address: u64) -> Vec<String> {
        let loader = self
            .loaded
            .entry(program.to_string())
            .or_insert_with(|| addr2line::Loader::new(places::symbols().join(program)).ok());
        let Some(loader) = loader else {
            return Vec::new();
        };
        let mut out = Vec::new();
        if let Ok(mut frames) = loader.find_frames(address) {
            while let Ok(Some(frame)) = frames.next() {
                let function = frame
                    .function
                    .as_ref()
                    .and_then(|f| f.demangle().ok().map(|n| n.into_owned()))
                    .unwrap_or_else(|| "?".to_string());
                let place = frame
                    .location
                    .and_then(|l| Some((l.file?.to_string(), l.line?)));
                out.push(match place {
                    Some((file, line)) => format!("{function}  {}:{line}", short(&file)),
                    None => function,
                });
            }
        }
        if out.is_empty() {
            out.extend(loader.find_symbol(address).map(str::to_string));
        }
        out
    }
}

/// Which program's symbols an address belongs to: the name says it, except for addresses that mean the same in every domain.
fn program_of(name: &str, address: u64) -> &str {
    if address >= NUCLEUS_BASE || name == "nucleus" {
        return "cairn-nucleus";
    }
    if (layout::PERSONALITY..layout::PERSONALITY_IMAGE_END).contains(&address) {
        return "personality";
    }
    // `uart0` and `uart1` are two instances of `uart`.
    if places::symbols().join(name).exists() {
        return name;
    }
    name.trim_end_matches(|c: char| c.is_ascii_digit())
}

/// Paths of the repository without what is before it.
fn short(file: &str) -> String {
    let root = places::root();
    let root = root.canonicalize().unwrap_or(root);
    file.strip_prefix(&*root.to_string_lossy())
        .map(|rest| rest.trim_start_matches('/').to_string())
        .unwrap_or_else(|| file.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_lead_to_the_right_program() {
        assert_eq!(program_of("vm", 0xffff_ffff_8010_0000), "cairn-nucleus");
        assert_eq!(program_of("sh", layout::PERSONALITY + 64), "personality");
        assert_eq!(program_of("uart1", 0x20_1000), "uart");
    }

    #[test]
    fn what_cannot_be_resolved_stays_readable() {
        let text = Symbols::default().backtrace("nobody-knows 0x1234 zzz");
        assert_eq!(text, "backtrace of nobody-knows:\n   0  0x1234\n   1  zzz");
    }
}
