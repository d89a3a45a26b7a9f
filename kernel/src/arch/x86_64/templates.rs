//! The code of compiled portals: a closed set of templates, and their constants.
//!
//! A template is assembled here with placeholders; behind each placeholder stands a line `constant` or `exit`, which notes where it is and what belongs there. [`write`] copies a
//! template into a block and fills the constants in; of a channel that has a signature with another one put into it, which looks at the words, and of a server with
//! registers of its own with one that asks whether they are in the processor. [`crate::quick`] says what the code may leave undone, and why.
//!
//! On entry r11 leads to the calling thread, rsp to the table entry, rcx is the return address, rax the selector, and the caller's stack pointer is stored. Whatever is not as the
//! template wants it goes on in the shared code, with all of that as it was (or, at `portal_call_stored`, the return address stored as well).
//! The decoder (`./cairn portals`) checks the templates, and what was made of them in a running system.

use super::clock::{self, Clock};
use super::descriptors::PerCpu;
use super::entry::{
    counted, counted_passed, counted_stored, general, general_passed, general_unseen,
};
use super::float::FloatState;
use super::glue::{busy, KERNEL};
use super::portal_code::general_entries;
use super::Machine;
use crate::channel::Channel;
use crate::domain::Domain;
use crate::ipc::NEXT_CALL;
use crate::lock::TicketLock;
use crate::portal::code::{
    Constants, Known, Way, CODE_BYTES, CONSTANTS, OWN_BYTES, SIGNATURE_BYTES, TEMPLATE_BYTES,
};
use crate::portal::table::{Entry, CHUNK};
use crate::portal::Portal;
use crate::semaphore::Semaphore;
use crate::signature::{Line, Signature};
use crate::thread::{Thread, USER_FLAGS};
use crate::Kernel;
use cairn_abi::service::{current, receive};
use cairn_abi::state::Registers;
use cairn_abi::{flag, rights, PortalKind};
use core::arch::global_asm;
use core::mem::offset_of;

type MachineThread = Thread<FloatState>;
type Nucleus = Kernel<Machine>;

/// What belongs into a placeholder beside what the portable part knows ([`Known`]), whose numbers come first. All of those and the first of these are 8 bytes long, or 4 sign-extended ones where the note says so.
#[derive(Clone, Copy)]
#[repr(usize)]
enum Constant {
    ReplyLeg = Known::COUNT,
    SharedReply,
    ClockBase,
    ClockRate,
    /// Of the entry's own block, of the lock and of the entries of threads with something unusual pending.
    Block,
    Busy,
    GeneralEntries,
    /// Where the shared code is; in the code stands how far away.
    SharedCall,
    SharedCallStored,
    /// The same for code that has the lock.
    CallPassed,
    Passed,
    /// The reply, in no quick call.
    SettledReply,
    SharedParts,
    SharedCurrent,
    SharedSemaphore,
    SemaphorePassed,
    CurrentAbove,
    Count,
}

const FIRST_EXIT: usize = Constant::SharedCall as usize;
const _: () = assert!(FIRST_EXIT == CONSTANTS);
const EXIT_COUNT: usize = Constant::Count as usize - FIRST_EXIT;

/// The shared code of one core, and of several, in the order of the constants.
static EXITS: [[unsafe extern "C" fn(); EXIT_COUNT]; 2] = [
    [
        portal_call,
        portal_call_stored,
        portal_call_stored,
        general_passed,
        general_receive_called,
        portal_parts,
        portal_current_rest,
        portal_semaphore_rest,
        portal_semaphore_rest,
        portal_current_above,
    ],
    [
        counted,
        counted_stored,
        counted_passed,
        general_passed,
        general_called,
        portal_parts_several,
        portal_current_several,
        general_called,
        general_passed,
        general_unseen,
    ],
];

/// How many there are for calls, for one core and for several each: without turn base and with one; of these without flags, INTERRUPTIBLE, with parts.
const CALLS: usize = 6;
const TEMPLATES: usize = 2 * (CALLS + 1) + 3;
const OWN: usize = TEMPLATES - 3;
const SIGNATURE: usize = TEMPLATES - 2;
const CURRENT: usize = TEMPLATES - 1;

