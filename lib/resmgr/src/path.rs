//! Walking a path through a server's tree: `.`, `..`, symbolic links, trailing slashes, mount points, and names that leave the manager.

use crate::cache::{self, Cache, Key, Known};
use crate::context::{inline_path, path_words, Context, Failure};
use crate::manager::{have_room, Mount};
use crate::permission::{self, EXECUTE};
use crate::private::{down, up, PrivateMount};
use crate::server::{Access, Answer, Server};
use alloc::boxed::Box;
use alloc::vec;
use cairn_idl::errno::*;
use cairn_idl::fs::{self, o, s, INLINE_MAX, NAME_MAX, PATH_MAX, SYMLINKS_MAX};
use cairn_idl::label;

/// A path being walked: what is left of it lies at `at..end`, with a slash behind it; there is room before it for the targets of links.
pub(crate) struct Names {
    text: Box<[u8]>,
    at: usize,
    end: usize,
    /// The last component is one of the caller's, not of the target of a link that stood there.
    own: bool,
}

const START: usize = PATH_MAX;
const ROOM: usize = 2 * PATH_MAX;
/// Bytes behind the room, so that scanning may look at several at a time.
const SLACK: usize = cache::LONGEST + 8;

/// The lowest byte that is zero has its top bit set in the result, and no byte below it has.
fn zero_bytes(word: u64) -> u64 {
    word.wrapping_sub(0x0101_0101_0101_0101) & !word & 0x8080_8080_8080_8080
}

/// Bytes of [`Names::text`].
const TEXT: usize = START + ROOM + SLACK;

impl Names {
    pub fn new() -> Names {
        Names {
            text: vec![0; TEXT].into_boxed_slice(),
            ..Names::later()
        }
    }

    /// The same without memory, for the second path of [`Names::fetch_two`].
    pub fn later() -> Names {
        Names {
            text: Box::default(),
            at: START,
            end: START,
            own: true,
        }
    }

    /// Take the caller's path, from words or from the out part.
    #[inline(always)]
    pub fn fetch(&mut self, cx: &mut Context) -> Answer<()> {
        if let Some(length) = inline_path(cx.request) {
            if length == 0 || length > INLINE_MAX {
                return Err(Failure::Errno(EINVAL));
            }
            let place = &mut self.text[START..START + INLINE_MAX];
            for (place, word) in place
                .as_chunks_mut()
                .0
                .iter_mut()
                .zip(&cx.request.words[3..])
            {
                *place = word.to_le_bytes();
            }
            self.begin(length);
            return Ok(());
        }
        self.fetch_part(cx)
    }

    fn fetch_part(&mut self, cx: &mut Context) -> Answer<()> {
        let length = cx.request.out_len;
        if length >= PATH_MAX {
            return Err(Failure::Errno(ENAMETOOLONG));
        }
        self.fetch_any(cx, length)
    }

    /// Take two paths with a NUL between them; the second goes to `second`.
    pub fn fetch_two(&mut self, second: &mut Names, cx: &mut Context) -> Answer<()> {
        let length = cx.request.out_len;
        if length >= ROOM {
            return Err(Failure::Errno(ENAMETOOLONG));
        }
        have_room(&mut second.text, TEXT)?;
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
        second.at = START;
        second.end = START + other.len();
        second.own = true;
        second.text[second.at..second.end].copy_from_slice(other);
        second.text[second.end] = b'/';
        self.end = self.at + split;
        self.text[self.end] = b'/';
        Ok(())
    }

    fn fetch_any(&mut self, cx: &mut Context, length: usize) -> Answer<()> {
        if length != 0 {
            cx.fetch(0, &mut self.text[START..START + length])?;
        }
        self.begin(length);
        Ok(())
    }

    /// Take a path that came in another way.
    pub fn take(&mut self, path: &[u8]) -> Answer<()> {
        if path.len() >= PATH_MAX {
            return Err(Failure::Errno(ENAMETOOLONG));
        }
        self.text[START..START + path.len()].copy_from_slice(path);
        self.begin(path.len());
        Ok(())
    }

