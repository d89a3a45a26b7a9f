//! Which sources of a group are wanted (RFC 3376, 3): what one member says, and what all members of an interface together want of it.

use crate::address::Address;
use alloc::vec::Vec;

/// What a member wants: only these sources, or (`exclude`) all but these.
#[derive(Default, Debug)]
pub struct Filter {
    pub exclude: bool,
    /// In the order in which the program named them.
    pub sources: Vec<Address>,
    /// It has named some since it was set: then it is not changed from one kind into the other by naming one.
    pub fixed: bool,
}

impl Filter {
    /// All sources.
    pub fn any() -> Filter {
        Filter {
            exclude: true,
            sources: Vec::new(),
            fixed: false,
        }
    }

    /// None: there is no memory.
    pub fn of(exclude: bool, sources: &[Address]) -> Option<Filter> {
        let mut own = Vec::new();
        own.try_reserve_exact(sources.len()).ok()?;
        own.extend_from_slice(sources);
        Some(Filter {
            exclude,
            fixed: !own.is_empty(),
            sources: own,
        })
    }

    pub fn allows(&self, source: &Address) -> bool {
        self.sources.contains(source) != self.exclude
    }
}

/// How many members name a source, of those that want only some and of those that want all but some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named {
    pub address: Address,
    pub includes: u32,
    pub excludes: u32,
}

/// What all members together want.
#[derive(Default, Debug)]
pub struct Wanted {
    /// Members that want all but some sources.
    pub excludes: u32,
    /// Sorted.
    pub named: Vec<Named>,
}

/// What a change made of the sources that it named: those that are wanted now, and those that are not any more. `all`: so much has changed that the
/// whole state is to be told.
#[derive(Default, Debug, PartialEq, Eq)]
pub struct Change {
    pub all: bool,
    pub allowed: Vec<Address>,
    pub blocked: Vec<Address>,
}

impl Change {
    /// Bytes that it keeps.
    pub fn memory(&self) -> usize {
        (self.allowed.capacity() + self.blocked.capacity()) * size_of::<Address>()
    }

    pub fn is_none(&self) -> bool {
        !self.all && self.allowed.is_empty() && self.blocked.is_empty()
    }
}

impl Wanted {
    /// All but some are wanted, and not some only.
    pub fn exclude(&self) -> bool {
        self.excludes != 0
    }

    fn find(&self, source: &Address) -> Result<usize, usize> {
        self.named.binary_search_by(|of| of.address.cmp(source))
    }

    /// Is it among those that are told of: the wanted ones, or those that nobody wants?
    fn is_listed(&self, of: &Named) -> bool {
        match self.exclude() {
            true => of.includes == 0 && of.excludes == self.excludes,
            false => of.includes != 0,
        }
    }

    fn lists(&self, source: &Address) -> bool {
        let found = self.find(source).ok().and_then(|at| self.named.get(at));
        found.is_some_and(|of| self.is_listed(of))
    }

