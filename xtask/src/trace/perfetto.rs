//! Records as Chrome's JSON trace events, which Perfetto and chrome://tracing open. Tracks: the processor's cores (who runs, entries of the nucleus, interrupts), and each domain with
//! its threads (running, calls that wait for their answer).

use cairn_abi::service::{current, memory, receive};
use cairn_abi::trace::{kind, Record};
use cairn_abi::{op, PortalKind};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{Result, Write};

/// Numbers of the processor's tracks, two for each core. Domains are numbered from [`DOMAINS`] on.
const PROCESSOR: u64 = 1;
const DOMAINS: u64 = 10;

fn running(core: u8) -> u64 {
    1 + 2 * core as u64
}

fn entries(core: u8) -> u64 {
    2 + 2 * core as u64
}

/// What has been found out on the way through the records.
struct Trace<'a> {
    names: &'a HashMap<u32, String>,
    /// Which domain receives on a channel.
    servers: HashMap<u32, u32>,
    /// Threads that were seen, and their domains.
    threads: BTreeMap<u32, u32>,
    cores: BTreeSet<u8>,
    out: &'a mut dyn Write,
    first: bool,
}

/// Nanoseconds as the format's microseconds.
fn time(ns: u64) -> f64 {
    ns as f64 / 1000.0
}

/// Which domain receives on a channel.
pub fn servers(records: &[Record]) -> HashMap<u32, u32> {
    let receives = records.iter().filter(|r| {
        r.kind == kind::SYSCALL
            && r.portal == PortalKind::Receive as u8
            && matches!(r.operation, receive::RECEIVE | receive::REPLY_RECEIVE)
    });
    receives.map(|r| (r.detail as u32, r.domain)).collect()
}

/// What a domain is called.
pub fn domain(names: &HashMap<u32, String>, id: u32) -> String {
    match names.get(&id) {
        Some(name) => name.clone(),
        None => format!("domain {}", id & 0xf_ffff),
    }
}

/// Calls that were answered, and when their callers went on.
pub fn calls(records: &[Record]) -> Vec<(&Record, u64)> {
    let mut waiting: HashMap<u32, &Record> = HashMap::new();
    let mut calls = Vec::new();
    for r in records {
        if let Some(call) = waiting.remove(&r.next_thread) {
            calls.push((call, r.time + r.length as u64));
        }
        let call = r.kind == kind::SYSCALL
            && r.portal == PortalKind::Channel as u8
            && r.operation == op::CALL
            && r.next_thread != r.thread;
        if call {
            waiting.insert(r.thread, r);
        }
    }
    calls
}

