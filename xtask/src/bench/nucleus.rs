//! `./cairn bench ipc`: what the nucleus's own operations cost between protection domains, measured by native components (benches/ipc) in deterministic mode.
//!
//! The components write their figures to the log: `row NAME MEDIAN 99% 99.99% MAX MIN`, `work NAME ENTRIES SWITCHES INVALIDATIONS BYTES` in hundredths, and
//! `histogram NAME FROM:COUNT …`. Some rows are not a component's: `call-reply-general` is `call-reply` of a machine that has only the general path (no code behind portals), `chain-leg` is what
//! each further domain of a chain costs, `nucleus-text` the size of the nucleus's code in bytes, `nucleus-boot-text` that of the code which only boot or an option needs and which is gone afterwards, `nucleus-hot-text` that
//! of what frequent operations execute ([`super::hot_text`]).

use super::{
    all_found, beyond, grouped, hot_text, hundredths, is_wanted, read_budgets, spec, Place, WORK,
};
use crate::cli::{self, Machine, Pair, Root, System};
use crate::guest::{Guest, Input};
use crate::machine::Boot;
use crate::test::compile;
use crate::{nucleus_text, places, progress};
use anyhow::{bail, Context, Result};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// The word for this table among the operations of `./cairn bench`.
pub const WORD: &str = "ipc";
const MANIFEST: &str = "benches/ipc.toml";
/// What begins the lines of the components that measure, in the log.
const MARKS: [&str; 2] = ["] ipc-bench: ", "] ipc-clock: "];
/// For one machine.
const LIMIT: Duration = Duration::from_secs(900);
/// Rows of the machine that has only the general path, and what they are called here.
const GENERAL: [(&str, &str); 1] = [("call-reply", "call-reply-general")];
const LEG: &str = "chain-leg";
const FIRST_LEG: &str = "chain-2";
/// Rows, and those that must cost the same.
const FLAT: [(&str, &[&str]); 3] = [
    (FIRST_LEG, &[LEG]),
    ("yield-2", &["yield-4", "yield-8"]),
    (
        "semaphore-ring-2",
        &["semaphore-ring-4", "semaphore-ring-8"],
    ),
];
/// Rows with one of the program benches/load.c as background.
const LOAD: &str = "/bin/load";
const LOADS: [(&str, &str); 4] = [
    ("interrupt-idle", "idle"),
    ("interrupt-fork", "fork"),
    ("interrupt-write", "write"),
    ("interrupt-fault", "fault"),
];
/// Behind a row's name in budgets.toml: the budget is for another figure than the median.
const FIGURES: [&str; 2] = [":99.99", ":max"];
const TEXT: &str = "nucleus-text";
const BOOT_TEXT: &str = "nucleus-boot-text";
const HOT_TEXT: &str = "nucleus-hot-text";

/// One row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Row {
    median: u64,
    /// 99th and 99.99th percentile.
    high: [u64; 2],
    max: u64,
    min: u64,
    /// What one operation has the nucleus do, in hundredths.
    work: Option<[u64; 4]>,
    /// First value of each column, and how many samples are in it.
    histogram: Vec<(u64, u64)>,
}

impl Row {
    fn of(value: u64) -> Row {
        Row {
            median: value,
            high: [value; 2],
            max: value,
            min: value,
            ..Row::default()
        }
    }
}

/// Rows in the order of the log.
#[derive(Debug, Default)]
struct Rows {
    order: Vec<String>,
    by_name: BTreeMap<String, Row>,
}

impl Rows {
    fn add(&mut self, name: &str, row: Row) {
        if self.by_name.insert(name.to_string(), row).is_none() {
            self.order.push(name.to_string());
        }
    }

