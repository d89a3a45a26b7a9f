//! Suites `corpus` (tests/corpus/*.sh), `debian` (tests/debian/*.sh, on a root of Debian packages), `disk` (tests/disk/*.sh, in a folder of a new ext4 file system that e2fsck looks at afterwards), `c-glibc` and `c-musl` (tests/c/*.c, static) and `rust` (tests/rust-std): programs that must do on Cairn what they do on Linux:
//! the same standard output, the same exit status, the same file tree left behind.
//!
//! A line with `cairn-test:` near the top of a program says what is special: `limit=SECONDS` (default 120 for scripts, 600 for programs; far more than they take, because
//! it is time of a host that may be slow), `args=A,B`,
//! `linux=no` (do not ask Linux: it must end with status 0), `musl=no`, `mem=SIZE` (a machine of its own size), `only=linux` (not on Cairn yet), `root=debian`, `disk=SIZE` or `disk=SIZE,OPTION,…` (the file system, with options of mke2fs; a program in C runs once more on one, as disk/NAME), `iso=yes` (one more disk, with an ISO 9660 image), `cores=4` (once more, as NAME@4, in a machine with so many cores; `cores=1`: never with more).

use super::batch::{self, Done, Job, Time};
use super::lanes::{self, Work};
use super::reference::{self, Keyed};
use super::stretch::Stretches;
use super::{Report, Verdict};
use crate::cli::{self, Machine, Pair, Root};
use crate::disk::{self, Scratch, Shape};
use crate::{build, iso, places, progress};
use anyhow::{Context, Result};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// A program to be tested.
struct Program {
    keyed: Keyed,
    /// Its file on the host and its name in the guest.
    file: Pair,
    compare: bool,
    only_linux: bool,
    kind: Kind,
}

impl Program {
    /// Run it alone in a machine, in a folder of a new file system.
    fn onto_disk(&mut self, wishes: &Wishes) {
        let shape = wishes.disk.clone().unwrap_or(Shape::plain());
        self.kind.disk = Some((shape, self.keyed.job.name.clone()));
        self.keyed.job.place = disk::PLACE;
    }
}

/// What the machine must be like in which a program runs.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Kind {
    memory: String,
    root: Root,
    smp: u32,
    /// A new file system, and whose it is: its program is alone in its machine.
    disk: Option<(Shape, String)>,
    /// One more disk, with an ISO 9660 image.
    iso: bool,
}

/// What a `cairn-test:` line says.
struct Wishes {
    limit: Duration,
    args: Vec<String>,
    linux: bool,
    musl: bool,
    memory: Option<String>,
    cores: Option<u32>,
    root: Option<Root>,
    disk: Option<Shape>,
    iso: bool,
    /// It shows what Cairn does not do yet; CAVEATS says what.
    only_linux: bool,
}

/// Programs of one machine: they lie in its memory, and machines run beside each other.
const AT_ONCE: usize = 150;

/// One piece of work for each kind of machine, those with the most programs first.
pub fn work<'a>(report: &'a Report, arguments: &'a cli::Test) -> Result<Vec<Work<'a>>> {
    let mut kinds: Vec<_> = kinds(report, arguments)?
        .into_iter()
        .flat_map(|(kind, programs)| {
            let each = match kind.disk {
                // (One disk, and what they leave on it.)
                Some(_) => programs.len(),
                None => AT_ONCE,
            };
            in_pieces(programs, each).map(move |programs| (kind.clone(), programs))
        })
        .collect();
    kinds.sort_by_key(|(_, programs)| Reverse(programs.len()));
    let piece = |(kind, programs)| -> Work<'a> {
        Box::new(move || compare(report, arguments, &kind, programs, None))
    };
    Ok(kinds.into_iter().map(piece).collect())
}

