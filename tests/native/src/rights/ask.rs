//! Operations of the peer, in w0.

/// w7 a portal: keep it. → w1 its rights.
pub const KEEP: u64 = 1;
/// Notify through it → w0 the error's code, 0 for none.
pub const USE: u64 = 2;
/// Pass it back in w7 (copied) → w0 0; or without it → w0 the error's code.
pub const RETURN: u64 = 3;
/// Derive from it and keep that instead → w0 the error's code.
pub const DERIVE: u64 = 4;
/// Close it.
pub const CLOSE: u64 = 5;
/// w5, w6, w7: three semaphores; the first is for what comes: w1 times wait for the second and give the third; then wait no more.
pub const RING: u64 = 6;
/// w7 a mutex: take it → w0 the error's code.
pub const TAKE: u64 = 7;
/// Open one with number w1 through it and pass that in w7 → w0 0; or without it → w0 the error's code.
pub const OPEN: u64 = 9;
/// Answer, and then call through it; the answer's w0 to CALLED is the error's code.
pub const CALL: u64 = 10;
pub const CALLED: u64 = 11;
/// Exit.
pub const DIE: u64 = 8;
