//! Suite `entrance`: commands of `./cairn` itself, called as a person calls them, where no other suite goes through them.

use super::lanes::Work;
use super::{Report, Verdict};
use crate::log::Log;
use crate::verdict::WITHOUT_READER;
use crate::{build, debian, places};
use anyhow::{Context, Result};
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Far more than it takes: the longest configures a Debian root first.
const LIMIT: Duration = Duration::from_secs(900);

/// Breakpoints in the order in which they are reached, and a function that must be among their callers: in the nucleus, in a server, in the personality.
/// (Whether the compiler makes functions of them does not matter: GDB finds what was inlined, too.)
const STOPS: [(&str, &str); 3] = [
    ("cairn_kernel::arch::x86_64::start::start", "pvh_start"),
    ("cairn_tmpfs::inode::Inodes::insert", "tmpfs::cairn_start"),
    (
        "cairn_linux::first::run",
        "cairn_linux::machine::start::start",
    ),
];

/// Where an instruction that is none is put into the code of a running system, how the log tells that, and what must be among the callers then.
const CRASHES: [(&str, &str, &str); 2] = [
    (
        "cairn_kernel::pool::Extent::take",
        "nucleus panic: exception 6",
        "other_entry",
    ),
    ("init::first_process", " ends by exception 6", "init::main"),
];

type Test = fn() -> Result<Verdict>;

/// Pieces of work. The first makes Debian's configured root, if there is none; the last want it, and would wait for it. What is in one piece is done one
/// after the other: it uses the same disk of the host, or GDB.
const PIECES: [&[(&str, Test)]; 13] = [
    &[("entrance/9p", super::ninep::served)],
    &[("entrance/disks", disks)],
    &[("entrance/share", super::share::share)],
    &[("entrance/deadline", deadline)],
    &[("entrance/trace", trace)],
    &[("entrance/forward", forward)],
    &[
        ("entrance/debug", debug),
        ("entrance/crash", crash),
        ("entrance/dead-at-start", dead_at_start),
    ],
    &[("entrance/alone", alone)],
    &[("entrance/driver", super::recipe::driver)],
    &[("entrance/window", super::window::window)],
    &[("entrance/head", head)],
    &[
        ("entrance/package", package),
        ("entrance/failing-package", failing_package),
        ("entrance/root", root),
    ],
    &[("entrance/ssh", super::ssh::ssh)],
];

pub fn work(report: &Report) -> Result<Vec<Work<'_>>> {
    let mut work: Vec<Work> = Vec::new();
    for piece in PIECES {
        let wanted = piece
            .iter()
            .copied()
            .filter(|test| is_wanted(report, test.0));
        let wanted: Vec<(&str, Test)> = wanted.collect();
        if wanted.is_empty() {
            continue;
        }
        work.push(Box::new(move || {
            for (name, test) in wanted {
                let begun = Instant::now();
                let verdict = test()?;
                report.result(name, begun.elapsed(), verdict);
            }
            Ok(())
        }));
    }
    if !work.is_empty() {
        build::system()?;
    }
    Ok(work)
}

/// It is asked for, and there is what it needs.
fn is_wanted(report: &Report, name: &str) -> bool {
    const NEED_GDB: [&str; 3] = ["entrance/debug", "entrance/crash", "entrance/dead-at-start"];
    if !report.wants(name) {
        return false;
    }
    if NEED_GDB.contains(&name) && !there_is_gdb() {
        println!("skip  {name}: there is no gdb (`./cairn debug` installs it)");
        return false;
    }
    if name == "entrance/ssh" && !super::ssh::there_is_ssh() {
        println!("skip  {name}: there is no ssh (`./cairn run --ssh` installs it)");
        return false;
    }
    true
}

fn there_is_gdb() -> bool {
    let there = Command::new("gdb")
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    there.is_ok()
}

/// Components that the book says a system can do without.
const SPARE: [&str; 7] = ["net", "local", "ipc", "sysfs", "filter", "loop", "deadline"];

