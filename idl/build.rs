//! Makes the modules of all definition files of this folder.

use std::path::{Path, PathBuf};

fn main() {
    let mut files: Vec<PathBuf> = std::fs::read_dir(".")
        .map(|entries| entries.flatten().map(|e| e.path()).collect())
        .unwrap_or_default();
    files.retain(|f| f.extension().is_some_and(|e| e == "idl"));
    files.sort();
    println!("cargo:rerun-if-changed=.");
    let files: Vec<&Path> = files.iter().map(PathBuf::as_path).collect();
    cairn_idl_compiler::build_or_exit(&files);
}