    /// Take one line of the log.
    fn line(&mut self, line: &str) {
        let Some((_, told)) = MARKS.iter().find_map(|mark| line.split_once(mark)) else {
            return;
        };
        let mut words = told.split_whitespace();
        let (Some(what), Some(name)) = (words.next(), words.next()) else {
            return;
        };
        let numbers = || -> Vec<u64> { words.clone().map_while(|w| w.parse().ok()).collect() };
        match what {
            "row" => {
                if let [median, p99, p9999, max, min] = numbers()[..] {
                    let row = Row {
                        median,
                        high: [p99, p9999],
                        max,
                        min,
                        ..Row::default()
                    };
                    self.add(name, row);
                }
            }
            "work" => {
                if let Some(row) = self.by_name.get_mut(name) {
                    row.work = numbers().try_into().ok();
                }
            }
            "histogram" => {
                if let Some(row) = self.by_name.get_mut(name) {
                    let pair = |word: &str| {
                        let (from, count) = word.split_once(':')?;
                        Some((from.parse().ok()?, count.parse().ok()?))
                    };
                    row.histogram = words.map_while(pair).collect();
                }
            }
            _ => {}
        }
    }

    /// What each further domain of a chain costs, as far as it was measured.
    fn legs(&self) -> Option<Row> {
        let costs: Vec<u64> = (2..)
            .map_while(|domains| self.by_name.get(&format!("chain-{domains}")))
            .map(|row| row.median)
            .collect();
        let mut legs: Vec<u64> = costs
            .windows(2)
            .map(|pair| pair[1].saturating_sub(pair[0]))
            .collect();
        legs.sort_unstable();
        let greatest = *legs.last()?;
        Some(Row {
            median: legs[legs.len() / 2],
            high: [greatest; 2],
            max: greatest,
            min: legs[0],
            ..Row::default()
        })
    }
}

/// What must hold and what is to be reached.
#[derive(Debug, Default, serde::Deserialize)]
struct Budgets {
    #[serde(default, rename = "ipc")]
    held: BTreeMap<String, u64>,
    #[serde(default, rename = "ipc-goal")]
    goal: BTreeMap<String, u64>,
}

impl Budgets {
    /// What must cost the same with more domains may cost 5 % more: a chain's further leg than its first, a turn among four or eight than among two.
    fn limit_flat(&mut self, rows: &Rows) {
        for (first, others) in FLAT {
            let Some(first) = rows.by_name.get(first) else {
                continue;
            };
            let most = first.median * 105 / 100;
            for &name in others {
                let held = self.held.entry(name.to_string()).or_insert(most);
                *held = most.min(*held);
            }
        }
    }
}

/// A row that no component names and that has no budget is refused before anything is built or booted.
pub fn may_be_there(names: &[String]) -> Result<()> {
    let folder = places::root().join("benches/ipc/src");
    let mut source = String::new();
    for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
        source.push_str(&fs::read_to_string(entry?.path())?);
    }
    let budgets = read_budgets::<Budgets>()?;
    let ours = GENERAL.iter().chain(&LOADS).flat_map(|(a, b)| [*a, *b]);
    let ours = ours.chain([LEG, TEXT, BOOT_TEXT, HOT_TEXT]);
    let known: Vec<&str> = budgets
        .held
        .keys()
        .map(String::as_str)
        .chain(ours)
        .collect();
    for name in names {
        let is_known = known.iter().any(|row| row.starts_with(name.as_str()));
        if !is_known && !source.contains(&format!("\"{name}")) {
            bail!("no row's name begins with {name:?}; `./cairn bench {WORD}` shows all");
        }
    }
    Ok(())
}

/// What components measure, and what is computed from it.
fn measured(names: &[String]) -> Result<Rows> {
    let mut rows = Rows::default();
    for line in run(names, "", &|_| Ok(()))?.lines() {
        rows.line(line);
    }
    if GENERAL.iter().any(|(_, name)| is_wanted(name, names)) {
        let mut general = Rows::default();
        let sources: Vec<String> = GENERAL.iter().map(|(from, _)| from.to_string()).collect();
        for line in run(&sources, " nucleus.portals=none", &|_| Ok(()))?.lines() {
            general.line(line);
        }
        for (from, name) in GENERAL {
            if let Some(row) = general.by_name.remove(from) {
                rows.add(name, row);
            }
        }
    }
    if let Some(legs) = rows.legs() {
        rows.add(LEG, legs);
    }
    Ok(rows)
}

