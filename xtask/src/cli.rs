//! What can be typed behind `./cairn`. The texts here are what `./cairn help` shows.

use crate::debian;
use crate::disk::{self, Disk};
use crate::link::{self, Forward, Link};
use crate::powercut::Workload;
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

#[derive(Parser)]
#[command(
    name = "cairn",
    bin_name = "./cairn",
    about = "Cairn: build it, boot it, run programs on it, test it, measure it.",
    after_help = "Try `./cairn run` first. `./cairn help COMMAND` tells more about one of them.\n\
        Everything that is made lies under build/; logs of the last machine are in build/log/last/ (`./cairn log`).",
    disable_version_flag = true
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub enum Command {
    /// Boot to a shell on this terminal (Ctrl-A X or `poweroff` ends it), or log in by ssh
    #[command(after_help = RUN_HELP)]
    Run(Run),
    /// Run one command in the guest, with this process's input, output and exit status
    #[command(after_help = EXEC_HELP)]
    Exec(Exec),
    /// Run all tests, or those whose name contains FILTER
    #[command(after_help = TEST_HELP)]
    Test(Test),
    /// Run many programs at once on several cores for a long time, and compare each result with Linux's
    Stress(Stress),
    /// Compare with Linux what system calls answer to all classes of arguments, and what Debian's programs do
    #[command(after_help = COMPAT_HELP)]
    Compat(Compat),
    /// Build everything that a machine needs, without starting one
    Build(Build),
    /// Count guest instructions of system operations, side by side with Linux
    #[command(after_help = BENCH_HELP)]
    Bench(Bench),
    /// Start a machine that waits, and GDB with symbols on it
    #[command(after_help = DEBUG_HELP)]
    Debug(Debug),
    /// Run one command with every entry of the nucleus recorded, into a file that ui.perfetto.dev opens
    #[command(after_help = TRACE_HELP)]
    Trace(Trace),
    /// Cut the power after every flush of a disk, and look whether the file system on it kept its promises
    #[command(after_help = POWERCUT_HELP)]
    Powercut(Powercut),
    /// Show the nucleus's portal code, disassembled, and check it
    Portals(Portals),
    /// Show who may call whom and which devices each component has, from the manifest
    Graph(Graph),
    /// Show the log of the last machine, with backtraces as functions and lines
    Log(Log),
    /// Check interface definitions and show their operations
    #[command(after_help = IDL_HELP)]
    Idl(Idl),
    /// Play scripts in packetdrill's language around the TCP library, in virtual time
    #[command(after_help = PACKET_HELP)]
    Packet(Packet),
    /// Be the wire between machines that were started with --net dgram=PATH
    #[command(after_help = WIRE_HELP)]
    Wire(Wire),
    /// Make the book of docs/ (build/book/html), and say what is wrong with its pages
    Docs(Docs),
    /// Remove what was built
    Clean(Clean),
}

const RUN_HELP: &str = "\
With --ssh the exit status is that of the session or the command; 250 to 253 as with `exec` (`./cairn help exec`).

Examples:
  ./cairn run
  ./cairn run --root debian --share ./work:/host
  ./cairn run --root debian --ssh
  ./cairn run --root debian --ssh -- sh -c 'uname -a; exit 3'";

const EXEC_HELP: &str = "\
The exit status is that of the command; 128 and the number of the signal if one ended it; 127 if there is no such command, 126 if it cannot be executed.
  250  the machine crashed            251  it hung, or the time was up
  252  it did not boot                253  something on the host failed (the build, a file, QEMU)
Each of these comes with one line on standard error. Nothing but the command's own output appears on standard output.

Examples:
  ./cairn exec -- uname -a
  echo hello | ./cairn exec -- sha256sum
  ./cairn exec --add ./prog:/bin/prog --system linux -- prog --version
  ./cairn exec --tree /tmp:listing.txt -- sh -c 'mkdir /tmp/a; echo x >/tmp/a/b'";

const TEST_HELP: &str = "\
Without FILTER: the unit tests on the host, clippy, and the whole-system tests in QEMU. A test's name is its suite and its file, for example corpus/sed-basics, c-glibc/forks, rust/std, native/gate.
The last line is `N passed, N failed`; the exit status is 0 only if nothing failed.

