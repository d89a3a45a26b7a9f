//! Extended attributes: `user.` with a file's permissions (regular files and directories only), `trusted.` for user 0, `security.` for all to read and user 0 to change. Access lists
//! (`system.posix_acl_…`) there are none: nobody would look at them.

use crate::context::{Context, Failure};
use crate::manager::Core;
use crate::path::Last;
use crate::permission::{self, READ, WRITE};
use crate::server::{Access, Answer, Server};
use alloc::vec;
use alloc::vec::Vec;
use cairn_idl::capability::{is_file_attribute, ATTRIBUTE};
use cairn_idl::errno::*;
use cairn_idl::fs::{at, s};
use cairn_idl::label;
use cairn_rt::channel::Reply;

const GET: u64 = 0;
const SET: u64 = 1;
const LIST: u64 = 2;
const REMOVE: u64 = 3;
const CREATE: u64 = 1;
const REPLACE: u64 = 2;
/// Of a name with its namespace, and of a request.
const NAME_MAX: usize = 255;
const REQUEST_MAX: usize = 72 * 1024;

fn fail<T>(number: i64) -> Answer<T> {
    Err(Failure::Errno(number))
}

/// May the caller do this with the attribute? `changes`: set or remove it.
fn check(cx: &mut Context, name: &[u8], node: &Access, changes: bool) -> Answer<()> {
    let dot = name.iter().position(|byte| *byte == b'.');
    let (space, rest) = name.split_at(dot.map_or(name.len(), |dot| dot + 1));
    let refused = if changes { EPERM } else { ENODATA };
    let superuser = cx.has(label::SYSTEM);
    if changes {
        permission::changeable(node)?;
    }
    match space {
        b"user." | b"trusted." | b"security." if rest.is_empty() => fail(EINVAL),
        b"user." => {
            if !matches!(node.mode & s::IFMT, s::IFREG | s::IFDIR) {
                return fail(refused);
            }
            let sticky = node.is_directory() && node.mode & s::ISVTX != 0;
            if changes && sticky && !cx.has(label::OWNER) && cx.uid() != node.uid {
                return fail(EPERM);
            }
            permission::check(cx, node, if changes { WRITE } else { READ })
        }
        b"trusted." if superuser => Ok(()),
        b"trusted." => fail(refused),
        b"security." if superuser || !changes => Ok(()),
        b"security." => fail(EPERM),
        // Nobody has such names; who may not write is told that first.
        _ if changes => permission::check(cx, node, WRITE).and(fail(EOPNOTSUPP)),
        _ => fail(EOPNOTSUPP),
    }
}

impl<S: Server> Core<S> {
    pub fn attribute<'a>(&'a mut self, server: &mut S, cx: &mut Context) -> Answer<Reply<'a>> {
        let [_, what, flags, ..] = cx.request.words;
        let length = cx.request.out_len;
        if length > REQUEST_MAX {
            return fail(E2BIG);
        }
        let mut text = vec![0; length];
        if length != 0 {
            cx.fetch(0, &mut text)?;
        }
        // Path, NUL, name, NUL, value.
        let mut parts = text.splitn(3, |byte| *byte == 0);
        let (Some(path), Some(name), Some(value)) = (parts.next(), parts.next(), parts.next())
        else {
            return fail(EINVAL);
        };
        if matches!(what, SET | REMOVE) && server.carried_out(cx) {
            return Ok(Reply::result(0));
        }
        self.first.take(path)?;
        let start = self.start(server, cx.request.badge, cx.request.sender)?;
        let (node, access) = if path.is_empty() {
            (start, server.access(start)?)
        } else {
            let last = match flags & at::SYMLINK_NOFOLLOW {
                0 => Last::Follow,
                _ => Last::Slash,
            };
            let found = self.walk(server, cx, (cx.request.badge, start), last, false)?;
            found.node.ok_or(Failure::Errno(ENOENT))?
        };
        let mut answer = Vec::new();
        if what == LIST {
            server.attribute_names(cx, node, &mut answer)?;
            if !cx.has(label::SYSTEM) {
                answer = without_trusted(&answer);
            }
        } else {
            if name.is_empty() || name.len() > NAME_MAX {
                return fail(ERANGE);
            }
            check(cx, name, &access, what != GET)?;
        }
        match what {
            LIST => {}
            GET => server.attribute(cx, node, name, &mut answer)?,
            SET if name == ATTRIBUTE && !value.is_empty() && !is_file_attribute(value) => {
                return fail(EINVAL)
            }
            SET => {
                let there = match flags & (CREATE | REPLACE) {
                    0 => None,
                    CREATE => Some(false),
                    REPLACE => Some(true),
                    _ => return fail(EINVAL),
                };
                server.set_attribute(cx, node, name, Some(value), there)?;
            }
            REMOVE => server.set_attribute(cx, node, name, None, Some(true))?,
            _ => return fail(EINVAL),
        }
        if matches!(what, SET | REMOVE) {
            self.notice(server, cx, node, crate::notice::what::ATTRIB);
        }
        if answer.len() > cx.request.in_len {
            return fail(E2BIG);
        }
        self.value = answer;
        Ok(Reply::result(self.value.len() as i64).data(&self.value))
    }
}

/// What only user 0 is shown is left out.
fn without_trusted(names: &[u8]) -> Vec<u8> {
    let all = names.split_inclusive(|byte| *byte == 0);
    all.filter(|name| !name.starts_with(b"trusted."))
        .flatten()
        .copied()
        .collect()
}
