//! Interfaces between servers and their clients: operation codes, argument words and structures in parts. No logic.
//!
//! Conventions of every interface: request w0 = operation; reply w0 = result, negative = −errno (Linux numbers, [`errno`]).
//! A request's path and data travel in its out part, answers larger than words in its in part. The caller is known by the domain id that
//! the nucleus delivers, its effective user and group by the label ([`label`]).
#![no_std]
#![forbid(unsafe_code)]

pub mod errno;
pub mod fs;
pub mod proc;
pub mod uart;
pub mod vm;

/// The label of a Linux process's domain: effective uid in bits 0..32, effective gid in bits 32..64. Native components have label 0 (root).
pub mod label {
    pub const fn make(uid: u32, gid: u32) -> u64 {
        uid as u64 | (gid as u64) << 32
    }
    pub const fn uid(label: u64) -> u32 {
        label as u32
    }
    pub const fn gid(label: u64) -> u32 {
        (label >> 32) as u32
    }
}
