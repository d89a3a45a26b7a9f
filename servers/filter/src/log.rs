//! `log`: a line for a packet, as Linux words it (`IN=eth0 OUT= SRC=… DST=… LEN=60 PROTO=TCP SPT=… DPT=… SYN`).
//!
//! Whoever sends packets makes lines, so there are at most [`RATE`] in a second, and [`BURST`] at once, of all rules together. The next line says how many were
//! left out. A line takes no memory but its own on the stack.

use crate::rules::{show_address, Seen, FLAGS, PROTOCOLS};
use crate::tuple::protocol;
use alloc::vec::Vec;
use core::fmt::{self, Write};

pub const RATE: u64 = 10;
pub const BURST: u64 = 50;
const EACH: u64 = 1_000_000_000 / RATE;

pub struct Log {
    /// Where lines go.
    pub sink: fn(&str),
    /// Names of the interfaces, by their places.
    pub interfaces: Vec<Vec<u8>>,
    credit: u64,
    since: u64,
    left_out: u64,
}

impl Default for Log {
    fn default() -> Log {
        Log {
            sink: |_| {},
            interfaces: Vec::new(),
            credit: EACH * BURST,
            since: 0,
            left_out: 0,
        }
    }
}

/// What does not fit is cut.
struct Line {
    bytes: [u8; 320],
    length: usize,
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for c in text.chars() {
            let mut bytes = [0; 4];
            let bytes = c.encode_utf8(&mut bytes).as_bytes();
            let end = self.length + bytes.len();
            let room = self.bytes.get_mut(self.length..end).ok_or(fmt::Error)?;
            room.copy_from_slice(bytes);
            self.length = end;
        }
        Ok(())
    }
}

impl Log {
    /// Lines go there as before, whatever rules come.
    pub fn goes_on(&mut self, before: Log) {
        *self = before;
    }

    pub fn put(&mut self, prefix: &str, seen: &Seen, now: u64) {
        let come = now.saturating_sub(self.since);
        self.credit = self.credit.saturating_add(come).min(EACH * BURST);
        self.since = now;
        if self.credit < EACH {
            self.left_out += 1;
            return;
        }
        self.credit -= EACH;
        let mut line = Line {
            bytes: [0; 320],
            length: 0,
        };
        let left_out = core::mem::take(&mut self.left_out);
        let _ = self.write(&mut line, prefix, seen, left_out);
        (self.sink)(core::str::from_utf8(&line.bytes[..line.length]).unwrap_or(""));
    }

    fn write(&self, to: &mut Line, prefix: &str, seen: &Seen, left_out: u64) -> fmt::Result {
        if left_out != 0 {
            write!(to, "({left_out} left out) ")?;
        }
        let name = |place: Option<u8>| {
            let name = place.and_then(|at| self.interfaces.get(usize::from(at)));
            name.and_then(|of| core::str::from_utf8(of).ok())
                .unwrap_or("")
        };
        let (came_by, leaves_by) = (name(seen.came_by), name(seen.leaves_by));
        write!(to, "{prefix}IN={came_by} OUT={leaves_by} ")?;
        let tuple = &seen.tuple;
        for (what, address) in [("SRC", &tuple.source), ("DST", &tuple.destination)] {
            write!(to, "{what}=")?;
            show_address(to, address);
            to.write_str(" ")?;
        }
        write!(to, "LEN={} PROTO=", seen.length)?;
        let mut known = PROTOCOLS.iter();
        match known.find(|of| of.1 == tuple.protocol) {
            Some((name, _)) => {
                for c in name.chars() {
                    to.write_char(c.to_ascii_uppercase())?;
                }
            }
            None => write!(to, "{}", tuple.protocol)?,
        }
        match tuple.protocol {
            protocol::TCP | protocol::UDP | protocol::SCTP | protocol::UDP_LITE => {
                let (from, at) = (tuple.source_port, tuple.destination_port);
                write!(to, " SPT={from} DPT={at}")?;
            }
            protocol::ICMP | protocol::ICMP_V6 => write!(to, " TYPE={}", seen.kind)?,
            _ => {}
        }
        if tuple.protocol == protocol::TCP {
            for (name, _) in FLAGS.iter().filter(|of| seen.kind & of.1 != 0) {
                to.write_str(" ")?;
                for c in name.chars() {
                    to.write_char(c.to_ascii_uppercase())?;
                }
            }
        }
        Ok(())
    }
}
