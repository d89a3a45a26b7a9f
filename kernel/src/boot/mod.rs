//! From the boot loader to the first domain: what the command line says ([`options`]), which memory is free ([`memory`]) and how `init` is put together ([`first_domain`]).

pub mod first_domain;
pub mod memory;
pub mod options;
