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

/// Which device a machine has at its end of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Model {
    #[default]
    Virtio,
    /// 82540EM, on PCI, which has a line for its interrupts and no messages.
    E1000,
    /// 82574L, on PCI Express.
    E1000e,
}

impl Model {
    const ALL: [(&str, Model); 3] = [
        ("virtio-net", Model::Virtio),
        ("e1000", Model::E1000),
        ("e1000e", Model::E1000e),
    ];

    /// What `model=` says.
    pub fn named(text: &str) -> Result<Model, String> {
        let mut all = Model::ALL.iter();
        let found = all.find(|(name, _)| *name == text);
        let wrong = || format!("`{text}` is no model: virtio-net, e1000 or e1000e is wanted");
        found.map(|(_, model)| *model).ok_or_else(wrong)
    }

    pub fn driver(self) -> &'static str {
        match self {
            Model::Virtio => "/cairn/virtio-net",
            Model::E1000 | Model::E1000e => "/cairn/e1000",
        }
    }

    /// `pci`'s badge for the first of them.
    pub fn badge(self) -> u64 {
        match self {
            Model::Virtio => 0x1041_1af4,
            Model::E1000 => 0x100e_8086,
            Model::E1000e => 0x10d3_8086,
        }
    }

    /// The manifest's portal to the interrupts of link `number`. QEMU's q35 leads the first pin of slot s to the global system interrupt 20 + s mod 4.
    pub fn irq(self, number: usize) -> String {
        match self {
            Model::Virtio | Model::E1000e => "{ message = true }".to_string(),
            Model::E1000 => format!("{{ interrupt = {} }}", 20 + number % 4),
        }
    }

    /// The device in QEMU's words.
    fn device(self, number: usize) -> String {
        match self {
            Model::Virtio => "virtio-net-pci,disable-legacy=on".to_string(),
            Model::E1000 => format!("e1000,addr={:#x}", SLOT + number),
            Model::E1000e => "e1000e".to_string(),
        }
    }
}

/// Slots on the bus from here on are those of devices with a line: nobody else's, and a multiple of 4.
const SLOT: usize = 0x10;

/// A link as `--net` and lines of a file say it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    pub net: Net,
    pub model: Model,
}

impl Link {
    /// It is one of QEMU's user mode.
    pub fn is_user(&self) -> bool {
        matches!(self.net, Net::User(_))
    }
}

impl From<Net> for Link {
    fn from(net: Net) -> Link {
        Link {
            net,
            model: Model::default(),
        }
    }
}

/// What is said, without `model=…`, which may stand anywhere behind the first word.
fn modelled(text: &str) -> Result<(String, Model), String> {
    let is_model = |part: &&str| part.starts_with("model=");
    let mut models = text.split(',').skip(1).filter(is_model);
    let model = match (models.next(), models.next()) {
        (None, _) => Model::default(),
        (Some(part), None) => Model::named(&part["model=".len()..])?,
        (Some(_), Some(_)) => return Err("a link has one model".to_string()),
    };
    let parts = text.split(',').enumerate();
    let others = parts.filter(|(i, part)| *i == 0 || !is_model(part));
    let others: Vec<&str> = others.map(|(_, part)| part).collect();
    Ok((others.join(","), model))
}

