//! Requests on their way to the device: cut to what it takes, kept while it is full, and counted in groups that end together.

use crate::memory::PAGE;
use alloc::collections::{BTreeMap, VecDeque};
use cairn_block::{Device, Info, Kept, Kind, Outcome, Refused, SECTOR};

/// Requests that are one thing to whoever made them.
pub type Group = u64;

struct About {
    /// Requests that have not come out; one more while the group is open.
    left: u32,
    well: bool,
}

pub struct Requests<D> {
    device: D,
    info: Info,
    /// What the device did not take yet, in order.
    kept: VecDeque<Kept>,
    members: BTreeMap<u64, Group>,
    groups: BTreeMap<Group, About>,
    ended: VecDeque<(Group, bool)>,
    next: u64,
}

impl<D: Device> Requests<D> {
    pub fn new(device: D) -> Requests<D> {
        Requests {
            info: device.info(),
            device,
            kept: VecDeque::new(),
            members: BTreeMap::new(),
            groups: BTreeMap::new(),
            ended: VecDeque::new(),
            next: 1,
        }
    }

    pub fn info(&self) -> &Info {
        &self.info
    }

    pub fn device(&mut self) -> &mut D {
        &mut self.device
    }

    /// A group that requests can be [`Requests::add`]ed to, until it is [`Requests::seal`]ed.
    pub fn open(&mut self) -> Group {
        let group = self.number();
        let about = About {
            left: 1,
            well: true,
        };
        self.groups.insert(group, about);
        group
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// So many bytes of the device from a byte on, and the pages for them; in the first they begin at `offset`.
    pub fn add(
        &mut self,
        group: Group,
        kind: Kind,
        at: u64,
        mut bytes: u64,
        pages: &[u32],
        offset: u32,
    ) {
        let (mut sector, mut pages, mut offset) = (at / SECTOR, pages, offset as usize);
        let most = self.info.most_pages.max(1) as usize;
        loop {
            let some = pages.len().min(most);
            let room = (some * PAGE).saturating_sub(offset) as u64;
            let length = if pages.is_empty() {
                bytes
            } else {
                bytes.min(room)
            };
            let used = (offset + length as usize).div_ceil(PAGE).min(some);
            let id = self.number();
            if let Some(about) = self.groups.get_mut(&group) {
                about.left += 1;
            }
            self.members.insert(id, group);
            let kept = Kept {
                id,
                kind,
                sector,
                bytes: length,
                pages: pages[..used].to_vec(),
                offset: offset as u32,
                kept: 0,
            };
            if !self.kept.is_empty() || !self.begin(&kept) {
                self.kept.push_back(kept);
            }
            bytes -= length;
            if bytes == 0 || length == 0 {
                return;
            }
            sector += length / SECTOR;
            pages = &pages[some..];
            offset = 0;
        }
    }

    /// Nothing more is added: when all is done the group has ended.
    pub fn seal(&mut self, group: Group) {
        self.one_less(group, true);
    }

    pub fn flush(&mut self) -> Group {
        let group = self.open();
        if self.info.caches_writes {
            self.add(group, Kind::Flush, 0, 0, &[], 0);
        }
        self.seal(group);
        group
    }

    /// False: the device has no room for it now.
    fn begin(&mut self, kept: &Kept) -> bool {
        match self.device.submit(&kept.request()) {
            Ok(()) => true,
            Err(Refused::Full) => false,
            Err(Refused::Invalid) => {
                self.out(kept.id, false);
                true
            }
        }
    }

    fn out(&mut self, id: u64, well: bool) {
        if let Some(group) = self.members.remove(&id) {
            self.one_less(group, well);
        }
    }

    fn one_less(&mut self, group: Group, well: bool) {
        let Some(about) = self.groups.get_mut(&group) else {
            return;
        };
        about.left -= 1;
        about.well &= well;
        if about.left == 0 {
            let well = about.well;
            self.groups.remove(&group);
            self.ended.push_back((group, well));
        }
    }

    /// A group that has ended since, and whether all of it went well.
    pub fn ended(&mut self) -> Option<(Group, bool)> {
        while let Some((id, outcome)) = self.device.completed() {
            self.out(id, outcome == Outcome::Done);
        }
        while let Some(kept) = self.kept.pop_front() {
            if !self.begin(&kept) {
                self.kept.push_front(kept);
                break;
            }
        }
        self.ended.pop_front()
    }

    /// Something has ended that nobody was told of by the device.
    pub fn has_ended(&self) -> bool {
        !self.ended.is_empty()
    }

    /// Nothing is under way.
    pub fn idle(&self) -> bool {
        self.groups.is_empty() && self.ended.is_empty()
    }
}
