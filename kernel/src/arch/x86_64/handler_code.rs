//! The code of hasty handlers: each step of a list becomes a template with its constants, in the order of the list, so jumps lead forward. What repeats (bytes that are taken
//! one after the other) is a call of a function here, with the count among its arguments.
//!
//! A block's code is called with the handler in rdi and keeps it in rbx; what was read last stays in the handler. It ends by returning a [`Round`]. The decoder in the tests
//! below proves of any list: nothing but these instructions, no jump but forward to a step or an end, no call but of the functions below.

use super::memory::handler_page;
use super::ports::in8;
use crate::hasty::list::{self, Round};
use crate::hasty::Handler;
use crate::portal::code::CODE_BYTES;
use cairn_abi::hasty::{operation, reason, Step, REGISTERS, STEPS};
use core::mem::offset_of;

const LAST: u32 = offset_of!(Handler, last) as u32;
const EVENTS: u32 = offset_of!(Handler, events) as u32;
const REASONS: u32 = offset_of!(Handler, reasons) as u32;

/// `int3`.
const FILLER: u8 = 0xcc;
/// Steps, the end behind the last one, and the end that hands over.
const PLACES: usize = STEPS + 2;

/// Most bytes that are written at once.
const WORD: usize = 8;

/// `push rbx; mov rbx, rdi`: with it the stack is as calls want it.
const BEGIN: [u8; 4] = [0x53, 0x48, 0x89, 0xfb];
/// `mov eax, [rbx + …]`, `mov [rbx + …], eax`.
const LOAD: [u8; 2] = [0x8b, 0x83];
const STORE: [u8; 2] = [0x89, 0x83];
/// `mov eax, …`, `mov edx, …`, `mov esi, …`, `and eax, …`, `or eax, …`, `cmp eax, …`.
const EAX: [u8; 1] = [0xb8];
const EDX: [u8; 1] = [0xba];
const ESI: [u8; 1] = [0xbe];
const AND: [u8; 1] = [0x25];
const OR: [u8; 1] = [0x0d];
const COMPARE: [u8; 1] = [0x3d];
/// `je`, `jz`.
const IF_EQUAL: [u8; 2] = [0x0f, 0x84];
const CALL: [u8; 1] = [0xe8];
/// `mov rdi, rbx`.
const ARGUMENT: [u8; 3] = [0x48, 0x89, 0xdf];
/// `test eax, eax`.
const IS_ZERO: [u8; 2] = [0x85, 0xc0];
/// `pop rbx; ret`.
const END: [u8; 2] = [0x5b, 0xc3];

/// Code under way.
struct Writer<'a> {
    code: &'a mut [u8; CODE_BYTES],
    /// Where it will be executed.
    at: u64,
    /// Bytes so far; more than there is room for if it does not fit.
    len: usize,
    /// Where each place begins, and the jumps that are to lead to one: where their distance stands.
    places: [usize; PLACES],
    jumps: [(usize, usize); STEPS],
    jump_count: usize,
}

