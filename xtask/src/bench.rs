//! `./cairn bench`: guest instructions of system operations on both systems.

pub fn bench(_: &crate::cli::Bench) -> anyhow::Result<u8> {
    anyhow::bail!("not yet")
}
