//! The nucleus's portal code, decoded: what it may consist of, and how long its ways are.
//!
//! Portal code runs with all rights on behalf of a program, so it is held to rules that a decoder can check: only listed instructions, no jump backwards, jumps
//! out of it and calls only to functions that are known for it, and no end but these jumps and `sysret`. So it ends, after at most as many instructions as it has.

use crate::compiled::MARK;
use crate::{build, cli, places};
use anyhow::{bail, Context, Error, Result};
use iced_x86::{Decoder, DecoderOptions, FlowControl, Formatter, Instruction, IntelFormatter};
use iced_x86::{Mnemonic, OpKind, Register};
use object::{Object, ObjectSection, ObjectSymbol};
use std::collections::BTreeMap;
use std::path::Path;

/// Each piece of portal code: the symbols at its start and at its end. First the code that all entries of a kind share, then the templates for those with code of their own: of
/// a call and of its reply, for every sort of caller and call.
const PIECES: [(&str, &str); 35] = [
    ("portal_call", "portal_receive_entry"),
    ("portal_receive_entry", "portal_semaphore"),
    ("portal_semaphore", "portal_current"),
    ("portal_current", "portal_code_end"),
    ("portal_current_several", "portal_current_several_end"),
    ("portal_parts_several", "portal_parts_end"),
    ("template_native", "template_native_reply"),
    ("template_native_reply", "template_native_end"),
    ("template_interruptible", "template_interruptible_reply"),
    ("template_interruptible_reply", "template_interruptible_end"),
    ("template_turned", "template_turned_reply"),
    ("template_turned_reply", "template_turned_end"),
    (
        "template_turned_interruptible",
        "template_turned_interruptible_reply",
    ),
    (
        "template_turned_interruptible_reply",
        "template_turned_interruptible_end",
    ),
    ("template_parts", "template_parts_reply"),
    ("template_parts_reply", "template_parts_end"),
    ("template_turned_parts", "template_turned_parts_reply"),
    ("template_turned_parts_reply", "template_turned_parts_end"),
    ("template_semaphore", "template_semaphore_end"),
    ("template_several_native", "template_several_native_reply"),
    (
        "template_several_native_reply",
        "template_several_native_end",
    ),
    (
        "template_several_interruptible",
        "template_several_interruptible_reply",
    ),
    (
        "template_several_interruptible_reply",
        "template_several_interruptible_end",
    ),
    ("template_several_turned", "template_several_turned_reply"),
    (
        "template_several_turned_reply",
        "template_several_turned_end",
    ),
    (
        "template_several_turned_interruptible",
        "template_several_turned_interruptible_reply",
    ),
    (
        "template_several_turned_interruptible_reply",
        "template_several_turned_interruptible_end",
    ),
    ("template_several_parts", "template_several_parts_reply"),
    ("template_several_parts_reply", "template_several_parts_end"),
    (
        "template_several_turned_parts",
        "template_several_turned_parts_reply",
    ),
    (
        "template_several_turned_parts_reply",
        "template_several_turned_parts_end",
    ),
    (
        "template_several_semaphore",
        "template_several_semaphore_end",
    ),
    ("template_current", "template_current_end"),
    (INSIDE[0], "template_own_end"),
    (INSIDE[1], "template_signature_end"),
];
/// These are put into others, and so go on behind their ends.
const INSIDE: [&str; 2] = ["template_own", "template_signature"];
/// Where code of a portal's own goes on with what it was not made for.
const SHARED: [&str; 10] = [
    "portal_call",
    "portal_call_stored",
    "portal_parts",
    "portal_parts_several",
    "portal_current_rest",
    "portal_current_several",
    "portal_current_above",
    "portal_semaphore_rest",
    "general_called",
    "general_receive_called",
];
/// Ends that several pieces share: a jump there is a way back, because they are looked at in the piece in which they lie, or are the general path behind what
/// only counts.
const ENDS: [&str; 2] = ["portal_switch_over", "general_channel_called"];
/// Where shared code goes on that has counted an entry's uses, or has stored everything; the beginnings of the general path where the return address is stored already.
const STORED: [&str; 6] = [
    "leave_plain",
    "portal_used",
    "portal_all_stored",
    "portal_switch_over",
    "general_called",
    "general_channel_called",
];
/// Functions of the nucleus that portal code may jump to.
const EXITS: [&str; 9] = [
    "entry::general",
    "entry::general_unseen",
    "entry::general_stored",
    "entry::leave",
    "entry::compile_again",
    "entry::counted",
    "entry::counted_stored",
    "entry::counted_passed",
    "entry::general_passed",
];
/// Functions that it may call.
const CALLS: [&str; 6] = [
    "glue::reply_extras",
    "glue::on_syscall",
    "glue::on_upcall_over",
    "glue::settle",
    "parts_code::read_quick",
    "parts_code::write_quick",
];