Examples:
  ./cairn test              everything
  ./cairn test corpus       the shell scripts
  ./cairn test sed          whatever has `sed` in its name
  ./cairn test host/        the unit tests and clippy only";

const BENCH_HELP: &str = "\
Both systems run the same static program in the same virtual machine in deterministic mode (one instruction is one nanosecond), so a figure is a count of guest instructions and does not depend on this computer.";

const IDL_HELP: &str = "\
docs/guide/interfaces.md describes the language.

Examples:
  ./cairn idl                        the operations of all interfaces of the project
  ./cairn idl sdk/examples/board.idl
  ./cairn idl idl/uart.idl --c       the C header";

const TRACE_HELP: &str = "\
The trace has who ran when, every call and its reply, page faults and interrupts, with times. Tracing slows the guest down, since every message takes the general path; with --icount the times are instruction counts.

Examples:
  ./cairn trace -- ls -l /
  ./cairn trace --icount --output pipe.json -- sh -c 'echo hello | cat'
  ./cairn trace --callers -- ls -l /";

const POWERCUT_HELP: &str = "\
Random games of file operations are played on a disk that remembers its writes and flushes. Then the disk is made as a cut of power may leave it: after each flush, and with any part of what was written since. e2fsck may find nothing but a journal to replay, and every file must be what was durable or written later.

Examples:
  ./cairn powercut --games 1
  ./cairn powercut --lose 3    flushes are left out: something must be found";

const COMPAT_HELP: &str = "\
`calls` makes each system call with each argument over its boundary values, as root and as user 1000, on Cairn and on Linux in the same machine, and prints the differences. Those that tests/compat/known.txt explains are counted only. The two tables stay in build/compat/. The exit status is 0 if there is no other difference.

`programs` runs Debian's programs, some with their own tests, on both systems, and prints a table: how many cases each had, and in how many the systems differ. tests/compat/programs/ has their list, a script for each, and known differences with their reasons. Packages are downloaded at the first use (some have 100 MB and more), and each set of them is a root of its own under build/cache/. A run of all takes hours. What each program said stays in build/compat/programs/.

`net` does the same with network programs (curl, nginx, ssh, redis …), whose servers and clients talk over the loopback interface of one machine.
tests/compat/net/ has their list.

Examples:
  ./cairn compat programs              all programs
  ./cairn compat programs git python   those with `git` or `python` in their names
  ./cairn compat calls
  ./cairn compat net nginx
  ./cairn compat calls timer     calls with `timer` in their names
  ./cairn compat calls --all     every line, not the first few of each call";

const PACKET_HELP: &str = "\
docs/tcp.md says what of the language there is.

Examples:
  ./cairn packet tests/packet
  ./cairn packet tests/packet/syn-retransmission.pkt";

const WIRE_HELP: &str = "\
It goes on until it is interrupted (Ctrl-C). Parts of a million: --loss 10000 is 1 %.

Examples:
  ./cairn wire /tmp/a /tmp/b --loss 10000 --delay 20
  ./cairn run --net dgram=/tmp/a    and in another terminal the machine at /tmp/b";

const DEBUG_HELP: &str = "\
GDB has the symbols of the nucleus, of every standard component and of the Linux personality. No two of them are linked to the same address, so a breakpoint is in one program only, in whichever process it runs.

Examples:
  ./cairn debug
  ./cairn debug -- -batch -ex 'break cairn_tmpfs::inode::Inodes::insert' -ex continue -ex backtrace
  ./cairn debug --no-gdb    and GDB in another terminal, with the machine's console here";

/// Which kernel is booted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum System {
    Cairn,
    /// Debian's (or Ubuntu's) packaged kernel, in the same machine with the same files
    Linux,
}

/// What the guest's root file system has.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Root {
    /// Debian's busybox, and little else, in memory.
    Small,
    /// Debian packages on an ext4 disk.
    Debian,
    /// The user's: a file with an ext4 file system, or a folder.
    Own(PathBuf),
}

impl Root {
    pub fn is_on_disk(&self) -> bool {
        *self != Root::Small
    }

