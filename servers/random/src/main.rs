//! The program of /dev/random and /dev/urandom.
#![no_std]
#![no_main]
#![forbid(unsafe_code)]

use cairn_idl::proc;
use cairn_random_server::server::{Machine, Random};
use cairn_resmgr::event::serve;
use cairn_resmgr::{Manager, Native};
use cairn_rt::{entropy, startup, time};

cairn_rt::entry!(main);

struct Processor;

impl Machine for Processor {
    fn entropy(&mut self) -> [u8; 16] {
        entropy::of_moment(time::realtime())
    }

    fn stir(&mut self, [first, second, third, fourth]: [u64; 4]) {
        // Without `proc` there are no programs.
        if let Some(proc) = startup::portal("proc") {
            let _ = proc::Client(&proc).stir(first, second, third, fourth);
        }
    }
}

fn main() -> ! {
    let born = (time::realtime() / 1_000_000_000) as i64;
    let mut random = Random::new(Processor, born);
    serve(&mut Manager::new(b"/dev"), &mut random, &mut Native::new())
}
