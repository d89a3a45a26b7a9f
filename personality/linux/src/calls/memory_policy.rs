//! Memory policies of a machine with one node: they are kept as Linux keeps them, and all of them mean node 0.

use crate::errno::{Result, EFAULT, EINVAL, ENODEV, ENOENT, EOPNOTSUPP, EPERM, ESRCH};
use crate::machine::area::{process, Frame};
use crate::machine::user;
use crate::memory;
use alloc::collections::BTreeMap;
use cairn_abi::layout::PAGE;
use cairn_idl::capability::SYS_NICE;

/// Modes.
const DEFAULT: u32 = 0;
const PREFERRED: u32 = 1;
const LOCAL: u32 = 4;
const PREFERRED_MANY: u32 = 5;
/// Flags of a mode.
const STATIC_NODES: u32 = 1 << 15;
const RELATIVE_NODES: u32 = 1 << 14;
const BALANCING: u32 = 1 << 13;

/// A mode with its flags; whether it names the node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    mode: u32,
    named: bool,
}

/// Ranges of memory with a policy, by their first address: end and policy.
#[derive(Clone, Debug, Default)]
pub struct Policies {
    /// Of the process. (Linux has one for each thread.)
    own: Policy,
    ranges: BTreeMap<u64, (u64, Policy)>,
}

impl Policies {
    pub const fn new() -> Policies {
        Policies {
            own: Policy {
                mode: DEFAULT,
                named: false,
            },
            ranges: BTreeMap::new(),
        }
    }

    /// exec: the memory is gone, and what the process said stays.
    pub fn forget_ranges(&mut self) {
        self.ranges.clear();
    }

    /// This range has this policy from now on.
    fn set(&mut self, start: u64, end: u64, policy: Policy) {
        let overlapped = |(&first, &(last, _)): (&u64, &(u64, Policy))| {
            (first < end && last > start).then_some(first)
        };
        let old: alloc::vec::Vec<u64> = self.ranges.range(..end).filter_map(overlapped).collect();
        for first in old {
            if let Some((last, before)) = self.ranges.remove(&first) {
                if first < start {
                    self.ranges.insert(first, (start, before));
                }
                if last > end {
                    self.ranges.insert(end, (last, before));
                }
            }
        }
        if policy != Policy::default() {
            self.ranges.insert(start, (end, policy));
        }
    }

    /// Only some policies prefer one of their nodes.
    fn may_have_home(&self, start: u64, end: u64) -> Result<u64> {
        const BIND: u32 = 2;
        let before = self.ranges.range(..start).next_back();
        let before = before.filter(|(_, (last, _))| *last > start);
        let mut modes = before
            .into_iter()
            .chain(self.ranges.range(start..end))
            .map(|(_, (_, policy))| policy.mode & 0xff)
            .peekable();
        modes.peek().ok_or(ENOENT)?;
        match modes.all(|mode| mode == BIND || mode == PREFERRED_MANY) {
            true => Ok(0),
            false => Err(EOPNOTSUPP),
        }
    }

    fn at(&self, address: u64) -> Option<Policy> {
        let (_, (end, policy)) = self.ranges.range(..=address).next_back()?;
        (address < *end).then_some(*policy)
    }
}

/// The nodes of a mask of `most` − 1 bits in the program's memory: is node 0 among them, and is another one?
fn nodes(address: u64, most: u64) -> Result<(bool, bool)> {
    const BITS: u64 = PAGE * 8;
    let bits = most.wrapping_sub(1);
    if bits == 0 || address == 0 {
        return Ok((false, false));
    }
    if bits > BITS {
        return Err(EINVAL);
    }
    let (mut first, mut others) = (false, false);
    for at in 0..bits.div_ceil(64) {
        let word: u64 = user::read(address.wrapping_add(8 * at))?;
        let left = bits - 64 * at;
        let word = match left {
            ..64 => word & ((1 << left) - 1),
            _ => word,
        };
        first |= at == 0 && word & 1 != 0;
        others |= word & !u64::from(at == 0) != 0;
    }
    Ok((first, others))
}

