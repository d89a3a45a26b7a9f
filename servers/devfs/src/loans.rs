//! Loans: memory of programs that requests bring along for the device, behind windows of the arena. A loan is given back when its transfer is over and no job uses it any more: until then its window is nobody else's, because a job's pages are found by its number.

use cairn_abi::Token;
use cairn_idl::vm::WINDOWS;
use cairn_resmgr::Transport;
use cairn_rt::Portal;

struct Loan {
    portal: Portal,
    /// The transfer, and its jobs.
    users: u32,
}

#[derive(Default)]
pub struct Loans {
    windows: [Option<Loan>; WINDOWS],
    /// Of the request that is being begun. One that came to nothing before is closed when the next comes.
    new: Option<(Token, Portal)>,
}

impl Loans {
    pub fn arrived(&mut self, transport: &mut dyn Transport, token: Token, loan: Portal) {
        if let Some((_, old)) = self.new.replace((token, loan)) {
            transport.close(old);
        }
    }

    /// What a request has brought.
    pub fn take(&mut self, token: Token) -> Option<Portal> {
        let (_, loan) = self.new.take_if(|(of, _)| *of == token)?;
        Some(loan)
    }

    /// A window that is not in use.
    pub fn free(&self) -> Option<usize> {
        self.windows.iter().position(Option::is_none)
    }

    /// A transfer uses a window.
    pub fn put(&mut self, window: usize, portal: Portal) {
        self.windows[window] = Some(Loan { portal, users: 1 });
    }

    pub fn begin(&mut self, window: usize) {
        if let Some(loan) = &mut self.windows[window] {
            loan.users += 1;
        }
    }

    pub fn end(&mut self, window: usize) {
        if let Some(loan) = &mut self.windows[window] {
            loan.users -= 1;
        }
    }

    pub fn close_unused(&mut self, transport: &mut dyn Transport) {
        for window in &mut self.windows {
            if let Some(loan) = window.take_if(|loan| loan.users == 0) {
                transport.close(loan.portal);
            }
        }
    }
}
