//! What runs between two readings of the time-stamp counter, on both sides: as little as a hand-written stub can do.
//!
//! Receiving threads begin with what they need in `rdi` (see [`Entry`]) and keep their selectors on the stack, because a receive leaves them no other register.

use cairn_abi::service::{current, receive, scheduler, semaphore};
use cairn_abi::{flag, op};
use core::arch::{asm, naked_asm};

/// A thread's first instruction. Bits 0 to 31 of the argument: the slot of its receive right; bits 32 to 63: of a portal to call.
pub type Entry = unsafe extern "C" fn(u64) -> !;

/// Bytes of the message that is copied: 64 words.
pub const PAYLOAD: usize = 512;

/// One traversal: time stamps before it and behind it (the lower halves), and the first word of the answer.
pub struct Timed {
    pub begin: u32,
    pub end: u32,
    pub word: u64,
}

impl Timed {
    /// Instructions, that of the traversal included, those of the measurement not.
    pub fn cost(&self) -> u32 {
        span(self.begin, self.end)
    }
}

/// What the measurement adds to the distance of two readings: the first of them and three moves.
const OWN: u32 = 4;

/// Instructions from a [`Timed`]'s begin to a reading that was the first instruction after what is measured.
pub fn span(begin: u32, end: u32) -> u32 {
    end.wrapping_sub(begin).wrapping_sub(OWN)
}

macro_rules! timed {
    ($traversal:literal, $selector:expr, $words:expr) => {{
        let [w0, w1, w2, w3, w4, w5, w6, w7] = $words;
        let (begin, end): (u64, u64);
        let mut word = w0;
        asm!(
            "rdtsc",
            "mov r14d, eax",
            "mov rax, r15",
            "mov rdx, r11",
            $traversal,
            "rdtsc",
            inout("rdi") word,
            inout("rsi") w1 => _,
            inout("r11") w2 => _,
            inout("r10") w3 => _,
            inout("r8") w4 => _,
            inout("r9") w5 => _,
            inout("r12") w6 => _,
            inout("r13") w7 => _,
            inout("r15") $selector => _,
            out("r14") begin,
            out("rax") end,
            out("rdx") _,
            out("rcx") _,
            options(nostack),
        );
        Timed { begin: begin as u32, end: end as u32, word }
    }};
}

/// Traverse a portal with these words.
///
/// # Safety
/// As for `Gate::traverse`: words may be addresses to the operation.
#[inline(never)]
pub unsafe fn timed(selector: u64, words: [u64; 8]) -> Timed {
    // SAFETY: the gate changes only the registers named; the caller vouches for the words.
    unsafe { timed!("syscall", selector, words) }
}

/// A reading of the counter.
pub fn now() -> u32 {
    // SAFETY: the instruction changes the two registers that it answers in.
    unsafe { core::arch::x86_64::_rdtsc() as u32 }
}

/// The same without a traversal: 0, if [`OWN`] is right.
#[inline(never)]
pub fn empty() -> u32 {
    // SAFETY: moves between registers that are named.
    let timed = unsafe { timed!("", 0u64, [0; 8]) };
    timed.cost()
}

/// Call with parts and no words.
///
/// # Safety
/// The second part must be memory that the other side may write to until this returns.
#[inline(never)]
pub unsafe fn timed_parts(selector: u64, out: (u64, u64), input: (u64, u64)) -> Timed {
    let (begin, end): (u64, u64);
    // SAFETY: rbx and rbp are put back; the caller vouches for the parts.
    unsafe {
        asm!(
            "push rbx",
            "push rbp",
            "mov rbx, r8",
            "mov rbp, r9",
            "rdtsc",
            "push rax",
            "mov rax, rcx",
            "xor edx, edx",
            "syscall",
            "rdtsc",
            "pop rcx",
            "pop rbp",
            "pop rbx",
            inout("rcx") selector | flag::PARTS => begin,
            inout("r14") out.0 => _,
            inout("r15") out.1 => _,
            inout("r8") input.0 => _,
            inout("r9") input.1 => _,
            out("rax") end,
            out("rdx") _,
            out("rsi") _,
            out("rdi") _,
            out("r10") _,
            out("r11") _,
            out("r12") _,
            out("r13") _,
        );
    }
    Timed {
        begin: begin as u32,
        end: end as u32,
        word: 0,
    }
}

