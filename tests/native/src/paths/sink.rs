//! The strange server of a channel that only the leader calls: waits with deadlines that may pass at any time, keeps callers until they give up, lets its channel die.

use crate::common::fold;
use crate::{channel, copy, SINK, SINK_OLD, SINK_RECEIVE};
use cairn_abi::service::{current, receive};
use cairn_rt::gate::{selector, Gate};
use cairn_rt::portal::clock;
use cairn_rt::Portal;

/// What the leader asks of the sink, in the first word.
pub const KEEP: u64 = 7;
pub const WAIT: u64 = 8;
pub const RENEW: u64 = 9;

/// What depends on the time is not folded.
pub fn run() -> ! {
    let mut patient = false;
    let mut answered = None;
    loop {
        let mut deadline = 0;
        if answered.is_none() && !patient {
            deadline = clock() + 100_000;
            let _ = Portal::CURRENT.service(current::DEADLINE, &[deadline]);
        }
        let operation = match answered {
            Some(_) => receive::REPLY_RECEIVE,
            None => receive::RECEIVE,
        };
        let mut g = Gate {
            rax: selector(SINK_RECEIVE, operation, 0),
            rbp: answered.take().unwrap_or(0),
            ..Gate::default()
        };
        // SAFETY: no data.
        let _ = unsafe { g.traverse() };
        let error = g.rax as u8 as u64;
        if deadline == 0 && error != 0 {
            fold(error);
        }
        patient = error != 0;
        if error != 0 || g.rbp == 0 {
            continue;
        }
        fold(g.words[0]);
        match g.words[0] {
            WAIT => {
                // A deadline that was for the receive is over and must not come now, nor in the next one.
                while clock() < deadline + 1000 {}
                answered = Some(g.rbp);
            }
            RENEW => {
                copy(SINK, SINK_OLD);
                Portal(SINK_RECEIVE).close();
                Portal(SINK).close();
                channel(SINK_RECEIVE, SINK);
                // Plainly, so that nothing but its age keeps a call to the old channel from this thread.
                patient = true;
            }
            _ => {}
        }
    }
}
