//! Opening through a portal that was kept, where that has to wait for the disk.

use super::common::make;
use super::machine::{Machine, USUAL};
use cairn_idl::errno::ENOENT;
use cairn_idl::fs::{self, o, KEPT_LIFE_SHIFT, KEPT_SLOT_SHIFT, STAT_WORDS};

/// OPEN that names a kept handle: its result. No portal may come.
fn open_again(machine: &mut Machine, path: &[u8], flags: u64, kept: u64) -> i64 {
    let words = [
        fs::OPEN,
        flags | (kept as u32 as u64) << KEPT_SLOT_SHIFT,
        0o644 | (kept >> 32) << KEPT_LIFE_SHIFT,
    ];
    let answer = machine.call(0, &words, path, 0);
    assert_eq!(answer.minted, []);
    answer.result()
}

#[test]
fn what_waits_goes_on_where_it_was() {
    let mut machine = Machine::new(make(4096, 16, &[], None), USUAL, 1);
    machine.bench.short_paths = true;
    let names: Vec<String> = (0..20).map(|number| format!("file{number}")).collect();
    for name in &names {
        let file = machine.open_file(name.as_bytes(), o::CREAT | o::RDWR, 0o644);
        assert_eq!(machine.write_at(file.unwrap(), 0, &[1; 49_000]), 49_000);
    }
    assert_eq!(machine.sync(), 0);
    let image = machine.close();
    for seed in 1..=5 {
        // A new server, which has to read everything.
        let mut machine = Machine::new(image.clone(), USUAL, seed);
        machine.bench.short_paths = true;
        let kept = machine.open_file(b".", o::RDONLY, 0).unwrap();
        for (at, name) in names.iter().enumerate() {
            let closed = machine.call(kept, &[fs::CLOSE], b"", 0);
            assert_eq!((closed.result(), closed.words[1]), (0, kept));
            let cut = at % 3 == 0;
            let flags = o::RDWR | if cut { o::TRUNC | o::CREAT } else { 0 };
            assert_eq!(
                open_again(&mut machine, b"missing", flags & !o::CREAT, kept),
                -ENOENT
            );
            assert_eq!(open_again(&mut machine, name.as_bytes(), flags, kept), 0);
            let size = machine.call(kept, &[fs::STAT, STAT_WORDS], b"", 0).words[4];
            assert_eq!(size, if cut { 0 } else { 49_000 });
            assert_eq!(machine.write_at(kept, 0, b"new"), 3);
        }
        assert_eq!(machine.bench.manager.open_files(), 1);
    }
}
