//! Random definitions that keep to the rules: the compiler takes them all, and a C compiler takes what it makes of them. (Rust's side of the same is in the sample,
//! and in `CAIRN_RANDOM=FOLDER`, which leaves the Rust modules there for whoever wants to compile them.)

use cairn_idl_compiler::{abi_header, c, compile, rust};
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;

const INTERFACES: u64 = 60;

/// xorshift: the same definitions every time.
struct Draw(u64);

impl Draw {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }

    fn of<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list[self.below(list.len() as u64) as usize]
    }
}

fn definition(draw: &mut Draw, name: &str) -> String {
    let mut text = format!("//! Random.\ninterface {name};\ntrust both;\n");
    text += "const MOST: usize = 3 * 7 + 1 << 4;\nflags bits { LOW = 1, HIGH = 1 << 63 }\nflags few: u32 { ONE = 1, TWO = 0o2 }\nenum kind { FIRST = 0, THIRD_ONE = 2, LAST = u64.MAX }\n";
    let structures = 1 + draw.below(3);
    for s in 0..structures {
        let _ = writeln!(text, "struct Thing{s} {{");
        // Groups of eight bytes leave no gaps.
        for f in 0..1 + draw.below(4) {
            let field = match draw.below(if s > 0 { 6 } else { 5 }) {
                0 => format!("a{f}: u64, b{f}: i64"),
                1 => format!("a{f}: u32, b{f}: i32"),
                2 => format!("a{f}: [u8; {}]", 8 * (1 + draw.below(9))),
                3 => format!("a{f}: [[u16; 4]; {}]", 1 + draw.below(5)),
                4 => format!(
                    "a{f}: u8, b{f}: i8, c{f}: i16, d{f}: [u32; {}]",
                    1 + 2 * draw.below(3)
                ),
                _ => format!("a{f}: [Thing{}; {}]", draw.below(s), 1 + draw.below(3)),
            };
            let _ = writeln!(text, "    {field},");
        }
        text += "}\n";
    }
    for o in 0..1 + draw.below(12) {
        let _ = write!(
            text,
            "/// Number {o}: a\\\nop DO_{o} = {} (",
            1 + o * (1 + draw.below(1 << 40)) + o * (1 << 50)
        );
        let mut arguments = Vec::new();
        let portals = draw.below(4);
        for p in 0..portals {
            let of = draw.of(&["portal", "portal", "pages <= 2 * abi.PAGE"]);
            arguments.push(format!("w{} p{p}: {of}", 8 - portals + p));
        }
        let terms = draw.of(&["", " moved", " once", " moved not further"]);
        arguments.iter_mut().for_each(|a| *a += terms);
        if portals == 1 && draw.below(2) == 0 {
            arguments[0] += " optional";
        }
        const TYPES: [&str; 11] = [
            "u8", "u16", "u32", "u64", "i8", "i16", "i32", "i64", "bool", "bits", "kind",
        ];
        for w in 1..8 - portals {
            if draw.below(2) == 0 {
                arguments.push(format!("w{w} x{w}: {}", draw.of(&TYPES)));
            }
        }
        let pieces = draw.of(&["", " pieces 2", " pieces 64"]);
        let shown = draw.of(&["", "", "shown", "shown kept"]);
        match draw.below(5) {
            _ if !shown.is_empty() => arguments.push(format!("out given: bytes <= 65536 {shown}")),
            0 => arguments.push(format!("out given: bytes <= MOST{pieces}")),
            1 => arguments.push(format!(
                "out given: bytes first {}",
                1 + draw.below(1 << 26)
            )),
            2 => arguments.push(format!("out given: Thing{}", draw.below(structures))),
            _ => {}
        }
        let input = draw.below(3);
        match input {
            0 if !shown.is_empty() => {
                arguments.push(format!("in got: bytes <= 3 * abi.PAGE {shown}"))
            }
            0 => arguments.push(format!("in got: bytes <= 2 * MOST{pieces}")),
            1 => arguments.push(format!("in got: Thing{}", draw.below(structures))),
            _ => {}
        }
        let _ = write!(text, "{}) -> (", arguments.join(", "));
        let mut results = Vec::new();
        let given = draw.below(3);
        for p in 0..given {
            results.push(format!("w{} g{p}: portal", 8 - given + p));
        }
        let minted = draw.of(&["", " minted", " once not further"]);
        results.iter_mut().for_each(|r| *r += minted);
        let mut first = 0;
        if input == 0 && draw.below(2) == 0 {
            results.push("w0 length of got".into());
            first = 1;
        }
        for w in first..8 - given {
            if draw.below(2) == 0 {
                let of = match w {
                    0 => draw.of(&["u8", "u32", "u64", "bool", "few", "kind", "bits"]),
                    _ => draw.of(&TYPES),
                };
                results.push(format!("w{w} y{w}: {of}"));
            }
        }
        let _ = write!(text, "{})", results.join(", "));
        if (input == 2 || input == 0 && pieces.is_empty()) && draw.below(3) == 0 {
            text += " deferred";
        }
        text += draw.of(&[
            ";\n",
            " interruptible errors EIO EAGAIN;\n",
            " badge 7 float kept;\n",
            " trust none;\n",
        ]);
    }
    text
}

#[test]
fn definitions_that_keep_to_the_rules_give_code_that_compiles() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("random");
    fs::create_dir_all(folder.join("cairn")).unwrap();
    fs::write(folder.join("cairn/abi.h"), abi_header::header()).unwrap();
    let errors = compile("errno.idl", include_str!("../../errno.idl")).unwrap();
    fs::write(folder.join("cairn/errno.h"), c::header(&errors)).unwrap();
    let mut draw = Draw(20261120);
    let (mut all, mut modules) = (String::new(), String::new());
    for i in 0..INTERFACES {
        let name = format!("random{i}");
        let text = definition(&mut draw, &name);
        let interface = compile("random", &text).unwrap_or_else(|why| panic!("{why}\n{text}"));
        fs::write(
            folder.join(format!("cairn/{name}.h")),
            c::header(&interface),
        )
        .unwrap();
        let _ = writeln!(all, "#include <cairn/{name}.h>");
        modules += &rust::module(&interface);
    }
    if let Some(place) = std::env::var_os("CAIRN_RANDOM") {
        fs::write(Path::new(&place).join("random.rs"), modules).unwrap();
    }
    fs::write(folder.join("all.c"), all + "extern int nothing;\n").unwrap();
    let sdk = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sdk/include");
    let output = Command::new("gcc")
        .args([
            "-std=c11",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-fsyntax-only",
            "-I",
        ])
        .arg(&folder)
        .arg("-I")
        .arg(sdk)
        .arg(folder.join("all.c"))
        .output()
        .expect("gcc, which ./cairn installs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}", &said[..said.len().min(4000)]);
}
