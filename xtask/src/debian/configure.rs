//! Packages are configured by dpkg in a machine of their own, which has the root's disk: maintainer scripts run where the packages will be used,
//! and never on the host.
//!
//! That is done when a root is made, not at its first boot: it costs once, the host can name each package as it comes, and a root is whole or is not there.
//! A script that fails is told by its package's name. The root is kept all the same, with dpkg's records of what is missing.

use crate::cli::{Machine, Pair, Root, System};
use crate::disk::{self, Disk, Shape};
use crate::exec::ENVIRONMENT;
use crate::guest::{Guest, Input, Outcome};
use crate::machine::Boot;
use crate::progress::Step;
use anyhow::{bail, Context, Result};
use cairn_hostlink::Spec;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// Where the guest keeps what scripts said.
const LOG: &str = "/var/log/configure.log";
/// No set of packages takes longer, on a slow host.
const LIMIT: Duration = Duration::from_secs(3600);
/// Where a machine finds packages' files.
const PACKAGES: &str = "/mnt";
/// In front of the name and state of a package that is not installed at the end.
const LEFT: &str = "left: ";
/// What nobody answers, and what is cheap because an unfinished root is thrown away.
const SETTINGS: [&str; 3] = [
    "DEBIAN_FRONTEND=noninteractive",
    "DEBCONF_NONINTERACTIVE_SEEN=true",
    "LC_ALL=C",
];

/// Everything was unpacked by the host: dpkg is told so, and goes on from there. Of what the host made in the scripts' place only the accounts
/// stay, and links, which scripts make again.
const STANDARD: &str = r#"
sed -i 's/^Status: install ok installed$/Status: install ok unpacked/' /var/lib/dpkg/status
rm -f /etc/pam.d/common-*
for script in /var/lib/dpkg/info/*.preinst; do
    name=${script##*/}; name=${name%.preinst}
    DPKG_MAINTSCRIPT_NAME=preinst DPKG_MAINTSCRIPT_PACKAGE=${name%:*} DPKG_MAINTSCRIPT_ARCH=$(dpkg --print-architecture) \
        DPKG_MAINTSCRIPT_PACKAGE_REFCOUNT=1 DPKG_ROOT= "$script" install || echo "error: preinst of $name"
done
dpkg --abort-after=9999 --configure -a
"#;

