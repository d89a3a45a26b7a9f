//! What /proc/net/unix shows: lines as Linux writes them, some at a time, from a place among the sockets on.

use crate::server::{fail, Sockets};
use crate::socket::Socket;
use alloc::vec::Vec;
use cairn_idl::errno::EINVAL;
use cairn_idl::local::NAME_MAX;
use cairn_resmgr::server::Answer;
use cairn_resmgr::Context;
use cairn_rt::channel::Reply;

/// So many places are looked at in one request, and a line is no longer than this.
const SHARE: u32 = 256;
const LINE: usize = 80 + NAME_MAX;
const MOST: usize = 65_536;

impl Sockets {
    pub(crate) fn table<'a>(&'a mut self, cx: &mut Context) -> Answer<Reply<'a>> {
        let room = cx.request.in_len.min(MOST);
        let first = u32::try_from(cx.request.words[1]).unwrap_or(u32::MAX);
        let mut text = Vec::new();
        // (Each line fits into what is reserved, or it is left for the next time.)
        if room < LINE || text.try_reserve_exact(room).is_err() {
            return fail(EINVAL);
        }
        let end = self.sockets.end();
        let mut at = first;
        while at < end && at - first < SHARE && text.len() + LINE <= room {
            if let Some(socket) = self.sockets.get(at) {
                put(&mut text, socket);
            }
            at += 1;
        }
        self.lines = text;
        let next = if at < end { u64::from(at) } else { 0 };
        Ok(Reply::new(&[self.lines.len() as u64, next]).data(&self.lines))
    }
}

/// Hexadecimal digits, so many.
fn hex(text: &mut Vec<u8>, value: u64, digits: u32) {
    for digit in (0..digits).rev() {
        text.push(b"0123456789ABCDEF"[(value >> (4 * digit)) as usize % 16]);
    }
}

/// Num, RefCount, Protocol, Flags, Type, St, Inode, Path.
fn put(text: &mut Vec<u8>, socket: &Socket) {
    let connected = socket.is_connected() || !socket.has_connections() && socket.peer.is_some();
    // SO_ACCEPTCON; SS_UNCONNECTED, SS_CONNECTING of one that waits to be accepted, SS_CONNECTED.
    let flags = if socket.is_listening() { 1 << 16 } else { 0 };
    let waits = socket.embryo_of.is_some();
    let state = match connected {
        true if waits => 2,
        true => 3,
        false => 1,
    };
    text.extend_from_slice(b"0000000000000000: ");
    let fields = [
        (2 + u64::from(connected), 8),
        (0, 8),
        (flags, 8),
        (socket.kind, 4),
        (state, 2),
    ];
    for (value, digits) in fields {
        hex(text, value, digits);
        text.push(b' ');
    }
    let mut digits = [0; 20];
    let ino = cairn_resmgr::context::decimal(if waits { 0 } else { socket.ino }, &mut digits);
    (ino.len()..5).for_each(|_| text.push(b' '));
    text.extend_from_slice(ino);
    if let Some(name) = &socket.name {
        text.push(b' ');
        let shown = match name.split_last() {
            // A path ends with a NUL.
            Some((0, path)) if name[0] != 0 => path,
            _ => name,
        };
        text.extend(
            shown
                .iter()
                .map(|byte| if *byte == 0 { b'@' } else { *byte }),
        );
    }
    text.push(b'\n');
}
