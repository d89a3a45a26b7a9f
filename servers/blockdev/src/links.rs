//! `/dev/disk`: disks and partitions by what they and their file systems are called, as symbolic links with the names that udev gives them.

use crate::disk::{Disks, Part};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// A directory there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum By {
    Label,
    PartLabel,
    PartUuid,
    Uuid,
}

pub const ALL: [(By, &str); 4] = [
    (By::Label, "by-label"),
    (By::PartLabel, "by-partlabel"),
    (By::PartUuid, "by-partuuid"),
    (By::Uuid, "by-uuid"),
];

impl By {
    pub fn name(self) -> &'static str {
        ALL[self as usize].1
    }

    fn of(self, part: &Part) -> &[u8] {
        let called = &part.called;
        match self {
            By::Label => &called.label,
            By::PartLabel => called.part_label.as_bytes(),
            By::PartUuid => called.part_uuid.as_bytes(),
            By::Uuid => called.uuid.as_bytes(),
        }
    }
}

/// A name as it can stand in a path: what is not plain ASCII or UTF-8 becomes `\x2f`.
fn encode(name: &[u8]) -> String {
    let mut text = String::new();
    for chunk in name.utf8_chunks() {
        for it in chunk.valid().chars() {
            match it {
                '0'..='9'
                | 'A'..='Z'
                | 'a'..='z'
                | '#'
                | '+'
                | '-'
                | '.'
                | ':'
                | '='
                | '@'
                | '_' => text.push(it),
                it if it.is_ascii() => text += &format!("\\x{:02x}", it as u32),
                it => text.push(it),
            }
        }
        for byte in chunk.invalid() {
            text += &format!("\\x{byte:02x}");
        }
    }
    text
}

impl Disks {
    /// Names in such a directory, and the parts that they lead to; of two of the same name the first.
    pub fn links(&self, by: By) -> Vec<(String, usize)> {
        let mut links: Vec<(String, usize)> = Vec::new();
        for (at, part) in self.there() {
            let name = encode(by.of(part));
            if !matches!(&name[..], "" | "." | "..") && links.iter().all(|(it, _)| *it != name) {
                links.push((name, at));
            }
        }
        links
    }
}

#[cfg(test)]
mod tests {
    use super::encode;

    #[test]
    fn names_are_udev_s() {
        assert_eq!(encode(b"a b/c\\"), "a\\x20b\\x2fc\\x5c");
        assert_eq!(encode("ü#+-.:=@_".as_bytes()), "ü#+-.:=@_");
        assert_eq!(encode(b"\xff\n\xc3"), "\\xff\\x0a\\xc3");
    }
}
