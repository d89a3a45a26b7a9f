//! What the compiler refuses, and how it says so; and that no text makes it fall over.

use cairn_idl_compiler::model::Float;
use cairn_idl_compiler::{c, compile, rust, show};
use proptest::prelude::*;

/// The first complaint's `line:column: text`.
fn complaint(text: &str) -> String {
    match compile("t.idl", text) {
        Ok(_) => panic!("it was taken: {text}"),
        Err(refused) => {
            let shown = refused.to_string();
            let first = shown.lines().next().unwrap_or("").to_string();
            first.strip_prefix("t.idl:").unwrap_or(&first).to_string()
        }
    }
}

fn refused(text: &str, place: &str, words: &str) {
    let said = complaint(text);
    assert!(said.starts_with(&format!("{place}: ")), "{said}");
    assert!(said.contains(words), "{said}");
}

#[test]
fn a_complaint_shows_the_line_and_the_place() {
    let refused = compile("x.idl", "interface a;\nop A = 1 (w9 x: u64);").unwrap_err();
    assert_eq!(
        refused.to_string(),
        "x.idl:2:11: expected `w0` to `w7`, `in`, `out` or `)`, found `w9`\n    op A = 1 (w9 x: u64);\n              ^"
    );
}

#[test]
fn badges() {
    for (text, place, words) in [
        ("op A = 1 (w6 x: badge);", "1:24", "only be w7"),
        ("op A = 1 () -> (w7 x: badge);", "1:30", "only be w7"),
        ("op A = 64 (w7 x: badge);", "1:25", "number 63 or less"),
        (
            "op A = 1 (w6 x: portal, w7 y: badge);",
            "1:17",
            "portals or a badge",
        ),
    ] {
        refused(&format!("interface a; {text}"), place, words);
    }
    assert!(compile("x.idl", "interface a; op A = 63 (w7 x: badge);").is_ok());
}

#[test]
fn syntax() {
    refused(
        "",
        "1:1",
        "expected `interface NAME;`, found the end of the file",
    );
    refused("interface a", "1:12", "expected `;`");
    refused("interface a; op A 1 ();", "1:19", "expected `=`, found `1`");
    refused("interface a; op A = 1 () -> ;", "1:29", "expected `(`");
    refused(
        "interface a; oops",
        "1:14",
        "`const`, `flags`, `enum`, `struct` or `op`",
    );
    refused(
        "interface a; const A: u64 = ;",
        "1:29",
        "expected a value, found `;`",
    );
    refused("interface a; op A = 1 () loudly;", "1:26", "`deferred`");
    refused(
        "interface a; op A = 1 (out x: bytes);",
        "1:36",
        "`<=` or `first`",
    );
}

#[test]
fn words_and_numbers() {
    let op = |rest: &str| format!("interface a;\n{rest}");
    refused(&op("op A = 1 (w0 x: u64);"), "2:11", "operation's number");
    refused(
        &op("op A = 1 (w1 x: u64, w1 y: u64);"),
        "2:22",
        "w1 is used already",
    );
    refused(
        &op("op A = 1 (w1 x: u64, w2 x: u64);"),
        "2:25",
        "`x` is there already",
    );
    refused(
        &op("op A = 1 () -> (w0 x: i64);"),
        "2:17",
        "cannot be signed",
    );
    refused(&op("op A = 1 ();\nop B = 1 ();"), "3:8", "1 is `A` already");
    refused(&op("op A = 0 ();"), "2:8", "1 or more");
    refused(&op("op A = 1 ();\nop A = 2 ();"), "3:4", "is there already");
    refused(&op("op A = 1 (w1 x: text);"), "2:17", "no type of a word");
    refused(
        &op("op A = 1 (w1 while: u64);"),
        "2:14",
        "something else in Rust or C",
    );
    refused(&op("op a = 1 ();"), "2:4", "in capitals");
    refused(&op("op A = 1 () errors ENOPE;"), "2:20", "not in errno.idl");
}

