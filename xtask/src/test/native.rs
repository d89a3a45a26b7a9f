//! Suite `native`: components of the test folder, each added to the manifest of a machine of its own (tests/native/NAME.toml; the guide's examples, sdk/examples/NAME.toml and sdk/tally/tally.toml). While they do their worst
//! the system must go on: a command in the guest gives the right answer in time, what `# expect-log: TEXT` lines of the file name appears
//! in the log (`# append: WORDS` go to the nucleus, `# program: FILE.c` is compiled and put into /tests), the shell command of its `# run: COMMAND` line prints its `# prints: LINE` lines, what `# refuse-log: TEXT` lines name does not appear, and no
//! other component dies. The machine has 256 MiB, or what `# memory: SIZE` says. With a `# deterministic` line the machine counts instructions and is left
//! alone until the log is complete. With `# cores: 4` it runs a second time, as NAME@4, with so many cores; a `# link: wire` line gives the machine a network
//! link to the tool's station ([`crate::wire::station`]); with `# iommu-too: PROPERTIES` as NAME+iommu, with an IOMMU, which `# iommu: PROPERTIES` gives it
//! always; with `# models-too: MODEL…` as NAME+MODEL, with such devices at its links (and that IOMMU, if there is one). A file with a `# seeds: …` line is for
//! [`ways`] instead.

use super::lanes::Work;
use super::programs::{compile, files};
use super::stretch::Stretches;
use super::{batch, ways, Report, Verdict};
use crate::cli::{Pair, System};
use crate::exec::ENVIRONMENT;
use crate::guest::{Guest, Input, Outcome, Stream};
use crate::machine::Boot;
use crate::trace::{self, DOMAIN_NUMBER};
use crate::wire::Station;
use crate::{link, places, scratch};
use anyhow::Result;
use cairn_hostlink::{Ended, Spec};
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The bystander: processes, pipes, files.
const BYSTANDER: &str =
    "i=0; while [ $i -lt 50 ]; do i=$((i+1)); echo $i | cat >>/tmp/bystander; done; \
    sort -n /tmp/bystander | tail -n 1; wc -l </tmp/bystander; rm /tmp/bystander";
const BYSTANDER_SAYS: &str = "50\n50\n";
/// For the bystander each time, and for the log's lines altogether.
const LIMIT: Duration = Duration::from_secs(240);
const LOG_LIMIT: Duration = Duration::from_secs(900);

/// A machine with a component of the test folder, or the game of [`ways`].
struct Run {
    /// `native/NAME`, and what is different about it.
    full: String,
    file: PathBuf,
    name: String,
    smp: u32,
    iommu: Option<String>,
    model: Option<String>,
    seeds: Vec<String>,
}

/// What is wanted.
fn runs(report: &Report, smp: u32) -> Result<Vec<Run>> {
    let mut wanted = Vec::new();
    let mut manifests = files("tests/native", "toml")?;
    manifests.extend(files("sdk/examples", "toml")?);
    manifests.extend(files("sdk/tally", "toml")?);
    for file in manifests {
        let name = file
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if name == "Cargo" {
            continue;
        }
        let manifest = fs::read_to_string(&file)?;
        // Once more with several cores, if the file says so.
        let more = lines(&manifest, "# cores: ");
        let more = more.iter().filter_map(|cores| cores.parse().ok());
        let more = more.filter(|&cores: &u32| cores > smp);
        let always = lines(&manifest, "# iommu: ").pop();
        let too = lines(&manifest, "# iommu-too: ").pop();
        let mut kinds = vec![(String::new(), smp, always.clone(), None)];
        kinds.extend(more.map(|cores| (format!("@{cores}"), cores, always.clone(), None)));
        let fenced = too.clone().or(always);
        kinds.extend(too.map(|properties| ("+iommu".to_string(), smp, Some(properties), None)));
        let models = lines(&manifest, "# models-too: ").pop().unwrap_or_default();
        let models = models.split_whitespace().map(str::to_string);
        kinds.extend(models.map(|model| (format!("+{model}"), smp, fenced.clone(), Some(model))));
        for (kind, smp, iommu, model) in kinds {
            let full = format!("native/{name}{kind}");
            if report.wants(&full) {
                wanted.push(Run {
                    full,
                    file: file.clone(),
                    name: name.clone(),
                    smp,
                    iommu,
                    model,
                    seeds: ways::seeds(&manifest),
                });
            }
        }
    }
    Ok(wanted)
}

