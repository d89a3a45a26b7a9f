//! What Cairn's manifest says of a machine's disks and links: the bus, a driver for each, a disk's nodes in /dev, a file system for each that is mounted, and where the root is if it is one of them.

use crate::cli::Machine;
use crate::{link, share};
use anyhow::{bail, Result};

/// Disks that `blockdev` has nodes for.
pub const MOST: usize = 8;
/// `pci`'s badge for the first virtio block device; the number of a further one stands above 32 bits.
const VIRTIO_BLOCK: u64 = 0x1042_1af4;
/// The first badge of a driver at `vm`, and the last: links have theirs from the end on.
const DRIVER: usize = 2;
const DRIVER_LAST: usize = 15;
const _: () = assert!(DRIVER + MOST + share::MOST + link::MOST <= DRIVER_LAST + 1);
/// `pci`'s badge for the first virtio-9p device.
const VIRTIO_9P: u64 = 0x1049_1af4;
/// `st_dev` of the first folder of the host: numbers from here on are nobody else's.
const SHARE_DEVICE: usize = 48;

/// What the standard manifest says of the root, and what stands there for one on a disk: what came with the machine is below /boot then.
const MOVED: [(&str, &str); 2] = [
    ("path = \"/sbin/init\"", "path = \"/boot/sbin/init\""),
    (
        "mounts = [{ prefix = \"/\", fstype = \"tmpfs\" }]",
        "mounts = [{ prefix = \"/boot\", fstype = \"tmpfs\" }]",
    ),
];

const RUN: &str = r#"
[[component]]
name = "run"
binary = "/cairn/tmpfs"
priority = 140
portals = { proc = { to = "proc", role = "groups" } }
mounts = [{ prefix = "/run", fstype = "tmpfs:3:tmpfs" }]
arguments = ["st_dev=3"]
"#;

const PCI: &str = r#"
[[component]]
name = "pci"
binary = "/cairn/pci"
priority = 190
restart = "always"
memory = "2M"
portals = { config = { ports = [0xcf8, 8] }, vm = { to = "vm", role = "devices" } }
"#;

/// The manifest of a machine with these disks and links, from the standard one. Without any it is the standard one.
pub fn with_devices(standard: &str, machine: &Machine) -> Result<String> {
    let mut text = with_disks(standard, machine)?;
    let all = link::links(machine);
    let links = all.len();
    if links > link::MOST {
        bail!("{links} links are too many: Cairn takes {}", link::MOST);
    }
    let shares = share::shares(machine)?;
    if (links > 0 || !shares.is_empty()) && machine.attached()?.is_empty() {
        text.push_str(PCI);
    }
    for (number, (_, folder)) in shares.iter().enumerate() {
        let badge = VIRTIO_9P | (number as u64) << 32;
        let (driver, device) = (DRIVER + MOST + number, SHARE_DEVICE + number);
        text.push_str(&format!(
            "\n[[component]]\nname = \"share{number}\"\nbinary = \"/cairn/virtio-9p\"\npriority = 140\nrestart = \"always\"\nkeepsake = \"4M\"\n\
             portals = {{ pci = {{ to = \"pci\", badge = {badge:#x} }}, irq = {{ message = true }}, dma = {{ to = \"vm\", badge = {driver} }}, proc = {{ to = \"proc\", role = \"groups\" }}, pipe = {{ to = \"pipe\" }}, event = {{ to = \"event\", badge = 1 }} }}\n\
             mounts = [{{ prefix = \"{folder}\", fstype = \"9p:{device}:share{number}\" }}]\narguments = [\"prefix={folder}\", \"st_dev={device}\"]\n"
        ));
    }
    for (number, link) in all.iter().enumerate() {
        let before = all[..number]
            .iter()
            .filter(|other| other.model == link.model);
        let badge = link.model.badge() | (before.count() as u64) << 32;
        let (driver, program, irq) = (
            DRIVER_LAST - number,
            link.model.driver(),
            link.model.irq(number),
        );
        text.push_str(&format!(
            "\n[[component]]\nname = \"eth{number}\"\nbinary = \"{program}\"\npriority = 180\nrestart = \"always\"\nmemory = \"4M\"\n\
             portals = {{ pci = {{ to = \"pci\", badge = {badge:#x} }}, irq = {irq}, dma = {{ to = \"vm\", badge = {driver} }} }}\n"
        ));
    }
    if links > 0 {
        let portals: Vec<String> = (0..links)
            .map(|number| format!("eth{number} = {{ to = \"eth{number}\" }}"))
            .collect();
        text.push_str(&format!(
            "\n[[grant]]\ncomponent = \"net\"\nportals = {{ {} }}\n",
            portals.join(", ")
        ));
    }
    Ok(text)
}

