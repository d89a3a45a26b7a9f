//! Programs of the classic Berkeley packet filter, as seccomp(2) and SO_ATTACH_FILTER take them: check, run, and what a program answers whatever its unknown
//! data are.
//!
//! The instructions are those of McCanne and Jacobson, "The BSD Packet Filter" (USENIX 1993), and of Linux's `Documentation/networking/filter.rst`. A checked program ends: jumps lead forward only, and its last
//! instruction returns.
#![no_std]

extern crate alloc;

use alloc::vec;
use alloc::vec::Vec;

/// Most instructions of one program.
pub const MOST: usize = 4096;
/// Words of memory that a program has.
const WORDS: usize = 16;

/// `struct sock_filter`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Instruction {
    pub code: u16,
    pub jump_true: u8,
    pub jump_false: u8,
    pub k: u32,
}

impl Instruction {
    pub const BYTES: usize = 8;

    pub fn from_bytes(bytes: [u8; 8]) -> Instruction {
        let [c0, c1, jump_true, jump_false, k @ ..] = bytes;
        Instruction {
            code: u16::from_le_bytes([c0, c1]),
            jump_true,
            jump_false,
            k: u32::from_le_bytes(k),
        }
    }

    pub fn to_bytes(self) -> [u8; 8] {
        let ([c0, c1], [k0, k1, k2, k3]) = (self.code.to_le_bytes(), self.k.to_le_bytes());
        [c0, c1, self.jump_true, self.jump_false, k0, k1, k2, k3]
    }
}

/// The second operand of an instruction.
#[derive(Clone, Copy)]
enum Operand {
    K,
    X,
}

#[derive(Clone, Copy)]
enum Arithmetic {
    Add,
    Sub,
    Mul,
    Div,
    Mod,
    Or,
    And,
    ShiftLeft,
    ShiftRight,
    Xor,
}

#[derive(Clone, Copy)]
enum Test {
    Equal,
    Greater,
    GreaterOrEqual,
    Set,
}

#[derive(Clone, Copy)]
enum Operation {
    LoadData(u8),
    LoadIndexed(u8),
    LoadHeaderLength,
    LoadConstant,
    LoadMemory,
    LoadLength,
    LoadXConstant,
    LoadXMemory,
    LoadXLength,
    Store,
    StoreX,
    Compute(Arithmetic, Operand),
    Negate,
    Always,
    Jump(Test, Operand),
    ReturnConstant,
    Return,
    ToX,
    ToA,
}

/// What a code means.
fn decode(code: u16) -> Option<Operation> {
    use Arithmetic::*;
    use Operand::*;
    use Operation::*;
    let operand = if code & 8 == 0 { K } else { X };
    Some(match code {
        0x00 => LoadConstant,
        0x20 => LoadData(4),
        0x28 => LoadData(2),
        0x30 => LoadData(1),
        0x40 => LoadIndexed(4),
        0x48 => LoadIndexed(2),
        0x50 => LoadIndexed(1),
        0xb1 => LoadHeaderLength,
        0x60 => LoadMemory,
        0x80 => LoadLength,
        0x01 => LoadXConstant,
        0x61 => LoadXMemory,
        0x81 => LoadXLength,
        0x02 => Store,
        0x03 => StoreX,
        0x04 | 0x0c => Compute(Add, operand),
        0x14 | 0x1c => Compute(Sub, operand),
        0x24 | 0x2c => Compute(Mul, operand),
        0x34 | 0x3c => Compute(Div, operand),
        0x44 | 0x4c => Compute(Or, operand),
        0x54 | 0x5c => Compute(And, operand),
        0x64 | 0x6c => Compute(ShiftLeft, operand),
        0x74 | 0x7c => Compute(ShiftRight, operand),
        0x94 | 0x9c => Compute(Mod, operand),
        0xa4 | 0xac => Compute(Xor, operand),
        0x84 => Negate,
        0x05 => Always,
        0x15 | 0x1d => Jump(Test::Equal, operand),
        0x25 | 0x2d => Jump(Test::Greater, operand),
        0x35 | 0x3d => Jump(Test::GreaterOrEqual, operand),
        0x45 | 0x4d => Jump(Test::Set, operand),
        0x06 => ReturnConstant,
        0x16 => Return,
        0x07 => ToX,
        0x87 => ToA,
        _ => return None,
    })
}

/// What a program is asked about.
#[derive(Clone, Copy)]
pub enum About {
    /// System calls: so many bytes, in words.
    Call(u32),
    Frames,
}

/// Where data come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub at: u32,
    /// X, of an indexed load.
    pub index: Option<u32>,
    /// Bytes: 1, 2, 4.
    pub size: u8,
}

