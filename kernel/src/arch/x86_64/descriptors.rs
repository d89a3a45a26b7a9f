//! Segments, the task state (stacks), the interrupt table, and the per-processor data that GS leads to.

use super::memory::IMAGE_BASE;
use super::{cpu, Machine};
use crate::boot::memory::Frames;
use crate::cores::MOST;
use crate::domain::Domain;
use cairn_abi::state::Registers;
use core::arch::asm;
use core::cell::UnsafeCell;

/// Selectors. User data before user code: `sysret` takes both from one base.
pub const KERNEL_CODE: u16 = 0x08;
pub const KERNEL_DATA: u16 = 0x10;
pub const USER_DATA: u16 = 0x18 | 3;
pub const USER_CODE: u16 = 0x20 | 3;
const TASK: u16 = 0x28;

/// Bytes of the stack that the nucleus runs on; the page below it is not mapped.
pub const NUCLEUS_STACK_SIZE: usize = 64 * 1024;
const TRAP_STACK_SIZE: usize = 8 * 1024;

/// Vectors that have stubs.
pub const VECTORS: usize = super::interrupts::VECTORS_END;

/// Interior data of a static that one processor at a time touches, with interrupts off.
#[repr(transparent)]
pub struct Single<T>(UnsafeCell<T>);

// SAFETY: what belongs to one processor is touched by that one, the rest by whoever is in the nucleus, which is never interrupted; see the users of `get`.
unsafe impl<T> Sync for Single<T> {}

impl<T> Single<T> {
    pub const fn new(value: T) -> Single<T> {
        Single(UnsafeCell::new(value))
    }

    pub const fn get(&self) -> *mut T {
        self.0.get()
    }
}

/// A stack with a page below it that is unmapped once paging is set up.
#[repr(C, align(4096))]
struct Stack<const SIZE: usize> {
    guard: [u8; 4096],
    bytes: [u8; SIZE],
}

impl<const SIZE: usize> Stack<SIZE> {
    const NEW: Stack<SIZE> = Stack {
        guard: [0; 4096],
        bytes: [0; SIZE],
    };
}

/// The stacks of a processor.
#[repr(C, align(4096))]
pub struct Stacks {
    nucleus: Stack<NUCLEUS_STACK_SIZE>,
    /// For what may come at any instruction: debug, non-maskable interrupt, double fault, machine check.
    trap: [Stack<TRAP_STACK_SIZE>; 4],
}

/// Each processor's. The end of the first nucleus stack is at `STACKS + NUCLEUS_STACK_OFFSET`.
pub static STACKS: [Single<Stacks>; MOST] = [const {
    Single::new(Stacks {
        nucleus: Stack::NEW,
        trap: [Stack::NEW; 4],
    })
}; MOST];
pub const NUCLEUS_STACK_OFFSET: usize = 4096 + NUCLEUS_STACK_SIZE;

impl Single<Stacks> {
    /// Where each stack starts, its guard page, and its size without that: the nucleus stack first.
    fn starts(&self) -> impl Iterator<Item = (u64, usize)> {
        let stacks = self.get();
        // SAFETY: addresses within a static.
        let (nucleus, trap) = unsafe { (&raw const (*stacks).nucleus, &raw const (*stacks).trap) };
        let trap = trap as u64;
        core::iter::once((nucleus as u64, NUCLEUS_STACK_SIZE)).chain((0..4).map(move |i| {
            let size = core::mem::size_of::<Stack<TRAP_STACK_SIZE>>() as u64;
            (trap + i * size, TRAP_STACK_SIZE)
        }))
    }
}

/// (vector, its interrupt-stack-table number).
const TRAP_STACK_OF: [(usize, u8); 4] = [(1, 1), (2, 2), (8, 3), (18, 4)];

/// What the entry code finds through GS. Field order is known to nobody but `offset_of`.
#[repr(C)]
pub struct PerCpu {
    /// Where the registers of the running thread go.
    pub registers: *mut Registers,
    /// End of the nucleus stack.
    pub stack: u64,
    /// `syscall` from below this address is turned round to the domain's entry.
    pub turn_base: u64,
    /// The domain that runs.
    pub domain: *const Domain<Machine>,
    /// How many were.
    pub turned: u64,
    /// Messages that the portal code moved.
    pub direct: u64,
    /// How many more quick calls may be under way without being settled, and one.
    pub links: u32,
    /// Where this is, and which core it is.
    own: *mut PerCpu,
    pub core: usize,
}

