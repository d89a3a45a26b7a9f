//! The server's side in Rust: a trait with a method for each operation, and a dispatcher that decodes requests, refuses what is out of bounds, and encodes answers.

use crate::model::*;
use crate::rust::{
    bytes_in, flags, from_asked, from_word, request_parameters, result_type, results, to_word, Text,
};

const WIRE: &str = "::cairn_idl::wire";

pub fn server(text: &mut Text, interface: &Interface) {
    text.line(0, "");
    text.line(1, "/// The server's side. A method gets what was checked: numbers in their ranges, flags that are defined, parts within their bounds, as many portals as belong to the operation.");
    text.line(1, "/// A portal that arrived is the server's own if the method succeeds, and closed otherwise.");
    text.line(1, "pub trait Server {");
    for (i, operation) in interface.operations.iter().enumerate() {
        if i > 0 {
            text.line(0, "");
        }
        method(text, operation);
    }
    text.line(1, "}");
    for (at, operation) in interface.operations.iter().enumerate() {
        reply(text, operation, at);
    }
    for (at, operation) in interface.operations.iter().enumerate() {
        serve(text, interface, operation, at);
    }
    dispatch(text, interface);
}

/// What a method gives back: results and bytes for the in part.
fn given(operation: &Operation, lifetime: &str) -> String {
    let bytes = bytes_in(operation).map(|part| match part {
        Part {
            pieces: 1,
            shown: Shown::No,
            ..
        } => format!("&{lifetime}[u8]"),
        Part { pieces: 1, .. } => match lifetime {
            "" => format!("{WIRE}::Filled<'_>"),
            _ => format!("{WIRE}::Filled<'s>"),
        },
        Part { pieces, .. } => format!("[&{lifetime}[u8]; {pieces}]"),
    });
    with_result(operation, bytes)
}

/// What a reply is made of: of pieces, which went to the caller before, their length.
fn travelling(operation: &Operation) -> String {
    match bytes_in(operation) {
        Some(part) if part.pieces > 1 => with_result(operation, Some("usize".to_string())),
        Some(_) => given(operation, "'s "),
        None => given(operation, ""),
    }
}

fn with_result(operation: &Operation, bytes: Option<String>) -> String {
    let result = result_type(operation);
    match (bytes, result.as_str()) {
        (None, _) => result,
        (Some(bytes), "()") => bytes,
        (Some(bytes), _) => format!("({result}, {bytes})"),
    }
}

fn method(text: &mut Text, operation: &Operation) {
    text.doc(2, &operation.doc);
    let mut parameters = vec!["&mut self".to_string(), "caller: &C".to_string()];
    parameters.extend(request_parameters(operation, true));
    if let Some(part) = &operation.out {
        parameters.push(match &part.of {
            PartType::Bytes { .. } => format!("{}: {WIRE}::Out<'_, C>", part.name),
            PartType::Structure { name, .. } => format!("{}: {name}", part.name),
        });
    }
    if let Some(part) = bytes_in(operation) {
        parameters.push(match part.shown {
            Shown::No => format!("{}_room: usize", part.name),
            _ => format!("{}_room: {WIRE}::Room<'_, C>", part.name),
        });
    }
    let given = match operation.deferred {
        true => format!("Option<{}>", given(operation, "")),
        false => given(operation, ""),
    };
    text.line(
        2,
        &format!(
            "fn {}<C: {WIRE}::Caller>({}) -> Result<{given}, {WIRE}::Errno>;",
            snake(&operation.name),
            parameters.join(", ")
        ),
    );
}

