//! From source to programs: one cargo call for each kind of program, then the copies without symbols that go into the boot archive.

use crate::{cli, image, interfaces, places, progress};
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Target of the nucleus and the native components.
const BARE: &str = "x86_64-unknown-none";
/// Target of programs that run on the guest's Linux interface (and, static, on any Linux).
const LINUX: &str = "x86_64-unknown-linux-gnu";

/// How components in C are compiled: as the Rust ones, at a fixed address.
const C_FLAGS: [&str; 20] = [
    "-std=c11",
    "-O2",
    "-g",
    "-Wall",
    "-Wextra",
    "-Wno-unused-parameter",
    "-Werror",
    "-ffreestanding",
    "-fno-pie",
    "-fno-stack-protector",
    "-fno-asynchronous-unwind-tables",
    // The runtime's memory functions are loops that must not become calls of themselves.
    "-fno-tree-loop-distribute-patterns",
    "-fcf-protection=none",
    "-nostdlib",
    "-static",
    "-no-pie",
    "-Wl,-z,max-page-size=4096",
    "-Wl,--build-id=none",
    "-Wl,-z,noexecstack",
    "-Wl,--fatal-warnings",
];

/// And, as they, without vector registers, if these belong to whoever called.
const NO_VECTORS: &str = "-mgeneral-regs-only";

/// Packages and binaries of the nucleus and the standard components.
const NATIVE: [(&str, &str); 21] = [
    ("cairn-kernel", "cairn-nucleus"),
    ("cairn-init", "init"),
    ("cairn-vm", "vm"),
    ("cairn-proc", "proc"),
    ("cairn-tmpfs", "tmpfs"),
    ("cairn-pipe", "pipe"),
    ("cairn-event", "event"),
    ("cairn-local", "local"),
    ("cairn-net", "net"),
    ("cairn-ipc", "ipc"),
    ("cairn-keys", "keys"),
    ("cairn-filter", "filter"),
    ("cairn-deadline", "deadline"),
    ("cairn-tty", "tty"),
    ("cairn-procfs", "procfs"),
    ("cairn-devfs", "devfs"),
    ("cairn-blockdev", "blockdev"),
    ("cairn-loop", "loop"),
    ("cairn-random-server", "random"),
    ("cairn-sysfs", "sysfs"),
    ("cairn-uart", "uart"),
];

/// The programs of a whole system. Paths are of copies without symbols.
pub struct System {
    pub nucleus: PathBuf,
    /// Name under `/cairn` in the guest, and file.
    pub components: Vec<(String, PathBuf)>,
    pub guest_init: PathBuf,
}

/// `./cairn build`.
pub fn command(arguments: &cli::Build) -> Result<u8> {
    let system = system()?;
    let archive = image::cairn(&system, &cli::Machine::plain(cli::System::Cairn, "256M"))?.encode();
    let place = arguments
        .archive
        .clone()
        .unwrap_or_else(|| places::build().join("image/cairn.cpio"));
    if let Some(folder) = place.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(&place, &archive).with_context(|| format!("cannot write {}", place.display()))?;
    eprintln!("nucleus       {}", system.nucleus.display());
    eprintln!(
        "boot archive  {} ({} KiB)",
        place.display(),
        archive.len() / 1024
    );
    eprintln!("symbols       {}", places::symbols().display());
    Ok(0)
}

/// `./cairn clean`.
pub fn clean(arguments: &cli::Clean) -> Result<u8> {
    let build = places::build();
    if !build.exists() {
        return Ok(0);
    }
    for entry in fs::read_dir(&build)?.flatten() {
        let name = entry.file_name();
        // The tool that runs now, downloads and the private toolchain are slow to get again.
        let kept = ["cache", "toolchain", "host", "setup.env"]
            .iter()
            .any(|k| name == *k);
        if arguments.all || !kept {
            let path = entry.path();
            let removed = if entry.file_type()?.is_dir() {
                fs::remove_dir_all(&path)
            } else {
                fs::remove_file(&path)
            };
            removed.with_context(|| format!("cannot remove {}", path.display()))?;
        }
    }
    Ok(0)
}

/// Everything for Cairn.
pub fn system() -> Result<System> {
    let packages: Vec<&str> = NATIVE.iter().map(|(package, _)| *package).collect();
    let native = native("building the nucleus and the components", &packages)?;
    let mut components = Vec::new();
    for (_, binary) in &NATIVE[1..] {
        components.push((binary.to_string(), publish(&native.join(binary), binary)?));
    }
    components.push(("personality".to_string(), personality()?));
    Ok(System {
        nucleus: publish(&native.join(NATIVE[0].1), NATIVE[0].1)?,
        components,
        guest_init: guest_init()?,
    })
}

/// Names of the nucleus, first, the standard components and the personality.
pub fn standard_programs() -> impl Iterator<Item = &'static str> {
    NATIVE
        .iter()
        .map(|(_, program)| *program)
        .chain(["personality"])
}