    /// Memory that is enough for it, in QEMU's notation.
    pub fn memory(&self) -> &'static str {
        match self.is_on_disk() {
            false => "256M",
            true => "512M",
        }
    }
}

/// For the command line. Whether a path leads somewhere is looked at when the machine is started; a word without a slash is more likely a mistake.
fn root(word: &str) -> Result<Root, String> {
    match word {
        "small" => Ok(Root::Small),
        "debian" => Ok(Root::Debian),
        path if path.contains('/') || Path::new(path).exists() => {
            Ok(Root::Own(PathBuf::from(path)))
        }
        _ => Err("neither small nor debian, and no such file or folder".to_string()),
    }
}

/// How QEMU executes the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Accel {
    /// Emulation: the same everywhere
    Tcg,
    /// Hardware virtualisation, where /dev/kvm is usable
    Kvm,
}

/// The machine, as all commands that start one understand it.
#[derive(Args, Clone, Debug)]
pub struct Machine {
    /// Number of processors
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = cores)]
    pub smp: u32,
    /// Memory, in QEMU's notation [default: 256M, or 512M with a Debian root]
    #[arg(long, value_name = "SIZE", value_parser = memory)]
    pub mem: Option<String>,
    /// The root file system. `small`: Debian's busybox and little else, in memory; what is changed is gone when the machine ends. `debian`: Debian packages on an ext4 disk of 4 GiB (build/cache/debian.ext4), which keeps what is changed unless --snapshot is given: bash, coreutils, util-linux, procps, apt, python3, perl, vim, tcc, make, gdb, strace, sudo … (the first use downloads some 90 MB). Otherwise the path of a file with an ext4 file system, which keeps what is changed, too, or of a folder, of which each machine gets a copy
    #[arg(long, value_name = "ROOT", default_value = "small", value_parser = root)]
    #[arg(default_value_if("packages", clap::builder::ArgPredicate::IsPresent, "debian"))]
    pub root: Root,
    /// Add a package of Debian's to its root, with all that it depends on (repeatable, or NAME,NAME). Each set of packages has a disk of its own (build/cache/debian+NAME.ext4)
    #[arg(long = "package", value_name = "NAME", value_parser = debian::package, value_delimiter = ',')]
    pub packages: Vec<String>,
    /// If that is on a disk: as it was made, whatever was changed on the user's. For tests.
    #[arg(skip)]
    pub root_as_made: bool,
    /// Which system to boot
    #[arg(long, value_enum, default_value_t = System::Cairn)]
    pub system: System,
    /// Linux without what costs it time and Cairn does not have: mitigations, audit, pressure accounting, …
    #[arg(long)]
    pub lean: bool,
    /// How QEMU executes the guest
    #[arg(long, value_enum, default_value_t = Accel::Tcg)]
    pub accel: Accel,
    /// Further words for the kernel command line
    #[arg(long, value_name = "WORDS", allow_hyphen_values = true)]
    pub append: Option<String>,
    /// Put a file or folder of the host into the guest (repeatable)
    #[arg(long = "add", value_name = "HOSTPATH:GUESTPATH", value_parser = pair)]
    pub add: Vec<Pair>,
    /// Show a folder of this computer in the guest at GUESTDIR, to read and to write, without the network; what either side changes the other sees at once
    /// (at most 2)
    #[arg(long = "share", value_name = "HOSTDIR:GUESTDIR", value_parser = pair)]
    pub shares: Vec<Pair>,
    /// Attach a file as a disk, /dev/vda and so on (behind that of the root, if it is on one): raw, or QEMU's qcow2 (repeatable)
    #[arg(long = "disk", value_name = "FILE", value_parser = disk::named)]
    pub disks: Vec<Disk>,
    /// Throw away what the guest writes to disks when the machine ends
    #[arg(long)]
    pub snapshot: bool,
    /// Mount the ext4 file system of a disk or partition when the machine starts, for example /dev/vda1:/mnt (repeatable)
    #[arg(long = "mount", value_name = "DEVICE:FOLDER", value_parser = pair)]
    pub mounts: Vec<Pair>,
    /// Give the machine an IOMMU (Intel's), with these of QEMU's properties for it; virtio devices are behind it like all others
    #[arg(long, value_name = "PROPERTIES", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pub iommu: Option<String>,
    /// A network link: `none`, `user` (the network of this computer, as QEMU's user mode reaches it; `user,OPTIONS` in QEMU's notation), `dgram=PATH` (an end
    /// of `./cairn wire`); `,model=e1000` or `,model=e1000e` behind it is another device than virtio-net (repeatable) [default: user where `run` has a
    /// terminal, otherwise none]
    #[arg(long, value_name = "KIND", value_parser = link::named)]
    pub net: Vec<Link>,
    /// Lead a port of this computer (127.0.0.1) to one of the guest: TCP, or UDP with `/udp` behind it; without `--net` there is a link for it (repeatable)
    #[arg(long, value_name = "HOSTPORT:GUESTPORT", value_parser = link::forward)]
    pub forward: Vec<Forward>,
    /// Record the first link's frames into FILE, and further links' into FILE.1 and so on (tcpdump and wireshark read them)
    #[arg(long, value_name = "FILE")]
    pub pcap: Option<PathBuf>,
    /// Append the lines of FILE to Cairn's manifest; the components that they name are built and put into the boot archive
    #[arg(long, value_name = "FILE")]
    pub with: Option<PathBuf>,
    /// FILE of --with is the whole manifest: nothing of the standard system runs that it does not name
    #[arg(long, requires = "with")]
    pub only: bool,
    /// Show the nucleus's log (Linux: the kernel's) on standard error
    #[arg(short, long)]
    pub verbose: bool,
    /// Where QEMU tells which blocks of instructions it executes, and in which range of addresses (in its notation)
    #[arg(skip)]
    pub executed: Option<(PathBuf, String)>,
}

