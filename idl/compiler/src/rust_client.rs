//! The client's side in Rust: a method for each operation that makes the message, calls, and checks what came back.

use crate::model::*;
use crate::rust::{
    bytes_in, flags, from_word, request_parameters, result_type, results, to_word, Text,
};

const WIRE: &str = "::cairn_idl::wire";

pub fn client(text: &mut Text, interface: &Interface) {
    text.line(0, "");
    text.line(
        1,
        "/// The client's side: calls through the portal that it holds.",
    );
    text.line(1, "#[derive(Clone, Copy, Debug)]");
    text.line(1, "pub struct Client<'t, T: ?Sized>(pub &'t T);");
    text.line(0, "");
    text.line(
        1,
        &format!("impl<T: {WIRE}::Transport + ?Sized> Client<'_, T> {{"),
    );
    for (i, operation) in interface.operations.iter().enumerate() {
        if i > 0 {
            text.line(0, "");
        }
        stub(text, operation);
    }
    text.line(1, "}");
}

/// What the caller gets: the results, and how much of the in part is filled.
fn returned(operation: &Operation) -> String {
    let result = result_type(operation);
    match (operation.length.is_some(), result.as_str()) {
        (false, _) => result,
        (true, "()") => "usize".to_string(),
        (true, _) => format!("({result}, usize)"),
    }
}

fn stub(text: &mut Text, operation: &Operation) {
    text.doc(2, &operation.doc);
    text.line(2, "#[inline]");
    let mut parameters = vec!["&self".to_string()];
    parameters.extend(request_parameters(operation, false));
    if let Some(part) = &operation.out {
        parameters.push(match &part.of {
            PartType::Bytes { .. } if part.pieces > 1 => format!("{}: &[&[u8]]", part.name),
            PartType::Bytes { .. } => format!("{}: &[u8]", part.name),
            PartType::Structure { name, .. } => format!("{}: &{name}", part.name),
        });
    }
    if let Some(part) = bytes_in(operation) {
        parameters.push(match part.pieces {
            1 => format!("{}: &mut [u8]", part.name),
            _ => format!("{}: &mut [&mut [u8]]", part.name),
        });
    }
    text.line(
        2,
        &format!(
            "pub fn {}({}) -> Result<{}, {WIRE}::Failure> {{",
            snake(&operation.name),
            parameters.join(", "),
            returned(operation)
        ),
    );
    message(text, operation);
    answer(text, operation);
    text.line(2, "}");
}

