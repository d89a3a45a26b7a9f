//! What was asked of the other side, and for whom.
//!
//! The framework runs a request again from its beginning each time that something came which it waited for. What it asked before is remembered until it is
//! answered ([`Asks::ask`]): it gets the same answers in the same order, so nothing is done twice, and
//! goes on from there. So every request waits for itself only, however slow the other side is.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use cairn_abi::Token;
use cairn_idl::errno::EIO;
use cairn_ninep::{answer, Ask, Trouble};
use cairn_resmgr::server::Answer;
use cairn_resmgr::Failure;

/// The way to the other side.
pub trait Wire {
    /// Requests that can be under way.
    fn tags(&self) -> usize;
    /// False: it cannot be sent.
    fn send(&mut self, tag: usize, message: &[u8]) -> bool;
    /// An answer that came, and its tag; empty if it makes no sense.
    fn received(&mut self) -> Option<(usize, Vec<u8>)>;
    fn interrupts(&self) -> bool;
    /// It does nothing any more until it is reset.
    fn is_broken(&mut self) -> bool;
}

/// What requests wait for: an answer, by its number, or this: that anything can be asked.
const FULL: u64 = 1;

/// Whose a request under way is.
enum Whose {
    /// The one of this token, with this number.
    Asked(Token, u64),
    /// Nobody's any more; if it succeeds this file is to be ended.
    Nobody(Option<u32>),
    /// It ends this file.
    End(u32),
}

struct UnderWay {
    ask: Ask,
    whose: Whose,
}

struct Asked {
    number: u64,
    ask: Ask,
    /// The file that there is if it succeeds, and whether nobody has taken it, so that it is ended with the request.
    file: u32,
    owned: bool,
    answer: Option<Vec<u8>>,
}

/// What a request has asked.
#[derive(Default)]
struct Memory {
    asked: Vec<Asked>,
    /// Data that was asked for together, apart from these.
    parts: Vec<Asked>,
    /// How many of the former it has had in this run.
    had: usize,
    /// Its last run ended with waiting.
    waits: bool,
    /// When it began.
    begun: u64,
}

pub struct Asks<W> {
    wire: W,
    under_way: Vec<Option<UnderWay>>,
    memories: BTreeMap<Token, Memory>,
    /// Whose run it is.
    current: Option<Token>,
    /// Files to be ended, which nobody waits for.
    ends: VecDeque<u32>,
    next_file: u32,
    free_files: Vec<u32>,
    number: u64,
    /// Keys that were to be woken.
    woken: Vec<u64>,
}

pub fn errno(trouble: Trouble) -> Failure {
    Failure::Errno(match trouble {
        Trouble::Refused(number) => number,
        Trouble::Nonsense => EIO,
    })
}

impl<W: Wire> Asks<W> {
    /// Files below `first` are the caller's.
    pub fn new(wire: W, first: u32) -> Asks<W> {
        let tags = wire.tags();
        Asks {
            wire,
            under_way: (0..tags).map(|_| None).collect(),
            memories: BTreeMap::new(),
            current: None,
            ends: VecDeque::new(),
            next_file: first,
            free_files: Vec::new(),
            number: FULL,
            woken: Vec::new(),
        }
    }

    pub fn wire(&mut self) -> &mut W {
        &mut self.wire
    }

    /// A callback for this request begins. The one that ran last is answered if it does not wait: what it asked is forgotten.
    pub fn enter(&mut self, token: Token) {
        if self.current == Some(token) {
            if let Some(memory) = self.memories.get_mut(&token).filter(|m| m.waits) {
                (memory.waits, memory.had) = (false, 0);
            }
            return;
        }
        self.leave();
        self.current = Some(token);
        if let Some(memory) = self.memories.get_mut(&token) {
            (memory.waits, memory.had) = (false, 0);
        }
    }

    /// No request runs.
    pub fn leave(&mut self) {
        if let Some(token) = self.current.take() {
            if self
                .memories
                .get(&token)
                .is_some_and(|memory| !memory.waits)
            {
                self.forget(token);
            }
        }
    }

    /// When the oldest request that is remembered began.
    pub fn oldest(&self) -> Option<u64> {
        self.memories.values().map(|memory| memory.begun).min()
    }

