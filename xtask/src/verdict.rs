//! How a machine can fail, told apart by the exit status of `./cairn exec`.

/// The machine stopped in a way that nobody asked for.
pub const CRASHED: u8 = 250;
/// It did not answer, or its time was up.
pub const HUNG: u8 = 251;
/// It never got as far as its first process.
pub const NO_BOOT: u8 = 252;
/// It was not the machine: something on the host failed.
pub const HOST_FAILED: u8 = 253;
/// Nobody reads our output any more: as a shell tells of a program that ended by SIGPIPE.
pub const WITHOUT_READER: u8 = 128 + 13;

/// A machine's failure, with one line that says why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    Crashed(String),
    Hung(String),
    NoBoot(String),
}

impl Failure {
    pub fn status(&self) -> u8 {
        match self {
            Failure::Crashed(_) => CRASHED,
            Failure::Hung(_) => HUNG,
            Failure::NoBoot(_) => NO_BOOT,
        }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self {
            Failure::Crashed(why) => write!(f, "the machine crashed: {why}"),
            Failure::Hung(why) => write!(f, "the machine hung: {why}"),
            Failure::NoBoot(why) => write!(f, "the machine did not boot: {why}"),
        }
    }
}

impl std::error::Error for Failure {}