/// The answer as a message; public because a deferred one is made later.
fn reply(text: &mut Text, operation: &Operation, at: usize) {
    let part = bytes_in(operation);
    let bytes = part.is_some();
    // Pieces went before: only how many bytes they were is told.
    let carried = part.is_some_and(|part| part.pieces == 1);
    let (generics, out) = match carried {
        true => ("<'s>", "<'s>"),
        false => ("", "<'static>"),
    };
    let of = travelling(operation);
    text.line(0, "");
    text.line(
        1,
        &format!("/// The answer to [`{}`] as it travels.", operation.name),
    );
    text.line(1, "#[inline]");
    text.line(
        1,
        &format!(
            "pub fn {}_reply{generics}(answer: Result<{of}, {WIRE}::Errno>) -> {WIRE}::Reply{out} {{",
            snake(&operation.name)
        ),
    );
    let results = results(operation);
    // The structure went to the caller before.
    let travelling = operation.results();
    let field = |name: &str| match results.len() {
        1 => "answer".to_string(),
        _ => format!("answer.{name}"),
    };
    let named = if carried || operation.length.is_some() {
        "bytes"
    } else {
        "_"
    };
    let pattern = match (bytes, travelling) {
        (false, 0) => "_".to_string(),
        (false, _) => "answer".to_string(),
        (true, 0) => named.to_string(),
        (true, _) => format!("(answer, {named})"),
    };
    let mut words = vec!["0".to_string(); WORDS];
    for word in &operation.answer {
        let value = to_word(&word.of, &field(&word.name));
        let wide = matches!(
            word.of,
            WordType::Integer(Integer::U64) | WordType::Flags(_, Integer::U64) | WordType::Enum(_)
        );
        words[word.word as usize] = match word.word == 0 && wide {
            true => format!("{WIRE}::result({value})"),
            false => value,
        };
    }
    for portal in &operation.answer_portals {
        words[portal.word as usize] = format!("{}.0", field(&portal.name));
    }
    if let Some(word) = operation.length {
        words[word as usize] = match carried {
            true => "bytes.len() as u64".to_string(),
            false => "bytes as u64".to_string(),
        };
    }
    let flags = flags(&operation.answer_terms.flags());
    let data = match part {
        Some(part) if carried && part.shown != Shown::No => "bytes.bytes()",
        Some(_) if carried => "bytes",
        _ => "&[]",
    };
    text.line(2, "match answer {");
    text.line(3, &format!("Ok({pattern}) => {WIRE}::Reply {{"));
    text.line(4, &format!("words: [{}],", words.join(", ")));
    text.line(4, &format!("data: {data},"));
    text.line(4, &format!("portals: {},", operation.answer_portals.len()));
    text.line(4, &format!("flags: {flags},"));
    text.line(3, "},");
    text.line(
        3,
        &format!("Err(errno) => {WIRE}::Reply::error({WIRE}::refusal(&SIGNATURES[{at}], errno)),"),
    );
    text.line(2, "}");
    text.line(1, "}");
}

