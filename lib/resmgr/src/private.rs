//! Mounts of name spaces that are not the first one ([`cairn_idl::fs::BIND`]): a folder or file of this server, seen for itself.
//!
//! Every handle that is opened through a handle of such a mount belongs to it as well. So what is mounted below ([`Cover`]) is seen by who came through this mount, and by nobody else; and
//! nothing that a client says makes it see another mount's. A mount lives as long as handles belong to it.
//!
//! **Who may change it**: whoever has the privilege in the name space that it was made in, as `proc` says of the sender ([`cairn_idl::proc::SPACE_OF`]).
//! **What was there before stays**: what is mounted in the mount (or in the first name space) that a new one is made from is mounted there, too. Its portal is to be given anew; until then nobody
//! comes past it. Only the administrator of all may leave it out or take it away. What is mounted on it later hides it, and can be taken away.

use crate::context::{Context, Failure};
use crate::covers::{Cover, Covers};
use crate::handle::Handle;
use crate::manager::Core;
use crate::names::path_or_gone;
use crate::permission::{EXECUTE, WRITE};
use crate::server::{Access, Answer, New, Server};
use crate::transport::Leads;
use alloc::vec::Vec;
use cairn_abi::flag;
use cairn_idl::errno::*;
use cairn_idl::fs::{bind, kind, o, redirect_kind, s, TextUse, MOUNT_TEXT_MAX, SPACE_MOUNTS_MOST};
use cairn_idl::label;
use cairn_idl::mounts::mount;
use cairn_rt::channel::Reply;
use cairn_rt::Portal;

/// Bits that a mount has beside its server's own.
const FLAGS: u64 = mount::READ_ONLY
    | mount::NO_ACCESS_TIMES
    | mount::NO_SET_ID
    | mount::NO_DEVICES
    | mount::NO_EXECUTION;

pub(crate) struct PrivateMount<N> {
    /// The name space that it was made in.
    space: u64,
    /// What its mounter calls it.
    pub number: u32,
    /// Of `mounts::mount`; of these, such as stay.
    pub flags: u64,
    floor: u64,
    pub root: N,
    /// What must stay as long as it does ([`Server::tree_of`]).
    tree: Option<N>,
    pub covers: Covers<N>,
    /// Handles that belong to it.
    handles: u32,
    /// Who pays for the covers and the text.
    payer: u32,
    /// What its mounter keeps with it until it has a place (MOUNT_TEXT).
    text: Vec<u8>,
}

impl<N: Copy + Ord> PrivateMount<N> {
    /// It is mounted somewhere, or was.
    pub fn has_place(&self) -> bool {
        self.text.is_empty()
    }
}

fn fail<T>(number: i64) -> Answer<T> {
    Err(Failure::Errno(number))
}

/// The third word of a redirect's answer.
pub(crate) fn down(number: u32) -> u64 {
    redirect_kind::DOWN | u64::from(number) << 8
}

pub(crate) fn up(number: u32) -> u64 {
    redirect_kind::UP | u64::from(number) << 8
}

impl<S: Server> Core<S> {
    /// The mount that a handle belongs to.
    #[inline(always)]
    pub(crate) fn mount_of(&mut self, badge: u64) -> Option<u32> {
        if self.private.is_empty() {
            return None;
        }
        self.handles.entry(badge)?.mount
    }

    /// One of these flags holds where the handle belongs.
    #[inline(always)]
    pub(crate) fn is_bound(&mut self, badge: u64, flags: u64) -> bool {
        let Some(mount) = self.mount_of(badge) else {
            return false;
        };
        let mount = self.private.get(mount);
        mount.is_some_and(|mount| mount.flags & flags != 0)
    }

    /// EROFS where the handle belongs to a mount that is read only.
    #[inline(always)]
    pub(crate) fn check_changes(&mut self, badge: u64) -> Answer<()> {
        match self.is_bound(badge, mount::READ_ONLY) {
            true => fail(EROFS),
            false => Ok(()),
        }
    }

    /// Something is mounted on this node where the handle belongs, or in the first name space.
    pub(crate) fn is_mount_point(&mut self, badge: u64, node: S::Node) -> bool {
        let private = self.mount_of(badge);
        let private = private.and_then(|mount| self.private.get(mount));
        private.is_some_and(|mount| mount.covers.on(&node).is_some())
            || self.mounts.iter().any(|mount| mount.node == node)
    }

