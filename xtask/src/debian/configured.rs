//! What maintainer scripts of Debian's base packages leave behind in a new root, made here in their place: accounts and their shadow, PAM's common files, shells, records of logins, alternatives.

use super::contents::Owners;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{symlink, PermissionsExt};
use std::path::Path;

/// Links that `update-alternatives` makes: name, and the program that does it.
const ALTERNATIVES: [(&str, &str); 13] = [
    ("awk", "gawk"),
    ("c99", "tcc"),
    ("cc", "tcc"),
    ("editor", "vim.basic"),
    ("ex", "vim.basic"),
    ("lua", "lua5.4"),
    ("luac", "luac5.4"),
    ("pager", "less"),
    ("vi", "vim.basic"),
    ("view", "vim.basic"),
    ("vim", "vim.basic"),
    ("vimdiff", "vim.basic"),
    ("which", "which.debianutils"),
];

/// Files that maintainer scripts copy into their place.
const COPIES: [(&str, &str); 6] = [
    ("usr/share/base-files/dot.bashrc", "root/.bashrc"),
    ("usr/share/base-files/nsswitch.conf", "etc/nsswitch.conf"),
    ("usr/share/base-files/profile", "etc/profile"),
    ("usr/share/base-files/dot.profile", "root/.profile"),
    ("usr/share/base-files/motd", "etc/motd"),
    ("usr/share/libc-bin/nsswitch.conf", "etc/nsswitch.conf"),
];

/// Links: name and target. The end of the machine is busybox's, which tells the first process.
const LINKS: [(&str, &str); 7] = [
    ("usr/sbin/halt", "../bin/busybox"),
    ("usr/sbin/poweroff", "../bin/busybox"),
    ("usr/sbin/reboot", "../bin/busybox"),
    ("etc/dpkg/origins/default", "debian"),
    ("var/lock", "/run/lock"),
    ("var/run", "/run"),
    ("var/spool/mail", "../mail"),
];

const SHADOW: u32 = 42;
const UTMP: u32 = 43;
const MAIL: u32 = 8;
/// The ordinary user, as an installer would have asked for it, and the groups that he is in.
const USER: u32 = 1000;
const GROUPS_OF_USER: [&str; 1] = ["sudo"];
/// Days since 1970 at which passwords count as set: the same in every root.
const SET_ON: u32 = 19_500;

/// Folders: name, mode, group.
const FOLDERS: [(&str, u32, u32); 6] = [
    ("media", 0o755, 0),
    ("opt", 0o755, 0),
    ("srv", 0o755, 0),
    ("var/spool", 0o755, 0),
    ("var/mail", 0o2775, MAIL),
    ("run/lock", 0o1777, 0),
];

/// Files that are empty at first: name, mode, group.
const EMPTY: [(&str, u32, u32); 7] = [
    ("etc/environment", 0o644, 0),
    ("etc/security/opasswd", 0o600, 0),
    ("run/utmp", 0o664, UTMP),
    ("var/log/btmp", 0o660, UTMP),
    ("var/log/faillog", 0o644, 0),
    ("var/log/lastlog", 0o664, UTMP),
    ("var/log/wtmp", 0o664, UTMP),
];

/// Part of what a root is made from: to be changed with what [`finish`] does.
pub const VERSION: u32 = 4;

/// Everything that maintainer scripts would have made.
pub fn finish(folder: &Path, owners: &mut Owners) -> Result<()> {
    for (from, to) in COPIES {
        let (from, to) = (folder.join(from), folder.join(to));
        if from.exists() {
            fs::copy(&from, &to).with_context(|| format!("cannot make {}", to.display()))?;
        }
    }
    for (name, program) in ALTERNATIVES {
        let (link, target) = (folder.join("usr/bin").join(name), Path::new(program));
        if folder.join("usr/bin").join(target).exists() && !link.exists() {
            symlink(target, link)?;
        }
    }
    for (path, mode, group) in FOLDERS {
        fs::create_dir_all(folder.join(path))?;
        mode_of(folder, path, mode)?;
        owners.set(path, 0, group);
    }
    for (link, target) in LINKS {
        let link = folder.join(link);
        if link.symlink_metadata().is_ok_and(|there| there.is_dir()) {
            fs::remove_dir(&link)?;
        }
        if link.symlink_metadata().is_err() {
            symlink(target, &link)?;
        }
    }
    for (path, mode, group) in EMPTY {
        file(folder, owners, path, "", (mode, group))?;
    }
    accounts(folder, owners)?;
    let template = |name: &str| fs::read_to_string(folder.join("usr/share").join(name));
    let mut shells = template("debianutils/shells")?;
    shells.push_str(&further_shells(folder)?);
    file(folder, owners, "etc/shells", &shells, (0o644, 0))?;
    let profiles = profiles(&folder.join("usr/share/pam-configs"))?;
    for (name, kind, interactive) in [
        ("auth", "Auth", true),
        ("account", "Account", true),
        ("password", "Password", true),
        ("session", "Session", true),
        ("session-noninteractive", "Session", false),
    ] {
        let text = template(&format!("pam/common-{name}"))?;
        let text = common(&text, &profiles, kind, interactive);
        let path = format!("etc/pam.d/common-{name}");
        file(folder, owners, &path, &text, (0o644, 0))?;
    }
    Ok(())
}

