//! What is written to files: numbers, sizes, names of controllers.

use crate::files::CONTROLLERS;
use cairn_idl::errno::{EINVAL, ERANGE};

const PAGE: u64 = 4096;
/// As many processes as Linux knows at most.
const PIDS_MOST: u64 = 1 << 22;

/// A number; blanks around it do not matter.
pub fn number(text: &str) -> Result<u64, i64> {
    text.trim().parse().map_err(|_| EINVAL)
}

/// Pages of memory, rounded down; `None` for "max". K, M, G and T are powers of 1,024.
pub fn size(text: &str) -> Result<Option<u64>, i64> {
    let text = text.trim();
    if text == "max" {
        return Ok(None);
    }
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let shift = match unit {
        "" => 0,
        "k" | "K" => 10,
        "m" | "M" => 20,
        "g" | "G" => 30,
        "t" | "T" => 40,
        _ => return Err(EINVAL),
    };
    let value: u64 = digits.parse().map_err(|_| EINVAL)?;
    let bytes = value.checked_mul(1 << shift).ok_or(EINVAL)?;
    Ok(Some(bytes / PAGE))
}

/// Most tasks; `None` for "max".
pub fn tasks(text: &str) -> Result<Option<u64>, i64> {
    match text.trim() {
        "max" => Ok(None),
        text => match number(text)? {
            most if most < PIDS_MOST => Ok(Some(most)),
            _ => Err(EINVAL),
        },
    }
}

/// "0" or "1".
pub fn flag(text: &str) -> Result<bool, i64> {
    match number(text)? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(EINVAL),
    }
}

/// cgroup.kill takes a 1.
pub fn one(text: &str) -> Result<(), i64> {
    match number(text)? {
        1 => Ok(()),
        _ => Err(ERANGE),
    }
}

/// Controllers to be enabled and to be disabled: "+memory -pids".
pub fn controls(text: &str) -> Result<(u8, u8), i64> {
    let (mut on, mut off) = (0, 0);
    for word in text.split_whitespace() {
        let (enable, name) = match word.split_at_checked(1) {
            Some(("+", name)) => (true, name),
            Some(("-", name)) => (false, name),
            _ => return Err(EINVAL),
        };
        let found = CONTROLLERS.iter().find(|(known, _)| *known == name);
        let (_, bit) = found.ok_or(EINVAL)?;
        // The last word counts.
        (on, off) = match enable {
            true => (on | bit, off & !bit),
            false => (on & !bit, off | bit),
        };
    }
    Ok((on, off))
}
