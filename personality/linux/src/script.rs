//! `#!` lines (execve(2)).

/// Interpreter and its one optional argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    pub interpreter: &'a [u8],
    pub argument: Option<&'a [u8]>,
}

/// Parse a file's first bytes. None if it is no script, or the interpreter's name does not end within them.
pub fn parse(head: &[u8]) -> Option<Line<'_>> {
    const LONGEST: usize = 256;
    let text = head.strip_prefix(b"#!")?;
    let text = &text[..text.len().min(LONGEST - 2)];
    let end = text.iter().position(|b| *b == b'\n' || *b == 0);
    let ended = end.is_some_and(|at| text[at] == b'\n');
    let line = &text[..end.unwrap_or(text.len())];
    let line = trim(line);
    let blank = |b: &u8| *b == b' ' || *b == b'\t';
    let (interpreter, argument) = match line.iter().position(blank) {
        Some(at) => (&line[..at], Some(trim(&line[at..]))),
        None => (line, None),
    };
    // Without a newline Linux takes the empty name for an interpreter (and is denied it).
    if interpreter.is_empty() && ended {
        return None;
    }
    Some(Line {
        interpreter,
        argument: argument.filter(|a| !a.is_empty()),
    })
}

fn trim(mut text: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = text {
        text = rest;
    }
    while let [rest @ .., b' ' | b'\t'] = text {
        text = rest;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let line = |text: &'static [u8]| parse(text).map(|l| (l.interpreter, l.argument));
        assert_eq!(line(b"#!/bin/sh\nx"), Some((&b"/bin/sh"[..], None)));
        assert_eq!(
            line(b"#! /bin/sh  -e -x \n"),
            Some((&b"/bin/sh"[..], Some(&b"-e -x"[..])))
        );
        assert_eq!(
            line(b"#!/usr/bin/env\tpython3"),
            Some((&b"/usr/bin/env"[..], Some(&b"python3"[..])))
        );
        assert_eq!(line(b"#!\n"), None);
        assert_eq!(line(b"#! \t"), Some((&b""[..], None)));
        assert_eq!(line(b"#!"), Some((&b""[..], None)));
        assert_eq!(line(b"\x7fELF"), None);
        assert_eq!(line(b"#"), None);
    }
}
