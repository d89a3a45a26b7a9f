//! A link as a component has it: [`Link`], through the portal to its driver that the manifest names.
//!
//! The component's loop hears of frames by pulses with the badge that it gave to [`Link::open`]: it calls [`Link::pulse`] with each of them, and then [`Link::received`] until there is none.

use crate::client::{Bell, Client, Frame, Refused, Tally};
use crate::rings::Piece;
use crate::{Info, Offload, BUFFER, PAGE};
use cairn_abi::layout::native_slot;
use cairn_abi::pulse;
use cairn_abi::service::current;
use cairn_idl::errno::EBUSY;
use cairn_idl::link::{self, properties, Counts, InfoAnswer, Way, CHANGED, PAGES_MOST};
use cairn_idl::vm;
use cairn_idl::wire::Failure;
use cairn_rt::memory::{self, Shared};
use cairn_rt::{time, Portal, Received, Receiver};

/// How many drivers may die one after the other before the link is given up.
const TRIES: u32 = 16;
/// How long the session of this component's predecessor may take to end.
const PATIENCE: u64 = 1_000_000_000;
const NAP: u64 = 5_000_000;

pub struct Link {
    driver: Portal,
    channel: Receiver,
    badge: u64,
    /// What drivers pin pages of the arena through.
    share: Portal,
    memory: &'static mut [u8],
    /// Where the part begins that frames are sent from.
    buffers: usize,
    client: Client<Shared>,
    /// The driver's bell.
    session: Option<Portal>,
    /// There will be no driver any more.
    ended: bool,
}

/// What there is behind `driver`. It may wait until the driver has started.
pub fn info(driver: Portal) -> Result<Info, Failure> {
    Ok(translate(&link::Client(&driver).info()?))
}

/// What a driver has counted.
pub fn counts(driver: Portal) -> Result<Counts, Failure> {
    link::Client(&driver).counts()
}

fn translate(told: &InfoAnswer) -> Info {
    let [a, b, c, d, e, f, ..] = told.mac.to_le_bytes();
    let has = |bit| told.properties & bit != 0;
    Info {
        mac: [a, b, c, d, e, f],
        mtu: told.mtu,
        up: has(properties::UP),
        sums_out: has(properties::SUMS_OUT),
        sums_in: has(properties::SUMS_IN),
        segments: [has(properties::SEGMENTS_4), has(properties::SEGMENTS_6)],
        head: told.head,
        buffers: told.buffers,
    }
}

fn nap() {
    let until = time::monotonic() + NAP;
    let _ = Portal::CURRENT.service(current::SLEEP, &[until]);
}

impl Link {
    /// The link behind `driver`, with so many pages for receive buffers (two in each) and for frames to be sent. It may wait until the driver has started. `channel`'s pulses with this badge (below 2^32) are the link's.
    pub fn open(
        driver: Portal,
        receive: usize,
        send: usize,
        channel: Receiver,
        badge: u64,
    ) -> Result<Link, Failure> {
        let info = info(driver)?;
        let pages = receive + send;
        if pages > PAGES_MOST as usize {
            return Err(Failure::Refused(cairn_idl::errno::EINVAL));
        }
        let no_memory = Failure::Refused(cairn_idl::errno::ENOMEM);
        let memory = memory::map(pages * PAGE).ok_or(no_memory)?;
        memory::populate(memory).map_err(|_| no_memory)?;
        let (address, length) = (memory.as_mut_ptr() as u64, memory.len() as u64);
        let shared = vm::Client(&Portal(native_slot::VM)).dma_share(address, length)?;
        let buffers = receive * PAGE;
        let mut link = Link {
            driver,
            channel,
            badge,
            share: Portal(shared.slot()),
            memory,
            buffers,
            client: Client::new(info, (buffers / BUFFER) as u32),
            session: None,
            ended: false,
        };
        let until = time::monotonic() + PATIENCE;
        loop {
            match link.attach() {
                Ok(()) => return Ok(link),
                // A predecessor of this component has it still.
                Err(Failure::Refused(EBUSY)) if time::monotonic() < until => {
                    nap();
                }
                Err(failure) => {
                    link.share.close();
                    return Err(failure);
                }
            }
        }
    }

