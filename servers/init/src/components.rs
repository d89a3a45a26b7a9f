//! Building components: channels for all first, then one domain each, loaded and given exactly what its manifest line names.

use crate::first_memory::{archive_address, Boot, Page};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use cairn_abi::layout::{self, init_slot, native_slot, PAGE};
use cairn_abi::service::memory::{map, pool, prot};
use cairn_abi::service::{current, domain, machine, memory, thread, AUTO};
use cairn_abi::{rights, Error, Id};
use cairn_elf::{Image, Segment};
use cairn_idl::{components as told, vm};
use cairn_init::deaths::Deaths;
use cairn_init::image::{acceptable, plan, Run};
use cairn_init::list::{Seen, State};
use cairn_init::startup;
use cairn_manifest::{Archive, Component, Grant, Manifest, Registers, Service, Trigger};
use cairn_rt::{log, Portal, Receiver};

const MEMORY: Portal = Portal(init_slot::MEMORY);
const MACHINE: Portal = Portal(init_slot::MACHINE);
/// Frames that `vm` gets for its own page tables and portal table: what its image, its stack and what is told it take. More it gives itself.
const VM_TABLES: u64 = 20;
/// Stack of `vm`, mapped whole.
const VM_STACK_PAGES: u64 = layout::EAGER_STACK_SIZE / PAGE;
/// Frames given to the pools of channels and portals, so that all components' can be made before there is `vm`, and how many components they suffice for.
const FIRST_OBJECTS: u64 = 2;
const COMPONENTS_OF_A_FRAME: u64 = 5;
/// Channels beside those of components, with room for some more: `init`'s own.
const OWN_CHANNELS: u64 = 4;

/// A component as it runs.
struct Running {
    receiver: Receiver,
    /// Its domain and the domain's id, while it lives.
    domain: Option<(Portal, Id)>,
    /// Device portals, made once and given again after a restart.
    devices: Vec<(String, Portal)>,
    /// The memory object that outlives it, once it was made.
    keepsake: Option<Portal>,
    /// Of one that was not there from the start: the portal by which it says that it is ready.
    ready: Option<Portal>,
    deaths: Deaths,
    /// Its first thread's id, and how often it was started.
    first: u64,
    lives: u32,
    given_up: bool,
}

pub struct Components {
    running: Vec<Running>,
    archive: &'static [u8],
    command_line: String,
    /// Types of file systems on disks, with commas between them.
    filesystems: String,
    /// The archive as a memory object, once somebody needs it.
    archive_object: Option<Portal>,
    vm: Portal,
}

fn fault<T>(what: &str, result: Result<T, Error>) -> Result<T, String> {
    result.map_err(|e| format!("{what}: {e:?}"))
}

/// What the nucleus tells of a thread of this domain; zeroes, if there is none.
fn told_of_thread(domain: Portal, id: u64) -> [u64; 8] {
    let words = [id, u64::from(thread::INFO)];
    domain
        .service(domain::THREAD_CONTROL, &words)
        .unwrap_or_default()
}

/// What the nucleus tells of a domain.
fn add_domain(domain: Portal, seen: &mut Seen) {
    if let Ok([_, threads, portals, processor, ..]) = domain.service(domain::INFO, &[]) {
        (seen.threads, seen.portals, seen.processor) = (threads, portals, processor);
    }
}

fn word_at(bytes: &[u8; 16], at: usize) -> u64 {
    let word = bytes[at..].first_chunk();
    word.map_or(0, |word| u64::from_le_bytes(*word))
}

/// Of `init` itself. It is started once, and the machine ends with it.
pub fn own() -> Seen {
    let mut seen = Seen {
        state: State::Lives(0),
        priority: (0, 0),
        processor: 0,
        messages: None,
        memory: None,
        threads: 0,
        portals: 0,
        lives: 1,
        restart: Some(cairn_manifest::Restart::Halt),
    };
    if let Ok([thread, ..]) = Portal::CURRENT.service(current::IDENTITY, &[]) {
        let [_, _, priority, effective, ..] = told_of_thread(Portal(init_slot::DOMAIN), thread);
        seen.priority = (priority, effective);
    }
    add_domain(Portal(init_slot::DOMAIN), &mut seen);
    seen
}

