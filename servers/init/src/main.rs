//! `init`: the first domain. Reads the manifest, builds `vm` by hand and everything else through `vm`, starts the first Linux process,
//! then watches the components and restarts them by their policy. It holds every channel's receive right, so a channel outlives its server.
#![no_std]
#![no_main]
#![forbid(unsafe_code)]

extern crate alloc;

mod components;
mod first_memory;
mod mounts;
mod told;

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use cairn_abi::layout::{init_slot, native_slot};
use cairn_abi::service::{current, machine};
use cairn_abi::{death, pulse, received, rights, Error};
use cairn_idl::wire::Failure;
use cairn_idl::{fs, proc};
use cairn_manifest::{Manifest, Restart};
use cairn_rt::{log, Portal, Received, Receiver};
use components::Components;
use mounts::Mounts;

cairn_rt::entry!(main, registers);

/// Exit status of the machine when a component dies that it cannot do without.
const COMPONENT_DIED: u64 = 90;
/// … and when it does not come up at all.
const NOT_BOOTED: u64 = 91;
/// How long a server is waited for at boot between two looks at who died (nanoseconds).
const PATIENCE: u64 = 1_000_000_000;

fn main(archive_len: u64, archive_frame: u64, command_line_len: u64) -> ! {
    cairn_rt::heap::set_grow(first_memory::grow);
    let boot = first_memory::Boot::new(archive_len, archive_frame, command_line_len);
    match start(&boot) {
        Ok(mut watch) => watch.run(),
        Err(why) => {
            log!("the system does not come up: {why}");
            halt(NOT_BOOTED)
        }
    }
}

fn halt(code: u64) -> ! {
    loop {
        let _ = Portal(init_slot::MACHINE).service(machine::POWER, &[2, code]);
    }
}

/// Everything up to the first process; the error is a sentence for the log.
fn start(boot: &first_memory::Boot) -> Result<Watch, String> {
    let text = boot
        .manifest
        .ok_or("no /cairn/system.toml in the boot archive")?;
    let text = core::str::from_utf8(text).map_err(|_| "/cairn/system.toml is not text")?;
    let mut manifest =
        cairn_manifest::parse(text).map_err(|e| alloc::format!("/cairn/system.toml: {}", e.0))?;
    manifest.settle_registers();

    // The main channel goes where every native component has its own.
    let receiver = Receiver::create().map_err(|e| alloc::format!("no channel: {e:?}"))?;
    Portal::CURRENT
        .service(
            current::PORTAL_COPY,
            &[
                receiver.0 .0 as u64,
                native_slot::RECEIVE as u64,
                rights::ALL as u64,
            ],
        )
        .map_err(|e| alloc::format!("no channel: {e:?}"))?;

    let mut components = Components::new(boot, &manifest)?;
    for index in 0..manifest.components.len() {
        components.start(boot, &manifest, index)?;
    }
    let mut watch = Watch {
        manifest,
        components,
        mounts: Mounts::default(),
        due: Vec::new(),
    };
    if watch.manifest.has_processes() {
        mount_all(&mut watch)?;
        first_process(&watch.manifest, &watch.components)?;
    }
    Ok(watch)
}

/// Tell `proc` every prefix, and the file system at the root which of its directories are covered.
fn mount_all(watch: &mut Watch) -> Result<(), String> {
    let (manifest, components) = (&watch.manifest, &watch.components);
    let proc = components.portal(manifest, "proc", proc::role::MOUNT)?;
    for (component, mount) in manifest
        .components
        .iter()
        .flat_map(|c| c.mounts.iter().map(move |m| (c, m)))
    {
        let portal = components.portal(manifest, &component.name, mount.badge)?;
        let prefix = if mount.prefix == "/" {
            ""
        } else {
            &mount.prefix
        };
        let mut bytes = Vec::from(prefix.as_bytes());
        bytes.extend(mount.fstype.as_bytes());
        let lengths = (prefix.len() as u64, mount.fstype.len() as u64);
        proc::Client(&proc)
            .mount(lengths.0, lengths.1, 0, portal.0, &bytes)
            .map_err(|why| alloc::format!("mounting {}: {why}", mount.prefix))?;
        portal.close();
    }
    if !manifest.filesystems.is_empty() {
        let name = b"mount:";
        let asked = Receiver(Portal(native_slot::RECEIVE)).make_portal(mounts::ASKED);
        let asked = asked.map_err(|e| alloc::format!("no portal: {e:?}"))?;
        proc::Client(&proc)
            .mount(name.len() as u64, 5, 0, asked.0, b"mount:mount")
            .map_err(|why| alloc::format!("the name for mounting: {why}"))?;
        asked.close();
    }
    let Some(root) = manifest
        .components
        .iter()
        .find_map(|c| c.mounts.iter().find(|m| m.prefix == "/").map(|m| (c, m)))
    else {
        return Err("no component serves /".into());
    };
    let root = components.portal(manifest, &root.0.name, root.1.badge)?;
    let mut places = Vec::new();
    for component in &manifest.components {
        let mounts = component.mounts.iter();
        for mount in mounts.filter(|m| m.prefix.len() > 1 && m.prefix.starts_with('/')) {
            let portal = components.portal(manifest, &component.name, mount.badge)?;
            places.push((mount.prefix.clone(), portal));
        }
    }
    for (place, portal) in places {
        let path = place.as_bytes();
        let mut redirect = [0; fs::PATH_MAX];
        // It is there already as a rule; if it cannot be made MOUNT_POINT says why. Both may be asked twice.
        let client = fs::Client(&root);
        let _ = watch.patiently(|| client.mkdir(0o755, path, &mut redirect));
        watch
            .patiently(|| client.mount_point(1, 0, Some(portal.0), path, &mut redirect))
            .map_err(|why| alloc::format!("mount point {place}: {why}"))?;
        portal.close();
    }
    root.close();
    proc.close();
    Ok(())
}