/// What a receive delivered, and when.
pub struct Stamped {
    pub stamp: u64,
    pub words: [u64; 8],
}

/// Receive; the time stamp is that of the first instruction behind it. (The third word is lost: nobody here needs it.)
pub fn receive_stamped(slot: u32) -> Stamped {
    let mut words = [0; 8];
    let (low, high): (u64, u64);
    // SAFETY: a receive writes registers only; rbx and rbp are put back.
    unsafe {
        asm!(
            "push rbx",
            "push rbp",
            "syscall",
            "rdtsc",
            "pop rbp",
            "pop rbx",
            inout("rax") (receive::RECEIVE as u64) << 32 | slot as u64 => low,
            out("rdx") high,
            out("rcx") _,
            inout("rdi") 0u64 => words[0],
            inout("rsi") 0u64 => words[1],
            inout("r10") 0u64 => words[3],
            inout("r8") 0u64 => words[4],
            inout("r9") 0u64 => words[5],
            inout("r12") 0u64 => words[6],
            inout("r13") 0u64 => words[7],
            out("r11") _,
            out("r14") _,
            out("r15") _,
        );
    }
    Stamped {
        stamp: high << 32 | low & u32::MAX as u64,
        words,
    }
}

/// A receiving thread: its selector for replying and receiving is at [rsp], one for calling at [rsp + 8]. `$turn` begins with a message received and ends with the
/// next reply and receive.
macro_rules! receiver {
    ($name:ident, $what:literal, $reply_flags:expr, $turn:expr) => {
        #[doc = $what]
        ///
        /// # Safety
        /// Only as a thread's first instruction.
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name(_: u64) -> ! {
            naked_asm!(
                "sub rsp, 32",
                "mov rcx, rdi",
                "shr rcx, 32",
                "mov [rsp + 8], rcx",
                "mov ecx, edi",
                "mov rax, {reply_receive}",
                "or rax, rcx",
                "mov [rsp], rax",
                "mov rax, {receive}",
                "or rax, rcx",
                "mov [rsp + 16], rax",
                "lea rdx, [rsp - {payload} - 64]",
                "mov [rsp + 24], rdx",
                "syscall",
                "2:",
                $turn,
                "jmp 2b",
                reply_receive = const (receive::REPLY_RECEIVE as u64) << 32 | $reply_flags,
                receive = const (receive::RECEIVE as u64) << 32,
                payload = const PAYLOAD,
            )
        }
    };
}

receiver!(
    echo,
    "Replies with the words that came.",
    0u64,
    "mov rax, [rsp]
     syscall"
);
receiver!(
    looker,
    "Asks the nucleus what the portal that came with the message stands for, closes it, and replies.",
    0u64,
    "mov rdi, r13
     mov rax, 0xa00000000
     syscall
     mov rdi, r13
     mov rax, 0x800000000
     syscall
     mov rax, [rsp]
     syscall"
);
const _: () = assert!(current::PORTAL_INFO == 0xa && current::PORTAL_CLOSE == 0x8);
receiver!(
    stamp,
    "Replies with the time stamp of its first instruction.",
    0u64,
    "rdtsc
     mov edi, eax
     mov rax, [rsp]
     syscall"
);
receiver!(
    forward,
    "Calls on with the words that came, and replies with the answer.",
    0u64,
    "mov rax, [rsp + 8]
     syscall
     mov rax, [rsp]
     syscall"
);
receiver!(
    answer_data,
    "Replies with a payload.",
    flag::PARTS,
    "xor ebx, ebx
     mov r14, [rsp + 24]
     mov r15d, 512
     mov rax, [rsp]
     syscall"
);
receiver!(
    waiter,
    "Keeps the time stamp of its first instruction after a pulse, and replies to a message with the last one.",
    0u64,
    "rdtsc
     test rbp, rbp
     jnz 3f
     mov [rsp + 8], rax
     mov rax, [rsp + 16]
     syscall
     jmp 2b
     3:
     mov rdi, [rsp + 8]
     mov rax, [rsp]
     syscall"
);