/// Monotonic nanoseconds. (`init` has no system page to read them from.)
pub fn now() -> u64 {
    let told = Portal::CURRENT.service(current::CLOCK, &[]);
    told.map_or(0, |words| words[0])
}

impl Components {
    /// Channels and device portals for every component of the manifest.
    pub fn new(boot: &Boot, manifest: &Manifest) -> Result<Components, String> {
        let count = manifest.components.len() as u64;
        let frames = (count + OWN_CHANNELS).div_ceil(COMPONENTS_OF_A_FRAME);
        let frames = frames.max(FIRST_OBJECTS);
        for kind in [pool::CHANNEL, pool::PORTAL] {
            let first = boot.take(frames).ok_or("no memory")?;
            fault(
                "object memory",
                MEMORY.service(memory::GIVE, &[kind, first, frames]),
            )?;
        }
        let mut running = Vec::new();
        for component in &manifest.components {
            let receiver = fault("channel", Receiver::create())?;
            running.push(Running {
                receiver,
                domain: None,
                devices: devices(component)?,
                keepsake: None,
                ready: None,
                deaths: Deaths::default(),
                first: 0,
                lives: 0,
                given_up: false,
            });
        }
        let on_disks = manifest.filesystems.iter().filter(|l| !l.disks.is_empty());
        let mut kinds: Vec<&str> = on_disks.map(|l| &*l.kind).collect();
        kinds.sort_unstable();
        kinds.dedup();
        let vm = fault("portal", running[0].receiver.make_portal(vm::BADGE_CONTROL))?;
        Ok(Components {
            running,
            archive: boot.archive,
            command_line: boot.command_line.clone(),
            filesystems: kinds.join(","),
            archive_object: None,
            vm,
        })
    }

    /// A new portal to a component's channel.
    pub fn portal(&self, manifest: &Manifest, name: &str, badge: u64) -> Result<Portal, String> {
        let index = manifest
            .component(name)
            .ok_or_else(|| format!("no component `{name}`"))?;
        fault("portal", self.running[index].receiver.make_portal(badge))
    }

    /// Start component `index` at boot: the first one is `vm`, which nobody can load but init itself.
    pub fn start(&mut self, boot: &Boot, manifest: &Manifest, index: usize) -> Result<(), String> {
        let name = &manifest.components[index].name;
        let result = if index == 0 {
            self.start_vm(boot, manifest)
        } else {
            self.restart(manifest, index)
        };
        result.map_err(|why| format!("component `{name}`: {why}"))
    }

    /// Start component `index` through `vm`.
    pub fn restart(&mut self, manifest: &Manifest, index: usize) -> Result<(), String> {
        let component = &manifest.components[index];
        let (image, file) = self.image(component)?;
        let limit = component
            .memory
            .as_deref()
            .and_then(cairn_manifest::size)
            .unwrap_or(0)
            / PAGE;
        let made = self
            .vm()
            .create(limit, 0)
            .map_err(|why| format!("new domain: {why}"))?;
        let (portal, id) = (Portal(made.control.slot()), made.domain);
        self.running[index].domain = Some((portal, id));
        self.running[index].deaths.started(now());
        log!("`{}` is domain {id}", component.name);

        for segment in image.segments() {
            self.load(id, file, segment)?;
        }
        let read_write = vm::prot::READ | vm::prot::WRITE;
        let stack = layout::NATIVE_STACK_TOP - layout::NATIVE_STACK_SIZE;
        self.map_into(id, stack, layout::NATIVE_STACK_SIZE, read_write)?;
        let archive_len = match component.archive {
            None => 0,
            Some(kind) => {
                let object = self.archive_object()?;
                let len = (self.archive.len() as u64).next_multiple_of(PAGE);
                let (prot, flags) = match kind {
                    Archive::Read => (vm::prot::READ, vm::flags::FIXED | vm::flags::SHARED),
                    Archive::Write => (read_write, vm::flags::FIXED | vm::flags::SHARED),
                };
                self.vm()
                    .object_map_into(id, layout::ARCHIVE, len, prot, flags, 0, object.0)
                    .map_err(|why| format!("mapping the archive: {why}"))?;
                self.archive.len() as u64
            }
        };
        let keepsake_len = self.show_keepsake(component, index, id)?;
        let named = self.give(manifest, index, portal)?;
        let devices = self.show_devices(component, id)?;
        let lengths = (archive_len, keepsake_len);
        let block = self.startup_block(component, &named, devices, lengths)?;
        self.map_into(id, layout::STARTUP, PAGE, vm::prot::READ)?;
        self.write_into(id, layout::STARTUP, &block)?;
        self.run(component, index, portal, image.entry, None)
    }