/// The same in the same order, so many at a time.
fn in_pieces<T>(mut all: Vec<T>, each: usize) -> impl Iterator<Item = Vec<T>> {
    core::iter::from_fn(move || {
        let rest = all.split_off(each.min(all.len()));
        let piece = core::mem::replace(&mut all, rest);
        (!piece.is_empty()).then_some(piece)
    })
}

/// One machine after the other; how many programs there were. The option that measures is for one core.
pub fn stretch(report: &Report, arguments: &cli::Test, stretches: &mut Stretches) -> Result<usize> {
    let mut measured = 0;
    for (kind, programs) in kinds(report, arguments)? {
        if kind.smp == 1 {
            measured += programs.len();
            compare(report, arguments, &kind, programs, Some(stretches))?;
        }
    }
    Ok(measured)
}

/// What is to be run, by the machine that it wants.
fn kinds(report: &Report, arguments: &cli::Test) -> Result<BTreeMap<Kind, Vec<Program>>> {
    let smp = arguments.smp;
    let mut programs = scripts(report, smp, "corpus", "sh", Root::Small)?;
    programs.extend(scripts(report, smp, "debian", "bash", Root::Debian)?);
    programs.extend(scripts(report, smp, "disk", "sh", Root::Small)?);
    for (suite, compiler) in [("c-glibc", "gcc"), ("c-musl", "musl-gcc")] {
        programs.extend(c_programs(report, smp, suite, compiler)?);
    }
    if report.wants("rust/std") {
        programs.push(rust_program(smp)?);
    }
    let mut kinds: BTreeMap<Kind, Vec<Program>> = BTreeMap::new();
    // What Linux is not asked about proves nothing there.
    for program in programs.into_iter().filter(|p| match arguments.system {
        cli::System::Cairn => !p.only_linux,
        cli::System::Linux => p.compare,
    }) {
        let batch = kinds.entry(program.kind.clone()).or_default();
        batch.push(program);
    }
    Ok(kinds)
}

/// Run a batch on the system to be tested and hold it against Linux.
fn compare(
    report: &Report,
    arguments: &cli::Test,
    kind: &Kind,
    programs: Vec<Program>,
    stretches: Option<&mut Stretches>,
) -> Result<()> {
    let add: Vec<Pair> = programs.iter().map(|p| p.file.clone()).collect();
    let plain = Machine {
        root: kind.root.clone(),
        root_as_made: true,
        ..batch::machine(arguments.system, &kind.memory, add)
    };
    let (mut machine, disk) = with_disk(&plain, kind)?;
    let on_linux = programs.iter().any(|p| p.compare);
    let compared: BTreeMap<String, bool> = programs
        .iter()
        .map(|p| (p.keyed.job.name.clone(), p.compare))
        .collect();
    let keyed: Vec<Keyed> = programs.into_iter().map(|p| p.keyed).collect();
    let reference = match on_linux {
        true => {
            let asked: Vec<Keyed> = keyed
                .iter()
                .filter(|k| compared.get(&k.job.name) == Some(&true))
                .map(|k| Keyed {
                    job: k.job.clone(),
                    content: k.content.clone(),
                })
                .collect();
            // Linux is the same with any number.
            // What it leaves on its disk is its own.
            let (its, _disk) = with_disk(&plain, kind)?;
            reference::results(&its, &asked, arguments.fresh)?
        }
        false => reference::Results::new(),
    };
    machine.smp = kind.smp;
    if stretches.is_some() {
        machine.append = Some("nucleus.stretch".to_string());
    }
    let jobs: Vec<Job> = keyed.into_iter().map(|k| k.job).collect();
    let mut last = None;
    let time = stretches.map_or(Time::Clock, Time::Stretches);
    batch::run(&machine, &jobs, time, &mut |job, took, result| {
        let verdict = match (result, reference.get(&job.name)) {
            (Err(why), _) => Err(why),
            (Ok(done), Some(Ok(wanted))) => same(wanted, &done),
            (Ok(_), Some(Err(why))) => Err(format!("Linux could not run it: {why}")),
            (Ok(done), None) if done.status == 0 => Ok(()),
            (Ok(done), None) => Err(format!(
                "status {}\n{}{}",
                done.status, done.stdout, done.stderr
            )),
        };
        match &disk {
            // Known only when the machine has ended.
            Some(_) => last = Some((job.name.clone(), took, verdict)),
            None => report.result(&job.name, took, verdict),
        }
    })?;
    if let (Some(disk), Some((name, took, verdict))) = (&disk, last) {
        report.result(&name, took, verdict.and(disk::check(&disk.path)?));
    }
    Ok(())
}

