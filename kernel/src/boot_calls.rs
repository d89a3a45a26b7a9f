//! What the boot code does before the first thread runs, in this order: declare frames, fill the pools, make the first space, map, make the first domain.

use crate::arch::{Arch, Frame, MapError};
use crate::frames::FrameKind;
use crate::portal::table::Target;
use crate::{Kernel, MAX_RANGES};
use cairn_abi::layout::init_slot;
use cairn_abi::machine::FrameRange;
use cairn_abi::state::Registers;
use cairn_abi::{policy, priority, rights, PortalKind};

impl<A: Arch> Kernel<A> {
    /// Say what frames are.
    pub fn boot_frames(&mut self, first: Frame, count: u32, kind: FrameKind) {
        for frame in first..first.saturating_add(count) {
            self.frames.set(frame, kind);
        }
    }

    /// A range of free memory for `vm`; its frames become `User`. Ranges past the most that can be remembered are not used.
    pub fn boot_range(&mut self, first: Frame, count: u32) {
        if self.range_count == MAX_RANGES || count == 0 {
            return;
        }
        self.boot_frames(first, count, FrameKind::User);
        self.ranges[self.range_count] = FrameRange {
            first: first as u64,
            count: count as u64,
        };
        self.range_count += 1;
    }

    /// The frame of the system page, which the boot code fills.
    pub fn boot_system_page(&mut self, frame: Frame) {
        self.frames.set(frame, FrameKind::System);
        self.system_frame = frame;
    }

    /// Where ACPI's root pointer is (0: nowhere), for those who read the firmware's tables.
    pub fn boot_firmware(&mut self, root: u64) {
        self.firmware = root;
    }

    /// Give a frame to an object pool. False: the pool's region is full.
    pub fn boot_pool(&mut self, pool: usize, frame: Frame) -> bool {
        self.frames.set(frame, FrameKind::Nucleus);
        self.pool_add(pool as u64, frame)
    }

    /// The first space, empty. Its frames come by [`Kernel::boot_tables`]: the first becomes the root.
    pub fn boot_space(&mut self) -> bool {
        self.first_space = self.space_create(0, 0, false).ok();
        self.first_space.is_some()
    }

    /// A frame for the first space's page tables and portal table.
    pub fn boot_tables(&mut self, frame: Frame) {
        if let Some(s) = self.first_space {
            self.frames.set(frame, FrameKind::Nucleus);
            self.space_give(s, frame);
        }
    }

    /// Map a page of the first space; the frame must be `User` or `System`.
    pub fn boot_map(&mut self, address: u64, frame: Frame, prot: u64) -> Result<(), MapError> {
        let s = self.first_space.ok_or(MapError::NoTable)?;
        let root = self.spaces[s].root.ok_or(MapError::NoTable)?;
        self.map_page(s, root, address, frame, prot)
    }

    /// First domain and thread, with slots as `layout::init_slot` says. False: something was not there; the boot code then stops.
    pub fn boot_domain(&mut self, entry: u64, stack: u64, rdi: u64, rsi: u64, rdx: u64) -> bool {
        let Some(s) = self.first_space else {
            return false;
        };
        let Ok(d) = self.domain_create(s, priority::HIGHEST) else {
            return false;
        };
        // A native component: no floating-point registers.
        self.domains[d].float = false;
        self.domain_changed(d);
        let all = rights::ALL & !rights::INHERIT;
        for (slot, target) in [
            (init_slot::DOMAIN, Target::to(PortalKind::Domain, d, all)),
            (init_slot::SPACE, Target::to(PortalKind::Space, s, all)),
            (init_slot::MEMORY, Target::new(PortalKind::Memory, 0, all)),
            (init_slot::MACHINE, Target::new(PortalKind::Machine, 0, all)),
            (init_slot::LOG, Target::new(PortalKind::Log, 0, rights::ALL)),
        ] {
            self.place(d, slot, target);
        }
        let registers = Registers {
            rip: entry,
            rsp: stack,
            rdi,
            rsi,
            rdx,
            ..Registers::default()
        };
        match self.thread_create(d, registers, priority::SERVER) {
            Ok(t) => {
                self.threads[t].set_policy(policy::FIFO);
                self.wake(t);
                true
            }
            Err(_) => false,
        }
    }
}