pub static PER_CPU: [Single<PerCpu>; MOST] = [const {
    Single::new(PerCpu {
        registers: core::ptr::null_mut(),
        stack: 0,
        turn_base: 0,
        domain: core::ptr::null(),
        turned: 0,
        direct: 0,
        links: crate::quick::LINKS,
        own: core::ptr::null_mut(),
        core: 0,
    })
}; MOST];

/// What belongs to this processor.
#[inline(always)]
pub fn own() -> *mut PerCpu {
    let own;
    // SAFETY: in the nucleus GS leads to this processor's data, which begins its life with this pointer.
    unsafe {
        asm!("mov {}, gs:[{at}]", out(reg) own, at = const core::mem::offset_of!(PerCpu, own),
            options(pure, readonly, nostack, preserves_flags));
    }
    own
}

#[repr(C, packed)]
struct TaskState {
    reserved: u32,
    /// Stack for entries from user mode.
    stacks: [u64; 3],
    reserved2: u64,
    interrupt_stacks: [u64; 7],
    reserved3: u64,
    reserved4: u16,
    /// Past the end: no port is allowed to programs.
    io_map: u16,
}

static TASK_STATES: [Single<TaskState>; MOST] = [const {
    Single::new(TaskState {
        reserved: 0,
        stacks: [0; 3],
        reserved2: 0,
        interrupt_stacks: [0; 7],
        reserved3: 0,
        reserved4: 0,
        io_map: core::mem::size_of::<TaskState>() as u16,
    })
}; MOST];

static SEGMENTS: [Single<[u64; 7]>; MOST] = [const {
    Single::new([
        0,
        0x00af_9b00_0000_ffff, // kernel code, 64-bit
        0x00cf_9300_0000_ffff, // kernel data
        0x00cf_f300_0000_ffff, // user data
        0x00af_fb00_0000_ffff, // user code, 64-bit
        0,                     // task state, two entries
        0,
    ])
}; MOST];

#[derive(Clone, Copy)]
#[repr(C)]
struct Gate {
    low: u64,
    high: u64,
}

static INTERRUPT_TABLE: Single<[Gate; 256]> = Single::new([Gate { low: 0, high: 0 }; 256]);

#[repr(C, packed)]
struct TablePointer {
    limit: u16,
    base: u64,
}

/// Addresses of the pages below the stacks, to be unmapped.
pub fn guard_pages() -> impl Iterator<Item = u64> {
    STACKS
        .iter()
        .flat_map(|stacks| stacks.starts().map(|(start, _)| start))
}

/// The frames of the stacks of this core and of all after it.
pub fn stacks_from(core: usize) -> Frames {
    let stacks = STACKS[core..].as_ptr_range();
    let physical = |end: *const Single<Stacks>| end.addr() as u64 - IMAGE_BASE;
    Frames::inside(physical(stacks.start), physical(stacks.end))
}

/// True if the word at this address, a multiple of its size, is on a stack of the nucleus, and not in a page below one (for backtraces).
pub fn on_stack(address: u64) -> bool {
    let at = (address as usize).wrapping_sub(STACKS.as_ptr() as usize);
    // Of a core that is not there the stacks are gone.
    let core = PER_CPU.get(at / core::mem::size_of::<Stacks>());
    // SAFETY: written before the core could use its stacks, or not at all.
    let is_there = core.is_some_and(|core| unsafe { !(*core.get()).own.is_null() });
    let of_own = at % core::mem::size_of::<Stacks>();
    let of_stack = match of_own.checked_sub(NUCLEUS_STACK_OFFSET) {
        None => of_own,
        Some(behind) => behind % core::mem::size_of::<Stack<TRAP_STACK_SIZE>>(),
    };
    is_there && of_stack >= 4096
}

