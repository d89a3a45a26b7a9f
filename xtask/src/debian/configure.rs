//! Packages are configured by dpkg in a machine of their own, which has the root's disk: maintainer scripts run where the packages will be used,
//! and never on the host.
//!
//! That is done when a root is made, not at its first boot: it costs once, the host can name each package as it comes, and a root is whole or is not there.
//! A script that fails is told by its package's name, with the last lines that it said. The root is kept all the same, with dpkg's records of what is missing.

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
/// What dpkg says of a package, or of its file, that it gives up. The reason is on the next line.
const ERROR_PACKAGE: &str = "dpkg: error processing package ";
const ERROR_ARCHIVE: &str = "dpkg: error processing archive ";
/// So many of the lines that a script said last are shown.
const SAID: usize = 5;
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
    echo "Running the preinst of $name"
    DPKG_MAINTSCRIPT_NAME=preinst DPKG_MAINTSCRIPT_PACKAGE=${name%:*} DPKG_MAINTSCRIPT_ARCH=$(dpkg --print-architecture) \
        DPKG_MAINTSCRIPT_PACKAGE_REFCOUNT=1 DPKG_ROOT= "$script" install ||
        printf 'dpkg: error processing package %s (--unpack):\n its preinst ended with status %s\n' "$name" "$?"
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

/// What went wrong with a package.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Failure {
    pub package: String,
    /// dpkg's word for where it stands, if it is there and not installed.
    state: Option<String>,
    /// dpkg's reason, and the last lines that were said before.
    why: String,
    said: Vec<String>,
    /// It was not even unpacked.
    absent: bool,
}

/// All packages of a root that the host unpacked.
pub fn standard(image: &Path) -> Result<Vec<Failure>> {
    work(image, STANDARD, Vec::new())
}

/// Packages from files in a folder, onto a root that is configured. One that could not be unpacked is an error: what was asked for is not there.
pub fn further(image: &Path, archives: &Path) -> Result<Vec<Failure>> {
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
    let failures = done?;
    if failures.iter().any(|failure| failure.absent) {
        let all: Vec<String> = failures.iter().map(Failure::text).collect();
        bail!("{}\nno root was made", all.join("\n"));
    }
    Ok(failures)
}

fn work(image: &Path, script: &str, disks: Vec<Disk>) -> Result<Vec<Failure>> {
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
            "packages could not be configured (logs: {}); the machine said:\n{}",
            logs.display(),
            lines.last(20)
        );
    }
    Ok(lines.failures())
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

    /// What dpkg told, in the order in which it did, and then packages that are left without a word.
    fn failures(&self) -> Vec<Failure> {
        let mut failures: Vec<Failure> = Vec::new();
        let mut said: Vec<&str> = Vec::new();
        let mut lines = self.all.lines();
        while let Some(line) = lines.next() {
            if let Some(rest) = line.strip_prefix(LEFT) {
                let Some((state, package)) = rest.split_once(' ') else {
                    continue;
                };
                let state = Some(state.to_string());
                match failures
                    .iter_mut()
                    .find(|f| plain(&f.package) == plain(package))
                {
                    Some(failure) => {
                        failure.state = state;
                        failure.absent = false;
                    }
                    None => failures.push(Failure {
                        package: package.to_string(),
                        state,
                        ..Failure::default()
                    }),
                }
            } else if let Some(rest) = given_up(line) {
                let (what, operation) = rest.split_once(' ').unwrap_or((rest, ""));
                let name = what.rsplit('/').next().unwrap_or(what);
                failures.push(Failure {
                    package: name
                        .split('_')
                        .next()
                        .unwrap_or(name)
                        .trim_end_matches(".deb")
                        .to_string(),
                    state: None,
                    why: lines.next().unwrap_or_default().trim().to_string(),
                    said: said[said.len().saturating_sub(SAID)..]
                        .iter()
                        .map(|line| line.to_string())
                        .collect(),
                    // Of an archive, not of a package that the host had unpacked.
                    absent: operation.starts_with("(--unpack)") && what.contains('/'),
                });
                said.clear();
            } else if step_of(line).is_some() || line.starts_with("Preparing to unpack ") {
                said.clear();
            } else {
                said.push(line);
            }
        }
        failures
    }

    fn last(&self, count: usize) -> String {
        let lines: Vec<&str> = self.all.lines().collect();
        lines[lines.len().saturating_sub(count)..].join("\n")
    }
}

