//! `./cairn bench links`: how frames reach the reader of a link by each way in which its driver may hear of its device (docs/links.md), measured by native
//! components (benches/links) in deterministic mode. Two devices are at one wire within QEMU; the second one has a sender whose cost is known and taken off.
//!
//! The reader writes a line `run KEY=VALUE …` to the log for each measurement. From these come the cost of an interrupt and of a tick (C), of a frame (α),
//! latencies, what was delivered of what was offered, and the figures with a budget.

use super::plot::{Curve, Plot};
use super::{beyond, grouped, read_budgets, spec, Place};
use crate::cli::{self, Machine, Root, System};
use crate::guest::{Guest, Input};
use crate::machine::Boot;
use crate::{places, progress};
use anyhow::{bail, Context, Result};
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The word for this table among the operations of `./cairn bench`.
pub const WORD: &str = "links";
const MANIFEST: &str = "benches/links.toml";
const MARK: &str = "] links-reader: run ";
const END: &str = "] links-reader: end";
const LIMIT: Duration = Duration::from_secs(1800);
/// The clocks by whose ticks α is told: with many frames in a tick, and with few.
const HERTZ: [u64; 2] = [1_000, 10_000];

/// One measurement, with all that its line says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Run {
    what: String,
    way: String,
    numbers: BTreeMap<String, u64>,
}

impl Run {
    /// Of a line of the log.
    fn parse(line: &str) -> Option<Run> {
        let mut run = Run::default();
        for word in line.split_once(MARK)?.1.split_whitespace() {
            let (key, value) = word.split_once('=')?;
            match key {
                "what" => run.what = value.to_string(),
                "way" => run.way = value.to_lowercase(),
                _ => {
                    run.numbers.insert(key.to_string(), value.parse().ok()?);
                }
            }
        }
        Some(run)
    }

    fn number(&self, key: &str) -> u64 {
        self.numbers.get(key).copied().unwrap_or_default()
    }

    /// The way with its clock.
    fn name(&self) -> String {
        match self.number("hertz") {
            0 => self.way.clone(),
            hertz => format!("{}-{hertz}", self.way),
        }
    }

    fn is_busy(&self) -> bool {
        self.number("busy") == 1
    }

    /// Frames a second that were to be sent.
    fn offered(&self) -> u64 {
        self.number("burst") * 10_000_000 / self.number("period").max(1)
    }
}

/// All measurements of one machine.
struct Runs {
    all: Vec<Run>,
    /// Nanoseconds that a turn of the sender takes beyond those that it counts itself.
    turn: f64,
}

/// What a machine's processor has for each thing, in guest instructions.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Costs {
    /// An interrupt, beyond the frame that it brings.
    interrupt: f64,
    /// A tick that finds frames, beyond these, and one that finds none.
    tick: f64,
    empty: f64,
    /// A frame: the driver's work and the reader's.
    frame: f64,
}

impl Runs {
    fn new(all: Vec<Run>) -> Result<Runs> {
        let mut runs = Runs { all, turn: 0.0 };
        // Where there is too much, QEMU's hub lets frames pass that wait.
        let single = |run: &&Run| ["sparse", "latency"].contains(&run.what.as_str());
        if let Some(run) = runs
            .all
            .iter()
            .filter(single)
            .find(|run| run.number("disorder") > 0)
        {
            bail!("frames came out of order: {run:?}");
        }
        let (still, turning) = (
            runs.cost(|run| run.number("wakes") <= 1)?,
            runs.cost(|run| is_idle(run) && run.number("wakes") > 1)?,
        );
        // Beyond what it counts itself.
        let lost = |run: &Run| {
            let [passed, others] = [
                run.number("passed"),
                run.number("computed") + run.number("ran"),
            ];
            passed as f64 - others as f64
        };
        let wakes = turning.number("wakes") as f64 - still.number("wakes") as f64;
        runs.turn = (lost(turning) - lost(still)) / wakes;
        Ok(runs)
    }

