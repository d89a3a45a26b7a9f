//! Programs of classic BPF that sockets bring: those that say which packets are wanted (SO_ATTACH_FILTER, of every kind of socket), and those that choose
//! among sockets of one port (SO_ATTACH_REUSEPORT_CBPF).

use crate::address::Endpoint;
use crate::capture::filter::{About, Filter, BYTES, MOST};
use crate::internet::Arrived;
use crate::packet::protocol::TCP;
use crate::packet::Payload;
use crate::server::{fail, fetched, Net};
use alloc::rc::Rc;
use cairn_idl::errno::*;
use cairn_idl::net::PACKET;
use cairn_resmgr::server::Answer;
use cairn_resmgr::Context;

/// What chooses among the sockets of a group, and who pays for it.
pub struct Chooser {
    program: Rc<Filter>,
    payer: u32,
}

/// Types of Ethernet, which programs see as the protocol.
const ETHERNET_V4: u16 = 0x800;
const ETHERNET_V6: u16 = 0x86dd;

/// What is known of a packet whose view for programs begins at `start`.
fn about(arrived: &Arrived, start: usize) -> About {
    About {
        network: 0,
        start,
        protocol: match arrived.header.is_v4() {
            true => ETHERNET_V4,
            false => ETHERNET_V6,
        },
        interface: arrived.interface,
        ..About::default()
    }
}

/// How much of it a filter takes.
pub(crate) fn taken_by(filter: &Filter, arrived: &Arrived, start: usize) -> Option<usize> {
    let whole = Payload {
        start: 0,
        ..arrived.payload
    };
    match filter.run(arrived.packet.payload(whole), &about(arrived, start)) {
        0 => None,
        most => Some(most as usize),
    }
}

impl Net {
    /// The program that comes with the request; None: it brings nothing.
    fn brought(&mut self, cx: &mut Context) -> Answer<Option<Filter>> {
        let length = cx.request.out_len;
        if length == 0 {
            return Ok(None);
        }
        if length > MOST * BYTES {
            return fail(EINVAL);
        }
        match Filter::parse(&fetched(cx, length, ENOMEM)?) {
            Some(filter) => Ok(Some(filter)),
            None => fail(EINVAL),
        }
    }

    /// Where the socket's filter is kept.
    fn wanted(&mut self, index: u32) -> Answer<&mut Option<Rc<Filter>>> {
        match self.socket(index)?.family {
            PACKET => Ok(&mut self.capture(index)?.filter),
            _ => Ok(&mut self.socket_mut(index)?.wanted),
        }
    }

    /// The filter that the request brings, or (without one) none any more.
    pub(crate) fn set_wanted(&mut self, cx: &mut Context, index: u32) -> Answer<()> {
        let payer = self.socket(index)?.payer;
        let new = self.brought(cx)?.map(Rc::new);
        match &new {
            None if self.wanted(index)?.is_none() => return fail(ENOENT),
            None => {}
            Some(filter) => cx.charge(payer, filter.memory())?,
        }
        self.some_filter |= new.is_some() && self.socket(index)?.is_stream();
        self.heritage_changes(cx, index);
        let old = core::mem::replace(self.wanted(index)?, new);
        cx.refund(payer, old.map_or(0, |of| of.memory()));
        Ok(())
    }

    /// SO_GET_FILTER: of how many instructions it is, and (if there is room for all) those.
    pub(crate) fn get_wanted(&mut self, cx: &Context, index: u32) -> Answer<u64> {
        let mut scratch = core::mem::take(&mut self.scratch);
        let mut count = 0;
        if let Some(filter) = self.wanted(index)? {
            count = filter.count();
            let fits = count * BYTES <= cx.request.in_len;
            if fits && scratch.try_reserve(count * BYTES).is_ok() {
                scratch.extend(filter.bytes());
            }
        }
        self.scratch = scratch;
        Ok(count as u64)
    }

    /// How much of what came (from `start` on) a socket wants; None: nothing at all.
    #[cold]
    #[inline(never)]
    pub(crate) fn passes(&self, index: u32, arrived: &Arrived, start: usize) -> Option<usize> {
        let wanted = self.sockets.get(index).and_then(|of| of.wanted.as_ref());
        wanted.map_or(Some(usize::MAX), |filter| taken_by(filter, arrived, start))
    }

