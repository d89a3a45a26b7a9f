//! `init`, the parts that are only logic: the start-up block of a component and the pages of an executable.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod deaths;
pub mod image;
pub mod list;
pub mod startup;
