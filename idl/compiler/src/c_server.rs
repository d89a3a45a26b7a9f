//! The server's side in C: a structure of functions, one for each operation, and a dispatcher that decodes requests, refuses what is out of bounds, and encodes answers.

use crate::c::*;
use crate::model::*;

pub fn server(text: &mut Text, names: &Names, interface: &Interface) {
    let server = names.small("server");
    text.line(0, "");
    text.line(0, "// The server's side: a function for each operation; one that is missing (0) is answered with ENOSYS. A function gets what was checked, fills in the results and returns 0");
    text.line(0, "// or a negative error number; that of a deferred operation may return CAIRN_LATER and answer by the caller's token some time.");
    text.line(0, "// A portal that arrived is the server's own if the function succeeds, and closed otherwise.");
    text.line(0, &format!("struct {server} {{"));
    for operation in &interface.operations {
        text.doc(1, &operation.doc);
        text.line(
            1,
            &format!(
                "int64_t (*{})({});",
                snake(&operation.name),
                parameters(names, operation).join(", ")
            ),
        );
    }
    text.line(0, "};");
    for operation in &interface.operations {
        reply(text, names, operation);
        serve(text, names, operation);
    }
    dispatch(text, names, interface);
    signature(text, names, interface);
}

/// What the nucleus asks of calls, for `cairn_serve`.
fn signature(text: &mut Text, names: &Names, interface: &Interface) {
    let asked = |operation: &Operation| operation.asked(interface);
    let lines: Vec<_> = interface.operations.iter().filter_map(asked).collect();
    let name = names.small("signature");
    text.line(0, "");
    text.line(
        0,
        "// What the nucleus is to ask of each operation's calls.",
    );
    text.line(
        0,
        &format!("static const struct cairn_signature {name} = {{"),
    );
    let switched = |operation: &Operation| operation.float == Float::Switched;
    if interface.operations.iter().any(switched) {
        text.line(1, ".switched = 1,");
    }
    text.line(1, &format!(".count = {},", lines.len()));
    if !lines.is_empty() {
        text.line(1, ".lines = (const uint64_t[][8]){");
        for line in &lines {
            let words: Vec<String> = line
                .iter()
                .map(|word| match *word {
                    u64::MAX => "UINT64_MAX".to_string(),
                    word => format!("UINT64_C({word:#x})"),
                })
                .collect();
            text.line(2, &format!("{{ {} }},", words.join(", ")));
        }
        text.line(1, "},");
    }
    text.line(0, "};");
}

fn parameters(names: &Names, operation: &Operation) -> Vec<String> {
    let mut all = vec![
        "void *self".to_string(),
        "const struct cairn_caller *caller".to_string(),
    ];
    for word in &operation.request {
        all.push(format!("{} {}", word_type(names, &word.of), word.name));
    }
    for portal in &operation.request_portals {
        all.push(format!("cairn_portal {}", portal.name));
    }
    if let Some(Bytes { name, .. }) = is_bytes(&operation.out) {
        all.push(format!("size_t {name}_length"));
    }
    if let Some((name, of)) = is_structure(&operation.out) {
        all.push(format!("const {} *{name}", names.structure(of)));
    }
    all.extend(results(names, operation, true));
    if let Some((name, of)) = is_structure(&operation.input) {
        all.push(format!("{} *{name}", names.structure(of)));
    }
    if let Some(Bytes { name, pieces, .. }) = is_bytes(&operation.input) {
        all.push(match pieces {
            1 => format!("size_t {name}_room, struct cairn_bytes *{name}"),
            _ => format!("size_t {name}_room, struct cairn_bytes {name}[{pieces}]"),
        });
    }
    all
}

/// Words and portals of the answer, as pointers to fill in or as values.
fn results(names: &Names, operation: &Operation, pointers: bool) -> Vec<String> {
    let star = if pointers { "*" } else { "" };
    let words = operation
        .answer
        .iter()
        .map(|w| format!("{} {star}{}", word_type(names, &w.of), w.name));
    let portals = operation
        .answer_portals
        .iter()
        .map(|p| format!("uint64_t {star}{}", p.name));
    words.chain(portals).collect()
}

