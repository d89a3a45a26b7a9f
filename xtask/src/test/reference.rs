//! What Linux does with the same programs: the measure of all tests that compare. Kept by the hash of the program, so that Linux boots only for what is new.

use super::batch::{self, Done, Job, Time};
use crate::cli::{Machine, Pair, Root, System};
use crate::debian;
use crate::places;
use anyhow::Result;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;

/// Part of every key: to be changed when the way of running or listing changes.
const VERSION: &str = "3";

/// Programs that one machine runs.
const AT_ONCE: usize = 60;
/// This one changes limits and priorities of others, the first process included: the machine is not used any more.
const DISTURBS: &str = "/random-calls";

/// Results of Linux by the name of the job.
pub type Results = HashMap<String, Result<Done, String>>;

/// A job and what its result depends on.
pub struct Keyed {
    pub job: Job,
    pub content: Vec<u8>,
}

fn place(keyed: &Keyed, root: &Root) -> PathBuf {
    let mut hasher = Sha256::new();
    hasher.update(VERSION);
    if root.is_on_disk() {
        hasher.update("root on a disk");
        // What packages are there can change what a script says.
        hasher.update(debian::identity());
    }
    if keyed.job.place != batch::PLACE {
        hasher.update(keyed.job.place);
    }
    for argument in &keyed.job.argv {
        hasher.update(argument.as_bytes());
        hasher.update([0]);
    }
    hasher.update(&keyed.content);
    let hash: String = hasher
        .finalize()
        .iter()
        .take(12)
        .map(|b| format!("{b:02x}"))
        .collect();
    places::cache()
        .join("linux-results")
        .join(format!("{hash}.json"))
}

/// Linux's results for all jobs, from the cache or from a machine. `fresh`: not from the cache.
pub fn results(machine: &Machine, jobs: &[Keyed], fresh: bool) -> Result<Results> {
    let mut results = Results::new();
    let mut missing = Vec::new();
    for keyed in jobs {
        let kept = fs::read(place(keyed, &machine.root))
            .ok()
            .filter(|_| !fresh);
        match kept.and_then(|bytes| serde_json::from_slice(&bytes).ok()) {
            Some(done) => {
                results.insert(keyed.job.name.clone(), Ok(done));
            }
            None => missing.push(keyed),
        }
    }
    if missing.is_empty() {
        return Ok(results);
    }
    println!("      (asking Linux what {} programs do)", missing.len());
    let machine = Machine {
        system: System::Linux,
        ..machine.clone()
    };
    let known: Vec<Job> = jobs.iter().map(|k| k.job.clone()).collect();
    let jobs: Vec<Job> = missing.iter().map(|k| k.job.clone()).collect();
    fs::create_dir_all(places::cache().join("linux-results"))?;
    let mut failed_to_keep = None;
    // The programs and what they leave behind fill the machine's memory, in which its files are: those whose results are known stay away as well.
    let names = |jobs: &[Job], file: &Pair| jobs.iter().any(|job| job.argv.contains(&file.second));
    let groups = jobs.split_inclusive(|job| job.name.ends_with(DISTURBS));
    for group in groups.flat_map(|jobs| jobs.chunks(AT_ONCE)) {
        let mut machine = machine.clone();
        let adds = &mut machine.add;
        adds.retain(|file| names(group, file) || !names(&known, file));
        batch::run(&machine, group, Time::Clock, &mut |job, _, result| {
            let keyed = missing.iter().find(|k| k.job.name == job.name);
            if let (Ok(done), Some(keyed)) = (&result, keyed) {
                if let Ok(bytes) = serde_json::to_vec_pretty(done) {
                    failed_to_keep = fs::write(place(keyed, &machine.root), bytes).err();
                }
            }
            results.insert(job.name.clone(), result);
        })?;
    }
    if let Some(error) = failed_to_keep {
        eprintln!("cairn: results of Linux could not be kept under build/cache: {error}");
    }
    Ok(results)
}
