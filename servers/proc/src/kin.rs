//! The children of processes that have many, in order: WAIT finds the eldest that it means, and whether there is one, without looking at the others.
//!
//! Of a process with at most [`FEW`] children nothing is here: they are looked through. The index has each child of the others under its group, and those of
//! whom the parent is to be told something under that as well ([`Class`]). A child's places follow from its record, so they are taken out before that changes
//! ([`Manager::kin_leaves`]) and put in again behind it ([`Manager::kin_enters`]).

use crate::manager::Manager;
use crate::process::{Process, Report};
use crate::system::System;
use crate::table::{Slot, NONE};
use alloc::collections::BTreeMap;

/// So many children are looked through. (Few in the tests, so that they come to the index.)
const FEW: u32 = if cfg!(test) { 2 } else { 16 };

/// What its parent is to be told of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Every child is in this one, whatever there is to tell.
    All,
    Ended,
    Stopped,
    Continued,
}

/// The parent, the child's group (NONE: any), the class, and the child's place among its siblings.
type Key = (Slot, Slot, Class, u64);

#[derive(Debug, Default)]
pub struct Kin {
    children: BTreeMap<Key, Slot>,
    /// How often a process got a parent.
    adoptions: u64,
}

impl Kin {
    /// The eldest child of a class, in this group (NONE: in any), and its place.
    pub fn eldest(&self, parent: Slot, group: Slot, class: Class) -> Option<(u64, Slot)> {
        let all = (parent, group, class, 0)..=(parent, group, class, u64::MAX);
        let first = self.children.range(all).next();
        first.map(|(key, child)| (key.3, *child))
    }

    /// The place of one more child, behind all that there are.
    pub fn place(&mut self) -> u64 {
        self.adoptions += 1;
        self.adoptions
    }
}

impl Process {
    fn class(&self) -> Class {
        match (self.ended, self.report) {
            (Some(_), _) => Class::Ended,
            (None, Report::Stopped(_)) => Class::Stopped,
            (None, Report::Continued) => Class::Continued,
            (None, Report::Nothing) => Class::All,
        }
    }

    /// Where a child that has a group is in the index.
    fn places(&self) -> impl Iterator<Item = Key> {
        let (parent, group, place) = (self.parent, self.group, self.place);
        let class = Some(self.class()).filter(|class| *class != Class::All);
        let told = class.into_iter().flat_map(move |class| {
            let groups = [NONE, group];
            groups.map(|group| (parent, group, class, place))
        });
        core::iter::once((parent, group, Class::All, place)).chain(told)
    }
}

impl<S: System> Manager<S> {
    fn is_kin(&self, child: Slot) -> bool {
        let Process { parent, group, .. } = self.processes[child];
        parent != NONE && group != NONE && self.processes[parent].has_many_children
    }

    /// Something of this child is about to change that the index tells.
    pub(crate) fn kin_leaves(&mut self, child: Slot) {
        if self.is_kin(child) {
            for key in self.processes[child].places() {
                self.kin.children.remove(&key);
            }
        }
    }

    /// It has changed.
    pub(crate) fn kin_enters(&mut self, child: Slot) {
        if self.is_kin(child) {
            for key in self.processes[child].places() {
                self.kin.children.insert(key, child);
            }
        }
    }

    /// The process has a child more.
    pub(crate) fn count_child(&mut self, parent: Slot) {
        let process = &mut self.processes[parent];
        process.children += 1;
        if process.children > FEW && !process.has_many_children {
            process.has_many_children = true;
            self.each_child(parent, Manager::kin_enters);
        }
    }

    /// It has a child less.
    pub(crate) fn uncount_child(&mut self, parent: Slot) {
        let process = &mut self.processes[parent];
        process.children -= 1;
        if process.children <= FEW / 2 && process.has_many_children {
            self.each_child(parent, Manager::kin_leaves);
            self.processes[parent].has_many_children = false;
        }
    }

    fn each_child(&mut self, parent: Slot, mut to: impl FnMut(&mut Manager<S>, Slot)) {
        let mut child = self.processes[parent].first_child;
        while child != NONE {
            to(self, child);
            child = self.processes[child].next;
        }
    }

    /// What is in the index of this process's children, and what should be, for the tests.
    #[cfg(test)]
    pub(crate) fn check_kin(&self, parent: Slot) {
        let process = &self.processes[parent];
        let mut wanted = alloc::vec::Vec::new();
        let (mut child, mut count) = (process.first_child, 0);
        while child != NONE {
            let its = &self.processes[child];
            if process.has_many_children && its.group != NONE {
                wanted.extend(its.places().map(|key| (key, child)));
            }
            (child, count) = (its.next, count + 1);
        }
        wanted.sort();
        let all = (parent, NONE, Class::All, 0)..(parent + 1, NONE, Class::All, 0);
        let there = self.kin.children.range(all);
        assert!(there.map(|(key, child)| (*key, *child)).eq(wanted));
        assert_eq!(process.children, count);
        assert!(process.has_many_children || count <= FEW);
    }

    #[cfg(test)]
    pub(crate) fn kin_entries(&self) -> usize {
        self.kin.children.len()
    }
}
