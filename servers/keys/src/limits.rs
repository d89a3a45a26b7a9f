//! What users may have, and when keys go: /proc/sys/kernel/keys.

use cairn_idl::keys::Limits as Which;

#[derive(Clone, Debug)]
pub struct Limits {
    pub maxkeys: u64,
    pub maxbytes: u64,
    pub root_maxkeys: u64,
    pub root_maxbytes: u64,
    /// Seconds.
    pub gc_delay: u64,
    pub persistent_expiry: u64,
}

const INT_MAX: u64 = i32::MAX as u64;

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            maxkeys: 200,
            maxbytes: 20_000,
            root_maxkeys: 1_000_000,
            root_maxbytes: 25_000_000,
            gc_delay: 300,
            persistent_expiry: 3 * 24 * 3600,
        }
    }
}

impl Limits {
    fn place(&mut self, which: Which) -> (&mut u64, u64) {
        match which {
            Which::Maxkeys => (&mut self.maxkeys, 1),
            Which::Maxbytes => (&mut self.maxbytes, 1),
            Which::RootMaxkeys => (&mut self.root_maxkeys, 1),
            Which::RootMaxbytes => (&mut self.root_maxbytes, 1),
            Which::GcDelay => (&mut self.gc_delay, 0),
            Which::PersistentExpiry => (&mut self.persistent_expiry, 0),
        }
    }

    pub fn get(&mut self, which: Which) -> u64 {
        *self.place(which).0
    }

    /// False: it cannot be so much.
    pub fn set(&mut self, which: Which, value: u64) -> bool {
        let (place, least) = self.place(which);
        let may = (least..=INT_MAX).contains(&value);
        if may {
            *place = value;
        }
        may
    }

    /// Most keys and bytes of a user.
    pub fn of(&self, uid: u32) -> (u64, u64) {
        match uid {
            0 => (self.root_maxkeys, self.root_maxbytes),
            _ => (self.maxkeys, self.maxbytes),
        }
    }
}
