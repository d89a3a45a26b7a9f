//! Copies to, from and between address spaces: the page tables of each side are walked and the bytes moved through the direct map, page by page.
//! The nucleus never touches user addresses themselves, so no copy can fault and SMAP stays closed.

use super::memory::{frame_pointer, PAGE};
use super::paging::{existing_slot, Root, ACCESSED, ADDRESS, DIRTY, PRESENT, UNCACHED, WRITABLE};
use crate::arch::CopyFault;

/// Move `len` bytes upwards.
///
/// # Safety
/// Both ranges must be accessible; they may overlap (the copy runs upwards, byte order as the instruction defines it).
#[inline(always)]
pub unsafe fn move_bytes(to: *mut u8, from: *const u8, len: usize) {
    // SAFETY: by the contract; the direction flag is clear in the nucleus.
    unsafe {
        core::arch::asm!(
            "rep movsq",
            "mov ecx, {tail:e}",
            "rep movsb",
            tail = in(reg) len & 7,
            inout("rcx") len >> 3 => _,
            inout("rdi") to => _,
            inout("rsi") from => _,
            options(nostack, preserves_flags),
        );
    }
}

/// Fill a page with zeroes.
///
/// # Safety
/// The 4096 bytes at `page` must be writable and aligned to 8, and nobody may hold a reference to them.
pub unsafe fn zero_page(page: *mut u8) {
    // SAFETY: by the contract.
    unsafe {
        core::arch::asm!(
            "rep stosq",
            inout("rcx") PAGE / 8 => _,
            inout("rdi") page => _,
            in("rax") 0u64,
            options(nostack, preserves_flags),
        );
    }
}

/// Where the byte at `address` is in the direct map, if the space's program itself might read (or write) it. Marks the page used as the processor would.
#[inline(always)]
fn reach(root: Root, address: u64, write: bool) -> Result<*mut u8, CopyFault> {
    let fault = |present| CopyFault {
        destination: write,
        address,
        present,
    };
    let slot = existing_slot(root, address).ok_or(fault(false))?;
    // SAFETY: the slot is an entry of a live table; the nucleus lock is held.
    let entry = unsafe { &mut *slot };
    let (needed, mark) = if write {
        (PRESENT | WRITABLE, ACCESSED | DIRTY)
    } else {
        (PRESENT, ACCESSED)
    };
    // Device registers are outside the direct map and not for copies.
    if *entry & needed != needed || *entry & UNCACHED != 0 {
        return Err(fault(*entry != 0));
    }
    if *entry & mark != mark {
        *entry |= mark;
    }
    let frame = ((*entry & ADDRESS) / PAGE) as crate::arch::Frame;
    // SAFETY: the offset stays within the frame.
    Ok(unsafe { frame_pointer(frame).add((address % PAGE) as usize) })
}

/// How many bytes are left in the page of `address`.
fn rest_of_page(address: u64) -> usize {
    (PAGE - address % PAGE) as usize
}

/// Copy between spaces; see [`crate::arch::Arch::copy`].
pub fn copy(
    source: (Root, u64),
    destination: (Root, u64),
    len: usize,
) -> Result<(), (usize, CopyFault)> {
    let mut done = 0;
    let (mut from, mut to) = (core::ptr::null_mut::<u8>(), core::ptr::null_mut::<u8>());
    let (mut from_left, mut to_left) = (0, 0);
    while done < len {
        if from_left == 0 {
            let address = source.1.wrapping_add(done as u64);
            from = reach(source.0, address, false).map_err(|fault| (done, fault))?;
            from_left = rest_of_page(address);
        }
        if to_left == 0 {
            let address = destination.1.wrapping_add(done as u64);
            to = reach(destination.0, address, true).map_err(|fault| (done, fault))?;
            to_left = rest_of_page(address);
        }
        let chunk = (len - done).min(from_left).min(to_left);
        // SAFETY: both pointers show at least `chunk` bytes of mapped frames of programs.
        unsafe {
            move_bytes(to, from, chunk);
            from = from.add(chunk);
            to = to.add(chunk);
        }
        from_left -= chunk;
        to_left -= chunk;
        done += chunk;
    }
    Ok(())
}