const ALLOWED: [Mnemonic; 30] = [
    Mnemonic::Mov,
    Mnemonic::Lea,
    Mnemonic::Movzx,
    Mnemonic::Movsxd,
    Mnemonic::Bts,
    Mnemonic::Cmova,
    Mnemonic::Cmp,
    Mnemonic::Test,
    Mnemonic::Bt,
    Mnemonic::And,
    Mnemonic::Or,
    Mnemonic::Xor,
    Mnemonic::Add,
    Mnemonic::Sub,
    Mnemonic::Mul,
    Mnemonic::Inc,
    Mnemonic::Dec,
    Mnemonic::Ror,
    Mnemonic::Imul,
    Mnemonic::Shl,
    Mnemonic::Shr,
    Mnemonic::Shrd,
    Mnemonic::Rdtsc,
    Mnemonic::Jmp,
    Mnemonic::Call,
    Mnemonic::Nop,
    Mnemonic::Int3,
    Mnemonic::Swapgs,
    Mnemonic::Sysretq,
    Mnemonic::Ud2,
];

/// One piece of code, with the names of what it may reach.
pub struct Code {
    name: String,
    address: u64,
    bytes: Vec<u8>,
    exits: BTreeMap<u64, String>,
    calls: BTreeMap<u64, String>,
}

/// `./cairn portals`: the code, disassembled, and what the check says.
pub fn command(arguments: &cli::Portals) -> Result<u8> {
    let pieces = match &arguments.log {
        Some(log) => logged(log)?,
        None => built()?,
    };
    let mut code = 0;
    for piece in pieces {
        println!("{} at {:#x}:", piece.name, piece.address);
        print!("{}", piece.listing());
        match piece.check() {
            Ok(shortest) => println!("  shortest way: {shortest} instructions\n"),
            Err(why) => {
                println!("  NOT ALLOWED: {why}\n");
                code = 1;
            }
        }
    }
    Ok(code)
}

/// The code that a machine's log tells of, which ran the nucleus that was built last.
fn logged(log: &Path) -> Result<Vec<Code>> {
    let text = std::fs::read(log).with_context(|| format!("cannot read {}", log.display()))?;
    let text = String::from_utf8_lossy(&text);
    let reach = Reach::of_built()?;
    let mut pieces = Vec::new();
    for line in text.lines().filter_map(|line| line.strip_prefix(MARK)) {
        pieces.extend(reach.told(line).map_err(Error::msg)?);
    }
    if pieces.is_empty() {
        bail!(
            "{} has no code: was `--append nucleus.code=log` given?",
            log.display()
        );
    }
    Ok(pieces)
}

/// The pieces in the nucleus, after building it.
pub fn built() -> Result<Vec<Code>> {
    build::system()?;
    read(&places::symbols().join("cairn-nucleus"))
}

/// What portal code may reach: addresses and names, from the nucleus's symbols.
pub struct Reach {
    exits: BTreeMap<u64, String>,
    calls: BTreeMap<u64, String>,
    /// Only for code of a portal's own: the shared code.
    shared: BTreeMap<u64, String>,
    /// Only for shared code.
    stored: BTreeMap<u64, String>,
}

impl Reach {
    /// Of the nucleus that was built last.
    pub fn of_built() -> Result<Reach> {
        let path = places::symbols().join("cairn-nucleus");
        let bytes =
            std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        Reach::read(&Symbols::read(&object::File::parse(&*bytes)?))
    }

    fn read(symbols: &Symbols) -> Result<Reach> {
        Ok(Reach {
            exits: symbols.mangled(&EXITS)?,
            calls: symbols.mangled(&CALLS)?,
            shared: symbols.plainly(&SHARED)?,
            stored: symbols.plainly(&STORED)?,
        })
    }

