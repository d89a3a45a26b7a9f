//! An ISO 9660 image as Debian's xorriso makes it (Rock Ridge and Joliet), for `disk/iso`: the same bytes each time, so that what Linux says of it can be kept.

use crate::{packages, places, progress};
use anyhow::Result;
use std::fs;
use std::os::unix::fs::{symlink, PermissionsExt};
use std::path::Path;
use std::process::Command;

/// What it depends on.
pub const SOURCES: [&[u8]; 2] = [
    include_bytes!("iso.rs"),
    include_bytes!("../../tests/disk/map.c"),
];

/// Make it, from a folder beside it that is gone afterwards.
pub fn make(path: &Path) -> Result<()> {
    let folder = path.with_extension("tree");
    let _ = fs::remove_dir_all(&folder);
    let _ = fs::remove_file(path);
    tree(&folder)?;
    let mut command = Command::new("xorriso");
    command.args(["-report_about", "WARNING", "-hardlinks", "on", "-joliet"]);
    command.args(["on", "-padding", "0", "-volid", "CAIRN", "-outdev"]);
    command.arg(path).arg("-map").arg(&folder).arg("/");
    for (all, owner) in [("-chown_r", "0"), ("-chgrp_r", "0")] {
        command.args([all, owner, "/", "--"]);
    }
    command.args(["-chown", "1000", "/small", "/modes/private", "--"]);
    command.args(["-chgrp", "50", "/small", "--"]);
    for (which, date) in [("m", 1_000_000_007), ("a", 1_100_000_000)] {
        command.args(["-alter_date_r", which, &format!("={date}"), "/", "--"]);
    }
    command.args(["-alter_date", "m", "=86400", "/empty", "--"]);
    progress::run("making an ISO 9660 image", &mut command)?;
    fs::remove_dir_all(&folder)?;
    Ok(())
}

fn tree(top: &Path) -> Result<()> {
    let folder = |name: &str| fs::create_dir_all(top.join(name));
    let file = |name: &str, bytes: &[u8]| fs::write(top.join(name), bytes);
    let link = |to: &str, name: &str| symlink(to, top.join(name));
    let mode =
        |name: &str, mode| fs::set_permissions(top.join(name), fs::Permissions::from_mode(mode));
    folder("many")?;
    folder("modes")?;
    folder("a/b/c/d/e/f/g/h/i/j")?;
    file("small", b"small\n")?;
    file("empty", b"")?;
    let pattern: Vec<u8> = (0..3_000_001_u32).map(|i| (i * 7 % 251) as u8).collect();
    file("large", &pattern)?;
    for length in [2047, 2048, 2049, 4095, 4096, 4097, 6144] {
        file(&format!("length-{length}"), &pattern[..length])?;
    }
    fs::copy(packages::busybox()?, top.join("busybox"))?;
    mode("busybox", 0o755)?;
    let mut compiler = Command::new("gcc");
    compiler.args(["-static", "-O1", "-o"]).arg(top.join("map"));
    compiler.arg(places::root().join("tests/disk/map.c"));
    progress::run("compiling map.c", &mut compiler)?;
    for i in 0..300 {
        file(
            &format!("many/A file with the number {i}.txt"),
            format!("{i}\n").as_bytes(),
        )?;
    }
    file("a/b/c/d/e/f/g/h/i/j/deep", b"deep\n")?;
    file(&"long-".repeat(40), b"long\n")?;
    file("grüße 日本", b"letters\n")?;
    file("Case", b"upper\n")?;
    file("case", b"lower\n")?;
    fs::hard_link(top.join("small"), top.join("a/small-too"))?;
    link("small", "to-small")?;
    link("../../small", "a/b/up")?;
    link("/etc/passwd", "to-root")?;
    link("nowhere", "dangling")?;
    link("./a/../a/b//c", "dots")?;
    link(&"x/".repeat(200), "long-link")?;
    link(&"y".repeat(250), "long-part")?;
    link(".", "self")?;
    link("..", "above")?;
    link("/", "root")?;
    for (name, bits) in [
        ("private", 0o600),
        ("none", 0),
        ("setuid", 0o4755),
        ("all", 0o666),
    ] {
        file(&format!("modes/{name}"), name.as_bytes())?;
        mode(&format!("modes/{name}"), bits)?;
    }
    folder("modes/sticky")?;
    mode("modes/sticky", 0o1777)?;
    Ok(())
}
