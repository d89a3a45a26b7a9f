//! Open files: a handle for each portal that the framework minted, found by the portal's badge.
//!
//! A badge is a slot's index and its generation (never 0), so that a message which was queued through a portal that has been closed since
//! finds nothing. Badges below 2^32 are no handles: 0 is the mount portal, the others are the server's own.
//!
//! **Who pays.** A slot is charged to the user who had it made ([`Handles::room`] before anything changes), until it is free: also while its portal is kept for another file.
//!
//! **Handles that are used again.** Who opened a file alone may close it by CLOSE and keep the portal: its badge then stands for nothing until the same domain opens another file through it. As soon as another domain uses the handle that is over,
//! so nobody can change a file under somebody else's hands; what is done before that could as well have been done before the portal was handed on.
//!
//! **Rooted handles.** A directory's handle may have a root: the node above which no name that begins at the handle leads. It is given once ([`cairn_idl::fs::ROOTED`]), and every directory that is opened through such a handle has the same one.
//! So who has nothing but handles below a folder reaches nothing else, whatever it asks.

use crate::context::{Context, Failure};
use crate::keep::{Keepsake, Kept, Open};
use crate::server::Server;
use crate::table::Table;
use alloc::collections::BTreeMap;
use cairn_abi::Id;
use cairn_idl::errno::{EBADF, EIO, ENOMEM};
use cairn_idl::fs::kind::SEEKABLE;
use cairn_idl::fs::{o, KEPT_LIFE_SHIFT, KEPT_SLOT_SHIFT};
use cairn_rt::Received;

/// No domain.
const NOBODY: Id = Id::MAX;

/// Among a handle's flags: data that was written to the file is lost, and nobody has heard of it through this handle.
pub(crate) const LOST: u64 = 1 << 62;

/// One open file, as the server sees it. Its position is the framework's.
pub struct Handle<S: Server> {
    pub badge: u64,
    pub node: S::Node,
    /// O_ flags, without those that only matter while opening.
    pub flags: u64,
    /// [`cairn_idl::fs::kind`] bits.
    pub kind: u64,
    pub state: S::State,
}

impl<S: Server> Handle<S> {
    pub fn readable(&self) -> bool {
        self.flags & (o::PATH | LOST) == 0 && matches!(self.flags & o::ACCMODE, o::RDONLY | o::RDWR)
    }

    pub fn writable(&self) -> bool {
        self.flags & (o::PATH | LOST) == 0 && matches!(self.flags & o::ACCMODE, o::WRONLY | o::RDWR)
    }

    /// Files and disks count as always ready: who reads them waits for the disk all the same.
    pub fn nonblocking(&self) -> bool {
        use cairn_idl::fs::kind;
        self.flags & o::NONBLOCK != 0 && self.kind & kind::ALWAYS_READY == 0
    }
}

pub(crate) struct Entry<S: Server> {
    pub handle: Handle<S>,
    pub position: u64,
    /// The domain that opened it, as long as no other one has used it.
    owner: Id,
    /// Has locks: look for them when it closes.
    pub locks: bool,
    /// Its holder asked for the page of the file's frames.
    pub frames: bool,
    /// What a successor will find of it.
    pub kept: Option<Kept>,
    /// The directory above which no name leads from here.
    pub root: Option<S::Node>,
    /// The mount that it belongs to ([`crate::private`]), and whether its root is another one than the mount's.
    pub mount: Option<u32>,
    pub below: bool,
    /// A write through it has taken some bytes and waits: whose it is. What else is done through the handle does not change where that began.
    pub middle: u64,
}

impl<S: Server> Entry<S> {
    #[inline]
    pub fn set_position(&mut self, position: u64) {
        self.position = position;
        if let Some(kept) = self.kept {
            kept.set_position(position);
        }
    }

    pub fn set_flags(&mut self, flags: u64) {
        self.handle.flags = flags;
        if let Some(kept) = self.kept {
            kept.set_flags(flags);
        }
    }

    /// A request begins at `offset`; where it began at first if it was made before (its first call had the number `repeated`), and a server that died with it
    /// had begun it.
    #[inline]
    pub fn begin(&mut self, token: u64, repeated: Option<u32>, offset: u64) -> u64 {
        let Some(kept) = self.kept else { return offset };
        let offset = match repeated {
            None => offset,
            Some(first) => kept.begun(token, first).unwrap_or(offset),
        };
        if self.middle == 0 {
            kept.begin(token, offset);
        }
        offset
    }

