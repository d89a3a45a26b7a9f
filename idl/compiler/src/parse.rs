//! Tokens to [`crate::syntax`], by recursive descent. The first mistake ends it. Nesting is bounded, so no text can exhaust the stack.

use crate::lex::{lex, Token};
use crate::source::{At, Complaint};
use crate::syntax::*;

/// Deepest nesting of expressions and array types.
const DEPTH: usize = 8;

type Parsed<T> = Result<T, Complaint>;

struct Parser {
    tokens: Vec<(At, Token)>,
    next: usize,
    depth: usize,
}

pub fn parse(text: &str) -> Parsed<File> {
    let mut parser = Parser {
        tokens: lex(text)?,
        next: 0,
        depth: 0,
    };
    parser.file()
}

impl Parser {
    fn at(&self) -> At {
        self.tokens[self.next].0
    }

    /// The lexer puts `End` last and nothing goes past it.
    fn peek(&self) -> &Token {
        &self.tokens[self.next].1
    }

    fn advance(&mut self) -> Token {
        let token = self.peek().clone();
        if token != Token::End {
            self.next += 1;
        }
        token
    }

    fn wanted<T>(&self, what: &str) -> Parsed<T> {
        let found = self.peek().shown();
        Err(Complaint::new(
            self.at(),
            format!("expected {what}, found {found}"),
        ))
    }

    fn is_sign(&self, sign: &str) -> bool {
        matches!(self.peek(), Token::Sign(s) if *s == sign)
    }

    fn is_word(&self, word: &str) -> bool {
        matches!(self.peek(), Token::Word(w) if w == word)
    }

    fn take_sign(&mut self, sign: &str) -> bool {
        let there = self.is_sign(sign);
        self.next += usize::from(there);
        there
    }

    fn take_word(&mut self, word: &str) -> bool {
        let there = self.is_word(word);
        self.next += usize::from(there);
        there
    }

    fn sign(&mut self, sign: &str) -> Parsed<()> {
        match self.take_sign(sign) {
            true => Ok(()),
            false => self.wanted(&format!("`{sign}`")),
        }
    }

    fn name(&mut self, what: &str) -> Parsed<Name> {
        let at = self.at();
        match self.peek() {
            Token::Word(word) => {
                let value = word.clone();
                self.next += 1;
                Ok(Placed { at, value })
            }
            _ => self.wanted(what),
        }
    }

    fn docs(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        while let Token::Doc(line) = self.peek() {
            lines.push(line.clone());
            self.next += 1;
        }
        lines
    }

    fn file(&mut self) -> Parsed<File> {
        let mut doc = Vec::new();
        while let Token::FileDoc(line) = self.peek() {
            doc.push(line.clone());
            self.next += 1;
        }
        if !self.take_word("interface") {
            return self.wanted("`interface NAME;`");
        }
        let name = self.name("the interface's name")?;
        let c_prefix = match self.take_word("c") {
            true => Some(self.name("the prefix of names in C")?),
            false => None,
        };
        self.sign(";")?;
        let mut file = File {
            doc,
            name,
            c_prefix,
            by_hand: false,
            trust: None,
            float: None,
            items: Vec::new(),
        };
        loop {
            if self.take_word("trust") {
                file.trust = Some(self.name("none, server, client or both")?);
                self.sign(";")?;
            } else if self.take_word("float") {
                file.float = Some(self.name("kept or switched")?);
                self.sign(";")?;
            } else if self.take_word("served") {
                if !(self.take_word("by") && self.take_word("hand")) {
                    return self.wanted("`by hand`");
                }
                file.by_hand = true;
                self.sign(";")?;
            } else {
                break;
            }
        }
        while *self.peek() != Token::End {
            let item = self.item()?;
            file.items.push(item);
        }
        Ok(file)
    }

    fn item(&mut self) -> Parsed<Item> {
        let doc = self.docs();
        if self.take_word("const") {
            let name = self.name("the constant's name")?;
            self.sign(":")?;
            let of = self.of()?;
            self.sign("=")?;
            let value = self.expression()?;
            self.sign(";")?;
            return Ok(Item::Constant(Constant { doc, name, value }, of));
        }
        if self.is_word("flags") || self.is_word("enum") {
            let exclusive = self.advance() == Token::Word("enum".into());
            return self.group(doc, exclusive);
        }
        if self.take_word("struct") {
            return self.structure(doc);
        }
        if self.take_word("op") {
            return self.operation(doc).map(Item::Operation);
        }
        self.wanted("`const`, `flags`, `enum`, `struct` or `op`")
    }

