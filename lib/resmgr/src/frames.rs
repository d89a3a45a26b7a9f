//! Files whose readers take bytes from the file's frames themselves ([`fs::FRAMES`]): for each of them a page that says how long the file is and whether it is being changed, kept true by whoever changes a file here.
//!
//! The page is there as long as a handle through which it was asked for. Nobody looks for it where there is none.

use crate::context::{Context, Failure};
use crate::handle::LOST;
use crate::manager::Core;
use crate::server::{Answer, Server};
use crate::transport::Page;
use cairn_idl::errno::*;
use cairn_idl::fs::{kind, o, FRAMES_SEQUENCE, FRAMES_SIZE, FRAMES_TOLD};
use cairn_rt::channel::Reply;
use cairn_rt::Portal;
use core::sync::atomic::{fence, Ordering};

/// Most files of which there is a page.
const MOST: usize = 64;

pub(crate) struct Shared<N> {
    node: N,
    /// Handles through which it was asked for.
    holders: u32,
    page: Page,
    portal: Portal,
}

impl<N> Shared<N> {
    pub(crate) fn set(&self, word: usize, value: u64) {
        self.page[word].store(value, Ordering::Release);
    }

    fn sequence(&self) -> u64 {
        self.page[FRAMES_SEQUENCE].load(Ordering::Relaxed)
    }
}

impl<S: Server> Core<S> {
    /// FRAMES.
    pub fn frames<'a>(&'a mut self, server: &mut S, cx: &mut Context) -> Answer<Reply<'a>> {
        let entry = self.entry(cx.request)?;
        if !entry.handle.readable() {
            // The program did not ask: of what is lost it hears another time.
            let lost = entry.handle.flags & LOST != 0;
            return Err(Failure::Errno(if lost { EAGAIN } else { EBADF }));
        }
        let wanted = kind::SEEKABLE | kind::MAPPABLE;
        if entry.handle.kind & wanted != wanted || entry.handle.flags & o::PATH != 0 {
            return Err(Failure::Errno(EINVAL));
        }
        let (node, held) = (entry.handle.node, entry.frames);
        let size = server.meta(node)?.size;
        if self.notices.want_reads() || !server.mapping_follows(node) {
            return Err(Failure::Errno(EAGAIN));
        }
        let at = match self.shared.iter().position(|shared| shared.node == node) {
            Some(at) if self.shared[at].sequence() != 0 => at,
            // It is over for this one until nobody has it any more.
            Some(_) => return Err(Failure::Errno(EAGAIN)),
            None if self.shared.len() >= MOST => return Err(Failure::Errno(EAGAIN)),
            None => {
                let made = cx.transport.publish();
                let (page, portal) = made.ok_or(Failure::Errno(ENOMEM))?;
                let shared = Shared {
                    node,
                    holders: 0,
                    page,
                    portal,
                };
                shared.set(FRAMES_SIZE, size);
                shared.set(FRAMES_TOLD, 1);
                shared.set(FRAMES_SEQUENCE, 2);
                self.shared.push(shared);
                self.shared.len() - 1
            }
        };
        self.shared[at].holders += u32::from(!held);
        self.entry(cx.request)?.frames = true;
        Ok(Reply::new(&[0, size]).portal(self.shared[at].portal, false))
    }

    /// A handle through which it was asked for is closed.
    pub(crate) fn close_frames(&mut self, node: S::Node, cx: &mut Context) {
        let Some(at) = self.shared.iter().position(|shared| shared.node == node) else {
            return;
        };
        self.shared[at].holders -= 1;
        if self.shared[at].holders == 0 {
            let shared = self.shared.swap_remove(at);
            shared.set(FRAMES_SEQUENCE, 0);
            cx.transport.close(shared.portal);
        }
    }
}

fn find<N: PartialEq>(all: &[Shared<N>], node: N) -> Option<&Shared<N>> {
    let shared = all.iter().find(|shared| shared.node == node);
    shared.filter(|shared| shared.sequence() != 0)
}

/// The file is about to be changed: from now on its readers ask the server.
#[inline(always)]
pub(crate) fn changes<N: PartialEq>(all: &[Shared<N>], node: N) {
    if !all.is_empty() {
        begin(all, node);
    }
}

#[cold]
fn begin<N: PartialEq>(all: &[Shared<N>], node: N) {
    if let Some(shared) = find(all, node) {
        shared.set(FRAMES_SEQUENCE, shared.sequence() | 1);
        // Before anything else is.
        fence(Ordering::SeqCst);
    }
}

/// It was changed, or not; the time of the next read is to be noted.
#[inline(always)]
pub(crate) fn changed<S: Server>(all: &[Shared<S::Node>], server: &mut S, node: S::Node) {
    if !all.is_empty() {
        end(all, server, node);
    }
}

#[cold]
fn end<S: Server>(all: &[Shared<S::Node>], server: &mut S, node: S::Node) {
    let Some(shared) = find(all, node) else {
        return;
    };
    match server.meta(node) {
        Ok(meta) if server.mapping_follows(node) => {
            shared.set(FRAMES_SIZE, meta.size);
            shared.set(FRAMES_TOLD, 1);
            let next = (shared.sequence() | 1).wrapping_add(1);
            shared.set(FRAMES_SEQUENCE, next.max(2));
        }
        // What readers have mapped is not the file any more.
        _ => shared.set(FRAMES_SEQUENCE, 0),
    }
}

/// The time of a read was noted, or (`next`) that of the next one is to be.
#[inline(always)]
pub(crate) fn tell<N: PartialEq>(all: &[Shared<N>], node: N, next: bool) {
    if !all.is_empty() {
        if let Some(shared) = find(all, node) {
            shared.set(FRAMES_TOLD, next.into());
        }
    }
}
