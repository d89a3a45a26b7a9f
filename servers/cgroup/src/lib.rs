//! Groups of processes as Linux's cgroup-v2 file system shows them (docs/cgroups.md): a folder for each group, files for what it has and may have. Who is in which group, and what is counted for
//! it, is `proc`'s and `vm`'s knowledge ([`Groups`]); here are names, owners, and what is written.
//!
//! What always holds:
//! - each folder but the root is a group that `proc` knows, below that of the folder above;
//! - a folder that was removed stays as long as somebody has it open, and says ENODEV.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod files;
mod server;
#[cfg(test)]
mod tests;
mod text;

pub use server::Cgroup;

/// What `proc` is asked. Errors are Linux's numbers.
pub trait Groups {
    /// A group below another one → its number.
    fn make(&mut self, above: u32, name: &[u8]) -> Result<u32, i64>;
    fn remove(&mut self, group: u32) -> Result<(), i64>;
    /// A process goes from one group to another.
    fn relocate(&mut self, pid: u64, leaves: u32, enters: u32) -> Result<(), i64>;
    /// Most tasks; `None`: no limit.
    fn limit_tasks(&mut self, group: u32, most: Option<u64>) -> Result<(), i64>;
    /// Most pages.
    fn limit_pages(&mut self, group: u32, most: Option<u64>) -> Result<(), i64>;
    /// All of it ends if somebody has to.
    fn ends_together(&mut self, group: u32, together: bool) -> Result<(), i64>;
    fn freeze(&mut self, group: u32, frozen: bool) -> Result<(), i64>;
    /// Processor time of a period, both in µs; `None`: no limit.
    fn limit_time(&mut self, group: u32, quota: Option<u64>, period: u64) -> Result<(), i64>;
    /// What its threads' nice values are changed by.
    fn prefer(&mut self, group: u32, nice: i64) -> Result<(), i64>;
    /// Pages beyond which it is slowed down.
    fn slow_beyond(&mut self, group: u32, pages: Option<u64>) -> Result<(), i64>;
    fn times(&mut self, group: u32) -> Result<Times, i64>;
    fn usage(&mut self, group: u32) -> Result<Usage, i64>;
    /// Pids of its own processes, little-endian, behind this one → how many bytes.
    fn pids(&mut self, group: u32, after: u32, into: &mut [u8]) -> Result<usize, i64>;
    fn kill(&mut self, group: u32) -> Result<(), i64>;
    /// In which group a process is.
    fn of(&mut self, pid: u64) -> Result<u32, i64>;
    /// Which process a domain is.
    fn pid(&mut self, domain: u32) -> Result<u64, i64>;
}

/// What is counted for a group and those below it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Processes and threads, and how many processes live.
    pub tasks: u64,
    pub populated: u64,
    /// Forks that were refused.
    pub refused: u64,
    /// Pages of programs, and of servers for them; bytes of records.
    pub held: u64,
    pub charged: u64,
    pub records: u64,
    /// How often memory was refused, how often somebody had to end for it, and how many did.
    pub full: u64,
    pub oom: u64,
    pub ended: u64,
}

/// What a group and those below it did in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Processor time, ns.
    pub used: u64,
    /// Periods of its limit, those in which it had to wait, and how many ns.
    pub periods: u64,
    pub throttled: u64,
    pub waited: u64,
    /// None of it runs, as was asked for.
    pub frozen: bool,
    /// How often it was slowed down for its memory.
    pub slowed: u64,
    /// Most pages that were ever counted for it.
    pub peak: u64,
}