impl Writer<'_> {
    /// The low `len` bytes of a word. (All eight are stored, what follows them is written afterwards: a copy of a few bytes would cost more than everything else.)
    #[inline(never)]
    fn word(&mut self, word: u64, len: usize) {
        if let Some(room) = self.code.get_mut(self.len..self.len + WORD) {
            room.copy_from_slice(&word.to_le_bytes());
        }
        self.len += len;
    }

    #[inline(always)]
    fn bytes<const N: usize>(&mut self, bytes: &[u8; N]) {
        const { assert!(N <= WORD) };
        let mut word = [0; WORD];
        word[..N].copy_from_slice(bytes);
        self.word(u64::from_le_bytes(word), N);
    }

    /// A template and the constant behind it.
    #[inline(always)]
    fn constant<const N: usize>(&mut self, template: &[u8; N], value: u32) {
        const { assert!(N + 4 <= WORD) };
        let mut word = [0; 4];
        word[..N].copy_from_slice(template);
        self.two(u32::from_le_bytes(word), N, value);
    }

    /// `len` bytes of one word and all of another.
    #[inline(never)]
    fn two(&mut self, first: u32, len: usize, second: u32) {
        self.word(first as u64 | (second as u64) << (8 * len), len + 4);
    }

    fn jump_if_equal(&mut self, place: usize) {
        self.constant(&IF_EQUAL, 0);
        if let Some(jump) = self.jumps.get_mut(self.jump_count) {
            *jump = (self.len - 4, place);
            self.jump_count += 1;
        }
    }

    fn call(&mut self, function: usize) {
        let from = self.at + self.len as u64 + 5;
        self.constant(&CALL, (function as u64).wrapping_sub(from) as u32);
    }

    fn end(&mut self, round: Round) {
        self.constant(&EAX, round as u32);
        self.bytes(&END);
    }

    /// A function that appends to the ring, with two words more; without room the list hands over.
    fn append(&mut self, function: usize, words: [u32; 2]) {
        self.bytes(&ARGUMENT);
        self.constant(&ESI, words[0]);
        self.constant(&EDX, words[1]);
        self.call(function);
        self.bytes(&IS_ZERO);
        self.jump_if_equal(PLACES - 1);
    }

    fn step(&mut self, step: &Step, page: u32) {
        let there = step.operation & REGISTERS != 0;
        let register = handler_page(page) as u32 + step.port as u32;
        let (port, count) = (step.port as u32, step.count as u32);
        match step.operation & !REGISTERS {
            operation::READ => {
                match (there, step.width) {
                    (true, 1) => self.constant(&[0x0f, 0xb6, 0x04, 0x25], register),
                    (true, 2) => self.constant(&[0x0f, 0xb7, 0x04, 0x25], register),
                    (true, _) => self.constant(&[0x8b, 0x04, 0x25], register),
                    (false, width) => {
                        self.constant(&EDX, port);
                        match width {
                            1 => self.bytes(&[0xec, 0x0f, 0xb6, 0xc0]),
                            2 => self.bytes(&[0x66, 0xed, 0x0f, 0xb7, 0xc0]),
                            _ => self.bytes(&[0xed]),
                        }
                    }
                }
                self.constant(&STORE, LAST);
            }
            operation::WRITE => {
                self.constant(&EAX, step.value);
                self.output(step, register);
            }
            operation::KEEP => {
                self.constant(&LOAD, LAST);
                self.constant(&AND, step.mask);
                self.constant(&OR, step.value);
                self.output(step, register);
            }
            operation::TEST => {
                self.constant(&LOAD, LAST);
                self.constant(&AND, step.mask);
                self.constant(&COMPARE, step.value);
                self.jump_if_equal(step.to as usize);
            }
            operation::APPEND => self.append(append_last as *const () as usize, [0, 0]),
            operation::TAKE => {
                let (function, at) = match there {
                    true => (take_registers as *const () as usize, register),
                    false => (take_ports as *const () as usize, port),
                };
                self.append(function, [at, count]);
            }
            operation::TAKE_WHILE => {
                let function = match there {
                    true => take_registers_while as *const () as usize,
                    false => take_ports_while as *const () as usize,
                };
                let both = port | (step.status as u32) << 16;
                let how = count | (step.mask & 0xff) << 8 | page << 16;
                self.append(function, [both, how]);
            }
            operation::COUNT => {
                self.constant(&LOAD, EVENTS);
                // inc eax
                self.bytes(&[0xff, 0xc0]);
                self.constant(&COMPARE, step.value);
                // jb, over: or dword ptr [rbx + reasons], …; xor eax, eax
                self.bytes(&[0x72, 12]);
                self.constant(&[0x81, 0x8b], REASONS);
                self.bytes(&(reason::COUNT as u32).to_le_bytes());
                self.bytes(&[0x31, 0xc0]);
                self.constant(&STORE, EVENTS);
            }
            operation::WAKE => {
                self.constant(&[0x81, 0x8b], REASONS);
                self.bytes(&step.value.to_le_bytes());
            }
            operation::DONE => self.end(Round::Done),
            operation::AGAIN => self.end(Round::Again),
            _ => self.end(Round::HandOver),
        }
    }

    /// eax, or its lower part, to a port or register.
    fn output(&mut self, step: &Step, register: u32) {
        match (step.operation & REGISTERS != 0, step.width) {
            (true, 1) => self.constant(&[0x88, 0x04, 0x25], register),
            (true, 2) => self.constant(&[0x66, 0x89, 0x04, 0x25], register),
            (true, _) => self.constant(&[0x89, 0x04, 0x25], register),
            (false, width) => {
                self.constant(&EDX, step.port as u32);
                match width {
                    1 => self.bytes(&[0xee]),
                    2 => self.bytes(&[0x66, 0xef]),
                    _ => self.bytes(&[0xef]),
                }
            }
        }
    }
}

