//! The model of derivation and revocation: portals that come from others, copies of them in several tables, and a revocation that goes on in shares while all others
//! derive, pass on, close, call, and receive calls. Entries hold objects, and so do calls that wait to be received; revoking an object takes what came from it, not the object itself.

use crate::explore::Model;

/// Most objects and entries of a setup.
pub const OBJECTS: usize = 6;
pub const SLOTS: usize = 6;
/// Most threads that call.
pub const CALLERS: usize = 2;

type Object = u8;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// How many objects were made; none is used again.
    made: u8,
    /// What each came from, in the nucleus's books: out of them when it is cut.
    parent: [Option<Object>; OBJECTS],
    revoked: [bool; OBJECTS],
    /// All that each came from, as a set of bits that nothing changes any more: the truth to compare with.
    ancestors: [u8; OBJECTS],
    /// What each entry holds; entries `2 n` and `2 n + 1` are domain `n`'s.
    slots: [Option<Object>; SLOTS],
    /// What each caller's call came through, while it waits to be received.
    calls: [Option<Object>; CALLERS],
    /// The object whose descendants are being revoked, and those that must be gone when that is done.
    revoking: Option<(Object, u8)>,
    /// Objects whose descendants somebody began to revoke.
    begun: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// What comes from the first entry goes into the second, of the same domain.
    Derive(u8, u8),
    /// A copy, perhaps in another domain.
    Pass(u8, u8),
    Close(u8),
    Revoke(u8),
    /// A revocation goes on.
    Share,
    /// A caller calls through the entry.
    Call(u8, u8),
    /// A server comes to a caller's call.
    Receive(u8),
}

/// Mistakes that can be put in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Only what came from it directly is taken.
    ChildrenOnly,
    /// What came from a child is forgotten when the child is cut.
    CutForgetsDescendants,
    /// Something may be derived from what is revoked.
    DeriveFromRevoked,
    /// The portal itself goes as well.
    TakesItself,
    /// It returns before everything is gone.
    EndsEarly,
    /// Closing the entry from which something was derived saves that from revocation.
    CloseFreesChildren,
    /// Calls that wait through what is revoked stay.
    CallsStay,
    /// A server gets one in the midst of a revocation.
    ReceivesRevoked,
    /// Calls through an object of which no entry is left stay: they do not hold it.
    CallsDoNotHold,
    /// Calls through the portal itself end as well.
    EndsItsOwnCalls,
}

impl Fault {
    pub const ALL: [Fault; 10] = [
        Fault::ChildrenOnly,
        Fault::CutForgetsDescendants,
        Fault::DeriveFromRevoked,
        Fault::TakesItself,
        Fault::EndsEarly,
        Fault::CloseFreesChildren,
        Fault::CallsStay,
        Fault::ReceivesRevoked,
        Fault::CallsDoNotHold,
        Fault::EndsItsOwnCalls,
    ];
}

#[derive(Clone, Copy, Debug)]
pub struct Setup {
    pub objects: usize,
    pub slots: usize,
    pub callers: usize,
    pub fault: Option<Fault>,
}

fn has(set: u8, object: Object) -> bool {
    set & 1 << object != 0
}

impl Setup {
    fn is(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    /// The object made last of those whose parent, in the books, is `o`.
    fn child(s: &State, o: Object) -> Option<Object> {
        (0..s.made).rev().find(|&c| s.parent[c as usize] == Some(o))
    }

    /// One of the calls through `o` ends with an error.
    fn end_call(s: &mut State, o: Object) -> Result<bool, String> {
        let Some(call) = s.calls.iter_mut().find(|call| **call == Some(o)) else {
            return Ok(false);
        };
        *call = None;
        if s.ancestors[o as usize] & s.begun == 0 {
            return Err(format!(
                "a call through {o} ended, and nobody revoked what that came from"
            ));
        }
        Ok(true)
    }

    /// From the top down to one from which nothing came: all on the way are cut; of the last a call ends, or it leaves the family.
    fn share(&self, s: &mut State) -> Result<(), String> {
        let Some((root, _)) = s.revoking else {
            return Ok(());
        };
        let Some(mut at) = Setup::child(s, root) else {
            s.revoking = None;
            return Ok(());
        };
        loop {
            s.revoked[at as usize] = true;
            match Setup::child(s, at) {
                Some(child) if !self.is(Fault::ChildrenOnly) => at = child,
                Some(child) if self.is(Fault::CutForgetsDescendants) => {
                    s.parent[child as usize] = None;
                }
                _ => break,
            }
        }
        if self.is(Fault::CutForgetsDescendants) {
            // Whatever else came from those on the way is out of the books.
            for o in 0..s.made {
                if s.parent[o as usize].is_some_and(|p| s.revoked[p as usize]) {
                    s.parent[o as usize] = None;
                }
            }
        }
        if self.is(Fault::EndsItsOwnCalls) && Setup::end_call(s, root)? {
            return Ok(());
        }
        if !self.is(Fault::CallsStay) && Setup::end_call(s, at)? {
            return Ok(());
        }
        s.parent[at as usize] = None;
        if self.is(Fault::EndsEarly) {
            s.revoking = None;
        }
        Ok(())
    }

    /// No entry or call holds the object, and nothing came from it: it goes, and so for those that it came from.
    fn unheld(&self, s: &mut State, o: Object) {
        let mut next = Some(o);
        while let Some(o) = next {
            let called = s.calls.contains(&Some(o)) && !self.is(Fault::CallsDoNotHold);
            if called || s.slots.contains(&Some(o)) || Setup::child(s, o).is_some() {
                return;
            }
            next = s.parent[o as usize].take();
        }
    }
}

impl Model for Setup {
    type State = State;
    type Action = Action;

