//! Descriptors on their way: portals in this server's table, in a queue or a parcel, until somebody receives them or nobody can.
//!
//! A portal is taken only if the nucleus says that it leads to a channel and may be passed on; one of this server's own only if it leads to a socket. How many are on their way is limited for each who sends them, who pays for them as long.
//! Sockets that are on their way in queues are known here, because only they can form [cycles](crate::cycles). (Those in parcels are not: a parcel is always somebody's.)

use crate::server::{fail, Node, Sockets};
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use cairn_idl::errno::*;
use cairn_idl::label;
use cairn_idl::local::RIGHTS_MAX;
use cairn_resmgr::server::Answer;
use cairn_resmgr::{Context, Failure, Handles, Leads};
use cairn_rt::Portal;

/// Most descriptors of one account that are on their way, whatever RLIMIT_NOFILE says, as they take slots of this server's table; and of user 0.
pub const IN_FLIGHT: u32 = 4096;
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
    /// How many each who sends them has on their way, by account.
    payers: Vec<(u32, u32)>,
}

/// What is charged for one: itself, and its entry of this server's table.
const COST: usize = size_of::<Passed>() + 16;

impl InFlight {
    fn place(&self, payer: u32) -> Result<usize, usize> {
        self.payers.binary_search_by_key(&payer, |one| one.0)
    }

    pub fn of(&self, payer: u32) -> u32 {
        self.place(payer).map_or(0, |at| self.payers[at].1)
    }

    /// So many more. False: there is no memory to count them.
    fn add(&mut self, payer: u32, count: usize) -> bool {
        let at = match self.place(payer) {
            Ok(at) => at,
            Err(_) if self.payers.try_reserve(1).is_err() => return false,
            Err(at) => {
                self.payers.insert(at, (payer, 0));
                at
            }
        };
        self.payers[at].1 += count as u32;
        true
    }

    fn left(&mut self, payer: u32) {
        if let Ok(at) = self.place(payer) {
            self.payers[at].1 -= 1;
            if self.payers[at].1 == 0 {
                self.payers.remove(at);
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
        let payer = cx.payer();
        let most = match cx.has(label::SYSTEM) {
            true => IN_FLIGHT_PRIVILEGED,
            false => IN_FLIGHT,
        };
        let before = self.in_flight.of(payer);
        // As on Linux, what is on its way already counts against the sender's limit, and the first ones need not be asked for.
        // (What is in the parcel already is of the same message.)
        let others = (before as usize).saturating_sub(already);
        let asks = !slots.is_empty() && others > 0 && !cx.has(label::SYSTEM);
        let sender = cx.request.sender;
        let limit = match asks {
            true => cx.transport.files_limit(sender).unwrap_or(0),
            false => u64::MAX,
        };
        if before + slots.len() as u32 > most || others as u64 > limit {
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
            cx.charge(payer, rights.len() * COST)?;
            if !self.in_flight.add(payer, rights.len()) {
                cx.refund(payer, rights.len() * COST);
                return fail(ENOBUFS);
            }
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
    pub(crate) fn let_out(&mut self, cx: &mut Context, rights: &[Passed]) {
        for passed in rights {
            self.in_flight.left(passed.payer);
            cx.refund(passed.payer, COST);
        }
    }

    /// What lay in a queue reaches nobody.
    pub(crate) fn drop_queued(&mut self, cx: &mut Context, rights: Rights) {
        if rights.is_empty() {
            return;
        }
        self.unqueued(&rights);
        self.drop_rights(cx, &rights);
    }

    /// The same for what lies in no queue.
    pub(crate) fn drop_rights(&mut self, cx: &mut Context, rights: &[Passed]) {
        self.let_out(cx, rights);
        for passed in rights {
            cx.transport.close(passed.portal);
        }
    }
}