/// Is this a program for that? (Linux refuses with EINVAL what this refuses; so does a lack of memory.)
pub fn is_valid(program: &[Instruction], about: About) -> bool {
    if program.is_empty() || program.len() > MOST {
        return false;
    }
    // Which words of memory have surely been written when an instruction is reached.
    let mut written = 0u16;
    let mut at_target = Vec::new();
    if at_target.try_reserve_exact(program.len()).is_err() {
        return false;
    }
    at_target.resize(program.len(), u16::MAX);
    for (at, instruction) in program.iter().enumerate() {
        let Some(operation) = decode(instruction.code) else {
            return false;
        };
        let k = instruction.k;
        written &= at_target[at];
        let mut reach = |offset: u32, written: u16| match program.len() - at - 1 {
            room if (offset as usize) < room => {
                at_target[at + 1 + offset as usize] &= written;
                true
            }
            _ => false,
        };
        let good = match operation {
            Operation::LoadData(size) => match about {
                About::Call(length) => size == 4 && k % 4 == 0 && k < length,
                About::Frames => true,
            },
            Operation::LoadIndexed(_)
            | Operation::LoadHeaderLength
            | Operation::Compute(Arithmetic::Mod, Operand::X) => matches!(about, About::Frames),
            Operation::Compute(Arithmetic::Mod, Operand::K) => {
                matches!(about, About::Frames) && k != 0
            }
            Operation::Store | Operation::StoreX => {
                written |= 1u16.checked_shl(k).unwrap_or(0);
                (k as usize) < WORDS
            }
            Operation::LoadMemory | Operation::LoadXMemory => {
                (k as usize) < WORDS && written & 1 << k != 0
            }
            Operation::Compute(Arithmetic::Div, Operand::K) => k != 0,
            Operation::Compute(Arithmetic::ShiftLeft | Arithmetic::ShiftRight, Operand::K) => {
                k < 32
            }
            Operation::Always => {
                let good = reach(k, written);
                written = u16::MAX;
                good
            }
            Operation::Jump(..) => {
                let good = reach(instruction.jump_true.into(), written)
                    && reach(instruction.jump_false.into(), written);
                written = u16::MAX;
                good
            }
            _ => true,
        };
        if !good {
            return false;
        }
    }
    let last = program.last().map(|last| last.code);
    matches!(last, Some(0x06 | 0x16))
}

enum Loaded {
    Word(u32),
    Unknown,
    Nothing,
}

/// A value that is known, or may be any.
type Value = Option<u32>;

#[derive(Clone, Copy, PartialEq, Eq)]
struct Registers {
    a: Value,
    x: Value,
    memory: [Value; WORDS],
}

impl Registers {
    const FIRST: Registers = Registers {
        a: Some(0),
        x: Some(0),
        memory: [Some(0); WORDS],
    };

    fn operand(&self, operand: Operand, k: u32) -> Value {
        match operand {
            Operand::K => Some(k),
            Operand::X => self.x,
        }
    }

    /// What holds wherever one of both does.
    fn join(&mut self, other: &Registers) {
        let both = |one: Value, other: Value| if one == other { one } else { None };
        self.a = both(self.a, other.a);
        self.x = both(self.x, other.x);
        for (word, other) in self.memory.iter_mut().zip(other.memory) {
            *word = both(*word, other);
        }
    }
}

/// What comes behind an instruction.
enum Next {
    Following,
    Skip(u32),
    Either(u8, u8),
    Returned(Value),
}

fn compute(arithmetic: Arithmetic, a: u32, b: u32) -> Option<u32> {
    Some(match arithmetic {
        Arithmetic::Add => a.wrapping_add(b),
        Arithmetic::Sub => a.wrapping_sub(b),
        Arithmetic::Mul => a.wrapping_mul(b),
        Arithmetic::Div => a.checked_div(b)?,
        Arithmetic::Mod => a.checked_rem(b)?,
        Arithmetic::Or => a | b,
        Arithmetic::And => a & b,
        Arithmetic::ShiftLeft => a.wrapping_shl(b),
        Arithmetic::ShiftRight => a.wrapping_shr(b),
        Arithmetic::Xor => a ^ b,
    })
}

fn holds(test: Test, a: u32, b: u32) -> bool {
    match test {
        Test::Equal => a == b,
        Test::Greater => a > b,
        Test::GreaterOrEqual => a >= b,
        Test::Set => a & b != 0,
    }
}

