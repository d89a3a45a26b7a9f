//! An arena of few pages, and the memory manager as the server sees it.

use crate::map::{Medium, PAGE};
use cairn_cache::fake::Vm;
use cairn_cache::mapped::{Objects, Refused};
use cairn_cache::Slot;
use cairn_rt::paging::Request;
use cairn_rt::Portal;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::vec;
use std::vec::Vec;

/// Fewer pages than the tests map.
pub const SLOTS: u32 = 64;

#[derive(Clone)]
pub struct Memory {
    pub vm: Rc<RefCell<Vm>>,
    pub asked: Rc<RefCell<VecDeque<Request>>>,
    pages: Vec<Vec<u8>>,
}

impl Memory {
    pub fn new() -> Memory {
        Memory {
            vm: Rc::default(),
            asked: Rc::default(),
            pages: vec![vec![0; PAGE]; SLOTS as usize],
        }
    }
}

impl cairn_cache::Memory for Memory {
    fn populate(&mut self, _: Slot, _: u32) -> bool {
        true
    }
    fn release(&mut self, _: Slot, _: u32) {}
}

impl Medium for Memory {
    fn page(&mut self, slot: Slot) -> &mut [u8] {
        &mut self.pages[slot as usize]
    }
    fn wanted(&mut self, _: bool) -> u64 {
        0
    }
    fn asked(&mut self) -> Option<Request> {
        self.asked.borrow_mut().pop_front()
    }
    fn synced(&mut self, _: u64) {}
    type Objects = Shown;
    fn objects(&self) -> Shown {
        Shown(self.vm.clone())
    }
}

#[derive(Clone)]
pub struct Shown(Rc<RefCell<Vm>>);

impl Objects for Shown {
    type Object = Portal;
    fn make(&mut self, pages: u64, tag: u64) -> Option<Portal> {
        Some(Portal(self.0.borrow_mut().make(pages, tag)))
    }
    fn reader(&mut self, object: Portal) -> Option<Portal> {
        Some(Portal(self.0.borrow_mut().reader(object.0)))
    }
    fn change(
        &mut self,
        object: Portal,
        first: u64,
        slots: &[Option<Slot>],
        pages: u64,
    ) -> Result<u64, Refused> {
        self.0.borrow_mut().change(object.0, first, slots, pages)
    }
    fn refuse(&mut self, tag: u64, first: u64, pages: u64) {
        self.0.borrow_mut().refuse(tag, first, pages);
    }
    fn written(
        &mut self,
        object: Portal,
        first: u64,
        pages: u64,
        runs: &mut [(u64, u64)],
    ) -> Option<(usize, u64, bool)> {
        self.0.borrow_mut().written(object.0, first, pages, runs)
    }
    fn close(&mut self, portal: Portal) {
        self.0.borrow_mut().close(portal.0);
    }
}
