//! A new program's first stack (System V ABI, x86-64 supplement, 3.4.1): argc, argument and environment pointers, the auxiliary vector, and above them the strings.

use alloc::vec::Vec;
use cairn_idl::first_stack::Places;

pub mod at {
    pub const NULL: u64 = 0;
    pub const PHDR: u64 = 3;
    pub const PHENT: u64 = 4;
    pub const PHNUM: u64 = 5;
    pub const PAGESZ: u64 = 6;
    pub const BASE: u64 = 7;
    pub const FLAGS: u64 = 8;
    pub const ENTRY: u64 = 9;
    pub const UID: u64 = 11;
    pub const EUID: u64 = 12;
    pub const GID: u64 = 13;
    pub const EGID: u64 = 14;
    pub const PLATFORM: u64 = 15;
    pub const HWCAP: u64 = 16;
    pub const CLKTCK: u64 = 17;
    pub const SECURE: u64 = 23;
    pub const RANDOM: u64 = 25;
    pub const HWCAP2: u64 = 26;
    pub const EXECFN: u64 = 31;
    pub const SYSINFO_EHDR: u64 = 33;
    pub const MINSIGSTKSZ: u64 = 51;
}

/// Strings one behind the other, each with its NUL.
#[derive(Clone, Debug, Default)]
pub struct Strings {
    pub bytes: Vec<u8>,
    /// Where each ends, behind its NUL.
    ends: Vec<u32>,
}

impl Strings {
    /// Empty, with room for what most programs are given.
    pub fn with_room() -> Strings {
        Strings {
            bytes: Vec::with_capacity(1024),
            ends: Vec::with_capacity(32),
        }
    }

    pub fn count(&self) -> usize {
        self.ends.len()
    }

    pub fn push(&mut self, string: &[u8]) {
        self.bytes.extend_from_slice(string);
        self.end();
    }

    /// What was added to `bytes` is a string without its NUL.
    pub fn end(&mut self) {
        self.bytes.push(0);
        self.ends.push(self.bytes.len() as u32);
    }

    /// Each without its NUL.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut start = 0;
        self.ends.iter().map(move |&end| {
            let string = &self.bytes[start..end as usize - 1];
            start = end as usize;
            string
        })
    }
}

const PLATFORM: &[u8] = b"x86_64\0";
/// How many entries [`build`] adds to the auxiliary vector.
const ADDED: usize = 4;

/// What lies where, as addresses.
struct Layout {
    execfn: u64,
    environment: u64,
    arguments: u64,
    platform: u64,
    random: u64,
    auxiliary: u64,
    sp: u64,
}

/// From the top: 8 zero bytes, the path, the environment, the arguments, the platform's name, the random bytes.
fn layout(
    top: u64,
    arguments: &Strings,
    environment: &Strings,
    path: &[u8],
    auxiliary: usize,
) -> Layout {
    let execfn = top - 8 - (path.len() as u64 + 1);
    let strings_env = execfn - environment.bytes.len() as u64;
    let strings_arg = strings_env - arguments.bytes.len() as u64;
    let platform = strings_arg - PLATFORM.len() as u64;
    let random = (platform - 16) & !15;
    let pointers = 1 + arguments.count() + 1 + environment.count() + 1;
    let words = pointers + 2 * (auxiliary + ADDED);
    let sp = (random - 8 * words as u64) & !15;
    Layout {
        execfn,
        environment: strings_env,
        arguments: strings_arg,
        platform,
        random,
        auxiliary: sp + 8 * pointers as u64,
        sp,
    }
}

/// Where the environment and the auxiliary vector will lie, before there is a stack.
pub fn places(arguments: &Strings, environment: &Strings, path: &[u8], auxiliary: usize) -> Places {
    // (Any page boundary that leaves room.)
    const TOP: u64 = 1 << 40;
    let layout = layout(TOP, arguments, environment, path, auxiliary);
    Places {
        environment_end: TOP - layout.execfn,
        environment_length: environment.bytes.len() as u64,
        auxiliary: TOP - layout.auxiliary,
    }
}

/// The bytes from the stack pointer to `top`.
pub struct Image {
    pub sp: u64,
    pub bytes: Vec<u8>,
    /// Where the auxiliary vector and the arguments' strings are.
    pub auxiliary: u64,
    pub arguments: u64,
}

