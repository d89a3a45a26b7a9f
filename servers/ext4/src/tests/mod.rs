//! The server on the host: images of `mke2fs`, a device that does what it was asked to in any order and may fail, programs that the framework's bench plays.

mod discard;
mod game;
mod kept;
mod killed;
mod killed_names;
mod machine;
mod mapped;
mod plain;
mod remount;

/// The images, from the tests of the core.
#[path = "../../../../lib/ext4/tests/common/mod.rs"]
mod common;
