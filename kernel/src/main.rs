//! The nucleus as a program: the library does everything, from its first instruction on (`arch/x86_64/boot32.rs`).
#![no_std]
#![no_main]

use cairn_kernel as _;

#[panic_handler]
fn panic(info: &core::panic::PanicInfo) -> ! {
    cairn_kernel::arch::x86_64::panic::panicked(info)
}
