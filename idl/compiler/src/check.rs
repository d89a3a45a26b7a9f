//! From what was written to what it means: values, places of words, and every rule that the gate has. All complaints are collected, so that one run tells all mistakes.

use crate::evaluate::{Names, Values};
use crate::model::*;
use crate::source::{At, Complaint};
use crate::syntax::{self, Argument, Item, Name, Placed, Property};
use std::collections::{BTreeMap, BTreeSet};

/// Longest part: what one message may carry.
const PART_MOST: i128 = 64 << 20;
/// What an operation cannot be called, because a stub, a parameter or a member of that name would not compile in one of the languages.
const KEYWORDS: &str = "as async await break char const continue crate default do double dyn else enum extern false float fn for goto if impl in inline int let long loop match mod move mut pub ref \
    register restrict return self short signed sizeof static struct super switch trait true type typedef union unsafe unsigned use void volatile where while yield abstract become box final macro \
    override priv try typeof unsized virtual auto case caller server reply answer words message to w self room bytes u8 u16 u32 u64 i8 i16 i32 i64 usize isize str";

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
        let trust = self.trust(file.trust.as_ref(), Trust::None);
        let float = self.float(file.float.as_ref(), Float::Switched);
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

    /// What everything is called, so that no two things in the generated code have one name; and what expressions may name.
    fn names(&mut self) {
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

    fn plain(&mut self, name: &Name) {
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

    fn trust(&mut self, name: Option<&Name>, otherwise: Trust) -> Trust {
        let Some(name) = name else { return otherwise };
        match name.value.as_str() {
            "none" => Trust::None,
            "server" => Trust::Server,
            "client" => Trust::Client,
            "both" => Trust::Both,
            _ => {
                self.complain(
                    name.at,
                    "trust is none, server (the client trusts it), client or both",
                );
                otherwise
            }
        }
    }

    fn float(&mut self, name: Option<&Name>, otherwise: Float) -> Float {
        let Some(name) = name else { return otherwise };
        match name.value.as_str() {
            "kept" => Float::Kept,
            "switched" => Float::Switched,
            "cleared" => Float::Cleared,
            _ => {
                self.complain(name.at, "floating-point state is kept, switched or cleared");
                otherwise
            }
        }
    }

    fn numbers(&mut self, interface: &Interface) {
        let mut taken: BTreeMap<u64, &str> = BTreeMap::new();
        let places: Vec<(At, &str)> = self
            .file
            .items
            .iter()
            .filter_map(|item| match item {
                Item::Operation(o) => Some((o.number.at, o.name.value.as_str())),
                _ => None,
            })
            .collect();
        for (operation, (at, name)) in interface.operations.iter().zip(places) {
            if operation.number == 0 {
                self.complain(at, "an operation's number is 1 or more");
            } else if let Some(other) = taken.insert(operation.number, name) {
                self.complain(at, format!("{} is `{other}` already", operation.number));
            }
        }
    }

    fn operation(
        &mut self,
        interface: &Interface,
        source: &syntax::Operation,
        trust: Trust,
        float: Float,
    ) -> Operation {
        let number = self.value(&source.number);
        let mut operation = Operation {
            doc: source.doc.clone(),
            name: source.name.value.clone(),
            number: u64::try_from(number).unwrap_or(0),
            request: Vec::new(),
            answer: Vec::new(),
            request_portals: Vec::new(),
            request_passing: Passing::Copied,
            request_portals_optional: false,
            answer_portals: Vec::new(),
            answer_passing: Passing::Copied,
            out: None,
            input: None,
            length: None,
            errors: Vec::new(),
            badge: None,
            deferred: false,
            interruptible: false,
            trust,
            float,
        };
        let mut names = BTreeSet::new();
        self.arguments(interface, source, true, &mut names, &mut operation);
        self.arguments(interface, source, false, &mut names, &mut operation);
        operation.request.sort_by_key(|w| w.word);
        operation.answer.sort_by_key(|w| w.word);
        operation.request_portals.sort_by_key(|p| p.word);
        operation.answer_portals.sort_by_key(|p| p.word);
        self.last_words(&operation.request_portals, source);
        self.last_words(&operation.answer_portals, source);
        if operation.request_portals_optional && operation.request_portals.len() > 1 {
            self.complain(source.name.at, "only a single portal can be optional");
        }
        for property in &source.properties {
            self.property(property, &mut operation);
        }
        if operation.deferred
            && matches!(
                &operation.input,
                Some(Part {
                    of: PartType::Structure { .. },
                    ..
                })
            )
        {
            self.complain(
                source.name.at,
                "a deferred answer cannot have a structure: let it be bytes",
            );
        }
        if operation.float == Float::Kept && operation.trust != Trust::Both {
            self.complain(
                source.name.at,
                "floating-point state can be kept only where both sides trust each other (`trust both`)",
            );
        }
        operation
    }

    fn property(&mut self, property: &Property, operation: &mut Operation) {
        match property {
            Property::Errors(names) => {
                for name in names {
                    if !self.errors.contains(&name.value) {
                        self.complain(name.at, format!("`{}` is not in errno.idl", name.value));
                    }
                    operation.errors.push(name.value.clone());
                }
            }
            Property::Badge(value) => {
                let badge = self.value(value);
                operation.badge = u64::try_from(badge).ok();
            }
            Property::Deferred => operation.deferred = true,
            Property::Interruptible => operation.interruptible = true,
            Property::Trust(name) => operation.trust = self.trust(Some(name), operation.trust),
            Property::Float(name) => operation.float = self.float(Some(name), operation.float),
        }
    }

    /// Words of one direction must not be used twice; the gate takes portals from the last words only.
    fn arguments(
        &mut self,
        interface: &Interface,
        source: &syntax::Operation,
        request: bool,
        names: &mut BTreeSet<String>,
        into: &mut Operation,
    ) {
        let mut used = [false; WORDS];
        let mut passing: Option<Passing> = None;
        let arguments = if request {
            &source.request
        } else {
            &source.answer
        };
        for argument in arguments {
            let place = match argument {
                Argument::Word { word, .. }
                | Argument::Portal { word, .. }
                | Argument::Length { word, .. } => Some(word),
                Argument::Part { .. } => None,
            };
            if let Some(place) = place {
                if request && place.value == 0 {
                    self.complain(place.at, "w0 of a request is the operation's number");
                } else if core::mem::replace(&mut used[place.value as usize], true) {
                    self.complain(place.at, format!("w{} is used already", place.value));
                }
            }
            match argument {
                Argument::Word { word, name, of } => {
                    self.argument_name(name, request, names);
                    let of = self.word_type(interface, of);
                    if !request && word.value == 0 && signed(&of) {
                        self.complain(
                            word.at,
                            "w0 of an answer cannot be signed: negative values are errors",
                        );
                    }
                    let word = Word {
                        word: word.value,
                        name: name.value.clone(),
                        of,
                    };
                    match request {
                        true => into.request.push(word),
                        false => into.answer.push(word),
                    }
                }
                Argument::Portal {
                    word,
                    name,
                    moved,
                    minted,
                    optional,
                } => {
                    self.argument_name(name, request, names);
                    let how = match (moved, minted) {
                        (true, true) => {
                            self.complain(name.at, "a portal is moved or minted, not both");
                            Passing::Moved
                        }
                        (true, false) => Passing::Moved,
                        (false, true) => Passing::Minted,
                        (false, false) => Passing::Copied,
                    };
                    if request && *minted {
                        self.complain(name.at, "only an answer can mint portals");
                    }
                    if !request && *optional {
                        self.complain(
                            name.at,
                            "a caller cannot tell whether an answer's optional portal came",
                        );
                    }
                    if passing.replace(how).is_some_and(|other| other != how) {
                        self.complain(name.at, "all portals of one message travel in the same way");
                    }
                    let portal = Portal {
                        word: word.value,
                        name: name.value.clone(),
                    };
                    if request {
                        into.request_portals.push(portal);
                        into.request_passing = how;
                        into.request_portals_optional |= optional;
                    } else {
                        into.answer_portals.push(portal);
                        into.answer_passing = how;
                    }
                }
                Argument::Length { word, part } => {
                    let is_in = into.input.as_ref().is_some_and(|p| {
                        p.name == part.value && matches!(p.of, PartType::Bytes { .. })
                    });
                    if request || !is_in {
                        self.complain(
                            part.at,
                            "an answer has the length of the `in` part, which is bytes and stands in the request",
                        );
                    }
                    into.length = Some(word.value);
                }
                Argument::Part {
                    at,
                    into_caller,
                    name,
                    of,
                } => {
                    self.argument_name(name, request, names);
                    // What stubs call its length and room.
                    names.insert(format!("{}_length", name.value));
                    names.insert(format!("{}_room", name.value));
                    if !request {
                        self.complain(
                            *at,
                            "both parts stand with the request, which names the memory for them",
                        );
                    }
                    let of = self.part_type(of);
                    let slot = match into_caller {
                        true => &mut into.input,
                        false => &mut into.out,
                    };
                    let part = Part {
                        name: name.value.clone(),
                        of,
                    };
                    if slot.replace(part).is_some() {
                        self.complain(*at, "a message has one part in each direction");
                    }
                }
            }
        }
    }

    /// Request and answer share a stub's scope in C, so their names differ.
    fn argument_name(&mut self, name: &Name, request: bool, names: &mut BTreeSet<String>) {
        self.plain(name);
        if name.value != snake(&name.value) {
            self.complain(name.at, "names of arguments are in small letters");
        }
        if !names.insert(name.value.clone()) {
            let where_ = if request {
                ""
            } else {
                " in the request or answer"
            };
            self.complain(
                name.at,
                format!("`{}` is there already{where_}", name.value),
            );
        }
    }

    fn last_words(&mut self, portals: &[Portal], source: &syntax::Operation) {
        let first = WORDS - portals.len().min(WORDS);
        let right = portals
            .iter()
            .enumerate()
            .all(|(i, p)| p.word as usize == first + i);
        if !right || portals.len() > cairn_abi::MAX_PORTALS {
            self.complain(
                source.name.at,
                format!(
                    "portals travel in the last words: one in w7, two in w6 and w7; at most {}",
                    cairn_abi::MAX_PORTALS
                ),
            );
        }
    }

    fn part_type(&mut self, of: &syntax::PartType) -> PartType {
        match of {
            syntax::PartType::Bytes { most, cut } => {
                let value = self.value(most);
                if !(1..=PART_MOST).contains(&value) {
                    self.complain(most.at, "a part has at most 1 byte to 64 MiB");
                }
                PartType::Bytes {
                    most: value.clamp(1, PART_MOST) as u64,
                    cut: *cut,
                }
            }
            syntax::PartType::Structure(name) => {
                let bytes = self.structures.get(&name.value).map(|s| s.0);
                if bytes.is_none() {
                    self.complain(name.at, format!("there is no structure `{}`", name.value));
                }
                PartType::Structure {
                    name: name.value.clone(),
                    bytes: bytes.unwrap_or(1),
                }
            }
        }
    }

    fn word_type(&mut self, interface: &Interface, of: &Name) -> WordType {
        if of.value == "bool" {
            return WordType::Bool;
        }
        if let Some(integer) = Integer::named(&of.value).filter(|i| *i != Integer::Usize) {
            return WordType::Integer(integer);
        }
        match interface.group(&of.value) {
            Some(group) if group.exclusive => WordType::Enum(group.name.clone()),
            Some(group) => WordType::Flags(group.name.clone(), group.of),
            None => {
                self.complain(
                    of.at,
                    format!(
                        "`{}` is no type of a word: an integer of a fixed size, bool, portal, flags or an enum",
                        of.value
                    ),
                );
                WordType::Bool
            }
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

fn signed(of: &WordType) -> bool {
    matches!(of, WordType::Integer(integer) if integer.signed())
}