/// The answer as it travels; also for a deferred one, later.
fn reply(text: &mut Text, names: &Names, operation: &Operation) {
    let mut parameters = vec!["struct cairn_reply *reply".to_string()];
    parameters.extend(results(names, operation, false));
    let bytes = is_bytes(&operation.input);
    // Pieces went to the caller before: only how many bytes they were is told.
    if let Some(Bytes { name, pieces, .. }) = bytes {
        parameters.push(match pieces {
            1 => format!("struct cairn_bytes {name}"),
            _ => format!("size_t {name}_length"),
        });
    }
    text.line(0, "");
    let name = names.small(&snake(&operation.name));
    text.line(
        0,
        &format!("static inline void {name}_reply({})", parameters.join(", ")),
    );
    text.line(0, "{");
    let mut words = vec!["0".to_string(); WORDS];
    for word in &operation.answer {
        let value = to_word(&word.of, &word.name);
        words[word.word as usize] = match word.word {
            0 => format!("cairn_result({value})"),
            _ => value,
        };
    }
    for portal in &operation.answer_portals {
        words[portal.word as usize] = portal.name.clone();
    }
    if let (Some(word), Some(Bytes { name, pieces, .. })) = (&operation.length, &bytes) {
        words[*word as usize] = match pieces {
            1 => format!("{name}.length"),
            _ => format!("{name}_length"),
        };
    }
    text.line(1, "*reply = (struct cairn_reply){");
    text.line(2, &format!(".words = {{ {} }},", words.join(", ")));
    if let Some(Bytes {
        name,
        pieces: 1,
        shown,
        ..
    }) = bytes
    {
        let length = match shown {
            false => format!("{name}.length"),
            // What was filled by a window has a length and no bytes.
            true => format!("{name}.bytes ? {name}.length : 0"),
        };
        text.line(
            2,
            &format!(".data = {name}.bytes, .data_length = {length},"),
        );
    }
    if !operation.answer_portals.is_empty() {
        text.line(
            2,
            &format!(".portals = {},", operation.answer_portals.len()),
        );
    }
    let flags = operation.answer_terms.flags();
    if !flags.is_empty() {
        text.line(2, &format!(".flags = {},", c_flags(&flags)));
    }
    text.line(1, "};");
    if let (
        Some(Bytes {
            name, pieces: 2.., ..
        }),
        None,
    ) = (is_bytes(&operation.input), operation.length)
    {
        text.line(1, &format!("(void){name}_length;"));
    }
    text.line(0, "}");
}

fn refuse(text: &mut Text, condition: &str, error: &str) {
    text.line(1, &format!("if ({condition})"));
    text.line(2, &format!("return -CAIRN_{error};"));
}

/// Refuse what has not the operation's shape: what `admit` does in Rust.
fn shape(text: &mut Text, names: &Names, operation: &Operation) {
    if let Some(badge) = operation.badge {
        refuse(
            text,
            &format!("caller->badge != UINT64_C({badge})"),
            "EPERM",
        );
    }
    let (least, most) = (operation.portals_least(), operation.request_portals.len());
    let wrong = if least == most { "!=" } else { ">" };
    refuse(text, &format!("caller->portals {wrong} {most}"), "EINVAL");
    if operation.out.is_none() {
        refuse(text, "caller->out_length != 0", "EINVAL");
    }
    if let Some(Bytes {
        most, cut: false, ..
    }) = is_bytes(&operation.out)
    {
        refuse(text, &format!("caller->out_length > {most}"), "EMSGSIZE");
    }
    if let Some((_, of)) = is_structure(&operation.out) {
        let wrong = format!("caller->out_length != sizeof({})", names.structure(of));
        refuse(text, &wrong, "EINVAL");
    }
    if operation.input.is_none() {
        refuse(text, "caller->in_length != 0", "EINVAL");
    }
    if let Some((_, of)) = is_structure(&operation.input) {
        let wrong = format!("caller->in_length < sizeof({})", names.structure(of));
        refuse(text, &wrong, "EINVAL");
    }
}

