//! What an operation can answer besides success. `Need` and `CommitFirst` are no failures: the caller does what they ask for and begins the same operation again.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// Metadata that is not in the cache: the caller reads (at least) these blocks, hands them in with `supply` and calls again. Nothing has changed.
    Need {
        block: u64,
        count: u32,
    },
    /// The running transaction or the log is full, or freed blocks wait for a commit: the caller lets the journal work and calls again. Nothing has changed.
    CommitFirst,
    /// The image contradicts itself: what, and at which block, inode or group.
    Damaged(&'static str, u64),
    /// Sound, but made with something that this library does not do.
    Unsupported(&'static str),
    /// The file system was opened for reading only, or writing to the device has failed.
    ReadOnly,
    NotFound,
    Exists,
    NotEmpty,
    NotDirectory,
    IsDirectory,
    NoSpace,
    TooManyLinks,
    NameTooLong,
    TooLarge,
    Invalid,
    NoAttribute,
}

/// For checks that name what is wrong.
pub(crate) fn damaged<T>(what: &'static str, at: u64) -> Result<T, Error> {
    Err(Error::Damaged(what, at))
}
