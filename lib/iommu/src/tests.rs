//! The library on a unit in memory: devices reach what they were given, from the moment they were until it was taken away, and nothing else.

use crate::dmar::{Dmar, Place, Reserved};
use crate::fake::{Fake, CAPABILITY, EXTENDED, REGISTERS};
use crate::{Frame, Iommu, Trouble, TOLD};

const DISK: u16 = 0x20;
const OTHER: u16 = 0x0128;
const KEYBOARD: u16 = 0xef;

fn dmar() -> Dmar {
    Dmar {
        units: vec![Place {
            segment: 0,
            registers: REGISTERS,
        }],
        reserved: vec![Reserved {
            functions: vec![KEYBOARD],
            first: 0x7f000,
            last: 0x7f003,
        }],
        hidden: 0,
    }
}

struct World {
    fake: Fake,
    iommu: Iommu,
    next: Frame,
    last: Frame,
}

fn supply<'a>(next: &'a mut Frame, last: Frame) -> impl FnMut(&mut Fake) -> Option<Frame> + 'a {
    move |_| {
        *next += 1;
        (*next < last).then_some(*next)
    }
}

impl World {
    fn with(mut fake: Fake) -> World {
        let mut next = 100;
        let started = Iommu::start(&mut fake, dmar(), None, &mut supply(&mut next, 10_000));
        World {
            iommu: started.expect("a unit"),
            fake,
            next,
            last: 10_000,
        }
    }

    fn map(&mut self, domain: usize, frames: &[Frame]) -> Result<(), Trouble> {
        let mut take = supply(&mut self.next, self.last);
        self.iommu.map(&mut self.fake, &mut take, domain, frames)
    }

    fn attach(&mut self, domain: usize, function: u16) -> Result<(), Trouble> {
        let mut take = supply(&mut self.next, self.last);
        self.iommu
            .attach(&mut self.fake, &mut take, domain, function)
    }

    fn unmap(&mut self, domain: usize, frames: &[Frame]) -> Result<(), Trouble> {
        self.iommu.unmap(&mut self.fake, domain, frames)
    }

    fn detach(&mut self, domain: usize) -> Result<(), Trouble> {
        self.iommu.detach(&mut self.fake, domain)
    }

    fn reaches(&mut self, function: u16, frame: Frame) -> bool {
        let write = self.fake.access(function, frame, true);
        assert_eq!(self.fake.access(function, frame, false), write);
        write
    }

    fn fault(&mut self) -> Option<(u16, u64, bool, u8, bool)> {
        let mut take = supply(&mut self.next, self.last);
        let (fault, last) = self.iommu.fault(&mut self.fake, &mut take)?;
        Some((
            fault.function,
            fault.address,
            fault.write,
            fault.reason,
            last,
        ))
    }
}

/// Units of all sorts: three levels, not coherent, one that remembers absence, one with a write buffer, one without invalidation by page.
fn sorts() -> impl Iterator<Item = World> {
    let sorts = [
        (CAPABILITY, EXTENDED),
        (CAPABILITY & !(4 << 8) | 2 << 8, EXTENDED),
        (CAPABILITY, EXTENDED & !1),
        (CAPABILITY | 1 << 7, EXTENDED),
        (CAPABILITY | 1 << 4, EXTENDED & !1),
        (CAPABILITY & !(1 << 39), EXTENDED | 1 << 7),
    ];
    sorts.into_iter().map(|(capability, extended)| {
        World::with(Fake {
            capability,
            extended,
            ..Fake::default()
        })
    })
}

#[test]
fn a_device_reaches_what_it_was_given_until_it_was_taken_away() {
    for mut w in sorts() {
        assert!(!w.reaches(DISK, 5000), "nobody's");
        w.attach(2, DISK).unwrap();
        assert!(!w.reaches(DISK, 5000));
        let many: Vec<Frame> = (5000..5100).chain([0x3_ffff, 1]).collect();
        w.map(2, &many).unwrap();
        for &frame in &many {
            assert!(w.reaches(DISK, frame), "frame {frame}");
            assert!(!w.reaches(OTHER, frame));
        }
        assert!(!w.reaches(DISK, 4999) && !w.reaches(DISK, 5100));
        w.unmap(2, &[5000, 1]).unwrap();
        assert!(!w.reaches(DISK, 5000) && !w.reaches(DISK, 1));
        assert!(w.reaches(DISK, 5001));
        w.unmap(2, &many).unwrap();
        for &frame in &many {
            assert!(!w.reaches(DISK, frame));
        }
        w.map(2, &many[..1]).unwrap();
        assert!(w.reaches(DISK, 5000), "again");
    }
}

#[test]
fn domains_are_apart_and_end() {
    for mut w in sorts() {
        w.attach(2, DISK).unwrap();
        w.attach(15, OTHER).unwrap();
        w.map(2, &[700]).unwrap();
        w.map(15, &[800]).unwrap();
        assert!(w.reaches(DISK, 700) && !w.reaches(DISK, 800));
        assert!(w.reaches(OTHER, 800) && !w.reaches(OTHER, 700));
        w.detach(2).unwrap();
        assert!(!w.reaches(DISK, 700) && w.reaches(OTHER, 800));
        // What it is given to afterwards is what counts.
        w.attach(15, DISK).unwrap();
        assert!(!w.reaches(DISK, 700) && w.reaches(DISK, 800));
        w.detach(2).unwrap();
        assert!(w.reaches(DISK, 800));
    }
}

