//! A checked interface: every value computed, every word in its place. The generators read nothing else and cannot fail.

use cairn_abi::service::receive;

/// Words of a message, as the gate has them.
pub const WORDS: usize = 8;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    pub name: String,
    /// What names in C begin with, in small letters.
    pub c_prefix: String,
    pub doc: Vec<String>,
    /// The server decodes by hand: no server side is generated.
    pub by_hand: bool,
    pub constants: Vec<Constant>,
    pub groups: Vec<Group>,
    pub structures: Vec<Structure>,
    /// By number.
    pub operations: Vec<Operation>,
}

/// Types of words, constants and fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Integer {
    U8,
    U16,
    U32,
    U64,
    I8,
    I16,
    I32,
    I64,
    Usize,
}

impl Integer {
    pub const ALL: [(&'static str, Integer); 9] = [
        ("u8", Integer::U8),
        ("u16", Integer::U16),
        ("u32", Integer::U32),
        ("u64", Integer::U64),
        ("i8", Integer::I8),
        ("i16", Integer::I16),
        ("i32", Integer::I32),
        ("i64", Integer::I64),
        ("usize", Integer::Usize),
    ];

    pub fn named(name: &str) -> Option<Integer> {
        Integer::ALL
            .iter()
            .find(|(n, _)| *n == name)
            .map(|(_, integer)| *integer)
    }

    pub fn rust(self) -> &'static str {
        Integer::ALL
            .iter()
            .find(|(_, integer)| *integer == self)
            .map_or("u64", |(name, _)| name)
    }

