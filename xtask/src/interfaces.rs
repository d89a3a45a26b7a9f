//! `./cairn idl`: interface definitions, checked and shown; and all headers for programs in C.

use crate::{cli, places};
use anyhow::{Context, Result};
use cairn_idl_compiler::model::Interface;
use cairn_idl_compiler::{abi_header, c, compile, rust, show};
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

/// All interfaces of the project, as a page of the book.
pub fn page() -> Result<String> {
    let mut page = "# Interfaces\nThe operations of all interfaces, as `./cairn idl` prints them. [Interfaces](../guide/interfaces.md) has the language.\n".to_string();
    for file in definitions(&places::root().join("idl"))? {
        match read(&file)? {
            Ok(interface) => {
                page += &format!(
                    "\n## {}\n```text\n{}```\n",
                    interface.name,
                    show::table(&interface)
                )
            }
            Err(refused) => anyhow::bail!("{refused}"),
        }
    }
    Ok(page)
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

/// Headers of the project's interfaces and of those in `folder` (a C component's own) below `into`. Files that stay the same keep their time.
pub fn headers(folder: &Path, into: &Path) -> Result<()> {
    let place = into.join("cairn");
    fs::create_dir_all(&place).with_context(|| format!("cannot make {}", place.display()))?;
    write(&place.join("abi.h"), &abi_header::header())?;
    let mut files = definitions(&places::root().join("idl"))?;
    files.extend(definitions(folder)?);
    for file in files {
        match read(&file)? {
            Ok(interface) => {
                let name = format!("{}.h", interface.name);
                write(&place.join(name), &c::header(&interface))?;
            }
            Err(refused) => anyhow::bail!("{refused}"),
        }
    }
    Ok(())
}

fn write(file: &Path, text: &str) -> Result<()> {
    if fs::read_to_string(file).is_ok_and(|old| old == text) {
        return Ok(());
    }
    // Another `./cairn` may be at it, too: each writes its own file and renames it.
    let own = file.with_extension(format!("new-{}", std::process::id()));
    fs::write(&own, text)
        .and_then(|()| fs::rename(&own, file))
        .with_context(|| format!("cannot write {}", file.display()))
}
