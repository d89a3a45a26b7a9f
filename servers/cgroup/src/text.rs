//! What is written to files: numbers, sizes, names of controllers.

use crate::files::CONTROLLERS;
use cairn_idl::errno::{EINVAL, ERANGE};

const PAGE: u64 = 4096;
/// µs of a period, and of its processor time.
const PERIOD: core::ops::RangeInclusive<u64> = 1000..=1_000_000;
const QUOTA_LEAST: u64 = 1000;
const QUOTA_END: u64 = u32::MAX as u64;
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

/// cpu.max: processor time of a period (`None`: no limit) and the period, both in µs; the period may be missing.
pub fn bandwidth(text: &str, before: u64) -> Result<(Option<u64>, u64), i64> {
    let mut words = text.split_whitespace();
    let quota = match words.next() {
        Some("max") => None,
        Some(word) => Some(number(word)?),
        None => return Err(EINVAL),
    };
    let period = words.next().map_or(Ok(before), number)?;
    let fits = |quota: u64| (QUOTA_LEAST..QUOTA_END).contains(&quota);
    match words.next() {
        None if PERIOD.contains(&period) && quota.is_none_or(fits) => Ok((quota, period)),
        _ => Err(EINVAL),
    }
}

/// cpu.weight.
pub fn weight(text: &str) -> Result<u64, i64> {
    match number(text)? {
        weight @ 1..=10_000 => Ok(weight),
        _ => Err(ERANGE),
    }
}

/// cpu.weight.nice.
pub fn nice(text: &str) -> Result<i64, i64> {
    match text.trim().parse() {
        Ok(nice @ -20..=19) => Ok(nice),
        Ok(_) => Err(ERANGE),
        Err(_) => Err(EINVAL),
    }
}

/// Each nice value has about a quarter more than the next, so ten of them make tenfold; 0 has 100.
const STEP: (u64, u64) = (5, 4);
const MIDDLE: u64 = 100;

/// The weight of a nice value.
pub fn weight_of(nice: i64) -> u64 {
    let mut weight = MIDDLE * 1000;
    for _ in 0..nice.unsigned_abs() {
        weight = match nice > 0 {
            true => weight * STEP.1 / STEP.0,
            false => weight * STEP.0 / STEP.1,
        };
    }
    (weight + 500) / 1000
}

/// The nice value whose weight is nearest.
pub fn nice_of(weight: u64) -> i64 {
    let nearest = (-20..20).min_by_key(|nice| weight_of(*nice).abs_diff(weight));
    nearest.unwrap_or(0)
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
