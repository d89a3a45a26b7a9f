//! `./cairn run --ssh`: a machine with Debian's sshd, whose first session is on this terminal, by a key that is made for its disk.
//!
//! The machine is one of [`guest`](crate::guest): the host asks it over the link to take the key and to start sshd, reads from it which keys its sshd
//! has, and switches it off. So nobody is asked whether a host is known, and the session's end is an orderly one of the machine.

use crate::cli::{self, Machine, Root, System};
use crate::debian::Collection;
use crate::exec::{report, ENVIRONMENT};
use crate::guest::{Guest, Input, Outcome, Stay, Stream};
use crate::link::{self, Forward};
use crate::machine::Boot;
use crate::progress::{self, Step};
use crate::run::Saved;
use crate::verdict::Failure;
use anyhow::{bail, Context, Result};
use cairn_hostlink::Spec;
use std::ffi::OsStr;
use std::fs;
use std::io::{IsTerminal, Read};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

const PACKAGE: &str = "openssh-server";
/// The port of sshd.
const PORT: u16 = 22;
/// What the machine is called in the configuration of ssh.
const NAME: &str = "cairn";
/// How long sshd may take to its first words, on a slow host.
const ANSWER: Duration = Duration::from_secs(120);
/// How long one attempt to hear them may take.
const ATTEMPT: Duration = Duration::from_secs(5);
/// How long ssh may take to notice that its machine is gone.
const NOTICE: Duration = Duration::from_secs(5);
/// ssh's status for its own failures, as when the connection ends.
const BROKEN: u8 = 255;

/// In the guest: the key that is the first argument is root's, and sshd runs. Says on standard output by which keys sshd is known.
const START: &str = r#"
set -e
umask 077
[ -x /usr/sbin/sshd ] || { echo "this root has no /usr/sbin/sshd (package openssh-server)" >&2; exit 1; }
mkdir -p /root/.ssh
keys=/root/.ssh/authorized_keys
grep -qxF "$1" "$keys" 2>/dev/null || {
    [ -z "$(tail -c 1 "$keys" 2>/dev/null)" ] || echo >>"$keys"
    printf '%s\n' "$1" >>"$keys"
}
chown root:root /root/.ssh "$keys"
chmod 700 /root/.ssh
chmod 600 "$keys"
ssh-keygen -A >/dev/null
# What is there from the start of a Debian system on is made by its init.
mkdir -p /run/sshd
chmod 755 /run/sshd
[ -e /run/utmp ] || install -g utmp -m 664 /dev/null /run/utmp
umask 022
/usr/sbin/sshd -t
/usr/sbin/sshd -E /var/log/sshd.log </dev/null >/dev/null 2>&1
cat /etc/ssh/ssh_host_*_key.pub
"#;

pub fn run(arguments: &cli::Run) -> Result<u8> {
    let mut machine = arguments.machine.clone();
    check(&machine)?;
    machine.packages.push(PACKAGE.to_string());
    // Nobody else gets the port until QEMU takes it.
    let (port, held) = host_port(&mut machine)?;
    let boot = Boot::prepare("run", &machine)?;
    let key = key(&Collection(&machine.packages).beside(".ssh"))?;
    let logs = boot.run.clone();
    let console = boot.console_log();
    drop(held);
    let mut guest = match Guest::start(boot, &machine, false)? {
        Ok(guest) => guest,
        Err(failure) => return Ok(report(&failure, &logs, None)),
    };
    let public = fs::read_to_string(key.with_extension("pub"))?;
    let host_keys = match start(&mut guest, public.trim()) {
        Ok(keys) => keys?,
        Err(failure) => return Ok(report(&failure, &logs, Some(&mut guest))),
    };
    let known = logs.join("known_hosts");
    fs::write(&known, known_hosts(&host_keys))?;
    let config = logs.join("ssh_config");
    fs::write(&config, configuration(port, &key, &known))?;
    if let Err(failure) = answers(&mut guest, port)? {
        return Ok(report(&failure, &logs, Some(&mut guest)));
    }
    let file = quoted(config.as_os_str());
    eprintln!("cairn: log in from other terminals, too:  ssh -F {file} {NAME}");
    eprintln!("cairn: files go by                        scp -F {file} FILE {NAME}:");
    eprintln!(
        "cairn: when this session ends the machine is switched off; its console goes to {}",
        console.display()
    );
    let session = session(&config, &arguments.command)?;
    let (status, left) = match attend(&mut guest, session)? {
        Ok(ended) => ended,
        Err(failure) => return Ok(report(&failure, &logs, Some(&mut guest))),
    };
    let status = match left {
        // `poweroff` in the machine ends the session: that is no failure of it.
        true if status == BROKEN => 0,
        _ => status,
    };
    if !guest.power_off() {
        let late = "it did not switch itself off: what was written last may be lost".to_string();
        return Ok(report(&Failure::Hung(late), &logs, None));
    }
    Ok(status)
}