    /// A path of this length lies at the start of the text.
    #[inline(always)]
    fn begin(&mut self, length: usize) {
        self.at = START;
        self.end = START + length;
        self.own = true;
        self.text[self.end] = b'/';
    }

    /// What has not been walked yet.
    pub fn left(&self) -> &[u8] {
        &self.text[self.at..self.end]
    }

    pub fn is_empty(&self) -> bool {
        self.at == self.end
    }

    /// The component that a walk ended with.
    pub fn name(&self, range: (u32, u32)) -> &[u8] {
        &self.text[range.0 as usize..range.1 as usize]
    }

    /// Put a link's target before what is left (which is empty or begins with a slash).
    fn splice(&mut self, target: &[u8]) -> Answer<()> {
        let left = self.end - self.at;
        if target.len() + left >= PATH_MAX {
            return Err(Failure::Errno(ENAMETOOLONG));
        }
        if self.at < target.len() {
            let to = START + ROOM - left;
            self.text.copy_within(self.at..self.end + 1, to);
            self.at = to;
            self.end = START + ROOM;
        }
        let at = self.at - target.len();
        self.text[at..self.at].copy_from_slice(target);
        self.at = at;
        Ok(())
    }

    #[inline(always)]
    fn skip_slashes(&mut self) -> bool {
        let before = self.at;
        while self.at < self.end && self.text[self.at] == b'/' {
            self.at += 1;
        }
        self.at != before
    }

    /// Where the text behind the last slash begins, and whether it may have a NUL in it.
    #[inline(always)]
    fn last_name(&self) -> (usize, bool) {
        const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
        const SLASHES: u64 = 0x2f2f_2f2f_2f2f_2f2f;
        let mut end = self.end;
        let mut zeros = 0;
        // Eight bytes at a time from the end; a path begins far enough behind the beginning of the text.
        while end > self.at {
            let bytes = self.text.get(end.wrapping_sub(8)..);
            let Some(bytes) = bytes.and_then(|bytes| bytes.first_chunk::<8>()) else {
                break;
            };
            let word = u64::from_le_bytes(*bytes);
            let other = word ^ SLASHES;
            // Exactly the bytes that are zero get their top bit.
            let slashes = !((other & LOW).wrapping_add(LOW) | other | LOW);
            if slashes != 0 {
                let behind = slashes.leading_zeros() as usize / 8;
                zeros |= zero_bytes(word | u64::MAX >> (8 * behind));
                return match end - behind {
                    at if at < self.at => (self.at, true),
                    at => (at, zeros != 0),
                };
            }
            zeros |= zero_bytes(word);
            end -= 8;
        }
        (self.at, true)
    }

    /// Step over one component; EINVAL if there is a NUL in it.
    #[inline(always)]
    fn skip_name(&mut self) -> Answer<()> {
        const SLASHES: u64 = 0x2f2f_2f2f_2f2f_2f2f;
        let mut at = self.at;
        // The slash behind the path ends this in any case.
        while let Some(bytes) = self.text.get(at..).and_then(|text| text.first_chunk::<8>()) {
            let word = u64::from_le_bytes(*bytes);
            let ends = zero_bytes(word ^ SLASHES) | zero_bytes(word);
            if ends != 0 {
                at += ends.trailing_zeros() as usize / 8;
                break;
            }
            at += 8;
        }
        self.at = at.min(self.end);
        if self.text[self.at] == b'/' {
            Ok(())
        } else {
            Err(Failure::Errno(EINVAL))
        }
    }
}

/// What to do with a symbolic link (or a mount point) as the last component.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Last {
    Follow,
    /// Follow it only if a slash comes behind (lstat, O_NOFOLLOW).
    Slash,
    /// The same, where a name that is there already is an error (O_EXCL): it will hardly be remembered.
    New,
    /// The name itself is meant (unlink, rename, mkdir).
    Name,
}

