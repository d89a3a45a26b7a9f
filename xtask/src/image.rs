//! What is in the guest: the root file system that both systems share, and Cairn's components.

use crate::archive::Archive;
use crate::build::{self, System};
use crate::cli::{Machine, Root};
use crate::{composition, link, packages, places, registers};
use anyhow::{bail, Context, Result};
use cairn_manifest::{Component, Manifest, Registers};
use std::fs;
use std::path::Path;

/// What Linux needs for its disks: the transport, the driver, the file systems, and the sum that ext4 finds by an alias.
const DISK_MODULES: [&str; 5] = [
    "virtio_pci",
    "virtio_blk",
    "crc32c_generic",
    "ext4",
    "isofs",
];
/// What it needs for a link, and for trees that another machine serves.
const NET_MODULES: [&str; 4] = ["virtio_pci", "virtio_net", "9p", "9pnet_fd"];
/// Where `guest-init` looks for modules.
const MODULES: &str = "lib/modules/at-start";

/// Where what is added waits for a root on a disk.
const ADDED: &str = "add";

/// Folders of the root and their modes.
const FOLDERS: [(&str, u32); 23] = [
    ("bin", 0o755),
    ("dev", 0o755),
    ("etc", 0o755),
    ("home", 0o755),
    ("home/user", 0o755),
    ("mnt", 0o755),
    ("proc", 0o555),
    ("root", 0o700),
    ("run", 0o755),
    // What /dev/shm leads to on Cairn.
    ("run/shm", 0o1777),
    ("sbin", 0o755),
    ("sys", 0o555),
    ("tmp", 0o1777),
    ("usr", 0o755),
    ("usr/bin", 0o755),
    ("usr/local", 0o755),
    ("usr/local/bin", 0o755),
    ("usr/local/sbin", 0o755),
    ("usr/sbin", 0o755),
    ("var", 0o755),
    ("var/log", 0o755),
    ("var/run", 0o755),
    ("var/tmp", 0o1777),
];

/// The root file system that Cairn and Linux share: what `--root` names, `guest-init`, and what was added.
fn root(guest_init: &Path, machine: &Machine) -> Result<Archive> {
    let mut archive = match &machine.root {
        Root::Small => small()?,
        Root::Debian | Root::Own(_) => mount_points(),
    };
    // What goes onto a disk is put there by `guest-init`.
    let added = match machine.root.is_on_disk() {
        true => ADDED,
        false => "",
    };
    archive.file("sbin/init", 0o755, read(guest_init)?);
    // Linux opens it before the first process could make it.
    archive.character_device("dev/console", 0o600, 5, 1);
    for pair in &machine.add {
        archive.host(
            Path::new(&pair.first),
            &format!("{added}/{}", pair.second.trim_start_matches('/')),
        )?;
    }
    Ok(archive)
}

/// What Linux boots from: the root, and the modules for what Cairn has built in, which `guest-init` loads in the order of their names: TUN, loop devices, what
/// `ss` asks of local sockets, and disks and links where there are some.
pub fn linux(guest_init: &Path, machine: &Machine) -> Result<Archive> {
    let mut archive = root(guest_init, machine)?;
    let mut names = vec!["tun", "loop", "unix_diag"];
    if !link::links(machine).is_empty() {
        names.extend(NET_MODULES);
    }
    if !machine.attached()?.is_empty() {
        names.extend(DISK_MODULES);
    }
    for (number, module) in packages::linux_modules(&names)?.into_iter().enumerate() {
        archive.file(&format!("{MODULES}/{number:02}.ko"), 0o644, module);
    }
    Ok(archive)
}

/// What Linux needs before it is on its disk.
fn mount_points() -> Archive {
    let mut archive = Archive::default();
    for path in ["dev", "proc", "sys"] {
        archive.directory(path, 0o755);
    }
    archive
}

/// Debian's busybox with its applets, and a few files in `/etc`.
fn small() -> Result<Archive> {
    let mut archive = Archive::default();
    for (path, mode) in FOLDERS {
        archive.directory(path, mode);
    }
    let busybox = packages::busybox()?;
    archive.file("bin/busybox", 0o755, read(&busybox)?);
    for applet in packages::applets(&busybox)? {
        // The first process is our own.
        if !["linuxrc", "sbin/init"].contains(&applet.as_str()) && !archive.contains(&applet) {
            archive.symlink(&applet, "/bin/busybox");
        }
    }
    for name in ["cairn-ctl", "cairn-9p"] {
        archive.symlink(&format!("usr/local/sbin/{name}"), "/sbin/init");
    }
    archive.host(&places::root().join("system/root"), "/")?;
    Ok(archive)
}

