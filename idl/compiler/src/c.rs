//! C: one header per interface, with constants, structures, the client's stubs ([`crate::c_client`]) and the server's skeleton ([`crate::c_server`]), all `static inline`.
//! It is C11 and stands on `cairn/gate.h`.

use crate::model::*;
use crate::{c_client, c_server};
use std::fmt::Write;

/// What is written; writing to a `String` cannot fail.
pub struct Text(pub String);

impl Text {
    pub fn line(&mut self, depth: usize, text: &str) {
        if text.is_empty() {
            self.0.push('\n');
        } else {
            let _ = writeln!(self.0, "{:1$}{text}", "", depth * 4);
        }
    }

    /// Line comments; nothing in them may go on in the next line or be a trigraph.
    pub fn doc(&mut self, depth: usize, lines: &[String]) {
        for line in lines {
            let line = line.replace("??", "? ?");
            let line = line.trim_end_matches(['\\', ' ']);
            self.line(depth, format!("// {line}").trim_end());
        }
    }
}

/// Names in C: macros in capitals, everything else in small letters, both behind the interface's prefix.
pub struct Names<'a>(pub &'a Interface);

impl Names<'_> {
    pub fn macro_(&self, name: &str) -> String {
        format!("{}_{name}", self.0.c_prefix.to_ascii_uppercase())
    }

    pub fn small(&self, name: &str) -> String {
        format!("{}_{}", self.0.c_prefix, name)
    }

    pub fn structure(&self, name: &str) -> String {
        format!("struct {}", self.small(&parted(name)))
    }
}

/// `MapEntry` → `map_entry`.
fn parted(name: &str) -> String {
    let mut text = String::new();
    for (i, letter) in name.chars().enumerate() {
        if letter.is_ascii_uppercase() && i > 0 {
            text.push('_');
        }
        text.push(letter.to_ascii_lowercase());
    }
    text
}

/// The header.
pub fn header(interface: &Interface) -> String {
    let names = Names(interface);
    let mut text = Text(String::new());
    text.doc(0, &interface.doc);
    text.line(0, "//");
    text.line(
        0,
        &format!(
            "// Generated from {}.idl by ./cairn: change that instead.",
            interface.name
        ),
    );
    let guard = format!("CAIRN_INTERFACE_{}", interface.name.to_ascii_uppercase());
    text.line(0, &format!("#ifndef {guard}"));
    text.line(0, &format!("#define {guard}"));
    text.line(0, "");
    text.line(0, "#include <stddef.h>");
    text.line(0, "#include <stdint.h>");
    if !interface.operations.is_empty() {
        text.line(0, "#include <cairn/gate.h>");
    }
    text.line(0, "");
    for constant in &interface.constants {
        define(&mut text, &names.macro_(&constant.name), constant);
    }
    for group in &interface.groups {
        text.line(0, "");
        text.doc(0, &group.doc);
        if group.exclusive {
            text.line(
                0,
                &format!("typedef uint64_t {};", names.small(&group.name)),
            );
        }
        let prefix = names.macro_(&group.name.to_ascii_uppercase());
        for member in &group.members {
            define(&mut text, &format!("{prefix}_{}", member.name), member);
        }
    }
    for structure in &interface.structures {
        self::structure(&mut text, &names, structure);
    }
    if !interface.operations.is_empty() {
        text.line(0, "");
        for operation in &interface.operations {
            let name = names.macro_(&operation.name);
            text.line(0, &format!("#define {name} UINT64_C({})", operation.number));
        }
        for operation in &interface.operations {
            c_client::stub(&mut text, &names, operation);
        }
        if !interface.by_hand {
            c_server::server(&mut text, &names, interface);
        }
    }
    text.line(0, "");
    text.line(0, "#endif");
    text.0
}

fn define(text: &mut Text, name: &str, constant: &Constant) {
    text.doc(0, &constant.doc);
    let number = match &constant.written {
        Some(written) if written.starts_with("0x") => format!("{:#x}", constant.value),
        Some(written) if written.starts_with("0o") => format!("0{:o}", constant.value),
        _ => constant.value.to_string(),
    };
    let number = match (constant.of, constant.value) {
        // The least number has no literal.
        (Integer::I64, value) if value == i128::from(i64::MIN) => "INT64_MIN".to_string(),
        (Integer::U64 | Integer::Usize, _) => format!("UINT64_C({number})"),
        (Integer::U32, _) => format!("UINT32_C({number})"),
        (Integer::I64, _) => format!("INT64_C({number})"),
        (Integer::I32, value) if value == i128::from(i32::MIN) => "INT32_MIN".to_string(),
        _ => format!("({number})"),
    };
    text.line(0, &format!("#define {name} {number}"));
}

