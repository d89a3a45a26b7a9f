//! Suite `tables`: the page tables of a running machine as QEMU reads them (`info tlb` of its monitor), while programs start and when the shell waits. Nothing is writable and executable (no program that is started here asks for it); what the nucleus executes is its text
//! and portal code, and can be written nowhere, but portal code where its pool is; the nucleus's half is not the programs'.

use super::batch;
use super::{Report, Verdict};
use crate::cli::System;
use crate::log::Log;
use crate::machine::{self, Boot};
use crate::{build, nucleus_text};
use anyhow::{Context, Result};
use std::io::{BufRead, BufReader, Write};
use std::ops::Range;
use std::path::Path;
use std::process::Stdio;
use std::sync::mpsc;
use std::time::{Duration, Instant};

const NAME: &str = "tables/writable-or-executable";
/// For the shell to come.
const LIMIT: Duration = Duration::from_secs(120);
const PROMPT: &str = "# ";
const PAUSE: Duration = Duration::from_millis(50);
/// Looks after the shell has come.
const MORE: usize = 5;
/// Ends an answer: no command of the monitor, which says so.
const END: &str = "end-of-tables";

/// As in the nucleus's `arch/x86_64/memory.rs`.
const NUCLEUS: u64 = 0xffff_8000_0000_0000;
const CODE_AREA: Range<u64> = 0xffff_ffff_b000_0000..0xffff_ffff_b100_0000;
const PAGE: u64 = 4096;
/// The machine has less than a GiB of memory, so no page is larger.
const LARGE: u64 = 2 << 20;

#[derive(Debug)]
struct Page {
    address: u64,
    frames: Range<u64>,
    executable: bool,
    user: bool,
    writable: bool,
}

/// A line of `info tlb`: `ADDRESS: PHYSICAL XGPDACTUW`, with `-` for what is not so. (X: not executable. P: large.)
fn page(line: &str) -> Option<Page> {
    let (address, rest) = line.trim().split_once(": ")?;
    let (physical, flags) = rest.split_once(' ')?;
    let number = |text: &str| match text.len() {
        16 => u64::from_str_radix(text, 16).ok(),
        _ => None,
    };
    let [x, _, p, _, _, _, _, u, w] = *flags.as_bytes() else {
        return None;
    };
    let first = number(physical)?;
    let size = if p == b'P' { LARGE } else { PAGE };
    Some(Page {
        address: number(address)?,
        frames: first..first + size,
        executable: x != b'X',
        user: u == b'U',
        writable: w == b'W',
    })
}

/// `text`: where the nucleus's own is.
fn judge(pages: &[Page], text: &Range<u64>) -> Verdict {
    let wrong = |what: &str, page: &Page| Err(format!("{what}: {page:x?}"));
    let mut fixed = Vec::new();
    let mut compiled = 0;
    for page in pages {
        if page.writable && page.executable {
            return wrong("writable and executable", page);
        }
        if page.address < NUCLEUS {
            continue;
        }
        if page.user {
            return wrong("shown to programs", page);
        }
        if page.executable && CODE_AREA.contains(&page.address) {
            compiled += 1;
        } else if page.executable && text.contains(&page.address) {
            fixed.push(page);
        } else if page.executable {
            return wrong("neither text nor portal code", page);
        }
    }
    if fixed.is_empty() || compiled == 0 {
        return Err(format!(
            "{} pages of text, {compiled} of portal code",
            fixed.len()
        ));
    }
    let nucleus = pages.iter().filter(|page| page.address >= NUCLEUS);
    for page in nucleus.filter(|page| page.writable) {
        let shows = |text: &&&Page| page.frames.contains(&text.frames.start);
        if let Some(text) = fixed.iter().find(shows) {
            return wrong(&format!("{:x} can be written at", text.address), page);
        }
    }
    Ok(())
}

pub fn run(report: &Report) -> Result<()> {
    if !report.wants(NAME) {
        return Ok(());
    }
    build::system()?;
    let begun = Instant::now();
    let verdict = look()?;
    report.result(NAME, begun.elapsed(), verdict);
    Ok(())
}

