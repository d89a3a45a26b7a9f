//! `./cairn bench disk`: what programs get from a disk in wall time (benches/disk.c), on Cairn and Linux in the same virtual machine.
//!
//! Wall time depends on what else the host does: so a machine of each system is there at the same time, they take turns sample by sample, and samples of the same turn are compared as pairs. Host and guest cache nothing for each other here: the file is in the host's memory for both.

use super::{grouped, spec};
use crate::cli::{self, Machine, Pair, System};
use crate::disk::Disk;
use crate::guest::{Guest, Input, Stream};
use crate::machine::Boot;
use crate::test::compile;
use crate::{places, progress};
use anyhow::{bail, Context, Result};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::{Duration, Instant};

/// The word for this table among the operations of `./cairn bench`.
pub const WORD: &str = "disk";
const PROGRAM: &str = "/bin/disk";
/// Adds a component to Cairn that measures what a file server gets; its lines in the log, and the last of them.
const MANIFEST: &str = "benches/disk.toml";
const MARK: &str = "] rate: row ";
const END: &str = "] rate: end";
const PAGES: u64 = 256 * 256;
const PAGE: usize = 4096;
/// Machines of each system, and turns of a pair of them.
const MACHINES: usize = 3;
const TURNS: usize = 7;
const LIMIT: Duration = Duration::from_secs(600);

/// Rates by name of the row.
type Samples = BTreeMap<String, Vec<u64>>;

pub fn bench(arguments: &cli::Bench) -> Result<u8> {
    let binary = places::build().join("tests/disk");
    compile("gcc", &places::root().join("benches/disk.c"), &binary)?;
    let systems = match arguments.system {
        Some(system) => vec![system],
        None => vec![System::Linux, System::Cairn],
    };
    // Each has a disk of its own: QEMU lets nobody else have one that can be written.
    let disk = |system| places::build().join(format!("disks/bench-{system:?}.img"));
    for &system in &systems {
        fill(&disk(system))?;
    }
    let mut all: Vec<(System, Samples)> = systems.iter().map(|&s| (s, Samples::new())).collect();
    let machine = |system| Machine {
        lean: true,
        snapshot: false,
        smp: arguments.smp,
        disks: vec![Disk::Scratch(disk(system))],
        add: vec![Pair {
            first: binary.display().to_string(),
            second: PROGRAM.to_string(),
        }],
        ..Machine::plain(system, "256M")
    };
    for turn in 0..MACHINES {
        let what = format!("measuring ({} of {MACHINES})", turn + 1);
        let step = progress::Step::begin(&what);
        measure(&machine, &mut all)?;
        for (system, samples) in &mut all {
            if *system == System::Cairn {
                let with = Some(places::root().join(MANIFEST));
                let machine = machine(*system);
                measure_driver(&Machine { with, ..machine }, samples)?;
            }
        }
        drop(step);
    }
    for &system in &systems {
        std::fs::remove_file(disk(system))?;
    }
    let found = |wanted| all.iter().find(|(system, _)| *system == wanted);
    let empty = Samples::new();
    let [cairn, linux] = [System::Cairn, System::Linux].map(|s| found(s).map_or(&empty, |f| &f.1));
    print!("{}", table(cairn, linux));
    Ok(0)
}

/// Each page begins with its number.
fn fill(path: &Path) -> Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let file = File::create(path).with_context(|| format!("cannot make {}", path.display()))?;
    let mut out = BufWriter::with_capacity(1 << 20, file);
    let mut page = [0x5a; PAGE];
    for number in 0..PAGES {
        page[..8].copy_from_slice(&number.to_le_bytes());
        out.write_all(&page)?;
    }
    out.flush()?;
    Ok(())
}

fn start(machine: &Machine) -> Result<Guest> {
    let boot = Boot::prepare("bench", machine)?;
    match Guest::start(boot, machine, false)? {
        Ok(guest) => Ok(guest),
        Err(failure) => bail!("{failure}"),
    }
}

/// A machine of each system; who is first changes from turn to turn.
fn measure(machine: &impl Fn(System) -> Machine, all: &mut [(System, Samples)]) -> Result<()> {
    let mut guests = Vec::new();
    for (system, _) in &*all {
        guests.push(start(&machine(*system))?);
    }
    // The first time the host may fetch it from its own disk.
    for guest in &mut guests {
        sample(guest, "0")?;
    }
    for turn in 0..TURNS {
        let mut order: Vec<usize> = (0..guests.len()).collect();
        order.rotate_left(turn % guests.len());
        for which in order {
            let text = sample(&mut guests[which], "1")?;
            take(&text, &mut all[which].1);
        }
    }
    for guest in guests {
        guest.power_off();
    }
    Ok(())
}

/// Run the program → what it says.
fn sample(guest: &mut Guest, samples: &str) -> Result<String> {
    let argv = [PROGRAM, "/dev/vda", samples]
        .iter()
        .map(|word| word.as_bytes().to_vec())
        .collect();
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let spec = spec(argv);
    let outcome = guest.run(
        &spec,
        Input::Empty,
        Some(LIMIT),
        &mut |stream, bytes| match stream {
            Stream::Out => out.extend_from_slice(bytes),
            Stream::Err => err.extend_from_slice(bytes),
        },
    );
    match outcome {
        Ok(outcome) if outcome.status() == 0 => Ok(String::from_utf8_lossy(&out).into_owned()),
        Ok(outcome) => bail!("{outcome:?}: {}", String::from_utf8_lossy(&err)),
        Err(failure) => {
            guest.log.look();
            guest.log.show_failure();
            bail!("{failure}")
        }
    }
}