    /// SO_ATTACH_REUSEPORT_CBPF: of all sockets of this port, or of those that this one will begin.
    pub(crate) fn set_chooser(&mut self, cx: &mut Context, index: u32) -> Answer<()> {
        let socket = self.socket(index)?;
        let (payer, group) = (socket.payer, (socket.protocol, socket.local));
        let (shares, bound) = (socket.options.share, socket.local.port != 0);
        let Some(program) = self.brought(cx)? else {
            return fail(EINVAL);
        };
        if !shares {
            return fail(EINVAL);
        }
        cx.charge(payer, program.memory())?;
        let program = Rc::new(program);
        if !bound {
            let old = self.socket_mut(index)?.chooser.replace(program);
            cx.refund(payer, old.map_or(0, |old| old.memory()));
            return Ok(());
        }
        let new = Chooser { program, payer };
        match self.choosers.get_mut(&group) {
            Some(chooser) => {
                let old = core::mem::replace(chooser, new);
                cx.refund(old.payer, old.program.memory());
            }
            None => {
                let memory = new.program.memory();
                if !self.choosers.insert(group, new) {
                    cx.refund(payer, memory);
                    return fail(ENOMEM);
                }
            }
        }
        Ok(())
    }

    /// SO_DETACH_REUSEPORT_BPF.
    pub(crate) fn drop_chooser(&mut self, cx: &mut Context, index: u32) -> Answer<()> {
        let socket = self.socket_mut(index)?;
        if !socket.options.share {
            return fail(EINVAL);
        }
        let (payer, group) = (socket.payer, (socket.protocol, socket.local));
        if let Some(old) = socket.chooser.take() {
            cx.refund(payer, old.memory());
            return Ok(());
        }
        match self.choosers.remove(&group) {
            Some(old) => cx.refund(old.payer, old.program.memory()),
            None => return fail(ENOENT),
        }
        Ok(())
    }

    /// The socket has its port now: what it brought is for all of that port, unless these have a chooser already.
    pub(crate) fn bring_chooser(&mut self, index: u32) {
        let Some(socket) = self.sockets.get_mut(index) else {
            return;
        };
        let (payer, group) = (socket.payer, (socket.protocol, socket.local));
        if socket.chooser.is_none() || self.choosers.contains(&group) {
            return;
        }
        if let Some(program) = socket.chooser.take() {
            let back = program.clone();
            if !self.choosers.insert(group, Chooser { program, payer }) {
                socket.chooser = Some(back);
            }
        }
    }

    /// A socket is gone from its port: was it the last one?
    pub(crate) fn end_chooser(&mut self, cx: &mut Context, group: (u8, Endpoint)) {
        let (protocol, local) = group;
        let others = match protocol {
            TCP => self.listeners.contains(&local),
            _ => self.datagrams.contains(&group),
        };
        if others || self.choosers.is_empty() {
            return;
        }
        if let Some(old) = self.choosers.remove(&group) {
            cx.refund(old.payer, old.program.memory());
        }
    }

    /// Programs of a socket that ends.
    pub(crate) fn drop_programs(&mut self, cx: &mut Context, index: u32) {
        let Some(socket) = self.sockets.get_mut(index) else {
            return;
        };
        let payer = socket.payer;
        let (wanted, chooser) = (socket.wanted.take(), socket.chooser.take());
        let memory = wanted.map_or(0, |of| of.memory()) + chooser.map_or(0, |of| of.memory());
        cx.refund(payer, memory);
    }

    /// Which of `count` sockets the group's program chooses for these bytes (of UDP the datagram's, of TCP what follows the header); None: there is no
    /// program, or it names none of them.
    pub(crate) fn chosen(
        &self,
        group: &(u8, Endpoint),
        count: usize,
        bytes: &[u8],
    ) -> Option<usize> {
        if self.choosers.is_empty() {
            return None;
        }
        let chooser = self.choosers.get(group)?;
        let chosen = chooser.program.run(bytes, &About::default()) as usize;
        (chosen < count).then_some(chosen)
    }
}
