//! What the steps of a hasty handler's list do, one after the other: on the simulated machine, and what the code that the machine layer makes of a list is compared with.

use super::list::{take, Round};
use super::Handler;
use crate::arch::sim::Sim;
use crate::arch::Arch;
use cairn_abi::hasty::{operation, reason, Step, REGISTERS};

/// Once through a list.
pub(crate) fn interpret(sim: &mut Sim, steps: &[Step], page: u32, handler: &mut Handler) -> Round {
    let mut at = 0;
    loop {
        let Some(&step) = steps.get(at) else {
            return Round::Done;
        };
        at += 1;
        let registers = step.operation & REGISTERS != 0;
        let input = |sim: &mut Sim, at: u16, width: u8| match registers {
            true => sim.device_in(page, at, width),
            false => sim.port_in(at, width),
        };
        let output = |sim: &mut Sim, value: u32| match registers {
            true => sim.device_out(page, step.port, step.width, value),
            false => sim.port_out(step.port, step.width, value),
        };
        let done = match step.operation & !REGISTERS {
            operation::READ => {
                handler.last = input(sim, step.port, step.width);
                true
            }
            operation::WRITE => {
                output(sim, step.value);
                true
            }
            operation::KEEP => {
                output(sim, handler.last & step.mask | step.value);
                true
            }
            operation::TEST => {
                if handler.last & step.mask == step.value {
                    at = step.to as usize;
                }
                true
            }
            operation::APPEND | operation::TAKE | operation::TAKE_WHILE => {
                let (last, kind) = (handler.last as u8, step.operation & !REGISTERS);
                let count = if kind == operation::APPEND {
                    1
                } else {
                    step.count
                };
                take(handler, count, || match kind {
                    operation::APPEND => Some(last),
                    operation::TAKE_WHILE if input(sim, step.status, 1) & step.mask == 0 => None,
                    _ => Some(input(sim, step.port, 1) as u8),
                })
            }
            operation::COUNT => {
                handler.events += 1;
                if handler.events >= step.value {
                    handler.events = 0;
                    handler.reasons |= reason::COUNT;
                }
                true
            }
            operation::WAKE => {
                handler.reasons |= step.value as u64;
                true
            }
            operation::DONE => return Round::Done,
            operation::AGAIN => return Round::Again,
            // HAND_OVER; nothing else is ever installed.
            _ => false,
        };
        if !done {
            return Round::HandOver;
        }
    }
}
