//! The system's manifest: which components there are and what each may touch. One file (`system/*.toml`), read by `init` in the guest and checked by the host tool at build time.
//!
//! Key types: [`Manifest`], [`Component`], [`Grant`]. A parsed manifest is consistent: names are unique, every portal leads to a component of the same manifest, ranges are sane.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod roles;

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use serde::Deserialize;

/// Most portals that one component may be given by name.
pub const PORTALS_MAX: usize = 24;
/// Longest name of a component or portal.
pub const NAME_MAX: usize = 23;
/// Longest type of a mount, with what stands behind it.
pub const FSTYPE_MAX: usize = 15;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Started in this order.
    #[serde(rename = "component")]
    pub components: Vec<Component>,
    /// Of a system with `proc`, which has Linux processes.
    #[serde(default)]
    pub first: First,
    /// File systems that mount(2) can mount.
    #[serde(default, rename = "filesystem")]
    pub filesystems: Vec<Filesystem>,
    /// Further portals for components that stand elsewhere: what is added to a manifest can so be given to what it had. Empty after [`parse`].
    #[serde(default, rename = "grant")]
    grants: Vec<Further>,
    /// What the image maker adds.
    #[serde(default)]
    pub checked: Checked,
}

/// Programs that were built with the system, and in which the image maker found nothing that touches floating-point or vector registers, FS or GS.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Checked {
    pub programs: Vec<String>,
}

/// A kind of file system on disks: for each that is mounted a component is started, which may touch what this line says, and the disk.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Filesystem {
    /// As mount(2) names it.
    #[serde(rename = "type")]
    pub kind: String,
    /// Path in the boot archive.
    pub binary: String,
    pub priority: u8,
    #[serde(default)]
    pub registers: Option<Registers>,
    /// Most pages of memory, as a size.
    #[serde(default)]
    pub memory: Option<String>,
    /// Memory that outlives the file server: with it, it is started again if it dies.
    #[serde(default)]
    pub keepsake: Option<String>,
    /// Beside the disk, which it knows as `disk`.
    #[serde(default)]
    pub portals: BTreeMap<String, Grant>,
    /// Components whose disks, or parts of them, it may be given. None: it lies in memory.
    #[serde(default)]
    pub disks: Vec<String>,
}

/// A disk (partition 0) or a partition of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The driver's component.
    pub disk: String,
    /// Of a loop device, whose driver has many.
    pub number: Option<u32>,
    pub partition: u64,
}

/// The driver of loop devices.
pub const LOOP: &str = "loop";

impl Part {
    /// As it is called below /dev.
    pub fn name(&self) -> String {
        let disk = self.whole_name();
        match self.partition {
            0 => disk,
            part => format!("{disk}{}{part}", cairn_idl::device::partition_mark(&disk)),
        }
    }

    fn whole_name(&self) -> String {
        match self.number {
            None => self.disk.clone(),
            Some(number) => format!("{}{number}", self.disk),
        }
    }

    /// Major and minor, if it has a number below /dev.
    pub fn numbers(&self) -> Option<(u32, u32)> {
        cairn_idl::device::disk(&self.whole_name(), self.partition as u32)
    }

    /// The badge of the driver that means the whole disk.
    fn whole(&self) -> u64 {
        let above = |number: u32| (u64::from(number) + 1) << cairn_idl::loops::DISK_SHIFT;
        self.number.map_or(0, above)
    }

    /// And the one that means this.
    pub fn badge(&self) -> u64 {
        self.whole() | self.partition
    }

    /// Whether a badge of the driver means the same disk.
    fn holds(&self, badge: u64) -> bool {
        let shift = cairn_idl::loops::DISK_SHIFT;
        self.number.is_none() || badge >> shift == self.whole() >> shift
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Further {
    component: String,
    portals: BTreeMap<String, Grant>,
}

/// The first Linux process.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct First {
    pub path: String,
    #[serde(default)]
    pub arguments: Vec<String>,
    #[serde(default)]
    pub environment: Vec<String>,
    /// Whether it, and all that come from it, may write code while they run (compilers at run time).
    #[serde(default = "yes", rename = "writable-code")]
    pub writable_code: bool,
}

fn yes() -> bool {
    true
}

impl Default for First {
    fn default() -> First {
        First {
            path: String::new(),
            arguments: Vec::new(),
            environment: Vec::new(),
            writable_code: true,
        }
    }
}

/// One line of the composition.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Component {
    pub name: String,
    /// Path in the boot archive.
    pub binary: String,
    pub priority: u8,
    /// Highest priority that its threads may ask for; without it its own.
    #[serde(default)]
    pub ceiling: Option<u8>,
    #[serde(default)]
    pub restart: Restart,
    #[serde(default)]
    pub registers: Option<Registers>,
    /// Most pages of memory, as a size: "16M". Without it no limit of its own.
    #[serde(default)]
    pub memory: Option<String>,
    /// Memory that outlives it, as a size: its successor finds there what it left.
    #[serde(default)]
    pub keepsake: Option<String>,
    /// Arguments; `{cmdline}` stands for the nucleus's command line.
    #[serde(default)]
    pub arguments: Vec<String>,
    /// The boot archive, mapped at its fixed address.
    #[serde(default)]
    pub archive: Option<Archive>,
    /// What it may touch, by the name it knows it under.
    #[serde(default)]
    pub portals: BTreeMap<String, Grant>,
    /// Device registers that it sees: physical address and length, by the name of the argument that tells it where (`NAME=0x…`).
    #[serde(default, rename = "device-memory")]
    pub device_memory: BTreeMap<String, (u64, u64)>,
    /// Prefixes of the path space that it serves.
    #[serde(default)]
    pub mounts: Vec<Mount>,
}

