//! The line discipline: what happens to a byte between the line and the programs, in both directions (POSIX General Terminal Interface, with
//! Linux's extensions and, where POSIX leaves room, Linux's behaviour).
//!
//! Bytes from the line come by [`Discipline::receive`], bytes for programs leave by [`Discipline::read`]. Bytes from programs come by
//! [`Discipline::write`]; they and the echo leave for the line from the output queue ([`Discipline::output`], [`Discipline::sent`]).

use crate::queue::{self, Queue};
use crate::termios::{cc, i, l, o, Termios};
use alloc::collections::VecDeque;

/// Linux's signal numbers that characters send.
pub const SIGINT: u8 = 2;
pub const SIGQUIT: u8 = 3;
pub const SIGTSTP: u8 = 20;

/// Writers wait while this much is queued for the line; echo may use twice as much before it is dropped.
pub const OUTPUT_LIMIT: usize = 8192;
/// Most bytes that one byte of output becomes (a tab as spaces).
const GROWTH: usize = 8;

/// What received bytes caused beyond the queues.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Events {
    /// Signals for the foreground process group, in order (a bit per signal number: each counts once).
    pub signals: u32,
    /// What waited in the line's driver is thrown away too.
    pub flush: bool,
}

#[derive(Default)]
pub struct Discipline {
    pub termios: Termios,
    queue: Queue,
    output: VecDeque<u8>,
    /// Output column, and the column where the line being edited started.
    column: usize,
    start_column: usize,
    /// The next byte is literal (after VLNEXT).
    literal: bool,
    /// Inside a `\…/` of ECHOPRT.
    erasing: bool,
    /// Output is stopped by VSTOP or TCXONC.
    stopped: bool,
    /// Bytes that a master may have although output is stopped: they were put out before.
    released: usize,
    /// Output counts as sent once it is here (a pseudo-terminal, whose master just has not read it): a signal does not throw it away.
    pub keeps_output: bool,
}

fn is_control(byte: u8) -> bool {
    byte < 0x20 || byte == 0x7f
}

impl Discipline {
    pub fn new(termios: Termios) -> Discipline {
        Discipline {
            termios,
            ..Discipline::default()
        }
    }

    fn canonical(&self) -> bool {
        self.termios.l(l::ICANON)
    }

    /// A byte of a multi-byte character that is not its first.
    fn is_continuation(&self, byte: u8) -> bool {
        self.termios.i(i::IUTF8) && byte & 0xc0 == 0x80
    }

    /// New settings; what waits is kept, as lines or bytes.
    pub fn set_termios(&mut self, new: Termios) {
        let was = self.canonical();
        self.termios = new;
        if was != self.canonical() {
            if was {
                self.queue.to_raw();
            } else {
                self.queue.to_canonical();
            }
            self.literal = false;
            self.erasing = false;
        }
        if !new.i(i::IXON) {
            self.stopped = false;
        }
    }

    // ---- towards programs ----

    /// Is there something to read: a line, or `minimum` bytes in raw mode?
    pub fn readable(&self, minimum: usize) -> bool {
        self.queue.available() >= if self.canonical() { 1 } else { minimum.max(1) }
    }

    /// Take what a read gets now.
    pub fn read(&mut self, into: &mut [u8]) -> usize {
        if self.canonical() {
            self.queue.take_line(into)
        } else {
            self.queue.take_raw(into)
        }
    }

    /// Where reading is: what is read from here on can be [put back](Discipline::put_back) until anything else is done.
    pub fn place(&self) -> usize {
        self.queue.place()
    }

    pub fn put_back(&mut self, place: usize) {
        self.queue.put_back(place);
    }

    /// FIONREAD.
    pub fn waiting(&self) -> usize {
        if self.canonical() {
            self.queue.countable()
        } else {
            self.queue.available()
        }
    }

    pub fn flush_input(&mut self) {
        self.queue.clear();
        self.literal = false;
        self.erasing = false;
    }

    // ---- from the line ----

    /// Bytes arrived. Returns how many were taken: fewer if readers must read first.
    pub fn receive(&mut self, bytes: &[u8], events: &mut Events) -> usize {
        for (at, &byte) in bytes.iter().enumerate() {
            // A marked byte becomes two. A line that is too long for the queue is cut instead, or its end could never arrive.
            if !self.receivable() {
                return at;
            }
            self.receive_byte(byte, events);
        }
        bytes.len()
    }

    /// Would [`Discipline::receive`] take a byte?
    pub fn receivable(&self) -> bool {
        self.queue.room() >= 3 || (self.canonical() && self.queue.available() == 0)
    }