/// Whether this machine can have an sshd of Debian's that the host reaches.
fn check(machine: &Machine) -> Result<()> {
    if machine.root != Root::Debian {
        bail!("--ssh needs a Debian root, in which Debian's sshd runs: `./cairn run --root debian --ssh`");
    }
    if machine.system != System::Cairn {
        bail!("--ssh is there with Cairn only, whose network sets itself up: leave out --system linux");
    }
    if machine.only {
        bail!("--ssh needs the standard system: leave out --only");
    }
    let asked = link::links(machine);
    if !machine.net.is_empty() && !asked.iter().any(link::Link::is_user) {
        bail!("--ssh leads through a link of QEMU's user mode: `--net user`, or no --net");
    }
    Ok(())
}

/// The port of the host that leads to sshd: that of a `--forward` to port 22, or one that is free, which is held until QEMU can have it.
fn host_port(machine: &mut Machine) -> Result<(u16, Option<TcpListener>)> {
    let to_sshd = |forward: &&Forward| forward.guest == PORT && !forward.udp;
    if let Some(forward) = machine.forward.iter().find(to_sshd) {
        return Ok((forward.host, None));
    }
    let listener =
        TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no port of 127.0.0.1 is free")?;
    let host = listener.local_addr()?.port();
    machine.forward.push(Forward {
        host,
        guest: PORT,
        udp: false,
    });
    Ok((host, Some(listener)))
}

/// The key pair in this folder; made if it is not there.
fn key(folder: &Path) -> Result<PathBuf> {
    let key = folder.join("key");
    if key.exists() {
        return Ok(key);
    }
    // Whole or not at all: another `./cairn` may make one, too.
    let new = folder.with_extension(format!("ssh-{}", std::process::id()));
    let made = fs::DirBuilder::new().mode(0o700).create(&new);
    made.with_context(|| format!("cannot make {}", new.display()))?;
    let mut keygen = Command::new("ssh-keygen");
    // The file is its owner's only, as all private keys that this program makes.
    keygen.args([
        "-q",
        "-t",
        "ed25519",
        "-N",
        "",
        "-C",
        "cairn run --ssh",
        "-f",
    ]);
    let made = progress::run("making a key", keygen.arg(new.join("key")));
    made.context("--ssh needs openssh-client on this computer")?;
    if fs::rename(&new, folder).is_err() {
        fs::remove_dir_all(&new)?;
    }
    match key.exists() {
        true => Ok(key),
        false => bail!("no key in {}: remove it, and try again", folder.display()),
    }
}