extern "C" {
    /// In the order in which they are assembled.
    static portal_templates: [Template; TEMPLATES];
    fn portal_call();
    fn portal_call_stored();
    fn portal_receive();
    fn portal_parts();
    fn portal_parts_several();
    fn portal_current_rest();
    fn portal_current_several();
    fn portal_current_above();
    fn portal_semaphore_rest();
    fn general_called();
    fn general_receive_called();
}

/// The addresses of a template's second entrance, and of what is before the place for a signature's and behind it.
#[repr(C)]
struct Template {
    reply: usize,
    pieces: [Piece; 2],
}

/// The addresses of code, of the notes of its constants and of those of its exits, and of their ends.
#[repr(C)]
struct Piece {
    code: usize,
    end: usize,
    notes: usize,
    notes_end: usize,
    exits: usize,
    exits_end: usize,
}

impl Piece {
    const NOTHING: Piece = Piece {
        code: 1,
        end: 1,
        notes: 0,
        notes_end: 0,
        exits: 0,
        exits_end: 0,
    };

    fn code(&self) -> &'static [u8] {
        // SAFETY: these are addresses of constants of the image, which are never written.
        unsafe { core::slice::from_raw_parts(self.code as *const u8, self.end - self.code) }
    }
}

/// Where the placeholder of a constant is: bytes from the template's start, which constant, how many bytes, and how far behind the beginning of an object the place is that is meant.
#[repr(C)]
struct Note {
    offset: u16,
    constant: u8,
    size: u8,
    inside: u16,
}

/// Where a jump out of the template has its distance, and which way out it is.
#[repr(C)]
struct Exit {
    offset: u16,
    exit: u16,
}

/// The constants from one address to another.
///
/// # Safety
/// That is what these are the addresses of; they are never written.
unsafe fn noted<T: 'static>(mut at: usize, end: usize) -> impl Iterator<Item = &'static T> {
    core::iter::from_fn(move || {
        let here = at as *const T;
        at += size_of::<T>();
        // SAFETY: by the contract.
        (here as usize != end).then(|| unsafe { &*here })
    })
}

/// Make the code of an entry, to be executed at address `at`; with `several` cores, such that takes the lock. The offset at which it is entered as well, or 0.
pub fn write(
    code: &mut [u8; CODE_BYTES],
    at: u64,
    way: Way,
    constants: &mut Constants,
    clock: Clock,
    several: bool,
) -> usize {
    let exits = &EXITS[several as usize];
    let (first, shared_reply) = if several {
        (CALLS + 1, general as *const ())
    } else {
        (0, portal_receive as *const ())
    };
    let selector = constants.get(Known::Selector);
    let number = match way {
        Way::Current => CURRENT,
        Way::Semaphore => first + CALLS,
        Way::Call { turned } => {
            let flags = if selector & flag::PARTS != 0 {
                2
            } else {
                (selector > u32::MAX as u64) as usize
            };
            first + 3 * turned as usize + flags
        }
    };
    // SAFETY: written below, with the symbols of one template in each place; constants of the image are never written.
    let templates = unsafe { &portal_templates };
    let [before, behind] = &templates[number].pieces;
    // What is put in between.
    let put_in = |known: Known, template: usize| match constants.get(known) {
        0 => &Piece::NOTHING,
        _ => &templates[template].pieces[1],
    };
    let own = put_in(Known::Own, OWN);
    let inside = put_in(Known::Signature, SIGNATURE);
    let (place, own_end) = (before.code().len(), own.code().len());
    let more = own_end + inside.code().len();
    let reply = match templates[number].reply - before.code {
        0 => 0,
        reply => reply + more,
    };
    let values = &mut constants.0;
    let mut set = |constant: Constant, value: u64| values[constant as usize] = value;
    set(Constant::ReplyLeg, at + reply as u64);
    set(Constant::SharedReply, shared_reply as u64);
    set(Constant::ClockBase, clock.base);
    set(Constant::ClockRate, clock.mult);
    set(Constant::Block, at);
    set(Constant::Busy, busy());
    set(Constant::GeneralEntries, general_entries() as u64);
    let mut length = 0;
    // Notes count from the beginning of a template.
    let pieces = [
        (before, 0),
        (own, place),
        (inside, place + own_end),
        (behind, more),
    ];
    for (piece, base) in pieces {
        let text = piece.code();
        if let Some(room) = code.get_mut(length..length + text.len()) {
            room.copy_from_slice(text);
        }
        length += text.len();
        fill_in(&mut code[base..], at + base as u64, piece, values, exits);
    }
    if let Some(rest) = code.get_mut(length..) {
        rest.fill(FILLER);
    }
    reply
}

