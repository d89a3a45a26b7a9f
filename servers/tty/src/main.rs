//! The terminal server's program: `uart0`, `uart1`, … are its lines, `rows=` and `columns=` the size that terminals start with.
#![no_std]
#![no_main]
#![forbid(unsafe_code)]

extern crate alloc;

use alloc::format;
use alloc::vec::Vec;
use cairn_resmgr::event::serve;
use cairn_resmgr::{Manager, Native};
use cairn_rt::{log, startup};
use cairn_tty::outside::Outside;
use cairn_tty::server::Tty;
use cairn_tty::terminal::Size;

cairn_rt::entry!(main);

fn number(key: &str, otherwise: u16) -> u16 {
    startup::argument(key)
        .and_then(|value| value.parse().ok())
        .unwrap_or(otherwise)
}

fn main() -> ! {
    let mut transport = Native::new();
    if transport.proc.is_none() {
        log!("no portal \"proc\": there will be no job control");
    }
    let lines: Vec<_> = (0..)
        .map_while(|line| startup::portal(&format!("uart{line}")))
        .collect();
    let size = Size {
        rows: number("rows", 24),
        columns: number("columns", 80),
        ..Size::default()
    };
    let count = lines.len();
    let mut tty = Tty::new(
        Outside::new(transport.receiver, transport.proc, lines),
        count,
        size,
    );
    let mut manager = Manager::new(b"/dev");
    let _ = manager.run(&mut transport, |cx| {
        tty.start(cx);
        Ok(())
    });
    serve(&mut manager, &mut tty, &mut transport)
}