    /// A new handle belongs where the one belongs that it was opened through.
    #[inline]
    pub(crate) fn belongs_too(&mut self, badge: u64, through: u64, own_root: bool) {
        let Some(at) = self.mount_of(through) else {
            return;
        };
        let below = self.handles.entry(through).is_some_and(|e| e.below);
        self.belongs(badge, at, below || own_root);
    }

    fn belongs(&mut self, badge: u64, at: u32, below: bool) {
        if let (Some(mount), Some(entry)) = (self.private.get_mut(at), self.handles.entry(badge)) {
            mount.handles += 1;
            (entry.mount, entry.below) = (Some(at), below);
        }
    }

    /// A handle that belonged to this mount is closed.
    pub(crate) fn leaves(&mut self, server: &mut S, cx: &mut Context, at: u32) {
        let Some(mount) = self.private.get_mut(at) else {
            return;
        };
        mount.handles -= 1;
        if mount.handles != 0 {
            return;
        }
        if let Some(mount) = self.private.remove(at) {
            cx.refund(mount.payer, cost::<S>(mount.covers.len()));
            cx.refund(mount.payer, mount.text.len());
            for cover in mount.covers.all() {
                uncover(server, cx, cover);
            }
            if let Some(tree) = mount.tree {
                release(server, cx, tree);
            }
        }
    }

    /// BIND
    pub fn bind<'a>(&'a mut self, server: &'a mut S, cx: &mut Context) -> Answer<Reply<'a>> {
        let [_, flags, number, mode, ..] = cx.request.words;
        let badge = cx.request.badge;
        let number = u32::try_from(number).map_err(|_| Failure::Errno(EINVAL))?;
        if flags & !(FLAGS | bind::WITH_MOUNTS | bind::NEW_TREE) != 0 {
            return fail(EINVAL);
        }
        let space = match cx.transport.space_of(cx.request.sender) {
            Some((space, true)) if space != 0 => space,
            _ => return fail(EPERM),
        };
        let start = self.start(server, badge, cx.request.sender)?;
        self.handles.room(cx, 1)?;
        if !self.private.reserve(1) {
            return fail(ENOMEM);
        }
        let above = self.mount_of(badge);
        let trusted = cx.has(label::SYSTEM);
        let (mut covers, mut floor) = (Covers::default(), 0);
        let tree = flags & bind::NEW_TREE != 0;
        let whole = !tree && (!trusted || flags & bind::WITH_MOUNTS != 0);
        let from = above.and_then(|above| self.private.get(above));
        if !tree {
            floor = from.map_or(0, |mount| mount.flags);
        }
        let count = match from {
            _ if !whole => 0,
            Some(mount) => mount.covers.seen().count(),
            None => self.mounts.len(),
        };
        if count > SPACE_MOUNTS_MOST || !covers.reserve(count) {
            return fail(ENOMEM);
        }
        let payer = cx.payer();
        cx.charge(payer, cost::<S>(count))?;
        let kept = |node, number| Cover {
            node,
            number,
            portal: None,
            stays: !trusted,
        };
        match from {
            _ if !whole => {}
            Some(mount) => {
                let seen = mount.covers.seen().map(|c| kept(c.node, c.number));
                seen.for_each(|cover| covers.push(cover));
            }
            None => {
                let seen = self.mounts.iter().map(|m| kept(m.node, 0));
                seen.for_each(|cover| covers.push(cover));
            }
        }
        let made = match tree {
            true => self.new_tree(server, cx, mode),
            false => Ok(start),
        };
        let opened = made.and_then(|node| Ok((node, server.meta(node)?)));
        let handle = opened.and_then(|(node, meta)| {
            let kind = crate::layout::default_kind(meta.mode);
            let new = S::State::default();
            let badge = self.handles.insert(cx, node, o::PATH, kind, new)?;
            Ok((node, meta, kind, badge))
        });
        let (node, meta, kind, badge) = match handle {
            Ok(handle) => handle,
            Err(failure) => {
                cx.refund(payer, cost::<S>(count));
                return Err(failure);
            }
        };
        server.retain(node);
        let tree = server.tree_of(cx, node);
        tree.into_iter().for_each(|tree| server.retain(tree));
        covers.iter().for_each(|cover| server.retain(cover.node));
        if meta.mode & s::IFMT == s::IFDIR {
            server.retain(node);
            self.handles.set_root(badge, node);
        }
        let made = self.private.insert(PrivateMount {
            space,
            number,
            flags: flags & FLAGS | floor,
            floor: floor | flags & FLAGS,
            root: node,
            tree,
            covers,
            handles: 0,
            payer,
            text: Vec::new(),
        });
        if let Some(at) = made {
            self.belongs(badge, at, false);
        }
        let words = [0, meta.mode.into(), kind, meta.size, meta.ino, 0, 0, badge];
        Ok(Reply {
            portals: 1,
            flags: flag::MINT,
            ..Reply::new(&words)
        })
    }