/// Lay the stack out below `top` (a page boundary). `auxiliary` gets AT_RANDOM, AT_EXECFN, AT_PLATFORM and AT_NULL added.
pub fn build(
    top: u64,
    arguments: &Strings,
    environment: &Strings,
    path: &[u8],
    random: [u8; 16],
    auxiliary: &[(u64, u64)],
) -> Image {
    let Layout {
        execfn,
        environment: strings_env,
        arguments: strings_arg,
        platform,
        random: random_at,
        auxiliary: vector,
        sp,
    } = layout(top, arguments, environment, path, auxiliary.len());

    let mut bytes: Vec<u8> = Vec::with_capacity((top - sp) as usize);
    let mut word = |value: u64| bytes.extend_from_slice(&value.to_le_bytes());
    word(arguments.count() as u64);
    for (strings, start) in [(arguments, strings_arg), (environment, strings_env)] {
        let mut address = start;
        for end in &strings.ends {
            word(address);
            address = start + u64::from(*end);
        }
        word(0);
    }
    for (kind, value) in auxiliary {
        word(*kind);
        word(*value);
    }
    for (kind, value) in [
        (at::RANDOM, random_at),
        (at::EXECFN, execfn),
        (at::PLATFORM, platform),
        (at::NULL, 0),
    ] {
        word(kind);
        word(value);
    }
    bytes.resize((random_at - sp) as usize, 0);
    bytes.extend_from_slice(&random);
    bytes.resize((platform - sp) as usize, 0);
    bytes.extend_from_slice(PLATFORM);
    bytes.extend_from_slice(&arguments.bytes);
    bytes.extend_from_slice(&environment.bytes);
    bytes.extend_from_slice(path);
    bytes.resize((top - sp) as usize, 0);
    Image {
        sp,
        bytes,
        auxiliary: vector,
        arguments: strings_arg,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(image: &Image, address: u64) -> u64 {
        let at = (address - image.sp) as usize;
        u64::from_le_bytes(image.bytes[at..at + 8].try_into().unwrap())
    }

    fn string(image: &Image, address: u64) -> &[u8] {
        let rest = &image.bytes[(address - image.sp) as usize..];
        &rest[..rest.iter().position(|b| *b == 0).unwrap()]
    }

    #[test]
    fn a_program_finds_its_arguments() {
        for extra in 0..4 {
            let mut args = Strings::default();
            let mut env = Strings::default();
            args.push(b"sh");
            args.push(b"");
            args.push(b"-c");
            for _ in 0..extra {
                env.push(b"A=1");
            }
            let top = 0x7fff_0000_0000;
            let image = build(top, &args, &env, b"/bin/sh", [7; 16], &[(at::PAGESZ, 4096)]);
            assert_eq!(image.sp % 16, 0);
            assert_eq!(image.sp + image.bytes.len() as u64, top);
            assert_eq!(word(&image, image.sp), 3);
            let argv = image.sp + 8;
            assert_eq!(string(&image, word(&image, argv)), b"sh");
            assert_eq!(string(&image, word(&image, argv + 8)), b"");
            assert_eq!(string(&image, word(&image, argv + 16)), b"-c");
            assert_eq!(word(&image, argv + 24), 0);
            let envp = argv + 32;
            for i in 0..extra {
                assert_eq!(string(&image, word(&image, envp + 8 * i)), b"A=1");
            }
            assert_eq!(word(&image, envp + 8 * extra), 0);
            let mut aux = envp + 8 * extra + 8;
            let places = places(&args, &env, b"/bin/sh", 1);
            assert_eq!(places.auxiliary, top - aux);
            let first = top - places.environment_end - places.environment_length;
            assert_eq!(places.environment_length, 4 * extra);
            if extra > 0 {
                assert_eq!(first, word(&image, envp));
            }
            let mut seen = Vec::new();
            while word(&image, aux) != at::NULL {
                seen.push((word(&image, aux), word(&image, aux + 8)));
                aux += 16;
            }
            let get = |kind| seen.iter().find(|(k, _)| *k == kind).unwrap().1;
            assert_eq!(get(at::PAGESZ), 4096);
            assert_eq!(string(&image, get(at::EXECFN)), b"/bin/sh");
            assert_eq!(string(&image, get(at::PLATFORM)), b"x86_64");
            assert_eq!(word(&image, get(at::RANDOM)), 0x0707_0707_0707_0707);
            assert_eq!(get(at::RANDOM) % 16, 0);
        }
    }
}