/// Have `proc` start the first Linux process.
fn first_process(manifest: &Manifest, components: &Components) -> Result<(), String> {
    let first = &manifest.first;
    let mut strings = Vec::from(first.path.as_bytes());
    strings.push(0);
    let arguments = core::iter::once(&first.path).chain(&first.arguments);
    for string in arguments.chain(&first.environment) {
        strings.extend(string.as_bytes());
        strings.push(0);
    }
    let path = first.path.len() as u64;
    let arguments = 1 + first.arguments.len() as u64;
    let environment = first.environment.len() as u64;
    let proc = components.portal(manifest, "proc", proc::role::START)?;
    proc::Client(&proc)
        .start(path, arguments, environment, &strings)
        .map_err(|why| alloc::format!("{}: {why}", first.path))?;
    proc.close();
    Ok(())
}

/// Everything that `init` knows once all components were started.
struct Watch {
    manifest: Manifest,
    components: Components,
    mounts: Mounts,
    /// Components that are to be started again, and when.
    due: Vec<(u64, usize)>,
}

impl Watch {
    /// Wait for deaths and act by policy, for ever.
    fn run(&mut self) -> ! {
        let receiver = Receiver(Portal(native_slot::RECEIVE));
        loop {
            self.start_due();
            let next = self.due.iter().map(|(when, _)| *when).min();
            if let Ok(received) = receiver.receive(next) {
                self.handle(receiver, &received);
            }
        }
    }

    /// Ask a server while nobody else looks after the components: it, or what it needs, may have died meanwhile, and its successor is asked then.
    fn patiently<T>(&mut self, mut ask: impl FnMut() -> Result<T, Failure>) -> Result<T, Failure> {
        let receiver = Receiver(Portal(native_slot::RECEIVE));
        loop {
            deadline(components::now() + PATIENCE);
            let answer = ask();
            deadline(0);
            if !matches!(answer, Err(Failure::Gate(Error::TimedOut | Error::Dead))) {
                return answer;
            }
            while let Ok(received) = receiver.poll() {
                self.handle(receiver, &received);
            }
            self.start_due();
        }
    }

    fn start_due(&mut self) {
        let now = components::now();
        while let Some(at) = self.due.iter().position(|(when, _)| *when <= now) {
            let (_, index) = self.due.swap_remove(at);
            self.start_again(index);
        }
    }

    /// A message or pulse.
    fn handle(&mut self, receiver: Receiver, received: &Received) {
        let (manifest, components) = (&mut self.manifest, &mut self.components);
        if received.kind != received::kind::PULSE {
            let passed = received.portals.min(cairn_abi::MAX_PORTALS);
            for word in &received.words[8 - passed..] {
                Portal(*word as u32).close();
            }
            if received.badge == cairn_idl::components::BADGE {
                return self.told(receiver, received);
            }
            if let Some(result) = self.mounts.asked(received, manifest, components) {
                let _ = receiver.reply(received.token, cairn_rt::Reply::result(result));
            }
            return;
        }
        match received.words[0] {
            pulse::DEATH => {}
            pulse::NOTIFY => return self.mounts.pulse(received.badge, manifest, components),
            pulse::GONE => return self.mounts.gone(received.words[1]),
            _ => return,
        }
        let index = received.badge as usize;
        let Some(component) = manifest.components.get(index) else {
            return;
        };
        match (received.words[2], received.words[3]) {
            (death::EXIT, 0) => log!("{} has ended", component.name),
            (code, detail) => log!("{} died: {}", component.name, reason(code, detail)),
        }
        let death = (index, received.words[2], received.words[3]);
        if self.mounts.died(death, manifest, components) {
            return;
        }
        let component = &manifest.components[index];
        match component.restart {
            Restart::Never => components.forget(index),
            Restart::Halt => {
                log!("without {} the machine ends", component.name);
                halt(COMPONENT_DIED)
            }
            Restart::Always => self.die(index),
        }
    }

    /// A component died, or could not be started, that is to be started again.
    fn die(&mut self, index: usize) {
        let (manifest, components) = (&mut self.manifest, &mut self.components);
        if let Some(when) = components.again(index) {
            self.due.push((when, index));
            return;
        }
        components.give_up(manifest, index);
        let component = &manifest.components[index];
        if component.mounts.iter().any(|mount| mount.prefix == "/") {
            log!("without the root's server the machine ends");
            halt(COMPONENT_DIED);
        }
        if components.was_added(index) {
            self.mounts.end(index, manifest, components);
        }
    }

    fn start_again(&mut self, index: usize) {
        let name = self.manifest.components[index].name.clone();
        match self.components.restart(&self.manifest, index) {
            Ok(()) => log!("{name} started again"),
            Err(why) => {
                log!("{name} cannot be started: {why}");
                self.die(index);
            }
        }
    }
}

/// The next wait ends at this time; 0: none does.
fn deadline(at: u64) {
    let _ = Portal::CURRENT.service(current::DEADLINE, &[at]);
}

fn reason(code: u64, detail: u64) -> String {
    match code {
        death::EXIT => alloc::format!("exit {detail}"),
        death::KILLED => "killed".to_string(),
        death::EXCEPTION => alloc::format!("exception {detail}"),
        death::FAULT => alloc::format!("page fault at {detail:#x}"),
        other => alloc::format!("reason {other}"),
    }
}
