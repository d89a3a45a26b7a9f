//! Who a client is here.

use rustix::fs::{Gid, Uid};
use rustix::io::Errno;
use rustix::process::geteuid;
use rustix::thread;
use std::fmt;
use std::sync::Arc;

/// Who everybody is of whom nothing else is said.
pub const NOBODY: u32 = 65_534;
/// Most groups of a user.
const GROUPS: usize = 32;

/// A user with all groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    pub uid: u32,
    pub gid: u32,
    pub groups: Vec<u32>,
}

/// Users of this system, as its files have them.
pub struct Users {
    passwd: String,
    group: String,
}

fn fields(text: &str) -> impl Iterator<Item = Vec<&str>> {
    text.lines().map(|line| line.split(':').collect())
}

impl Users {
    pub fn of_this_system() -> Users {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        Users {
            passwd: read("/etc/passwd"),
            group: read("/etc/group"),
        }
    }

    /// By number or name.
    pub fn number(&self, word: &str) -> Option<u32> {
        if let Ok(number) = word.parse() {
            // The number of nobody at all.
            return (number != u32::MAX).then_some(number);
        }
        let mut lines = fields(&self.passwd);
        let line = lines.find(|line| line[0] == word)?;
        line.get(2)?.parse().ok()
    }

    /// Somebody who is in no file has the group of the same number, and no other.
    pub fn user(&self, uid: u32) -> User {
        let number = |line: &[&str], at: usize| line.get(at).and_then(|word| word.parse().ok());
        let line = fields(&self.passwd).find(|line| number(line, 2) == Some(uid));
        let gid = line
            .as_ref()
            .and_then(|line| number(line, 3))
            .unwrap_or(uid);
        let mut groups = vec![gid];
        if let Some(name) = line.as_ref().map(|line| line[0]) {
            let has = |line: &Vec<&str>| {
                line.get(3)
                    .is_some_and(|all| all.split(',').any(|one| one == name))
            };
            let further = fields(&self.group).filter(has);
            groups.extend(further.filter_map(|line| number(&line, 2)));
        }
        groups.sort_unstable();
        groups.dedup();
        groups.truncate(GROUPS);
        User { uid, gid, groups }
    }
}

/// Whom a client may be by its own word: numbers, and ranges of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Believed(Vec<(u32, u32)>);

impl Believed {
    /// `0,1000-1999`, or `all`.
    pub fn parse(text: &str) -> Option<Believed> {
        if text == "all" {
            return Some(Believed(vec![(0, u32::MAX - 1)]));
        }
        let range = |word: &str| {
            let (first, last) = word.split_once('-').unwrap_or((word, word));
            let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
            (first <= last && last < u32::MAX).then_some((first, last))
        };
        text.split(',')
            .map(range)
            .collect::<Option<_>>()
            .map(Believed)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn has(&self, uid: u32) -> bool {
        self.0
            .iter()
            .any(|(first, last)| (*first..=*last).contains(&uid))
    }
}

impl fmt::Display for Believed {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let ranges = self.0.iter().map(|(first, last)| format!("{first}-{last}"));
        f.write_str(&ranges.collect::<Vec<_>>().join(","))
    }
}

/// Be this user from now on. To be called while there is one thread: then it is the whole process, on Linux too.
pub fn become_user(user: &User) -> Result<(), Errno> {
    if !geteuid().is_root() {
        return match geteuid().as_raw() == user.uid {
            true => Ok(()),
            false => Err(Errno::PERM),
        };
    }
    let groups: Vec<Gid> = user
        .groups
        .iter()
        .map(|group| Gid::from_raw(*group))
        .collect();
    let (uid, gid) = (Uid::from_raw(user.uid), Gid::from_raw(user.gid));
    thread::set_thread_groups(&groups)?;
    thread::set_thread_res_gid(gid, gid, gid)?;
    thread::set_thread_res_uid(uid, uid, uid)
}

/// Groups that this user may give files to; None: any.
pub fn may_give(user: &User) -> Option<Arc<[u32]>> {
    (user.uid != 0).then(|| user.groups.clone().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_as_the_files_have_them() {
        let users = Users {
            passwd: "root:x:0:0:root:/root:/bin/sh\nuser:x:1000:1000::/home/user:/bin/sh\nbroken\n"
                .into(),
            group: "root:x:0:\ndisk:x:6:other,user\nuser:x:1000:\naudio:x:29:users\n".into(),
        };
        assert_eq!(users.number("user"), Some(1000));
        assert_eq!(users.number("7"), Some(7));
        assert_eq!(
            (users.number("4294967295"), users.number("nobody")),
            (None, None)
        );
        assert_eq!(users.user(1000).groups, [6, 1000]);
        assert_eq!((users.user(0).gid, users.user(77).gid), (0, 77));
    }

    #[test]
    fn who_is_believed() {
        let some = Believed::parse("0,1000-1999").unwrap();
        let asked = [0, 1, 999, 1000, 1999, 2000, u32::MAX];
        let has = asked.map(|uid| some.has(uid));
        assert_eq!(has, [true, false, false, true, true, false, false]);
        assert_eq!(Believed::parse(&some.to_string()), Some(some));
        assert!(Believed::parse("all").unwrap().has(5));
        assert!(!Believed::parse("all").unwrap().has(u32::MAX));
        for wrong in ["", "x", "5-4", "1,", "-1", "4294967295"] {
            assert_eq!(Believed::parse(wrong), None, "{wrong}");
        }
    }
}
