//! `init`: the first domain. Reads the manifest, builds `vm` by hand and everything else through `vm`, starts the first Linux process,
//! then watches the components and restarts them by their policy. It holds every channel's receive right, so a channel outlives its server.
#![no_std]
#![no_main]
#![forbid(unsafe_code)]

extern crate alloc;

mod components;
mod first_memory;
mod mounts;

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use cairn_abi::layout::{init_slot, native_slot};
use cairn_abi::service::{current, machine};
use cairn_abi::{death, pulse, received, rights};
use cairn_idl::{fs, proc};
use cairn_manifest::{Manifest, Restart};
use cairn_rt::{log, Portal, Receiver};
use components::Components;
use mounts::Mounts;

cairn_rt::entry!(main, registers);

/// Exit status of the machine when a component dies that it cannot do without.
const COMPONENT_DIED: u64 = 90;
/// … and when it does not come up at all.
const NOT_BOOTED: u64 = 91;

fn main(archive_len: u64, archive_frame: u64, command_line_len: u64) -> ! {
    cairn_rt::heap::set_grow(first_memory::grow);
    let boot = first_memory::Boot::new(archive_len, archive_frame, command_line_len);
    match start(&boot) {
        Ok((mut manifest, mut components)) => watch(&mut manifest, &mut components),
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
fn start(boot: &first_memory::Boot) -> Result<(Manifest, Components), String> {
    let text = cairn_archive::find(boot.archive, "cairn/system.toml")
        .ok_or("no /cairn/system.toml in the boot archive")?;
    let text = core::str::from_utf8(text.data).map_err(|_| "/cairn/system.toml is not text")?;
    let manifest =
        cairn_manifest::parse(text).map_err(|e| alloc::format!("/cairn/system.toml: {}", e.0))?;

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
    mount_all(&manifest, &components)?;
    first_process(&manifest, &components)?;
    Ok((manifest, components))
}

/// Tell `proc` every prefix, and the file system at the root which of its directories are covered.
fn mount_all(manifest: &Manifest, components: &Components) -> Result<(), String> {
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
    for mount in manifest
        .components
        .iter()
        .flat_map(|c| &c.mounts)
        .filter(|m| m.prefix.len() > 1 && m.prefix.starts_with('/'))
    {
        let path = mount.prefix.as_bytes();
        let mut redirect = [0; fs::PATH_MAX];
        // It is there already as a rule; if it cannot be made MOUNT_POINT says why.
        let root = fs::Client(&root);
        let _ = root.mkdir(0o755, path, &mut redirect);
        root.mount_point(1, path, &mut redirect)
            .map_err(|why| alloc::format!("mount point {}: {why}", mount.prefix))?;
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

/// Wait for deaths and act by policy, for ever.
fn watch(manifest: &mut Manifest, components: &mut Components) -> ! {
    let receiver = Receiver(Portal(native_slot::RECEIVE));
    let mut mounts = Mounts::default();
    // Components that are to be started again, and when.
    let mut due: Vec<(u64, usize)> = Vec::new();
    loop {
        let now = components::now();
        while let Some(at) = due.iter().position(|(when, _)| *when <= now) {
            let (_, index) = due.swap_remove(at);
            start_again(manifest, components, &mut mounts, &mut due, index);
        }
        let next = due.iter().map(|(when, _)| *when).min();
        let Ok(received) = receiver.receive(next) else {
            continue;
        };
        if received.kind != received::kind::PULSE {
            let passed = received.portals.min(cairn_abi::MAX_PORTALS);
            for word in &received.words[8 - passed..] {
                Portal(*word as u32).close();
            }
            if let Some(result) = mounts.asked(&received, manifest, components) {
                let _ = receiver.reply(received.token, cairn_rt::Reply::result(result));
            }
            continue;
        }
        match received.words[0] {
            pulse::DEATH => {}
            pulse::NOTIFY => {
                mounts.pulse(received.badge, manifest, components);
                continue;
            }
            pulse::GONE => {
                mounts.gone(received.words[1]);
                continue;
            }
            _ => continue,
        }
        let index = received.badge as usize;
        let Some(component) = manifest.components.get(index) else {
            continue;
        };
        log!(
            "{} died: {}",
            component.name,
            reason(received.words[2], received.words[3])
        );
        let death = (index, received.words[2], received.words[3]);
        if mounts.died(death, manifest, components) {
            continue;
        }
        let component = &manifest.components[index];
        match component.restart {
            Restart::Never => components.forget(index),
            Restart::Halt => {
                log!("without {} the machine ends", component.name);
                halt(COMPONENT_DIED)
            }
            Restart::Always => die(manifest, components, &mut mounts, &mut due, index),
        }
    }
}

/// A component died, or could not be started, that is to be started again.
fn die(
    manifest: &mut Manifest,
    components: &mut Components,
    mounts: &mut Mounts,
    due: &mut Vec<(u64, usize)>,
    index: usize,
) {
    if let Some(when) = components.again(index) {
        due.push((when, index));
        return;
    }
    components.give_up(manifest, index);
    let component = &manifest.components[index];
    if component.mounts.iter().any(|mount| mount.prefix == "/") {
        log!("without the root's server the machine ends");
        halt(COMPONENT_DIED);
    }
    if components.was_added(index) {
        mounts.end(index, manifest, components);
    }
}

fn start_again(
    manifest: &mut Manifest,
    components: &mut Components,
    mounts: &mut Mounts,
    due: &mut Vec<(u64, usize)>,
    index: usize,
) {
    let name = manifest.components[index].name.clone();
    match components.restart(manifest, index) {
        Ok(()) => log!("{name} started again"),
        Err(why) => {
            log!("{name} cannot be started: {why}");
            die(manifest, components, mounts, due, index);
        }
    }
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