/// Median and 99th percentile of these rows, by their names.
pub fn figures(names: &[String]) -> Result<BTreeMap<String, [u64; 2]>> {
    let rows = measured(names)?.by_name;
    Ok(rows
        .into_iter()
        .map(|(name, row)| (name, [row.median, row.high[0]]))
        .collect())
}

/// `names`: rows that are wanted, all if empty.
pub fn bench(arguments: &cli::Bench, names: &[String]) -> Result<u8> {
    may_be_there(names)?;
    let place = Place::open(arguments)?;
    let mut budgets = read_budgets::<Budgets>()?;
    let mut rows = measured(names)?;
    let text = nucleus_text::sizes()?;
    rows.add(TEXT, Row::of(text.stays));
    rows.add(BOOT_TEXT, Row::of(text.boot));
    if is_wanted(HOT_TEXT, names) {
        let bytes = hot_text::bytes(run)?;
        rows.add(HOT_TEXT, Row::of(bytes));
    }
    budgets.limit_flat(&rows);
    rows.order.retain(|name| is_wanted(name, names));
    let found: Vec<&str> = rows.order.iter().map(String::as_str).collect();
    all_found(names, &found)?;

    let table = as_text(&rows, &budgets, arguments.histogram);
    place.put(&as_json(&rows, &budgets)?, &table)?;
    let over = exceeded(&rows, &budgets, names);
    if arguments.check {
        over.iter().for_each(|why| eprintln!("cairn: {why}"));
    }
    Ok(u8::from(arguments.check && !over.is_empty()))
}

