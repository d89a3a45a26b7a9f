//! The x86-64 machine: everything privileged and everything written in assembly is in this folder.
//!
//! Modules that only compute (page tables, ACPI, boot information, time arithmetic) are built on the development host as well, for their tests.

#[cfg(any(target_os = "none", test))]
pub mod acpi;
#[cfg(any(target_os = "none", test))]
pub mod memory;
#[cfg(any(target_os = "none", test))]
pub mod paging;
#[cfg(any(target_os = "none", test))]
pub mod pvh;
#[cfg(any(target_os = "none", test))]
pub mod user_copy;

#[cfg(any(target_os = "none", test))]
#[cfg_attr(test, allow(dead_code))]
mod clock;
#[cfg(any(target_os = "none", test))]
#[cfg_attr(test, allow(dead_code))]
mod cpu;
#[cfg(any(target_os = "none", test))]
#[cfg_attr(test, allow(dead_code))]
mod float;
#[cfg(any(target_os = "none", test))]
#[cfg_attr(test, allow(dead_code))]
mod handler_code;
#[cfg(any(target_os = "none", test))]
#[cfg_attr(test, allow(dead_code))]
mod ports;

#[cfg(target_os = "none")]
mod apic;
#[cfg(target_os = "none")]
mod boot32;
#[cfg(target_os = "none")]
mod boot_end;
#[cfg(target_os = "none")]
mod code_log;
#[cfg(target_os = "none")]
mod console;
#[cfg(target_os = "none")]
mod descriptors;
#[cfg(target_os = "none")]
mod entry;
#[cfg(target_os = "none")]
mod glue;
#[cfg(target_os = "none")]
mod interrupt_code;
#[cfg(target_os = "none")]
mod interrupts;
#[cfg(target_os = "none")]
mod machine;
#[cfg(target_os = "none")]
#[cfg(target_os = "none")]
mod other_cores;
#[cfg(target_os = "none")]
pub mod panic;
#[cfg(target_os = "none")]
mod parts_code;
#[cfg(target_os = "none")]
mod portal_code;
#[cfg(target_os = "none")]
mod power;
#[cfg(target_os = "none")]
mod requests;
#[cfg(target_os = "none")]
mod start;
#[cfg(target_os = "none")]
mod stretch;
#[cfg(target_os = "none")]
mod tables;
#[cfg(target_os = "none")]
mod templates;
#[cfg(target_os = "none")]
mod traced;

#[cfg(target_os = "none")]
pub use machine::Machine;
