//! What the parser makes of a file: names and expressions as they were written, with their places. [`crate::check`] makes the meaning of it ([`crate::model`]).

use crate::source::At;

/// Something with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed<T> {
    pub at: At,
    pub value: T,
}

pub type Name = Placed<String>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expression {
    /// The value and how it was written.
    Number(u64, String),
    /// A constant, an operation, `group.MEMBER`, `u64.MAX`, `abi.NAME`.
    Name(Vec<String>),
    Binary(Box<Placed<Expression>>, char, Box<Placed<Expression>>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    Named(String),
    Array(Box<Placed<Type>>, Placed<Expression>),
}

/// `NAME = VALUE` in a group, or with a type on its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Constant {
    pub doc: Vec<String>,
    pub name: Name,
    pub value: Placed<Expression>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    Constant(Constant, Placed<Type>),
    /// `flags` (bits that may be together) and `enum` (exactly one of them).
    Group {
        doc: Vec<String>,
        exclusive: bool,
        name: Name,
        base: Option<Name>,
        members: Vec<Constant>,
    },
    Structure {
        doc: Vec<String>,
        name: Name,
        fields: Vec<Field>,
    },
    Operation(Operation),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    pub doc: Vec<String>,
    pub name: Name,
    pub of: Placed<Type>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    pub doc: Vec<String>,
    pub name: Name,
    pub number: Placed<Expression>,
    pub request: Vec<Argument>,
    pub answer: Vec<Argument>,
    pub properties: Vec<Property>,
}

/// What a message carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Argument {
    /// `w1 name: type`, or `badge` for a type
    Word {
        word: Placed<u8>,
        name: Name,
        of: Name,
    },
    /// `w7 name: portal [moved | minted] [optional] [once] [not further]`, or `pages <= N` in place of `portal`
    Portal {
        word: Placed<u8>,
        name: Name,
        pages: Option<Placed<Expression>>,
        moved: bool,
        minted: bool,
        optional: bool,
        once: bool,
        not_further: bool,
    },
    /// `w0 length of name`
    Length { word: Placed<u8>, part: Name },
    /// `out name: bytes <= N`, `out name: bytes first N`, `in name: Structure`; behind bytes `[pieces N] [shown [kept]]`
    Part {
        at: At,
        into_caller: bool,
        name: Name,
        of: PartType,
        pieces: Option<Placed<Expression>>,
        shown: bool,
        kept: bool,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartType {
    /// `cut`: of a longer one the beginning counts; otherwise it is refused.
    Bytes {
        most: Placed<Expression>,
        cut: bool,
    },
    Structure(Name),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Property {
    Errors(Vec<Name>),
    Badge(Placed<Expression>),
    Deferred,
    Interruptible,
    Trust(Name),
    Float(Name),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    pub doc: Vec<String>,
    pub name: Name,
    /// Prefix of names in C if it is not the interface's name.
    pub c_prefix: Option<Name>,
    pub by_hand: bool,
    pub trust: Option<Name>,
    pub float: Option<Name>,
    pub items: Vec<Item>,
}