    /// A place for a component that is not of the manifest, with the portal by which it says that it is ready.
    pub fn add(&mut self, index: usize, ready: Portal) -> Result<(), Error> {
        let receiver = Receiver::create().inspect_err(|_| ready.close())?;
        let new = Running {
            receiver,
            domain: None,
            devices: Vec::new(),
            keepsake: None,
            ready: Some(ready),
            deaths: Deaths::default(),
            first: 0,
            lives: 0,
            given_up: false,
        };
        match self.running.get_mut(index) {
            Some(place) => *place = new,
            None => self.running.push(new),
        }
        Ok(())
    }

    /// It died, and is to be started again: when. None: it died too often.
    pub fn again(&mut self, index: usize) -> Option<u64> {
        self.forget(index);
        self.running[index].deaths.died(now())
    }

    /// It will not be started again: who asks it, or waits for what its successor would have gone on with, hears of that.
    pub fn give_up(&mut self, manifest: &Manifest, index: usize) {
        let running = &mut self.running[index];
        running.given_up = true;
        let count = running.deaths.in_a_row();
        log!(
            "{} is given up: it died {count} times in a row",
            manifest.components[index].name
        );
        running.keepsake.take().into_iter().for_each(Portal::close);
        // Others may be given portals to it still.
        if let Ok(fresh) = Receiver::create() {
            core::mem::replace(&mut running.receiver, fresh).0.close();
        }
    }

    /// Whether it came by [`Components::add`] and is there.
    pub fn was_added(&self, index: usize) -> bool {
        let running = self.running.get(index);
        running.is_some_and(|running| running.ready.is_some())
    }

    /// It and its channel end: who still has portals to it gets errors.
    pub fn remove(&mut self, index: usize) {
        self.forget(index);
        let running = &mut self.running[index];
        running.receiver.0.close();
        for portal in [running.ready.take(), running.keepsake.take()] {
            portal.into_iter().for_each(Portal::close);
        }
    }

    /// The component's domain is dead: let `vm` take its memory back.
    pub fn forget(&mut self, index: usize) {
        if let Some((portal, id)) = self.running[index].domain.take() {
            portal.close();
            if let Err(why) = self.vm().destroy(id) {
                log!("memory of a dead component: {why}");
            }
        }
    }

    /// What it does. `due`: it is to be started again.
    pub fn state(&self, index: usize, due: bool) -> State {
        let running = &self.running[index];
        match running.domain {
            Some((portal, _)) => State::Lives(told_of_thread(portal, running.first)[1]),
            None if running.given_up => State::GivenUp,
            None if due => State::Due,
            None => State::Ended,
        }
    }

    /// What is to be told of it.
    pub fn seen(&self, manifest: &Manifest, index: usize, due: bool) -> Seen {
        let (component, running) = (&manifest.components[index], &self.running[index]);
        let given = u64::from(component.priority);
        let mut seen = Seen {
            state: self.state(index, due),
            priority: (given, given),
            processor: 0,
            messages: None,
            memory: None,
            threads: 0,
            portals: 0,
            lives: running.lives,
            restart: Some(component.restart),
        };
        let Some((portal, id)) = running.domain else {
            return seen;
        };
        let [_, _, own, effective, ..] = told_of_thread(portal, running.first);
        if own != 0 {
            seen.priority = (own, effective);
        }
        add_domain(portal, &mut seen);
        if let Ok(pages) = self.vm().space_stat(id) {
            seen.memory = Some(pages.resident * PAGE);
            let mut counts = [0; 16];
            let read = self.vm().read_from(id, layout::NATIVE_COUNTS, &mut counts);
            let [mark, count] = [0, 8].map(|at| word_at(&counts, at));
            seen.messages = (read == Ok(16) && mark == layout::COUNTS_MESSAGES).then_some(count);
        }
        seen
    }

