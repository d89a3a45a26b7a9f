//! Rules and their text, connections and translations, and the files: what programs write, what packets nobody in his right mind sends, and who pays.

use crate::connections::{Class, Connections, Direction, SECOND, SECONDS};
use crate::judge::{Answer, Filter, Interface, Packet, Say};
use crate::keep::Keep;
use crate::parse::parse;
use crate::rules::{Hook, Refusal};
use crate::tuple::{protocol, v4, Address, Tuple};
use crate::Manager;
use cairn_idl::errno::*;
use cairn_idl::filter::{self, about, page, said};
use cairn_idl::fs::{self, o};
use cairn_resmgr::fake::Bench;
use cairn_rt::Portal;
use proptest::prelude::*;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};

const RULES: &str = r#"#!/usr/sbin/nft -f
flush ruleset
table inet filter {
    chain input {
        type filter hook input priority 0; policy drop;
        ct state established,related accept
        iifname "lo" accept; iifname { eth0, "tun*" } tcp dport { 22, 80, 8000-8080 } accept
        ip saddr 10.0.0.0/8 ip daddr != 10.1.2.3 drop
        icmp type echo-request limit rate 5/second accept # five
        ip6 saddr { fd00::/8,
                    2001:db8::1-2001:db8::5 } counter packets 3 bytes 99 reject with icmpx type admin-prohibited
        tcp dport 25 counter reject with tcp reset comment "no mail"
        meta l4proto { tcp, udp } counter; reject
    }
    chain forward { type filter hook forward priority filter; ct state != invalid accept }
}
table ip nat {
    chain postrouting { type nat hook postrouting priority srcnat; oifname "eth0" masquerade
        udp dport 53 snat to 192.0.2.1:1024-1026 }
    chain prerouting { type nat hook prerouting priority dstnat
        tcp dport 8443 dnat to 10.0.0.5:443 }
}
"#;

fn shown(text: &str) -> String {
    let mut to = String::new();
    parse(text.as_bytes()).unwrap().show(&mut to);
    to
}

#[test]
fn a_text_is_shown_as_it_can_be_read_again() {
    let first = shown(RULES);
    assert_eq!(shown(&first), first);
    for part in [
        "iifname { \"eth0\", \"tun*\" } tcp dport { 22, 80, 8000-8080 } accept",
        "ip saddr 10.0.0.0/8 ip daddr != 10.1.2.3 drop",
        "limit rate 5/second burst 5 packets accept",
        "ip6 saddr { 2001:db8::1-2001:db8::5, fd00::/8 } counter packets 3 bytes 99",
        "counter packets 0 bytes 0 reject with tcp reset comment \"no mail\"",
        "snat to 192.0.2.1:1024-1026",
        "dnat to 10.0.0.5:443",
    ] {
        assert!(first.contains(part), "{part}:\n{first}");
    }
    assert!(parse(b"").unwrap().is_empty() && parse(b"# nothing\n\n").unwrap().is_empty());
}

#[test]
fn what_is_wrong_is_told_with_its_place() {
    let chain = |rest: &str| {
        format!("table inet f {{\n chain c {{\n  type filter hook input priority 0\n  {rest}\n }}\n}}\n")
    };
    for (text, told) in [
        (
            "tabel".into(),
            "line 1, column 1: expected `table` or `flush ruleset`, found `tabel`",
        ),
        (
            chain("tcp dport 70000 accept"),
            "line 4, column 13: expected a port (0 to 65535), found `70000`",
        ),
        (
            chain("tcp dport 5-3 accept"),
            "line 4, column 13: expected a port",
        ),
        (
            chain("ip saddr 10.0.0.0/33 drop"),
            "line 4, column 12: expected an address of IPv4",
        ),
        (
            chain("ip saddr ::1 drop"),
            "line 4, column 12: expected an address of IPv4",
        ),
        (
            chain("ct state old accept"),
            "line 4, column 12: expected new, established",
        ),
        (
            chain("masquerade"),
            "line 4, column 3: `masquerade` stands only in a nat chain",
        ),
        (
            chain("oifname lo drop"),
            "line 4, column 3: `oifname` stands only in a chain of forward",
        ),
        (
            chain("accept drop"),
            "line 4, column 10: expected the end of the rule",
        ),
        (
            chain("reject with tcp reset"),
            "line 4, column 3: `reject with tcp reset` needs a match of tcp",
        ),
        (
            chain("limit rate 0/second accept"),
            "line 4, column 14: expected a rate",
        ),
        (
            chain("comment \"a"),
            "line 4, column 11: expected `\"` before the line ends",
        ),
        (
            chain("policy reject"),
            "line 4, column 10: expected `accept` or `drop`, found `reject`",
        ),
        (
            "table inet f { chain c { type filter hook input priority 0".into(),
            "found the end of the text",
        ),
        (
            "table ip f { chain c { type nat hook postrouting priority 0; snat to ::1 } }".into(),
            "not of this table's family",
        ),
    ] {
        let wrong = parse(text.as_bytes()).map(|_| ()).unwrap_err();
        assert!(wrong.text().contains(told), "{}", wrong.text());
        assert_eq!(wrong.unfinished, told.contains("end of the text"));
    }
    let many = "table inet t { chain c { type filter hook input priority 0\n".to_string();
    let many = many + &"accept\n".repeat(1025) + "} }";
    assert!(parse(many.as_bytes())
        .err()
        .unwrap()
        .what
        .contains("1024 rules"));
    assert!(parse(&[b' '; 65_537]).is_err() && parse(b"table \xff").is_err());
}

