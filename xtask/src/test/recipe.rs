//! `entrance/driver`: the lines by which the guide begins a driver in C, as they stand there, in a folder of the test's.

use super::entrance::Scratch;
use super::Verdict;
use crate::book;
use crate::places;
use anyhow::{Context, Result};
use std::path::Path;
use std::process::{Command, Stdio};

const PAGE: &str = "docs/guide/driver.md";
/// The folder that these lines make, beside the repository.
const FOLDER: &str = "../chime";

pub fn driver() -> Result<Verdict> {
    let folder = Scratch::new("driver")?;
    let page = book::page::Page::parse(&book::text(Path::new(PAGE))?);
    let mut blocks = page.blocks.iter();
    let block = blocks
        .find(|block| block.text.contains(&format!("mkdir {FOLDER}")))
        .with_context(|| format!("{PAGE} makes no {FOLDER}"))?;
    let tool = std::env::current_exe()?;
    let own = folder.0.join("chime");
    let script = block
        .text
        .replace(FOLDER, &own.display().to_string())
        .replace("./cairn", &tool.display().to_string());
    let output = Command::new("sh")
        .args(["-e", "-c", &script])
        .current_dir(places::root())
        .stdin(Stdio::null())
        .output()
        .context("cannot start sh")?;
    let said = String::from_utf8_lossy(&output.stderr);
    let works = output.status.success() && said.contains("chime-client: ten ticks");
    Ok(match works {
        true => Ok(()),
        false => Err(format!("{script}\nends with {}:\n{said}", output.status)),
    })
}
