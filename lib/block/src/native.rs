//! A device as a component has it: [`Disk`], through the portal to its driver that the manifest names.
//!
//! The component's loop hears of completions by pulses with the badge that it gave to [`Disk::open`]: it calls [`Disk::pulse`] with each of them, and then [`Device::completed`] until there is none.

use crate::client::{Bell, Client};
use crate::{Device, Info, Outcome, Refused, Request, PAGE};
use alloc::vec::Vec;
use cairn_abi::layout::native_slot;
use cairn_abi::pulse;
use cairn_idl::block::{self, properties, InfoAnswer, CHANGED, REQUESTS};
use cairn_idl::vm;
use cairn_idl::wire::Failure;
use cairn_rt::memory::Shared;
use cairn_rt::{Portal, Received, Receiver};

/// How many drivers may die one after the other before the device is given up.
const TRIES: u32 = 16;

pub struct Disk {
    driver: Portal,
    channel: Receiver,
    badge: u64,
    /// What drivers pin pages of the arena through, and how many of them stay where they are.
    arena: Portal,
    fixed: u32,
    client: Client<Shared>,
    /// The driver's bell.
    session: Option<Portal>,
    /// The user takes what came out, until there is nothing more: the driver hears then of what is submitted meanwhile.
    taking: bool,
    due: bool,
    /// The user submits several requests.
    held: bool,
}

/// What there is behind `driver`. It may wait until the driver has started.
pub fn info(driver: Portal) -> Result<Info, Failure> {
    Ok(translate(&block::Client(&driver).info()?))
}

fn translate(told: &InfoAnswer) -> Info {
    Info {
        sectors: told.sectors,
        block: told.block,
        read_only: told.properties & properties::READ_ONLY != 0,
        caches_writes: told.properties & properties::CACHES_WRITES != 0,
        discards: told.properties & properties::DISCARDS != 0,
        rotates: told.properties & properties::ROTATES != 0,
        most_pages: told.most_pages,
        most_requests: REQUESTS as u32,
    }
}

impl Disk {
    /// The device behind `driver`, for pages of this arena (whole pages, of this component's own). It may wait until the driver has started. `channel`'s pulses with this badge (below 2^32) are the device's.
    pub fn open(
        driver: Portal,
        arena: &mut [u8],
        channel: Receiver,
        badge: u64,
    ) -> Result<Disk, Failure> {
        Disk::with(driver, arena, 0, channel, badge)
    }

    /// The same for an arena whose pages have frames and keep them as long as there is the device: if they are few ([`block::FIXED_MOST`]), requests cost the driver less.
    pub fn open_fixed(
        driver: Portal,
        arena: &mut [u8],
        channel: Receiver,
        badge: u64,
    ) -> Result<Disk, Failure> {
        let pages = (arena.len() / PAGE) as u32;
        Disk::with(driver, arena, pages, channel, badge)
    }

    fn with(
        driver: Portal,
        arena: &mut [u8],
        fixed: u32,
        channel: Receiver,
        badge: u64,
    ) -> Result<Disk, Failure> {
        let info = block::Client(&driver).info()?;
        let (address, length) = (arena.as_mut_ptr() as u64, arena.len() as u64);
        let shared = vm::Client(&Portal(native_slot::VM)).dma_share(address, length)?;
        let mut disk = Disk {
            driver,
            channel,
            badge,
            arena: Portal(shared.slot()),
            fixed,
            client: Client::new(translate(&info)),
            session: None,
            taking: false,
            due: false,
            held: false,
        };
        match disk.attach() {
            Ok(()) => Ok(disk),
            Err(failure) => {
                disk.arena.close();
                Err(failure)
            }
        }
    }

    fn attach(&mut self) -> Result<(), Failure> {
        let bell = self
            .channel
            .make_portal(self.badge)
            .map_err(Failure::Gate)?;
        let arena = self.arena.duplicate().map_err(Failure::Gate);
        let arena = arena.inspect_err(|_| bell.close())?;
        let answer = block::Client(&self.driver)
            .attach(self.fixed, bell.0, arena.0)
            .inspect_err(|_| {
                // If they were not delivered.
                bell.close();
                arena.close();
            })?;
        let (rings, session) = (Portal(answer.rings.slot()), Portal(answer.session.slot()));
        let memory = Shared::map(rings, crate::rings::words());
        rings.close();
        let bell = memory.and_then(|memory| self.client.begin(memory));
        let Some(bell) = bell else {
            session.close();
            return Err(Failure::Nonsense);
        };
        self.session = Some(session);
        self.ring(bell);
        Ok(())
    }

