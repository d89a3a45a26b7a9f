//! The memory manager's side of watched objects, for tests on the host: of this crate, and of the servers that use it.

use crate::mapped::Refused;
use crate::Slot;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

#[derive(Default)]
pub struct Object {
    pub tag: u64,
    pub pages: u64,
    pub has: BTreeMap<u64, Slot>,
    pub written: BTreeSet<u64>,
    readers: BTreeSet<u32>,
    /// Faults that wait, and those that were refused.
    waits: BTreeSet<u64>,
    pub refused: Vec<u64>,
    pub mapped: u64,
    pub executed: bool,
}

/// Portals are numbers. The methods are those of [`crate::Objects`].
#[derive(Default)]
pub struct Vm {
    pub objects: BTreeMap<u32, Object>,
    next: u32,
    /// Changes are refused for want of memory.
    pub full: bool,
    pub changes: u32,
    /// Refused, whatever object it was asked of (also of one that is no more).
    pub refused: Vec<u64>,
}

impl Vm {
    fn portal(&mut self) -> u32 {
        self.next += 1;
        500 + self.next
    }

    /// # Panics
    /// Where there is none.
    pub fn object(&mut self, object: u32) -> &mut Object {
        self.objects.get_mut(&object).expect("an object")
    }

    /// A program touches a page: its slot, or it waits.
    ///
    /// # Panics
    /// Beyond the object's end.
    pub fn touch(&mut self, object: u32, page: u64, write: bool) -> Option<Slot> {
        let object = self.object(object);
        assert!(page < object.pages);
        let found = object.has.get(&page).copied();
        match found {
            Some(_) if write => object.written.insert(page),
            Some(_) => false,
            None => object.waits.insert(page),
        };
        found
    }

    pub fn make(&mut self, pages: u64, tag: u64) -> u32 {
        let portal = self.portal();
        let object = Object {
            tag,
            pages,
            ..Object::default()
        };
        self.objects.insert(portal, object);
        portal
    }

    pub fn reader(&mut self, object: u32) -> u32 {
        let portal = self.portal();
        self.object(object).readers.insert(portal);
        portal
    }

    /// # Errors
    /// As the real one's.
    ///
    /// # Panics
    /// Where pages beyond the new end are to be shown.
    pub fn change(
        &mut self,
        object: u32,
        first: u64,
        slots: &[Option<Slot>],
        pages: u64,
    ) -> Result<u64, Refused> {
        self.changes += 1;
        if self.full {
            return Err(Refused::Failed);
        }
        let object = self.object(object);
        assert!(first + slots.len() as u64 <= pages, "beyond the end");
        if pages < object.pages && object.executed {
            return Err(Refused::Executed);
        }
        let mut written = 0;
        for (page, slot) in (first..).zip(slots) {
            let old = match slot {
                Some(slot) => object.has.insert(page, *slot),
                None => object.has.remove(&page),
            };
            if old != *slot {
                written += u64::from(object.written.remove(&page));
            }
            if slot.is_some() {
                object.waits.remove(&page);
            }
        }
        let cut = object.has.split_off(&pages);
        written += cut.keys().filter(|p| object.written.contains(p)).count() as u64;
        object.written.retain(|page| *page < pages);
        object.pages = pages;
        Ok(written)
    }

    pub fn refuse(&mut self, tag: u64, first: u64, pages: u64) {
        self.refused.extend(first..first + pages);
        for object in self.objects.values_mut().filter(|o| o.tag == tag) {
            let waited = (first..first + pages).filter(|page| object.waits.remove(page));
            object.refused.extend(waited.collect::<Vec<_>>());
        }
    }

    pub fn written(
        &mut self,
        object: u32,
        first: u64,
        pages: u64,
        runs: &mut [(u64, u64)],
    ) -> Option<(usize, u64, bool)> {
        let object = self.objects.get_mut(&object)?;
        let mut count = 0;
        let told = object.written.range(first..first + pages);
        for page in told.copied().collect::<Vec<_>>() {
            if count > 0 && runs[count - 1].0 + runs[count - 1].1 == page {
                runs[count - 1].1 += 1;
            } else if count < runs.len() {
                runs[count] = (page, 1);
                count += 1;
            } else {
                break;
            }
            object.written.remove(&page);
        }
        Some((count, object.mapped, object.executed))
    }

    /// # Panics
    /// Where the portal leads nowhere.
    pub fn close(&mut self, portal: u32) {
        let reader = self.objects.values_mut().any(|o| o.readers.remove(&portal));
        assert!(reader || self.objects.remove(&portal).is_some());
    }
}
