//! `struct rt_sigframe` of Linux x86-64, as words: return address, `ucontext`, `siginfo`. (Layout: arch/x86/include/uapi/asm/sigcontext.h, ucontext.h, the x86-64 psABI for the red zone.)

use super::{AltStack, Info, SIGCHLD, SIGSYS};
use crate::machine::area::Frame;

/// The whole frame in words, without the floating-point state that lies above it.
pub const WORDS: usize = 55;
/// Bytes of it.
const SIZE: usize = WORDS * 8;
/// Of it, up to what sigreturn does not look at.
pub type Context = [u64; SIGINFO];
/// Words of the frame.
const UCONTEXT: usize = 1;
const STACK: usize = UCONTEXT + 2;
const REGISTERS: usize = UCONTEXT + 5;
const FPSTATE: usize = REGISTERS + 18 + 5;
const MASK: usize = UCONTEXT + 37;
const SIGINFO: usize = MASK + 1;
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
        info: frame.wrapping_add(SIGINFO as u64 * 8),
        context: frame.wrapping_add(UCONTEXT as u64 * 8),
    }
}

/// Two halves of a word.
const fn halves(low: u32, high: u32) -> u64 {
    low as u64 | (high as u64) << 32
}

/// `siginfo_t`.
#[inline]
pub fn siginfo(info: &Info) -> [u64; 16] {
    let (from, value) = if info.signal == SIGSYS && info.fault {
        (info.address, info.value)
    } else if info.fault {
        (info.address, 0)
    } else if info.signal == SIGCHLD && info.code > 0 {
        (halves(info.pid, info.uid), info.value & u32::MAX as u64)
    } else {
        (halves(info.pid, info.uid), info.value)
    };
    let (signal, code) = (halves(info.signal, info.errno), info.code as u32 as u64);
    [
        signal, code, from, value, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    ]
}

/// Read a `siginfo_t` that a program gave (rt_sigqueueinfo): code, value.
pub fn parse_siginfo(words: &[u64; 16]) -> (i32, u64) {
    (words[1] as i32, words[3])
}

/// The frame's words.
#[inline]
pub fn build(
    regs: &Frame,
    info: &Info,
    restorer: u64,
    mask: u64,
    alternate: &AltStack,
    place: &Place,
    extended: bool,
) -> [u64; WORDS] {
    let flags = UC_SIGCONTEXT_SS | UC_STRICT_RESTORE_SS;
    let flags = flags | if extended { UC_FP_XSTATE } else { 0 };
    let selectors = u64::from(regs.cs as u16) | u64::from(regs.ss as u16) << 48;
    let address = if info.fault { info.address } else { 0 };
    let [s0, s1, s2, s3, ..] = siginfo(info);
    [
        restorer,
        // ucontext: flags, link, stack
        flags,
        0,
        alternate.base,
        u64::from(alternate.flags),
        alternate.size,
        // sigcontext
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
        selectors,
        info.error,
        info.vector,
        mask,
        address,
        place.fpstate,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        // uc_sigmask
        mask,
        // siginfo
        s0,
        s1,
        s2,
        s3,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
    ]
}

/// What sigreturn takes from a frame.
#[derive(Clone, Copy, Debug)]
pub struct Restored {
    pub mask: u64,
    pub fpstate: u64,
    pub alternate: AltStack,
}

/// Put the registers of a frame back into `regs`. Selectors stay ours; only harmless flags are taken.
#[inline]
pub fn restore(context: &Context, regs: &mut Frame) -> Restored {
    let word = |i: usize| context[REGISTERS + i];
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
        mask: context[MASK],
        fpstate: context[FPSTATE],
        alternate: AltStack {
            base: context[STACK],
            flags: context[STACK + 1] as u32,
            size: context[STACK + 2],
        },
    }
}

/// What tells of extended state, in the unused end of the legacy area: mask and size; and behind it the header, which XSAVE wants to be zeroes.
pub fn software_words(mask: u64, size: u32) -> [u64; 14] {
    let size_word = u64::from(size);
    [
        halves(0x4650_5853, size + 4),
        mask,
        size_word,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
    ]
}

/// The same's place, and the magic word behind the whole state.
pub const SOFTWARE: u64 = 464;
pub const MAGIC2: u32 = 0x4650_5845;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_linux_s() {
        // From gcc's offsetof on <ucontext.h>: uc_mcontext 40, its fpregs 184 behind that, uc_sigmask 296.
        assert_eq!((REGISTERS - UCONTEXT) * 8, 40);
        assert_eq!((FPSTATE - REGISTERS) * 8, 184);
        assert_eq!((MASK - UCONTEXT) * 8, 296);
        assert_eq!(SIGINFO * 8 + 128, SIZE);
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
        let frame = build(&regs, &info, 0x1234, 0xf0, &stack, &place, false);
        let context = frame.first_chunk().unwrap();
        let mut back = Frame {
            cs: 0x33,
            ss: 0x2b,
            ..Frame::default()
        };
        let restored = restore(context, &mut back);
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