/// Folders and their modes, files and their contents.
type Beside = (Vec<(&'static str, u32)>, Vec<(String, Vec<u8>)>);

/// What a root on a disk has beside Debian's packages, which leave it to an installer.
pub fn beside_packages() -> Result<Beside> {
    let mut files = Vec::new();
    for name in HOST_FILES {
        let path = format!("etc/{name}");
        let content = read(&places::root().join("system/root").join(&path))?;
        files.push((path, content));
    }
    let table = b"/dev/vda / ext4 defaults 0 1\n".to_vec();
    files.push(("etc/fstab".to_string(), table));
    Ok((FOLDERS.to_vec(), files))
}

/// Files of `/etc` that no package has.
const HOST_FILES: [&str; 2] = ["hostname", "hosts"];

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

/// How faults begin that say themselves on which line they are.
const IN_TEXT: &str = "TOML parse error";

/// A manifest's fault with its file, and with the line that names the component it speaks of, where the text has it.
fn at_line(file: &Path, text: &str, why: &str) -> String {
    let component = why.split('`').skip(1).step_by(2).find_map(|word| {
        let name = format!("name = \"{word}\"");
        text.lines()
            .position(|line| line.trim_start().starts_with(&name))
    });
    match component {
        Some(line) if !why.starts_with(IN_TEXT) => {
            format!("{}: line {}: {why}", file.display(), line + 1)
        }
        _ => format!("{}: {why}", file.display()),
    }
}

/// Cairn's manifest for a machine, with the lines of `--with`: the text, and what it says.
pub fn manifest(machine: &Machine) -> Result<(String, Manifest)> {
    let with = machine.with.as_deref();
    let text = |path: &Path| {
        String::from_utf8(read(path)?).with_context(|| format!("{} is not text", path.display()))
    };
    let standard = text(&places::root().join("system/system.toml"))?;
    if let (Some(with), true) = (with, machine.only) {
        let own = text(with)?;
        return match cairn_manifest::parse(&own) {
            Ok(parsed) => Ok((own, parsed)),
            Err(invalid) => bail!("{}", at_line(with, &own, &invalid.0)),
        };
    }
    let mut manifest = composition::with_devices(&standard, machine)?;
    if let Some(with) = with {
        manifest.push('\n');
        manifest.push_str(&text(with)?);
    }
    match cairn_manifest::parse(&manifest) {
        Ok(parsed) => Ok((manifest, parsed)),
        Err(invalid) => match with {
            None => bail!("the manifest is wrong: {}", invalid.0),
            // The same text with the user's lines in front, so that their numbers are those of the file.
            Some(with) => {
                let own = text(with)?;
                let together = format!("{own}\n{standard}");
                // Of two that cannot be together the user's is the one to change: the usual order tells it. Lines of the text are right in the other one only.
                let why = match cairn_manifest::parse(&together) {
                    Err(told) if invalid.0.starts_with(IN_TEXT) => told.0,
                    _ => invalid.0,
                };
                bail!("{}", at_line(with, &own, &why))
            }
        },
    }
}

/// The whole boot archive of Cairn, of the standard components and those that `--with`, a file with further lines for the manifest, names.
pub fn cairn(system: &System, machine: &Machine) -> Result<Archive> {
    let with = machine.with.as_deref();
    let (mut manifest, parsed) = manifest(machine)?;
    // Without processes nobody reads files.
    let mut archive = match parsed.has_processes() {
        true => root(&system.guest_init, machine)?,
        false => Archive::default(),
    };
    if !parsed.checked.programs.is_empty() {
        bail!("the manifest has [checked], which the image maker adds");
    }
    // Of each further program: whether some line says that it leaves its callers' registers alone.
    let mut further: Vec<(String, bool)> = Vec::new();
    let filesystems = parsed.filesystems.iter();
    let filesystems = filesystems.map(|line| (&line.binary, line.registers));
    let components = parsed.components.iter();
    let components = components.map(|component| (&component.binary, component.registers));
    let lines: Vec<_> = components.chain(filesystems).collect();
    for &(binary, registers) in &lines {
        let callers = registers == Some(Registers::Callers);
        let Some(name) = binary.strip_prefix("/cairn/") else {
            continue;
        };
        if system.components.iter().any(|(known, _)| known == name) {
            continue;
        }
        match further.iter_mut().find(|(known, _)| known == name) {
            // It must do for all of them.
            Some((_, least)) => *least |= callers,
            None => further.push((name.to_string(), callers)),
        }
    }
    let built = build::further(&further, with)?;
    let standard = system.components.iter();
    let standard = standard.map(|(name, file)| (name, file, true));
    let further = built.iter().map(|it| (&it.name, &it.file, it.in_rust));
    let mut checked = Vec::new();
    for (name, file, with_system) in standard.chain(further) {
        let is_named = |c: &Component| c.binary.strip_prefix("/cairn/") == Some(name);
        if !parsed.has_processes() && name != "init" && !parsed.components.iter().any(is_named) {
            continue;
        }
        archive.file(&format!("cairn/{name}"), 0o755, read(file)?);
        let binary = format!("/cairn/{name}");
        let own = lines.iter().filter(|line| *line.0 == binary);
        let unsaid = with_system && own.clone().any(|line| line.1.is_none());
        let callers = own.clone().any(|line| line.1 == Some(Registers::Callers));
        // `init` has no line.
        if unsaid || callers || name == "init" {
            registers::check(name, file)?;
        }
        if unsaid {
            checked.push(binary);
        }
    }
    manifest.push_str(&format!("\n[checked]\nprograms = {checked:?}\n"));
    archive.file("cairn/system.toml", 0o644, manifest.into_bytes());
    Ok(archive)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifests_fault_has_its_file_and_line() {
        let text = "# mine\n[[component]]\nname = \"mine\"\n";
        let told = |why: &str| at_line(Path::new("my.toml"), text, why);
        assert_eq!(
            told("component `mine`: interrupt 4 is `uart0`'s"),
            "my.toml: line 3: component `mine`: interrupt 4 is `uart0`'s"
        );
        assert_eq!(
            told("component `uart0`: x"),
            "my.toml: component `uart0`: x"
        );
        let parser = "TOML parse error at line 7, `mine`";
        assert_eq!(told(parser), format!("my.toml: {parser}"));
    }
}
