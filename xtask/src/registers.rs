//! Which programs leave floating-point and vector registers and FS and GS alone. A component with its callers' registers (`registers = "callers"`, see
//! docs/services/domain.md) could read and change those of all who call it; so the image maker looks through its code, and makes no image with one that does.

use anyhow::{bail, Context, Result};
use iced_x86::{CpuidFeature, Decoder, DecoderOptions, Instruction, Register};
use object::{Object, ObjectSection, SectionKind};
use std::fs;
use std::path::Path;

/// Instructions of these sorts touch general registers and flags only. What is not named here counts as something that touches others.
fn is_plain(feature: CpuidFeature) -> bool {
    use CpuidFeature as F;
    matches!(
        feature,
        F::INTEL8086
            | F::INTEL186
            | F::INTEL286
            | F::INTEL386
            | F::INTEL486
            | F::X64
            | F::CMOV
            | F::CPUID
            | F::CX8
            | F::CMPXCHG16B
            | F::MULTIBYTENOP
            | F::PAUSE
            | F::RDRAND
            | F::RDSEED
            | F::RDTSCP
            | F::SYSCALL
            | F::TSC
            | F::POPCNT
            | F::MOVBE
            | F::BMI1
            | F::BMI2
            | F::LZCNT
            | F::ADX
            | F::CLFSH
            | F::CLFLUSHOPT
            | F::CET_IBT
    )
}

/// FS and GS themselves, or memory behind them.
fn uses_bases(instruction: &Instruction) -> bool {
    let is_base = |register| matches!(register, Register::FS | Register::GS);
    is_base(instruction.memory_segment())
        || (0..instruction.op_count()).any(|i| is_base(instruction.op_register(i)))
}

/// The first instruction in these bytes that touches what it must not, and where it is. Fences order memory and `crc32` takes general registers, though they
/// came with vector registers.
fn first(code: &[u8], address: u64) -> Option<(u64, Instruction)> {
    use iced_x86::Code::{Lfence, Mfence, Prefetchnta_m8, Prefetcht0_m8, Sfence};
    use iced_x86::Mnemonic::Crc32;
    let decoder = Decoder::with_ip(64, code, address, DecoderOptions::NONE);
    let touches = |i: &Instruction| {
        let order = [Lfence, Mfence, Sfence, Prefetcht0_m8, Prefetchnta_m8];
        let plain = || i.cpuid_features().iter().all(|&f| is_plain(f));
        let known = order.contains(&i.code()) || i.mnemonic() == Crc32;
        uses_bases(i) || !known && (i.is_invalid() || !plain())
    };
    let found = decoder.into_iter().find(touches)?;
    Some((found.ip(), found))
}

/// The program must leave them alone. The error names the first instruction that does not, and how to go on.
pub fn check(name: &str, file: &Path) -> Result<()> {
    let bytes = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    let program = object::File::parse(&*bytes)?;
    for section in program.sections().filter(|s| s.kind() == SectionKind::Text) {
        if let Some((at, found)) = first(section.data()?, section.address()) {
            bail!(
                "{name} touches floating-point or vector registers, FS or GS ({:?} at {at:#x}), which its callers keep there: \
                 its components' lines in the manifest must say registers = \"own\"",
                found.mnemonic()
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `nop`, this, `ret`.
    fn touches(code: &[u8]) -> bool {
        let all = [&[0x90], code, &[0xc3]].concat();
        let found = first(&all, 0x1000);
        assert!(found.is_none_or(|(at, _)| at == 0x1001));
        found.is_some()
    }

    #[test]
    fn what_touches_registers_of_callers_is_found() {
        let touching: [&[u8]; 14] = [
            &[0xf3, 0x48, 0x0f, 0xae, 0xd0], // wrfsbase rax
            &[0xf3, 0x48, 0x0f, 0xae, 0xc8], // rdgsbase rax
            &[0x0f, 0x28, 0xc1],             // movaps xmm0, xmm1
            &[0xf2, 0x0f, 0x58, 0xc1],       // addsd xmm0, xmm1
            &[0xc5, 0xfc, 0x28, 0xc1],       // vmovaps ymm0, ymm1
            &[0xd9, 0xe8],                   // fld1
            &[0x0f, 0x77],                   // emms
            &[0x0f, 0x6f, 0xc1],             // movq mm0, mm1
            &[0x0f, 0xae, 0x10],             // ldmxcsr [rax]
            &[0x48, 0x0f, 0xae, 0x08],       // fxrstor64 [rax]
            &[0x48, 0x0f, 0xae, 0x28],       // xrstor64 [rax]
            &[0x64, 0x48, 0x8b, 0x00],       // mov rax, fs:[rax]
            &[0x8e, 0xe8],                   // mov gs, eax
            &[0x0f, 0xa1],                   // pop fs
        ];
        for code in touching {
            assert!(touches(code), "{code:x?}");
        }
        let plain: [&[u8]; 7] = [
            &[0x48, 0x01, 0xd8],                   // add rax, rbx
            &[0x0f, 0x05],                         // syscall
            &[0xf0, 0x48, 0x0f, 0xb1, 0x0b],       // lock cmpxchg [rbx], rcx
            &[0x0f, 0xae, 0xf0],                   // mfence
            &[0xf3, 0x48, 0xab],                   // rep stosq
            &[0x0f, 0x1f, 0x44, 0x00, 0x00],       // nop
            &[0xf2, 0x48, 0x0f, 0x38, 0xf1, 0xc3], // crc32 rax, rbx
        ];
        for code in plain {
            assert!(!touches(code), "{code:x?}");
        }
    }

    #[test]
    fn a_program_that_computes_in_vector_registers_is_refused() {
        // This one, as every program of the host.
        let own = std::env::current_exe().unwrap();
        let why = check("planted", &own).unwrap_err().to_string();
        assert!(why.starts_with("planted touches"), "{why}");
        assert!(why.contains("registers = \"own\""), "{why}");
    }
}