/// Make the code of a list, to be executed at address `at`. False: it does not fit.
pub fn write(code: &mut [u8; CODE_BYTES], at: u64, steps: &[Step], page: u32) -> bool {
    let mut writer = Writer {
        code,
        at,
        len: 0,
        places: [0; PLACES],
        jumps: [(0, 0); STEPS],
        jump_count: 0,
    };
    writer.bytes(&BEGIN);
    for (index, step) in steps.iter().enumerate() {
        writer.places[index] = writer.len;
        writer.step(step, page);
    }
    writer.places[steps.len()] = writer.len;
    writer.end(Round::Done);
    writer.places[PLACES - 1] = writer.len;
    writer.end(Round::HandOver);
    // A word at the very end would not have been stored whole.
    if writer.len > CODE_BYTES - WORD {
        return false;
    }
    writer.code[writer.len..].fill(FILLER);
    for &(distance, place) in &writer.jumps[..writer.jump_count] {
        let far = (writer.places[place] - (distance + 4)) as u32;
        writer.code[distance..distance + 4].copy_from_slice(&far.to_le_bytes());
    }
    true
}

/// Go through the list whose code lies here.
///
/// # Safety
/// `code` is what [`write`] made for this handler, shown for execution.
pub unsafe fn run(code: usize, handler: &mut Handler) -> Round {
    // SAFETY: by the contract; the code changes the handler and nothing else of the nucleus.
    let round = unsafe {
        let code: unsafe extern "C" fn(*mut Handler) -> u32 = core::mem::transmute(code);
        code(handler)
    };
    match round {
        0 => Round::Done,
        2 => Round::Again,
        _ => Round::HandOver,
    }
}

/// APPEND. The functions that code calls: 0 if there was no room.
///
/// # Safety
/// Of these: called by the code of a handler, with the handler.
unsafe extern "C" fn append_last(handler: *mut Handler, _: u32, _: u32) -> u32 {
    // SAFETY: by the contract.
    let handler = unsafe { &mut *handler };
    let byte = handler.last as u8;
    list::take(handler, 1, || Some(byte)) as u32
}

/// TAKE: port, count.
unsafe extern "C" fn take_ports(handler: *mut Handler, port: u32, count: u32) -> u32 {
    // SAFETY: by the contract.
    let handler = unsafe { &mut *handler };
    list::take(handler, count as u8, || Some(in8(port as u16))) as u32
}

/// TAKE of a register at this address, count.
unsafe extern "C" fn take_registers(handler: *mut Handler, register: u32, count: u32) -> u32 {
    // SAFETY: by the contract.
    let handler = unsafe { &mut *handler };
    list::take(handler, count as u8, || Some(read(register))) as u32
}

/// TAKE_WHILE: port and, above, the status port; count and, above, the mask.
unsafe extern "C" fn take_ports_while(handler: *mut Handler, both: u32, how: u32) -> u32 {
    // SAFETY: by the contract.
    let handler = unsafe { &mut *handler };
    list::take(handler, how as u8, || {
        (in8((both >> 16) as u16) & (how >> 8) as u8 != 0).then(|| in8(both as u16))
    }) as u32
}

/// The same with registers of a page whose number stands above the mask.
unsafe extern "C" fn take_registers_while(handler: *mut Handler, both: u32, how: u32) -> u32 {
    // SAFETY: by the contract.
    let handler = unsafe { &mut *handler };
    let page = handler_page(how >> 16) as u32;
    list::take(handler, how as u8, || {
        (read(page + (both >> 16)) & (how >> 8) as u8 != 0).then(|| read(page + (both & 0xffff)))
    }) as u32
}

/// A register of a device page: the low half of its address, the high half being ones.
fn read(register: u32) -> u8 {
    // SAFETY: code has only registers of the page that its handler may reach.
    unsafe { (register as i32 as isize as *const u8).read_volatile() }
}

#[cfg(test)]
#[path = "handler_code_tests.rs"]
mod tests;
