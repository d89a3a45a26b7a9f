//! Values of expressions. Names may be used before they are defined; a value that needs itself is refused.

use crate::source::{At, Complaint};
use crate::syntax::{Expression, Placed};
use cairn_abi::layout;
use std::collections::BTreeMap;

/// What expressions may name of the nucleus's own constants, as `abi.NAME`.
const ABI: [(&str, u64); 6] = [
    ("PAGE", layout::PAGE),
    ("USER_TOP", layout::USER_TOP),
    ("SYSTEM_PAGE", layout::SYSTEM_PAGE),
    ("PREFIX_TABLE", layout::PREFIX_TABLE),
    ("PREFIX_PAGES", layout::PREFIX_PAGES),
    ("MAX_SLOTS", layout::MAX_SLOTS as u64),
];

/// What is defined where, not yet computed.
#[derive(Default)]
pub struct Names<'a> {
    defined: BTreeMap<String, &'a Placed<Expression>>,
}

/// All computed.
#[derive(Default)]
pub struct Values {
    known: BTreeMap<String, i128>,
}

impl<'a> Names<'a> {
    pub fn constant(&mut self, name: &str, value: &'a Placed<Expression>) {
        self.defined.entry(name.to_string()).or_insert(value);
    }

    pub fn member(&mut self, group: &str, name: &str, value: &'a Placed<Expression>) {
        self.defined
            .entry(format!("{group}.{name}"))
            .or_insert(value);
    }

    pub fn evaluate(self) -> (Values, Vec<Complaint>) {
        let mut values = Values::default();
        let mut complaints = Vec::new();
        for name in self.defined.keys() {
            if let Err(complaint) = self.resolve(name, &mut values, &mut Vec::new()) {
                // It is told where it is written, once, however many names need it.
                if !complaints.contains(&complaint) {
                    complaints.push(complaint);
                }
                values.known.insert(name.clone(), 0);
            }
        }
        (values, complaints)
    }

    fn resolve(
        &self,
        name: &str,
        values: &mut Values,
        waiting: &mut Vec<String>,
    ) -> Result<(), Complaint> {
        let Some(expression) = self.defined.get(name) else {
            return Ok(());
        };
        if values.known.contains_key(name) {
            return Ok(());
        }
        // The depth is bounded so that a long chain of definitions cannot exhaust the stack.
        if waiting.iter().any(|w| w == name) || waiting.len() > 64 {
            let text = format!("the value of `{name}` needs itself, or too long a chain of others");
            return Err(Complaint::new(expression.at, text));
        }
        waiting.push(name.to_string());
        let mut needed = Vec::new();
        names_in(expression, &mut needed);
        for needed in needed {
            self.resolve(&needed, values, waiting)?;
        }
        waiting.pop();
        let value = values.value(expression)?;
        values.known.insert(name.to_string(), value);
        Ok(())
    }
}

fn names_in(expression: &Placed<Expression>, into: &mut Vec<String>) {
    match &expression.value {
        Expression::Number(..) => {}
        Expression::Name(path) => into.push(path.join(".")),
        Expression::Binary(left, _, right) => {
            names_in(left, into);
            names_in(right, into);
        }
    }
}

impl Values {
    pub fn value(&self, expression: &Placed<Expression>) -> Result<i128, Complaint> {
        let at = expression.at;
        match &expression.value {
            Expression::Number(value, _) => Ok(i128::from(*value)),
            Expression::Name(path) => self.named(path, at),
            Expression::Binary(left, operator, right) => {
                let (left, right) = (self.value(left)?, self.value(right)?);
                let value = match operator {
                    '|' => Some(left | right),
                    '+' => left.checked_add(right),
                    '-' => left.checked_sub(right),
                    '*' => left.checked_mul(right),
                    _ => u32::try_from(right)
                        .ok()
                        .filter(|shift| *shift < 64)
                        .and_then(|shift| left.checked_mul(1 << shift)),
                };
                value
                    .filter(|v| v.unsigned_abs() < 1 << 100)
                    .ok_or_else(|| Complaint::new(at, "the value is out of all bounds"))
            }
        }
    }

    fn named(&self, path: &[String], at: At) -> Result<i128, Complaint> {
        let name = path.join(".");
        let found = match path {
            [first, second] if first == "abi" => ABI
                .iter()
                .find(|(n, _)| n == second)
                .map(|(_, value)| i128::from(*value)),
            [first, second] if second == "MAX" => {
                crate::model::Integer::named(first).map(|integer| integer.range().1)
            }
            _ => None,
        };
        found
            .or_else(|| self.known.get(&name).copied())
            .ok_or_else(|| {
                Complaint::new(
                    at,
                    format!("`{name}` is no constant, operation or member of a group"),
                )
            })
    }
}