/// What mode and mask mean.
fn policy(mode: u64, mask: u64, most: u64) -> Result<Policy> {
    let mode = mode as u32;
    let (base, bits) = (mode & !(STATIC_NODES | RELATIVE_NODES | BALANCING), mode);
    let both = STATIC_NODES | RELATIVE_NODES;
    if base > PREFERRED_MANY || bits & both == both || bits & BALANCING != 0 && base != 2 {
        return Err(EINVAL);
    }
    let (first, others) = nodes(mask, most)?;
    let empty = !first && !others;
    match base {
        DEFAULT if !empty => Err(EINVAL),
        DEFAULT => Ok(Policy::default()),
        PREFERRED if empty && bits & both == 0 => Ok(Policy {
            mode: LOCAL,
            named: false,
        }),
        LOCAL if !empty || bits & both != 0 => Err(EINVAL),
        LOCAL => Ok(Policy {
            mode: LOCAL,
            named: false,
        }),
        // Of nodes that are not there none is left.
        _ if !first => Err(EINVAL),
        _ => Ok(Policy { mode, named: true }),
    }
}

pub fn set_mempolicy(f: &mut Frame) -> Result<u64> {
    let new = policy(f.arg(0), f.arg(1), f.arg(2))?;
    process().state().policies.own = new;
    Ok(0)
}

pub fn get_mempolicy(f: &mut Frame) -> Result<u64> {
    const NODE: u64 = 1;
    const ADDRESS: u64 = 2;
    const ALLOWED: u64 = 4;
    let [mode, mask, most, address, flags] = core::array::from_fn(|i| f.arg(i));
    if mask != 0 && most < 1 || flags & !(NODE | ADDRESS | ALLOWED) != 0 {
        return Err(EINVAL);
    }
    let found = match flags {
        ALLOWED => Policy {
            mode: 0,
            named: true,
        },
        flags if flags & ALLOWED != 0 => return Err(EINVAL),
        flags if flags & ADDRESS != 0 => {
            memory::advise(address & !(PAGE - 1), PAGE, 0).map_err(|_| EFAULT)?;
            let (own, there) = {
                let state = process().state();
                (state.policies.own, state.policies.at(address))
            };
            match there {
                _ if flags & NODE != 0 => {
                    // Where the page lies.
                    user::read::<u8>(address)?;
                    Policy {
                        mode: 0,
                        named: own.named,
                    }
                }
                Some(of_range) => of_range,
                None => own,
            }
        }
        _ if address != 0 => return Err(EINVAL),
        flags => {
            let own = process().state().policies.own;
            match flags & NODE {
                0 => own,
                // The next node, of who takes them in turn.
                _ if own.mode & 0xff == 3 => Policy { mode: 0, ..own },
                _ => return Err(EINVAL),
            }
        }
    };
    if mode != 0 {
        user::write(mode, &found.mode)?;
    }
    if mask != 0 {
        let bytes = (most.wrapping_sub(1).min(1 << 15)).div_ceil(64) * 8;
        user::fill(mask, 0, bytes)?;
        if bytes != 0 {
            user::write(mask, &u64::from(found.named))?;
        }
    }
    Ok(0)
}

/// A range of pages; its length is rounded up, as Linux does it (so the greatest one is none).
fn pages(start: u64, length: u64) -> Result<(u64, u64)> {
    if !start.is_multiple_of(PAGE) {
        return Err(EINVAL);
    }
    let length = length.wrapping_add(PAGE - 1) & !(PAGE - 1);
    let end = start.wrapping_add(length);
    match end < start {
        true => Err(EINVAL),
        false => Ok((start, end)),
    }
}

pub fn mbind(f: &mut Frame) -> Result<u64> {
    const STRICT: u64 = 1;
    const MOVE: u64 = 2;
    const MOVE_ALL: u64 = 4;
    let flags = f.arg(5) & 0xffff_ffff;
    let mode = f.arg(2);
    if mode as u32 & !(STATIC_NODES | RELATIVE_NODES | BALANCING) > PREFERRED_MANY {
        return Err(EINVAL);
    }
    nodes(f.arg(3), f.arg(4))?;
    if flags & !(STRICT | MOVE | MOVE_ALL) != 0 {
        return Err(EINVAL);
    }
    if flags & MOVE_ALL != 0 && !process().is_capable(SYS_NICE) {
        return Err(EPERM);
    }
    let (start, end) = pages(f.arg(0), f.arg(1))?;
    if start == end {
        return Ok(0);
    }
    let new = policy(mode, f.arg(3), f.arg(4))?;
    // All has to be mapped, or for the ordinary policy something.
    let mapped = |length| memory::advise(start, length, 0).map_err(|_| EFAULT);
    match new == Policy::default() {
        true => mapped(end - start).or_else(|_| mapped(PAGE))?,
        false => mapped(end - start)?,
    };
    process().state().policies.set(start, end, new);
    Ok(0)
}

