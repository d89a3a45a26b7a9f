//! The tree of prefixes: which manager serves which part of the name space. The table is published read-only to every process, so that finding
//! the manager of a path needs no message. Layout: `cairn_idl::fs::PrefixTable`; the version is odd while the table changes.

use crate::dispatch::Outcome;
use crate::manager::{done, Manager};
use crate::system::{Errno, System};
use crate::table::Slot;
use alloc::boxed::Box;
use alloc::vec::Vec;
use cairn_abi::layout::linux_slot::MOUNTS_MAX;
use cairn_abi::layout::PREFIX_TABLE;
use cairn_idl::errno::{EACCES, EBUSY, EFAULT, EINVAL, ENAMETOOLONG, ENOENT, ENOSPC, EPERM};
use cairn_idl::fs::PREFIX_SERIAL_SHIFT;
use cairn_idl::mounts::mount::{DISCARD, NO_ACCESS_TIMES, NO_SET_ID, READ_ONLY};
use cairn_idl::proc::{SPACE_VERSIONS, SPACE_VERSION_COUNT};
use cairn_idl::NO_DOMAIN_NAME;
use cairn_rt::{Portal, Received};
use core::sync::atomic::{fence, AtomicU64, Ordering};

const WORDS: usize = 512;
pub(crate) const NAME: usize = 64;
pub(crate) const FSTYPE: usize = 16;
/// Bytes of `PrefixTable` and of `Prefix`.
pub(crate) const HEAD: usize = 80;
pub(crate) const ENTRY: usize = 88;
const SERIALS: u32 = u32::MAX >> PREFIX_SERIAL_SHIFT;
/// From here on the words are not the table's.
const SPACES: usize = ((SPACE_VERSIONS - PREFIX_TABLE) / 8) as usize;
const _: () = assert!(HEAD + ENTRY * MOUNTS_MAX as usize <= 8 * SPACES);
const _: () = assert!(SPACES + (SPACE_VERSION_COUNT as usize) < WORDS - 1);

/// The page that everybody reads.
#[derive(Debug)]
#[repr(C, align(4096))]
pub struct PrefixPage([AtomicU64; WORDS]);

impl PrefixPage {
    /// A page that lives as long as the manager.
    pub fn leak() -> &'static PrefixPage {
        Box::leak(Box::new(PrefixPage([const { AtomicU64::new(0) }; WORDS])))
    }

    pub fn address(&self) -> u64 {
        self as *const PrefixPage as u64
    }

    /// The number of wakes of shared futexes, in the page's last word ([`cairn_idl::proc::FUTEX_WAKES`]).
    pub fn publish_wakes(&self, wakes: u64) {
        self.0[WORDS - 1].store(wakes, Ordering::Release);
    }

    /// A thread's real-time priority was changed ([`cairn_idl::proc::POLICY_CHANGES`]).
    pub fn publish_policy(&self) {
        self.0[WORDS - 2].fetch_add(1, Ordering::Release);
    }

    /// Something is mounted otherwise in this mount name space ([`cairn_idl::proc::SPACE_VERSIONS`]).
    pub fn publish_space(&self, space: u64) {
        let word = &self.0[SPACES + (space % SPACE_VERSION_COUNT) as usize];
        word.fetch_add(1, Ordering::Release);
    }

    #[cfg(test)]
    pub fn bytes(&self) -> Vec<u8> {
        self.0
            .iter()
            .flat_map(|w| w.load(Ordering::Relaxed).to_le_bytes())
            .collect()
    }
}

#[derive(Debug)]
struct Mount {
    name: Vec<u8>,
    fstype: Vec<u8>,
    /// `mounts::mount` bits.
    flags: u8,
    /// Which of all mounts that ever were.
    serial: u32,
    portal: Portal,
}

#[derive(Debug)]
pub struct Prefixes {
    page: &'static PrefixPage,
    version: u64,
    mounts: [Option<Mount>; MOUNTS_MAX as usize],
    /// Indices are given out in turn: a process may still hold the portal of an earlier mount in the slot of a free index.
    next: usize,
    /// Mounts so far.
    made: u32,
    /// Host and domain name.
    names: [Vec<u8>; 2],
}

