//! Searching rings in rings, level by level. Each ring is looked at once, so what is searched is no more than the rings that are reached.

use crate::key::{Kind, State, Who, SEARCH};
use crate::store::Store;
use cairn_idl::errno::{EACCES, EAGAIN, EDEADLK, EKEYEXPIRED, EKEYREVOKED, ELOOP};

/// Rings in rings that a search goes down to.
pub const DEPTH: u8 = 6;

/// What is looked for.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// By type and description; none: no key at all is called so.
    pub name: Option<u32>,
    /// This very key, whatever has become of it.
    pub exact: Option<u32>,
    /// One that has expired is passed by as if it were not there.
    pub passes_expired: bool,
}

const END: u32 = u32::MAX;

/// Rings to be looked at, in order, linked in themselves.
struct Queue {
    number: u64,
    first: u32,
    last: u32,
}

impl Store {
    fn begin(&mut self, root: u32) -> Queue {
        self.searches += 1;
        let mut queue = Queue {
            number: self.searches,
            first: END,
            last: END,
        };
        self.enqueue(&mut queue, root, 0);
        queue
    }

    fn enqueue(&mut self, queue: &mut Queue, ring: u32, depth: u8) {
        let Some(key) = self.keys.get_mut(ring) else {
            return;
        };
        if key.seen == queue.number {
            return;
        }
        (key.seen, key.depth, key.next) = (queue.number, depth, END);
        match self.keys.get_mut(queue.last) {
            Some(last) if queue.last != END => last.next = ring,
            _ => queue.first = ring,
        }
        queue.last = ring;
    }

    fn dequeue(&mut self, queue: &mut Queue) -> Option<(u32, u8, u64)> {
        let ring = queue.first;
        let key = self.keys.get(ring)?;
        queue.first = key.next;
        if queue.first == END {
            queue.last = END;
        }
        Some((ring, key.depth, key.content))
    }

    /// The ring after this one in a ring.
    fn next_inner(&self, content: u64, after: Option<u32>) -> Option<u32> {
        let from = match after {
            None => 0,
            Some(after) => after.checked_add(1)?,
        };
        let next = self
            .inner
            .range((content, from)..=(content, u32::MAX))
            .next();
        next.map(|(_, key)| *key)
    }

    /// Whether a key that is called right is what is looked for. None: it is another.
    fn fits(
        &self,
        at: u32,
        possessed: bool,
        target: Target,
        who: &Who,
        now: u64,
    ) -> Option<Result<u32, i64>> {
        let key = self.keys.get(at)?;
        if target.exact.is_some_and(|exact| exact != at) {
            return None;
        }
        if target.exact.is_none() {
            if key.state != State::Live {
                return Some(Err(EKEYREVOKED));
            }
            if key.has_expired(now) {
                return (!target.passes_expired).then_some(Err(EKEYEXPIRED));
            }
        }
        Some(match key.allows(who, possessed, SEARCH) {
            true => Ok(at),
            false => Err(EACCES),
        })
    }

    /// Look for a key in a ring and those in it. EAGAIN: it is not there.
    pub fn search(
        &mut self,
        root: u32,
        possessed: bool,
        target: Target,
        who: &Who,
        now: u64,
    ) -> Result<u32, i64> {
        let ring = self.get(root)?;
        if !ring.allows(who, possessed, SEARCH) {
            return Err(EACCES);
        }
        let Some(name) = target.name else {
            return Err(EAGAIN);
        };
        if ring.name == name {
            if let Some(found) = self.fits(root, possessed, target, who, now) {
                return found;
            }
        }
        let mut failed = EAGAIN;
        let mut queue = self.begin(root);
        while let Some((ring, depth, content)) = self.dequeue(&mut queue) {
            if self.get(ring)?.state != State::Live {
                continue;
            }
            if let Some(link) = self.links.get(&(content, name)) {
                match self.fits(link.key, possessed, target, who, now) {
                    Some(Ok(found)) => return Ok(found),
                    Some(Err(error)) => failed = error,
                    None => {}
                }
            }
            if depth == DEPTH {
                continue;
            }
            let mut inner = self.next_inner(content, None);
            while let Some(ring) = inner {
                if self.get(ring)?.allows(who, possessed, SEARCH) {
                    self.enqueue(&mut queue, ring, depth + 1);
                }
                inner = self.next_inner(content, Some(ring));
            }
        }
        Err(failed)
    }

