//! Modules of the Linux that Cairn is compared with: found in the kernel's package, with all that they depend on, in the order in which they can be loaded.
//!
//! The package has no `modules.dep` (an installation would make it), so what a module depends on is read from itself: `depends=` in its section `.modinfo`.

use anyhow::{bail, Context, Result};
use object::{Object, ObjectSection};
use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A kernel's modules by name, `-` written as `_`.
struct Modules {
    files: HashMap<String, PathBuf>,
    built_in: HashSet<String>,
}

/// The modules `names` and what they need, dependencies first, as the kernel takes them. What is built in is left out.
pub fn in_order(package: &Path, names: &[&str]) -> Result<Vec<Vec<u8>>> {
    let all = Modules::of(package)?;
    let mut order = Vec::new();
    let mut seen = HashSet::new();
    for name in names {
        all.visit(name, &mut seen, &mut order)?;
    }
    Ok(order)
}

impl Modules {
    fn of(package: &Path) -> Result<Modules> {
        // Where /usr is merged the package has them below it.
        let versions = ["lib/modules", "usr/lib/modules"].map(|folder| package.join(folder));
        let folder = versions
            .iter()
            .filter_map(|folder| fs::read_dir(folder).ok())
            .flat_map(|entries| entries.flatten())
            .map(|entry| entry.path())
            .find(|path| path.join("kernel").is_dir());
        let Some(folder) = folder else {
            bail!(
                "no modules in {}; `./cairn clean --all` and try again",
                package.display()
            );
        };
        let mut files = HashMap::new();
        collect(&folder.join("kernel"), &mut files)?;
        let list = fs::read_to_string(folder.join("modules.builtin")).unwrap_or_default();
        let built_in = list.lines().filter_map(|line| name(Path::new(line)));
        Ok(Modules {
            files,
            built_in: built_in.collect(),
        })
    }

    fn visit(
        &self,
        name: &str,
        seen: &mut HashSet<String>,
        order: &mut Vec<Vec<u8>>,
    ) -> Result<()> {
        let name = name.replace('-', "_");
        if self.built_in.contains(&name) || !seen.insert(name.clone()) {
            return Ok(());
        }
        let path = self
            .files
            .get(&name)
            .with_context(|| format!("Linux has no module {name}"))?;
        let module = contents(path)?;
        for needed in depends(&module).with_context(|| format!("{}", path.display()))? {
            self.visit(&needed, seen, order)?;
        }
        order.push(module);
        Ok(())
    }
}

/// `…/crc32c-intel.ko.xz` → `crc32c_intel`.
fn name(path: &Path) -> Option<String> {
    let file = path.file_name()?.to_str()?;
    let (name, _) = file.split_once(".ko")?;
    Some(name.replace('-', "_"))
}

fn collect(folder: &Path, into: &mut HashMap<String, PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder)?.flatten() {
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            collect(&path, into)?;
        } else if let Some(name) = name(&path) {
            into.insert(name, path);
        }
    }
    Ok(())
}

/// A module's bytes, unpacked: newer distributions compress them.
fn contents(path: &Path) -> Result<Vec<u8>> {
    let program = match path.extension().and_then(|e| e.to_str()) {
        Some("xz") => "xz",
        Some("zst") => "zstd",
        _ => return Ok(fs::read(path)?),
    };
    unpack(program, &fs::read(path)?).with_context(|| format!("unpacking {}", path.display()))
}

/// What a program of this name unpacks these bytes to.
pub fn unpack(program: &str, bytes: &[u8]) -> Result<Vec<u8>> {
    let mut child = Command::new(program)
        .arg("-dc")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| format!("cannot start {program}"))?;
    let mut input = child.stdin.take().context("no pipe")?;
    std::thread::scope(|scope| {
        // It may end before it has read all.
        scope.spawn(move || input.write_all(bytes));
        let output = child.wait_with_output()?;
        if !output.status.success() {
            bail!("{program} cannot unpack it");
        }
        Ok(output.stdout)
    })
}