    fn cost(&self, is: impl Fn(&Run) -> bool) -> Result<&Run> {
        let mut costs = self.all.iter().filter(|run| run.what == "costs");
        costs
            .find(|run| is(run))
            .context("a measurement of costs is missing")
    }

    /// What the sender took of the processor.
    fn sender(&self, run: &Run) -> f64 {
        run.number("ran") as f64 + self.turn * run.number("wakes") as f64
    }

    /// What was taken by nobody whose time is known.
    fn used(&self, run: &Run) -> f64 {
        run.number("passed") as f64 - run.number("computed") as f64 - self.sender(run)
    }

    fn costs(&self) -> Result<Costs> {
        let base = self.used(self.cost(|run| is_idle(run) && run.way == "interrupts")?);
        let clock = |hertz, idle| {
            self.cost(move |run| {
                run.way == "clock" && run.number("hertz") == hertz && is_idle(run) == idle
            })
        };
        let ticking = clock(HERTZ[1], true)?;
        let empty = (self.used(ticking) - base) / ticking.number("ticks").max(1) as f64;
        // What both took is so many ticks and so many frames: two equations (Cramer's rule).
        let mut rows = [[0.0; 3]; 2];
        for (row, hertz) in rows.iter_mut().zip(HERTZ) {
            let run = clock(hertz, false)?;
            let [ticks, frames] = ["ticks", "frames"].map(|key| run.number(key) as f64);
            *row = [ticks, frames, self.used(run) - base];
        }
        let [[a, b, u], [c, d, v]] = rows;
        let (tick, frame) = (
            (u * d - b * v) / (a * d - b * c),
            (a * v - u * c) / (a * d - b * c),
        );
        let alone = self.cost(|run| run.way == "interrupts" && run.number("frames") > 0)?;
        let each = (self.used(alone) - base) / alone.number("frames").max(1) as f64;
        Ok(Costs {
            interrupt: each - frame,
            tick,
            empty,
            frame,
        })
    }

    /// Frames a second of the time that the sender left.
    fn delivered(&self, run: &Run) -> f64 {
        let left = run.number("passed") as f64 - self.sender(run);
        run.number("frames") as f64 * 1e9 / left.max(1.0)
    }

    /// Those of one kind, on a machine that is busy or not.
    fn of<'r>(&'r self, what: &'r str, busy: bool) -> impl Iterator<Item = &'r Run> {
        let all = self.all.iter();
        all.filter(move |run| run.what == what && run.is_busy() == busy)
    }

    /// Ways in the order of the log.
    fn ways(&self, what: &str) -> Vec<String> {
        let mut ways: Vec<String> = self.of(what, false).map(Run::name).collect();
        ways.dedup();
        ways
    }

    /// What is judged, by name.
    fn figures(&self) -> BTreeMap<String, u64> {
        let mut figures = BTreeMap::new();
        let mut put = |name: String, value: f64| {
            let old = figures.entry(name).or_insert(0);
            *old = value.round().max(*old as f64) as u64;
        };
        for way in self.ways("load") {
            for busy in [false, true] {
                let loads: Vec<&Run> = self
                    .of("load", busy)
                    .filter(|run| run.name() == way)
                    .collect();
                let peak = loads
                    .iter()
                    .map(|run| self.delivered(run))
                    .fold(0.0, f64::max);
                for run in &loads {
                    if run.offered() as f64 >= 10.0 * peak {
                        let lost = 1000.0 - 1000.0 * self.delivered(run) / peak;
                        put(format!("overload-loss-{way}"), lost);
                    }
                }
            }
        }
        for run in self.all.iter().filter(|run| run.what != "costs") {
            let latest = run.number("latest") as f64;
            put(format!("real-time-latest-{}", run.name()), latest);
        }
        // Sparse: no two frames in a tick's time, even of the slowest clock.
        for busy in [false, true] {
            let least = |way: &str| {
                let run = self.of("sparse", busy).find(|run| run.name() == way);
                run.map(|run| run.number("least") as f64)
            };
            let first = least("interrupts").filter(|least| *least > 0.0);
            for way in self
                .ways("sparse")
                .iter()
                .filter(|way| way.starts_with("hybrid"))
            {
                if let (Some(first), Some(least)) = (first, least(way)) {
                    put(format!("least-{way}"), 100.0 * least / first);
                }
            }
        }
        figures
    }
}

