//! Models of the nucleus's rules, small enough that every reachable state can be looked at.
//!
//! [`messages`] is rendezvous, inheritance of priority and death; [`rights`] is derivation and revocation of portals. A model says what one operation does to plain sets and numbers, without the nucleus's lists, caches and shortcuts.
//! [`explore`] walks through all states up to a bound and checks in each what must hold. The nucleus's own tests play random operations on the real nucleus
//! and on the model side by side and compare after each (`kernel/src/tests/replay.rs`), so what is proved of the model is tested of the nucleus.
//!
//! A model that cannot fail proves nothing: each has a list of faults that can be put into it, and the tests demand that each is found.
#![forbid(unsafe_code)]

pub mod explore;
pub mod messages;
pub mod rights;
