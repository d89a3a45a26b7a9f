//! `struct rt_sigframe` of Linux x86-64, as bytes: return address, `ucontext`, `siginfo`. (Layout: arch/x86/include/uapi/asm/sigcontext.h, ucontext.h, the x86-64 psABI for the red zone.)

use super::{AltStack, Info, SIGCHLD};
use crate::machine::area::Frame;

/// Size of the whole frame, without the floating-point state that lies above it.
pub const SIZE: usize = 440;
/// Offsets in the frame.
const UCONTEXT: usize = 8;
const STACK: usize = UCONTEXT + 16;
const REGISTERS: usize = UCONTEXT + 40;
const SELECTORS: usize = REGISTERS + 144;
const TRAP: usize = SELECTORS + 8;
const FPSTATE: usize = TRAP + 32;
const MASK: usize = UCONTEXT + 296;
const SIGINFO: usize = 312;
const RED_ZONE: u64 = 128;

const UC_FP_XSTATE: u64 = 1;
const UC_SIGCONTEXT_SS: u64 = 2;
const UC_STRICT_RESTORE_SS: u64 = 4;

/// Flags that a program may set by sigreturn: arithmetic flags and direction.
const FLAGS_MASK: u64 = 0xcd5;
const FLAGS_SET: u64 = 0x202;

/// Where things go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The handler's stack pointer: address of the frame.
    pub frame: u64,
    /// 64-byte aligned.
    pub fpstate: u64,
    pub info: u64,
    pub context: u64,
}

/// Place a frame below `top`: the interrupted stack pointer, or the top of the alternate stack.
pub fn place(sp: u64, alternate: Option<u64>, state_size: u64) -> Place {
    let top = alternate.unwrap_or(sp.wrapping_sub(RED_ZONE));
    let fpstate = top.wrapping_sub(state_size + 4) & !63;
    // At its first instruction a function finds rsp + 8 aligned to 16.
    let frame = (fpstate.wrapping_sub(SIZE as u64) & !15).wrapping_sub(8);
    Place {
        frame,
        fpstate,
        info: frame.wrapping_add(SIGINFO as u64),
        context: frame.wrapping_add(UCONTEXT as u64),
    }
}

