//! The manager against the fake system.

mod bandwidth;
mod cpu_timers;
mod invariants;
mod jobs;
mod life;
mod lives;
mod random;
mod roles;
mod services;
mod set_id;
mod signals;
mod spaces;
mod tracing;
