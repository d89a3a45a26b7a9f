//! Who called whom, how often, and how long they waited: as a table (`./cairn trace --callers`), and as a drawing (`--svg`).

use super::perfetto::{calls, domain, servers};
use cairn_abi::trace::{kind, Record};
use cairn_abi::{op, PortalKind};
use cairn_ctl::graph::Graph;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;

/// What one caller had with one server.
#[derive(Default)]
struct Pair {
    calls: u64,
    /// Pulses, which nobody waits for.
    pulses: u64,
    /// ns from calls to their answers, and of the longest.
    waited: u64,
    longest: u64,
}

/// Caller and called.
type Names = (String, String);

/// Who called and whom, in a record of a call.
fn between(r: &Record, servers: &HashMap<u32, u32>, names: &HashMap<u32, String>) -> Names {
    let server = servers.get(&(r.detail as u32));
    let server = server.map_or("?".to_string(), |&server| domain(names, server));
    (domain(names, r.domain), server)
}

/// Each pair, in the order of the time that callers waited. Programs of the same name are one. What was not answered yet is not counted.
fn pairs(records: &[Record], names: &HashMap<u32, String>) -> Vec<(Names, Pair)> {
    let servers = servers(records);
    let mut pairs: BTreeMap<Names, Pair> = BTreeMap::new();
    for (call, end) in calls(records) {
        let pair = pairs.entry(between(call, &servers, names)).or_default();
        let waited = end.saturating_sub(call.time);
        pair.calls += 1;
        pair.waited += waited;
        pair.longest = pair.longest.max(waited);
    }
    let pulses = records.iter().filter(|r| {
        r.kind == kind::SYSCALL
            && r.portal == PortalKind::Channel as u8
            && r.operation == op::NOTIFY
            && r.error == 0
    });
    for pulse in pulses {
        let pair = pairs.entry(between(pulse, &servers, names)).or_default();
        pair.pulses += 1;
    }
    let mut lines: Vec<_> = pairs.into_iter().collect();
    lines.sort_by_key(|(_, pair)| std::cmp::Reverse((pair.waited, pair.pulses)));
    lines
}

fn us(ns: u64) -> f64 {
    ns as f64 / 1000.0
}

/// The drawing.
pub fn svg(records: &[Record], names: &HashMap<u32, String>) -> String {
    let calls = pairs(records, names).into_iter().map(|((from, to), pair)| {
        let said = format!(
            "{} calls, {} pulses, waited {:.1} us",
            pair.calls,
            pair.pulses,
            us(pair.waited)
        );
        (from, to, said)
    });
    let legend = "An arrow: called, or sent pulses to, in this trace. How often is told where the pointer rests.";
    Graph::of_calls(calls, legend).svg()
}

/// Every call that was answered, as they were made (`--calls`): since the first record, by whom, to whom, how long until the caller went on.
pub fn list(records: &[Record], names: &HashMap<u32, String>) -> String {
    let servers = servers(records);
    let mut text = format!(
        "{:>12} {:<16} {:<16} {:>12}\n",
        "AT us", "CALLER", "CALLED", "WAITED us"
    );
    let mut all = calls(records);
    all.sort_by_key(|(call, _)| call.time);
    let start = records.first().map_or(0, |first| first.time);
    for (call, end) in all {
        let (caller, called) = between(call, &servers, names);
        let _ = writeln!(
            text,
            "{:>12.1} {caller:<16} {called:<16} {:>12.1}",
            us(call.time.saturating_sub(start)),
            us(end.saturating_sub(call.time))
        );
    }
    text
}

/// The table, with a line for each pair.
pub fn table(records: &[Record], names: &HashMap<u32, String>) -> String {
    let mut text = format!(
        "{:<16} {:<16} {:>8} {:>8} {:>12} {:>10} {:>12}\n",
        "CALLER", "CALLED", "CALLS", "PULSES", "WAITED us", "MEAN us", "LONGEST us"
    );
    for ((caller, called), pair) in pairs(records, names) {
        let mean = pair.waited.checked_div(pair.calls).unwrap_or(0);
        let _ = writeln!(
            text,
            "{caller:<16} {called:<16} {:>8} {:>8} {:>12.1} {:>10.1} {:>12.1}",
            pair.calls,
            pair.pulses,
            us(pair.waited),
            us(mean),
            us(pair.longest)
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_abi::service::receive;

    #[test]
    fn calls_are_counted_by_who_made_them_to_whom() {
        let record = |time, portal: PortalKind, operation, from: u32, to: u32| Record {
            time,
            length: 10,
            kind: kind::SYSCALL,
            operation,
            portal: portal as u8,
            thread: from,
            domain: from + 100,
            next_thread: to,
            next_domain: to + 100,
            detail: 55 | 7 << 32,
            ..Record::default()
        };
        let (channel, receiver) = (PortalKind::Channel, PortalKind::Receive);
        let records = [
            record(1000, channel, op::CALL, 1, 2),
            record(3000, receiver, receive::REPLY_RECEIVE, 2, 1),
            record(4000, channel, op::CALL, 3, 2),
            record(8990, receiver, receive::REPLY_RECEIVE, 2, 3),
            record(9000, channel, op::NOTIFY, 1, 1),
            record(9500, channel, op::CALL, 1, 2),
        ];
        let called = |id, name: &str| (id, name.to_string());
        let names = HashMap::from([called(101, "sh"), called(102, "tmpfs"), called(103, "sh")]);
        let text = table(&records, &names);
        let line = text.lines().nth(1).unwrap();
        let words: Vec<_> = line.split_whitespace().collect();
        assert_eq!(words, ["sh", "tmpfs", "2", "1", "7.0", "3.5", "5.0"]);
        assert_eq!(text.lines().count(), 2);
        let text = list(&records, &names);
        let lines: Vec<Vec<&str>> = text
            .lines()
            .skip(1)
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(
            lines,
            [["0.0", "sh", "tmpfs", "2.0"], ["3.0", "sh", "tmpfs", "5.0"]]
        );
        assert!(svg(&records, &names).contains("sh calls tmpfs: 2 calls, 1 pulses, waited 7.0 us"));
    }
}
