//! Where something stands in a definition file, and what to say when it is wrong.

use std::fmt;

/// A place in the text: byte offset. Line and column are worked out when somebody wants to read them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct At(pub usize);

/// One thing that is wrong, as the compiler's user sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complaint {
    pub at: At,
    /// What is wrong and what would be right, as a sentence without a stop.
    pub text: String,
}

impl Complaint {
    pub fn new(at: At, text: impl Into<String>) -> Complaint {
        Complaint {
            at,
            text: text.into(),
        }
    }
}

/// All that is wrong with a file, ready to be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    file: String,
    text: String,
    pub complaints: Vec<Complaint>,
}

impl Refused {
    pub fn new(file: &str, text: &str, complaints: Vec<Complaint>) -> Refused {
        Refused {
            file: file.to_string(),
            text: text.to_string(),
            complaints,
        }
    }
}

/// Line and column, from 1; columns count characters.
pub fn place(text: &str, at: At) -> (usize, usize) {
    let before = text.get(..at.0).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
    (line, column)
}

impl fmt::Display for Refused {
    /// `file:line:column: what`, the line itself and a mark below it, for each complaint.
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        for (i, complaint) in self.complaints.iter().enumerate() {
            let (line, column) = place(&self.text, complaint.at);
            if i > 0 {
                writeln!(f)?;
            }
            writeln!(f, "{}:{line}:{column}: {}", self.file, complaint.text)?;
            let shown = self.text.lines().nth(line - 1).unwrap_or("");
            // Tabs would put the mark elsewhere.
            writeln!(f, "    {}", shown.replace('\t', " "))?;
            write!(f, "    {:>column$}", "^")?;
        }
        Ok(())
    }
}

impl std::error::Error for Refused {}