/// Reads the caller's payload, then replies.
///
/// # Safety
/// Only as a thread's first instruction.
#[unsafe(naked)]
pub unsafe extern "C" fn read_data(_: u64) -> ! {
    naked_asm!(
        "sub rsp, 32",
        "mov ecx, edi",
        "mov rax, {reply_receive}",
        "or rax, rcx",
        "mov [rsp], rax",
        "mov rax, {read}",
        "or rax, rcx",
        "mov [rsp + 8], rax",
        "mov rax, {receive}",
        "or rax, rcx",
        "syscall",
        "2:",
        "mov rdi, rbp",
        "xor esi, esi",
        "lea rdx, [rsp - 1024]",
        "mov r10d, {payload}",
        "xor r8d, r8d",
        "mov rax, [rsp + 8]",
        "syscall",
        "mov rax, [rsp]",
        "syscall",
        "jmp 2b",
        reply_receive = const (receive::REPLY_RECEIVE as u64) << 32,
        read = const (receive::READ as u64) << 32,
        receive = const (receive::RECEIVE as u64) << 32,
        payload = const PAYLOAD,
    )
}

/// Told a number by a call, it answers and yields so often.
///
/// # Safety
/// Only as a thread's first instruction.
#[unsafe(naked)]
pub unsafe extern "C" fn yielder(_: u64) -> ! {
    naked_asm!(
        "sub rsp, 32",
        "mov ecx, edi",
        "mov rax, {reply}",
        "or rax, rcx",
        "mov [rsp], rax",
        "mov rax, {receive}",
        "or rax, rcx",
        "mov [rsp + 8], rax",
        "2:",
        "mov rax, [rsp + 8]",
        "syscall",
        "mov rbx, rdi",
        "mov [rsp + 16], rbx",
        "xor ebx, ebx",
        "mov rax, [rsp]",
        "syscall",
        "mov rbx, [rsp + 16]",
        "3:",
        "mov rax, {yield_}",
        "syscall",
        "dec rbx",
        "jnz 3b",
        "jmp 2b",
        reply = const (receive::REPLY as u64) << 32,
        receive = const (receive::RECEIVE as u64) << 32,
        yield_ = const (current::YIELD as u64) << 32,
    )
}

/// Calls the portal in the upper half of its argument for ever.
///
/// # Safety
/// Only as a thread's first instruction.
#[unsafe(naked)]
pub unsafe extern "C" fn caller(_: u64) -> ! {
    naked_asm!(
        "mov rbx, rdi",
        "shr rbx, 32",
        "2:",
        "mov eax, ebx",
        "syscall",
        "jmp 2b",
    )
}

/// What [`scheduler`] knows of a member. Its address is the member's badge.
#[repr(C)]
pub struct Member {
    /// Its call, which is answered when its turn comes.
    pub token: u64,
    pub id: u64,
    /// Whose turn comes behind its own.
    pub next: *const Member,
}

