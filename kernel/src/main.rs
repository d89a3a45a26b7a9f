//! The nucleus as a program: the library does everything, from its first instruction on (`arch/x86_64/boot32.rs`).
#![no_std]
#![no_main]

use cairn_kernel as _;

/// Tells where, not why. Inlined (the compiler says that it ignores that, but it does not), so that what every place that can panic wants to have formatted is seen to be read by
/// nobody: neither that nor `core::fmt` is in the program then, which `./cairn test image/boot-text` checks.
#[allow(unused_attributes)]
#[inline(always)]
#[panic_handler]
fn panic(info: &core::panic::PanicInfo) -> ! {
    cairn_kernel::arch::x86_64::panic::panicked(info.location())
}