fn serve(text: &mut Text, interface: &Interface, operation: &Operation, at: usize) {
    let name = snake(&operation.name);
    text.line(0, "");
    text.line(
        1,
        &format!(
            "fn serve_{name}<'s, S: Server + ?Sized, C: {WIRE}::Caller>(server: &'s mut S, caller: &C) -> Result<{WIRE}::Outcome<'s>, {WIRE}::Errno> {{"
        ),
    );
    let mut arguments = vec!["caller".to_string()];
    text.line(2, &format!("let signature = &SIGNATURES[{at}];"));
    text.line(2, &format!("{WIRE}::admit(signature, caller)?;"));
    if !operation.request.is_empty() || !operation.request_portals.is_empty() {
        text.line(2, "let w = caller.words();");
    }
    let asked = operation.asked(interface).is_some();
    if operation.request.iter().any(|w| w.of == WordType::Badge) {
        // Without the nucleus's word for it the last one is what the caller says.
        text.line(2, "if !C::SIGNED {");
        text.line(3, &format!("return Err({WIRE}::ENOSYS);"));
        text.line(2, "}");
    }
    for word in &operation.request {
        let place = format!("w[{}]", word.word);
        let value = match from_word(&word.of, &place) {
            Ok(value) => value,
            Err(option) => {
                let looked = format!("{option}.ok_or({WIRE}::EINVAL)?");
                match from_asked(&word.of, &place).filter(|_| asked) {
                    Some(short) => {
                        format!("if C::SIGNED {{ {short} }} else {{ {looked} }}")
                    }
                    None => looked,
                }
            }
        };
        text.line(2, &format!("let {} = {value};", word.name));
        if let WordType::Flags(group, _) = &word.of {
            let all = interface.group(group).map_or(0, Group::all);
            let value = to_word(&word.of, &word.name);
            let only = format!("{WIRE}::only({value}, {all})?;");
            // A number that is at most all bits has no others if they follow each other.
            match asked && (all + 1) & all == 0 {
                true => {
                    text.line(2, "if !C::SIGNED {");
                    text.line(3, &only);
                    text.line(2, "}");
                }
                false => text.line(2, &only),
            }
        }
        arguments.push(word.name.clone());
    }
    for passed in &operation.request_portals {
        let slot = format!("w[{}] as u32", passed.word);
        let value = match passed.pages {
            None => slot,
            Some(most) => format!("{WIRE}::Pages {{ slot: {slot}, most: {most} }}"),
        };
        let value = match operation.request_portals_optional {
            true => format!("(caller.portals() > 0).then_some({value})"),
            false => value,
        };
        text.line(2, &format!("let {} = {value};", passed.name));
        arguments.push(passed.name.clone());
    }
    if let Some(part) = &operation.out {
        match &part.of {
            PartType::Bytes { .. } => {
                text.line(
                    2,
                    &format!(
                        "let {} = {WIRE}::Out::of(caller, &signature.out);",
                        part.name
                    ),
                );
            }
            PartType::Structure { name, .. } => {
                text.line(
                    2,
                    &format!(
                        "let {} = {name}::from_bytes(&{WIRE}::structure(caller)?);",
                        part.name
                    ),
                );
            }
        }
        arguments.push(part.name.clone());
    }
    if let Some(part) = bytes_in(operation) {
        text.line(2, "let room = caller.in_len().min(signature.input.most);");
        arguments.push(match part.shown {
            Shown::No => "room".to_string(),
            _ => format!("{WIRE}::Room::of(caller, &signature.input)"),
        });
    }
    let call = format!("server.{name}({})?", arguments.join(", "));
    if operation.deferred {
        text.line(2, &format!("let Some(answer) = {call} else {{"));
        text.line(3, &format!("return Ok({WIRE}::Outcome::Later);"));
        text.line(2, "};");
    } else {
        let unit = given(operation, "") == "()";
        text.line(
            2,
            &match unit {
                true => format!("{call};"),
                false => format!("let answer = {call};"),
            },
        );
    }
    if let Some(part) = bytes_in(operation) {
        let alone = result_type(operation) == "()";
        let bytes = if alone { "answer" } else { "answer.1" };
        let bytes = match (part.shown, part.pieces) {
            (Shown::No, 1) => format!("{WIRE}::within({bytes}, room)"),
            (Shown::No, _) => format!("{WIRE}::deliver_pieces(caller, {bytes}, room)?"),
            _ => format!("{bytes}.within(room)"),
        };
        text.line(
            2,
            &match alone {
                true => format!("let answer = {bytes};"),
                false => format!("let answer = (answer.0, {bytes});"),
            },
        );
    }
    if let Some(Part {
        name: part,
        of: PartType::Structure { .. },
        ..
    }) = &operation.input
    {
        let value = match results(operation).len() {
            1 => "answer".to_string(),
            _ => format!("answer.{part}"),
        };
        text.line(
            2,
            &format!("{WIRE}::deliver(caller, &{value}.to_bytes())?;"),
        );
    }
    let answer = match given(operation, "") == "()" && !operation.deferred {
        true => "()",
        false => "answer",
    };
    text.line(
        2,
        &format!("Ok({WIRE}::Outcome::Reply({name}_reply(Ok({answer}))))"),
    );
    text.line(1, "}");
}

fn dispatch(text: &mut Text, interface: &Interface) {
    text.line(0, "");
    text.line(1, "/// Decode a request, let the server do it, encode the answer. Unknown operations are ENOSYS, and what has not the operation's shape ([`SIGNATURES`]) is refused; portals that nobody took are closed.");
    text.line(
        1,
        &format!("pub fn dispatch<'s, S: Server + ?Sized, C: {WIRE}::Caller>(server: &'s mut S, caller: &C) -> {WIRE}::Outcome<'s> {{"),
    );
    text.line(2, "let (done, signature) = match caller.words()[0] {");
    for (at, operation) in interface.operations.iter().enumerate() {
        text.line(
            3,
            &format!(
                "{} => (serve_{}(server, caller), Some(&SIGNATURES[{at}])),",
                operation.name,
                snake(&operation.name),
            ),
        );
    }
    text.line(3, &format!("_ => (Err({WIRE}::ENOSYS), None),"));
    text.line(2, "};");
    text.line(2, &format!("{WIRE}::finish(caller, done, signature)"));
    text.line(1, "}");
}
