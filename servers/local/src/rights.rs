//! Descriptors on their way: portals in this server's table, in a queue or a parcel, until somebody receives them or nobody can.
//!
//! A portal is taken only if the nucleus says that it leads to a channel and may be passed on; one of this server's own only if it leads to a socket. How many are on their way is limited for each user who sends them.
//! Sockets that are on their way in queues are known here, because only they can form [cycles](crate::cycles). (Those in parcels are not: a parcel is always somebody's.)

use crate::server::{fail, Node, Sockets};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use cairn_idl::errno::*;
use cairn_idl::label;
use cairn_idl::local::RIGHTS_MAX;
use cairn_resmgr::server::Answer;
use cairn_resmgr::{Context, Failure, Handles, Leads, Transport};
use cairn_rt::Portal;

/// Most descriptors of one user that are on their way, as Linux counts by RLIMIT_NOFILE; and of user 0.
pub const IN_FLIGHT: u32 = 1024;
pub const IN_FLIGHT_PRIVILEGED: u32 = 8192;

/// One descriptor.
#[derive(Clone, Copy, Debug)]
pub struct Passed {
    pub portal: Portal,
    /// The socket that it is, if it is one.
    pub socket: Option<u32>,
    /// Who sent it.
    pub payer: u32,
}

pub type Rights = Vec<Passed>;

#[derive(Default)]
pub struct InFlight {
    /// Sockets in queues, with the slots of their portals.
    pub sockets: BTreeSet<(u32, u32)>,
    /// How many each user has on their way.
    users: BTreeMap<u32, u32>,
}

impl InFlight {
    pub fn of(&self, uid: u32) -> u32 {
        self.users.get(&uid).copied().unwrap_or(0)
    }

    fn left(&mut self, uid: u32) {
        if let Some(count) = self.users.get_mut(&uid) {
            *count -= 1;
            if *count == 0 {
                self.users.remove(&uid);
            }
        }
    }
}

impl Sockets {
    /// Take portals that a request brought. On failure nothing has changed, and they are still the request's.
    pub(crate) fn take_in(
        &mut self,
        cx: &mut Context,
        handles: &mut Handles<Self>,
        slots: &[u64],
        already: usize,
    ) -> Answer<Rights> {
        if slots.len() + already > RIGHTS_MAX {
            return fail(EINVAL);
        }
        let payer = cx.uid();
        let most = match cx.has(label::SYSTEM) {
            true => IN_FLIGHT_PRIVILEGED,
            false => IN_FLIGHT,
        };
        if self.in_flight.of(payer) + slots.len() as u32 > most {
            self.cycles.want();
            return fail(ETOOMANYREFS);
        }
        let mut rights = Rights::new();
        let room = rights.try_reserve_exact(slots.len());
        room.map_err(|_| Failure::Errno(ENOBUFS))?;
        for slot in slots {
            let portal = Portal(*slot as u32);
            let socket = match cx.transport.leads_to(portal) {
                Leads::Elsewhere => return fail(EBADF),
                Leads::Channel => None,
                Leads::Own { badge, .. } => match handles.get(badge).map(|h| h.node) {
                    Some(Node::Socket(socket)) => Some(socket),
                    _ => return fail(EBADF),
                },
            };
            rights.push(Passed {
                portal,
                socket,
                payer,
            });
        }
        if !rights.is_empty() {
            *self.in_flight.users.entry(payer).or_default() += rights.len() as u32;
        }
        Ok(rights)
    }

    /// They lie in a queue from now on.
    pub(crate) fn queued(&mut self, rights: &Rights) {
        for passed in rights {
            if let Some(socket) = passed.socket {
                self.in_flight.sockets.insert((socket, passed.portal.0));
                if let Some(socket) = self.sockets.get_mut(socket) {
                    socket.in_flight += 1;
                }
                self.in_use(socket);
            }
        }
    }

    /// They leave the queue that they lay in.
    pub(crate) fn unqueued(&mut self, rights: &Rights) {
        self.unqueued_unmarked(rights);
        for socket in rights.iter().filter_map(|passed| passed.socket) {
            self.in_use(socket);
        }
    }

    /// The same for garbage.
    pub(crate) fn unqueued_unmarked(&mut self, rights: &Rights) {
        for passed in rights {
            if let Some(socket) = passed.socket {
                self.in_flight.sockets.remove(&(socket, passed.portal.0));
                if let Some(socket) = self.sockets.get_mut(socket) {
                    socket.in_flight -= 1;
                }
            }
        }
    }

    /// They are handed over, or about to be closed.
    pub(crate) fn let_out(&mut self, rights: &[Passed]) {
        for passed in rights {
            self.in_flight.left(passed.payer);
        }
    }

    /// What lay in a queue reaches nobody.
    pub(crate) fn drop_queued(&mut self, transport: &mut dyn Transport, rights: Rights) {
        if rights.is_empty() {
            return;
        }
        self.unqueued(&rights);
        self.drop_rights(transport, &rights);
    }

    /// The same for what lies in no queue.
    pub(crate) fn drop_rights(&mut self, transport: &mut dyn Transport, rights: &[Passed]) {
        self.let_out(rights);
        for passed in rights {
            transport.close(passed.portal);
        }
    }
}
