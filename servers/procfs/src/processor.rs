//! What the processor says of itself (CPUID), for /proc/cpuinfo.

use crate::system::Processor;
use alloc::string::String;
use core::arch::x86_64::{__cpuid, __cpuid_count, CpuidResult};

/// Names of feature bits as Linux prints them: (leaf, register, bit, name).
const FEATURES: [(u32, char, u32, &str); 46] = [
    (1, 'd', 0, "fpu"),
    (1, 'd', 4, "tsc"),
    (1, 'd', 5, "msr"),
    (1, 'd', 6, "pae"),
    (1, 'd', 8, "cx8"),
    (1, 'd', 9, "apic"),
    (1, 'd', 11, "sep"),
    (1, 'd', 13, "pge"),
    (1, 'd', 15, "cmov"),
    (1, 'd', 16, "pat"),
    (1, 'd', 19, "clflush"),
    (1, 'd', 23, "mmx"),
    (1, 'd', 24, "fxsr"),
    (1, 'd', 25, "sse"),
    (1, 'd', 26, "sse2"),
    (0x8000_0001, 'd', 11, "syscall"),
    (0x8000_0001, 'd', 20, "nx"),
    (0x8000_0001, 'd', 26, "pdpe1gb"),
    (0x8000_0001, 'd', 27, "rdtscp"),
    (0x8000_0001, 'd', 29, "lm"),
    (1, 'c', 0, "pni"),
    (1, 'c', 1, "pclmulqdq"),
    (1, 'c', 9, "ssse3"),
    (1, 'c', 12, "fma"),
    (1, 'c', 13, "cx16"),
    (1, 'c', 19, "sse4_1"),
    (1, 'c', 20, "sse4_2"),
    (1, 'c', 21, "x2apic"),
    (1, 'c', 22, "movbe"),
    (1, 'c', 23, "popcnt"),
    (1, 'c', 25, "aes"),
    (1, 'c', 26, "xsave"),
    (1, 'c', 28, "avx"),
    (1, 'c', 29, "f16c"),
    (1, 'c', 30, "rdrand"),
    (1, 'c', 31, "hypervisor"),
    (0x8000_0001, 'c', 0, "lahf_lm"),
    (0x8000_0001, 'c', 5, "abm"),
    (7, 'b', 0, "fsgsbase"),
    (7, 'b', 3, "bmi1"),
    (7, 'b', 5, "avx2"),
    (7, 'b', 7, "smep"),
    (7, 'b', 8, "bmi2"),
    (7, 'b', 9, "erms"),
    (7, 'b', 18, "rdseed"),
    (7, 'b', 20, "smap"),
];

fn append(text: &mut String, words: &[u32]) {
    for byte in words.iter().flat_map(|word| word.to_le_bytes()) {
        if byte.is_ascii_graphic() || byte == b' ' {
            text.push(byte as char);
        }
    }
}

/// This processor; `count` of them with a clock of `hertz`.
pub fn describe(hertz: u64, count: u64) -> Processor {
    let basic = __cpuid(0);
    let extended = __cpuid(0x8000_0000).eax;
    let leaf = |number: u32| {
        let highest = if number < 0x8000_0000 {
            basic.eax
        } else {
            extended
        };
        if number <= highest {
            __cpuid_count(number, 0)
        } else {
            CpuidResult {
                eax: 0,
                ebx: 0,
                ecx: 0,
                edx: 0,
            }
        }
    };
    let mut vendor = String::new();
    append(&mut vendor, &[basic.ebx, basic.edx, basic.ecx]);
    let mut name = String::new();
    for number in 0x8000_0002..=0x8000_0004 {
        let part = leaf(number);
        append(&mut name, &[part.eax, part.ebx, part.ecx, part.edx]);
    }
    let signature = leaf(1).eax;
    let field = |shift: u32, bits: u32| signature >> shift & ((1 << bits) - 1);
    let mut family = field(8, 4);
    let mut model = field(4, 4);
    if family == 6 || family == 15 {
        model |= field(16, 4) << 4;
    }
    if family == 15 {
        family += field(20, 8);
    }
    let mut flags = String::new();
    for (number, register, bit, feature) in FEATURES {
        let it = leaf(number);
        let word = match register {
            'b' => it.ebx,
            'c' => it.ecx,
            _ => it.edx,
        };
        if word & 1 << bit != 0 {
            if !flags.is_empty() {
                flags.push(' ');
            }
            flags.push_str(feature);
        }
    }
    Processor {
        vendor,
        name: name.trim().into(),
        family,
        model,
        stepping: field(0, 4),
        megahertz: hertz / 1_000_000,
        flags,
        count,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_x86_64_has_these() {
        let it = describe(2_000_000_000, 2);
        assert_eq!(it.vendor.len(), 12);
        assert_eq!((it.megahertz, it.count), (2000, 2));
        for flag in ["fpu", "tsc", "sse2", "lm", "nx"] {
            assert!(it.flags.split(' ').any(|it| it == flag), "{flag}");
        }
        assert!(it.family >= 6);
    }
}
