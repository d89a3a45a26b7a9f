//! Who may have writable code, and who may make memory executable.
//!
//! Programs have what compilers at run time need, as on Linux, until they ask for less (PR_SET_MDWE) or the manifest does. Components never execute what they could write: code comes into
//! their spaces only from who builds them (MAP_INTO, OBJECT_MAP_INTO), and never writable; the nucleus refuses the latter as well.

use crate::nucleus::Nucleus;
use crate::space::{Errno, Vm};
use cairn_idl::errno::*;
use cairn_idl::vm::{exec_gain, prot};

const BOTH: u64 = prot::WRITE | prot::EXECUTE;
const NOT_FURTHER: u64 = exec_gain::REFUSED | exec_gain::NOT_INHERITED;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// A component: as it was built.
    Built,
    /// A program: as it likes.
    Free,
    /// A program whose memory is writable or executable, and becomes executable only by being mapped so; the same for its children, if it is inherited.
    Kept { inherited: bool },
}

impl Code {
    /// What a program starts with.
    pub fn of_programs(writable: bool) -> Code {
        match writable {
            true => Code::Free,
            false => Code::Kept { inherited: true },
        }
    }

    /// What a copy has, and who the program becomes by exec.
    pub fn inherited(self) -> Code {
        match self {
            Code::Kept { inherited: false } => Code::Free,
            other => other,
        }
    }

    /// The protection of a new mapping, whoever makes it.
    pub fn check(self, bits: u64) -> Result<(), Errno> {
        if bits & !(prot::READ | BOTH) != 0 {
            return Err(EINVAL);
        }
        if bits & BOTH == BOTH && self != Code::Free {
            return Err(EACCES);
        }
        Ok(())
    }

    /// What the space's own domain maps.
    pub fn check_own(self, bits: u64) -> Result<(), Errno> {
        match self {
            Code::Built if bits & prot::EXECUTE != 0 => Err(EACCES),
            _ => Ok(()),
        }
    }

    /// A change from one protection to another.
    pub fn check_change(self, from: u64, to: u64) -> Result<(), Errno> {
        match self {
            Code::Kept { .. } if to & !from & prot::EXECUTE != 0 => Err(EACCES),
            _ => Ok(()),
        }
    }

    fn bits(self) -> u64 {
        match self {
            Code::Kept { inherited: true } => exec_gain::REFUSED,
            Code::Kept { inherited: false } => NOT_FURTHER,
            Code::Built | Code::Free => 0,
        }
    }
}

impl<N: Nucleus> Vm<N> {
    /// EXEC_GAIN: what holds for the space, after it was asked to be so (0: as it is).
    pub(crate) fn exec_gain(&mut self, index: usize, wanted: u64) -> Result<u64, Errno> {
        let space = self.spaces.get_mut(index).ok_or(ESRCH)?;
        if wanted != 0 {
            let code = match wanted {
                exec_gain::REFUSED => Code::Kept { inherited: true },
                NOT_FURTHER => Code::Kept { inherited: false },
                _ => return Err(EINVAL),
            };
            // What was given up does not come back. (A component has nothing to give up.)
            if space.code != Code::Free && space.code != code {
                return Err(EPERM);
            }
            space.code = code;
        }
        Ok(space.code.bits())
    }

    /// Whether the space's own domain may ask for this protection.
    pub(crate) fn may_execute(&self, index: usize, bits: u64) -> Result<(), Errno> {
        self.spaces.get(index).ok_or(ESRCH)?.code.check_own(bits)
    }
}
