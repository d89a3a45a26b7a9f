//! `./cairn bench`: one static program (benches/bench.c) on both systems in deterministic mode, its figures side by side.
//!
//! One guest instruction is one tick of the time-stamp counter, so a figure does not depend on the host. Linux runs lean (see [`machine`]). Besides what the
//! program measures there are two lines of the harness's own: `boot`, instructions from power-on to the first line of the first process, and
//! `memory`, KiB of the machine's memory that are not free at that moment. `./cairn bench ipc` is another table ([`nucleus`]), and so are `./cairn bench disk`
//! ([`device`]), `./cairn bench links` ([`links`]) and `./cairn bench founding` ([`founding`]).

mod chart;
mod device;
mod founding;
mod hot_text;
mod links;
mod nucleus;
mod plot;

use crate::cli::{self, Machine, Pair, System};
use crate::disk::{self, Scratch, Shape};
use crate::exec::ENVIRONMENT;
use crate::guest::{Guest, Input, Outcome, Stream};
use crate::machine::Boot;
use crate::output::Output;
use crate::test::compile;
use crate::{places, progress};
use anyhow::{bail, Context, Result};
use cairn_hostlink::Spec;
use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::time::Duration;

const PROGRAM: &str = "/bin/bench";
const MEMORY_MIB: u64 = 256;
/// How the names of operations on a disk begin.
const ON_DISK: &str = "ext4-";
/// And those of a real-time program's lateness, which have a program and a machine of their own, with room for a load of 1,000 threads.
const TIMER: &str = "timer-";
const TIMER_PROGRAM: &str = "/bin/lateness";
const TIMER_MEMORY: &str = "1G";
/// Samples of each such row: where one is asked for by name, and in a whole run.
const SAMPLES: [&str; 2] = ["10000", "1000"];
/// For the whole program on one system: deterministic mode is slow on a small host.
const LIMIT: Duration = Duration::from_secs(1800);

/// What one system needed for one operation.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Figure {
    Measured { median: u64, min: u64, max: u64 },
    Unsupported(String),
}

/// Operations in the order in which they ran.
#[derive(Default)]
struct Figures {
    order: Vec<String>,
    by_name: BTreeMap<String, Figure>,
    /// What one operation has the nucleus do, in hundredths.
    work: BTreeMap<String, [u64; 4]>,
    /// Why the run ended early, if it did.
    failure: Option<String>,
}

impl Figures {
    fn add(&mut self, name: &str, figure: Figure) {
        if self.by_name.insert(name.to_string(), figure).is_none() {
            self.order.push(name.to_string());
        }
    }

    fn median(&self, name: &str) -> Option<u64> {
        self.judged(name)
    }

    /// What a budget of this name is about: a median or, with `:99` and `:max`, the 99th percentile and the greatest of a row of [`TIMER`].
    fn judged(&self, budget: &str) -> Option<u64> {
        let (name, which) = budget.split_once(':').unwrap_or((budget, ""));
        match (self.by_name.get(name)?, which) {
            (Figure::Measured { median, .. }, "") => Some(*median),
            (Figure::Measured { min, .. }, "99") => Some(*min),
            (Figure::Measured { max, .. }, "max") => Some(*max),
            _ => None,
        }
    }
}

/// Where the figures go: a table on standard output, the same as JSON beside it or instead of it.
enum Place {
    Table,
    Json,
    TableAndJson(Output),
}

impl Place {
    fn open(arguments: &cli::Bench) -> Result<Place> {
        Ok(match arguments.json.as_deref() {
            None => Place::Table,
            Some(path) if path.as_os_str() == "-" => Place::Json,
            Some(path) => Place::TableAndJson(Output::open(path)?),
        })
    }

    fn put(self, json: &str, table: &str) -> Result<()> {
        match self {
            Place::Table => print!("{table}"),
            Place::Json => println!("{json}"),
            Place::TableAndJson(file) => {
                print!("{table}");
                file.write(json.as_bytes())?;
            }
        }
        Ok(())
    }
}

