//! mount(2) and umount2 of disks, and of file systems in memory: a component for each, from the manifest's lines `[[filesystem]]` ([`cairn_idl::mounts`]).
//!
//! `init` waits for nobody here: a file server says by a pulse that it has opened its disk, or by the number that it ends with why not, and who asked is answered then. It ends by itself when it was unmounted.

use crate::components::Components;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use cairn_abi::layout::native_slot;
use cairn_abi::{death, Token};
use cairn_idl::errno::*;
use cairn_idl::mounts::{self, mount};
use cairn_idl::{device, label, proc};
use cairn_manifest::{Component, Grant, Manifest, Restart, LOOP};
use cairn_rt::{log, Portal, Received, Receiver, Reply};

const CHANNEL: Receiver = Receiver(Portal(native_slot::RECEIVE));
/// Badges of `init`'s channel: of who asks for mounts, and from here on of file servers, by their place among the components. (Those below are of components that end.)
pub const ASKED: u64 = 1 << 32;
const READY: u64 = 1 << 33;
/// What a component ends with that found itself wrong.
const PANIC: u64 = 101;
/// What a file server is told by an argument.
const OPTIONS: [(u64, &str); 4] = [
    (mount::READ_ONLY, "ro"),
    (mount::NO_ACCESS_TIMES, "noatime"),
    (mount::DISCARD, "discard"),
    (mount::NO_SET_ID, "nosuid"),
];
/// Bytes of a request's texts.
const TEXTS: usize = 512;
/// `st_dev` of file systems in memory: from here on, by the component's place.
const IN_MEMORY: u64 = 64;

/// Who asked and is not answered yet.
#[derive(Default)]
pub struct Mounts {
    /// By the component that was started for it, with its flags.
    starting: Vec<(usize, u64, Token)>,
    /// By the place that is to be free.
    ending: Vec<(String, Token)>,
}

fn answer(token: Token, result: i64) {
    // If that is refused nobody waits any more.
    let _ = CHANNEL.reply(token, Reply::result(result));
}

impl Mounts {
    /// A request; the answer, unless it comes later.
    pub fn asked(
        &mut self,
        request: &Received,
        manifest: &mut Manifest,
        components: &mut Components,
    ) -> Option<i64> {
        if request.badge != ASKED {
            return Some(-ENOSYS);
        }
        if !label::has(request.label, label::SYSTEM) {
            return Some(-EPERM);
        }
        let mut bytes = [0; TEXTS];
        let length = request.out_len;
        let Some(bytes) = bytes.get_mut(..length) else {
            return Some(-EINVAL);
        };
        match CHANNEL.read(request.token, 0, bytes) {
            Ok(read) if read == length => {}
            _ => return Some(-EFAULT),
        }
        let Ok(texts) = core::str::from_utf8(bytes) else {
            return Some(-EINVAL);
        };
        let done = match request.words[0] {
            mounts::MOUNT => self.mount(request, texts, manifest, components),
            mounts::ENDED => {
                let there = mounted(manifest, texts).is_some();
                if there {
                    self.ending.push((texts.to_string(), request.token));
                }
                Ok(!there)
            }
            mounts::REMOUNTED => remounted(request.words[1], texts, manifest, components),
            _ => Err(ENOSYS),
        };
        match done {
            Ok(true) => Some(0),
            Ok(false) => None,
            Err(errno) => Some(-errno),
        }
    }

