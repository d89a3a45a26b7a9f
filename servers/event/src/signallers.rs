//! Files that send signals (O_ASYNC): sets whose events nobody waits for.

use crate::sets::Event;
use cairn_idl::errno::{EINVAL, ENOMEM};
use cairn_idl::fs::poll;
use cairn_idl::proc::{Owner, OWNER_SHIFT};
use cairn_resmgr::table::Table;
use cairn_resmgr::{Context, Failure};

const SIGIO: u64 = 29;
const SIGNALS: u64 = 64;
/// si_code: of the system itself, and POLL_IN to POLL_HUP.
const KERNEL: u64 = 0x80;
const CODES: [(u64, u64, u64); 6] = [
    (poll::MSG, 3, poll::MSG | poll::IN | poll::RDNORM),
    (poll::HUP, 6, poll::HUP | poll::ERR),
    (poll::ERR, 4, poll::ERR),
    (poll::PRI, 5, poll::PRI),
    (poll::IN, 1, poll::IN | poll::RDNORM),
    (poll::OUT, 2, poll::OUT | poll::WRNORM),
];

struct Signaller {
    domain: u32,
    life: u64,
    signal: u64,
    owner: u64,
    descriptor: u64,
    pipe: bool,
    /// It was told how its file is.
    begun: bool,
    payer: u32,
}

/// What is charged for one: itself and its place.
const COST: usize = size_of::<Signaller>() + 16;

impl Signaller {
    /// The signal for what is ready.
    fn send(&self, cx: &mut Context, bits: u64) {
        let is = |(bit, ..): &&(u64, u64, u64)| bits & bit != 0;
        let (_, code, band) = CODES.iter().find(is).copied().unwrap_or((0, KERNEL, 0));
        let Signaller {
            domain,
            life,
            signal,
            owner,
            descriptor,
            ..
        } = *self;
        let _ = cx.transport.signal_owner(match signal {
            0 => [life, domain.into(), SIGIO, KERNEL, 0, 0, owner],
            _ => [life, domain.into(), signal, code, descriptor, band, owner],
        });
    }
}

#[derive(Default)]
pub struct Signallers(Table<Signaller>);

impl Signallers {
    /// One of the caller's, as SIGNALLER gives it.
    pub fn add(&mut self, cx: &mut Context) -> Result<u32, Failure> {
        let [_, signal, owner, descriptor, pipe, ..] = cx.request.words;
        if signal > SIGNALS || Owner::from_word(owner >> OWNER_SHIFT).is_none() {
            return Err(Failure::Errno(EINVAL));
        }
        let domain = cx.request.sender;
        let life = cx.transport.life_of(domain, 0).map_err(Failure::Errno)?;
        let payer = cx.payer();
        if !self.0.reserve(1) {
            return Err(Failure::Errno(ENOMEM));
        }
        cx.charge(payer, COST)?;
        let new = Signaller {
            domain,
            life,
            signal,
            owner,
            descriptor,
            pipe: pipe != 0,
            begun: false,
            payer,
        };
        let made = self.0.insert(new);
        if made.is_none() {
            cx.refund(payer, COST);
        }
        made.ok_or(Failure::Errno(ENOMEM))
    }

    pub fn remove(&mut self, cx: &mut Context, at: u32) {
        if let Some(gone) = self.0.remove(at) {
            cx.refund(gone.payer, COST);
        }
    }

    /// Signal and owner are others from now on.
    pub fn change(&mut self, at: u32, signal: u64, owner: u64) -> Result<(), i64> {
        if signal > SIGNALS || Owner::from_word(owner >> OWNER_SHIFT).is_none() {
            return Err(EINVAL);
        }
        let signaller = self.0.get_mut(at).ok_or(EINVAL)?;
        (signaller.signal, signaller.owner) = (signal, owner);
        Ok(())
    }

    /// Something happened in a directory.
    pub fn notified(&self, cx: &mut Context, at: u32) {
        if let Some(signaller) = self.0.get(at) {
            signaller.send(cx, poll::MSG);
        }
    }

    /// The file was told of; there is this event, or none.
    pub fn told(&mut self, cx: &mut Context, at: u32, event: Option<Event>) {
        let Some(signaller) = self.0.get_mut(at) else {
            return;
        };
        let begun = core::mem::replace(&mut signaller.begun, true);
        let Some(event) = event.filter(|_| begun) else {
            return;
        };
        let bits = match (u64::from(event.bits), signaller.pipe) {
            (bits, true) if bits & poll::HUP != 0 => poll::IN,
            (bits, true) if bits & poll::ERR != 0 => poll::OUT,
            (bits, _) => bits,
        };
        signaller.send(cx, bits);
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.0.len()
    }
}