#[test]
fn portals_and_parts() {
    let op = |rest: &str| format!("interface a;\nop A = 1 {rest};");
    refused(&op("(w6 p: portal)"), "2:4", "in the last words");
    refused(
        &op("(w5 p: portal, w7 q: portal)"),
        "2:4",
        "in the last words",
    );
    refused(
        &op("(w3 a: portal, w4 b: portal, w5 c: portal, w6 d: portal, w7 e: portal)"),
        "2:4",
        "at most 4",
    );
    refused(
        &op("(w6 p: portal, w7 q: portal moved)"),
        "2:28",
        "same way",
    );
    refused(&op("(w7 p: portal minted)"), "2:14", "only an answer");
    refused(
        &op("() -> (w7 p: portal minted once)"),
        "2:20",
        "rights of every new one",
    );
    refused(&op("(w7 p: portal not so)"), "2:28", "expected `further`");
    refused(&op("() -> (w7 p: portal optional)"), "2:20", "optional");
    refused(
        &op("(out x: bytes <= 4, out y: bytes <= 4)"),
        "2:30",
        "one part in each direction",
    );
    refused(&op("(out x: bytes <= 0)"), "2:27", "1 byte to 64 MiB");
    refused(&op("(out x: Missing)"), "2:18", "no structure `Missing`");
    refused(
        &op("(out x: bytes <= 4) -> (w0 length of x)"),
        "2:47",
        "`in` part",
    );
    // Pieces, windows, pages.
    refused(&op("(out x: bytes <= 4 pieces 1)"), "2:36", "2 to 64");
    refused(&op("(in x: bytes <= 4 pieces 65)"), "2:35", "2 to 64");
    refused(
        &op("(in x: bytes <= 4 pieces 2) deferred"),
        "2:4",
        "structure or pieces",
    );
    refused(
        &op("(out x: bytes <= 8192 shown, in y: bytes <= 4096)"),
        "2:4",
        "`y` would be as well",
    );
    refused(
        &op("(out x: bytes <= 8192 shown, in y: bytes <= 4096 shown kept)"),
        "2:4",
        "`x` would be as well",
    );
    refused(&op("(out x: bytes <= 4095 shown)"), "2:4", "no whole page");
    refused(
        &op("(out x: bytes <= 8192 shown pieces 2)"),
        "2:4",
        "which no window shows",
    );
    refused(
        &op("(out x: bytes <= 8192 kept)"),
        "2:32",
        "expected `,` or `)`",
    );
    refused(
        "interface a; struct Pair { x: u8 } op A = 1 (out x: Pair shown);",
        "1:50",
        "only bytes",
    );
    refused(&op("(w7 p: pages <= 4095)"), "2:26", "whole pages");
    refused(
        &op("(w7 p: pages <= 4096 * 65537)"),
        "2:26",
        "at most 64 MiB",
    );
    refused(&op("(w7 p: pages)"), "2:22", "expected `<=`");
    refused(
        &op("() -> (w7 p: pages <= 4096 minted)"),
        "2:20",
        "moved, not minted",
    );
    refused(&op("(w6 p: pages <= 4096)"), "2:4", "in the last words");
    for trust in ["none", "client"] {
        let kept = op(&format!("() trust {trust} float kept"));
        refused(&kept, "2:4", "`trust server` or `trust both`");
    }
    refused(&op("() float cleared"), "2:19", "float switched");
    refused(&op("() float both"), "2:19", "kept or switched");
    refused(&op("() trust nobody"), "2:19", "none, server");
}

#[test]
fn floating_point_state_goes_by_trust() {
    for (said, float) in [
        ("", Float::Kept),
        ("trust server;", Float::Kept),
        ("trust none;", Float::Switched),
        ("trust client;", Float::Switched),
        ("trust both; float switched;", Float::Switched),
    ] {
        let text =
            format!("interface a;\n{said}\nop A = 1 ();\nop B = 2 () trust both float kept;");
        let interface = compile("a.idl", &text).unwrap();
        let found: Vec<Float> = interface.operations.iter().map(|o| o.float).collect();
        assert_eq!(found, [float, Float::Kept], "{said}");
    }
}

