//! Entry point and panic handler of native components.

use crate::portal::Portal;
use cairn_abi::layout::native_slot;
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
        /// The first instruction: the stack pointer is at the top of the stack, the frame chain ends here.
        // SAFETY: the symbol is defined once per program; the linker script names it as the entry.
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        unsafe extern "C" fn _start() -> ! {
            core::arch::naked_asm!("xor ebp, ebp", "and rsp, -16", "call {start}", "ud2", start = sym cairn_start)
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

/// Return addresses found by the frame pointers from here up, at most 24.
fn backtrace(into: &mut [u64; 24]) -> usize {
    let mut frame: u64;
    // SAFETY: reads the frame pointer register only.
    unsafe { core::arch::asm!("mov {}, rbp", out(reg) frame, options(nomem, nostack)) };
    let mut count = 0;
    while count < into.len() && frame != 0 && frame.is_multiple_of(8) {
        // SAFETY: the program is built with frame pointers and `_start` clears the first one, so each points at the saved one below its return address.
        let (next, address) = unsafe { (*(frame as *const u64), *((frame + 8) as *const u64)) };
        if address == 0 {
            break;
        }
        into[count] = address;
        count += 1;
        if next <= frame {
            break;
        }
        frame = next;
    }
    count
}

struct Addresses<'a>(&'a [u64]);

impl core::fmt::Display for Addresses<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter) -> core::fmt::Result {
        self.0.iter().try_for_each(|a| write!(f, " {a:#x}"))
    }
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo) -> ! {
    crate::log!("{info}");
    let mut addresses = [0; 24];
    let count = backtrace(&mut addresses);
    crate::log::write_plain(format_args!(
        "!backtrace {}{}",
        crate::startup::name(),
        Addresses(&addresses[..count])
    ));
    end_others();
    exit(101)
}
