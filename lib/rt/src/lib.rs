//! What every native component needs: the gate ([`gate`]), portals and messages ([`portal`]), channels ([`channel`]), messages of several parts ([`parts`]), windows ([`window`]), pages that are given away ([`pages`]) or shown to those who map files ([`paging`]), serving generated interfaces ([`serve`]), the start-up block ([`startup`]),
//! time ([`time`]), being told of a time (`alarm`), work that nobody waits for ([`background`]), calls that a component need not wait for (`errand`,
//! [`deputy`]), semaphores ([`semaphore`]), scheduling other threads ([`scheduler`]), device registers ([`device`]), memory that a device reaches
//! ([`dma`]), the log ([`log!`]), and on the bare target the entry point, heap and panic handler ([`start`], [`heap`]).
#![cfg_attr(not(test), no_std)]

#[cfg(target_os = "none")]
pub mod alarm;
pub mod background;
pub mod channel;
pub mod deputy;
pub mod device;
pub mod dma;
pub mod entropy;
#[cfg(target_os = "none")]
pub mod errand;
pub mod gate;
#[cfg(target_os = "none")]
pub mod heap;
pub mod log;
pub mod memory;
#[cfg(target_os = "none")]
mod own_thread;
pub mod page_heap;
pub mod pages;
pub mod paging;
pub mod parts;
pub mod portal;
pub mod scheduler;
pub mod semaphore;
pub mod serve;
#[cfg(target_os = "none")]
pub mod start;
pub mod startup;
pub mod time;
pub mod window;

pub use cairn_abi as abi;
pub use channel::{Received, Receiver, Reply};
pub use portal::{Message, Portal};
