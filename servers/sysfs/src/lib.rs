//! `/sys`: the machine's disks as programs look for them there ([`tree`]), and `/proc/partitions`, which `/proc` leads here. What the drivers said when this component was started; nothing can be written.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod interfaces;
pub mod server;
pub mod tree;
