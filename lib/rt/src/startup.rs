//! The start-up block: the component's name, arguments, named portals and archive, put there by `init` before the first instruction.

use crate::portal::Portal;
use cairn_abi::layout;
use cairn_abi::state::{NamedPortal, Startup, STARTUP_MAGIC};

/// The block's header, if this program has one (`init` itself has none).
fn block() -> Option<&'static Startup> {
    if cfg!(not(target_os = "none")) {
        return None;
    }
    // SAFETY: every native component has a readable page at STARTUP before it starts (`init` has the command line there); it never changes.
    let startup = unsafe { &*(layout::STARTUP as *const Startup) };
    (startup.magic == STARTUP_MAGIC).then_some(startup)
}

fn text(padded: &[u8]) -> &str {
    let len = padded.iter().position(|&b| b == 0).unwrap_or(padded.len());
    core::str::from_utf8(&padded[..len]).unwrap_or("?")
}

/// The component's name in the manifest.
pub fn name() -> &'static str {
    block().map_or("init", |b| text(&b.name))
}

fn entries() -> &'static [NamedPortal] {
    match block() {
        // SAFETY: `init` wrote `portals` entries behind the header, within the block.
        Some(b) => unsafe {
            core::slice::from_raw_parts((b as *const Startup).add(1).cast(), b.portals as usize)
        },
        None => &[],
    }
}

/// The portal that the manifest gave under this name.
pub fn portal(name: &str) -> Option<Portal> {
    portals()
        .find(|(given, _)| *given == name)
        .map(|(_, portal)| portal)
}

/// All of them, with their names.
pub fn portals() -> impl Iterator<Item = (&'static str, Portal)> {
    entries().iter().map(|p| (text(&p.name), Portal(p.slot)))
}

/// The manifest's arguments, one after the other.
pub fn arguments() -> impl Iterator<Item = &'static str> {
    let bytes: &'static [u8] = match block() {
        // SAFETY: `init` wrote `args_len` bytes behind the portals, within the block.
        Some(b) => unsafe {
            core::slice::from_raw_parts(
                entries().as_ptr().add(entries().len()).cast(),
                b.args_len as usize,
            )
        },
        None => &[],
    };
    bytes
        .split(|&b| b == 0)
        .filter(|a| !a.is_empty())
        .filter_map(|a| core::str::from_utf8(a).ok())
}

/// The value of the argument `key=value`.
pub fn argument(key: &str) -> Option<&'static str> {
    arguments().find_map(|a| a.strip_prefix(key)?.strip_prefix('='))
}

/// Length of the boot archive mapped at [`layout::ARCHIVE`], 0 without one.
pub fn archive_len() -> usize {
    block().map_or(0, |b| b.archive_len as usize)
}

/// Bytes of this component's keepsake at [`layout::KEEPSAKE`], 0 without one.
pub fn keepsake_len() -> usize {
    block().map_or(0, |b| b.keepsake_len as usize)
}

/// The boot archive, for components that read it only.
pub fn archive() -> &'static [u8] {
    match archive_len() {
        0 => &[],
        // SAFETY: `init` mapped that many bytes there; a component that gets it read-only shares it with nobody who writes before it has read it.
        len => unsafe { core::slice::from_raw_parts(layout::ARCHIVE as *const u8, len) },
    }
}

/// The boot archive in the first domain, whose registers tell its length.
pub fn first_domain_archive(len: usize) -> &'static [u8] {
    // SAFETY: the nucleus mapped `len` bytes there, read-only, before the first domain's first instruction.
    unsafe { core::slice::from_raw_parts(layout::ARCHIVE as *const u8, len) }
}

/// The nucleus's command line in the first domain, whose registers tell its length; at most one page, cut at the first byte that is not text.
pub fn first_domain_command_line(len: usize) -> &'static str {
    // SAFETY: the nucleus mapped one page there, read-only, before the first domain's first instruction.
    let bytes = unsafe {
        core::slice::from_raw_parts(cairn_abi::machine::COMMAND_LINE as *const u8, len.min(4096))
    };
    match core::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => core::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or(""),
    }
}