/// The standard manifest without what can be left out.
fn smaller(standard: &str) -> String {
    let mut text = String::new();
    for section in standard.split("\n[[") {
        let spare = SPARE.map(|name| format!("\nname = \"{name}\"\n"));
        if section.starts_with("filesystem]]") || spare.iter().any(|name| section.contains(name)) {
            continue;
        }
        if !text.is_empty() {
            text.push_str("\n[[");
        }
        text.push_str(section);
    }
    for name in SPARE {
        for badge in ["", ", badge = 1"] {
            text = text.replace(&format!("{name} = {{ to = \"{name}\"{badge} }}, "), "");
        }
    }
    text
}

/// A system of `vm` and one component, whose end is the machine's; the standard one without what it can do without; and one whose first process is a program
/// of its own.
fn alone() -> Result<Verdict> {
    let folder = Scratch::new("smaller")?;
    let small = folder.0.join("small.toml");
    let standard = places::root().join("system/system.toml");
    std::fs::write(&small, smaller(&std::fs::read_to_string(standard)?))?;
    let small = small.display().to_string();
    let script =
        "echo hello | cat; cairn-ctl ps | cut -d ' ' -f 1 | grep -c .; cat /sys/* 2>/dev/null";
    let arguments = ["exec", "--only", "--with", &small, "--", "sh", "-c", script];
    let (text, said, status) = ourselves(&arguments)?;
    // A line of heads, and `vm` to `procfs`, `init` among them.
    if text != "hello\n15\n" || status != Some(1) {
        return Ok(Err(format!("{text:?}, status {status:?}:\n{said}")));
    }
    let own = folder.0.join("own.toml");
    let standard = std::fs::read_to_string(places::root().join("system/system.toml"))?;
    let first = "path = \"/bin/sh\"\narguments = [\"-c\", \"echo the process $$\"]";
    std::fs::write(&own, standard.replace("path = \"/sbin/init\"", first))?;
    let own = own.display().to_string();
    let arguments = ["run", "--headless", "-v", "--only", "--with", &own];
    let (text, said, _) = ourselves(&arguments)?;
    if text.trim() != "the process 1" || !said.contains("the first process ended with 0") {
        return Ok(Err(format!("{text:?}:\n{said}")));
    }
    let file = places::root().join("sdk/examples/alone/alone.toml");
    let with = ["--only", "--with", &file.display().to_string()].map(str::to_string);
    let words: Vec<&str> = with.iter().map(String::as_str).collect();
    let (_, said, status) = ourselves(&[&["run", "--headless", "-v"], &words[..]].concat())?;
    let domains = said.matches("` is domain ").count();
    if !said.contains("alone: nothing else is here") || domains != 2 || status == Some(0) {
        let what = format!("{domains} components, the end is {status:?}:\n{said}");
        return Ok(Err(what));
    }
    let (_, said, _) = ourselves(&[&["exec"], &words[..], &["--", "true"]].concat())?;
    Ok(match said.contains("runs no commands") {
        true => Ok(()),
        false => Err(format!("exec says: {said}")),
    })
}

/// Nobody reads what is printed: `./cairn` ends as other programs do then, and says nothing.
fn head() -> Result<Verdict> {
    let (reader, writer) = std::io::pipe()?;
    drop(reader);
    let output = Command::new(std::env::current_exe()?)
        .arg("idl")
        .stdin(Stdio::null())
        .stdout(writer)
        .stderr(Stdio::piped())
        .spawn()?
        .wait_with_output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !said.is_empty() || output.status.code() != Some(WITHOUT_READER.into()) {
        return Ok(Err(format!("it ended with {}: {said}", output.status)));
    }
    Ok(Ok(()))
}

/// As many disks as there may be: the firmware's memory for them reaches into the boot archive's, and the system comes up with all of them.
fn disks() -> Result<Verdict> {
    let folder = places::build().join("tests");
    std::fs::create_dir_all(&folder)?;
    let mut arguments = vec!["exec".to_string()];
    for number in 0..crate::composition::MOST {
        let file = folder.join(format!("disk-{number}.img"));
        let made = std::fs::File::create(&file).and_then(|file| file.set_len(1 << 20));
        made.with_context(|| format!("cannot make {}", file.display()))?;
        arguments.extend(["--disk".to_string(), file.display().to_string()]);
    }
    arguments.extend(["--", "sh", "-c", "cat /dev/vd? | wc -c"].map(str::to_string));
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (text, said, status) = ourselves(&arguments)?;
    let expected = (crate::composition::MOST << 20).to_string();
    if text.trim() != expected || status != Some(0) {
        let what = format!("{text:?} in place of {expected}, status {status:?}:\n{said}");
        return Ok(Err(what));
    }
    Ok(Ok(()))
}

