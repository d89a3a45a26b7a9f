//! TUN and TAP on the bench: packets both ways, who may, what is kept and paid, and what nobody in his right mind writes.

use super::*;
use crate::address::Address;
use crate::interface::LOOPBACK;
use crate::packet::{checksum, protocol, Header, Packet};
use crate::tests::{bench, bind, call, receive, result, send_to, socket};
use cairn_ethernet::frame::{self, Arp, Kind};
use cairn_idl::fs::{self, o};
use cairn_idl::net::{self, DATAGRAM, INET, PACKET, RAW};
use cairn_resmgr::fake::Bench;
use cairn_rt::Portal;
use proptest::prelude::*;

const OWN: [u8; 4] = [10, 7, 0, 1];
const OTHER: [u8; 4] = [10, 7, 0, 2];
const USER: u64 = 1000 | 1000 << 32;
pub(crate) const SIOCSIFADDR: u64 = 0x8916;
pub(crate) const SIOCSIFNETMASK: u64 = 0x891c;
pub(crate) const SIOCSIFFLAGS: u64 = 0x8914;
const SIOCGIFFLAGS: u64 = 0x8913;
const SIOCSIFMTU: u64 = 0x8922;
pub(crate) const BARE: u16 = iff::TUN | iff::NO_INFORMATION;

/// A component, which has every capability; others are no processes and have none.
pub(crate) fn privileged() -> Bench<Net> {
    let mut b = bench();
    b.server.proc = Some(Portal(9));
    b.fake.service = Some(Box::new(|_, _| [u64::MAX; 8]));
    b.label = 0;
    b
}

pub(crate) fn open(b: &mut Bench<Net>) -> u64 {
    b.fake.pass = Some(0);
    b.open(b"net/tun", o::RDWR | o::NONBLOCK, 0).unwrap()
}

pub(crate) fn request(name: &[u8], rest: &[u8]) -> [u8; REQUEST] {
    let mut bytes = [0; REQUEST];
    bytes[..name.len()].copy_from_slice(name);
    bytes[NAME..NAME + rest.len()].copy_from_slice(rest);
    bytes
}

pub(crate) fn ioctl(
    b: &mut Bench<Net>,
    badge: u64,
    number: u64,
    bytes: &[u8; REQUEST],
) -> Result<Vec<u8>, i64> {
    let answer = call(b, badge, &[fs::IOCTL, number, 0, 0], bytes, REQUEST).unwrap();
    match answer.result() {
        0 => Ok(answer.data),
        error => Err(-error),
    }
}

fn set(b: &mut Bench<Net>, badge: u64, number: u64, value: u64) -> i64 {
    -result(b, badge, &[fs::IOCTL, number, value, 0])
}

/// TUNSETIFF: the name that it gets.
pub(crate) fn take(
    b: &mut Bench<Net>,
    badge: u64,
    name: &[u8],
    flags: u16,
) -> Result<Vec<u8>, i64> {
    let told = ioctl(b, badge, TUNSETIFF, &request(name, &flags.to_ne_bytes()))?;
    let end = told.iter().position(|byte| *byte == 0).unwrap();
    Ok(told[..end].into())
}

pub(crate) fn v4(ip: [u8; 4]) -> [u8; 8] {
    let [a, b, c, d] = ip;
    [2, 0, 0, 0, a, b, c, d]
}

/// The interface has an address and is up.
fn configure(b: &mut Bench<Net>, name: &[u8]) {
    let s = socket(b, INET, DATAGRAM);
    ioctl(b, s, SIOCSIFADDR, &request(name, &v4(OWN))).unwrap();
    ioctl(
        b,
        s,
        SIOCSIFNETMASK,
        &request(name, &v4([255, 255, 255, 0])),
    )
    .unwrap();
    ioctl(b, s, SIOCSIFFLAGS, &request(name, &[1, 0])).unwrap();
    b.close(s);
}

pub(crate) fn read(b: &mut Bench<Net>, badge: u64, room: usize) -> Result<Vec<u8>, i64> {
    let answer = call(b, badge, &[fs::READ, fs::POSITION, 0], b"", room).unwrap();
    match answer.result() {
        count @ 0.. => Ok(answer.data[..count as usize].into()),
        error => Err(-error),
    }
}

pub(crate) fn write(b: &mut Bench<Net>, badge: u64, bytes: &[u8]) -> i64 {
    call(b, badge, &[fs::WRITE, fs::POSITION, 0], bytes, 0)
        .unwrap()
        .result()
}

fn ready(b: &mut Bench<Net>, badge: u64) -> u64 {
    call(b, badge, &[fs::POLL, u64::MAX], b"", 0).unwrap().words[0]
}

