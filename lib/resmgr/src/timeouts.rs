//! SO_RCVTIMEO and SO_SNDTIMEO: requests that wait no longer than so long. Known by their tokens from when they wait first until they end.

use alloc::collections::{BTreeMap, BTreeSet};
use cairn_abi::Token;

/// How long receives and sends may wait, in ns; 0 is for ever.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    pub receive: u64,
    pub send: u64,
}

#[derive(Default)]
pub struct Timeouts {
    /// When the request's time is over.
    ends: BTreeMap<Token, u64>,
    /// By time, with the key that it waits for.
    order: BTreeSet<(u64, Token, u64)>,
}

impl Timeouts {
    /// The request would wait for `key`: true if it may not any more.
    pub fn over(&mut self, token: Token, limit: u64, now: u64, key: u64) -> bool {
        let end = match self.ends.get(&token) {
            Some(&end) => end,
            None => {
                let end = now.saturating_add(limit);
                self.ends.insert(token, end);
                end
            }
        };
        if now >= end {
            return true;
        }
        self.order.insert((end, token, key));
        false
    }

    /// The request has ended.
    #[inline]
    pub fn ended(&mut self, token: Token) {
        if self.ends.is_empty() {
            return;
        }
        if let Some(end) = self.ends.remove(&token) {
            let range = (end, token, 0)..=(end, token, u64::MAX);
            while let Some(&entry) = self.order.range(range.clone()).next() {
                self.order.remove(&entry);
            }
        }
    }

    /// The key of the next request whose time is over.
    pub fn next_over(&mut self, now: u64) -> Option<u64> {
        let &(end, _, key) = self.order.first()?;
        if end > now {
            return None;
        }
        self.order.pop_first();
        Some(key)
    }

    /// When the next one's time is over.
    pub fn first(&self) -> Option<u64> {
        self.order.first().map(|entry| entry.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_waits_no_longer_than_its_limit() {
        let mut t = Timeouts::default();
        assert!(!t.over(1, 100, 50, 7));
        assert!(!t.over(2, 10, 60, 8));
        assert_eq!(t.first(), Some(70));
        assert_eq!(t.next_over(69), None);
        assert_eq!(t.next_over(70), Some(8));
        assert!(t.over(2, 10, 70, 8));
        t.ended(2);
        // Running again for another reason does not give more time.
        assert!(!t.over(1, 100, 149, 7));
        assert!(t.over(1, 100, 150, 7));
        t.ended(1);
        assert_eq!((t.first(), t.next_over(1000)), (None, None));
    }
}