    pub fn c(self) -> &'static str {
        match self {
            Integer::U8 => "uint8_t",
            Integer::U16 => "uint16_t",
            Integer::U32 => "uint32_t",
            Integer::U64 => "uint64_t",
            Integer::I8 => "int8_t",
            Integer::I16 => "int16_t",
            Integer::I32 => "int32_t",
            Integer::I64 => "int64_t",
            Integer::Usize => "size_t",
        }
    }

    pub fn bytes(self) -> u64 {
        match self {
            Integer::U8 | Integer::I8 => 1,
            Integer::U16 | Integer::I16 => 2,
            Integer::U32 | Integer::I32 => 4,
            Integer::U64 | Integer::I64 | Integer::Usize => 8,
        }
    }

    pub fn signed(self) -> bool {
        matches!(
            self,
            Integer::I8 | Integer::I16 | Integer::I32 | Integer::I64
        )
    }

    /// Least and greatest value.
    pub fn range(self) -> (i128, i128) {
        let bits = self.bytes() as u32 * 8;
        match self.signed() {
            true => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
            false => (0, (1 << bits) - 1),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Constant {
    pub doc: Vec<String>,
    pub name: String,
    pub of: Integer,
    pub value: i128,
    /// As it was written, if it is a plain number: flags in octal stay legible.
    pub written: Option<String>,
}

/// `flags` or `enum`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    pub doc: Vec<String>,
    pub name: String,
    pub exclusive: bool,
    pub of: Integer,
    pub members: Vec<Constant>,
}

impl Group {
    /// The bits of all members.
    pub fn all(&self) -> i128 {
        self.members
            .iter()
            .fold(0, |all, member| all | member.value)
    }

    fn greatest(&self) -> u64 {
        let values = self.members.iter().map(|member| member.value as u64);
        values.max().unwrap_or(u64::MAX)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Structure {
    pub doc: Vec<String>,
    pub name: String,
    pub fields: Vec<Field>,
    pub bytes: u64,
    pub align: u64,
    /// Rust's `Default` goes for arrays of up to 32 only.
    pub default: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    pub doc: Vec<String>,
    pub name: String,
    pub of: FieldType,
    pub offset: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldType {
    Integer(Integer),
    Structure(String),
    Array(Box<FieldType>, u64),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WordType {
    Integer(Integer),
    /// 0 or 1.
    Bool,
    /// Bits of a group; others are refused. The base is what Rust and C see.
    Flags(String, Integer),
    /// One of a group; others are refused.
    Enum(String),
    /// The client names a portal of its own to the server; the server gets that portal's badge. In w7 of a request.
    Badge,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    pub word: u8,
    pub name: String,
    pub of: WordType,
}

/// How a portal travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passing {
    Copied,
    Moved,
    /// Made new, to the answering channel; the word is its badge.
    Minted,
}

/// How the portals of a message travel, all alike, and what the receiver may do with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    pub passing: Passing,
    /// A single use.
    pub once: bool,
    /// They cannot be passed on.
    pub not_further: bool,
}

impl Terms {
    pub const PLAIN: Terms = Terms {
        passing: Passing::Copied,
        once: false,
        not_further: false,
    };

    /// Names of the gate's flags for them.
    pub fn flags(self) -> Vec<&'static str> {
        [
            (self.passing == Passing::Moved, "MOVE"),
            (self.passing == Passing::Minted, "MINT"),
            (self.once, "PASS_ONCE"),
            (self.not_further, "NOT_FURTHER"),
        ]
        .into_iter()
        .filter_map(|(set, name)| set.then_some(name))
        .collect()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Portal {
    pub word: u8,
    pub name: String,
    /// It stands for pages that the sender gives, at most so many bytes.
    pub pages: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    pub name: String,
    pub of: PartType,
    /// Most pieces that either side may cut it into. 1: it is one run of bytes.
    pub pieces: u64,
    pub shown: Shown,
}

impl Part {
    pub fn most(&self) -> u64 {
        match self.of {
            PartType::Bytes { most, .. } => most,
            PartType::Structure { bytes, .. } => bytes,
        }
    }

    pub fn is_structure(&self) -> bool {
        matches!(self.of, PartType::Structure { .. })
    }
}

/// May whole pages of a part be shown to the server?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    No,
    /// Until the reply.
    Call,
    /// Longer.
    Kept,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartType {
    /// At most so many bytes; of more, the first count (`cut`) or it is refused.
    Bytes {
        most: u64,
        cut: bool,
    },
    Structure {
        name: String,
        bytes: u64,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    None,
    /// The client trusts the server.
    Server,
    /// The server trusts the client.
    Client,
    Both,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Float {
    Kept,
    Switched,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    pub doc: Vec<String>,
    pub name: String,
    pub number: u64,
    /// From w1 on, by word.
    pub request: Vec<Word>,
    /// From w0 on, by word.
    pub answer: Vec<Word>,
    pub request_portals: Vec<Portal>,
    pub request_terms: Terms,
    pub request_portals_optional: bool,
    pub answer_portals: Vec<Portal>,
    pub answer_terms: Terms,
    /// Bytes from the caller.
    pub out: Option<Part>,
    /// Bytes to the caller.
    pub input: Option<Part>,
    /// The word of the answer that tells how many bytes of the in part are filled.
    pub length: Option<u8>,
    pub errors: Vec<String>,
    /// The badge without which it is refused.
    pub badge: Option<u64>,
    pub deferred: bool,
    pub interruptible: bool,
    pub trust: Trust,
    pub float: Float,
}

impl Operation {
    /// Bit n: word n is used in the request.
    pub fn words_in(&self) -> u8 {
        let words = self.request.iter().map(|w| w.word);
        let portals = self.request_portals.iter().map(|p| p.word);
        words.chain(portals).fold(1, |mask, word| mask | 1 << word)
    }

    /// Bit n: word n is used in the answer. w0 always is: it tells an error.
    pub fn words_out(&self) -> u8 {
        let words = self.answer.iter().map(|w| w.word).chain(self.length);
        let portals = self.answer_portals.iter().map(|p| p.word);
        words.chain(portals).fold(1, |mask, word| mask | 1 << word)
    }

    /// Fewest portals of a request.
    pub fn portals_least(&self) -> usize {
        match self.request_portals_optional {
            true => 0,
            false => self.request_portals.len(),
        }
    }

    /// What the nucleus is to ask of a call: the words of SIGN, first the number. None: nothing, or the number is too high for that.
    pub fn asked(&self, interface: &Interface) -> Option<[u64; WORDS]> {
        let mut words = [u64::MAX; WORDS];
        words[0] = self.number;
        for word in &self.request {
            let group = |name| interface.group(name);
            words[word.word as usize] = match &word.of {
                WordType::Integer(integer) if integer.signed() => u64::MAX,
                WordType::Integer(integer) => integer.range().1 as u64,
                WordType::Bool => 1,
                WordType::Flags(name, _) => group(name).map_or(u64::MAX, |g| g.all() as u64),
                WordType::Enum(name) => group(name).map_or(u64::MAX, Group::greatest),
                WordType::Badge => {
                    words[0] |= receive::BADGE;
                    u64::MAX
                }
            };
        }
        let nothing = words[0] == self.number && words[1..] == [u64::MAX; WORDS - 1];
        (self.number < receive::OPERATIONS && !nothing).then_some(words)
    }

    /// Names of the gate's flags that a client's call has.
    pub fn call_flags(&self) -> Vec<&'static str> {
        let mut flags = self.request_terms.flags();
        let shown = [&self.out, &self.input].map(|part| part.as_ref().map(|part| part.shown));
        for (set, name) in [
            (self.interruptible, "INTERRUPTIBLE"),
            (shown.iter().flatten().any(|s| *s != Shown::No), "WINDOWS"),
            (shown.iter().flatten().any(|s| *s == Shown::Kept), "KEEP"),
        ] {
            flags.extend(set.then_some(name));
        }
        flags
    }

    /// What a stub returns beside the in part: nothing, one value, several.
    pub fn results(&self) -> usize {
        self.answer.len() + self.answer_portals.len()
    }
}

impl Interface {
    pub fn group(&self, name: &str) -> Option<&Group> {
        self.groups.iter().find(|g| g.name == name)
    }
}

/// `OPEN_ALL` → `open_all`.
pub fn snake(name: &str) -> String {
    name.to_ascii_lowercase()
}

/// `OPEN_ALL` or `open_all` → `OpenAll`.
pub fn camel(name: &str) -> String {
    name.split('_')
        .map(|part| {
            let mut letters = part.chars();
            match letters.next() {
                Some(first) => {
                    first.to_ascii_uppercase().to_string() + &letters.as_str().to_ascii_lowercase()
                }
                None => String::new(),
            }
        })
        .collect()
}
