//! The way in for interrupts of devices: vectors of sources ([`super::interrupts`]) from a program, while idle, or where an entry lets them in ([`glue::let_in`]).
//!
//! An interrupt whose driver waits for it with nothing unusual about either is served here, from the first instruction to the driver's: [`crate::quick_interrupt`] says what that
//! is and when the portable part lets us. Everything else goes on in [`super::glue::on_trap`], with the interrupted thread's registers stored and nothing else changed.
//!
//! A way is a line of constants for each vector. It is right as long as it is there; whether the driver waits now shows one comparison, of its channel's `plain`.

use super::apic;
use super::descriptors::{PerCpu, Single, VECTORS};
use super::entry::leave;
use super::float::FloatState;
use super::glue::{self, KERNEL};
use super::interrupts::FIRST_LINE;
use super::memory::{self, CODE_AREA, CODE_SIZE};
use super::Machine;
use crate::channel::Channel;
use crate::dispatch::CHAIN;
use crate::domain::Domain;
use crate::interrupt::Binding;
use crate::pool::{BlockRef, Pool, ThreadRef};
use crate::portal::code::Block;
use crate::queue::{Link, List};
use crate::quick::LINKS;
use crate::quick_interrupt::Way;
use crate::thread::{Sending, State, Thread, USER_FLAGS};
use crate::Kernel;
use cairn_abi::service::memory::pool;
use cairn_abi::state::Registers;
use cairn_abi::{flag, pulse, received};
use core::arch::naked_asm;
use core::mem::{offset_of, size_of};

type Nucleus = Kernel<Machine>;
type MachineThread = Thread<FloatState>;
type Blocks = Pool<BlockRef, Block>;

/// What the code below wants to know of a source. Addresses, but for what is said.
#[repr(C)]
struct Line {
    /// `plain` of the driver's channel, and what is there while the driver waits (no channel's: nobody waits).
    place: *const u64,
    plain: u64,
    driver: usize,
    domain: usize,
    binding: usize,
    owed: usize,
    /// Its state here: not masked, the byte is zero.
    masked: *mut bool,
    badge: u64,
    /// Numbers.
    driver_index: u32,
    domain_index: u32,
}

static NOBODY: Single<u64> = Single::new(0);

impl Line {
    const NONE: Line = Line {
        place: NOBODY.get(),
        plain: u64::MAX,
        driver: 0,
        domain: 0,
        binding: 0,
        owed: 0,
        masked: core::ptr::null_mut(),
        badge: 0,
        driver_index: 0,
        domain_index: 0,
    };
}

/// Of the vectors from [`FIRST_LINE`] on.
static LINES: Single<[Line; VECTORS - FIRST_LINE as usize]> =
    Single::new([Line::NONE; VECTORS - FIRST_LINE as usize]);

/// Serve this vector here from now on (`masked` is where its source's state is), or no longer.
#[inline(never)]
pub fn set(vector: u8, way: Option<(&Way, *mut bool)>) {
    // SAFETY: the nucleus does one thing at a time, and the code below does not run now.
    let lines = unsafe { &mut *LINES.get() };
    if let Some(line) = lines.get_mut(vector.wrapping_sub(FIRST_LINE) as usize) {
        *line = match way {
            None => Line::NONE,
            Some((way, masked)) => Line {
                place: (way.channel + offset_of!(Channel, plain)) as *const u64,
                plain: way.plain,
                driver: way.driver,
                domain: way.domain,
                binding: way.binding,
                owed: way.owed,
                masked,
                badge: way.badge,
                driver_index: way.driver_index,
                domain_index: way.domain_index,
            },
        };
    }
}

/// Serve no vector here until [`set`] says so.
pub fn forget_all() {
    // SAFETY: as in `set`.
    let lines = unsafe { &mut *LINES.get() };
    // Most vectors have none: one entry of the nucleus goes over all of them.
    for line in lines.iter_mut().filter(|line| line.driver != 0) {
        *line = Line::NONE;
    }
}

