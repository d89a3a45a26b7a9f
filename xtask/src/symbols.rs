//! Addresses become functions and lines, from the programs with symbols under `build/symbols`.

use crate::places;
use crate::trace::{self, DOMAIN_NUMBER};
use crate::unwind::{callers, Frames, Word};
use cairn_abi::layout;
use std::collections::HashMap;

/// The domain that the nucleus makes itself; nobody tells its name.
const FIRST_DOMAIN: u32 = 1;
/// The upper half of the address space belongs to the nucleus.
const NUCLEUS_BASE: u64 = 0xffff_8000_0000_0000;

/// Programs that have been looked into. A program without symbols is remembered as such.
#[derive(Default)]
pub struct Symbols {
    loaded: HashMap<String, Option<Program>>,
    /// Names of domains, by the numbers that the nucleus knows them by.
    domains: HashMap<u32, String>,
}

struct Program {
    places: addr2line::Loader,
    frames: Option<Frames>,
}

impl Program {
    fn load(name: &str) -> Option<Program> {
        let path = places::symbols().join(name);
        Some(Program {
            places: addr2line::Loader::new(&path).ok()?,
            frames: Frames::read(&path).ok(),
        })
    }
}

impl Symbols {
    /// Learn names from lines of the log: the nucleus knows only numbers.
    pub fn look(&mut self, line: &str) {
        if let Some((id, name)) = trace::named(line) {
            self.domains.insert(id & DOMAIN_NUMBER, name.to_string());
        }
    }

    /// A line with `domain NUMBER` has the name behind it, where it is known.
    pub fn with_names(&self, line: &str) -> String {
        let Some((before, rest)) = line.split_once("nucleus: domain ") else {
            return line.to_string();
        };
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, behind) = rest.split_at(digits);
        match number.parse().ok().and_then(|number| self.name(number)) {
            Some(name) => format!("{before}nucleus: domain {number} ({name}){behind}"),
            None => line.to_string(),
        }
    }

    fn name(&self, domain: u32) -> Option<&str> {
        match domain {
            FIRST_DOMAIN => Some("init"),
            number => self.domains.get(&number).map(String::as_str),
        }
    }

    /// `NAME ADDRESS WORD@PLACE…` as several lines.
    pub fn backtrace(&mut self, text: &str) -> String {
        let mut words = text.split_whitespace();
        let who = words.next().unwrap_or("?");
        let named = who.parse().ok().and_then(|number| self.name(number));
        let name = &named.unwrap_or(who).to_string();
        let mut out = format!("backtrace of {name}:");
        let rip = words.next().unwrap_or_default();
        let Ok(rip) = u64::from_str_radix(rip.trim_start_matches("0x"), 16) else {
            return out;
        };
        let words: Vec<Word> = words.filter_map(Word::parse).collect();
        let callers = callers(rip, &words, |at| {
            let program = self.program(program_of(name, at));
            program?.frames.as_ref()?.words(at)
        });
        self.place(&mut out, name, 0, "", rip);
        for (number, caller) in (1..).zip(&callers) {
            let doubt = if caller.sure { "" } else { "perhaps " };
            self.place(&mut out, name, number, doubt, caller.address);
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

    fn program(&mut self, name: &str) -> Option<&Program> {
        let entry = self.loaded.entry(name.to_string());
        entry.or_insert_with(|| Program::load(name)).as_ref()
    }

    fn frames(&mut self, program: &str, address: u64) -> Vec<String> {
        let Some(Program { places: loader, .. }) = self.program(program) else {
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
        let mut symbols = Symbols::default();
        let text = symbols.backtrace("nobody-knows 0x1234 0x55@3 zzz");
        let lines = "\n   0  0x1234\n   1  perhaps 0x55";
        assert_eq!(text, format!("backtrace of nobody-knows:{lines}"));
        symbols.look("[1] init: `nobody-knows` is domain 2097164");
        let text = symbols.backtrace("12 0x1234 0x55@3");
        assert_eq!(text, format!("backtrace of nobody-knows:{lines}"));
        assert_eq!(symbols.backtrace("12 zzz"), "backtrace of nobody-knows:");
        let died = |who: &str| symbols.with_names(&format!("nucleus: domain {who} ends by x"));
        assert_eq!(died("12"), "nucleus: domain 12 (nobody-knows) ends by x");
        assert_eq!(died("1"), "nucleus: domain 1 (init) ends by x");
        assert_eq!(died("13"), "nucleus: domain 13 ends by x");
    }
}
