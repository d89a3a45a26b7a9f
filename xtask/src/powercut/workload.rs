//! Whole programs instead of games: SQLite's transactions and packages that are unpacked. A script in a guest of Debian's packages says a line whenever something has become durable, and does not wait.

use super::game::Found;
use crate::places;
use anyhow::{bail, Context, Result};
use std::path::Path;
use std::process::Command;

/// What the guest does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Workload {
    /// Operations that the host thinks up
    Games,
    /// Transactions of SQLite: with a rollback journal in even rounds, a write-ahead log in odd ones
    Sqlite,
    /// Packages that dpkg-deb unpacks, with a sync after each
    Packages,
}

/// Transactions after the one that makes the table, and rows of each.
const TRANSACTIONS: usize = 12;
const ROWS: usize = 25;
/// Packages, and files of each.
const PACKAGES: usize = 4;
const FILES: usize = 24;

/// What row `i` of transaction `n` says, in SQL.
const TEXT: &str = "printf('%d of %d ', i, n) || hex(zeroblob(100 + i))";

impl Workload {
    /// How many promises the script makes.
    pub fn promises(self) -> usize {
        match self {
            Workload::Games => 0,
            Workload::Sqlite => 1 + TRANSACTIONS,
            Workload::Packages => PACKAGES,
        }
    }

    /// The script, in the folder of the file system.
    pub fn script(self, seed: u64) -> String {
        match self {
            Workload::Games => String::new(),
            Workload::Sqlite => {
                // With a rollback journal, only `extra` makes its removal durable, which is the commit.
                let mode = match seed.is_multiple_of(2) {
                    true => "pragma journal_mode=delete; pragma synchronous=extra;",
                    false => "pragma journal_mode=wal; pragma synchronous=full;",
                };
                let rows =
                    format!("with recursive r(i) as (select 1 union all select i + 1 from r where i < {ROWS})");
                format!(
                    "set -e; do_it() {{ sqlite3 t.db \"{mode} $1\" >/dev/null; }}
                    do_it 'create table t(n integer, i integer, b text); create index x on t(b);'; sync; echo made
                    for n in $(seq {TRANSACTIONS}); do
                        do_it \"begin; insert into t {rows} select $n, i, '' from r;
                            update t set b = {TEXT} where n = $n; update t set b = b where n = $n / 2; commit;\"
                        echo $n
                    done"
                )
            }
            Workload::Packages => format!(
                "set -e; place=$PWD; mkdir /tmp/packages; cd /tmp/packages
                for p in $(seq {PACKAGES}); do
                    mkdir -p p$p/DEBIAN p$p/part$p/bin p$p/part$p/share/doc
                    printf 'Package: p%d\\nVersion: 1\\nArchitecture: all\\nMaintainer: nobody\\nDescription: a test\\n' $p >p$p/DEBIAN/control
                    for f in $(seq {FILES}); do
                        case $((f % 3)) in 0) d=bin;; 1) d=share;; 2) d=share/doc;; esac
                        seq -f \"package $p file $f line %.0f\" $((f * f * f * p % 1500)) >p$p/part$p/$d/f$f
                    done
                    dpkg-deb -b p$p p$p.deb >/dev/null
                done
                for p in $(seq {PACKAGES}); do dpkg-deb -x p$p.deb $place; sync; echo $p; done"
            ),
        }
    }

    /// Is what was found as it may be, if the first `done` promises were made? The outer error is the host's.
    pub fn judge(self, tree: &Path, found: &Found, done: usize) -> Result<Result<(), String>> {
        match self {
            Workload::Games => Ok(Ok(())),
            Workload::Sqlite => transactions(tree, found, done),
            Workload::Packages => Ok(packages(found, done)),
        }
    }
}