    /// Mark these rings and those in them, as far as their possessor may search them. What they have in them is possessed ([`Store::is_reached`]).
    pub fn reach(&mut self, roots: impl Iterator<Item = u32>, who: &Who) -> u64 {
        self.searches += 1;
        let mut queue = Queue {
            number: self.searches,
            first: END,
            last: END,
        };
        for root in roots {
            self.enqueue_searched(&mut queue, root, 0, who);
        }
        while let Some((ring, depth, content)) = self.dequeue(&mut queue) {
            let key = self.keys.get(ring);
            if depth == DEPTH || key.is_none_or(|key| key.state != State::Live) {
                continue;
            }
            let mut inner = self.next_inner(content, None);
            while let Some(ring) = inner {
                self.enqueue_searched(&mut queue, ring, depth + 1, who);
                inner = self.next_inner(content, Some(ring));
            }
        }
        queue.number
    }

    fn enqueue_searched(&mut self, queue: &mut Queue, ring: u32, depth: u8, who: &Who) {
        let key = self.keys.get(ring);
        if key.is_some_and(|key| key.allows(who, true, SEARCH)) {
            self.enqueue(queue, ring, depth);
        }
    }

    /// Was the key, or a ring that it is in, marked by [`Store::reach`] with this number?
    pub fn is_reached(&self, at: u32, number: u64, who: &Who) -> bool {
        let is_marked = |ring: &u32| {
            let ring = self.keys.get(*ring);
            ring.is_some_and(|ring| ring.seen == number && ring.state == State::Live)
        };
        let mut rings = self.rings_of.range((at, 0)..=(at, u64::MAX));
        let key = self.keys.get(at);
        key.is_some_and(|key| key.allows(who, true, SEARCH))
            && (is_marked(&at)
                || rings.any(|(_, content)| self.contents.get(content).is_some_and(is_marked)))
    }

    /// Whether a ring may come into another: EDEADLK, it has the other in it, or is it; ELOOP, it has rings in it deeper than [`DEPTH`].
    ///
    /// Each ring is gone into once. How deep it is below is kept in it for who comes there by another way.
    pub fn may_contain(&mut self, ring: u32, inner: u32) -> Result<(), i64> {
        if self.get(inner)?.kind != Kind::Keyring {
            return Ok(());
        }
        if inner == ring {
            return Err(EDEADLK);
        }
        self.searches += 1;
        let number = self.searches;
        // The way down: rings, and the last one of each that was gone into.
        let mut way = [(inner, None); DEPTH as usize + 1];
        let mut depth = 0;
        loop {
            let (at, last) = way[depth];
            let key = self.get_mut(at)?;
            if last.is_none() {
                (key.seen, key.depth) = (number, 0);
            }
            let content = key.content;
            let Some(below) = self.next_inner(content, last) else {
                let Some(above) = depth.checked_sub(1) else {
                    return Ok(());
                };
                let height = self.get(at)?.depth + 1;
                depth = above;
                let above = self.get_mut(way[depth].0)?;
                above.depth = above.depth.max(height);
                continue;
            };
            way[depth].1 = Some(below);
            if below == ring {
                return Err(EDEADLK);
            }
            let seen = self.get(below)?;
            let known = (seen.seen == number).then_some(seen.depth);
            if depth + 1 + usize::from(known.unwrap_or(0)) > usize::from(DEPTH) {
                return Err(ELOOP);
            }
            match known {
                None => {
                    depth += 1;
                    way[depth] = (below, None);
                }
                Some(height) => {
                    let key = self.get_mut(at)?;
                    key.depth = key.depth.max(height + 1);
                }
            }
        }
    }
}