/// Have the guest take the public key and start sshd; what its sshd is known by. The inner error is the root's.
fn start(guest: &mut Guest, public: &str) -> Result<Result<String>, Failure> {
    let words = ["sh", "-c", START, "start-sshd", public];
    let spec = Spec {
        argv: words.map(|word| word.as_bytes().to_vec()).to_vec(),
        env: ENVIRONMENT.map(|v| v.as_bytes().to_vec()).to_vec(),
        cwd: b"/".to_vec(),
        no_stdin: true,
    };
    let mut step = Step::begin("starting sshd");
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let outcome = guest.run(&spec, Input::Empty, Some(ANSWER), &mut |stream, bytes| {
        step.tick();
        match stream {
            Stream::Out => out.extend_from_slice(bytes),
            Stream::Err => err.extend_from_slice(bytes),
        }
    })?;
    let said = String::from_utf8_lossy(&err);
    Ok(match outcome {
        Outcome::Ended(_) if outcome.status() == 0 => {
            Ok(String::from_utf8_lossy(&out).into_owned())
        }
        Outcome::Ended(_) => Err(anyhow::anyhow!(
            "sshd could not be started in the machine, which said: {}",
            said.trim()
        )),
        Outcome::Refused { reason, .. } => Err(anyhow::anyhow!("{reason}")),
    })
}

/// Wait until sshd says its first words through the forwarded port.
fn answers(guest: &mut Guest, port: u16) -> Result<Result<(), Failure>> {
    let begun = Instant::now();
    let mut step = Step::begin("waiting for sshd");
    let mut heard = false;
    let stayed = guest.stay(&mut || {
        step.tick();
        heard = greeting(port).is_ok_and(|words| words.starts_with(b"SSH-"));
        Ok(heard || begun.elapsed() > ANSWER)
    })?;
    drop(step);
    Ok(match stayed {
        Ok(_) if heard => Ok(()),
        Ok(_) => {
            let what = "its sshd does not answer; /var/log/sshd.log in it may say why";
            Err(Failure::Hung(what.to_string()))
        }
        Err(failure) => Err(failure),
    })
}

fn greeting(port: u16) -> std::io::Result<[u8; 4]> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(ATTEMPT))?;
    let mut begin = [0; 4];
    stream.read_exact(&mut begin)?;
    Ok(begin)
}

/// ssh on this process's streams.
fn session(config: &Path, words: &[std::ffi::OsString]) -> Result<Child> {
    let mut ssh = Command::new("ssh");
    ssh.arg("-F").arg(config);
    // As a command that is called here has the terminal.
    if !words.is_empty() && std::io::stdin().is_terminal() && std::io::stdout().is_terminal() {
        ssh.arg("-t");
    }
    ssh.arg(NAME);
    if !words.is_empty() {
        let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
        ssh.arg("--").arg(words.join(" "));
    }
    ssh.spawn().context(
        "cannot start ssh, which --ssh needs on this computer (Debian's package openssh-client)",
    )
}

/// Wait for the session's end: its status, and whether somebody in the machine switched it off.
fn attend(guest: &mut Guest, mut session: Child) -> Result<Result<(u8, bool), Failure>> {
    // If the machine fails, ssh may have to be ended.
    let terminal = Saved::now();
    let mut ended = None;
    let stayed = guest.stay(&mut || {
        ended = session.try_wait()?;
        Ok(ended.is_some())
    });
    let begun = Instant::now();
    while ended.is_none() && begun.elapsed() < NOTICE {
        std::thread::sleep(Duration::from_millis(20));
        ended = session.try_wait()?;
    }
    if ended.is_none() {
        session.kill()?;
        session.wait()?;
        drop(terminal);
    }
    let status = ended.map_or(BROKEN, status_of);
    Ok(stayed?.map(|stay| (status, stay == Stay::Ending)))
}

/// As a shell tells it.
fn status_of(ended: ExitStatus) -> u8 {
    let signal = ended.signal().map(|signal| 128 + signal);
    ended.code().or(signal).map_or(BROKEN, |code| code as u8)
}

/// Lines of a guest's host keys as lines of known hosts.
fn known_hosts(keys: &str) -> String {
    keys.lines()
        .map(|line| format!("{NAME} {line}\n"))
        .collect()
}

