//! `idl/components.idl`: the list of components, and their restart by hand. Only whoever's manifest line says so has a portal with this badge, and says in turn
//! who of its callers may what.

use crate::components::own;
use crate::Watch;
use alloc::string::String;
use cairn_idl::components as told;
use cairn_idl::errno::{EFAULT, EINVAL, ENOENT, ENOSYS};
use cairn_init::list::{fill, line, refusal};
use cairn_manifest::NAME_MAX;
use cairn_rt::{log, Received, Receiver, Reply};

impl Watch {
    /// A request. What it asks for is bounded by the room for its answer.
    pub fn told(&mut self, receiver: Receiver, received: &Received) {
        let token = received.token;
        let done = match received.words[0] {
            told::LIST => self.list(received).map(|(text, next)| {
                let reply = Reply::new(&[text.len() as u64, next]).data(text.as_bytes());
                // If that is refused nobody waits any more.
                let _ = receiver.reply(token, reply);
            }),
            told::RESTART => self.named(receiver, received).map(|index| {
                log!(
                    "{} is restarted by hand",
                    self.manifest.components[index].name
                );
                let _ = receiver.reply(token, Reply::result(0));
                self.components.end(index);
            }),
            _ => Err(ENOSYS),
        };
        if let Err(errno) = done {
            let _ = receiver.reply(token, Reply::result(-errno));
        }
    }

    /// The first component is `init` itself; then they come as in the manifest.
    fn list(&self, received: &Received) -> Result<(String, u64), i64> {
        let [_, which, first, ..] = received.words;
        let room = received.in_len.min(told::TEXT_MOST as usize);
        let components = &self.manifest.components;
        let all = 1 + components.len() as u64;
        let one = |number: u64| -> String {
            let Some(index) = (number as usize).checked_sub(1) else {
                return match which {
                    told::STATES => line("init", &own()),
                    _ => cairn_manifest::INIT_LINES.into(),
                };
            };
            let component = &components[index];
            // The places of file servers that are gone.
            if component.binary.is_empty() {
                return String::new();
            }
            if which == told::PORTALS {
                return component.lines();
            }
            let due = self.due.iter().any(|(_, it)| *it == index);
            let seen = self.components.seen(&self.manifest, index, due);
            line(&component.name, &seen)
        };
        if which > told::PORTALS || first >= all {
            return Err(EINVAL);
        }
        let (text, count) = fill(room, (first..all).map(one));
        let next = first + count as u64;
        match count {
            0 => Err(EINVAL),
            _ if next < all => Ok((text, next)),
            _ => Ok((text, 0)),
        }
    }

    /// The component of a RESTART, if it can be.
    fn named(&self, receiver: Receiver, received: &Received) -> Result<usize, i64> {
        let mut name = [0; NAME_MAX];
        let name = name.get_mut(..received.out_len).ok_or(ENOENT)?;
        let read = receiver.read(received.token, 0, name);
        if read != Ok(received.out_len) {
            return Err(EFAULT);
        }
        let is = |name: &str, component: &cairn_manifest::Component| {
            !component.binary.is_empty() && component.name == name
        };
        let name = core::str::from_utf8(name).map_err(|_| ENOENT)?;
        let mut components = self.manifest.components.iter();
        let index = components.position(|component| is(name, component));
        let index = index.ok_or(ENOENT)?;
        let due = self.due.iter().any(|(_, it)| *it == index);
        let state = self.components.state(index, due);
        refusal(self.manifest.components[index].restart, state)?;
        Ok(index)
    }
}
