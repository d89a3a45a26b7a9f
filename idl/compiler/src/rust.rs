//! Rust: one module per interface, with constants, structures, the client's stubs ([`crate::rust_client`]), the server's trait and dispatcher ([`crate::rust_server`]),
//! and the signatures. The code needs no allocation, forbids `unsafe` with its crate, and names nothing but `core` and `::cairn_idl::wire`.

use crate::model::*;
use crate::{rust_client, rust_server, show};
use std::fmt::Write;

/// What is written; writing to a `String` cannot fail.
pub struct Text(pub String);

impl Text {
    /// One line at this depth.
    pub fn line(&mut self, depth: usize, text: &str) {
        if text.is_empty() {
            self.0.push('\n');
        } else {
            let _ = writeln!(self.0, "{:1$}{text}", "", depth * 4);
        }
    }

    pub fn doc(&mut self, depth: usize, lines: &[String]) {
        for line in lines {
            self.line(depth, format!("/// {line}").trim_end());
        }
    }
}

/// The module.
pub fn module(interface: &Interface) -> String {
    let mut text = Text(String::new());
    text.doc(0, &interface.doc);
    text.line(0, "#[allow(clippy::too_many_arguments)]");
    text.line(0, &format!("pub mod {} {{", interface.name));
    for constant in &interface.constants {
        constant_line(&mut text, 1, constant);
    }
    for group in &interface.groups {
        self::group(&mut text, group);
    }
    for structure in &interface.structures {
        self::structure(&mut text, structure);
    }
    if !interface.operations.is_empty() {
        for operation in &interface.operations {
            text.doc(1, &operation.doc);
            text.line(1, "///");
            text.line(1, &format!("/// `{}`", show::signature(operation)));
            text.line(
                1,
                &format!("pub const {}: u64 = {};", operation.name, operation.number),
            );
        }
        for operation in &interface.operations {
            answer_structure(&mut text, operation);
        }
        rust_client::client(&mut text, interface);
        if !interface.by_hand {
            rust_server::server(&mut text, interface);
        }
        signatures(&mut text, interface);
    }
    text.line(0, "}");
    text.0
}

fn constant_line(text: &mut Text, depth: usize, constant: &Constant) {
    text.doc(depth, &constant.doc);
    let value = match &constant.written {
        Some(written) => written.clone(),
        None => constant.value.to_string(),
    };
    let of = constant.of.rust();
    text.line(
        depth,
        &format!("pub const {}: {of} = {value};", constant.name),
    );
}

fn group(text: &mut Text, group: &Group) {
    text.line(0, "");
    text.doc(1, &group.doc);
    if !group.exclusive {
        text.line(1, &format!("pub mod {} {{", group.name));
        for member in &group.members {
            constant_line(text, 2, member);
        }
        text.line(1, "}");
        return;
    }
    let name = camel(&group.name);
    text.line(
        1,
        "#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]",
    );
    text.line(1, "#[repr(u64)]");
    text.line(1, &format!("pub enum {name} {{"));
    for member in &group.members {
        text.doc(2, &member.doc);
        text.line(2, &format!("{} = {},", camel(&member.name), member.value));
    }
    text.line(1, "}");
    text.line(0, "");
    text.line(1, &format!("impl {name} {{"));
    text.line(2, "/// As it travels in a word.");
    text.line(2, "pub const fn word(self) -> u64 {");
    text.line(3, "self as u64");
    text.line(2, "}");
    text.line(0, "");
    text.line(2, "/// `None` for a word that means none of them.");
    text.line(
        2,
        &format!("pub const fn from_word(word: u64) -> Option<{name}> {{"),
    );
    text.line(3, "match word {");
    for member in &group.members {
        let variant = camel(&member.name);
        text.line(4, &format!("{} => Some({name}::{variant}),", member.value));
    }
    text.line(4, "_ => None,");
    text.line(3, "}");
    text.line(2, "}");
    text.line(1, "}");
}

fn field_type(of: &FieldType) -> String {
    match of {
        FieldType::Integer(integer) => integer.rust().to_string(),
        FieldType::Structure(name) => name.clone(),
        FieldType::Array(of, count) => format!("[{}; {count}]", field_type(of)),
    }
}