/// `help COMMAND --help` is `help COMMAND`.
pub fn without_help_for_help(words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut words: Vec<OsString> = words.collect();
    if words.get(1).is_some_and(|word| word == "help") {
        words.retain(|word| word != "--help" && word != "-h");
    }
    words
}

impl Machine {
    /// One core and the small root, with nothing added.
    pub fn plain(system: System, memory: &str) -> Machine {
        Machine {
            smp: 1,
            mem: Some(memory.to_string()),
            root: Root::Small,
            packages: Vec::new(),
            root_as_made: false,
            system,
            lean: false,
            accel: Accel::Tcg,
            append: None,
            add: Vec::new(),
            shares: Vec::new(),
            disks: Vec::new(),
            snapshot: false,
            mounts: Vec::new(),
            iommu: None,
            net: Vec::new(),
            forward: Vec::new(),
            pcap: None,
            with: None,
            only: false,
            verbose: false,
            executed: None,
        }
    }

    /// A machine with this root, with nothing added.
    pub fn on(system: System, root: Root) -> Machine {
        let plain = Machine::plain(system, root.memory());
        Machine { root, ..plain }
    }

    /// All disks, that of the root first.
    pub fn attached(&self) -> anyhow::Result<Vec<Disk>> {
        let mut disks = Vec::new();
        let collection = debian::Collection(&self.packages);
        if self.root != Root::Debian && !self.packages.is_empty() {
            anyhow::bail!("--package adds to the Debian root: `--root debian`, or none");
        }
        match &self.root {
            Root::Small => {}
            Root::Debian if self.root_as_made => {
                disks.push(Disk::Unchanged(collection.as_made()?));
            }
            Root::Debian => disks.push(Disk::File(collection.disk()?)),
            Root::Own(folder) if folder.is_dir() => {
                disks.push(Disk::Unchanged(debian::folder(folder)?));
            }
            Root::Own(file) => {
                disk::is_root(file)?;
                disks.push(Disk::File(file.clone()));
            }
        }
        disks.extend(self.disks.iter().cloned());
        Ok(disks)
    }

    pub fn memory(&self) -> &str {
        self.mem.as_deref().unwrap_or(self.root.memory())
    }
}

