//! From the boot loader to the first domain: which memory is free ([`memory`]) and how `init` is put together ([`first_domain`]).

pub mod first_domain;
pub mod memory;