    fn group(&mut self, doc: Vec<String>, exclusive: bool) -> Parsed<Item> {
        let name = self.name("the group's name")?;
        let base = match self.take_sign(":") {
            true => Some(self.name("u32 or u64")?),
            false => None,
        };
        self.sign("{")?;
        let mut members = Vec::new();
        while !self.take_sign("}") {
            let doc = self.docs();
            let name = self.name("a member's name or `}`")?;
            self.sign("=")?;
            let value = self.expression()?;
            members.push(Constant { doc, name, value });
            if !self.take_sign(",") && !self.is_sign("}") {
                return self.wanted("`,` or `}`");
            }
        }
        Ok(Item::Group {
            doc,
            exclusive,
            name,
            base,
            members,
        })
    }

    fn structure(&mut self, doc: Vec<String>) -> Parsed<Item> {
        let name = self.name("the structure's name")?;
        self.sign("{")?;
        let mut fields = Vec::new();
        while !self.take_sign("}") {
            let doc = self.docs();
            let name = self.name("a field's name or `}`")?;
            self.sign(":")?;
            let of = self.of()?;
            fields.push(Field { doc, name, of });
            if !self.take_sign(",") && !self.is_sign("}") {
                return self.wanted("`,` or `}`");
            }
        }
        Ok(Item::Structure { doc, name, fields })
    }

    fn operation(&mut self, doc: Vec<String>) -> Parsed<Operation> {
        let name = self.name("the operation's name")?;
        self.sign("=")?;
        let number = self.expression()?;
        let request = self.arguments()?;
        let answer = match self.take_sign("->") {
            true => self.arguments()?,
            false => Vec::new(),
        };
        let mut properties = Vec::new();
        while !self.take_sign(";") {
            let property = self.property()?;
            properties.push(property);
        }
        Ok(Operation {
            doc,
            name,
            number,
            request,
            answer,
            properties,
        })
    }

    fn property(&mut self) -> Parsed<Property> {
        if self.take_word("errors") {
            let mut names = vec![self.name("an error's name")?];
            while matches!(self.peek(), Token::Word(w) if w.starts_with('E')) {
                names.push(self.name("an error's name")?);
            }
            return Ok(Property::Errors(names));
        }
        if self.take_word("badge") {
            return Ok(Property::Badge(self.expression()?));
        }
        if self.take_word("trust") {
            return Ok(Property::Trust(self.name("none, server, client or both")?));
        }
        if self.take_word("float") {
            return Ok(Property::Float(self.name("kept or switched")?));
        }
        if self.take_word("deferred") {
            return Ok(Property::Deferred);
        }
        if self.take_word("interruptible") {
            return Ok(Property::Interruptible);
        }
        self.wanted("`->`, `errors`, `badge`, `deferred`, `interruptible`, `trust`, `float` or `;`")
    }

    fn arguments(&mut self) -> Parsed<Vec<Argument>> {
        self.sign("(")?;
        let mut all = Vec::new();
        while !self.take_sign(")") {
            let argument = self.argument()?;
            all.push(argument);
            if !self.take_sign(",") && !self.is_sign(")") {
                return self.wanted("`,` or `)`");
            }
        }
        Ok(all)
    }

    fn argument(&mut self) -> Parsed<Argument> {
        let at = self.at();
        if self.is_word("in") || self.is_word("out") {
            let into_caller = self.advance() == Token::Word("in".into());
            let name = self.name("the part's name")?;
            self.sign(":")?;
            let of = self.part_type()?;
            let (mut pieces, mut shown, mut kept) = (None, false, false);
            loop {
                if pieces.is_none() && self.take_word("pieces") {
                    pieces = Some(self.expression()?);
                } else if !shown && self.take_word("shown") {
                    shown = true;
                    kept = self.take_word("kept");
                } else {
                    break;
                }
            }
            return Ok(Argument::Part {
                at,
                into_caller,
                name,
                of,
                pieces,
                shown,
                kept,
            });
        }
        let word = match self.peek() {
            Token::Word(word) => word_number(word),
            _ => None,
        };
        let Some(word) = word else {
            return self.wanted("`w0` to `w7`, `in`, `out` or `)`");
        };
        self.next += 1;
        let word = Placed { at, value: word };
        if self.is_word("length")
            && matches!(&self.tokens[self.next + 1].1, Token::Word(w) if w == "of")
        {
            self.next += 2;
            let part = self.name("the part whose length it is")?;
            return Ok(Argument::Length { word, part });
        }
        let name = self.name("the word's name")?;
        self.sign(":")?;
        let mut pages = None;
        if self.take_word("pages") {
            self.sign("<=")?;
            pages = Some(self.expression()?);
        } else if !self.take_word("portal") {
            let of = self.name("the word's type, `badge`, `portal` or `pages`")?;
            return Ok(Argument::Word { word, name, of });
        }
        let (mut moved, mut minted, mut optional) = (false, false, false);
        let (mut once, mut not_further) = (false, false);
        loop {
            if self.take_word("moved") {
                moved = true;
            } else if self.take_word("minted") {
                minted = true;
            } else if self.take_word("optional") {
                optional = true;
            } else if self.take_word("once") {
                once = true;
            } else if self.take_word("not") {
                if !self.take_word("further") {
                    return self.wanted("`further`");
                }
                not_further = true;
            } else {
                break;
            }
        }
        Ok(Argument::Portal {
            word,
            name,
            pages,
            moved,
            minted,
            optional,
            once,
            not_further,
        })
    }