const VOCABULARY: [&str; 78] = [
    "log",
    "prefix",
    "level",
    "flags",
    "&",
    "(syn|ack)",
    "syn",
    "==",
    "jump",
    "goto",
    "return",
    "d",
    "set",
    "@s",
    "s",
    "elements",
    "=",
    "ipv4_addr",
    "table",
    "inet",
    "ip",
    "ip6",
    "f",
    "{",
    "}",
    "chain",
    "type",
    "filter",
    "nat",
    "hook",
    "input",
    "forward",
    "output",
    "prerouting",
    "postrouting",
    "priority",
    "0",
    ";",
    "\n",
    "policy",
    "accept",
    "drop",
    "reject",
    "with",
    "tcp",
    "reset",
    "icmpx",
    "no-route",
    "udp",
    "dport",
    "sport",
    "22",
    "1-5",
    ",",
    "saddr",
    "daddr",
    "10.0.0.0/8",
    "fd00::/8",
    "!=",
    "ct",
    "state",
    "new",
    "established",
    "limit",
    "rate",
    "5/second",
    "burst",
    "packets",
    "counter",
    "bytes",
    "masquerade",
    "to",
    ":1-9",
    "snat",
    "dnat",
    "1.2.3.4:5",
    "iifname",
    "\"lo\"",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = parse(&bytes);
    }

    #[test]
    fn any_words_are_read_or_refused(words in proptest::collection::vec(0..VOCABULARY.len(), 0..60)) {
        let text: Vec<&str> = words.iter().map(|at| VOCABULARY[*at]).collect();
        let text = text.join(" ");
        for text in [text.clone(), format!("table inet t {{ set s {{ type ipv4_addr; elements = {{ 10.0.0.1 }}; }}
                chain c {{ type filter hook forward priority 0; {text} }}; chain d {{ counter }} }}"), format!("table inet t {{ chain c {{ type filter hook forward priority 0; {text} }} }}"),
            format!("table ip t {{ chain c {{ type nat hook postrouting priority 0; {text} }} }}")] {
            if let Ok(rules) = parse(text.as_bytes()) {
                let mut first = String::new();
                rules.show(&mut first);
                prop_assert_eq!(shown(&first), first);
            }
        }
    }
}

// ---- packets

fn random() -> u64 {
    static STATE: AtomicU64 = AtomicU64::new(0x1234_5678_9abc_def1);
    let mut word = STATE.load(Ordering::Relaxed);
    word ^= word << 13;
    word ^= word >> 7;
    word ^= word << 17;
    STATE.store(word, Ordering::Relaxed);
    word
}

const OWN: Address = v4([192, 0, 2, 1]);
const INSIDE: [u8; 4] = [10, 0, 0, 5];
const SERVER: Address = v4([203, 0, 113, 9]);
const SYN: u8 = 2;
const ACK: u8 = 16;

/// `lo`, the net inside, and the one outside.
fn filter(rules: &str, most: usize) -> Filter {
    let mut filter = Filter::new(random, most);
    let of = |name: &[u8], own| Interface {
        name: name.into(),
        addresses: [own, None],
    };
    filter.learn(vec![
        of(b"lo", None),
        of(b"tun0", Some(v4([10, 0, 0, 1]))),
        of(b"eth0", Some(OWN)),
    ]);
    assert!(filter.replace(parse(rules.as_bytes()).unwrap()));
    filter
}

const MASQUERADE: &str = "table ip nat { chain p { type nat hook postrouting priority 100; oifname eth0 masquerade } }
    table inet f { chain f { type filter hook forward priority 0; policy drop; ct state established,related accept; iifname tun0 accept } }";

fn packet(hook: Hook, by: (u8, u8), tuple: Tuple, kind: u8) -> Packet {
    let place = |of: u8| Some(of).filter(|of| *of != 255);
    Packet {
        hook,
        came_by: place(by.0),
        leaves_by: place(by.1),
        tuple,
        kind,
        length: 100,
        inside: by.0 == 0 || by.1 == 0,
        quoted: None,
        again: None,
    }
}

fn tuple(protocol: u8, source: Address, from: u16, destination: Address, to: u16) -> Tuple {
    Tuple {
        source,
        destination,
        source_port: from,
        destination_port: to,
        protocol,
    }
}

/// A packet from inside as it leaves, or None.
fn go_out(filter: &mut Filter, tuple: Tuple, kind: u8, now: u64) -> Option<Tuple> {
    let Answer { say, tuple: to, .. } =
        filter.judge(&packet(Hook::Forward, (1, 2), tuple, kind), now);
    (say == Say::Accept).then_some(to.unwrap_or(tuple))
}

/// One from outside to this machine's own address, as it goes on inside.
fn come_in(filter: &mut Filter, tuple: Tuple, kind: u8, now: u64) -> Option<Tuple> {
    let answer = filter.judge(&packet(Hook::Input, (2, 255), tuple, kind), now);
    let Say::Again(number) = answer.say else {
        return None;
    };
    let passes = answer.tuple.unwrap();
    let next = Packet {
        again: Some(number),
        ..packet(Hook::Forward, (2, 1), passes, kind)
    };
    let Answer { say, tuple: to, .. } = filter.judge(&next, now);
    (say == Say::Accept).then_some(to.unwrap_or(passes))
}

/// Each tuple is found, as the connection's own, and nobody else's.
fn check(connections: &Connections) {
    let mut all = HashSet::new();
    let mut count = 0;
    for at in 0..connections.end() {
        let Some(of) = connections.get(at) else {
            continue;
        };
        count += 1;
        for direction in [Direction::Original, Direction::Reply] {
            assert!(all.insert(*of.tuple(direction)));
            assert_eq!(connections.find(of.tuple(direction)), Some((at, direction)));
        }
    }
    assert_eq!(count, connections.len());
}