#[test]
fn the_firmwares_memory_stays_its_devices() {
    for mut w in sorts() {
        assert!(w.reaches(KEYBOARD, 0x7f000) && w.reaches(KEYBOARD, 0x7f003));
        assert!(!w.reaches(KEYBOARD, 0x7f004) && !w.reaches(DISK, 0x7f000));
        w.attach(3, KEYBOARD).unwrap();
        w.map(3, &[900]).unwrap();
        assert!(w.reaches(KEYBOARD, 0x7f001) && w.reaches(KEYBOARD, 900));
        w.detach(3).unwrap();
        assert!(w.reaches(KEYBOARD, 0x7f001) && !w.reaches(KEYBOARD, 900));
    }
    let mut w = World::with(Fake {
        memory: 0..0x7f002,
        ..Fake::default()
    });
    assert!(!w.reaches(KEYBOARD, 0x7f000), "it is somebody's memory");
}

#[test]
fn refused_accesses_are_told_and_not_for_ever() {
    for mut w in sorts() {
        assert_eq!(w.fault(), None);
        w.attach(2, DISK).unwrap();
        assert!(!w.fake.access(DISK, 0x3_1234, true));
        assert_eq!(w.fault(), Some((DISK, 0x3123_4000, true, 5, false)));
        assert!(!w.fake.access(OTHER, 7, false));
        assert_eq!(w.fault(), Some((OTHER, 0x7000, false, 1, false)));
        for _ in 2..TOLD {
            assert!(!w.fake.access(OTHER, 7, false));
            assert!(w.fault().is_some_and(|fault| !fault.4));
        }
        assert!(!w.fake.access(OTHER, 7, false));
        assert!(w.fault().is_some_and(|fault| fault.4), "the last one");
        assert!(!w.fake.access(OTHER, 7, false));
        assert_eq!(w.fault(), None);
        assert!(!w.fake.access(DISK, 7, false));
        assert!(w.fault().is_some(), "the other one's are");
        w.attach(2, OTHER).unwrap();
        assert!(!w.fake.access(OTHER, 7, false));
        assert!(w.fault().is_some(), "from the beginning");
    }
}

#[test]
fn without_memory_nothing_is_half_done() {
    let mut w = World::with(Fake::default());
    w.attach(2, DISK).unwrap();
    w.map(2, &[600]).unwrap();
    w.last = w.next + 2;
    assert_eq!(
        w.map(2, &[601, 0x20_0000, 0x40_0000]),
        Err(Trouble::NoMemory)
    );
    assert!(w.reaches(DISK, 600));
    for frame in [601, 0x20_0000, 0x40_0000] {
        assert!(!w.reaches(DISK, frame));
    }
    assert_eq!(w.attach(4, OTHER), Err(Trouble::NoMemory));
    assert!(!w.reaches(OTHER, 600));
    w.unmap(2, &[601, 0x40_0000]).unwrap();
    w.last = 10_000;
    w.map(2, &[601, 0x20_0000]).unwrap();
    assert!(w.reaches(DISK, 0x20_0000));
}

#[test]
fn addresses_that_devices_cannot_say_are_refused() {
    let mut w = World::with(Fake {
        capability: CAPABILITY & !(63 << 16 | 4 << 8) | 38 << 16 | 2 << 8,
        ..Fake::default()
    });
    w.attach(2, DISK).unwrap();
    assert_eq!(w.map(2, &[1 << 27]), Err(Trouble::TooHigh));
    assert_eq!(w.map(2, &[(1 << 27) - 1]), Ok(()));
}

#[test]
fn a_unit_that_does_not_answer_is_waited_for_once() {
    let mut w = World::with(Fake::default());
    w.attach(2, DISK).unwrap();
    w.map(2, &[600, 601]).unwrap();
    w.fake.dead = true;
    assert_eq!(w.unmap(2, &[600]), Err(Trouble::Stuck));
    let time = w.fake.clock;
    assert_eq!(w.unmap(2, &[601]), Err(Trouble::Stuck));
    assert_eq!(w.map(2, &[602]), Err(Trouble::Stuck));
    assert_eq!(w.detach(2), Err(Trouble::Stuck));
    assert_eq!(w.fake.clock, time);
}

#[test]
fn unfit_units_are_not_used() {
    let start = |mut fake: Fake, dmar| {
        let mut next = 100;
        let started = Iommu::start(&mut fake, dmar, None, &mut supply(&mut next, 10_000));
        started.map(|_| ()).unwrap_err()
    };
    let with = |capability, extended| Fake {
        capability,
        extended,
        ..Fake::default()
    };
    assert_eq!(start(with(CAPABILITY, 1), dmar()), Trouble::NoQueue);
    let none = CAPABILITY & !(0x1f << 8);
    assert_eq!(start(with(none, EXTENDED), dmar()), Trouble::NoLevels);
    assert_eq!(start(with(u64::MAX, 0), dmar()), Trouble::Registers);
    let mut elsewhere = dmar();
    elsewhere.units[0].registers = 0xfed8_0000;
    assert_eq!(start(Fake::default(), elsewhere), Trouble::Registers);
    let dead = Fake {
        dead: true,
        ..Fake::default()
    };
    assert_eq!(start(dead, dmar()), Trouble::Stuck);
}