/// `NAME (--configure):` of a line in which dpkg gives a package up.
fn given_up(line: &str) -> Option<&str> {
    let package = line.strip_prefix(ERROR_PACKAGE);
    package.or_else(|| line.strip_prefix(ERROR_ARCHIVE))
}

/// `Setting up bash (5.2) ...`: `configuring bash`.
fn step_of(line: &str) -> Option<String> {
    let steps = [
        ("Running the preinst of ", "preparing"),
        ("Unpacking ", "unpacking"),
        ("Setting up ", "configuring"),
        ("Processing triggers for ", "triggers of"),
    ];
    steps.into_iter().find_map(|(begin, what)| {
        let name = line.strip_prefix(begin)?.split(' ').next()?;
        Some(format!("{what} {name} in the guest"))
    })
}

/// A package's name without its architecture.
fn plain(package: &str) -> &str {
    package.split(':').next().unwrap_or(package)
}

impl Failure {
    /// What is wrong, and what was said.
    pub fn text(&self) -> String {
        let name = &self.package;
        let is = match &self.state {
            Some(state) => format!("{name} is not configured (dpkg: {state})"),
            None if self.absent => format!("{name} could not be installed"),
            None => format!("a script of {name} failed"),
        };
        let why = match self.why.as_str() {
            "" => "dpkg gives no reason",
            why => why,
        };
        let lines = self.said.iter().map(|line| format!("\n  | {line}"));
        format!("{is}: {why}{}", lines.collect::<String>())
    }
}

/// Each failure, and what to do.
pub fn report(failures: &[Failure]) {
    for failure in failures {
        eprintln!("cairn: {}", failure.text());
    }
    if !failures.is_empty() {
        eprintln!(
            "cairn: the root works all the same. In it, {LOG} has all that was said, and `dpkg --configure NAME` tries again what is not configured."
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
        assert!(lines.failures().is_empty() && !lines.refused());
    }

    #[test]
    fn what_is_not_installed_in_the_end_is_told() {
        let mut lines = Lines::default();
        lines.add(b"E: Sub-process /usr/bin/dpkg returned an error code (1)\nleft: half-configured x:amd64\n");
        let text: Vec<String> = lines.failures().iter().map(Failure::text).collect();
        let wanted = "x:amd64 is not configured (dpkg: half-configured): dpkg gives no reason";
        assert_eq!(text, [wanted]);
        assert!(!lines.refused());
        lines.add(b"E: Unable to correct problems\n");
        assert!(lines.refused());
    }

    #[test]
    fn a_failure_has_a_reason_and_the_last_lines_that_were_said() {
        let mut lines = Lines::default();
        lines.add(
            b"Running the preinst of a\nfine\nRunning the preinst of b\nno disk\n\
              dpkg: error processing package b (--unpack):\n its preinst ended with status 3\n\
              Setting up c:amd64 (1) ...\n1\n2\n3\n4\n5\n6\ndpkg: error processing package c:amd64 (--configure):\n installed c package script failed\n\
              Unpacking d (1) ...\nPreparing to unpack /mnt/d_1_all.deb ...\nno user\n\
              dpkg: error processing archive /mnt/d_1_all.deb (--unpack):\n new d package script failed\n\
              Errors were encountered while processing:\n c:amd64\nleft: half-configured c\n",
        );
        let text: Vec<String> = lines.failures().iter().map(Failure::text).collect();
        let wanted = [
            "a script of b failed: its preinst ended with status 3\n  | no disk",
            "c:amd64 is not configured (dpkg: half-configured): installed c package script failed\n  | 2\n  | 3\n  | 4\n  | 5\n  | 6",
            "d could not be installed: new d package script failed\n  | no user",
        ];
        assert_eq!(text, wanted);
    }
}