/// The book's program keeps its deadlines beside load as a real-time program, and not as an ordinary one. (Guest instructions are counted.)
fn deadline() -> Result<Verdict> {
    /// Above what was seen (29,220), and far below what an ordinary program waits.
    const MOST: u64 = 100_000;
    const ORDINARY: u64 = 1_000_000;
    let folder = Scratch::new("deadline")?;
    let program = folder.0.join("deadline");
    let source = places::root().join("sdk/examples/deadline.c");
    super::programs::compile("gcc", &source, &program)?;
    let add = format!("{}:/bin/deadline", program.display());
    let script = "while :; do ls -lR /proc >/dev/null 2>&1; done & deadline 80; deadline 0";
    let arguments = ["exec", "--icount", "--add", &add, "--", "sh", "-c", script];
    let (text, said, status) = ourselves(&arguments)?;
    let late = |priority: u32| {
        let begin = format!("priority {priority}: 1000 turns, the latest ");
        let line = text.lines().find_map(|line| line.strip_prefix(&begin))?;
        line.strip_suffix(" ns late")?.parse::<u64>().ok()
    };
    Ok(match (late(80), late(0), status) {
        (Some(0..=MOST), Some(ORDINARY..), Some(0)) => Ok(()),
        _ => Err(format!("{text:?}, status {status:?}:\n{said}")),
    })
}

/// The host reaches servers of the guest by forwarded ports; what it sends to the second one ends the machine. (One of UDP is only taken by QEMU.)
fn forward() -> Result<Verdict> {
    let (page, end, udp) = (free_port()?, free_port()?, free_port()?);
    let guest = std::thread::spawn(move || {
        let ports = [
            format!("{page}:80"),
            format!("{end}:7"),
            format!("{udp}:7/udp"),
        ];
        let mut arguments = vec!["exec"];
        for port in &ports {
            arguments.extend(["--forward", port]);
        }
        arguments.extend(["--", "sh", "-c", "httpd -p 80 -h /etc; nc -l -p 7"]);
        ourselves(&arguments)
    });
    let mut found = String::new();
    while !guest.is_finished() {
        // QEMU takes connections before there is somebody in the guest who does.
        if found.is_empty() {
            found = fetch(page).unwrap_or_default();
        } else if let Ok(mut stream) = TcpStream::connect((Ipv4Addr::LOCALHOST, end)) {
            let _ = stream.write_all(b"over\n");
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    let ended = guest.join();
    let (text, said, status) = ended.map_err(|_| anyhow::anyhow!("the thread failed"))??;
    let there = found.starts_with("HTTP/1.1 200") && found.contains("cairn");
    Ok(match (there, text.as_str(), status) {
        (true, "over\n", Some(0)) => Ok(()),
        _ => Err(format!("{found:?}, {text:?}, status {status:?}:\n{said}")),
    })
}

/// Nobody else takes it: a port that was let go is not given again soon.
pub(super) fn free_port() -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok(listener.local_addr()?.port())
}

/// What a server of the guest has for the host's name. An error, or nothing: it does not listen yet.
fn fetch(port: u16) -> std::io::Result<String> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    stream.write_all(b"GET /hostname HTTP/1.0\r\n\r\n")?;
    let mut page = String::new();
    stream.read_to_string(&mut page)?;
    Ok(page)
}

