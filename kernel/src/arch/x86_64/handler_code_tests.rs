//! The code of random lists, decoded and executed instruction by instruction beside the interpreter: both must do the same to the device and to the handler. The executor
//! knows only the instructions of the closed set, refuses jumps backwards and calls of anything else, and so is the decoder that proves the rules.

use super::*;
use crate::arch::sim::Sim;
use crate::arch::Arch;
use crate::hasty::interpret::interpret;
use crate::hasty::list::{check, Bounds};
use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register};

const DATA: u16 = 0x3f8;
const PAGE_NUMBER: u32 = 1;

/// What stands in for the processor.
struct Processor<'a> {
    machine: &'a mut Sim,
    handler: &'a mut Handler,
    eax: u32,
    edx: u32,
    esi: u32,
    flags: (bool, bool),
}

impl Processor<'_> {
    fn word(&mut self, offset: u64) -> &mut u32 {
        match offset as u32 {
            LAST => &mut self.handler.last,
            EVENTS => &mut self.handler.events,
            other => panic!("a field at {other}"),
        }
    }

    fn register(&self, at: u64) -> u16 {
        let offset = at.wrapping_sub(handler_page(PAGE_NUMBER));
        assert!(offset < 4096, "memory at {at:#x}");
        offset as u16
    }

    /// Execute; true: the flow goes on at the next instruction.
    fn execute(&mut self, i: &Instruction) {
        use Mnemonic::*;
        let kind = |n| i.op_kind(n);
        let immediate = || i.immediate32();
        let field = i.memory_base() == Register::RBX;
        let at = i.memory_displacement64();
        match (i.mnemonic(), kind(0), kind(1)) {
            (Push | Pop, OpKind::Register, _) => assert_eq!(i.op0_register(), Register::RBX),
            (Mov, OpKind::Register, OpKind::Register) => assert!(matches!(
                (i.op0_register(), i.op1_register()),
                (Register::RBX, Register::RDI) | (Register::RDI, Register::RBX)
            )),
            (Mov, OpKind::Register, OpKind::Immediate32) => match i.op0_register() {
                Register::EAX => self.eax = immediate(),
                Register::EDX => self.edx = immediate(),
                Register::ESI => self.esi = immediate(),
                other => panic!("{other:?}"),
            },
            (Mov, OpKind::Register, OpKind::Memory) if field => self.eax = *self.word(at),
            (Mov, OpKind::Memory, OpKind::Register) if field => *self.word(at) = self.eax,
            (Mov | Movzx, OpKind::Register, OpKind::Memory) => {
                let width = i.memory_size().size() as u8;
                self.eax = self
                    .machine
                    .device_in(PAGE_NUMBER, self.register(at), width);
            }
            (Mov, OpKind::Memory, OpKind::Register) => {
                let width = i.memory_size().size() as u8;
                let to = self.register(at);
                self.machine.device_out(PAGE_NUMBER, to, width, self.eax);
            }
            (Movzx, OpKind::Register, OpKind::Register) => {
                let mask = if i.op1_register() == Register::AL {
                    0xff
                } else {
                    0xffff
                };
                self.eax &= mask;
            }
            (In, OpKind::Register, _) => {
                let width = i.op0_register().size() as u8;
                self.eax = self.machine.port_in(self.edx as u16, width);
            }
            (Out, _, OpKind::Register) => {
                let width = i.op1_register().size() as u8;
                self.machine.port_out(self.edx as u16, width, self.eax);
            }
            (And, OpKind::Register, _) => self.eax &= immediate(),
            (Or, OpKind::Register, _) => self.eax |= immediate(),
            (Or, OpKind::Memory, _) => {
                assert_eq!(at as u32, REASONS);
                self.handler.reasons |= immediate() as u64;
            }
            (Xor, OpKind::Register, OpKind::Register) => self.eax = 0,
            (Inc, OpKind::Register, _) => self.eax += 1,
            (Cmp, OpKind::Register, _) => {
                self.flags = (self.eax == immediate(), self.eax < immediate());
            }
            (Test, OpKind::Register, OpKind::Register) => self.flags = (self.eax == 0, false),
            other => panic!("{other:?} is not of the closed set"),
        }
    }

    fn call(&mut self, function: usize) {
        let (machine, handler) = (&mut *self.machine, &mut *self.handler);
        let (at, high) = (self.esi, (self.edx >> 16) as u16);
        let (count, mask) = (self.edx as u8, self.edx >> 8 & 0xff);
        let (there, low) = match at > PORTS {
            true => (
                true,
                at.wrapping_sub(handler_page(PAGE_NUMBER) as u32) as u16,
            ),
            false => (false, at as u16),
        };
        let mut input = |at: u16| match there {
            true => machine.device_in(PAGE_NUMBER, at, 1),
            false => machine.port_in(at, 1),
        };
        let is = |known: unsafe extern "C" fn(*mut Handler, u32, u32) -> u32| {
            known as *const () as usize == function
        };
        let done = if is(append_last) {
            let byte = handler.last as u8;
            list::take(handler, 1, || Some(byte))
        } else if is(take) {
            assert!(self.edx <= u8::MAX as u32);
            list::take(handler, count, || Some(input(low) as u8))
        } else if is(take_while) {
            list::take(handler, count, || {
                let more = input(high) & mask != 0;
                more.then(|| input(low) as u8)
            })
        } else {
            panic!("a call of something unknown");
        };
        // What a call may leave in the registers that it need not keep.
        (self.edx, self.esi) = (0x5a5a_5a5a, 0xa5a5_a5a5);
        self.eax = done as u32;
    }

    fn run(&mut self, code: &[u8], at: u64) -> Round {
        let mut decoder = Decoder::with_ip(64, code, at, DecoderOptions::NONE);
        loop {
            let i = decoder.decode();
            let taken = match i.mnemonic() {
                Mnemonic::Je => self.flags.0,
                Mnemonic::Jb => self.flags.1,
                Mnemonic::Call => {
                    self.call(i.near_branch_target() as usize);
                    continue;
                }
                Mnemonic::Ret => break,
                _ => {
                    self.execute(&i);
                    continue;
                }
            };
            let target = i.near_branch_target();
            assert!(target > i.ip(), "a jump backwards");
            if taken {
                decoder.set_ip(target);
                decoder
                    .set_position((target - at) as usize)
                    .expect("within the code");
            }
        }
        match self.eax {
            0 => Round::Done,
            1 => Round::HandOver,
            2 => Round::Again,
            other => panic!("it ends with {other}"),
        }
    }
}