#[test]
fn a_masqueraded_connection_has_its_replies() {
    let mut filter = filter(MASQUERADE, 1000);
    let out = tuple(protocol::TCP, v4(INSIDE), 5000, SERVER, 80);
    let left = go_out(&mut filter, out, SYN, 0).unwrap();
    assert_eq!(left, tuple(protocol::TCP, OWN, 5000, SERVER, 80));
    // Another machine inside with the same port gets another one.
    let other = tuple(protocol::TCP, v4([10, 0, 0, 6]), 5000, SERVER, 80);
    let second = go_out(&mut filter, other, SYN, 0).unwrap();
    assert!(second.source == OWN && second.source_port > 1023 && second != left);
    assert_eq!(
        come_in(&mut filter, left.inverse(), SYN | ACK, 1),
        Some(out.inverse())
    );
    assert_eq!(
        come_in(&mut filter, second.inverse(), SYN | ACK, 1),
        Some(other.inverse())
    );
    assert_eq!(go_out(&mut filter, out, ACK, 2), Some(left));
    let class = |filter: &Filter| filter.connections.get(0).unwrap().class;
    assert_eq!(class(&filter), Class::Established);
    // So does this machine itself.
    let own = tuple(protocol::TCP, OWN, 5000, SERVER, 80);
    let answer = filter.judge(&packet(Hook::Output, (255, 2), own, SYN), 3);
    assert!(answer.say == Say::Accept && answer.tuple.unwrap().source_port != 5000);
    // A stranger does not come in, and leaves nothing behind.
    let stranger = tuple(protocol::TCP, SERVER, 81, OWN, 5000);
    assert_eq!(come_in(&mut filter, stranger, SYN, 3), None);
    let direct = packet(
        Hook::Forward,
        (2, 1),
        tuple(protocol::UDP, SERVER, 1, v4(INSIDE), 2),
        0,
    );
    assert_eq!(filter.judge(&direct, 3).say, Say::Drop);
    let before = filter.connections.len();
    // An echo by its number.
    let echo = tuple(protocol::ICMP, v4(INSIDE), 77, SERVER, 0);
    let left = go_out(&mut filter, echo, 8, 3).unwrap();
    assert_eq!(
        come_in(&mut filter, left.inverse(), 0, 4),
        Some(echo.inverse())
    );
    assert_eq!(filter.connections.len(), before + 1);
    // What ends is forgotten, and a number that was told is none any more.
    assert_eq!(go_out(&mut filter, out, 4 | ACK, 5), Some(own));
    assert_eq!(class(&filter), Class::Closed);
    check(&filter.connections);
    filter.connections.time_passes(5 + 500_000 * SECOND);
    assert!(filter.connections.is_empty());
    let late = Packet {
        again: Some(0),
        ..packet(Hook::Forward, (2, 1), out.inverse(), ACK)
    };
    assert_eq!(filter.judge(&late, 6).say, Say::Drop);
}

#[test]
fn errors_belong_to_their_connections() {
    let mut filter = filter(MASQUERADE, 1000);
    let out = tuple(protocol::UDP, v4(INSIDE), 5000, SERVER, 53);
    let left = go_out(&mut filter, out, 0, 0).unwrap();
    // From a router on the way, about the packet as it left.
    let router = v4([198, 51, 100, 1]);
    let error = |source, quoted: Tuple, hook, by| Packet {
        quoted: Some(quoted),
        ..packet(
            hook,
            by,
            tuple(protocol::ICMP, source, 0, quoted.source, 0),
            11,
        )
    };
    let first = error(router, left, Hook::Input, (2, 255));
    let answer = filter.judge(&first, 1);
    let Say::Again(number) = answer.say else {
        panic!("{answer:?}")
    };
    assert_eq!((answer.tuple, answer.as_end), (Some(out), false));
    let again = Packet {
        again: Some(number),
        ..error(router, out, Hook::Forward, (2, 1))
    };
    assert_eq!(filter.judge(&again, 1).say, Say::Accept);
    // About a reply, from who asked: it is quoted as it came.
    let own = error(v4(INSIDE), out.inverse(), Hook::Forward, (1, 2));
    let answer = filter.judge(&own, 1);
    assert_eq!(
        (answer.say, answer.tuple, answer.as_end),
        (Say::Accept, Some(left.inverse()), true)
    );
    // About a packet that nobody sent.
    let wrong = error(
        router,
        tuple(protocol::UDP, OWN, 1, SERVER, 53),
        Hook::Forward,
        (2, 1),
    );
    assert_eq!(filter.judge(&wrong, 1).say, Say::Drop);
}

#[test]
fn a_port_of_this_machine_leads_inside() {
    let rules = "table ip nat { chain p { type nat hook prerouting priority -100; iifname eth0 tcp dport 8443 dnat to 10.0.0.5:443 }
        chain s { type nat hook postrouting priority 100; oifname tun0 masquerade } }
        table ip f { chain f { type filter hook forward priority 0; policy drop; ct state established accept; tcp dport 443 accept } }";
    let mut filter = filter(rules, 100);
    let asked = tuple(protocol::TCP, SERVER, 6000, OWN, 8443);
    let inside = come_in(&mut filter, asked, SYN, 0).unwrap();
    // (With a translation of the source as well.)
    let wanted = tuple(protocol::TCP, v4([10, 0, 0, 1]), 6000, v4(INSIDE), 443);
    assert_eq!(inside, wanted);
    let back = packet(Hook::Input, (1, 255), inside.inverse(), SYN | ACK);
    let answer = filter.judge(&back, 1);
    let Say::Again(number) = answer.say else {
        panic!("{answer:?}")
    };
    let back = Packet {
        again: Some(number),
        ..packet(Hook::Forward, (1, 2), answer.tuple.unwrap(), SYN | ACK)
    };
    let answer = filter.judge(&back, 1);
    assert_eq!(
        (answer.say, answer.tuple),
        (Say::Accept, Some(asked.inverse()))
    );
    // Without it, the port stays.
    assert!(
        filter.replace(parse(rules.replace("oifname tun0", "oifname eth0").as_bytes()).unwrap())
    );
    let third = tuple(protocol::TCP, SERVER, 7000, OWN, 8443);
    let inside = come_in(&mut filter, third, SYN, 2).unwrap();
    assert_eq!(inside, tuple(protocol::TCP, SERVER, 7000, v4(INSIDE), 443));
    let at = filter.connections.find(&third).unwrap().0;
    filter.connections.remove(at);
    // What has no way leaves nothing.
    let other = tuple(protocol::TCP, SERVER, 6001, OWN, 8443);
    let Say::Again(number) = filter
        .judge(&packet(Hook::Input, (2, 255), other, SYN), 2)
        .say
    else {
        panic!()
    };
    let passes = Tuple {
        destination: v4(INSIDE),
        destination_port: 443,
        ..other
    };
    let nowhere = Packet {
        again: Some(number),
        ..packet(Hook::Forward, (2, 255), passes, SYN)
    };
    assert_eq!(filter.judge(&nowhere, 2).say, Say::Accept);
    assert_eq!(filter.connections.len(), 1);
    check(&filter.connections);
}

