//! What a server keeps for users, charged to the account that the label of a request names. A client cannot choose it.
//!
//! Bytes are counted here, for each user. The pages that they come to are bought from `vm` (CHARGE), [`STEP`] at a time, so that most operations need no message; `vm` refuses what is beyond an
//! account's limit or would leave too little for the system. What always holds:
//! - every charge is given back once, to the user that it was charged to: whoever keeps something keeps its payer with it;
//! - no user has more bytes here than pages were bought for, but for the handles of one request ([`Accounts::take`]);
//! - user 0 and components are not counted and never refused.

use crate::transport::Transport;
use alloc::vec::Vec;

const PAGE: u64 = 4096;
/// Pages that are bought together. As many, and no more than twice as many, may lie unused.
const STEP: u64 = 16;
/// More users than this keep no pages that they do not use.
const FEW: usize = 32;

#[derive(Clone, Copy, Debug, Default)]
struct User {
    uid: u32,
    bytes: u64,
    /// Pages that `vm` counts.
    bought: u64,
}

impl User {
    fn fits(&self, bytes: u64) -> bool {
        self.bytes.saturating_add(bytes) <= self.bought * PAGE
    }
}

/// All users that this server keeps something for, by user id.
#[derive(Default)]
pub struct Accounts {
    users: Vec<User>,
}

impl Accounts {
    fn place(&self, uid: u32) -> Result<usize, usize> {
        self.users.binary_search_by_key(&uid, |user| user.uid)
    }

    /// The record of a user, made if it is missing.
    #[inline]
    fn make(&mut self, uid: u32) -> Option<&mut User> {
        let place = match self.place(uid) {
            Ok(place) => place,
            Err(place) => {
                self.users.try_reserve(1).ok()?;
                let user = User {
                    uid,
                    ..User::default()
                };
                self.users.insert(place, user);
                place
            }
        };
        self.users.get_mut(place)
    }

    /// May so many bytes more be kept for this user? Pages for them are bought, if need be.
    #[inline]
    pub fn reserve(&mut self, transport: &mut dyn Transport, uid: u32, bytes: u64) -> bool {
        if uid == 0 {
            return true;
        }
        match self.make(uid) {
            Some(user) if user.fits(bytes) => true,
            Some(user) => buy(user, transport, bytes),
            None => false,
        }
    }

    /// So many bytes more are kept for this user. False: they must not be, and nothing is counted.
    #[inline]
    pub fn charge(&mut self, transport: &mut dyn Transport, uid: u32, bytes: u64) -> bool {
        let may = self.reserve(transport, uid, bytes);
        if may {
            self.count(uid, bytes);
        }
        may
    }

    /// The same for what was reserved before: it is counted in any case.
    #[inline]
    pub fn take(&mut self, transport: &mut dyn Transport, uid: u32, bytes: u64) {
        self.reserve(transport, uid, bytes);
        self.count(uid, bytes);
    }

    #[inline]
    fn count(&mut self, uid: u32, bytes: u64) {
        if uid != 0 {
            if let Some(user) = self.make(uid) {
                user.bytes += bytes;
            }
        }
    }

    /// So many bytes that were charged to this user are not kept any more.
    #[inline]
    pub fn refund(&mut self, transport: &mut dyn Transport, uid: u32, bytes: u64) {
        if uid == 0 {
            return;
        }
        let Ok(place) = self.place(uid) else {
            debug_assert!(false, "nothing was charged to user {uid}");
            return;
        };
        let user = &mut self.users[place];
        debug_assert!(user.bytes >= bytes, "more back than was charged");
        user.bytes = user.bytes.saturating_sub(bytes);
        if user.bought >= user.bytes.div_ceil(PAGE) + 2 * STEP
            || user.bytes == 0 && self.users.len() > FEW
        {
            self.sell(transport, place);
        }
    }

    /// Give back the pages of a user that are not used, but for some if he has anything.
    #[cold]
    #[inline(never)]
    fn sell(&mut self, transport: &mut dyn Transport, place: usize) {
        let many = self.users.len() > FEW;
        let user = &mut self.users[place];
        let kept = match many {
            true => user.bytes.div_ceil(PAGE),
            false => user.bytes.div_ceil(PAGE) + STEP,
        };
        let back = user.bought.saturating_sub(kept);
        if back == 0 || transport.charge(user.uid, -(back as i64)) {
            user.bought -= back;
        }
        if many && user.bytes == 0 && user.bought == 0 {
            self.users.remove(place);
        }
    }

    /// Bytes that are kept for a user, and the pages that `vm` counts for them.
    pub fn usage(&self, uid: u32) -> (u64, u64) {
        match self.place(uid) {
            Ok(place) => (self.users[place].bytes, self.users[place].bought),
            Err(_) => (0, 0),
        }
    }
}

/// Pages for so many bytes more: some at a time, or no more than what is wanted.
#[cold]
#[inline(never)]
fn buy(user: &mut User, transport: &mut dyn Transport, bytes: u64) -> bool {
    let wanted = user.bytes.saturating_add(bytes).div_ceil(PAGE) - user.bought;
    for pages in [wanted.next_multiple_of(STEP), wanted] {
        if i64::try_from(pages).is_ok_and(|pages| transport.charge(user.uid, pages)) {
            user.bought += pages;
            return true;
        }
    }
    false
}