    /// A break condition on the line.
    pub fn receive_break(&mut self, events: &mut Events) {
        if self.termios.i(i::IGNBRK) {
            return;
        }
        if self.termios.i(i::BRKINT) {
            return self.signal(SIGINT, events);
        }
        if self.termios.i(i::PARMRK) {
            self.keep(0xff);
            self.keep(0);
        }
        self.keep(0);
    }

    fn receive_byte(&mut self, byte: u8, events: &mut Events) {
        let mut byte = byte;
        if self.termios.i(i::ISTRIP) {
            byte &= 0x7f;
        }
        if self.termios.i(i::IUCLC) && self.termios.l(l::IEXTEN) {
            byte = byte.to_ascii_lowercase();
        }
        if core::mem::take(&mut self.literal) {
            return self.ordinary(byte);
        }
        if self.termios.i(i::IXON) {
            if self.termios.is(byte, cc::START) {
                self.set_stopped(false);
                return;
            }
            if self.termios.is(byte, cc::STOP) {
                self.set_stopped(true);
                return;
            }
        }
        if self.termios.l(l::ISIG) {
            for (which, signal) in [(cc::INTR, SIGINT), (cc::QUIT, SIGQUIT), (cc::SUSP, SIGTSTP)] {
                if self.termios.is(byte, which) {
                    self.signal(signal, events);
                    if self.termios.i(i::IXON) {
                        self.stopped = false;
                    }
                    if self.termios.l(l::ECHO) {
                        self.echo(byte);
                    }
                    return;
                }
            }
        }
        if self.termios.i(i::IXON) && self.termios.i(i::IXANY) {
            self.stopped = false;
        }
        match byte {
            b'\r' if self.termios.i(i::IGNCR) => return,
            b'\r' if self.termios.i(i::ICRNL) => byte = b'\n',
            b'\n' if self.termios.i(i::INLCR) => byte = b'\r',
            _ => {}
        }
        if !self.canonical() || !self.edit(byte) {
            self.ordinary(byte);
        }
    }

    fn signal(&mut self, signal: u8, events: &mut Events) {
        events.signals |= 1 << signal;
        if !self.termios.l(l::NOFLSH) {
            self.flush_input();
            if !self.keeps_output {
                self.output.clear();
            }
            events.flush = true;
        }
    }

    /// The characters that only canonical mode knows. Says whether `byte` was one.
    fn edit(&mut self, byte: u8) -> bool {
        let extended = self.termios.l(l::IEXTEN);
        let echo = self.termios.l(l::ECHO);
        if self.termios.is(byte, cc::ERASE)
            || self.termios.is(byte, cc::KILL)
            || (extended && self.termios.is(byte, cc::WERASE))
        {
            self.erase(byte);
        } else if extended && self.termios.is(byte, cc::LNEXT) {
            self.literal = true;
            if echo {
                self.finish_erasing();
                if self.termios.l(l::ECHOCTL) {
                    self.echo_raw(b'^');
                    self.echo_raw(8);
                }
            }
        } else if extended && echo && self.termios.is(byte, cc::REPRINT) {
            self.finish_erasing();
            self.echo(byte);
            self.echo_raw(b'\n');
            for back in (1..=self.queue.edited()).rev() {
                if let Some(byte) = self.queue.last(back) {
                    self.echo(byte);
                }
            }
        } else if byte == b'\n' {
            if echo || self.termios.l(l::ECHONL) {
                self.echo_raw(b'\n');
            }
            self.end_line(Some(byte));
        } else if self.termios.is(byte, cc::EOF) {
            self.end_line(None);
        } else if self.termios.is(byte, cc::EOL) || (extended && self.termios.is(byte, cc::EOL2)) {
            if echo {
                self.note_start();
                self.echo(byte);
            }
            self.end_line(Some(byte));
        } else {
            return false;
        }
        true
    }

    fn end_line(&mut self, byte: Option<u8>) {
        if self.queue.room() > 0 {
            self.queue.push_end(byte);
        }
    }

    /// Echo and keep.
    fn ordinary(&mut self, byte: u8) {
        if self.canonical() && self.queue.room() < 2 {
            // The last place is the delimiter's.
            if self.termios.i(i::IMAXBEL) {
                self.echo_raw(7);
            }
            return;
        }
        if self.termios.l(l::ECHO) {
            self.finish_erasing();
            if byte == b'\n' {
                self.echo_raw(byte);
            } else {
                self.note_start();
                self.echo(byte);
            }
        }
        // A real 0xff is doubled where 0xff announces a marked byte.
        if byte == 0xff && self.termios.i(i::PARMRK) && !self.termios.i(i::ISTRIP) {
            self.keep(byte);
        }
        self.keep(byte);
    }