fn serve(text: &mut Text, names: &Names, operation: &Operation) {
    let small = snake(&operation.name);
    let server = names.small("server");
    text.line(0, "");
    text.line(0, &format!(
        "static inline int64_t {}(const struct {server} *server, void *self, const struct cairn_caller *caller, struct cairn_reply *reply)",
        names.small(&format!("serve_{small}"))
    ));
    text.line(0, "{");
    refuse(text, &format!("!server->{small}"), "ENOSYS");
    shape(text, names, operation);
    if operation.request.iter().any(|w| w.of == WordType::Badge) {
        // Without the nucleus's word for it the last one is what the caller says.
        refuse(text, "!caller->is_signed", "ENOSYS");
    }
    let word = |n: u8| format!("caller->words[{n}]");
    let mut arguments = vec!["self".to_string(), "caller".to_string()];
    for argument in &operation.request {
        if let Some(bad) = bad(names.0, &argument.of, &word(argument.word), true) {
            refuse(text, &bad, "EINVAL");
        }
        arguments.push(from_word(names, &argument.of, &word(argument.word)));
    }
    for portal in &operation.request_portals {
        let slot = format!("(cairn_portal){}", word(portal.word));
        arguments.push(match operation.request_portals_optional {
            true => format!("caller->portals > 0 ? {slot} : CAIRN_NO_PORTAL"),
            false => slot,
        });
    }
    if let Some(Bytes {
        name, most, cut, ..
    }) = is_bytes(&operation.out)
    {
        text.line(1, &format!("size_t {name}_length = caller->out_length;"));
        if cut {
            text.line(1, &format!("if ({name}_length > {most})"));
            text.line(2, &format!("{name}_length = {most};"));
        }
        arguments.push(format!("{name}_length"));
    }
    if let Some((name, of)) = is_structure(&operation.out) {
        text.line(1, &format!("{} {name};", names.structure(of)));
        let read =
            format!("cairn_read(caller, 0, &{name}, sizeof {name}) != (int64_t)sizeof {name}");
        refuse(text, &read, "EFAULT");
        arguments.push(format!("&{name}"));
    }
    for result in results(names, operation, false) {
        text.line(1, &format!("{result} = 0;"));
    }
    for word in &operation.answer {
        arguments.push(format!("&{}", word.name));
    }
    for portal in &operation.answer_portals {
        arguments.push(format!("&{}", portal.name));
    }
    if let Some((name, of)) = is_structure(&operation.input) {
        text.line(1, &format!("{} {name} = {{ 0 }};", names.structure(of)));
        arguments.push(format!("&{name}"));
    }
    if let Some(Bytes {
        name, most, pieces, ..
    }) = is_bytes(&operation.input)
    {
        text.line(
            1,
            &format!(
                "size_t {name}_room = caller->in_length < {most} ? caller->in_length : {most};"
            ),
        );
        text.line(
            1,
            &match pieces {
                1 => format!("struct cairn_bytes {name} = {{ 0, 0 }};"),
                _ => format!("struct cairn_bytes {name}[{pieces}] = {{ {{ 0, 0 }} }};"),
            },
        );
        arguments.push(match pieces {
            1 => format!("{name}_room, &{name}"),
            _ => format!("{name}_room, {name}"),
        });
    }
    text.line(
        1,
        &format!("int64_t done = server->{small}({});", arguments.join(", ")),
    );
    if operation.deferred {
        text.line(1, "if (done == CAIRN_LATER)");
        text.line(2, "return done;");
    }
    text.line(1, "if (done != 0)");
    text.line(2, "return done < 0 ? done : -CAIRN_EIO;");
    match is_bytes(&operation.input) {
        Some(Bytes {
            name, pieces: 1, ..
        }) => {
            text.line(1, &format!("if ({name}.length > {name}_room)"));
            text.line(2, &format!("{name}.length = {name}_room;"));
        }
        Some(Bytes { name, pieces, .. }) => {
            let deliver = format!("cairn_deliver(caller, {name}, {pieces}, {name}_room)");
            text.line(1, &format!("int64_t {name}_length = {deliver};"));
            refuse(text, &format!("{name}_length < 0"), "EFAULT");
        }
        None => {}
    }
    if let Some((name, _)) = is_structure(&operation.input) {
        let write =
            format!("cairn_write(caller, 0, &{name}, sizeof {name}) != (int64_t)sizeof {name}");
        refuse(text, &write, "EFAULT");
    }
    let mut values = vec!["reply".to_string()];
    values.extend(operation.answer.iter().map(|w| w.name.clone()));
    values.extend(operation.answer_portals.iter().map(|p| p.name.clone()));
    values.extend(is_bytes(&operation.input).map(|bytes| match bytes.pieces {
        1 => bytes.name.to_string(),
        _ => format!("(size_t){}_length", bytes.name),
    }));
    text.line(
        1,
        &format!("{}_reply({});", names.small(&small), values.join(", ")),
    );
    text.line(1, "return 0;");
    text.line(0, "}");
}

fn dispatch(text: &mut Text, names: &Names, interface: &Interface) {
    let server = names.small("server");
    text.line(0, "");
    text.line(0, "// Decode a request, let the server do it, encode the answer: true if there is a reply to send now. What has not the operation's shape is refused; portals that nobody took are closed.");
    text.line(0, &format!(
        "static inline _Bool {}(const void *server, void *self, const struct cairn_caller *caller, struct cairn_reply *reply)",
        names.small("dispatch")
    ));
    text.line(0, "{");
    text.line(1, &format!("const struct {server} *functions = server;"));
    text.line(1, "int64_t done = -CAIRN_ENOSYS;");
    text.line(1, "unsigned asked = 0;");
    text.line(1, "switch (caller->words[0]) {");
    for operation in &interface.operations {
        text.line(1, &format!("case {}:", names.macro_(&operation.name)));
        let serve = names.small(&format!("serve_{}", snake(&operation.name)));
        text.line(
            2,
            &format!("done = {serve}(functions, self, caller, reply);"),
        );
        if !operation.request_portals.is_empty() {
            text.line(2, &format!("asked = {};", operation.request_portals.len()));
        }
        text.line(2, "break;");
    }
    text.line(1, "}");
    text.line(1, "return cairn_finish(caller, done, asked, reply);");
    text.line(0, "}");
}
