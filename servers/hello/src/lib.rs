//! The example of the guide (docs/guide/first-server.md): one file, `greeting`, that anybody may read and its owner may change.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

use alloc::vec::Vec;
use cairn_idl::errno::EFBIG;
use cairn_resmgr::Tree;

/// Longest greeting.
const MOST: usize = 256;

pub struct Hello {
    greeting: Vec<u8>,
}

/// What is served.
pub fn tree() -> Tree<Hello> {
    let hello = Hello {
        greeting: b"Hello from a server of your own.\n".to_vec(),
    };
    Tree::new(hello).writable(
        "greeting",
        0o644,
        |hello| hello.greeting.clone(),
        |hello, new| {
            if new.len() > MOST {
                return Err(EFBIG);
            }
            hello.greeting = new.to_vec();
            Ok(())
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_idl::errno::{EACCES, ENOENT};
    use cairn_idl::{fs, label};
    use cairn_resmgr::fake::Bench;

    #[test]
    fn the_greeting_is_read_and_changed() {
        let mut bench = Bench::new(tree(), b"/hello");
        let file = bench
            .open(b"greeting", fs::o::RDWR | fs::o::TRUNC, 0)
            .unwrap();
        assert_eq!(
            bench.result(file, &[fs::WRITE, fs::POSITION], b"good day\n"),
            9
        );
        let answer = bench.call(file, &[fs::READ, 0], b"", 100).unwrap();
        assert_eq!(answer.bytes(), b"good day\n");
        assert_eq!(bench.result(file, &[fs::WRITE, 250], b"too far"), -EFBIG);
    }

    #[test]
    fn others_may_only_read() {
        let mut bench = Bench::new(tree(), b"/hello");
        bench.label = label::make(1000, 1000);
        assert!(bench.open(b"greeting", fs::o::RDONLY, 0).is_ok());
        assert_eq!(bench.open(b"greeting", fs::o::WRONLY, 0), Err(-EACCES));
        assert_eq!(bench.open(b"absent", fs::o::RDONLY, 0), Err(-ENOENT));
    }
}