/// Where a walk ended.
pub(crate) struct Found<N> {
    /// Directory of the last component (meaningless if `name` is `None`).
    pub dir: N,
    pub dir_access: Access,
    /// The last component in [`Names`]; `None` for the start itself, `.`, `..` and the root.
    pub name: Option<(u32, u32)>,
    pub last: Dots,
    /// What is there.
    pub node: Option<(N, Access)>,
    pub slash: bool,
}

impl<N: Copy> Found<N> {
    /// What is remembered of a whole path.
    #[inline(always)]
    pub fn known(node: (N, Access)) -> Found<N> {
        Found {
            dir: node.0,
            dir_access: Access::default(),
            name: None,
            last: Dots::Root,
            node: Some(node),
            slash: false,
        }
    }
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
    /// No name leads above this one.
    pub root: Option<N>,
    pub mounts: &'a [Mount<N>],
    /// The mount of a name space of its own that the start belongs to, whose mounts are in the place of the others; and whether the root is its root.
    pub private: Option<&'a PrivateMount<N>>,
    pub top: bool,
    pub cache: &'a mut Cache<N>,
    pub link: &'a mut [u8],
}

/// Nothing comes of it if nothing is there.
fn looks(cx: &Context, last: Last) -> bool {
    let [operation, flags, ..] = cx.request.words;
    matches!(last, Last::Follow | Last::Slash) && !(operation == fs::OPEN && flags & o::CREAT != 0)
}