    /// The sources that are told of.
    pub fn listed(&self) -> impl Iterator<Item = Address> + '_ {
        let listed = self.named.iter().filter(|of| self.is_listed(of));
        listed.map(|of| of.address)
    }

    pub fn allows(&self, source: &Address) -> bool {
        self.lists(source) != self.exclude()
    }

    /// A member wants something else: `old` (None: it comes), `new` (None: it goes). None, and nothing has happened: there is no memory.
    pub fn change(&mut self, old: Option<&Filter>, new: Option<&Filter>) -> Option<Change> {
        let of = |filter: Option<&Filter>| filter.map_or(0, |filter| filter.sources.len());
        let mut touched: Vec<(Address, bool)> = Vec::new();
        let mut change = Change::default();
        touched.try_reserve_exact(of(old) + of(new)).ok()?;
        change.allowed.try_reserve_exact(of(old) + of(new)).ok()?;
        change.blocked.try_reserve_exact(of(old) + of(new)).ok()?;
        self.named.try_reserve(of(new)).ok()?;
        let before = (self.exclude(), self.excludes);
        let had = !self.named.is_empty();
        for filter in [old, new].into_iter().flatten() {
            let all = filter.sources.iter();
            touched.extend(all.map(|source| (*source, self.lists(source))));
        }
        if let Some(new) = new {
            self.count(new, true);
        }
        if let Some(old) = old {
            self.count(old, false);
        }
        touched.sort_unstable();
        touched.dedup();
        let has = !self.named.is_empty();
        // Where all but some are wanted the number of who says so decides of each.
        let other = before.1 != self.excludes && (had || has);
        if before.0 != self.exclude() || other {
            change.all = true;
            return Some(change);
        }
        for (source, was) in touched {
            let is = self.lists(&source);
            match (is == was, is != self.exclude()) {
                (true, _) => {}
                (false, true) => change.allowed.push(source),
                (false, false) => change.blocked.push(source),
            }
        }
        Some(change)
    }

    /// (There is room for what comes.)
    fn count(&mut self, filter: &Filter, comes: bool) {
        let one = |count: u32| match comes {
            true => count + 1,
            false => count.saturating_sub(1),
        };
        if filter.exclude {
            self.excludes = one(self.excludes);
        }
        for source in &filter.sources {
            let at = match self.find(source) {
                Ok(at) => at,
                Err(_) if !comes => continue,
                Err(at) => {
                    let named = Named {
                        address: *source,
                        includes: 0,
                        excludes: 0,
                    };
                    self.named.insert(at, named);
                    at
                }
            };
            let of = &mut self.named[at];
            match filter.exclude {
                true => of.excludes = one(of.excludes),
                false => of.includes = one(of.includes),
            }
            if of.includes == 0 && of.excludes == 0 {
                self.named.remove(at);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(last: u8) -> Address {
        Address::v4([10, 0, 0, last])
    }

    fn filter(exclude: bool, lasts: &[u8]) -> Filter {
        let sources: Vec<Address> = lasts.iter().map(|last| ip(*last)).collect();
        Filter::of(exclude, &sources).unwrap()
    }

    #[test]
    fn what_several_members_want() {
        let mut wanted = Wanted::default();
        let (a, b) = (filter(false, &[1, 2]), filter(false, &[2, 3]));
        let change = wanted.change(None, Some(&a)).unwrap();
        assert_eq!(change.allowed, [ip(1), ip(2)]);
        let change = wanted.change(None, Some(&b)).unwrap();
        assert_eq!((change.allowed, change.all), (vec![ip(3)], false));
        assert!(wanted.allows(&ip(3)) && !wanted.allows(&ip(4)));
        // Somebody wants all but 1, 4 and 5: now 4 and 5 alone are not wanted.
        let c = filter(true, &[1, 4, 5]);
        assert!(wanted.change(None, Some(&c)).unwrap().all && wanted.exclude());
        assert_eq!(wanted.listed().collect::<Vec<_>>(), [ip(4), ip(5)]);
        assert!(wanted.allows(&ip(1)) && wanted.allows(&ip(9)) && !wanted.allows(&ip(4)));
        // He changes his mind about one.
        let d = filter(true, &[1, 4]);
        let change = wanted.change(Some(&c), Some(&d)).unwrap();
        assert_eq!((change.allowed, change.blocked), (vec![ip(5)], vec![]));
        let change = wanted.change(Some(&a), None).unwrap();
        assert_eq!((change.allowed, change.blocked), (vec![], vec![ip(1)]));
        // Another one wants all.
        let all = Filter::any();
        assert!(wanted.change(None, Some(&all)).unwrap().all && wanted.allows(&ip(4)));
        for gone in [&all, &d, &b] {
            wanted.change(Some(gone), None).unwrap();
        }
        assert!(!wanted.exclude() && wanted.named.is_empty() && !wanted.allows(&ip(1)));
    }

    #[test]
    fn one_member_changes_nothing_by_saying_the_same_again() {
        let mut wanted = Wanted::default();
        let a = filter(true, &[1, 2]);
        wanted.change(None, Some(&a)).unwrap();
        assert!(wanted.change(Some(&a), Some(&a)).unwrap().is_none());
        assert_eq!(wanted.named.len(), 2);
    }
}