    /// Ask, or have the answer that came: its body. `make` makes the request; with `new` it makes a file, whose number it gets.
    pub fn ask(
        &mut self,
        token: Token,
        clock: u64,
        new: bool,
        make: impl Fn(u32) -> Ask,
    ) -> Answer<(Vec<u8>, u32)> {
        let memory = self.memories.entry(token).or_default();
        if memory.asked.is_empty() {
            memory.begun = clock;
        }
        let had = memory.had;
        match memory.asked.get(had) {
            Some(asked) if asked.ask.is(&make(asked.file)) => {
                let (number, file) = (asked.number, asked.file);
                let Some(bytes) = &asked.answer else {
                    self.wait(token);
                    return Err(Failure::Wait(number));
                };
                let answer = body(&asked.ask, bytes).map(<[u8]>::to_vec);
                memory.had += 1;
                return Ok((answer.map_err(errno)?, file));
            }
            // Things have changed meanwhile: what comes from here on is asked anew.
            Some(_) => self.cut(token, had),
            None => {}
        }
        let file = if new { self.new_file() } else { 0 };
        let ask = make(file);
        let number = match self.send(token, ask.clone()) {
            Ok(number) => number,
            Err(failure) => {
                if new {
                    self.free_files.push(file);
                }
                return Err(failure);
            }
        };
        if let Some(memory) = self.memories.get_mut(&token) {
            memory.asked.push(Asked {
                number,
                ask,
                file,
                owned: new,
                answer: None,
            });
            memory.waits = true;
        }
        Err(Failure::Wait(number))
    }

    /// What this request asked before that it has not had in this run: the kind of the next, and the file.
    pub fn next(&self, token: Token) -> Option<(u8, u32)> {
        let memory = self.memories.get(&token)?;
        let ask = &memory.asked.get(memory.had)?.ask;
        Some((ask.kind(), ask.fid()?))
    }

    /// It goes on without that.
    pub fn skip(&mut self, token: Token) {
        if let Some(memory) = self.memories.get_mut(&token) {
            memory.had += 1;
        }
    }

    /// How many parts this request has asked for.
    pub fn parts(&self, token: Token) -> usize {
        let memory = self.memories.get(&token);
        memory.map_or(0, |memory| memory.parts.len())
    }

    /// Ask for a part of something, without waiting.
    pub fn part(&mut self, token: Token, ask: Ask) -> Answer<()> {
        let number = self.send(token, ask.clone())?;
        let memory = self.memories.entry(token).or_default();
        memory.parts.push(Asked {
            number,
            ask,
            file: 0,
            owned: false,
            answer: None,
        });
        Ok(())
    }

    /// An error says that nothing more can be asked now.
    fn send(&mut self, token: Token, mut ask: Ask) -> Answer<u64> {
        let Some(tag) = self.under_way.iter().position(Option::is_none) else {
            self.memories.entry(token).or_default().waits = true;
            return Err(Failure::Wait(FULL));
        };
        self.number += 1;
        let number = self.number;
        if !self.wire.send(tag, ask.with_tag(tag as u16)) {
            return Err(Failure::Errno(EIO));
        }
        self.under_way[tag] = Some(UnderWay {
            ask,
            whose: Whose::Asked(token, number),
        });
        Ok(number)
    }

    /// The answers to all parts that this request has asked for, if all have come.
    pub fn all(&mut self, token: Token) -> Answer<Vec<Answer<Vec<u8>>>> {
        let Some(memory) = self.memories.get_mut(&token) else {
            return Ok(Vec::new());
        };
        if let Some(missing) = memory.parts.iter().find(|asked| asked.answer.is_none()) {
            let number = missing.number;
            self.wait(token);
            return Err(Failure::Wait(number));
        }
        let asked = memory.parts.drain(..);
        let answers = asked.map(|asked| {
            let bytes = asked.answer.unwrap_or_default();
            let body = body(&asked.ask, &bytes);
            body.map(<[u8]>::to_vec).map_err(errno)
        });
        Ok(answers.collect())
    }

    /// This file is somebody's: it is not ended with the request that made it. False: it was somebody's already.
    pub fn take(&mut self, token: Token, file: u32) -> bool {
        let memory = self.memories.get_mut(&token);
        let mut asked = memory.into_iter().flat_map(|m| &mut m.asked);
        match asked.find(|asked| asked.owned && asked.file == file) {
            Some(asked) => core::mem::take(&mut asked.owned),
            None => false,
        }
    }

    fn wait(&mut self, token: Token) {
        if let Some(memory) = self.memories.get_mut(&token) {
            memory.waits = true;
        }
    }