/// A scheduler: whoever calls gives the turn to the next, whose call is answered then. The first member of all, to whom `rdi` leads, runs when anybody is
/// ready; nobody does when somebody waits otherwise.
/// In front of that member is the slot of the receive right.
///
/// # Safety
/// Only as a thread's first instruction.
#[unsafe(naked)]
pub unsafe extern "C" fn scheduler(_: u64) -> ! {
    naked_asm!(
        "push rdi",
        "mov ecx, [rdi - 8]",
        "mov rax, {dispatch}",
        "or rax, rcx",
        "push rax",
        "xor esi, esi",
        "jmp 4f",
        "2:",
        "test rbp, rbp",
        "jz 4f",
        "mov [rbx + {token}], rbp",
        "mov rcx, [rbx + {next}]",
        "mov rbp, [rcx + {token}]",
        "mov rbx, [rcx + {id}]",
        "3:",
        "xor r15d, r15d",
        "mov rax, [rsp]",
        "syscall",
        "jmp 2b",
        "4:",
        "xor ebp, ebp",
        "xor ebx, ebx",
        // Nothing was received: the first member has not come yet, or has left.
        "test al, al",
        "jnz 3b",
        "cmp esi, {ready}",
        "jne 3b",
        "mov rcx, [rsp + 8]",
        "mov rbx, [rcx + {id}]",
        "jmp 3b",
        dispatch = const (receive::DISPATCH as u64) << 32,
        ready = const scheduler::READY,
        token = const core::mem::offset_of!(Member, token),
        id = const core::mem::offset_of!(Member, id),
        next = const core::mem::offset_of!(Member, next),
    )
}

/// Ends at once.
///
/// # Safety
/// Only as a thread's first instruction.
#[unsafe(naked)]
pub unsafe extern "C" fn end(_: u64) -> ! {
    naked_asm!(
        "mov rax, {exit}",
        "syscall",
        "ud2",
        exit = const (current::EXIT as u64) << 32,
    )
}

/// What [`exceptions`] measures with: rdtsc and a move between its readings.
const EXCEPTION_OWN: u32 = 2;

/// Raises breakpoint exceptions, writes to where `rdi` leads how many instructions each took (rsi of them, 32 bits each), and ends. For a domain with [`resume`] as upcall entry.
///
/// # Safety
/// Only as a thread's first instruction, with room for the samples.
#[unsafe(naked)]
pub unsafe extern "C" fn exceptions(_: u64) -> ! {
    naked_asm!(
        "mov ebx, {count}",
        "2:",
        "rdtsc",
        "mov r14d, eax",
        "int3",
        "rdtsc",
        "sub eax, r14d",
        "sub eax, {own}",
        "mov [rdi], eax",
        "add rdi, 4",
        "dec ebx",
        "jnz 2b",
        "mov rax, {exit}",
        "syscall",
        "ud2",
        count = const super::samples::COUNT,
        own = const EXCEPTION_OWN,
        exit = const (current::EXIT as u64) << 32,
    )
}

/// An upcall entry that goes on with the saved registers.
///
/// # Safety
/// Only as upcall entry.
#[unsafe(naked)]
pub unsafe extern "C" fn resume(_: u64) -> ! {
    naked_asm!(
        "mov rax, {upcall_return}",
        "xor edi, edi",
        "syscall",
        "ud2",
        upcall_return = const (current::UPCALL_RETURN as u64) << 32,
    )
}

const _: () = assert!(op::CALL == 0);

/// A thread that hands on what it waits for: its argument is the slot of the semaphore that it waits for, and in the upper half that of the next one's.
///
/// # Safety
/// Only as a thread's first instruction.
#[unsafe(naked)]
pub unsafe extern "C" fn ringer(_: u64) -> ! {
    naked_asm!(
        "mov ebx, edi",
        "mov rbp, rdi",
        "shr rbp, 32",
        "mov eax, ebx",
        "syscall",
        "2:",
        "mov rdi, rbx",
        "mov rax, {hand_on}",
        "or rax, rbp",
        "syscall",
        "jmp 2b",
        hand_on = const (semaphore::V_THEN_P as u64) << 32,
    )
}
const _: () = assert!(semaphore::P == 0);