fn look() -> Result<Verdict> {
    let machine = batch::machine(System::Cairn, "256M", Vec::new());
    let boot = Boot::prepare("tables", &machine)?;
    let mut log = Log::follow(&boot.nucleus_log(), false);
    let mut qemu = machine::qemu(&boot, &machine, false, "mode=shell")?
        .args([
            "-serial",
            &machine::option_path("file:", &boot.console_log()),
        ])
        .args(["-serial", "null", "-monitor", "stdio"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start QEMU")?;
    let monitor = qemu.stdin.take().zip(qemu.stdout.take());
    let verdict = match monitor {
        Some((ask, answer)) => walk(ask, BufReader::new(answer), &boot, &mut log),
        None => Ok(Err("no monitor".to_string())),
    };
    let _ = qemu.kill();
    let _ = qemu.wait();
    verdict
}

/// From the first domain's name in the log until the shell has come, and some more.
fn walk(
    mut ask: impl Write,
    mut answer: impl BufRead + Send + 'static,
    boot: &Boot,
    log: &mut Log,
) -> Result<Verdict> {
    let text = nucleus_text::text()?;
    let text = text.address..(text.address + text.code.len() as u64).next_multiple_of(PAGE);
    let (lines_in, lines) = mpsc::channel();
    std::thread::spawn(move || loop {
        let mut line = String::new();
        match answer.read_line(&mut line) {
            Ok(1..) if lines_in.send(line).is_ok() => {}
            _ => break,
        }
    });
    let deadline = Instant::now() + LIMIT;
    let mut left = MORE;
    let mut looks = 0;
    while left > 0 {
        std::thread::sleep(PAUSE);
        log.look();
        if Instant::now() > deadline {
            return Ok(Err(format!("no shell:\n{}", log.recent_lines())));
        }
        let said =
            |file: &Path, text| std::fs::read_to_string(file).is_ok_and(|s| s.contains(text));
        if !said(&boot.nucleus_log(), "` is domain ") {
            continue;
        }
        if said(&boot.console_log(), PROMPT) {
            left -= 1;
        }
        // A command that there is not is named in the answer.
        writeln!(ask, "info tlb\n{END}").context("QEMU's monitor")?;
        let mut pages = Vec::new();
        loop {
            match lines.recv_timeout(LIMIT) {
                Ok(line) if line.contains("unknown command") && line.contains(END) => break,
                Ok(line) => pages.extend(page(&line)),
                Err(_) => return Ok(Err("QEMU's monitor does not answer".to_string())),
            }
        }
        looks += 1;
        if let Err(why) = judge(&pages, &text) {
            return Ok(Err(format!("look {looks}, {} pages: {why}", pages.len())));
        }
    }
    Ok(Ok(()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: Range<u64> = 0xffff_ffff_8010_0000..0xffff_ffff_8011_0000;
    const GOOD: [&str; 4] = [
        "ffff800000000000: 0000000000000000 XG--A---W\r\n",
        "ffffffff80100000: 0000000000100000 -G--A----\r\n",
        "ffffffffb0000000: 0000000000300000 -G--A----\r\n",
        "0000000000200000: 0000000000400000 ----A--U-\r\n",
    ];

    fn judged(more: &str) -> Verdict {
        let lines = GOOD.into_iter().chain([more]);
        judge(&lines.filter_map(page).collect::<Vec<_>>(), &TEXT)
    }

    #[test]
    fn what_qemu_says_is_understood() {
        assert!(GOOD.into_iter().all(|line| page(line).is_some()));
        assert!(page("(qemu) info tlb").is_none());
        let large = page("ffff800000200000: 0000000000200000 XGPDA---W").unwrap();
        assert_eq!(large.frames, 0x20_0000..0x40_0000);
        assert!(large.writable && !large.executable && !large.user);
    }

    #[test]
    fn each_fault_is_found() {
        assert_eq!(judged(""), Ok(()));
        for (line, why) in [
            (
                "0000000000201000: 0000000000401000 ----A--UW",
                "writable and",
            ),
            ("ffff800000001000: 0000000000001000 XG--A--U-", "shown to"),
            ("ffffffff80200000: 0000000000200000 -G--A----", "neither"),
            (
                "ffff800000100000: 0000000000100000 XG--A---W",
                "can be written",
            ),
        ] {
            assert!(judged(line).is_err_and(|said| said.contains(why)), "{line}");
        }
        let few: Vec<_> = GOOD[..2].iter().filter_map(|line| page(line)).collect();
        assert!(judge(&few, &TEXT).is_err());
    }
}
