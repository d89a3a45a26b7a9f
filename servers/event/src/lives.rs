//! Processes that have descriptors (pidfd_open(2)), by their lives: what `proc` calls a process and never another one.
//!
//! All descriptors of a process share one record, and `proc` keeps one portal for it, which it closes when the process ends. A record is gone when that has
//! happened and no descriptor is left.

use cairn_idl::errno::{ENOMEM, ESRCH};
use cairn_resmgr::chains::Chains;
use cairn_resmgr::table::Table;
use cairn_resmgr::transport::FOLLOWED;
use cairn_resmgr::Context;

struct Life {
    life: u64,
    /// Descriptors, each of which was opened once.
    holders: u32,
    ended: bool,
    payer: u32,
}

/// What is charged for a record: itself, its place in the index, and `proc`'s portal.
const COST: usize = size_of::<Life>() + 96;

#[derive(Default)]
pub struct Lives {
    lives: Table<Life>,
    by_life: Chains,
}

impl Lives {
    /// One descriptor more, of the process with this number or life.
    pub fn open(&mut self, cx: &mut Context, pid: u64, life: u64) -> Result<u32, i64> {
        let bears = cx.transport.life_of(cx.request.sender, pid);
        let (life, over) = match (life, bears) {
            (0, bears) => (bears?, false),
            // Its number is nobody's any more, or another's. (What the caller says of it is its own loss.)
            (life, bears) => (life, bears != Ok(life)),
        };
        let same = |at: &u32| self.lives.get(*at).is_some_and(|known| known.life == life);
        let known = self.by_life.all(life).find(same);
        if let Some(at) = known.filter(|_| !over) {
            if let Some(known) = self.lives.get_mut(at) {
                known.holders += 1;
            }
            return Ok(at);
        }
        let payer = cx.payer();
        if !self.lives.reserve(1) || cx.charge(payer, COST).is_err() {
            return Err(ENOMEM);
        }
        let new = Life {
            life,
            holders: 1,
            ended: false,
            payer,
        };
        let count = self.lives.len() + 1;
        let made = self.lives.insert(new);
        let place = made.filter(|at| self.by_life.reserve(count.max(*at as usize + 1)));
        let Some(at) = place else {
            made.map(|at| self.lives.remove(at));
            cx.refund(payer, COST);
            return Err(ENOMEM);
        };
        if over {
            self.ended(cx, at);
            return Ok(at);
        }
        self.by_life.insert(at, life);
        match cx.transport.follow(life, FOLLOWED | u64::from(at)) {
            Ok(()) => {}
            Err(ESRCH) => self.ended(cx, at),
            Err(number) => {
                self.ended(cx, at);
                self.close(cx, at);
                return Err(number);
            }
        }
        Ok(at)
    }

    /// The process has ended.
    pub fn ended(&mut self, cx: &mut Context, at: u32) {
        if let Some(known) = self.lives.get_mut(at) {
            known.ended = true;
            if known.holders == 0 {
                self.forget(cx, at);
            }
        }
    }

    fn forget(&mut self, cx: &mut Context, at: u32) {
        if let Some(gone) = self.lives.remove(at) {
            self.by_life.remove(at);
            cx.refund(gone.payer, COST);
        }
    }

    /// One descriptor fewer.
    pub fn close(&mut self, cx: &mut Context, at: u32) {
        if let Some(known) = self.lives.get_mut(at) {
            known.holders = known.holders.saturating_sub(1);
            if known.holders == 0 && known.ended {
                self.forget(cx, at);
            }
        }
    }

    pub fn has_ended(&self, at: u32) -> bool {
        self.lives.get(at).is_none_or(|known| known.ended)
    }

    pub fn life(&self, at: u32) -> u64 {
        self.lives.get(at).map_or(0, |known| known.life)
    }

    pub fn count(&self) -> usize {
        self.lives.len()
    }
}
