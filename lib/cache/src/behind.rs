//! Write-behind: when changed pages go to the device without anybody having asked. Long runs of neighbours go together, so a little patience is worth much; too
//! much of it loses much in a crash and leaves no clean pages to give back.

/// When to write. Times are nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// A file's first change waits no longer than this.
    pub patience: u64,
    /// More dirty pages than this are written at once, the files that waited longest first.
    pub background: u64,
    /// With more than this, who writes has to wait until some are clean.
    pub most: u64,
    /// Pages of one request.
    pub request: u64,
}

impl Policy {
    /// For a cache of so many pages: as Linux does by default, a tenth and a fifth; 1 MiB. Two seconds, so that what describes the data can follow it to the device within five.
    pub fn for_pages(pages: u64) -> Policy {
        Policy {
            patience: 2_000_000_000,
            background: (pages / 10).max(1),
            most: (pages / 5).max(2),
            request: 256,
        }
    }

    /// Whether a file that has been dirty since `since` is to be written now.
    pub fn due(&self, now: u64, since: u64, dirty: u64) -> bool {
        dirty > self.background || now.saturating_sub(since) >= self.patience
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_old_or_too_much_is_due() {
        let policy = Policy::for_pages(1000);
        assert!(!policy.due(1_999_999_999, 0, 100));
        assert!(policy.due(2_000_000_000, 0, 1));
        assert!(policy.due(0, 0, 101));
        assert!(!policy.due(0, 7_000_000_000, 1), "clocks may go back");
        assert!(Policy::for_pages(0).background > 0);
    }
}
