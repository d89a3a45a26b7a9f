//! The machine's network links: `--net`, lines `# link: wire` (or what `--net` takes) of `--with`'s file, and what QEMU must know of them.

use crate::cli::Machine;
use crate::machine::{option_path, Boot};
use crate::wire::End;
use anyhow::{Context, Error, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// In front of what a file asks for.
const MARK: &str = "# link: ";
/// Most links of a machine.
pub const MOST: usize = 4;

/// What is at the other end of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Net {
    /// There is no link.
    None,
    /// QEMU's user mode: the host's network as this user reaches it, a DHCP server, and further options in QEMU's notation.
    User(String),
    /// Datagrams: the wire's end that is called by this path.
    Dgram(PathBuf),
}

/// What `--net` says.
pub fn named(text: &str) -> Result<Net, String> {
    match text.split_once(['=', ',']) {
        None if text == "none" => Ok(Net::None),
        None if text == "user" => Ok(Net::User(String::new())),
        Some(("user", options)) => Ok(Net::User(options.to_string())),
        Some(("dgram", path)) if !path.is_empty() => Ok(Net::Dgram(path.into())),
        _ => Err("none, user, user,OPTIONS or dgram=PATH is wanted".to_string()),
    }
}

/// The links that there are.
pub fn links(machine: &Machine) -> impl Iterator<Item = &Net> {
    machine.net.iter().filter(|net| **net != Net::None)
}

/// Who answers questions for names: QEMU's own server, where there is one.
pub fn name_server(machine: &Machine) -> Option<&'static str> {
    let user = links(machine).any(|net| matches!(net, Net::User(_)));
    user.then_some("10.0.2.3")
}

/// The end of a native test's wire, in the folder of its run.
pub fn wire(run: &Path) -> End {
    End::of(&run.join("wire"))
}

/// Whether a file asks for a wire.
pub fn wants_wire(text: &str) -> bool {
    let mut asked = text.lines().filter_map(|line| line.strip_prefix(MARK));
    asked.any(|asked| asked.trim_end() == "wire")
}

/// As QEMU says it.
fn backend(net: &Net) -> String {
    match net {
        Net::None => String::new(),
        Net::User(options) if options.is_empty() => "user".to_string(),
        Net::User(options) => format!("user,{options}"),
        Net::Dgram(path) => dgram(&End::of(path)),
    }
}

fn dgram(end: &End) -> String {
    let local = option_path(",local.type=unix,local.path=", &end.guest);
    let remote = option_path(",remote.type=unix,remote.path=", &end.host);
    format!("dgram{local}{remote}")
}

/// Add the links to QEMU's command line.
pub fn attach(command: &mut Command, boot: &Boot, machine: &Machine) -> Result<()> {
    let mut backends: Vec<String> = links(machine).map(backend).collect();
    if let Some(file) = &machine.with {
        let text =
            fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        let asked = text.lines().filter_map(|line| line.strip_prefix(MARK));
        for asked in asked.map(str::trim) {
            backends.push(match asked {
                "wire" => dgram(&wire(&boot.run)),
                other => backend(&named(other).map_err(Error::msg)?),
            });
        }
    }
    for (number, backend) in backends.iter().enumerate() {
        let (kind, options) = backend.split_once(',').unwrap_or((backend, ""));
        let netdev = format!("{kind},id=link{number},{options}");
        command.args(["-netdev", netdev.trim_end_matches(',')]);
        let device = format!(
            "virtio-net-pci,disable-legacy=on,romfile=,netdev=link{number},mac=52:54:00:12:34:{:02x}",
            0x56 + number
        );
        command.args(["-device", &device]);
        if let Some(path) = &machine.pcap {
            // The first link's frames go into the file itself.
            let path = match number {
                0 => path.clone(),
                n => PathBuf::from(format!("{}.{n}", path.display())),
            };
            let dump = format!("filter-dump,id=dump{number},netdev=link{number},file=");
            command.args(["-object", &option_path(&dump, &path)]);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_at_the_other_end_can_be_said() {
        assert_eq!(named("none"), Ok(Net::None));
        assert_eq!(named("user"), Ok(Net::User(String::new())));
        let forwarded = "hostfwd=tcp::2222-:22";
        assert_eq!(
            named(&format!("user,{forwarded}")),
            Ok(Net::User(forwarded.to_string()))
        );
        assert_eq!(named("dgram=/tmp/a"), Ok(Net::Dgram("/tmp/a".into())));
        for wrong in ["", "users", "dgram", "dgram=", "tap=x"] {
            assert!(named(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_file_asks_for_a_wire_by_a_line() {
        assert!(wants_wire("# text\n# link: wire\n"));
        assert!(!wants_wire("# link: wires\n"));
    }
}