fn with_disks(standard: &str, machine: &Machine) -> Result<String> {
    let mut text = standard.to_string();
    let disks = machine.attached()?.len();
    if let (0, Some(mount)) = (disks, machine.mounts.first()) {
        bail!("{} is to be mounted, and there is no disk", mount.first);
    }
    if disks == 0 {
        return Ok(text);
    }
    if disks > MOST {
        bail!("{disks} disks are too many: Cairn takes {MOST}");
    }
    if machine.root.is_on_disk() {
        for (from, to) in MOVED {
            if !text.contains(from) {
                bail!("the manifest has no line `{from}`, which a root on a disk changes");
            }
            text = text.replacen(from, to, 1);
        }
        text.push_str(RUN);
    }
    text.push_str(PCI);
    for number in 0..disks {
        let (name, badge) = (name(number), VIRTIO_BLOCK | (number as u64) << 32);
        let driver = DRIVER + number;
        text.push_str(&format!(
            "\n[[component]]\nname = \"{name}\"\nbinary = \"/cairn/virtio-blk\"\npriority = 180\nrestart = \"always\"\nmemory = \"4M\"\n\
             portals = {{ pci = {{ to = \"pci\", badge = {badge:#x} }}, irq = {{ message = true }}, dma = {{ to = \"vm\", badge = {driver} }} }}\n"
        ));
    }
    let nodes: Vec<String> = (0..disks)
        .map(|number| format!("{0} = {{ to = \"{0}\" }}", name(number)))
        .collect();
    for component in ["blockdev", "sysfs"] {
        text.push_str(&format!(
            "\n[[grant]]\ncomponent = \"{component}\"\nportals = {{ {} }}\n",
            nodes.join(", ")
        ));
    }
    let names: Vec<String> = (0..disks)
        .map(|number| format!("\"{}\"", name(number)))
        .chain(["\"loop\"".to_string()])
        .collect();
    let keepsake = format!("keepsake = \"{}M\"\n", keepsake(machine.memory()));
    // Files of FAT and ISO 9660 give nobody their owner's ids.
    for (kind, binary, keepsake, role) in [
        ("ext4", "ext4", keepsake.as_str(), r#"["groups", "set_id"]"#),
        ("vfat", "fat", "", r#""groups""#),
        ("iso9660", "iso", "", r#""groups""#),
    ] {
        text.push_str(&format!(
            "\n[[filesystem]]\ntype = \"{kind}\"\nbinary = \"/cairn/{binary}\"\npriority = 140\n{keepsake}portals = {{ proc = {{ to = \"proc\", role = {role} }}, pipe = {{ to = \"pipe\" }}, event = {{ to = \"event\", badge = 1 }} }}\ndisks = [{}]\n",
            names.join(", ")
        ));
    }
    let mut mounts: Vec<(&str, &str)> = Vec::new();
    if machine.root.is_on_disk() {
        mounts.push(("/dev/vda", "/"));
    }
    for mount in &machine.mounts {
        mounts.push((&mount.first, &mount.second));
    }
    for (path, folder) in mounts {
        let named = path.trim_start_matches("/dev/");
        let disk = named.trim_end_matches(|c: char| c.is_ascii_digit());
        let partition = named[disk.len()..].parse::<usize>().unwrap_or(0);
        let number = (0..disks).find(|&number| name(number) == disk);
        let (Some(number), 0..=15) = (number, partition) else {
            bail!("{path} is none of the machine's disks");
        };
        if !folder.starts_with('/') {
            bail!("{folder}: the whole path of a folder is wanted");
        }
        // As Linux numbers them: major 254, sixteen minors for each disk.
        let device = 254 << 8 | number << 4 | partition;
        text.push_str(&format!(
            "\n[[component]]\nname = \"ext4-{named}\"\nbinary = \"/cairn/ext4\"\npriority = 140\nrestart = \"always\"\n{keepsake}\
             portals = {{ proc = {{ to = \"proc\", role = [\"groups\", \"set_id\"] }}, pipe = {{ to = \"pipe\" }}, event = {{ to = \"event\", badge = 1 }}, disk = {{ to = \"{disk}\", badge = {partition} }} }}\n\
             mounts = [{{ prefix = \"{folder}\", fstype = \"ext4:{named}\" }}]\narguments = [\"prefix={folder}\", \"st_dev={device}\"]\n"
        ));
    }
    Ok(text)
}

/// MiB that an ext4 server needs to say of all of this memory (QEMU's notation) what it held, at least 8: a 150th is enough. A manifest allows 64.
fn keepsake(memory: &str) -> u64 {
    let bytes = match memory.to_uppercase() {
        plain if plain.ends_with(|c: char| c.is_ascii_digit()) => format!("{plain}M"),
        unit => unit,
    };
    let bytes = cairn_manifest::size(&bytes).unwrap_or(0);
    (bytes / 150).div_ceil(1 << 20).clamp(8, 64)
}

/// As Linux calls it: `vda` and so on.
fn name(number: usize) -> String {
    format!("vd{}", char::from(b'a' + number as u8))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Pair, Root, System};
    use crate::disk::Disk;

    const STANDARD: &str = include_str!("../../system/system.toml");

    #[test]
    fn disks_get_drivers_and_file_systems() {
        let mut machine = Machine::plain(System::Cairn, "256M");
        assert_eq!(with_disks(STANDARD, &machine).unwrap(), STANDARD);
        machine.disks = vec![Disk::Scratch("a".into()), Disk::Scratch("b".into())];
        machine.mounts = vec![Pair {
            first: "/dev/vdb2".to_string(),
            second: "/mnt".to_string(),
        }];
        let text = with_disks(STANDARD, &machine).unwrap();
        let manifest = cairn_manifest::parse(&text).unwrap();
        let names = ["pci", "vda", "vdb", "ext4-vdb2"].map(|n| manifest.component(n).is_some());
        assert_eq!(names, [true; 4]);
        assert!(text.contains("badge = 0x110421af4") && text.contains("st_dev=65042"));
        let nodes = &manifest.components[manifest.component("blockdev").unwrap()];
        assert!(nodes.portals.contains_key("vda") && nodes.portals.contains_key("vdb"));
        // Programs watch its files, as they do where mount(2) has started it.
        let mounted = &manifest.components[manifest.component("ext4-vdb2").unwrap()];
        assert!(mounted.portals.contains_key("event"));
        machine.mounts[0].first = "/dev/vdc".to_string();
        assert!(with_disks(STANDARD, &machine).is_err());
        machine.disks = vec![Disk::Scratch("a".into()); 9];
        assert!(with_disks(STANDARD, &machine).is_err());
    }

    #[test]
    fn links_get_drivers() {
        let mut machine = Machine::plain(System::Cairn, "256M");
        machine.net = vec![link::Net::None.into()];
        assert_eq!(with_devices(STANDARD, &machine).unwrap(), STANDARD);
        machine.net = vec![
            link::Net::User(String::new()).into(),
            link::Net::None.into(),
        ];
        let text = with_devices(STANDARD, &machine).unwrap();
        let manifest = cairn_manifest::parse(&text).unwrap();
        let names = ["pci", "eth0", "eth1"].map(|n| manifest.component(n).is_some());
        assert_eq!(names, [true, true, false]);
        let net = &manifest.components[manifest.component("net").unwrap()];
        assert!(net.portals.contains_key("eth0"));
        // The bus is there once.
        machine.disks = vec![Disk::Scratch("a".into())];
        machine.net = vec![link::Net::User(String::new()).into(); 2];
        let text = with_devices(STANDARD, &machine).unwrap();
        assert_eq!(text.matches("name = \"pci\"").count(), 1);
        assert!(text.contains("badge = 0x110411af4"));
        cairn_manifest::parse(&text).unwrap();
        machine.net = vec![link::Net::User(String::new()).into(); 5];
        assert!(with_devices(STANDARD, &machine).is_err());
    }

    #[test]
    fn each_model_of_a_link_has_its_driver() {
        let mut machine = Machine::plain(System::Cairn, "256M");
        let said = [
            "user,model=e1000",
            "user",
            "user,model=e1000",
            "user,model=e1000e",
        ];
        machine.net = said.map(|text| link::named(text).unwrap()).to_vec();
        let text = with_devices(STANDARD, &machine).unwrap();
        cairn_manifest::parse(&text).unwrap();
        let of = |name: &str| {
            let line = text.split(&format!("name = \"{name}\"\n")).nth(1).unwrap();
            line.split("[[").next().unwrap().to_string()
        };
        for (name, program, badge, irq) in [
            ("eth0", "/cairn/e1000", "0x100e8086", "{ interrupt = 20 }"),
            (
                "eth1",
                "/cairn/virtio-net",
                "0x10411af4",
                "{ message = true }",
            ),
            ("eth2", "/cairn/e1000", "0x1100e8086", "{ interrupt = 22 }"),
            ("eth3", "/cairn/e1000", "0x10d38086", "{ message = true }"),
        ] {
            let line = of(name);
            assert!(line.contains(&format!("\"{program}\"")), "{line}");
            assert!(line.contains(&format!("badge = {badge} ")), "{line}");
            assert!(line.contains(&format!("irq = {irq}")), "{line}");
        }
    }

    #[test]
    fn folders_get_components() {
        let mut machine = Machine::plain(System::Cairn, "256M");
        machine.shares = ["/host", "/b/c"]
            .map(|folder| Pair {
                first: "/tmp".to_string(),
                second: folder.to_string(),
            })
            .to_vec();
        machine.net = vec![link::Net::User(String::new()).into(); link::MOST];
        machine.disks = vec![Disk::Scratch("/dev/null".into()); MOST];
        let text = with_devices(STANDARD, &machine).unwrap();
        let manifest = cairn_manifest::parse(&text).unwrap();
        let names = ["share0", "share1"].map(|name| manifest.component(name).is_some());
        assert_eq!(
            (names, text.matches("name = \"pci\"").count()),
            ([true; 2], 1)
        );
        assert!(text.contains("badge = 0x110491af4") && text.contains("9p:49:share1"));
        // With all that a machine can have no two drivers are one to `vm`.
        let mut badges: Vec<&str> = text.split("to = \"vm\", badge = ").skip(1).collect();
        badges
            .iter_mut()
            .for_each(|b| *b = b.split(' ').next().unwrap());
        let count = badges.len();
        badges.sort_unstable();
        badges.dedup();
        assert_eq!((badges.len(), count), (15, 15));
    }

    #[test]
    fn the_keepsake_grows_with_memory() {
        for (memory, expected) in [
            ("256M", 8),
            ("1200", 8),
            ("4G", 28),
            ("4g", 28),
            ("64G", 64),
        ] {
            assert_eq!(keepsake(memory), expected, "{memory}");
        }
    }

    #[test]
    fn the_root_can_be_a_disk() {
        let text = "path = \"/sbin/init\"\nmounts = [{ prefix = \"/\", fstype = \"tmpfs\" }]\n";
        let moved = MOVED.iter().fold(STANDARD.to_string(), |text, (from, to)| {
            assert!(text.contains(from));
            text.replacen(from, to, 1)
        });
        cairn_manifest::parse(&moved).unwrap();
        assert!(!moved.contains(MOVED[1].0) && text.contains(MOVED[1].0));
        assert!(Root::Debian.is_on_disk() && !Root::Small.is_on_disk());
    }
}