/// The placeholders of a piece of a template, which is in this code, to be executed at address `at`.
fn fill_in(
    code: &mut [u8],
    at: u64,
    piece: &Piece,
    values: &[u64; CONSTANTS],
    exits: &[unsafe extern "C" fn(); EXIT_COUNT],
) {
    // SAFETY: their notes lie there.
    for note in unsafe { noted::<Note>(piece.notes, piece.notes_end) } {
        let offset = note.offset as usize;
        let Some(value) = values.get(note.constant as usize) else {
            continue;
        };
        let value = value + note.inside as u64;
        // Of constant lengths: a store each.
        if note.size == 8 {
            if let Some(place) = code.get_mut(offset..offset + 8) {
                place.copy_from_slice(&value.to_le_bytes());
            }
        } else if let Some(place) = code.get_mut(offset..offset + 4) {
            place.copy_from_slice(&(value as u32).to_le_bytes());
        }
    }
    // SAFETY: as above.
    for note in unsafe { noted::<Exit>(piece.exits, piece.exits_end) } {
        let (offset, end) = (note.offset as usize, note.offset as usize + 4);
        if let (Some(place), Some(exit)) =
            (code.get_mut(offset..end), exits.get(note.exit as usize))
        {
            let distance = (*exit as *const () as u64).wrapping_sub(at + end as u64);
            place.copy_from_slice(&(distance as u32).to_le_bytes());
        }
    }
}

/// `int3`.
pub const FILLER: u8 = 0xcc;