    /// What is submitted from now on is told to the driver together, by [`Disk::tell`].
    pub fn hold(&mut self) {
        self.held = true;
    }

    pub fn tell(&mut self) {
        self.held = false;
        self.ring(Bell::Quiet);
    }

    fn ring(&mut self, bell: Bell) {
        self.due |= bell == Bell::Ring;
        if self.due && !self.taking && !self.held {
            self.due = false;
            if let Some(session) = self.session {
                // Of a driver that is gone a pulse tells.
                let _ = session.notify(1);
            }
        }
    }

    /// A pulse with the device's badge. If the driver is gone this waits for its successor, and gives it what was under way.
    pub fn pulse(&mut self, received: &Received) {
        if received.words[0] == pulse::CLOSED && !self.is_served() {
            self.again();
        }
        let told = received.words[0] == pulse::NOTIFY && received.words[1] & CHANGED != 0;
        if let Some(session) = self.session.filter(|_| told) {
            if let Ok(told) = block::Client(&session).info() {
                self.client.resize(told.sectors);
            }
        }
    }

    /// The whole disk's partitions from now on: number, first sector, sectors. `alone`: only if nobody else has the disk or a part of it.
    pub fn repartition(&mut self, alone: bool, table: &[(u32, u64, u64)]) -> Result<(), Failure> {
        let words = table
            .iter()
            .flat_map(|part| [u64::from(part.0), part.1, part.2]);
        let bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
        let session = self.session.unwrap_or(self.driver);
        block::Client(&session).repartition(alone, &bytes)
    }

    /// Whether the driver knows this session. It was another one's bell otherwise that is gone: of one that could not be made, or of this component's predecessor on the channel.
    fn is_served(&self) -> bool {
        let told = self.session.map(|session| block::Client(&session).info());
        matches!(told, Some(Ok(_)))
    }

    /// Another session, with the same device.
    fn again(&mut self) {
        self.client.pause();
        if let Some(session) = self.session.take() {
            session.close();
        }
        // A successor may die as well.
        for _ in 0..TRIES {
            let told = block::Client(&self.driver).info();
            let done = match told {
                Ok(told) if self.client.is_same(&translate(&told)) => self.attach(),
                Ok(_) => break,
                Err(failure) => Err(failure),
            };
            match done {
                Ok(()) => return,
                Err(Failure::Gate(_)) => {}
                Err(_) => break,
            }
        }
        self.client.end();
    }

    /// The driver has said elsewhere how many sectors there are.
    pub fn resize(&mut self, sectors: u64) {
        self.client.resize(sectors);
    }

    /// Give the device back, with the portal to its driver. What is under way comes to nothing.
    pub fn close(self) {
        for portal in self.session.into_iter().chain([self.arena, self.driver]) {
            portal.close();
        }
    }

    /// What drivers reach the arena through: `vm`'s DMA_BORROW puts loans behind it, whose pages requests may name as well.
    pub fn arena(&self) -> Portal {
        self.arena
    }

    /// How many requests have not come out.
    pub fn under_way(&self) -> usize {
        self.client.under_way()
    }
}

impl Device for Disk {
    fn info(&self) -> Info {
        self.client.info()
    }

    fn submit(&mut self, request: &Request) -> Result<(), Refused> {
        let bell = self.client.submit(request)?;
        self.ring(bell);
        Ok(())
    }

    fn completed(&mut self) -> Option<(u64, Outcome)> {
        let (out, bell) = self.client.completed();
        self.taking = out.is_some();
        self.ring(bell);
        if out.is_none() && !self.client.is_running() && !self.client.has_ended() {
            // The driver told something that cannot be: its session ends, its pulse comes.
            if let Some(session) = self.session.take() {
                session.close();
            }
        }
        out
    }
}