pub fn bench(arguments: &cli::Bench) -> Result<u8> {
    if let Some((nucleus::WORD, names)) = arguments
        .operations
        .split_first()
        .map(|(first, rest)| (first.as_str(), rest))
    {
        return nucleus::bench(arguments, names);
    }
    if arguments.operations == [device::WORD] {
        return device::bench(arguments);
    }
    if arguments.operations == [links::WORD] {
        return links::bench(arguments);
    }
    if arguments.operations == [founding::WORD] {
        return founding::bench(arguments);
    }
    let place = Place::open(arguments)?;
    let (budgets, goals) = budgets()?;
    may_be_there(&arguments.operations, &sources()?, &budgets)?;
    let mut cairn = Figures::default();
    let mut linux = Figures::default();
    for system in arguments
        .system
        .map_or(vec![System::Linux, System::Cairn], |one| vec![one])
    {
        let figures = figures_of(system, &arguments.operations)?;
        match system {
            System::Cairn => cairn = figures,
            System::Linux => linux = figures,
        }
    }
    if cairn.failure.is_none() && linux.failure.is_none() {
        all_found(&arguments.operations, &names(&cairn, &linux))?;
    }
    let json = as_json(&cairn, &linux, &budgets)?;
    place.put(&json, &as_text(&cairn, &linux, &budgets, &goals))?;
    let mut failed = false;
    for (system, figures) in [("Cairn", &cairn), ("Linux", &linux)] {
        if let Some(why) = &figures.failure {
            eprintln!("cairn: the run on {system} ended early: {why}");
            failed = true;
        }
    }
    if arguments.check {
        failed |= check(&cairn, &budgets, &arguments.operations);
    }
    Ok(u8::from(failed))
}

/// Operations on one system: those on a disk in a machine of their own, so that the others are not about one with a disk.
fn figures_of(system: System, operations: &[String]) -> Result<Figures> {
    let binary = places::build().join("tests/bench");
    compile("gcc", &places::root().join("benches/bench.c"), &binary)?;
    let add = vec![Pair {
        first: binary.display().to_string(),
        second: PROGRAM.to_string(),
    }];
    let mut figures = Figures::default();
    let elsewhere = |o: &String| o.starts_with(ON_DISK) || o.starts_with(TIMER);
    if operations.is_empty() || !operations.iter().all(elsewhere) {
        let machine = machine(system, &add);
        measure(&mut figures, &machine, &[PROGRAM], operations)?;
    }
    if figures.failure.is_none() && is_wanted_at_all(TIMER, operations) {
        let binary = places::build().join("tests/lateness");
        compile("gcc", &places::root().join("benches/lateness.c"), &binary)?;
        let program = Pair {
            first: binary.display().to_string(),
            second: TIMER_PROGRAM.to_string(),
        };
        let machine = Machine {
            mem: Some(TIMER_MEMORY.to_string()),
            ..machine(system, &[program])
        };
        let samples = SAMPLES[usize::from(operations.is_empty())];
        measure(
            &mut figures,
            &machine,
            &[TIMER_PROGRAM, samples],
            operations,
        )?;
    }
    if figures.failure.is_none() && is_wanted_on_disk(operations) {
        let shape = Shape {
            size: "256M".to_string(),
            ..Shape::plain()
        };
        let scratch = Scratch::ext4(&shape)?;
        let add = [add, dynamic_program()?].concat();
        let machine = scratch.attached_to(machine(system, &add));
        let first = [PROGRAM, "--disk", disk::PLACE];
        measure(&mut figures, &machine, &first, operations)?;
    }
    Ok(figures)
}

/// Why there can be no such operations, if so: for who only names them.
pub fn nothing_begins_so(operations: &[String]) -> Option<String> {
    let known = match operations.split_first() {
        Some((first, rest)) if first == nucleus::WORD => nucleus::may_be_there(rest),
        Some((first, []))
            if [device::WORD, links::WORD, founding::WORD].contains(&first.as_str()) =>
        {
            Ok(())
        }
        _ => budgets().and_then(|(budgets, _)| may_be_there(operations, &sources()?, &budgets)),
    };
    known.err().map(|error| error.to_string())
}

