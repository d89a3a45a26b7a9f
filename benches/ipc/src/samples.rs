//! Samples of one row and what is told of them: a line with median, 99th and 99.99th percentile, greatest and least; a line with what one operation has the nucleus do, in
//! hundredths; a line with the distribution.

use cairn_abi::machine::Counters;
use cairn_abi::service::current;
use cairn_rt::{log, memory, startup, Portal};
use core::fmt;

/// Samples of a row, if the command line does not ask for fewer with the word `ipc.samples=N`. There is room for so many in any case.
pub const COUNT: usize = 10_000;
/// Operations before the first sample, and operations whose work is counted.
const WARM: usize = 200;
const COUNTED: u64 = 1000;
/// Most columns of a distribution.
const COLUMNS: u32 = 32;

/// Which of so many sorted samples is the percentile in hundredths of a percent: the least that at least this share does not exceed (nearest rank).
const fn rank(count: usize, share: usize) -> usize {
    (count * share).div_ceil(10_000).saturating_sub(1)
}
const _: () = assert!(
    rank(COUNT, 5000) == COUNT / 2 - 1
        && rank(COUNT, 9999) == COUNT - 2
        && rank(COUNT, 10_000) == COUNT - 1
        && rank(3, 5000) == 1
        && rank(1, 9999) == 0
);

/// Room for the samples of one row.
pub struct Samples(&'static mut [u32]);

impl Samples {
    pub fn new() -> Samples {
        let asked = word("ipc.samples=").and_then(|count| count.parse().ok());
        let count = asked.unwrap_or(COUNT).clamp(1, COUNT);
        let bytes = memory::map(COUNT * 4).unwrap_or_else(|| panic!("no memory for samples"));
        let _ = memory::populate(bytes);
        // SAFETY: any four bytes are a u32.
        Samples(unsafe { &mut bytes.align_to_mut().1[..count] })
    }

    /// Where sample `index` goes.
    pub fn place(&mut self, index: usize) -> Option<&mut u32> {
        self.0.get_mut(index)
    }

    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// How often [`Samples::row`] does what it measures.
    pub fn turns(&self) -> u64 {
        (WARM + self.count()) as u64 + COUNTED
    }

    pub fn address(&mut self) -> u64 {
        self.0.as_mut_ptr() as u64
    }

    /// Take a row's samples, one by each call of `sample`, and tell.
    pub fn row(&mut self, name: &str, sample: impl FnMut() -> u32) {
        self.row_of(name, 1, sample);
    }

    /// The same where each call of `sample` does `several` operations.
    pub fn row_of(&mut self, name: &str, several: u64, mut sample: impl FnMut() -> u32) {
        if !wanted(name) {
            return;
        }
        self.take(name, &mut sample);
        let before = counters();
        for _ in 0..COUNTED {
            sample();
        }
        let after = counters();
        // The entry of the second look at the counters is none of the operations'.
        Work::between(&before, &after, 1).tell(name, COUNTED * several);
    }

    /// A row whose operation must be undone each time, by what is neither measured nor counted.
    pub fn row_undone(
        &mut self,
        name: &str,
        mut sample: impl FnMut() -> u32,
        mut undo: impl FnMut(),
    ) {
        if !wanted(name) {
            return;
        }
        self.take(name, || {
            let cost = sample();
            undo();
            cost
        });
        work_undone(name, || _ = sample(), undo);
    }

    /// Samples without the nucleus's work.
    pub fn take(&mut self, name: &str, mut sample: impl FnMut() -> u32) {
        if !wanted(name) {
            return;
        }
        for _ in 0..WARM {
            sample();
        }
        for place in self.0.iter_mut() {
            *place = sample();
        }
        self.tell(name);
    }

    /// Tell of samples that are there already; they are sorted afterwards.
    pub fn tell(&mut self, name: &str) {
        self.0.sort_unstable();
        let at = |share| self.0[rank(self.count(), share)];
        log!(
            "row {name} {} {} {} {} {}",
            at(5000),
            at(9900),
            at(9999),
            at(10_000),
            self.0[0]
        );
        log!("histogram {name}{}", Distribution(self.0));
    }
}

/// What the nucleus does for an operation that is undone each time by something that is not counted.
pub fn work_undone(name: &str, mut operation: impl FnMut(), mut undo: impl FnMut()) {
    let mut work = Work::default();
    for _ in 0..COUNTED {
        let before = counters();
        operation();
        work.add(&Work::between(&before, &counters(), 1));
        undo();
    }
    work.tell(name, COUNTED);
}

/// Entries, switches of address space, TLB invalidations, bytes copied.
#[derive(Default)]
pub struct Work([u64; 4]);

impl Work {
    /// From one look to another; so many of the entries do not count.
    pub fn between(before: &Counters, after: &Counters, entries: u64) -> Work {
        Work([
            after.entries - before.entries - entries,
            after.space_switches - before.space_switches,
            after.invalidations - before.invalidations,
            after.bytes_copied - before.bytes_copied,
        ])
    }

    fn add(&mut self, more: &Work) {
        self.0.iter_mut().zip(more.0).for_each(|(sum, n)| *sum += n);
    }

    /// In hundredths for each of so many operations.
    pub fn tell(&self, name: &str, operations: u64) {
        let [entries, switches, invalidations, bytes] =
            self.0.map(|all| (all * 100 + operations / 2) / operations);
        log!("work {name} {entries} {switches} {invalidations} {bytes}");
    }
}

/// The command line's word `ipc.rows=NAME,NAME…` wants only rows whose names begin so.
pub fn wanted(name: &str) -> bool {
    match word("ipc.rows=") {
        Some(names) => names.split(',').any(|wanted| name.starts_with(wanted)),
        None => true,
    }
}

/// What stands behind this in the command line.
fn word(begin: &str) -> Option<&'static str> {
    let words = startup::argument("cmdline")?;
    words.split(' ').find_map(|word| word.strip_prefix(begin))
}

pub fn counters() -> Counters {
    let mut counters = [Counters::default()];
    match Portal::CURRENT.service_into(current::COUNTERS, &[0], 0, &mut counters) {
        Ok(_) => counters[0],
        Err(error) => panic!("counters: {error:?}"),
    }
}

/// Sorted samples as ` FROM:HOW-MANY` in columns of equal width, without the empty ones.
struct Distribution<'a>(&'a [u32]);

impl fmt::Display for Distribution<'_> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let (Some(&least), Some(&greatest)) = (self.0.first(), self.0.last()) else {
            return Ok(());
        };
        let width = (greatest - least) / COLUMNS + 1;
        let mut rest = self.0;
        while let Some(&first) = rest.first() {
            let column = (first - least) / width;
            let inside = rest.partition_point(|&s| (s - least) / width == column);
            write!(f, " {}:{inside}", least + column * width)?;
            rest = &rest[inside..];
        }
        Ok(())
    }
}
