//! Listening and connecting. The far end of a new connection is made when it is asked for, not when it is accepted: what is sent meanwhile waits in it.

use crate::queue::Credentials;
use crate::server::{fail, Node, Sockets};
use crate::socket::{Peer, Socket, State};
use crate::{key, READABLE, ROOM};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use cairn_idl::errno::*;
use cairn_idl::fs::o;
use cairn_idl::proc;
use cairn_resmgr::server::Answer;
use cairn_resmgr::{Context, Failure, Handles};
use cairn_rt::channel::Reply;
use cairn_rt::{Message, Portal};

/// Most that may wait to be accepted, whatever listen(2) says (net.core.somaxconn).
const BACKLOG_MAX: u64 = 4096;

/// Bytes of most supplementary groups of a process.
pub(crate) const GROUPS: usize = 128;

fn copied(groups: &[u8]) -> Answer<Vec<u8>> {
    let mut copy = Vec::new();
    let room = copy.try_reserve_exact(groups.len());
    room.map_err(|_| Failure::Errno(ENOBUFS))?;
    copy.extend_from_slice(groups);
    Ok(copy)
}

impl Sockets {
    /// Who calls: user and group by the label, the process as `proc` says.
    pub(crate) fn caller(&self, cx: &mut Context) -> Credentials {
        Credentials {
            pid: self.pid(cx),
            uid: cx.uid(),
            gid: cx.gid(),
        }
    }

    /// The same with its supplementary groups.
    fn caller_with_groups(&self, cx: &mut Context) -> Answer<(Credentials, Vec<u8>)> {
        let Some(proc) = self.proc else {
            return Ok((self.caller(cx), Vec::new()));
        };
        let mut groups = [0; GROUPS];
        let message = Message::new(&[proc::IDS_OF, u64::from(cx.request.sender)]);
        let (pid, count) = match cx.transport.call(proc, message.input(&mut groups)) {
            Ok(words) if (words[0] as i64) > 0 => (words[0] as u32, words[6]),
            _ => (0, 0),
        };
        let length = usize::try_from(count).unwrap_or(GROUPS).min(GROUPS / 4) * 4;
        let caller = Credentials {
            pid,
            uid: cx.uid(),
            gid: cx.gid(),
        };
        Ok((caller, copied(&groups[..length])?))
    }

    fn pid(&self, cx: &mut Context) -> u32 {
        let Some(proc) = self.proc else { return 0 };
        let message = Message::new(&[proc::IDS_OF, u64::from(cx.request.sender)]);
        match cx.transport.call(proc, message) {
            Ok(words) if (words[0] as i64) > 0 => words[0] as u32,
            _ => 0,
        }
    }

    pub(crate) fn listen<'a>(&mut self, cx: &mut Context, index: u32) -> Answer<Reply<'a>> {
        let socket = self.socket(index)?;
        if !socket.has_connections() {
            return fail(EOPNOTSUPP);
        }
        if socket.name.is_none() || socket.is_connected() {
            return fail(EINVAL);
        }
        let most = (cx.request.words[1] as u32 as u64).min(BACKLOG_MAX) as usize;
        let (caller, groups) = self.caller_with_groups(cx)?;
        let socket = self.socket_mut(index)?;
        (socket.peer_credentials, socket.peer_groups) = (Some(caller), groups);
        match &mut socket.state {
            State::Listening { backlog, .. } => *backlog = most,
            state => {
                *state = State::Listening {
                    backlog: most,
                    waiting: VecDeque::new(),
                }
            }
        }
        cx.wake(key(index, ROOM));
        Ok(Reply::result(0))
    }

