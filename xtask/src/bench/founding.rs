//! `./cairn bench founding`: the tables that the papers of the five founding systems print, measured again on Cairn, with lean Linux in the place of the UNIX
//! of the time.
//!
//! The rows are those of `./cairn bench` and `./cairn bench ipc`; nothing is measured here that these do not measure. Old machines' microseconds and cycles do
//! not compare with instructions,
//! so what stands beside each other is ratios: the paper's system against the one that it was compared with, and Cairn against Linux; or, where a paper has no
//! other system, how a figure grows.

use super::chart::{self, Bar, Chart};
use super::{figures_of, grouped, links, nucleus, Figure, Place};
use crate::cli::{self, System};
use crate::places;
use anyhow::{bail, Context, Result};
use std::collections::BTreeMap;
use std::fs;

/// The word for these tables among the operations of `./cairn bench`.
pub const WORD: &str = "founding";

/// What the paper says of one row.
#[derive(Clone, Copy)]
enum Paper {
    /// How many times as fast as the other system.
    Ratio(f64),
    /// Its rate and the other system's.
    Rates(f64, f64, &'static str),
    /// Its time and the other system's.
    Times(f64, f64, &'static str),
    /// A figure, and that from which the growth is counted.
    Grown(f64, f64, &'static str),
}

impl Paper {
    fn ratio(self) -> f64 {
        match self {
            Paper::Ratio(ratio) => ratio,
            Paper::Rates(its, other, _) => its / other,
            Paper::Times(its, other, _) => other / its,
            Paper::Grown(figure, first, _) => figure / first,
        }
    }

    fn told(self) -> String {
        match self {
            Paper::Ratio(_) => "ratio only".to_string(),
            Paper::Rates(its, other, unit) | Paper::Times(its, other, unit) => {
                format!("{its} : {other} {unit}")
            }
            Paper::Grown(figure, _, unit) => format!("{figure} {unit}"),
        }
    }
}

/// Where Cairn's figure is.
#[derive(Clone, Copy)]
enum Ours {
    /// A row of `bench`, on both systems.
    Both(&'static str),
    /// A row of `bench ipc` and the one from which its growth is counted: medians, or 99th percentiles.
    Median(&'static str, &'static str),
    High(&'static str, &'static str),
}

struct Line {
    what: &'static str,
    paper: Paper,
    ours: Ours,
}

const fn line(what: &'static str, paper: Paper, ours: Ours) -> Line {
    Line { what, paper, ours }
}

struct Table {
    /// Of its files.
    name: &'static str,
    title: &'static str,
    /// What a ratio says, of the paper's and of ours.
    scale: &'static str,
    series: [&'static str; 2],
    lines: &'static [Line],
    /// What of the paper is not among them, and why.
    left_out: &'static str,
}

use Ours::{Both, High, Median};
use Paper::{Grown, Rates, Ratio, Times};

const TABLES: [Table; 4] = [
    Table {
        name: "ridge",
        title: "Ridge 32 against VAX-11/780 with 4.2BSD; Cairn against Linux",
        scale: "times as fast as the other system; the scale is logarithmic",
        series: ["Ridge : VAX (wall time)", "Linux : Cairn (instructions)"],
        lines: &[
            line("write a file", Rates(499.0, 142.0, "KB/s"), Both("ext4-write-8k-new")),
            line("read a file", Rates(611.0, 202.0, "KB/s"), Both("ext4-read-8k")),
            line("copy a file", Rates(303.0, 243.0, "KB/s"), Both("ext4-cp-8m")),
            line("pipe", Rates(435.0, 243.0, "KB/s"), Both("pipe-64k")),
            line("getpid", Rates(52.0, 5.0, "thousand/s"), Both("getppid")),
            line("sbrk", Rates(62.0, 2.0, "thousand/s"), Both("brk")),
            line("fork", Rates(13.0, 28.0, "/s"), Both("fork-exit-wait")),
            line("creat", Rates(16.0, 30.0, "/s"), Both("ext4-creat-close")),
        ],
        left_out: "The paper's round trip of a message (about 150 instructions) has no other system beside it: row call-reply of `bench ipc`.",
    },
    Table {
        name: "qnx4",
        title: "QNX 4.1 against SVR4; Cairn against Linux",
        scale: "times as fast as the other system; the scale is logarithmic",
        series: ["QNX : SVR4 (wall time)", "Linux : Cairn (instructions)"],
        lines: &[
            line("kernel call", Ratio(3.5), Both("getppid")),
            line("messages", Ratio(13.9), Both("sysv-message-trip")),
            line("pipe, 1 KB", Ratio(2.1), Both("pipe-1k")),
            line("pipe, 16 KB", Ratio(1.8), Both("pipe-16k")),
            line("file read (UFS)", Ratio(4.9), Both("ext4-read-8k")),
            line("file read (S5)", Ratio(8.2), Both("ext4-read-8k")),
            line("file write (UFS)", Ratio(3.0), Both("ext4-write-8k-new")),
            line("file write (S5)", Ratio(13.0), Both("ext4-write-8k-new")),
        ],
        left_out: "Left out: the absolute figures behind these ratios, for which we have no source; use of the wire (95 % of Arcnet, 81 % of Ethernet), for which there is no bench; context switch and interrupt latency (17 and 6 µs), which have no other system beside them.",
    },
    Table {
        name: "pebble",
        title: "Pebble's four tables: how a figure grows",
        scale: "times the first figure of its group; the scale is logarithmic",
        series: ["Pebble (cycles)", "Cairn (instructions)"],
        lines: &[
            line("one-way call", Grown(114.0, 114.0, "cycles"), Median("call-one-way", "call-one-way")),
            line("short-circuit portal", Grown(41.0, 114.0, "cycles"), Median("identity", "call-one-way")),
            line("yield among 2", Grown(356.0, 356.0, "cycles"), Median("yield-2", "yield-2")),
            line("yield among 4", Grown(365.0, 356.0, "cycles"), Median("yield-4", "yield-2")),
            line("yield among 8", Grown(471.0, 356.0, "cycles"), Median("yield-8", "yield-2")),
            line("semaphore ring of 2", Grown(733.0, 733.0, "cycles"), Median("semaphore-ring-2", "semaphore-ring-2")),
            line("semaphore ring of 4", Grown(740.0, 733.0, "cycles"), Median("semaphore-ring-4", "semaphore-ring-2")),
            line("semaphore ring of 8", Grown(876.0, 733.0, "cycles"), Median("semaphore-ring-8", "semaphore-ring-2")),
            line("interrupt, idle", Grown(1356.0, 1356.0, "cycles"), Median("interrupt-idle", "interrupt-idle")),
            line("idle, 99 %", Grown(1358.0, 1356.0, "cycles"), High("interrupt-idle", "interrupt-idle")),
            line("beside short-circuit", Grown(1370.0, 1356.0, "cycles"), Median("interrupt-identity", "interrupt-idle")),
            line("beside short-circuit, 99 %", Grown(1392.0, 1356.0, "cycles"), High("interrupt-identity", "interrupt-idle")),
            line("beside calls", Grown(1444.0, 1356.0, "cycles"), Median("interrupt-call", "interrupt-idle")),
            line("beside calls, 99 %", Grown(1514.0, 1356.0, "cycles"), High("interrupt-call", "interrupt-idle")),
            line("beside yields", Grown(1540.0, 1356.0, "cycles"), Median("interrupt-yield", "interrupt-idle")),
            line("beside yields, 99 %", Grown(1724.0, 1356.0, "cycles"), High("interrupt-yield", "interrupt-idle")),
            line("beside semaphores", Grown(1532.0, 1356.0, "cycles"), Median("interrupt-semaphore", "interrupt-idle")),
            line("beside semaphores, 99 %", Grown(1732.0, 1356.0, "cycles"), High("interrupt-semaphore", "interrupt-idle")),
        ],
        left_out: "Left out: one thread that yields (358 cycles), because Cairn then switches to nobody; a ring of one domain (539 cycles), for which there is no row. Linux has none of these operations; rows sched_yield and semaphore-ring-8 of `bench` compare with it.",
    },
    Table {
        name: "message-microkernel",
        title: "The message-based microkernel against a monolithic kernel; Cairn against Linux",
        scale: "times as fast as the other system; the scale is logarithmic",
        series: ["microkernel : monolithic (time)", "Linux : Cairn (instructions)"],
        lines: &[
            line("null call", Times(231.0, 50.0, "µs"), Both("getppid")),
            line("null call, as a message", Times(231.0, 50.0, "µs"), Both("epoll-wait-1-of-10")),
            line("null call, shared memory", Times(71.0, 50.0, "µs"), Both("epoll-wait-1-of-10")),
            line("task created and started", Times(645.0, 159.0, "µs"), Both("thread-create-join")),
            line("the same, shared memory", Times(268.0, 159.0, "µs"), Both("thread-create-join")),
            line("interrupt latency", Times(31.0, 4.75, "µs"), Both("timer-idle")),
        ],
        left_out: "Left out: a task that is created and not started (309 : 64 µs, by shared memory 113 : 64), for which there is no row.",
    },
];

/// What was measured: rows of `bench` on Cairn and on Linux, and those of `bench ipc`, median and 99th percentile.
#[derive(Default)]
struct Measured {
    both: BTreeMap<String, [Option<u64>; 2]>,
    nucleus: BTreeMap<String, [u64; 2]>,
}

impl Measured {
    /// Cairn's figure, and the one that it is compared with.
    fn pair(&self, ours: Ours) -> Option<[u64; 2]> {
        let nucleus = |row: &str, which: usize| self.nucleus.get(row).map(|figures| figures[which]);
        match ours {
            Both(row) => match self.both.get(row)? {
                [Some(cairn), Some(linux)] => Some([*cairn, *linux]),
                _ => None,
            },
            Median(row, first) => Some([nucleus(row, 0)?, nucleus(first, 0)?]),
            High(row, first) => Some([nucleus(row, 1)?, nucleus(first, 0)?]),
        }
    }

    fn ratio(&self, ours: Ours) -> Option<f64> {
        let [cairn, other] = self.pair(ours)?;
        let [cairn, other] = [cairn as f64, other as f64];
        match ours {
            Both(_) if cairn > 0.0 => Some(other / cairn),
            Median(..) | High(..) if other > 0.0 => Some(cairn / other),
            _ => None,
        }
    }
}

pub fn bench(arguments: &cli::Bench) -> Result<u8> {
    if arguments.check || arguments.system.is_some() || arguments.histogram {
        bail!("`bench {WORD}` measures both systems, and has no budgets of its own");
    }
    let place = Place::open(arguments)?;
    let measured = measure()?;
    let folder = places::build().join(WORD);
    fs::create_dir_all(&folder)?;
    let mut text = String::new();
    for table in &TABLES {
        text += &format!("{}\n", as_text(table, &measured));
        let file = folder.join(format!("{}.svg", table.name));
        fs::write(&file, as_chart(table, &measured).svg())
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    // The fifth system's figures have no other system's beside them.
    text += &format!(
        "{}\nPlots: {}\n",
        links::table()?,
        folder.join("*.svg").display()
    );
    place.put(&as_json(&measured)?, &text)?;
    Ok(0)
}

/// The rows that the tables name, once each.
fn rows() -> [Vec<String>; 2] {
    let (mut both, mut nucleus) = (Vec::new(), Vec::new());
    for line in TABLES.iter().flat_map(|table| table.lines) {
        match line.ours {
            Both(row) => both.push(row.to_string()),
            Median(row, first) | High(row, first) => {
                nucleus.extend([row.to_string(), first.to_string()]);
            }
        }
    }
    [both, nucleus].map(|mut names| {
        names.sort();
        names.dedup();
        names
    })
}

fn measure() -> Result<Measured> {
    let [both, nucleus] = rows();
    let mut measured = Measured {
        nucleus: nucleus::figures(&nucleus)?,
        ..Measured::default()
    };
    for (place, system) in [System::Cairn, System::Linux].into_iter().enumerate() {
        let figures = figures_of(system, &both)?;
        if let Some(why) = figures.failure {
            bail!("the run on {system:?} ended early: {why}");
        }
        for (name, figure) in figures.by_name {
            if let Figure::Measured { median, .. } = figure {
                measured.both.entry(name).or_default()[place] = Some(median);
            }
        }
    }
    Ok(measured)
}

/// A table in Markdown, as the docs have it.
fn as_text(table: &Table, measured: &Measured) -> String {
    let compared = matches!(table.lines[0].ours, Both(_));
    let (theirs, ours) = match compared {
        true => ("paper", "Linux : Cairn, instructions"),
        false => ("Pebble", "Cairn, instructions"),
    };
    let mut rows = vec![[
        "what".to_string(),
        theirs.to_string(),
        "ratio".to_string(),
        "row".to_string(),
        ours.to_string(),
        "ratio".to_string(),
    ]];
    for line in table.lines {
        let row = match line.ours {
            Both(row) | Median(row, _) => format!("`{row}`"),
            High(row, _) => format!("`{row}`, 99 %"),
        };
        let figures = match (measured.pair(line.ours), compared) {
            (Some([cairn, linux]), true) => format!("{} : {}", grouped(linux), grouped(cairn)),
            (Some([cairn, _]), false) => grouped(cairn),
            (None, _) => "not measured".to_string(),
        };
        let ratio = measured
            .ratio(line.ours)
            .map_or("–".to_string(), chart::number);
        rows.push([
            line.what.to_string(),
            line.paper.told(),
            chart::number(line.paper.ratio()),
            row,
            figures,
            ratio,
        ]);
    }
    let widths: [usize; 6] = std::array::from_fn(|column| {
        rows.iter()
            .map(|row| row[column].chars().count())
            .max()
            .unwrap_or_default()
    });
    let mut text = format!(
        "{}\n(ratio: {})\n\n",
        table.title,
        table.scale.split(';').next().unwrap_or_default()
    );
    for (number, row) in rows.iter().enumerate() {
        let cells: Vec<String> = row
            .iter()
            .zip(widths)
            .map(|(cell, width)| format!("{cell:<width$}"))
            .collect();
        text += &format!("| {} |\n", cells.join(" | "));
        if number == 0 {
            let rules: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
            text += &format!("| {} |\n", rules.join(" | "));
        }
    }
    text + &format!("\n{}\n", table.left_out)
}

fn as_chart<'a>(table: &'a Table, measured: &Measured) -> Chart<'a> {
    let bars = table.lines.iter().map(|line| Bar {
        label: line.what.to_string(),
        values: vec![Some(line.paper.ratio()), measured.ratio(line.ours)],
    });
    Chart {
        title: table.title,
        scale: table.scale,
        series: table.series,
        bars: bars.collect(),
    }
}

fn as_json(measured: &Measured) -> Result<String> {
    let tables: Vec<_> = TABLES
        .iter()
        .map(|table| {
            let lines: Vec<_> = table
                .lines
                .iter()
                .map(|line| {
                    serde_json::json!({
                        "what": line.what,
                        "paper": line.paper.told(),
                        "paper-ratio": line.paper.ratio(),
                        "figures": measured.pair(line.ours),
                        "ratio": measured.ratio(line.ours),
                    })
                })
                .collect();
            serde_json::json!({"name": table.name, "title": table.title, "lines": lines, "left-out": table.left_out})
        })
        .collect();
    Ok(serde_json::to_string_pretty(&tables)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_can_be_there() {
        let [both, nucleus] = rows();
        assert_eq!(super::super::nothing_begins_so(&both), None);
        let nucleus = [vec![nucleus::WORD.to_string()], nucleus].concat();
        assert_eq!(super::super::nothing_begins_so(&nucleus), None);
    }

    #[test]
    fn ratios_are_the_papers_own() {
        let of = |table: usize, line: usize| chart::number(TABLES[table].lines[line].paper.ratio());
        assert_eq!(
            [of(0, 0), of(0, 6), of(1, 1), of(3, 0), of(3, 5)],
            ["3.51", "0.46", "13.9", "0.22", "0.15"]
        );
    }

    #[test]
    fn tables_tell_what_was_measured_and_what_was_not() {
        let measured = Measured {
            both: BTreeMap::from([
                ("getppid".to_string(), [Some(54), Some(333)]),
                ("brk".to_string(), [Some(75), None]),
            ]),
            nucleus: BTreeMap::from([
                ("call-one-way".to_string(), [45, 46]),
                ("identity".to_string(), [19, 20]),
            ]),
        };
        let ridge = as_text(&TABLES[0], &measured);
        assert!(
            ridge.contains("| 333 : 54 ") && ridge.contains("| 6.17 "),
            "{ridge}"
        );
        let brk = ridge.lines().find(|line| line.contains("`brk`"));
        assert!(
            brk.is_some_and(|line| line.contains("not measured") && line.contains('–')),
            "{ridge}"
        );
        let pebble = as_text(&TABLES[2], &measured);
        let short = pebble
            .lines()
            .find(|line| line.contains("`identity`"))
            .unwrap();
        assert!(
            short.contains("41 cycles") && short.contains("| 0.36 ") && short.contains("| 0.42 "),
            "{short}"
        );
        for table in &TABLES {
            assert!(table
                .lines
                .iter()
                .all(|line| line.what.chars().count() <= 33));
            assert!(as_chart(table, &measured).svg().ends_with("</svg>\n"));
        }
    }
}
