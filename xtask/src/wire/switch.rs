//! An Ethernet switch: which end a frame goes to, by the addresses that it has seen. Frames are not believed to be any.

use std::collections::HashMap;

/// Bytes of both addresses and the kind.
pub const HEADER: usize = 14;
/// It remembers no more addresses than this: who invents them does not take the host's memory.
const MOST: usize = 4096;

pub type Address = [u8; 6];

#[derive(Default)]
pub struct Switch {
    seen: HashMap<Address, usize>,
}

fn address(bytes: &[u8]) -> Option<Address> {
    bytes.get(..6)?.try_into().ok()
}

impl Switch {
    /// The ends, of so many, that a frame which came from one of them goes to.
    pub fn ends(&mut self, from: usize, count: usize, frame: &[u8]) -> Vec<usize> {
        let everybody = (0..count).filter(|&end| end != from);
        let (Some(to), Some(sender)) = (address(frame), frame.get(6..).and_then(address)) else {
            return Vec::new();
        };
        let is_group = |address: Address| address[0] & 1 == 1;
        if !is_group(sender) && (self.seen.len() < MOST || self.seen.contains_key(&sender)) {
            self.seen.insert(sender, from);
        }
        match self.seen.get(&to) {
            Some(&end) if !is_group(to) => everybody.filter(|&e| e == end).collect(),
            _ => everybody.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_go_where_their_addresses_were_seen() {
        let mut switch = Switch::default();
        let frame = |to: u8, from: u8| {
            let mut frame = [0; HEADER];
            (frame[5], frame[11]) = (to, from);
            frame
        };
        assert_eq!(switch.ends(0, 3, &frame(2, 1)), [1, 2], "not seen yet");
        assert_eq!(switch.ends(1, 3, &frame(1, 2)), [0]);
        assert_eq!(switch.ends(0, 3, &frame(2, 1)), [1]);
        let mut all = frame(0, 1);
        all[..6].fill(0xff);
        assert_eq!(switch.ends(0, 3, &all), [1, 2]);
        // It has moved; it is at this end; it is no frame.
        assert_eq!(switch.ends(2, 3, &frame(1, 2)), [0]);
        assert_eq!(switch.ends(0, 3, &frame(2, 1)), [2]);
        assert_eq!(switch.ends(2, 3, &frame(2, 9)), [0usize; 0]);
        assert_eq!(switch.ends(0, 3, &[1, 2, 3]), [0usize; 0]);
    }
}
