//! The user's side of a session: keeps what is under way until it has come out, so that it can be given to the driver's successor once more.

use crate::rings::{self, LIST};
use crate::{Info, Kept, Outcome, Refused, Request};
use alloc::collections::VecDeque;
use cairn_idl::block::REQUESTS;
use cairn_queue::{Part, Receiver, Sender};
use core::ops::Deref;
use core::sync::atomic::AtomicU64;

/// A request that is under way.
struct Slot {
    kept: Kept,
    /// The driver has it.
    sent: bool,
    /// How many drivers have waited for it in vain.
    late: u32,
}

/// A request is tried so often on a device that does not answer.
pub const LATE_MOST: u32 = 3;

struct Rings<M> {
    asked: Sender<Part<M>>,
    done: Receiver<Part<M>>,
}

/// What a driver needs to be told, or nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bell {
    Ring,
    Quiet,
}

fn note_late(place: &mut Option<Slot>) {
    if let Some(asked) = place.as_mut().filter(|asked| asked.sent) {
        asked.late += 1;
    }
}

pub struct Client<M> {
    info: Info,
    rings: Option<Rings<M>>,
    slots: [Option<Slot>; REQUESTS],
    used: usize,
    /// Slots whose request is not sent, in order.
    unsent: VecDeque<u8>,
    /// What came to nothing without the driver.
    failed: VecDeque<u64>,
    /// The pages of a request that is being sent.
    list: [u8; LIST],
    /// There is no driver any more.
    ended: bool,
}

impl<M: Deref<Target = [AtomicU64]>> Client<M> {
    /// Of a device like this, without a session as yet.
    pub fn new(info: Info) -> Client<M> {
        Client {
            info,
            rings: None,
            slots: [const { None }; REQUESTS],
            used: 0,
            unsent: VecDeque::with_capacity(REQUESTS),
            failed: VecDeque::with_capacity(REQUESTS),
            list: [0; LIST],
            ended: false,
        }
    }

    pub fn info(&self) -> Info {
        self.info
    }

    /// The device has become another size.
    pub fn resize(&mut self, sectors: u64) {
        self.info.sectors = sectors;
    }

    /// Whether a driver's successor has the same device; it may have grown meanwhile.
    pub fn is_same(&mut self, told: &Info) -> bool {
        let Info { sectors, .. } = self.info;
        let same = told.sectors >= sectors && Info { sectors, ..*told } == self.info;
        if same {
            self.info = *told;
        }
        same
    }

    /// The driver, or its successor, has made these rings: what is under way goes into them. None: they are too small.
    pub fn begin(&mut self, memory: M) -> Option<Bell> {
        let (asked, done) = rings::split(memory)?;
        self.rings = Some(Rings {
            asked: Sender::new(asked, rings::ASKED)?,
            done: Receiver::new(done, rings::DONE)?,
        });
        self.unsent.clear();
        for (slot, place) in self.slots.iter_mut().enumerate() {
            // Only now, when the device was reset, its pages are the user's again.
            if let Some(given_up) = place.take_if(|asked| asked.late >= LATE_MOST) {
                self.used -= 1;
                self.failed.push_back(given_up.kept.id);
            }
            if let Some(asked) = place {
                asked.sent = false;
                self.unsent.push_back(slot as u8);
            }
        }
        Some(self.send())
    }

    /// The driver is gone; what is under way waits for the next one.
    pub fn pause(&mut self) {
        let Some(mut rings) = self.rings.take() else {
            return;
        };
        // Its last words may be that something was late. (What else came out comes out again.)
        for _ in 0..REQUESTS {
            let Ok(Some((message, _))) = rings.done.receive(&mut []) else {
                break;
            };
            let (slot, told) = rings::completed(&message);
            if let (None, Some(place)) = (told, self.slots.get_mut(slot as usize)) {
                note_late(place);
            }
        }
    }

    /// There will be no driver: everything fails, and what comes later as well.
    pub fn end(&mut self) {
        self.rings = None;
        self.ended = true;
        self.unsent.clear();
        for asked in self.slots.iter_mut().filter_map(Option::take) {
            self.failed.push_back(asked.kept.id);
        }
        self.used = 0;
    }

    /// Whether there is a session.
    pub fn is_running(&self) -> bool {
        self.rings.is_some()
    }

    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// How many requests have not come out.
    pub fn under_way(&self) -> usize {
        self.used + self.failed.len()
    }

    pub fn submit(&mut self, request: &Request) -> Result<Bell, Refused> {
        if !self.info.allows(request) {
            return Err(Refused::Invalid);
        }
        if self.under_way() >= self.info.most_requests as usize {
            return Err(Refused::Full);
        }
        if self.ended {
            self.failed.push_back(request.id);
            return Ok(Bell::Quiet);
        }
        let slot = self.slots.iter().position(Option::is_none);
        let slot = slot.ok_or(Refused::Full)?;
        self.slots[slot] = Some(Slot {
            kept: request.into(),
            sent: false,
            late: 0,
        });
        self.used += 1;
        self.unsent.push_back(slot as u8);
        Ok(self.send())
    }

    /// Send what is not sent, as far as the ring has room: the rest goes when something has come out.
    fn send(&mut self) -> Bell {
        let mut bell = Bell::Quiet;
        while let (Some(rings), Some(&slot)) = (&mut self.rings, self.unsent.front()) {
            let Some(asked) = &mut self.slots[slot as usize] else {
                self.unsent.pop_front();
                continue;
            };
            let (words, data) = rings::encode(slot as usize, &asked.kept.request(), &mut self.list);
            match rings.asked.send(words, data) {
                Ok(wakes) => {
                    asked.sent = true;
                    self.unsent.pop_front();
                    if wakes {
                        bell = Bell::Ring;
                    }
                }
                Err(cairn_queue::Error::Full) => break,
                Err(_) => self.rings = None,
            }
        }
        bell
    }

    /// One that has come out. The driver is not believed: what it does not have cannot come out.
    pub fn completed(&mut self) -> (Option<(u64, Outcome)>, Bell) {
        if let Some(id) = self.failed.pop_front() {
            return (Some((id, Outcome::Failed)), Bell::Quiet);
        }
        while let Some(rings) = &mut self.rings {
            match rings.done.receive(&mut []) {
                Ok(Some((message, _))) => {
                    let (slot, told) = rings::completed(&message);
                    let Some(place) = self.slots.get_mut(slot as usize) else {
                        continue;
                    };
                    let Some(outcome) = told else {
                        note_late(place);
                        continue;
                    };
                    if let Some(asked) = place.take_if(|asked| asked.sent) {
                        self.used -= 1;
                        return (Some((asked.kept.id, outcome)), self.send());
                    }
                }
                // Asked to be told of the next one; was there one meanwhile?
                Ok(None) => match rings.done.arm() {
                    Ok(true) => {}
                    Ok(false) => return (None, Bell::Quiet),
                    Err(_) => self.rings = None,
                },
                Err(_) => self.rings = None,
            }
        }
        (None, Bell::Quiet)
    }
}
