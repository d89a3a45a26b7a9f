//! Test `disk/restart`: the file servers of a Debian root and of a disk are killed while bash works on both, and it notices nothing ([`tests/restart`](../../../tests/restart/root.sh)). e2fsck looks at the disk afterwards.

use super::{batch, exchange, stress, Report, Verdict};
use crate::cli::{self, Pair, Root, System};
use crate::disk::{self, Scratch, Shape};
use crate::places;
use anyhow::Result;
use std::time::Instant;

const NAME: &str = "disk/restart";

pub fn run(report: &Report, system: System) -> Result<()> {
    if system != System::Cairn || !report.wants(NAME) {
        return Ok(());
    }
    let begun = Instant::now();
    let verdict = restart()?;
    report.result(NAME, begun.elapsed(), verdict);
    Ok(())
}

/// The outer error is the host's.
fn restart() -> Result<Verdict> {
    let scratch = scratch()?;
    let printed = match exchange::output(&machine(&scratch), &["bash", "/restart/root.sh"])? {
        Ok(printed) => printed,
        Err(why) => return Ok(Err(why)),
    };
    if printed != "good\n" {
        return Ok(Err(format!("it printed {printed:?}")));
    }
    disk::check(&scratch.path)
}

/// `./cairn stress --restart`: the same for as long as one likes, with workers that know what their files must be ([`worker.py`](../../../tests/restart/worker.py)).
pub fn campaign(arguments: &cli::Stress) -> Result<u8> {
    let scratch = scratch()?;
    let mut machine = machine(&scratch);
    machine.smp = arguments.smp;
    let script = ["bash", "/restart/campaign.sh"];
    let status = stress::play(&machine, script, disk::PLACE, arguments)?;
    if status != 0 {
        // It was not switched off, so the disk may be anything that a journal mends.
        return Ok(status);
    }
    if let Err(why) = disk::check(&scratch.path)? {
        println!("{why}");
        return Ok(1);
    }
    Ok(0)
}

fn scratch() -> Result<Scratch> {
    Scratch::ext4(&Shape {
        size: "64M".to_string(),
        ..Shape::plain()
    })
}

/// A machine with a Debian root, the disk, and files that kill on request.
fn machine(scratch: &Scratch) -> cli::Machine {
    let add = Pair {
        first: places::root().join("tests/restart").display().to_string(),
        second: "/restart".to_string(),
    };
    let mut machine = batch::machine(System::Cairn, Root::Debian.memory(), vec![add]);
    (machine.root, machine.root_as_made) = (Root::Debian, true);
    machine.with = Some(places::root().join("system/trace.toml"));
    machine.append = Some("nucleus.trace=64".to_string());
    scratch.attached_to(machine)
}