    /// Data of the file was lost: told once.
    pub fn take_lost(&mut self) -> bool {
        let lost = self.handle.flags & LOST != 0;
        if lost {
            self.set_flags(self.handle.flags & !LOST);
        }
        lost
    }
}

/// A slot that is not free.
struct Slot<S: Server> {
    generation: u32,
    /// The user that it is charged to.
    payer: u32,
    entry: Option<Entry<S>>,
    /// Of an empty one: the domain that keeps the portal for another file.
    kept_by: Id,
}

impl<S: Server> Slot<S> {
    /// Bytes that are charged for a slot: its own, and what the table and a keepsake need for it.
    const COST: u64 = size_of::<Slot<S>>() as u64 + 32;

    fn new(generation: u32, payer: u32) -> Slot<S> {
        Slot {
            generation,
            payer,
            entry: None,
            kept_by: NOBODY,
        }
    }

    /// It is empty, and this domain kept it by this (lower half of the) generation.
    #[inline(always)]
    fn is_kept(&self, life: u16, by: Id) -> bool {
        self.kept_by == by && by != NOBODY && self.generation as u16 == life
    }

    #[inline(always)]
    fn badge(&self, at: u32) -> u64 {
        (self.generation as u64) << 32 | at as u64
    }

    #[inline(always)]
    fn fill(
        &mut self,
        badge: u64,
        owner: Id,
        (node, flags, kind): (S::Node, u64, u64),
        state: S::State,
    ) {
        self.entry = Some(Entry {
            handle: Handle {
                badge,
                node,
                flags,
                kind,
                state,
            },
            position: 0,
            owner,
            locks: false,
            frames: false,
            kept: None,
            root: None,
            mount: None,
            below: false,
            middle: 0,
        });
    }
}

/// A slot that has become free: what was open, and what is to be given back to whom.
pub(crate) struct Removed<S: Server> {
    pub entry: Option<Entry<S>>,
    pub payer: u32,
    pub bytes: u64,
}

/// The table of open files.
pub struct Handles<S: Server> {
    slots: Table<Slot<S>>,
    /// Slots that are empty and kept for a domain.
    spare: usize,
    keep: Keepsake,
    /// The last new slot's generation.
    generation: u32,
    /// Generations from here on must be set aside before they are used.
    beyond: u32,
    /// Handles of a predecessor whose nodes were not found again; their slots are nobody else's until their portals are closed.
    gone: BTreeMap<u64, Kept>,
    /// There was a predecessor: badges that are not known may be its own.
    follows: bool,
}

/// What became of the open files of a predecessor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// They go on; of these, those whose files lost data.
    pub open: usize,
    pub lost: usize,
    /// Their files are not there any more.
    pub gone: usize,
}

impl<S: Server> Default for Handles<S> {
    fn default() -> Self {
        Handles {
            slots: Table::default(),
            spare: 0,
            keep: Keepsake::default(),
            generation: 0,
            beyond: u32::MAX,
            gone: BTreeMap::new(),
            follows: false,
        }
    }
}

/// The kept badge that an OPEN names: slot, and the lower half of the generation (0: none).
#[inline(always)]
fn named(request: &Received) -> (u32, u16) {
    let [_, flags, mode, ..] = request.words;
    let (at, life) = (flags >> KEPT_SLOT_SHIFT, mode >> KEPT_LIFE_SHIFT);
    (at as u32, life as u16)
}

impl<S: Server> Handles<S> {
    /// So many handles more can be made for the caller, who pays for them; or ENOMEM. To be asked before anything changes.
    #[inline]
    pub fn room(&mut self, cx: &mut Context, count: usize) -> Result<(), Failure> {
        let bytes = Slot::<S>::COST * count as u64;
        match self.slots.reserve(count) && cx.may_take(bytes) {
            true => Ok(()),
            false => Err(Failure::Errno(ENOMEM)),
        }
    }

    /// Make a handle, for which there is [`Handles::room`]; its badge is for minting the portal.
    pub fn insert(
        &mut self,
        cx: &mut Context,
        node: S::Node,
        flags: u64,
        kind: u64,
        state: S::State,
    ) -> Result<u64, Failure> {
        self.insert_for(cx, NOBODY, (node, flags, kind), state)
    }

