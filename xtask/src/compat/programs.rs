//! `./cairn compat programs` and `./cairn compat net`: Debian's programs on both systems, with a table of what was the same.
//!
//! `tests/compat/programs/programs.toml` and `tests/compat/net/programs.toml` list them. Each is a script that prints a line `CASE: RESULT` for each thing that
//! was done; the lines are compared by case. What else a program says goes to standard error, which is kept and not compared. `known.txt` beside it explains
//! differences: a line `PROGRAM/CASE: reason`, where `*` stands for any text.

use super::{matches, on_both, patterns, Known};
use crate::cli::{self, Machine, Pair, Root};
use crate::places;
use crate::test::batch::{self, Done, Job};
use crate::test::reference::Keyed;
use anyhow::{bail, Context, Result};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// Differing cases of a program that are shown without `--all`.
const SHOWN: usize = 12;
/// Where the scripts are in the guest.
const GUEST: &str = "/compat";

/// `programs.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    /// Files of the folder that every script includes.
    shared: Vec<String>,
    /// Debian's packages that every program has, beside those of every root: one disk is enough then.
    #[serde(default)]
    packages: Vec<String>,
    program: Vec<Program>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Program {
    name: String,
    /// What is done with it, in a few words.
    what: String,
    /// Its file in the folder, and what it is called with.
    #[serde(default)]
    script: String,
    #[serde(default)]
    arguments: Vec<String>,
    /// Debian's, beside those of every root.
    #[serde(default)]
    packages: Vec<String>,
    #[serde(default = "memory")]
    memory: String,
    #[serde(default = "minutes")]
    minutes: u64,
    /// Why it has no script yet, or why its script was not run yet: then it runs only if it is named.
    not_tried: Option<String>,
}

fn memory() -> String {
    "512M".to_string()
}

fn minutes() -> u64 {
    20
}

/// What is known of a program after its runs.
struct Compared {
    cases: usize,
    known: usize,
    /// Case, Linux's result, the result here.
    others: Vec<[String; 3]>,
}

/// `which`: the folder of the list.
pub fn programs(which: &str, arguments: &cli::Compat) -> Result<u8> {
    let source = places::root().join("tests/compat").join(which);
    let folder = places::build().join("compat").join(which);
    fs::create_dir_all(&folder)?;
    let list = read(&fs::read_to_string(source.join("programs.toml"))?)?;
    let known = fs::read_to_string(source.join("known.txt")).context("known.txt")?;
    let mut known = patterns(&known)?;
    let wanted = |program: &Program| {
        let parts = &arguments.parts;
        parts.is_empty() || parts.iter().any(|part| program.name.contains(part))
    };
    let mut rows = Vec::new();
    let mut failed = false;
    for program in list.program.iter().filter(|p| wanted(p)) {
        let row = match &program.not_tried {
            Some(why) if program.script.is_empty() || arguments.parts.is_empty() => {
                format!("not tried: {why}")
            }
            _ => match compared(
                &list,
                program,
                &source,
                &folder,
                &mut known,
                arguments.fresh,
            ) {
                Ok(compared) => {
                    failed |= !compared.others.is_empty();
                    tell(program, &compared, arguments.all);
                    let [cases, known, others] =
                        [compared.cases, compared.known, compared.others.len()];
                    let same = cases.saturating_sub(known + others);
                    format!("{cases:5} cases, {same} the same, {known} known, {others} others")
                }
                Err(why) => {
                    failed = true;
                    let why = format!("{why:#}");
                    println!("{}: {why}", program.name);
                    let first = why.lines().next().unwrap_or_default();
                    format!("failed: {first}")
                }
            },
        };
        rows.push((program, row));
    }
    if rows.is_empty() {
        bail!("no program has such a name");
    }
    for (program, row) in &rows {
        println!("{:18} {:44} {row}", program.name, program.what);
    }
    Ok(u8::from(failed))
}

fn read(text: &str) -> Result<List> {
    let list: List = toml::from_str(text).context("programs.toml")?;
    for program in &list.program {
        if program.script.is_empty() && program.not_tried.is_none() {
            bail!(
                "programs.toml: {} wants a script or a reason why it was not tried",
                program.name
            );
        }
    }
    Ok(list)
}