#[test]
fn rules_judge_in_their_order() {
    let mut filter = filter(RULES, 100);
    let mut ask =
        |tuple, by, kind, now| filter.judge(&packet(Hook::Input, by, tuple, kind), now).say;
    let tcp = |from: [u8; 4], to| tuple(protocol::TCP, v4(from), 999, OWN, to);
    assert_eq!(ask(tcp([1, 2, 3, 4], 22), (2, 255), SYN, 0), Say::Accept);
    assert_eq!(
        ask(tcp([1, 2, 3, 4], 8081), (2, 255), SYN, 0),
        Say::Reject(Refusal::Port)
    );
    assert_eq!(ask(tcp([10, 2, 3, 4], 8081), (2, 255), SYN, 0), Say::Drop);
    assert_eq!(
        ask(tcp([1, 2, 3, 4], 25), (2, 255), SYN, 0),
        Say::Reject(Refusal::Reset)
    );
    assert_eq!(ask(tcp([1, 2, 3, 4], 22), (1, 255), SYN, 0), Say::Accept);
    assert_eq!(ask(tcp([9, 2, 3, 4], 9), (0, 255), SYN, 0), Say::Accept);
    let six = |last| [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last];
    let v6 = tuple(protocol::UDP, six(1), 5, six(2), 6);
    assert_eq!(ask(v6, (2, 255), 0, 0), Say::Reject(Refusal::Prohibited));
    let echo = |number| tuple(protocol::ICMP, SERVER, number, OWN, 0);
    let told: Vec<Say> = (0..7).map(|i| ask(echo(i), (2, 255), 8, SECOND)).collect();
    assert_eq!(told.iter().filter(|say| **say == Say::Accept).count(), 5);
    assert_eq!(ask(echo(9), (2, 255), 8, SECOND + SECOND / 5), Say::Accept);
    assert_eq!(
        ask(echo(10), (2, 255), 8, SECOND + SECOND / 5),
        Say::Reject(Refusal::Port)
    );
    let mut text = String::new();
    filter.rules.show(&mut text);
    assert!(
        text.contains("counter packets 4 bytes 199 reject with icmpx type admin"),
        "{text}"
    );
}

#[test]
fn when_it_is_full_the_old_ones_live() {
    let mut filter = filter(MASQUERADE, 50);
    let of = |i: u16| tuple(protocol::UDP, v4(INSIDE), i, SERVER, 53);
    let left: Vec<_> = (0..50)
        .map(|i| go_out(&mut filter, of(i + 1), 0, 0).unwrap())
        .collect();
    assert_eq!(go_out(&mut filter, of(99), 0, SECOND), None);
    assert_eq!((filter.full, filter.connections.len()), (1, 50));
    for (i, left) in left.iter().enumerate() {
        let back = of(i as u16 + 1).inverse();
        assert_eq!(come_in(&mut filter, left.inverse(), 0, SECOND), Some(back));
    }
    // Those without an answer would have gone by now.
    let later = (SECONDS[Class::Datagram as usize] + 5) * SECOND;
    assert_eq!(go_out(&mut filter, of(99), 0, later), None);
    let later = (SECONDS[Class::Stream as usize] + 5) * SECOND;
    assert!(go_out(&mut filter, of(99), 0, later).is_some());
    assert_eq!(filter.connections.len(), 1);
    check(&filter.connections);
}

/// How many links of buckets are passed until a tuple is found, on the average, does not depend on how many there are.
#[test]
fn many_connections_cost_what_few_do() {
    let mut filter = filter(MASQUERADE, 131_072);
    let of = |i: u32| {
        let [_, a, b, c] = i.to_be_bytes();
        tuple(
            protocol::UDP,
            v4([10, a, b, c]),
            1000 + i as u16 % 50_000,
            v4([203, 0, 113, i as u8 % 8]),
            53,
        )
    };
    let mut spans = Vec::new();
    let mut made = 0;
    for count in [10_000u32, 100_000] {
        for i in made..count {
            assert!(go_out(&mut filter, of(i), 0, SECOND).is_some());
        }
        made = count;
        let least = (0..5).map(|_| {
            let begun = std::time::Instant::now();
            for i in (0..10_000).map(|i| i * 7 % count) {
                assert!(go_out(&mut filter, of(i), 0, SECOND).is_some());
            }
            begun.elapsed()
        });
        spans.push(least.min().unwrap());
        // (A wall clock is no witness on a machine that others use.)
        let looks = (0..count).map(|i| filter.connections.looks(&of(i)));
        let (sum, most) = looks.fold((0, 0), |(sum, most), looks| (sum + looks, most.max(looks)));
        assert!(
            sum < 2 * count as usize && most < 16,
            "{sum} of {count}, {most}"
        );
    }
    println!("10,000 packets among 10,000 and 100,000 connections: {spans:?}");
    assert_eq!(filter.connections.len(), 100_000);
    check(&filter.connections);
}