fn put(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

fn put32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

fn get(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

/// `siginfo_t`.
pub fn siginfo(info: &Info) -> [u8; 128] {
    let mut b = [0; 128];
    put32(&mut b, 0, info.signal);
    put32(&mut b, 8, info.code as u32);
    if info.fault {
        put(&mut b, 16, info.address);
        return b;
    }
    put32(&mut b, 16, info.pid);
    put32(&mut b, 20, info.uid);
    if info.signal == SIGCHLD && info.code > 0 {
        put32(&mut b, 24, info.value as u32);
    } else {
        put(&mut b, 24, info.value);
    }
    b
}

/// Read a `siginfo_t` that a program gave (rt_sigqueueinfo): code, value.
pub fn parse_siginfo(bytes: &[u8; 128]) -> (i32, u64) {
    (get(bytes, 8) as i32, get(bytes, 24))
}

/// The frame's bytes.
pub fn build(
    regs: &Frame,
    info: &Info,
    restorer: u64,
    mask: u64,
    alternate: &AltStack,
    place: &Place,
    extended: bool,
) -> [u8; SIZE] {
    let mut b = [0; SIZE];
    put(&mut b, 0, restorer);
    let flags = UC_SIGCONTEXT_SS | UC_STRICT_RESTORE_SS;
    put(
        &mut b,
        UCONTEXT,
        flags | if extended { UC_FP_XSTATE } else { 0 },
    );
    put(&mut b, STACK, alternate.base);
    put32(&mut b, STACK + 8, alternate.flags);
    put(&mut b, STACK + 16, alternate.size);
    for (i, value) in [
        regs.r8,
        regs.r9,
        regs.r10,
        regs.r11,
        regs.r12,
        regs.r13,
        regs.r14,
        regs.r15,
        regs.rdi,
        regs.rsi,
        regs.rbp,
        regs.rbx,
        regs.rdx,
        regs.rax,
        regs.rcx,
        regs.rsp,
        regs.rip,
        regs.rflags,
    ]
    .into_iter()
    .enumerate()
    {
        put(&mut b, REGISTERS + 8 * i, value);
    }
    b[SELECTORS..SELECTORS + 2].copy_from_slice(&(regs.cs as u16).to_le_bytes());
    b[SELECTORS + 6..SELECTORS + 8].copy_from_slice(&(regs.ss as u16).to_le_bytes());
    put(&mut b, TRAP, info.error);
    put(&mut b, TRAP + 8, info.vector);
    put(&mut b, TRAP + 16, mask);
    put(&mut b, TRAP + 24, if info.fault { info.address } else { 0 });
    put(&mut b, FPSTATE, place.fpstate);
    put(&mut b, MASK, mask);
    b[SIGINFO..].copy_from_slice(&siginfo(info));
    b
}

/// What sigreturn takes from a frame.
#[derive(Clone, Copy, Debug)]
pub struct Restored {
    pub mask: u64,
    pub fpstate: u64,
    pub alternate: AltStack,
}

/// Put the registers of a frame back into `regs`. Selectors stay ours; only harmless flags are taken.
pub fn restore(bytes: &[u8; SIZE], regs: &mut Frame) -> Restored {
    let word = |i: usize| get(bytes, REGISTERS + 8 * i);
    *regs = Frame {
        r8: word(0),
        r9: word(1),
        r10: word(2),
        r11: word(3),
        r12: word(4),
        r13: word(5),
        r14: word(6),
        r15: word(7),
        rdi: word(8),
        rsi: word(9),
        rbp: word(10),
        rbx: word(11),
        rdx: word(12),
        rax: word(13),
        rcx: word(14),
        rsp: word(15),
        rip: word(16),
        rflags: word(17) & FLAGS_MASK | FLAGS_SET,
        ..*regs
    };
    Restored {
        mask: get(bytes, MASK),
        fpstate: get(bytes, FPSTATE),
        alternate: AltStack {
            base: get(bytes, STACK),
            flags: get(bytes, STACK + 8) as u32,
            size: get(bytes, STACK + 16),
        },
    }
}

/// The trailer that tells of extended state, in the unused end of the legacy area, and the magic word behind the whole state.
pub fn software_bytes(mask: u64, size: u32) -> [u8; 48] {
    let mut b = [0; 48];
    put32(&mut b, 0, 0x4650_5853);
    put32(&mut b, 4, size + 4);
    put(&mut b, 8, mask);
    put32(&mut b, 16, size);
    b
}

pub const SOFTWARE_BYTES: u64 = 464;
pub const MAGIC2: u32 = 0x4650_5845;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_linux_s() {
        // From gcc's offsetof on <ucontext.h>: uc_mcontext 40, its fpregs 184 behind that, uc_sigmask 296.
        assert_eq!(REGISTERS - UCONTEXT, 40);
        assert_eq!(FPSTATE - REGISTERS, 184);
        assert_eq!(MASK - UCONTEXT, 296);
        assert_eq!(SIGINFO + 128, SIZE);
    }

    #[test]
    fn the_stack_is_aligned_for_a_function() {
        for sp in [0x7fff_1234u64, 0x7fff_1238, 0x7fff_1240] {
            let p = place(sp, None, 832);
            assert_eq!((p.frame + 8) % 16, 0);
            assert_eq!(p.fpstate % 64, 0);
            assert!(p.fpstate + 832 + 4 <= sp - 128);
            assert!(p.frame + SIZE as u64 <= p.fpstate);
        }
        assert!(place(0, Some(0x9000), 512).fpstate + 516 <= 0x9000);
        place(8, None, 832);
    }

    #[test]
    fn registers_survive() {
        let regs = Frame {
            rax: 1,
            rbx: 2,
            rip: 0x40_1000,
            rsp: 0x7000,
            rflags: 0x246,
            r11: 7,
            r15: 9,
            cs: 0x33,
            ss: 0x2b,
            ..Frame::default()
        };
        let info = Info {
            signal: 15,
            pid: 3,
            value: 77,
            ..Info::default()
        };
        let stack = AltStack::default();
        let place = place(regs.rsp, None, 512);
        let bytes = build(&regs, &info, 0x1234, 0xf0, &stack, &place, false);
        let mut back = Frame {
            cs: 0x33,
            ss: 0x2b,
            ..Frame::default()
        };
        let restored = restore(&bytes, &mut back);
        assert_eq!(
            (back.rax, back.rbx, back.rip, back.rsp),
            (1, 2, 0x40_1000, 0x7000)
        );
        assert_eq!((back.r11, back.r15, back.rflags), (7, 9, 0x246));
        assert_eq!((restored.mask, restored.fpstate), (0xf0, place.fpstate));
        assert_eq!(restored.alternate, stack);
        assert_eq!(parse_siginfo(&siginfo(&info)), (0, 77));
    }
}
