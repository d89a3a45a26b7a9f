//! Walking a path through a server's tree: `.`, `..`, symbolic links, trailing slashes, mount points, and names that leave the manager.

use crate::context::{Context, Failure};
use crate::permission::{self, EXECUTE};
use crate::server::{Answer, Meta, Server};
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use cairn_idl::errno::*;
use cairn_idl::fs::{s, NAME_MAX, PATH_MAX, SYMLINKS_MAX};

/// A path being walked: what is left of it lies at `at..end`; there is room before it for the targets of links.
pub(crate) struct Names {
    text: Box<[u8]>,
    at: usize,
    end: usize,
}

const START: usize = PATH_MAX;
const ROOM: usize = 2 * PATH_MAX;

impl Names {
    pub fn new() -> Names {
        Names {
            text: vec![0; START + ROOM].into_boxed_slice(),
            at: START,
            end: START,
        }
    }

    /// Take the caller's out part as the path.
    pub fn fetch(&mut self, cx: &mut Context) -> Answer<()> {
        let length = cx.request.out_len;
        if length >= PATH_MAX {
            return Err(Failure::Errno(ENAMETOOLONG));
        }
        self.fetch_any(cx, length)?;
        if self.left().contains(&0) {
            return Err(Failure::Errno(EINVAL));
        }
        Ok(())
    }

    /// Take two paths with a NUL between them; the second goes to `second`.
    pub fn fetch_two(&mut self, second: &mut Names, cx: &mut Context) -> Answer<()> {
        let length = cx.request.out_len;
        if length >= ROOM {
            return Err(Failure::Errno(ENAMETOOLONG));
        }
        self.fetch_any(cx, length)?;
        let left = &self.text[self.at..self.end];
        let split = left
            .iter()
            .position(|&byte| byte == 0)
            .ok_or(Failure::Errno(EINVAL))?;
        let other = &left[split + 1..];
        if split >= PATH_MAX || other.len() >= PATH_MAX {
            return Err(Failure::Errno(ENAMETOOLONG));
        }
        if other.contains(&0) {
            return Err(Failure::Errno(EINVAL));
        }
        second.at = START;
        second.end = START + other.len();
        second.text[second.at..second.end].copy_from_slice(other);
        self.end = self.at + split;
        Ok(())
    }

    fn fetch_any(&mut self, cx: &mut Context, length: usize) -> Answer<()> {
        self.at = START;
        self.end = START + length;
        if length != 0 {
            cx.fetch(0, &mut self.text[START..START + length])?;
        }
        Ok(())
    }

    /// What has not been walked yet.
    pub fn left(&self) -> &[u8] {
        &self.text[self.at..self.end]
    }

    pub fn is_empty(&self) -> bool {
        self.at == self.end
    }

    /// The component that a walk ended with.
    pub fn name(&self, range: (usize, usize)) -> &[u8] {
        &self.text[range.0..range.1]
    }

    /// Put a link's target before what is left (which is empty or begins with a slash).
    fn splice(&mut self, target: &[u8]) -> Answer<()> {
        let left = self.end - self.at;
        if target.len() + left >= PATH_MAX {
            return Err(Failure::Errno(ENAMETOOLONG));
        }
        if self.at < target.len() {
            let to = self.text.len() - left;
            self.text.copy_within(self.at..self.end, to);
            self.at = to;
            self.end = self.text.len();
        }
        let at = self.at - target.len();
        self.text[at..self.at].copy_from_slice(target);
        self.at = at;
        Ok(())
    }

    fn skip_slashes(&mut self) -> bool {
        let before = self.at;
        while self.at < self.end && self.text[self.at] == b'/' {
            self.at += 1;
        }
        self.at != before
    }
}

/// What to do with a symbolic link (or a mount point) as the last component.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Last {
    Follow,
    /// Follow it only if a slash comes behind (lstat, O_NOFOLLOW).
    Slash,
    /// The name itself is meant (unlink, rename, mkdir).
    Name,
}

/// Where a walk ended.
pub(crate) struct Found<N> {
    /// Directory of the last component (meaningless if `name` is `None`).
    pub dir: N,
    pub dir_meta: Meta,
    /// The last component in [`Names`]; `None` for the start itself, `.`, `..` and the root.
    pub name: Option<(usize, usize)>,
    pub last: Dots,
    /// What is there.
    pub node: Option<(N, Meta)>,
    pub slash: bool,
}

/// Which special component a walk without a name ended with.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dots {
    None,
    Root,
    Dot,
    DotDot,
}

/// What walking needs of the manager.
pub(crate) struct Walk<'a, N> {
    pub prefix: &'a [u8],
    pub mounts: &'a [(N, Vec<u8>)],
    pub link: &'a mut [u8],
}