/// The games of [`ways`], each of which takes minutes, and the others.
pub fn work(report: &Report, smp: u32) -> Result<[Vec<Work<'_>>; 2]> {
    let (games, others): (Vec<_>, Vec<_>) = runs(report, smp)?
        .into_iter()
        .partition(|run| !run.seeds.is_empty());
    let work = |run: Run| -> Work<'_> {
        Box::new(move || {
            let begun = Instant::now();
            let verdict = match run.seeds.is_empty() {
                true => one(&run, None)?,
                false => ways::compare(&run.file, &run.name, &run.seeds)?,
            };
            report.result(&run.full, begun.elapsed(), verdict);
            Ok(())
        })
    };
    Ok([games, others].map(|runs| runs.into_iter().map(work).collect()))
}

/// Those with one core in deterministic mode, one after the other; how many there were. (What looks for the same in two machines has no use for that.)
pub fn stretch(report: &Report, stretches: &mut Stretches) -> Result<usize> {
    let runs = runs(report, 1)?;
    let mut measured = 0;
    for run in runs.iter().filter(|r| r.smp == 1 && r.seeds.is_empty()) {
        let begun = Instant::now();
        let verdict = one(run, Some(stretches))?;
        report.result(&run.full, begun.elapsed(), verdict);
        measured += 1;
    }
    Ok(measured)
}

/// The outer error is the host's.
fn one(run: &Run, stretches: Option<&mut Stretches>) -> Result<Verdict> {
    let mut file = run.file.clone();
    let mut manifest = fs::read_to_string(&file)?;
    if let Some(model) = &run.model {
        manifest = link::with_model(&manifest, model)?;
        let folder = places::build().join("tests/native");
        fs::create_dir_all(&folder)?;
        file = folder.join(format!("{}+{model}.toml", run.name));
        fs::write(&file, &manifest)?;
    }
    let expected = lines(&manifest, "# expect-log: ");
    let memory = lines(&manifest, "# memory: ").pop();
    let memory = memory.as_deref().unwrap_or("256M");
    let mut machine = batch::machine(System::Cairn, memory, Vec::new());
    let deterministic = manifest.lines().any(|line| line == "# deterministic");
    // Where instructions are counted there is one core: it is what is fought for.
    machine.smp = if deterministic { 1 } else { run.smp };
    for source in lines(&manifest, "# program: ") {
        let source = places::root().join(source);
        let stem = source.file_stem().unwrap_or_default();
        let binary = places::build().join("tests/native").join(stem);
        // The same program may be wanted by two machines.
        let made = places::making(|| compile("gcc", &source, &binary));
        if let Err(why) = made {
            return Ok(Err(format!("{why:#}")));
        }
        let guest = format!("/tests/{}", stem.to_string_lossy());
        machine.add.push(Pair {
            first: binary.display().to_string(),
            second: guest,
        });
    }
    machine.iommu = run.iommu.clone();
    machine.with = Some(file);
    let mut append = lines(&manifest, "# append: ");
    if stretches.is_some() {
        append.push("nucleus.stretch".to_string());
    }
    machine.append = Some(append.join(" ")).filter(|words| !words.is_empty());
    let boot = Boot::prepare("native", &machine)?;
    let log = boot.nucleus_log();
    let folder = boot.run.clone();
    let _station = match link::wants_wire(&manifest) {
        true => Some(Station::start(&link::wire(&boot.run))?),
        false => None,
    };
    let counts = deterministic || stretches.is_some();
    let mut guest = match Guest::start(boot, &machine, counts)? {
        Ok(guest) => guest,
        Err(failure) => return Ok(Err(failure.to_string())),
    };
    let refused = lines(&manifest, "# refuse-log: ");
    let mut verdict = Ok(());
    if !deterministic {
        verdict = bystander(&mut guest);
    }
    for command in lines(&manifest, "# run: ") {
        let prints: String = lines(&manifest, "# prints: ")
            .iter()
            .map(|line| format!("{line}\n"))
            .collect();
        verdict = verdict.and_then(|()| shell(&mut guest, &command, &prints));
    }
    let deadline = Instant::now() + LOG_LIMIT;
    while verdict.is_ok() {
        let text = read(&log);
        let missing = expected.iter().find(|e| !text.contains(e.as_str()));
        verdict = match missing {
            _ if said(&text, &refused).is_some() => break,
            None => break,
            Some(missing) if Instant::now() > deadline => {
                Err(format!("the log never said {missing:?}"))
            }
            Some(_) => {
                std::thread::sleep(Duration::from_millis(200));
                match deterministic {
                    true => Ok(()),
                    false => bystander(&mut guest),
                }
            }
        };
    }
    if let Some(line) = said(&read(&log), &refused) {
        verdict = verdict.and(Err(line));
    }
    if deterministic {
        verdict = verdict.and_then(|()| bystander(&mut guest));
    }
    guest.log.look();
    if verdict.is_err() {
        verdict = verdict.map_err(|why| format!("{why}\n{}", guest.log.failure_lines().join("\n")));
    }
    guest.power_off();
    // What was written to disks is sound.
    verdict = verdict.and(scratch::check(&folder, &run.file)?);
    if let Some(stretches) = stretches {
        stretches.look(&log, &run.full);
    }
    Ok(verdict.and_then(|()| nobody_else_died(&read(&log), &run.name)))
}