impl Prefixes {
    pub fn new(page: &'static PrefixPage) -> Prefixes {
        let mut prefixes = Prefixes {
            page,
            version: 0,
            mounts: [const { None }; MOUNTS_MAX as usize],
            next: 0,
            made: 0,
            names: [b"cairn".to_vec(), NO_DOMAIN_NAME.to_vec()],
        };
        prefixes.publish();
        prefixes
    }

    pub fn page(&self) -> &'static PrefixPage {
        self.page
    }

    /// Index and portal of each mount.
    pub fn portals(&self) -> impl Iterator<Item = (u32, Portal)> + '_ {
        self.mounts
            .iter()
            .enumerate()
            .filter_map(|(index, m)| m.as_ref().map(|m| (index as u32, m.portal)))
    }

    /// The root's.
    pub fn root(&self) -> Option<(u32, Portal)> {
        let index = self.position(b"")?;
        let mount = self.mounts[index].as_ref()?;
        Some((index as u32, mount.portal))
    }

    /// The portal of a mount with a scheme. None of one with a place in the tree: that is for who gets there by the folders above it, and their file servers give it.
    fn portal(&self, index: u64) -> Result<Portal, Errno> {
        let index = usize::try_from(index).map_err(|_| ENOENT)?;
        let mount = self.mounts.get(index).and_then(Option::as_ref);
        let mount = mount.ok_or(ENOENT)?;
        match mount.name.first() {
            None | Some(b'/') => Err(EACCES),
            Some(_) => Ok(mount.portal),
        }
    }

    /// This entry's name.
    pub fn is_called(&self, index: u64, name: &[u8]) -> bool {
        let mount = usize::try_from(index)
            .ok()
            .and_then(|at| self.mounts.get(at));
        let mount = mount.and_then(Option::as_ref);
        mount.is_some_and(|mount| mount.name == name)
    }

    /// Host (0) or domain name (1) of the first UTS name space.
    pub fn host_text(&self, which: usize) -> &[u8] {
        &self.names[which]
    }

    pub fn set_host_text(&mut self, which: usize, name: &[u8]) {
        self.names[which] = name[..name.len().min(NAME)].to_vec();
        self.publish();
    }

    fn position(&self, name: &[u8]) -> Option<usize> {
        self.mounts
            .iter()
            .position(|m| m.as_ref().is_some_and(|m| m.name == name))
    }

    /// Enter a mount; one with the same name is replaced if `replace`. Says the index and the portal that is no longer used.
    fn mount(
        &mut self,
        name: Vec<u8>,
        (fstype, flags): (Vec<u8>, u8),
        portal: Portal,
        replace: bool,
    ) -> Result<(usize, Option<Portal>), Errno> {
        let (index, old) = match self.position(&name) {
            Some(index) if replace => (index, self.mounts[index].take()),
            Some(_) => return Err(EBUSY),
            None => {
                let count = self.mounts.len();
                let free = (0..count)
                    .map(|n| (self.next + n) % count)
                    .find(|n| self.mounts[*n].is_none())
                    .ok_or(ENOSPC)?;
                self.next = free + 1;
                (free, None)
            }
        };
        // What is replaced is the same file system, which may be told differently.
        let serial = old.as_ref().map_or_else(
            || {
                self.made = self.made.wrapping_add(1) & SERIALS;
                self.made
            },
            |old| old.serial,
        );
        self.mounts[index] = Some(Mount {
            name,
            fstype,
            flags,
            serial,
            portal,
        });
        self.publish();
        Ok((index, old.map(|old| old.portal)))
    }

    fn unmount(&mut self, name: &[u8]) -> Result<Portal, Errno> {
        if name.is_empty() {
            return Err(EBUSY);
        }
        let index = self.position(name).ok_or(EINVAL)?;
        let mount = self.mounts[index].take().ok_or(EINVAL)?;
        self.publish();
        Ok(mount.portal)
    }

    /// The table's entries in use lie among the first so many.
    fn count(&self) -> usize {
        self.mounts
            .iter()
            .rposition(Option::is_some)
            .map_or(0, |last| last + 1)
    }

    /// The table as published, without the empty rest of the page.
    pub fn table(&self) -> Vec<u8> {
        let mut bytes = self.encode().to_vec();
        bytes[..8].copy_from_slice(&self.version.to_le_bytes());
        bytes.truncate(HEAD + self.count() * ENTRY);
        bytes
    }

    fn encode(&self) -> [u8; WORDS * 8] {
        let mut bytes = [0u8; WORDS * 8];
        bytes[8..12].copy_from_slice(&(self.count() as u32).to_le_bytes());
        bytes[12] = u8::from(self.names[1] != NO_DOMAIN_NAME);
        bytes[16..16 + self.names[0].len()].copy_from_slice(&self.names[0]);
        for (index, mount) in self.mounts.iter().enumerate() {
            let Some(mount) = mount else { continue };
            let entry = &mut bytes[HEAD + index * ENTRY..][..ENTRY];
            let used = 1 | u32::from(mount.flags) | mount.serial << PREFIX_SERIAL_SHIFT;
            encode_entry(entry, &mount.name, &mount.fstype, used);
        }
        bytes
    }

    /// Write the page anew.
    fn publish(&mut self) {
        let bytes = self.encode();
        self.page.0[0].store(self.version + 1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let words = self.page.0[..SPACES].iter().zip(bytes.chunks_exact(8));
        for (word, chunk) in words.skip(1) {
            let value = chunk.try_into().map(u64::from_le_bytes).unwrap_or(0);
            word.store(value, Ordering::Relaxed);
        }
        fence(Ordering::SeqCst);
        self.version += 2;
        self.page.0[0].store(self.version, Ordering::Release);
    }
}

