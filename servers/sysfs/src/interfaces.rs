//! Network interfaces, as the server `net` tells of them: a folder for each, with Linux's files (sysfs-class-net and sysfs-class-net-statistics in its
//! Documentation/ABI/testing).
//!
//! An interface is known by its number, which none gets a second time in a boot. What there is of one is asked anew whenever somebody looks.

use alloc::format;
use alloc::string::{String, ToString};
use cairn_idl::errno::{EINVAL, EOPNOTSUPP};

/// IFF_: of netdevice(7).
const UP: u32 = 1;
const LOOPBACK: u32 = 8;
const RUNNING: u32 = 0x40;
const LOWER_UP: u32 = 0x1_0000;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    pub number: u32,
    pub name: String,
    /// ARPHRD_.
    kind: u16,
    /// As it is shown, if it has one.
    address: Option<String>,
    flags: u32,
    mtu: u32,
    queue: u32,
    /// Packets, bytes and lost ones that came, and that were sent.
    received: [u64; 3],
    sent: [u64; 3],
    tunnel: Option<Tunnel>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Tunnel {
    flags: u16,
    owner: i64,
    group: i64,
}

impl Interface {
    /// A line of [`cairn_idl::net::Listing::Links`].
    pub fn told(line: &str) -> Option<Interface> {
        fn next<T: core::str::FromStr>(words: &mut core::str::SplitN<char>) -> Option<T> {
            words.next()?.parse().ok()
        }
        // (A name has no spaces, but could have what else splits words.)
        let words = &mut line.splitn(17, ' ');
        let number = next(words)?;
        let kind = next(words)?;
        let address = match words.next()? {
            "-" => None,
            address => Some(address.to_string()),
        };
        let [flags, mtu, queue] = [next(words)?, next(words)?, next(words)?];
        let received = [next(words)?, next(words)?, next(words)?];
        let sent = [next(words)?, next(words)?, next(words)?];
        let is_tunnel = next::<u8>(words)? != 0;
        let tunnel = Tunnel {
            flags: next(words)?,
            owner: next(words)?,
            group: next(words)?,
        };
        let name: String = next(words)?;
        let known = !name.is_empty() && name != "." && name != ".." && !name.contains('/');
        known.then_some(Interface {
            number,
            name,
            kind,
            address,
            flags,
            mtu,
            queue,
            received,
            sent,
            tunnel: is_tunnel.then_some(tunnel),
        })
    }

    /// `lo`, TUN and TAP; others are a device's.
    pub fn is_virtual(&self) -> bool {
        self.is_loopback() || self.tunnel.is_some()
    }

    fn is_loopback(&self) -> bool {
        self.flags & LOOPBACK != 0
    }

    /// What is told of an interface only while it is up.
    fn while_up(&self, text: impl FnOnce() -> String) -> Text {
        match self.flags & UP {
            0 => Err(EINVAL),
            _ => Ok(text()),
        }
    }

    fn carrier(&self) -> bool {
        self.flags & LOWER_UP != 0
    }

    /// Of a file. EINVAL and EOPNOTSUPP: it is there, but there is nothing to be read.
    pub fn text(&self, file: usize) -> Option<Text> {
        let (name, _, text) = FILES.get(file)?;
        let end = if *name == "ifalias" { "" } else { "\n" };
        Some(text(self).map(|text| text + end))
    }

    /// Files that it has, by their places in [`FILES`].
    pub fn files(&self) -> impl Iterator<Item = usize> + '_ {
        let tunnel = self.tunnel.is_some();
        let all = FILES.iter().enumerate();
        all.filter(move |(_, (name, ..))| tunnel || !OF_TUNNELS.contains(name))
            .map(|(at, _)| at)
    }

    pub fn count(&self, file: usize) -> Option<u64> {
        let (_, which) = COUNTS.get(file)?;
        Some(match *which {
            None => 0,
            Some(at @ ..3) => self.received[at],
            Some(at) => self.sent[at - 3],
        })
    }
}

type Text = Result<String, i64>;

/// Files of TUN and TAP alone.
const OF_TUNNELS: [&str; 3] = ["group", "owner", "tun_flags"];

fn number(value: u32) -> Text {
    Ok(value.to_string())
}

fn of_tunnel(of: &Interface, text: fn(&Tunnel) -> String) -> Text {
    of.tunnel.as_ref().map(text).ok_or(EINVAL)
}

