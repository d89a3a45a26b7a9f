//! Entry point and panic handler of native components.

use crate::portal::Portal;
use cairn_abi::layout::{native_slot, NATIVE_STACK_SIZE, NATIVE_STACK_TOP, PAGE};
use cairn_abi::service::{current, domain};
use cairn_abi::Error;

/// `entry!(main)`: the program starts at `fn main() -> !`, with the registers rdi, rsi, rdx of its first instruction as arguments if it takes them
/// (`entry!(main, registers)` for `fn main(u64, u64, u64) -> !`).
#[macro_export]
macro_rules! entry {
    ($main:path) => {
        $crate::entry!($main, none);
    };
    ($main:path, none) => {
        fn cairn_main(_: u64, _: u64, _: u64) -> ! {
            $main()
        }
        $crate::entry!(@start cairn_main);
    };
    ($main:path, registers) => {
        fn cairn_main(a: u64, b: u64, c: u64) -> ! {
            $main(a, b, c)
        }
        $crate::entry!(@start cairn_main);
    };
    (@start $main:path) => {
        extern "C" fn cairn_start(a: u64, b: u64, c: u64) -> ! {
            $main(a, b, c)
        }
        /// The first instruction: the stack pointer is at the top of the stack.
        // SAFETY: the symbol is defined once per program; the linker script names it as the entry.
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        unsafe extern "C" fn _start() -> ! {
            core::arch::naked_asm!(
                "and rsp, -16",
                // What it receives is counted above the first frame.
                "mov rax, {mark}",
                "mov [rsp - 16], rax",
                "sub rsp, {head}",
                "call {start}",
                "ud2",
                mark = const $crate::abi::layout::COUNTS_MESSAGES,
                head = const $crate::abi::layout::NATIVE_STACK_HEAD,
                start = sym cairn_start,
            )
        }
    };
}

/// End this thread (and the component with its last thread).
pub fn exit(value: u64) -> ! {
    loop {
        let _ = Portal::CURRENT.service(current::EXIT, &[value]);
    }
}

/// End the component, whatever threads it has (an alarm's).
pub fn end(value: u64) -> ! {
    end_others();
    exit(value)
}

/// No other thread of the component goes on.
fn end_others() {
    if let Ok(own) = Portal::CURRENT.service(current::IDENTITY, &[]) {
        let others = || Portal(native_slot::DOMAIN).service(domain::KILL_OTHERS, &[own[0]]);
        while others() == Err(Error::Again) {}
    }
}

extern "C" {
    // From native.ld.
    static native_text: u8;
    static native_text_end: u8;
}

/// What on the stack may be return addresses, from here up, at most 40: each with the number of words that lie below it. (There are no frame pointers: which ones are is found out by the host,
/// which knows how large each function's frame is.)
struct Backtrace {
    rip: u64,
    rsp: u64,
}

impl Backtrace {
    const WORDS: usize = 40;

    /// How far the stack can be read: the main one to its end, any other to the end of the page.
    fn end(&self) -> u64 {
        let main = NATIVE_STACK_TOP - NATIVE_STACK_SIZE..NATIVE_STACK_TOP;
        if main.contains(&self.rsp) {
            NATIVE_STACK_TOP
        } else {
            self.rsp.next_multiple_of(PAGE)
        }
    }
}

impl core::fmt::Display for Backtrace {
    fn fmt(&self, f: &mut core::fmt::Formatter) -> core::fmt::Result {
        let text = &raw const native_text as u64..&raw const native_text_end as u64;
        let places = (self.rsp..self.end()).step_by(8);
        let found = places.enumerate().filter_map(|(below, place)| {
            // SAFETY: a word of this thread's stack, between its pointer and its end.
            let word = unsafe { (place as *const u64).read_volatile() };
            text.contains(&word).then_some((below, word))
        });
        write!(f, " {:#x}", self.rip)?;
        found
            .take(Self::WORDS)
            .try_for_each(|(below, word)| write!(f, " {word:#x}@{below}"))
    }
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo) -> ! {
    crate::log!("{info}");
    let (rip, rsp);
    // SAFETY: reads registers only.
    unsafe {
        core::arch::asm!("lea {}, [rip]", "mov {}, rsp", out(reg) rip, out(reg) rsp, options(nomem, nostack));
    }
    let name = crate::startup::name();
    let backtrace = Backtrace { rip, rsp };
    crate::log::write_plain(format_args!("!backtrace {name}{backtrace}"));
    end_others();
    exit(101)
}
