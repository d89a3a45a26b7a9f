//! /dev/random and /dev/urandom, which do not differ, behind the scheme `random:` ([`server`]): a generator ([`generator`]) over ChaCha20 ([`chacha`]).
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod chacha;
pub mod generator;
pub mod server;
