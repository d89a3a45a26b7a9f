//! The lines of /proc/cairn/components, and a table of them. (`idl/components.idl` says what each word is.)

use std::io;

/// A component as `init` tells of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Component {
    pub name: String,
    pub state: char,
    pub priority: u64,
    pub effective: u64,
    /// Nanoseconds.
    pub processor: u64,
    pub messages: Option<u64>,
    /// Bytes.
    pub memory: Option<u64>,
    pub threads: u64,
    pub portals: u64,
    pub lives: u64,
    pub restart: String,
}

impl Component {
    pub fn is_alive(&self) -> bool {
        matches!(self.state, 'R' | 'S' | 'T')
    }
}

/// The first line names the columns. A line of another shape is left out.
pub fn parse(text: &str) -> Vec<Component> {
    text.lines().skip(1).filter_map(line).collect()
}

fn line(line: &str) -> Option<Component> {
    let words: Vec<&str> = line.split(' ').collect();
    let [name, state, priority, effective, processor, messages, memory, threads, portals, lives, restart, ..] =
        words[..]
    else {
        return None;
    };
    Some(Component {
        name: name.into(),
        state: state.chars().next()?,
        priority: priority.parse().ok()?,
        effective: effective.parse().ok()?,
        processor: processor.parse().ok()?,
        messages: messages.parse().ok(),
        memory: memory.parse().ok(),
        threads: threads.parse().ok()?,
        portals: portals.parse().ok()?,
        lives: lives.parse().ok()?,
        restart: restart.into(),
    })
}

pub fn state(letter: char) -> &'static str {
    match letter {
        'R' => "ready",
        'S' => "waits",
        'T' => "stopped",
        'W' => "restarts",
        'X' => "ended",
        'G' => "given-up",
        _ => "?",
    }
}

pub(crate) fn known(value: Option<u64>) -> String {
    value.map_or("-".into(), |value| value.to_string())
}

pub(crate) fn kib(bytes: Option<u64>) -> String {
    bytes.map_or("-".into(), |bytes| format!("{}K", bytes / 1024))
}

/// As `14` or, while it has another, `14>16`.
pub(crate) fn priority(component: &Component) -> String {
    match component.effective == component.priority {
        true => component.priority.to_string(),
        false => format!("{}>{}", component.priority, component.effective),
    }
}

/// What `ps` shows.
pub fn table(all: &[Component]) -> String {
    let mut text = format!(
        "{:<16} {:<8} {:>7} {:>11} {:>10} {:>8} {:>7} {:>7} {:>5} {}\n",
        "NAME",
        "STATE",
        "PRIO",
        "CPU",
        "MESSAGES",
        "MEMORY",
        "THREADS",
        "PORTALS",
        "LIVES",
        "RESTART"
    );
    for it in all {
        text.push_str(&format!(
            "{:<16} {:<8} {:>7} {:>10}s {:>10} {:>8} {:>7} {:>7} {:>5} {}\n",
            it.name,
            state(it.state),
            priority(it),
            seconds(it.processor),
            known(it.messages),
            kib(it.memory),
            it.threads,
            it.portals,
            it.lives,
            it.restart
        ));
    }
    text
}

/// Nanoseconds as seconds with milliseconds.
pub fn seconds(ns: u64) -> String {
    format!("{}.{:03}", ns / 1_000_000_000, ns / 1_000_000 % 1000)
}

/// Whether that is a refusal. (Of a component that can be restarted another error is no answer: it was the file server of /proc.)
pub(crate) fn is_refusal(component: &Component, error: &io::Error) -> bool {
    let can = component.restart == "always" && component.is_alive();
    !can || error.kind() == io::ErrorKind::PermissionDenied
}

/// Why a component was not restarted.
pub fn refusal(component: &Component, error: &io::Error) -> String {
    let name = &component.name;
    match error.kind() {
        io::ErrorKind::PermissionDenied => format!("only user 0 may restart {name}"),
        _ if component.restart == "halt" => format!(
            "{name} cannot be restarted: the machine would end with it (restart = \"halt\" in the manifest)"
        ),
        _ if component.restart == "never" => {
            format!("{name} cannot be restarted: once ended it stays so (restart = \"never\", or a mount without a keepsake)")
        }
        _ if component.state == 'G' => {
            format!("{name} cannot be restarted: it died too often and was given up")
        }
        _ if !component.is_alive() => format!("{name} does not run; it is being started"),
        _ => format!("{name}: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "name state priority effective cpu_ns messages memory threads portals lives restart\n\
        vm S 160 160 1234567890 - - 1 20 1 halt\nuart0 R 192 200 1000000 55 8192 1 9 3 always\nbroken\n";

    #[test]
    fn lines_become_components_and_a_table() {
        let all = parse(TEXT);
        assert_eq!(all.len(), 2);
        assert_eq!((all[0].messages, all[1].messages), (None, Some(55)));
        let table = table(&all);
        let rows: Vec<Vec<&str>> = table
            .lines()
            .map(|l| l.split_whitespace().collect())
            .collect();
        assert_eq!(
            rows[1],
            ["vm", "waits", "160", "1.234s", "-", "-", "1", "20", "1", "halt"]
        );
        assert_eq!(
            rows[2],
            ["uart0", "ready", "192>200", "0.001s", "55", "8K", "1", "9", "3", "always"]
        );
    }

    #[test]
    fn a_refusal_says_why() {
        let all = parse(TEXT);
        let busy = io::Error::from_raw_os_error(16);
        assert!(refusal(&all[0], &busy).contains("the machine would end"));
        let denied = io::Error::from_raw_os_error(13);
        assert_eq!(refusal(&all[1], &denied), "only user 0 may restart uart0");
        let cut_off = io::Error::from_raw_os_error(5);
        let told = [(0, &busy), (1, &denied), (1, &cut_off)].map(|(at, e)| is_refusal(&all[at], e));
        assert_eq!(told, [true, true, false]);
        let given_up = Component {
            state: 'G',
            ..all[1].clone()
        };
        let none = io::Error::from_raw_os_error(6);
        assert!(refusal(&given_up, &none).contains("given up"));
    }
}