/// Nothing was sent.
fn is_idle(run: &Run) -> bool {
    run.number("burst") == 0
}

#[derive(Debug, Default, serde::Deserialize)]
struct Budgets {
    #[serde(default, rename = "links")]
    held: BTreeMap<String, u64>,
    #[serde(default, rename = "links-goal")]
    goal: BTreeMap<String, u64>,
}

impl Budgets {
    /// Figures beyond what is held, and what has a budget and no figure.
    fn exceeded(&self, figures: &BTreeMap<String, u64>) -> Vec<String> {
        let over = self
            .held
            .iter()
            .filter_map(|(name, &most)| beyond(name, figures.get(name).copied(), most));
        over.collect()
    }
}

pub fn bench(arguments: &cli::Bench) -> Result<u8> {
    if arguments.system == Some(System::Linux) || arguments.histogram {
        bail!("`bench {WORD}` is about Cairn's links; it has no histograms");
    }
    let place = Place::open(arguments)?;
    let budgets = read_budgets::<Budgets>()?;
    let runs = Runs::new(measured("")?)?;
    let (text, plot) = told(&runs, &budgets)?;
    let text = format!("{text}Plot: {}\n", plot.display());
    place.put(&as_json(&runs)?, &text)?;
    let over = budgets.exceeded(&runs.figures());
    if arguments.check {
        over.iter().for_each(|why| eprintln!("cairn: {why}"));
    }
    Ok(u8::from(arguments.check && !over.is_empty()))
}

/// The tables and the plot, for `bench founding`.
pub fn table() -> Result<String> {
    Ok(told(&Runs::new(measured("")?)?, &read_budgets::<Budgets>()?)?.0)
}

fn told(runs: &Runs, budgets: &Budgets) -> Result<(String, PathBuf)> {
    let plot = places::build().join("founding/clocked-interrupts.svg");
    if let Some(folder) = plot.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(&plot, as_plot(runs).svg())
        .with_context(|| format!("cannot write {}", plot.display()))?;
    Ok((as_text(runs, budgets)?, plot))
}