/// All packages with programs for the bare target.
pub fn bare_packages() -> Vec<&'static str> {
    let more = [
        "cairn-linux",
        "cairn-native-tests",
        "cairn-hello",
        "cairn-pci",
        "cairn-virtio-blk",
        "cairn-virtio-net",
        "cairn-e1000",
        "cairn-virtio-9p",
        "cairn-nvme",
        "cairn-ahci",
        "cairn-ram",
        "cairn-ext4-server",
        "cairn-fat",
        "cairn-iso",
        "cairn-cgroup",
        "cairn-trace",
        "cairn-bench-ipc",
        "cairn-bench-links",
        "cairn-examples",
        "cairn-tally",
    ];
    NATIVE
        .iter()
        .map(|(package, _)| *package)
        .chain(more)
        .collect()
}

/// A program of a further component.
pub struct Further {
    pub name: String,
    pub file: PathBuf,
    /// Of a package, built as the system is.
    pub in_rust: bool,
}

/// The programs of further components: a C source of that name beside the file of `--with`, or else a binary of that name of some package of the workspace;
/// with each whether it must leave its callers' registers alone.
pub fn further(names: &[(String, bool)], with: Option<&Path>) -> Result<Vec<Further>> {
    let beside = with.and_then(Path::parent);
    let mut programs = Vec::new();
    let mut in_rust = Vec::new();
    for (name, callers) in names {
        let source = beside.map(|folder| folder.join(format!("{name}.c")));
        match source.filter(|source| source.exists()) {
            Some(source) => programs.push(Further {
                name: name.clone(),
                file: c_program(name, &source, *callers)?,
                in_rust: false,
            }),
            None => in_rust.push(name.clone()),
        }
    }
    if in_rust.is_empty() {
        return Ok(programs);
    }
    let packages = packages_of(&in_rust, with)?;
    let folder = native(
        "building further components",
        &packages.iter().map(String::as_str).collect::<Vec<_>>(),
    )?;
    for name in in_rust {
        programs.push(Further {
            file: publish(&folder.join(&name), &name)?,
            name,
            in_rust: true,
        });
    }
    Ok(programs)
}

/// A native component in C, with the headers of all interfaces of the project and of the source's folder.
fn c_program(name: &str, source: &Path, callers: bool) -> Result<PathBuf> {
    let folder = places::build().join("sdk");
    let generated = folder.join("include").join(name);
    // (A bare file name has an empty folder.)
    let beside = source
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    interfaces::headers(beside.unwrap_or(Path::new(".")), &generated)?;
    let sdk = places::root().join("sdk");
    let built = folder.join(name);
    let mut command = Command::new("gcc");
    command
        .args(C_FLAGS)
        .args(callers.then_some(NO_VECTORS))
        .arg("-I")
        .arg(&generated)
        .arg("-I")
        .arg(sdk.join("include"))
        .arg("-o")
        .arg(&built)
        .arg(source)
        .arg(sdk.join("c/runtime.c"))
        .arg("-T")
        .arg(places::root().join("lib/rt/native.ld"));
    progress::run(&format!("compiling {}", source.display()), &mut command)?;
    publish(&built, name)
}

/// Which packages have binaries of these names. (`with`: the file that names them, beside which sources in C would lie.)
fn packages_of(names: &[String], with: Option<&Path>) -> Result<Vec<String>> {
    #[derive(serde::Deserialize)]
    struct Metadata {
        packages: Vec<Package>,
    }
    #[derive(serde::Deserialize)]
    struct Package {
        name: String,
        targets: Vec<Target>,
    }
    #[derive(serde::Deserialize)]
    struct Target {
        name: String,
        kind: Vec<String>,
    }
    let mut command = cargo();
    command.args(["metadata", "--no-deps", "--format-version", "1"]);
    let output = progress::run("looking through the workspace", &mut command)?;
    let metadata: Metadata = serde_json::from_slice(&output).context("cargo metadata")?;
    let mut packages = Vec::new();
    for name in names {
        let has = |package: &&Package| {
            package
                .targets
                .iter()
                .any(|t| t.name == *name && t.kind.iter().any(|k| k == "bin"))
        };
        let Some(package) = metadata.packages.iter().find(has) else {
            anyhow::bail!("{}", no_program(name, with));
        };
        if !packages.contains(&package.name) {
            packages.push(package.name.clone());
        }
    }
    Ok(packages)
}

/// What is said of a program that is nowhere: the line of the user's file that names it, and the two places where it may be.
fn no_program(name: &str, with: Option<&Path>) -> String {
    let binary = format!("/cairn/{name}");
    let (mut place, mut in_c) = (String::new(), String::new());
    if let Some(file) = with {
        let text = fs::read_to_string(file).unwrap_or_default();
        let quoted = format!("\"{binary}\"");
        let is_it = |line: &str| line.trim_start().starts_with("binary") && line.contains(&quoted);
        if let Some(at) = text.lines().position(is_it) {
            place = format!("{}: line {}: ", file.display(), at + 1);
        }
        let source = file.with_file_name(format!("{name}.c"));
        in_c = format!("there is no {}, and ", source.display());
    }
    format!(
        "{place}binary = \"{binary}\": {in_c}no crate of the workspace has a program called {name}. \
         If its crate is there: is its folder among `members` in Cairn's Cargo.toml, and does its own Cargo.toml say `[[bin]] name = \"{name}\"`?"
    )
}