/// One entry, in so many zeroes.
pub(crate) fn encode_entry(entry: &mut [u8], name: &[u8], fstype: &[u8], used: u32) {
    entry[..name.len()].copy_from_slice(name);
    entry[NAME..NAME + 4].copy_from_slice(&(name.len() as u32).to_le_bytes());
    entry[NAME + 4..NAME + 8].copy_from_slice(&used.to_le_bytes());
    entry[NAME + 8..NAME + 8 + fstype.len()].copy_from_slice(fstype);
}

/// The table's form of a prefix: absolute without trailing slash, the root empty; or a scheme with its colon.
pub(crate) fn normal(name: &[u8]) -> Result<&[u8], Errno> {
    let mut name = name;
    while let [rest @ .., b'/'] = name {
        name = rest;
    }
    let scheme = matches!(name, [first, .., b':'] if *first != b'/') && !name.contains(&b'/');
    let absolute = name.is_empty() || name[0] == b'/';
    if name.len() >= NAME {
        Err(ENAMETOOLONG)
    } else if (scheme || absolute) && !name.contains(&0) {
        Ok(name)
    } else {
        Err(EINVAL)
    }
}

impl<S: System> Manager<S> {
    /// MOUNT
    pub(crate) fn mount(
        &mut self,
        message: &Received,
        portal: Option<Portal>,
        system: bool,
    ) -> Result<Outcome, Errno> {
        let portal = portal.ok_or(EINVAL)?;
        let (name_len, type_len) = (message.words[1], message.words[2]);
        if name_len > 4096 || type_len >= FSTYPE as u64 {
            return Err(EINVAL);
        }
        let (name_len, type_len) = (name_len as usize, type_len as usize);
        let all = self.bytes(message, 0, name_len + type_len)?;
        let (name, fstype) = all.split_at_checked(name_len).ok_or(EFAULT)?;
        let name = normal(name)?.to_vec();
        let kept = READ_ONLY | NO_ACCESS_TIMES | DISCARD | NO_SET_ID;
        let flags = message.words[3] as u8 & kept as u8;
        let kind = (fstype.to_vec(), flags);
        let (index, old) = self.prefixes.mount(name, kind, portal, system)?;
        if let Some(old) = old {
            self.system.close(old);
        }
        Ok(Outcome::Kept(index as u64))
    }

    /// UNMOUNT
    pub(crate) fn unmount(&mut self, message: &Received) -> Result<Outcome, Errno> {
        if message.out_len > 4096 {
            return Err(ENAMETOOLONG);
        }
        let all = self.bytes(message, 0, message.out_len)?;
        let portal = self.prefixes.unmount(normal(&all)?)?;
        self.system.close(portal);
        done(0)
    }

