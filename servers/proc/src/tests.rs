//! The manager against the fake system.

#[global_allocator]
static ALLOCATOR: cairn_failing::Failing = cairn_failing::Failing;

mod bandwidth;
mod cpu_timers;
mod ending;
mod files;
mod filters;
mod forks;
mod invariants;
mod jobs;
mod keys;
mod life;
mod lives;
mod random;
mod roles;
mod services;
mod set_id;
mod short;
mod signals;
mod spaces;
mod tracing;