/// Read a program's memory.
pub fn read(root: Root, address: u64, into: &mut [u8]) -> Result<(), CopyFault> {
    let mut done = 0;
    while done < into.len() {
        let at = address.wrapping_add(done as u64);
        let from = reach(root, at, false)?;
        let chunk = (into.len() - done).min(rest_of_page(at));
        // SAFETY: the source is within a mapped frame, the destination within the slice.
        unsafe { move_bytes(into.as_mut_ptr().add(done), from, chunk) };
        done += chunk;
    }
    Ok(())
}

/// Write a program's memory.
pub fn write(root: Root, address: u64, from: &[u8]) -> Result<(), CopyFault> {
    let mut done = 0;
    while done < from.len() {
        let at = address.wrapping_add(done as u64);
        let to = reach(root, at, true)?;
        let chunk = (from.len() - done).min(rest_of_page(at));
        // SAFETY: the destination is within a mapped frame, the source within the slice.
        unsafe { move_bytes(to, from.as_ptr().add(done), chunk) };
        done += chunk;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::paging::{list_push, map, query, root_new};
    use super::*;
    use crate::arch::FrameList;
    use cairn_abi::layout::USER_TOP;
    use cairn_abi::service::memory::prot::{READ, WRITE};

    fn space(root: u32, first_table: u32, pages: &[(u64, u32, u64)]) -> Root {
        let root = root_new(root, 0);
        let mut tables = FrameList::default();
        for frame in first_table..first_table + 12 {
            list_push(&mut tables, frame);
        }
        for &(address, frame, protection) in pages {
            map(root, address, frame, protection, &mut tables).unwrap();
        }
        root
    }

    #[test]
    fn copies_across_page_borders() {
        let a = space(1, 10, &[(0x1000, 100, READ), (0x2000, 101, READ)]);
        let b = space(
            2,
            30,
            &[
                (0x5000, 110, READ | WRITE),
                (0x6000, 111, READ | WRITE),
                (0x7000, 112, READ | WRITE),
            ],
        );
        let bytes: Vec<u8> = (0..8192u32).map(|i| (i * 7 % 251) as u8).collect();
        for (i, frame) in [100, 101].into_iter().enumerate() {
            // SAFETY: the arena's frame is 4096 bytes.
            unsafe { move_bytes(frame_pointer(frame), bytes[i * 4096..].as_ptr(), 4096) };
        }
        for (from, to, len) in [(0, 0, 8192), (3, 5, 8000), (4095, 1, 2), (4090, 4095, 4000)] {
            copy((a, 0x1000 + from), (b, 0x5000 + to), len).unwrap();
            let mut seen = vec![0; len];
            read(b, 0x5000 + to, &mut seen).unwrap();
            assert_eq!(seen, &bytes[from as usize..from as usize + len]);
        }
        assert!(query(b, 0x5000).unwrap().dirty);
        assert!(!query(a, 0x1000).unwrap().dirty && query(a, 0x1000).unwrap().accessed);
    }

    #[test]
    fn reports_what_faulted_and_how_far_it_came() {
        let a = space(1, 10, &[(0x1000, 100, READ)]);
        let b = space(2, 30, &[(0x5000, 110, READ | WRITE), (0x6000, 111, READ)]);
        let fault = |destination, address, present| CopyFault {
            destination,
            address,
            present,
        };
        assert_eq!(
            copy((a, 0x1800), (b, 0x5000), 4096),
            Err((0x800, fault(false, 0x2000, false)))
        );
        assert_eq!(
            copy((a, 0x1000), (b, 0x5ff0), 64),
            Err((16, fault(true, 0x6000, true)))
        );
        assert_eq!(write(b, 0x6004, &[1]), Err(fault(true, 0x6004, true)));
        assert_eq!(
            read(b, u64::MAX - 3, &mut [0; 8]),
            Err(fault(false, u64::MAX - 3, false))
        );
        assert_eq!(
            read(b, USER_TOP, &mut [0; 8]),
            Err(fault(false, USER_TOP, false))
        );
        assert_eq!(
            read(b, 0xffff_8000_0000_0000, &mut [0; 8]),
            Err(fault(false, 0xffff_8000_0000_0000, false))
        );
    }
}
