//! The files of a group: their names, who may at first, and which controller they belong to.

/// Controllers, as bits.
pub const MEMORY: u8 = 1;
pub const PIDS: u8 = 2;
pub const CPU: u8 = 4;
pub const ALL: u8 = MEMORY | PIDS | CPU;

/// Names of controllers, in the order in which they are listed.
pub const CONTROLLERS: [(&str, u8); 3] = [("cpu", CPU), ("memory", MEMORY), ("pids", PIDS)];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum File {
    Procs,
    Threads,
    Controllers,
    SubtreeControl,
    Events,
    Kill,
    Type,
    Freeze,
    CpuStat,
    CpuMax,
    CpuWeight,
    CpuWeightNice,
    MemoryCurrent,
    MemoryMax,
    MemoryHigh,
    MemoryPeak,
    MemoryEvents,
    MemoryOomGroup,
    MemoryStat,
    PidsCurrent,
    PidsMax,
    PidsEvents,
}

pub struct Row {
    pub file: File,
    pub name: &'static str,
    pub mode: u32,
    /// Needs this controller; 0: none.
    pub controller: u8,
    /// The root has it too.
    pub of_root: bool,
}

const fn row(file: File, name: &'static str, mode: u32, controller: u8, of_root: bool) -> Row {
    Row {
        file,
        name,
        mode,
        controller,
        of_root,
    }
}

pub const FILES: [Row; 22] = [
    row(File::Procs, "cgroup.procs", 0o644, 0, true),
    row(File::Threads, "cgroup.threads", 0o644, 0, true),
    row(File::Controllers, "cgroup.controllers", 0o444, 0, true),
    row(
        File::SubtreeControl,
        "cgroup.subtree_control",
        0o644,
        0,
        true,
    ),
    row(File::Events, "cgroup.events", 0o444, 0, false),
    row(File::Kill, "cgroup.kill", 0o200, 0, false),
    row(File::Type, "cgroup.type", 0o644, 0, false),
    row(File::Freeze, "cgroup.freeze", 0o644, 0, false),
    row(File::CpuStat, "cpu.stat", 0o444, 0, true),
    row(File::CpuMax, "cpu.max", 0o644, CPU, false),
    row(File::CpuWeight, "cpu.weight", 0o644, CPU, false),
    row(File::CpuWeightNice, "cpu.weight.nice", 0o644, CPU, false),
    row(File::MemoryCurrent, "memory.current", 0o444, MEMORY, false),
    row(File::MemoryMax, "memory.max", 0o644, MEMORY, false),
    row(File::MemoryHigh, "memory.high", 0o644, MEMORY, false),
    row(File::MemoryPeak, "memory.peak", 0o444, MEMORY, false),
    row(File::MemoryEvents, "memory.events", 0o444, MEMORY, false),
    row(
        File::MemoryOomGroup,
        "memory.oom.group",
        0o644,
        MEMORY,
        false,
    ),
    row(File::MemoryStat, "memory.stat", 0o444, MEMORY, false),
    row(File::PidsCurrent, "pids.current", 0o444, PIDS, false),
    row(File::PidsMax, "pids.max", 0o644, PIDS, false),
    row(File::PidsEvents, "pids.events", 0o444, PIDS, false),
];