/// A package that the standard Debian root has not comes with what it needs, dpkg configured all of it, and the guest's apt gets more over the network.
fn package() -> Result<Verdict> {
    let folder = Scratch::new("archive")?;
    // Nobody's: people calculate with bc. What an older version made of it proves nothing.
    let further = ["dc".to_string()];
    let collection = debian::Collection(&further);
    collection.forget()?;
    let archive = folder.0.join("archive");
    let script = ("postinst", "install -d -o user -m 700 /var/lib/greeting");
    let control = deb(&archive, "greeting", script)?;
    packages_list(&archive, "greeting", &control)?;
    let port = serve(archive)?;
    let script = format!(
        "dc -e '2 64 ^ p' && dpkg-query -W -f '${{Status}}\n' dc && dpkg -S /usr/bin/dc\n\
         dpkg -l | grep '^[a-z]' | grep -v '^ii'; dpkg --audit; getent passwd _apt | cut -d : -f 1; update-alternatives --query vi | grep ^Status\n\
         echo 'deb [trusted=yes] http://10.0.2.2:{port}/ ./' >/etc/apt/sources.list\n\
         {{ apt-get update && apt-get install -y cairn-greeting; }} >/tmp/said 2>&1 || cat /tmp/said; greeting; stat -c '%U %a' /var/lib/greeting"
    );
    let arguments = "exec --package dc --snapshot --net user -- sh -c";
    let arguments: Vec<&str> = arguments.split(' ').chain([script.as_str()]).collect();
    // Another one wants the same root while it is made: it waits.
    let other = std::thread::spawn(|| {
        let same = "exec --package dc --snapshot -- dpkg-query -W -f ${Status} dc";
        ourselves(&same.split(' ').collect::<Vec<&str>>())
    });
    let (text, said, status) = ourselves(&arguments)?;
    let other = other.join();
    collection.forget()?;
    let (there, told, ended) = other.map_err(|_| anyhow::anyhow!("the thread failed"))??;
    if there != "install ok installed" || ended != Some(0) {
        let what = format!("a second one at once: {there:?}, status {ended:?}:\n{told}");
        return Ok(Err(what));
    }
    let expected = "18446744073709551616\ninstall ok installed\ndc: /usr/bin/dc\n_apt\nStatus: auto\nhello\nuser 700\n";
    if text != expected || status != Some(0) {
        return Ok(Err(format!("{text:?}, status {status:?}:\n{said}")));
    }
    Ok(Ok(()))
}

/// A folder becomes the root, with what a system needs beside; what the machine changes does not come back.
fn root() -> Result<Verdict> {
    let folder = Scratch::new("root")?;
    let programs = folder.0.join("bin");
    std::fs::create_dir_all(&programs)?;
    std::fs::copy(crate::packages::busybox()?, programs.join("sh"))?;
    let script = "cd /tmp && echo x >new && read line <new && echo $line /bin/* && test -k /tmp && test -d /proc/self";
    let path = folder.0.display().to_string();
    let (text, said, status) = ourselves(&["exec", "--root", &path, "--", "sh", "-c", script])?;
    if text != "x /bin/sh\n" || status != Some(0) || folder.0.join("tmp").exists() {
        return Ok(Err(format!("{text:?}, status {status:?}:\n{said}")));
    }
    Ok(Ok(()))
}

/// A folder that is gone with this value.
pub(super) struct Scratch(pub PathBuf);