#[derive(Args)]
pub struct Run {
    #[command(flatten)]
    pub machine: Machine,
    /// Leave the terminal alone: the console goes to standard output and gets no input
    #[arg(long)]
    pub headless: bool,
    /// Log in over the network, by a key that is made for this root: sshd of Debian's openssh-server runs in the machine, this terminal has the first session, and further ones are told how to log in. The session's end switches the machine off. Needs `--root debian`
    #[arg(long, conflicts_with = "headless")]
    pub ssh: bool,
    /// With --ssh: run this command in place of a shell, each argument as it is, and return its exit status
    #[arg(last = true, requires = "ssh", value_name = "COMMAND")]
    pub command: Vec<std::ffi::OsString>,
}

#[derive(Args)]
pub struct Exec {
    #[command(flatten)]
    pub machine: Machine,
    /// Give the command so many seconds (0: no limit)
    #[arg(long, value_name = "S", default_value_t = 0)]
    pub timeout: u64,
    /// Deterministic mode: one guest instruction takes one nanosecond of guest time
    #[arg(long)]
    pub icount: bool,
    /// Afterwards list a folder of the guest into a file here (`-`: standard error): type, mode, links, size, SHA-256, name (repeatable)
    #[arg(long = "tree", value_name = "GUESTPATH:HOSTFILE", value_parser = pair)]
    pub tree: Vec<Pair>,
    /// Working directory in the guest (made if it is not there)
    #[arg(long, value_name = "GUESTPATH", default_value = "/root")]
    pub cwd: String,
    /// Set an environment variable (repeatable)
    #[arg(long = "env", value_name = "NAME=VALUE")]
    pub env: Vec<String>,
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD")]
    pub command: Vec<std::ffi::OsString>,
}

#[derive(Args)]
pub struct Trace {
    #[command(flatten)]
    pub machine: Machine,
    /// Deterministic mode: one guest instruction takes one nanosecond of guest time
    #[arg(long)]
    pub icount: bool,
    /// Where the trace goes
    #[arg(short, long, value_name = "FILE", default_value = "trace.json")]
    pub output: PathBuf,
    /// Say on standard error who called whom, how often, and how long they waited for answers
    #[arg(long)]
    pub callers: bool,
    /// Say on standard error each call that was answered: when, by whom, to whom, how long the caller waited
    #[arg(long)]
    pub calls: bool,
    /// Draw who called whom (beside `./cairn graph --svg`, which draws who may)
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// KiB of guest memory for records of 40 bytes; when it is full the oldest are overwritten
    #[arg(long, value_name = "KIB", default_value_t = 8192, value_parser = clap::value_parser!(u32).range(4..=262_144))]
    pub size: u32,
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD")]
    pub command: Vec<std::ffi::OsString>,
}

#[derive(Args)]
pub struct Packet {
    /// Scripts, or folders with scripts (*.pkt)
    #[arg(required = true, value_name = "SCRIPT")]
    pub scripts: Vec<PathBuf>,
}

#[derive(Args)]
pub struct Wire {
    /// The wire's ends, each called by a path
    #[arg(required = true, value_name = "PATH")]
    pub ends: Vec<PathBuf>,
    /// Frames that are lost, of a million
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub loss: u32,
    /// Frames that come twice
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub duplicates: u32,
    /// Frames of which a bit is changed
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub damage: u32,
    /// Frames that are overtaken
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub reorder: u32,
    /// How long a frame travels, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 0)]
    pub delay: u64,
    /// Chance's
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

#[derive(Args)]
pub struct Test {
    /// Only tests whose name contains this
    pub filter: Option<String>,
    /// List the names of the tests and do nothing
    #[arg(long)]
    pub list: bool,
    /// Where the whole-system tests run; `linux` proves that the tests themselves are right
    #[arg(long, value_enum, default_value_t = System::Cairn)]
    pub system: System,
    /// Do not use results of Linux that were kept from an earlier run
    #[arg(long)]
    pub fresh: bool,
    /// Number of processors of Cairn's machines (those in which the nucleus is one of a kind, as in `image` and `entrance`, have one)
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = cores)]
    pub smp: u32,
    /// Only the suites of programs and `native`, in deterministic mode, and in the end how long interrupts were off at most (in guest instructions), in what and during which program
    #[arg(long)]
    pub stretch: bool,
}