    fn part_type(&mut self) -> Parsed<PartType> {
        if !self.take_word("bytes") {
            let name = self.name("`bytes` or a structure's name")?;
            return Ok(PartType::Structure(name));
        }
        let cut = if self.take_sign("<=") {
            false
        } else if self.take_word("first") {
            true
        } else {
            return self.wanted("`<=` or `first` and the most bytes");
        };
        let most = self.expression()?;
        Ok(PartType::Bytes { most, cut })
    }

    fn of(&mut self) -> Parsed<Placed<Type>> {
        let at = self.at();
        if !self.take_sign("[") {
            let name = self.name("a type")?;
            return Ok(Placed {
                at,
                value: Type::Named(name.value),
            });
        }
        self.deeper()?;
        let of = self.of()?;
        self.sign(";")?;
        let count = self.expression()?;
        self.sign("]")?;
        self.depth -= 1;
        Ok(Placed {
            at,
            value: Type::Array(Box::new(of), count),
        })
    }

    fn deeper(&mut self) -> Parsed<()> {
        self.depth += 1;
        if self.depth > DEPTH {
            return Err(Complaint::new(self.at(), "nested too deeply"));
        }
        Ok(())
    }

    /// Operators bind from `*` over `+ -` and `<<` to `|`, all from the left.
    fn expression(&mut self) -> Parsed<Placed<Expression>> {
        self.level(0)
    }

    fn level(&mut self, level: usize) -> Parsed<Placed<Expression>> {
        const LEVELS: [&[&str]; 4] = [&["|"], &["<<"], &["+", "-"], &["*"]];
        let Some(signs) = LEVELS.get(level) else {
            return self.primary();
        };
        let mut left = self.level(level + 1)?;
        let mut links = 0;
        while let Some(sign) = signs.iter().find(|sign| self.is_sign(sign)) {
            // What is done with it later goes as deep as the chain is long.
            links += 1;
            if links > 64 {
                return Err(Complaint::new(self.at(), "too long an expression"));
            }
            self.next += 1;
            let right = self.level(level + 1)?;
            let operator = sign.chars().next().unwrap_or('|');
            left = Placed {
                at: left.at,
                value: Expression::Binary(Box::new(left), operator, Box::new(right)),
            };
        }
        Ok(left)
    }

    fn primary(&mut self) -> Parsed<Placed<Expression>> {
        let at = self.at();
        if self.take_sign("(") {
            self.deeper()?;
            let inner = self.expression()?;
            self.sign(")")?;
            self.depth -= 1;
            return Ok(inner);
        }
        match self.advance() {
            Token::Number(value, text) => Ok(Placed {
                at,
                value: Expression::Number(value, text),
            }),
            Token::Word(first) => {
                let mut path = vec![first];
                while path.len() < 3 && self.take_sign(".") {
                    path.push(self.name("a member's name")?.value);
                }
                Ok(Placed {
                    at,
                    value: Expression::Name(path),
                })
            }
            other => Err(Complaint::new(
                at,
                format!("expected a value, found {}", other.shown()),
            )),
        }
    }
}

/// `w0` to `w7`.
fn word_number(word: &str) -> Option<u8> {
    match word.as_bytes() {
        [b'w', digit @ b'0'..=b'7'] => Some(digit - b'0'),
        _ => None,
    }
}