/// The machine with the file system that its kind of programs wants.
fn with_disk(machine: &Machine, kind: &Kind) -> Result<(Machine, Option<Scratch>)> {
    let Some((shape, _)) = &kind.disk else {
        return Ok((machine.clone(), None));
    };
    let scratch = Scratch::ext4(shape)?;
    let scratch = if kind.iso {
        scratch.with_iso()?
    } else {
        scratch
    };
    Ok((scratch.attached_to(machine.clone()), Some(scratch)))
}

/// Are they the same? Standard error is shown, not compared: its words are the C library's and busybox's, but who writes first is nobody's promise.
fn same(wanted: &Done, done: &Done) -> Verdict {
    let mut why = String::new();
    if wanted.status != done.status {
        why.push_str(&format!(
            "status {}, on Linux {}\n",
            done.status, wanted.status
        ));
    }
    for (what, wanted, done) in [
        ("stdout", &wanted.stdout, &done.stdout),
        ("tree", &wanted.tree, &done.tree),
    ] {
        why.push_str(&difference(what, wanted, done));
    }
    if why.is_empty() {
        return Ok(());
    }
    if done.stderr != wanted.stderr {
        why.push_str(&difference(
            "stderr (not compared)",
            &wanted.stderr,
            &done.stderr,
        ));
    }
    Err(why)
}

/// The first lines that differ, a few of them.
fn difference(what: &str, wanted: &str, done: &str) -> String {
    const SHOWN: usize = 6;
    if wanted == done {
        return String::new();
    }
    let (wanted, done): (Vec<&str>, Vec<&str>) = (wanted.lines().collect(), done.lines().collect());
    let first = wanted.iter().zip(&done).take_while(|(a, b)| a == b).count();
    let mut text = format!("{what} differs from line {}:\n", first + 1);
    for line in wanted.iter().skip(first).take(SHOWN) {
        text.push_str(&format!("  linux  {line}\n"));
    }
    for line in done.iter().skip(first).take(SHOWN) {
        text.push_str(&format!("  here   {line}\n"));
    }
    if first == wanted.len() && first == done.len() {
        text.push_str("  (the last newline)\n");
    }
    text
}

/// The names under which a program shall run, and with how many cores.
fn runs(report: &Report, name: &str, wishes: &Wishes, smp: u32) -> Vec<(String, u32)> {
    // What prints how many there are has the number that Linux had.
    let smp = if wishes.cores == Some(1) { 1 } else { smp };
    let plain = (name.to_string(), smp);
    let more = wishes.cores.filter(|&cores| smp == 1 && cores > 1);
    let more = more.map(|cores| (format!("{name}@{cores}"), cores));
    let all = core::iter::once(plain).chain(more);
    all.filter(|(name, _)| report.wants(name)).collect()
}

