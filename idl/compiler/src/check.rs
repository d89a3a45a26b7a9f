//! From what was written to what it means: values, places of words, and every rule that the gate has. All complaints are collected, so that one run tells all mistakes.

use crate::evaluate::Values;
use crate::model::*;
use crate::source::{At, Complaint};
use crate::syntax::{self, Item, Name, Placed};
use std::collections::{BTreeMap, BTreeSet};

mod names;
mod operation;

struct Checker<'a> {
    file: &'a syntax::File,
    errors: &'a BTreeSet<String>,
    values: Values,
    structures: BTreeMap<String, (u64, u64, bool)>,
    complaints: Vec<Complaint>,
}

/// The interface that `file` describes; `errors` are the names that `errors` clauses may use.
pub fn check(file: &syntax::File, errors: &BTreeSet<String>) -> Result<Interface, Vec<Complaint>> {
    let mut checker = Checker {
        file,
        errors,
        values: Values::default(),
        structures: BTreeMap::new(),
        complaints: Vec::new(),
    };
    let interface = checker.interface();
    if checker.complaints.is_empty() {
        Ok(interface)
    } else {
        checker.complaints.sort_by_key(|c| c.at.0);
        Err(checker.complaints)
    }
}

impl Checker<'_> {
    fn complain(&mut self, at: At, text: impl Into<String>) {
        self.complaints.push(Complaint::new(at, text));
    }

    fn interface(&mut self) -> Interface {
        let file = self.file;
        self.plain(&file.name);
        if file.name.value != snake(&file.name.value) {
            self.complain(file.name.at, "an interface's name is in small letters");
        }
        let mut interface = Interface {
            name: file.name.value.clone(),
            c_prefix: file
                .c_prefix
                .as_ref()
                .unwrap_or(&file.name)
                .value
                .to_ascii_lowercase(),
            doc: file.doc.clone(),
            by_hand: file.by_hand,
            constants: Vec::new(),
            groups: Vec::new(),
            structures: Vec::new(),
            operations: Vec::new(),
        };
        self.names();
        let trust = self.trust(file.trust.as_ref(), Trust::Server);
        let float = file.float.as_ref().and_then(|name| self.float(name));
        for item in &file.items {
            match item {
                Item::Constant(constant, of) => {
                    let of = self.integer(of);
                    interface.constants.extend(self.constant(constant, of));
                }
                Item::Group {
                    doc,
                    exclusive,
                    name,
                    base,
                    members,
                } => {
                    let group = self.group(doc, *exclusive, name, base.as_ref(), members);
                    interface.groups.push(group);
                }
                Item::Structure { doc, name, fields } => {
                    let structure = self.structure(doc, name, fields);
                    self.structures.insert(
                        structure.name.clone(),
                        (structure.bytes, structure.align, structure.default),
                    );
                    interface.structures.push(structure);
                }
                Item::Operation(_) => {}
            }
        }
        for item in &file.items {
            if let Item::Operation(operation) = item {
                let operation = self.operation(&interface, operation, trust, float);
                interface.operations.push(operation);
            }
        }
        self.numbers(&interface);
        interface.operations.sort_by_key(|o| o.number);
        interface
    }

    fn value(&mut self, expression: &Placed<syntax::Expression>) -> i128 {
        match self.values.value(expression) {
            Ok(value) => value,
            Err(complaint) => {
                self.complaints.push(complaint);
                0
            }
        }
    }

    fn integer(&mut self, of: &Placed<syntax::Type>) -> Integer {
        let known = match &of.value {
            syntax::Type::Named(name) => Integer::named(name),
            syntax::Type::Array(..) => None,
        };
        known.unwrap_or_else(|| {
            self.complain(
                of.at,
                "a constant is an integer: u8 to u64, i8 to i64, usize",
            );
            Integer::U64
        })
    }

    fn constant(&mut self, constant: &syntax::Constant, of: Integer) -> Option<Constant> {
        let value = self.value(&constant.value);
        let (least, most) = of.range();
        if value < least || value > most {
            self.complain(
                constant.value.at,
                format!("{value} does not fit into {}", of.rust()),
            );
            return None;
        }
        let written = match &constant.value.value {
            syntax::Expression::Number(_, text) => Some(text.clone()),
            _ => None,
        };
        Some(Constant {
            doc: constant.doc.clone(),
            name: constant.name.value.clone(),
            of,
            value,
            written,
        })
    }

    fn group(
        &mut self,
        doc: &[String],
        exclusive: bool,
        name: &Name,
        base: Option<&Name>,
        members: &[syntax::Constant],
    ) -> Group {
        let of = match base.map(|b| (b.at, Integer::named(&b.value))) {
            None => Integer::U64,
            Some((_, Some(of @ (Integer::U32 | Integer::U64)))) if !exclusive => of,
            Some((at, _)) => {
                self.complain(
                    at,
                    "flags are u32 or u64, and an enum is always a whole word",
                );
                Integer::U64
            }
        };
        let members: Vec<Constant> = members
            .iter()
            .filter_map(|member| self.constant(member, of))
            .collect();
        let mut values = BTreeSet::new();
        if members.is_empty() || (exclusive && !members.iter().all(|m| values.insert(m.value))) {
            self.complain(
                name.at,
                "a group has members, and those of an enum have different values",
            );
        }
        Group {
            doc: doc.to_vec(),
            name: name.value.clone(),
            exclusive,
            of,
            members,
        }
    }

    fn structure(&mut self, doc: &[String], name: &Name, fields: &[syntax::Field]) -> Structure {
        let mut structure = Structure {
            doc: doc.to_vec(),
            name: name.value.clone(),
            fields: Vec::new(),
            bytes: 0,
            align: 1,
            default: true,
        };
        let mut taken = BTreeSet::new();
        for field in fields {
            self.plain(&field.name);
            if !taken.insert(&field.name.value) {
                self.complain(
                    field.name.at,
                    format!("`{}` is there already", field.name.value),
                );
            }
            let (of, bytes, align, default) = self.field(&field.of);
            if !structure.bytes.is_multiple_of(align) {
                let gap = align - structure.bytes % align;
                let text = format!(
                    "before `{}` there would be {gap} bytes that nobody names: give them a name",
                    field.name.value
                );
                self.complain(field.name.at, text);
                structure.bytes += gap;
            }
            structure.fields.push(Field {
                doc: field.doc.clone(),
                name: field.name.value.clone(),
                of,
                offset: structure.bytes,
            });
            structure.bytes = structure.bytes.saturating_add(bytes);
            structure.align = structure.align.max(align);
            structure.default &= default;
        }
        if structure.bytes == 0
            || structure.bytes > 65536
            || !structure.bytes.is_multiple_of(structure.align)
        {
            let text = format!(
                "`{}` has {} bytes and an alignment of {}: 1 to 65,536 bytes are possible, in multiples of the alignment",
                name.value, structure.bytes, structure.align
            );
            self.complain(name.at, text);
        }
        structure
    }

    /// Meaning, bytes, alignment, whether it has a `Default`.
    fn field(&mut self, of: &Placed<syntax::Type>) -> (FieldType, u64, u64, bool) {
        match &of.value {
            syntax::Type::Named(name) => {
                if let Some(integer) = Integer::named(name).filter(|i| *i != Integer::Usize) {
                    let bytes = integer.bytes();
                    return (FieldType::Integer(integer), bytes, bytes, true);
                }
                match self.structures.get(name) {
                    Some(&(bytes, align, default)) => {
                        (FieldType::Structure(name.clone()), bytes, align, default)
                    }
                    None => {
                        self.complain(
                            of.at,
                            format!("`{name}` is no integer of a fixed size and no structure that stands before"),
                        );
                        (FieldType::Integer(Integer::U8), 1, 1, true)
                    }
                }
            }
            syntax::Type::Array(of, count) => {
                let (of, bytes, align, default) = self.field(of);
                let value = self.value(count);
                if !(1..=65536).contains(&value) {
                    self.complain(count.at, "an array has 1 to 65,536 elements");
                }
                let value = value.clamp(1, 65536) as u64;
                let whole = bytes.saturating_mul(value);
                let default = default && value <= 32;
                (FieldType::Array(Box::new(of), value), whole, align, default)
            }
        }
    }
}
