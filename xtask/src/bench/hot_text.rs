//! How much of the nucleus's text frequent operations execute: QEMU tells each block of instructions that it executes there (`-d exec`), and those that come as often as samples are taken count.
//! What a machine without samples executes as well (boot, most of all) is taken off.

use crate::cli::Machine;
use crate::{nucleus_text, places};
use anyhow::{ensure, Context, Result};
use iced_x86::{Decoder, DecoderOptions, FlowControl};
use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader};
use std::process::Command;
use std::thread;

/// Messages, dispatch and interrupts: rows of `./cairn bench ipc`.
const ROWS: [&str; 12] = [
    "identity",
    "call-one-way",
    "call-reply",
    "call-64-words",
    "reply-64-words",
    "chain",
    "yield",
    "semaphore",
    "pulse",
    "interrupt-idle",
    "interrupt-identity",
    "interrupt-call",
];
/// A name that no row begins with.
const NONE: [&str; 1] = ["none"];
/// Samples of each row: what counts runs as often at least.
const SAMPLES: &str = " ipc.samples=400";
const OFTEN: u64 = 400;
const PAGE: u64 = 4096;

/// How often blocks ran, by the address at which they begin.
type Counts = HashMap<u64, u64>;

/// Bytes of code. `run` has a machine measure these rows, with further words for its command line, changed as the function says once the nucleus is built.
pub fn bytes(
    run: impl Fn(&[String], &str, &dyn Fn(&mut Machine) -> Result<()>) -> Result<String>,
) -> Result<u64> {
    let counted = |rows: &[&str]| counts(rows, &run);
    let (with, without) = (counted(&ROWS)?, counted(&NONE)?);
    let often = |&(address, count): &(&u64, &u64)| {
        count.saturating_sub(without.get(address).copied().unwrap_or(0)) >= OFTEN
    };
    let blocks = with.iter().filter(often).map(|(&address, _)| address);
    let text = nucleus_text::text()?;
    Ok(covered(blocks, text.address, &text.code))
}

fn counts(
    rows: &[&str],
    run: &impl Fn(&[String], &str, &dyn Fn(&mut Machine) -> Result<()>) -> Result<String>,
) -> Result<Counts> {
    let rows: Vec<String> = rows.iter().map(|row| row.to_string()).collect();
    let pipe = places::build().join("log/executed");
    let _ = fs::remove_file(&pipe);
    let made = Command::new("mkfifo").arg(&pipe).status();
    ensure!(
        made.context("cannot start mkfifo")?.success(),
        "cannot make {}",
        pipe.display()
    );
    let reader = {
        let pipe = pipe.clone();
        thread::spawn(move || read(BufReader::new(File::open(pipe)?)))
    };
    let measured = run(&rows, SAMPLES, &|machine| {
        let text = nucleus_text::text()?;
        let range = format!("{:#x}+{:#x}", text.address, text.code.len());
        machine.executed = Some((pipe.clone(), range));
        Ok(())
    });
    // The reader ends with the last writer; if there never was one, this is it. (For both: a pipe that nobody reads any more would keep a writer waiting.)
    drop(OpenOptions::new().read(true).write(true).open(&pipe));
    let counts = reader.join();
    let _ = fs::remove_file(&pipe);
    measured?;
    Ok(counts.ok().context("the reader of what ran panicked")??)
}

/// `Trace CPU: HOST [CS/ADDRESS/FLAGS/FLAGS] …`
fn read(mut lines: impl BufRead) -> std::io::Result<Counts> {
    let (mut counts, mut line) = (Counts::new(), Vec::new());
    while lines.read_until(b'\n', &mut line)? != 0 {
        if let Some(address) = address(&line) {
            *counts.entry(address).or_default() += 1;
        }
        line.clear();
    }
    Ok(counts)
}

fn address(line: &[u8]) -> Option<u64> {
    let line = std::str::from_utf8(line.strip_prefix(b"Trace ")?).ok()?;
    let (_, block) = line.split_once('[')?;
    u64::from_str_radix(block.split('/').nth(1)?, 16).ok()
}

/// Bytes of instructions in blocks that begin at these addresses, each once. A block ends with an instruction that may go elsewhere, and where a page does.
fn covered(blocks: impl Iterator<Item = u64>, at: u64, code: &[u8]) -> u64 {
    let mut bytes = BTreeSet::new();
    for start in blocks {
        let Some(rest) = start
            .checked_sub(at)
            .and_then(|skip| code.get(skip as usize..))
        else {
            continue;
        };
        for instruction in Decoder::with_ip(64, rest, start, DecoderOptions::NONE) {
            let elsewhere = instruction.flow_control() != FlowControl::Next;
            bytes.extend(instruction.ip()..instruction.next_ip());
            if elsewhere || instruction.next_ip() / PAGE != start / PAGE {
                break;
            }
        }
    }
    bytes.len() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_read_from_what_qemu_says() {
        let log = "Trace 0: 0x7f1b4c000100 [00000000/ffffffff8020d000/00000094/ff000000] syscall_entry\n\
            Stopped execution of TB chain before 0x7f [ffffffff8020d000] \n\
            Trace 0: 0x7f1b4c000100 [00000000/ffffffff8020d000/00000094/ff000000] \nTrace 0: 0x7f\n";
        let counts = read(log.as_bytes()).unwrap();
        assert_eq!(counts, Counts::from([(0xffff_ffff_8020_d000, 2)]));
    }

    #[test]
    fn bytes_count_once_and_to_the_end_of_a_block() {
        // nop; nop; jz +0; nop; ret; nop
        let code = [0x90, 0x90, 0x74, 0x00, 0x90, 0xc3, 0x90];
        let at = 0x1000;
        assert_eq!(covered([at].into_iter(), at, &code), 4);
        assert_eq!(covered([at, at + 1].into_iter(), at, &code), 4);
        assert_eq!(covered([at, at + 4, at + 0x100].into_iter(), at, &code), 6);
        // The page ends behind the first instruction.
        assert_eq!(covered([0x1fff].into_iter(), 0x1fff, &code), 1);
    }
}
