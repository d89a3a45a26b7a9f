//! /dev/random and /dev/urandom, which do not differ, behind the scheme `random:` ([`server`]): the generator of `lib/random`. `proc` has one of its
//! own for what programs begin with, and is told of what is written here.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod server;
