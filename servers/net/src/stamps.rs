//! Time stamps of what datagram, raw and packet sockets receive (SO_TIMESTAMP and its kin, socket(7); SIOCGSTAMP), and notes: what RECEIVE tells in front
//! of the data, as ready control messages. A socket that asked for nothing of that takes no time and no stamp.

use crate::datagram::Datagram;
use crate::options::{ORIGINAL, ORIGINAL_V6};
use crate::server::{fail, Net};
use alloc::vec::Vec;
use cairn_idl::errno::*;
use cairn_idl::net::{INET, INET6, NETLINK, NOTES_BYTES};
use cairn_resmgr::server::Answer;
use cairn_resmgr::Context;

/// SO_
pub const TIMESTAMP: u32 = 29;
pub const TIMESTAMPNS: u32 = 35;
pub const TIMESTAMPING: u32 = 37;
const TIMESTAMP_NEW: u32 = 63;
const TIMESTAMPNS_NEW: u32 = 64;
const TIMESTAMPING_NEW: u32 = 65;
/// SOF_TIMESTAMPING_: what there is, and what is told of here.
const KNOWN: u32 = 0x1_ffff;
const RECEIVED: u32 = 1 << 3;
const SOFTWARE: u32 = 1 << 4;

/// SIOCGSTAMP and SIOCGSTAMPNS, and those that say the size.
pub const SIOCGSTAMP: u64 = 0x8906;
pub const SIOCGSTAMPNS: u64 = 0x8907;
pub const SIOCGSTAMP_NEW: u64 = 0x8010_8906;
pub const SIOCGSTAMPNS_NEW: u64 = 0x8010_8907;

/// What a socket asked for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stamps {
    /// SO_TIMESTAMP or SO_TIMESTAMPNS; the second; by a newer number.
    on: bool,
    nanoseconds: bool,
    new: bool,
    /// SO_TIMESTAMPING.
    flags: u32,
    /// The last one is asked for (SIOCGSTAMP).
    last: bool,
}

impl Stamps {
    /// Are there stamps to be taken?
    pub fn wanted(&self) -> bool {
        self.on || self.last || self.flags & RECEIVED != 0
    }

    /// Is something told with each datagram?
    fn told(&self) -> bool {
        self.on || self.flags & SOFTWARE != 0 && self.flags & RECEIVED != 0
    }
}

/// Is this one of the options here?
pub fn is_option(number: u32) -> bool {
    matches!(
        number,
        TIMESTAMP | TIMESTAMPNS | TIMESTAMPING | TIMESTAMP_NEW..=TIMESTAMPING_NEW
    )
}

/// Seconds, and the rest in parts of `part` ns.
fn pair(stamp: u64, part: u64) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&(stamp / 1_000_000_000).to_ne_bytes());
    bytes[8..].copy_from_slice(&(stamp % 1_000_000_000 / part).to_ne_bytes());
    bytes
}

/// Control messages in front of the data: each its length, level and number, four bytes of zeros, and its data up to a multiple of eight bytes; one of length
/// 0 is the end.
struct Notes {
    bytes: Vec<u8>,
}

impl Notes {
    fn put(&mut self, level: u32, number: u32, data: &[u8]) {
        let end = self.bytes.len() + 16 + data.len().next_multiple_of(8);
        // (The end's mark fits too.)
        if end + 16 > NOTES_BYTES || self.bytes.try_reserve(end + 16).is_err() {
            return;
        }
        self.bytes
            .extend_from_slice(&(data.len() as u32).to_ne_bytes());
        self.bytes.extend_from_slice(&level.to_ne_bytes());
        self.bytes.extend_from_slice(&number.to_ne_bytes());
        self.bytes.extend_from_slice(&[0; 4]);
        self.bytes.extend_from_slice(data);
        self.bytes.resize(end, 0);
    }
}

impl Net {
    pub(crate) fn set_stamps(&mut self, index: u32, number: u32, value: u32) -> Answer<()> {
        let stamps = &mut self.socket_mut(index)?.options.stamps;
        let new = number >= TIMESTAMP_NEW;
        if matches!(number, TIMESTAMPING | TIMESTAMPING_NEW) {
            if value & !KNOWN != 0 {
                return fail(EINVAL);
            }
            (stamps.flags, stamps.new) = (value, new);
            return Ok(());
        }
        stamps.on = value != 0;
        stamps.nanoseconds = value != 0 && matches!(number, TIMESTAMPNS | TIMESTAMPNS_NEW);
        if stamps.on {
            stamps.new = new;
        }
        Ok(())
    }