/// What happens when a component dies.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Restart {
    /// Start it again on the same channel.
    Always,
    /// The system cannot go on without it: log and power off.
    #[default]
    Halt,
    /// Leave it dead.
    Never,
}

/// Whose floating-point and vector registers and FS and GS bases are in the processor while a component runs.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Registers {
    /// Those of whoever ran before, mostly its caller: the image maker has found that its program leaves them alone.
    Callers,
    /// Its threads' own: it may use them, and neither sees nor changes those of others. So it is for all of whom nobody says anything else.
    Own,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Archive {
    Read,
    Write,
}

/// One named portal.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(
    untagged,
    deny_unknown_fields,
    expecting = "no portal: it is one of { to = \"COMPONENT\", badge = N, role = \"ROLE\" }, { ports = [FIRST, COUNT] }, \
                 { interrupt = N, shared = true, trigger = \"edge, edge-low, level-high or level-low\" }, { message = true }, { service = \"…\" }"
)]
pub enum Grant {
    /// Another component's channel, with a badge that the component understands as a right. Of `vm` and `proc` the badge comes from the [`roles`] named.
    Call {
        to: String,
        #[serde(default)]
        badge: u64,
        #[serde(default)]
        role: Roles,
    },
    /// A range of I/O ports.
    Ports { ports: (u16, u16) },
    /// An interrupt line. 0 to 15 are the legacy lines, shown as ACPI says; others are global system interrupts, level and low active (PCI's way) unless it says
    /// otherwise. `shared`: other components may have it too.
    Interrupt {
        interrupt: u32,
        #[serde(default)]
        shared: bool,
        #[serde(default)]
        trigger: Option<Trigger>,
    },
    /// A message-signalled interrupt of its own (MSI, MSI-X).
    Message { message: bool },
    /// A service of the nucleus.
    Service { service: Service },
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Service {
    /// All physical memory (`vm`).
    Memory,
    /// Power and counters; new interrupt and port portals.
    Machine,
    /// The nucleus's trace, and failures on request.
    Trace,
    /// `init`'s: which components there are and what they do; to start one again.
    Components,
}

/// Names of roles: one, or several.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(untagged)]
pub enum Roles {
    One(String),
    Several(Vec<String>),
}

impl Default for Roles {
    fn default() -> Roles {
        Roles::Several(Vec::new())
    }
}

impl Roles {
    pub fn names(&self) -> &[String] {
        match self {
            Roles::One(name) => core::slice::from_ref(name),
            Roles::Several(names) => names,
        }
    }
}

/// How an interrupt line shows an interrupt.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Trigger {
    Edge,
    EdgeLow,
    LevelHigh,
    LevelLow,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Mount {
    /// Absolute path without trailing slash (`/` is the root), or a scheme with its colon.
    pub prefix: String,
    /// Its type, as /proc/mounts shows it; for a file system on a disk with the device's name below /dev behind a colon: `ext4:vda`.
    pub fstype: String,
    /// Badge of the mount portal.
    #[serde(default)]
    pub badge: u64,
}

/// Why a manifest is refused: a sentence for the one who wrote it.
#[derive(Debug, PartialEq, Eq)]
pub struct Invalid(pub String);

/// Parse and check.
pub fn parse(text: &str) -> Result<Manifest, Invalid> {
    let mut manifest: Manifest = toml::from_str(text).map_err(|e| Invalid(e.to_string()))?;
    manifest.give()?;
    manifest.give_roles()?;
    manifest.check()?;
    Ok(manifest)
}

/// Bytes of a size such as "4096", "64K", "16M", "1G".
pub fn size(text: &str) -> Option<u64> {
    let (digits, shift) = match text.as_bytes().last()? {
        b'K' => (&text[..text.len() - 1], 10),
        b'M' => (&text[..text.len() - 1], 20),
        b'G' => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

impl Manifest {
    /// Lines that say nothing of registers: the callers' for programs that were checked, their own for all others.
    pub fn settle_registers(&mut self) {
        let components = self.components.iter_mut();
        let components = components.map(|c| (&c.binary, &mut c.registers));
        let lines = self.filesystems.iter_mut();
        let lines = lines.map(|line| (&line.binary, &mut line.registers));
        for (binary, registers) in components.chain(lines) {
            let said = match self.checked.programs.contains(binary) {
                true => Registers::Callers,
                false => Registers::Own,
            };
            registers.get_or_insert(said);
        }
    }

    /// Give the further portals to whom they are for.
    fn give(&mut self) -> Result<(), Invalid> {
        for further in core::mem::take(&mut self.grants) {
            let name = further.component;
            let index = self.component(&name);
            let index = index.ok_or_else(|| {
                Invalid(format!("a grant is for `{name}`, which is no component"))
            })?;
            let portals = &mut self.components[index].portals;
            for (portal, grant) in further.portals {
                if portals.insert(portal.clone(), grant).is_some() {
                    return Err(Invalid(format!(
                        "component `{name}`: portal `{portal}` is given twice"
                    )));
                }
            }
        }
        Ok(())
    }

    /// From names of roles to badges.
    fn give_roles(&mut self) -> Result<(), Invalid> {
        let components = self.components.iter_mut();
        let components = components.map(|c| (&c.name, &mut c.portals));
        let lines = self.filesystems.iter_mut();
        let lines = lines.map(|line| (&line.kind, &mut line.portals));
        for (owner, portals) in components.chain(lines) {
            for (name, grant) in portals {
                if let Grant::Call { to, badge, role } = grant {
                    *badge = roles::badge(to, *badge, role)
                        .map_err(|why| Invalid(format!("`{owner}`: portal `{name}`: {why}")))?;
                }
            }
        }
        Ok(())
    }

    /// An interrupt line is one component's, or all that have it say that they share it.
    fn check_interrupts(&self) -> Result<(), Invalid> {
        let mut taken: BTreeMap<u32, (&str, bool)> = BTreeMap::new();
        for component in &self.components {
            for grant in component.portals.values() {
                let Grant::Interrupt {
                    interrupt, shared, ..
                } = grant
                else {
                    continue;
                };
                let owner = (component.name.as_str(), *shared);
                match taken.insert(*interrupt, owner) {
                    Some((other, others)) if !(others && *shared) => {
                        return Err(Invalid(format!(
                            "component `{}`: interrupt {interrupt} is `{other}`'s; both may have it if both lines say `shared = true`",
                            component.name
                        )));
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }

    fn check(&self) -> Result<(), Invalid> {
        for (i, component) in self.components.iter().enumerate() {
            let name = &component.name;
            if name.is_empty() || name.len() > NAME_MAX {
                return Err(Invalid(format!(
                    "component name `{name}` must have 1 to {NAME_MAX} bytes"
                )));
            }
            if self.components[..i].iter().any(|c| c.name == *name) {
                return Err(Invalid(format!("component `{name}` is named twice")));
            }
            component
                .check(self)
                .map_err(|Invalid(why)| Invalid(format!("component `{name}`: {why}")))?;
        }
        self.check_interrupts()?;
        for (i, line) in self.filesystems.iter().enumerate() {
            let kind = &line.kind;
            if kind.is_empty() || kind.len() > 8 || kind.contains([':', ',', ' ']) {
                return Err(Invalid(format!("`{kind}` is no type of file system")));
            }
            for disk in &line.disks {
                let again = |l: &Filesystem| l.kind == *kind && l.disks.contains(disk);
                if self.filesystems[..i].iter().any(again) {
                    return Err(Invalid(format!("file system `{kind}`: `{disk}` twice")));
                }
                if self.component(disk).is_none() {
                    return Err(Invalid(format!(
                        "file system `{kind}`: disk `{disk}` is no component"
                    )));
                }
            }
            let same = |l: &Filesystem| l.kind == *kind;
            let others = self.filesystems[..i].iter().filter(|l| same(l));
            if others
                .clone()
                .any(|l| l.disks.is_empty() || line.disks.is_empty())
            {
                return Err(Invalid(format!(
                    "file system `{kind}`: one that lies in memory has one line"
                )));
            }
            // What a component made of it would be.
            let part = Part {
                disk: line.disks.first().cloned().unwrap_or("vm".into()),
                number: None,
                partition: 0,
            };
            line.component(&part, "/")
                .check(self)
                .map_err(|Invalid(why)| Invalid(format!("file system `{kind}`: {why}")))?;
        }
        if self.components.first().map(|c| c.name.as_str()) != Some("vm") {
            return Err(Invalid(
                "the first component must be `vm`: every other one gets its memory from it".into(),
            ));
        }
        match (self.has_processes(), self.first.path.is_empty()) {
            (true, true) => Err(Invalid(
                "there is `proc` and no [first]: path = … there names the first Linux process"
                    .into(),
            )),
            (false, false) => Err(Invalid(
                "[first] needs `proc`, which makes Linux processes".into(),
            )),
            (false, _) if self.components.iter().any(|c| !c.mounts.is_empty()) => Err(Invalid(
                "mounts need `proc`, which knows the names of files".into(),
            )),
            _ => Ok(()),
        }
    }

    /// Are there Linux processes, and names of files? Without `proc` a system is its components and nothing else.
    pub fn has_processes(&self) -> bool {
        self.component("proc").is_some()
    }

    pub fn component(&self, name: &str) -> Option<usize> {
        self.components.iter().position(|c| c.name == name)
    }

    /// The line for this type, if that lies in memory.
    pub fn in_memory(&self, kind: &str) -> Option<&Filesystem> {
        let mut lines = self.filesystems.iter();
        lines.find(|line| line.kind == kind && line.disks.is_empty())
    }

    /// The line for this type and the device of this name (`vda`, `vda1`), and which part of a disk that is. `Err(true)`: there is no such type at all.
    pub fn filesystem(&self, kind: &str, device: &str) -> Result<(&Filesystem, Part), bool> {
        let mut lines = self.filesystems.iter().filter(|line| line.kind == kind);
        let unknown = lines.clone().next().is_none();
        lines
            .find_map(|line| Some((line, line.part(device)?)))
            .ok_or(unknown)
    }

    /// Whether a component has this part of a disk as its own, or one that holds it or lies in it.
    pub fn is_in_use(&self, part: &Part) -> bool {
        self.components.iter().any(|component| {
            let Some(Grant::Call { to, badge, .. }) = component.portals.get("disk") else {
                return false;
            };
            let (own, whole) = (part.badge(), part.whole());
            *to == part.disk
                && (*badge == own || *badge == whole || own == whole && part.holds(*badge))
        })
    }
}

impl Filesystem {
    fn part(&self, device: &str) -> Option<Part> {
        self.disks.iter().find_map(|disk| {
            let mut rest = device.strip_prefix(disk.as_str())?;
            let mut number = None;
            if disk == LOOP {
                let (device, partition) = rest.split_once('p').unwrap_or((rest, ""));
                number = Some(cairn_idl::device::loop_number(&format!("{LOOP}{device}"))?);
                rest = partition;
            }
            let partition = match rest {
                "" if !device.ends_with('p') => 0,
                digits if digits.starts_with(['0', '+']) => return None,
                digits => digits.parse::<u8>().ok().filter(|n| *n <= 128)?,
            };
            Some(Part {
                disk: disk.clone(),
                number,
                partition: u64::from(partition),
            })
        })
    }

    /// A component for a part of a disk that is mounted there.
    pub fn component(&self, part: &Part, place: &str) -> Component {
        let device = part.name();
        let disk = Grant::Call {
            to: part.disk.clone(),
            badge: part.badge(),
            role: Roles::default(),
        };
        let mut component = self.named(&device, &device, place);
        component.portals.insert("disk".into(), disk);
        component
    }

    /// A component for one that lies in memory and is mounted there. `number` is its `st_dev`, which no other has; it is called `source` in /proc/mounts, as far as there is room.
    pub fn component_in_memory(&self, number: u64, source: &str, place: &str) -> Component {
        let mut own = format!("{number}:{source}");
        while self.kind.len() + 1 + own.len() > FSTYPE_MAX {
            own.pop();
        }
        let mut component = self.named(&number.to_string(), &own, place);
        component.arguments.push(format!("st_dev={number}"));
        component
    }

    fn named(&self, name: &str, device: &str, place: &str) -> Component {
        Component {
            name: format!("{}-{name}", self.kind),
            binary: self.binary.clone(),
            priority: self.priority,
            registers: self.registers,
            restart: match self.keepsake {
                Some(_) => Restart::Always,
                None => Restart::Never,
            },
            memory: self.memory.clone(),
            keepsake: self.keepsake.clone(),
            arguments: [format!("prefix={place}")].into(),
            portals: self.portals.clone(),
            mounts: [Mount {
                prefix: place.into(),
                fstype: format!("{}:{device}", self.kind),
                badge: 0,
            }]
            .into(),
            ..Component::default()
        }
    }
}

/// What `init` has, in the same form as [`Component::lines`].
pub const INIT_LINES: &str = "init service memory -\ninit service machine -\n";

/// A name as one word: what would end it is shown as in /proc/mounts.
pub fn word(name: &str) -> String {
    let mut word = String::new();
    for c in name.chars() {
        match c {
            ' ' | '\t' | '\n' | '\\' => word.push_str(&format!("\\{:03o}", c as u32)),
            c => word.push(c),
        }
    }
    word
}

impl Component {
    /// What its line gives it, a line of four words for each thing: its name, the kind, what, and how.
    pub fn lines(&self) -> String {
        let own = word(&self.name);
        let mut lines = String::new();
        let mut line = |kind: &str, what: String, how: String| {
            let how = if how.is_empty() { "-".into() } else { how };
            lines.push_str(&format!("{own} {kind} {what} {how}\n"));
        };
        for (name, grant) in &self.portals {
            match grant {
                Grant::Call { to, badge, role } => {
                    let how = match (role.names(), badge) {
                        ([], 0) => String::new(),
                        ([], badge) => format!("badge={badge:#x}"),
                        (roles, _) => roles.join(","),
                    };
                    line("calls", word(to), how);
                }
                Grant::Ports {
                    ports: (first, count),
                } => line("ports", format!("{first:#x}+{count}"), word(name)),
                Grant::Interrupt { interrupt, .. } => {
                    line("interrupt", interrupt.to_string(), word(name));
                }
                Grant::Message { .. } => line("interrupt", "message".into(), word(name)),
                Grant::Service {
                    service: Service::Components,
                } => line("calls", "init".into(), "components".into()),
                Grant::Service { service } => {
                    let service = format!("{service:?}").to_lowercase();
                    line("service", service, String::new());
                }
            }
        }
        for (name, (first, length)) in &self.device_memory {
            line("memory", format!("{first:#x}+{length:#x}"), word(name));
        }
        if let Some(archive) = self.archive {
            let how = match archive {
                Archive::Read => "read",
                Archive::Write => "write",
            };
            line("archive", "boot".into(), how.into());
        }
        for mount in &self.mounts {
            line("serves", word(&mount.prefix), word(&mount.fstype));
        }
        lines
    }

    fn check(&self, manifest: &Manifest) -> Result<(), Invalid> {
        if self.portals.len() > PORTALS_MAX {
            return Err(Invalid(format!("more than {PORTALS_MAX} portals")));
        }
        for memory in self.memory.iter().chain(&self.keepsake) {
            let bytes = size(memory)
                .ok_or_else(|| Invalid(format!("`{memory}` is no size (4096, 64K, 16M, 1G)")))?;
            if bytes < 4096 {
                return Err(Invalid(format!(
                    "`{memory}` is less than a page: {memory} bytes (K, M or G may follow)"
                )));
            }
        }
        let keepsake = self.keepsake.as_deref().and_then(size);
        if keepsake.is_some_and(|bytes| bytes == 0 || bytes > 64 << 20) {
            return Err(Invalid("a keepsake has at most 64M".into()));
        }
        if self.ceiling.is_some_and(|c| c < self.priority) {
            return Err(Invalid("its ceiling is below its priority".into()));
        }
        for (name, grant) in &self.portals {
            if name.is_empty() || name.len() > NAME_MAX {
                return Err(Invalid(format!(
                    "portal name `{name}` must have 1 to {NAME_MAX} bytes"
                )));
            }
            match grant {
                Grant::Call { to, .. } if manifest.component(to).is_none() => {
                    return Err(Invalid(format!(
                        "portal `{name}` leads to `{to}`, which is no component"
                    )));
                }
                Grant::Ports {
                    ports: (first, count),
                } if *count == 0 || first.checked_add(*count - 1).is_none() => {
                    return Err(Invalid(format!("portal `{name}`: no such range of ports")));
                }
                Grant::Interrupt { interrupt, .. } if *interrupt >= 64 => {
                    return Err(Invalid(format!(
                        "portal `{name}`: interrupt lines are 0 to 63"
                    )));
                }
                Grant::Message { message: false } => {
                    return Err(Invalid(format!("portal `{name}`: leave it out instead")));
                }
                _ => {}
            }
        }
        for (name, &(first, length)) in &self.device_memory {
            let pages = (first | length).is_multiple_of(4096);
            if !pages || length == 0 || length > 16 << 20 || first.checked_add(length).is_none() {
                return Err(Invalid(format!(
                    "device memory `{name}` must be whole pages, at most 16 MiB"
                )));
            }
        }
        for mount in &self.mounts {
            let path = mount.prefix.starts_with('/')
                && (mount.prefix == "/" || !mount.prefix.ends_with('/'));
            let scheme = mount.prefix.ends_with(':') && !mount.prefix.contains('/');
            if !(path || scheme) || mount.prefix.len() > 63 || mount.fstype.len() > 15 {
                return Err(Invalid(format!(
                    "mount `{}` must be an absolute path or a scheme with its colon",
                    mount.prefix
                )));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_line_gives_is_told_in_words() {
        let manifest = parse(include_str!("../../../system/system.toml")).unwrap();
        let lines = |name: &str| {
            let index = manifest.component(name).unwrap();
            manifest.components[index].lines()
        };
        assert_eq!(
            lines("uart0"),
            "uart0 interrupt 4 irq\nuart0 ports 0x3f8+8 ports\n"
        );
        assert_eq!(
            lines("tty"),
            "tty calls event badge=0x1\ntty calls proc groups,terminal\ntty calls uart0 -\ntty calls uart1 -\ntty serves tty: tty\n"
        );
        assert!(lines("procfs").contains("procfs calls init components\n"));
        assert!(lines("proc").contains("proc service machine -\n"));
        // Nobody else may restart anybody.
        let mut all = manifest.components.iter().map(Component::lines);
        let count = |text: &String| text.matches("calls init").count();
        assert_eq!(all.by_ref().map(|text| count(&text)).sum::<usize>(), 1);
        assert_eq!(word("a b\\"), "a\\040b\\134");
    }

    const SMALL: &str = r#"
        [first]
        path = "/sbin/init"
        [[component]]
        name = "vm"
        binary = "/cairn/vm"
        priority = 160
        portals = { memory = { service = "memory" } }
        [[component]]
        name = "uart"
        binary = "/cairn/uart"
        priority = 192
        restart = "always"
        registers = "own"
        memory = "1M"
        portals = { ports = { ports = [1016, 8] }, irq = { interrupt = 4 }, vm = { to = "vm" } }
        device-memory = { registers = [0xfe000000, 0x2000] }
        mounts = [{ prefix = "/dev", fstype = "devfs" }, { prefix = "tty:", fstype = "tty", badge = 3 }]
        [[component]]
        name = "proc"
        binary = "/cairn/proc"
        priority = 150
    "#;

    #[test]
    fn a_manifest_says_what_each_component_may_touch() {
        let m = parse(SMALL).unwrap();
        assert_eq!(m.components.len(), 3);
        let uart = &m.components[1];
        assert_eq!(uart.restart, Restart::Always);
        assert_eq!(uart.portals["ports"], Grant::Ports { ports: (0x3f8, 8) });
        let line = Grant::Interrupt {
            interrupt: 4,
            shared: false,
            trigger: None,
        };
        assert_eq!(uart.portals["irq"], line);
        assert_eq!(uart.device_memory["registers"], (0xfe00_0000, 0x2000));
        assert_eq!(
            uart.portals["vm"],
            Grant::Call {
                to: "vm".into(),
                badge: 0,
                role: Roles::default(),
            }
        );
        assert_eq!(m.components[0].restart, Restart::Halt);
        assert_eq!(uart.registers, Some(Registers::Own));
        assert_eq!(m.components[0].registers, None);
        assert_eq!(size("1M"), Some(1 << 20));
    }

    #[test]
    fn writable_code_is_refused_by_a_line() {
        assert!(parse(SMALL).unwrap().first.writable_code);
        let line = "path = \"/sbin/init\"\nwritable-code = false";
        let refused = SMALL.replace("path = \"/sbin/init\"", line);
        assert!(!parse(&refused).unwrap().first.writable_code);
    }

    #[test]
    fn memory_is_at_least_a_page() {
        let line = "[[component]]\nname = \"app\"\nbinary = \"/cairn/app\"\npriority = 1\n";
        let with = |memory: &str| parse(&format!("{SMALL}\n{line}memory = \"{memory}\"\n"));
        assert!(with("4096").is_ok() && with("2M").is_ok());
        let told = |memory| with(memory).unwrap_err().0;
        assert!(told("2").contains("less than a page"));
        assert!(told("2MiB").contains("no size"));
    }

    #[test]
    fn a_file_system_in_memory_needs_no_disk() {
        let line = "[[filesystem]]\ntype = \"tmpfs\"\nbinary = \"/cairn/tmpfs\"\npriority = 140\n";
        let m = parse(&format!("{SMALL}\n{line}")).unwrap();
        assert_eq!(m.filesystem("tmpfs", "uart").err(), Some(false));
        assert!(m.in_memory("ext4").is_none());
        let line = m.in_memory("tmpfs").unwrap();
        let component = line.component_in_memory(66, "none", "/mnt");
        assert_eq!(component.name, "tmpfs-66");
        assert_eq!(component.arguments, ["prefix=/mnt", "st_dev=66"]);
        assert!(component.portals.is_empty() && component.restart == Restart::Never);
        let mount = &component.mounts[0];
        assert_eq!(
            (mount.prefix.as_str(), mount.fstype.as_str()),
            ("/mnt", "tmpfs:66:none")
        );
        let long = line.component_in_memory(66, "a name ééé", "/mnt");
        assert_eq!(long.mounts[0].fstype, "tmpfs:66:a name");
        let twice = format!("{SMALL}\n[[filesystem]]\ntype = \"tmpfs\"\nbinary = \"/cairn/tmpfs\"\npriority = 140\n");
        let twice = format!("{twice}\n[[filesystem]]\ntype = \"tmpfs\"\nbinary = \"/cairn/tmpfs\"\npriority = 1\ndisks = [\"uart\"]\n");
        assert!(parse(&twice).is_err());
    }

    #[test]
    fn a_loop_device_is_a_disk_by_its_number() {
        let part = |number, partition| Part {
            disk: LOOP.into(),
            number: Some(number),
            partition,
        };
        let line = Filesystem {
            kind: "ext4".into(),
            binary: "/cairn/ext4".into(),
            priority: 1,
            registers: None,
            memory: None,
            keepsake: None,
            portals: BTreeMap::new(),
            disks: vec!["vda".into(), LOOP.into()],
        };
        assert_eq!(line.part("loop3"), Some(part(3, 0)));
        assert_eq!(line.part("loop12p5"), Some(part(12, 5)));
        for wrong in [
            "loop",
            "loop03",
            "loop3p",
            "loop3p0",
            "loop3p129",
            "loopp1",
            "loop-1",
        ] {
            let found = line.part(wrong);
            assert!(found.is_none(), "{wrong}");
        }
        let of = |part: &Part| (part.name(), part.badge(), part.numbers());
        let whole = of(&part(3, 0));
        assert_eq!(whole, ("loop3".into(), 4 << 8, Some((7, 3))));
        let fifth = of(&part(12, 5));
        assert_eq!(fifth, ("loop12p5".into(), 13 << 8 | 5, Some((259, 197))));
        // Who has a part has none of another device.
        let mut manifest =
            parse("[[component]]\nname = \"vm\"\nbinary = \"/v\"\npriority = 1\n").unwrap();
        let component = line.component(&part(3, 1), "/mnt");
        manifest.components.push(component);
        let used = [(3, 0), (3, 1), (3, 2), (4, 0), (4, 1)];
        let used = used.map(|(number, partition)| manifest.is_in_use(&part(number, partition)));
        assert_eq!(used, [true, true, false, false, false]);
    }

    #[test]
    fn registers_are_the_callers_only_for_programs_that_were_checked() {
        let line = "[[filesystem]]\ntype = \"ext4\"\nbinary = \"/cairn/ext4\"\npriority = 140\ndisks = [\"uart\"]\n";
        let settled = |checked: &str| {
            let mut m = parse(&format!("{SMALL}\n{line}\n{checked}")).unwrap();
            m.settle_registers();
            let uart = m.components.iter().find(|c| c.name == "uart").unwrap();
            [
                m.components[0].registers,
                uart.registers,
                m.filesystems[0].registers,
            ]
            .map(Option::unwrap)
        };
        use Registers::{Callers, Own};
        assert_eq!(settled(""), [Own; 3]);
        let first = parse(SMALL).unwrap().components[0].binary.clone();
        let one = format!("[checked]\nprograms = [\"{first}\"]\n");
        assert_eq!(settled(&one), [Callers, Own, Own]);
        let all =
            format!("[checked]\nprograms = [\"{first}\", \"/cairn/uart\", \"/cairn/ext4\"]\n");
        // What a line says stands.
        assert_eq!(settled(&all), [Callers, Own, Callers]);
    }

    #[test]
    fn a_file_system_gets_the_disks_of_its_line_and_no_other() {
        let line = "[[filesystem]]\ntype = \"ext4\"\nbinary = \"/cairn/ext4\"\npriority = 140\nregisters = \"own\"\nkeepsake = \"1M\"\nportals = { more = { to = \"vm\" } }\ndisks = [\"uart\"]\n";
        let mut m = parse(&format!("{SMALL}\n{line}")).unwrap();
        let (line, part) = m.filesystem("ext4", "uart3").unwrap();
        assert_eq!((part.disk.as_str(), part.partition), ("uart", 3));
        assert!(!m.is_in_use(&part));
        let component = line.component(&part, "/mnt");
        assert_eq!(component.name, "ext4-uart3");
        assert_eq!(component.mounts[0].fstype, "ext4:uart3");
        assert_eq!(component.registers, Some(Registers::Own));
        assert_eq!(component.portals.len(), 2);
        assert_eq!(component.restart, Restart::Always);
        m.components.push(component);
        for (device, used) in [("uart", true), ("uart3", true), ("uart4", false)] {
            let (_, part) = m.filesystem("ext4", device).unwrap();
            assert_eq!(m.is_in_use(&part), used, "{device}");
        }
        for device in ["vm", "vm1", "uart03", "uart+3", "uart129", "uart3p", ""] {
            assert_eq!(m.filesystem("ext4", device).err(), Some(false), "{device}");
        }
        assert_eq!(m.filesystem("vfat", "uart").err(), Some(true));
        let absent =
            "[[filesystem]]\ntype = \"x\"\nbinary = \"/x\"\npriority = 1\ndisks = [\"sda\"]\n";
        let Invalid(why) = parse(&format!("{SMALL}\n{absent}")).unwrap_err();
        assert!(why.contains("sda"), "{why}");
    }

    #[test]
    fn an_interrupt_line_has_one_owner_or_is_shared() {
        let system = |first: &str, second: &str| {
            let uart = SMALL.replace("interrupt = 4", first);
            let line = format!("{{ irq = {{ {second} }} }}");
            parse(&format!("{uart}\n[[component]]\nname = \"timer\"\nbinary = \"/x\"\npriority = 1\nportals = {line}\n"))
        };
        let shared = "interrupt = 4, shared = true";
        assert!(system(shared, shared).is_ok());
        assert!(system("interrupt = 4", "interrupt = 5").is_ok());
        for (first, second) in [
            ("interrupt = 4", "interrupt = 4"),
            ("interrupt = 4", shared),
            (shared, "interrupt = 4"),
        ] {
            let Invalid(why) = system(first, second).unwrap_err();
            assert!(
                why.starts_with("component `timer`: interrupt 4 is `uart`'s"),
                "{why}"
            );
        }
    }

    #[test]
    fn mistakes_are_named() {
        for (from, to, word) in [
            ("to = \"vm\"", "to = \"wm\"", "wm"),
            ("name = \"uart\"", "name = \"vm\"", "twice"),
            ("interrupt = 4", "interrupt = 64", "interrupt"),
            (
                "interrupt = 4",
                "interrupt = 4, trigger = \"up\"",
                "level-high",
            ),
            ("interrupt = 4", "interupt = 4", "{ interrupt = N"),
            ("0x2000", "0x2001", "whole pages"),
            ("[1016, 8]", "[65535, 8]", "ports"),
            ("\"1M\"", "\"1Q\"", "1Q"),
            ("\"/dev\"", "\"/dev/\"", "/dev/"),
            ("priority = 192", "priority = 192\nceiling = 3", "ceiling"),
            (
                "restart = \"always\"",
                "restart = \"sometimes\"",
                "sometimes",
            ),
            ("registers = \"own\"", "registers = \"mine\"", "mine"),
            ("priority = 192", "priority = 192\ncolour = 3", "colour"),
        ] {
            let Invalid(why) = parse(&SMALL.replacen(from, to, 1)).unwrap_err();
            assert!(why.contains(word), "{why}");
        }
    }

    #[test]
    fn a_system_without_processes_has_no_first_one() {
        let alone = include_str!("../../../sdk/examples/alone/alone.toml");
        assert!(!parse(alone).unwrap().has_processes());
        let first = "[first]\npath = \"/sbin/init\"\n";
        let why = |text: &str| parse(text).unwrap_err().0;
        assert!(why(&format!("{first}{alone}")).contains("needs `proc`"));
        let mounts = "mounts = [{ prefix = \"/x\", fstype = \"x\" }]";
        assert!(why(&format!("{alone}{mounts}")).contains("mounts need `proc`"));
        let system = include_str!("../../../system/system.toml");
        assert!(parse(system).unwrap().has_processes());
        let path = "path = \"/sbin/init\"";
        assert!(why(&system.replacen(path, "path = \"\"", 1)).contains("[first]"));
    }

    #[test]
    fn further_portals_are_given_to_what_stands_elsewhere() {
        let grant = |component: &str, name: &str| {
            format!("{SMALL}\n[[grant]]\ncomponent = \"{component}\"\nportals = {{ {name} = {{ to = \"vm\", badge = 7 }} }}")
        };
        let m = parse(&grant("uart", "more")).unwrap();
        let uart = &m.components[m.component("uart").unwrap()];
        let more = Grant::Call {
            to: "vm".into(),
            badge: 7,
            role: Roles::default(),
        };
        assert_eq!(uart.portals["more"], more);
        assert_eq!(uart.portals.len(), 4);
        assert!(parse(&grant("uart", "irq"))
            .unwrap_err()
            .0
            .contains("twice"));
        assert!(parse(&grant("uarts", "more"))
            .unwrap_err()
            .0
            .contains("uarts"));
    }

    #[test]
    fn the_manifests_of_the_project_are_valid() {
        let system = include_str!("../../../system/system.toml");
        parse(system).unwrap();
        for more in [
            include_str!("../../../sdk/examples/board.toml"),
            include_str!("../../../sdk/examples/ticker.toml"),
            include_str!("../../../tests/native/hello.toml"),
            include_str!("../../../tests/native/hostile.toml"),
            include_str!("../../../tests/native/flood.toml"),
            include_str!("../../../tests/native/block.toml"),
            include_str!("../../../tests/native/nvme.toml"),
            include_str!("../../../tests/native/ahci.toml"),
            include_str!("../../../tests/native/registers.toml"),
            include_str!("../../../system/trace.toml"),
        ] {
            parse(&[system, more].join("\n")).unwrap();
        }
    }
}
