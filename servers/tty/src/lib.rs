//! The terminal server's logic. [`termios`] is what programs set, [`queue`] the bytes that wait to be read, [`discipline`] the line discipline
//! between them; [`terminal`] is one terminal with its line and job control, [`world`] what it needs of others; [`nodes`], [`server`] and [`ioctl`]
//! make the terminals a resource manager, [`outside`] is the real world.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod discipline;
pub mod ioctl;
pub mod nodes;
pub mod outside;
pub mod queue;
pub mod server;
pub mod terminal;
pub mod termios;
pub mod world;