/// What the components of one machine measure; `rows`: which of it, all if nothing is said.
fn measured(rows: &str) -> Result<Vec<Run>> {
    let append = match rows {
        "" => String::new(),
        rows => format!("links.rows={rows}"),
    };
    let machine = Machine {
        append: Some(append),
        with: Some(places::root().join(MANIFEST)),
        ..Machine::plain(System::Cairn, Root::Small.memory())
    };
    let boot = Boot::prepare("bench", &machine)?;
    let log = boot.nucleus_log();
    let mut guest = match Guest::start(boot, &machine, true)? {
        Ok(guest) => guest,
        Err(failure) => bail!("{failure}"),
    };
    let mut step = progress::Step::begin("measuring links (some minutes)");
    // Whoever looks for this file begins it.
    let ask = spec(vec![b"cat".to_vec(), b"/links/run".to_vec()]);
    if let Err(failure) = guest.run(&ask, Input::Empty, Some(LIMIT), &mut |_, _| ()) {
        bail!("{failure}");
    }
    let deadline = Instant::now() + LIMIT;
    loop {
        step.tick();
        let text = fs::read(&log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        if text.lines().any(|line| line.ends_with(END)) {
            guest.power_off();
            return Ok(text.lines().filter_map(Run::parse).collect());
        }
        guest.log.look();
        let died = text.contains("!backtrace links") || guest.log.panic().is_some();
        if died || Instant::now() > deadline {
            guest.log.show_failure();
            bail!("the measurement did not come to its end");
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// A table in Markdown, as the docs have it.
fn rows(head: Vec<String>, body: Vec<Vec<String>>) -> String {
    let rule = vec!["---".to_string(); head.len()];
    let all = [vec![head, rule], body].concat();
    let lines: Vec<String> = all
        .iter()
        .map(|cells| format!("| {} |\n", cells.join(" | ")))
        .collect();
    lines.concat()
}

fn thousands(value: f64) -> String {
    grouped((value / 1000.0).round() as u64)
}

fn as_text(runs: &Runs, budgets: &Budgets) -> Result<String> {
    let costs = runs.costs()?;
    let cost = |instructions: f64| grouped(instructions.max(0.0) as u64);
    let mut text = format!(
        "Clocked interrupts (guest instructions; an instruction is a nanosecond)\n\n\
         C of an interrupt: {}, C of a tick: {} ({} if it finds nothing), α of a frame of 64 bytes: {}.\n\n",
        cost(costs.interrupt),
        cost(costs.tick),
        cost(costs.empty),
        cost(costs.frame),
    );
    text += &inequalities(runs, costs);
    for what in ["sparse", "latency"] {
        text += &format!(
            "\nlatency, {}\n\n{}",
            rate_told(runs, what),
            latencies(runs, what)
        );
    }
    text += "\ndelivered at too great a load, by size of frames: thousands a second of the time that the sender leaves (idle, busy)\n\n";
    text += &by(runs, "size", "length", |run| {
        format!("{} bytes", run.number("length"))
    });
    text += "\ndelivered of what was offered, frames of 64 bytes: thousands a second of the time that the sender leaves (idle, busy)\n\n";
    text += &by(runs, "load", "burst", |run| thousands(run.offered() as f64));
    text.push('\n');
    let mut body = Vec::new();
    for (name, figure) in runs.figures() {
        let (held, goal) = (budgets.held.get(&name), budgets.goal.get(&name));
        let beyond = |most: Option<&u64>| most.is_some_and(|&most| figure > most);
        let mark = match () {
            () if beyond(held) => "!",
            () if beyond(goal) => "*",
            () => "",
        };
        let most = held.or(goal).map_or(String::new(), |&most| grouped(most));
        body.push(vec![name, format!("{}{mark}", grouped(figure)), most]);
    }
    let head = ["figure", "measured", "at most"].map(String::from).to_vec();
    text += &rows(head, body);
    text += "overload-loss: per mille of the peak that are missing where ten times as much is offered; \
             real-time-latest: instructions; least: the least latency, per cent of that by interrupts. \
             !: over the budget, which is held; *: not there yet, a goal.\n";
    Ok(text)
}

/// What each of the paper's inequalities allows, beside what was delivered.
fn inequalities(runs: &Runs, costs: Costs) -> String {
    let mut body = Vec::new();
    for way in runs.ways("load") {
        let loads = || runs.of("load", true).filter(|run| run.name() == way);
        let peak = loads().map(|run| runs.delivered(run)).fold(0.0, f64::max);
        let hertz = loads().next().map_or(0, |run| run.number("hertz")) as f64;
        let by_interrupts = 1e9 / (costs.interrupt + costs.frame);
        let by_clock = (1e9 - hertz * costs.tick) / costs.frame;
        let allowed = match way.split('-').next() {
            Some("interrupts") => ["λk(C + α) < 1".to_string(), thousands(by_interrupts)],
            Some("clock") => ["βC + λkα < 1".to_string(), thousands(by_clock)],
            _ => [
                "the better one".to_string(),
                thousands(by_clock.max(by_interrupts)),
            ],
        };
        let [inequality, allowed] = allowed;
        body.push(vec![way, inequality, allowed, thousands(peak)]);
    }
    let head = [
        "way",
        "inequality",
        "allows, thousands/s",
        "peak, busy machine",
    ];
    rows(head.map(String::from).to_vec(), body)
}

fn rate_told(runs: &Runs, what: &str) -> String {
    let rate = runs.of(what, false).next().map_or(0, Run::offered);
    format!("{} frames a second", grouped(rate))
}

fn latencies(runs: &Runs, what: &str) -> String {
    let cells = |way: &String| {
        let mut cells = vec![way.clone()];
        for busy in [false, true] {
            let run = runs.of(what, busy).find(|run| run.name() == *way);
            let keys = ["least", "mean", "most"];
            cells.extend(
                keys.map(|key| run.map_or("–".to_string(), |run| grouped(run.number(key)))),
            );
        }
        cells
    };
    let body = runs.ways(what).iter().map(cells).collect();
    let head = [
        "way",
        "idle: least",
        "mean",
        "most",
        "busy: least",
        "mean",
        "most",
    ];
    rows(head.map(String::from).to_vec(), body)
}

/// What was delivered, a line for each way and a column for each value of `key`.
fn by(runs: &Runs, what: &str, key: &str, told: impl Fn(&Run) -> String) -> String {
    let mut columns: Vec<&Run> = runs.of(what, false).collect();
    columns.sort_by_key(|run| run.number(key));
    columns.dedup_by_key(|run| run.number(key));
    let mut head = vec!["way".to_string()];
    head.extend(columns.iter().map(|run| told(run)));
    let cells = |way: &String| {
        let mut cells = vec![way.clone()];
        for column in &columns {
            let value = |busy| {
                let mut runs_of = runs.of(what, busy);
                let run =
                    runs_of.find(|run| run.name() == *way && run.number(key) == column.number(key));
                run.map_or("–".to_string(), |run| thousands(runs.delivered(run)))
            };
            cells.push(format!("{}, {}", value(false), value(true)));
        }
        cells
    };
    rows(head, runs.ways(what).iter().map(cells).collect())
}

fn as_plot(runs: &Runs) -> Plot<'static> {
    let curve = |way: String| {
        let loads = runs.of("load", true).filter(|run| run.name() == way);
        let points = loads.map(|run| [run.offered() as f64 / 1000.0, runs.delivered(run) / 1000.0]);
        let points = points.collect();
        Curve { name: way, points }
    };
    Plot {
        title: "Frames of 64 bytes: delivered by offered, on a busy machine",
        axes: [
            "offered, thousands a second (logarithmic)",
            "delivered, thousands a second of the time that the sender leaves",
        ],
        curves: runs.ways("load").into_iter().map(curve).collect(),
    }
}

fn as_json(runs: &Runs) -> Result<String> {
    let costs = runs.costs()?;
    let lines: Vec<_> = runs
        .all
        .iter()
        .map(|run| {
            serde_json::json!({"what": run.what, "way": run.name(), "numbers": run.numbers, "offered": run.offered(), "delivered": runs.delivered(run)})
        })
        .collect();
    let all = serde_json::json!({
        "unit": "guest instructions",
        "interrupt": costs.interrupt,
        "tick": costs.tick,
        "frame": costs.frame,
        "figures": runs.figures(),
        "runs": lines,
    });
    Ok(serde_json::to_string_pretty(&all)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(what: &str, way: &str, numbers: &[(&str, u64)]) -> Run {
        let numbers = numbers.iter().map(|(key, value)| (key.to_string(), *value));
        Run {
            what: what.to_string(),
            way: way.to_string(),
            numbers: numbers.collect(),
        }
    }

    /// A turn of the sender costs 2,000 beyond what it counts, an interrupt 3,000, a tick 1,000 (an empty one 300) and a frame 500.
    fn runs() -> Runs {
        let cost = |way, more: &[(&str, u64)]| {
            let same = [("busy", 1), ("passed", 1_000_000)];
            run("costs", way, &[&same, more].concat())
        };
        let clock =
            |hertz, more: &[(&str, u64)]| cost("clock", &[&[("hertz", hertz)], more].concat());
        let load = |way, burst, frames, least| {
            let numbers = [
                ("passed", 1_000_000_000),
                ("burst", burst),
                ("period", 20_000),
                ("frames", frames),
                ("latest", 900),
                ("least", least),
            ];
            [0, 1].map(|busy| run("load", way, &[&numbers[..], &[("busy", busy)]].concat()))
        };
        let mut all = vec![
            cost("interrupts", &[("wakes", 1), ("computed", 998_000)]),
            cost(
                "interrupts",
                &[("wakes", 11), ("ran", 1000), ("computed", 977_000)],
            ),
            clock(HERTZ[1], &[("ticks", 20), ("computed", 994_000)]),
            clock(
                HERTZ[0],
                &[
                    ("ticks", 2),
                    ("computed", 948_000),
                    ("burst", 1),
                    ("frames", 100),
                ],
            ),
            clock(
                HERTZ[1],
                &[
                    ("ticks", 20),
                    ("computed", 930_000),
                    ("burst", 1),
                    ("frames", 100),
                ],
            ),
            cost(
                "interrupts",
                &[("computed", 965_000), ("burst", 100), ("frames", 10)],
            ),
        ];
        all.extend(load("interrupts", 1_000, 500_000, 0));
        all.extend(load("interrupts", 20_000, 400_000, 0));
        for (way, least) in [("interrupts", 1000), ("hybrid", 1110)] {
            all.push(run("sparse", way, &[("least", least), ("busy", 0)]));
        }
        Runs::new(all).unwrap()
    }

    #[test]
    fn lines_of_the_log_are_read() {
        let line = "[ 0.1] links-reader: run what=load way=Clock hertz=1000 busy=1 burst=200 period=20000 frames=7";
        let read = Run::parse(line).unwrap();
        assert_eq!(
            (read.what.as_str(), read.name().as_str()),
            ("load", "clock-1000")
        );
        assert!(read.is_busy());
        assert_eq!(
            [read.offered(), read.number("frames"), read.number("none")],
            [100_000, 7, 0]
        );
        assert_eq!(
            Run::parse("[ 0.1] links-reader: the reader has its link"),
            None
        );
        assert_eq!(
            Run::parse("[ 0.1] links-reader: run what=load frames=x"),
            None
        );
    }

    #[test]
    fn costs_come_of_what_a_computing_thread_got() {
        let runs = runs();
        assert_eq!(runs.turn, 2000.0);
        let expected = Costs {
            interrupt: 3000.0,
            tick: 1000.0,
            empty: 300.0,
            frame: 500.0,
        };
        assert_eq!(runs.costs().unwrap(), expected);
    }

    #[test]
    fn a_loss_at_ten_times_the_peak_and_a_late_hybrid_are_figures() {
        let runs = runs();
        let figures = runs.figures();
        let of = |name: &str| figures.get(name).copied();
        assert_eq!(of("overload-loss-interrupts"), Some(200));
        assert_eq!(of("real-time-latest-interrupts"), Some(900));
        assert_eq!(of("least-hybrid"), Some(111));
        let mut budgets = Budgets::default();
        budgets.goal.insert("least-hybrid".into(), 110);
        budgets.held.insert("overload-loss-interrupts".into(), 50);
        budgets.held.insert("overload-loss-nobody".into(), 50);
        assert_eq!(budgets.exceeded(&figures).len(), 2);
        let text = as_text(&runs, &budgets).unwrap();
        assert!(text.contains("| least-hybrid | 111* | 110 |"), "{text}");
        assert!(
            text.contains("| overload-loss-interrupts | 200! | 50 |"),
            "{text}"
        );
        assert!(
            text.contains("| interrupts | λk(C + α) < 1 | 286 | 500 |"),
            "{text}"
        );
        assert!(as_plot(&runs).svg().contains("<polyline"));
    }

    #[test]
    fn the_budgets_of_the_project_can_be_read() {
        let budgets = read_budgets::<Budgets>().unwrap();
        assert!(budgets
            .goal
            .keys()
            .all(|name| !budgets.held.contains_key(name)));
    }
}