/// apt finds the order in which packages of a folder can be unpacked.
const FURTHER: &str = r#"
apt-get -o Dpkg::Use-Pty=0 -o DPkg::Options::=--abort-after=9999 -o DPkg::Options::=--force-unsafe-io -o APT::Sandbox::User=root \
    --yes --no-install-recommends --allow-downgrades install /mnt/*.deb
"#;

/// Said by either script in the end.
const END: &str = r#"
dpkg-query -W -f '${db:Status-Status} ${db:Status-Want} ${binary:Package}\n' | sed -n '/^installed /d; s/^\([^ ]*\) install /left: \1 /p'
"#;

/// A package that dpkg has not finished, and its state.
#[derive(Debug, PartialEq, Eq)]
pub struct Unfinished {
    pub package: String,
    pub state: String,
}

/// All packages of a root that the host unpacked.
pub fn standard(image: &Path) -> Result<Vec<Unfinished>> {
    work(image, STANDARD, Vec::new())
}

/// Packages from files in a folder, onto a root that is configured.
pub fn further(image: &Path, archives: &Path) -> Result<Vec<Unfinished>> {
    let mut bytes = 0;
    for entry in fs::read_dir(archives)?.flatten() {
        bytes += entry.metadata()?.len();
    }
    let shape = Shape {
        size: format!("{}M", (bytes + bytes / 8).div_ceil(1 << 20) + 16),
        ..Shape::plain()
    };
    let files = image.with_extension("packages");
    disk::ext4(&files, &shape, Some(archives))?;
    let done = work(image, FURTHER, vec![Disk::Unchanged(files.clone())]);
    fs::remove_file(&files)?;
    done
}

fn work(image: &Path, script: &str, disks: Vec<Disk>) -> Result<Vec<Unfinished>> {
    let root = Root::Own(image.to_path_buf());
    let mounts = disks.iter().map(|_| Pair {
        first: "/dev/vdb".to_string(),
        second: PACKAGES.to_string(),
    });
    let machine = Machine {
        mounts: mounts.collect(),
        disks: disks.clone(),
        ..Machine::on(System::Cairn, root)
    };
    let boot = Boot::prepare_within("configure", &machine)?;
    let logs = boot.run.clone();
    let mut guest = Guest::start(boot, &machine, false)?
        .with_context(|| format!("configuring packages (logs: {})", logs.display()))?;
    let script = format!("exec 2>&1 </dev/null; cd /; {{ {script} }} | tee -a {LOG}; {END}");
    let environment = ENVIRONMENT.iter().chain(&SETTINGS);
    let spec = Spec {
        argv: ["sh", "-c", &script]
            .map(|word| word.as_bytes().to_vec())
            .to_vec(),
        env: environment.map(|v| v.as_bytes().to_vec()).collect(),
        cwd: b"/".to_vec(),
        no_stdin: true,
    };
    let mut step = Step::begin("configuring packages in the guest");
    let mut lines = Lines::default();
    let outcome = guest.run(&spec, Input::Empty, Some(LIMIT), &mut |_, bytes| {
        lines.add(bytes);
        if let Some(what) = lines.news() {
            step.say(&what);
        }
        step.tick();
    });
    drop(step);
    let outcome =
        outcome.with_context(|| format!("configuring packages (logs: {})", logs.display()))?;
    let ended_well = outcome.status() == 0 && matches!(outcome, Outcome::Ended(_));
    if !guest.power_off() || !ended_well || lines.refused() {
        bail!(
            "packages could not be configured; the machine said:\n{}",
            lines.last(20)
        );
    }
    Ok(lines.unfinished())
}

/// What the script says, line by line.
#[derive(Default)]
struct Lines {
    all: String,
    /// What was looked at for news.
    seen: usize,
}

impl Lines {
    fn add(&mut self, bytes: &[u8]) {
        self.all.push_str(&String::from_utf8_lossy(bytes));
    }

    /// The newest step that dpkg or apt named in whole lines.
    fn news(&mut self) -> Option<String> {
        let fresh = &self.all[self.seen..];
        let end = fresh.rfind('\n')?;
        let found = fresh[..end].lines().rev().find_map(step_of);
        self.seen += end + 1;
        found
    }

    /// apt did not begin.
    fn refused(&self) -> bool {
        let mut lines = self.all.lines();
        lines.any(|line| line.starts_with("E: ") && !line.contains("Sub-process"))
    }

    fn unfinished(&self) -> Vec<Unfinished> {
        let left = self.all.lines().filter_map(|line| line.strip_prefix(LEFT));
        let pairs = left.filter_map(|rest| rest.split_once(' '));
        pairs
            .map(|(state, package)| Unfinished {
                package: package.to_string(),
                state: state.to_string(),
            })
            .collect()
    }

    fn last(&self, count: usize) -> String {
        let lines: Vec<&str> = self.all.lines().collect();
        lines[lines.len().saturating_sub(count)..].join("\n")
    }
}

/// `Setting up bash (5.2) ...`: `configuring bash`.
fn step_of(line: &str) -> Option<String> {
    let steps = [
        ("Unpacking ", "unpacking"),
        ("Setting up ", "configuring"),
        ("Processing triggers for ", "triggers of"),
    ];
    steps.into_iter().find_map(|(begin, what)| {
        let name = line.strip_prefix(begin)?.split(' ').next()?;
        Some(format!("{what} {name} in the guest"))
    })
}

/// Each package that is not finished, and what to do.
pub fn report(unfinished: &[Unfinished]) {
    for Unfinished { package, state } in unfinished {
        eprintln!(
            "cairn: {package} is not configured (dpkg: {state}): a maintainer script failed, or a package that it needs is in that state. \
             The root works all the same. In it, {LOG} has what was said, and `dpkg --configure {package}` tries again."
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_named_by_their_packages() {
        let mut lines = Lines::default();
        lines.add(b"Setting up bash (5.2-1) ...\nx\nSetting up libc6:amd");
        assert_eq!(
            lines.news().as_deref(),
            Some("configuring bash in the guest")
        );
        assert_eq!(lines.news(), None);
        lines.add(b"64 (2) ...\nProcessing triggers for libc-bin (2) ...\n");
        assert_eq!(
            lines.news().as_deref(),
            Some("triggers of libc-bin in the guest")
        );
        assert!(lines.unfinished().is_empty() && !lines.refused());
    }

    #[test]
    fn what_is_not_installed_in_the_end_is_told() {
        let mut lines = Lines::default();
        lines.add(b"E: Sub-process /usr/bin/dpkg returned an error code (1)\nleft: half-configured x:amd64\n");
        let wanted = Unfinished {
            package: "x:amd64".to_string(),
            state: "half-configured".to_string(),
        };
        assert_eq!(lines.unfinished(), [wanted]);
        assert!(!lines.refused());
        lines.add(b"E: Unable to correct problems\n");
        assert!(lines.refused());
    }
}