    fn keep(&mut self, byte: u8) {
        if self.queue.room() > usize::from(self.canonical()) {
            self.queue.push(byte);
            if !self.canonical() {
                self.queue.commit();
            }
        } else {
            debug_assert!(self.queue.room() < queue::SIZE);
        }
    }

    /// The first byte of a line remembers where on the screen it went, for erasing tabs.
    fn note_start(&mut self) {
        if self.queue.edited() == 0 {
            self.start_column = self.column;
        }
    }

    /// VERASE, VWERASE or VKILL.
    fn erase(&mut self, byte: u8) {
        if self.queue.edited() == 0 {
            return;
        }
        let echo = self.termios.l(l::ECHO);
        let one = self.termios.is(byte, cc::ERASE);
        let word = !one && !self.termios.is(byte, cc::KILL);
        if !one && !word {
            if !echo {
                return self.queue.unpush(usize::MAX);
            }
            let visibly = l::ECHOK | l::ECHOKE | l::ECHOE;
            if self.termios.lflag & visibly != visibly {
                self.queue.unpush(usize::MAX);
                self.finish_erasing();
                self.echo(byte);
                if self.termios.l(l::ECHOK) {
                    self.echo_raw(b'\n');
                }
                return;
            }
        }
        let mut in_word = false;
        while let Some((first, length)) = self.last_character() {
            if word {
                let letter = first.is_ascii_alphanumeric() || first == b'_' || first >= 0x80;
                if in_word && !letter {
                    break;
                }
                in_word |= letter;
            }
            if echo {
                self.echo_erase(byte, one, first, length);
            } else {
                self.queue.unpush(length);
            }
            if one {
                break;
            }
        }
        if self.queue.edited() == 0 && echo {
            self.finish_erasing();
        }
    }

    /// First byte and length of the last character of the line being edited; none if only a fragment of one is left.
    fn last_character(&self) -> Option<(u8, usize)> {
        let mut length = 1;
        while self.is_continuation(self.queue.last(length)?) {
            length += 1;
        }
        Some((self.queue.last(length)?, length))
    }

    /// Take the last character away from the line and from the screen.
    fn echo_erase(&mut self, typed: u8, one: bool, first: u8, length: usize) {
        if self.termios.l(l::ECHOPRT) {
            if !self.erasing {
                self.echo_raw(b'\\');
                self.erasing = true;
            }
            let bytes: VecDeque<u8> = (1..=length)
                .rev()
                .filter_map(|back| self.queue.last(back))
                .collect();
            self.queue.unpush(length);
            self.echo(first);
            // The rest of a multi-byte character moves no column.
            bytes
                .into_iter()
                .skip(1)
                .for_each(|byte| self.echo_raw(byte));
            return;
        }
        self.queue.unpush(length);
        if one && !self.termios.l(l::ECHOE) {
            self.echo(typed);
        } else if first == b'\t' {
            for _ in 0..self.tab_width() {
                self.echo_raw(8);
            }
        } else {
            // What ECHOCTL showed as two characters takes two; without it a control character shows nothing.
            let control = self.termios.l(l::ECHOCTL);
            let width = match (is_control(first), control) {
                (true, true) => 2,
                (true, false) => 0,
                _ => 1,
            };
            for _ in 0..width {
                [8, b' ', 8]
                    .into_iter()
                    .for_each(|byte| self.echo_raw(byte));
            }
        }
    }

    /// How far the tab that was just erased had moved the column: from what stands before it in the line, since the last tab or the line's start.
    fn tab_width(&self) -> usize {
        let mut column = 0;
        let mut back = 1;
        loop {
            match self.queue.last(back) {
                None => {
                    column += self.start_column;
                    break;
                }
                Some(b'\t') => break,
                Some(byte) if is_control(byte) => {
                    column += if self.termios.l(l::ECHOCTL) { 2 } else { 0 }
                }
                Some(byte) if self.is_continuation(byte) => {}
                Some(_) => column += 1,
            }
            back += 1;
        }
        8 - column % 8
    }

    fn finish_erasing(&mut self) {
        if core::mem::take(&mut self.erasing) {
            self.echo_raw(b'/');
        }
    }

    /// Echo a byte, control characters as `^X` with ECHOCTL.
    fn echo(&mut self, byte: u8) {
        if self.termios.l(l::ECHOCTL) && is_control(byte) && byte != b'\t' {
            self.echo_raw(b'^');
            self.echo_raw(byte ^ 0x40);
        } else {
            self.echo_raw(byte);
        }
    }

    /// Echo is dropped when nobody takes output: typed bytes must not fill memory.
    fn echo_raw(&mut self, byte: u8) {
        if self.output.len() + GROWTH <= 2 * OUTPUT_LIMIT {
            self.process(byte);
        }
    }