    pub(crate) fn accept<'a>(
        &mut self,
        cx: &mut Context,
        handles: &mut Handles<Self>,
        index: u32,
    ) -> Answer<Reply<'a>> {
        handles.room(cx, 1)?;
        let socket = self.socket_mut(index)?;
        if !socket.has_connections() {
            return fail(EOPNOTSUPP);
        }
        let (reads, wants_credentials) = (socket.reads, socket.wants_credentials);
        let State::Listening { waiting, .. } = &mut socket.state else {
            return fail(EINVAL);
        };
        let Some(embryo) = waiting.pop_front() else {
            return match reads {
                true => Err(Failure::Wait(key(index, READABLE))),
                false => fail(EINVAL),
            };
        };
        cx.wake(key(index, ROOM));
        let socket = self.socket_mut(embryo)?;
        socket.embryo_of = None;
        socket.wants_credentials = wants_credentials;
        let flags = o::RDWR | cx.request.words[1] & o::NONBLOCK;
        let badge = handles.insert(cx, Node::Socket(embryo), flags, 0, ())?;
        Ok(Reply::new(&[0]).mint(badge))
    }

    pub(crate) fn connect<'a>(&mut self, cx: &mut Context, index: u32) -> Answer<Reply<'a>> {
        if cx.request.portals == 0 {
            let socket = self.socket_mut(index)?;
            if socket.has_connections() {
                return fail(EINVAL);
            }
            (socket.peer, socket.peer_name, socket.joined) = (None, None, false);
            cx.wake(key(index, ROOM));
            return Ok(Reply::result(0));
        }
        let target = self.addressed(cx, Portal(cx.request.words[7] as u32))?;
        if self.socket(index)?.kind != self.socket(target)?.kind {
            return fail(EPROTOTYPE);
        }
        if self.socket(index)?.wants_credentials && self.socket(index)?.name.is_none() {
            self.bind_automatically(index)?;
        }
        match self.socket(index)?.has_connections() {
            true => self.connect_stream(cx, index, target)?,
            false => self.connect_datagram(index, target)?,
        }
        // Whoever looked found that it had hung up.
        cx.wake(key(index, READABLE));
        cx.wake(key(index, ROOM));
        Ok(Reply::result(0))
    }

    fn connect_datagram(&mut self, index: u32, target: u32) -> Answer<()> {
        if !self.may_send(index, target)? {
            return fail(EPERM);
        }
        let there = self.socket(target)?;
        let (ino, name) = (there.ino, there.name.clone());
        let socket = self.socket_mut(index)?;
        socket.peer = Some(Peer {
            socket: target,
            ino,
        });
        (socket.peer_name, socket.joined) = (name, true);
        self.socket_mut(target)?.joined = true;
        Ok(())
    }

    /// One that is connected itself takes datagrams of its peer only.
    pub(crate) fn may_send(&self, index: u32, target: u32) -> Answer<bool> {
        let own = self.socket(index)?.ino;
        Ok(match self.socket(target)?.peer {
            None => true,
            Some(peer) => peer.ino == own,
        })
    }

    fn connect_stream(&mut self, cx: &mut Context, index: u32, target: u32) -> Answer<()> {
        let listener = self.socket(target)?;
        let State::Listening { backlog, waiting } = &listener.state else {
            return fail(ECONNREFUSED);
        };
        if !listener.reads {
            return fail(ECONNREFUSED);
        }
        let full = waiting.len() > *backlog;
        match self.socket(index)?.state {
            State::Unconnected => {}
            State::Connected => return fail(EISCONN),
            State::Listening { .. } => return fail(EINVAL),
        }
        if full {
            return Err(Failure::Wait(key(target, ROOM)));
        }
        let (uid, gid, payer) = (listener.uid, listener.gid, listener.payer);
        let (name, told) = (listener.name.clone(), listener.peer_credentials);
        let told_groups = copied(&listener.peer_groups)?;
        let (caller, groups) = self.caller_with_groups(cx)?;
        let kind = self.socket(index)?.kind;
        let ino = self.next_ino();
        let own = self.socket(index)?;
        let mut far = Socket::new(kind, ino, uid, gid);
        far.pays(payer);
        far.state = State::Connected;
        far.peer = Some(Peer {
            socket: index,
            ino: own.ino,
        });
        far.name = name.clone();
        far.peer_name = own.name.clone();
        (far.peer_credentials, far.peer_groups) = (Some(caller), groups);
        far.embryo_of = Some(target);
        if let State::Listening { waiting, .. } = &mut self.socket_mut(target)?.state {
            let room = waiting.try_reserve(1);
            room.map_err(|_| Failure::Errno(ENOBUFS))?;
        }
        let far = self.add_socket(cx, far)?;
        let socket = self.socket_mut(index)?;
        socket.state = State::Connected;
        socket.peer = Some(Peer { socket: far, ino });
        socket.peer_name = name;
        (socket.peer_credentials, socket.peer_groups) = (told, told_groups);
        if let State::Listening { waiting, .. } = &mut self.socket_mut(target)?.state {
            waiting.push_back(far);
        }
        cx.wake(key(target, READABLE));
        Ok(())
    }

    pub(crate) fn make_pair<'a>(
        &mut self,
        cx: &mut Context,
        handles: &mut Handles<Self>,
    ) -> Answer<Reply<'a>> {
        let [_, kind, flags, ..] = cx.request.words;
        handles.room(cx, 2)?;
        let (first, second) = (self.make(cx, kind)?, self.make(cx, kind));
        let second = match second {
            Ok(second) => second,
            Err(failure) => {
                self.end(cx, first);
                return Err(failure);
            }
        };
        let made = self.caller_with_groups(cx);
        let made = made.and_then(|(caller, groups)| Ok((caller, copied(&groups)?, groups)));
        let (caller, groups, others) = match made {
            Ok(made) => made,
            Err(failure) => {
                self.end(cx, first);
                self.end(cx, second);
                return Err(failure);
            }
        };
        self.socket_mut(first)?.peer_groups = groups;
        self.socket_mut(second)?.peer_groups = others;
        for (own, other) in [(first, second), (second, first)] {
            let ino = self.socket(other)?.ino;
            let socket = self.socket_mut(own)?;
            socket.state = State::Connected;
            socket.peer = Some(Peer { socket: other, ino });
            socket.peer_credentials = Some(caller);
        }
        let flags = o::RDWR | flags & o::NONBLOCK;
        let first = handles.insert(cx, Node::Socket(first), flags, 0, ())?;
        let second = handles.insert(cx, Node::Socket(second), flags, 0, ())?;
        let mut reply = Reply::new(&[0, 0, 0, 0, 0, 0, first, second]);
        reply.portals = 2;
        reply.flags = cairn_abi::flag::MINT;
        Ok(reply)
    }
}
