//! Numbers in blocks. Reading beyond the end gives 0, and writing there does nothing: positions are checked where they come from, and a mistake there must not stop a server.

pub(crate) fn array<const N: usize>(from: &[u8], at: usize) -> [u8; N] {
    from.get(at..at + N)
        .and_then(|bytes| bytes.try_into().ok())
        .unwrap_or([0; N])
}

pub(crate) fn le16(from: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(array(from, at))
}

pub(crate) fn le32(from: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array(from, at))
}

pub(crate) fn be16(from: &[u8], at: usize) -> u16 {
    u16::from_be_bytes(array(from, at))
}

pub(crate) fn be32(from: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(array(from, at))
}

/// A number of 64 bits that ext4 keeps in two places.
pub(crate) fn halves(from: &[u8], low: usize, high: usize) -> u64 {
    u64::from(le32(from, low)) | u64::from(le32(from, high)) << 32
}

pub(crate) fn put(to: &mut [u8], at: usize, bytes: &[u8]) {
    if let Some(place) = to.get_mut(at..at + bytes.len()) {
        place.copy_from_slice(bytes);
    }
}

pub(crate) fn put16(to: &mut [u8], at: usize, value: u16) {
    put(to, at, &value.to_le_bytes());
}

pub(crate) fn put32(to: &mut [u8], at: usize, value: u32) {
    put(to, at, &value.to_le_bytes());
}

pub(crate) fn put_be32(to: &mut [u8], at: usize, value: u32) {
    put(to, at, &value.to_be_bytes());
}