fn scripts(
    report: &Report,
    smp: u32,
    suite: &str,
    shell: &str,
    root: Root,
) -> Result<Vec<Program>> {
    let mut programs = Vec::new();
    for path in files(&format!("tests/{suite}"), "sh")? {
        let name = format!("{suite}/{}", stem(&path));
        let content = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let wishes = wishes(&content, 120);
        let root = wishes.root.clone().unwrap_or(root.clone());
        let shell = match root {
            Root::Debian => "bash",
            Root::Small | Root::Own(_) => shell,
        };
        let guest = format!("/{suite}/{}.sh", stem(&path));
        for run in runs(report, &name, &wishes, smp) {
            let argv = vec![shell.to_string(), guest.clone()];
            let mut content = content.clone();
            if wishes.iso {
                // What Linux says depends on what the image is made of, too.
                content.extend(iso::SOURCES.concat());
            }
            let mut program = program(run, argv, &wishes, content, &path, &guest);
            program.kind.root = root.clone();
            if suite == "disk" {
                program.onto_disk(&wishes);
            }
            if wishes.memory.is_none() {
                program.kind.memory = root.memory().to_string();
            }
            programs.push(program);
        }
    }
    Ok(programs)
}

fn c_programs(report: &Report, smp: u32, suite: &str, compiler: &str) -> Result<Vec<Program>> {
    let folder = places::build().join("tests").join(suite);
    fs::create_dir_all(&folder)?;
    let mut wanted = Vec::new();
    for path in files("tests/c", "c")? {
        let name = format!("{suite}/{}", stem(&path));
        let source = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let wishes = wishes(&source, 600);
        if suite == "c-musl" && !wishes.musl {
            continue;
        }
        let mut runs = runs(report, &name, &wishes, smp);
        // Once more in a folder on a disk.
        let on_disk = format!("disk/{}", stem(&path));
        if suite == "c-glibc" && wishes.disk.is_some() && report.wants(&on_disk) {
            runs.push((on_disk, smp));
        }
        if !runs.is_empty() {
            let binary = folder.join(stem(&path));
            wanted.push((path, binary, name, wishes, runs));
        }
    }
    let compiled = lanes::each(&wanted, |(path, binary, ..)| {
        compile(compiler, path, binary)
    })?;
    let mut programs = Vec::new();
    for ((path, binary, name, wishes, runs), compiled) in wanted.into_iter().zip(compiled) {
        // One program that does not compile must not keep the others from being run.
        if let Err(why) = compiled {
            report.result(&name, Duration::ZERO, Err(format!("{why:#}")));
            continue;
        }
        let content = fs::read(&binary)?;
        let guest = format!("/tests/{suite}/{}", stem(&path));
        for run in runs {
            let argv = vec![guest.clone()];
            let disk = run.0.starts_with("disk/");
            let mut program = program(run, argv, &wishes, content.clone(), &binary, &guest);
            if disk {
                program.onto_disk(&wishes);
            }
            programs.push(program);
        }
    }
    Ok(programs)
}

/// A static program, unless it is newer than its source already.
pub fn compile(compiler: &str, source: &Path, binary: &Path) -> Result<()> {
    let stamp = |path: &Path| fs::metadata(path).and_then(|m| m.modified()).ok();
    let text = fs::read_to_string(source).unwrap_or_default();
    let headers = text.lines().filter_map(|line| {
        let name = line.strip_prefix("#include \"")?.strip_suffix('"')?;
        Some(source.with_file_name(name))
    });
    let newest = headers
        .map(|header| stamp(&header))
        .fold(stamp(source), Option::max);
    if stamp(binary).is_some_and(|at| Some(at) >= newest) {
        return Ok(());
    }
    if let Some(folder) = binary.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut command = Command::new(compiler);
    command
        .args([
            "-O2",
            "-static",
            "-s",
            "-pthread",
            "-Wall",
            "-Wno-unused-result",
            "-o",
        ])
        .arg(binary)
        .arg(source);
    progress::run(&format!("compiling {}", source.display()), &mut command).map(|_| ())
}

fn rust_program(smp: u32) -> Result<Program> {
    let binary =
        build::static_program("rust-std-check", &["-p", "rust-std-check"], &places::root())?;
    let content = fs::read(&binary)?;
    let wishes = wishes(b"", 600);
    let guest = "/tests/rust-std-check";
    Ok(program(
        ("rust/std".to_string(), smp),
        vec![guest.to_string()],
        &wishes,
        content,
        &binary,
        guest,
    ))
}