/// The component begins by itself.
fn measure_driver(machine: &Machine, samples: &mut Samples) -> Result<()> {
    let boot = Boot::prepare("bench", machine)?;
    let log = boot.nucleus_log();
    let mut guest = match Guest::start(boot, machine, false)? {
        Ok(guest) => guest,
        Err(failure) => bail!("{failure}"),
    };
    let deadline = Instant::now() + LIMIT;
    let text = loop {
        let text = std::fs::read(&log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        if text.contains(END) {
            break text;
        }
        if Instant::now() > deadline {
            guest.log.look();
            guest.log.show_failure();
            bail!("the component that reads the disk has not come to its end");
        }
        std::thread::sleep(Duration::from_millis(200));
    };
    guest.power_off();
    for line in text.lines() {
        if let Some((_, row)) = line.split_once(MARK) {
            take(row, samples);
        }
    }
    Ok(())
}

/// Lines `NAME RATE`.
fn take(text: &str, samples: &mut Samples) {
    for line in text.lines() {
        let Some((name, rate)) = line.split_once(' ') else {
            continue;
        };
        if let Ok(rate) = rate.trim().parse() {
            samples.entry(name.to_string()).or_default().push(rate);
        }
    }
}

/// Lower quartile, median, upper quartile, greatest.
fn figures<T: PartialOrd + Copy>(samples: &[T]) -> Option<[T; 4]> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(|a, b| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
    let last = sorted.len().checked_sub(1)?;
    Some([last / 4, sorted.len() / 2, last * 3 / 4, last].map(|at| sorted[at]))
}

fn table(cairn: &Samples, linux: &Samples) -> String {
    let mut text = format!(
        "{:<26} {:>30} {:>30} {:>20} {:>9}\n",
        "wall time", "Cairn (quartiles)", "Linux (quartiles)", "ratio (quartiles)", "greatest"
    );
    let mut names: Vec<&String> = cairn.keys().chain(linux.keys()).collect();
    names.sort();
    names.dedup();
    for name in names {
        let cell = |figures: Option<[u64; 4]>| match figures {
            Some([low, median, high, _]) => {
                format!("{} ({}-{})", grouped(median), grouped(low), grouped(high))
            }
            None => "-".to_string(),
        };
        // What a file server gets stands beside what a program gets of Linux, where the device writes into its pages as well.
        let program = name.replacen("driver-fixed-", "disk-", 1);
        let on_linux = program.replacen("driver-", "disk-", 1);
        let of = |samples: &Samples, name| samples.get(name).cloned().unwrap_or_default();
        let (ours, theirs) = (of(cairn, name), of(linux, &on_linux));
        let (c, l) = (figures(&ours), figures(&theirs));
        let quotient = |c: u64, l: u64| c as f64 / l.max(1) as f64;
        let mut ratios: Vec<f64> = Vec::new();
        if *name == on_linux {
            ratios.extend(ours.iter().zip(&theirs).map(|(&c, &l)| quotient(c, l)));
        } else if let (Some(c), Some(l)) = (c, l) {
            // Its machine was not there at the same time.
            ratios.push(quotient(c[1], l[1]));
        }
        let ratio = match figures(&ratios) {
            Some([_, median, ..]) if ratios.len() == 1 => format!("{median:.2}"),
            Some([low, median, high, _]) => format!("{median:.2} ({low:.2}-{high:.2})"),
            None => String::new(),
        };
        let greatest = match (c, l) {
            (Some([.., c]), Some([.., l])) => format!("{:.2}", quotient(c, l)),
            _ => String::new(),
        };
        text.push_str(&format!(
            "{name:<26} {:>30} {:>30} {ratio:>20} {greatest:>9}\n",
            cell(c),
            cell(l)
        ));
    }
    text.push_str("disk-…: what a program gets, driver-…: what a file server gets of its driver (Linux: the program's), -fixed: with pages that are pinned once; read-1m: MiB a second in order; random-4k-32: reads a second. Ratio: how many times Cairn's rate is Linux's; of disk-… the median of pairs of samples, taken one after the other, of driver-… that of the medians; greatest: of the greatest samples.\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_of_several_machines_are_put_together() {
        let mut samples = Samples::new();
        take("disk-read-1m 30\nnoise\ndisk-read-1m x\n", &mut samples);
        take("disk-read-1m 10\ndisk-read-1m 20\n", &mut samples);
        let row = &samples["disk-read-1m"];
        assert_eq!(figures(row), Some([10, 20, 20, 30]));
        assert_eq!(figures::<u64>(&[]), None);
        // Pairs are compared: 30 with 60, 10 with 40, 20 with 10.
        let linux = Samples::from([("disk-read-1m".to_string(), vec![60, 40, 10])]);
        let text = table(&samples, &linux);
        assert!(text.contains(" 20 (10-20) "), "{text}");
        assert!(text.contains(" 0.50 (0.25-0.50) "), "{text}");
    }
}