    fn code(&self, name: String, address: u64, bytes: Vec<u8>, own: bool) -> Code {
        let mut exits = self.exits.clone();
        let more = if own { &self.shared } else { &self.stored };
        exits.extend(more.clone());
        Code {
            name,
            address,
            bytes,
            exits,
            calls: self.calls.clone(),
        }
    }

    /// The code that one line of a machine's log tells of (`nucleus.code=log`; the part behind the mark): from each of its one or two entrances on.
    pub fn told(&self, line: &str) -> Result<Vec<Code>, String> {
        let malformed = || format!("not a line about code: {line}");
        let [address, second, bytes] = *line.split(' ').collect::<Vec<_>>() else {
            return Err(malformed());
        };
        let number = |text| u64::from_str_radix(text, 16).map_err(|_| malformed());
        let (address, second) = (number(address)?, number(second)? as usize);
        let digits = bytes.as_bytes().chunks(2);
        let bytes: Option<Vec<u8>> = digits
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
            .collect();
        // Filler at the end is left out, and might look like the end of the code.
        let mut bytes = bytes.ok_or_else(malformed)?;
        bytes.extend([0xcc; 8]);
        if second >= bytes.len() {
            return Err(malformed());
        }
        if second == 0 {
            return Ok(vec![self.code("code".to_string(), address, bytes, true)]);
        }
        // The second entrance is where the first part says that a reply goes on.
        let reply = bytes.split_off(second);
        let entrance = (address + second as u64) as u32;
        if !bytes.windows(4).any(|word| word == entrance.to_le_bytes()) {
            return Err(format!("nothing leads to the second entrance: {line}"));
        }
        let at = address + second as u64;
        Ok(vec![
            self.code("call".to_string(), address, bytes, true),
            self.code("reply".to_string(), at, reply, true),
        ])
    }
}

/// Names and addresses of the nucleus.
struct Symbols(Vec<(String, u64)>);

impl Symbols {
    fn read(file: &object::File) -> Symbols {
        let named = file
            .symbols()
            .filter_map(|symbol| Some((symbol.name().ok()?.to_string(), symbol.address())));
        Symbols(named.collect())
    }

    fn plain(&self, wanted: &str) -> Result<u64> {
        let found = self.0.iter().find(|(name, _)| name == wanted);
        found
            .map(|(_, address)| *address)
            .with_context(|| format!("the nucleus has no symbol {wanted}"))
    }

    fn plainly(&self, wanted: &[&str]) -> Result<BTreeMap<u64, String>> {
        wanted
            .iter()
            .map(|name| Ok((self.plain(name)?, name.to_string())))
            .collect()
    }

    fn mangled(&self, wanted: &[&str]) -> Result<BTreeMap<u64, String>> {
        let mut found = BTreeMap::new();
        for path in wanted {
            // `a::b` is `1a1b` within a mangled name.
            let part: String = path
                .split("::")
                .map(|p| format!("{}{p}", p.len()))
                .collect();
            let matches = |name: &str| {
                name.split_once(&part)
                    .is_some_and(|(_, rest)| rest.starts_with("17h") || rest.starts_with('E'))
            };
            match self.0.iter().find(|(name, _)| matches(name)) {
                Some((_, address)) => found.insert(*address, path.to_string()),
                None => bail!("the nucleus has no symbol for {path}"),
            };
        }
        Ok(found)
    }
}

/// The pieces in a nucleus with symbols.
fn read(nucleus: &Path) -> Result<Vec<Code>> {
    let bytes =
        std::fs::read(nucleus).with_context(|| format!("cannot read {}", nucleus.display()))?;
    let file = object::File::parse(&*bytes)?;
    let symbols = Symbols::read(&file);
    let reach = Reach::read(&symbols)?;
    PIECES
        .iter()
        .map(|&(name, end)| {
            let (address, end) = (symbols.plain(name)?, symbols.plain(end)?);
            let section = file
                .sections()
                .find(|s| (s.address()..s.address() + s.size()).contains(&address))
                .with_context(|| format!("{name} is in no section"))?;
            let at = (address - section.address()) as usize;
            let bytes = section
                .data()?
                .get(at..at + (end - address) as usize)
                .with_context(|| format!("{name} is cut off"))?;
            let own = name.starts_with("template");
            Ok(reach.code(name.to_string(), address, bytes.to_vec(), own))
        })
        .collect()
}

