//! The registers that are used (SDM chapter 13, DS chapter 10), what differs between the two chips, reset, and the chip's address.

use cairn_device::registers::Registers;

pub const CONTROL: usize = 0x0000;
pub const STATUS: usize = 0x0008;
pub const EEPROM_READ: usize = 0x0014;
pub const CONTROL_MORE: usize = 0x0018;
/// Flow control: address (two), type, timer, thresholds (two).
pub const FLOW: [usize; 6] = [0x0028, 0x002c, 0x0030, 0x0170, 0x2160, 0x2168];
pub const CAUSES: usize = 0x00c0;
pub const INTERVAL: usize = 0x00c4;
pub const CAUSE_SET: usize = 0x00c8;
pub const MASK_SET: usize = 0x00d0;
pub const MASK_CLEAR: usize = 0x00d8;
/// Of 82574: causes that go with their message, vectors of causes, the interval of vector 0.
pub const AUTO_CLEAR: usize = 0x00dc;
pub const VECTORS: usize = 0x00e4;
pub const VECTOR_INTERVAL: usize = 0x00e8;
pub const RECEIVE: usize = 0x0100;
pub const TRANSMIT: usize = 0x0400;
pub const GAP: usize = 0x0410;
/// Rings: the first of the registers below.
pub const RECEIVE_RING: usize = 0x2800;
pub const TRANSMIT_RING: usize = 0x3800;
pub mod ring {
    pub const BASE: usize = 0x00;
    pub const BYTES: usize = 0x08;
    pub const HEAD: usize = 0x10;
    pub const TAIL: usize = 0x18;
    /// How long the interrupt of a descriptor waits, and at most.
    pub const DELAY: usize = 0x20;
    pub const CONTROL: usize = 0x28;
    pub const DELAY_MOST: usize = 0x2c;
}
pub const SUMS: usize = 0x5000;
/// Of 82574.
pub const FILTER: usize = 0x5008;
pub const GROUPS: usize = 0x5200;
pub const GROUPS_COUNT: usize = 128;
pub const ADDRESS: usize = 0x5400;

pub mod control {
    /// No more work as bus master (82574).
    pub const MASTER_OFF: u32 = 1 << 2;
    pub const DETECT_SPEED: u32 = 1 << 5;
    pub const LINK_UP: u32 = 1 << 6;
    pub const FORCE_SPEED: u32 = 1 << 11;
    pub const FORCE_DUPLEX: u32 = 1 << 12;
    pub const RESET: u32 = 1 << 26;
    pub const FLOW_IN: u32 = 1 << 27;
    pub const FLOW_OUT: u32 = 1 << 28;
    pub const VLAN: u32 = 1 << 30;
    pub const PHY_RESET: u32 = 1 << 31;
}

pub mod status {
    pub const LINK_UP: u32 = 1 << 1;
    pub const MASTER_ON: u32 = 1 << 19;
}

/// Of [`CONTROL_MORE`]: a cause that is masked takes its pending message with it (82574).
pub const TAKES_PENDING: u32 = 1 << 31;

pub mod cause {
    pub const TRANSMITTED: u32 = 1 << 0;
    pub const LINK: u32 = 1 << 2;
    /// A timer's (which is 0), for a frame that came.
    pub const RECEIVED: u32 = 1 << 7;
    /// With MSI-X the queues have causes of their own, and all else has one.
    pub const QUEUE_IN: u32 = 1 << 20;
    pub const QUEUE_OUT: u32 = 1 << 22;
    pub const OTHER: u32 = 1 << 24;
    pub const ALL: u32 = u32::MAX;
}

pub mod receive {
    pub const ON: u32 = 1 << 1;
    pub const ALL_STATIONS: u32 = 1 << 3;
    pub const ALL_GROUPS: u32 = 1 << 4;
    pub const BROADCASTS: u32 = 1 << 15;
    /// The frame's own sum (CRC) is left out. (Buffers of 2,048 bytes are zeroes in the field for it.)
    pub const STRIP: u32 = 1 << 26;
}

pub mod transmit {
    pub const ON: u32 = 1 << 1;
    pub const PAD: u32 = 1 << 3;
    /// Collisions: how many, and how far away (full duplex).
    pub const COLLISIONS: u32 = 0x0f << 4 | 0x40 << 12;
}

/// Of [`SUMS`]: of IP, and of TCP and UDP.
pub const SUMS_ON: u32 = 1 << 8 | 1 << 9;
/// Of a ring's control: thresholds count descriptors; each is written back at once.
pub const RING_CONTROL: u32 = 1 << 24 | 1 << 16;
/// Of 82574's transmit ring: "must be 1" (DS 10.2.6.11).
pub const RING_MUST: u32 = 1 << 22;
/// One vector, 0, for all that there is (82574).
pub const ALL_BY_FIRST: u32 = 1 << 3 | 1 << 11 | 1 << 19;
/// Gaps between frames of 82540 on copper (SDM 13.4.34); 82574 comes with its own.
pub const GAPS: u32 = 10 | 10 << 10 | 10 << 20;
/// At most 20,000 interrupts a second, in units of 256 ns: the first one after a pause does not wait.
pub const PAUSE: u32 = 195;