fn any_tuple() -> impl Strategy<Value = Tuple> {
    let address = prop_oneof![
        Just(OWN),
        Just(SERVER),
        (1u8..4).prop_map(|i| v4([10, 0, 0, i])),
        (0u8..2).prop_map(|i| [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, i]),
    ];
    let number = prop_oneof![Just(1u8), Just(6), Just(17), Just(58), any::<u8>()];
    (address.clone(), address, 0u16..4, 0u16..4, number)
        .prop_map(|(a, b, from, to, number)| tuple(number, a, from, b, to))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn any_packets_leave_connections_in_order(
        packets in proptest::collection::vec(
            (any_tuple(), 0u8..3, 0u8..4, 0u8..4, any::<u8>(), any::<bool>(), any_tuple(), proptest::option::of(0u32..20)), 0..200)
    ) {
        let rules = format!("{MASQUERADE} table ip n {{ chain p {{
            type nat hook prerouting priority 0; tcp dport 2 dnat to 10.0.0.3:1; udp dport 1 dnat to 10.0.0.2 }} }}
            table inet o {{ chain i {{ type filter hook input priority 0; icmp type 3 drop }} }}");
        let mut filter = filter(&rules, 20);
        for (i, (tuple, hook, came, leaves, kind, quotes, quoted, again)) in packets.into_iter().enumerate() {
            let hook = [Hook::Input, Hook::Forward, Hook::Output][usize::from(hook)];
            let place = |of: u8| if of == 3 { 255 } else { of };
            let mut one = packet(hook, (place(came), place(leaves)), tuple, kind);
            one.quoted = quotes.then_some(quoted);
            one.again = again;
            filter.judge(&one, i as u64 * SECOND * 3);
            check(&filter.connections);
        }
    }

    /// Whoever sends, in whatever order: no two share what they are outside, and each gets its own replies.
    #[test]
    fn replies_come_back_to_who_sent(
        flows in proptest::collection::hash_set((1u8..40, 1u16..6, 1u8..4, 1u16..3, prop_oneof![Just(6u8), Just(17)]), 1..150)
    ) {
        let mut filter = filter(MASQUERADE, 10_000);
        let mut outside = HashMap::new();
        for (host, port, server, to, number) in flows {
            let inside = tuple(number, v4([10, 0, 0, host]), 5000 + port, v4([203, 0, 113, server]), to);
            let left = go_out(&mut filter, inside, SYN, 0).unwrap();
            prop_assert_eq!(left.source, OWN);
            prop_assert_eq!(outside.insert(left, inside), None);
        }
        for (left, inside) in &outside {
            prop_assert_eq!(come_in(&mut filter, left.inverse(), SYN | ACK, 1), Some(inside.inverse()));
            prop_assert_eq!(go_out(&mut filter, *inside, ACK, 2), Some(*left));
        }
        check(&filter.connections);
    }
}

// ---- files and messages

fn clock() -> u64 {
    5 * SECOND
}

fn words() -> &'static [AtomicU64] {
    let words: Vec<AtomicU64> = (0..16_896).map(|_| AtomicU64::new(0)).collect();
    words.leak()
}

/// Domains are no processes: with label 0 components, who have every capability.
fn bench(words: &'static [AtomicU64]) -> Bench<Manager> {
    let manager = Manager::new(Some(Portal(9)), Keep::new(words), clock, random, 1000);
    let mut b = Bench::new(manager, b"filter:");
    b.fake.service = Some(Box::new(|_, _| [u64::MAX; 8]));
    b
}

fn call(
    b: &mut Bench<Manager>,
    badge: u64,
    words: &[u64],
    out: &[u8],
    room: usize,
) -> (i64, Vec<u8>) {
    b.fake.pass = Some(0);
    let answer = b.call(badge, words, out, room).unwrap();
    (answer.result(), answer.data)
}

fn open(b: &mut Bench<Manager>, name: &str, flags: u64) -> Result<u64, i64> {
    b.fake.pass = Some(0);
    b.open(format!("filter/{name}").as_bytes(), flags, 0)
}

fn read(b: &mut Bench<Manager>, name: &str) -> String {
    let file = open(b, name, o::RDONLY).unwrap();
    let (count, data) = call(b, file, &[fs::READ, 0], b"", 60_000);
    b.close(file);
    String::from_utf8(data[..count as usize].into()).unwrap()
}

/// Write it at once, or in blocks; what the last write said.
fn write(b: &mut Bench<Manager>, text: &str, blocks: usize) -> i64 {
    let file = open(b, "rules", o::WRONLY | o::TRUNC).unwrap();
    let mut last = 0;
    for (i, piece) in text.as_bytes().chunks(blocks).enumerate() {
        last = call(b, file, &[fs::WRITE, (i * blocks) as u64], piece, 0).0;
        if last < 0 {
            break;
        }
    }
    b.close(file);
    last
}

const TWO: &str = "table inet a { chain c { type filter hook input priority 0; policy drop; } }\n";