/// What a module says that it needs.
fn depends(module: &[u8]) -> Result<Vec<String>> {
    let file = object::File::parse(module).context("no module")?;
    let section = file
        .section_by_name(".modinfo")
        .context("says nothing about itself")?;
    Ok(needed(section.data()?))
}

/// Strings that end with NUL, among them `depends=a,b`.
fn needed(information: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(information);
    let list = text
        .split('\0')
        .find_map(|item| item.strip_prefix("depends="));
    let names = list.unwrap_or_default().split(',');
    names
        .filter(|n| !n.is_empty())
        .map(str::to_string)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_module_needs_is_read() {
        assert_eq!(
            needed(b"license=GPL\0depends=jbd2,mbcache\0x\0"),
            ["jbd2", "mbcache"]
        );
        assert!(needed(b"depends=\0").is_empty());
        assert!(needed(b"name=depends\0").is_empty());
        assert_eq!(
            name(Path::new("a/crc32c-intel.ko.xz")).as_deref(),
            Some("crc32c_intel")
        );
        assert_eq!(name(Path::new("a/modules.order")), None);
    }

    #[test]
    fn dependencies_come_first_and_once() {
        let folder = std::env::temp_dir().join(format!("xtask-modules-{}", std::process::id()));
        let kernel = folder.join("lib/modules/6.0/kernel");
        fs::create_dir_all(&kernel).unwrap();
        fs::write(
            folder.join("lib/modules/6.0/modules.builtin"),
            "kernel/x/built-in.ko\n",
        )
        .unwrap();
        for (name, needs) in [
            ("top", "left,right"),
            ("left", "base"),
            ("right", "base,built_in"),
            ("base", ""),
        ] {
            fs::write(kernel.join(format!("{name}.ko")), module(needs)).unwrap();
        }
        let order = in_order(&folder, &["top", "base", "built-in"]).unwrap();
        let needs: Vec<_> = order
            .iter()
            .map(|m| depends(m).unwrap().join(","))
            .collect();
        assert_eq!(needs, ["", "base", "base,built_in", "left,right"]);
        assert!(in_order(&folder, &["absent"]).is_err());
        fs::remove_dir_all(folder).unwrap();
    }

    /// An ELF file with nothing but a section `.modinfo` (and the names of its sections).
    fn module(needs: &str) -> Vec<u8> {
        let information = format!("depends={needs}\0");
        let names = b"\0.modinfo\0.shstrtab\0";
        let mut file = b"\x7fELF\x02\x01\x01".to_vec();
        file.resize(16, 0);
        let mut put = |bytes: &[u8]| file.extend_from_slice(bytes);
        let data = 64u64;
        let strings = data + information.len() as u64;
        let headers = (strings + names.len() as u64).next_multiple_of(8);
        // Relocatable, x86-64, version 1; no entry, no segments.
        [1u16, 62].iter().for_each(|v| put(&v.to_le_bytes()));
        put(&1u32.to_le_bytes());
        [0, 0, headers]
            .iter()
            .for_each(|v: &u64| put(&v.to_le_bytes()));
        put(&0u32.to_le_bytes());
        [64u16, 0, 0, 64, 3, 2]
            .iter()
            .for_each(|v| put(&v.to_le_bytes()));
        put(information.as_bytes());
        put(names);
        file.resize(headers as usize + 64, 0);
        let sections = [
            (1u32, 1u32, data, information.len() as u64),
            (10, 3, strings, names.len() as u64),
        ];
        for (name, kind, at, size) in sections {
            file.extend_from_slice(&name.to_le_bytes());
            file.extend_from_slice(&kind.to_le_bytes());
            for value in [0, 0, at, size, 0, 1, 0] {
                file.extend_from_slice(&u64::to_le_bytes(value));
            }
        }
        // Flags, address, place, size are 8 bytes each; link and info share eight; alignment and entry size follow: 64 in all.
        file
    }
}