pub fn write(records: &[Record], names: &HashMap<u32, String>, out: &mut dyn Write) -> Result<()> {
    let servers = servers(records);
    let mut threads = BTreeMap::new();
    let mut cores = BTreeSet::from([0]);
    for r in records {
        cores.insert(r.core);
        for (thread, domain) in [(r.thread, r.domain), (r.next_thread, r.next_domain)] {
            if thread != 0 {
                threads.insert(thread, domain);
            }
        }
    }
    let mut trace = Trace {
        names,
        servers,
        threads,
        cores,
        out,
        first: true,
    };
    trace
        .out
        .write_all(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[")?;
    trace.tracks()?;
    trace.entries(records)?;
    trace.running(records)?;
    trace.calls(records)?;
    trace.out.write_all(b"\n]}\n")
}

impl Trace<'_> {
    fn event(&mut self, event: serde_json::Value) -> Result<()> {
        self.out
            .write_all(if self.first { b"\n" } else { b",\n" })?;
        self.first = false;
        serde_json::to_writer(&mut *self.out, &event)?;
        Ok(())
    }

    fn slice(&mut self, track: (u64, u64), name: &str, from: u64, to: u64) -> Result<()> {
        let length = time(to.saturating_sub(from));
        self.event(json!({"ph": "X", "pid": track.0, "tid": track.1, "name": name, "ts": time(from), "dur": length}))
    }

    fn domain(&self, id: u32) -> String {
        domain(self.names, id)
    }

    fn tracks(&mut self) -> Result<()> {
        let name = |what: &str, track: (u64, u64), name: String| json!({"ph": "M", "name": what, "pid": track.0, "tid": track.1, "args": {"name": name}});
        self.event(name("process_name", (PROCESSOR, 0), "processor".into()))?;
        for core in self.cores.clone() {
            for (number, what) in [(running(core), "runs"), (entries(core), "nucleus")] {
                let called = match self.cores.len() {
                    1 => what.to_string(),
                    _ => format!("core {core} {what}"),
                };
                self.event(name("thread_name", (PROCESSOR, number), called))?;
            }
        }
        let threads: Vec<(u32, u32)> = self.threads.iter().map(|(&t, &d)| (t, d)).collect();
        for (thread, domain) in threads {
            let track = (DOMAINS + domain as u64, thread as u64);
            let called = self.domain(domain);
            self.event(name("process_name", track, called))?;
            self.event(name("thread_name", track, format!("thread {thread}")))?;
        }
        Ok(())
    }

    /// What an entry did, in words.
    fn entry(&self, r: &Record) -> String {
        let operation = r.operation;
        match r.kind {
            kind::PAGE_FAULT => format!("page fault {:#x}", r.detail),
            kind::EXCEPTION => format!("exception {}", r.detail),
            kind::INTERRUPT => format!("interrupt {}", r.detail),
            kind::TIMER => "timer".into(),
            kind::COME_IN => "asked to come in".into(),
            _ if r.portal == PortalKind::Channel as u8 => {
                let what = if operation == 0 { "call" } else { "notify" };
                format!("{what} {}", self.server(r))
            }
            _ if r.portal == PortalKind::Receive as u8 => match operation {
                receive::RECEIVE => "receive".into(),
                receive::REPLY => "reply".into(),
                receive::REPLY_RECEIVE => "reply, receive".into(),
                receive::READ => "read the caller".into(),
                receive::WRITE => "write the caller".into(),
                receive::MAKE_PORTAL => "make a portal".into(),
                _ => format!("receive right, operation {operation}"),
            },
            _ if r.portal == PortalKind::Current as u8 => match operation {
                current::YIELD => "yield".into(),
                current::EXIT => "exit".into(),
                current::SLEEP => "sleep".into(),
                current::PARK => "park".into(),
                current::UNPARK => "unpark".into(),
                current::PORTAL_CLOSE => "close".into(),
                _ => format!("own service {operation}"),
            },
            _ if r.portal == PortalKind::Memory as u8 => match operation {
                memory::MAP | memory::MAP_LIST => "map".into(),
                memory::UNMAP => "unmap".into(),
                memory::PROTECT => "protect".into(),
                memory::SHARE => "share".into(),
                memory::FILL => "fill, map".into(),
                memory::SHOW_TABLE => "show the common table".into(),
                memory::TAKE => "take pages of a pool".into(),
                _ => format!("memory service {operation}"),
            },
            _ => format!("{} {operation}", service(r.portal)),
        }
    }

    /// Who serves the channel that a record is about.
    fn server(&self, r: &Record) -> String {
        match self.servers.get(&(r.detail as u32)) {
            Some(&domain) => self.domain(domain),
            None => format!("channel {}", r.detail as u32),
        }
    }

    fn entries(&mut self, records: &[Record]) -> Result<()> {
        for r in records {
            let name = self.entry(r);
            let by = self.domain(r.domain);
            let error = cairn_abi::Error::from_code(r.error).map(|error| format!("{error:?}"));
            let args = json!({"by": by, "thread": r.thread, "next": r.next_thread, "badge": r.detail >> 32, "error": error});
            self.event(
                json!({"ph": "X", "pid": PROCESSOR, "tid": entries(r.core), "name": name,
                "ts": time(r.time), "dur": time(r.length as u64), "args": args}),
            )?;
        }
        Ok(())
    }

    /// Who ran on each core from the end of one entry to the beginning of another that ends with somebody else.
    fn running(&mut self, records: &[Record]) -> Result<()> {
        let mut all = HashMap::new();
        for r in records {
            let since = all.get(&r.core).copied();
            let (thread, from) = since.unwrap_or((r.thread, r.time));
            if r.next_thread != thread || since.is_none() {
                if since.is_some() && thread != 0 {
                    let domain = self.threads.get(&thread).copied().unwrap_or(0);
                    let name = self.domain(domain);
                    self.slice((PROCESSOR, running(r.core)), &name, from, r.time)?;
                    let track = (DOMAINS + domain as u64, thread as u64);
                    self.slice(track, "runs", from, r.time)?;
                }
                all.insert(r.core, (r.next_thread, r.time + r.length as u64));
            }
        }
        Ok(())
    }

    /// Calls from the caller's last instruction before to its first one afterwards.
    fn calls(&mut self, records: &[Record]) -> Result<()> {
        for (call, end) in calls(records) {
            let name = format!("calls {}", self.server(call));
            let track = (DOMAINS + call.domain as u64, call.thread as u64);
            self.slice(track, &name, call.time, end)?;
        }
        Ok(())
    }
}

fn service(portal: u8) -> &'static str {
    const NAMES: [(PortalKind, &str); 8] = [
        (PortalKind::Domain, "domain service"),
        (PortalKind::Space, "space service"),
        (PortalKind::Thread, "thread service"),
        (PortalKind::Machine, "machine service"),
        (PortalKind::Interrupt, "interrupt service"),
        (PortalKind::Ports, "ports"),
        (PortalKind::Log, "log"),
        (PortalKind::Semaphore, "semaphore"),
    ];
    let found = NAMES.iter().find(|(kind, _)| *kind as u8 == portal);
    found.map_or("no portal", |(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(time: u64, what: (u8, PortalKind, u8), threads: (u32, u32), detail: u64) -> Record {
        Record {
            time,
            length: 10,
            kind: what.0,
            core: 0,
            operation: what.2,
            portal: what.1 as u8,
            error: 0,
            thread: threads.0,
            domain: threads.0 + 100,
            next_thread: threads.1,
            next_domain: threads.1 + 100,
            detail,
        }
    }

    #[test]
    fn a_call_its_server_and_an_interrupt_become_slices() {
        let call = (kind::SYSCALL, PortalKind::Channel, 0);
        let answer = (kind::SYSCALL, PortalKind::Receive, receive::REPLY_RECEIVE);
        let records = [
            record(1000, answer, (2, 1), 55),
            record(2000, call, (1, 2), 55 | 7 << 32),
            record(2500, (kind::INTERRUPT, PortalKind::Empty, 0), (2, 2), 4),
            record(3000, answer, (2, 1), 55),
            record(4000, (kind::TIMER, PortalKind::Empty, 0), (1, 3), 0),
        ];
        let names = HashMap::from([(102, "tmpfs".to_string())]);
        let mut out = Vec::new();
        write(&records, &names, &mut out).unwrap();
        let all: serde_json::Value = serde_json::from_slice(&out).unwrap();
        let events = all["traceEvents"].as_array().unwrap();
        let find = |name: &str, pid: u64| {
            events
                .iter()
                .filter(|e| e["ph"] == "X" && e["name"] == name && e["pid"] == pid)
                .map(|e| (e["ts"].as_f64().unwrap(), e["dur"].as_f64().unwrap()))
                .collect::<Vec<_>>()
        };
        assert_eq!(find("calls tmpfs", 111), [(2.0, 1.01)]);
        assert_eq!(find("call tmpfs", PROCESSOR), [(2.0, 0.01)]);
        assert_eq!(find("interrupt 4", PROCESSOR), [(2.5, 0.01)]);
        assert_eq!(find("tmpfs", PROCESSOR), [(2.01, 0.99)], "one stretch");
        assert_eq!(find("runs", 111), [(1.01, 0.99), (3.01, 0.99)]);
        let named = events.iter().any(|e| {
            e["name"] == "process_name" && e["pid"] == 112 && e["args"]["name"] == "tmpfs"
        });
        assert!(named);
    }

    #[test]
    fn each_core_has_tracks_of_its_own() {
        let nothing = PortalKind::Empty;
        let on = |core, time, threads| Record {
            core,
            ..record(time, (kind::COME_IN, nothing, 0), threads, 0)
        };
        let records = [
            on(0, 1000, (1, 2)),
            on(3, 1500, (0, 1)),
            on(0, 2000, (2, 3)),
            on(3, 2500, (1, 0)),
        ];
        let mut out = Vec::new();
        write(&records, &HashMap::new(), &mut out).unwrap();
        let all: serde_json::Value = serde_json::from_slice(&out).unwrap();
        let slices = |track: u64| {
            let events = all["traceEvents"].as_array().unwrap().iter();
            let of = events.filter(move |e| e["ph"] == "X" && e["pid"] == 1 && e["tid"] == track);
            of.map(|e| (e["ts"].as_f64().unwrap(), e["dur"].as_f64().unwrap()))
                .collect::<Vec<_>>()
        };
        assert_eq!(slices(running(0)), [(1.01, 0.99)]);
        assert_eq!(slices(running(3)), [(1.51, 0.99)]);
        assert_eq!(slices(entries(3)).len(), 2);
    }

    #[test]
    fn no_records_are_a_file_all_the_same() {
        let mut out = Vec::new();
        write(&[], &HashMap::new(), &mut out).unwrap();
        let _: serde_json::Value = serde_json::from_slice(&out).unwrap();
    }
}
