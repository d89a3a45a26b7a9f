//! Partitions and sizes that change, and what is counted.

use super::*;
use cairn_idl::block::{Counts, BADGE_DISK};

fn table(list: &[(u64, u64, u64)]) -> Vec<u8> {
    let words = list.iter().flat_map(|it| [it.0, it.1, it.2]);
    words.flat_map(u64::to_le_bytes).collect()
}

/// The badge of the session that was made last.
fn session(driver: &mut Driver, part: u64, bell: u32) -> u64 {
    attach(driver, part, bell);
    driver.newest()
}

fn sectors(driver: &mut Driver, badge: u64) -> Result<u64, i64> {
    let told = Server::info(driver, &Sent::through(badge));
    told.map(|told| told.sectors)
}

#[test]
fn partitions_change_as_far_as_nobody_has_them() {
    let mut driver = driver();
    let whole = session(&mut driver, BADGE_DISK, 50);
    let part = session(&mut driver, 2, 60);
    let new = table(&[(1, 100, 1000), (2, 2048, 5000)]);
    for (badge, alone, list, expected) in [
        (BADGE_DISK, false, &new, EPERM),
        (2, false, &new, EPERM),
        (part, false, &new, EPERM),
        (whole, true, &new, EBUSY),
        (whole, false, &table(&[]), EBUSY),
        (whole, false, &table(&[(2, 2049, 10)]), EBUSY),
        (whole, false, &table(&[(0, 2048, 10)]), EINVAL),
        (whole, false, &table(&[(129, 2048, 10)]), EINVAL),
        (whole, false, &table(&[(1, 1, 1), (1, 5, 1)]), EINVAL),
        (whole, false, &table(&[(2, 2048, 0)]), EINVAL),
        (whole, false, &table(&[(2, 9999, 2)]), EINVAL),
        (whole, false, &table(&[(2, u64::MAX, 2)]), EINVAL),
        (whole, false, &new[..47].to_vec(), EINVAL),
    ] {
        let told = driver.set_partitions(badge, alone, list);
        assert_eq!(told, Err(expected), "{list:?}");
    }
    assert_eq!(sectors(&mut driver, 2), Ok(4000));
    assert_eq!(sectors(&mut driver, 1), Err(ENXIO));
    assert_eq!(driver.set_partitions(whole, false, &new), Ok(vec![60]));
    assert_eq!(sectors(&mut driver, 1), Ok(1000));
    assert_eq!(sectors(&mut driver, 2), Ok(5000));
    assert_eq!(sectors(&mut driver, part), Ok(5000), "who has it as well");
    driver.closed(part);
    assert_eq!(driver.set_partitions(whole, true, &[]), Ok(vec![]));
    assert_eq!(sectors(&mut driver, 2), Err(ENXIO));
}

#[test]
fn a_disk_of_another_size_is_told_to_who_has_all_of_it() {
    let mut driver = driver();
    let mut client = client(&mut driver, BADGE_DISK, 50);
    let whole = driver.newest();
    let part = session(&mut driver, 2, 60);
    let behind = page(1, Kind::Read, 11_000, &[1]);
    assert_eq!(client.submit(&behind), Err(Refused::Invalid));
    driver.backend.info.sectors = 20_000;
    driver.resized();
    assert_eq!(driver.system.changed, [50]);
    assert_eq!(sectors(&mut driver, whole), Ok(20_000));
    assert_eq!(sectors(&mut driver, part), Ok(4000));
    client.resize(20_000);
    assert!(client.submit(&behind).is_ok());
    driver.pump();
    assert_eq!(driver.backend.begun.len(), 1);
    // A successor's disk may have grown; a smaller one, or one that is otherwise, is another.
    let info = client.info();
    let other = |sectors, block| Info {
        sectors,
        block,
        ..info
    };
    assert!(!client.is_same(&other(19_999, 512)));
    assert!(!client.is_same(&other(30_000, 4096)));
    assert!(client.is_same(&other(30_000, 512)));
    assert_eq!(client.info().sectors, 30_000);
}

fn client_of(driver: &mut Driver) -> Client<Memory> {
    client(driver, BADGE_DISK, 70)
}

#[test]
fn what_is_done_is_counted_for_the_disk_and_its_part() {
    let mut driver = driver();
    let mut client = client(&mut driver, 2, 50);
    driver.system.time = 100;
    client.submit(&page(1, Kind::Read, 0, &[1, 2])).unwrap();
    driver.pump();
    driver.system.time = 150;
    client.submit(&page(2, Kind::Write, 0, &[3])).unwrap();
    driver.pump();
    let counts =
        |driver: &mut Driver, part| Server::counts(driver, &Sent::through(0), part).unwrap();
    assert_eq!(counts(&mut driver, 2).under_way, 2);
    assert_eq!(counts(&mut driver, 2).busy_time, 50);
    for (time, tag) in [(180, 0), (200, 1)] {
        driver.system.time = time;
        driver.done(driver.backend.begun[tag].tag, Outcome::Done);
    }
    driver.system.time = 1000;
    let expected = Counts {
        reads: 1,
        read_sectors: 16,
        read_time: 80,
        writes: 1,
        write_sectors: 8,
        write_time: 50,
        busy_time: 100,
        ..Counts::default()
    };
    assert_eq!(counts(&mut driver, 2), expected);
    assert_eq!(counts(&mut driver, 0), expected);
    // Who has the whole disk serves its partitions, too.
    driver.backend.begun.clear();
    let mut all = client_of(&mut driver);
    for (sector, expected) in [(2048, 2), (2047, 2), (6047, 3), (6048, 3)] {
        all.submit(&page(3, Kind::Read, sector, &[1])).unwrap();
        driver.pump();
        let tag = driver.backend.begun.pop().unwrap().tag;
        driver.done(tag, Outcome::Done);
        super::all(&mut all);
        assert_eq!(counts(&mut driver, 2).reads, expected, "{sector}");
    }
    assert_eq!(counts(&mut driver, 0).reads, 5);
    let refused = Server::counts(&mut driver, &Sent::through(2), 2);
    assert_eq!(refused.err(), Some(EPERM));
    let absent = Server::counts(&mut driver, &Sent::through(0), 1);
    assert_eq!(absent.err(), Some(ENXIO));
}