    fn new_tree(&mut self, server: &mut S, cx: &mut Context, mode: u64) -> Answer<S::Node> {
        let new = New {
            mode: s::IFDIR | mode as u32 & 0o1777,
            uid: cx.uid(),
            gid: cx.gid(),
            rdev: 0,
            target: &[],
        };
        server.new_tree(cx, &new)
    }

    /// The mount that a handle belongs to, for who may change it.
    fn changeable(&mut self, cx: &mut Context) -> Answer<&mut PrivateMount<S::Node>> {
        let at = self.mount_of(cx.request.badge);
        let mount = at.and_then(|at| self.private.get_mut(at));
        let mount = mount.ok_or(Failure::Errno(EINVAL))?;
        match cx.transport.space_of(cx.request.sender) {
            Some((space, true)) if space == mount.space => Ok(mount),
            _ => fail(EPERM),
        }
    }

    /// BOUND
    pub fn bound<'a>(&'a mut self, cx: &mut Context) -> Answer<Reply<'a>> {
        let flags = cx.request.words[1];
        let trusted = cx.has(label::SYSTEM);
        let mount = self.changeable(cx)?;
        if flags & !FLAGS != 0 {
            return fail(EINVAL);
        }
        if !trusted && mount.floor & !flags != 0 {
            return fail(EPERM);
        }
        mount.flags = flags;
        Ok(Reply::result(0))
    }

    /// MOUNT_TEXT
    pub fn mount_text<'a>(&'a mut self, cx: &mut Context) -> Answer<Reply<'a>> {
        let what = TextUse::from_word(cx.request.words[1]).ok_or(Failure::Errno(EINVAL))?;
        let (length, room) = (cx.request.out_len, cx.request.in_len);
        let mount = self.changeable(cx)?;
        if what != TextUse::Set {
            let before = mount.text.len();
            let asks = what == TextUse::Get && room == 0;
            if before > room && !asks {
                return fail(ERANGE);
            }
            if !asks {
                cx.store(0, &mount.text)?;
            }
            if what == TextUse::Take {
                mount.text = Vec::new();
                cx.refund(mount.payer, before);
            }
            return Ok(Reply::new(&[before as u64, mount.flags]));
        }
        if length > MOUNT_TEXT_MAX {
            return fail(EINVAL);
        }
        let mut text = Vec::new();
        let reserved = text.try_reserve_exact(length);
        reserved.map_err(|_| Failure::Errno(ENOMEM))?;
        text.resize(length, 0);
        cx.fetch(0, &mut text)?;
        // Only what it is longer, or shorter, counts.
        let before = mount.text.len();
        cx.charge(mount.payer, length.saturating_sub(before))?;
        cx.refund(mount.payer, before.saturating_sub(length));
        mount.text = text;
        Ok(Reply::result(0))
    }

    /// MOUNT_POINT in such a mount: of the portal that came, `given` keeps what is not used.
    pub(crate) fn cover_here<'a>(
        &'a mut self,
        server: &mut S,
        cx: &mut Context,
        given: &mut Option<Portal>,
        node: S::Node,
    ) -> Answer<Reply<'a>> {
        let [_, on, number, ..] = cx.request.words;
        let number = u32::try_from(number).map_err(|_| Failure::Errno(EINVAL))?;
        let trusted = cx.has(label::SYSTEM);
        if on != 0 {
            let portal = given.ok_or(Failure::Errno(EINVAL))?;
            if cx.transport.leads_to(portal) == Leads::Elsewhere {
                return fail(EINVAL);
            }
        }
        let mount = self.changeable(cx)?;
        let payer = mount.payer;
        if on == 0 {
            let at = mount.covers.find(&node, number);
            let at = at.ok_or(Failure::Errno(EINVAL))?;
            if mount.covers.at(at).stays && !trusted {
                return fail(EINVAL);
            }
            let cover = mount.covers.remove(at);
            cx.refund(payer, cost::<S>(1));
            uncover(server, cx, cover);
            return Ok(Reply::result(0));
        }
        if let Some(cover) = mount.covers.place(&node, number) {
            cover.number = number;
            if let Some(old) = core::mem::replace(&mut cover.portal, given.take()) {
                cx.transport.close(old);
            }
            return Ok(Reply::result(0));
        }
        if mount.covers.len() >= SPACE_MOUNTS_MOST || !mount.covers.reserve(1) {
            return fail(ENOSPC);
        }
        cx.charge(payer, cost::<S>(1))?;
        server.retain(node);
        mount.covers.push(Cover {
            node,
            number,
            portal: given.take(),
            stays: false,
        });
        Ok(Reply::result(0))
    }

    /// MOUNTED in such a mount.
    pub(crate) fn mounted_here<'a>(&'a self, at: u32, node: S::Node) -> Answer<Reply<'a>> {
        let cover = self.private.get(at);
        let cover = cover.and_then(|mount| mount.covers.on(&node));
        let cover = cover.ok_or(Failure::Errno(EINVAL))?;
        let portal = cover.portal.ok_or(Failure::Errno(ENOENT))?;
        let words = [0, cover.number.into()];
        Ok(Reply::new(&words).portal(portal, false))
    }

    /// Where the path of a node begins that belongs to a mount: how many bytes of `self.text[..length]` are the path of the mount's root, and the mount's number.
    pub(crate) fn path_from(
        &mut self,
        server: &mut S,
        cx: &mut Context,
        (at, node): (u32, S::Node),
        gone: &mut bool,
    ) -> Answer<(usize, u32)> {
        let mount = self.private.get(at).ok_or(Failure::Errno(EBADF))?;
        let (root, number) = (mount.root, mount.number);
        if node == root {
            *gone = false;
            return Ok((0, number));
        }
        let mut above = Vec::new();
        let length = server.path(cx, root, &mut self.text)?;
        let reserved = above.try_reserve_exact(length + 1);
        reserved.map_err(|_| Failure::Errno(ENOMEM))?;
        above.extend_from_slice(&self.text[..length]);
        let room = self.text.get_mut(1..);
        let room = room.ok_or(Failure::Errno(ENAMETOOLONG))?;
        let whole = path_or_gone(server, cx, node, room, gone)? + 1;
        self.text[0] = b'/';
        if length == 0 {
            return Ok((whole, number));
        }
        above.insert(0, b'/');
        let below = match self.text[..whole].strip_prefix(&above[..]) {
            Some(rest) if rest.first() == Some(&b'/') => rest.len(),
            _ => return fail(ENOENT),
        };
        self.text.copy_within(whole - below..whole, 0);
        Ok((below, number))
    }

    /// Does somebody who may not change anything where the handle belongs want to open it for that?
    #[inline]
    pub(crate) fn check_open(&mut self, badge: u64, access: &Access, want: u32) -> Answer<()> {
        let Some(at) = self.mount_of(badge) else {
            return Ok(());
        };
        let flags = self.private.get(at).map_or(0, |mount| mount.flags);
        let device = matches!(access.mode & s::IFMT, s::IFCHR | s::IFBLK);
        let file = matches!(access.mode & s::IFMT, s::IFREG | s::IFDIR);
        if device && flags & mount::NO_DEVICES != 0 {
            return fail(EACCES);
        }
        if file && want & WRITE != 0 && flags & mount::READ_ONLY != 0 {
            return fail(EROFS);
        }
        if access.mode & s::IFMT == s::IFREG
            && want & EXECUTE != 0
            && flags & mount::NO_EXECUTION != 0
        {
            return fail(EACCES);
        }
        Ok(())
    }
}

/// Bytes that are charged for covers.
fn cost<S: Server>(count: usize) -> usize {
    (count + 1) * (size_of::<Cover<S::Node>>() + 64)
}

/// The node and the portal of a cover go.
fn uncover<S: Server>(server: &mut S, cx: &mut Context, cover: Cover<S::Node>) {
    if let Some(portal) = cover.portal {
        cx.transport.close(portal);
    }
    release(server, cx, cover.node);
}

/// A node that was retained.
fn release<S: Server>(server: &mut S, cx: &mut Context, node: S::Node) {
    let held = Handle {
        badge: 0,
        node,
        flags: o::PATH,
        kind: kind::DIRECTORY,
        state: S::State::default(),
    };
    server.close(cx, held);
}