#[derive(Args)]
pub struct Powercut {
    /// What the guest does
    #[arg(long, value_enum, default_value_t = Workload::Games)]
    pub workload: Workload,
    /// How many games
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub games: u64,
    /// The first one's seed; the others follow
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(0..=1_000_000_000))]
    pub seed: u64,
    /// Operations of a game
    #[arg(long, value_name = "N", default_value_t = 300)]
    pub operations: usize,
    /// Disks that are tried before each flush, with any part of what it is to cover
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub samples: u32,
    /// Leave out every N-th flush, so that the campaign has something to find
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub lose: Option<u64>,
    /// Whose file system
    #[arg(long, value_enum, default_value_t = System::Cairn)]
    pub system: System,
}

#[derive(Args)]
pub struct Stress {
    /// How long
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub minutes: u64,
    /// Number of processors
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = cores)]
    pub smp: u32,
    /// Programs at the same time
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u64).range(1..=64))]
    pub workers: u64,
    /// Kill the file servers of a Debian root and of a disk every few seconds instead, while programs work on both
    #[arg(long)]
    pub restart: bool,
    /// Let an ordinary user take as much of everything as the system gives instead, by one program and by eight at once, in machines of one core and four
    #[arg(long, conflicts_with_all = ["restart", "host", "smp", "workers"])]
    pub abuse: bool,
    /// Play the random games of the nucleus's tests on this computer instead, and explore the models further than `./cairn test` does
    #[arg(long, conflicts_with_all = ["restart", "minutes", "smp", "workers"])]
    pub host: bool,
    /// How often each random game
    #[arg(long, value_name = "N", default_value_t = 20_000, requires = "host", value_parser = clap::value_parser!(u32).range(1..))]
    pub cases: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Compared {
    /// System calls over the boundary values of their arguments
    Calls,
    /// Debian's programs and their own tests
    Programs,
    /// Debian's network programs, over the loopback interface
    Net,
}

#[derive(Args)]
pub struct Compat {
    /// What is compared
    #[arg(value_enum)]
    pub what: Compared,
    /// Only calls with this in their names; only these programs
    #[arg(value_name = "PART")]
    pub parts: Vec<String>,
    /// Every line that differs
    #[arg(long)]
    pub all: bool,
    /// Ask Linux again, although its answers are kept
    #[arg(long)]
    pub fresh: bool,
}

#[derive(Args)]
pub struct Build {
    /// Also write the boot archive to this file
    #[arg(long, value_name = "FILE")]
    pub archive: Option<PathBuf>,
}

#[derive(Args)]
pub struct Bench {
    /// Only operations whose names begin with one of these; `ipc` (and perhaps names behind it): the nucleus's own operations instead; `disk`: a disk's rates,
    /// in wall time; `links`: frames by interrupts, by a clock and by both; `founding`: the tables of the papers that Cairn is built from, measured again, with plots in build/founding
    #[arg(value_name = "OPERATION")]
    pub operations: Vec<String>,
    /// Fail if an operation needs more than benches/budgets.toml allows
    #[arg(long)]
    pub check: bool,
    /// Also write the figures to this file as JSON (`-`: standard output instead of the table)
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// With `ipc`: how the samples of each operation are distributed
    #[arg(long)]
    pub histogram: bool,
    /// Measure only this system
    #[arg(long, value_enum)]
    pub system: Option<System>,
    /// With `disk`: processor cores of the machines
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = cores)]
    pub smp: u32,
}

#[derive(Args)]
pub struct Debug {
    #[command(flatten)]
    pub machine: Machine,
    /// Do not start GDB, only say how to: the console is then on this terminal
    #[arg(long)]
    pub no_gdb: bool,
    /// Further arguments for GDB
    #[arg(last = true, value_name = "ARG")]
    pub gdb: Vec<std::ffi::OsString>,
}

#[derive(Args)]
pub struct Graph {
    #[command(flatten)]
    pub machine: Machine,
    /// Draw it into this file instead (`-`: standard output)
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
}

#[derive(Args)]
pub struct Log {
    /// Another machine's: its folder under build/log, or the file
    pub log: Option<PathBuf>,
}