#[test]
fn values_and_layouts() {
    let of = |rest: &str| format!("interface a;\n{rest}");
    refused(&of("const A: u8 = 256;"), "2:15", "does not fit into u8");
    refused(&of("const A: u64 = B;"), "2:16", "`B` is no constant");
    refused(
        &of("const A: u64 = B;\nconst B: u64 = A;"),
        "2:16",
        "needs itself",
    );
    refused(&of("const A: u64 = 1 << 64;"), "2:16", "out of all bounds");
    refused(
        &of("const A: u64 = 18446744073709551616;"),
        "2:16",
        "64 bits",
    );
    refused(
        &of("struct Pair { a: u8, b: u32 }"),
        "2:22",
        "3 bytes that nobody names",
    );
    refused(
        &of("struct Pair { a: u32, b: u8 }"),
        "2:8",
        "multiples of the alignment",
    );
    refused(
        &of("struct Pair { a: T }"),
        "2:18",
        "no structure that stands before",
    );
    refused(&of("struct Pair { a: [u8; 0] }"), "2:23", "1 to 65,536");
    refused(&of("enum e { A = 1, B = 1 }"), "2:6", "different values");
    refused(&of("flags f: u8 { A = 1 }"), "2:10", "u32 or u64");
    // The same name twice, once only in C.
    refused(
        &of("flags f { A = 1 }\nconst F_A: u64 = 1;"),
        "3:7",
        "`F_A` is there already (in C)",
    );
}

#[test]
fn all_mistakes_are_told_at_once() {
    let refused = compile(
        "t",
        "interface a;\nop A = 0 (w0 x: u64);\nop B = 1 (w7 y: text);",
    )
    .unwrap_err();
    assert_eq!(refused.complaints.len(), 3);
}

/// Pieces that come together to something like a definition.
const PIECES: [&str; 56] = [
    "interface",
    "a",
    ";",
    "op",
    "A",
    "B",
    "=",
    "1",
    "2",
    "(",
    ")",
    "->",
    "w0",
    "w1",
    "w7",
    ":",
    "u64",
    "u8",
    "i64",
    "bool",
    "portal",
    "moved",
    "minted",
    "optional",
    ",",
    "out",
    "in",
    "bytes",
    "<=",
    "first",
    "length",
    "of",
    "errors",
    "EIO",
    "badge",
    "deferred",
    "const",
    "flags",
    "enum",
    "struct",
    "Pair",
    "{",
    "}",
    "[",
    "]",
    "|",
    "<<",
    "+",
    "-",
    "abi.PAGE",
    "pieces",
    "shown",
    "kept",
    "pages",
    "/// doc\n",
    "trust",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn any_text_is_refused_or_taken(text in "\\PC*") {
        let _ = compile("t", &text);
    }

    #[test]
    fn any_bytes_that_are_text(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = compile("t", &String::from_utf8_lossy(&bytes)).map_err(|e| e.to_string());
    }

    /// What is taken goes through every generator.
    #[test]
    fn pieces_of_definitions(pieces in proptest::collection::vec(0..PIECES.len(), 0..60)) {
        let mut text = String::from("interface a; ");
        for piece in pieces {
            text.push_str(PIECES[piece]);
            text.push(' ');
        }
        match compile("t", &text) {
            Ok(interface) => {
                let _ = (rust::module(&interface), c::header(&interface), show::table(&interface));
            }
            Err(refused) => {
                prop_assert!(!refused.complaints.is_empty());
                let _ = refused.to_string();
            }
        }
    }

    /// A good definition with one character changed: every complaint has a place in it.
    #[test]
    fn a_slip_of_the_pen(at in 0usize..6000, with in any::<char>()) {
        let mut text: Vec<char> = include_str!("sample/sample.idl").chars().collect();
        let at = at % text.len();
        text[at] = with;
        let text: String = text.into_iter().collect();
        match compile("t", &text) {
            Ok(interface) => {
                let _ = (rust::module(&interface), c::header(&interface), show::table(&interface));
            }
            Err(refused) => {
                prop_assert!(refused.complaints.iter().all(|c| c.at.0 <= text.len()));
                let _ = refused.to_string();
            }
        }
    }
}