#[test]
fn rules_are_written_whole_or_not_at_all() {
    let words = words();
    let mut b = bench(words);
    assert_eq!(write(&mut b, RULES, 100_000), RULES.len() as i64);
    let first = read(&mut b, "rules");
    assert_eq!(first, shown(RULES));
    assert_eq!(read(&mut b, "error"), "");
    // What is wrong changes nothing, and is told.
    assert_eq!(write(&mut b, &format!("{TWO}tabel"), 100_000), -EINVAL);
    assert_eq!(read(&mut b, "rules"), first);
    assert!(read(&mut b, "error").starts_with("line 2, column 1: expected `table`"));
    assert_eq!(write(&mut b, "table inet a { chain", 100_000), 20);
    assert_eq!(read(&mut b, "rules"), first);
    assert!(read(&mut b, "error").contains("the end of the text"));
    // In blocks it holds when all of it is there: here the first one ends behind a table.
    let padded = format!(
        "{}#{}\n{}",
        TWO,
        " ".repeat(4096 - TWO.len() - 2),
        TWO.replace(" a ", " b ")
    );
    let file = open(&mut b, "rules", o::WRONLY | o::TRUNC).unwrap();
    assert_eq!(
        call(&mut b, file, &[fs::WRITE, 0], &padded.as_bytes()[..4096], 0).0,
        4096
    );
    assert_eq!(read(&mut b, "rules"), first);
    assert!(
        call(
            &mut b,
            file,
            &[fs::WRITE, 4096],
            &padded.as_bytes()[4096..],
            0
        )
        .0 > 0
    );
    assert_eq!(read(&mut b, "rules"), shown(&padded));
    b.close(file);
    // One that ends with a block holds when the file is closed.
    assert_eq!(write(&mut b, &padded[..4096], 4096), 4096);
    assert_eq!(read(&mut b, "rules"), shown(TWO));
    // A hole, too much, and too many pieces.
    let file = open(&mut b, "rules", o::WRONLY).unwrap();
    assert_eq!(call(&mut b, file, &[fs::WRITE, 5], b"table", 0).0, -EINVAL);
    b.close(file);
    assert_eq!(write(&mut b, &"# nothing\n".repeat(7000), 30_000), -EFBIG);
    assert_eq!(write(&mut b, &" ".repeat(100), 1), -EINVAL);
    // The last ones outlive the server.
    assert_eq!(write(&mut b, RULES, 100_000), RULES.len() as i64);
    let mut next = bench(words);
    assert_eq!(read(&mut next, "rules"), shown(RULES));
    assert_eq!(write(&mut next, "flush ruleset\n", 100), 14);
    assert_eq!(read(&mut bench(words), "rules"), "");
}

#[test]
fn strangers_get_nothing() {
    let mut b = bench(words());
    b.label = 1000 | 1000 << 32;
    for (name, flags) in [
        ("rules", o::RDONLY),
        ("rules", o::WRONLY),
        ("connections", o::RDONLY),
        ("error", o::RDONLY),
    ] {
        assert_eq!(open(&mut b, name, flags), Err(-EACCES));
    }
    for operation in [filter::ATTACH, filter::INTERFACES, filter::JUDGE] {
        assert!(call(&mut b, 0, &[operation, 0, 0], b"", 0).0 < 0);
        assert!(call(&mut b, 2, &[operation, 0, 0], b"", 0).0 < 0);
    }
    b.label = 0;
    assert_eq!(open(&mut b, "connections", o::RDWR), Err(-EACCES));
    assert_eq!(open(&mut b, "absent", o::RDONLY), Err(-ENOENT));
}

fn judge(b: &mut Bench<Manager>, hook: u64, port: u16) -> [u64; 8] {
    let halves = |bytes: Address| {
        let number = u128::from_le_bytes(bytes);
        [number as u64, (number >> 64) as u64]
    };
    let [a, c] = halves(v4(INSIDE));
    let [d, e] = halves(SERVER);
    let word = hook
        | 1 << filter::CAME_BY
        | 2 << filter::LEAVES_BY
        | 17 << filter::PROTOCOL
        | 100 << filter::LENGTH;
    b.fake.pass = Some(0);
    let words = [
        filter::JUDGE,
        word,
        a,
        c,
        d,
        e,
        u64::from(port) | 53 << 16,
        0,
    ];
    b.call(filter::ROUTER, &words, b"", 0).unwrap().words
}

fn learn(b: &mut Bench<Manager>) {
    let mut list = [0; 3 * filter::INTERFACE_BYTES];
    for (place, name) in [b"lo\0\0", b"tun0", b"eth0"].into_iter().enumerate() {
        let one = &mut list[place * filter::INTERFACE_BYTES..];
        one[..4].copy_from_slice(name);
        one[16..32].copy_from_slice(&OWN);
    }
    assert_eq!(
        call(b, filter::ROUTER, &[filter::INTERFACES], &list, 0).0,
        0
    );
    assert_eq!(
        call(b, filter::ROUTER, &[filter::INTERFACES], &list[1..], 0).0,
        -EINVAL
    );
}

#[test]
fn the_page_says_whether_to_ask() {
    let mut b = bench(words());
    b.fake.pass = Some(0);
    let answer = b.call(filter::ROUTER, &[filter::ATTACH], b"", 0).unwrap();
    let portal = answer.passed[0];
    let word = |b: &Bench<Manager>| b.fake.pages[&portal][0].load(Ordering::Acquire);
    assert_eq!(word(&b), page::LIVES);
    write(&mut b, MASQUERADE, 100_000);
    assert_eq!(word(&b), page::LIVES | page::ASKS);
    write(&mut b, RULES, 100_000);
    assert_eq!(word(&b), page::LIVES | page::ASKS | page::LOOPBACK);
    write(&mut b, "\n", 100_000);
    assert_eq!(word(&b), page::LIVES);
}

