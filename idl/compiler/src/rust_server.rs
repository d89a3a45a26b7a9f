//! The server's side in Rust: a trait with a method for each operation, and a dispatcher that decodes requests, refuses what is out of bounds, and encodes answers.

use crate::model::*;
use crate::rust::{bytes_in, from_word, request_parameters, result_type, results, to_word, Text};

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
    for operation in &interface.operations {
        reply(text, operation);
    }
    for operation in &interface.operations {
        serve(text, interface, operation);
    }
    dispatch(text, interface);
}

/// What a method gives back: results and bytes for the in part.
fn given(operation: &Operation, lifetime: &str) -> String {
    let result = result_type(operation);
    match (bytes_in(operation).is_some(), result.as_str()) {
        (false, _) => result,
        (true, "()") => format!("&{lifetime}[u8]"),
        (true, _) => format!("({result}, &{lifetime}[u8])"),
    }
}

fn method(text: &mut Text, operation: &Operation) {
    text.doc(2, &operation.doc);
    let mut parameters = vec!["&mut self".to_string(), "caller: &C".to_string()];
    parameters.extend(request_parameters(operation));
    if let Some(part) = &operation.out {
        parameters.push(match &part.of {
            PartType::Bytes { .. } => format!("{}: {WIRE}::Out<'_, C>", part.name),
            PartType::Structure { name, .. } => format!("{}: {name}", part.name),
        });
    }
    if let Some((part, _)) = bytes_in(operation) {
        parameters.push(format!("{}_room: usize", part.name));
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
fn reply(text: &mut Text, operation: &Operation) {
    let bytes = bytes_in(operation).is_some();
    let (lifetime, out) = match bytes {
        true => ("'s ", "<'s>"),
        false => ("", "<'static>"),
    };
    let of = given(operation, lifetime);
    let generics = if bytes { "<'s>" } else { "" };
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
    let pattern = match (bytes, travelling) {
        (false, 0) => "_",
        (false, _) => "answer",
        (true, 0) => "bytes",
        (true, _) => "(answer, bytes)",
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
        words[word as usize] = "bytes.len() as u64".to_string();
    }
    let flags: Vec<String> = (operation.answer_terms.flags().iter())
        .map(|flag| format!("{WIRE}::{flag}"))
        .collect();
    let flags = match flags.is_empty() {
        true => "0".to_string(),
        false => flags.join(" | "),
    };
    text.line(2, "match answer {");
    text.line(3, &format!("Ok({pattern}) => {WIRE}::Reply {{"));
    text.line(4, &format!("words: [{}],", words.join(", ")));
    text.line(
        4,
        &format!("data: {},", if bytes { "bytes" } else { "&[]" }),
    );
    text.line(4, &format!("portals: {},", operation.answer_portals.len()));
    text.line(4, &format!("flags: {flags},"));
    text.line(3, "},");
    text.line(3, &format!("Err(errno) => {WIRE}::Reply::error(errno),"));
    text.line(2, "}");
    text.line(1, "}");
}

fn serve(text: &mut Text, interface: &Interface, operation: &Operation) {
    let name = snake(&operation.name);
    text.line(0, "");
    text.line(
        1,
        &format!(
            "fn serve_{name}<'s, S: Server + ?Sized, C: {WIRE}::Caller>(server: &'s mut S, caller: &C) -> Result<{WIRE}::Outcome<'s>, {WIRE}::Errno> {{"
        ),
    );
    let mut arguments = vec!["caller".to_string()];
    if let Some(badge) = operation.badge {
        text.line(2, &format!("{WIRE}::needs_badge(caller, {badge})?;"));
    }
    let portals = operation.request_portals.len();
    if portals > 0 && !operation.request_portals_optional {
        text.line(2, &format!("{WIRE}::needs_portals(caller, {portals})?;"));
    }
    if !operation.request.is_empty() || portals > 0 {
        text.line(2, "let w = caller.words();");
    }
    for word in &operation.request {
        let value = match from_word(&word.of, &format!("w[{}]", word.word)) {
            Ok(value) => value,
            Err(option) => format!("{option}.ok_or({WIRE}::EINVAL)?"),
        };
        text.line(2, &format!("let {} = {value};", word.name));
        if let WordType::Flags(group, _) = &word.of {
            let all = interface.group(group).map_or(0, Group::all);
            let value = to_word(&word.of, &word.name);
            text.line(2, &format!("{WIRE}::only({value}, {all})?;"));
        }
        arguments.push(word.name.clone());
    }
    for passed in &operation.request_portals {
        let value = match operation.request_portals_optional {
            true => format!(
                "(caller.portals() > 0).then_some(w[{}] as u32)",
                passed.word
            ),
            false => format!("w[{}] as u32", passed.word),
        };
        text.line(2, &format!("let {} = {value};", passed.name));
        arguments.push(passed.name.clone());
    }
    if let Some(part) = &operation.out {
        match &part.of {
            PartType::Bytes { most, cut } => {
                let how = if *cut { "first" } else { "whole" };
                text.line(
                    2,
                    &format!("let {} = {WIRE}::Out::{how}(caller, {most})?;", part.name),
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
    if let Some((_, most)) = bytes_in(operation) {
        text.line(2, &format!("let room = caller.in_len().min({most});"));
        arguments.push("room".to_string());
    }
    if let Some(Part {
        of: PartType::Structure { name, .. },
        ..
    }) = &operation.input
    {
        text.line(2, &format!("{WIRE}::needs_room(caller, {name}::BYTES)?;"));
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
    if bytes_in(operation).is_some() {
        text.line(
            2,
            &match result_type(operation).as_str() {
                "()" => format!("let answer = {WIRE}::within(answer, room);"),
                _ => format!("let answer = (answer.0, {WIRE}::within(answer.1, room));"),
            },
        );
    }
    if let Some(Part {
        name: part,
        of: PartType::Structure { .. },
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
    text.line(1, "/// Decode a request, let the server do it, encode the answer. Unknown operations are ENOSYS. Portals that do not belong to the operation are closed.");
    text.line(
        1,
        &format!("pub fn dispatch<'s, S: Server + ?Sized, C: {WIRE}::Caller>(server: &'s mut S, caller: &C) -> {WIRE}::Outcome<'s> {{"),
    );
    text.line(2, "let (done, asked) = match caller.words()[0] {");
    for operation in &interface.operations {
        text.line(
            3,
            &format!(
                "{} => (serve_{}(server, caller), {}),",
                operation.name,
                snake(&operation.name),
                operation.request_portals.len()
            ),
        );
    }
    text.line(3, &format!("_ => (Err({WIRE}::ENOSYS), 0),"));
    text.line(2, "};");
    text.line(2, &format!("{WIRE}::finish(caller, done, asked)"));
    text.line(1, "}");
}