global_asm!(
    // The last SIZE bytes of what was just assembled, but for BACK, are a placeholder.
    // Of an object's address: what is INSIDE bytes behind it.
    ".macro constant template, what, size, back=0, inside=0
    .Lhere_\\@:
        .pushsection .rodata.portal_constants_\\template, \"a\", @progbits
        .short .Lhere_\\@ - \\size - \\back - template_\\template
        .byte \\what
        .byte \\size
        .short \\inside
        .popsection
    .endm
    // The last four bytes are how far away the shared code WHAT is.
    .macro exit template, what
    .Lhere_\\@:
        .pushsection .rodata.portal_exits_\\template, \"a\", @progbits
        .short .Lhere_\\@ - 4 - template_\\template, \\what - {first_exit}
        .popsection
    .endm
    // A jump that leaves the template: with four bytes of distance always.
    .macro leave_if_not_equal template, to, what
        .byte 0x0f, 0x85
        .long \\to - . - 4
        exit \\template, \\what
    .endm
    .macro leave_if_zero template, to, what
        .byte 0x0f, 0x84
        .long \\to - . - 4
        exit \\template, \\what
    .endm
    .macro leave_if_carry template, to, what
        .byte 0x0f, 0x82
        .long \\to - . - 4
        exit \\template, \\what
    .endm
    .macro leave_if_above template, to, what
        .byte 0x0f, 0x87
        .long \\to - . - 4
        exit \\template, \\what
    .endm
    .macro leave template, to, what
        .byte 0xe9
        .long \\to - . - 4
        exit \\template, \\what
    .endm
    // WHERE is the place among a template's notes of this KIND that has been reached.
    .macro notes kind, template, where
        .pushsection .rodata.portal_\\kind\\()_\\template, \"a\", @progbits
        .balign 2
    \\kind\\()_\\template\\()_\\where:
        .popsection
    .endm
    // A template begins, whose second entrance is at REPLY; and ends. It has room for BYTES.
    .macro begin template, reply
        .pushsection .rodata.portal_templates, \"a\", @progbits
        .quad \\reply
        .quad template_\\template, template_\\template\\()_signature
        .quad constants_\\template\\()_begin, constants_\\template\\()_behind
        .quad exits_\\template\\()_begin, exits_\\template\\()_behind
        .quad template_\\template\\()_signature, template_\\template\\()_end
        .quad constants_\\template\\()_behind, constants_\\template\\()_end
        .quad exits_\\template\\()_behind, exits_\\template\\()_end
        .popsection
        notes constants, \\template, begin
        notes exits, \\template, begin
        .pushsection .rodata.portal_code, \"a\", @progbits
        .balign 16
        .global template_\\template
    template_\\template:
    .endm
    .macro end template, bytes={template_bytes}
        notes constants, \\template, end
        notes exits, \\template, end
        .global template_\\template\\()_end
    template_\\template\\()_end:
        .org template_\\template + \\bytes, 0xcc
        .popsection
    .endm
    // The place for a signature's: in templates that have none the beginning.
    .macro signature_place template
    template_\\template\\()_signature:
        notes constants, \\template, behind
        notes exits, \\template, behind
    .endm
    // Have the lock, if nobody is in, or waits whose turn it is.
    .macro pass template, to, what
        cmp dword ptr [0x7fffffff], 0
        constant \\template, {busy}, 4, 1, {urgent}
        leave_if_not_equal \\template, \\to, \\what
        lock bts dword ptr [0x7fffffff], 0
        constant \\template, {busy}, 4, 1
        leave_if_carry \\template, \\to, \\what
    .endm
    // (The word is 0 or 1.)
    .macro passed template
        mov byte ptr [0x7fffffff], 0
        constant \\template, {busy}, 4, 1
    .endm
    .pushsection .rodata.portal_templates, \"a\", @progbits
    .balign 8
    .global portal_templates
    portal_templates:
    .popsection",
    // A call of eight words and nothing else but, with `parts`, two parts below 4 GiB each; and its reply. `wide`: the selector has flags.
    // With `several` cores it takes the lock first, asks whether the entry is still its own (not emptied or changed by another core), the caller's thread as usual, and of the reply whether
    // the call is still not settled.
    ".macro portal_template name, turned, wide, parts, several
        begin \\name, template_\\name\\()_reply
        .if \\wide
        mov [r11 + {rip}], rcx
        movabs rcx, 0x7fffffffffffffff
        constant \\name, {selector}, 8
        cmp rax, rcx
        leave_if_not_equal \\name, portal_call_stored, {shared_call_stored}
        .else
        cmp rax, 0x7fffffff
        constant \\name, {selector}, 4
        leave_if_not_equal \\name, portal_call, {shared_call}
        mov [r11 + {rip}], rcx
        .endif
        .if \\several
        pass \\name, {counted_stored}, {shared_call_stored}
        cmp qword ptr [rsp], 0x7fffffff
        constant \\name, {block}, 4
        leave_if_not_equal \\name, {counted_passed}, {call_passed}
        cmp qword ptr [r11 + {entries}], 0x7fffffff
        constant \\name, {general_entries}, 4
        leave_if_zero \\name, {counted_passed}, {call_passed}
        .endif
        movabs rcx, 0x7fffffffffffffff
        constant \\name, {plain}, 8
        cmp rcx, qword ptr [0x7fffffff]
        constant \\name, {channel_at}, 4, 0, {channel_plain}
        leave_if_not_equal \\name, portal_call_stored, {call_passed}
        cmp dword ptr [0x7fffffff], 0x7fffffff
        constant \\name, {portal}, 4, 4, {channel}
        constant \\name, {channel_id}, 4
        leave_if_not_equal \\name, portal_call_stored, {call_passed}
        .if \\parts
        // rcx is 0 from here on.
        mov rcx, r15
        or rcx, rbp
        shr rcx, 32
        or ecx, dword ptr [0x7fffffff]
        constant \\name, {server_unusual}, 4
        .else
        cmp dword ptr [0x7fffffff], 0
        constant \\name, {server_unusual}, 4, 1
        .endif
        leave_if_not_equal \\name, portal_call_stored, {call_passed}
        dec dword ptr gs:[{links}]
        leave_if_zero \\name, portal_call_stored, {call_passed}
        // Decided, but for whose registers are in the processor and what a signature asks. The one leaves rcx alone, the other one leaves it 0.
        signature_place \\name
        .if \\parts
        mov qword ptr [0x7fffffff], rcx
        constant \\name, {channel_at}, 4, 0, {channel_plain}
        .else
        mov qword ptr [0x7fffffff], 0
        constant \\name, {channel_at}, 4, 4, {channel_plain}
        .endif
        mov [r11 + {rbx}], rbx
        mov [r11 + {rbp}], rbp
        mov [r11 + {r14}], r14
        mov [r11 + {r15}], r15
        .if \\parts
        mov [r11 + {rax}], rax
        shl rbp, 32
        or r15, rbp
        mov [r11 + {parts}], r15
        .else
        xor r15d, r15d
        .endif
        mov qword ptr [0x7fffffff], r11
        constant \\name, {server}, 4, 0, {quick_client}
        mov qword ptr [0x7fffffff], 0x7fffffff
        constant \\name, {server}, 4, 4, {reply_code}
        constant \\name, {reply_leg}, 4
        inc dword ptr [r11 + {token} + 4]
        mov rbp, [r11 + {token}]
        movabs rax, 0x7fffffffffffffff
        constant \\name, {received}, 8
        movabs rbx, 0x7fffffffffffffff
        constant \\name, {badge}, 8
        mov r14, qword ptr [0x7fffffff]
        constant \\name, {client_domain}, 4, 0, {label}
        mov qword ptr gs:[{registers}], 0x7fffffff
        constant \\name, {server}, 4
        .if \\turned && \\parts
        mov qword ptr gs:[{turn_base}], rcx
        .elseif \\turned
        mov qword ptr gs:[{turn_base}], 0
        .endif
        add qword ptr gs:[{direct}], 2
        mov rcx, qword ptr [0x7fffffff]
        constant \\name, {server_domain}, 4, 0, {table_base}
        mov cr3, rcx
        mov rcx, qword ptr [0x7fffffff]
        constant \\name, {server}, 4, 0, {rip}
        mov rsp, qword ptr [0x7fffffff]
        constant \\name, {server}, 4, 0, {rsp}
        .if \\several
        passed \\name
        .endif
        mov r11d, {user_flags}
        swapgs
        sysretq
        .balign 8, 0xcc
        .global template_\\name\\()_reply
    template_\\name\\()_reply:
        mov [r11 + {rip}], rcx
        movabs rcx, 0x7fffffffffffffff
        constant \\name, {reply_selector}, 8
        cmp rax, rcx
        .if \\parts
        leave_if_not_equal \\name, portal_parts, {shared_parts}
        .else
        leave_if_not_equal \\name, general_receive_called, {settled_reply}
        .endif
        cmp dword ptr [rsp + {object}], 0x7fffffff
        constant \\name, {channel_index}, 4
        leave_if_not_equal \\name, general_receive_called, {settled_reply}
        .if \\several
        pass \\name, general_called, {settled_reply}
        cmp qword ptr [0x7fffffff], 0x7fffffff
        constant \\name, {server}, 4, 4, {reply_code}
        constant \\name, {reply_leg}, 4
        leave_if_not_equal \\name, {general_passed}, {passed}
        .endif
        // Whoever pokes it while it waits sees by this whether that ends the wait.
        mov [r11 + {rax}], rax
        mov rcx, [r11 + {thread_plain}]
        mov r11, qword ptr [0x7fffffff]
        constant \\name, {server}, 4, 0, {quick_client}
        cmp rbp, [r11 + {token}]
        leave_if_not_equal \\name, {general_passed}, {passed}
        mov qword ptr [0x7fffffff], 0x7fffffff
        constant \\name, {server}, 4, 4, {reply_code}
        constant \\name, {shared_reply}, 4
        mov qword ptr [0x7fffffff], rcx
        constant \\name, {channel_at}, 4, 0, {channel_plain}
        inc dword ptr gs:[{links}]
        xor eax, eax
        mov gs:[{registers}], r11
        .if \\turned
        mov rcx, qword ptr [0x7fffffff]
        constant \\name, {client_domain}, 4, 0, {domain_turn_base}
        mov gs:[{turn_base}], rcx
        .endif
        mov rcx, qword ptr [0x7fffffff]
        constant \\name, {client_domain}, 4, 0, {table_base}
        mov cr3, rcx
        mov rbx, [r11 + {rbx}]
        mov rbp, [r11 + {rbp}]
        mov r14, [r11 + {r14}]
        mov r15, [r11 + {r15}]
        mov rcx, [r11 + {rip}]
        mov rsp, [r11 + {rsp}]
        .if \\several
        passed \\name
        .endif
        mov r11d, {user_flags}
        swapgs
        sysretq
        portal_end \\name, \\several
    .endm
    // With one core there is room for both others that may be put in.
    .macro portal_end name, several
        .if \\several
        end \\name
        .else
        end \\name, {one_core_bytes}
        .endif
    .endm",
    // P where the semaphore counts something, V where nobody waits and it is an ordinary one. With `several` cores it takes the lock first, and asks whether the entry is still its own.
    ".macro semaphore_template name, several
    begin \\name, template_\\name
    signature_place \\name
    .if \\several
    mov [r11 + {rip}], rcx
    .endif
    cmp rax, 0x7fffffff
    constant \\name, {selector_p}, 4
    jne 2f
    semaphore_own \\name, \\several
    cmp dword ptr [0x7fffffff], 0
    constant \\name, {semaphore}, 4, 1, {count}
    leave_if_zero \\name, portal_semaphore_rest, {semaphore_passed}
    dec dword ptr [0x7fffffff]
    constant \\name, {semaphore}, 4, 0, {count}
    semaphore_done \\name, \\several
    2:
    .if \\several
    movabs rcx, 0x7fffffffffffffff
    constant \\name, {selector_v}, 8
    cmp rax, rcx
    .else
    movabs rsp, 0x7fffffffffffffff
    constant \\name, {selector_v}, 8
    cmp rax, rsp
    .endif
    leave_if_not_equal \\name, portal_semaphore_rest, {shared_semaphore}
    semaphore_own \\name, \\several
    cmp qword ptr [0x7fffffff], 0
    constant \\name, {semaphore}, 4, 1, {waiters}
    leave_if_not_equal \\name, portal_semaphore_rest, {semaphore_passed}
    inc dword ptr [0x7fffffff]
    constant \\name, {semaphore}, 4, 0, {count}
    jo 3f
    semaphore_done \\name, \\several
    // It counts as far as it can already.
    3:
    dec dword ptr [0x7fffffff]
    constant \\name, {semaphore}, 4, 0, {count}
    leave \\name, portal_semaphore_rest, {semaphore_passed}
    end \\name
    .endm
    .macro semaphore_own name, several
    .if \\several
    pass \\name, general_called, {shared_semaphore}
    cmp qword ptr [rsp], 0x7fffffff
    constant \\name, {block}, 4
    leave_if_not_equal \\name, {general_passed}, {semaphore_passed}
    .endif
    .endm
    .macro semaphore_done name, several
    .if \\several
    passed \\name
    mov rcx, [r11 + {rip}]
    .endif
    xor eax, eax
    mov rsp, [r11 + {rsp}]
    mov r11d, {user_flags}
    swapgs
    sysretq
    .endm",
    // In the order of the table: [`CALLS`].
    "portal_template native, 0, 0, 0, 0
    portal_template interruptible, 0, 1, 0, 0
    portal_template parts, 0, 1, 1, 0
    portal_template turned, 1, 0, 0, 0
    portal_template turned_interruptible, 1, 1, 0, 0
    portal_template turned_parts, 1, 1, 1, 0
    semaphore_template semaphore, 0
    portal_template several_native, 0, 0, 0, 1
    portal_template several_interruptible, 0, 1, 0, 1
    portal_template several_parts, 0, 1, 1, 1
    portal_template several_turned, 1, 0, 0, 1
    portal_template several_turned_interruptible, 1, 1, 0, 1
    portal_template several_turned_parts, 1, 1, 1, 1
    semaphore_template several_semaphore, 1",
    // A server with registers of its own: are they in the processor?
    "begin own, template_own
    signature_place own
    cmp dword ptr [{kernel} + {owner}], 0x7fffffff
    constant own, {server}, 4
    je 3f
    inc dword ptr gs:[{links}]
    leave own, portal_call_stored, {call_passed}
    .balign 8, 0xcc
    3:
    end own, {own_bytes}",
    // A signature: is no word of the operation's greater than it may be? Does the last one name a portal of the caller's to this channel, then its badge takes its place.
    "begin signature, template_signature
    signature_place signature
    cmp rdi, {operations}
    jae 3f
    mov ecx, edi
    shl ecx, {line_shift}
    add rcx, 0x7fffffff
    constant signature, {signature}, 4
    cmp rsi, [rcx + {most}]
    ja 2f
    cmp rdx, [rcx + {most} + 8]
    ja 2f
    cmp r10, [rcx + {most} + 16]
    ja 2f
    cmp r8, [rcx + {most} + 24]
    ja 2f
    cmp r9, [rcx + {most} + 32]
    ja 2f
    cmp r12, [rcx + {most} + 40]
    ja 2f
    cmp r13, [rcx + {most} + 48]
    ja 2f
    cmp qword ptr [rcx + {line_badge}], 0
    je 3f
    cmp r13, {chunk}
    jae 2f
    mov ecx, r13d
    shl ecx, 4
    add rcx, [r11 + {entries}]
    cmp byte ptr [rcx + {kind}], {kind_channel}
    jne 2f
    test byte ptr [rcx + {rights}], {may_call}
    jz 2f
    test byte ptr [rcx + {rights}], {once}
    jnz 2f
    movsxd rcx, dword ptr [rcx + {object}]
    cmp dword ptr [rcx + {channel}], 0x7fffffff
    constant signature, {channel_id}, 4
    jne 2f
    mov r13, [rcx + {badge_of}]
    jmp 3f
    // Refused: the general path says why.
    2:
    inc dword ptr gs:[{links}]
    leave signature, portal_call_stored, {call_passed}
    // What follows in the block stays where it would be, to eight bytes.
    .balign 8, 0xcc
    .skip 6, 0xcc
    3:
    xor ecx, ecx
    end signature, {signature_bytes}",
    // Slot 0: who am I? Everything but the thread's id is a constant, or at a constant address. And what time is it?
    "begin current, template_current
    signature_place current
    test rax, rax
    jnz 2f
    mov edi, [r11 + {token}]
    mov esi, 0x7fffffff
    constant current, {id}, 4
    mov rdx, qword ptr [0x7fffffff]
    constant current, {client_domain}, 4, 0, {label}
    mov rsp, [r11 + {rsp}]
    mov r11d, {user_flags}
    swapgs
    sysretq
    2:
    mov rsp, {clock}
    cmp rax, rsp
    leave_if_above current, portal_current_above, {current_above}
    leave_if_not_equal current, portal_current_rest, {shared_current}
    mov rdi, rdx
    rdtsc
    shl rdx, 32
    or rax, rdx
    movabs rdx, 0x7fffffffffffffff
    constant current, {clock_base}, 8
    sub rax, rdx
    movabs rdx, 0x7fffffffffffffff
    constant current, {clock_rate}, 8
    mul rdx
    shrd rax, rdx, {clock_shift}
    mov rdx, rdi
    mov rdi, rax
    xor eax, eax
    mov rsp, [r11 + {rsp}]
    mov r11d, {user_flags}
    swapgs
    sysretq
    end current",
    selector = const Known::Selector as usize,
    reply_selector = const Known::ReplySelector as usize,
    received = const Known::Received as usize,
    portal = const Known::Portal as usize,
    channel_at = const Known::Channel as usize,
    channel_plain = const offset_of!(Channel, plain),
    client_domain = const Known::ClientDomain as usize,
    server_domain = const Known::ServerDomain as usize,
    table_base = const offset_of!(Domain<Machine>, table_base),
    server_unusual = const Known::ServerUnusual as usize,
    label = const offset_of!(Domain<Machine>, label),
    domain_turn_base = const offset_of!(Domain<Machine>, turn_base),
    quick_client = const offset_of!(MachineThread, quick_client),
    reply_code = const offset_of!(MachineThread, reply_code),
    semaphore = const Known::Semaphore as usize,
    count = const offset_of!(Semaphore, count),
    waiters = const offset_of!(Semaphore, waiters),
    badge = const Known::Badge as usize,
    plain = const Known::Plain as usize,
    server = const Known::Server as usize,
    channel_id = const Known::ChannelId as usize,
    channel_index = const Known::ChannelIndex as usize,
    object = const offset_of!(Entry, target),
    template_bytes = const TEMPLATE_BYTES,
    one_core_bytes = const TEMPLATE_BYTES - OWN_BYTES,
    own_bytes = const OWN_BYTES,
    kernel = sym KERNEL,
    owner = const offset_of!(Nucleus, dispatch.owner),
    signature_bytes = const SIGNATURE_BYTES,
    signature = const Known::Signature as usize,
    operations = const receive::OPERATIONS,
    line_shift = const size_of::<Line>().trailing_zeros(),
    line_badge = const offset_of!(Line, badge),
    most = const offset_of!(Line, most),
    chunk = const CHUNK,
    kind = const Entry::KIND,
    kind_channel = const PortalKind::Channel as u8,
    rights = const Entry::RIGHTS,
    may_call = const rights::CALL,
    once = const rights::ONCE,
    channel = const offset_of!(Portal, channel),
    badge_of = const offset_of!(Portal, badge),
    reply_leg = const Constant::ReplyLeg as usize,
    shared_reply = const Constant::SharedReply as usize,
    id = const Known::Id as usize,
    first_exit = const FIRST_EXIT,
    shared_call = const Constant::SharedCall as usize,
    shared_call_stored = const Constant::SharedCallStored as usize,
    settled_reply = const Constant::SettledReply as usize,
    shared_parts = const Constant::SharedParts as usize,
    shared_current = const Constant::SharedCurrent as usize,
    shared_semaphore = const Constant::SharedSemaphore as usize,
    semaphore_passed = const Constant::SemaphorePassed as usize,
    clock = const (current::CLOCK as u64) << 32,
    clock_base = const Constant::ClockBase as usize,
    clock_rate = const Constant::ClockRate as usize,
    clock_shift = const clock::SHIFT,
    selector_p = const Known::SelectorP as usize,
    selector_v = const Known::SelectorV as usize,
    current_above = const Constant::CurrentAbove as usize,
    block = const Constant::Block as usize,
    busy = const Constant::Busy as usize,
    urgent = const TicketLock::URGENT,
    general_entries = const Constant::GeneralEntries as usize,
    call_passed = const Constant::CallPassed as usize,
    passed = const Constant::Passed as usize,
    counted_stored = sym counted_stored,
    counted_passed = sym counted_passed,
    general_passed = sym general_passed,
    entries = const offset_of!(MachineThread, entries),
    links = const offset_of!(PerCpu, links),
    direct = const offset_of!(PerCpu, direct),
    registers = const offset_of!(PerCpu, registers),
    turn_base = const offset_of!(PerCpu, turn_base),
    token = const offset_of!(MachineThread, token),
    parts = const offset_of!(MachineThread, parts),
    thread_plain = const offset_of!(MachineThread, plain),
    rax = const offset_of!(Registers, rax),
    rbx = const offset_of!(Registers, rbx),
    rbp = const offset_of!(Registers, rbp),
    r14 = const offset_of!(Registers, r14),
    r15 = const offset_of!(Registers, r15),
    rip = const offset_of!(Registers, rip),
    rsp = const offset_of!(Registers, rsp),
    user_flags = const USER_FLAGS,
);

const _: () = assert!(NEXT_CALL == 1 << 32 && offset_of!(MachineThread, registers) == 0);
const _: () = assert!(size_of::<Line>().is_power_of_two() && offset_of!(Signature, lines) == 0);
const _: () = assert!(size_of::<Entry>() == 16 && rights::CALL < 1 << 8 && rights::ONCE < 1 << 8);
