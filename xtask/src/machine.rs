//! QEMU: the virtual machine that all commands share, and what is booted in it.

use crate::archive::Archive;
use crate::build;
use crate::cli::{Accel, Machine, System};
use crate::compiled;
use crate::{image, link, log, packages, places, scratch, share};
use anyhow::{bail, Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

pub const QEMU: &str = "qemu-system-x86_64";
const KVM: &str = "/dev/kvm";

/// The emulated processor: everything that QEMU can do except what would make comparisons depend on it. Without ERMS and FSRM both systems copy by
/// `rep movsq`; five-level page tables are something that nobody needs here.
const CPU: &str = "max,-erms,-fsrm,-la57";
/// In deterministic mode also without the host's random numbers.
const CPU_DETERMINISTIC: &str = "max,-erms,-fsrm,-la57,-rdrand,-rdseed";

/// What Debian's kernel needs to run quietly from the boot archive; a panic ends the machine.
const LINUX_WORDS: &str = "console=ttyS0 quiet panic=-1 rdinit=/sbin/init mitigations=off nokaslr";
/// What Linux does and Cairn does not: off.
const LEAN_WORDS: &str =
    "psi=0 audit=0 lsm=capability init_on_alloc=0 randomize_kstack_offset=off noautogroup cgroup_disable=memory";

/// What is booted: kernel, archive, and the folder for logs.
pub struct Boot {
    pub kernel: PathBuf,
    pub archive: PathBuf,
    pub run: PathBuf,
    pub system: System,
}

impl Boot {
    /// Build what `machine` asks for and write its archive into a new folder.
    pub fn prepare(kind: &str, machine: &Machine) -> Result<Boot> {
        places::making(|| Boot::prepare_within(kind, machine))
    }

    /// [`Boot::prepare`] for a machine that helps to make another one's disk, while that one is prepared.
    pub fn prepare_within(kind: &str, machine: &Machine) -> Result<Boot> {
        let (kernel, archive) = match machine.system {
            System::Cairn => {
                let system = build::system()?;
                let archive = image::cairn(&system, machine)?;
                (system.nucleus, archive)
            }
            System::Linux if machine.with.is_some() => {
                bail!("--with changes Cairn's manifest; Linux has none")
            }
            System::Linux => {
                let archive = image::linux(&build::guest_init()?, machine)?;
                (packages::linux()?, archive)
            }
        };
        Boot::write(kind, machine.system, kernel, &archive)
    }

    fn write(kind: &str, system: System, kernel: PathBuf, archive: &Archive) -> Result<Boot> {
        let run = places::new_run(kind)?;
        let path = run.join(places::ARCHIVE);
        fs::write(&path, archive.encode())
            .with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Boot {
            kernel,
            archive: path,
            run,
            system,
        })
    }

    /// Where the nucleus's log goes (port 0xe9). Linux writes nothing there.
    pub fn nucleus_log(&self) -> PathBuf {
        self.run.join(log::NAME)
    }

    /// Where the console goes when nobody looks at it.
    pub fn console_log(&self) -> PathBuf {
        self.run.join("console.log")
    }

    /// Where a kernel of this system says what went wrong.
    pub fn kernel_log(&self) -> PathBuf {
        match self.system {
            System::Cairn => self.nucleus_log(),
            System::Linux => self.console_log(),
        }
    }
}

impl Drop for Boot {
    fn drop(&mut self) {
        if self.system == System::Cairn {
            compiled::collect(&self.nucleus_log());
        }
        // Several MiB that can be made again in no time; the logs stay.
        let _ = fs::remove_file(&self.archive);
    }
}

/// Why a machine ended before its kernel wrote anything. `said`: QEMU's last line, if there is one.
pub fn silent_end(accel: Accel, said: Option<&str>) -> String {
    let said = match said {
        Some(said) => format!("QEMU says: {said}"),
        None => "its log is empty".to_string(),
    };
    match accel {
        Accel::Kvm => format!("--accel kvm does not work on this computer; without it the machine is emulated ({said})"),
        Accel::Tcg => format!("it ended without a word; {said}"),
    }
}

/// The line of QEMU's in which KVM gives up.
pub fn kvm_error(said: &str) -> Option<&str> {
    let begins = ["KVM internal error", "KVM: entry failed"];
    let mut lines = said.lines();
    lines.find(|line| begins.iter().any(|begin| line.starts_with(begin)))
}