/// Cargo with the toolchain that `./cairn` chose.
pub fn cargo() -> Command {
    let mut command =
        Command::new(std::env::var_os("CAIRN_CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(places::root());
    // What cargo tells the program that it runs must not reach the cargo that the program runs.
    for name in [
        "CARGO",
        "CARGO_MANIFEST_DIR",
        "CARGO_TARGET_DIR",
        "RUSTFLAGS",
        "CARGO_ENCODED_RUSTFLAGS",
    ] {
        command.env_remove(name);
    }
    command
}

/// Packages for the bare target; the folder with their programs.
fn native(what: &str, packages: &[&str]) -> Result<PathBuf> {
    let target = places::build().join("native");
    let mut command = cargo();
    command.args([
        "build",
        "--quiet",
        "--release",
        "--features",
        "bare",
        "--target",
        BARE,
    ]);
    for package in packages {
        command.args(["-p", package]);
    }
    progress::run(what, command.arg("--target-dir").arg(&target))?;
    Ok(target.join(BARE).join("release"))
}

/// The Linux personality: as position-independent code, because it is linked beyond the first 2 GiB.
fn personality() -> Result<PathBuf> {
    let target = places::build().join("personality");
    let mut command = cargo();
    command
        .args([
            "build",
            "--quiet",
            "--release",
            "--features",
            "bare",
            "-p",
            "cairn-linux",
            "--target",
            BARE,
        ])
        .env("RUSTFLAGS", "-Crelocation-model=pic")
        .arg("--target-dir")
        .arg(&target);
    progress::run("building the Linux personality", &mut command)?;
    publish(
        &target.join(BARE).join("release/personality"),
        "personality",
    )
}

/// The first process of the guest.
pub fn guest_init() -> Result<PathBuf> {
    static_program("guest-init", &["-p", "guest-init"], &places::root())
}

/// A statically linked program for the guest's Linux interface, built by cargo in `folder`.
pub fn static_program(name: &str, selection: &[&str], folder: &Path) -> Result<PathBuf> {
    let target = places::build().join("guest");
    let mut command = cargo();
    command
        .args(["build", "--quiet", "--release", "--target", LINUX])
        .args(selection)
        .env(
            "RUSTFLAGS",
            "-Ctarget-feature=+crt-static -Crelocation-model=static",
        )
        .current_dir(folder)
        .arg("--target-dir")
        .arg(&target);
    progress::run(&format!("building {name}"), &mut command)?;
    publish(&target.join(LINUX).join("release").join(name), name)
}

/// Keep a program with symbols under `build/symbols` and without under `build/programs`; the latter's path.
fn publish(built: &Path, name: &str) -> Result<PathBuf> {
    let (with, without) = (places::symbols().join(name), places::programs().join(name));
    let stamp = |path: &Path| fs::metadata(path).and_then(|m| m.modified()).ok();
    let built_at = stamp(built).with_context(|| format!("cargo left no {}", built.display()))?;
    if stamp(&without).is_some_and(|at| at >= built_at) {
        return Ok(without);
    }
    fs::create_dir_all(places::symbols())?;
    fs::create_dir_all(places::programs())?;
    // Another `./cairn` may be at it, too: each writes its own file and renames it.
    let own = |path: &Path| path.with_extension(format!("new-{}", std::process::id()));
    fs::copy(built, own(&with)).with_context(|| format!("cannot copy {}", built.display()))?;
    progress::run(
        &format!("stripping {name}"),
        Command::new("strip")
            .arg("--strip-all")
            .arg("-o")
            .arg(own(&without))
            .arg(built),
    )?;
    fs::rename(own(&with), &with)?;
    fs::rename(own(&without), &without)?;
    Ok(without)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_nowhere_is_told_with_the_users_line() {
        let folder = std::env::temp_dir().join(format!("xtask-nowhere-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let file = folder.join("frob.toml");
        fs::write(
            &file,
            "# mine\n[[component]]\nname = \"frob\"\nbinary = \"/cairn/frob\"\n",
        )
        .unwrap();
        let told = no_program("frob", Some(&file));
        let begin = format!(
            "{}: line 4: binary = \"/cairn/frob\": there is no {}, and no crate",
            file.display(),
            folder.join("frob.c").display()
        );
        assert!(told.starts_with(&begin), "{told}");
        let elsewhere = no_program("other", Some(Path::new("nowhere.toml")));
        assert!(
            elsewhere.starts_with("binary = \"/cairn/other\": there is no other.c, and no crate")
        );
        assert!(no_program("x", None).starts_with("binary = \"/cairn/x\": no crate"));
        fs::remove_dir_all(&folder).unwrap();
    }
}
