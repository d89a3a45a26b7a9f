//! What a connection is known by: its ends and its protocol, as one side sends it.

/// Addresses as 16 bytes; those of IPv4 are mapped (RFC 4291, 2.5.5.2).
pub type Address = [u8; 16];

/// Protocols above IP that have a meaning here.
pub mod protocol {
    pub const ICMP: u8 = 1;
    pub const TCP: u8 = 6;
    pub const UDP: u8 = 17;
    pub const ICMP_V6: u8 = 58;
    pub const SCTP: u8 = 132;
    pub const UDP_LITE: u8 = 136;
}

const MAPPED: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];

pub fn is_v4(address: &Address) -> bool {
    address[..12] == MAPPED
}

pub const fn v4([a, b, c, d]: [u8; 4]) -> Address {
    [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d]
}

/// An address as a number, in whose order ranges are.
pub fn number(address: &Address) -> u128 {
    u128::from_be_bytes(*address)
}

/// One direction. An echo's number is the port of who asks, and the other port is 0.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Tuple {
    pub source: Address,
    pub destination: Address,
    pub source_port: u16,
    pub destination_port: u16,
    pub protocol: u8,
}

impl Tuple {
    /// The way back.
    pub fn inverse(&self) -> Tuple {
        Tuple {
            source: self.destination,
            destination: self.source,
            source_port: self.destination_port,
            destination_port: self.source_port,
            protocol: self.protocol,
        }
    }

    pub fn is_v4(&self) -> bool {
        is_v4(&self.destination)
    }

    /// Can the port of who began be another one, for the way through a translation?
    pub fn has_ports(&self) -> bool {
        use protocol::*;
        [TCP, UDP, ICMP, ICMP_V6].contains(&self.protocol)
    }

    /// A number that nobody can guess who does not know the key.
    pub fn keyed(&self, key: [u64; 2]) -> u64 {
        let half = |bytes: &[u8; 16]| {
            let both = u128::from_le_bytes(*bytes);
            [both as u64, (both >> 64) as u64]
        };
        let ([a, b], [c, d]) = (half(&self.source), half(&self.destination));
        let ports = u64::from(self.source_port)
            | u64::from(self.destination_port) << 16
            | u64::from(self.protocol) << 32;
        let mut state = key[0];
        for word in [a, b, c, d, ports] {
            state = fold(state ^ word, key[1] | 1).wrapping_add(word.rotate_left(32));
        }
        fold(state, key[1] | 1)
    }
}

/// Both halves of the product.
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}