    /// End it; its end is heard of as any other.
    pub fn end(&self, index: usize) {
        if let Some((portal, _)) = self.running[index].domain {
            while portal.service(domain::DESTROY, &[0]) == Err(Error::Again) {}
        }
    }

    fn vm(&self) -> vm::Client<'_, Portal> {
        vm::Client(&self.vm)
    }

    fn image(
        &self,
        component: &Component,
    ) -> Result<(Image, cairn_archive::Entry<'static>), String> {
        let file = cairn_archive::find(self.archive, &component.binary)
            .ok_or_else(|| format!("no {} in the boot archive", component.binary))?;
        let image =
            cairn_elf::parse_file(file.data).map_err(|e| format!("{}: {e:?}", component.binary))?;
        if !acceptable(&image) || !(file.offset as u64).is_multiple_of(PAGE) {
            return Err(format!(
                "{} is no native component (fixed address, page-aligned segments)",
                component.binary
            ));
        }
        Ok((image, file))
    }

    /// One segment into a domain that `vm` manages: the archive's own frames, copy-on-write where they are written.
    fn load(&self, id: Id, file: cairn_archive::Entry, segment: &Segment) -> Result<(), String> {
        let plan = plan(segment);
        let mut prot = 0;
        for (set, bit) in [
            (segment.read, vm::prot::READ),
            (segment.write, vm::prot::WRITE),
            (segment.execute, vm::prot::EXECUTE),
        ] {
            prot |= if set { bit } else { 0 };
        }
        for run in &plan.runs {
            match *run {
                Run::Zero { address, pages } => self.map_into(id, address, pages * PAGE, prot)?,
                Run::File {
                    address,
                    pages,
                    offset,
                } => {
                    let first = archive_address(file.offset) + offset;
                    let list: Vec<u8> = (0..pages)
                        .flat_map(|page| (first + page * PAGE).to_le_bytes())
                        .collect();
                    let object = self.object(&list, pages, 0)?;
                    let len = pages * PAGE;
                    self.vm()
                        .object_map_into(id, address, len, prot, vm::flags::FIXED, 0, object.0)
                        .map_err(|why| format!("mapping {address:#x}: {why}"))?;
                    object.close();
                }
            }
        }
        if let Some((address, len)) = plan.clear.filter(|_| segment.write) {
            self.write_into(id, address, &[0; PAGE as usize][..len as usize])?;
        }
        Ok(())
    }

    fn object(&self, pages: &[u8], count: u64, shared_writable: u64) -> Result<Portal, String> {
        self.vm()
            .object_create(count, shared_writable, 0, pages)
            .map(|object| Portal(object.slot()))
            .map_err(|why| format!("memory object: {why}"))
    }

    fn archive_object(&mut self) -> Result<Portal, String> {
        if let Some(object) = self.archive_object {
            return Ok(object);
        }
        let pages = (self.archive.len() as u64).div_ceil(PAGE);
        let list: Vec<u8> = (0..pages)
            .flat_map(|page| archive_address((page * PAGE) as usize).to_le_bytes())
            .collect();
        let object = self.object(&list, pages, 1)?;
        self.archive_object = Some(object);
        Ok(object)
    }

    /// What its predecessor left, or zeroes; how many bytes.
    fn show_keepsake(
        &mut self,
        component: &Component,
        index: usize,
        id: Id,
    ) -> Result<u64, String> {
        let size = component.keepsake.as_deref().and_then(cairn_manifest::size);
        let Some(size) = size else { return Ok(0) };
        let len = size.next_multiple_of(PAGE);
        let object = match self.running[index].keepsake {
            Some(object) => object,
            None => {
                let how = vm::making::SHARED | vm::making::FRESH;
                let made = self.vm().object_create(len / PAGE, how, 0, &[]);
                let made = made.map_err(|why| format!("keepsake: {why}"))?;
                Portal(made.slot())
            }
        };
        self.running[index].keepsake = Some(object);
        let (prot, flags) = (
            vm::prot::READ | vm::prot::WRITE,
            vm::flags::FIXED | vm::flags::SHARED,
        );
        self.vm()
            .object_map_into(id, layout::KEEPSAKE, len, prot, flags, 0, object.0)
            .map_err(|why| format!("mapping the keepsake: {why}"))?;
        Ok(len)
    }

    fn map_into(&self, id: Id, address: u64, len: u64, prot: u64) -> Result<(), String> {
        self.vm()
            .map_into(id, address, len, prot, vm::flags::FIXED)
            .map_err(|why| format!("mapping {address:#x}: {why}"))?;
        Ok(())
    }

    fn write_into(&self, id: Id, address: u64, bytes: &[u8]) -> Result<(), String> {
        self.vm()
            .write_into(id, address, 0, bytes)
            .map_err(|why| format!("writing {address:#x}: {why}"))?;
        Ok(())
    }

    /// Put the portals of the manifest line into the new domain; returns their names and slots.
    fn give(
        &self,
        manifest: &Manifest,
        index: usize,
        target: Portal,
    ) -> Result<Vec<(String, u32)>, String> {
        let component = &manifest.components[index];
        let running = &self.running[index];
        put(target, running.receiver.0, native_slot::RECEIVE)?;
        put(target, Portal(init_slot::LOG), native_slot::LOG)?;
        // Its own domain: threads it may make, but neither its ceiling nor its watcher change.
        put_with(target, target, native_slot::DOMAIN, rights::CALL)?;
        if index > 0 {
            let client = fault(
                "portal",
                self.running[0].receiver.make_portal(vm::BADGE_CLIENT),
            )?;
            put(target, client, native_slot::VM)?;
            client.close();
        }
        let mut named = Vec::new();
        for (name, grant) in &component.portals {
            let slot = native_slot::FIRST_NAMED + named.len() as u32;
            match grant {
                Grant::Call { to, badge, .. } => {
                    let portal = self.portal(manifest, to, *badge)?;
                    put(target, portal, slot)?;
                    portal.close();
                }
                Grant::Service {
                    service: Service::Memory,
                } => put(target, MEMORY, slot)?,
                Grant::Service {
                    service: Service::Machine,
                } => put(target, MACHINE, slot)?,
                Grant::Service {
                    service: Service::Components,
                } => {
                    let own = Receiver(Portal(native_slot::RECEIVE));
                    let portal = fault("portal", own.make_portal(told::BADGE))?;
                    put(target, portal, slot)?;
                    portal.close();
                }
                Grant::Service {
                    service: Service::Trace,
                } => {
                    let made = fault("trace", MACHINE.service(machine::TRACE, &[AUTO]))?;
                    let portal = Portal(made[0] as u32);
                    put(target, portal, slot)?;
                    portal.close();
                }
                Grant::Ports { .. } | Grant::Interrupt { .. } | Grant::Message { .. } => {
                    let device = running
                        .devices
                        .iter()
                        .find(|d| d.0 == *name)
                        .ok_or("device portal")?;
                    put(target, device.1, slot)?;
                }
            }
            named.push((name.clone(), slot));
        }
        if let Some(ready) = running.ready {
            let slot = native_slot::FIRST_NAMED + named.len() as u32;
            put(target, ready, slot)?;
            named.push(("ready".to_string(), slot));
        }
        Ok(named)
    }

    /// The device memory of the manifest line, and the arguments that say where it is.
    fn show_devices(&self, component: &Component, id: Id) -> Result<Vec<String>, String> {
        let mut arguments = Vec::new();
        for (i, (name, &(physical, len))) in (0..).zip(&component.device_memory) {
            let address = layout::DEVICES + i * layout::DEVICE_RANGE;
            self.vm()
                .device_into(id, address, physical, len)
                .map_err(|why| format!("device memory `{name}`: {why}"))?;
            arguments.push(format!("{name}={address:#x}:{len:#x}"));
        }
        Ok(arguments)
    }

    fn startup_block(
        &self,
        component: &Component,
        named: &[(String, u32)],
        mut arguments: Vec<String>,
        lengths: (u64, u64),
    ) -> Result<Vec<u8>, String> {
        arguments.extend(
            component
                .arguments
                .iter()
                .map(|a| a.replace("{cmdline}", &self.command_line))
                .map(|a| a.replace("{filesystems}", &self.filesystems)),
        );
        let named: Vec<(&str, u32)> = named
            .iter()
            .map(|(name, slot)| (name.as_str(), *slot))
            .collect();
        startup::build(&component.name, &named, &arguments, lengths)
            .map_err(|_| "its arguments do not fit into the start-up block".to_string())
    }

    /// Configure the finished domain and let its first thread run, to which the portal in `own_thread` leads.
    fn run(
        &mut self,
        component: &Component,
        index: usize,
        target: Portal,
        entry: u64,
        own_thread: Option<u32>,
    ) -> Result<(), String> {
        let ceiling = component.ceiling.unwrap_or(component.priority);
        let own = component.registers != Some(Registers::Callers);
        fault(
            "configure",
            target.service(domain::CONFIGURE, &[own as u64, ceiling as u64]),
        )?;
        fault(
            "watch",
            target.service(domain::WATCH, &[native_slot::RECEIVE as u64, index as u64]),
        )?;
        let words = [
            entry,
            layout::NATIVE_STACK_TOP,
            0,
            0,
            0,
            component.priority as u64,
            AUTO,
        ];
        let made = fault("thread", target.service(domain::THREAD_CREATE, &words))?;
        let first = Portal(made[0] as u32);
        if let Some(slot) = own_thread {
            put(target, first, slot)?;
        }
        fault("start", first.service(thread::START, &[]))?;
        first.close();
        self.running[index].first = made[1];
        self.running[index].lives += 1;
        Ok(())
    }

    /// `vm`, by hand out of free frames. What is left of them is its own from then on.
    fn start_vm(&mut self, boot: &Boot, manifest: &Manifest) -> Result<(), String> {
        let component = &manifest.components[0];
        let (image, file) = self.image(component)?;
        let take = |count| boot.take(count).ok_or_else(|| "no memory".to_string());

        let space = Portal(
            fault(
                "space",
                MEMORY.service(memory::SPACE_CREATE, &[AUTO, AUTO, 0]),
            )?[0] as u32,
        );
        let tables = take(VM_TABLES)?;
        fault(
            "tables",
            MEMORY.service(memory::GIVE_TABLES, &[space.0 as u64, tables, VM_TABLES]),
        )?;
        let made = fault(
            "domain",
            MEMORY.service(memory::DOMAIN_CREATE, &[space.0 as u64, AUTO]),
        )?;
        let (target, id) = (Portal(made[0] as u32), made[1] as Id);
        self.running[0].domain = Some((target, id));
        log!("`{}` is domain {id}", component.name);

        let map = |address: u64, frame: u64, prot: u64| {
            fault(
                "map",
                MEMORY.service(memory::MAP, &[space.0 as u64, address, frame, 1, prot]),
            )
        };
        let mut buffer = Box::new(Page([0; PAGE as usize]));
        for segment in image.segments() {
            let mut bits = prot::READ;
            bits |= if segment.write { prot::WRITE } else { 0 };
            bits |= if segment.execute { prot::EXECUTE } else { 0 };
            let plan = plan(segment);
            for run in &plan.runs {
                match *run {
                    Run::File {
                        address,
                        pages,
                        offset,
                    } if !segment.write => {
                        let first = boot.archive_frame + (file.offset as u64 + offset) / PAGE;
                        for page in 0..pages {
                            map(address + page * PAGE, first + page, bits)?;
                        }
                    }
                    Run::File {
                        address,
                        pages,
                        offset,
                    } => {
                        for page in 0..pages {
                            let start = (offset + page * PAGE) as usize;
                            let end = (segment.offset + segment.file_size)
                                .min(offset + (page + 1) * PAGE)
                                as usize;
                            buffer.0.fill(0);
                            buffer.0[..end - start].copy_from_slice(&file.data[start..end]);
                            map(address + page * PAGE, self.frame_with(boot, &buffer)?, bits)?;
                        }
                    }
                    Run::Zero { address, pages } => {
                        for page in 0..pages {
                            map(address + page * PAGE, take(1)?, bits | map::ZERO)?;
                        }
                    }
                }
            }
        }
        for page in 1..=VM_STACK_PAGES {
            map(
                layout::NATIVE_STACK_TOP - page * PAGE,
                take(1)?,
                prot::READ | prot::WRITE | map::ZERO,
            )?;
        }
        let system_page = fault("system page", MEMORY.service(memory::SYSTEM_PAGE, &[]))?[0];
        map(layout::SYSTEM_PAGE, system_page, prot::READ)?;

        let mut named = self.give(manifest, 0, target)?;
        let mut more = Vec::from([("space", space), ("init-space", Portal(init_slot::SPACE))]);
        // For the IOMMU. A machine without such interrupts has none.
        if let Ok(words) = MACHINE.service(machine::MESSAGE, &[AUTO]) {
            more.push(("irq", Portal(words[0] as u32)));
        }
        for (name, portal) in more {
            let slot = native_slot::FIRST_NAMED + named.len() as u32;
            put(target, portal, slot)?;
            named.push((name.to_string(), slot));
        }
        // It lowers itself while it does at leisure what takes long.
        let thread = native_slot::FIRST_NAMED + named.len() as u32;
        named.push(("thread".to_string(), thread));
        let startup_frame = take(1)?;
        let own_id = fault("identity", Portal::CURRENT.service(current::IDENTITY, &[]))?[1];
        let archive_pages = (self.archive.len() as u64).div_ceil(PAGE);
        let free: Vec<String> = boot
            .free()
            .iter()
            .map(|r| format!("{}:{}", r.first, r.count))
            .collect();
        let firmware = fault("firmware", MACHINE.service(machine::FIRMWARE, &[]))?[0];
        let code = match manifest.first.writable_code {
            true => "allowed",
            false => "refused",
        };
        let arguments = [
            format!("writable-code={code}"),
            format!("free={}", free.join(",")),
            format!("used={}", boot.used()),
            format!("archive={}:{}", boot.archive_frame, archive_pages),
            format!("init={own_id}"),
            format!("acpi={firmware}"),
        ];
        let block = self.startup_block(component, &named, arguments.into(), (0, 0))?;
        buffer.0.copy_from_slice(&block);
        let source = buffer.frame().ok_or("no frame behind the buffer")?;
        fault(
            "copy",
            MEMORY.service(memory::COPY_FRAME, &[startup_frame, source]),
        )?;
        map(layout::STARTUP, startup_frame, prot::READ)?;
        self.run(component, 0, target, image.entry, Some(thread))
    }

    /// A fresh frame with the buffer's content.
    fn frame_with(&self, boot: &Boot, buffer: &Page) -> Result<u64, String> {
        let frame = boot.take(1).ok_or("no memory")?;
        let source = buffer.frame().ok_or("no frame behind the buffer")?;
        fault("copy", MEMORY.service(memory::COPY_FRAME, &[frame, source]))?;
        Ok(frame)
    }
}

