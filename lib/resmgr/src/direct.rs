//! The direct ways: what is asked for all the time is answered in words that take the place of the request's, without a reply to be filled.

use crate::context::{Context, Failure, Later};
use crate::manager::Core;
use crate::server::{Direct, Server};
use crate::transport::Transport;
use crate::waiting::Again;
use cairn_idl::fs::{self, kind};
use cairn_idl::stat_words;
use cairn_rt::Received;

/// The direct way of a small READ or WRITE: no context, no reply to be filled, the answer's words take the place of the request's.
#[inline(always)]
pub(crate) fn direct<S: Server>(
    core: &mut Core<S>,
    server: &mut S,
    later: &mut Later,
    request: &mut Received,
) -> Direct {
    const LENGTH: u64 = 63;
    let [operation, offset, flags, data @ ..] = &mut request.words;
    let length = (*flags >> fs::INLINE_SHIFT & LENGTH) as usize;
    if *flags & !(LENGTH << fs::INLINE_SHIFT) != fs::INLINE
        || *offset != fs::POSITION
        || !(1..=fs::INLINE_MAX).contains(&length)
    {
        return Direct::Ordinary;
    }
    // Who uses it does not matter for what cannot be set aside (`Handles::is_alone`).
    let Some(handle) = core.handles.get(request.badge) else {
        return Direct::Ordinary;
    };
    if handle.kind & (kind::SEEKABLE | kind::DIRECTORY) != 0 {
        return Direct::Ordinary;
    }
    let outcome = match *operation {
        fs::READ if handle.readable() => server.read_direct(handle, length, data, later),
        fs::WRITE if handle.writable() => server.write_direct(handle, length, data, later),
        _ => return Direct::Ordinary,
    };
    match outcome {
        Direct::Done(count) => *operation = count as u64,
        Direct::Wait(_) if handle.nonblocking() => return Direct::Ordinary,
        _ => {}
    }
    outcome
}

/// The direct way of a STAT whose answer goes in words. What waits, or leads elsewhere, takes the ordinary way.
#[inline(never)]
pub(crate) fn stat_direct<S: Server, T: Transport>(
    core: &mut Core<S>,
    server: &mut S,
    later: &mut Later,
    transport: &mut T,
    request: &mut Received,
) -> Direct {
    let mut cx = Context::new(request, transport, later);
    let words = match core.status(server, &mut cx) {
        Ok(stat) => stat_words::pack(&stat).unwrap_or_default(),
        Err(Failure::Errno(number)) => [-number as u64, 0, 0, 0, 0, 0, 0, 0],
        Err(_) => return Direct::Ordinary,
    };
    request.words = words;
    Direct::Done(0)
}

/// The direct way of an OPEN through a portal that was kept for it, whose answer is words. What leads elsewhere takes the ordinary way (it changed nothing); what waits says for what, and what it takes along.
#[inline(always)]
pub(crate) fn open_direct<S: Server, T: Transport>(
    core: &mut Core<S>,
    server: &mut S,
    later: &mut Later,
    transport: &mut T,
    request: &mut Received,
) -> Result<Direct, ([u64; 2], Again)> {
    let mut cx = Context::new(request, transport, later);
    let keys = match core.open_here(server, &mut cx) {
        Ok((words, _)) => {
            request.words = words;
            return Ok(Direct::Done(0));
        }
        Err(Failure::Errno(number)) => {
            request.words = [-number as u64, 0, 0, 0, 0, 0, 0, 0];
            return Ok(Direct::Done(0));
        }
        Err(Failure::Redirect) => return Ok(Direct::Ordinary),
        Err(Failure::Wait(key)) => [key; 2],
        Err(Failure::WaitEither(keys)) => keys,
    };
    let again = Again {
        progress: cx.progress,
        progress_is_result: cx.progress_is_result,
        repeated: None,
    };
    Err((keys, again))
}
