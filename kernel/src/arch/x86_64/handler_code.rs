//! The code of hasty handlers: each step of a list becomes a template with its constants, in the order of the list, so jumps lead forward. What repeats (bytes that are taken
//! one after the other) is a call of a function here, with the count among its arguments.
//!
//! A block's code is called with the handler in rdi and keeps it in rbx; what was read last stays in the handler. It ends by returning a [`Round`]. The decoder in the tests
//! below proves of any list: nothing but these instructions, no jump but forward to a step or an end, no call but of the functions below.

use super::memory::{handler_page, PAGE};
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
/// Most bytes that are written at once.
const WORD: usize = 8;

/// A few bytes of code, and what follows them.
struct Piece {
    bytes: u64,
    len: u8,
    then: Then,
}

#[derive(Clone, Copy)]
enum Then {
    Nothing,
    /// One of the step's numbers.
    Number(Number),
    /// How far it is to this function.
    Call(unsafe extern "C" fn(*mut Handler, u32, u32) -> u32),
    /// How far it is to the step that this one names, and to the end that hands over.
    To,
    NoRoom,
}

/// What a step's code has as constants.
#[derive(Clone, Copy)]
#[repr(u8)]
enum Number {
    /// The port, or the low half of the register's address.
    At,
    Value,
    Mask,
    /// What TAKE and TAKE_WHILE give their functions as the last argument.
    Count,
    Condition,
}
const NUMBERS: usize = 5;

/// Bytes, and a field of the handler's behind them if that is not 0.
const fn piece(bytes: &[u8], field: u32, then: Then) -> Piece {
    let (mut word, mut len) = (0, bytes.len());
    let mut index = 0;
    while index < len {
        word |= (bytes[index] as u64) << (8 * index);
        index += 1;
    }
    if field != 0 {
        word |= (field as u64) << (8 * len);
        len += 4;
    }
    assert!(len <= WORD);
    Piece {
        bytes: word,
        len: len as u8,
        then,
    }
}

const fn bytes(bytes: &[u8]) -> Piece {
    piece(bytes, 0, Then::Nothing)
}

const fn number(bytes: &[u8], number: Number) -> Piece {
    piece(bytes, 0, Then::Number(number))
}

/// `push rbx; mov rbx, rdi`: with it the stack is as calls want it.
const BEGIN: [u8; 4] = [0x53, 0x48, 0x89, 0xfb];
/// `mov eax, [rbx + last]`, `mov [rbx + last], eax`.
const LOAD: Piece = piece(&[0x8b, 0x83], LAST, Then::Nothing);
const STORE: Piece = piece(&[0x89, 0x83], LAST, Then::Nothing);
/// `mov edx, port`.
const EDX: Piece = number(&[0xba], Number::At);
/// `mov eax, …`, `and eax, …`, `or eax, …`, `cmp eax, …`.
const EAX: Piece = number(&[0xb8], Number::Value);
const AND: Piece = number(&[0x25], Number::Mask);
const OR: Piece = number(&[0x0d], Number::Value);
const COMPARE: Piece = number(&[0x3d], Number::Value);
/// `or dword ptr [rbx + reasons], …`.
const REASON: Piece = piece(&[0x81, 0x83 | 1 << 3], REASONS, Then::Nothing);
/// `mov rdi, rbx`, `mov esi, …`, `mov edx, …`: what functions get.
const HANDLER: Piece = bytes(&[0x48, 0x89, 0xdf]);
const ESI: Piece = number(&[0xbe], Number::At);
/// `test eax, eax; jz`: without room in the ring the list hands over.
const HAS_ROOM: Piece = piece(&[0x85, 0xc0, 0x0f, 0x84], 0, Then::NoRoom);

const fn call(function: unsafe extern "C" fn(*mut Handler, u32, u32) -> u32) -> Piece {
    piece(&[0xe8], 0, Then::Call(function))
}

/// `mov eax, …; pop rbx; ret`.
const fn end(round: Round) -> Piece {
    bytes(&[0xb8, round as u8, 0, 0, 0, 0x5b, 0xc3])
}

