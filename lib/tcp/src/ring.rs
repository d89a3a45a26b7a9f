//! The rings that text lies in: any slice, and positions that grow without end modulo 2^32. The slice's length is a power of two.

/// The bytes from `at` on, in at most two pieces: what a device gathers.
pub fn pieces(ring: &[u8], at: u32, length: u32) -> [&[u8]; 2] {
    let Some(start) = (at as usize).checked_rem(ring.len()) else {
        return [&[], &[]];
    };
    let length = (length as usize).min(ring.len());
    let first = length.min(ring.len() - start);
    [&ring[start..start + first], &ring[..length - first]]
}

/// Put bytes into the ring from `at` on; no more than it has.
pub fn put(ring: &mut [u8], at: u32, bytes: &[u8]) {
    let Some(start) = (at as usize).checked_rem(ring.len()) else {
        return;
    };
    let bytes = &bytes[..bytes.len().min(ring.len())];
    let first = bytes.len().min(ring.len() - start);
    ring[start..start + first].copy_from_slice(&bytes[..first]);
    ring[..bytes.len() - first].copy_from_slice(&bytes[first..]);
}

/// Take bytes from the ring into a buffer.
pub fn take(ring: &[u8], at: u32, into: &mut [u8]) {
    let [first, second] = pieces(ring, at, into.len() as u32);
    into[..first.len()].copy_from_slice(first);
    into[first.len()..first.len() + second.len()].copy_from_slice(second);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goes_around() {
        let mut ring = [0; 8];
        put(&mut ring, u32::MAX - 1, b"abcdef");
        assert_eq!(pieces(&ring, u32::MAX - 1, 6), [b"ab" as &[u8], b"cdef"]);
        let mut out = [0; 6];
        take(&ring, u32::MAX - 1, &mut out);
        assert_eq!(&out, b"abcdef");
        put(&mut [], 3, b"x");
        assert_eq!(pieces(&[], 3, 4), [b"" as &[u8], b""]);
    }
}