    #[inline(always)]
    fn insert_for(
        &mut self,
        cx: &mut Context,
        owner: Id,
        what: (S::Node, u64, u64),
        state: S::State,
    ) -> Result<u64, Failure> {
        let badge = self.new_badge(cx)?;
        if let Some(slot) = self.slots.get_mut(badge as u32) {
            slot.fill(badge, owner, what, state);
        }
        Ok(badge)
    }

    /// A slot that the caller pays for.
    fn new_badge(&mut self, cx: &mut Context) -> Result<u64, Failure> {
        // (The upper half of badges is for other things.)
        let generation = ((self.generation + 1) & (u32::MAX >> 1)).max(1);
        let slot = Slot::new(generation, cx.payer());
        let index = self.slots.insert(slot).ok_or(Failure::Errno(ENOMEM))?;
        cx.take(Slot::<S>::COST);
        self.generation = generation;
        if generation >= self.beyond {
            self.beyond = self.keep.use_generation(generation);
        }
        Ok((generation as u64) << 32 | index as u64)
    }

    /// No name from this handle leads above this directory.
    pub(crate) fn set_root(&mut self, badge: u64, root: S::Node) {
        if let Some(entry) = self.entry(badge) {
            entry.root = Some(root);
        }
    }

    /// The handle goes on if the server dies: its node is the one with this identity, and its root, if it has one, that with the other.
    pub(crate) fn keep(&mut self, badge: u64, identity: u64, root: Option<u64>) {
        let Some(slot) = self.slots.get_mut(badge as u32) else {
            return;
        };
        if let Some(entry) = &mut slot.entry {
            entry.kept = self.keep.add(&Open {
                badge,
                identity,
                flags: entry.handle.flags,
                kind: entry.handle.kind,
                position: entry.position,
                root,
            });
        }
    }

    /// What was kept, to be filled and changed.
    pub(crate) fn keepsake(&mut self) -> &mut Keepsake {
        &mut self.keep
    }

    /// Begin with the handles that a predecessor left. `node` finds the node behind an identity, if it is still there; and whether data of it was lost.
    pub(crate) fn recover(
        &mut self,
        keep: Keepsake,
        mut node: impl FnMut(u64) -> Option<(S::Node, bool)>,
    ) -> Recovered {
        let mut told = Recovered::default();
        self.keep = keep;
        self.generation = self.keep.generation();
        self.beyond = self.generation;
        self.follows = self.generation != 0;
        for (open, kept) in self.keep.opens() {
            // What was charged to a user ended with the predecessor.
            let mut slot = Slot::new((open.badge >> 32) as u32, 0);
            let root = open.root.map(&mut node);
            let found = match root {
                Some(None) => None,
                _ => node(open.identity),
            };
            let Some((node, lost)) = found else {
                // The portal is still somebody's: nobody else gets the slot.
                told.gone += 1;
                self.gone.insert(open.badge, kept);
                self.slots.insert_at(open.badge as u32, slot);
                continue;
            };
            told.open += 1;
            let mut entry = Entry {
                handle: Handle {
                    badge: open.badge,
                    node,
                    flags: open.flags,
                    kind: open.kind,
                    state: S::State::default(),
                },
                position: open.position,
                owner: NOBODY,
                locks: true,
                frames: false,
                kept: Some(kept),
                root: root.flatten().map(|(root, _)| root),
                mount: None,
                below: false,
                middle: 0,
            };
            if lost && open.flags & o::PATH == 0 {
                told.lost += 1;
                entry.set_flags(open.flags | LOST);
            }
            slot.entry = Some(entry);
            self.slots.insert_at(open.badge as u32, slot);
        }
        told
    }

    #[inline(always)]
    pub(crate) fn entry(&mut self, badge: u64) -> Option<&mut Entry<S>> {
        let slot = self.slots.get_mut(badge as u32)?;
        if slot.generation as u64 != badge >> 32 {
            return None;
        }
        slot.entry.as_mut()
    }

    /// The handle that a request came through.
    #[inline(always)]
    pub(crate) fn used(&mut self, request: &Received) -> Option<&mut Entry<S>> {
        self.used_by(request.badge, request.sender)
    }

    #[inline(always)]
    pub(crate) fn used_by(&mut self, badge: u64, sender: Id) -> Option<&mut Entry<S>> {
        let entry = self.entry(badge)?;
        if entry.owner != sender {
            entry.owner = NOBODY;
        }
        Some(entry)
    }