/// The interrupt table, which all processors share. `stubs` has the vectors' entry stubs, `others` vectors that have entries of their own; the rest does not happen. To be called once, before [`init`].
pub fn init_interrupts(stubs: &[u64], others: &[(u8, u64)]) {
    // SAFETY: called once, on the boot processor with interrupts off: nothing else touches the table.
    let table = unsafe { &mut *INTERRUPT_TABLE.get() };
    for (vector, gate) in table.iter_mut().enumerate() {
        let other = others.iter().find(|(v, _)| *v as usize == vector);
        let other = other.map(|(_, entry)| entry);
        let Some(&entry) = other.or_else(|| stubs.get(vector)) else {
            continue;
        };
        let own_stack = TRAP_STACK_OF
            .iter()
            .find(|(v, _)| *v == vector)
            .map_or(0, |(_, number)| *number as u64);
        // Breakpoint and overflow may be raised by programs.
        let privilege: u64 = if vector == 3 || vector == 4 { 3 } else { 0 };
        gate.low = entry & 0xffff
            | (KERNEL_CODE as u64) << 16
            | own_stack << 32
            | (0x8e | privilege << 5) << 40
            | (entry >> 16 & 0xffff) << 48;
        gate.high = entry >> 32;
    }
}

/// End of a core's nucleus stack.
pub fn stack_end(core: usize) -> u64 {
    STACKS[core].get() as u64 + NUCLEUS_STACK_OFFSET as u64
}

/// Load everything, on the processor that shall be core number `core`. `syscall` is the system-call entry.
pub fn init(core: usize, syscall: u64) {
    // SAFETY: called once for each processor, on it, with interrupts off: nothing else touches what belongs to it.
    unsafe {
        let task = &mut *TASK_STATES[core].get();
        let mut ends = STACKS[core]
            .starts()
            .map(|(start, size)| start + 4096 + size as u64);
        let stack = ends.next().unwrap_or(0);
        task.stacks = [stack; 3];
        let mut interrupt_stacks = [0; 7];
        for (place, end) in interrupt_stacks.iter_mut().zip(ends) {
            *place = end;
        }
        task.interrupt_stacks = interrupt_stacks;
        let own = PER_CPU[core].get();
        (*own).stack = stack;
        (*own).own = own;
        (*own).core = core;

        let base = TASK_STATES[core].get() as u64;
        let limit = core::mem::size_of::<TaskState>() as u64 - 1;
        let segments = &mut *SEGMENTS[core].get();
        segments[5] = limit | (base & 0xff_ffff) << 16 | 0x89 << 40 | (base >> 24 & 0xff) << 56;
        segments[6] = base >> 32;

        let pointer = TablePointer {
            limit: core::mem::size_of_val(segments) as u16 - 1,
            base: SEGMENTS[core].get() as u64,
        };
        asm!("lgdt [{}]", in(reg) &pointer, options(readonly, nostack, preserves_flags));
        asm!(
            "push {code}",
            "lea {scratch}, [rip + 2f]",
            "push {scratch}",
            "retfq",
            "2:",
            "mov ds, {data:e}",
            "mov es, {data:e}",
            "mov ss, {data:e}",
            "mov fs, {null:e}",
            "mov gs, {null:e}",
            "ltr {task:x}",
            code = in(reg) KERNEL_CODE as u64,
            data = in(reg) KERNEL_DATA as u32,
            null = in(reg) 0u32,
            task = in(reg) TASK,
            scratch = out(reg) _,
            options(preserves_flags),
        );
        let pointer = TablePointer {
            limit: core::mem::size_of::<[Gate; 256]>() as u16 - 1,
            base: INTERRUPT_TABLE.get() as u64,
        };
        asm!("lidt [{}]", in(reg) &pointer, options(readonly, nostack, preserves_flags));

        cpu::write_msr(cpu::GS_BASE, own as u64);
        cpu::write_msr(cpu::KERNEL_GS_BASE, 0);
        // sysret takes user data from base + 8 and user code from base + 16.
        cpu::write_msr(
            cpu::STAR,
            (KERNEL_CODE as u64) << 32 | (KERNEL_DATA as u64 | 3) << 48,
        );
        cpu::write_msr(cpu::LSTAR, syscall);
        // The other fast entry is closed, whatever the firmware left there.
        cpu::write_msr(cpu::SYSENTER_CODE, 0);
        // Everything but the reserved bits: interrupts, direction, trap, alignment check, nested task, resume … start cleared.
        cpu::write_msr(cpu::SFMASK, 0x0025_7fd5);
    }
}
