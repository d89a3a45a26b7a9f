//! The client's side in C: `static inline` functions that make the message, call, and check what came back.

use crate::c::*;
use crate::model::*;

pub fn stub(text: &mut Text, names: &Names, operation: &Operation) {
    let mut parameters = vec!["cairn_portal to".to_string()];
    for word in &operation.request {
        let of = match word.of {
            WordType::Badge => "cairn_portal".to_string(),
            _ => word_type(names, &word.of),
        };
        parameters.push(format!("{of} {}", word.name));
    }
    for portal in &operation.request_portals {
        parameters.push(format!("cairn_portal {}", portal.name));
    }
    if let Some(Bytes { name, pieces, .. }) = is_bytes(&operation.out) {
        parameters.push(match pieces {
            1 => format!("const void *{name}, size_t {name}_length"),
            _ => format!("const struct cairn_bytes *{name}, size_t {name}_pieces"),
        });
    }
    if let Some((name, of)) = is_structure(&operation.out) {
        parameters.push(format!("const {} *{name}", names.structure(of)));
    }
    for word in &operation.answer {
        parameters.push(format!("{} *{}", word_type(names, &word.of), word.name));
    }
    for portal in &operation.answer_portals {
        parameters.push(format!("cairn_portal *{}", portal.name));
    }
    if let Some(Bytes { name, pieces, .. }) = is_bytes(&operation.input) {
        let length = match operation.length {
            Some(_) => format!(", size_t *{name}_length"),
            None => String::new(),
        };
        parameters.push(match pieces {
            1 => format!("void *{name}, size_t {name}_room{length}"),
            _ => format!("const struct cairn_room *{name}, size_t {name}_pieces{length}"),
        });
    }
    if let Some((name, of)) = is_structure(&operation.input) {
        parameters.push(format!("{} *{name}", names.structure(of)));
    }
    text.line(0, "");
    text.doc(0, &operation.doc);
    let name = names.small(&snake(&operation.name));
    text.line(
        0,
        &format!("static inline int64_t {name}({})", parameters.join(", ")),
    );
    text.line(0, "{");
    message(text, names, operation);
    answer(text, names, operation);
    text.line(1, "return 0;");
    text.line(0, "}");
}

fn message(text: &mut Text, names: &Names, operation: &Operation) {
    for part in [&operation.out, &operation.input] {
        if let Some(Bytes {
            name,
            pieces: most @ 2..,
            ..
        }) = is_bytes(part)
        {
            text.line(1, &format!("if ({name}_pieces > {most})"));
            text.line(2, "return CAIRN_GATE_FAILED(CAIRN_ERROR_BAD_ARGUMENT);");
        }
    }
    let mut words = vec!["0".to_string(); WORDS];
    words[0] = names.macro_(&operation.name);
    for word in &operation.request {
        words[word.word as usize] = to_word(&word.of, &word.name);
    }
    for portal in &operation.request_portals {
        words[portal.word as usize] = portal.name.clone();
    }
    text.line(1, "struct cairn_message message = {");
    text.line(2, &format!(".words = {{ {} }},", words.join(", ")));
    if let Some(Bytes { name, pieces, .. }) = is_bytes(&operation.out) {
        text.line(
            2,
            &match pieces {
                1 => format!(".out = {name}, .out_length = {name}_length,"),
                _ => format!(".out = {name}, .out_pieces = {name}_pieces,"),
            },
        );
    }
    if let Some((name, _)) = is_structure(&operation.out) {
        text.line(2, &format!(".out = {name}, .out_length = sizeof *{name},"));
    }
    if let Some(Bytes { name, pieces, .. }) = is_bytes(&operation.input) {
        text.line(
            2,
            &match pieces {
                1 => format!(".in = {name}, .in_length = {name}_room,"),
                _ => format!(".in = (void *){name}, .in_pieces = {name}_pieces,"),
            },
        );
    }
    if let Some((name, _)) = is_structure(&operation.input) {
        text.line(2, &format!(".in = {name}, .in_length = sizeof *{name},"));
    }
    match operation.request_portals.first() {
        None => {}
        Some(portal) if operation.request_portals_optional => {
            text.line(
                2,
                &format!(".portals = {} != CAIRN_NO_PORTAL,", portal.name),
            );
        }
        Some(_) => text.line(
            2,
            &format!(".portals = {},", operation.request_portals.len()),
        ),
    }
    let flags = operation.call_flags();
    if !flags.is_empty() {
        text.line(2, &format!(".flags = {},", c_flags(&flags)));
    }
    text.line(1, "};");
    let portals = operation.answer_portals.len();
    text.line(
        1,
        &format!("int64_t result = cairn_call_for(to, &message, {portals});"),
    );
    text.line(1, "if (result < 0)");
    text.line(2, "return result;");
}

fn answer(text: &mut Text, names: &Names, operation: &Operation) {
    let word = |n: u8| format!("message.words[{n}]");
    let nonsense = match operation.answer_portals.is_empty() {
        true => "return CAIRN_NONSENSE;",
        false => "return cairn_nonsense(&message);",
    };
    for result in &operation.answer {
        if let Some(bad) = bad(names.0, &result.of, &word(result.word), false) {
            text.line(1, &format!("if ({bad})"));
            text.line(2, nonsense);
        }
    }
    if let (Some(n), Some(Bytes { name, pieces, .. })) =
        (operation.length, is_bytes(&operation.input))
    {
        let room = match pieces {
            1 => format!("{name}_room"),
            _ => format!("cairn_room_of({name}, {name}_pieces)"),
        };
        text.line(1, &format!("if ({} > {room})", word(n)));
        text.line(2, nonsense);
        text.line(1, &format!("*{name}_length = {};", word(n)));
    }
    for result in &operation.answer {
        let value = from_word(names, &result.of, &word(result.word));
        text.line(1, &format!("*{} = {value};", result.name));
    }
    for portal in &operation.answer_portals {
        text.line(
            1,
            &format!("*{} = (cairn_portal){};", portal.name, word(portal.word)),
        );
    }
}
