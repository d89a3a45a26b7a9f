//! What a callback may use while it works on a request: the caller's parts, who the caller is, the time, waking others.

use crate::transport::Transport;
use alloc::vec::Vec;
use cairn_abi::Error;
use cairn_idl::{errno, label};
use cairn_rt::Received;

/// Why a callback gives no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// A (positive) Linux error number.
    Errno(i64),
    /// Not now: run the request again after [`Context::wake`] with this key. Answered EINTR when the caller is interrupted
    /// (or [`Context::progress`] if [`Context::progress_is_result`] says so).
    Wait(u64),
    /// The name goes on elsewhere; the text is in [`Context::redirect`].
    Redirect,
}

impl From<Error> for Failure {
    /// A copy from or to the caller failed.
    fn from(error: Error) -> Failure {
        Failure::Errno(match error {
            Error::BadAddress => errno::EFAULT,
            Error::NoMemory | Error::NoSlot => errno::ENOMEM,
            _ => errno::EIO,
        })
    }
}

/// Shared by all requests: what callbacks asked the framework to do afterwards.
#[derive(Default)]
pub(crate) struct Later {
    /// Keys woken since the last look.
    pub woken: Vec<u64>,
    /// Where the name goes on after [`Failure::Redirect`].
    pub redirect: Vec<u8>,
}

/// One request in progress.
pub struct Context<'a> {
    /// The message (or pulse) as it came.
    pub request: &'a Received,
    /// 0 when the request is new; what the callback left here when it runs again after a wait.
    pub progress: u64,
    /// An interrupted request answers `progress` (bytes done) instead of EINTR, if it is not 0.
    pub progress_is_result: bool,
    pub transport: &'a mut dyn Transport,
    pub(crate) later: &'a mut Later,
}

impl Context<'_> {
    /// Effective user of the caller.
    pub fn uid(&self) -> u32 {
        label::uid(self.request.label)
    }

    /// Effective group of the caller.
    pub fn gid(&self) -> u32 {
        label::gid(self.request.label)
    }

    /// Copy from the caller's out part, all of `into` or EFAULT.
    pub fn fetch(&mut self, offset: usize, into: &mut [u8]) -> Result<(), Failure> {
        let got = self
            .transport
            .read(self.request.token, offset as u64, into)?;
        if got == into.len() {
            Ok(())
        } else {
            Err(Failure::Errno(errno::EFAULT))
        }
    }

    /// Copy into the caller's in part, all of `from` or EFAULT. Data for the end of an answer goes with the reply instead.
    pub fn store(&mut self, offset: usize, from: &[u8]) -> Result<(), Failure> {
        let put = self
            .transport
            .write(self.request.token, offset as u64, from)?;
        if put == from.len() {
            Ok(())
        } else {
            Err(Failure::Errno(errno::EFAULT))
        }
    }

    /// Nanoseconds since 1970.
    pub fn now(&mut self) -> u64 {
        self.transport.realtime()
    }

    /// After this callback: run the requests that wait for `key` again and look after poll registrations for it.
    pub fn wake(&mut self, key: u64) {
        if self.later.woken.last() != Some(&key) {
            self.later.woken.push(key);
        }
    }

    /// Say where a name goes on, for [`Failure::Redirect`]: an absolute path or a scheme (`dev:1:3`). The rest of the path is added by the framework.
    pub fn redirect(&mut self, name: &[u8]) -> Failure {
        self.later.redirect.clear();
        self.later.redirect.extend_from_slice(name);
        Failure::Redirect
    }
}