/// The texts in which the operations' names stand, the loads beside which timers are measured with the row's name.
fn sources() -> Result<String> {
    let read = |name: &str| {
        let path = places::root().join(name);
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
    };
    let loads = read("benches/lateness.c")?.replace("{\"", &format!("{{\"{TIMER}"));
    Ok([read("benches/bench.c")?, loads].concat())
}

/// benches/dynamic.c, linked to find its interpreter and C library in the folder that it is started in, with this machine's of these.
fn dynamic_program() -> Result<Vec<Pair>> {
    let binary = places::build().join("tests/bench-dynamic");
    let mut command = Command::new("gcc");
    command
        .args(["-O2", "-Wl,--dynamic-linker=ld.so", "-Wl,-rpath,.", "-o"])
        .arg(&binary)
        .arg(places::root().join("benches/dynamic.c"));
    progress::run("compiling benches/dynamic.c", &mut command)?;
    let library = |name: &str| -> Result<String> {
        let mut command = Command::new("gcc");
        command.arg(format!("-print-file-name={name}"));
        let output = command.output().context("cannot run gcc")?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_string())
    };
    let files = [
        ("dynamic", binary.display().to_string()),
        ("ld.so", library("ld-linux-x86-64.so.2")?),
        ("libc.so.6", library("libc.so.6")?),
    ];
    let pairs = files.map(|(name, first)| Pair {
        first,
        second: format!("/lib/bench/{name}"),
    });
    Ok(pairs.to_vec())
}

type Budgets = BTreeMap<String, u64>;

/// What benches/budgets.toml says, as far as it is looked at.
fn read_budgets<T: serde::de::DeserializeOwned>() -> Result<T> {
    let path = places::root().join("benches/budgets.toml");
    let text =
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    toml::from_str(&text).with_context(|| format!("{} is wrong", path.display()))
}

/// `[budget]` and `[goal]`, figures by operation.
fn budgets() -> Result<(Budgets, Budgets)> {
    #[derive(serde::Deserialize)]
    struct File {
        budget: Budgets,
        goal: Budgets,
    }
    let file: File = read_budgets()?;
    Ok((file.budget, file.goal))
}

/// Why a budget is not held, if it is not.
fn beyond(name: &str, figure: Option<u64>, budget: u64) -> Option<String> {
    match figure {
        Some(figure) if figure <= budget => None,
        Some(figure) => Some(format!(
            "{name} is at {}, its budget is {}",
            grouped(figure),
            grouped(budget)
        )),
        None => Some(format!("{name} has a budget but was not measured")),
    }
}

fn machine(system: System, add: &[Pair]) -> Machine {
    Machine {
        lean: true,
        add: add.to_vec(),
        ..Machine::plain(system, &format!("{MEMORY_MIB}M"))
    }
}

/// Is any operation asked for whose name begins so?
fn is_wanted_at_all(beginning: &str, operations: &[String]) -> bool {
    let related = |o: &String| o.starts_with(beginning) || beginning.starts_with(o.as_str());
    operations.is_empty() || operations.iter().any(related)
}

/// Are operations on a disk asked for? Only by their names: without any the others are meant.
fn is_wanted_on_disk(operations: &[String]) -> bool {
    operations.iter().any(|o| o.starts_with(ON_DISK))
}