impl<N: Copy + Ord> Walk<'_, N> {
    #[inline(always)]
    pub fn run<S: Server<Node = N>>(
        &mut self,
        server: &mut S,
        cx: &mut Context,
        names: &mut Names,
        start: N,
        last: Last,
    ) -> Answer<Found<N>> {
        // What is left of a name behind a mount portal's begins with a slash. That portal may be a folder's (a bind mount).
        names.skip_slashes();
        // What was walked lately: the whole path, or all but the last component.
        let (at, end) = (names.at, names.end);
        // Where `..` leads depends on the root, which the cache does not know.
        let remembers = S::STABLE_NAMES && cx.has(label::ACCESS) && self.root.is_none();
        let whole = |names: &Names| Key::new(&names.text, at, end - at, start);
        let follows = last == Last::Follow;
        let mut behind = at;
        let mut above = None;
        if remembers {
            if matches!(last, Last::Follow | Last::Slash) {
                let found = self.cache.find(&names.text, at, end - at, start, follows);
                if let Some(node) = found {
                    names.at = end;
                    self.remember_words(cx, start, Some(node), follows);
                    return Ok(Found::known(node));
                }
            }
            if looks(cx, last) && self.cache.is_absent(&names.text, at, end - at, start) {
                self.remember_words(cx, start, None, false);
                return Err(Failure::Errno(ENOENT));
            }
            let may_be_bad;
            (behind, may_be_bad) = names.last_name();
            if behind > at && behind < end {
                let length = behind - at;
                above = self.cache.find(&names.text, at, length, start, false);
            }
            if let (Some(above), false) = (above, may_be_bad) {
                if let Some(found) = self.last_step(server, cx, names, above, behind, last) {
                    names.at = end;
                    match found.node {
                        Some(answer) if last != Last::Name => {
                            self.keep(whole(names), answer, false);
                        }
                        None if looks(cx, last) => self.keep_absent(whole(names)),
                        _ => {}
                    }
                    return Ok(found);
                }
            }
        }
        // Targets of links will take the text's place.
        let (mut key, mut key_above) = (None, None);
        if remembers && behind < end {
            key = whole(names);
            if behind > at && above.is_none() {
                key_above = Key::new(&names.text, at, behind - at, start);
            }
        }
        let above = match above {
            Some(above) => {
                names.at = behind;
                above
            }
            None => (start, server.access(start)?),
        };
        let found = self.steps(server, cx, names, above, last, key_above);
        match &found {
            Ok(Found {
                node: Some(answer),
                name: Some(_),
                ..
            }) if names.own && last != Last::Name || follows => {
                self.keep(key, *answer, !names.own);
            }
            Ok(Found { node: None, .. }) | Err(Failure::Errno(ENOENT))
                if names.own && looks(cx, last) =>
            {
                self.keep_absent(key);
            }
            _ => {}
        }
        found
    }

    /// The last component, from `behind` on, in a directory that is known, for user 0, when nothing special is about it. `None`: go the general way.
    #[inline(always)]
    fn last_step<S: Server<Node = N>>(
        &mut self,
        server: &mut S,
        cx: &mut Context,
        names: &Names,
        (dir, dir_access): (N, Access),
        behind: usize,
        last: Last,
    ) -> Option<Found<N>> {
        let name = names.text.get(behind..names.end)?;
        if !dir_access.is_directory() || name.first() == Some(&b'.') || name.len() > NAME_MAX {
            return None;
        }
        let node = match server.lookup(cx, dir, name) {
            Ok(node) => {
                let access = server.access(node).ok()?;
                let leads_on =
                    access.is_link() || self.mounts.iter().any(|mount| mount.node == node);
                if leads_on && last != Last::Name {
                    return None;
                }
                Some((node, access))
            }
            Err(Failure::Errno(ENOENT)) => None,
            Err(_) => return None,
        };
        Some(Found {
            dir,
            dir_access,
            name: Some((behind as u32, names.end as u32)),
            last: Dots::None,
            node,
            slash: false,
        })
    }

    /// Keep what a whole path leads to, for those who follow a link in the last place or for all.
    #[inline(never)]
    fn keep(&mut self, key: Option<Key<N>>, answer: (N, Access), followed: bool) {
        if let Some(key) = key.filter(|_| !answer.1.is_link()) {
            self.cache.insert(key, answer, followed);
        }
    }

    fn keep_absent(&mut self, key: Option<Key<N>>) {
        if let Some(key) = key {
            self.cache.insert_absent(key);
        }
    }

    /// What is remembered of a path is asked for again: if it came in words, it is found by these the next time.
    #[inline(always)]
    fn remember_words(&mut self, cx: &Context, portal: N, known: Known<N>, followed: bool) {
        if let Some(length) = inline_path(cx.request) {
            let words = path_words(cx.request);
            self.cache
                .insert_short(words, length, portal, known, followed);
        }
    }

    /// Component by component. With the key of the path without its last component, the directory that this leads to is kept.
    #[inline(always)]
    fn steps<S: Server<Node = N>>(
        &mut self,
        server: &mut S,
        cx: &mut Context,
        names: &mut Names,
        start: (N, Access),
        last: Last,
        mut key_above: Option<Key<N>>,
    ) -> Answer<Found<N>> {
        let (mut dir, mut access) = start;
        let mut dots = Dots::Root;
        let mut links = 0;
        loop {
            if names.is_empty() {
                return Ok(Found {
                    dir,
                    dir_access: access,
                    name: None,
                    last: dots,
                    node: Some((dir, access)),
                    slash: false,
                });
            }
            let begin = names.at;
            names.skip_name()?;
            let length = names.at - begin;
            if access.mode & s::IFMT != s::IFDIR {
                return Err(Failure::Errno(ENOTDIR));
            }
            if !cx.has(label::ACCESS) {
                permission::check(cx, &access, EXECUTE)?;
            }
            if length <= 2 && names.text[begin] == b'.' {
                if length == 1 {
                    dots = Dots::Dot;
                    names.skip_slashes();
                    continue;
                }
                if names.text[begin + 1] == b'.' {
                    dots = Dots::DotDot;
                    if Some(dir) == self.root {
                        // There is nothing above, but where the mount lies.
                        let placed = self.private.filter(|mount| mount.has_place());
                        if let (Some(mount), true) = (placed, self.top) {
                            return Err(onward(cx, up(mount.number), names.left()));
                        }
                    } else if dir != server.root(0) {
                        dir = match server.parent(cx, dir) {
                            Err(Failure::Redirect) => return Err(elsewhere(cx, names.left())),
                            parent => parent?,
                        };
                    } else if !self.prefix.is_empty() {
                        return Err(self.above(cx, names.left()));
                    }
                    access = server.access(dir)?;
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
            if at_end {
                if let Some(key) = key_above.take() {
                    self.cache.insert(key, (dir, access), false);
                }
            }
            let node = match server.lookup(cx, dir, &names.text[begin..end_of_name]) {
                Ok(node) => node,
                Err(Failure::Errno(ENOENT)) if at_end => {
                    return Ok(Found {
                        dir,
                        dir_access: access,
                        name: Some((begin as u32, end_of_name as u32)),
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
            if let Some(mount) = self.private {
                if let Some(cover) = mount.covers.on(&node).filter(|_| !named) {
                    let rest = &names.text[rest..names.end];
                    return Err(onward(cx, down(cover.number), rest));
                }
            } else if !self.mounts.is_empty() && !named {
                if let Some(mount) = self.mounts.iter().find(|mount| mount.node == node) {
                    let failure = cx.redirect(&mount.path);
                    cx.later.place = fs::redirect_kind::PLACE;
                    cx.later
                        .redirect
                        .extend_from_slice(&names.text[rest..names.end]);
                    return Err(failure);
                }
            }
            let found = server.access(node)?;
            if found.is_link() && !named && (!at_end || last == Last::Follow || slash) {
                links += 1;
                if links > SYMLINKS_MAX {
                    return Err(Failure::Errno(ELOOP));
                }
                let length = server.target(cx, node, self.link)?;
                let target = self.link.get(..length).ok_or(Failure::Errno(EIO))?;
                names.at = rest;
                names.own &= !at_end;
                match target.first() {
                    None => return Err(Failure::Errno(ENOENT)),
                    // (What begins with NUL is no name, but an open file: the client knows how it comes to it.)
                    Some(b'/' | 0) => {
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
                if slash && found.mode & s::IFMT != s::IFDIR {
                    return Err(Failure::Errno(no_directory(cx, last)));
                }
                return Ok(Found {
                    dir,
                    dir_access: access,
                    name: Some((begin as u32, end_of_name as u32)),
                    last: Dots::None,
                    node: Some((node, found)),
                    slash,
                });
            }
            dir = node;
            access = found;
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
        let _ = cx.redirect(&self.prefix[..up]);
        elsewhere(cx, left)
    }
}

/// The name goes on in another directory, to which the redirect leads so far.
fn elsewhere(cx: &mut Context, left: &[u8]) -> Failure {
    cx.later.place = fs::redirect_kind::PLACE;
    cx.later.redirect.extend_from_slice(left);
    if cx.later.redirect.is_empty() {
        cx.later.redirect.push(b'/');
    }
    Failure::Redirect
}

/// What is wrong with a slash behind the name of something that is no directory: who makes a name is told that it is there.
#[cold]
fn no_directory(cx: &Context, last: Last) -> i64 {
    let [operation, flags, ..] = cx.request.words;
    match operation {
        fs::MKDIR | fs::MKNOD | fs::SYMLINK | fs::LINK if last == Last::Name => EEXIST,
        fs::OPEN if flags & (o::CREAT | o::PATH) == o::CREAT => EISDIR,
        _ => ENOTDIR,
    }
}

/// A name goes on from another mount's root, or from above its place.
fn onward(cx: &mut Context, place: u64, left: &[u8]) -> Failure {
    let failure = cx.redirect(left);
    cx.later.place = place;
    if cx.later.redirect.is_empty() {
        cx.later.redirect.push(b'/');
    }
    failure
}