/// Of each operation: what comes before the access to a port or register, if it has one.
static OPERATIONS: [&[Piece]; operation::AGAIN as usize + 1] = {
    let mut all: [&[Piece]; operation::AGAIN as usize + 1] =
        [&[end(Round::HandOver)]; operation::AGAIN as usize + 1];
    all[operation::READ as usize] = &[];
    all[operation::WRITE as usize] = &[EAX];
    all[operation::KEEP as usize] = &[LOAD, AND, OR];
    all[operation::TEST as usize] = &[LOAD, AND, COMPARE, piece(&[0x0f, 0x84], 0, Then::To)];
    all[operation::APPEND as usize] = &[HANDLER, call(append_last), HAS_ROOM];
    all[operation::TAKE as usize] = &[
        HANDLER,
        ESI,
        number(&[0xba], Number::Count),
        call(take),
        HAS_ROOM,
    ];
    all[operation::TAKE_WHILE as usize] = &[
        HANDLER,
        ESI,
        number(&[0xba], Number::Condition),
        call(take_while),
        HAS_ROOM,
    ];
    all[operation::COUNT as usize] = &[
        piece(&[0x8b, 0x83], EVENTS, Then::Nothing),
        // inc eax
        bytes(&[0xff, 0xc0]),
        COMPARE,
        // jb, over the next two; xor eax, eax
        bytes(&[0x72, 12]),
        REASON,
        bytes(&[reason::COUNT as u8, 0, 0, 0, 0x31, 0xc0]),
        piece(&[0x89, 0x83], EVENTS, Then::Nothing),
    ];
    all[operation::WAKE as usize] = &[REASON, number(&[], Number::Value)];
    all[operation::DONE as usize] = &[end(Round::Done)];
    all[operation::AGAIN as usize] = &[end(Round::Again)];
    all
};

/// The access itself: by READ, or by WRITE and KEEP; to a port or to a register; of 1, 2 or 4 bytes.
static ACCESSES: [[[&[Piece]; 3]; 2]; 2] = [
    [
        [
            &[EDX, bytes(&[0xec, 0x0f, 0xb6, 0xc0]), STORE],
            &[EDX, bytes(&[0x66, 0xed, 0x0f, 0xb7, 0xc0]), STORE],
            &[EDX, bytes(&[0xed]), STORE],
        ],
        [
            &[number(&[0x0f, 0xb6, 0x04, 0x25], Number::At), STORE],
            &[number(&[0x0f, 0xb7, 0x04, 0x25], Number::At), STORE],
            &[number(&[0x8b, 0x04, 0x25], Number::At), STORE],
        ],
    ],
    [
        [
            &[EDX, bytes(&[0xee])],
            &[EDX, bytes(&[0x66, 0xef])],
            &[EDX, bytes(&[0xef])],
        ],
        [
            &[number(&[0x88, 0x04, 0x25], Number::At)],
            &[number(&[0x66, 0x89, 0x04, 0x25], Number::At)],
            &[number(&[0x89, 0x04, 0x25], Number::At)],
        ],
    ],
];

/// Code under way.
struct Writer<'a> {
    code: &'a mut [u8; CODE_BYTES],
    /// Where it will be executed.
    at: u64,
    /// Bytes so far; more than there is room for if it does not fit.
    len: usize,
    /// The jumps that are to lead to a place: where their distance stands, and which place.
    jumps: [(usize, u8); STEPS],
    jump_count: usize,
}

/// The place of the end that hands over.
const NO_ROOM: u8 = u8::MAX;