/// A TUN without `struct tun_pi` that is up.
fn running() -> (Bench<Net>, u64) {
    let mut b = privileged();
    let tun = open(&mut b);
    assert_eq!(take(&mut b, tun, b"", BARE), Ok(b"tun0".to_vec()));
    configure(&mut b, b"tun0");
    (b, tun)
}

fn packet(number: u8, payload: &[u8]) -> Vec<u8> {
    let header = Header {
        source: Address::v4(OTHER),
        destination: Address::v4(OWN),
        protocol: number,
        ttl: 64,
        ..Header::default()
    };
    let mut packet = Packet::new(&header, payload.len(), 7).unwrap();
    packet.push(payload);
    packet.bytes().to_vec()
}

fn datagram(port: u16, text: &[u8]) -> Vec<u8> {
    let [a, b] = port.to_be_bytes();
    let [c, d] = (8 + text.len() as u16).to_be_bytes();
    packet(protocol::UDP, &[&[0, 9, a, b, c, d, 0, 0], text].concat())
}

fn counts(b: &Bench<Net>, name: &[u8]) -> [u64; 6] {
    let of = b.server.interfaces.by_name(name).unwrap();
    let (r, s) = (of.received, of.sent);
    [r.packets, r.bytes, r.dropped, s.packets, s.bytes, s.dropped]
}

#[test]
fn packets_go_out_and_come_in() {
    let (mut b, tun) = running();
    let s = socket(&mut b, INET, DATAGRAM);
    assert_eq!(bind(&mut b, s, Address::v4(OWN), 77), 0);
    assert_eq!(read(&mut b, tun, 2000), Err(EAGAIN));
    assert_eq!(ready(&mut b, tun), poll::OUT | poll::WRNORM);
    assert_eq!(send_to(&mut b, s, b"out", Address::v4(OTHER), 9), 3);
    assert_ne!(ready(&mut b, tun) & poll::IN, 0);
    let out = read(&mut b, tun, 2000).unwrap();
    assert_eq!((out.len(), &out[28..]), (31, &b"out"[..]));
    assert_eq!((&out[12..16], &out[16..20]), (&OWN[..], &OTHER[..]));
    // Its checksum was made.
    let header = Header {
        source: Address::v4(OWN),
        destination: Address::v4(OTHER),
        protocol: protocol::UDP,
        ..Header::default()
    };
    assert_eq!(checksum(&header, &out[20..]), 0);
    assert_eq!(read(&mut b, tun, 2000), Err(EAGAIN));
    let back = datagram(77, b"in");
    assert_eq!(write(&mut b, tun, &back), back.len() as i64);
    assert_eq!(receive(&mut b, s, 100, 0), Ok(b"in".to_vec()));
    // An echo is answered.
    let mut echo = vec![8, 0, 0, 0, 1, 2, 0, 1, 0xaa];
    let sum = cairn_ethernet::fragments::checksum(&echo);
    echo[2..4].copy_from_slice(&sum.to_be_bytes());
    let echo = packet(protocol::ICMP, &echo);
    assert_eq!(write(&mut b, tun, &echo), echo.len() as i64);
    let answer = read(&mut b, tun, 2000).unwrap();
    assert_eq!((answer[20], &answer[24..]), (0, &echo[24..]));
    assert_eq!(counts(&b, b"tun0"), [2, 30 + 29, 0, 2, 31 + 29, 0]);
    // One read takes a packet, whatever there is room for.
    send_to(&mut b, s, b"longer", Address::v4(OTHER), 9);
    assert_eq!(read(&mut b, tun, 0), Ok(vec![]));
    assert_eq!(read(&mut b, tun, 5).unwrap().len(), 5);
    assert_eq!(read(&mut b, tun, 5), Err(EAGAIN));
}

