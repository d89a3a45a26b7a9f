//! The common table: shown in many spaces, changed by nobody, and still there when all of them are gone.

use super::*;

/// A multiple of what a table covers.
const AT: u64 = 0x80_0000;
const RW: u64 = prot::READ | prot::WRITE;
const CODE: u64 = prot::READ | prot::EXECUTE;

fn reap(w: &mut World, dom: Dom) {
    w.destroy(dom);
    let words = [dom.space as u64, BUFFER, 64];
    loop {
        w.go(w.init, MEMORY, memory::REAP, 0, &words);
        match w.result(w.init) {
            Ok(_) => return,
            Err(error) => assert_eq!(error, Error::Again),
        }
    }
}

#[test]
fn the_common_table_is_shown_and_never_changed() {
    let mut w = World::new();
    let init = w.init;
    let (a, b) = (w.domain(), w.domain());
    let spaces = [a, b].map(|dom| dom.space as u64);
    assert_eq!(
        w.err(init, MEMORY, memory::SHOW_TABLE, &[spaces[1]]),
        Error::BadArgument
    );
    let frame = w.map(a, AT + 4096, CODE);
    w.map(a, AT + 5 * 4096, RW);
    for address in [AT, AT + 4096, 0x40_0000_0000, !0x1f_ffff] {
        // Not as long as something can be written, where no table begins, where none is, and beyond the end.
        let error = w.err(init, MEMORY, memory::KEEP_TABLE, &[spaces[0], address]);
        assert_eq!(error, Error::BadArgument);
    }
    w.memory(memory::PROTECT, &[spaces[0], AT + 5 * 4096, 1, prot::READ]);
    w.memory(memory::KEEP_TABLE, &[spaces[0], AT]);
    assert_eq!(
        w.err(init, MEMORY, memory::KEEP_TABLE, &[spaces[0], AT]),
        Error::Busy
    );
    // Not where there is a table.
    let own = w.map(b, AT + 4096, RW);
    assert_eq!(
        w.err(init, MEMORY, memory::SHOW_TABLE, &[spaces[1]]),
        Error::BadArgument
    );
    assert_eq!(
        w.memory(memory::QUERY, &[spaces[1], AT + 4096])[0],
        own as u64
    );
    let c = w.domain();
    let there = c.space as u64;
    w.memory(memory::SHOW_TABLE, &[there]);
    assert_eq!(
        w.err(init, MEMORY, memory::SHOW_TABLE, &[there]),
        Error::BadArgument
    );
    for space in [spaces[0], there] {
        let query = [space, AT + 4096];
        let shown = [frame as u64, CODE | 1 << 10];
        assert_eq!(w.memory(memory::QUERY, &query)[..2], shown);
        let other = w.frame() as u64;
        for bits in [RW, CODE] {
            let error = w.err(
                init,
                MEMORY,
                memory::MAP,
                &[space, AT + 4096, other, 1, bits],
            );
            assert_eq!(error, Error::BadArgument);
            let free = [space, AT + 9 * 4096, other, 1, bits];
            assert_eq!(w.err(init, MEMORY, memory::MAP, &free), Error::BadArgument);
        }
        assert_eq!(
            w.memory(memory::PROTECT, &[space, AT, 512, prot::READ])[0],
            0
        );
        assert_eq!(w.memory(memory::UNMAP, &[space, AT, 512])[0], 0);
        assert_eq!(w.memory(memory::UNMAP, &[space, AT + 4096, 1])[0], 0);
        assert_eq!(w.memory(memory::QUERY, &query)[..2], shown);
        assert_eq!(w.k.frames.mappings(other as u32), 0);
    }
    assert_eq!(w.k.frames.mappings(frame), 1);
    // A space that shows it is taken apart, and the one that had it: it stays.
    reap(&mut w, c);
    reap(&mut w, a);
    assert_eq!(w.k.frames.mappings(frame), 1);
    let give = [pool::THREAD, frame as u64, 1];
    assert_eq!(w.err(init, MEMORY, memory::GIVE, &give), Error::Busy);
    let d = w.domain();
    w.memory(memory::SHOW_TABLE, &[d.space as u64]);
    assert_eq!(
        w.memory(memory::QUERY, &[d.space as u64, AT + 4096])[0],
        frame as u64
    );
    w.check();
}