/// Run a program on one system; `first`: it and its arguments before the operations' names.
fn measure(
    figures: &mut Figures,
    machine: &Machine,
    first: &[&str],
    operations: &[String],
) -> Result<()> {
    let name = match machine.system {
        System::Cairn => "Cairn",
        System::Linux => "Linux",
    };
    let boot = Boot::prepare("bench", machine)?;
    let mut guest = match Guest::start(boot, machine, true)? {
        Ok(guest) => guest,
        Err(failure) => {
            figures.failure = Some(failure.to_string());
            return Ok(());
        }
    };
    let wanted = |name: &str| first == [PROGRAM] && is_wanted(name, operations);
    if wanted("boot") {
        figures.add("boot", one(guest.boot_ticks));
    }
    if wanted("memory") {
        match memory_in_use(&mut guest) {
            Ok(kib) => figures.add("memory", one(kib)),
            Err(why) => figures.add("memory", Figure::Unsupported(why)),
        }
    }
    let mut argv: Vec<Vec<u8>> = first.iter().map(|o| o.as_bytes().to_vec()).collect();
    argv.extend(operations.iter().map(|o| o.as_bytes().to_vec()));
    let mut step = progress::Step::begin(&format!("measuring {name} (some minutes)"));
    let mut partial = Vec::new();
    let outcome = guest.run(
        &spec(argv),
        Input::Empty,
        Some(LIMIT),
        &mut |stream, bytes| {
            step.tick();
            if stream == Stream::Out {
                partial.extend_from_slice(bytes);
                while let Some(end) = partial.iter().position(|&b| b == b'\n') {
                    let line: Vec<u8> = partial.drain(..=end).collect();
                    let line = String::from_utf8_lossy(&line);
                    if let Some((name, figure)) = parse(&line) {
                        figures.add(&name, figure);
                    } else if let Some((name, work)) = parse_work(&line) {
                        figures.work.insert(name, work);
                    }
                }
            }
        },
    );
    drop(step);
    match outcome {
        Ok(outcome) if outcome.status() == 0 => {}
        Ok(outcome) => {
            figures.failure = Some(format!(
                "the program ended with status {}",
                outcome.status()
            ))
        }
        Err(failure) => {
            guest.log.look();
            guest.log.show_failure();
            figures.failure = Some(failure.to_string());
        }
    }
    guest.power_off();
    Ok(())
}

fn spec(argv: Vec<Vec<u8>>) -> Spec {
    Spec {
        argv,
        env: ENVIRONMENT.iter().map(|v| v.as_bytes().to_vec()).collect(),
        cwd: b"/root".to_vec(),
        no_stdin: true,
    }
}

/// KiB of the machine's memory that the system says are not free.
fn memory_in_use(guest: &mut Guest) -> Result<u64, String> {
    let mut text = Vec::new();
    let argv = ["cat", "/proc/meminfo"]
        .iter()
        .map(|a| a.as_bytes().to_vec())
        .collect();
    let outcome = guest.run(
        &spec(argv),
        Input::Empty,
        Some(Duration::from_secs(60)),
        &mut |stream, bytes| {
            if stream == Stream::Out {
                text.extend_from_slice(bytes);
            }
        },
    );
    match outcome {
        Ok(Outcome::Ended(_)) => {}
        other => return Err(format!("{other:?}")),
    }
    String::from_utf8_lossy(&text)
        .lines()
        .find_map(|line| {
            line.strip_prefix("MemFree:")?
                .split_whitespace()
                .next()?
                .parse::<u64>()
                .ok()
        })
        .map(|free| (MEMORY_MIB * 1024).saturating_sub(free))
        .ok_or_else(|| "no MemFree in /proc/meminfo".to_string())
}

fn one(value: u64) -> Figure {
    Figure::Measured {
        median: value,
        min: value,
        max: value,
    }
}

/// `NAME MEDIAN MIN MAX` or `NAME unsupported REASON`.
fn parse(line: &str) -> Option<(String, Figure)> {
    let (name, rest) = line.trim().split_once(' ')?;
    if let Some(reason) = rest.strip_prefix("unsupported") {
        return Some((
            name.to_string(),
            Figure::Unsupported(reason.trim().to_string()),
        ));
    }
    let numbers: Vec<u64> = rest
        .split_whitespace()
        .map_while(|word| word.parse().ok())
        .collect();
    match numbers.as_slice() {
        [median, min, max] => Some((
            name.to_string(),
            Figure::Measured {
                median: *median,
                min: *min,
                max: *max,
            },
        )),
        _ => None,
    }
}