impl Code {
    fn instructions(&self) -> Vec<Instruction> {
        Decoder::with_ip(64, &self.bytes, self.address, DecoderOptions::NONE)
            .into_iter()
            .collect()
    }

    fn listing(&self) -> String {
        let mut formatter = IntelFormatter::new();
        let mut out = String::new();
        for instruction in self.instructions() {
            let mut text = String::new();
            formatter.format(&instruction, &mut text);
            let target = instruction.near_branch_target();
            let name = self.exits.get(&target).or(self.calls.get(&target));
            let name = name.map(|name| format!("  ; {name}")).unwrap_or_default();
            let offset = instruction.ip() - self.address;
            out.push_str(&format!("  {offset:4x}  {text}{name}\n"));
        }
        out
    }

    /// Does it take the nucleus lock, as code for several cores does? Nothing else in portal code sets a bit of memory.
    pub fn takes_lock(&self) -> bool {
        self.instructions().iter().any(sets_bit_of_memory)
    }

    /// Do the rules hold? Then the length of the shortest way from the start to `sysret`, or to where code goes on that is looked at elsewhere.
    pub fn check(&self) -> Result<usize, String> {
        let list = self.instructions();
        // Fewest instructions from the start up to and including each one; the code has no loops, so one pass in order of address is enough.
        let mut reached: BTreeMap<u64, usize> = BTreeMap::from([(self.address, 1)]);
        let mut shortest: Option<usize> = None;
        let end = self.address + self.bytes.len() as u64;
        let inside = INSIDE.contains(&self.name.as_str());
        for (index, instruction) in list.iter().enumerate() {
            let here = instruction.ip();
            let wrong = |why: &str| Err(format!("{}+{:#x}: {why}", self.name, here - self.address));
            let Some(&steps) = reached.get(&here) else {
                // Filler between the pieces, never executed.
                if matches!(
                    instruction.mnemonic(),
                    Mnemonic::Nop | Mnemonic::Int3 | Mnemonic::Ud2
                ) {
                    continue;
                }
                return wrong("no way leads here");
            };
            let mnemonic = instruction.mnemonic();
            if !ALLOWED.contains(&mnemonic) && !instruction.is_jcc_short_or_near() {
                return wrong(&format!(
                    "{mnemonic:?} is not among the instructions of portal code"
                ));
            }
            if sets_bit_of_memory(instruction) && !looks_before(&list[..index], instruction) {
                return wrong("the lock is taken without a look at who waits in turn");
            }
            if (0..instruction.op_count()).any(|i| privileged(instruction, i)) {
                return wrong("a control, debug or segment register other than CR3");
            }
            let mut next = vec![];
            match instruction.flow_control() {
                FlowControl::Next => next.push(instruction.next_ip()),
                FlowControl::UnconditionalBranch | FlowControl::ConditionalBranch => {
                    let target = instruction.near_branch_target();
                    if target > here && target < end || inside && target == end {
                        next.push(target);
                    } else {
                        let Some(exit) = self.exits.get(&target) else {
                            return wrong("a jump backwards or to somewhere unknown");
                        };
                        if ENDS.contains(&exit.as_str()) {
                            shortest = Some(shortest.map_or(steps, |s| s.min(steps)));
                        }
                    }
                    if instruction.flow_control() == FlowControl::ConditionalBranch {
                        next.push(instruction.next_ip());
                    }
                }
                FlowControl::Call => {
                    if !self.calls.contains_key(&instruction.near_branch_target()) {
                        return wrong("a call of an unknown function");
                    }
                    next.push(instruction.next_ip());
                }
                // A receive right's code goes on where the thread says: in the shared code, or in the reply leg that it was called by.
                FlowControl::IndirectBranch
                    if instruction.memory_base() == Register::R11
                        && instruction.memory_index() == Register::None =>
                {
                    shortest = Some(shortest.map_or(steps, |s| s.min(steps)));
                }
                FlowControl::Return if mnemonic == Mnemonic::Sysretq => {
                    shortest = Some(shortest.map_or(steps, |s| s.min(steps)));
                }
                other => return wrong(&format!("{other:?} is no way on")),
            }
            for next in next {
                if next == end && inside {
                    shortest = Some(shortest.map_or(steps, |s| s.min(steps)));
                    continue;
                }
                if next >= end {
                    return wrong("it runs over its end");
                }
                let least = reached.entry(next).or_insert(usize::MAX);
                *least = (*least).min(steps + 1);
            }
        }
        let starts: Vec<u64> = list.iter().map(Instruction::ip).collect();
        if let Some(inside) = reached.keys().find(|ip| !starts.contains(ip)) {
            return Err(format!(
                "{}: a jump into an instruction, to {inside:#x}",
                self.name
            ));
        }
        shortest.ok_or_else(|| format!("{} has no way back to a program", self.name))
    }
}

