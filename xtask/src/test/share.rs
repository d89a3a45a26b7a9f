//! `entrance/share`: folders of the host in the guest, by `--share`.

use super::entrance::{ourselves, Scratch};
use super::stress::sha256;
use super::Verdict;
use anyhow::Result;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

/// Files of one folder, and bytes of a large file.
const MANY: usize = 1000;
const LARGE: usize = 10 << 20;

/// In the guest: the host's files are read, others are written, the component dies in between with files open.
const SCRIPT: &str = r#"
cd /host && cat hello && sha256sum <large | cut -d ' ' -f 1
ls many | wc -l; cat many/* | sha256sum | cut -d ' ' -f 1
echo written >new && chmod 640 new && mv new sub/renamed && ln -s hello sub/link && ln hello hard
mkdir sub/gone && rmdir sub/gone && echo x >removed && rm removed && cp large copy && echo more >>hard && truncate -s 5 cut
i=0; while [ $i -lt 200 ]; do echo $i >made/$i; i=$((i+1)); done; touch made/0
[ $(stat -c %u secret) = 1000 ] && other=nobody || other=user
su $other -s /bin/sh -c 'cat /host/secret; echo x >/host/hello' 2>&1
cp /bin/busybox program && ln -s program sh && ./sh -c 'echo a program of the host runs'
exec 3<lines 4>>log
read line <&3; echo $line; echo before >&4
cairn-ctl restart share0 >/dev/null
read line <&3; echo $line; echo behind >&4; cat hello log
(i=0; while [ $i -lt 100 ]; do echo $i >>appended; i=$((i+1)); done) & cairn-ctl restart share0 >/dev/null; wait
grep ' /host ' /proc/mounts; cat /second/hello
"#;

pub fn share() -> Result<Verdict> {
    if let Err(why) = mistakes()? {
        return Ok(Err(why));
    }
    let (first, second) = (Scratch::new("share")?, Scratch::new("share,2")?);
    let here = |name: &str| first.0.join(name);
    let large: Vec<u8> = (0..LARGE as u32)
        .flat_map(|i| (i / 7 % 251).to_le_bytes())
        .collect();
    let large = &large[..LARGE];
    for folder in ["many", "sub", "made"] {
        fs::create_dir_all(here(folder))?;
    }
    for number in 0..MANY {
        fs::write(
            here("many").join(format!("{number:04}")),
            number.to_string(),
        )?;
    }
    fs::write(here("hello"), "from the host\n")?;
    fs::write(here("lines"), "one\ntwo\n")?;
    fs::write(here("large"), large)?;
    fs::write(here("secret"), "secret\n")?;
    fs::set_permissions(here("secret"), fs::Permissions::from_mode(0o600))?;
    fs::set_permissions(here("hello"), fs::Permissions::from_mode(0o644))?;
    fs::write(second.0.join("hello"), "another folder\n")?;
    let shares = [
        format!("{}:/host", first.0.display()),
        format!("{}:/second", second.0.display()),
    ];
    let [one, two] = [&shares[0], &shares[1]];
    let arguments = [
        "exec", "--share", one, "--share", two, "--", "sh", "-c", SCRIPT,
    ];
    let (text, said, status) = ourselves(&arguments)?;
    let many: String = (0..MANY).map(|number| number.to_string()).collect();
    let expected = format!(
        "from the host\n{}\n{MANY}\n{}\ncat: can't open '/host/secret': Permission denied\n\
         sh: can't create /host/hello: Permission denied\na program of the host runs\n\
         one\ntwo\nfrom the host\nmore\nbefore\nbehind\nshare0 /host 9p rw,relatime 0 0\nanother folder\n",
        sha256(large),
        sha256(many.as_bytes())
    );
    if text != expected || status != Some(0) {
        return Ok(Err(format!("{text}status {status:?}:\n{said}")));
    }
    let content = |name: &str| fs::read(here(name)).unwrap_or_default();
    let mode = |name: &str| fs::metadata(here(name)).map_or(0, |about| about.mode() & 0o7777);
    let hundred: String = (0..100).map(|number| format!("{number}\n")).collect();
    let made = fs::read_dir(here("made"))?.count();
    let modified = |name: &str| fs::metadata(here(name)).and_then(|about| about.modified());
    let wrong = [
        (
            "sub/renamed",
            content("sub/renamed") == b"written\n" && mode("sub/renamed") == 0o640,
        ),
        (
            "sub/link",
            fs::read_link(here("sub/link"))?.as_os_str() == "hello",
        ),
        ("hello", content("hello") == b"from the host\nmore\n"),
        (
            "removed",
            !here("removed").exists() && !here("sub/gone").exists(),
        ),
        ("copy", content("copy") == large),
        ("cut", content("cut") == [0; 5]),
        ("made", made == 200 && content("made/199") == b"199\n"),
        // Times of `touch` and of writing are one clock's, whatever the guest's says.
        ("touched", modified("made/0")? >= modified("made/199")?),
        ("appended", content("appended") == hundred.as_bytes()),
        ("log", content("log") == b"before\nbehind\n"),
    ];
    let wrong: Vec<&str> = wrong
        .iter()
        .filter(|(_, right)| !right)
        .map(|(name, _)| *name)
        .collect();
    Ok(match wrong.is_empty() {
        true => Ok(()),
        false => Err(format!("on the host these are wrong: {wrong:?}")),
    })
}

/// What cannot be shared is told, with status 253 and before anything boots.
fn mistakes() -> Result<Verdict> {
    for (share, said_of_it) in [
        ("/no-such-folder:/host", "/no-such-folder"),
        ("/proc/version:/host", "no folder"),
        ("/tmp:host", "whole path"),
    ] {
        let (text, said, status) = ourselves(&["exec", "--share", share, "--", "true"])?;
        if !said.contains(said_of_it) || !text.is_empty() || status == Some(0) {
            return Ok(Err(format!("{share}: {text}, status {status:?}:\n{said}")));
        }
    }
    Ok(Ok(()))
}