    // ---- towards the line ----

    /// Take bytes from a program; returns how many found room.
    pub fn write(&mut self, bytes: &[u8]) -> usize {
        if self.holds_writers() {
            return 0;
        }
        if !self.termios.o(o::OPOST) {
            let count = bytes.len().min(self.write_room());
            self.output.extend(&bytes[..count]);
            return count;
        }
        for (at, &byte) in bytes.iter().enumerate() {
            if self.output.len() + GROWTH > OUTPUT_LIMIT {
                return at;
            }
            self.process(byte);
        }
        bytes.len()
    }

    pub fn write_room(&self) -> usize {
        match self.holds_writers() {
            true => 0,
            false => OUTPUT_LIMIT.saturating_sub(self.output.len()),
        }
    }

    /// A pseudo-terminal that is stopped takes nothing: there is no driver in which it would wait.
    fn holds_writers(&self) -> bool {
        self.stopped && self.keeps_output
    }

    /// May a writer go on (a poll's POLLOUT)?
    pub fn writable(&self) -> bool {
        self.output.len() < OUTPUT_LIMIT / 2 && !self.holds_writers()
    }

    /// Output processing of one byte.
    fn process(&mut self, byte: u8) {
        if !self.termios.o(o::OPOST) {
            return self.output.push_back(byte);
        }
        match byte {
            b'\n' => {
                if self.termios.o(o::ONLRET) {
                    self.column = 0;
                }
                if self.termios.o(o::ONLCR) {
                    self.column = 0;
                    self.output.push_back(b'\r');
                }
                self.start_column = self.column;
                self.output.push_back(b'\n');
            }
            b'\r' => {
                if self.termios.o(o::ONOCR) && self.column == 0 {
                    return;
                }
                if self.termios.o(o::OCRNL) {
                    if self.termios.o(o::ONLRET) {
                        self.column = 0;
                    }
                    self.output.push_back(b'\n');
                } else {
                    self.column = 0;
                    self.output.push_back(b'\r');
                }
                self.start_column = self.column;
            }
            b'\t' => {
                let width = 8 - self.column % 8;
                self.column += width;
                if self.termios.oflag & o::XTABS == o::XTABS {
                    self.output.extend(core::iter::repeat_n(b' ', width));
                } else {
                    self.output.push_back(b'\t');
                }
            }
            8 => {
                self.column = self.column.saturating_sub(1);
                self.output.push_back(8);
            }
            _ => {
                let mut byte = byte;
                if !is_control(byte) {
                    if self.termios.o(o::OLCUC) {
                        byte = byte.to_ascii_uppercase();
                    }
                    if !self.is_continuation(byte) {
                        self.column += 1;
                    }
                }
                self.output.push_back(byte);
            }
        }
    }

    /// The next bytes for the line; nothing while output is stopped.
    pub fn output(&self) -> &[u8] {
        let (first, second) = self.output.as_slices();
        match (self.stopped, first.is_empty()) {
            (true, _) => &first[..self.released.min(first.len())],
            (false, true) => second,
            (false, false) => first,
        }
    }

    /// The line took `count` bytes of [`Discipline::output`].
    pub fn sent(&mut self, count: usize) {
        self.output.drain(..count.min(self.output.len()));
        self.released = self.released.saturating_sub(count);
    }

    /// The first bytes for the line, as many as there is room for; they stay.
    pub fn copy_output(&self, into: &mut [u8]) -> usize {
        let most = match self.stopped {
            true => into.len().min(self.released),
            false => into.len(),
        };
        let into = &mut into[..most];
        let (first, second) = self.output.as_slices();
        let (a, b) = into.split_at_mut(first.len().min(into.len()));
        a.copy_from_slice(&first[..a.len()]);
        let more = second.len().min(b.len());
        b[..more].copy_from_slice(&second[..more]);
        a.len() + more
    }

    /// Bytes not yet on the line (TIOCOUTQ).
    pub fn unsent(&self) -> usize {
        self.output.len()
    }

    pub fn flush_output(&mut self) {
        self.output.clear();
        self.released = 0;
    }

    /// Stop or go on (TCXONC).
    pub fn set_stopped(&mut self, stopped: bool) {
        if stopped && !self.stopped && self.keeps_output {
            self.released = self.output.len();
        }
        self.stopped = stopped;
    }

    pub fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// A byte as if the other side of a pseudo-terminal had put it out.
    pub fn put_out(&mut self, byte: u8) {
        if self.output.len() < OUTPUT_LIMIT {
            self.output.push_back(byte);
        }
    }
}

#[cfg(test)]
#[path = "discipline_tests.rs"]
mod tests;