    /// MOUNT. False: it is answered later.
    fn mount(
        &mut self,
        request: &Received,
        texts: &str,
        manifest: &mut Manifest,
        components: &mut Components,
    ) -> Result<bool, i64> {
        let [_, kind_len, device_len, place_len, flags, ..] = request.words;
        let cut = |text: &mut &str, at: u64| {
            let (first, rest) = text.split_at_checked(at as usize)?;
            *text = rest;
            Some(first.to_string())
        };
        let mut options = texts;
        let kind = cut(&mut options, kind_len).ok_or(EINVAL)?;
        let device = cut(&mut options, device_len).ok_or(EINVAL)?;
        let place = cut(&mut options, place_len).ok_or(EINVAL)?;
        // The root is the manifest's.
        if !place.starts_with('/') || place.ends_with('/') || texts.contains('\0') {
            return Err(EINVAL);
        }
        let free = manifest.components.iter().position(|c| c.name.is_empty());
        let index = free.unwrap_or(manifest.components.len());
        if let Some(line) = manifest.in_memory(&kind) {
            if mounted(manifest, &place).is_some() || is_single(manifest, &kind) {
                return Err(EBUSY);
            }
            let number = IN_MEMORY + index as u64;
            let mut component = line.component_in_memory(number, &device, &place);
            component
                .arguments
                .push(alloc::format!("options={options}"));
            add_options(&mut component, flags);
            return self.begin(request, (index, component), manifest, components);
        }
        if !options.is_empty() {
            return Err(EINVAL);
        }
        let (line, part) =
            manifest
                .filesystem(&kind, &device)
                .map_err(|unknown| if unknown { ENODEV } else { ENXIO })?;
        if manifest.is_in_use(&part) || mounted(manifest, &place).is_some() {
            return Err(EBUSY);
        }
        let mut component = line.component(&part, &place);
        if let Some(numbers) = part.numbers() {
            let number = device::number(numbers);
            component.arguments.push(alloc::format!("st_dev={number}"));
        }
        add_options(&mut component, flags);
        self.begin(request, (index, component), manifest, components)
    }

    /// Start the component of a mount, at this place. It says when it is ready.
    fn begin(
        &mut self,
        request: &Received,
        (index, component): (usize, Component),
        manifest: &mut Manifest,
        components: &mut Components,
    ) -> Result<bool, i64> {
        let flags = request.words[4];
        let ready = CHANNEL.make_portal(READY | index as u64);
        components
            .add(index, ready.map_err(|_| ENOMEM)?)
            .map_err(|_| ENOMEM)?;
        match manifest.components.get_mut(index) {
            Some(place) => *place = component,
            None => manifest.components.push(component),
        }
        if let Err(why) = components.restart(manifest, index) {
            log!("{} does not start: {why}", manifest.components[index].name);
            components.remove(index);
            // Its place is not used again: an end of it may still be told.
            manifest.components[index] = Component {
                name: "-".to_string(),
                ..Component::default()
            };
            return Err(ENOMEM);
        }
        self.starting.push((index, flags, request.token));
        Ok(false)
    }

    /// A pulse with a badge that is no component's: a file server has opened its disk.
    pub fn pulse(&mut self, badge: u64, manifest: &mut Manifest, components: &mut Components) {
        let is = |index: usize| badge == READY | index as u64;
        let Some(at) = self.starting.iter().position(|(index, ..)| is(*index)) else {
            return;
        };
        let (index, flags, token) = self.starting.swap_remove(at);
        match announce(manifest, components, index, flags) {
            Ok(own) => {
                // If that is refused nobody waits any more.
                let _ = CHANNEL.reply(token, Reply::new(&[0]).portal(own, false));
                own.close();
            }
            Err(errno) => {
                // Its end is heard of as any other's, and takes no name away.
                manifest.components[index].mounts.clear();
                components.forget(index);
                answer(token, -errno);
            }
        }
    }

    /// Who asked is gone.
    pub fn gone(&mut self, token: Token) {
        // What was begun for it goes on.
        self.ending.retain(|(_, waiting)| *waiting != token);
    }

    /// A component died. True: it was a file server that will not be started again, and is no longer mounted.
    pub fn died(
        &mut self,
        (index, code, detail): (usize, u64, u64),
        manifest: &mut Manifest,
        components: &mut Components,
    ) -> bool {
        let starting = self.starting.iter().position(|(it, ..)| *it == index);
        if let Some(at) = starting {
            let (_, _, token) = self.starting.swap_remove(at);
            remove(manifest, components, index);
            let why = match code {
                death::EXIT if (1..=133).contains(&detail) => detail as i64,
                _ => EIO,
            };
            answer(token, -why);
            return true;
        }
        let component = &manifest.components[index];
        let on_disk = component.mounts.iter().any(|m| m.fstype.contains(':'));
        let ended = on_disk && (code, detail) == (death::EXIT, 0);
        // A successor that has to refuse the disk says so by its end.
        let refused = code == death::EXIT && detail != PANIC;
        let for_good = component.restart != Restart::Always || refused;
        let over = ended || components.was_added(index) && for_good;
        if over {
            self.end(index, manifest, components);
        }
        over
    }