/// What ssh, scp and sftp are told by `-F`.
fn configuration(port: u16, key: &Path, known: &Path) -> String {
    let file = |path: &Path| {
        let path = path.display().to_string();
        format!("\"{}\"", path.replace('%', "%%").replace('"', "\\\""))
    };
    format!(
        "Host {NAME}\n\
         \x20   HostName 127.0.0.1\n\
         \x20   Port {port}\n\
         \x20   User root\n\
         \x20   IdentityFile {}\n\
         \x20   IdentitiesOnly yes\n\
         \x20   HostKeyAlias {NAME}\n\
         \x20   UserKnownHostsFile {}\n\
         \x20   GlobalKnownHostsFile /dev/null\n\
         \x20   StrictHostKeyChecking yes\n\
         \x20   UpdateHostKeys no\n\
         \x20   LogLevel ERROR\n",
        file(key),
        file(known)
    )
}

/// One word for a shell.
fn quoted(word: &OsStr) -> String {
    let plain = |b: &u8| b.is_ascii_alphanumeric() || b"-_./+=:,@%".contains(b);
    let text = String::from_utf8_lossy(word.as_bytes());
    match !word.is_empty() && word.as_bytes().iter().all(plain) {
        true => text.into_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn machine() -> Machine {
        Machine::on(System::Cairn, Root::Debian)
    }

    #[test]
    fn a_wrong_machine_is_told_what_to_do() {
        let said = |change: fn(&mut Machine)| {
            let mut machine = machine();
            change(&mut machine);
            check(&machine).err().map(|error| error.to_string())
        };
        assert_eq!(said(|_| ()), None);
        assert_eq!(
            said(|m| m.net = vec![link::Net::User(String::new()).into()]),
            None
        );
        for (change, told) in [
            (
                (|m| m.root = Root::Small) as fn(&mut Machine),
                "--root debian",
            ),
            (|m| m.root = Root::Own("/x".into()), "--root debian"),
            (|m| m.system = System::Linux, "leave out --system linux"),
            (|m| m.only = true, "leave out --only"),
            (|m| m.net = vec![link::Net::None.into()], "or no --net"),
        ] {
            assert!(
                said(change).is_some_and(|said| said.contains(told)),
                "{told}"
            );
        }
    }

    #[test]
    fn a_port_of_the_users_is_taken_as_it_is() {
        let mut machine = machine();
        machine.forward = ["53:22/udp", "2222:22"]
            .map(|f| link::forward(f).unwrap())
            .to_vec();
        assert_eq!(host_port(&mut machine).unwrap().0, 2222);
        machine.forward.pop();
        let (port, held) = host_port(&mut machine).unwrap();
        assert_eq!(machine.forward[1].host, port);
        assert!(TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_err());
        drop(held);
    }

    #[test]
    fn words_reach_the_command_as_they_are() {
        let word = |text: &str| quoted(OsStr::new(text));
        assert_eq!(word("/bin/ls"), "/bin/ls");
        assert_eq!(word(""), "''");
        assert_eq!(word("a b"), "'a b'");
        assert_eq!(word("it's $x"), r"'it'\''s $x'");
    }

    #[test]
    fn only_the_machines_keys_are_known() {
        let known = known_hosts("ssh-ed25519 AAAA root@cairn\necdsa BBBB x\n");
        assert_eq!(
            known,
            "cairn ssh-ed25519 AAAA root@cairn\ncairn ecdsa BBBB x\n"
        );
        let text = configuration(2222, Path::new("/a b/key"), Path::new("/50%/known"));
        assert!(text.contains("IdentityFile \"/a b/key\"") && text.contains("\"/50%%/known\""));
    }

    #[test]
    fn a_key_is_made_once_and_nobody_else_reads_it() {
        // Where there is no ssh-keygen `./cairn run --ssh` installs it.
        if Command::new("ssh-keygen").arg("-?").output().is_err() {
            return;
        }
        let name = format!("xtask-key-{}.ssh", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let made = key(&folder).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&folder), mode(&made)), (0o700, 0o600));
        let content = fs::read(&made).unwrap();
        assert_eq!(key(&folder).unwrap(), made);
        assert_eq!(fs::read(&made).unwrap(), content);
        fs::remove_dir_all(&folder).unwrap();
    }
}
