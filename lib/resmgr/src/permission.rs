//! Who may do what with a node: owner, group and others as POSIX has it; who has the privilege over files may everything that makes sense.

use crate::context::{Context, Failure};
use crate::server::{Access, Answer, IMMUTABLE};
use cairn_idl::errno::{EACCES, EPERM};
use cairn_idl::fs::s;
use cairn_idl::label;

pub const READ: u32 = 4;
pub const WRITE: u32 = 2;
pub const EXECUTE: u32 = 1;

/// May a process of this label do all of `want`? `in_group` is asked only when the answer depends on supplementary groups.
pub fn allowed(node: &Access, label: u64, want: u32, in_group: impl FnOnce(u32) -> bool) -> bool {
    if label::has(label, label::ACCESS) {
        let runnable = node.mode & 0o111 != 0 || node.mode & s::IFMT == s::IFDIR;
        return want & EXECUTE == 0 || runnable;
    }
    let bits = if label::uid(label) == node.uid {
        node.mode >> 6
    } else {
        let (group, others) = (node.mode >> 3 & want, node.mode & want);
        if group == others {
            others
        } else if label::gid(label) == node.gid || in_group(node.gid) {
            group
        } else {
            others
        }
    };
    bits & want == want
}

/// The caller's right to do `want`, or EACCES.
pub fn check(cx: &mut Context, node: &Access, want: u32) -> Answer<()> {
    check_as(cx, cx.request.label, node, want)
}

/// The same for another label than the caller's (access with real ids); supplementary groups are the caller's.
pub fn check_as(cx: &mut Context, label: u64, node: &Access, want: u32) -> Answer<()> {
    if want & WRITE != 0 && node.mode & IMMUTABLE != 0 {
        return Err(Failure::Errno(EPERM));
    }
    if allowed(node, label, want, |group| in_groups(cx, group)) {
        Ok(())
    } else {
        Err(Failure::Errno(EACCES))
    }
}

/// Is `group` among the caller's supplementary groups?
pub fn in_groups(cx: &mut Context, group: u32) -> bool {
    let mut groups = [0u32; 32];
    let count = cx.transport.groups(cx.request.sender, &mut groups);
    groups.iter().take(count).any(|&g| g == group)
}

/// Whether the caller may give a file of this group the set-group-id bit: a member, or who has the privilege.
pub fn gives_group_id(cx: &mut Context, group: u32) -> bool {
    cx.has(label::OWNER) || cx.gid() == group || in_groups(cx, group)
}

/// Only the owner and who has the privilege, or EPERM.
pub fn owner(cx: &Context, node: &Access) -> Answer<()> {
    if cx.has(label::OWNER) || cx.uid() == node.uid {
        Ok(())
    } else {
        Err(Failure::Errno(EPERM))
    }
}

/// Another name for somebody else's file is given only to who may read and write it, and to no program that runs with its owner's rights: or it could
/// not be removed for good, nor replaced (Linux's fs.protected_hardlinks, which Debian sets).
pub fn link(cx: &mut Context, node: &Access) -> Answer<()> {
    if owner(cx, node).is_ok() {
        return Ok(());
    }
    const RUNS: u32 = s::ISGID | 0o010;
    let plain = node.mode & s::IFMT == s::IFREG;
    let runs = node.mode & s::ISUID != 0 || node.mode & RUNS == RUNS;
    if !plain || runs || check(cx, node, READ | WRITE).is_err() {
        return Err(Failure::Errno(EPERM));
    }
    Ok(())
}

/// What may not change has its attributes and names for good, whoever asks.
pub fn changeable(node: &Access) -> Answer<()> {
    match node.is_fixed() {
        true => Err(Failure::Errno(EPERM)),
        false => Ok(()),
    }
}

/// The directory's sticky bit lets only owners remove or rename `node` in it.
pub fn sticky(cx: &Context, dir: &Access, node: &Access) -> Answer<()> {
    if dir.mode & s::ISVTX == 0 || cx.uid() == dir.uid {
        return Ok(());
    }
    owner(cx, node)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meta(mode: u32) -> Access {
        Access {
            mode,
            uid: 10,
            gid: 20,
        }
    }

    #[test]
    fn classes_do_not_mix() {
        let file = meta(s::IFREG | 0o074);
        // The owner has nothing although everybody else has more.
        assert!(!allowed(&file, label::make(10, 20), READ, |_| true));
        assert!(allowed(
            &file,
            label::make(11, 20),
            READ | WRITE | EXECUTE,
            |_| unreachable!()
        ));
        assert!(allowed(
            &file,
            label::make(11, 21),
            READ,
            |_| unreachable!()
        ));
        assert!(!allowed(&file, label::make(11, 21), WRITE, |_| false));
        assert!(allowed(&file, label::make(11, 21), WRITE, |group| group == 20));
    }

    #[test]
    fn privilege_is_what_the_capabilities_say() {
        let file = meta(s::IFREG | 0o600);
        let without = label::with(0, 0, 0);
        assert!(!allowed(&file, without, READ, |_| true));
        let with = label::with(99, 99, cairn_idl::capability::ALL);
        assert!(allowed(&file, with, READ | WRITE, |_| false));
    }

    #[test]
    fn root_executes_only_what_somebody_may() {
        assert!(allowed(&meta(s::IFREG), 0, READ | WRITE, |_| false));
        assert!(!allowed(&meta(s::IFREG | 0o644), 0, EXECUTE, |_| false));
        assert!(allowed(&meta(s::IFREG | 0o001), 0, EXECUTE, |_| false));
        assert!(allowed(&meta(s::IFDIR), 0, EXECUTE, |_| false));
    }
}
