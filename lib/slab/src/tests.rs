use super::*;
use std::collections::{BTreeMap, BTreeSet};

struct Random(u64);

impl Random {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 8) as usize % most
    }
}

#[test]
fn agrees_with_a_map_and_keeps_no_memory_for_what_is_gone() {
    // 64 things of a piece, 16, and one.
    play::<1>();
    play::<120>();
    play::<3000>();
}

fn play<const WORDS: usize>() {
    let mut random = Random(99);
    let mut table: Slab<[usize; WORDS]> = Slab::default();
    let mut model: BTreeMap<u32, usize> = BTreeMap::new();
    let each = Records::<Option<[usize; WORDS]>>::EACH;
    for step in 0..30_000 {
        let wanted = [600, 3, 200][step / 3000 % 3];
        if random.below(wanted * 2) >= model.len() {
            let at = table.insert([step; WORDS]).unwrap();
            assert_eq!(model.insert(at, step), None);
        } else {
            let at = *model.keys().nth(random.below(model.len())).unwrap();
            let thing = table.remove(at).unwrap();
            assert_eq!(model.remove(&at), Some(thing[WORDS - 1]));
            assert!(table.get(at).is_none() && table.remove(at).is_none());
        }
        let place = random.below(3000) as u32;
        assert_eq!(table.get(place).map(|t| &t[0]), model.get(&place));
        assert_eq!(table.len(), model.len());
        let pieces: BTreeSet<u32> = model.keys().map(|at| at / each as u32).collect();
        assert!(table.0.pieces() <= pieces.len() + 1, "step {step}");
        assert_eq!(table.0.free, table.0.pieces() * each - model.len());
    }
    assert!(table.iter().map(|(at, t)| (at, t[0])).eq(model.clone()));
    for at in model.into_keys() {
        assert!(table.remove(at).is_some());
    }
    assert!(table.is_empty() && table.0.pieces() <= 1);
}

#[test]
fn numbers_are_the_lowest_that_are_free() {
    let mut table = Slab::new();
    for i in 0..1000u64 {
        assert_eq!(table.insert(i), Some(i as u32));
    }
    for at in [700, 5, 300, 999] {
        table.remove(at);
    }
    for at in [5, 300, 700, 999, 1000] {
        assert_eq!(table.0.next_number(), Some(at));
        assert_eq!(table.insert(0), Some(at));
    }
}

#[test]
fn records_keep_what_they_have_as_long_as_their_piece_is_there() {
    let mut records: Records<Vec<u8>> = Records::new();
    let first = records.take().unwrap();
    records[first].push(7);
    records.give(first);
    assert_eq!((records.len(), records[first].len()), (0, 1));
    // Twice is once.
    records.give(first);
    records.give(1 << 30);
    assert_eq!(records.len(), 0);
    assert_eq!(records.take(), Some(first));
    let others: Vec<u32> = (0..640).map(|_| records.take().unwrap()).collect();
    assert!(records.numbers().eq(0..641));
    for at in others.iter().rev() {
        records[*at].push(1);
        records.give(*at);
    }
    assert!(records.pieces() <= 2);
    assert!(records.get(600).is_none() && records.get(first).is_some());
    assert_eq!((records.end(), records.len()), (704, 1));
}

#[test]
fn at_the_end_of_a_piece_nothing_goes_to_and_fro() {
    let mut table = Slab::new();
    let each = Records::<Option<u64>>::EACH;
    for i in 0..each as u64 {
        table.insert(i);
    }
    let at = table.insert(0).unwrap();
    for _ in 0..100 {
        table.remove(at);
        table.remove(3);
        assert_eq!(table.0.pieces(), 2);
        assert_eq!((table.insert(0), table.insert(0)), (Some(3), Some(at)));
    }
}