#[test]
fn who_writes_the_rules_pays_for_connections() {
    let words = words();
    // (A user who has the capability left them.)
    assert!(Keep::new(words).save(MASQUERADE.as_bytes(), 1000));
    let mut b = bench(words);
    learn(&mut b);
    for port in 1..500 {
        let words = judge(&mut b, 1, port);
        assert_eq!(
            (words[0], words[1]),
            (filter::Say::Accept as u64, said::REWRITTEN)
        );
    }
    assert!(read(&mut b, "connections").starts_with("499 of 1000, dropped: 0 full"));
    let paid = b.fake.charged[&1000];
    assert!(paid >= 500 * 120 / 4096, "{paid}");
    // What cannot be paid for is dropped; what is there goes on.
    b.fake.charge_limit = Some(paid);
    let drops = (500..1500)
        .filter(|port| judge(&mut b, 1, *port)[0] == 0)
        .count();
    assert!(drops > 800, "{drops}");
    assert_eq!(judge(&mut b, 1, 7)[0], filter::Say::Accept as u64);
    // Somebody else's rules are his.
    write(&mut b, MASQUERADE, 100_000);
    assert!(b.fake.charged[&1000] < 17, "{:?}", b.fake.charged);
    assert_eq!(judge(&mut b, 1, 1499)[0], filter::Say::Accept as u64);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_asked_ends(
        asked in proptest::collection::vec(
            (60u64..70, proptest::array::uniform7(any::<u64>()), proptest::collection::vec(any::<u8>(), 0..100), any::<bool>()), 0..40)
    ) {
        let mut b = bench(words());
        write(&mut b, RULES, 100_000);
        for (operation, rest, out, router) in asked {
            let mut words = [operation; 8];
            words[1..].copy_from_slice(&rest);
            words[1] &= !(about::QUOTES * u64::from(out.len() < filter::QUOTED_BYTES));
            let badge = if router { filter::ROUTER } else { rest[0] & 3 };
            b.fake.pass = Some(0);
            b.call(badge, &words, &out, 100);
        }
        check(&b.server.filter.connections);
    }
}

/// What is usual on a server: connections that are known, `lo`, ssh from some, echoes, and a chain for the others.
const USUAL: &str = "table inet filter {
    set friends { type ipv4_addr; flags interval
        elements = { 203.0.113.0/24,
                     198.51.100.7 } }
    set open { type inet_service; elements = { 80, 443, 8000-8010 }; }
    chain input {
        type filter hook input priority filter; policy drop;
        ct state established,related accept
        ct state invalid drop
        iifname lo accept
        meta l4proto { icmp, ipv6-icmp } goto echoes
        tcp dport 22 ip saddr @friends accept
        tcp dport @open jump web
        udp dport 53 jump web
        counter jump refused
    }
    chain web {
        ip saddr 198.51.100.66 return
        ip saddr != @friends tcp dport 8000-8010 drop
        meta l4proto tcp accept
    }
    chain echoes { icmp type echo-request limit rate 5/second accept; icmp type redirect drop }
    chain refused { meta l4proto tcp reject with tcp reset; counter }
}";

#[test]
fn chains_lead_to_chains_and_back() {
    let first = shown(USUAL);
    assert_eq!(shown(&first), first);
    for part in [
        "set friends {\n\t\ttype ipv4_addr\n\t\tflags interval\n\t\telements = { 198.51.100.7, 203.0.113.0/24 }\n\t}",
        "ip saddr @friends accept",
        "ip saddr != @friends tcp dport 8000-8010 drop",
        "\tchain web {\n\t\tip saddr 198.51.100.66 return\n",
        "goto echoes",
    ] {
        assert!(first.contains(part), "{part}:\n{first}");
    }
    let mut filter = filter(USUAL, 1000);
    let friend = SERVER;
    let other = v4([198, 51, 100, 1]);
    let shut_out = v4([198, 51, 100, 66]);
    let mut say = |source, protocol, port, kind| {
        let tuple = Tuple {
            source,
            destination: OWN,
            source_port: 4000,
            destination_port: port,
            protocol,
        };
        filter
            .judge(&packet(Hook::Input, (2, 0), tuple, kind), 1)
            .say
    };
    assert_eq!(say(friend, protocol::TCP, 22, SYN), Say::Accept);
    assert_eq!(
        say(other, protocol::TCP, 22, SYN),
        Say::Reject(Refusal::Reset)
    );
    assert_eq!(say(other, protocol::TCP, 443, SYN), Say::Accept);
    assert_eq!(say(other, protocol::TCP, 8001, SYN), Say::Drop);
    assert_eq!(say(friend, protocol::TCP, 8001, SYN), Say::Accept);
    // Who returns goes on behind the jump, and so does who comes to the end of the chain.
    assert_eq!(
        say(shut_out, protocol::TCP, 80, SYN),
        Say::Reject(Refusal::Reset)
    );
    assert_eq!(say(other, protocol::UDP, 53, 0), Say::Drop);
    // Who goes does not come back: the policy has the last word.
    assert_eq!(say(other, protocol::ICMP, 0, 5), Say::Drop);
    let counters = {
        let mut text = String::new();
        filter.rules.show(&mut text);
        text.matches("counter packets 3 ").count() + text.matches("counter packets 1 ").count()
    };
    assert_eq!(counters, 2);
}