    /// A file server is no longer mounted.
    pub fn end(&mut self, index: usize, manifest: &mut Manifest, components: &mut Components) {
        let component = &manifest.components[index];
        let places: Vec<String> = component.mounts.iter().map(|m| m.prefix.clone()).collect();
        if let Ok(portal) = components.portal(manifest, "proc", proc::role::MOUNT) {
            for place in &places {
                // Somebody may have taken the name away.
                let _ = proc::Client(&portal).unmount(place.as_bytes());
            }
            portal.close();
        }
        remove(manifest, components, index);
        self.ending.retain(|(place, token)| {
            let waits = !places.contains(place);
            if !waits {
                answer(*token, 0);
            }
            waits
        });
    }
}

/// Whether there is a file system of this kind already, and there cannot be two: groups of processes are one tree.
fn is_single(manifest: &Manifest, kind: &str) -> bool {
    let own = |fstype: &str| fstype.split(':').next() == Some(kind);
    let mut mounts = manifest.components.iter().flat_map(|c| &c.mounts);
    kind == "cgroup2" && mounts.any(|m| own(&m.fstype))
}

/// The component of a disk that is mounted there.
fn mounted(manifest: &Manifest, place: &str) -> Option<usize> {
    let there = |c: &Component| {
        let mut mounts = c.mounts.iter();
        mounts.any(|m| m.prefix == place && m.fstype.contains(':'))
    };
    manifest.components.iter().position(there)
}

fn add_options(component: &mut Component, flags: u64) {
    for (bit, word) in OPTIONS {
        if flags & bit != 0 {
            component.arguments.push(word.to_string());
        }
    }
}

/// REMOUNTED: whoever succeeds the file server gets what it has now, and the table says so.
fn remounted(
    flags: u64,
    place: &str,
    manifest: &mut Manifest,
    components: &Components,
) -> Result<bool, i64> {
    let index = mounted(manifest, place).ok_or(ENOENT)?;
    let component = &mut manifest.components[index];
    let arguments = &mut component.arguments;
    arguments.retain(|argument| OPTIONS.iter().all(|(_, word)| argument != word));
    add_options(component, flags);
    announce(manifest, components, index, flags)?.close();
    Ok(true)
}

/// Put the file server's name into the table; its mount portal.
fn announce(
    manifest: &Manifest,
    components: &Components,
    index: usize,
    flags: u64,
) -> Result<Portal, i64> {
    let component = &manifest.components[index];
    let Some(mount) = component.mounts.first() else {
        return Err(EINVAL);
    };
    let portals = components
        .portal(manifest, &component.name, mount.badge)
        .and_then(|own| Ok((own, components.portal(manifest, "proc", proc::role::MOUNT)?)));
    let Ok((own, portal)) = portals else {
        return Err(ENOMEM);
    };
    let texts = [mount.prefix.as_bytes(), mount.fstype.as_bytes()].concat();
    let lengths = (mount.prefix.len() as u64, mount.fstype.len() as u64);
    let done = proc::Client(&portal).mount(lengths.0, lengths.1, flags, own.0, &texts);
    portal.close();
    done.map(|_| own).map_err(|failure| {
        own.close();
        failure.errno()
    })
}

fn remove(manifest: &mut Manifest, components: &mut Components, index: usize) {
    components.remove(index);
    let disk = manifest.components[index].portals.get("disk");
    if let Some(Grant::Call { to, badge, .. }) = disk {
        // A loop device may give its file back.
        if let (LOOP, Ok(portal)) = (to.as_str(), components.portal(manifest, to, *badge)) {
            let _ = portal.notify(1);
            portal.close();
        }
    }
    manifest.components[index] = Component::default();
}
