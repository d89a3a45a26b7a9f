//! A call and its reply a hundred thousand times, for an instruction counter:
//! `valgrind --tool=callgrind --toggle-collect='*World*traverse*' TESTBINARY --ignored round_trips` counts the portable part of it alone.

use super::*;

#[test]
#[ignore = "for measuring, checks nothing"]
fn round_trips() {
    let mut w = World::new();
    let server = w.domain();
    let client = w.domain();
    let (rx, own) = w.channel(server);
    let tx = w.portal(own, client, 77);
    let s = w.thread(server, 100);
    let c = w.thread(client, 50);
    w.rest();
    w.receive(s, rx);
    w.checked = false;
    for _ in 0..100_000 {
        w.call(c, tx, &[1, 2, 3]);
        w.reply_receive(s, rx, &[4, 5, 6]);
    }
    assert_eq!(w.current(), Some(c));
}