fn program(
    (name, smp): (String, u32),
    mut argv: Vec<String>,
    wishes: &Wishes,
    content: Vec<u8>,
    host: &Path,
    guest: &str,
) -> Program {
    argv.extend(wishes.args.iter().cloned());
    Program {
        keyed: Keyed {
            job: Job {
                name,
                argv,
                limit: wishes.limit,
                place: batch::PLACE,
            },
            content,
        },
        file: Pair {
            first: host.display().to_string(),
            second: guest.to_string(),
        },
        compare: wishes.linux,
        only_linux: wishes.only_linux,
        kind: Kind {
            memory: wishes
                .memory
                .clone()
                .unwrap_or(Root::Small.memory().to_string()),
            root: Root::Small,
            smp,
            disk: None,
            iso: wishes.iso,
        },
    }
}

fn wishes(content: &[u8], limit: u64) -> Wishes {
    let text = String::from_utf8_lossy(content);
    let line = text.lines().take(12).find_map(|l| {
        l.split_once("cairn-test:")
            .map(|(_, rest)| rest.to_string())
    });
    let words: BTreeMap<String, String> = line
        .unwrap_or_default()
        .split_whitespace()
        .filter_map(|w| w.split_once('='))
        .map(|(name, value)| (name.to_string(), value.to_string()))
        .collect();
    let word = |name: &str| words.get(name).map(String::as_str);
    Wishes {
        limit: Duration::from_secs(word("limit").and_then(|l| l.parse().ok()).unwrap_or(limit)),
        args: word("args")
            .map(|a| a.split(',').map(str::to_string).collect())
            .unwrap_or_default(),
        linux: word("linux") != Some("no"),
        musl: word("musl") != Some("no"),
        memory: word("mem").map(str::to_string),
        cores: word("cores").and_then(|cores| cores.parse().ok()),
        root: (word("root") == Some("debian")).then_some(Root::Debian),
        disk: word("disk").and_then(Shape::parse),
        iso: word("iso") == Some("yes"),
        only_linux: word("only") == Some("linux"),
    }
}

/// Files of a folder of the repository by extension, sorted.
pub fn files(folder: &str, extension: &str) -> Result<Vec<PathBuf>> {
    let folder = places::root().join(folder);
    let mut paths: Vec<PathBuf> = fs::read_dir(&folder)
        .with_context(|| format!("no folder {}", folder.display()))?
        .flatten()
        .map(|e| e.path())
        .filter(|p| p.extension().is_some_and(|e| e == extension))
        .collect();
    paths.sort();
    Ok(paths)
}

fn stem(path: &Path) -> String {
    path.file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wishes_are_read() {
        let w = wishes(
            b"/* x */\n// cairn-test: limit=7 args=a,b linux=no mem=64M cores=4\n",
            20,
        );
        assert_eq!((w.limit.as_secs(), w.linux, w.musl), (7, false, true));
        assert_eq!(w.args, ["a", "b"]);
        assert_eq!((w.memory.as_deref(), w.cores), (Some("64M"), Some(4)));
        let w = wishes(b"# cairn-test: root=debian disk=16M,-N,200\n", 20);
        assert_eq!(
            (w.root, w.disk),
            (Some(Root::Debian), Shape::parse("16M,-N,200"))
        );
        let plain = wishes(b"", 20);
        assert_eq!((plain.limit.as_secs(), plain.cores), (20, None));
    }

    #[test]
    fn differences_are_found_where_they_are() {
        assert_eq!(difference("x", "a\nb\n", "a\nb\n"), "");
        assert!(difference("x", "a\nb\n", "a\nc\n").starts_with("x differs from line 2"));
        assert!(difference("x", "a\n", "a").contains("last newline"));
    }
}