impl Scratch {
    pub(super) fn new(name: &str) -> Result<Scratch> {
        let path = places::build()
            .join("disks")
            .join(format!("entrance-{name}"));
        std::fs::create_dir_all(&path)?;
        Ok(Scratch(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What is left lies among the host's temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Scripts of packages fail: the error names the package, with what the script said. If its files are not there, there is no root.
fn failing_package() -> Result<Verdict> {
    let installed = |script: (&str, &str)| -> Result<Result<String>> {
        let folder = Scratch::new("failing")?;
        let archive = folder.0.join("archive");
        deb(&archive, "frob", script)?;
        std::fs::remove_dir_all(archive.join("tree"))?;
        let failures = debian::install_onto_copy(&folder.0.join("root.ext4"), &archive);
        Ok(failures.map(|texts| texts.join("\n")))
    };
    let told = |text: &str, first: &str, line: &str| {
        let mut lines = text.lines();
        lines.next().is_some_and(|is| is.starts_with(first)) && lines.next() == Some(line)
    };
    let before = match installed(("preinst", "echo there is no frob; exit 3"))? {
        Ok(said) => return Ok(Err(format!("no error, but: {said}"))),
        Err(why) => format!("{why:#}"),
    };
    let first = "cairn-frob could not be installed: ";
    if !told(&before, first, "  | there is no frob") {
        return Ok(Err(before));
    }
    let after = installed(("postinst", "echo the frob is broken; exit 4"))??;
    let first = "cairn-frob is not configured (dpkg: half-configured): ";
    Ok(match told(&after, first, "  | the frob is broken") {
        true => Ok(()),
        false => Err(after),
    })
}

/// A package `cairn-NAME` with a program NAME and a script, as a file; what it says of itself is the answer.
fn deb(archive: &Path, name: &str, (kind, script): (&str, &str)) -> Result<String> {
    use std::os::unix::fs::PermissionsExt;
    let tree = archive.join("tree");
    if tree.exists() {
        std::fs::remove_dir_all(&tree)?;
    }
    let control = format!("Package: cairn-{name}\nVersion: 1\nArchitecture: all\nMaintainer: x <x@x>\nDescription: x\n");
    for (path, text) in [
        ("DEBIAN/control", control.as_str()),
        (
            &format!("DEBIAN/{kind}"),
            &format!("#!/bin/sh\nset -e\n{script}\n"),
        ),
        (&format!("usr/bin/{name}"), "#!/bin/sh\necho hello\n"),
    ] {
        let path = tree.join(path);
        std::fs::create_dir_all(path.parent().context("no folder")?)?;
        std::fs::write(&path, text)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))?;
    }
    let built = Command::new("dpkg-deb")
        .args(["--root-owner-group", "--build"])
        .arg(&tree)
        .arg(archive.join(format!("cairn-{name}_1_all.deb")))
        .stdout(Stdio::null())
        .status()
        .context("cannot start dpkg-deb")?;
    anyhow::ensure!(built.success(), "dpkg-deb failed");
    Ok(control)
}

/// What makes a folder with one package's file an archive of apt's.
fn packages_list(archive: &Path, name: &str, control: &str) -> Result<()> {
    let content = std::fs::read(archive.join(format!("cairn-{name}_1_all.deb")))?;
    use sha2::{Digest, Sha256};
    let sum: String = Sha256::digest(&content)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let list = format!(
        "{control}Filename: ./cairn-{name}_1_all.deb\nSize: {}\nSHA256: {sum}\n",
        content.len()
    );
    std::fs::write(archive.join("Packages"), list)?;
    Ok(())
}

/// The files of a folder by HTTP, on a port of this computer's own, as long as this process lives.
fn serve(folder: PathBuf) -> Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let folder = folder.clone();
            // Who breaks off hears no more.
            std::thread::spawn(move || answer(stream, &folder));
        }
    });
    Ok(port)
}

/// One connection: requests one after the other.
fn answer(stream: TcpStream, folder: &Path) -> std::io::Result<()> {
    let mut out = stream.try_clone()?;
    let mut lines = BufReader::new(stream).lines();
    while let Some(request) = lines.next() {
        let request = request?;
        // The rest of the head does not matter here.
        for line in lines.by_ref() {
            if line?.is_empty() {
                break;
            }
        }
        let name = request.split(' ').nth(1).unwrap_or_default();
        let name = name.trim_start_matches(['/', '.']);
        let (status, content) = match std::fs::read(folder.join(name)) {
            Ok(content) => ("200 OK", content),
            Err(_) => ("404 Not Found", Vec::new()),
        };
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n",
            content.len()
        );
        out.write_all(head.as_bytes())?;
        out.write_all(&content)?;
    }
    Ok(())
}

/// The root's server fails before anybody uses it, while `init` asks it for something: the log says so, and the machine ends.
fn dead_at_start() -> Result<Verdict> {
    let (text, said) = gdb(&[
        format!("tbreak {}", STOPS[1].0),
        "continue".to_string(),
        "set language c".to_string(),
        "set var *(unsigned short *)$pc = 0x0b0f".to_string(),
        "continue".to_string(),
    ])?;
    let Some(log) = nucleus_log(&said) else {
        return Ok(Err(format!("no console: {said}\nGDB said:\n{text}")));
    };
    let log = std::fs::read_to_string(&log).with_context(|| log.display().to_string())?;
    for line in [
        "init: tmpfs died: exception 6",
        "init: without tmpfs the machine ends",
    ] {
        if !log.contains(line) {
            let what = format!("no `{line}` in the log:\n{log}\nGDB said:\n{text}");
            return Ok(Err(what));
        }
    }
    Ok(Ok(()))
}