#[derive(Args)]
pub struct Idl {
    /// The definition file (all of the project without one)
    pub file: Option<PathBuf>,
    /// Show the Rust module that is made of it
    #[arg(long, conflicts_with = "c")]
    pub rust: bool,
    /// Show the C header that is made of it
    #[arg(long)]
    pub c: bool,
}

#[derive(Args)]
pub struct Docs {
    /// Open it in a browser
    #[arg(long)]
    pub open: bool,
}

#[derive(Args)]
pub struct Clean {
    /// Also remove downloads, the private toolchain and kept results
    #[arg(long)]
    pub all: bool,
}

/// Two paths with a colon between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    pub first: String,
    pub second: String,
}

/// The last colon separates, so a host path may hold some.
fn pair(text: &str) -> Result<Pair, String> {
    match text.rsplit_once(':') {
        Some((first, second)) if !first.is_empty() && !second.is_empty() => Ok(Pair {
            first: first.to_string(),
            second: second.to_string(),
        }),
        _ => Err("two paths with a colon between them are wanted".to_string()),
    }
}

/// As many as the nucleus uses (docs/CAVEATS.md).
const MOST_CORES: u32 = 8;

fn cores(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(number @ 1..=MOST_CORES) => Ok(number),
        _ => Err(format!("a machine has 1 to {MOST_CORES} processors")),
    }
}

fn memory(text: &str) -> Result<String, String> {
    let digits = text.trim_end_matches(['K', 'M', 'G', 'k', 'm', 'g']);
    if text.len() - digits.len() > 1 || digits.parse::<u64>().is_err() {
        return Err("a number with K, M or G behind it is wanted, for example 256M".to_string());
    }
    let scale = match text.as_bytes().last() {
        Some(b'K' | b'k') => 10,
        Some(b'G' | b'g') => 30,
        _ => 20,
    };
    let bytes = digits
        .parse::<u64>()
        .unwrap_or(0)
        .saturating_mul(1 << scale);
    if bytes < LEAST_MEMORY {
        return Err(format!("a machine needs at least {}M", LEAST_MEMORY >> 20));
    }
    Ok(text.to_string())
}

/// Less memory, and a machine ends before it could say why.
const LEAST_MEMORY: u64 = 24 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn help_has_no_help_of_its_own() {
        let read = |line: &str| {
            let words = without_help_for_help(line.split(' ').map(OsString::from));
            words.join(&OsString::from(" ")).into_string().unwrap()
        };
        assert_eq!(read("cairn help --help"), "cairn help");
        assert_eq!(read("cairn help exec -h"), "cairn help exec");
        assert_eq!(read("cairn exec -- ls --help"), "cairn exec -- ls --help");
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_command_begins_behind_the_options() {
        let read = |line: &str| Cli::try_parse_from(line.split(' '));
        for line in [
            "cairn exec ls -l",
            "cairn exec --smp 2 -- ls --no-such",
            "cairn trace --callers -- ls -l -- x",
        ] {
            let command = match read(line).map(|cli| cli.command) {
                Ok(Command::Exec(exec)) => exec.command,
                Ok(Command::Trace(trace)) => trace.command,
                other => panic!("{line}: {:?}", other.err()),
            };
            assert_eq!(command[0], "ls");
        }
        for line in [
            "cairn exec --no-such -- cat",
            "cairn trace --no-such -- cat",
        ] {
            let said = read(line).err().unwrap().to_string();
            assert!(said.contains("unexpected argument '--no-such'"), "{said}");
        }
    }

    #[test]
    fn values_are_checked() {
        assert_eq!(cores("8"), Ok(8));
        assert!(cores("9").is_err());
        assert!(cores("0").is_err());
        assert_eq!(pair("a:b:/c").unwrap().first, "a:b");
        assert!(pair("a").is_err());
        assert!(pair("a:").is_err());
        assert!(memory("256M").is_ok());
        assert!(memory("lots").is_err());
        assert!(memory("1MM").is_err());
    }
}

#[derive(Args)]
pub struct Portals {
    /// Show the code that portals were given of their own in a machine with this log, which `--append nucleus.code=log` had it write (build/log/last/nucleus.log)
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
}
