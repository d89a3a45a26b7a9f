//! `./cairn test`.

pub fn test(_: &crate::cli::Test) -> anyhow::Result<u8> {
    anyhow::bail!("not yet")
}