#[test]
fn a_reader_that_waits_is_woken() {
    let (mut b, tun) = running();
    b.fake.pass = Some(0);
    let waits = b.open(b"net/tun", o::RDWR, 0).unwrap();
    b.close(tun);
    assert_eq!(take(&mut b, waits, b"tun0", BARE), Ok(b"tun0".to_vec()));
    configure(&mut b, b"tun0");
    b.fake.pass = Some(0);
    let token = b.send(waits, &[fs::READ, fs::POSITION, 0], b"", 100);
    assert!(b.answer(token).is_none());
    let s = socket(&mut b, INET, DATAGRAM);
    send_to(&mut b, s, b"x", Address::v4(OTHER), 9);
    assert_eq!(b.answer(token).unwrap().result(), 29);
    // And when the interface goes under it.
    let token = b.send(waits, &[fs::READ, fs::POSITION, 0], b"", 100);
    assert!(b.answer(token).is_none());
    let number = b.server.interfaces.by_name(b"tun0").unwrap().number;
    let link = socket(&mut b, net::NETLINK, RAW);
    let mut delete = vec![32, 0, 0, 0, 17, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    delete.extend(number.to_ne_bytes());
    delete.extend([0; 8]);
    call(&mut b, link, &[net::SEND, 0], &delete, 0);
    assert_eq!(b.answer(token).unwrap().result(), -EBADFD);
    assert!(b.server.interfaces.by_name(b"tun0").is_none());
    assert_eq!(take(&mut b, waits, b"tun7", BARE), Ok(b"tun7".to_vec()));
}

#[test]
fn what_is_in_front_of_a_packet() {
    let mut b = privileged();
    let tun = open(&mut b);
    assert_eq!(take(&mut b, tun, b"vpn%d", iff::TUN), Ok(b"vpn0".to_vec()));
    configure(&mut b, b"vpn0");
    let s = socket(&mut b, INET, DATAGRAM);
    assert_eq!(bind(&mut b, s, Address::v4(OWN), 77), 0);
    send_to(&mut b, s, b"out", Address::v4(OTHER), 9);
    let out = read(&mut b, tun, 2000).unwrap();
    assert_eq!((out.len(), &out[..5]), (35, &[0, 0, 8, 0, 0x45][..]));
    // It says so if it was cut.
    send_to(&mut b, s, b"out", Address::v4(OTHER), 9);
    assert_eq!(read(&mut b, tun, 6).unwrap(), [1, 0, 8, 0, 0x45, 0]);
    send_to(&mut b, s, b"out", Address::v4(OTHER), 9);
    assert_eq!(read(&mut b, tun, 3), Err(EINVAL));
    assert_eq!(read(&mut b, tun, 3), Err(EAGAIN));
    let back = datagram(77, b"in");
    assert_eq!(write(&mut b, tun, &[&[0, 0, 8, 0], &back[..]].concat()), 34);
    assert_eq!(receive(&mut b, s, 100, 0), Ok(b"in".to_vec()));
    // Another protocol is nobody's, and a wrong one neither.
    assert_eq!(write(&mut b, tun, &[0, 0, 0x88, 0xb5, 1, 2]), 6);
    assert_eq!(
        write(&mut b, tun, &[&[0, 0, 0x86, 0xdd], &back[..]].concat()),
        34
    );
    assert_eq!(write(&mut b, tun, &[0, 0, 8]), -EINVAL);
    assert_eq!(write(&mut b, tun, &[0, 0, 8, 0]), 4);
    assert_eq!(receive(&mut b, s, 100, 0), Err(-EAGAIN));
}

#[test]
fn requests_and_their_errors() {
    let mut b = privileged();
    let tun = open(&mut b);
    assert_eq!(read(&mut b, tun, 100), Err(EBADFD));
    assert_eq!(write(&mut b, tun, b"xxxx"), -EBADFD);
    assert_eq!(ready(&mut b, tun), poll::ERR);
    assert_eq!(ioctl(&mut b, tun, TUNGETIFF, &[0; REQUEST]), Err(EBADFD));
    assert_eq!(set(&mut b, tun, TUNSETPERSIST, 1), EBADFD);
    let features = ioctl(&mut b, tun, TUNGETFEATURES, &[0; REQUEST]).unwrap();
    assert_eq!(features[..4], 0x3003u32.to_ne_bytes());
    assert_eq!(take(&mut b, tun, b"", 0), Err(EINVAL));
    for name in [&b"a/b"[..], b".", b"a b", b"%d%d", b"%x", b"tun%"] {
        assert_eq!(take(&mut b, tun, name, BARE), Err(EINVAL), "{name:?}");
    }
    for missing in [0x10, 0x20, 0x40, 0x100, 0x4000] {
        assert_eq!(take(&mut b, tun, b"", BARE | missing), Err(EINVAL));
    }
    assert_eq!(take(&mut b, tun, b"lo", BARE), Err(EINVAL));
    let short = call(
        &mut b,
        tun,
        &[fs::IOCTL, TUNSETIFF, 0, 0],
        &[0; 39],
        REQUEST,
    );
    assert_eq!(short.unwrap().result(), -EFAULT);
    assert_eq!(take(&mut b, tun, b"", BARE), Ok(b"tun0".to_vec()));
    assert_eq!(take(&mut b, tun, b"", BARE), Err(EEXIST));
    let told = ioctl(&mut b, tun, TUNGETIFF, &[0; REQUEST]).unwrap();
    assert_eq!(told, request(b"tun0", &(BARE).to_ne_bytes()));
    // Down: nothing can be written.
    assert_eq!(ready(&mut b, tun), 0);
    assert_eq!(write(&mut b, tun, &datagram(1, b"")), -EIO);
    assert_eq!(write(&mut b, tun, &[0x15, 0]), -EINVAL);
    assert_eq!(write(&mut b, tun, b""), -EINVAL);
    assert_eq!(counts(&b, b"tun0"), [0, 0, 3, 0, 0, 0]);
    assert_eq!(set(&mut b, tun, TUNSETLINK, 1), 0);
    assert_eq!(
        b.server.interfaces.by_name(b"tun0").unwrap().hardware().0,
        1
    );
    assert_eq!(set(&mut b, tun, TUNSETLINK, u64::from(NO_HARDWARE)), 0);
    configure(&mut b, b"tun0");
    assert_eq!(set(&mut b, tun, TUNSETLINK, 1), EBUSY);
    assert_eq!(set(&mut b, tun, TUNSETOWNER, u64::MAX), EINVAL);
    assert_eq!(set(&mut b, tun, TUNSETOFFLOAD, 0), 0);
    assert_eq!(set(&mut b, tun, TUNSETOFFLOAD, 1), EINVAL);
    assert_eq!(set(&mut b, tun, 0x5401, 1), EINVAL);
    assert_eq!(write(&mut b, tun, &vec![0x45; 65_536]), -EMSGSIZE);
    // Another file has another interface, and cannot have this one.
    let other = open(&mut b);
    assert_eq!(take(&mut b, other, b"tun0", BARE), Err(EBUSY));
    assert_eq!(take(&mut b, other, b"tun0", BARE | iff::EXCL), Err(EBUSY));
    assert_eq!(take(&mut b, other, b"tun0", iff::TAP), Err(EINVAL));
    assert_eq!(take(&mut b, other, b"tun%d", BARE), Ok(b"tun1".to_vec()));
    b.close(tun);
    assert!(b.server.interfaces.by_name(b"tun0").is_none());
    let third = open(&mut b);
    assert_eq!(take(&mut b, third, b"", BARE), Ok(b"tun0".to_vec()));
    // (Its number is a new one.)
    assert_eq!(b.server.interfaces.by_name(b"tun0").unwrap().number, 4);
}

#[test]
fn who_may() {
    let mut b = privileged();
    b.label = USER;
    let tun = open(&mut b);
    assert_eq!(take(&mut b, tun, b"", BARE), Err(EPERM));
    b.label = 0;
    let maker = open(&mut b);
    assert_eq!(take(&mut b, maker, b"keep", BARE), Ok(b"keep".to_vec()));
    assert_eq!(set(&mut b, maker, TUNSETPERSIST, 1), 0);
    assert_eq!(set(&mut b, maker, TUNSETOWNER, 1001), 0);
    configure(&mut b, b"keep");
    b.close(maker);
    // It is there, and has no carrier.
    let s = socket(&mut b, INET, DATAGRAM);
    let flags = |b: &mut Bench<Net>| {
        let told = ioctl(b, s, SIOCGIFFLAGS, &request(b"keep", &[])).unwrap();
        u16::from_ne_bytes([told[16], told[17]])
    };
    assert_eq!(flags(&mut b), 0x1091);
    send_to(&mut b, s, b"lost", Address::v4(OTHER), 9);
    assert_eq!(counts(&b, b"keep")[5], 1);
    b.label = USER;
    assert_eq!(take(&mut b, tun, b"keep", BARE), Err(EPERM));
    b.label = 1001 | 1000 << 32;
    assert_eq!(take(&mut b, tun, b"keep", BARE), Ok(b"keep".to_vec()));
    assert_eq!(flags(&mut b), 0x10d1);
    assert_eq!(read(&mut b, tun, 100), Err(EAGAIN));
    // Of a group.
    assert_eq!(set(&mut b, tun, TUNSETGROUP, 50), 0);
    b.close(tun);
    let tun = open(&mut b);
    assert_eq!(take(&mut b, tun, b"keep", BARE), Err(EPERM));
    b.fake.groups = vec![50];
    assert_eq!(take(&mut b, tun, b"keep", iff::TUN), Ok(b"keep".to_vec()));
    assert_eq!(set(&mut b, tun, TUNSETPERSIST, 0), 0);
    b.close(tun);
    assert!(b.server.interfaces.by_name(b"keep").is_none());
}

#[test]
fn what_is_not_read_is_bounded_and_paid() {
    let mut b = privileged();
    let maker = open(&mut b);
    take(&mut b, maker, b"tun0", BARE).unwrap();
    set(&mut b, maker, TUNSETPERSIST, 1);
    configure(&mut b, b"tun0");
    b.close(maker);
    b.label = USER;
    let tun = open(&mut b);
    take(&mut b, tun, b"tun0", BARE).unwrap();
    b.label = 0;
    let s = socket(&mut b, INET, DATAGRAM);
    let before = b.fake.charged.get(&1000).copied().unwrap_or(0);
    for _ in 0..600 {
        assert_eq!(send_to(&mut b, s, &[7; 1000], Address::v4(OTHER), 9), 1000);
    }
    assert_eq!(counts(&b, b"tun0")[5], 100);
    let full = b.fake.charged[&1000];
    assert!(full >= before + 500 * 1028 / 4096, "{before} {full}");
    for _ in 0..500 {
        assert_eq!(read(&mut b, tun, 2000).unwrap().len(), 1028);
    }
    assert_eq!(read(&mut b, tun, 2000), Err(EAGAIN));
    // Whoever must not have more loses what comes.
    for _ in 0..500 {
        send_to(&mut b, s, &[7; 1000], Address::v4(OTHER), 9);
    }
    b.close(tun);
    assert!(b.fake.charged[&1000] < full);
    b.label = USER;
    let tun = open(&mut b);
    take(&mut b, tun, b"tun0", BARE).unwrap();
    b.label = 0;
    b.fake.charge_limit = Some(b.fake.charged[&1000]);
    let lost = counts(&b, b"tun0")[5];
    for _ in 0..500 {
        send_to(&mut b, s, &[7; 1000], Address::v4(OTHER), 9);
    }
    let lost = counts(&b, b"tun0")[5] - lost;
    assert!(lost > 0, "all were kept");
    for _ in 0..500 - lost {
        assert_eq!(read(&mut b, tun, 2000).unwrap().len(), 1028);
    }
    assert_eq!(read(&mut b, tun, 2000), Err(EAGAIN));
    b.close(tun);
}

#[test]
fn what_is_long_goes_and_comes_in_pieces() {
    let (mut b, tun) = running();
    let s = socket(&mut b, INET, DATAGRAM);
    bind(&mut b, s, Address::v4(OWN), 77);
    ioctl(
        &mut b,
        s,
        SIOCSIFMTU,
        &request(b"tun0", &576u32.to_ne_bytes()),
    )
    .unwrap();
    // (IP_MTU_DISCOVER: IP_PMTUDISC_DONT.)
    assert_eq!(result(&mut b, s, &[net::SET_OPTION, 10, 0, 0]), 0);
    assert_eq!(send_to(&mut b, s, &[7; 1400], Address::v4(OTHER), 9), 1400);
    let sizes: Vec<usize> = core::iter::from_fn(|| read(&mut b, tun, 2000).ok())
        .map(|of| of.len())
        .collect();
    assert_eq!(sizes, [572, 572, 20 + 1408 - 2 * 552]);
    let whole = datagram(77, &[9; 1000]);
    for (at, more) in [(512, false), (0, true)] {
        let end = if more { 20 + 512 } else { whole.len() };
        let mut piece = [&whole[..20], &whole[20 + at..end]].concat();
        let length = piece.len() as u16;
        piece[2..4].copy_from_slice(&length.to_be_bytes());
        let flags = (at / 8) as u16 | u16::from(more) << 13;
        piece[6..8].copy_from_slice(&flags.to_be_bytes());
        piece[10..12].fill(0);
        let sum = cairn_ethernet::fragments::checksum(&piece[..20]);
        piece[10..12].copy_from_slice(&sum.to_be_bytes());
        assert_eq!(write(&mut b, tun, &piece), piece.len() as i64);
    }
    assert_eq!(receive(&mut b, s, 2000, 0).map(|of| of.len()), Ok(1000));
}

#[test]
fn frames_of_a_tap() {
    let mut b = privileged();
    let tap = open(&mut b);
    let flags = iff::TAP | iff::NO_INFORMATION;
    assert_eq!(take(&mut b, tap, b"", flags), Ok(b"tap0".to_vec()));
    configure(&mut b, b"tap0");
    let told = ioctl(&mut b, tap, SIOCGIFHWADDR, &[0; REQUEST]).unwrap();
    let mac: [u8; 6] = told[18..24].try_into().unwrap();
    assert_eq!((told[16], mac[0] & 3), (1, 2));
    let peer = [2, 0, 0, 0, 0, 9];
    let s = socket(&mut b, INET, DATAGRAM);
    bind(&mut b, s, Address::v4(OWN), 77);
    send_to(&mut b, s, b"out", Address::v4(OTHER), 9);
    let next = |b: &mut Bench<Net>| loop {
        let frame = read(b, tap, 2000).unwrap();
        // Of IPv6 it says things by itself.
        if frame[12..14] != [0x86, 0xdd] {
            return frame;
        }
    };
    let question = next(&mut b);
    let question = frame::parse_arp(&question[14..]).expect("ARP");
    assert_eq!((question.sender, question.target.1), ((mac, OWN), OTHER));
    let answer = Arp {
        request: false,
        sender: (peer, OTHER),
        target: question.sender,
    };
    let answer = frame::arp(&answer, None);
    assert_eq!(write(&mut b, tap, &answer), answer.len() as i64);
    let out = next(&mut b);
    assert_eq!((&out[..6], &out[14 + 28..]), (&peer[..], &b"out"[..]));
    let mut back = vec![0; 14];
    frame::write_header(&mut back, mac, peer, Kind::Ipv4);
    back.extend(datagram(77, b"in"));
    assert_eq!(write(&mut b, tap, &back), back.len() as i64);
    assert_eq!(receive(&mut b, s, 100, 0), Ok(b"in".to_vec()));
    // Also what is for a client of DHCP: there is none inside.
    let client = socket(&mut b, INET, DATAGRAM);
    bind(&mut b, client, Address::v4(OWN), 68);
    back.truncate(14);
    let mut offer = datagram(68, b"offer");
    offer[21] = 67;
    back.extend(offer);
    write(&mut b, tap, &back);
    assert_eq!(receive(&mut b, client, 100, 0), Ok(b"offer".to_vec()));
    assert_eq!(write(&mut b, tap, &[0; 13]), -EINVAL);
    assert!(b.server.interfaces.get(LOOPBACK + 1).unwrap().has_header());
}

#[test]
fn a_tap_has_addresses_of_ipv6_by_itself() {
    let mut b = privileged();
    let tap = open(&mut b);
    take(&mut b, tap, b"", iff::TAP | iff::NO_INFORMATION).unwrap();
    crate::tests::pass(&mut b, 5_000_000_000);
    assert_eq!(read(&mut b, tap, 2000), Err(EAGAIN));
    configure(&mut b, b"tap0");
    let near = |b: &Bench<Net>| {
        let of = b.server.interfaces.by_name(b"tap0").unwrap();
        of.addresses().iter().any(|own| own.address.is_link_local())
    };
    assert!(!near(&b));
    // Nothing but time passes: it asks whether it may have the address, has it, and asks for routers.
    crate::tests::pass(&mut b, 5_000_000_000);
    assert!(near(&b));
    let kinds: Vec<u8> = core::iter::from_fn(|| read(&mut b, tap, 2000).ok())
        .filter(|frame| frame[14 + 6] == protocol::ICMP_V6)
        .map(|frame| frame[14 + 40])
        .collect();
    assert!(kinds.contains(&135) && kinds.contains(&133), "{kinds:?}");
    let s = socket(&mut b, INET, DATAGRAM);
    ioctl(&mut b, s, SIOCSIFFLAGS, &request(b"tap0", &[0, 0])).unwrap();
    assert!(!near(&b));
}

#[test]
fn what_goes_with_an_interface() {
    let (mut b, tun) = running();
    let number = b.server.interfaces.by_name(b"tun0").unwrap().number;
    assert!(b.server.interfaces.way(&Address::v4(OTHER), 0).is_some());
    let s = socket(&mut b, INET, DATAGRAM);
    bind(&mut b, s, Address::v4(OWN), 77);
    // A socket of AF_PACKET sees packets without a header, and hears of the end.
    let all = u64::from(3u16.swap_bytes());
    let answer = call(&mut b, 0, &[net::SOCKET, PACKET, RAW, all, 0], b"", 0).unwrap();
    let p = answer.minted[0];
    let words = [net::BIND, u64::from(number), 0, 3 | PACKET << 16];
    assert_eq!(result(&mut b, p, &words), 0);
    send_to(&mut b, s, b"out", Address::v4(OTHER), 9);
    let seen = receive(&mut b, p, 2000, 0).unwrap();
    assert_eq!(Ok(seen), read(&mut b, tun, 2000));
    write(&mut b, tun, &datagram(77, b"in"));
    assert_eq!(receive(&mut b, p, 2000, 0), Ok(datagram(77, b"in")));
    // And sends such packets.
    let made = datagram(1, b"made");
    assert_eq!(
        call(&mut b, p, &[net::SEND, 0], &made, 0).unwrap().result(),
        made.len() as i64
    );
    assert_eq!(read(&mut b, tun, 2000), Ok(made));
    b.close(tun);
    assert_eq!(receive(&mut b, p, 2000, 0), Err(-ENETDOWN));
    assert_eq!(receive(&mut b, p, 2000, 0), Err(-EAGAIN));
    assert!(b.server.interfaces.get(number).is_none());
    assert!(b.server.interfaces.way(&Address::v4(OTHER), 0).is_none());
    assert!(!b.server.interfaces.is_own(&Address::v4(OWN)));
    assert!(b.server.interfaces.routes().is_empty());
    assert!(send_to(&mut b, s, b"out", Address::v4(OTHER), 9) < 0);
    // Another one of the same name is another one.
    let tun = open(&mut b);
    take(&mut b, tun, b"tun0", BARE).unwrap();
    configure(&mut b, b"tun0");
    send_to(&mut b, s, b"out", Address::v4(OTHER), 9);
    assert_eq!(read(&mut b, tun, 2000).map(|of| of.len()), Ok(31));
    assert_eq!(receive(&mut b, p, 2000, 0), Err(-EAGAIN));
    let timers = b.server.links.len();
    b.close(tun);
    assert_eq!(b.server.links.len(), timers - 1);
}

#[test]
fn there_are_not_too_many() {
    let mut b = privileged();
    let mut all = Vec::new();
    loop {
        let tun = open(&mut b);
        all.push(tun);
        match take(&mut b, tun, b"", BARE) {
            Ok(_) => {}
            Err(error) => break assert_eq!(error, ENFILE),
        }
    }
    assert_eq!(all.len(), MOST);
    all.into_iter().for_each(|tun| b.close(tun));
    assert_eq!(b.server.interfaces.all.len(), 1);
    assert_eq!(b.server.tunnels.len(), 0);
}

/// Bytes that are no packet, or look like one from a distance.
fn wild() -> impl Strategy<Value = Vec<u8>> {
    let bytes = || proptest::collection::vec(any::<u8>(), 0..200);
    let like =
        (0usize..4, bytes(), any::<u8>(), any::<u16>()).prop_map(|(kind, rest, number, pieces)| {
            let mut whole = packet([1, 6, 17, number][kind], &rest);
            if number & 1 == 0 {
                whole[6..8].copy_from_slice(&pieces.to_be_bytes());
                whole[10..12].fill(0);
                let sum = cairn_ethernet::fragments::checksum(&whole[..20]);
                whole[10..12].copy_from_slice(&sum.to_be_bytes());
            }
            whole
        });
    let v6 = bytes().prop_map(|rest| {
        let mut whole = vec![
            0x60,
            0,
            0,
            0,
            0,
            rest.len() as u8,
            rest.first().copied().unwrap_or(58),
            255,
        ];
        whole.extend([0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
        whole.extend([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        whole.extend(rest);
        whole
    });
    prop_oneof![bytes(), like, v6]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn whatever_is_written_the_server_goes_on(
        tap in any::<bool>(),
        informs in any::<bool>(),
        all in proptest::collection::vec((wild(), any::<bool>()), 1..40),
    ) {
        let mut b = privileged();
        let file = open(&mut b);
        let kind = if tap { iff::TAP } else { iff::TUN };
        let flags = kind | if informs { 0 } else { iff::NO_INFORMATION };
        take(&mut b, file, b"x0", flags).unwrap();
        configure(&mut b, b"x0");
        let mac = b.server.interfaces.by_name(b"x0").unwrap().hardware().1;
        let s = socket(&mut b, INET, DATAGRAM);
        bind(&mut b, s, Address::v4(OWN), 77);
        let mut written = 0;
        for (bytes, framed) in all {
            let mut whole = vec![];
            if framed && informs {
                whole.extend([0, 0, 8, 0]);
            }
            if framed && tap {
                whole.extend(mac);
                whole.extend([2, 0, 0, 0, 0, 9, 8, 0]);
            }
            whole.extend(bytes);
            let done = write(&mut b, file, &whole);
            prop_assert!(done == whole.len() as i64 || done == -EINVAL, "{}", done);
            written += u64::from(done >= 0);
            b.time_out();
        }
        prop_assert_eq!(counts(&b, b"x0")[0], written);
        while read(&mut b, file, 3000).is_ok() {}
        // It works as before.
        let front: &[u8] = if informs { &[0, 0, 8, 0] } else { &[] };
        let mut header = vec![];
        if tap {
            header.extend(mac);
            header.extend([2, 0, 0, 0, 0, 9, 8, 0]);
        }
        while receive(&mut b, s, 3000, 0).is_ok() {}
        let last = [front, &header, &datagram(77, b"last")].concat();
        prop_assert_eq!(write(&mut b, file, &last), last.len() as i64);
        prop_assert_eq!(receive(&mut b, s, 100, 0), Ok(b"last".to_vec()));
        b.close(file);
        prop_assert_eq!(b.server.interfaces.all.len(), 1);
    }
}

/// A piece of the table for `sysfs`, and where it goes on.
fn links(b: &mut Bench<Net>, place: u64, room: usize) -> (String, u64) {
    let words = [net::TABLE, net::Listing::Links as u64, place];
    let answer = call(b, 0, &words, b"", room).unwrap();
    let text = String::from_utf8(answer.bytes().to_vec()).unwrap();
    (text, answer.words[1])
}

#[test]
fn sysfs_is_told_of_each_interface_by_its_number() {
    let mut b = privileged();
    let mut files = Vec::new();
    for at in 0..20 {
        let file = open(&mut b);
        let name = format!("an_interface_{at}");
        take(&mut b, file, &name.as_bytes()[..15.min(name.len())], BARE).unwrap();
        files.push(file);
    }
    set(&mut b, files[0], TUNSETOWNER, 1000);
    // One in a line's room, and where to go on.
    let (first, next) = links(&mut b, 0, 256);
    assert_eq!(first.lines().count(), 1, "{first}");
    assert!(first.starts_with("1 772 00:00:00:00:00:00 ") && first.ends_with(" 0 0 0 0 lo\n"));
    let (line, after) = links(&mut b, next, 256);
    assert_eq!(
        line,
        format!("{next} 65534 - 4240 1500 500 0 0 0 0 0 0 1 4097 1000 -1 an_interface_0\n")
    );
    // It goes: who asks for it is told of the next.
    b.close(files[0]);
    assert!(links(&mut b, next, 256).0.starts_with(&format!("{after} ")));
    let (mut place, mut count) = (0, 0);
    loop {
        let (text, next) = links(&mut b, place, 1024);
        count += text.lines().count();
        assert!(text.len() <= 1024 && (next == 0 || next > place));
        if next == 0 {
            break;
        }
        place = next;
    }
    assert_eq!(count, 20);
    assert_eq!(links(&mut b, u64::MAX, 256).0, "");
}

#[test]
fn an_interface_is_set_by_its_files_by_who_has_the_capability() {
    let mut b = privileged();
    let tun = open(&mut b);
    take(&mut b, tun, b"t", BARE).unwrap();
    let number = b.server.interfaces.by_name(b"t").unwrap().number;
    b.fake.pass = Some(0);
    let file = |of: &str| format!("{of}@{number}").into_bytes();
    let start = |b: &mut Bench<Net>, file: u64| {
        let answer = call(b, file, &[fs::READ, 0], b"", 20).unwrap();
        match answer.result() {
            count @ 0.. => Ok(answer.data[..count as usize].to_vec()),
            error => Err(-error),
        }
    };
    let mtu = b.open(&file("mtu"), o::RDWR, 0).unwrap();
    let flags = b.open(&file("flags"), o::RDWR, 0).unwrap();
    assert_eq!(write(&mut b, mtu, b"0x500\n"), 6);
    assert_eq!(start(&mut b, mtu), Ok(b"1280\n".to_vec()));
    assert_eq!(write(&mut b, flags, b"0x1091"), 6);
    assert_eq!(start(&mut b, flags), Ok(b"0x1091\n".to_vec()));
    for (text, error) in [
        (&b"67"[..], EINVAL),
        (b" 1300", EINVAL),
        (b"1300\n\n", EINVAL),
        (b"0x", EINVAL),
        (b"+", EINVAL),
        (b"\xff", EINVAL),
        (b"4294968796", EINVAL),
        (b"99999999999999999999", ERANGE),
        (&[b'1'; 65], EINVAL),
    ] {
        assert_eq!(write(&mut b, mtu, text), -error, "{text:?}");
    }
    for wrong in ["mtu@", "mtu@99", "mtu", "mtu@x", "name@1", "@1", "mtu@1@1"] {
        assert_eq!(
            b.open(wrong.as_bytes(), o::RDONLY, 0),
            Err(-ENOENT),
            "{wrong}"
        );
    }
    // The file's mode, and the capability of who writes.
    b.fake.service = Some(Box::new(|_, _| [0; 8]));
    b.label = USER;
    assert_eq!(b.open(&file("mtu"), o::WRONLY, 0), Err(-EACCES));
    assert!(b.open(&file("mtu"), o::RDONLY, 0).is_ok());
    assert_eq!(write(&mut b, mtu, b"1400"), -EPERM);
    assert_eq!(write(&mut b, flags, b"0"), -EPERM);
    assert_eq!(start(&mut b, mtu), Ok(b"1280\n".to_vec()));
    b.close(tun);
    assert_eq!(write(&mut b, mtu, b"1400"), -ENODEV);
    assert_eq!(start(&mut b, mtu), Err(ENODEV));
}
