//! The machine side of the personality, and the only place with `unsafe`: entry and exit in assembly, the gate, the thread area behind GS, memory
//! of the program, floating-point state, the heap, and the locks that hold the process's state. Everything above uses safe functions of these modules.

pub mod area;
pub mod arena;
pub mod buffer;
pub mod direct;
pub mod entry;
pub mod fpu;
pub mod frames;
pub mod gate;
pub mod heap;
pub mod lock;
pub mod published;
pub mod request;
pub mod start;
pub mod stopped;
pub mod upcall;
pub mod user;
pub mod vdso;