fn structure(text: &mut Text, names: &Names, structure: &Structure) {
    let name = names.structure(&structure.name);
    text.line(0, "");
    text.doc(0, &structure.doc);
    text.line(0, &format!("{name} {{"));
    for field in &structure.fields {
        text.doc(1, &field.doc);
        let (of, dimensions) = field_type(names, &field.of);
        text.line(1, &format!("{of} {}{dimensions};", field.name));
    }
    text.line(0, "};");
    text.line(
        0,
        &format!(
            "_Static_assert(sizeof({name}) == {}, \"layout\");",
            structure.bytes
        ),
    );
}

/// Element type and dimensions, outermost first.
fn field_type(names: &Names, of: &FieldType) -> (String, String) {
    match of {
        FieldType::Integer(integer) => (integer.c().to_string(), String::new()),
        FieldType::Structure(name) => (names.structure(name), String::new()),
        FieldType::Array(of, count) => {
            let (element, dimensions) = field_type(names, of);
            (element, format!("[{count}]{dimensions}"))
        }
    }
}

/// The C type of a word.
pub fn word_type(names: &Names, of: &WordType) -> String {
    match of {
        WordType::Integer(integer) | WordType::Flags(_, integer) => integer.c().to_string(),
        WordType::Bool => "_Bool".to_string(),
        WordType::Enum(name) => names.small(name),
        WordType::Badge => "uint64_t".to_string(),
    }
}

/// A value as a word.
pub fn to_word(of: &WordType, value: &str) -> String {
    match of {
        WordType::Integer(integer) if integer.signed() => format!("(uint64_t)(int64_t){value}"),
        _ => value.to_string(),
    }
}

/// An expression that is true if a word is no value of the type; `None` if all are.
pub fn bad(interface: &Interface, of: &WordType, word: &str, check_bits: bool) -> Option<String> {
    match of {
        WordType::Integer(Integer::U64 | Integer::I64) | WordType::Badge => None,
        WordType::Integer(integer) if integer.signed() => Some(format!(
            "(int64_t){word} != ({})(int64_t){word}",
            integer.c()
        )),
        WordType::Integer(integer) => Some(format!("{word} != ({}){word}", integer.c())),
        WordType::Flags(group, integer) => {
            let all = interface.group(group).map_or(0, Group::all);
            match (check_bits, integer) {
                (true, _) => Some(format!("({word} & ~UINT64_C({all:#x})) != 0")),
                (false, Integer::U64) => None,
                (false, _) => Some(format!("{word} != ({}){word}", integer.c())),
            }
        }
        WordType::Bool => Some(format!("{word} > 1")),
        WordType::Enum(group) => {
            let members = interface.group(group).map_or(&[][..], |g| &g.members[..]);
            let each: Vec<String> = members
                .iter()
                .map(|m| format!("{word} != UINT64_C({})", m.value))
                .collect();
            Some(each.join(" && "))
        }
    }
}

/// A word, known to be good, as a value.
pub fn from_word(names: &Names, of: &WordType, word: &str) -> String {
    match of {
        WordType::Integer(Integer::U64) | WordType::Enum(_) | WordType::Badge => word.to_string(),
        WordType::Bool => format!("{word} != 0"),
        _ => format!("({}){word}", word_type(names, of)),
    }
}

/// The gate's flags of these names together.
pub fn c_flags(names: &[&str]) -> String {
    let flags: Vec<String> = names
        .iter()
        .map(|name| format!("CAIRN_FLAG_{name}"))
        .collect();
    flags.join(" | ")
}

/// The one part's bytes or structure.
pub fn is_structure(part: &Option<Part>) -> Option<(&str, &str)> {
    match part {
        Some(Part {
            name,
            of: PartType::Structure { name: of, .. },
            ..
        }) => Some((name, of)),
        _ => None,
    }
}

/// A part of bytes.
pub struct Bytes<'a> {
    pub name: &'a str,
    pub most: u64,
    /// A longer one is cut.
    pub cut: bool,
    pub pieces: u64,
    pub shown: bool,
}

pub fn is_bytes(part: &Option<Part>) -> Option<Bytes<'_>> {
    let part = part.as_ref()?;
    match part.of {
        PartType::Bytes { most, cut } => Some(Bytes {
            name: &part.name,
            most,
            cut,
            pieces: part.pieces,
            shown: part.shown != Shown::No,
        }),
        PartType::Structure { .. } => None,
    }
}