/// Behind the stubs of sources' vectors: the distance from the first of them and, without an error code, the processor's frame are on the stack.
///
/// # Safety
/// Reached from the stubs only.
#[unsafe(naked)]
pub unsafe extern "C" fn interrupted() {
    naked_asm!(
        "test byte ptr [rsp + 16], 3",
        "jz 24f",
        "swapgs",
        "push r15",
        "mov r15, gs:[{registers}]",
        "mov [r15 + {rax}], rax",
        "mov [r15 + {rbx}], rbx",
        "mov [r15 + {rcx}], rcx",
        "mov [r15 + {rdx}], rdx",
        "mov [r15 + {rsi}], rsi",
        "mov [r15 + {rdi}], rdi",
        "mov [r15 + {rbp}], rbp",
        "mov [r15 + {r8}], r8",
        "mov [r15 + {r9}], r9",
        "mov [r15 + {r10}], r10",
        "mov [r15 + {r11}], r11",
        "mov [r15 + {r12}], r12",
        "mov [r15 + {r13}], r13",
        "mov [r15 + {r14}], r14",
        "pop rcx",
        "mov [r15 + {r15}], rcx",
        "pop rdi",
        "mov rcx, [rsp]",
        "mov [r15 + {rip}], rcx",
        "mov rcx, [rsp + 16]",
        "mov [r15 + {rflags}], rcx",
        "mov rcx, [rsp + 24]",
        "mov [r15 + {rsp}], rcx",
        // The line's number is in rdi and rbx, r15 leads to the interrupted thread, or is 0. Does the driver wait plainly? rdi = line, rbp = driver, r8 = its domain, esi = its priority.
        "7:",
        "mov ebx, edi",
        "imul edi, edi, {line_size}",
        "add rdi, offset {lines}",
        "mov rcx, [rdi + {place}]",
        "mov rdx, [rdi + {plain}]",
        "cmp rdx, [rcx]",
        "jne 5f",
        "mov r8, [rdi + {driver_domain}]",
        "cmp dword ptr [r8 + {domain_unusual}], 0",
        "jne 5f",
        "mov rbp, [rdi + {driver}]",
        "movzx esi, byte ptr [rbp + {effective}]",
        "cmp si, word ptr [rip + {kernel} + {top}]",
        "jle 5f",
        "mov rdx, [rdi + {masked}]",
        "cmp byte ptr [rdx], 0",
        "jne 5f",
        "test r15, r15",
        "jz 25f",
        "cmp qword ptr [r15 + {reply_code}], offset portal_receive",
        "jne 6f",
        "cmp sil, [r15 + {effective}]",
        "jbe 5f",
        "10:",
        "mov dword ptr gs:[{links}], {all_links}",
        // Decided: the source is masked and acknowledged, the driver owes. rsi = how many interrupts it is told.
        "11:",
        "mov byte ptr [rdx], 1",
        "mov rdx, [rip + {apic}]",
        "test rdx, rdx",
        "jz 21f",
        "mov dword ptr [rdx + {end_of_interrupt}], 0",
        "12:",
        "inc qword ptr [rip + {kernel} + {interrupts}]",
        "mov rdx, [rdi + {binding}]",
        "inc qword ptr [rdx + {arrived}]",
        "inc qword ptr [rdx + {made}]",
        "mov rsi, [rdx + {count}]",
        "inc rsi",
        "mov qword ptr [rdx + {count}], 0",
        "mov byte ptr [rdx + {owes}], 1",
        "mov rdx, [rdi + {owed}]",
        "mov byte ptr [rdx], 1",
        // The time so far is the interrupted thread's, or that of the program for which it works.
        "rdtsc",
        "shl rdx, 32",
        "or rax, rdx",
        "mov r9, rax",
        "test r15, r15",
        "jz 26f",
        "sub rax, [rip + {kernel} + {since}]",
        "jb 8f",
        "mov [rip + {kernel} + {since}], r9",
        "cmp dword ptr [r15 + {client}], 0",
        "jne 9f",
        "add [r15 + {ticks}], rax",
        "mov rdx, gs:[{cpu_domain}]",
        "14:",
        "add [rdx + {domain_ticks}], rax",
        "15:",
        // It is the first of its priority.
        "mov r9d, [rip + {kernel} + {current}]",
        "mov rdx, [rip + {kernel} + {slice_end}]",
        "test rdx, rdx",
        "jz 16f",
        "mov [rip + {kernel} + {cut_end}], rdx",
        "mov [rip + {kernel} + {cut}], r9d",
        "16:",
        "mov byte ptr [r15 + {full}], 1",
        "mov byte ptr [r15 + {state}], {ready}",
        "movzx edx, byte ptr [r15 + {effective}]",
        "mov [rip + {kernel} + {top}], dx",
        "bts qword ptr [rip + {kernel} + {occupied}], rdx",
        "shl edx, {list_shift}",
        "add rdx, [rip + {kernel} + {lists}]",
        "mov eax, [rdx]",
        "mov [rdx], r9d",
        "mov dword ptr [r15 + {link}], 0",
        "mov [r15 + {link} + 4], eax",
        "test eax, eax",
        "jnz 17f",
        "mov [rdx + 4], r9d",
        // The driver waits no longer: it runs, with the pulse in its registers.
        "18:",
        "mov qword ptr [rcx], 0",
        "mov qword ptr [rcx + {receivers} - {channel_plain}], 0",
        "mov ecx, [rdi + {driver_index}]",
        "mov [rip + {kernel} + {current}], ecx",
        "mov [rip + {kernel} + {loaded}], ecx",
        "mov qword ptr [rip + {kernel} + {slice_end}], 0",
        "mov byte ptr [rbp + {state}], {running}",
        "mov dword ptr [rbp + {channel}], 0",
        "mov gs:[{registers}], rbp",
        "inc qword ptr [rip + {kernel} + {thread_switches}]",
        "mov gs:[{cpu_domain}], r8",
        "mov qword ptr gs:[{turn_base}], 0",
        "mov ecx, [rdi + {domain_index}]",
        "mov [rip + {kernel} + {loaded_domain}], ecx",
        "mov ecx, [r8 + {root}]",
        "cmp ecx, [rip + {kernel} + {active}]",
        "je 13f",
        "mov [rip + {kernel} + {active}], ecx",
        "shl rcx, 12",
        "mov cr3, rcx",
        "inc qword ptr [rip + {kernel} + {space_switches}]",
        "13:",
        "mov rcx, [rbp + {rip}]",
        "mov rsp, [rbp + {rsp}]",
        "mov rbx, [rdi + {badge}]",
        "mov r11d, {user_flags}",
        "mov edi, {interrupt_pulse}",
        "movabs rax, {received_pulse}",
        "xor edx, edx",
        "xor ebp, ebp",
        "xor r8d, r8d",
        "xor r9d, r9d",
        "xor r10d, r10d",
        "xor r12d, r12d",
        "xor r13d, r13d",
        "xor r14d, r14d",
        "xor r15d, r15d",
        "swapgs",
        "sysretq",
        // Somebody else was the first.
        "17:",
        "cdqe",
        "mov [rax + {link}], r9d",
        "jmp 18b",
        // The counter went back: no time has passed.
        "8:",
        "mov [rip + {kernel} + {since}], r9",
        "jmp 15b",
        // Who pays is the first in the chain of callers.
        "9:",
        "movsxd r10, dword ptr [r15 + {client}]",
        "mov r11d, {chain}",
        "20:",
        "cmp dword ptr [r10 + {client}], 0",
        "je 19f",
        "dec r11d",
        "jz 19f",
        "movsxd r10, dword ptr [r10 + {client}]",
        "jmp 20b",
        "19:",
        "add [r10 + {ticks}], rax",
        "movsxd rdx, dword ptr [r10 + {domain}]",
        "jmp 14b",
        // The end of an interrupt where the local APIC has no registers in memory.
        "21:",
        "mov r9, rcx",
        "mov ecx, {end_msr}",
        "xor eax, eax",
        "xor edx, edx",
        "wrmsr",
        "mov rcx, r9",
        "jmp 12b",
        // While idle: if there is really nobody who runs.
        "25:",
        "cmp dword ptr [rip + {kernel} + {current}], 0",
        "je 11b",
        // Not on this way: the general path, with the line from rbx and no error code, and nothing unsettled.
        "5:",
        "test r15, r15",
        "jz 28f",
        "cmp qword ptr [r15 + {reply_code}], offset portal_receive",
        "jne 22f",
        "28:",
        "lea edi, [rbx + {first_line}]",
        "xor esi, esi",
        "mov rsp, gs:[{stack}]",
        "cld",
        "clac",
        "call [rip + {on_trap}]",
        "jmp {leave}",
        // The idle time ends, the driver's begins.
        "26:",
        "mov [rip + {kernel} + {since}], rax",
        "sub rax, [rip + {kernel} + {idle_since}]",
        "jb 29f",
        "add [rip + {kernel} + {idle_ticks}], rax",
        "29:",
        "mov qword ptr [rip + {kernel} + {idle_since}], 0",
        "jmp 18b",
        // In the nucleus, whose GS it is. While idle nobody's registers are worth anything. Where an entry lets interrupts in, the running thread's are stored, and it shall do its `syscall`
        // again; the rest is as if it had been interrupted there.
        "24:",
        "mov edi, [rsp]",
        "mov r15, gs:[{registers}]",
        "test r15, r15",
        "jz 7b",
        "sub qword ptr [r15 + {rip}], 2",
        "jmp 7b",
        // A quick call is under way. If it is one, and the driver runs, it is settled here: what `Kernel::settle_link` does. The caller is the current thread, with the priority at which its server works.
        "6:",
        "movsxd r10, dword ptr [rip + {kernel} + {current}]",
        "cmp r10, [r15 + {quick_client}]",
        "jne 22f",
        "mov r13b, [r10 + {effective}]",
        "cmp sil, r13b",
        "jbe 22f",
        // Its block.
        "mov rax, [r15 + {reply_code}]",
        "sub rax, {code_area}",
        "cmp rax, {code_size}",
        "jae 22f",
        "imul rax, rax, {reciprocal}",
        "shr rax, {reciprocal_bits}",
        "imul rax, rax, {block_size}",
        "add rax, {blocks}",
        "mov r11, [rax + {block_badge}]",
        "mov [r10 + {thread_badge}], r11",
        "mov r11, [rax + {block_selector}]",
        "mov [r10 + {rax}], r11",
        "bt r11, {parts_bit}",
        "jc 23f",
        "mov qword ptr [r10 + {parts}], 0",
        "23:",
        "mov qword ptr [r10 + {rflags}], {user_flags}",
        "mov byte ptr [r10 + {sending}], {message}",
        "mov byte ptr [r10 + {state}], {held}",
        "movsxd r12, dword ptr [r15 + {serving}]",
        "mov [r10 + {channel}], r12d",
        "mov [r10 + {server}], r15d",
        "mov qword ptr [r12 + {receivers}], 0",
        "mov qword ptr [r15 + {reply_code}], offset portal_receive",
        "mov [r15 + {client}], r10d",
        "mov [r15 + {effective}], r13b",
        "mov dword ptr [r15 + {channel}], 0",
        // The server is the current thread, and no space is the one in use until the driver's is.
        "mov [rip + {kernel} + {current}], r15d",
        "mov dword ptr [rip + {kernel} + {active}], 0",
        "dec qword ptr gs:[{direct}]",
        "jmp 10b",
        // All that are under way, by the portable part. (With several cores it does so later, and there are no lines.)
        "22:",
        "mov rsp, gs:[{stack}]",
        "cld",
        "clac",
        "call {settle}",
        "cmp qword ptr [r15 + {reply_code}], offset portal_receive",
        "jne 28b",
        "mov edi, ebx",
        "jmp 7b",
        line_size = const size_of::<Line>(),
        lines = sym LINES,
        place = const offset_of!(Line, place),
        plain = const offset_of!(Line, plain),
        driver = const offset_of!(Line, driver),
        driver_domain = const offset_of!(Line, domain),
        binding = const offset_of!(Line, binding),
        owed = const offset_of!(Line, owed),
        masked = const offset_of!(Line, masked),
        kernel = sym KERNEL,
        apic = sym apic::REGISTERS,
        end_of_interrupt = const apic::END_OF_INTERRUPT,
        end_msr = const 0x800 + (apic::END_OF_INTERRUPT >> 4),
        interrupts = const offset_of!(Nucleus, counters.interrupts),
        arrived = const offset_of!(Binding, arrived),
        made = const offset_of!(Binding, pulses),
        count = const offset_of!(Binding, count),
        owes = const offset_of!(Binding, owes),
        since = const offset_of!(Nucleus, dispatch.since),
        idle_since = const offset_of!(Nucleus, dispatch.idle_since),
        idle_ticks = const offset_of!(Nucleus, counters.idle),
        current = const offset_of!(Nucleus, dispatch.current),
        top = const offset_of!(Nucleus, dispatch.ready.top),
        domain_unusual = const offset_of!(Domain<Machine>, unusual),
        effective = const offset_of!(MachineThread, effective),
        registers = const offset_of!(PerCpu, registers),
        rip = const offset_of!(Registers, rip),
        first_line = const FIRST_LINE,
        badge = const offset_of!(Line, badge),
        driver_index = const offset_of!(Line, driver_index),
        domain_index = const offset_of!(Line, domain_index),
        root = const offset_of!(Domain<Machine>, root),
        thread_switches = const offset_of!(Nucleus, counters.thread_switches),
        space_switches = const offset_of!(Nucleus, arch.space_switches),
        channel_plain = const offset_of!(Channel, plain),
        receivers = const offset_of!(Channel, receivers),
        loaded = const offset_of!(Nucleus, dispatch.loaded),
        loaded_domain = const offset_of!(Nucleus, dispatch.loaded_domain),
        slice_end = const offset_of!(Nucleus, dispatch.slice_end),
        active = const offset_of!(Nucleus, arch.active),
        state = const offset_of!(MachineThread, state),
        channel = const offset_of!(MachineThread, channel),
        running = const State::Running as u8,
        user_flags = const USER_FLAGS,
        interrupt_pulse = const pulse::INTERRUPT,
        received_pulse = const (received::kind::PULSE as u64) << received::KIND_SHIFT,
        stack = const offset_of!(PerCpu, stack),
        cpu_domain = const offset_of!(PerCpu, domain),
        turn_base = const offset_of!(PerCpu, turn_base),
        on_trap = sym super::traced::ON_TRAP,
        leave = sym leave,
        rsp = const offset_of!(Registers, rsp),
        cut = const offset_of!(Nucleus, dispatch.cut),
        cut_end = const offset_of!(Nucleus, dispatch.cut_end),
        occupied = const offset_of!(Nucleus, dispatch.ready.occupied),
        lists = const offset_of!(Nucleus, dispatch.ready.lists),
        list_shift = const size_of::<List>().trailing_zeros(),
        domain_ticks = const offset_of!(Domain<Machine>, ticks),
        chain = const CHAIN,
        full = const offset_of!(MachineThread, full),
        client = const offset_of!(MachineThread, client),
        domain = const offset_of!(MachineThread, domain),
        ticks = const offset_of!(MachineThread, ticks),
        link = const offset_of!(MachineThread, link),
        reply_code = const offset_of!(MachineThread, reply_code),
        links = const offset_of!(PerCpu, links),
        all_links = const LINKS,
        ready = const State::Ready as u8,
        settle = sym glue::settle,
        quick_client = const offset_of!(MachineThread, quick_client),
        thread_badge = const offset_of!(MachineThread, badge),
        parts = const offset_of!(MachineThread, parts),
        sending = const offset_of!(MachineThread, sending),
        serving = const offset_of!(MachineThread, serving),
        server = const offset_of!(MachineThread, server),
        held = const State::Held as u8,
        message = const Sending::Message as u8,
        code_area = const CODE_AREA as i64,
        code_size = const CODE_SIZE,
        block_size = const BLOCK_SIZE,
        reciprocal = const RECIPROCAL,
        reciprocal_bits = const RECIPROCAL_BITS,
        blocks = const memory::pool(pool::CODE) as i64,
        block_badge = const offset_of!(Block, badge),
        block_selector = const offset_of!(Block, selector),
        parts_bit = const flag::PARTS.trailing_zeros(),
        direct = const offset_of!(PerCpu, direct),
        rax = const offset_of!(Registers, rax),
        rbx = const offset_of!(Registers, rbx),
        rcx = const offset_of!(Registers, rcx),
        rdx = const offset_of!(Registers, rdx),
        rsi = const offset_of!(Registers, rsi),
        rdi = const offset_of!(Registers, rdi),
        rbp = const offset_of!(Registers, rbp),
        r8 = const offset_of!(Registers, r8),
        r9 = const offset_of!(Registers, r9),
        r10 = const offset_of!(Registers, r10),
        r11 = const offset_of!(Registers, r11),
        r12 = const offset_of!(Registers, r12),
        r13 = const offset_of!(Registers, r13),
        r14 = const offset_of!(Registers, r14),
        r15 = const offset_of!(Registers, r15),
        rflags = const offset_of!(Registers, rflags),
    )
}

// What the code takes for granted.
const _: () = assert!(
    size_of::<List>() == 8
        && offset_of!(Link, previous) == 0
        && offset_of!(Link, next) == 4
        && size_of::<Option<ThreadRef>>() == 4
);

/// A block's number is where its code lies times this, shifted down by so many bits: exact as long as what the reciprocal is too much by does not add up to one.
const RECIPROCAL: u64 = (1 << RECIPROCAL_BITS) / BLOCK_SIZE + 1;
const RECIPROCAL_BITS: u32 = 40;
const BLOCK_SIZE: u64 = Blocks::object_size() as u64;
const _: () =
    assert!(CODE_SIZE * BLOCK_SIZE < 1 << RECIPROCAL_BITS && RECIPROCAL <= i32::MAX as u64);
