//! The system calls, one file per family. A call takes its arguments from the frame and gives a value or an error; see [`crate::table`].

pub mod attributes;
pub mod clocks;
pub mod descriptors;
pub mod directories;
pub mod epoll;
pub mod exec;
pub mod exit;
pub mod fork;
pub mod futex;
pub mod ids;
pub mod io;
pub mod ioctl;
pub mod locks;
pub mod mapping;
pub mod mounts;
pub mod names;
pub mod open;
pub mod pipes;
pub mod poll;
pub mod prctl;
pub mod random;
pub mod scheduling;
pub mod status;
pub mod system;
pub mod transfer;
pub mod wait;