    /// Nobody but this domain has used the handle, which it opened itself; and it can name the slot afterwards. Never of pipes and the like, whose short reads and writes do not look who makes them.
    pub(crate) fn is_alone(&mut self, request: &Received) -> bool {
        let nameable = (request.badge >> 32) as u16 != 0 && request.sender != NOBODY;
        let entry = self.entry(request.badge);
        let file = |entry: &Entry<S>| entry.handle.kind & SEEKABLE != 0;
        nameable && entry.is_some_and(|entry| entry.owner == request.sender && file(entry))
    }

    /// Where such a handle was there is nothing from now on, but the badge is kept for the domain.
    pub(crate) fn set_aside(&mut self, badge: u64) -> Option<Entry<S>> {
        let slot = self.slots.get_mut(badge as u32)?;
        let entry = slot.entry.take()?;
        if let Some(kept) = entry.kept {
            self.keep.remove(kept);
        }
        slot.kept_by = entry.owner;
        self.spare += 1;
        Some(entry)
    }

    /// Make a handle for who opens something: its badge, and whether that is one that the domain kept, which it names by slot and (lower half of the) generation. (If it is not, there is room.)
    #[inline(always)]
    pub(crate) fn open(
        &mut self,
        cx: &mut Context,
        what: (S::Node, u64, u64),
        state: S::State,
    ) -> Result<(u64, bool), Failure> {
        let request = cx.request;
        let sender = request.sender;
        let (at, life) = named(request);
        let kept = match self.slots.get_mut(at) {
            Some(slot) if life != 0 && slot.is_kept(life, sender) => Some(slot),
            _ => None,
        };
        if let Some(slot) = kept {
            slot.kept_by = NOBODY;
            self.spare -= 1;
            let badge = slot.badge(at);
            slot.fill(badge, sender, what, state);
            return Ok((badge, true));
        }
        Ok((self.insert_for(cx, sender, what, state)?, false))
    }

    /// Whether an OPEN names a badge that its sender kept.
    #[inline(always)]
    pub(crate) fn keeps(&self, request: &Received) -> bool {
        let (at, life) = named(request);
        let slot = self.slots.get(at);
        life != 0 && slot.is_some_and(|slot| slot.is_kept(life, request.sender))
    }

    /// The handle with this badge.
    pub fn get(&mut self, badge: u64) -> Option<&mut Handle<S>> {
        self.entry(badge).map(|entry| &mut entry.handle)
    }

    /// The last portal with this badge is closed: the slot is free.
    pub(crate) fn remove(&mut self, badge: u64) -> Option<Removed<S>> {
        let slot = self.slots.get(badge as u32)?;
        if slot.generation as u64 != badge >> 32 {
            return None;
        }
        let kept = match &slot.entry {
            Some(entry) => entry.kept,
            None if slot.kept_by != NOBODY => {
                self.spare -= 1;
                None
            }
            None => Some(self.gone.remove(&badge)?),
        };
        if let Some(kept) = kept {
            self.keep.remove(kept);
        }
        let slot = self.slots.remove(badge as u32)?;
        Some(Removed {
            entry: slot.entry,
            payer: slot.payer,
            bytes: Slot::<S>::COST,
        })
    }

    /// Why there is no such handle: it never was or was closed; or it is one of a predecessor's that could not go on.
    #[inline(always)]
    pub(crate) fn missing(&self, badge: u64) -> Failure {
        Failure::Errno(match self.follows && badge >> 32 != 0 {
            true => EIO,
            false => EBADF,
        })
    }

    pub(crate) fn any(&self, is: impl Fn(&Handle<S>) -> bool) -> bool {
        let mut entries = self.slots.iter().filter_map(|slot| slot.entry.as_ref());
        entries.any(|entry| is(&entry.handle))
    }

    /// Badges of all, also of those that a predecessor left and whose nodes were not found again.
    pub(crate) fn badges(&self) -> impl Iterator<Item = u64> + '_ {
        let open = self.slots.iter().filter_map(|slot| slot.entry.as_ref());
        open.map(|entry| entry.handle.badge)
            .chain(self.gone.keys().copied())
    }

    /// Bytes that are charged to a user for handles, counted anew.
    pub(crate) fn cost_of(&self, uid: u32) -> u64 {
        let its = self.slots.iter().filter(|slot| slot.payer == uid);
        its.count() as u64 * Slot::<S>::COST
    }

    /// How many are open.
    pub fn len(&self) -> usize {
        self.slots.len() - self.spare - self.gone.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