fn bystander(guest: &mut Guest) -> Verdict {
    shell(guest, BYSTANDER, BYSTANDER_SAYS)
}

/// A shell command must end with status 0 and print exactly this.
fn shell(guest: &mut Guest, command: &str, prints: &str) -> Verdict {
    let spec = Spec {
        argv: ["sh", "-c", command]
            .iter()
            .map(|a| a.as_bytes().to_vec())
            .collect(),
        env: ENVIRONMENT.iter().map(|v| v.as_bytes().to_vec()).collect(),
        cwd: b"/tmp".to_vec(),
        no_stdin: true,
    };
    let mut out = Vec::new();
    let outcome = guest
        .run(&spec, Input::Empty, Some(LIMIT), &mut |stream, bytes| {
            if stream == Stream::Out {
                out.extend_from_slice(bytes);
            }
        })
        .map_err(|failure| failure.to_string())?;
    if outcome != Outcome::Ended(Ended::Exited(0)) || out != prints.as_bytes() {
        return Err(format!(
            "{command}: {outcome:?}, it printed {:?}",
            String::from_utf8_lossy(&out)
        ));
    }
    Ok(())
}

/// The first line of the log that says what none may say.
fn said(log: &str, refused: &[String]) -> Option<String> {
    log.lines()
        .find(|line| refused.iter().any(|text| line.contains(text.as_str())))
        .map(String::from)
}

/// What follows `mark` at the beginning of lines.
pub fn lines(text: &str, mark: &str) -> Vec<String> {
    text.lines()
        .filter_map(|line| line.strip_prefix(mark))
        .map(|rest| rest.trim().to_string())
        .collect()
}

/// A backtrace in the log is somebody's death: a component's that says its name, or, if the nucleus ended it, that has the domain of this number since the last line that says so.
pub fn nobody_else_died(log: &str, name: &str) -> Verdict {
    let mut domains = HashMap::new();
    for line in log.lines() {
        if let Some((id, component)) = trace::named(line) {
            domains.insert(id & DOMAIN_NUMBER, component);
        }
        let Some((_, rest)) = line.split_once("!backtrace ") else {
            continue;
        };
        let who = rest.split_whitespace().next().unwrap_or_default();
        let named = who.parse().ok().and_then(|number| domains.get(&number));
        let who = named.copied().unwrap_or(who);
        if who != name {
            return Err(format!("somebody else died: {who}: {rest}"));
        }
    }
    Ok(())
}

pub fn read(path: &Path) -> String {
    fs::read(path)
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_none_may_say_is_found() {
        let refused = ["x: WRONG".to_string()];
        assert_eq!(
            said("x: right\nx: WRONG: y\n", &refused).as_deref(),
            Some("x: WRONG: y")
        );
        assert_eq!(said("x: right\n", &refused), None);
        assert_eq!(said("x: WRONG\n", &[]), None);
    }

    #[test]
    fn only_the_culprit_may_die() {
        assert!(nobody_else_died("fine\n!backtrace hostile 0x1\n", "hostile").is_ok());
        assert!(nobody_else_died("!backtrace vm 0x1\n", "hostile").is_err());
        assert!(nobody_else_died("log: !backtrace nucleus\n", "hostile").is_err());
    }

    #[test]
    fn a_domain_has_the_name_that_was_told_last() {
        let log = "[1] init: `vm` is domain 1048578\n[1] init: `hostile` is domain 1048588\n";
        let dies = |more: &str| nobody_else_died(&format!("{log}{more}"), "hostile");
        assert!(dies("!backtrace 12 0x200050\n").is_ok());
        assert!(dies("!backtrace 2 0x200050\n").is_err());
        assert!(dies("!backtrace 13 0x200050\n").is_err());
        // The place of a domain that ended is another one's.
        assert!(dies("[1] init: `fat` is domain 2097164\n!backtrace 12 0x1\n").is_err());
        assert!(dies("!backtrace 12 0x1\n[1] init: `fat` is domain 2097164\n").is_ok());
    }
}