pub fn set_mempolicy_home_node(f: &mut Frame) -> Result<u64> {
    if !f.arg(0).is_multiple_of(PAGE) || f.arg(3) != 0 || f.arg(2) != 0 {
        return Err(EINVAL);
    }
    let (start, end) = pages(f.arg(0), f.arg(1))?;
    match start == end {
        true => Ok(0),
        false => process().state().policies.may_have_home(start, end),
    }
}

/// Is there such a process, and may the caller look into it?
fn reachable(pid: u64) -> Result<()> {
    if pid as u32 == 0 {
        return Ok(());
    }
    super::scheduling::exists(pid).map_err(|_| ESRCH)?;
    match super::others::get(pid, 0, cairn_idl::proc::FILE_CWD) {
        Err(EPERM) => Err(EPERM),
        _ => Ok(()),
    }
}

/// migrate_pages: all pages are on the one node.
pub fn migrate_pages(f: &mut Frame) -> Result<u64> {
    nodes(f.arg(2), f.arg(1))?;
    let (first, others) = nodes(f.arg(3), f.arg(1))?;
    reachable(f.arg(0) & 0xffff_ffff)?;
    match (first, others) {
        (_, true) if !process().is_capable(SYS_NICE) => Err(EPERM),
        (true, _) => Ok(0),
        _ => Err(EINVAL),
    }
}

/// move_pages: says where pages are; they are there already.
pub fn move_pages(f: &mut Frame) -> Result<u64> {
    const MOVE: u64 = 2;
    const MOVE_ALL: u64 = 4;
    let [pid, count, pages, wanted, status, flags] = core::array::from_fn(|i| f.arg(i));
    let flags = flags & 0xffff_ffff;
    if flags & !(MOVE | MOVE_ALL) != 0 {
        return Err(EINVAL);
    }
    if flags & MOVE_ALL != 0 && !process().is_capable(SYS_NICE) {
        return Err(EPERM);
    }
    let pid = pid & 0xffff_ffff;
    reachable(pid)?;
    let own = pid == 0 || pid == process().pid() as u64;
    for at in 0..count {
        let page: u64 = user::read(pages.wrapping_add(8 * at))?;
        if wanted != 0 {
            match user::read::<i32>(wanted.wrapping_add(4 * at))? {
                0 => {}
                1.. | ..0 => return Err(ENODEV),
            }
        }
        // (Of others' pages nothing is known.)
        let there = own && is_there(page);
        let result = if there { 0 } else { EFAULT.0.wrapping_neg() };
        user::write(status.wrapping_add(4 * at), &(result as u32))?;
    }
    Ok(0)
}

fn is_there(page: u64) -> bool {
    let page = page & !(PAGE - 1);
    let mut there = 0u8;
    let words = [cairn_idl::vm::RESIDENT, page, PAGE];
    let asked = crate::machine::request::Request::new(&words)
        .input_value(&mut there)
        .call(cairn_abi::layout::linux_slot::VM);
    asked.is_ok() && there & 1 != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_cut_where_others_are_set() {
        let a = Policy {
            mode: 2,
            named: true,
        };
        let b = Policy {
            mode: 3,
            named: true,
        };
        let mut all = Policies::new();
        all.set(10, 50, a);
        all.set(20, 30, b);
        let found = [5, 10, 19, 20, 29, 30, 49, 50].map(|at| all.at(at).map(|p| p.mode));
        let (a_, b_) = (Some(2), Some(3));
        assert_eq!(found, [None, a_, a_, b_, b_, a_, a_, None]);
        all.set(0, 60, Policy::default());
        assert!(all.ranges.is_empty());
    }
}
