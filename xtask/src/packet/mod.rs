//! `./cairn packet SCRIPT…`: scripts in packetdrill's language, played in virtual time around `lib/tcp`.
//!
//! [`script`] reads them, [`play`] plays them, [`host`] is a host with sockets, [`calls`] the system calls, [`assertion`] what stands between `%{` and `}%`. The language is implemented from its documentation.

mod assertion;
mod calls;
mod host;
mod names;
mod play;
mod script;

use crate::cli;
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// Each script is played from several places of the circle of sequence numbers.
const SEEDS: [u64; 3] = [1, 2_999, 0x1234_5678_9abc];

/// A script of a file. What is wrong, with file and line.
pub fn file(path: &Path) -> Result<(), String> {
    let name = path.display();
    let text = fs::read_to_string(path).map_err(|error| format!("{name}: {error}"))?;
    let script = script::parse(&text).map_err(|(line, what)| format!("{name}:{line}: {what}"))?;
    for seed in SEEDS {
        play::play(&script, seed).map_err(|(line, what)| format!("{name}:{line}: {what}"))?;
    }
    Ok(())
}

/// The scripts of a folder and of those in it, in order.
pub fn scripts(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(scripts(&path)?);
        } else if path.extension().is_some_and(|end| end == "pkt") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

pub fn command(arguments: &cli::Packet) -> Result<u8> {
    let mut paths = Vec::new();
    for path in &arguments.scripts {
        match path.is_dir() {
            true => paths.extend(scripts(path)?),
            false => paths.push(path.clone()),
        }
    }
    let mut failed = 0;
    for path in &paths {
        if let Err(what) = file(path) {
            failed += 1;
            println!("{what}");
        }
    }
    println!("{} passed, {failed} failed", paths.len() - failed);
    Ok(u8::from(failed > 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::places;

    #[test]
    fn the_page_names_every_script() {
        let page = fs::read_to_string(places::root().join("docs/tcp.md")).expect("the page");
        for path in scripts(&places::root().join("tests/packet")).expect("scripts") {
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            assert!(
                page.contains(&format!("`{name}`")),
                "docs/tcp.md lacks {name}"
            );
        }
    }
}
