//! Addresses and endpoints. An address of IPv4 is its mapped one of IPv6 (RFC 4291, 2.5.5.2), so there is one kind everywhere but in packets.

/// An address as it lies in packets of IPv6.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Address(pub [u8; 16]);

impl Default for Address {
    fn default() -> Address {
        Address::ANY
    }
}

const MAPPED: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];

impl Address {
    /// `::`
    pub const ANY: Address = Address([0; 16]);
    /// `0.0.0.0`
    pub const ANY_V4: Address = Address::v4([0; 4]);
    pub const LOOPBACK: Address = Address([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    pub const LOOPBACK_V4: Address = Address::v4([127, 0, 0, 1]);

    pub const fn v4(bytes: [u8; 4]) -> Address {
        let [a, b, c, d] = bytes;
        Address([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d])
    }

    pub fn of_words(low: u64, high: u64) -> Address {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&low.to_le_bytes());
        bytes[8..].copy_from_slice(&high.to_le_bytes());
        Address(bytes)
    }

    pub fn words(&self) -> [u64; 2] {
        let number = u128::from_le_bytes(self.0);
        [number as u64, (number >> 64) as u64]
    }

    pub fn is_v4(&self) -> bool {
        self.0[..12] == MAPPED
    }

    /// The four bytes of one of IPv4.
    pub fn as_v4(&self) -> Option<[u8; 4]> {
        match self.is_v4() {
            true => self.0.last_chunk().copied(),
            false => None,
        }
    }

    /// "Any" of its family.
    pub fn wildcard(&self) -> Address {
        match self.is_v4() {
            true => Address::ANY_V4,
            false => Address::ANY,
        }
    }

    pub fn is_any(&self) -> bool {
        *self == Address::ANY || *self == Address::ANY_V4
    }

    /// 127.0.0.0/8 or `::1`
    pub fn is_loopback(&self) -> bool {
        *self == Address::LOOPBACK || self.as_v4().is_some_and(|bytes| bytes[0] == 127)
    }

    pub fn is_multicast(&self) -> bool {
        match self.as_v4() {
            Some(bytes) => bytes[0] & 0xf0 == 0xe0,
            None => self.0[0] == 0xff,
        }
    }

    /// 255.255.255.255
    pub fn is_broadcast(&self) -> bool {
        self.as_v4() == Some([255; 4])
    }

    /// fe80::/10
    pub fn is_link_local(&self) -> bool {
        self.0[0] == 0xfe && self.0[1] & 0xc0 == 0x80
    }

    /// Does it mean something only together with an interface? fe80::/10, and groups of an interface and a link.
    pub fn needs_scope(&self) -> bool {
        self.is_link_local() || self.0[0] == 0xff && matches!(self.0[1] & 0xf, 1 | 2)
    }

    /// Its first so many bits, the others 0.
    pub fn masked(&self, bits: u32) -> Address {
        let mask = u128::MAX.checked_shl(128 - bits.min(128)).unwrap_or(0);
        Address((u128::from_be_bytes(self.0) & mask).to_be_bytes())
    }

    /// The last one with the same first bits.
    pub fn last_of(&self, bits: u32) -> Address {
        let host = u128::MAX.checked_shr(bits).unwrap_or(0);
        Address((u128::from_be_bytes(self.0) | host).to_be_bytes())
    }

    /// Do the first so many bits agree?
    pub fn matches(&self, prefix: &Address, bits: u32) -> bool {
        let (own, other) = (u128::from_be_bytes(self.0), u128::from_be_bytes(prefix.0));
        bits == 0 || (own ^ other) >> (128 - bits.min(128)) == 0
    }
}

/// An address and a port.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Endpoint {
    pub address: Address,
    pub port: u16,
}

impl Endpoint {
    pub const fn new(address: Address, port: u16) -> Endpoint {
        Endpoint { address, port }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_addresses() {
        assert!(Address::LOOPBACK_V4.is_loopback() && Address::LOOPBACK.is_loopback());
        assert!(Address::v4([127, 9, 9, 9]).is_loopback());
        assert!(Address::ANY.is_any() && Address::ANY_V4.is_any());
        assert_eq!(Address::v4([1, 2, 3, 4]).as_v4(), Some([1, 2, 3, 4]));
        assert_eq!(Address::LOOPBACK.as_v4(), None);
        let [low, high] = Address::v4([1, 2, 3, 4]).words();
        assert_eq!(Address::of_words(low, high), Address::v4([1, 2, 3, 4]));
        assert!(Address::v4([10, 1, 2, 3]).matches(&Address::v4([10, 0, 0, 0]), 96 + 8));
        assert!(!Address::v4([11, 1, 2, 3]).matches(&Address::v4([10, 0, 0, 0]), 96 + 8));
        assert!(Address::LOOPBACK.matches(&Address::ANY, 0));
        assert!(!Address::LOOPBACK.matches(&Address::ANY, 128));
    }
}
