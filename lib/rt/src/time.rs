//! Time from the system page, without entering the nucleus.

use cairn_abi::layout;
use cairn_abi::state::SystemPage;

/// The system page.
pub fn system_page() -> &'static SystemPage {
    // SAFETY: the nucleus filled this page before the first domain started; every domain has it mapped read-only.
    unsafe { &*(layout::SYSTEM_PAGE as *const SystemPage) }
}

/// Monotonic nanoseconds.
pub fn monotonic() -> u64 {
    let page = system_page();
    // SAFETY: reading the time-stamp counter has no effect on memory.
    let tsc = unsafe { core::arch::x86_64::_rdtsc() };
    ((u128::from(tsc.wrapping_sub(page.tsc_base)) * u128::from(page.tsc_mult)) >> page.tsc_shift)
        as u64
}

/// What the wall clock said at monotonic time 0; it may be set at any time.
pub fn wall_clock() -> u64 {
    // SAFETY: the page is mapped read-only in every domain; the nucleus writes the word whole.
    unsafe {
        (&raw const (*(layout::SYSTEM_PAGE as *const SystemPage)).boot_realtime).read_volatile()
    }
}

/// Nanoseconds since 1970.
pub fn realtime() -> u64 {
    wall_clock().wrapping_add(monotonic())
}