/// The log of one machine in which these rows were measured, all if there are no names. `words` are further ones for its command line; `change` changes the
/// machine when what it boots is built.
fn run(
    names: &[String],
    words: &str,
    change: &dyn Fn(&mut Machine) -> Result<()>,
) -> Result<String> {
    let load = places::build().join("tests/load");
    compile("gcc", &places::root().join("benches/load.c"), &load)?;
    let mut append = words.to_string();
    if !names.is_empty() {
        // A chain's legs come out of the chains.
        let names: Vec<&str> = names
            .iter()
            .map(|name| if LEG.starts_with(name) { "chain" } else { name })
            .collect();
        append.push_str(&format!(" ipc.rows={}", names.join(",")));
    }
    let mut machine = Machine {
        append: Some(append),
        add: vec![Pair {
            first: load.display().to_string(),
            second: LOAD.to_string(),
        }],
        with: Some(places::root().join(MANIFEST)),
        ..Machine::plain(System::Cairn, Root::Small.memory())
    };
    let boot = Boot::prepare("bench", &machine)?;
    change(&mut machine)?;
    let log = boot.nucleus_log();
    let mut guest = match Guest::start(boot, &machine, true)? {
        Ok(guest) => guest,
        Err(failure) => bail!("{failure}"),
    };
    let mut step = progress::Step::begin("measuring the nucleus");
    for (row, load) in LOADS {
        if is_wanted(row, names) {
            let load = spec(vec![LOAD.as_bytes().to_vec(), load.as_bytes().to_vec()]);
            match guest.run(&load, Input::Empty, Some(LIMIT), &mut |_, _| step.tick()) {
                Ok(outcome) if outcome.status() == 0 => {}
                Ok(outcome) => bail!("{row}: the background ended with {outcome:?}"),
                Err(failure) => bail!("{row}: {failure}"),
            }
        }
    }
    let ask = spec(vec![b"cat".to_vec(), b"/ipc/run".to_vec()]);
    if let Err(failure) = guest.run(&ask, Input::Empty, Some(LIMIT), &mut |_, _| ()) {
        bail!("{failure}");
    }
    let deadline = Instant::now() + LIMIT;
    loop {
        step.tick();
        let text = read(&log);
        if text.lines().any(|line| line.ends_with("] ipc-bench: end")) {
            guest.power_off();
            return Ok(text);
        }
        guest.log.look();
        let died = text.contains("!backtrace ipc") || guest.log.panic().is_some();
        if died || Instant::now() > deadline {
            guest.log.show_failure();
            bail!("the measurement did not come to its end");
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn read(path: &Path) -> String {
    fs::read(path)
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .unwrap_or_default()
}

/// Rows beyond their budgets, and budgets without a row.
fn exceeded(rows: &Rows, budgets: &Budgets, names: &[String]) -> Vec<String> {
    let mut why = Vec::new();
    for (key, &budget) in &budgets.held {
        let name = row_of(key);
        if !is_wanted(name, names) {
            continue;
        }
        let figure = rows.by_name.get(name).map(|row| judged(key, row));
        why.extend(beyond(key, figure, budget));
    }
    why
}

/// The row that a budget is for.
fn row_of(key: &str) -> &str {
    let row = FIGURES.iter().find_map(|figure| key.strip_suffix(figure));
    row.unwrap_or(key)
}

/// The figure that a budget is for: the median, of a chain's legs the greatest, or what the key names.
fn judged(key: &str, row: &Row) -> u64 {
    match key.strip_prefix(row_of(key)) {
        Some(":99.99") => row.high[1],
        Some(":max") => row.max,
        _ if key == LEG => row.max,
        _ => row.median,
    }
}

/// The mark behind a figure that is beyond its budget.
fn mark(key: &str, row: &Row, budgets: &Budgets) -> &'static str {
    let beyond = |budget: Option<&u64>| budget.is_some_and(|&budget| judged(key, row) > budget);
    if beyond(budgets.held.get(key)) {
        "!"
    } else if beyond(budgets.goal.get(key)) {
        "*"
    } else {
        " "
    }
}

fn as_text(rows: &Rows, budgets: &Budgets, histogram: bool) -> String {
    let mut text = format!(
        "{:<22} {:>9} {:>9} {:>9} {:>9} {:>9}   |{:>8} {:>8} {:>7} {:>9}\n",
        "guest instructions",
        "median",
        "99 %",
        "99.99 %",
        "max",
        "budget",
        WORK[0],
        WORK[1],
        WORK[2],
        WORK[3]
    );
    for name in &rows.order {
        let row = &rows.by_name[name];
        let budget = budgets.held.get(name).or(budgets.goal.get(name));
        let budget = budget.map_or(String::new(), |&budget| grouped(budget));
        let [high, most] = FIGURES.map(|figure| mark(&format!("{name}{figure}"), row, budgets));
        let mut line = format!(
            "{name:<22} {:>9} {:>9} {:>9}{high}{:>9}{most}{budget:>9} {}",
            grouped(row.median),
            grouped(row.high[0]),
            grouped(row.high[1]),
            grouped(row.max),
            mark(name, row, budgets)
        );
        if let Some(work) = row.work {
            let [entries, switches, invalidations, bytes] = work.map(hundredths);
            line.push_str(&format!(
                "  |{entries:>8} {switches:>8} {invalidations:>7} {bytes:>9}"
            ));
        }
        text.push_str(line.trim_end());
        text.push('\n');
        if histogram {
            text.push_str(&columns(&row.histogram));
        }
    }
    text.push_str("!: over the budget, which is held; *: not there yet, a goal. Right of the bar, for one operation: entries into the nucleus, switches of address space, single TLB invalidations, bytes copied.\n");
    text
}

/// A distribution as bars; a sample is never invisible.
fn columns(histogram: &[(u64, u64)]) -> String {
    const WIDTH: u64 = 60;
    let most = histogram.iter().map(|&(_, count)| count).max().unwrap_or(0);
    let bar = |count: u64| "#".repeat((count * WIDTH).div_ceil(most.max(1)) as usize);
    histogram
        .iter()
        .map(|&(from, count)| {
            format!(
                "  {:>14} {:>7} {}\n",
                grouped(from),
                grouped(count),
                bar(count)
            )
        })
        .collect()
}

fn as_json(rows: &Rows, budgets: &Budgets) -> Result<String> {
    let operations: Vec<serde_json::Value> = rows
        .order
        .iter()
        .map(|name| {
            let row = &rows.by_name[name];
            serde_json::json!({
                "name": name,
                "median": row.median,
                "99": row.high[0],
                "99.99": row.high[1],
                "max": row.max,
                "min": row.min,
                "budget": budgets.held.get(name),
                "goal": budgets.goal.get(name),
                "work": row.work.map(|work| {
                    let named = WORK.into_iter().zip(work.map(|w| w as f64 / 100.0));
                    named.collect::<BTreeMap<_, _>>()
                }),
                "histogram": row.histogram,
            })
        })
        .collect();
    let all = serde_json::json!({"unit": "guest instructions", "operations": operations});
    Ok(serde_json::to_string_pretty(&all)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "[2] vm: row nothing 1 2 3 4 5\n[11] ipc-bench: row chain-2 221 222 223 400 220\n[11] ipc-bench: work chain-2 200 150 0 51200\n\
        [11] ipc-bench: histogram chain-2 220:9999 400:1\n[11] ipc-bench: row chain-3 443 443 443 443 443\n[11] ipc-bench: row chain-4 700 1 1 1 1\n[11] ipc-bench: row short 1 2\n";

    fn rows() -> Rows {
        let mut rows = Rows::default();
        LOG.lines().for_each(|line| rows.line(line));
        rows
    }

    #[test]
    fn the_log_is_read() {
        let rows = rows();
        assert_eq!(rows.order, ["chain-2", "chain-3", "chain-4"]);
        let expected = Row {
            median: 221,
            high: [222, 223],
            max: 400,
            min: 220,
            work: Some([200, 150, 0, 51200]),
            histogram: vec![(220, 9999), (400, 1)],
        };
        assert_eq!(rows.by_name["chain-2"], expected);
        let legs = rows.legs().unwrap();
        assert_eq!((legs.min, legs.median, legs.max), (222, 257, 257));
        assert!(Rows::default().legs().is_none());
    }

    #[test]
    fn held_budgets_are_checked_and_goals_are_not() {
        let mut rows = rows();
        let legs = rows.legs().unwrap();
        rows.add(LEG, legs);
        let mut budgets = Budgets::default();
        budgets.goal.insert("chain-3".into(), 1);
        budgets.goal.insert("chain-3:max".into(), 442);
        budgets.held.insert("chain-2".into(), 221);
        assert!(exceeded(&rows, &budgets, &[]).is_empty());
        budgets.limit_flat(&rows);
        assert_eq!(
            exceeded(&rows, &budgets, &[]),
            ["chain-leg is at 257, its budget is 232"]
        );
        assert!(exceeded(&rows, &budgets, &["chain-2".into()]).is_empty());
        budgets.held.insert("chain-9".into(), 1);
        budgets.held.insert("chain-2:max".into(), 399);
        budgets.held.insert("chain-2:99.99".into(), 223);
        assert_eq!(exceeded(&rows, &budgets, &[]).len(), 3);
        let text = as_text(&rows, &budgets, true);
        assert!(
            text.contains("1 *")
                && text.contains("232 !")
                && text.contains(" #\n")
                && text.contains("443*")
        );
    }

    #[test]
    fn turns_among_more_domains_must_not_cost_more() {
        let mut rows = Rows::default();
        for (name, median) in [("yield-2", 100), ("yield-4", 106), ("yield-8", 105)] {
            rows.add(name, Row::of(median));
        }
        let mut budgets = Budgets::default();
        budgets.held.insert("yield-4".into(), 120);
        budgets.limit_flat(&rows);
        assert_eq!(
            exceeded(&rows, &budgets, &[]),
            ["yield-4 is at 106, its budget is 105"]
        );
    }

    #[test]
    fn the_budgets_of_the_project_can_be_read() {
        let budgets = read_budgets::<Budgets>().unwrap();
        assert!(!budgets.held.is_empty());
        assert!(budgets
            .goal
            .keys()
            .all(|name| !budgets.held.contains_key(name)));
    }
}