fn step(
    instruction: &Instruction,
    registers: &mut Registers,
    load: &impl Fn(Place) -> Loaded,
    length: u32,
) -> Next {
    let k = instruction.k;
    let word = k as usize % WORDS;
    // Beyond the data: the answer is 0.
    let place = |index, size| match load(Place { at: k, index, size }) {
        Loaded::Word(word) => Ok(Some(word)),
        Loaded::Unknown => Ok(None),
        Loaded::Nothing => Err(Next::Returned(Some(0))),
    };
    let got = |got: Result<Value, Next>, register: &mut Value| match got {
        Ok(value) => {
            *register = value;
            Next::Following
        }
        Err(next) => next,
    };
    match decode(instruction.code) {
        None => return Next::Returned(Some(0)),
        Some(operation) => match operation {
            Operation::LoadData(size) => return got(place(None, size), &mut registers.a),
            Operation::LoadIndexed(size) => {
                let Some(x) = registers.x else {
                    return Next::Returned(None);
                };
                return got(place(Some(x), size), &mut registers.a);
            }
            Operation::LoadHeaderLength => {
                let length = place(Some(0), 1).map(|byte| byte.map(|byte| (byte & 15) * 4));
                return got(length, &mut registers.x);
            }
            Operation::LoadConstant => registers.a = Some(k),
            Operation::LoadMemory => registers.a = registers.memory[word],
            Operation::LoadLength => registers.a = Some(length),
            Operation::LoadXConstant => registers.x = Some(k),
            Operation::LoadXMemory => registers.x = registers.memory[word],
            Operation::LoadXLength => registers.x = Some(length),
            Operation::Store => registers.memory[word] = registers.a,
            Operation::StoreX => registers.memory[word] = registers.x,
            Operation::Negate => registers.a = registers.a.map(u32::wrapping_neg),
            Operation::ToX => registers.x = registers.a,
            Operation::ToA => registers.a = registers.x,
            Operation::Compute(arithmetic, operand) => {
                let operand = registers.operand(operand, k);
                match (registers.a, operand) {
                    (Some(a), Some(b)) => match compute(arithmetic, a, b) {
                        Some(value) => registers.a = Some(value),
                        // Division by 0.
                        None => return Next::Returned(Some(0)),
                    },
                    // (By 0 perhaps: it is not known what is returned then.)
                    (_, Some(0) | None)
                        if matches!(arithmetic, Arithmetic::Div | Arithmetic::Mod) =>
                    {
                        return Next::Returned(None)
                    }
                    _ => registers.a = None,
                }
            }
            Operation::Always => return Next::Skip(k),
            Operation::Jump(test, operand) => {
                let (then, otherwise) = (instruction.jump_true, instruction.jump_false);
                return match (registers.a, registers.operand(operand, k)) {
                    (Some(a), Some(b)) if holds(test, a, b) => Next::Skip(then.into()),
                    (Some(_), Some(_)) => Next::Skip(otherwise.into()),
                    _ => Next::Either(then, otherwise),
                };
            }
            Operation::ReturnConstant => return Next::Returned(Some(k)),
            Operation::Return => return Next::Returned(registers.a),
        },
    }
    Next::Following
}

/// What a valid program answers about data of `length` bytes, of which `load` gives what lies at a place, if that is within them.
pub fn run(program: &[Instruction], load: impl Fn(Place) -> Option<u32>, length: u32) -> u32 {
    let mut registers = Registers::FIRST;
    let known = |place| load(place).map_or(Loaded::Nothing, Loaded::Word);
    let mut at = 0;
    while let Some(instruction) = program.get(at) {
        at += 1;
        match step(instruction, &mut registers, &known, length) {
            Next::Following => {}
            Next::Skip(count) => at += count as usize,
            // (Everything is known.)
            Next::Either(..) => break,
            Next::Returned(value) => return value.unwrap_or(0),
        }
    }
    0
}

/// Is everything that a program, valid for calls, may answer `wanted`, whatever the data are of which `load` says nothing? An answer that is not known is not.
pub fn always(
    program: &[Instruction],
    load: impl Fn(u32) -> Value,
    length: u32,
    wanted: impl Fn(u32) -> bool,
) -> bool {
    // What is known where an instruction is reached; nothing where none leads to it.
    let mut states = vec![None; program.len()];
    let mut first = Some(Registers::FIRST);
    let load = |place: Place| load(place.at).map_or(Loaded::Unknown, Loaded::Word);
    // Jumps lead forward: all that reaches an instruction has been seen when its turn comes.
    for (at, instruction) in program.iter().enumerate() {
        let Some(mut registers) = first.take().or(states[at]) else {
            continue;
        };
        let next = step(instruction, &mut registers, &load, length);
        let mut reach = |offset: usize| match states.get_mut(at + 1 + offset) {
            Some(Some(there)) => there.join(&registers),
            Some(none) => *none = Some(registers),
            None => {}
        };
        match next {
            Next::Following => reach(0),
            Next::Skip(offset) => reach(offset as usize),
            Next::Either(then, otherwise) => {
                reach(then.into());
                reach(otherwise.into());
            }
            Next::Returned(Some(value)) if wanted(value) => {}
            Next::Returned(_) => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests;