    fn attach(&mut self) -> Result<(), Failure> {
        let bell = self
            .channel
            .make_portal(self.badge)
            .map_err(Failure::Gate)?;
        let arena = self.share.duplicate().map_err(Failure::Gate);
        let arena = arena.inspect_err(|_| bell.close())?;
        let pages = (self.memory.len() / PAGE) as u32;
        let answer = link::Client(&self.driver)
            .attach(pages, bell.0, arena.0)
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

    fn ring(&mut self, bell: Bell) {
        if let (Bell::Ring, Some(session)) = (bell, self.session) {
            // Of a driver that is gone a pulse tells.
            let _ = session.notify(1);
        }
    }

    /// A pulse with the link's badge. If the driver is gone this waits for its successor, and goes on with it. True: [`Link::info`] may say something else.
    pub fn pulse(&mut self, received: &Received) -> bool {
        if received.words[0] == pulse::CLOSED && !self.is_served() {
            self.again();
            return true;
        }
        let told = received.words[0] == pulse::NOTIFY && received.words[1] & CHANGED != 0;
        if told {
            if let Ok(info) = info(self.session.unwrap_or(self.driver)) {
                self.client.learn(info);
            }
        }
        told
    }

    /// Whether the driver knows this session. It was another one's bell otherwise that is gone: of one that could not be made, or of this component's predecessor on the channel.
    fn is_served(&self) -> bool {
        let told = self.session.map(|session| link::Client(&session).info());
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
            let done = info(self.driver).and_then(|info| {
                self.client.learn(info);
                self.attach()
            });
            match done {
                Ok(()) => return,
                Err(Failure::Gate(_)) => {}
                Err(Failure::Refused(EBUSY)) => nap(),
                Err(_) => break,
            }
        }
        self.ended = true;
    }

    /// There is no link any more.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    pub fn info(&self) -> Info {
        self.client.info()
    }

    pub fn tally(&self) -> Tally {
        self.client.tally
    }

    /// What the driver has counted.
    pub fn counts(&self) -> Result<Counts, Failure> {
        counts(self.driver)
    }

    /// How the driver hears of the device from now on .
    pub fn events(&self, way: Way, hertz: u32) -> Result<(), Failure> {
        link::Client(&self.driver).events(way, hertz)
    }

    /// A frame that has come, if there is one. Never waits; only when it has said None does the driver tell of the next one.
    pub fn received(&mut self) -> Option<Frame> {
        let memory = &*self.memory;
        let (frame, bell) = self.client.received(|buffer| {
            let at = buffer as usize * BUFFER;
            core::array::from_fn(|i| memory.get(at + i).copied().unwrap_or(0))
        });
        self.ring(bell);
        self.mend();
        frame
    }

    /// The bytes of a frame, in pieces (one, where the MTU is 1,500).
    pub fn bytes<'l>(&'l self, frame: &'l Frame) -> impl Iterator<Item = &'l [u8]> {
        frame.parts().map(|(buffer, at, length)| {
            let start = buffer as usize * BUFFER + at;
            self.memory.get(start..start + length).unwrap_or(&[])
        })
    }

    /// It was read.
    pub fn give_back(&mut self, frame: &Frame) {
        let bell = self.client.give_back(frame);
        self.ring(bell);
    }

    /// Where frames are sent from; [`Link::place`] says where a byte of it is.
    pub fn space(&mut self) -> &mut [u8] {
        &mut self.memory[self.buffers..]
    }

    /// Where byte `at` of [`Link::space`] is in the arena.
    pub fn place(&self, at: usize) -> u32 {
        (self.buffers + at) as u32
    }

    /// Send a frame: pieces of the arena, which stay as they are until it has left. → its number. It may leave twice, if the driver dies.
    pub fn send(&mut self, pieces: &[Piece], offload: &Offload) -> Result<u16, Refused> {
        let (number, bell) = self.client.send(pieces, offload)?;
        self.ring(bell);
        Ok(number)
    }

    /// The number of one that has left. With `tell` a pulse comes for the next one when it has said None.
    pub fn sent(&mut self, tell: bool) -> Option<u16> {
        let (number, bell) = self.client.sent(tell);
        self.ring(bell);
        self.mend();
        number
    }

    pub fn on_the_way(&self) -> usize {
        self.client.on_the_way()
    }

    /// A driver that told something that cannot be loses its session; its pulse comes.
    fn mend(&mut self) {
        if !self.client.is_running() && !self.ended {
            if let Some(session) = self.session.take() {
                session.close();
            }
        }
    }
}
