//! What mount(2) says of a tmpfs: `size=`, `nr_blocks=`, `nr_inodes=`, `mode=`, `uid=`, `gid=`, as Linux writes them.

use crate::pool::PAGE;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Most pages of all files.
    pub pages: usize,
    /// Most nodes, the root among them.
    pub nodes: usize,
    /// Of the root.
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
}

/// `10`, `4k`, `1m`, `2g`, `1t`, and where `whole` is given a share of that: `25%`.
fn number(text: &str, whole: Option<u64>) -> Option<u64> {
    if let (Some(share), Some(whole)) = (text.strip_suffix('%'), whole) {
        let share = share.parse::<u64>().ok()?;
        return Some((u128::from(whole) * u128::from(share) / 100).min(u64::MAX.into()) as u64);
    }
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

impl Options {
    /// Of a machine with so many pages: half of them, and as many nodes.
    pub fn of(machine: usize) -> Options {
        Options {
            pages: (machine / 2).max(1),
            nodes: (machine / 2).max(1),
            mode: 0o1777,
            uid: 0,
            gid: 0,
        }
    }

    /// With what `text` says, between commas. None: something is not known, or is no number. 0 for size or nodes is the most that there can be.
    pub fn with(mut self, text: &str, machine: usize) -> Option<Options> {
        let all = machine.max(1);
        let most = |wanted: u64| match wanted {
            0 => all,
            wanted => wanted.min(all as u64) as usize,
        };
        for option in text.split(',').filter(|option| !option.is_empty()) {
            let (name, value) = option.split_once('=')?;
            let id = || value.parse::<u32>().ok().filter(|&id| id != u32::MAX);
            match name {
                "size" => {
                    let bytes = number(value, Some((all * PAGE) as u64))?;
                    self.pages = most(bytes.div_ceil(PAGE as u64));
                }
                "nr_blocks" => self.pages = most(number(value, None)?),
                "nr_inodes" => self.nodes = most(number(value, None)?),
                "mode" => {
                    let mode = u32::from_str_radix(value, 8).ok()?;
                    self.mode = mode & 0o7777;
                }
                "uid" => self.uid = id()?,
                "gid" => self.gid = id()?,
                _ => return None,
            }
        }
        Some(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_as_on_linux() {
        let parse = |text| Options::of(1000).with(text, 1000);
        assert_eq!(parse(""), Some(Options::of(1000)));
        assert_eq!(Options::of(1000).pages, 500);
        let given = parse("size=64k,mode=755,uid=7,gid=8,nr_inodes=1k").unwrap();
        let expected = Options {
            pages: 16,
            nodes: 1000,
            mode: 0o755,
            uid: 7,
            gid: 8,
        };
        assert_eq!(given, expected);
        let pages = |text| parse(text).map(|options| options.pages);
        assert_eq!(pages("size=25%"), Some(250));
        assert_eq!(pages("size=1"), Some(1));
        assert_eq!(pages("size=4097"), Some(2));
        assert_eq!(pages("size=0"), Some(1000));
        assert_eq!(pages("size=16G"), Some(1000));
        assert_eq!(pages("nr_blocks=3,"), Some(3));
        for bad in [
            "size",
            "size=",
            "size=x",
            "size=1q",
            "size=-1",
            "mode=9",
            "uid=-1",
            "uid=4294967295",
            "huge=always",
            "size=20000000t",
            "size=é",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
