//! Where there is an IOMMU (`lib/iommu`), a device reaches what `vm` has pinned or made for its driver, and nothing else. See docs/iommu.md.
//!
//! What always holds, as long as the IOMMU answers: a device reaches only frames to which its driver holds a reference ([`crate::dma`]); no such reference is dropped before the IOMMU has forgotten the frame.

use crate::frames::Frames;
use crate::nucleus::{Frame, Nucleus};
use crate::space::{Errno, Vm, NATIVE_RESERVE};
use cairn_abi::layout::PAGE;
use cairn_abi::Id;
use cairn_idl::errno::*;
use cairn_idl::vm::BADGE_DRIVER_FIRST;
use cairn_iommu::{dmar, Iommu, Trouble};

/// What showing a table to `vm` itself may take of frames for page tables.
const SHOWN_BYTES: usize = 4 * PAGE as usize;
/// Refused accesses that are looked at for one interrupt: more than one device is told of, so that all are.
const LOOKS: usize = 1024;

fn errno(trouble: Trouble) -> Errno {
    match trouble {
        Trouble::NoMemory => ENOMEM,
        Trouble::TooHigh => EFAULT,
        _ => EIO,
    }
}

/// The IOMMU's number for a driver: its badge.
fn domain(driver: usize) -> usize {
    driver + BADGE_DRIVER_FIRST as usize
}

/// A zeroed frame that `vm` sees, for a table.
fn table<N: Nucleus>(nucleus: &mut N, frames: &mut Frames) -> Option<Frame> {
    if !nucleus.heap_room(frames, SHOWN_BYTES) {
        return None;
    }
    let frame = frames.alloc(NATIVE_RESERVE)?;
    if nucleus.zero_frame(frame).is_err() || !nucleus.show_table(frame) {
        frames.release(frame);
        return None;
    }
    Some(frame)
}

impl<N: Nucleus> Vm<N> {
    /// Look for an IOMMU by the firmware's tables, which begin with ACPI's root pointer, and switch it on: no device reaches anything from now on.
    pub fn start_iommu(&mut self, root: u64) {
        let Some(dmar) = dmar::find(&mut self.nucleus, root).filter(|d| !d.units.is_empty()) else {
            self.nucleus
                .say(format_args!("no IOMMU: devices reach all memory"));
            return;
        };
        let pages = dmar.units.iter().map(|unit| unit.registers / PAGE);
        self.dma.registers = pages.collect();
        let (hidden, reserved) = (dmar.hidden, dmar.reserved.len());
        let message = self.nucleus.message();
        let (nucleus, frames) = (&mut self.nucleus, &mut self.frames);
        let before = frames.free();
        let mut take = |nucleus: &mut N| table(nucleus, frames);
        match Iommu::start(nucleus, dmar, message, &mut take) {
            Ok(iommu) => {
                nucleus.say(format_args!(
                    "an IOMMU of {} units: devices reach what their drivers have pinned",
                    iommu.units()
                ));
                self.dma.iommu = Some(iommu);
            }
            Err(trouble) => {
                nucleus.say(format_args!("the IOMMU cannot be used: {trouble:?}"));
            }
        }
        self.heap_frames += (before - self.frames.free()) as u64;
        if reserved + hidden > 0 {
            self.nucleus.say(format_args!(
                "the firmware reserved {reserved} ranges for devices; {hidden} devices behind bridges get none"
            ));
        }
    }

    fn with_iommu(
        &mut self,
        work: impl FnOnce(
            &mut Iommu,
            &mut N,
            &mut dyn FnMut(&mut N) -> Option<Frame>,
        ) -> Result<(), Trouble>,
    ) -> Result<(), Errno> {
        let Some(iommu) = self.dma.iommu.as_mut() else {
            return Ok(());
        };
        let frames = &mut self.frames;
        let before = frames.free();
        let done = work(iommu, &mut self.nucleus, &mut |nucleus| {
            table(nucleus, frames)
        });
        self.heap_frames += (before - self.frames.free()) as u64;
        done.map_err(errno)
    }

    /// A driver's device reaches these frames.
    #[inline]
    pub(crate) fn reach(&mut self, driver: usize, frames: &[Frame]) -> Result<(), Errno> {
        match self.dma.iommu {
            None => Ok(()),
            Some(_) => self.show_to_device(driver, frames),
        }
    }

    #[inline(never)]
    fn show_to_device(&mut self, driver: usize, frames: &[Frame]) -> Result<(), Errno> {
        self.with_iommu(|iommu, nucleus, mut take| {
            iommu.map(nucleus, &mut take, domain(driver), frames)
        })
    }

    /// It does not any more. After an error nobody may be given them.
    #[inline]
    pub(crate) fn withdraw(&mut self, driver: usize, frames: &[Frame]) -> Result<(), Errno> {
        match self.dma.iommu {
            Some(_) if !frames.is_empty() => self.hide_from_device(driver, frames),
            _ => Ok(()),
        }
    }

    #[inline(never)]
    fn hide_from_device(&mut self, driver: usize, frames: &[Frame]) -> Result<(), Errno> {
        self.with_iommu(|iommu, nucleus, _| iommu.unmap(nucleus, domain(driver), frames))
    }

    /// DMA_ATTACH: the bus says whose this device is. → 1 if that is enforced. The device of somebody who is no driver reaches nothing.
    #[cold]
    pub(crate) fn dma_attach(&mut self, id: u64, function: u64) -> Result<u64, Errno> {
        let function = u16::try_from(function).map_err(|_| EINVAL)?;
        let id = Id::try_from(id).map_err(|_| ESRCH)?;
        if let Some(driver) = self.dma.is_driver(id) {
            self.with_iommu(|iommu, nucleus, mut take| {
                iommu.attach(nucleus, &mut take, domain(driver), function)
            })?;
        }
        Ok(u64::from(self.dma.iommu.is_some()))
    }

    /// A domain ends. If it was a driver its device reaches nothing from now on; what it had stays its own until its successor has reset the device.
    pub(crate) fn driver_gone(&mut self, id: Id) {
        if self.dma.iommu.is_none() {
            return;
        }
        if let Some(driver) = self.dma.is_driver(id) {
            // Whoever is given the frames asks the IOMMU again.
            let _ = self.with_iommu(|iommu, nucleus, _| iommu.detach(nucleus, domain(driver)));
        }
    }

    /// Tell of accesses that were refused.
    #[cold]
    pub(crate) fn tell_faults(&mut self) {
        for _ in 0..LOOKS {
            let mut found = None;
            let _ = self.with_iommu(|iommu, nucleus, mut take| {
                found = iommu.fault(nucleus, &mut take);
                Ok(())
            });
            let Some((fault, last)) = found else { break };
            let (bus, device) = (fault.function >> 8, fault.function >> 3 & 31);
            let what = if fault.write { "write to" } else { "read of" };
            let end = match last {
                true => "; no more is told of it until it is attached again",
                false => "",
            };
            self.nucleus.say(format_args!(
                "device {bus:02x}:{device:02x}.{} was refused a {what} {:#x} (reason {}){end}",
                fault.function & 7,
                fault.address,
                fault.reason
            ));
        }
        self.nucleus.acknowledge();
    }

    /// Whether the registers of a unit are in this page.
    pub(crate) fn is_iommus(&self, page: u64) -> bool {
        self.dma
            .registers
            .iter()
            .any(|&first| (first..first + cairn_iommu::REGISTER_PAGES).contains(&page))
    }
}
