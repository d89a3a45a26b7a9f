//! Quick interrupts: what the machine layer's own code does with one whose driver waits for it, and when it may.
//!
//! From the interrupt to the driver's first instruction nothing needs deciding if the source has one driver, which waits plainly ([`crate::quick`]) at the channel that it has bound, is more
//! important than whoever runs, and has no hasty handler. The general way ([`Kernel::interrupt`]) finds that out each time; when it does, it tells the machine layer the
//! [`Way`]: which objects are concerned. From then on the machine layer looks only whether the driver waits and is important enough, and does what [`Kernel::interrupt`] would do.
//!
//! What always holds: as long as a way is remembered, its source has one binding, with this channel and badge, and without a handler; whatever changes that calls
//! [`Kernel::forget_way`]. What may change without that (the page tables of the driver's domain, whether it is unusual) is looked up each time. That channel's `plain` is the way's only while this very driver waits there plainly. With several cores nothing is remembered: that code does without the lock.

use crate::arch::Arch;
use crate::pool::Handle;
use crate::Kernel;

/// What is concerned when a source interrupts: addresses of objects, and numbers.
#[derive(Clone, Copy, Debug)]
pub struct Way {
    /// The binding, and how many of the source's bindings owe.
    pub binding: usize,
    pub owed: usize,
    pub channel: usize,
    /// What the channel's `plain` is while the driver waits.
    pub plain: u64,
    pub driver: usize,
    pub domain: usize,
    pub badge: u64,
    pub binding_index: u32,
    pub driver_index: u32,
    pub domain_index: u32,
}

impl<A: Arch> Kernel<A> {
    /// This source has interrupted and nothing was done about it yet: may the next time be quick?
    pub(crate) fn remember_way(&mut self, source: u32) {
        if let Some(way) = self.way(source as usize) {
            self.arch.interrupt_way(source, Some(&way));
        }
    }

    fn way(&self, source: usize) -> Option<Way> {
        let index = self.interrupts.only_one(source)?;
        let binding = &self.interrupts.bindings[index as usize];
        let c = self.channels.lookup(binding.channel)?;
        let channel = &self.channels[c];
        let driver = channel.receivers.first()?;
        let d = self.threads[driver].domain;
        let domain = &self.domains[d];
        if channel.plain == 0
            || binding.handler != 0
            || binding.by_semaphore()
            || domain.unusual != 0
            || self.several()
            || !self.short_way
        {
            return None;
        }
        Some(Way {
            binding: (&raw const *binding) as usize,
            owed: (&raw const self.interrupts.sources[source].owed) as usize,
            channel: self.channels.address(c),
            plain: channel.plain,
            driver: self.threads.address(driver),
            domain: (&raw const *domain) as usize,
            badge: binding.badge,
            binding_index: index,
            driver_index: driver.number(),
            domain_index: d.number(),
        })
    }

    /// Something about this source is not as it was.
    pub(crate) fn forget_way(&mut self, source: u32) {
        self.arch.interrupt_way(source, None);
    }
}
