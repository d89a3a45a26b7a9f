//! Text to tokens. A hand-written lexer and parser rather than a parser crate: the language has a dozen constructs, the messages about mistakes are ours,
//! and every build of the system compiles this crate first, so it should depend on nothing.

use crate::source::{At, Complaint};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Token {
    /// A name or a word of the language: letters, digits, `_`.
    Word(String),
    /// An integer, and how it was written.
    Number(u64, String),
    /// One of the signs in [`SIGNS`].
    Sign(&'static str),
    /// A line of documentation: `///`, without the mark and one blank.
    Doc(String),
    /// A line of documentation of the whole file: `//!`.
    FileDoc(String),
    End,
}

/// Longer ones first.
const SIGNS: [&str; 20] = [
    "->", "<=", "<<", "(", ")", "{", "}", "[", "]", ",", ";", ":", "=", "|", "+", "-", "*", ".",
    "<", ">",
];

impl Token {
    /// How a message calls it.
    pub fn shown(&self) -> String {
        match self {
            Token::Word(word) => format!("`{word}`"),
            Token::Number(_, text) => format!("`{text}`"),
            Token::Sign(sign) => format!("`{sign}`"),
            Token::Doc(_) | Token::FileDoc(_) => "a documentation comment".to_string(),
            Token::End => "the end of the file".to_string(),
        }
    }
}

/// All tokens with their places; the last one is [`Token::End`].
pub fn lex(text: &str) -> Result<Vec<(At, Token)>, Complaint> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        let rest = &text[at..];
        if c.is_whitespace() {
            at += c.len_utf8();
        } else if rest.starts_with("//") {
            let line = rest.split('\n').next().unwrap_or(rest);
            if let Some(doc) = line.strip_prefix("//!") {
                tokens.push((At(at), Token::FileDoc(doc_text(doc))));
            } else if let Some(doc) = line.strip_prefix("///") {
                tokens.push((At(at), Token::Doc(doc_text(doc))));
            }
            at += line.len();
        } else if c.is_ascii_alphanumeric() || c == '_' {
            let length = rest
                .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
                .unwrap_or(rest.len());
            let word = &rest[..length];
            let token = if c.is_ascii_digit() {
                number(word).map_err(|why| Complaint::new(At(at), why))?
            } else {
                Token::Word(word.to_string())
            };
            tokens.push((At(at), token));
            at += length;
        } else if let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
            tokens.push((At(at), Token::Sign(sign)));
            at += sign.len();
        } else {
            return Err(Complaint::new(
                At(at),
                format!("{c:?} has no meaning in an interface definition"),
            ));
        }
    }
    tokens.push((At(text.len()), Token::End));
    Ok(tokens)
}

fn doc_text(line: &str) -> String {
    line.strip_prefix(' ')
        .unwrap_or(line)
        .trim_end()
        .to_string()
}

/// Rust's integers: decimal, `0x`, `0o`, `0b`, with `_` between digits.
fn number(word: &str) -> Result<Token, String> {
    let (radix, digits) = match word.get(..2) {
        Some("0x") => (16, &word[2..]),
        Some("0o") => (8, &word[2..]),
        Some("0b") => (2, &word[2..]),
        _ => (10, word),
    };
    let plain: String = digits.chars().filter(|c| *c != '_').collect();
    match u64::from_str_radix(&plain, radix) {
        Ok(value) => Ok(Token::Number(value, word.to_string())),
        Err(_) => Err(format!(
            "`{word}` is no number of 64 bits (decimal, 0x, 0o or 0b)"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_becomes_tokens() {
        let tokens: Vec<Token> = lex("//! a\n/// b\nop X = 0x1_f; // no doc\n->")
            .unwrap()
            .into_iter()
            .map(|t| t.1)
            .collect();
        assert_eq!(
            tokens,
            [
                Token::FileDoc("a".into()),
                Token::Doc("b".into()),
                Token::Word("op".into()),
                Token::Word("X".into()),
                Token::Sign("="),
                Token::Number(31, "0x1_f".into()),
                Token::Sign(";"),
                Token::Sign("->"),
                Token::End
            ]
        );
    }

    #[test]
    fn what_is_no_token_is_refused_where_it_stands() {
        assert_eq!(lex("op §").unwrap_err().at, At(3));
        assert_eq!(lex("a 12x").unwrap_err().at, At(2));
        assert!(lex("99999999999999999999").is_err());
    }
}