/// Name, whether `net` lets it be written, and what it says.
type File = (&'static str, bool, fn(&Interface) -> Text);

pub const FILES: [File; 36] = [
    ("addr_assign_type", false, |of| {
        // A TAP's address is by chance.
        number((of.tunnel.is_some() && of.address.is_some()).into())
    }),
    ("addr_len", false, |of| {
        number(if of.address.is_some() { 6 } else { 0 })
    }),
    ("address", false, |of| {
        Ok(of.address.clone().unwrap_or_default())
    }),
    ("broadcast", false, |of| {
        let byte = if of.is_loopback() { "00" } else { "ff" };
        Ok(of
            .address
            .as_ref()
            .map_or_else(String::new, |_| [byte; 6].join(":")))
    }),
    ("carrier", false, |of| {
        of.while_up(|| u8::from(of.carrier()).to_string())
    }),
    ("carrier_changes", false, |_| number(0)),
    ("carrier_down_count", false, |_| number(0)),
    ("carrier_up_count", false, |_| number(0)),
    ("dev_id", false, |_| Ok("0x0".to_string())),
    ("dev_port", false, |_| number(0)),
    ("dormant", false, |of| of.while_up(|| "0".to_string())),
    ("duplex", false, |of| match (of.is_loopback(), &of.tunnel) {
        (true, _) => Err(EINVAL),
        (_, Some(_)) => of.while_up(|| "full".to_string()),
        (_, None) => of.while_up(|| "unknown".to_string()),
    }),
    ("flags", true, |of| {
        // (RUNNING and what follows the sixteenth bit are told by other files.)
        Ok(format!("{:#x}", of.flags & 0xffff & !RUNNING))
    }),
    ("gro_flush_timeout", false, |_| number(0)),
    ("group", false, |of| {
        of_tunnel(of, |tunnel| tunnel.group.to_string())
    }),
    ("ifalias", false, |_| Ok(String::new())),
    ("ifindex", false, |of| number(of.number)),
    ("iflink", false, |of| number(of.number)),
    ("link_mode", false, |_| number(0)),
    ("mtu", true, |of| number(of.mtu)),
    ("name_assign_type", false, |of| {
        // NET_NAME_PREDICTABLE, unknown, NET_NAME_ENUM.
        match (of.is_loopback(), &of.tunnel) {
            (true, _) => number(2),
            (_, Some(_)) => Err(EINVAL),
            (_, None) => number(1),
        }
    }),
    ("napi_defer_hard_irqs", false, |_| number(0)),
    ("netdev_group", false, |_| number(0)),
    ("operstate", false, |of| {
        let state = match (of.is_virtual(), of.carrier()) {
            (true, true) => "unknown",
            (false, true) => "up",
            (_, false) => "down",
        };
        Ok(state.to_string())
    }),
    ("owner", false, |of| {
        of_tunnel(of, |tunnel| tunnel.owner.to_string())
    }),
    ("phys_port_id", false, |_| Err(EOPNOTSUPP)),
    ("phys_port_name", false, |_| Err(EOPNOTSUPP)),
    ("phys_switch_id", false, |_| Err(EOPNOTSUPP)),
    ("proto_down", false, |_| number(0)),
    ("speed", false, |of| match (of.is_loopback(), &of.tunnel) {
        (true, _) => Err(EINVAL),
        (_, Some(_)) => of.while_up(|| "10".to_string()),
        // (Nobody has asked the device.)
        (_, None) => of.while_up(|| "-1".to_string()),
    }),
    ("testing", false, |of| of.while_up(|| "0".to_string())),
    ("threaded", false, |_| number(0)),
    ("tun_flags", false, |of| {
        of_tunnel(of, |tunnel| format!("{:#x}", tunnel.flags))
    }),
    ("tx_queue_len", false, |of| number(of.queue)),
    ("type", false, |of| number(of.kind.into())),
    ("uevent", false, |of| {
        Ok(format!("INTERFACE={}\nIFINDEX={}", of.name, of.number))
    }),
];

/// Files of `statistics`, and which count it is; others are 0.
pub const COUNTS: [(&str, Option<usize>); 24] = [
    ("collisions", None),
    ("multicast", None),
    ("rx_bytes", Some(1)),
    ("rx_compressed", None),
    ("rx_crc_errors", None),
    ("rx_dropped", Some(2)),
    ("rx_errors", None),
    ("rx_fifo_errors", None),
    ("rx_frame_errors", None),
    ("rx_length_errors", None),
    ("rx_missed_errors", None),
    ("rx_nohandler", None),
    ("rx_over_errors", None),
    ("rx_packets", Some(0)),
    ("tx_aborted_errors", None),
    ("tx_bytes", Some(4)),
    ("tx_carrier_errors", None),
    ("tx_compressed", None),
    ("tx_dropped", Some(5)),
    ("tx_errors", None),
    ("tx_fifo_errors", None),
    ("tx_heartbeat_errors", None),
    ("tx_packets", Some(3)),
    ("tx_window_errors", None),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_net_are_read_and_others_are_not() {
        let line = "7 1 02:00:00:00:00:01 4099 1500 1000 1 2 3 4 5 6 1 2050 -1 5 tap 7";
        let it = Interface::told(line).unwrap();
        assert_eq!(
            (it.number, it.name.as_str(), it.count(22)),
            (7, "tap 7", Some(4))
        );
        assert_eq!(it.text(12), Some(Ok("0x1003\n".to_string())));
        assert_eq!(it.text(14), Some(Ok("5\n".to_string())));
        for count in 0..line.len() {
            let _ = Interface::told(&line[..count]);
        }
        for wrong in [
            "",
            "7",
            "x",
            "7 1 - 1 1 1 1 1 1 1 1 1 0 0 0 0 ..",
            "7 1 - 1 1 1 1 1 1 1 1 1 0 0 0 0 a/b",
        ] {
            assert_eq!(Interface::told(wrong), None, "{wrong}");
        }
        assert_eq!(it.files().count(), 36);
        let lo = Interface::told("1 772 00:00:00:00:00:00 65609 65536 1000 1 2 3 4 5 6 0 0 0 0 lo");
        assert_eq!(lo.unwrap().files().count(), 33);
    }
}
