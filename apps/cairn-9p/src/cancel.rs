//! A request that may be given up while it waits: FLUSH, or the end of its session, trips it.

use rustix::event::{eventfd, poll, EventfdFlags, PollFd, PollFlags, Timespec};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::{write, Errno};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The descriptor is made when somebody waits first.
#[derive(Default)]
pub struct Cancel(Mutex<(bool, Option<Arc<OwnedFd>>)>);

impl Cancel {
    pub fn trip(&self) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.0 = true;
        if let Some(event) = &state.1 {
            let _ = write(event, &1u64.to_ne_bytes());
        }
    }

    pub fn is_tripped(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).0
    }

    fn event(&self) -> Result<Arc<OwnedFd>, Errno> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.0 {
            return Err(Errno::INTR);
        }
        if let Some(event) = &state.1 {
            return Ok(event.clone());
        }
        let event = Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?);
        Ok(state.1.insert(event).clone())
    }

    /// Wait until a file is ready for what is wanted of it. INTR: it was tripped.
    pub fn until_ready(&self, file: BorrowedFd, wanted: PollFlags) -> Result<(), Errno> {
        let event = self.event()?;
        loop {
            let of_file = PollFd::new(&file, wanted);
            let mut both = [of_file, PollFd::new(&event, PollFlags::IN)];
            match poll(&mut both, None) {
                Ok(_) if !both[1].revents().is_empty() => return Err(Errno::INTR),
                Ok(0) | Err(Errno::INTR) => continue,
                Ok(_) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    /// Let some time go by. INTR: it was tripped.
    pub fn sleep(&self, time: Duration) -> Result<(), Errno> {
        let event = self.event()?;
        let limit = Timespec::try_from(time).map_err(|_| Errno::INVAL)?;
        let mut one = [PollFd::from_borrowed_fd(event.as_fd(), PollFlags::IN)];
        match poll(&mut one, Some(&limit)) {
            Ok(0) | Err(Errno::INTR) => Ok(()),
            Ok(_) => Err(Errno::INTR),
            Err(error) => Err(error),
        }
    }
}