impl Writer<'_> {
    /// The low `len` bytes of a word. (All eight are stored, what follows them is written afterwards: a copy of a few bytes would cost more than everything else.)
    fn word(&mut self, word: u64, len: usize) {
        if let Some(room) = self.code.get_mut(self.len..self.len + WORD) {
            room.copy_from_slice(&word.to_le_bytes());
        }
        self.len += len;
    }

    /// The code of a part of a step, which has these numbers.
    #[inline(never)]
    fn pieces(&mut self, pieces: &[Piece], numbers: &[u32; NUMBERS], to: u8) {
        for piece in pieces {
            self.word(piece.bytes, piece.len as usize);
            let place = match piece.then {
                Then::Nothing => continue,
                Then::Number(number) => {
                    self.word(numbers[number as usize] as u64, 4);
                    continue;
                }
                Then::Call(function) => {
                    let from = self.at + self.len as u64 + 4;
                    self.word((function as *const () as u64).wrapping_sub(from), 4);
                    continue;
                }
                Then::To => to,
                Then::NoRoom => NO_ROOM,
            };
            if let Some(jump) = self.jumps.get_mut(self.jump_count) {
                *jump = (self.len, place);
                self.jump_count += 1;
            }
            self.len += 4;
        }
    }

    fn step(&mut self, step: &Step, page: u32) {
        let there = step.operation & REGISTERS != 0;
        let operation = step.operation & !REGISTERS;
        let mut at = step.port as u32;
        if there {
            at += handler_page(page) as u32;
        }
        let condition = step.count as u32 | (step.mask & 0xff) << 8 | (step.status as u32) << 16;
        let numbers = [at, step.value, step.mask, step.count as u32, condition];
        let before = OPERATIONS.get(operation as usize).unwrap_or(&OPERATIONS[0]);
        self.pieces(before, &numbers, step.to);
        if matches!(operation, operation::READ..=operation::KEEP) {
            let out = operation != operation::READ;
            let width = (step.width / 2).min(2);
            let access = ACCESSES[out as usize][there as usize][width as usize];
            self.pieces(access, &numbers, 0);
        }
    }
}

/// Make the code of a list, to be executed at address `at`. False: it does not fit.
pub fn write(code: &mut [u8; CODE_BYTES], at: u64, steps: &[Step], page: u32) -> bool {
    let mut writer = Writer {
        code,
        at,
        len: 0,
        jumps: [(0, 0); STEPS],
        jump_count: 0,
    };
    // Where each step begins.
    let mut places = [0; STEPS];
    writer.word(u32::from_le_bytes(BEGIN) as u64, BEGIN.len());
    for (step, place) in steps.iter().zip(&mut places) {
        *place = writer.len;
        writer.step(step, page);
    }
    let (done, hand_over) = (end(Round::Done), end(Round::HandOver));
    let (behind, no_room) = (writer.len, writer.len + done.len as usize);
    writer.word(done.bytes, done.len as usize);
    writer.word(hand_over.bytes, hand_over.len as usize);
    // A word at the very end would not have been stored whole.
    let (code, len) = (writer.code, writer.len);
    let Some(rest) = code.get_mut(len..).filter(|rest| rest.len() >= WORD) else {
        return false;
    };
    rest.fill(FILLER);
    let jumps = writer.jumps.iter().take(writer.jump_count);
    for &(distance, place) in jumps {
        let to = match place {
            NO_ROOM => no_room,
            _ if place as usize >= steps.len() => behind,
            _ => places[place as usize % STEPS],
        };
        let far = (to - (distance + 4)) as u32;
        if let Some(room) = code.get_mut(distance..distance + 4) {
            room.copy_from_slice(&far.to_le_bytes());
        }
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

/// TAKE: a port or register (as [`input`] has it), count.
unsafe extern "C" fn take(handler: *mut Handler, at: u32, count: u32) -> u32 {
    // SAFETY: by the contract.
    gather(unsafe { &mut *handler }, at, count, false)
}

/// TAKE_WHILE: a port or register; count and, above, the mask and the status port or register.
unsafe extern "C" fn take_while(handler: *mut Handler, at: u32, condition: u32) -> u32 {
    // SAFETY: by the contract.
    gather(unsafe { &mut *handler }, at, condition, true)
}

fn gather(handler: &mut Handler, at: u32, condition: u32, asks: bool) -> u32 {
    let page = if at > PORTS {
        at & !(PAGE as u32 - 1)
    } else {
        0
    };
    let (status, mask) = (page + (condition >> 16), (condition >> 8) as u8);
    list::take(handler, condition as u8, || {
        let more = !asks || input(status) & mask != 0;
        more.then(|| input(at))
    }) as u32
}

/// The last port. What is above is a register.
const PORTS: u32 = 0xffff;

/// A byte from a port, or from a register of a device page: the low half of its address, the high half being ones.
fn input(at: u32) -> u8 {
    if at <= PORTS {
        return in8(at as u16);
    }
    // SAFETY: code has only registers of the page that its handler may reach.
    unsafe { (at as i32 as isize as *const u8).read_volatile() }
}

#[cfg(test)]
#[path = "handler_code_tests.rs"]
mod tests;
