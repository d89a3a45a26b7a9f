//! `./cairn graph`: who may call whom, from the manifest of a machine.

use crate::{cli, image};
use anyhow::{Context, Result};
use cairn_ctl::graph::Graph;
use cairn_manifest::{Component, INIT_LINES};

pub fn command(arguments: &cli::Graph) -> Result<u8> {
    let (_, manifest) = image::manifest(&arguments.machine)?;
    let lines = manifest.components.iter().map(Component::lines);
    let graph = Graph::parse(&format!("{INIT_LINES}{}", lines.collect::<String>()));
    match &arguments.svg {
        None => print!("{}", graph.text()),
        Some(file) if file.as_os_str() == "-" => print!("{}", graph.svg()),
        Some(file) => std::fs::write(file, graph.svg())
            .with_context(|| format!("cannot write {}", file.display()))?,
    }
    Ok(0)
}