fn structure(text: &mut Text, structure: &Structure) {
    let name = &structure.name;
    text.line(0, "");
    text.doc(1, &structure.doc);
    let default = if structure.default { "Default, " } else { "" };
    text.line(
        1,
        &format!("#[derive(Clone, Copy, Debug, {default}PartialEq, Eq)]"),
    );
    text.line(1, "#[repr(C)]");
    text.line(1, &format!("pub struct {name} {{"));
    for field in &structure.fields {
        text.doc(2, &field.doc);
        text.line(
            2,
            &format!("pub {}: {},", field.name, field_type(&field.of)),
        );
    }
    text.line(1, "}");
    text.line(0, "");
    text.line(1, &format!("impl {name} {{"));
    text.line(2, "/// Bytes that it has in a part.");
    text.line(2, &format!("pub const BYTES: usize = {};", structure.bytes));
    text.line(0, "");
    text.line(2, "/// As it travels, little-endian.");
    text.line(2, "pub fn to_bytes(&self) -> [u8; Self::BYTES] {");
    text.line(3, "let mut bytes = [0; Self::BYTES];");
    for field in &structure.fields {
        encode(
            text,
            3,
            &field.of,
            &format!("self.{}", field.name),
            &field.offset.to_string(),
        );
    }
    text.line(3, "bytes");
    text.line(2, "}");
    text.line(0, "");
    text.line(
        2,
        "/// From what arrived. Every pattern of bytes is some value.",
    );
    text.line(
        2,
        &format!("pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> {name} {{"),
    );
    text.line(3, &format!("{name} {{"));
    for field in &structure.fields {
        let value = decode(&field.of, &field.offset.to_string());
        text.line(4, &format!("{}: {value},", field.name));
    }
    text.line(3, "}");
    text.line(2, "}");
    text.line(1, "}");
    text.line(
        1,
        &format!("const _: () = assert!(::core::mem::size_of::<{name}>() == {name}::BYTES);"),
    );
}

/// Store `value` at byte `offset` (an expression) of `bytes`.
fn encode(text: &mut Text, depth: usize, of: &FieldType, value: &str, offset: &str) {
    match of {
        FieldType::Integer(_) => text.line(
            depth,
            &format!("::cairn_idl::wire::put(&mut bytes, {offset}, &{value}.to_le_bytes());"),
        ),
        FieldType::Structure(_) => text.line(
            depth,
            &format!("::cairn_idl::wire::put(&mut bytes, {offset}, &{value}.to_bytes());"),
        ),
        FieldType::Array(of, _) if **of == FieldType::Integer(Integer::U8) => text.line(
            depth,
            &format!("::cairn_idl::wire::put(&mut bytes, {offset}, &{value});"),
        ),
        FieldType::Array(of, _) => {
            // Names of nested loops differ by their depth.
            let (i, each) = (format!("i{depth}"), format!("each{depth}"));
            text.line(
                depth,
                &format!("for ({i}, {each}) in {value}.iter().enumerate() {{"),
            );
            let step = step(of);
            encode(
                text,
                depth + 1,
                of,
                &each,
                &plus(offset, &format!("{i} * {step}")),
            );
            text.line(depth, "}");
        }
    }
}

/// A sum, as Rust text.
fn plus(offset: &str, more: &str) -> String {
    match offset {
        "0" => more.to_string(),
        _ => format!("{offset} + {more}"),
    }
}

/// Bytes of an array's element, as Rust text.
fn step(of: &FieldType) -> String {
    format!("::core::mem::size_of::<{}>()", field_type(of))
}

fn decode(of: &FieldType, offset: &str) -> String {
    match of {
        FieldType::Integer(integer) => format!(
            "{}::from_le_bytes(::cairn_idl::wire::take(bytes, {offset}))",
            integer.rust()
        ),
        FieldType::Structure(name) => {
            format!("{name}::from_bytes(&::cairn_idl::wire::take(bytes, {offset}))")
        }
        FieldType::Array(of, _) if **of == FieldType::Integer(Integer::U8) => {
            format!("::cairn_idl::wire::take(bytes, {offset})")
        }
        FieldType::Array(of, _) => {
            // An inner closure's `i` hides the outer one, so the place is worked out before.
            let inner = decode(of, "at");
            let step = step(of);
            let at = plus(offset, &format!("i * {step}"));
            format!("::core::array::from_fn(|i| {{ let at = {at}; {inner} }})")
        }
    }
}

