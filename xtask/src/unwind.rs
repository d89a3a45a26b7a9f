//! Who called whom in the nucleus or a component, which have no frame pointers: the log says which words on the stack may be return addresses, and a program's symbols say how large each
//! function's frame is at each instruction (DWARF 5, section 6.4, "Call Frame Information").

use anyhow::{Context, Result};
use gimli::{
    BaseAddresses, CfaRule, DebugFrame, EndianSlice, LittleEndian, UnwindContext, UnwindSection,
    X86_64,
};
use object::{Object, ObjectSection};
use std::path::Path;

const WORD: u64 = 8;

/// A word on the stack that may be a return address, as `ADDRESS@BELOW`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word {
    pub address: u64,
    /// How many words lie below it.
    pub below: u64,
}

impl Word {
    pub fn parse(text: &str) -> Option<Word> {
        let (address, below) = text.split_once('@')?;
        Some(Word {
            address: u64::from_str_radix(address.strip_prefix("0x")?, 16).ok()?,
            below: below.parse().ok()?,
        })
    }
}

/// A return address, and whether the frames say that it is one.
#[derive(Debug, PartialEq, Eq)]
pub struct Caller {
    pub address: u64,
    pub sure: bool,
}

/// The callers of the function that is at `rip`. Where a frame's size is not known, or there is no return address at its end, the next word is taken for it
/// from whose frame one comes to another return address; without such a word, the next that may be one.
pub fn callers(
    rip: u64,
    words: &[Word],
    mut frame_words: impl FnMut(u64) -> Option<u64>,
) -> Vec<Caller> {
    let mut out = Vec::new();
    let (mut inside, mut frame) = (rip, 0);
    loop {
        // The return address is a frame's last word.
        let size = frame_words(inside);
        let place = size.map_or(frame, |words| frame + words.max(1) - 1);
        let Some(at) = words.iter().position(|word| word.below >= place) else {
            return out;
        };
        let sure = size.is_some() && words[at].below == place;
        let word = match sure {
            true => &words[at],
            false => {
                let mut leads_on = |word: &&Word| {
                    let size = frame_words(word.address.saturating_sub(1));
                    let end = size.map(|words| word.below + words.max(1));
                    words.iter().any(|word| Some(word.below) == end)
                };
                let found = words[at..].iter().find(&mut leads_on);
                found.unwrap_or(&words[at])
            }
        };
        out.push(Caller {
            address: word.address,
            sure,
        });
        // The call is before the address to which it returns.
        inside = word.address.saturating_sub(1);
        frame = word.below + 1;
    }
}

/// The sizes of a program's frames.
pub struct Frames(Vec<u8>);

impl Frames {
    pub fn read(program: &Path) -> Result<Frames> {
        let bytes = std::fs::read(program)?;
        let file = object::File::parse(&*bytes)?;
        let section = file
            .section_by_name(".debug_frame")
            .context("no .debug_frame in it")?;
        Ok(Frames(section.data()?.to_vec()))
    }

    /// Words from where the stack pointer points at this instruction to the end of the frame, behind the return address; none if no compiler made the instruction, or it
    /// counts from another register.
    pub fn words(&self, address: u64) -> Option<u64> {
        let frames = DebugFrame::from(EndianSlice::new(&self.0, LittleEndian));
        let mut context = UnwindContext::new();
        let row = frames
            .unwind_info_for_address(
                &BaseAddresses::default(),
                &mut context,
                address,
                DebugFrame::cie_from_offset,
            )
            .ok()?;
        match row.cfa() {
            CfaRule::RegisterAndOffset { register, offset } if *register == X86_64::RSP => {
                Some(u64::try_from(*offset).ok()? / WORD)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(list: &[(u64, u64)]) -> Vec<Word> {
        let word = |&(address, below)| Word { address, below };
        list.iter().map(word).collect()
    }

    /// Functions at 0x100, 0x200 … with frames of 1, 2 … words; all else is nobody's.
    fn frames(address: u64) -> Option<u64> {
        (0x100..0x900).contains(&address).then_some(address >> 8)
    }

    fn told(rip: u64, list: &[(u64, u64)]) -> Vec<(u64, bool)> {
        let callers = callers(rip, &words(list), frames);
        callers.iter().map(|c| (c.address, c.sure)).collect()
    }

    #[test]
    fn frames_lead_from_one_return_address_to_the_next() {
        // What lies between them is left from earlier calls.
        let list = [(0x444, 1), (0x210, 2), (0x120, 4), (0x555, 5), (0x666, 6)];
        let all = [(0x210, true), (0x120, true), (0x555, true)];
        assert_eq!(told(0x310, &list), all);
    }

    #[test]
    fn where_frames_end_the_next_word_is_a_guess() {
        assert_eq!(told(0, &[(0x110, 0)]), [(0x110, false)]);
        assert_eq!(
            told(0x910, &[(0x110, 3), (0x120, 4)]),
            [(0x110, false), (0x120, true)]
        );
        assert_eq!(told(0x310, &[(0x111, 1), (0x120, 7)]), [(0x120, false)]);
        assert_eq!(told(0x310, &[]), []);
        // The first two are what earlier calls left: from their frames one comes to nothing.
        let list = [(0x555, 0), (0x910, 1), (0x210, 2), (0x120, 4)];
        assert_eq!(told(0x910, &list), [(0x210, false), (0x120, true)]);
    }

    #[test]
    fn words_are_numbers_with_places() {
        let word = Word {
            address: 0xffff_8000,
            below: 17,
        };
        assert_eq!(Word::parse("0xffff8000@17"), Some(word));
        for wrong in ["0xffff8000", "ffff8000@1", "0x1@", "0x@1", "@"] {
            assert_eq!(Word::parse(wrong), None, "{wrong}");
        }
    }
}