    pub(crate) fn get_stamps(&mut self, index: u32, number: u32) -> Answer<u64> {
        let stamps = self.socket(index)?.options.stamps;
        let new = number >= TIMESTAMP_NEW;
        Ok(match number {
            TIMESTAMPING | TIMESTAMPING_NEW => {
                let flags = if new && !stamps.new { 0 } else { stamps.flags };
                // (`struct so_timestamping`)
                self.scratch
                    .extend_from_slice(&u64::from(flags).to_le_bytes());
                0
            }
            TIMESTAMP | TIMESTAMP_NEW => {
                (stamps.on && stamps.new == new && (new || !stamps.nanoseconds)).into()
            }
            _ => (stamps.nanoseconds && stamps.new == new).into(),
        })
    }

    /// Has RECEIVE something to tell in front of the data?
    pub(crate) fn has_notes(&self, index: u32) -> bool {
        let socket = self.sockets.get(index);
        let packets = socket.filter(|of| !of.is_stream() && of.family != NETLINK);
        packets.is_some_and(|of| {
            of.options.stamps.told() || of.options.tells_destination() || self.tells_headers(index)
        })
    }

    /// Tell it.
    pub(crate) fn put_notes(
        &self,
        cx: &mut Context,
        index: u32,
        datagram: &Datagram,
    ) -> Answer<()> {
        let mut notes = Notes { bytes: Vec::new() };
        let stamps = self.socket(index)?.options.stamps;
        // One that came before it was asked for gets the present time, as on Linux.
        let stamp = match datagram.stamp {
            0 => cx.now(),
            stamp => stamp,
        };
        if stamps.told() {
            let number = |old: u32, new: u32| if stamps.new { new } else { old };
            match (stamps.on, stamps.nanoseconds) {
                (false, _) => {}
                (true, false) => {
                    notes.put(1, number(TIMESTAMP, TIMESTAMP_NEW), &pair(stamp, 1000));
                }
                (true, true) => {
                    notes.put(1, number(TIMESTAMPNS, TIMESTAMPNS_NEW), &pair(stamp, 1));
                }
            }
            if stamps.flags & SOFTWARE != 0 && stamps.flags & RECEIVED != 0 {
                // Of devices there are none.
                let mut three = [0; 48];
                three[..16].copy_from_slice(&pair(stamp, 1));
                notes.put(1, number(TIMESTAMPING, TIMESTAMPING_NEW), &three);
            }
        }
        let socket = self.socket(index)?;
        if socket.options.tells_destination() && !socket.is_raw() {
            let port = socket.local.port.to_be_bytes();
            match datagram.to.as_v4() {
                Some(own) if socket.options.ip >> ORIGINAL & 1 != 0 => {
                    // `struct sockaddr_in`
                    let mut name = [0; 16];
                    name[..2].copy_from_slice(&(INET as u16).to_ne_bytes());
                    name[2..4].copy_from_slice(&port);
                    name[4..8].copy_from_slice(&own);
                    notes.put(0, ORIGINAL, &name);
                }
                None if socket.options.ipv6 >> ORIGINAL_V6 & 1 != 0 => {
                    // `struct sockaddr_in6`
                    let mut name = [0; 28];
                    name[..2].copy_from_slice(&(INET6 as u16).to_ne_bytes());
                    name[2..4].copy_from_slice(&port);
                    name[8..24].copy_from_slice(&datagram.to.0);
                    if datagram.to.needs_scope() {
                        name[24..].copy_from_slice(&datagram.interface.to_ne_bytes());
                    }
                    notes.put(41, ORIGINAL_V6, &name);
                }
                _ => {}
            }
        }
        if self.tells_headers(index) {
            self.tell_headers(index, &datagram.packet, |level, number, data| {
                notes.put(level, number, data)
            })?;
        }
        let end = notes.bytes.len() + 16;
        notes.bytes.resize(end, 0);
        cx.store(0, &notes.bytes)
    }

    /// SIOCGSTAMP: when the datagram came that was read last.
    pub(crate) fn last_stamp(
        &mut self,
        cx: &mut Context,
        index: u32,
        request: u64,
    ) -> Answer<[u8; 16]> {
        let socket = self.socket_mut(index)?;
        socket.options.stamps.last = true;
        let Some(queue) = socket.queue_mut() else {
            return fail(ENOENT);
        };
        let Some(last) = queue.last else {
            return fail(ENOENT);
        };
        let last = match last {
            0 => cx.now(),
            last => last,
        };
        queue.last = Some(last);
        Ok(pair(last, if request & 1 == 0 { 1000 } else { 1 }))
    }
}
