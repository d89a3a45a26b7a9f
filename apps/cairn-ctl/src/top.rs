//! `top`: the components every few seconds, with what each did since the last time.

use crate::components::{kib, priority, state, Component};
use rustix::event::{poll, PollFd, PollFlags};
use rustix::termios::{self, LocalModes, OptionalActions, SpecialCodeIndex, Termios};
use std::collections::HashMap;
use std::io::{IsTerminal, Read};
use std::time::Instant;

/// The terminal gives each key at once, and is put back as it was.
struct Keys(Option<Termios>);

impl Keys {
    fn new() -> Keys {
        let input = std::io::stdin();
        let saved = match input.is_terminal() {
            true => termios::tcgetattr(&input).ok(),
            false => None,
        };
        if let Some(saved) = &saved {
            let mut raw = saved.clone();
            raw.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
            raw.special_codes[SpecialCodeIndex::VMIN] = 1;
            raw.special_codes[SpecialCodeIndex::VTIME] = 0;
            // Without it `q` needs a newline.
            let _ = termios::tcsetattr(&input, OptionalActions::Now, &raw);
        }
        Keys(saved)
    }

    /// Wait so long, or until `q` is typed or the input ends: true.
    fn wait(&self, seconds: u64) -> bool {
        let begun = Instant::now();
        loop {
            let left = (seconds * 1000).saturating_sub(begun.elapsed().as_millis() as u64);
            if left == 0 {
                return false;
            }
            if self.0.is_none() {
                std::thread::sleep(std::time::Duration::from_millis(left));
                return false;
            }
            let mut input = std::io::stdin();
            let timeout = rustix::event::Timespec {
                tv_sec: (left / 1000) as i64,
                tv_nsec: (left % 1000 * 1_000_000) as i64,
            };
            let mut waits = [PollFd::new(&input, PollFlags::IN)];
            match poll(&mut waits, Some(&timeout)) {
                Ok(0) => return false,
                Ok(_) => {}
                Err(_) => continue,
            }
            let mut key = [0; 64];
            match input.read(&mut key) {
                Ok(0) | Err(_) => return true,
                Ok(length) if key[..length].contains(&b'q') => return true,
                Ok(_) => {}
            }
        }
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        if let Some(saved) = &self.0 {
            // If the terminal is gone there is nothing to mend.
            let _ = termios::tcsetattr(std::io::stdin(), OptionalActions::Now, saved);
        }
    }
}

pub fn top(words: &[&str]) -> Result<(), String> {
    let (mut interval, mut times) = (2, u64::MAX);
    for pair in words.chunks(2) {
        let number = pair.get(1).and_then(|n| n.parse().ok()).filter(|n| *n > 0);
        match (pair[0], number) {
            ("-d", Some(number)) => interval = number,
            ("-n", Some(number)) => times = number,
            _ => return Err("top takes -d SECONDS and -n TIMES".into()),
        }
    }
    let clear = std::io::stdout().is_terminal();
    let keys = Keys::new();
    let mut before = crate::states()?;
    let mut since = Instant::now();
    while times > 0 && !keys.wait(interval) {
        // /proc's own server may be being restarted.
        let Ok(now) = crate::states() else { continue };
        let elapsed = since.elapsed().as_nanos().max(1) as u64;
        since = Instant::now();
        let rows = match (clear, termios::tcgetwinsize(std::io::stdout())) {
            (true, Ok(size)) if size.ws_row > 2 => size.ws_row as usize - 1,
            _ => usize::MAX,
        };
        let text = page(&before, &now, elapsed);
        let shown: String = text.split_inclusive('\n').take(rows).collect();
        crate::print(if clear { "\x1b[H\x1b[2J" } else { "" });
        crate::print(&shown);
        before = now;
        times -= 1;
    }
    Ok(())
}

/// One page: what was used between two moments that are so many nanoseconds apart, the busiest first.
fn page(before: &[Component], now: &[Component], elapsed: u64) -> String {
    let old: HashMap<&str, &Component> = before.iter().map(|c| (c.name.as_str(), c)).collect();
    let mut rows: Vec<(u64, Option<u64>, &Component)> = now
        .iter()
        .map(|it| {
            // What a former life used is not this one's.
            let same = old.get(it.name.as_str()).filter(|c| c.lives == it.lives);
            let used = |new: u64, old: Option<u64>| new.saturating_sub(old.unwrap_or(0));
            let processor = used(it.processor, same.map(|c| c.processor));
            let messages = it.messages.map(|n| used(n, same.and_then(|c| c.messages)));
            (processor, messages, it)
        })
        .collect();
    rows.sort_by_key(|row| std::cmp::Reverse((row.0, row.1)));
    let mut text = format!(
        "{:<16} {:<8} {:>7} {:>6} {:>9} {:>8} {:>7} {:>5}\n",
        "NAME", "STATE", "PRIO", "CPU%", "MSG/S", "MEMORY", "PORTALS", "LIVES"
    );
    for (processor, messages, it) in rows {
        let tenths = (u128::from(processor) * 1000 / u128::from(elapsed)) as u64;
        let rate = messages.map(|n| (u128::from(n) * 1_000_000_000 / u128::from(elapsed)) as u64);
        text.push_str(&format!(
            "{:<16} {:<8} {:>7} {:>6} {:>9} {:>8} {:>7} {:>5}\n",
            it.name,
            state(it.state),
            priority(it),
            format!("{}.{}", tenths / 10, tenths % 10),
            crate::components::known(rate),
            kib(it.memory),
            it.portals,
            it.lives
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_busiest_comes_first_and_lives_are_not_mixed() {
        let of = |name: &str, processor, messages, lives| Component {
            name: name.into(),
            state: 'S',
            processor,
            messages: Some(messages),
            lives,
            ..Component::default()
        };
        let before = [
            of("a", 5_000, 10, 1),
            of("b", 1_000, 10, 1),
            of("c", 900, 900, 1),
        ];
        let now = [
            of("a", 6_000, 30, 1),
            of("b", 501_000, 20, 1),
            of("c", 100, 4, 2),
        ];
        let text = page(&before, &now, 1_000_000);
        let rows: Vec<Vec<&str>> = text
            .lines()
            .map(|l| l.split_whitespace().collect())
            .collect();
        let told: Vec<_> = rows[1..].iter().map(|r| (r[0], r[3], r[4])).collect();
        assert_eq!(
            told,
            [
                ("b", "50.0", "10000"),
                ("a", "0.1", "20000"),
                ("c", "0.0", "4000")
            ]
        );
    }
}