/// What the nucleus does for an operation, as bench.c counts it.
const WORK: [&str; 4] = ["entries", "switches", "invlpg", "bytes"];

/// `NAME work` and a figure for each of [`WORK`].
fn parse_work(line: &str) -> Option<(String, [u64; 4])> {
    let mut words = line.split_whitespace();
    let name = words.next()?.to_string();
    if words.next() != Some("work") {
        return None;
    }
    let figures: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
    Some((name, figures.try_into().ok()?))
}

/// Hundredths as a number with as many decimals as it needs, at most one.
fn hundredths(value: u64) -> String {
    let tenths = (value + 5) / 10;
    match tenths % 10 {
        0 => grouped(tenths / 10),
        rest => format!("{}.{rest}", grouped(tenths / 10)),
    }
}

/// All operations of both, in the order of the one that has more.
fn names<'a>(cairn: &'a Figures, linux: &'a Figures) -> Vec<&'a str> {
    let (first, second) = match linux.order.len() > cairn.order.len() {
        true => (linux, cairn),
        false => (cairn, linux),
    };
    let mut names: Vec<&str> = first.order.iter().map(String::as_str).collect();
    names.extend(
        second
            .order
            .iter()
            .map(String::as_str)
            .filter(|n| !first.by_name.contains_key(*n)),
    );
    names
}

