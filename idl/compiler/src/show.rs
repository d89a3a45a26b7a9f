//! An interface as a table, for people: `./cairn idl FILE`.

use crate::model::*;
use cairn_abi::service::receive;
use std::fmt::Write;

fn part(part: &Option<Part>) -> String {
    let Some(part) = part else {
        return String::new();
    };
    let mut text = match &part.of {
        PartType::Bytes { most, cut: false } => format!("{} ≤ {most}", part.name),
        PartType::Bytes { most, cut: true } => format!("{} (first {most})", part.name),
        PartType::Structure { name, bytes } => format!("{name} ({bytes})"),
    };
    if part.pieces > 1 {
        let _ = write!(text, " pieces {}", part.pieces);
    }
    text += match part.shown {
        Shown::No => "",
        Shown::Call => " shown",
        Shown::Kept => " shown kept",
    };
    text
}

fn word_type(of: &WordType) -> String {
    match of {
        WordType::Integer(integer) => integer.rust().to_string(),
        WordType::Bool => "bool".to_string(),
        WordType::Badge => "badge".to_string(),
        WordType::Flags(name, _) | WordType::Enum(name) => name.clone(),
    }
}

fn words(words: &[Word]) -> impl Iterator<Item = String> + '_ {
    words
        .iter()
        .map(|w| format!("w{} {}: {}", w.word, w.name, word_type(&w.of)))
}

fn portals(portals: &[Portal], terms: Terms, optional: bool) -> impl Iterator<Item = String> + '_ {
    let mut words = String::from(match terms.passing {
        Passing::Copied => "",
        Passing::Moved => " moved",
        Passing::Minted => " minted",
    });
    for (set, word) in [
        (optional, " optional"),
        (terms.once, " once"),
        (terms.not_further, " not further"),
    ] {
        words += if set { word } else { "" };
    }
    portals.iter().map(move |p| match p.pages {
        None => format!("w{} {}: portal{words}", p.word, p.name),
        Some(most) => format!("w{} {}: pages ≤ {most}{words}", p.word, p.name),
    })
}

/// What an operation's messages carry, in one line as the definition has it.
pub fn signature(operation: &Operation) -> String {
    let mut request: Vec<String> = words(&operation.request).collect();
    request.extend(portals(
        &operation.request_portals,
        operation.request_terms,
        operation.request_portals_optional,
    ));
    for (direction, is) in [("out", &operation.out), ("in", &operation.input)] {
        if is.is_some() {
            request.push(format!("{direction} {}", part(is)));
        }
    }
    let mut answer: Vec<String> = words(&operation.answer).collect();
    if let (Some(word), Some(part)) = (operation.length, &operation.input) {
        answer.insert(0, format!("w{word} length of {}", part.name));
    }
    answer.extend(portals(
        &operation.answer_portals,
        operation.answer_terms,
        false,
    ));
    let mut text = format!("({})", request.join(", "));
    if !answer.is_empty() {
        text += &format!(" -> ({})", answer.join(", "));
    }
    text
}

/// What the nucleus asks of a call's words: a greatest value that a word's type does not say (as that of an enum), a badge, nothing in words without a name.
fn asked(words: &[u64; WORDS], request: &[Word]) -> String {
    let mut all = Vec::new();
    let mut empty = Vec::new();
    for (i, most) in words.iter().enumerate().skip(1) {
        match request.iter().find(|word| usize::from(word.word) == i) {
            _ if *most == u64::MAX => {}
            Some(word) => all.push(format!("{} ≤ {most:#x}", word.name)),
            None => empty.push(format!("w{i}")),
        }
    }
    if !empty.is_empty() {
        all.push(format!("{} 0", empty.join(" ")));
    }
    if words[0] & receive::BADGE != 0 {
        all.push(format!("w{} a badge", WORDS - 1));
    }
    all.join(", ")
}

/// One line per operation: number, name, what its messages carry, policies.
pub fn table(interface: &Interface) -> String {
    let mut text = String::new();
    let _ = writeln!(
        text,
        "interface {}: {} operations, {} constants, {} groups, {} structures{}",
        interface.name,
        interface.operations.len(),
        interface.constants.len(),
        interface.groups.len(),
        interface.structures.len(),
        match interface.by_hand {
            true => ", served by hand",
            false => "",
        }
    );
    let mut rows = vec![["", "operation", "request and answer", "else"].map(str::to_string)];
    for operation in &interface.operations {
        let mut more = Vec::new();
        if let Some(badge) = operation.badge {
            more.push(format!("badge {badge}"));
        }
        if let Some(asked) = operation.asked(interface) {
            more.push(format!("asks {}", self::asked(&asked, &operation.request)));
        }
        for (set, word) in [
            (operation.deferred, "deferred"),
            (operation.interruptible, "interruptible"),
        ] {
            if set {
                more.push(word.to_string());
            }
        }
        more.push(format!("float {:?}", operation.float).to_lowercase());
        more.push(format!("trust {:?}", operation.trust).to_lowercase());
        rows.push([
            operation.number.to_string(),
            operation.name.clone(),
            signature(operation),
            more.join(", "),
        ]);
    }
    let widths: Vec<usize> = (0..rows[0].len())
        .map(|column| {
            rows.iter()
                .map(|r| r[column].chars().count())
                .max()
                .unwrap_or(0)
        })
        .collect();
    for row in &rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            if *width > 0 {
                let _ = write!(line, "{cell:<width$}  ");
            }
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}
