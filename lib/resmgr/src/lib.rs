//! The resource-manager framework: it owns the protocol of [`cairn_idl::fs`], a server supplies the few callbacks of [`Server`] that make it
//! what it is, and everything left out has a correct default.
//!
//! * [`server`] what a server supplies; [`manager`] decodes requests, checks them and calls the server; [`event`] is the loop;
//! * [`handle`] open files by badge; [`keep`] what is left to a successor; [`path`] walking; [`permission`]; [`dirent`] and [`layout`] structures for the program;
//! * [`waiting`] requests that wait for something; `watch` who is told what a handle is ready for; [`chains`] how both are found; [`lock`] record locks and flock;
//! * [`account`] what is kept for users, and charged to them;
//! * [`ring`] bytes that wait between a writer and a reader; [`timeouts`] requests that wait no longer than so long;
//! * `addresses` of local sockets, kept with nodes;
//! * `private` mounts of name spaces of their own;
//! * `frames` files that are read without asking; [`objects`] mapped files of servers with a cache;
//! * [`tree`] a ready-made server of folders and small files; [`table`] things by number; [`mod@text`] what a file said when it was opened, [`written`] what is written to it;
//! * [`transport`] the nucleus seen from here, and [`fake`] the same for tests on the host.
//!
//! A request that cannot be answered yet returns [`Failure::Wait`] with a key; [`Context::wake`] with that key runs it again later. So a server
//! keeps no list of blocked callers, and interruption, death of the caller and polling work in every server alike.
//!
//! What takes long is done in pieces, between which others are served: a request returns [`Context::goes_on`] and is made again at its caller's priority;
//! what nobody waits for is [`Server::background`]'s.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod account;
mod addresses;
mod attributes;
mod cache;
pub mod chains;
pub mod context;
mod covers;
mod direct;
pub mod dirent;
pub mod event;
pub mod fake;
mod files;
mod frames;
pub mod handle;
pub mod keep;
pub mod layout;
mod lease;
pub mod lock;
pub mod manager;
mod names;
mod notice;
pub mod objects;
pub mod path;
pub mod permission;
mod private;
pub mod ring;
pub mod server;
pub mod shrink;
mod spans;
pub mod table;
pub mod text;
pub mod timeouts;
pub mod transport;
pub mod tree;
pub mod waiting;
mod watch;
pub mod written;

pub use context::{Context, Failure, Later};
pub use dirent::Dirents;
pub use handle::{Handle, Handles, Recovered};
pub use keep::{Keepsake, Marks};
pub use manager::Manager;
pub use objects::NativeObjects;
pub use server::{Access, Change, Data, Direct, Meta, New, Opened, Readiness, Rename, Server};
pub use text::{Snapshot, Text};
pub use transport::{Leads, Native, Transport};
pub use tree::Tree;