    /// The request is answered, or will not be.
    pub fn forget(&mut self, token: Token) {
        self.cut(token, 0);
        let memory = self.memories.remove(&token);
        for part in memory.into_iter().flat_map(|memory| memory.parts) {
            self.abandon(part.number, None);
        }
    }

    /// What a request asked from there on is nobody's any more.
    fn cut(&mut self, token: Token, from: usize) {
        let Some(memory) = self.memories.get_mut(&token) else {
            return;
        };
        let gone = memory.asked.split_off(from.min(memory.asked.len()));
        for asked in gone {
            let file = asked.owned.then_some(asked.file);
            match (asked.answer, file) {
                (None, file) => self.abandon(asked.number, file),
                (Some(bytes), Some(file)) => self.unwanted(&asked.ask, &bytes, file),
                (Some(_), None) => {}
            }
        }
    }

    fn abandon(&mut self, number: u64, file: Option<u32>) {
        for under_way in self.under_way.iter_mut().flatten() {
            if matches!(under_way.whose, Whose::Asked(_, its) if its == number) {
                under_way.whose = Whose::Nobody(file);
            }
        }
    }

    /// A file was made, or not, that nobody wants.
    fn unwanted(&mut self, ask: &Ask, bytes: &[u8], file: u32) {
        match body(ask, bytes).and_then(|body| answer::walked(body, ask.names())) {
            Ok(true) => self.end(file),
            Ok(false) | Err(Trouble::Refused(_)) => self.free_files.push(file),
            // Whether there is one nobody knows: its number is not used again.
            Err(Trouble::Nonsense) => {}
        }
    }

    /// A number that no file has.
    pub fn new_file(&mut self) -> u32 {
        self.free_files.pop().unwrap_or_else(|| {
            self.next_file += 1;
            self.next_file - 1
        })
    }

    /// Nobody uses this file any more.
    pub fn end(&mut self, file: u32) {
        self.ends.push_back(file);
        self.run_ends();
    }

    fn run_ends(&mut self) {
        while let Some(&file) = self.ends.front() {
            let Some(tag) = self.under_way.iter().position(Option::is_none) else {
                return;
            };
            let mut ask = Ask::end_of(file);
            if !self.wire.send(tag, ask.with_tag(tag as u16)) {
                return;
            }
            self.ends.pop_front();
            let whose = Whose::End(file);
            self.under_way[tag] = Some(UnderWay { ask, whose });
        }
    }

    /// Take what came: keys of those who waited for it.
    pub fn pump(&mut self) -> Vec<u64> {
        while let Some((tag, bytes)) = self.wire.received() {
            let place = self.under_way.get_mut(tag);
            let Some(UnderWay { ask, whose }) = place.and_then(Option::take) else {
                continue;
            };
            // What has another tag is no answer to this.
            let its = bytes.get(5..7) == Some(&(tag as u16).to_le_bytes()[..]);
            let bytes = if its { bytes } else { Vec::new() };
            match whose {
                Whose::Asked(token, number) => {
                    if let Some(memory) = self.memories.get_mut(&token) {
                        let mut all = memory.asked.iter_mut().chain(&mut memory.parts);
                        if let Some(asked) = all.find(|asked| asked.number == number) {
                            asked.answer = Some(bytes);
                        }
                    }
                    self.woken.push(number);
                }
                Whose::Nobody(Some(file)) => self.unwanted(&ask, &bytes, file),
                Whose::Nobody(None) => {}
                Whose::End(file) => self.free_files.push(file),
            }
        }
        self.run_ends();
        if self.under_way.iter().any(Option::is_none) {
            self.woken.push(FULL);
        }
        core::mem::take(&mut self.woken)
    }

    /// Something is under way.
    pub fn is_busy(&self) -> bool {
        self.under_way.iter().any(Option::is_some)
    }

    /// So many more can be asked at once.
    pub fn room(&self) -> usize {
        let free = self.under_way.iter().filter(|place| place.is_none());
        free.count()
    }

    /// How many requests are remembered.
    #[cfg(test)]
    pub fn remembered(&self) -> usize {
        self.memories.len()
    }
}

/// The body of an answer, whose tag was looked at when it came.
fn body<'a>(ask: &Ask, bytes: &'a [u8]) -> Result<&'a [u8], Trouble> {
    let tag = bytes.get(5..7).and_then(|tag| tag.first_chunk());
    let tag = tag.map_or(0, |tag| u16::from_le_bytes(*tag));
    answer::body(bytes, ask.kind(), tag)
}
