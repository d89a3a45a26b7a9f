//! Threads with deadlines (SCHED_DEADLINE): the scheduler of programs' threads that each have a run time in each period. What is decided is in
//! [`plan`], without threads and clocks; `main.rs` asks the nucleus.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

pub mod plan;
#[cfg(test)]
mod plan_tests;
