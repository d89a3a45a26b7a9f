//! What `init` tells of a component: the lines of `idl/components.idl`'s LIST.

use alloc::format;
use alloc::string::{String, ToString};
use cairn_manifest::Restart;

/// What a component does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// As the nucleus tells of its first thread: 0 runs or is ready, 1 waits, 2 is stopped.
    Lives(u64),
    /// It is to be started again.
    Due,
    Ended,
    GivenUp,
}

impl State {
    fn letter(self) -> char {
        match self {
            State::Lives(0) => 'R',
            State::Lives(1) => 'S',
            State::Lives(_) => 'T',
            State::Due => 'W',
            State::Ended => 'X',
            State::GivenUp => 'G',
        }
    }
}

/// A component at a moment. What nobody knows is none.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    pub state: State,
    /// Of its first thread: as given, and in effect.
    pub priority: (u64, u64),
    pub processor: u64,
    pub messages: Option<u64>,
    pub memory: Option<u64>,
    pub threads: u64,
    pub portals: u64,
    pub lives: u32,
    pub restart: Option<Restart>,
}

pub fn line(name: &str, seen: &Seen) -> String {
    let known = |value: Option<u64>| value.map_or("-".to_string(), |value| value.to_string());
    let restart = match seen.restart {
        Some(Restart::Always) => "always",
        Some(Restart::Halt) => "halt",
        Some(Restart::Never) => "never",
        None => "-",
    };
    format!(
        "{} {} {} {} {} {} {} {} {} {} {restart}\n",
        cairn_manifest::word(name),
        seen.state.letter(),
        seen.priority.0,
        seen.priority.1,
        seen.processor,
        known(seen.messages),
        known(seen.memory),
        seen.threads,
        seen.portals,
        seen.lives,
    )
}

/// As many of these texts, from the first one on, as have room; and how many that are.
pub fn fill(room: usize, texts: impl Iterator<Item = String>) -> (String, usize) {
    let mut all = String::new();
    let mut count = 0;
    for text in texts {
        if all.len() + text.len() > room {
            break;
        }
        all.push_str(&text);
        count += 1;
    }
    (all, count)
}

/// Why a component cannot be restarted by hand, as an error number.
pub fn refusal(restart: Restart, state: State) -> Result<(), i64> {
    use cairn_idl::errno::{EBUSY, EINVAL, ENXIO};
    match (restart, state) {
        (Restart::Halt, _) => Err(EBUSY),
        (Restart::Never, _) => Err(EINVAL),
        (Restart::Always, State::Lives(_)) => Ok(()),
        (Restart::Always, _) => Err(ENXIO),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEEN: Seen = Seen {
        state: State::Lives(1),
        priority: (140, 141),
        processor: 12_345,
        messages: Some(7),
        memory: None,
        threads: 1,
        portals: 20,
        lives: 2,
        restart: Some(Restart::Always),
    };

    #[test]
    fn a_line_has_a_word_for_each_thing() {
        let text = line("tmpfs a", &SEEN);
        assert_eq!(text, "tmpfs\\040a S 140 141 12345 7 - 1 20 2 always\n");
    }

    #[test]
    fn an_answer_has_whole_lines() {
        let texts = || (0..10).map(|n| format!("{n}\n"));
        assert_eq!(fill(5, texts()), ("0\n1\n".to_string(), 2));
        assert_eq!(fill(0, texts()).1, 0);
        assert_eq!(fill(100, texts()).1, 10);
    }

    #[test]
    fn only_what_lives_and_comes_again_is_restarted() {
        let lives = State::Lives(0);
        assert_eq!(refusal(Restart::Always, lives), Ok(()));
        assert_eq!(refusal(Restart::Halt, lives), Err(16));
        assert_eq!(refusal(Restart::Never, lives), Err(22));
        assert_eq!(refusal(Restart::Always, State::GivenUp), Err(6));
        assert_eq!(refusal(Restart::Always, State::Due), Err(6));
    }
}