/// Every transaction is there as a whole or not at all, none before one that is there is missing, and none that was promised.
fn transactions(tree: &Path, found: &Found, done: usize) -> Result<Result<(), String>> {
    if done == 0 {
        return Ok(Ok(()));
    }
    if !found.contains_key("t.db") {
        return Ok(Err("t.db is missing".to_string()));
    }
    let question = format!(
        "pragma integrity_check; select n, count(*), sum(b = {TEXT}) from t group by n order by n;"
    );
    let output = sqlite3()?
        .arg(tree.join("t.db"))
        .arg(question)
        .output()
        .context("cannot start SQLite")?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let transactions = said.lines().count().saturating_sub(1);
    let wanted = (1..=transactions).map(|n| format!("{n}|{ROWS}|{ROWS}\n"));
    let wanted: String = core::iter::once("ok\n".to_string()).chain(wanted).collect();
    if !output.status.success() || said != wanted {
        let problem = String::from_utf8_lossy(&output.stderr);
        return Ok(Err(format!("SQLite: {said}{problem}")));
    }
    if transactions + 1 < done {
        let promised = done - 1;
        let why = format!("{transactions} transactions, {promised} were committed");
        return Ok(Err(why));
    }
    Ok(Ok(()))
}

/// The root's own, so that the host needs none.
fn sqlite3() -> Result<Command> {
    let root = places::cache().join("debian-root/usr");
    let loader = root.join("lib64/ld-linux-x86-64.so.2");
    if !loader.exists() {
        bail!("{} is missing", loader.display());
    }
    let mut command = Command::new(loader);
    command
        .arg("--library-path")
        .arg(root.join("lib/x86_64-linux-gnu"))
        .arg(root.join("bin/sqlite3"));
    Ok(command)
}

/// What a file of a package holds; None: no package has such a one.
fn content(name: &str) -> Option<(usize, Vec<u8>)> {
    let (part, rest) = name.strip_prefix("part")?.split_once('/')?;
    let (folder, file) = rest.rsplit_once("/f")?;
    let (p, f): (usize, usize) = (part.parse().ok()?, file.parse().ok()?);
    let wanted = ["bin", "share", "share/doc"][f % 3];
    if folder != wanted || !(1..=PACKAGES).contains(&p) || !(1..=FILES).contains(&f) {
        return None;
    }
    let lines = 1..=f * f * f * p % 1500;
    let text: String = lines
        .map(|line| format!("package {p} file {f} line {line}\n"))
        .collect();
    Some((p, text.into_bytes()))
}

/// What was promised is there as it was; of what came later, nothing is there that was never written.
fn packages(found: &Found, done: usize) -> Result<(), String> {
    let mut whole = 0;
    for (name, bytes) in found {
        let Some(bytes) = bytes else { continue };
        let Some((package, wanted)) = content(name) else {
            return Err(format!("{name}: no package has it"));
        };
        if package <= done {
            if *bytes != wanted {
                return Err(format!(
                    "{name}: {} bytes of {}, or others",
                    bytes.len(),
                    wanted.len()
                ));
            }
            whole += 1;
        }
        let fair = bytes.len() <= wanted.len()
            && bytes
                .iter()
                .zip(&wanted)
                .all(|(byte, wanted)| byte == wanted || *byte == 0);
        if !fair {
            return Err(format!("{name} holds what was never written there"));
        }
    }
    match whole == done * FILES {
        true => Ok(()),
        false => Err(format!("{whole} files of {done} packages of {FILES}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Found {
        let mut found = Found::new();
        for p in 1..=PACKAGES {
            for f in 1..=FILES {
                let name = format!("part{p}/{}/f{f}", ["bin", "share", "share/doc"][f % 3]);
                let (_, bytes) = content(&name).unwrap();
                found.insert(name, Some(bytes));
            }
        }
        found
    }

    #[test]
    fn packages_are_judged() {
        assert_eq!(packages(&all(), PACKAGES), Ok(()));
        assert_eq!(packages(&Found::new(), 0), Ok(()));
        assert!(packages(&Found::new(), 1).is_err());
        let name = "part2/share/doc/f5";
        let mut found = all();
        // Not all of it: fair as long as nobody promised it.
        found.get_mut(name).unwrap().as_mut().unwrap().truncate(100);
        assert_eq!(packages(&found, 1), Ok(()));
        assert!(packages(&found, 2).is_err());
        found.get_mut(name).unwrap().as_mut().unwrap()[50] = 0;
        assert_eq!(packages(&found, 1), Ok(()));
        found.get_mut(name).unwrap().as_mut().unwrap()[50] = b'#';
        assert!(packages(&found, 1).is_err());
        found.remove(name);
        assert_eq!(packages(&found, 1), Ok(()));
        found.insert("part2/share/f5".to_string(), Some(Vec::new()));
        assert!(packages(&found, 1).is_err());
    }
}