/// The parameters that client and server have nearly alike: the request's words and portals. Pages are a slot to who gives them, and so is what the server knows by its badge.
pub fn request_parameters(operation: &Operation, server: bool) -> Vec<String> {
    let word = |word: &Word| match word.of {
        WordType::Badge if !server => format!("{}: u32", word.name),
        _ => format!("{}: {}", word.name, word_type(&word.of)),
    };
    let portal = |passed: &Portal| {
        let of = match passed.pages {
            Some(_) if server => "::cairn_idl::wire::Pages",
            _ => "u32",
        };
        match operation.request_portals_optional {
            true => format!("{}: Option<{of}>", passed.name),
            false => format!("{}: {of}", passed.name),
        }
    };
    let portals = operation.request_portals.iter().map(portal);
    operation.request.iter().map(word).chain(portals).collect()
}

/// The Rust type of a word.
pub fn word_type(of: &WordType) -> String {
    match of {
        WordType::Integer(integer) | WordType::Flags(_, integer) => integer.rust().to_string(),
        WordType::Bool => "bool".to_string(),
        WordType::Enum(name) => camel(name),
        WordType::Badge => "u64".to_string(),
    }
}

/// A value as a word.
pub fn to_word(of: &WordType, value: &str) -> String {
    match of {
        WordType::Integer(Integer::U64) | WordType::Flags(_, Integer::U64) => value.to_string(),
        WordType::Integer(Integer::I64) => format!("{value} as u64"),
        WordType::Integer(integer) if integer.signed() => format!("i64::from({value}) as u64"),
        WordType::Integer(_) | WordType::Flags(..) | WordType::Bool | WordType::Badge => {
            format!("u64::from({value})")
        }
        WordType::Enum(_) => format!("{value}.word()"),
    }
}

/// A word as a value: an `Option`, or `None` if every word is a value (`Ok` is the plain expression).
pub fn from_word(of: &WordType, word: &str) -> Result<String, String> {
    match of {
        WordType::Integer(Integer::U64) | WordType::Flags(_, Integer::U64) => Ok(word.to_string()),
        WordType::Integer(Integer::I64) => Ok(format!("{word} as i64")),
        WordType::Integer(integer) if integer.signed() => {
            Err(format!("{}::try_from({word} as i64).ok()", integer.rust()))
        }
        WordType::Integer(integer) | WordType::Flags(_, integer) => {
            Err(format!("{}::try_from({word}).ok()", integer.rust()))
        }
        WordType::Bool => Err(format!("::cairn_idl::wire::truth({word})")),
        WordType::Enum(name) => Err(format!("{}::from_word({word})", camel(name))),
        WordType::Badge => Ok(word.to_string()),
    }
}

/// The same for one that the nucleus has looked at, if there is less to do then.
pub fn from_asked(of: &WordType, word: &str) -> Option<String> {
    match of {
        WordType::Integer(Integer::U64 | Integer::I64) | WordType::Flags(_, Integer::U64) => None,
        WordType::Integer(integer) if integer.signed() => None,
        WordType::Integer(integer) | WordType::Flags(_, integer) => {
            Some(format!("{word} as {}", integer.rust()))
        }
        WordType::Bool => Some(format!("{word} != 0")),
        WordType::Enum(_) | WordType::Badge => None,
    }
}

/// What an answer has beside bytes of the in part: name, type.
pub fn results(operation: &Operation) -> Vec<(String, String)> {
    let words = operation
        .answer
        .iter()
        .map(|w| (w.name.clone(), word_type(&w.of)));
    let portals = operation
        .answer_portals
        .iter()
        .map(|p| (p.name.clone(), "::cairn_idl::wire::Given".to_string()));
    let structure = operation.input.iter().filter_map(|part| match &part.of {
        PartType::Structure { name, .. } => Some((part.name.clone(), name.clone())),
        PartType::Bytes { .. } => None,
    });
    words.chain(portals).chain(structure).collect()
}

