//! Operations: every word in a place of its own, portals in the last ones, parts within bounds, policies that can be kept.

use super::Checker;
use crate::model::*;
use crate::source::At;
use crate::syntax::{self, Argument, Item, Name, Placed, Property};
use cairn_abi::layout;
use cairn_abi::service::receive;
use std::collections::{BTreeMap, BTreeSet};

/// Longest part: what one message may carry. As many bytes `vm` hands over at once.
const PART_MOST: i128 = 64 << 20;
/// Most pieces that a definition may cut a part into.
const PIECES_MOST: i128 = 64;

impl Checker<'_> {
    pub(super) fn trust(&mut self, name: Option<&Name>, otherwise: Trust) -> Trust {
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

    pub(super) fn float(&mut self, name: &Name) -> Option<Float> {
        match name.value.as_str() {
            "kept" => return Some(Float::Kept),
            "switched" => return Some(Float::Switched),
            "cleared" => self.complain(
                name.at,
                "there is nothing to clear: with `float switched` neither side finds the other's floating-point state",
            ),
            _ => self.complain(name.at, "floating-point state is kept or switched"),
        }
        None
    }

    pub(super) fn numbers(&mut self, interface: &Interface) {
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

    pub(super) fn operation(
        &mut self,
        interface: &Interface,
        source: &syntax::Operation,
        trust: Trust,
        mut float: Option<Float>,
    ) -> Operation {
        let number = self.value(&source.number);
        let mut operation = Operation {
            doc: source.doc.clone(),
            name: source.name.value.clone(),
            number: u64::try_from(number).unwrap_or(0),
            request: Vec::new(),
            answer: Vec::new(),
            request_portals: Vec::new(),
            request_terms: Terms::PLAIN,
            request_portals_optional: false,
            answer_portals: Vec::new(),
            answer_terms: Terms::PLAIN,
            out: None,
            input: None,
            length: None,
            errors: Vec::new(),
            badge: None,
            deferred: false,
            interruptible: false,
            trust,
            float: Float::Kept,
        };
        let mut names = BTreeSet::new();
        self.arguments(interface, source, true, &mut names, &mut operation);
        self.arguments(interface, source, false, &mut names, &mut operation);
        operation.request.sort_by_key(|w| w.word);
        operation.answer.sort_by_key(|w| w.word);
        operation.request_portals.sort_by_key(|p| p.word);
        operation.answer_portals.sort_by_key(|p| p.word);
        if operation.request.iter().any(|w| w.of == WordType::Badge)
            && !operation.request_portals.is_empty()
        {
            self.complain(source.name.at, "a request has portals or a badge, not both");
        }
        self.last_words(&operation.request_portals, source);
        self.last_words(&operation.answer_portals, source);
        if operation.request_portals_optional && operation.request_portals.len() > 1 {
            self.complain(source.name.at, "only a single portal can be optional");
        }
        for property in &source.properties {
            match property {
                Property::Float(name) => float = self.float(name),
                _ => self.property(property, &mut operation),
            }
        }
        if let (true, Some(part)) = (operation.deferred, &operation.input) {
            if part.is_structure() || part.pieces > 1 {
                self.complain(
                    source.name.at,
                    "a deferred answer cannot have a structure or pieces: let it be bytes",
                );
            }
        }
        self.views(source.name.at, &operation);
        // Only the client risks anything by what stays in the registers.
        let trusted = matches!(operation.trust, Trust::Server | Trust::Both);
        operation.float = match (float, trusted) {
            (Some(Float::Kept), false) => {
                self.complain(
                    source.name.at,
                    "floating-point state can be kept only where the client trusts the server (`trust server` or `trust both`)",
                );
                Float::Kept
            }
            (Some(said), _) => said,
            (None, true) => Float::Kept,
            (None, false) => Float::Switched,
        };
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
            // Decided with the trust.
            Property::Float(_) => {}
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
        let mut terms: Option<Terms> = None;
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
                    let of = match of.value == "badge" {
                        true => self.badge_word(word, request, into.number),
                        false => self.word_type(interface, of),
                    };
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
                    pages,
                    moved,
                    minted,
                    optional,
                    once,
                    not_further,
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
                    let how = Terms {
                        passing: how,
                        once: *once,
                        not_further: *not_further,
                    };
                    if *minted && (*once || *not_further) {
                        self.complain(
                            name.at,
                            "a portal that is minted has the rights of every new one",
                        );
                    }
                    if request && *minted {
                        self.complain(name.at, "only an answer can mint portals");
                    }
                    if pages.is_some() && *minted {
                        self.complain(
                            name.at,
                            "the portal for pages is `vm`'s: it can be moved, not minted",
                        );
                    }
                    let pages = pages.as_ref().map(|most| self.pages(most));
                    if !request && *optional {
                        self.complain(
                            name.at,
                            "only a request's portal can be optional: an answer has its own always",
                        );
                    }
                    if terms.replace(how).is_some_and(|other| other != how) {
                        self.complain(name.at, "all portals of one message travel in the same way");
                    }
                    let portal = Portal {
                        word: word.value,
                        name: name.value.clone(),
                        pages,
                    };
                    if request {
                        into.request_portals.push(portal);
                        into.request_terms = how;
                        into.request_portals_optional |= optional;
                    } else {
                        into.answer_portals.push(portal);
                        into.answer_terms = how;
                    }
                }
                Argument::Length { word, part } => {
                    let is_in = into
                        .input
                        .as_ref()
                        .is_some_and(|p| p.name == part.value && !p.is_structure());
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
                    pieces,
                    shown,
                    kept,
                } => {
                    self.argument_name(name, request, names);
                    // What stubs call its length and room.
                    names.insert(format!("{}_length", name.value));
                    names.insert(format!("{}_room", name.value));
                    names.insert(format!("{}_pieces", name.value));
                    names.insert(format!("{}_shown", name.value));
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
                    let pieces = pieces.as_ref().map_or(1, |most| self.pieces(most));
                    let shown = match (shown, kept) {
                        (false, _) => Shown::No,
                        (true, false) => Shown::Call,
                        (true, true) => Shown::Kept,
                    };
                    let mut part = Part {
                        name: name.value.clone(),
                        of,
                        pieces,
                        shown,
                    };
                    if part.is_structure() && (pieces > 1 || shown != Shown::No) {
                        self.complain(name.at, "only bytes come in pieces or are shown");
                        (part.pieces, part.shown) = (1, Shown::No);
                    }
                    if slot.replace(part).is_some() {
                        self.complain(*at, "a message has one part in each direction");
                    }
                }
            }
        }
    }

    fn pieces(&mut self, most: &syntax::Placed<syntax::Expression>) -> u64 {
        let value = self.value(most);
        if !(2..=PIECES_MOST).contains(&value) {
            self.complain(most.at, "a part comes in at most 2 to 64 pieces");
        }
        value.clamp(2, PIECES_MOST) as u64
    }

    fn pages(&mut self, most: &syntax::Placed<syntax::Expression>) -> u64 {
        let value = self.value(most);
        let page = i128::from(layout::PAGE);
        if !(page..=PART_MOST).contains(&value) || value % page != 0 {
            self.complain(most.at, "whole pages are given, at most 64 MiB of them");
        }
        value.clamp(page, PART_MOST) as u64
    }

    /// Windows are a matter of the whole call: who agrees that one part is shown agrees for the other one as well.
    fn views(&mut self, at: At, operation: &Operation) {
        let parts = [&operation.out, &operation.input].map(Option::as_ref);
        let both = parts
            .iter()
            .flatten()
            .map(|part| part.shown)
            .max_by_key(|shown| *shown as u8);
        let wanted = both.unwrap_or(Shown::No);
        for part in parts.into_iter().flatten() {
            if part.shown != Shown::No && part.pieces > 1 {
                self.complain(
                    at,
                    format!("`{}` comes in pieces, which no window shows", part.name),
                );
            } else if part.shown != Shown::No && part.most() < layout::PAGE {
                self.complain(
                    at,
                    format!("`{}` has no whole page that could be shown", part.name),
                );
            } else if part.shown != wanted && part.pieces == 1 && part.most() >= layout::PAGE {
                let text = format!(
                    "who lets one part be shown does so with both: `{}` would be as well, say so",
                    part.name
                );
                self.complain(at, text);
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

    /// The nucleus puts badges where the last portal of a message would be, in operations that a signature has room for.
    fn badge_word(&mut self, word: &Placed<u8>, request: bool, number: u64) -> WordType {
        if !request || word.value as usize != WORDS - 1 {
            self.complain(word.at, "a badge can only be w7 of a request");
        } else if number >= receive::OPERATIONS {
            let most = receive::OPERATIONS - 1;
            let text = format!("only an operation of number {most} or less can have a badge");
            self.complain(word.at, text);
        }
        WordType::Badge
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

fn signed(of: &WordType) -> bool {
    matches!(of, WordType::Integer(integer) if integer.signed())
}