fn message(text: &mut Text, operation: &Operation) {
    let cut = |part: &&Part| part.pieces > 1;
    for part in operation.out.iter().chain(&operation.input).filter(cut) {
        text.line(
            3,
            &format!("{WIRE}::at_most({}.len(), {})?;", part.name, part.pieces),
        );
    }
    if let (Some(part), Some(_)) = (bytes_in(operation), operation.length) {
        let room = match part.pieces {
            1 => format!("{}.len()", part.name),
            _ => format!("{WIRE}::room({})", part.name),
        };
        text.line(3, &format!("let room = {room};"));
    }
    if let Some(Part {
        of: PartType::Structure { name, .. },
        ..
    }) = &operation.input
    {
        text.line(3, &format!("let mut bytes = [0; {name}::BYTES];"));
    }
    let mut words = vec!["0".to_string(); WORDS];
    words[0] = operation.name.clone();
    for word in &operation.request {
        words[word.word as usize] = to_word(&word.of, &word.name);
    }
    for passed in &operation.request_portals {
        words[passed.word as usize] = match operation.request_portals_optional {
            true => format!("{}.map_or(0, u64::from)", passed.name),
            false => format!("u64::from({})", passed.name),
        };
    }
    let out = match &operation.out {
        None => "&[]".to_string(),
        Some(part) => match &part.of {
            PartType::Bytes { .. } => part.name.clone(),
            PartType::Structure { .. } => format!("&{}.to_bytes()", part.name),
        },
    };
    let input = match (&operation.input, bytes_in(operation)) {
        (None, _) => "&mut []".to_string(),
        (Some(_), Some(part)) => part.name.clone(),
        (Some(_), None) => "&mut bytes".to_string(),
    };
    let portals = match operation.request_portals.first() {
        Some(passed) if operation.request_portals_optional => {
            format!("u64::from({}.is_some())", passed.name)
        }
        _ => operation.request_portals.len().to_string(),
    };
    // Without anything to look at in the answer its words have no name.
    let used = operation.results() > 0 || operation.length.is_some();
    let name = if used { "words" } else { "_" };
    let pieces = operation
        .out
        .iter()
        .chain(&operation.input)
        .any(|part| cut(&part));
    let call = if pieces { "call_pieces" } else { "call" };
    text.line(
        3,
        &format!("let {name} = {WIRE}::{call}(self.0, {WIRE}::Message {{"),
    );
    text.line(4, &format!("words: [{}],", words.join(", ")));
    if !pieces {
        text.line(4, &format!("out: {out},"));
        text.line(4, &format!("input: {input},"));
    }
    text.line(4, &format!("portals: {portals},"));
    text.line(4, &format!("flags: {},", flags(&operation.call_flags())));
    let expected = operation.answer_portals.len();
    if !pieces {
        text.line(3, &format!("}}, {expected})?;"));
        return;
    }
    // What is not in pieces is one.
    let out = match &operation.out {
        Some(part) if !cut(&part) => {
            let bytes = out.strip_prefix('&').unwrap_or(&out);
            format!("&[&{bytes}[..]]")
        }
        _ => out,
    };
    let input = match &operation.input {
        Some(part) if !cut(&part) => {
            let place = input.strip_prefix("&mut ").unwrap_or(&input);
            format!("&mut [&mut {place}[..]]")
        }
        _ => input,
    };
    text.line(4, &format!("..{WIRE}::Message::default()"));
    text.line(3, &format!("}}, {out}, {input}, {expected})?;"));
}

fn answer(text: &mut Text, operation: &Operation) {
    let mut values = Vec::new();
    // Can a word mean nothing?
    let mut fallible = operation.length.is_some();
    for word in &operation.answer {
        let value = match from_word(&word.of, &format!("words[{}]", word.word)) {
            Ok(value) => value,
            Err(option) => {
                fallible = true;
                format!("{option}?")
            }
        };
        values.push((word.name.clone(), value));
    }
    for portal in &operation.answer_portals {
        values.push((
            portal.name.clone(),
            format!("{WIRE}::Given(words[{}])", portal.word),
        ));
    }
    if let Some(Part {
        name,
        of: PartType::Structure { name: of, .. },
        ..
    }) = &operation.input
    {
        values.push((name.clone(), format!("{of}::from_bytes(&bytes)")));
    }
    debug_assert_eq!(values.len(), results(operation).len());
    let result = match values.as_slice() {
        [] => "()".to_string(),
        [(_, value)] => value.clone(),
        _ => {
            let fields: Vec<String> = values.iter().map(|(n, v)| format!("{n}: {v}")).collect();
            format!(
                "{}Answer {{ {} }}",
                camel(&operation.name),
                fields.join(", ")
            )
        }
    };
    let length = operation
        .length
        .map(|word| format!("{WIRE}::length(words[{word}], room)?"));
    let all = match (length, values.is_empty()) {
        (None, _) => result,
        (Some(length), true) => length,
        (Some(length), false) => format!("({result}, {length})"),
    };
    if !fallible {
        text.line(3, &format!("Ok({all})"));
        return;
    }
    let value = match all.strip_suffix('?') {
        // A single value that may fail is an option already.
        Some(option) if !option.contains('?') => option.to_string(),
        _ => {
            text.line(3, &format!("let answer = || Some({all});"));
            "answer()".to_string()
        }
    };
    let portals = operation.answer_portals.len();
    text.line(
        3,
        &format!("{WIRE}::or_close(self.0, words, {portals}, {value})"),
    );
}