/// A file for [`Model::Virtio`]'s links, for another model.
pub fn with_model(text: &str, name: &str) -> Result<String> {
    let model = Model::named(name).map_err(Error::msg)?;
    let changed = text.lines().map(|line| match line.starts_with(MARK) {
        true => format!("{line},model={name}\n"),
        false => {
            line.replace(
                "irq = { message = true }",
                &format!("irq = {}", model.irq(0)),
            )
            .replace(Model::Virtio.driver(), model.driver())
            .replace(
                &format!("{:#x}", Model::Virtio.badge()),
                &format!("{:#x}", model.badge()),
            ) + "\n"
        }
    });
    Ok(changed.collect())
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
pub fn named(text: &str) -> Result<Link, String> {
    let (text, model) = modelled(text)?;
    let net =
        match text.split_once(['=', ',']) {
            None if text == "none" => Net::None,
            None if text == "user" => Net::User(String::new()),
            Some(("user", options)) => Net::User(options.to_string()),
            Some(("dgram", path)) if !path.is_empty() => Net::Dgram(path.into()),
            _ => return Err(
                "none, user, user,OPTIONS or dgram=PATH is wanted, with or without ,model=MODEL"
                    .to_string(),
            ),
        };
    Ok(Link { net, model })
}

/// The links that there are. Forwarded ports lead through the first of QEMU's user mode, which is there for them if nothing is said of links.
pub fn links(machine: &Machine) -> Vec<Link> {
    let asked = machine.net.iter().filter(|link| link.net != Net::None);
    let mut links: Vec<Link> = asked.cloned().collect();
    if machine.net.is_empty() && !machine.forward.is_empty() {
        links.push(Net::User(String::new()).into());
    }
    let mut options = links.iter_mut().filter_map(|link| match &mut link.net {
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
fn check(machine: &Machine, links: &[Link]) -> Result<()> {
    let user = links.iter().any(Link::is_user);
    if !user && !machine.forward.is_empty() {
        bail!("--forward leads through a link of QEMU's user mode: `--net user`, or no --net");
    }
    Ok(())
}

/// Who answers questions for names: QEMU's own server, where there is one.
pub fn name_server(machine: &Machine) -> Option<&'static str> {
    let user = links(machine).iter().any(Link::is_user);
    user.then_some("10.0.2.3")
}

/// The end of a native test's wire, in the folder of its run.
pub fn wire(run: &Path) -> End {
    End::of(&run.join("wire"))
}

/// Whether a file asks for a wire.
pub fn wants_wire(text: &str) -> bool {
    let mut asked = text.lines().filter_map(|line| line.strip_prefix(MARK));
    asked.any(|asked| asked.split([',', ' ']).next() == Some("wire"))
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
    let said = links.iter().map(|link| (backend(&link.net), link.model));
    let mut ends: Vec<(String, Model)> = said.collect();
    if let Some(file) = &machine.with {
        let text =
            fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        let asked = text.lines().filter_map(|line| line.strip_prefix(MARK));
        for asked in asked.map(str::trim) {
            let (end, model) = modelled(asked).map_err(Error::msg)?;
            let end = match end.as_str() {
                "wire" => dgram(&wire(&boot.run)),
                "hub" => HUB.to_string(),
                other => backend(&named(other).map_err(Error::msg)?.net),
            };
            ends.push((end, model));
        }
    }
    for (number, (backend, model)) in ends.iter().enumerate() {
        let (kind, options) = backend.split_once(',').unwrap_or((backend, ""));
        let netdev = format!("{kind},id=link{number},{options}");
        command.args(["-netdev", netdev.trim_end_matches(',')]);
        let more = match (backend.as_str(), model) {
            (HUB, Model::Virtio) => HUB_DEVICE,
            _ => "",
        };
        let device = format!(
            "{},romfile=,netdev=link{number},mac=52:54:00:12:34:{:02x}{more}",
            model.device(number),
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
        let named = |text: &str| super::named(text).map(|link| link.net);
        assert_eq!(named("none"), Ok(Net::None));
        assert_eq!(named("user"), Ok(Net::User(String::new())));
        let forwarded = "hostfwd=tcp::2222-:22";
        assert_eq!(
            named(&format!("user,{forwarded}")),
            Ok(Net::User(forwarded.to_string()))
        );
        assert_eq!(named("dgram=/tmp/a"), Ok(Net::Dgram("/tmp/a".into())));
        for wrong in [
            "",
            "users",
            "dgram",
            "dgram=",
            "tap=x",
            "model=e1000",
            "user,model=e100",
            "user,model=e1000,model=e1000",
        ] {
            assert!(named(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_link_has_a_model() {
        let of = |text| named(text).map(|link| (link.net, link.model)).unwrap();
        let user = |options: &str| Net::User(options.to_string());
        assert_eq!(of("user"), (user(""), Model::Virtio));
        assert_eq!(of("user,model=e1000"), (user(""), Model::E1000));
        let both = of("user,net=10.0.3.0/24,model=e1000e,restrict=on");
        assert_eq!(both, (user("net=10.0.3.0/24,restrict=on"), Model::E1000e));
        let path = Net::Dgram("/tmp/a,b".into());
        assert_eq!(of("dgram=/tmp/a,b,model=virtio-net"), (path, Model::Virtio));
        let file = "# link: wire\nbinary = \"/cairn/virtio-net\"\nportals = { pci = { to = \"pci\", badge = 0x10411af4 }, irq = { message = true } }\n";
        let other = with_model(file, "e1000").unwrap();
        assert!(wants_wire(&other) && other.starts_with("# link: wire,model=e1000\n"));
        assert!(other.contains("/cairn/e1000") && other.contains("0x100e8086"));
        assert!(other.contains("irq = { interrupt = 20 }"));
        assert!(with_model(file, "e1000e")
            .unwrap()
            .contains("irq = { message = true }"));
        assert!(with_model(file, "rtl8139").is_err());
        assert_eq!(SLOT % 4, 0);
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
        assert_eq!(links(&machine), [Net::User(both.to_string()).into()]);
        machine.net = [
            Net::Dgram("/tmp/a".into()),
            Net::User("net=10.0.3.0/24".to_string()),
            Net::User(String::new()),
        ]
        .map(Link::from)
        .to_vec();
        let first = Net::User(format!("net=10.0.3.0/24,{both}"));
        assert_eq!(
            links(&machine)[1..],
            [first, Net::User(String::new())].map(Link::from)
        );
        assert!(check(&machine, &links(&machine)).is_ok());
        machine.net = vec![Net::None.into()];
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
