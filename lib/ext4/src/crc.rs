//! CRC-32C (Castagnoli) as ext4 and JBD2 use it: the caller gives the running value, and nothing is inverted at either end. Eight bytes at a time by tables.

const POLYNOMIAL: u32 = 0x82F6_3B78;

static TABLES: [[u32; 256]; 8] = tables();

const fn tables() -> [[u32; 256]; 8] {
    let mut all = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut value = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            value = (value >> 1) ^ (POLYNOMIAL * (value & 1));
            bit += 1;
        }
        all[0][byte] = value;
        byte += 1;
    }
    let mut table = 1;
    while table < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before = all[table - 1][byte];
            all[table][byte] = (before >> 8) ^ all[0][(before & 0xFF) as usize];
            byte += 1;
        }
        table += 1;
    }
    all
}

/// `!0` is where a sum begins.
pub(crate) fn crc32c(begin: u32, bytes: &[u8]) -> u32 {
    let mut crc = begin;
    let mut eights = bytes.chunks_exact(8);
    for eight in &mut eights {
        let word = u64::from_le_bytes(crate::bytes::array(eight, 0)) ^ u64::from(crc);
        crc = 0;
        for (table, byte) in TABLES.iter().rev().zip(word.to_le_bytes()) {
            crc ^= table[byte as usize];
        }
    }
    for &byte in eights.remainder() {
        crc = (crc >> 8) ^ TABLES[0][(crc as u8 ^ byte) as usize];
    }
    crc
}

#[cfg(test)]
mod tests {
    use super::crc32c;

    #[test]
    fn known_values() {
        // The check value of the catalogue of CRCs, and 32 zero bytes from RFC 3720, B.4.
        assert_eq!(!crc32c(!0, b"123456789"), 0xE306_9283);
        assert_eq!(!crc32c(!0, &[0; 32]), 0x8A91_36AA);
        assert_eq!(
            crc32c(crc32c(!0, b"12345"), b"6789"),
            crc32c(!0, b"123456789")
        );
    }
}
