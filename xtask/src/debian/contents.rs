//! What packages bring along: files with their owners, and what `dpkg` keeps about them in `/var/lib/dpkg`.
//!
//! The tree on the host belongs to whoever runs the tool. Members of other owners than root are remembered in [`Owners`], and get them in the file system that is made of the tree.

use super::{LEFT_OUT, MERGED};
use crate::progress;
use anyhow::{bail, Context, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where `dpkg` keeps what it knows.
const DATABASE: &str = "var/lib/dpkg";
/// How a record of a tar archive is padded.
const BLOCK: usize = 512;

/// User and group of what does not belong to root, by its name below the root without a slash at the beginning.
#[derive(Default, Debug, PartialEq, Eq)]
pub struct Owners(BTreeMap<String, (u32, u32)>);

impl Owners {
    pub fn set(&mut self, path: &str, uid: u32, gid: u32) {
        match (uid, gid) {
            (0, 0) => self.0.remove(path),
            other => self.0.insert(path.to_string(), other),
        };
    }

    /// Commands of `debugfs`.
    pub fn script(&self) -> String {
        let lines = self.0.iter().map(|(path, (uid, gid))| {
            format!("sif \"/{path}\" uid {uid}\nsif \"/{path}\" gid {gid}\n")
        });
        lines.collect()
    }
}

/// A member of a package's archive.
#[derive(Debug, PartialEq, Eq)]
struct Member {
    /// As the archive has it: `./usr/bin/su`.
    name: String,
    uid: u32,
    gid: u32,
    is_directory: bool,
}

/// The members of a tar archive, in its order. Of the extensions only GNU's long names are understood: packages have no others.
fn members(mut archive: &[u8]) -> Result<Vec<Member>> {
    let mut members = Vec::new();
    let mut long_name = None;
    loop {
        let Some((header, rest)) = archive.split_at_checked(BLOCK) else {
            bail!("a package's archive ends too early");
        };
        if header.iter().all(|byte| *byte == 0) {
            return Ok(members);
        }
        let size = octal(&header[124..136])?;
        let padded = size.next_multiple_of(BLOCK);
        let Some((content, rest)) = rest.split_at_checked(padded) else {
            bail!("a package's archive ends too early");
        };
        archive = rest;
        let kind = header[156];
        match kind {
            b'L' => {
                long_name = Some(text(&content[..size]));
                continue;
            }
            b'K' => continue,
            _ => {}
        }
        let name = match (long_name.take(), &header[257..262] == b"ustar") {
            (Some(name), _) => name,
            (None, true) if header[345] != 0 && header[263] == b'0' => {
                format!("{}/{}", text(&header[345..500]), text(&header[..100]))
            }
            (None, _) => text(&header[..100]),
        };
        members.push(Member {
            name,
            uid: octal(&header[108..116])? as u32,
            gid: octal(&header[116..124])? as u32,
            is_directory: kind == b'5',
        });
    }
}

/// What stands before the first zero.
fn text(field: &[u8]) -> String {
    let end = field.iter().position(|byte| *byte == 0);
    String::from_utf8_lossy(&field[..end.unwrap_or(field.len())]).into_owned()
}

fn octal(field: &[u8]) -> Result<usize> {
    let text = text(field);
    let digits = text.trim_matches(' ');
    usize::from_str_radix(digits, 8).with_context(|| format!("no octal number: {text:?}"))
}

/// Where a member is in a tree whose `bin`, `lib` and so on are links into `usr`; nothing for the tree itself.
fn place(name: &str) -> Option<String> {
    let name = name.trim_start_matches("./").trim_end_matches('/');
    let first = name.split('/').next()?;
    match (name, MERGED.contains(&first)) {
        ("" | ".", _) => None,
        (_, true) => Some(format!("usr/{name}")),
        (_, false) => Some(name.to_string()),
    }
}

/// As `dpkg` lists it: `/usr/bin/su`, and `/.` for the tree itself.
fn listed(name: &str) -> String {
    match name.trim_start_matches('.').trim_end_matches('/') {
        "" => "/.".to_string(),
        name => name.to_string(),
    }
}

/// Unpack packages in this order into a folder, and write down that they are there.
pub fn unpack(packages: &[PathBuf], folder: &Path) -> Result<Owners> {
    let mut step = progress::Step::begin(&format!("unpacking {} packages", packages.len()));
    let mut owners = Owners::default();
    let mut folders = BTreeSet::new();
    let info = folder.join(DATABASE).join("info");
    fs::create_dir_all(&info)?;
    let (mut status, mut triggers) = (String::new(), String::new());
    for package in packages {
        step.tick();
        let of = || format!("{}", package.display());
        let archive = output(Command::new("dpkg-deb").arg("--fsys-tarfile").arg(package))?;
        extract(&archive, folder).with_context(of)?;
        let members = members(&archive).with_context(of)?;
        for member in &members {
            let Some(path) = place(&member.name) else {
                continue;
            };
            // What is there keeps its owner, as with `dpkg`.
            if !member.is_directory || folders.insert(path.clone()) {
                owners.set(&path, member.uid, member.gid);
            }
        }
        let (paragraph, interests) = database(package, &members, folder, &info).with_context(of)?;
        status.push_str(&paragraph);
        triggers.push_str(&interests);
    }
    let place = folder.join(DATABASE);
    fs::write(place.join("status"), status)?;
    for name in ["available", "diversions", "statoverride"] {
        fs::write(place.join(name), "")?;
    }
    for name in ["updates", "triggers"] {
        fs::create_dir_all(place.join(name))?;
    }
    write_triggers(&place.join("triggers"), &triggers)?;
    fs::write(info.join("format"), "1\n")?;
    Ok(owners)
}

fn output(command: &mut Command) -> Result<Vec<u8>> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start {program}"))?;
    if !output.status.success() {
        bail!("{program}: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(output.stdout)
}

/// `dpkg-deb --extract` would put folders in the place of the links.
fn extract(archive: &[u8], folder: &Path) -> Result<()> {
    let mut child = Command::new("tar")
        .args([
            "--extract",
            "--keep-directory-symlink",
            "--no-overwrite-dir",
        ])
        .args(["--no-same-owner", "--preserve-permissions", "--directory"])
        .arg(folder)
        .args(LEFT_OUT.map(|what| format!("--exclude=.{what}")))
        .stdin(Stdio::piped())
        .spawn()
        .context("cannot start tar")?;
    if let Some(mut pipe) = child.stdin.take() {
        pipe.write_all(archive)?;
    }
    match child.wait()?.success() {
        true => Ok(()),
        false => bail!("tar failed"),
    }
}

/// Who is to be told of what, as `dpkg` keeps it: of files in one list, and of each other name in a list of its own.
fn write_triggers(place: &Path, interests: &str) -> Result<()> {
    // Without it `dpkg` takes the records for those of a version that had no triggers, and fires all.
    let mut lists = BTreeMap::from([("Unincorp", String::new())]);
    for line in interests.lines() {
        let Some((name, package)) = line.split_once(' ') else {
            continue;
        };
        let (list, entry) = match name.starts_with('/') {
            true => ("File", line),
            false => (name, package),
        };
        let list = lists.entry(list).or_default();
        list.push_str(entry);
        list.push('\n');
    }
    for (name, list) in lists {
        fs::write(place.join(name), list)?;
    }
    Ok(())
}

/// What a package's file `triggers` says that it wants to hear of: lines with the trigger's name and the package's.
fn interests(triggers: &str, package: &str) -> String {
    let interest = |line: &str| {
        let mut words = line.split_whitespace();
        let how = words.next()?.strip_prefix("interest")?;
        let wait = match how {
            "-noawait" => "/noawait",
            _ => "",
        };
        Some(format!("{} {package}{wait}\n", words.next()?))
    };
    triggers.lines().filter_map(interest).collect()
}

/// The files of `info` for a package; its paragraph in `status`, and its [`interests`].
fn database(
    package: &Path,
    members: &[Member],
    folder: &Path,
    info: &Path,
) -> Result<(String, String)> {
    let control = folder.with_extension("control");
    if control.exists() {
        fs::remove_dir_all(&control)?;
    }
    output(
        Command::new("dpkg-deb")
            .arg("--control")
            .arg(package)
            .arg(&control),
    )?;
    let fields = fs::read_to_string(control.join("control"))?;
    let field = |name: &str| {
        let line = fields.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|rest| rest.strip_prefix(": ")).map(str::trim)
    };
    let name = field("Package").context("a package without a name")?;
    let prefix = match (field("Multi-Arch"), field("Architecture")) {
        (Some("same"), Some(architecture)) => format!("{name}:{architecture}"),
        _ => name.to_string(),
    };
    let mut list = String::new();
    for member in members {
        list.push_str(&listed(&member.name));
        list.push('\n');
    }
    fs::write(info.join(format!("{prefix}.list")), list)?;
    for entry in fs::read_dir(&control)?.flatten() {
        if entry.file_name() != "control" {
            let kind = entry.file_name().to_string_lossy().into_owned();
            fs::copy(entry.path(), info.join(format!("{prefix}.{kind}")))?;
        }
    }
    let conffiles = fs::read_to_string(control.join("conffiles")).unwrap_or_default();
    let conffiles: Vec<&str> = conffiles.lines().filter(|l| l.starts_with('/')).collect();
    let sums = sums(folder, &conffiles)?;
    let triggers = fs::read_to_string(control.join("triggers")).unwrap_or_default();
    fs::remove_dir_all(&control)?;
    Ok((paragraph(&fields, &sums), interests(&triggers, &prefix)))
}

/// MD5 sums of files below a folder that are there.
fn sums<'a>(folder: &Path, names: &[&'a str]) -> Result<Vec<(&'a str, String)>> {
    let there = |name: &&&str| folder.join(name.trim_start_matches('/')).is_file();
    let names: Vec<&str> = names.iter().filter(there).copied().collect();
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let paths = names.iter().map(|name| name.trim_start_matches('/'));
    let text = output(Command::new("md5sum").current_dir(folder).args(paths))?;
    let text = String::from_utf8(text)?;
    let sums = text.lines().filter_map(|line| line.split(' ').next());
    Ok(names.into_iter().zip(sums.map(str::to_string)).collect())
}

