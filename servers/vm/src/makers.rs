//! Makers of objects that say which files these show, for /proc/PID/maps. `vm` keeps their portals and asks nobody: who inspects does.

use crate::nucleus::{Answer, Nucleus, Pass};
use crate::request::Request;
use crate::slab::Handle;
use crate::space::{Errno, Object, Vm, NOBODY};
use alloc::vec::Vec;
use cairn_idl::errno::*;
use cairn_idl::vm::BADGE_INSPECT;

const MAKERS_MOST: usize = 64;

/// Their spaces and portals.
#[derive(Default)]
pub struct Makers(Vec<(Handle, u32)>);

impl Object {
    /// What a [`cairn_idl::vm::MapEntry`] says of it: maker and tag.
    pub(crate) fn called(&self, number: u32) -> [u64; 2] {
        match (self.maker, self.origin) {
            // Memory that is shared with children of fork.
            (NOBODY, _) if self.handle == NOBODY => [0, u64::from(number) + 1],
            // Nobody changes it any more, or nobody may.
            (NOBODY, origin) => [origin + 1, self.tag],
            (maker, _) => [maker + 1, self.tag],
        }
    }
}

impl<N: Nucleus> Vm<N> {
    /// NAMES: the portal in w7 is kept.
    pub(crate) fn names(&mut self, r: &Request) -> Result<u64, Errno> {
        let index = self.domain(r.sender).ok_or(ESRCH)?.space;
        let space = self.spaces.get(index).ok_or(ESRCH)?;
        if space.linux() || space.eager {
            return Err(EPERM);
        }
        if r.portals != 1 {
            return Err(EINVAL);
        }
        let new = (space.handle, r.words[7] as u32);
        let Makers(list) = &mut self.makers;
        if let Some(maker) = list.iter_mut().find(|maker| maker.0 == new.0) {
            self.nucleus.close(core::mem::replace(maker, new).1);
            return Ok(0);
        }
        if list.len() >= MAKERS_MOST || list.try_reserve(1).is_err() {
            return Err(ENOMEM);
        }
        list.push(new);
        Ok(0)
    }

    /// NAMER: replies itself, with the portal.
    pub(crate) fn namer(&mut self, r: &Request) -> Result<(), Errno> {
        if r.badge != BADGE_INSPECT {
            return Err(EPERM);
        }
        let space = r.words[1].checked_sub(1).ok_or(ENOENT)?;
        let found = self.makers.0.iter().find(|maker| maker.0 == space);
        let (_, portal) = found.ok_or(ENOENT)?;
        let answer = Answer {
            pass: Some(Pass::Copy(*portal)),
            ..Answer::new(&[0])
        };
        self.deliver(r.token, &answer)
    }

    /// A space is gone.
    pub(crate) fn forget_maker(&mut self, space: Handle) {
        let Makers(list) = &mut self.makers;
        if let Some(at) = list.iter().position(|maker| maker.0 == space) {
            self.nucleus.close(list.swap_remove(at).1);
        }
    }
}