/// QEMU's command line up to the serial ports, which the caller adds (first the console, then the link to the host).
pub fn qemu(boot: &Boot, machine: &Machine, deterministic: bool, words: &str) -> Result<Command> {
    // QEMU must not outlive this process, however that ends. (setpriv is part of util-linux, which every Debian has.)
    let mut command = Command::new("setpriv");
    command
        .args(["--pdeathsig", "TERM", "--", QEMU])
        .args([
            "-M",
            "q35",
            "-nodefaults",
            "-no-user-config",
            "-display",
            "none",
            "-no-reboot",
        ])
        .args(["-m", machine.memory(), "-smp", &machine.smp.to_string()])
        // The guest's own way to end the machine with a verdict.
        .args(["-device", "isa-debug-exit,iobase=0xf4,iosize=0x04"]);
    if machine.accel == Accel::Kvm {
        let opened = fs::File::options().read(true).write(true).open(KVM);
        opened.with_context(|| {
            format!(
                "--accel kvm: {KVM} cannot be used; without this option the machine is emulated"
            )
        })?;
    }
    match machine.accel {
        Accel::Kvm => command.args(["-accel", "kvm", "-cpu", "host"]),
        Accel::Tcg if deterministic => command.args(["-accel", "tcg", "-cpu", CPU_DETERMINISTIC]),
        Accel::Tcg => command.args(["-accel", "tcg", "-cpu", CPU]),
    };
    if deterministic {
        command.args([
            "-icount",
            "shift=0,sleep=off",
            "-rtc",
            "clock=vm,base=2026-01-01T00:00:00",
        ]);
    }
    if let Some(properties) = &machine.iommu {
        // Before all devices that are behind it.
        let device = format!("intel-iommu,{properties}");
        command.args(["-device", device.trim_end_matches(',')]);
        command.args(["-global", "virtio-device.iommu_platform=on"]);
    }
    if let Some((file, range)) = &machine.executed {
        command
            .args(["-d", "exec,nochain", "-dfilter", range, "-D"])
            .arg(file);
    }
    for device in devices(machine)? {
        command.args(["-device", &device]);
    }
    for (number, disk) in machine.attached()?.iter().enumerate() {
        command.args(disk.arguments(number, machine.snapshot)?);
    }
    share::attach(&mut command, machine)?;
    scratch::attach(&mut command, boot, machine.with.as_deref())?;
    link::attach(&mut command, boot, machine)?;
    let mut line = words.to_string();
    if boot.system == System::Linux {
        line = format!("{LINUX_WORDS} {line}");
        if machine.lean {
            line = format!("{LEAN_WORDS} {line}");
        }
    }
    if machine.root.is_on_disk() {
        line = format!("{line} disk-root=/dev/vda");
    }
    for mount in &machine.mounts {
        line = format!("{line} disk-mount={}:{}", mount.first, mount.second);
    }
    if let Some(server) = link::name_server(machine) {
        line = format!("{line} nameserver={server}");
    }
    if let Some(append) = &machine.append {
        line = format!("{line} {append}");
    }
    if boot.system == System::Cairn && !deterministic {
        line.push_str(compiled::words());
    }
    command
        .arg("-kernel")
        .arg(&boot.kernel)
        .arg("-initrd")
        .arg(&boot.archive)
        .args(["-append", &line])
        .arg("-debugcon")
        .arg(option_path("file:", &boot.nucleus_log()));
    Ok(command)
}

/// Devices that the lines `# device: NAME,…` of `--with`'s file ask for, in QEMU's notation.
fn devices(machine: &Machine) -> Result<Vec<String>> {
    let Some(file) = &machine.with else {
        return Ok(Vec::new());
    };
    let text =
        fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let mark = "# device: ";
    let named = text.lines().filter_map(|line| line.strip_prefix(mark));
    Ok(named.map(|device| device.trim().to_string()).collect())
}

/// A path inside one of QEMU's option strings, where a comma must be doubled.
pub fn option_path(before: &str, path: &Path) -> String {
    format!("{before}{}", path.display().to_string().replace(',', ",,"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_end_says_what_to_do() {
        let kvm = silent_end(Accel::Kvm, Some("failed to set MSR 0x10a"));
        assert!(kvm.starts_with(
            "--accel kvm does not work on this computer; without it the machine is emulated"
        ));
        assert!(kvm.ends_with("(QEMU says: failed to set MSR 0x10a)"));
        let log = "x\nKVM internal error. Suberror: 1\nRAX=0";
        assert_eq!(kvm_error(log), Some("KVM internal error. Suberror: 1"));
        assert_eq!(kvm_error("qemu: KVM internal error"), None);
        let tcg = silent_end(Accel::Tcg, None);
        assert_eq!(tcg, "it ended without a word; its log is empty");
    }
}
