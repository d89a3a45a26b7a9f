//! Device registers in a component's space. They lie in a range of the native layout that no region ever uses, so nothing else here knows of them:
//! the nucleus counts no frames there, and the mappings go with the space's page tables.

use crate::nucleus::Nucleus;
use crate::space::{with_tables, Errno, Trouble, Vm};
use cairn_abi::layout::{DEVICES, NATIVE_STACK_SIZE, NATIVE_STACK_TOP, PAGE};
use cairn_abi::service::memory::{map, prot};
use cairn_idl::errno::*;
use cairn_idl::vm::DEVICE_MAX;

/// Protection and kind of every page.
const BITS: u64 = prot::READ | prot::WRITE | prot::DEVICE | map::IO;

impl<N: Nucleus> Vm<N> {
    /// DEVICE_INTO.
    pub(crate) fn show_device(
        &mut self,
        index: usize,
        address: u64,
        physical: u64,
        len: u64,
    ) -> Result<u64, Errno> {
        let aligned = (address | physical | len).is_multiple_of(PAGE);
        let end = address.checked_add(len).ok_or(EINVAL)?;
        let last = physical.checked_add(len).ok_or(EINVAL)? / PAGE;
        if !aligned
            || len == 0
            || len > DEVICE_MAX
            || address < DEVICES
            || end > NATIVE_STACK_TOP - NATIVE_STACK_SIZE
            || u32::try_from(last).is_err()
        {
            return Err(EINVAL);
        }
        let space = self.spaces.get(index).ok_or(ESRCH)?;
        if space.linux() {
            return Err(EINVAL);
        }
        if (0..len / PAGE).any(|page| self.is_iommus(physical / PAGE + page)) {
            return Err(EACCES);
        }
        let space = self.spaces.get_mut(index).ok_or(ESRCH)?;
        for page in 0..len / PAGE {
            let frame = (physical / PAGE + page) as u32;
            with_tables(
                &mut self.nucleus,
                &mut self.frames,
                space,
                &mut self.table_frames,
                |nucleus, slot| nucleus.map(slot, address + page * PAGE, frame, BITS, 0),
            )
            .map_err(|trouble| match trouble {
                Trouble::Refused => EACCES,
                Trouble::NoFrame => ENOMEM,
            })?;
        }
        Ok(0)
    }
}
