//! Interrupt lines and port ranges: what drivers get of the machine.

use crate::arch::Arch;
use crate::pool::ThreadRef;
use crate::pulse::{Node, PulseLink};
use crate::{Answer, Kernel, Resume};
use cairn_abi::service::{interrupt, ports};
use cairn_abi::{Error, PortalKind};

/// Legacy ISA lines.
pub const LINES: usize = 16;

/// One interrupt line. It is masked unless it is bound and its last interrupt was acknowledged.
pub struct Line {
    pub holders: u32,
    /// Id of the channel that gets its pulses, 0 if none.
    pub channel: u32,
    pub badge: u64,
    /// Interrupts since the last receive.
    pub count: u64,
    pub pulse: PulseLink,
}

impl Line {
    pub const fn new() -> Line {
        Line {
            holders: 0,
            channel: 0,
            badge: 0,
            count: 0,
            pulse: PulseLink::new(),
        }
    }
}

impl Default for Line {
    fn default() -> Self {
        Line::new()
    }
}

/// Most bytes that one several-bytes operation moves.
const BYTES: u64 = 32;

impl<A: Arch> Kernel<A> {
    /// A device interrupt; the machine layer has acknowledged it at the controller.
    pub fn interrupt(&mut self, line: u32) -> Resume {
        self.entered_by_interrupt();
        self.counters.interrupts += 1;
        self.arch.interrupt_mask(line, true);
        if let Some(object) = self.lines.get_mut(line as usize) {
            object.count += 1;
            let channel = object.channel;
            if let Some(c) = self.channels.lookup(channel) {
                self.pulse_post(c, Node::line(line));
            }
        }
        self.leave()
    }

    pub(crate) fn interrupt_service(&mut self, t: ThreadRef, line: u32, operation: u8) -> Answer {
        let w = self.threads[t].registers.words();
        match operation {
            interrupt::BIND => {
                let target = self.own_target_of(t, w[0], PortalKind::Receive)?;
                if self.channels[self.channels.handle(target.object)].dying {
                    return Err(Error::Dead.into());
                }
                let channel = self.channels.id(self.channels.handle(target.object));
                self.pulse_withdraw(Node::line(line));
                let object = &mut self.lines[line as usize];
                object.channel = channel;
                object.badge = w[1];
                object.count = 0;
                self.arch.interrupt_mask(line, false);
            }
            interrupt::ACKNOWLEDGE => {
                if self.lines[line as usize].channel == 0 {
                    return Err(Error::Busy.into());
                }
                self.arch.interrupt_mask(line, false);
            }
            interrupt::UNBIND => self.unbind(line),
            _ => return Err(Error::BadOperation.into()),
        }
        Ok(())
    }

    fn unbind(&mut self, line: u32) {
        self.arch.interrupt_mask(line, true);
        self.pulse_withdraw(Node::line(line));
        let object = &mut self.lines[line as usize];
        object.channel = 0;
        object.count = 0;
    }

    /// A portal to the line is closed.
    pub(crate) fn release_line(&mut self, line: u32) {
        self.lines[line as usize].holders -= 1;
        if self.lines[line as usize].holders == 0 {
            self.unbind(line);
        }
    }

    /// `range` is first port | count << 16.
    pub(crate) fn ports_service(&mut self, t: ThreadRef, range: u32, operation: u8) -> Answer {
        let w = self.threads[t].registers.words();
        let (first, count) = ((range & 0xffff) as u64, (range >> 16) as u64);
        let port = |port: u64, width: u64| {
            let inside = port >= first && port.saturating_add(width) <= first + count;
            if inside {
                Ok(port as u16)
            } else {
                Err(Error::BadArgument)
            }
        };
        let width = match operation {
            ports::IN8 | ports::OUT8 | ports::OUT8_SEVERAL | ports::IN8_WHILE => 1,
            ports::IN16 | ports::OUT16 => 2,
            ports::IN32 | ports::OUT32 => 4,
            _ => return Err(Error::BadOperation.into()),
        };
        let data = port(w[0], width)?;
        match operation {
            ports::IN8 | ports::IN16 | ports::IN32 => {
                let value = self.arch.port_in(data, width as u8);
                self.answer(t, 0, value as u64);
            }
            ports::OUT8_SEVERAL => {
                if w[1] > BYTES {
                    return Err(Error::BadArgument.into());
                }
                for i in 0..w[1] as usize {
                    let byte = (w[2 + i / 8] >> (i % 8 * 8)) as u8;
                    self.arch.port_out(data, 1, byte as u32);
                }
            }
            ports::IN8_WHILE => {
                let status = port(w[1], 1)?;
                let mut words = [0u64; 4];
                let mut n = 0;
                while n < BYTES && self.arch.port_in(status, 1) as u64 & w[2] & 0xff != 0 {
                    let byte = self.arch.port_in(data, 1) as u64 & 0xff;
                    words[n as usize / 8] |= byte << (n % 8 * 8);
                    n += 1;
                }
                self.answer(t, 0, n);
                for (i, word) in words.into_iter().enumerate() {
                    self.answer(t, 1 + i, word);
                }
            }
            _ => self.arch.port_out(data, width as u8, w[1] as u32),
        }
        Ok(())
    }
}
