//! The machine's network links: `--net`, `--forward`, lines `# link: wire`, `# link: hub` (or what `--net` takes) of `--with`'s file, and what QEMU must know
//! of them.

use crate::cli::Machine;
use crate::machine::{option_path, Boot};
use crate::wire::End;
use anyhow::{bail, Context, Error, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// In front of what a file asks for.
const MARK: &str = "# link: ";
/// What a line `# link: hub` makes: all devices of such links are at one wire within QEMU. Nothing that happens there depends on the host's time: the device
/// is told by the processor itself, and what it is to send leaves so many nanoseconds of the machine's after that.
const HUB: &str = "hubport,hubid=0";
const HUB_DEVICE: &str = ",ioeventfd=off,tx=timer,x-txtimer=5000";
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

/// A port of this computer that leads to one of the guest: `--forward`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forward {
    pub host: u16,
    pub guest: u16,
    pub udp: bool,
}

/// What `--forward` says.
pub fn forward(text: &str) -> Result<Forward, String> {
    let (ports, udp) = match text.split_once('/') {
        Some((ports, "udp")) => (ports, true),
        Some((ports, "tcp")) => (ports, false),
        Some(_) => ("", false),
        None => (text, false),
    };
    let port = |text: &str| text.parse().ok().filter(|port| *port != 0);
    let both = ports.split_once(':');
    let both = both.and_then(|(host, guest)| Some((port(host)?, port(guest)?)));
    let wrong = "HOSTPORT:GUESTPORT is wanted, of TCP, or with /udp behind it";
    let (host, guest) = both.ok_or_else(|| wrong.to_string())?;
    Ok(Forward { host, guest, udp })
}

impl Forward {
    /// As QEMU says it. Only programs of this computer reach the port.
    fn option(&self) -> String {
        let protocol = if self.udp { "udp" } else { "tcp" };
        format!("hostfwd={protocol}:127.0.0.1:{}-:{}", self.host, self.guest)
    }
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

/// The links that there are. Forwarded ports lead through the first of QEMU's user mode, which is there for them if nothing is said of links.
pub fn links(machine: &Machine) -> Vec<Net> {
    let asked = machine.net.iter().filter(|net| **net != Net::None);
    let mut links: Vec<Net> = asked.cloned().collect();
    if machine.net.is_empty() && !machine.forward.is_empty() {
        links.push(Net::User(String::new()));
    }
    let mut options = links.iter_mut().filter_map(|net| match net {
        Net::User(options) => Some(options),
        _ => None,
    });
    if let Some(options) = options.next() {
        for forward in &machine.forward {
            let comma = if options.is_empty() { "" } else { "," };
            *options += &format!("{comma}{}", forward.option());
        }
    }
    links
}

/// Whether forwarded ports have a link that they lead through.
fn check(machine: &Machine, links: &[Net]) -> Result<()> {
    let user = links.iter().any(|net| matches!(net, Net::User(_)));
    if !user && !machine.forward.is_empty() {
        bail!("--forward leads through a link of QEMU's user mode: `--net user`, or no --net");
    }
    Ok(())
}

/// Who answers questions for names: QEMU's own server, where there is one.
pub fn name_server(machine: &Machine) -> Option<&'static str> {
    let user = links(machine).iter().any(|net| matches!(net, Net::User(_)));
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
    let links = links(machine);
    check(machine, &links)?;
    let mut backends: Vec<String> = links.iter().map(backend).collect();
    if let Some(file) = &machine.with {
        let text =
            fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        let asked = text.lines().filter_map(|line| line.strip_prefix(MARK));
        for asked in asked.map(str::trim) {
            backends.push(match asked {
                "wire" => dgram(&wire(&boot.run)),
                "hub" => HUB.to_string(),
                other => backend(&named(other).map_err(Error::msg)?),
            });
        }
    }
    for (number, backend) in backends.iter().enumerate() {
        let (kind, options) = backend.split_once(',').unwrap_or((backend, ""));
        let netdev = format!("{kind},id=link{number},{options}");
        command.args(["-netdev", netdev.trim_end_matches(',')]);
        let more = if backend == HUB { HUB_DEVICE } else { "" };
        let device = format!(
            "virtio-net-pci,disable-legacy=on,romfile=,netdev=link{number},mac=52:54:00:12:34:{:02x}{more}",
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
    use crate::cli::System;

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
    fn ports_are_forwarded_through_the_first_link_of_user_mode() {
        for wrong in [
            "",
            "80",
            "80:",
            ":80",
            "0:80",
            "80:0",
            "80:80/sctp",
            "80:70000",
            "a:80",
        ] {
            assert!(forward(wrong).is_err(), "{wrong}");
        }
        let mut machine = Machine::plain(System::Cairn, "256M");
        machine.forward = vec![forward("2222:22").unwrap(), forward("53:5353/udp").unwrap()];
        let both = "hostfwd=tcp:127.0.0.1:2222-:22,hostfwd=udp:127.0.0.1:53-:5353";
        assert_eq!(links(&machine), [Net::User(both.to_string())]);
        machine.net = vec![
            Net::Dgram("/tmp/a".into()),
            Net::User("net=10.0.3.0/24".to_string()),
            Net::User(String::new()),
        ];
        let first = Net::User(format!("net=10.0.3.0/24,{both}"));
        assert_eq!(links(&machine)[1..], [first, Net::User(String::new())]);
        assert!(check(&machine, &links(&machine)).is_ok());
        machine.net = vec![Net::None];
        assert!(check(&machine, &links(&machine)).is_err());
        machine.forward.clear();
        assert!(check(&machine, &links(&machine)).is_ok());
    }

    #[test]
    fn a_file_asks_for_a_wire_by_a_line() {
        assert!(wants_wire("# text\n# link: wire\n"));
        assert!(!wants_wire("# link: wires\n"));
    }
}
