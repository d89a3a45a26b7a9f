//! `./cairn bench disk`: what programs get from a disk in wall time (benches/disk.c), on Cairn and Linux in the same virtual machine.
//!
//! Wall time depends on what else the host does: so the systems take turns, several machines each, and what counts is the median of all samples. Host and guest cache nothing for each other here: the file is in the host's memory for both.

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
/// Machines of each system, and samples in each.
const MACHINES: usize = 3;
const SAMPLES: usize = 5;
const LIMIT: Duration = Duration::from_secs(600);

/// Rates by name of the row.
type Samples = BTreeMap<String, Vec<u64>>;

pub fn bench(arguments: &cli::Bench) -> Result<u8> {
    let binary = places::build().join("tests/disk");
    compile("gcc", &places::root().join("benches/disk.c"), &binary)?;
    let disk = places::build().join("disks/bench.img");
    fill(&disk)?;
    let systems = match arguments.system {
        Some(system) => vec![system],
        None => vec![System::Linux, System::Cairn],
    };
    let mut all: Vec<(System, Samples)> = systems.iter().map(|&s| (s, Samples::new())).collect();
    for turn in 0..MACHINES {
        for (system, samples) in &mut all {
            let machine = Machine {
                lean: true,
                snapshot: false,
                disks: vec![Disk::Scratch(disk.clone())],
                add: vec![Pair {
                    first: binary.display().to_string(),
                    second: PROGRAM.to_string(),
                }],
                ..Machine::plain(*system, "256M")
            };
            let what = format!("measuring {system:?} ({} of {MACHINES})", turn + 1);
            let step = progress::Step::begin(&what);
            measure(&machine, samples)?;
            if *system == System::Cairn {
                let with = Some(places::root().join(MANIFEST));
                measure_driver(&Machine { with, ..machine }, samples)?;
            }
            drop(step);
        }
    }
    std::fs::remove_file(&disk)?;
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

fn measure(machine: &Machine, samples: &mut Samples) -> Result<()> {
    let boot = Boot::prepare("bench", machine)?;
    let mut guest = match Guest::start(boot, machine, false)? {
        Ok(guest) => guest,
        Err(failure) => bail!("{failure}"),
    };
    let argv = [PROGRAM, "/dev/vda", &SAMPLES.to_string()]
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
        Ok(outcome) if outcome.status() == 0 => {
            guest.power_off();
        }
        Ok(outcome) => bail!("{outcome:?}: {}", String::from_utf8_lossy(&err)),
        Err(failure) => {
            guest.log.look();
            guest.log.show_failure();
            bail!("{failure}")
        }
    }
    take(&String::from_utf8_lossy(&out), samples);
    Ok(())
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

/// Median, least and greatest.
fn figures(samples: Option<&Vec<u64>>) -> Option<[u64; 3]> {
    let mut sorted = samples?.clone();
    sorted.sort_unstable();
    let median = *sorted.get(sorted.len() / 2)?;
    Some([median, *sorted.first()?, *sorted.last()?])
}

fn table(cairn: &Samples, linux: &Samples) -> String {
    let mut text = format!(
        "{:<26} {:>24} {:>24} {:>7}\n",
        "wall time", "Cairn (least-most)", "Linux (least-most)", "ratio"
    );
    let mut names: Vec<&String> = cairn.keys().chain(linux.keys()).collect();
    names.sort();
    names.dedup();
    for name in names {
        let cell = |figures: Option<[u64; 3]>| match figures {
            Some([median, least, most]) => {
                format!("{} ({}-{})", grouped(median), grouped(least), grouped(most))
            }
            None => "-".to_string(),
        };
        // What a file server gets stands beside what a program gets of Linux, where the device writes into its pages as well.
        let program = name.replacen("driver-fixed-", "disk-", 1);
        let on_linux = program.replacen("driver-", "disk-", 1);
        let (c, l) = (figures(cairn.get(name)), figures(linux.get(&on_linux)));
        let ratio = match (c, l) {
            (Some([c, ..]), Some([l, ..])) if l > 0 => format!("{:.2}", c as f64 / l as f64),
            _ => String::new(),
        };
        text.push_str(&format!(
            "{name:<26} {:>24} {:>24} {ratio:>7}\n",
            cell(c),
            cell(l)
        ));
    }
    text.push_str("disk-…: what a program gets, driver-…: what a file server gets of its driver (Linux: the program's), -fixed: with pages that are pinned once; read-1m: MiB a second in order; random-4k-32: reads a second. Medians over all machines; ratio: how many times Cairn's rate is Linux's.\n");
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
        let row = samples.get("disk-read-1m");
        assert_eq!(figures(row), Some([20, 10, 30]));
        assert_eq!(figures(None), None);
        let linux = Samples::from([("disk-read-1m".to_string(), vec![40])]);
        assert!(table(&samples, &linux).contains("20 (10-30)"));
        assert!(table(&samples, &linux).contains("0.50"));
    }
}