fn mode_of(folder: &Path, path: &str, mode: u32) -> Result<()> {
    fs::set_permissions(folder.join(path), fs::Permissions::from_mode(mode))?;
    Ok(())
}

/// A file of root's with this mode and group.
fn file(
    folder: &Path,
    owners: &mut Owners,
    path: &str,
    text: &str,
    (mode, group): (u32, u32),
) -> Result<()> {
    let place = folder.join(path);
    if let Some(parent) = place.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::write(&place, text).with_context(|| format!("cannot make {}", place.display()))?;
    mode_of(folder, path, mode)?;
    owners.set(path, 0, group);
    Ok(())
}

/// Users and groups of base-passwd with one ordinary user, and nobody's password set.
fn accounts(folder: &Path, owners: &mut Owners) -> Result<()> {
    let master = |name: &str| {
        let path = folder.join("usr/share/base-passwd").join(name);
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
    };
    let users = master("passwd.master")?.replace(":*:", ":x:");
    let users = format!("{users}user:x:{USER}:{USER}:user:/home/user:/bin/bash\n");
    let (mut groups, mut group_shadow) = (String::new(), String::new());
    for line in master("group.master")?.lines() {
        let name = line.split(':').next().unwrap_or_default();
        let member = if GROUPS_OF_USER.contains(&name) {
            "user"
        } else {
            ""
        };
        groups.push_str(&format!("{}{member}\n", line.replace(":*:", ":x:")));
        group_shadow.push_str(&format!("{name}:*::{member}\n"));
    }
    groups.push_str(&format!("user:x:{USER}:\n"));
    group_shadow.push_str("user:!::\n");
    let shadow: String = users
        .lines()
        .filter_map(|line| line.split(':').next())
        .map(|name| match name {
            "user" => format!("{name}:!:{SET_ON}:0:99999:7:::\n"),
            name => format!("{name}:*:{SET_ON}:0:99999:7:::\n"),
        })
        .collect();
    let ids = "user:100000:65536\n";
    for (name, text, mode) in [
        ("passwd", users.as_str(), (0o644, 0)),
        ("group", &groups, (0o644, 0)),
        ("shadow", &shadow, (0o640, SHADOW)),
        ("gshadow", &group_shadow, (0o640, SHADOW)),
        ("subuid", ids, (0o644, 0)),
        ("subgid", ids, (0o644, 0)),
    ] {
        file(folder, owners, &format!("etc/{name}"), text, mode)?;
    }
    let home = "home/user";
    fs::create_dir_all(folder.join(home))?;
    owners.set(home, USER, USER);
    for entry in fs::read_dir(folder.join("etc/skel"))?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        fs::copy(entry.path(), folder.join(home).join(&name))?;
        owners.set(&format!("{home}/{name}"), USER, USER);
    }
    Ok(())
}

/// What packages with shells list, each also by its name below `usr`, as `update-shells` does.
fn further_shells(folder: &Path) -> Result<String> {
    let mut names = Vec::new();
    let lists = fs::read_dir(folder.join("usr/share/debianutils/shells.d"))?;
    for entry in lists.flatten() {
        names.extend(
            fs::read_to_string(entry.path())?
                .lines()
                .filter(|line| line.starts_with('/'))
                .map(str::to_string),
        );
    }
    names.push("/bin/sh".to_string());
    names.sort();
    let both = |name: &String| match name.strip_prefix("/bin/") {
        // The first name stands in the file already.
        Some("sh") => "/usr/bin/sh\n".to_string(),
        Some(short) => format!("{name}\n/usr/bin/{short}\n"),
        None => format!("{name}\n"),
    };
    Ok(names.iter().map(both).collect())
}

