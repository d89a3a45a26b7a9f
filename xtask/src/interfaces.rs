//! `./cairn idl`: interface definitions, checked and shown.

use crate::{cli, places};
use anyhow::{Context, Result};
use cairn_idl_compiler::model::Interface;
use cairn_idl_compiler::{c, compile, rust, show};
use std::fs;
use std::path::{Path, PathBuf};

/// Show one file, or all of the project without one. A mistake is told with its place and gives exit status 1.
pub fn command(arguments: &cli::Idl) -> Result<u8> {
    let files = match &arguments.file {
        Some(file) => vec![file.clone()],
        None => definitions(&places::root().join("idl"))?,
    };
    let mut status = 0;
    for file in files {
        match read(&file)? {
            Ok(interface) => print!("{}", text(&interface, arguments)),
            Err(refused) => {
                eprintln!("{refused}");
                status = 1;
            }
        }
    }
    Ok(status)
}

fn text(interface: &Interface, arguments: &cli::Idl) -> String {
    if arguments.rust {
        rust::module(interface)
    } else if arguments.c {
        c::header(interface)
    } else {
        show::table(interface)
    }
}

type Checked = std::result::Result<Interface, cairn_idl_compiler::source::Refused>;

fn read(file: &Path) -> Result<Checked> {
    let text =
        fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    Ok(compile(&file.display().to_string(), &text))
}

/// The definition files of a folder, by name.
fn definitions(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries =
        fs::read_dir(folder).with_context(|| format!("no folder {}", folder.display()))?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|e| e.path()).collect();
    files.retain(|f| f.extension().is_some_and(|e| e == "idl"));
    files.sort();
    Ok(files)
}
