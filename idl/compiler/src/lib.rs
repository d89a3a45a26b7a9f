//! The interface compiler: a definition file (`idl/*.idl`, or one of a component of your own) to Rust stubs and server traits, C headers, and signatures for compiled portals.
//! docs/guide/interfaces.md describes the language.
//!
//! From text to output: [`lex`], [`parse`], [`check`] (with [`evaluate`]), then [`rust`] and [`c`] over the checked [`model`]. Only the first three can complain; a text of any kind
//! is either refused with a place and a sentence, or gives code that compiles.
#![forbid(unsafe_code)]

pub mod abi_header;
pub mod c;
mod c_client;
mod c_server;
mod check;
mod evaluate;
mod lex;
pub mod model;
mod parse;
pub mod rust;
mod rust_client;
mod rust_server;
pub mod show;
pub mod source;
mod syntax;

use model::Interface;
use source::Refused;
use std::collections::BTreeSet;
use std::path::Path;

/// The errors that interfaces may name.
const ERRNO: &str = include_str!("../../errno.idl");

/// Check a definition; `file` is what complaints call it.
pub fn compile(file: &str, text: &str) -> Result<Interface, Refused> {
    let parsed = parse::parse(text).map_err(|why| Refused::new(file, text, vec![why]))?;
    check::check(&parsed, &errors()).map_err(|all| Refused::new(file, text, all))
}

/// Names of errno.idl, which is such a file itself.
fn errors() -> BTreeSet<String> {
    let Ok(file) = parse::parse(ERRNO) else {
        return BTreeSet::new();
    };
    let names = file.items.into_iter().filter_map(|item| match item {
        syntax::Item::Constant(constant, _) => Some(constant.name.value),
        _ => None,
    });
    names.collect()
}

/// Why a build script cannot go on.
pub type BuildError = Box<dyn std::error::Error>;

/// For build scripts: the modules of these definition files, written to `interfaces.rs` in cargo's OUT_DIR, to be included by the crate.
pub fn build(files: &[&Path]) -> Result<(), BuildError> {
    let mut modules = String::new();
    for file in files {
        println!("cargo:rerun-if-changed={}", file.display());
        let text = std::fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?;
        modules += &rust::module(&compile(&file.display().to_string(), &text)?);
    }
    let folder = std::env::var("OUT_DIR")?;
    std::fs::write(Path::new(&folder).join("interfaces.rs"), modules)?;
    Ok(())
}

/// As [`build`], and a mistake ends the build with what is wrong.
pub fn build_or_exit(files: &[&Path]) {
    if let Err(why) = build(files) {
        eprintln!("{why}");
        std::process::exit(1);
    }
}
