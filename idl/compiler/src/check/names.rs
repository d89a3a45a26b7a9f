//! What everything is called: no two things of one name in the generated code, none that means something else there.

use super::Checker;
use crate::evaluate::Names;
use crate::model::{camel, snake};
use crate::syntax::{Item, Name};
use std::collections::{BTreeMap, BTreeSet};

/// What an operation cannot be called, because a stub, a parameter or a member of that name would not compile in one of the languages.
const KEYWORDS: &str = "as async await break char const continue crate default do double dyn else enum extern false float fn for goto if impl in inline int let long loop match mod move mut pub ref \
    register restrict return self short signed sizeof static struct super switch trait true type typedef union unsafe unsigned use void volatile where while yield abstract become box final macro \
    override priv try typeof unsized virtual auto case caller server reply answer words message to w self room bytes signature u8 u16 u32 u64 i8 i16 i32 i64 usize isize str";

impl Checker<'_> {
    /// What everything is called, so that no two things in the generated code have one name; and what expressions may name.
    pub(super) fn names(&mut self) {
        let mut taken: BTreeMap<String, &str> = BTreeMap::new();
        let reserved = [
            "Client",
            "Server",
            "SIGNATURES",
            "dispatch",
            "core",
            "wire",
            "cairn_idl",
            "Option",
            "Result",
            "Some",
            "None",
            "Ok",
            "Err",
            "C",
            "S",
            "T",
            "c:DISPATCH",
            "c:dispatch",
        ];
        for name in reserved {
            taken.insert(name.into(), "is what the generated code calls its own");
        }
        let mut names = Names::default();
        let file = self.file;
        for item in &file.items {
            let (name, mut made) = match item {
                Item::Constant(constant, _) => {
                    names.constant(&constant.name.value, &constant.value);
                    (&constant.name, vec![constant.name.value.clone()])
                }
                Item::Group {
                    name,
                    members,
                    exclusive,
                    ..
                } => {
                    let mut before = BTreeSet::new();
                    for member in members {
                        self.capitals(&member.name);
                        names.member(&name.value, &member.name.value, &member.value);
                        let variant = camel(&member.name.value);
                        if variant == "Self" || !before.insert(variant) {
                            self.complain(
                                member.name.at,
                                format!("`{}` is there already", member.name.value),
                            );
                        }
                    }
                    let made = match exclusive {
                        true => camel(&name.value),
                        false => name.value.clone(),
                    };
                    (name, vec![made])
                }
                Item::Structure { name, .. } => (name, vec![name.value.clone()]),
                Item::Operation(operation) => {
                    names.constant(&operation.name.value, &operation.number);
                    let answer = camel(&operation.name.value) + "Answer";
                    let reply = snake(&operation.name.value) + "_reply";
                    let serve = "serve_".to_string() + &snake(&operation.name.value);
                    let made = vec![operation.name.value.clone(), answer, reply, serve];
                    (&operation.name, made)
                }
            };
            match item {
                Item::Constant(..) => self.capitals(name),
                Item::Structure { .. } => {
                    self.plain(name);
                    if name.value.contains('_')
                        || !name.value.starts_with(|c: char| c.is_ascii_uppercase())
                    {
                        self.complain(name.at, "a structure's name is LikeThis");
                    }
                }
                Item::Operation(_) => {
                    self.plain(name);
                    self.capitals(name);
                }
                Item::Group { .. } => {
                    self.plain(name);
                    if name.value != snake(&name.value) {
                        self.complain(name.at, "a group's name is in small letters");
                    }
                }
            }
            for made in made.drain(..).chain(in_c(item)) {
                if let Some(what) = taken.insert(made.clone(), "is there already") {
                    let text = match made.strip_prefix("c:") {
                        Some(made) => format!("`{made}` {what} (in C)"),
                        None => format!("`{made}` {what}"),
                    };
                    self.complain(name.at, text);
                }
            }
        }
        let (values, complaints) = names.evaluate();
        self.values = values;
        self.complaints.extend(complaints);
    }

    pub(super) fn plain(&mut self, name: &Name) {
        let plain = name.value.starts_with(|c: char| c.is_ascii_alphabetic());
        if !plain || KEYWORDS.split_whitespace().any(|k| k == snake(&name.value)) {
            self.complain(
                name.at,
                format!("`{}` would mean something else in Rust or C", name.value),
            );
        }
    }

    fn capitals(&mut self, name: &Name) {
        let right = name.value.starts_with(|c: char| c.is_ascii_alphabetic())
            && name.value == name.value.to_ascii_uppercase();
        if !right {
            let text = format!("`{}` would be a constant, so it is in capitals", name.value);
            self.complain(name.at, text);
        }
    }
}

/// What an item is called in C, behind the interface's prefix; macros, functions and types are kept apart from Rust's names.
fn in_c(item: &Item) -> Vec<String> {
    match item {
        Item::Constant(constant, _) => vec![format!("c:{}", constant.name.value)],
        Item::Group {
            name,
            members,
            exclusive,
            ..
        } => {
            let group = name.value.to_ascii_uppercase();
            let members = members
                .iter()
                .map(|m| format!("c:{group}_{}", m.name.value));
            let itself = exclusive.then(|| format!("c:{}", name.value));
            members.chain(itself).collect()
        }
        Item::Structure { .. } => Vec::new(),
        Item::Operation(operation) => {
            let name = snake(&operation.name.value);
            vec![
                format!("c:{}", operation.name.value),
                format!("c:{name}"),
                format!("c:serve_{name}"),
                format!("c:{name}_reply"),
            ]
        }
    }
}
