#![no_std]
#![no_main]
cairn_rt::entry!(main);

fn main() -> ! {
    cairn_rt::log!("starting");
    cairn_rt::start::exit(0)
}