fn sets_bit_of_memory(instruction: &Instruction) -> bool {
    instruction.mnemonic() == Mnemonic::Bts && instruction.op0_kind() == OpKind::Memory
}

/// Before the lock's bit is set, by one operation for all cores, the word behind it is compared, which says that somebody waits whose turn it is. (In a template neither has its address yet.)
fn looks_before(before: &[Instruction], take: &Instruction) -> bool {
    const PLACEHOLDER: u64 = 0x7fff_ffff;
    let [.., compare, leave] = before else {
        return false;
    };
    let (word, lock) = (
        compare.memory_displacement64(),
        take.memory_displacement64(),
    );
    take.has_lock_prefix()
        && compare.mnemonic() == Mnemonic::Cmp
        && compare.op0_kind() == OpKind::Memory
        && (word == lock.wrapping_add(4) || word == PLACEHOLDER && lock == PLACEHOLDER)
        && leave.mnemonic() == Mnemonic::Jne
}

/// Does this operand name a register that only the nucleus may touch, and that portal code has no business with?
fn privileged(instruction: &Instruction, operand: u32) -> bool {
    if instruction.op_kind(operand) != OpKind::Register {
        return false;
    }
    let register = instruction.op_register(operand);
    (register.is_cr() && register != Register::CR3)
        || register.is_dr()
        || register.is_segment_register()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Code at 0x1000 that may jump to 0x2000 and call 0x3000.
    fn check(bytes: &[u8]) -> Result<usize, String> {
        Code {
            name: "code".to_string(),
            address: 0x1000,
            bytes: bytes.to_vec(),
            exits: BTreeMap::from([(0x2000, "exit".to_string()), (0x2800, ENDS[0].to_string())]),
            calls: BTreeMap::from([(0x3000, "function".to_string())]),
        }
        .check()
    }

    /// Code that a machine tells of at 0x1000; it may go on in shared code at 0x2000.
    fn told(second: usize, bytes: &[u8]) -> Result<usize, String> {
        let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let reach = Reach {
            exits: BTreeMap::new(),
            calls: BTreeMap::new(),
            shared: BTreeMap::from([(0x2000, "shared".to_string())]),
            stored: BTreeMap::new(),
        };
        let codes = reach.told(&format!("{:016x} {second:04x} {digits}", 0x1000))?;
        codes.iter().map(Code::check).sum()
    }

    #[test]
    fn code_that_a_machine_made_is_checked() {
        // jnz 0x2000
        let good = with_sysret(&[0x0f, 0x85, 0xfa, 0x0f, 0, 0]);
        assert_eq!(told(0, &good), Ok(2));
        // The same with a planted fault: another exit, a jump to itself, a write to a control register, half an instruction.
        for bad in [
            &[0x0f, 0x85, 0xfb, 0x0f, 0, 0][..],
            &[0x75, 0xfe],
            &[0x0f, 0x22, 0xe0],
        ] {
            assert!(told(0, &with_sysret(bad)).is_err(), "{bad:x?}");
        }
        assert!(told(0, &good[..5]).is_err());
    }

    #[test]
    fn a_reply_is_entered_where_the_call_says() {
        // mov eax, 0x1008; sysretq
        let call = with_sysret(&[0xb8, 0x08, 0x10, 0, 0]);
        let reply = with_sysret(&[0xff, 0xc1]);
        let both = [&call[..], &reply[..]].concat();
        assert_eq!(told(8, &both), Ok(4));
        // Somewhere else, or beyond the end.
        assert!(told(7, &both).is_err());
        assert!(told(500, &both).is_err());
        // And what lies there is looked at.
        let halts = [&call[..], &[0xf4], &reply[..]].concat();
        assert!(told(8, &halts).is_err());
    }

    const SYSRET: [u8; 3] = [0x48, 0x0f, 0x07];

    fn with_sysret(bytes: &[u8]) -> Vec<u8> {
        [bytes, &SYSRET].concat()
    }

    #[test]
    fn the_shortest_way_is_counted() {
        assert_eq!(check(&SYSRET), Ok(1));
        // test eax, eax; jz over the next; inc ecx; sysretq
        assert_eq!(
            check(&with_sysret(&[0x85, 0xc0, 0x74, 0x02, 0xff, 0xc1])),
            Ok(3)
        );
    }

    #[test]
    fn exits_and_calls_are_known() {
        // jz 0x2000
        assert_eq!(check(&with_sysret(&[0x0f, 0x84, 0xfa, 0x0f, 0, 0])), Ok(2));
        assert!(check(&with_sysret(&[0x0f, 0x84, 0xfb, 0x0f, 0, 0])).is_err());
        // jmp 0x2000, which is no way back, and jmp 0x2800, which is one
        assert!(check(&[0xe9, 0xfb, 0x0f, 0, 0]).is_err());
        assert_eq!(check(&[0xe9, 0xfb, 0x17, 0, 0]), Ok(1));
        // call 0x3000
        assert_eq!(check(&with_sysret(&[0xe8, 0xfb, 0x1f, 0, 0])), Ok(2));
        assert!(check(&with_sysret(&[0xe8, 0xfc, 0x1f, 0, 0])).is_err());
    }

    #[test]
    fn what_is_not_allowed_is_found() {
        let refused: [&[u8]; 9] = [
            &[0xeb, 0xfe],                   // jmp to itself
            &[0x90, 0x75, 0xfd],             // jnz backwards
            &[0xff, 0xe0],                   // jmp rax
            &[0xf4],                         // hlt
            &[0x0f, 0x30],                   // wrmsr
            &[0x0f, 0x22, 0xc0],             // mov cr0, rax
            &[0x8e, 0xd8],                   // mov ds, eax
            &[0xe6, 0x80],                   // out 0x80, al
            &[0x74, 0x01, 0x48, 0x89, 0xc8], // jz into the mov that follows
        ];
        for bytes in refused {
            assert!(check(&with_sysret(bytes)).is_err(), "{bytes:x?}");
        }
        assert!(check(&[0xff, 0xc1]).is_err(), "it runs over its end");
        assert!(
            check(&[0xe9, 0xfb, 0x0f, 0, 0]).is_err(),
            "it never returns"
        );
        assert!(check(&[&SYSRET[..], &[0xff, 0xc1], &SYSRET].concat()).is_err());
    }

    #[test]
    fn code_that_takes_the_lock_is_told_from_other() {
        let code = |bytes: &[u8]| Code {
            name: "code".to_string(),
            address: 0x1000,
            bytes: with_sysret(bytes),
            exits: BTreeMap::new(),
            calls: BTreeMap::new(),
        };
        // lock bts dword ptr [0x1000], 0; bts ecx, 0; mov [0x1000], ecx
        assert!(code(&[0xf0, 0x0f, 0xba, 0x2c, 0x25, 0, 0x10, 0, 0, 0]).takes_lock());
        assert!(!code(&[0x0f, 0xba, 0xe9, 0]).takes_lock());
        assert!(!code(&[0x89, 0x0c, 0x25, 0, 0x10, 0, 0]).takes_lock());
    }

    #[test]
    fn the_lock_is_taken_with_a_look_at_who_waits_only() {
        // cmp dword ptr [0x1004], 0; jne 0x2000; lock bts dword ptr [0x1000], 0
        let compare = [0x83, 0x3c, 0x25, 0x04, 0x10, 0, 0, 0];
        let leave = [0x0f, 0x85, 0xf2, 0x0f, 0, 0];
        let take = [0xf0, 0x0f, 0xba, 0x2c, 0x25, 0, 0x10, 0, 0, 0];
        let all = |parts: &[&[u8]]| check(&with_sysret(&parts.concat()));
        assert!(all(&[&compare, &leave, &take]).is_ok());
        assert!(all(&[&take]).is_err());
        assert!(all(&[&compare, &leave, &take[1..]]).is_err(), "not alone");
        let mut other = compare;
        other[3] = 0x08;
        assert!(all(&[&other, &leave, &take]).is_err());
    }

    #[test]
    fn the_root_of_the_tables_may_be_changed() {
        assert_eq!(check(&with_sysret(&[0x0f, 0x22, 0xd8])), Ok(2));
    }
}