/// The log of the machine whose `./cairn debug` said this.
fn nucleus_log(said: &str) -> Option<PathBuf> {
    let console = said
        .lines()
        .find_map(|line| line.strip_prefix("Console of the machine: "))?;
    Some(Path::new(console).parent()?.join("nucleus.log"))
}

/// A command is traced, on one core and on four: its output and status are its own, and the file tells what it did.
fn trace() -> Result<Verdict> {
    let drawing = places::build().join("tests/callers.svg");
    let path = drawing.display().to_string();
    let one = trace_with(&["--icount", "--callers", "--calls", "--svg", &path], 1)?;
    if one.is_err() {
        return Ok(one);
    }
    let svg = std::fs::read_to_string(&drawing).unwrap_or_default();
    if !svg.contains("<title>cat calls pipe: ") || !svg.ends_with("</svg>\n") {
        return Ok(Err(format!("{path} does not show that cat called pipe")));
    }
    trace_with(&["--smp", "4"], 4)
}

fn trace_with(more: &[&str], cores: u64) -> Result<Verdict> {
    let folder = places::build().join("tests");
    std::fs::create_dir_all(&folder)?;
    let file = folder.join("trace.json");
    let path = file.display().to_string();
    let script = "echo hello | cat; exit 3";
    let arguments = [
        &["trace"],
        more,
        &["--output", &path, "--", "sh", "-c", script],
    ];
    let (text, said, status) = ourselves(&arguments.concat())?;
    if text != "hello\n" || status != Some(3) {
        let what = format!("the command wrote {text:?} and ended with {status:?}:\n{said}");
        return Ok(Err(what));
    }
    let told = |line: &str| line.split_whitespace().take(2).eq(["cat", "pipe"]);
    if more.contains(&"--callers") && !said.lines().any(told) {
        return Ok(Err(format!("nobody says that cat called pipe:\n{said}")));
    }
    let told = |line: &str| line.split_whitespace().skip(1).take(2).eq(["cat", "pipe"]);
    if more.contains(&"--calls") && !said.lines().any(told) {
        return Ok(Err(format!("no call of cat to pipe is listed:\n{said}")));
    }
    let json = std::fs::read(&file).with_context(|| format!("cannot read {path}"))?;
    Ok(judge_trace(&json, &said, cores).map_err(|why| format!("{path}: {why}")))
}

/// The tracks of the file are there and are the processor's, the programs' and the servers'; on each of the processor's (two for a core) nothing happens at the same time, and each entry that
/// `./cairn` counted is there.
fn judge_trace(json: &[u8], said: &str, cores: u64) -> Verdict {
    let trace: serde_json::Value = serde_json::from_slice(json).map_err(|e| e.to_string())?;
    let events = trace["traceEvents"].as_array().ok_or("no events")?;
    let of = |kind: &'static str| events.iter().filter(move |event| event["ph"] == kind);
    let processes: HashMap<_, _> = of("M")
        .filter(|event| event["name"] == "process_name")
        .filter_map(|event| Some((event["args"]["name"].as_str()?, event["pid"].as_u64()?)))
        .collect();
    let slices = |name: &str, what: &str| {
        let number = processes.get(name).copied();
        of("X")
            .filter(|event| number.is_some() && event["pid"].as_u64() == number)
            .filter(|event| {
                event["name"]
                    .as_str()
                    .is_some_and(|is| is.starts_with(what))
            })
            .count()
    };
    for (name, what) in [
        ("sh", "runs"),
        ("sh", "calls proc"),
        ("cat", "runs"),
        ("cat", "calls pipe"),
        ("pipe", "runs"),
        ("vm", "runs"),
        ("processor", "page fault"),
        ("processor", "call pipe"),
        ("processor", "cat"),
    ] {
        if slices(name, what) == 0 {
            return Err(format!("`{name}` has no `{what}`"));
        }
    }
    let (mut entries, mut used) = (0, 0);
    for track in 1..=2 * cores {
        let mut over = 0.0;
        let mut count = 0;
        for event in of("X").filter(|event| event["pid"] == 1 && event["tid"] == track) {
            let number = |key: &str| event[key].as_f64().unwrap_or(-1.0);
            let (begin, length) = (number("ts"), number("dur"));
            // Thousandths of a microsecond, as binary fractions.
            if length < 0.0 || begin < over - 0.0005 {
                return Err(format!("on the processor's track {track}: {event}"));
            }
            over = begin + length;
            count += 1;
        }
        if track % 2 == 0 {
            entries += count;
            used += u64::from(count != 0);
        }
    }
    // Some may have had nothing to do.
    if used < cores.min(2) {
        return Err(format!("{used} of {cores} cores have entries"));
    }
    if !said.contains(&format!("cairn: {entries} entries of the nucleus")) {
        return Err(format!("{entries} entries, but it was said:\n{said}"));
    }
    Ok(())
}