fn compared(
    list: &List,
    program: &Program,
    source: &Path,
    folder: &Path,
    known: &mut [Known],
    fresh: bool,
) -> Result<Compared> {
    let guest = |name: &str| {
        let name = Path::new(name).file_name().unwrap_or_default();
        format!("{GUEST}/{}", name.to_string_lossy())
    };
    let mut argv = vec!["bash".to_string(), guest(&program.script)];
    argv.extend(program.arguments.clone());
    let job = Job {
        name: format!("compat/{}", program.name),
        argv,
        limit: Duration::from_secs(program.minutes * 60),
        place: batch::PLACE,
    };
    let packages = [&list.packages[..], &program.packages].concat();
    // What Linux says depends on all of this.
    let mut content = Vec::new();
    let mut add = Vec::new();
    for name in [&program.script].into_iter().chain(&list.shared) {
        let path = source.join(name);
        content.extend(fs::read(&path).with_context(|| path.display().to_string())?);
        add.push(Pair {
            first: path.display().to_string(),
            second: guest(name),
        });
    }
    content.extend(packages.join(",").into_bytes());
    let keyed = Keyed {
        job: job.clone(),
        content,
    };
    let machine = |system| Machine {
        root: Root::Debian,
        root_as_made: true,
        packages: packages.clone(),
        ..batch::machine(system, &program.memory, add.clone())
    };
    let (linux, here) = on_both(keyed, machine, fresh)?;
    for (system, done) in [("linux", &linux), ("cairn", &here)] {
        let text = format!("{}\n{}", done.stdout, done.stderr);
        fs::write(folder.join(format!("{}.{system}", program.name)), text)?;
    }
    Ok(compare(&program.name, &linux, &here, known))
}

/// The results by case; a case that comes twice has both.
fn cases(done: &Done) -> BTreeMap<&str, String> {
    let mut cases: BTreeMap<&str, String> = BTreeMap::new();
    for line in done.stdout.lines() {
        let (case, result) = line.split_once(": ").unwrap_or((line, ""));
        let all = cases.entry(case).or_default();
        if !all.is_empty() {
            all.push_str("; ");
        }
        all.push_str(result);
    }
    cases.insert("(status)", done.status.to_string());
    cases
}

fn compare(name: &str, linux: &Done, here: &Done, known: &mut [Known]) -> Compared {
    let (linux, mut ours) = (cases(linux), cases(here));
    let mut compared = Compared {
        cases: linux.len(),
        known: 0,
        others: Vec::new(),
    };
    let mut differs = |case: &str, linux: String, here: String| {
        let full = format!("{name}/{case}");
        match known.iter_mut().find(|k| matches(k.pattern, &full)) {
            Some(known) => {
                known.used += 1;
                compared.known += 1;
            }
            None => compared.others.push([case.to_string(), linux, here]),
        }
    };
    let missing = || "missing".to_string();
    for (case, linux) in linux {
        let here = ours.remove(case).unwrap_or_else(missing);
        if here != linux {
            differs(case, linux, here);
        }
    }
    for (case, here) in ours {
        differs(case, missing(), here);
    }
    compared
}

fn tell(program: &Program, compared: &Compared, all: bool) {
    let others = &compared.others;
    if others.is_empty() {
        return;
    }
    println!("{}: {} (Linux, here)", program.name, others.len());
    let shown = if all { usize::MAX } else { SHOWN };
    for [case, linux, here] in others.iter().take(shown) {
        println!("  {case:50} {linux:24} {here}");
    }
    if others.len() > shown {
        println!("  … {} more", others.len() - shown);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(stdout: &str) -> Done {
        Done {
            status: 0,
            stdout: stdout.to_string(),
            stderr: String::new(),
            tree: String::new(),
        }
    }

    #[test]
    fn cases_are_compared_by_their_names() -> Result<()> {
        let linux = done("a: ok\nb: ok\nc: ok\n");
        let here = done("b: failed\nd: ok\na: ok\n");
        let mut known = patterns("x/c: not there yet\n")?;
        let compared = compare("x", &linux, &here, &mut known);
        assert_eq!((compared.cases, compared.known), (4, 1));
        let others: Vec<_> = compared.others.iter().map(|o| o.join(" ")).collect();
        assert_eq!(others, ["b ok failed", "d missing ok"]);
        assert_eq!(known[0].used, 1);
        Ok(())
    }

    #[test]
    fn an_end_before_the_end_is_seen() {
        let mut here = done("a: ok\n");
        here.status = 139;
        let compared = compare("x", &done("a: ok\n"), &here, &mut []);
        assert_eq!(compared.others, [["(status)", "0", "139"]]);
    }

    #[test]
    fn the_lists_can_be_read_and_their_scripts_are_there() -> Result<()> {
        for which in ["programs", "net"] {
            let source = places::root().join("tests/compat").join(which);
            let list = read(&fs::read_to_string(source.join("programs.toml"))?)?;
            let scripts = list.program.iter().map(|p| &p.script);
            for name in scripts.filter(|s| !s.is_empty()).chain(&list.shared) {
                assert!(source.join(name).is_file(), "{which}: {name}");
            }
            patterns(&fs::read_to_string(source.join("known.txt"))?)?;
        }
        assert!(read("shared = []\n[[program]]\nname = 'x'\nwhat = 'y'\n").is_err());
        Ok(())
    }
}