impl<N: Copy + PartialEq> Walk<'_, N> {
    pub fn run<S: Server<Node = N>>(
        &mut self,
        server: &mut S,
        cx: &mut Context,
        names: &mut Names,
        start: N,
        last: Last,
    ) -> Answer<Found<N>> {
        let mut dir = start;
        if names.text[names.at..names.end].first() == Some(&b'/') {
            dir = server.root(0);
            names.skip_slashes();
        }
        let mut meta = server.meta(dir)?;
        let mut dots = Dots::Root;
        let mut links = 0;
        loop {
            if names.is_empty() {
                return Ok(Found {
                    dir,
                    dir_meta: meta,
                    name: None,
                    last: dots,
                    node: Some((dir, meta)),
                    slash: false,
                });
            }
            let begin = names.at;
            let length = names
                .left()
                .iter()
                .position(|&byte| byte == b'/')
                .unwrap_or(names.end - begin);
            names.at += length;
            if meta.mode & s::IFMT != s::IFDIR {
                return Err(Failure::Errno(ENOTDIR));
            }
            if cx.uid() != 0 {
                permission::check(cx, &meta, EXECUTE)?;
            }
            if length <= 2 && names.text[begin] == b'.' {
                if length == 1 {
                    dots = Dots::Dot;
                    names.skip_slashes();
                    continue;
                }
                if names.text[begin + 1] == b'.' {
                    dots = Dots::DotDot;
                    if dir != server.root(0) {
                        dir = server.parent(cx, dir)?;
                    } else if !self.prefix.is_empty() {
                        return Err(self.above(cx, names.left()));
                    }
                    meta = server.meta(dir)?;
                    names.skip_slashes();
                    continue;
                }
            }
            if length > NAME_MAX {
                return Err(Failure::Errno(ENAMETOOLONG));
            }
            let end_of_name = names.at;
            let rest = end_of_name;
            let slash = names.skip_slashes();
            let at_end = names.is_empty();
            let node = match server.lookup(cx, dir, &names.text[begin..end_of_name]) {
                Ok(node) => node,
                Err(Failure::Errno(ENOENT)) if at_end => {
                    return Ok(Found {
                        dir,
                        dir_meta: meta,
                        name: Some((begin, end_of_name)),
                        last: Dots::None,
                        node: None,
                        slash,
                    });
                }
                Err(Failure::Redirect) => {
                    cx.later
                        .redirect
                        .extend_from_slice(&names.text[rest..names.end]);
                    return Err(Failure::Redirect);
                }
                Err(failure) => return Err(failure),
            };
            let named = at_end && last == Last::Name;
            if !self.mounts.is_empty() && !named {
                if let Some((_, name)) = self.mounts.iter().find(|(mount, _)| *mount == node) {
                    let failure = cx.redirect(name);
                    cx.later
                        .redirect
                        .extend_from_slice(&names.text[rest..names.end]);
                    return Err(failure);
                }
            }
            let found = server.meta(node)?;
            let is_link = found.mode & s::IFMT == s::IFLNK;
            if is_link && !named && (!at_end || last == Last::Follow || slash) {
                links += 1;
                if links > SYMLINKS_MAX {
                    return Err(Failure::Errno(ELOOP));
                }
                let length = server.target(cx, node, self.link)?;
                let target = self.link.get(..length).ok_or(Failure::Errno(EIO))?;
                names.at = rest;
                match target.first() {
                    None => return Err(Failure::Errno(ENOENT)),
                    Some(b'/') => {
                        let failure = cx.redirect(target);
                        cx.later
                            .redirect
                            .extend_from_slice(&names.text[rest..names.end]);
                        return Err(failure);
                    }
                    Some(_) => names.splice(target)?,
                }
                continue;
            }
            if at_end {
                return Ok(Found {
                    dir,
                    dir_meta: meta,
                    name: Some((begin, end_of_name)),
                    last: Dots::None,
                    node: Some((node, found)),
                    slash,
                });
            }
            dir = node;
            meta = found;
            dots = Dots::Root;
        }
    }

    /// `..` above the root: the name goes on in the directory that the mount point lies in.
    fn above(&self, cx: &mut Context, left: &[u8]) -> Failure {
        let up = self
            .prefix
            .iter()
            .rposition(|&byte| byte == b'/')
            .unwrap_or(0);
        let failure = cx.redirect(&self.prefix[..up]);
        cx.later.redirect.extend_from_slice(left);
        if cx.later.redirect.is_empty() {
            cx.later.redirect.push(b'/');
        }
        failure
    }
}
