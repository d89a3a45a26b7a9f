//! What the compiler makes of the sample, as it was reviewed: tests/sample/sample.rs and sample.h. round_trip.rs compiles and runs the one, c.rs the other.
//! After a change that is meant, `CAIRN_UPDATE=1 cargo test -p cairn-idl-compiler --test golden` writes them anew: look at the difference.

use cairn_idl_compiler::{c, compile, rust, show};
use std::path::Path;

#[test]
fn the_sample_becomes_what_was_reviewed() {
    let interface = compile("sample.idl", include_str!("sample/sample.idl")).unwrap();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sample");
    for (name, text) in [
        ("sample.rs", rust::module(&interface)),
        ("sample.h", c::header(&interface)),
        ("sample.txt", show::table(&interface)),
    ] {
        let file = folder.join(name);
        if std::env::var_os("CAIRN_UPDATE").is_some() {
            std::fs::write(&file, &text).unwrap();
        }
        let golden = std::fs::read_to_string(&file).unwrap_or_default();
        let line = golden
            .lines()
            .zip(text.lines())
            .position(|(a, b)| a != b)
            .unwrap_or(golden.lines().count().min(text.lines().count()));
        assert!(golden == text, "{name} differs from line {}", line + 1);
    }
}