fn as_text(cairn: &Figures, linux: &Figures, budgets: &Budgets, goals: &Budgets) -> String {
    let mut text = format!(
        "{:<26} {:>13} {:>13} {:>8} {:>11} |{:>9} {:>9} {:>7} {:>10}\n",
        "guest instructions",
        "Cairn",
        "Linux (lean)",
        "ratio",
        "budget",
        WORK[0],
        WORK[1],
        WORK[2],
        WORK[3]
    );
    let all = names(cairn, linux);
    let (timers, operations): (Vec<&str>, _) = all.iter().partition(|n| n.starts_with(TIMER));
    for name in operations {
        let cell = |figures: &Figures| match figures.by_name.get(name) {
            Some(Figure::Measured { median, .. }) => grouped(*median),
            Some(Figure::Unsupported(_)) => "no".to_string(),
            None => "-".to_string(),
        };
        let ratio = match (cairn.median(name), linux.median(name)) {
            (Some(c), Some(l)) if c > 0 => format!("{:.2}", l as f64 / c as f64),
            _ => String::new(),
        };
        let known = |all: &Budgets, mark| all.get(name).map(|budget| (*budget, mark));
        let budget = match known(budgets, '!').or_else(|| known(goals, '*')) {
            Some((budget, mark)) if cairn.median(name).is_some_and(|median| median > budget) => {
                format!("{} {mark}", grouped(budget))
            }
            Some((budget, _)) => grouped(budget),
            None => String::new(),
        };
        let mut line = format!(
            "{name:<26} {:>13} {:>13} {ratio:>8} {budget:>11}",
            cell(cairn),
            cell(linux)
        );
        if let Some(work) = cairn.work.get(name) {
            let [entries, switches, invalidations, bytes] = work.map(hundredths);
            line.push_str(&format!(
                " |{entries:>9} {switches:>9} {invalidations:>7} {bytes:>10}"
            ));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    if all.len() == timers.len() {
        text.clear();
    } else {
        text.push_str(NOTE);
    }
    if !timers.is_empty() {
        text.push_str(&lateness(cairn, linux, &timers, budgets, goals));
    }
    text
}

/// The rows of [`TIMER`], with their tails.
fn lateness(
    cairn: &Figures,
    linux: &Figures,
    names: &[&str],
    budgets: &Budgets,
    goals: &Budgets,
) -> String {
    const KINDS: [&str; 3] = ["", ":99", ":max"];
    let mut text = format!("{:<26} {:>26} {:>34}\n", "late by", "Cairn", "Linux (lean)");
    text.push_str(&format!("{:<26}", "guest instructions"));
    for kind in ["median", "99 %", "greatest"].repeat(2) {
        text.push_str(&format!(" {kind:>11}"));
    }
    text.push('\n');
    for name in names {
        text.push_str(&format!("{name:<26}"));
        for (figures, judged) in [(cairn, true), (linux, false)] {
            for kind in KINDS {
                let key = format!("{name}{kind}");
                let over = |all: &Budgets, figure| all.get(&key).is_some_and(|most| figure > *most);
                let cell = match figures.judged(&key) {
                    Some(figure) if judged && over(budgets, figure) => {
                        format!("{}!", grouped(figure))
                    }
                    Some(figure) if judged && over(goals, figure) => {
                        format!("{}*", grouped(figure))
                    }
                    Some(figure) => grouped(figure),
                    None if figures.by_name.contains_key(*name) => "no".to_string(),
                    None => "-".to_string(),
                };
                text.push_str(&format!(" {cell:>11}"));
            }
        }
        text.push('\n');
    }
    text.push_str(
        "From the time that a program of SCHED_FIFO asked for until it has read the clock, \
         beside each load. !: over the budget; *: over a goal that is not reached yet.\n",
    );
    text
}

const NOTE: &str = "Median of several batches. ratio: how many times Cairn is better; !: over the budget; *: over a goal that is not reached yet. boot: instructions to the first process; memory: KiB in use then.\nRight of the bar, for one operation on Cairn: entries into the nucleus (calls that end in the personality are none), switches of address space, single TLB invalidations, bytes copied between spaces.\n";

fn as_json(cairn: &Figures, linux: &Figures, budgets: &BTreeMap<String, u64>) -> Result<String> {
    let figure = |figures: &Figures, name: &str| match figures.by_name.get(name) {
        Some(Figure::Measured { median, min, max }) => {
            serde_json::json!({"median": median, "min": min, "max": max})
        }
        Some(Figure::Unsupported(reason)) => serde_json::json!({"unsupported": reason}),
        None => serde_json::Value::Null,
    };
    let operations: Vec<serde_json::Value> = names(cairn, linux)
        .into_iter()
        .map(|name| {
            serde_json::json!({
                "name": name,
                "cairn": figure(cairn, name),
                "linux": figure(linux, name),
                "budget": budgets.get(name),
                "work": cairn.work.get(name).map(|work| {
                    let named = WORK.into_iter().zip(work.map(|w| w as f64 / 100.0));
                    named.collect::<BTreeMap<_, _>>()
                }),
            })
        })
        .collect();
    let all = serde_json::json!({"unit": "guest instructions", "linux": "lean", "operations": operations});
    Ok(serde_json::to_string_pretty(&all)?)
}

/// No names mean all.
fn is_wanted(name: &str, operations: &[String]) -> bool {
    operations.is_empty() || operations.iter().any(|o| name.starts_with(o.as_str()))
}

/// What can be in no table is refused before anything is built or booted: no text of the program begins so, and no budget's name.
fn may_be_there(operations: &[String], source: &str, budgets: &Budgets) -> Result<()> {
    for operation in operations {
        let known = source.contains(&format!("\"{operation}"))
            || budgets
                .keys()
                .any(|name| name.starts_with(operation.as_str()));
        if !known {
            let nucleus = nucleus::WORD;
            if nucleus::may_be_there(std::slice::from_ref(operation)).is_ok() {
                bail!("{operation:?} is a row of the nucleus's own table: `./cairn bench {nucleus} {operation}`");
            }
            bail!("no operation's name begins with {operation:?}; `./cairn bench` and `./cairn bench {nucleus}` show all");
        }
    }
    Ok(())
}

/// What was asked for must be there.
fn all_found(operations: &[String], names: &[&str]) -> Result<()> {
    for operation in operations {
        if !names
            .iter()
            .any(|name| name.starts_with(operation.as_str()))
        {
            bail!("no operation's name begins with {operation:?}");
        }
    }
    Ok(())
}

/// Say which budgets are exceeded or not measured; true if any is.
fn check(cairn: &Figures, budgets: &BTreeMap<String, u64>, operations: &[String]) -> bool {
    let mut failed = false;
    for (name, budget) in budgets {
        let no_disk = name.starts_with(ON_DISK) && !is_wanted_on_disk(operations);
        if no_disk || !is_wanted(name, operations) {
            continue;
        }
        if let Some(why) = beyond(name, cairn.judged(name), *budget) {
            eprintln!("cairn: {why}");
            failed = true;
        }
    }
    failed
}

/// Digits in groups of three.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let (first, rest) = digits.split_at((digits.len() - 1) % 3 + 1);
    let mut out = first.to_string();
    for group in rest.as_bytes().chunks(3) {
        out.push(',');
        out.extend(group.iter().map(|&digit| char::from(digit)));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_program_are_read() {
        assert_eq!(
            parse("getppid 323 320 400\n"),
            Some((
                "getppid".into(),
                Figure::Measured {
                    median: 323,
                    min: 320,
                    max: 400
                }
            ))
        );
        assert_eq!(
            parse("mq unsupported ENOSYS"),
            Some(("mq".into(), Figure::Unsupported("ENOSYS".into())))
        );
        let work = ("pipe".to_string(), [901, 800, 0, 12]);
        assert_eq!(parse_work("pipe work 901 800 0 12\n"), Some(work));
        assert_eq!(parse("pipe work 901 800 0 12\n"), None);
        assert_eq!(parse_work("pipe work 901 800 0\n"), None);
        assert_eq!(parse_work("pipe 1 2 3 4\n"), None);
        assert_eq!(parse("noise"), None);
        assert_eq!(parse("noise 1 2"), None);
    }

    #[test]
    fn an_operation_that_is_not_there_is_an_error() {
        let names = ["pipe-trip", "pipe-64k"];
        let found = |operation: &str| all_found(&[operation.to_string()], &names).is_ok();
        assert!(found("pipe") && found("pipe-64k") && all_found(&[], &names).is_ok());
        assert!(!found("pipes") && !found("trip"));
    }

    #[test]
    fn what_can_be_nowhere_is_refused_at_once() {
        let budgets = BTreeMap::from([("boot".to_string(), 1)]);
        let known = |operation: &str| {
            let source = "{\"pipe-trip\", run}, {\"fork-%d\", run}";
            may_be_there(&[operation.to_string()], source, &budgets).is_ok()
        };
        assert!(known("pipe") && known("pipe-trip") && known("fork-") && known("boot"));
        assert!(!known("nosuch") && !known("trip"));
    }

    #[test]
    fn a_budget_that_is_exceeded_or_not_measured_fails() {
        let mut figures = Figures::default();
        figures.add("a", one(10));
        let budget = |name: &str, value| BTreeMap::from([(name.to_string(), value)]);
        assert!(!check(&figures, &budget("a", 10), &[]));
        assert!(check(&figures, &budget("a", 9), &[]));
        assert!(check(&figures, &budget("b", 9), &[]));
        assert!(!check(&figures, &budget("b", 9), &["a".to_string()]));
        // A whole run has no disk.
        assert!(!check(&figures, &budget("ext4-b", 9), &[]));
        assert!(check(
            &figures,
            &budget("ext4-b", 9),
            &["ext4-".to_string()]
        ));
    }

    #[test]
    fn large_numbers_are_grouped() {
        assert_eq!(
            (grouped(7), grouped(1234), grouped(6_060_000_000)),
            ("7".into(), "1,234".into(), "6,060,000,000".into())
        );
        assert_eq!(
            (hundredths(901), hundredths(950), hundredths(123_400)),
            ("9".into(), "9.5".into(), "1,234".into())
        );
    }
}
