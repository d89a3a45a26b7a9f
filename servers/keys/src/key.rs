//! A key, and who may what with it.

use alloc::vec::Vec;
use cairn_idl::errno::{EKEYEXPIRED, EKEYREVOKED, ENOKEY};

/// Permissions, which stand in four places of a mode.
pub const VIEW: u32 = 1;
pub const READ: u32 = 2;
pub const WRITE: u32 = 4;
pub const SEARCH: u32 = 8;
pub const LINK: u32 = 16;
pub const SETATTR: u32 = 32;
const ALL: u32 = 63;
pub const POSSESSOR: u32 = 24;
pub const USER: u32 = 16;
const GROUP: u32 = 8;
/// The bits that a mode may have.
pub const MODE: u32 = ALL << POSSESSOR | ALL << USER | ALL << GROUP | ALL;
pub const POSSESSOR_ALL: u32 = ALL << POSSESSOR;
pub const USER_ALL: u32 = ALL << USER;

/// The group of keys that have none.
pub const NO_GROUP: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Keyring,
    User,
    Logon,
    BigKey,
}

impl Kind {
    pub fn of(name: &[u8]) -> Option<Kind> {
        Some(match name {
            b"keyring" => Kind::Keyring,
            b"user" => Kind::User,
            b"logon" => Kind::Logon,
            b"big_key" => Kind::BigKey,
            _ => return None,
        })
    }

    pub fn name(self) -> &'static str {
        match self {
            Kind::Keyring => "keyring",
            Kind::User => "user",
            Kind::Logon => "logon",
            Kind::BigKey => "big_key",
        }
    }

    /// Whether a payload can be so long.
    pub fn takes(self, length: usize) -> bool {
        match self {
            Kind::Keyring => length == 0,
            Kind::User | Kind::Logon => (1..=32767).contains(&length),
            Kind::BigKey => (1..=1024 * 1024).contains(&length),
        }
    }

    /// A logon key's description begins with what it is for, and a colon.
    pub fn describes(self, description: &[u8]) -> bool {
        let colon = || description.iter().position(|&byte| byte == b':');
        self != Kind::Logon || colon().is_some_and(|at| at > 0)
    }

    /// What a payload counts for the quota.
    pub fn counts(self, length: usize) -> u64 {
        match self {
            Kind::BigKey => 16,
            _ => length as u64,
        }
    }

    pub fn is_read(self) -> bool {
        self != Kind::Logon
    }

    /// The mode of a key that somebody adds.
    pub fn mode(self) -> u32 {
        let read = if self.is_read() { READ } else { 0 };
        (VIEW | SEARCH | LINK | SETATTR | WRITE | read) << POSSESSOR | VIEW << USER
    }
}

/// Who asks.
#[derive(Clone, Debug)]
pub struct Who {
    pub uid: u32,
    pub gid: u32,
    pub groups: [u32; 32],
    pub count: usize,
}

impl Who {
    pub fn is_member(&self, group: u32) -> bool {
        self.gid == group || self.groups.iter().take(self.count).any(|&own| own == group)
    }
}

/// What is charged to whom.
#[derive(Clone, Copy, Debug, Default)]
pub struct Kept {
    pub payer: u32,
    pub bytes: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Live,
    Revoked,
    /// It is on its way out of all rings, and is found no more.
    Invalid,
}

#[derive(Debug)]
pub struct Key {
    pub serial: i32,
    pub kind: Kind,
    /// Type and description, by the number of [`crate::store::Names`].
    pub name: u32,
    pub uid: u32,
    pub gid: u32,
    pub mode: u32,
    pub state: State,
    /// Seconds since 1970; 0: never.
    pub expiry: u64,
    /// When it goes, if that is known; 0: it is not.
    pub due: u64,
    /// Rings that it is in, and others who keep it.
    pub holders: u32,
    /// Whether its owner's quota counts it, and how many bytes.
    pub counted: bool,
    pub bytes: u64,
    pub payload: Vec<u8>,
    pub kept: Kept,
    /// Of a ring: by what number its keys are found, how many they are, and whether none comes in any more.
    pub content: u64,
    pub count: u64,
    pub restricted: bool,
    /// It is a user's own ring (its place in [`crate::store::User::rings`]).
    pub home: Option<(u32, usize)>,
    /// Of the search that looks at it: the number, how deep it is in it, which is next.
    pub seen: u64,
    pub depth: u8,
    pub next: u32,
}

impl Key {
    pub fn is_ring(&self) -> bool {
        self.kind == Kind::Keyring
    }

    /// May they do all of this?
    pub fn allows(&self, who: &Who, possessed: bool, wanted: u32) -> bool {
        let group = self.mode >> GROUP & ALL;
        let mut granted = if who.uid == self.uid {
            self.mode >> USER
        } else if self.gid != NO_GROUP && group != 0 && who.is_member(self.gid) {
            group
        } else {
            self.mode
        };
        if possessed {
            granted |= self.mode >> POSSESSOR;
        }
        wanted & !granted == 0
    }

    pub fn has_expired(&self, now: u64) -> bool {
        self.expiry != 0 && now >= self.expiry
    }

    pub fn check(&self, now: u64) -> Result<(), i64> {
        match self.state {
            State::Invalid => Err(ENOKEY),
            State::Revoked => Err(EKEYREVOKED),
            State::Live if self.has_expired(now) => Err(EKEYEXPIRED),
            State::Live => Ok(()),
        }
    }
}