/// GDB on a waiting machine: each breakpoint is hit once, and what called it is known.
fn debug() -> Result<Verdict> {
    let mut script = Vec::new();
    for (number, (function, _)) in STOPS.iter().enumerate() {
        let number = number + 1;
        script.extend([
            format!("tbreak {function}"),
            "continue".to_string(),
            format!("echo stop {number}\\n"),
            "backtrace".to_string(),
        ]);
    }
    let (text, _) = gdb(&script)?;
    Ok(judge(&text).map_err(|why| format!("{why}; GDB said:\n{text}")))
}

/// The nucleus, and `init`, are made to fail, which ends the machine: `./cairn` tells who had called whom, though there are no frame pointers.
fn crash() -> Result<Verdict> {
    for (function, message, caller) in CRASHES {
        let (text, said) = gdb(&[
            // The system serves already.
            format!("tbreak {}", STOPS[1].0),
            "continue".to_string(),
            format!("tbreak {function}"),
            "continue".to_string(),
            "set language c".to_string(),
            "set var *(unsigned short *)$pc = 0x0b0f".to_string(),
            "continue".to_string(),
        ])?;
        let Some(log) = nucleus_log(&said) else {
            return Ok(Err(format!("no console: {said}\nGDB said:\n{text}")));
        };
        let mut log = Log::follow(&log, false);
        log.look();
        let lines = log.recent_lines();
        if let Err(why) = judge_crash(&lines, function, message, caller) {
            return Ok(Err(format!("{why}:\n{lines}\nGDB said:\n{text}{said}")));
        }
    }
    Ok(Ok(()))
}

/// From where it was, without a doubt, to who is known to call it.
fn judge_crash(lines: &str, function: &str, message: &str, caller: &str) -> Verdict {
    let Some((_, lines)) = lines.split_once(message) else {
        return Err(format!("the log does not say `{message}`"));
    };
    let mut frames = lines
        .lines()
        .skip_while(|line| !line.starts_with("backtrace of "))
        .skip(1)
        .take_while(|line| line.starts_with("  ") && !line.contains("perhaps"));
    if !frames.next().is_some_and(|line| line.contains(function)) {
        return Err(format!("the backtrace does not begin in {function}"));
    }
    if !frames.any(|line| line.contains(caller)) {
        return Err(format!("the backtrace does not lead to {caller}"));
    }
    Ok(())
}

/// What GDB, told this, said on its output, and `./cairn debug` on standard error.
fn gdb(script: &[String]) -> Result<(String, String)> {
    let mut arguments = vec!["debug", "--", "-nx", "-batch"];
    for line in script {
        arguments.extend(["-ex", line]);
    }
    let (text, said, _) = ourselves(&arguments)?;
    Ok((text, said))
}