    /// MOUNT_PORTAL
    pub(crate) fn mount_portal(&mut self, slot: Slot, index: u64) -> Result<Outcome, Errno> {
        if !self.filters_admit(slot, index) {
            return Err(EPERM);
        }
        if let Some(ipc) = &self.processes[slot].ipc {
            if self.prefixes.is_called(index, b"ipc:") {
                return ipc.portal.get().map(Outcome::Portal).ok_or(ENOENT);
            }
        }
        self.prefixes.portal(index).map(Outcome::Portal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_idl::fs::{Prefix, PrefixTable};
    use core::mem::{offset_of, size_of};

    #[test]
    fn layout_is_the_published_one() {
        assert_eq!(size_of::<PrefixTable>(), HEAD);
        assert_eq!(offset_of!(PrefixTable, count), 8);
        assert_eq!(offset_of!(PrefixTable, domain_name), 12);
        assert_eq!(offset_of!(PrefixTable, hostname), 16);
        assert_eq!(size_of::<Prefix>(), ENTRY);
        assert_eq!(offset_of!(Prefix, len), NAME);
        assert_eq!(offset_of!(Prefix, used), NAME + 4);
        assert_eq!(offset_of!(Prefix, fstype), NAME + 8);
        assert!(HEAD + MOUNTS_MAX as usize * ENTRY <= WORDS * 8);
    }

    #[test]
    fn names_have_one_form() {
        assert_eq!(normal(b"/"), Ok(&b""[..]));
        assert_eq!(normal(b"/proc//"), Ok(&b"/proc"[..]));
        assert_eq!(normal(b"dev:"), Ok(&b"dev:"[..]));
        assert_eq!(normal(b"proc"), Err(EINVAL));
        assert_eq!(normal(b":"), Err(EINVAL));
        assert_eq!(normal(b"/a\0b"), Err(EINVAL));
        assert_eq!(normal(&[b'/'; 4000]), Ok(&b""[..]));
        assert_eq!(
            normal(&[b"/".as_slice(), &[b'x'; 63]].concat()),
            Err(ENAMETOOLONG)
        );
    }

    #[test]
    fn mounts_are_published_and_indices_are_not_reused_at_once() {
        let page = PrefixPage::leak();
        let mut prefixes = Prefixes::new(page);
        let root = prefixes.mount(Vec::new(), (b"tmpfs".to_vec(), 0), Portal(70), true);
        assert_eq!(root, Ok((0, None)));
        let proc = prefixes.mount(b"/proc".to_vec(), (b"proc".to_vec(), 2), Portal(71), true);
        assert_eq!(proc, Ok((1, None)));
        let bytes = page.bytes();
        assert_eq!(bytes[0] & 1, 0);
        assert_eq!(bytes[8], 2);
        assert_eq!(prefixes.table(), bytes[..HEAD + 2 * ENTRY]);
        assert_eq!(&bytes[16..21], b"cairn");
        assert_eq!(bytes[HEAD + NAME + 4], 1);
        // Each mount that ever was has another number.
        let serial = |bytes: &[u8], index: usize| bytes[HEAD + index * ENTRY + NAME + 5];
        assert_eq!((serial(&bytes, 0), serial(&bytes, 1)), (1, 2));
        assert_eq!(prefixes.portal(0), Err(EACCES));
        assert_eq!(prefixes.portal(1), Err(EACCES));
        assert_eq!(prefixes.portal(7), Err(ENOENT));
        assert_eq!(&bytes[HEAD + ENTRY..][..5], b"/proc");
        assert_eq!(bytes[HEAD + ENTRY + NAME + 4], 3);
        assert_eq!(&bytes[HEAD + ENTRY + NAME + 8..][..5], b"proc\0");
        assert_eq!(prefixes.unmount(b"/proc"), Ok(Portal(71)));
        assert_eq!(prefixes.unmount(b"/proc"), Err(EINVAL));
        assert_eq!(prefixes.unmount(b""), Err(EBUSY));
        let again = prefixes.mount(b"/proc".to_vec(), (Vec::new(), 0), Portal(72), false);
        assert_eq!(again, Ok((2, None)));
        let twice = prefixes.mount(b"/proc".to_vec(), (Vec::new(), 0), Portal(73), false);
        assert_eq!(twice, Err(EBUSY));
        let replaced = prefixes.mount(b"/proc".to_vec(), (Vec::new(), 0), Portal(74), true);
        assert_eq!(replaced, Ok((2, Some(Portal(72)))));
        assert_eq!(serial(&page.bytes(), 2), 3);
        let scheme = prefixes.mount(b"dev:".to_vec(), (Vec::new(), 0), Portal(75), false);
        assert_eq!(scheme, Ok((3, None)));
        assert_eq!(prefixes.portal(3), Ok(Portal(75)));
    }
}