/// What `status` says of an installed package: its control file, the state, and the files that an administrator may have changed.
fn paragraph(control: &str, conffiles: &[(&str, String)]) -> String {
    let mut text = String::new();
    for line in control.trim_end().lines() {
        text.push_str(line);
        text.push('\n');
        if line.starts_with("Package: ") {
            text.push_str("Status: install ok installed\n");
        }
    }
    if !conffiles.is_empty() {
        text.push_str("Conffiles:\n");
        for (name, sum) in conffiles {
            text.push_str(&format!(" {name} {sum}\n"));
        }
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(name: &str, ids: (u32, u32), kind: u8, content: &[u8]) -> Vec<u8> {
        let mut header = vec![0; BLOCK];
        header[..name.len()].copy_from_slice(name.as_bytes());
        header[108..115].copy_from_slice(format!("{:07o}", ids.0).as_bytes());
        header[116..123].copy_from_slice(format!("{:07o}", ids.1).as_bytes());
        header[124..135].copy_from_slice(format!("{:011o}", content.len()).as_bytes());
        header[156] = kind;
        header[257..265].copy_from_slice(b"ustar  \0");
        header.extend(content);
        header.resize(header.len().next_multiple_of(BLOCK), 0);
        header
    }

    #[test]
    fn members_have_the_names_and_owners_of_the_archive() {
        let long = format!("./usr/{}", "x".repeat(120));
        let mut archive = record("./", (0, 0), b'5', b"");
        archive.extend(record("./sbin/unix_chkpwd", (0, 42), b'0', b"content"));
        archive.extend(record("././@LongLink", (0, 0), b'L', long.as_bytes()));
        archive.extend(record(&long[..100], (1, 2), b'0', &[7; 600]));
        let cut = archive.len();
        archive.extend([0; 2 * BLOCK]);
        let members_of = members(&archive).unwrap();
        let names: Vec<_> = members_of.iter().map(|m| listed(&m.name)).collect();
        assert_eq!(names, ["/.", "/sbin/unix_chkpwd", &long[1..]]);
        assert_eq!((members_of[1].gid, members_of[2].uid), (42, 1));
        assert!(members_of[0].is_directory && !members_of[1].is_directory);
        assert!(members(&archive[..cut]).is_err() && members(&archive[..cut - 1]).is_err());
    }

    #[test]
    fn what_is_in_a_merged_folder_is_below_usr() {
        assert_eq!(place("./sbin/x").as_deref(), Some("usr/sbin/x"));
        assert_eq!(place("./bin/").as_deref(), Some("usr/bin"));
        assert_eq!(place("./binary").as_deref(), Some("binary"));
        assert_eq!(place("./"), None);
        let mut owners = Owners::default();
        owners.set("a", 0, 42);
        owners.set("b", 1, 0);
        owners.set("b", 0, 0);
        assert_eq!(owners.script(), "sif \"/a\" uid 0\nsif \"/a\" gid 42\n");
    }

    #[test]
    fn who_wants_to_hear_of_a_trigger_is_kept_with_it() {
        let text =
            "# x\ninterest-noawait ldconfig\ninterest /usr/share/man\nactivate-noawait other\n";
        let wanted = "ldconfig libc-bin/noawait\n/usr/share/man libc-bin\n";
        assert_eq!(interests(text, "libc-bin"), wanted);
    }

    #[test]
    fn the_state_stands_in_the_paragraph() {
        let conffiles = [("/etc/x", "123".to_string())];
        let text = paragraph("Package: a\nDescription: b\n c\n", &conffiles);
        let wanted = "Package: a\nStatus: install ok installed\nDescription: b\n c\nConffiles:\n /etc/x 123\n\n";
        assert_eq!(text, wanted);
    }
}
