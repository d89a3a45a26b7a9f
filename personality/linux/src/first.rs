//! The first process: started by `proc` with nothing but this library and a block that says what to run.

use crate::calls::open::{open_directory, open_file};
use crate::calls::{exec, exit, ids};
use crate::machine::area::{process, Frame};
use crate::machine::gate;
use crate::path::{self, AT_FDCWD};
use crate::stack::Strings;
use crate::text::Line;
use cairn_idl::fs::o;

/// What the block says.
pub struct Wish {
    pub path: alloc::vec::Vec<u8>,
    pub arguments: Strings,
    pub environment: Strings,
}

/// Take the block's bytes apart: path, arguments, environment, each with a NUL. None if they contradict the counts.
pub fn parse(bytes: &[u8], argc: u64, envc: u64) -> Option<Wish> {
    let mut strings = bytes.split(|b| *b == 0);
    let path = strings.next()?.to_vec();
    let mut take = |count: u64| {
        let mut list = Strings::default();
        for _ in 0..count {
            list.push(strings.next()?);
        }
        Some(list)
    };
    let arguments = take(argc)?;
    let environment = take(envc)?;
    // Each string had its NUL: one empty piece is left behind the last.
    strings.next()?;
    Some(Wish {
        path,
        arguments,
        environment,
    })
}

/// Set the process up and make `frame` the program's first instruction.
pub fn run(frame: &mut Frame, wish: Wish) {
    if let Ok(creds) = ids::credentials() {
        ids::remember(&creds);
    }
    path::take_mounts();
    open_console();
    if let Ok(root) = open_directory(AT_FDCWD, b"/") {
        process().state().set_cwd(Some(root));
    }
    let result = exec::exec(
        frame,
        AT_FDCWD,
        wish.path.clone(),
        wish.arguments,
        wish.environment,
    );
    if let Err(error) = result {
        let mut line = Line::new();
        line.text("linux: cannot start ")
            .raw(&wish.path)
            .text(": error ")
            .number(error.0 as u64);
        gate::log_line(line.bytes());
        exit::end(127 << 8);
    }
}

/// The console as descriptors 0, 1 and 2, if there is one.
fn open_console() {
    let Ok(console) = open_file(AT_FDCWD, b"/dev/console", o::RDWR, 0) else {
        gate::log_line(b"linux: no /dev/console for the first process");
        return;
    };
    let mut state = process().state();
    for _ in 0..3 {
        if state.files.insert(console.clone(), false, 0).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_block() {
        let wish = parse(b"/bin/sh\0sh\0-c\0A=b\0", 2, 1).unwrap();
        assert_eq!(wish.path, b"/bin/sh");
        assert_eq!(wish.arguments.bytes, b"sh\0-c\0");
        assert_eq!(wish.environment.count(), 1);
        assert!(parse(b"/bin/sh\0sh\0", 2, 0).is_none());
        assert!(parse(b"/bin/sh", 0, 0).is_none());
    }
}
