//! Roles: what a component may ask of `proc` and `vm`, by name. A manifest names them, the badge of the portal says them, and these two refuse the rest.

use crate::Roles;
use alloc::format;
use alloc::string::String;
use cairn_idl::proc::role;
use cairn_idl::vm;

/// Of `proc`: bits.
const PROC: [(&str, u64); 13] = [
    ("groups", role::GROUPS),
    ("terminal", role::TERMINAL),
    ("mount", role::MOUNT),
    ("start", role::START),
    ("inspect", role::INSPECT),
    ("hostname", role::HOSTNAME),
    ("set_id", role::SET_ID),
    ("spaces", role::SPACES),
    ("cgroup", role::CGROUP),
    ("lives", role::LIVES),
    ("signals", role::SIGNALS),
    ("memory", role::MEMORY),
    ("keys", role::KEYS),
];

/// Of `vm`: one at a time.
const VM: [(&str, u64); 3] = [
    ("control", vm::BADGE_CONTROL),
    ("inspect", vm::BADGE_INSPECT),
    ("devices", vm::BADGE_DEVICES),
];

/// The badge of a portal to this component; why not is said in words. A number is a badge only where there are no roles, and at `vm` a driver's.
pub fn badge(to: &str, number: u64, roles: &Roles) -> Result<u64, String> {
    let names = roles.names();
    let table: &[(&str, u64)] = match to {
        "proc" => &PROC,
        "vm" => &VM,
        _ if names.is_empty() => return Ok(number),
        _ => return Err(format!("`{to}` has no roles")),
    };
    let driver = to == "vm" && (vm::BADGE_DRIVER_FIRST..=vm::BADGE_DRIVER_LAST).contains(&number);
    if driver && names.is_empty() {
        return Ok(number);
    }
    if number != 0 {
        return Err(format!("`{to}` has roles, not badges"));
    }
    if to == "vm" && names.len() > 1 {
        return Err("a portal to `vm` has one role".into());
    }
    names.iter().try_fold(0, |all, name| {
        let found = table.iter().find(|(known, _)| known == name);
        let (_, bit) = found.ok_or_else(|| format!("`{to}` has no role `{name}`"))?;
        Ok(all | bit)
    })
}

#[cfg(test)]
mod tests {
    use crate::{parse, Grant, Invalid};
    use std::collections::BTreeMap;

    /// Who of a manifest holds what of `proc` and `vm`, beside the ordinary portals.
    fn holders(text: &str) -> BTreeMap<String, Vec<String>> {
        let manifest = parse(text).unwrap();
        let components = manifest.components.iter().map(|c| (&c.name, &c.portals));
        let lines = manifest.filesystems.iter().map(|l| (&l.kind, &l.portals));
        let mut all = BTreeMap::new();
        for (name, portals) in components.chain(lines) {
            for grant in portals.values() {
                let Grant::Call { to, badge, role } = grant else {
                    continue;
                };
                if !matches!(to.as_str(), "proc" | "vm") || *badge == 0 {
                    continue;
                }
                let held: &mut Vec<String> = all.entry(name.clone()).or_default();
                held.extend(role.names().iter().map(|role| format!("{to}:{role}")));
            }
        }
        all
    }

    #[test]
    fn each_component_of_the_system_has_the_roles_that_it_uses() {
        let text = include_str!("../../../system/system.toml");
        let all = holders(text);
        let expected: [(&str, &[&str]); 17] = [
            ("blockdev", &["proc:groups"]),
            ("cgroup2", &["proc:groups", "proc:inspect", "proc:cgroup"]),
            ("devfs", &["proc:groups"]),
            ("event", &["proc:lives", "proc:signals"]),
            ("filter", &["proc:inspect"]),
            (
                "ipc",
                &["proc:groups", "proc:inspect", "proc:lives", "proc:signals"],
            ),
            ("keys", &["proc:keys"]),
            ("local", &["proc:inspect"]),
            // (A driver's badge.)
            ("loop", &[]),
            ("net", &["proc:inspect"]),
            ("pipe", &["proc:groups"]),
            ("proc", &["vm:control"]),
            (
                "procfs",
                &[
                    "proc:groups",
                    "proc:inspect",
                    "proc:hostname",
                    "proc:spaces",
                    "proc:memory",
                    "vm:inspect",
                ],
            ),
            ("random", &["proc:groups"]),
            ("sysfs", &["proc:groups"]),
            // (And the line by which mount(2) makes further ones.)
            (
                "tmpfs",
                &["proc:groups", "proc:set_id", "proc:groups", "proc:set_id"],
            ),
            ("tty", &["proc:groups", "proc:terminal"]),
        ];
        let names: Vec<&str> = all.keys().map(String::as_str).collect();
        assert_eq!(names, expected.map(|(name, _)| name));
        for (name, roles) in expected {
            assert_eq!(all[name], roles, "{name}");
        }
    }

    #[test]
    fn a_right_is_a_role_that_is_known_and_no_number() {
        let with = |grant: &str| {
            parse(&format!(
                "[first]\npath = \"/i\"\n\
                 [[component]]\nname = \"vm\"\nbinary = \"/v\"\npriority = 1\n\
                 [[component]]\nname = \"proc\"\nbinary = \"/p\"\npriority = 1\n\
                 [[component]]\nname = \"x\"\nbinary = \"/x\"\npriority = 1\nportals = {{ p = {grant} }}\n"
            ))
        };
        let badge = |grant: &str| match with(grant).unwrap().components[2].portals["p"] {
            Grant::Call { badge, .. } => badge,
            _ => panic!("no call"),
        };
        assert_eq!(badge("{ to = \"proc\", role = \"groups\" }"), 1);
        assert_eq!(
            badge("{ to = \"proc\", role = [\"groups\", \"terminal\"] }"),
            3
        );
        assert_eq!(badge("{ to = \"proc\" }"), 0);
        assert_eq!(badge("{ to = \"vm\", role = \"control\" }"), 1);
        assert_eq!(badge("{ to = \"vm\", badge = 2 }"), 2);
        assert_eq!(badge("{ to = \"x\", badge = 99 }"), 99);
        for wrong in [
            "{ to = \"proc\", badge = 1 }",
            "{ to = \"proc\", role = \"everything\" }",
            "{ to = \"proc\", role = [\"groups\", \"all\"] }",
            "{ to = \"proc\", role = \"control\" }",
            "{ to = \"vm\", badge = 1 }",
            "{ to = \"vm\", badge = 17 }",
            "{ to = \"vm\", role = \"groups\" }",
            "{ to = \"vm\", role = [\"control\", \"inspect\"] }",
            "{ to = \"vm\", badge = 2, role = \"control\" }",
            "{ to = \"x\", role = \"groups\" }",
        ] {
            let Err(Invalid(why)) = with(wrong) else {
                panic!("{wrong} is taken");
            };
            assert!(why.contains("`x`"), "{why}");
        }
    }
}