    fn start(&self) -> State {
        let mut state = State {
            made: 1,
            parent: [None; OBJECTS],
            revoked: [false; OBJECTS],
            ancestors: [0; OBJECTS],
            slots: [None; SLOTS],
            calls: [None; CALLERS],
            revoking: None,
            begun: 0,
        };
        state.slots[0] = Some(0);
        state
    }

    fn actions(&self, s: &State, into: &mut Vec<Action>) {
        for from in 0..self.slots as u8 {
            let Some(o) = s.slots[from as usize] else {
                continue;
            };
            into.push(Action::Close(from));
            let free = (0..self.callers).find(|&caller| s.calls[caller].is_none());
            if let (Some(caller), false) = (free, s.revoked[o as usize]) {
                into.push(Action::Call(from, caller as u8));
            }
            if s.revoking.is_none() {
                into.push(Action::Revoke(from));
            }
            for to in 0..self.slots as u8 {
                if s.slots[to as usize].is_some() {
                    continue;
                }
                into.push(Action::Pass(from, to));
                let dead = s.revoked[o as usize] && !self.is(Fault::DeriveFromRevoked);
                if from / 2 == to / 2 && (s.made as usize) < self.objects && !dead {
                    into.push(Action::Derive(from, to));
                }
            }
        }
        for caller in 0..self.callers {
            if s.calls[caller].is_some() {
                into.push(Action::Receive(caller as u8));
            }
        }
        if s.revoking.is_some() {
            into.push(Action::Share);
        }
    }

    fn step(&self, before: &State, action: Action) -> Result<State, String> {
        let mut s = before.clone();
        match action {
            Action::Derive(from, to) => {
                if let Some(o) = s.slots[from as usize] {
                    let made = s.made;
                    s.made += 1;
                    s.parent[made as usize] = Some(o);
                    s.ancestors[made as usize] = s.ancestors[o as usize] | 1 << o;
                    s.slots[to as usize] = Some(made);
                }
            }
            Action::Pass(from, to) => s.slots[to as usize] = s.slots[from as usize],
            Action::Close(slot) => {
                let closed = s.slots[slot as usize].take();
                if self.is(Fault::CloseFreesChildren) {
                    for parent in &mut s.parent {
                        *parent = parent.filter(|_| *parent != closed);
                    }
                }
                if let Some(o) = closed {
                    self.unheld(&mut s, o);
                }
            }
            Action::Call(slot, caller) => s.calls[caller as usize] = s.slots[slot as usize],
            Action::Receive(caller) => {
                if let Some(o) = s.calls[caller as usize].take() {
                    // If it came through what is revoked its caller is told so.
                    if s.revoked[o as usize] && self.is(Fault::ReceivesRevoked) {
                        return Err(format!("{o} is revoked, and a call through it goes on"));
                    }
                    self.unheld(&mut s, o);
                }
            }
            Action::Revoke(slot) => {
                if let Some(o) = s.slots[slot as usize] {
                    let doomed = (0..s.made)
                        .filter(|&d| has(s.ancestors[d as usize], o))
                        .fold(0, |set, d| set | 1 << d);
                    s.revoking = Some((o, doomed));
                    s.begun |= 1 << o;
                    if self.is(Fault::TakesItself) {
                        s.revoked[o as usize] = true;
                    }
                }
            }
            Action::Share => self.share(&mut s)?,
        }
        if let (Some((root, doomed)), None) = (before.revoking, s.revoking) {
            for o in 0..s.made {
                if has(doomed, o) && s.slots.contains(&Some(o)) && !s.revoked[o as usize] {
                    return Err(format!(
                        "{root} was revoked, and {o} came from it and can be used"
                    ));
                }
                if has(doomed, o) && s.calls.contains(&Some(o)) {
                    return Err(format!(
                        "{root} was revoked, and a call through {o}, which came from it, waits"
                    ));
                }
            }
        }
        Ok(s)
    }

    fn check(&self, s: &State) -> Result<(), String> {
        for o in 0..s.made {
            let ancestors = s.ancestors[o as usize];
            if s.revoked[o as usize] && ancestors & s.begun == 0 {
                return Err(format!(
                    "{o} is revoked, and nobody revoked what it came from"
                ));
            }
            let dead = (0..s.made).find(|&a| has(ancestors, a) && s.revoked[a as usize]);
            let usable = s.slots.contains(&Some(o)) && !s.revoked[o as usize];
            if let (None, Some(a), true) = (s.revoking, dead, usable) {
                return Err(format!(
                    "{o} can be used, and {a}, from which it came, is revoked"
                ));
            }
        }
        Ok(())
    }
}
