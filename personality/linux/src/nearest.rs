//! Things by the names of the places where they lie: which one a name leads into is the one with the longest name that it begins with.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// What of a name is left below this place: empty, or with a slash.
pub fn below<'a>(name: &'a [u8], place: &[u8]) -> Option<&'a [u8]> {
    let rest = name.strip_prefix(place)?;
    (rest.is_empty() || rest[0] == b'/').then_some(rest)
}

/// Names without a slash at their end, the root's is empty.
#[derive(Clone, Debug)]
pub struct Nearest<T>(BTreeMap<Vec<u8>, T>);

impl<T> Default for Nearest<T> {
    fn default() -> Self {
        Nearest(BTreeMap::new())
    }
}

impl<T> Nearest<T> {
    /// Something lies there now, and hides what had this name and what lay below it. Whether there was anything.
    pub fn put(&mut self, name: Vec<u8>, thing: T) -> bool {
        let hidden: Vec<Vec<u8>> = self.below(&name).map(|(name, _)| name.to_vec()).collect();
        for name in &hidden {
            self.0.remove(name);
        }
        let before = self.0.insert(name, thing);
        before.is_some() || !hidden.is_empty()
    }

    /// Nothing lies there any more.
    pub fn remove(&mut self, name: &[u8]) {
        self.0.remove(name);
    }

    /// What lies below this place, not there itself; in order of the names.
    pub fn below<'a>(&'a self, place: &[u8]) -> impl Iterator<Item = (&'a [u8], &'a T)> {
        // (Between a name and those below it there may be others: `/a-b`.)
        let first = [place, b"/"].concat();
        let all = self.0.range(first.clone()..);
        let all = all.take_while(move |(name, _)| name.starts_with(&first));
        all.map(|(name, thing)| (&name[..], thing))
    }

    pub fn at(&self, place: &[u8]) -> Option<&T> {
        self.0.get(place)
    }

    /// What a name leads into, and how much of the name that takes.
    pub fn find(&self, name: &[u8]) -> Option<(usize, &T)> {
        let mut length = name.len();
        loop {
            // (A slash at the end is no part of a place's name.)
            if let Some(thing) = self.0.get(&name[..length]) {
                return Some((length, thing));
            }
            length = name[..length].iter().rposition(|byte| *byte == b'/')?;
        }
    }

    /// The same of what lies above a place, which is not the root.
    pub fn above(&self, place: &[u8]) -> Option<(usize, &T)> {
        let slash = place.iter().rposition(|byte| *byte == b'/')?;
        self.find(&place[..slash])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_leads_into_the_nearest() {
        let mut all = Nearest::default();
        for (at, name) in ["", "/proc", "/new", "/new/usr", "/new-er"]
            .iter()
            .enumerate()
        {
            all.put(name.as_bytes().to_vec(), at);
        }
        let find = |all: &Nearest<usize>, name: &str| all.find(name.as_bytes()).map(|(_, at)| *at);
        for (name, at) in [
            ("/", 0),
            ("", 0),
            ("/process", 0),
            ("/proc", 1),
            ("/proc/1/x", 1),
            ("/new/us", 2),
            ("/new/", 2),
            ("/new/usr/bin", 3),
        ] {
            assert_eq!(find(&all, name), Some(at), "{name}");
        }
        assert_eq!(all.above(b"/new/usr"), Some((4, &2)));
        assert_eq!(all.above(b""), None);
        let below: Vec<usize> = all.below(b"/new").map(|(_, at)| *at).collect();
        assert_eq!(below, [3]);
        // What lies there later hides what was there, and nothing beside it.
        assert!(all.put(b"/new".to_vec(), 9) && !all.put(b"/new-".to_vec(), 5));
        all.remove(b"/new-");
        assert_eq!(find(&all, "/new/usr/bin"), Some(9));
        assert_eq!(find(&all, "/new-er"), Some(4));
        all.put(Vec::new(), 10);
        assert_eq!((find(&all, "/new"), all.0.len()), (Some(10), 1));
        assert_eq!(Nearest::<usize>::default().find(b"/x"), None);
    }

    #[test]
    fn places_end_at_slashes() {
        assert_eq!(below(b"/a/b", b"/a"), Some(&b"/b"[..]));
        assert_eq!(below(b"/ab", b"/a"), None);
    }
}