/// The type of [`results`] together.
pub fn result_type(operation: &Operation) -> String {
    match results(operation).as_slice() {
        [] => "()".to_string(),
        [(_, of)] => of.clone(),
        _ => camel(&operation.name) + "Answer",
    }
}

/// The in part if it has bytes (and not a structure).
pub fn bytes_in(operation: &Operation) -> Option<&Part> {
    operation.input.as_ref().filter(|part| !part.is_structure())
}

fn answer_structure(text: &mut Text, operation: &Operation) {
    let results = results(operation);
    if results.len() < 2 {
        return;
    }
    text.line(0, "");
    text.line(1, &format!("/// What [`{}`] answers.", operation.name));
    text.line(1, "#[derive(Clone, Copy, Debug, PartialEq, Eq)]");
    text.line(
        1,
        &format!("pub struct {}Answer {{", camel(&operation.name)),
    );
    for (name, of) in results {
        text.line(2, &format!("pub {name}: {of},"));
    }
    text.line(1, "}");
}

fn terms(terms: Terms) -> String {
    format!(
        "::cairn_idl::wire::Terms {{ passing: ::cairn_idl::wire::Passing::{:?}, once: {}, not_further: {} }}",
        terms.passing, terms.once, terms.not_further
    )
}

fn part(part: &Option<Part>) -> String {
    let wire = "::cairn_idl::wire";
    let Some(part) = part else {
        return format!("{wire}::Part::NONE");
    };
    let length = match part.of {
        PartType::Bytes { cut: false, .. } => "Most",
        PartType::Bytes { cut: true, .. } => "First",
        PartType::Structure { .. } => "Exact",
    };
    format!(
        "{wire}::Part {{ length: {wire}::Length::{length}, most: {}, pieces: {}, shown: {wire}::Shown::{:?} }}",
        part.most(),
        part.pieces,
        part.shown
    )
}

/// Flags of the gate by their names, as Rust text.
pub fn flags(names: &[&str]) -> String {
    match names {
        [] => "0".to_string(),
        _ => {
            let flags: Vec<String> = names
                .iter()
                .map(|name| format!("::cairn_idl::wire::{name}"))
                .collect();
            flags.join(" | ")
        }
    }
}

fn signatures(text: &mut Text, interface: &Interface) {
    let count = interface.operations.len();
    text.line(0, "");
    text.line(
        1,
        "/// What each operation's messages look like, by number.",
    );
    text.line(
        1,
        &format!("pub static SIGNATURES: [::cairn_idl::wire::Signature; {count}] = ["),
    );
    for operation in &interface.operations {
        text.line(2, "::cairn_idl::wire::Signature {");
        let pages = |portals: &[Portal]| portals.iter().filter_map(|p| p.pages).max().unwrap_or(0);
        let errors: Vec<String> = operation
            .errors
            .iter()
            .map(|name| format!("::cairn_idl::errno::{name}"))
            .collect();
        let lines = [
            format!("name: \"{}\"", operation.name),
            format!("number: {}", operation.name),
            format!("words_in: {:#010b}", operation.words_in()),
            format!("words_out: {:#010b}", operation.words_out()),
            format!("out: {}", part(&operation.out)),
            format!("input: {}", part(&operation.input)),
            format!("portals_least: {}", operation.portals_least()),
            format!("portals_in: {}", operation.request_portals.len()),
            format!("portals_out: {}", operation.answer_portals.len()),
            format!("request: {}", terms(operation.request_terms)),
            format!("answer: {}", terms(operation.answer_terms)),
            format!("pages_in: {}", pages(&operation.request_portals)),
            format!("pages_out: {}", pages(&operation.answer_portals)),
            format!("flags: {}", flags(&operation.call_flags())),
            format!("badge: {:?}", operation.badge),
            format!("asked: {:?}", operation.asked(interface)),
            format!("errors: &[{}]", errors.join(", ")),
            format!("deferred: {}", operation.deferred),
            format!("interruptible: {}", operation.interruptible),
            format!("trust: ::cairn_idl::wire::Trust::{:?}", operation.trust),
            format!("float: ::cairn_idl::wire::Float::{:?}", operation.float),
        ];
        for line in lines {
            text.line(3, &(line + ","));
        }
        text.line(2, "},");
    }
    text.line(1, "];");
}
