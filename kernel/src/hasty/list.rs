//! The lists of hasty handlers: which are right, and what they cost at most. The machine layer makes code of a list; what that must do says `interpret.rs`.
//!
//! Jumps lead forward only, ports lie in a range that the driver holds a portal for and registers in its page, and the repetitions are counted, so the most that a
//! list can cost is known before it is installed.

use super::Handler;
use cairn_abi::hasty::{operation, reason, Step, REGISTERS};
use cairn_abi::layout::PAGE;
use cairn_abi::Error;

/// What a driver's list may reach.
pub(crate) struct Bounds {
    /// First port and how many.
    pub ports: (u64, u64),
    /// There is a page of registers.
    pub registers: bool,
}

impl Bounds {
    /// Does it have a port, or register, of this width there?
    #[inline(never)]
    fn hold(&self, registers: bool, at: u16, width: u8) -> bool {
        let (at, width) = (at as u64, width as u64);
        let within = if registers {
            self.registers && at + width <= PAGE && at & (width.wrapping_sub(1)) == 0
        } else {
            at >= self.ports.0 && at + width <= self.ports.0 + self.ports.1
        };
        matches!(width, 1 | 2 | 4) && within
    }
}

/// What going through a list once came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Round {
    /// The device is served.
    Done = 0,
    /// The driver must go on itself.
    HandOver = 1,
    /// Once more.
    Again = 2,
}

/// What a step costs at most, if it is step `index` of `count` and right within these bounds.
pub(crate) fn check(step: Step, index: usize, count: usize, bounds: &Bounds) -> Result<u32, Error> {
    let registers = step.operation & REGISTERS != 0;
    let inside = |at: u16, width: u8| bounds.hold(registers, at, width);
    let (fine, cost) = match step.operation & !REGISTERS {
        operation::READ | operation::WRITE | operation::KEEP => (inside(step.port, step.width), 1),
        operation::TAKE => (inside(step.port, 1), step.count as u32),
        operation::TAKE_WHILE => (
            inside(step.port, 1) && inside(step.status, 1),
            2 * step.count as u32 + 1,
        ),
        // The others reach nothing.
        _ if registers => (false, 0),
        operation::TEST => ((index + 1..=count).contains(&(step.to as usize)), 1),
        operation::COUNT => (step.value != 0, 1),
        operation::WAKE => (step.value as u64 & !reason::OWN == 0, 1),
        operation::APPEND | operation::DONE | operation::HAND_OVER | operation::AGAIN => (true, 1),
        _ => (false, 0),
    };
    if fine {
        Ok(cost)
    } else {
        Err(Error::BadArgument)
    }
}

/// `count` bytes, or those before `next` has no more, go into the ring. False: there is no room for so many, and none was read.
#[inline(always)]
pub fn take(handler: &mut Handler, count: u8, mut next: impl FnMut() -> Option<u8>) -> bool {
    let fits = handler.room() >= count as u32;
    if fits {
        handler.append((0..count).map_while(|_| next()));
    }
    fits
}
