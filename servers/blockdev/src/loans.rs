//! Loans: memory of programs that requests bring along for the device, behind windows of the arena. A loan is given back when its transfer is over and no job uses it any more: until then its window is nobody else's, because a job's pages are found by its number.
//!
//! One that has a name is kept a little longer, for the next request by this name, which need not bring it: about a second after the last one it is given back as well.

use cairn_abi::{Id, Token};
use cairn_idl::fs::KEPT_LOAN;
use cairn_idl::vm::WINDOWS;
use cairn_resmgr::Transport;
use cairn_rt::Portal;

/// Most loans that are kept.
pub const KEPT_MOST: usize = 8;
const _: () = assert!(KEPT_MOST < WINDOWS);

/// Who may use a loan without bringing it: its giver, by the same handle, if it says the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name {
    pub sender: Id,
    pub handle: u64,
    pub name: u64,
}

struct Kept {
    name: Name,
    /// So many of its pages were used at first.
    pages: u64,
    /// What drivers know it by.
    number: u32,
    /// Since it was last looked at.
    used: bool,
}

struct Loan {
    portal: Portal,
    /// The transfer, and its jobs.
    users: u32,
    kept: Option<Kept>,
}

impl Loan {
    fn is_idle(&self) -> bool {
        self.users == 0
    }
}

#[derive(Default)]
pub struct Loans {
    windows: [Option<Loan>; WINDOWS],
    /// Of the request that is being begun. One that came to nothing before is closed when the next comes.
    new: Option<(Token, Portal)>,
    last: u32,
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
        self.windows[window] = Some(Loan {
            portal,
            users: 1,
            kept: None,
        });
    }

    /// What lies behind a window is kept, if there is room for one more: it may take the place of one that nobody has asked for lately, or else of any.
    pub fn keep(
        &mut self,
        transport: &mut dyn Transport,
        window: usize,
        name: Name,
        pages: u64,
    ) -> bool {
        if pages > KEPT_LOAN {
            return false;
        }
        let kept = |loan: &&Loan| loan.kept.is_some();
        if self.windows.iter().flatten().filter(kept).count() >= KEPT_MOST
            && !self.forget(transport, |kept| !kept.used)
            && !self.forget(transport, |_| true)
        {
            return false;
        }
        self.last = self.last.wrapping_add(1).max(1);
        if let Some(loan) = &mut self.windows[window] {
            loan.kept = Some(Kept {
                name,
                pages,
                number: self.last,
                used: true,
            });
        }
        true
    }

    /// A transfer uses the window of what is kept by this name, if these pages are there.
    pub fn find(&mut self, name: Name, pages: u64) -> Option<usize> {
        let of = |loan: &Loan| matches!(&loan.kept, Some(k) if k.name == name && pages <= k.pages);
        let window = (self.windows.iter()).position(|place| place.as_ref().is_some_and(of))?;
        let loan = self.windows[window].as_mut()?;
        loan.users += 1;
        loan.kept.as_mut()?.used = true;
        Some(window)
    }

    /// What drivers may know a window's pages by; 0: nothing.
    pub fn number(&self, window: usize) -> u32 {
        let kept = self.windows[window].as_ref().and_then(|l| l.kept.as_ref());
        kept.map_or(0, |kept| kept.number)
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
            if let Some(loan) = window.take_if(|loan| loan.is_idle() && loan.kept.is_none()) {
                transport.close(loan.portal);
            }
        }
    }

    /// Of what is kept and not in use. True: there was some.
    fn forget(&mut self, transport: &mut dyn Transport, which: impl Fn(&Kept) -> bool) -> bool {
        let mut any = false;
        for window in &mut self.windows {
            let goes = |loan: &mut Loan| loan.is_idle() && loan.kept.as_ref().is_some_and(&which);
            if let Some(loan) = window.take_if(goes) {
                transport.close(loan.portal);
                any = true;
            }
        }
        any
    }

    /// A handle is gone.
    pub fn closed(&mut self, transport: &mut dyn Transport, handle: u64) {
        for loan in self.windows.iter_mut().flatten() {
            loan.kept.take_if(|kept| kept.name.handle == handle);
        }
        self.close_unused(transport);
    }

    pub fn keeps_any(&self) -> bool {
        self.windows
            .iter()
            .flatten()
            .any(|loan| loan.kept.is_some())
    }

    /// About every second: what nobody has asked for since goes.
    pub fn look(&mut self, transport: &mut dyn Transport) {
        self.forget(transport, |kept| !kept.used);
        for loan in self.windows.iter_mut().flatten() {
            if let Some(kept) = &mut loan.kept {
                kept.used = false;
            }
        }
    }
}
