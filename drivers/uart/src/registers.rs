//! The 16550's registers (National Semiconductor PC16550D data sheet) and the access to them.

/// Offsets from the base port.
pub const DATA: u16 = 0;
pub const INTERRUPT_ENABLE: u16 = 1;
/// Read: what interrupted. Write: [`fifo`] control.
pub const INTERRUPT_IDENTITY: u16 = 2;
pub const FIFO_CONTROL: u16 = 2;
pub const LINE_CONTROL: u16 = 3;
pub const MODEM_CONTROL: u16 = 4;
pub const LINE_STATUS: u16 = 5;
pub const MODEM_STATUS: u16 = 6;
pub const SCRATCH: u16 = 7;
/// With [`line::DIVISOR`] set, registers 0 and 1 are the baud-rate divisor.
pub const DIVISOR_LOW: u16 = 0;
pub const DIVISOR_HIGH: u16 = 1;

/// Bits of the interrupt enable register.
pub mod enable {
    pub const RECEIVED: u8 = 1;
    pub const SENT: u8 = 2;
    pub const LINE: u8 = 4;
}

/// The interrupt identity register.
pub mod identity {
    pub const NONE: u8 = 1;
    /// What interrupted, with [`NONE`] masked out.
    pub const CAUSE: u8 = 0b1110;
    pub const SENT: u8 = 0b0010;
    pub const RECEIVED: u8 = 0b0100;
    pub const LINE: u8 = 0b0110;
    /// Bytes wait below the FIFO's trigger level.
    pub const TIMEOUT: u8 = 0b1100;
    /// Both set: the chip has working FIFOs.
    pub const FIFOS: u8 = 0b1100_0000;
}

/// FIFO control.
pub mod fifo {
    pub const ON: u8 = 1;
    pub const CLEAR_RECEIVED: u8 = 2;
    pub const CLEAR_SENT: u8 = 4;
    /// Interrupt at 8 of 16 bytes: late enough to batch, early enough to lose nothing.
    pub const TRIGGER_8: u8 = 0b1000_0000;
    pub const SIZE: usize = 16;
}

/// Line control.
pub mod line {
    pub const TWO_STOP: u8 = 4;
    pub const PARITY: u8 = 8;
    pub const EVEN: u8 = 16;
    pub const DIVISOR: u8 = 0x80;
}

/// Modem control.
pub mod modem {
    pub const DTR: u8 = 1;
    pub const RTS: u8 = 2;
    pub const OUT1: u8 = 4;
    /// Lets interrupts reach the controller on a PC.
    pub const OUT2: u8 = 8;
    pub const LOOP: u8 = 16;
}

/// Line status.
pub mod status {
    pub const READY: u8 = 1;
    pub const OVERRUN: u8 = 2;
    pub const BREAK: u8 = 16;
    /// The send FIFO is empty.
    pub const EMPTY: u8 = 32;
    /// The shift register too: everything has left.
    pub const IDLE: u8 = 64;
}

/// Access to one chip. On Cairn this is a ports portal; each method is one entry of the nucleus.
pub trait Chip {
    fn input(&mut self, register: u16) -> u8;
    fn output(&mut self, register: u16, value: u8);
    /// Read [`DATA`] while [`status::READY`], at most 32 bytes.
    fn input_ready(&mut self, into: &mut [u8; 32]) -> usize;
    /// Write up to [`fifo::SIZE`] bytes to [`DATA`].
    fn output_several(&mut self, bytes: &[u8]);
}