/// A profile of `pam-auth-update`: its fields, those of several lines without their indentation.
type Profile = BTreeMap<String, String>;

/// Those that are on by default, the most important first.
fn profiles(folder: &Path) -> Result<Vec<Profile>> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder)?.flatten() {
        all.push(profile(&fs::read_to_string(entry.path())?));
    }
    all.retain(|profile| profile.get("Default").is_some_and(|on| on == "yes"));
    let priority = |profile: &Profile| -> i64 {
        let word = profile.get("Priority");
        word.and_then(|word| word.parse().ok()).unwrap_or(0)
    };
    all.sort_by_key(|profile| std::cmp::Reverse(priority(profile)));
    Ok(all)
}

fn profile(text: &str) -> Profile {
    let mut fields = Profile::new();
    let mut last = String::new();
    for line in text.lines() {
        if line.starts_with([' ', '\t']) {
            let field: &mut String = fields.entry(last.clone()).or_default();
            field.push_str(line.trim());
            field.push('\n');
        } else if let Some((name, value)) = line.split_once(':') {
            last = name.to_string();
            fields.insert(last.clone(), value.trim().to_string());
        }
    }
    fields
}

/// One of PAM's common files, from its template.
fn common(template: &str, profiles: &[Profile], kind: &str, interactive: bool) -> String {
    let word = kind.to_lowercase();
    let block = |which: &str| {
        let mut lines: Vec<String> = Vec::new();
        let wanted = profiles.iter().filter(|profile| {
            profile
                .get(&format!("{kind}-Type"))
                .is_some_and(|of| of == which)
                && (interactive || !profile.contains_key(&format!("{kind}-Interactive-Only")))
        });
        for profile in wanted {
            let first = profile
                .get(&format!("{kind}-Initial"))
                .filter(|_| lines.is_empty());
            let text = first.or_else(|| profile.get(kind));
            lines.extend(text.into_iter().flat_map(|t| t.lines()).map(str::to_string));
        }
        let count = lines.len();
        let numbered = lines.iter().enumerate().map(|(at, line)| {
            let line = line.replace("=end", &format!("={}", count - at));
            format!("{word}\t{line}\n")
        });
        let text: String = numbered.collect();
        match (which, text.is_empty()) {
            ("Primary", true) => format!("{word}\t[default=1]\t\t\tpam_permit.so\n"),
            _ => text,
        }
    };
    let mut text = String::new();
    for line in template.lines() {
        match line.strip_prefix('$') {
            Some(variable) if variable.ends_with("_primary") => text.push_str(&block("Primary")),
            Some(_) => text.push_str(&block("Additional")),
            None => text.push_str(&format!("{line}\n")),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_files_are_as_pam_auth_update_makes_them() {
        let unix = profile("Name: Unix\nDefault: yes\nPriority: 256\nAuth-Type: Primary\nAuth:\n\t[success=end default=ignore]\tpam_unix.so try_first_pass\nAuth-Initial:\n\t[success=end default=ignore]\tpam_unix.so nullok\nSession-Type: Additional\nSession:\n\trequired\tpam_unix.so\n");
        let template = "# text\n$auth_primary\nauth\trequisite\tpam_deny.so\n$auth_additional\n";
        let text = common(template, &[unix], "Auth", true);
        assert_eq!(
            text,
            "# text\nauth\t[success=1 default=ignore]\tpam_unix.so nullok\nauth\trequisite\tpam_deny.so\n"
        );
        let second = profile("Auth-Type: Primary\nAuth:\n\t[success=end]\tb.so\n");
        let both = [
            profile("Auth-Type: Primary\nAuth:\n\t[success=end]\ta.so\n"),
            second,
        ];
        let text = common("$auth_primary\n", &both, "Auth", true);
        assert_eq!(text, "auth\t[success=2]\ta.so\nauth\t[success=1]\tb.so\n");
        let text = common("$session_primary\n", &both, "Session", true);
        assert_eq!(text, "session\t[default=1]\t\t\tpam_permit.so\n");
    }

    #[test]
    fn modules_for_people_only_are_left_out_elsewhere() {
        let home = profile(
            "Session-Type: Additional\nSession-Interactive-Only: yes\nSession:\n\toptional\tm.so\n",
        );
        let with = |interactive| {
            common(
                "$session_additional\n",
                std::slice::from_ref(&home),
                "Session",
                interactive,
            )
        };
        assert_eq!(with(true), "session\toptional\tm.so\n");
        assert_eq!(with(false), "");
    }
}