/// Every instruction of the code that any way leads to, executed or not: of the closed set, with nothing but jumps forward, into instructions that are there.
fn prove(code: &[u8], at: u64) {
    let list: Vec<Instruction> = Decoder::with_ip(64, code, at, DecoderOptions::NONE)
        .into_iter()
        .collect();
    let known = [
        append_last as *const () as u64,
        take as *const () as u64,
        take_while as *const () as u64,
    ];
    let mut wanted = std::collections::BTreeSet::from([at]);
    for i in &list {
        if !wanted.remove(&i.ip()) {
            continue;
        }
        use Mnemonic::*;
        match i.mnemonic() {
            Ret => continue,
            Je | Jb => {
                let target = i.near_branch_target();
                assert!(target > i.ip());
                wanted.insert(target);
            }
            Call => assert!(known.contains(&i.near_branch_target())),
            Push | Pop | Mov | Movzx | In | Out | And | Or | Xor | Inc | Cmp | Test => {}
            other => panic!("{other:?} is not of the closed set"),
        }
        wanted.insert(i.next_ip());
    }
    assert!(wanted.is_empty(), "ways that lead nowhere: {wanted:x?}");
}

fn machine(next: &mut impl FnMut() -> u32) -> Sim {
    let mut sim = Sim::new(4);
    sim.device_page(7);
    sim.device_page(9);
    for port in DATA..DATA + 8 {
        let values: Vec<u32> = (0..40).map(|_| next()).collect();
        sim.port_reads.insert(port, values.into());
    }
    for register in 0..16 {
        let values: Vec<u32> = (0..40).map(|_| next()).collect();
        sim.device_reads.insert((9, register), values.into());
    }
    sim
}

#[test]
fn code_does_what_the_interpreter_does() {
    let mut random = 11u64;
    let mut next = || {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) as u32
    };
    let bounds = Bounds {
        ports: (DATA as u64, 8),
        registers: true,
    };
    // Where calls reach the functions of this program.
    let at = (append_last as *const () as u64 & !0xf) + 0x100_0000;
    let (mut same, mut large) = (0, 0);
    while same < 20_000 {
        let count = 1 + next() as usize % 12;
        let steps: Vec<Step> = (0..count)
            .map(|index| {
                let there = next() & 1 == 1;
                Step {
                    operation: (1 + next() as u8 % 12) | if there { REGISTERS } else { 0 },
                    width: [1, 2, 4][next() as usize % 3],
                    count: next() as u8 % 20,
                    to: (index as u32 + 1 + next() % 4) as u8,
                    port: if there {
                        next() as u16 % 16
                    } else {
                        DATA + next() as u16 % 8
                    },
                    status: if there {
                        next() as u16 % 16
                    } else {
                        DATA + next() as u16 % 8
                    },
                    mask: next() & 7,
                    value: [next() & 3, next() & 0xff00, next()][next() as usize % 3],
                }
            })
            .collect();
        let right = |(i, step): (usize, &Step)| check(*step, i, count, &bounds).is_ok();
        if !steps.iter().enumerate().all(right) {
            continue;
        }
        let mut code = [FILLER; CODE_BYTES];
        if !write(&mut code, at, &steps, PAGE_NUMBER) {
            large += 1;
            continue;
        }
        prove(&code, at);
        let seed = next();
        let two = [false, true].map(|compiled| {
            let mut again = seed;
            let mut machine = machine(&mut || {
                again = again.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                again >> 7
            });
            let mut handler = Handler::new();
            let round = if compiled {
                Processor {
                    machine: &mut machine,
                    handler: &mut handler,
                    eax: 0xdead_beef,
                    edx: 0,
                    esi: 0,
                    flags: (false, false),
                }
                .run(&code, at)
            } else {
                interpret(&mut machine, &steps, PAGE_NUMBER, &mut handler)
            };
            let ports = machine.port_writes.iter().map(|w| (w.0 as u32, w.1));
            let registers = machine.device_writes.iter().map(|w| (w.1 as u32, w.2));
            let told = (
                handler.last,
                handler.events,
                handler.reasons,
                handler.room(),
            );
            (
                round,
                told,
                machine.port_accesses,
                ports.collect::<Vec<_>>(),
                registers.collect::<Vec<_>>(),
            )
        });
        assert_eq!(two[0], two[1], "{steps:#?}");
        same += 1;
    }
    assert!(large < same, "{large}");
}

#[test]
fn the_serial_drivers_list_has_room() {
    let mut code = [FILLER; CODE_BYTES];
    assert!(write(&mut code, 0x1000, &cairn_uart::hasty::steps(DATA), 0));
    let used = code.iter().rposition(|&byte| byte != FILLER);
    assert!(used.is_some_and(|used| used < 300), "{used:?}");
}
