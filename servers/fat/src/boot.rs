//! The boot sector, looked at before the library sees it: it believes the numbers there.

use crate::store::{Lines, Store};
use fatfs::Read;

/// Fields of the BIOS parameter block, by where they lie (Microsoft's FAT specification 1.03, section 3).
const SECTOR_BYTES: usize = 11;
const CLUSTER_SECTORS: usize = 13;
const RESERVED_SECTORS: usize = 14;
const TABLES: usize = 16;
const ROOT_ENTRIES: usize = 17;
const SECTORS_16: usize = 19;
const TABLE_SECTORS_16: usize = 22;
const SECTORS_32: usize = 32;
const TABLE_SECTORS_32: usize = 36;
const FLAGS: usize = 40;
const ROOT_CLUSTER: usize = 44;
const INFO_SECTOR: usize = 48;
/// One table is used alone; which one is in the low four bits.
const ONE_TABLE: u64 = 0x80;
/// Clusters from here on make it FAT16, FAT32.
const FAT16: u64 = 4085;
const FAT32: u64 = 65_525;

/// Do the numbers fit together, and the disk?
pub fn is_plausible<L: Lines>(disk: &Store<L>, disk_bytes: u64) -> bool {
    let mut sector = [0; 512];
    disk.clone().read_exact(&mut sector).is_ok() && fits(&sector, disk_bytes).is_some()
}

fn fits(sector: &[u8; 512], disk_bytes: u64) -> Option<()> {
    let byte = |at: usize| u64::from(sector[at]);
    let short = |at: usize| byte(at) | byte(at + 1) << 8;
    let long = |at: usize| short(at) | short(at + 2) << 16;
    let either = |first: u64, second: u64| if first == 0 { second } else { first };
    let check = |holds: bool| holds.then_some(());

    let (sector_bytes, cluster) = (short(SECTOR_BYTES), byte(CLUSTER_SECTORS));
    check([512, 1024, 2048, 4096].contains(&sector_bytes))?;
    check(cluster.is_power_of_two())?;
    let (reserved, tables) = (short(RESERVED_SECTORS), byte(TABLES));
    check(reserved != 0 && (1..=4).contains(&tables))?;
    let is_32 = short(TABLE_SECTORS_16) == 0;
    let table = either(short(TABLE_SECTORS_16), long(TABLE_SECTORS_32));
    let root = (short(ROOT_ENTRIES) * 32).div_ceil(sector_bytes);
    check((root == 0) == is_32)?;
    let data = reserved + tables * table + root;
    let sectors = either(short(SECTORS_16), long(SECTORS_32));
    check(table != 0 && data < sectors && sectors * sector_bytes <= disk_bytes)?;
    let clusters = (sectors - data) / cluster;
    let bits = match clusters {
        FAT32.. => 32,
        FAT16.. => 16,
        _ => 12,
    };
    check(clusters != 0 && is_32 == (bits == 32))?;
    check(table * sector_bytes * 8 / bits >= clusters + 2)?;
    if is_32 {
        check((2..clusters + 2).contains(&long(ROOT_CLUSTER)))?;
        check(short(INFO_SECTOR) < reserved)?;
        check(short(FLAGS) & ONE_TABLE == 0 || short(FLAGS) & 15 < tables)?;
    }
    Some(())
}