#[test]
fn ways_that_do_not_end_are_refused() {
    let with = |rest: &str| {
        format!("table inet f {{\n chain c {{ type filter hook input priority 0; jump a }}\n{rest}\n}}\n")
    };
    let deep = |count: usize| {
        let chain = |at: usize| format!(" chain a{} {{ jump a{} }}\n", at, at + 1);
        let all: String = (1..count).map(chain).collect();
        with(&format!(
            " chain a {{ jump a1 }}\n{all} chain a{count} {{ accept }}"
        ))
    };
    // Each of these chains goes through the next one ten times.
    let wide = |count: usize| {
        let chain = |at: usize| {
            format!(
                " chain b{at} {{ {} }}\n",
                format!("jump b{};", at + 1).repeat(10)
            )
        };
        let all: String = (1..count).map(chain).collect();
        with(&format!(
            " chain a {{ jump b1 }}\n{all} chain b{count} {{ accept }}"
        ))
    };
    for (text, told) in [
        (
            with(""),
            "line 2, column 2: there is no chain `a` in this table",
        ),
        (with(" chain a { jump a }"), "leads back to itself"),
        (
            with(" chain a { goto b }\n chain b { tcp dport 1 jump a }"),
            "leads back to itself",
        ),
        (with(" chain a { jump c }"), "the chain `c` has a hook"),
        (
            with(" chain a { policy drop }"),
            "expected a match or a verdict",
        ),
        (
            with(" chain a { masquerade }"),
            "`masquerade` stands only in",
        ),
        (with(" chain a { ip saddr @s drop }"), "there is no set `s`"),
        (
            with(" set s { type inet_service }\n chain a { ip saddr @s drop }"),
            "of another type",
        ),
        (
            with(" set s { type ipv4_addr; elements = { 22 } }\n chain a { }"),
            "an address of IPv4",
        ),
        (
            with(" set s { type ipv4_addr }\n set s { type ipv4_addr }\n chain a { }"),
            "a set `s` already",
        ),
        (deep(15), "17 chains at once, 16 are the most"),
        (wide(5), "more than 4096 rules"),
        (
            "table ip n { chain c { type nat hook postrouting priority 0; jump a } }".into(),
            "stands only in a filter chain",
        ),
    ] {
        let wrong = parse(text.as_bytes()).map(|_| ()).unwrap_err();
        assert!(wrong.text().contains(told), "{told}: {}", wrong.text());
    }
    assert!(parse(deep(14).as_bytes()).is_ok() && parse(wide(4).as_bytes()).is_ok());
    // Together as well: 16 tables with a way of 1,000 rules each.
    let one = |at: usize| wide(4).replace("table inet f", &format!("table inet f{at}"));
    let all: String = (0..5).map(one).collect();
    let told = parse(all.as_bytes()).err().map(|wrong| wrong.what);
    assert!(told.is_some_and(|what| what.contains("more than 4096 rules")));
}

std::thread_local! {
    static LINES: std::cell::RefCell<Vec<String>> = const { std::cell::RefCell::new(Vec::new()) };
}

/// `tcp flags` in all its forms; `log` tells of packets that its rule is about, some of them when there are many.
#[test]
fn flags_of_tcp_and_lines_for_the_log() {
    const TEXT: &str = "table inet f { chain c { type filter hook input priority 0
        tcp flags & (fin | syn | rst | ack) != syn ct state new counter drop
        tcp flags fin,syn / fin,syn log prefix \"odd: \" level warn flags all drop
        tcp dport 22 log accept
        tcp flags rst counter
        udp dport 5 log prefix \"udp \"
        log prefix \"left \" drop } }";
    let first = shown(TEXT);
    assert_eq!(shown(&first), first);
    for part in [
        "tcp flags & (fin|syn|rst|ack) != syn ct state new",
        "tcp flags & (fin|syn) == fin|syn log prefix \"odd: \" level warn drop",
        "tcp flags & (rst) != 0 counter",
        "tcp dport 22 log accept",
    ] {
        assert!(first.contains(part), "{part}:\n{first}");
    }
    let mut filter = filter(TEXT, 1000);
    filter.rules.log.sink = |line| LINES.with_borrow_mut(|lines| lines.push(line.into()));
    let mut say = |protocol, port, kind, now| {
        let of = tuple(protocol, SERVER, 4000, OWN, port);
        filter
            .judge(&packet(Hook::Input, (2, 255), of, kind), now)
            .say
    };
    assert_eq!(say(protocol::TCP, 80, ACK, 1), Say::Drop);
    assert_eq!(say(protocol::TCP, 22, SYN, 1), Say::Accept);
    assert_eq!(say(protocol::UDP, 5, 0, 1), Say::Drop);
    let lines = LINES.take();
    let same = "SRC=203.0.113.9 DST=192.0.2.1 LEN=100 PROTO";
    let wanted = [
        format!("IN=eth0 OUT= {same}=TCP SPT=4000 DPT=22 SYN"),
        format!("udp IN=eth0 OUT= {same}=UDP SPT=4000 DPT=5"),
        format!("left IN=eth0 OUT= {same}=UDP SPT=4000 DPT=5"),
    ];
    assert_eq!(lines, wanted);
    // Whoever sends many packets makes few lines.
    for _ in 0..1000 {
        say(protocol::UDP, 6, 0, 2);
    }
    assert_eq!(LINES.take().len() as u64, crate::log::BURST - 3);
    say(protocol::UDP, 6, 0, 2 + SECOND);
    assert!(LINES.take()[0].starts_with("(953 left out) left IN=eth0"));
    // The longest prefix and addresses fit, and rules that come later have the same log.
    let long = format!(
        "table inet f {{ chain c {{ type filter hook input priority 0; log prefix \"{}\" }} }}",
        "é".repeat(63)
    );
    assert!(filter.replace(parse(long.as_bytes()).unwrap()));
    let far = [0xfd; 16];
    let of = tuple(protocol::TCP, far, 60_000, far, 60_000);
    filter.judge(&packet(Hook::Input, (2, 255), of, 255), 2 + 2 * SECOND);
    let [line] = &LINES.take()[..] else {
        panic!("one line")
    };
    assert!(
        line.ends_with("DPT=60000 FIN SYN RST PSH ACK URG ECN CWR"),
        "{line}"
    );
    for (text, told) in [
        ("log prefix eth0", "a text in quotation marks"),
        ("log level loud", "emerg, alert"),
        ("log group 2", "expected a match"),
        ("tcp flags (syn", "expected `)`"),
        ("tcp flags sin", "flags of TCP"),
        ("tcp flags & syn", "expected `=`"),
    ] {
        let text =
            format!("table inet f {{ chain c {{ type filter hook input priority 0; {text}; }} }}");
        let wrong = parse(text.as_bytes()).map(|_| ()).unwrap_err();
        assert!(wrong.text().contains(told), "{told}: {}", wrong.text());
    }
}
