//! Addresses of local sockets: portals that bind(2) left with nodes of type socket. Whoever may write the node gets a copy, and connects or sends with it; nothing that anybody can say leads to a socket.
//!
//! An address goes with the last name of its node, and with this server: a node without one is a socket that nobody has any more. They are found by inode number, and each user has a number of them at most, because they lie in this server's table.

use crate::context::{Context, Failure};
use crate::manager::Core;
use crate::path::Last;
use crate::permission::{self, WRITE};
use crate::server::{Answer, Server};
use alloc::collections::BTreeMap;
use cairn_idl::errno::*;
use cairn_idl::fs::s;
use cairn_idl::label;
use cairn_rt::channel::Reply;
use cairn_rt::Portal;

/// Most addresses of one user, and of all but the privileged.
const OF_ONE: u32 = 1024;
const OF_ALL: usize = 8192;

struct Address {
    portal: Portal,
    uid: u32,
}

#[derive(Default)]
pub(crate) struct Addresses {
    nodes: BTreeMap<u64, Address>,
    users: BTreeMap<u32, u32>,
}

impl Addresses {
    /// May the caller leave one more?
    pub fn check_room(&self, cx: &Context) -> Answer<()> {
        let own = self.users.get(&cx.uid()).copied().unwrap_or(0);
        let full = own >= OF_ONE || self.nodes.len() >= OF_ALL;
        match full && !cx.has(label::SYSTEM) {
            true => Err(Failure::Errno(ENOSPC)),
            false => Ok(()),
        }
    }

    pub fn keep(&mut self, cx: &mut Context, ino: u64, portal: Portal) {
        self.forget(cx, ino);
        let uid = cx.uid();
        self.nodes.insert(ino, Address { portal, uid });
        *self.users.entry(uid).or_default() += 1;
    }

    /// The node is gone.
    pub fn forget(&mut self, cx: &mut Context, ino: u64) {
        let Some(address) = self.nodes.remove(&ino) else {
            return;
        };
        cx.transport.close(address.portal);
        if let Some(count) = self.users.get_mut(&address.uid) {
            *count -= 1;
            if *count == 0 {
                self.users.remove(&address.uid);
            }
        }
    }
}

impl<S: Server> Core<S> {
    /// ADDRESS
    pub fn address<'a>(&'a mut self, server: &'a mut S, cx: &mut Context) -> Answer<Reply<'a>> {
        let (node, access) = self.existing(server, cx, Last::Follow)?;
        permission::check(cx, &access, WRITE)?;
        let found = match access.mode & s::IFMT {
            s::IFSOCK => self.addresses.nodes.get(&server.meta(node)?.ino),
            _ => None,
        };
        let address = found.ok_or(Failure::Errno(ECONNREFUSED))?;
        Ok(Reply::new(&[0]).portal(address.portal, false))
    }

    /// One name of the node is about to go: its inode number if it is a socket's last one.
    pub fn last_of_socket(
        &mut self,
        server: &mut S,
        cx: &mut Context,
        node: S::Node,
        mode: u32,
    ) -> Option<u64> {
        if mode & s::IFMT != s::IFSOCK || self.addresses.nodes.is_empty() {
            return None;
        }
        let stat = server.stat(cx, node).ok()?;
        (stat.nlink <= 1).then_some(stat.ino)
    }
}
