//! The C side: every header of the project and the sample's compile without a warning, and a C program sends random messages through the sample's client to its server.
//! The C compiler is the one that `./cairn` builds the guest's programs with.

use cairn_idl_compiler::{abi_header, c, compile};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A folder with all headers.
fn headers(name: &str) -> (PathBuf, Vec<String>) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(folder.join("cairn")).unwrap();
    fs::write(folder.join("cairn/abi.h"), abi_header::header()).unwrap();
    let mut names = Vec::new();
    let mut files = vec![root.join("tests/sample/sample.idl")];
    files.extend(
        fs::read_dir(root.join(".."))
            .unwrap()
            .flatten()
            .map(|e| e.path()),
    );
    files.retain(|f| f.extension().is_some_and(|e| e == "idl"));
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let interface = compile(&file.display().to_string(), &text).unwrap();
        let header = format!("cairn/{}.h", interface.name);
        fs::write(folder.join(&header), c::header(&interface)).unwrap();
        names.push(header);
    }
    assert!(names.len() >= 6);
    (folder, names)
}

fn compile_c(folder: &Path, arguments: &[&str]) {
    let sdk = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sdk/include");
    let output = Command::new("gcc")
        .args([
            "-std=c11",
            "-Wall",
            "-Wextra",
            "-Wpedantic",
            "-Werror",
            "-O1",
        ])
        .arg("-I")
        .arg(folder)
        .arg("-I")
        .arg(sdk)
        .args(arguments)
        .output()
        .expect("gcc, which ./cairn installs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn headers_compile_alone_and_together() {
    let (folder, names) = headers("headers");
    let mut all = String::new();
    for (i, name) in names.iter().enumerate() {
        let file = folder.join(format!("one{i}.c"));
        fs::write(&file, format!("#include <{name}>\nextern int nothing;\n")).unwrap();
        compile_c(&folder, &["-fsyntax-only", &file.display().to_string()]);
        all += &format!("#include <{name}>\n");
    }
    let file = folder.join("all.c");
    fs::write(
        &file,
        all + "#include <cairn/runtime.h>\nextern int nothing;\n",
    )
    .unwrap();
    let name = file.display().to_string();
    compile_c(
        &folder,
        &[
            "-fsyntax-only",
            "-ffreestanding",
            "-mgeneral-regs-only",
            &name,
        ],
    );
}

#[test]
fn the_runtime_compiles() {
    let (folder, _) = headers("runtime");
    let runtime = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sdk/c/runtime.c");
    let name = runtime.display().to_string();
    compile_c(
        &folder,
        &[
            "-fsyntax-only",
            "-ffreestanding",
            "-mgeneral-regs-only",
            &name,
        ],
    );
}

#[test]
fn random_messages_go_round_in_c() {
    let (folder, _) = headers("round");
    let program = folder.join("round_trip").display().to_string();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sample/round_trip.c");
    compile_c(
        &folder,
        &[
            "-fsanitize=undefined",
            "-fsanitize-undefined-trap-on-error",
            "-o",
            &program,
            &source.display().to_string(),
        ],
    );
    let output = Command::new(&program).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{:?}", output.status);
    assert_eq!(said, "100000 rounds\n");
}