/// What `./cairn` with these arguments says on its output and on standard error, and its status, if it has one in time.
pub(super) fn ourselves(arguments: &[&str]) -> Result<(String, String, Option<i32>)> {
    let mut child = Command::new(std::env::current_exe()?)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start ./cairn {}", arguments[0]))?;
    let readers = (
        child.stdout.take().map(reader),
        child.stderr.take().map(reader),
    );
    let deadline = Instant::now() + LIMIT;
    while child.try_wait()?.is_none() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(50));
    }
    // After its time; the machine goes with it, and GDB with the machine.
    let _ = child.kill();
    let status = child.wait()?.code();
    let text = |reader: Option<JoinHandle<String>>| reader.and_then(|r| r.join().ok());
    Ok((
        text(readers.0).unwrap_or_default(),
        text(readers.1).unwrap_or_default(),
        status,
    ))
}

/// What came until a failure is what there is to judge.
fn reader(mut pipe: impl Read + Send + 'static) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = pipe.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

fn judge(text: &str) -> Verdict {
    for (number, (function, caller)) in STOPS.iter().enumerate() {
        let begin = format!("stop {}\n", number + 1);
        let frames = text.split_once(&begin).map_or("", |(_, rest)| rest);
        let frames = frames.split("\nstop ").next().unwrap_or_default();
        let (first, callers) = frames.split_once("\n#1").unwrap_or((frames, ""));
        if !first.contains(function) {
            return Err(format!("the breakpoint at {function} was not hit"));
        }
        if !callers.contains(caller) {
            return Err(format!("the backtrace from {function} has no {caller}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn good() -> String {
        STOPS
            .iter()
            .enumerate()
            .map(|(number, (function, caller))| {
                format!(
                    "stop {}\n#0  {function} () at a.rs:1\n#1  0x1 in {caller} ()\nTemporary\n",
                    number + 1
                )
            })
            .collect()
    }

    #[test]
    fn a_crash_is_traced_back() {
        let judged = |last: &str| {
            let lines =
                format!("ends by exception 6\nbacktrace of x:\n   0  0x1  f  a.rs:1\n   1  {last}");
            judge_crash(&lines, "f", "exception 6", "main")
        };
        assert!(judged("0x2  x::main  b.rs:2").is_ok());
        assert!(judged("0x2  x::other  b.rs:2").is_err());
        assert!(judged("perhaps 0x2  x::main  b.rs:2").is_err());
        assert!(judge_crash("", "f", "exception 6", "main").is_err());
    }

    #[test]
    fn a_trace_is_whole() {
        let slice = |track: [u64; 2], name: &str, from: f64, length: f64| json!({"ph": "X", "pid": track[0], "tid": track[1], "name": name, "ts": from, "dur": length});
        let judged = |second: f64, said: &str| {
            let names = ["", "processor", "sh", "cat", "pipe", "vm"];
            let mut events: Vec<_> = (1..names.len())
                .map(|i| json!({"ph": "M", "pid": i, "name": "process_name", "args": {"name": names[i]}}))
                .collect();
            for (pid, name) in [
                (2, "runs"),
                (2, "calls proc"),
                (3, "runs"),
                (3, "calls pipe"),
                (4, "runs"),
                (5, "runs"),
            ] {
                events.push(slice([pid, 1], name, 0.0, 1.0));
            }
            events.push(slice([1, 1], "cat", 0.0, 2.0));
            events.push(slice([1, 2], "call pipe", 1.0, 0.5));
            events.push(slice([1, 2], "page fault 0x1", second, 0.5));
            judge_trace(
                json!({"traceEvents": events}).to_string().as_bytes(),
                said,
                1,
            )
        };
        let said = "cairn: 2 entries of the nucleus in x";
        assert_eq!(judged(1.5, said), Ok(()));
        assert!(judged(1.4, said).is_err());
        assert!(judged(1.5, "cairn: 3 entries of the nucleus").is_err());
        assert!(judge_trace(b"{\"traceEvents\":[]}", said, 1).is_err());
        assert!(judge_trace(b"{\"traceEvents\":[", said, 1).is_err());
    }

    #[test]
    fn each_stop_needs_its_function_and_caller() {
        assert_eq!(judge(&good()), Ok(()));
        assert!(judge("").is_err());
        for (function, caller) in STOPS {
            assert!(judge(&good().replace(&format!("#0  {function}"), "#0  other")).is_err());
            assert!(judge(&good().replace(&format!("in {caller} "), "in ?? ")).is_err());
        }
    }
}