/// Looks at a chip that should do something soon.
const LOOKS: u32 = 100_000;
const MILLISECOND: u64 = 1_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// It is none of those that this driver knows.
    Unknown,
    /// It does not come out of its reset.
    Stuck,
    /// It has no address of its own.
    NoAddress,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    I82540,
    /// `msix`: it has messages of that kind (and would use them).
    I82574 {
        msix: bool,
    },
}

impl Model {
    /// By device and vendor.
    pub fn of(identity: u32, msix: bool) -> Option<Model> {
        match identity {
            0x100e_8086 => Some(Model::I82540),
            0x10d3_8086 => Some(Model::I82574 { msix }),
            _ => None,
        }
    }

    pub fn is_82574(self) -> bool {
        matches!(self, Model::I82574 { .. })
    }
}

/// All interrupts are off, and none is pending.
pub fn silence(r: &mut impl Registers) {
    r.write(MASK_CLEAR, cause::ALL);
    r.read(CAUSES);
}

/// The chip does nothing any more when this is done, and reaches no memory. To be called before memory is given to it, or taken away. (SDM 14.3, DS 4.6.)
///
/// Both directions are switched off by hand as well: QEMU's 82540 does nothing upon the bit for a reset.
pub fn reset(r: &mut impl Registers, model: Model) -> Result<(), Trouble> {
    silence(r);
    r.write(RECEIVE, 0);
    r.write(TRANSMIT, transmit::PAD);
    let mut now = r.read(CONTROL);
    if now == u32::MAX {
        return Err(Trouble::Stuck);
    }
    if model.is_82574() {
        // What it has begun to read or write comes to its end.
        now |= control::MASTER_OFF;
        r.write(CONTROL, now);
        wait(r, STATUS, status::MASTER_ON);
    }
    // So do frames that are between its memory and the wire.
    r.rest(10 * MILLISECOND);
    r.write(CONTROL, now | control::RESET);
    // It must be left alone for a microsecond; and then it reads its EEPROM.
    r.rest(5 * MILLISECOND);
    if !wait(r, CONTROL, control::RESET) {
        return Err(Trouble::Stuck);
    }
    silence(r);
    r.write(RECEIVE, 0);
    r.write(TRANSMIT, transmit::PAD);
    for ring in [RECEIVE_RING, TRANSMIT_RING] {
        for register in [ring::HEAD, ring::TAIL, ring::BYTES] {
            r.write(ring + register, 0);
        }
    }
    Ok(())
}

/// Wait until a bit is 0. False: it does not become that.
fn wait(r: &mut impl Registers, at: usize, bit: u32) -> bool {
    (0..LOOKS).any(|_| {
        let done = r.read(at) & bit == 0;
        if !done {
            r.pause();
        }
        done
    })
}

/// A station's own address.
fn is_own(mac: &[u8; 6]) -> bool {
    mac[0] & 1 == 0 && *mac != [0; 6]
}

/// The chip's address: that of its first receive address, which it reads from its EEPROM by itself; or from there.
pub fn address(r: &mut impl Registers, model: Model) -> Result<[u8; 6], Trouble> {
    let (low, high) = (r.read(ADDRESS), r.read(ADDRESS + 4));
    let [a, b, c, d] = low.to_le_bytes();
    let [e, f, ..] = high.to_le_bytes();
    let mac = [a, b, c, d, e, f];
    if high >> 31 == 1 && is_own(&mac) {
        return Ok(mac);
    }
    let mut mac = [0; 6];
    for (number, place) in mac.chunks_exact_mut(2).enumerate() {
        let word = eeprom(r, model, number as u32).ok_or(Trouble::NoAddress)?;
        place.copy_from_slice(&word.to_le_bytes());
    }
    if !is_own(&mac) {
        return Err(Trouble::NoAddress);
    }
    // All stations' frames are taken in any case; but so the chip knows it.
    let [a, b, c, d, e, f] = mac;
    r.write(ADDRESS, u32::from_le_bytes([a, b, c, d]));
    r.write(ADDRESS + 4, u32::from_le_bytes([e, f, 0, 0x80]));
    Ok(mac)
}

/// A word of the EEPROM, if there is one (SDM 13.4.4, DS 10.2.2.5).
fn eeprom(r: &mut impl Registers, model: Model, word: u32) -> Option<u16> {
    const START: u32 = 1;
    let (shift, done) = match model {
        Model::I82540 => (8, 1 << 4),
        Model::I82574 { .. } => (2, 1 << 1),
    };
    r.write(EEPROM_READ, word << shift | START);
    for _ in 0..LOOKS {
        let told = r.read(EEPROM_READ);
        if told == u32::MAX {
            break;
        }
        if told & done != 0 {
            return Some((told >> 16) as u16);
        }
        r.pause();
    }
    None
}