/// The device portals of a manifest line.
fn devices(component: &Component) -> Result<Vec<(String, Portal)>, String> {
    let mut devices = Vec::new();
    for (name, grant) in &component.portals {
        let made = match *grant {
            Grant::Ports {
                ports: (first, count),
            } => MACHINE.service(machine::PORTS, &[first as u64, count as u64, AUTO]),
            Grant::Interrupt {
                interrupt,
                shared,
                trigger,
            } => {
                let shared = if shared { machine::SHARED } else { 0 };
                let words = [
                    interrupt as u64,
                    AUTO,
                    shared | trigger.map_or(0, trigger_bits),
                ];
                MACHINE.service(machine::INTERRUPT, &words)
            }
            Grant::Message { .. } => MACHINE.service(machine::MESSAGE, &[AUTO]),
            _ => continue,
        };
        let words =
            made.map_err(|e| format!("component `{}`, device `{name}`: {e:?}", component.name))?;
        devices.push((name.clone(), Portal(words[0] as u32)));
    }
    Ok(devices)
}

fn trigger_bits(trigger: Trigger) -> u64 {
    machine::TRIGGER
        | match trigger {
            Trigger::Edge => 0,
            Trigger::EdgeLow => machine::LOW,
            Trigger::LevelHigh => machine::LEVEL,
            Trigger::LevelLow => machine::LEVEL | machine::LOW,
        }
}

/// Put one of init's portals into a component's table.
fn put(target: Portal, portal: Portal, slot: u32) -> Result<(), String> {
    put_with(target, portal, slot, rights::ALL)
}

fn put_with(target: Portal, portal: Portal, slot: u32, rights: u16) -> Result<(), String> {
    let words = [portal.0 as u64, slot as u64, rights as u64];
    fault("portal", target.service(domain::PORTAL_PUT, &words))?;
    Ok(())
}
