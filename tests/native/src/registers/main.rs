//! Registers of one's own: floating-point and vector registers and FS and GS bases. Servers (`role=peer`, and `role=files` for Linux programs) find at every request what they left there and leave
//! something else; a client with registers of its own (`role=client`) finds after every call what it had before. Another without (without.rs) leaves them
//! alone. Both also ask for sums of a server that the compiler lets compute in vector registers. Whoever finds something else than its own panics; a client
//! says `done` when all was right.
#![no_std]
#![no_main]

extern crate alloc;

mod client;

use cairn_abi::layout::native_slot;
use cairn_abi::received;
use cairn_idl::fs::s;
use cairn_resmgr::server::Answer;
use cairn_resmgr::{event, Context, Data, Failure, Handle, Manager, Meta, Native};
use cairn_rt::{log, startup, Portal, Received, Receiver, Reply};
use client::client;

cairn_rt::entry!(main);

/// What FXSAVE stores, and the bases.
#[repr(C, align(16))]
#[derive(Clone, Copy)]
struct State {
    image: [u64; 64],
    bases: [u64; 2],
}

impl State {
    /// Of a new thread: x87's control word and MXCSR (with the mask of its bits, which FXSAVE stores beside it) as after a reset, no bases.
    const NEW: State = {
        let mut image = [0; 64];
        image[0] = 0x37f;
        image[3] = 0x1f80;
        State {
            image,
            bases: [0; 2],
        }
    };

    /// Any that can be loaded: eight numbers of x87, MXCSR's rounding, XMM0 to XMM15, user addresses.
    fn chance(chance: &mut Chance) -> State {
        let mut state = State::NEW;
        state.image[0] |= 0xff << 32;
        state.image[3] |= (chance.next() & 3) << 13;
        for number in state.image[4..20].as_chunks_mut().0 {
            *number = [chance.next() | 1 << 63, 0x3fff];
        }
        state.image[20..52].fill_with(|| chance.next());
        state.bases = [chance.next() >> 17, chance.next() >> 17];
        state
    }

    /// What must be as it was left: control and state words and tags, MXCSR, the registers, the bases.
    fn is(&self, other: &State) -> bool {
        let seen = |s: &State| (s.image[0] & 0xff_ffff_ffff, s.image[3] as u32, s.bases);
        seen(self) == seen(other) && self.image[4..52] == other.image[4..52]
    }

    /// Load this; what was there before.
    fn swap(&self) -> State {
        let mut before = State::NEW;
        // SAFETY: both are aligned, and what is loaded has no bits that must not be set. This program is compiled without these registers and has no memory behind FS and GS.
        unsafe {
            core::arch::asm!(
                "fxsave64 [{before}]",
                "fxrstor64 [{next}]",
                "rdfsbase {fs}",
                "rdgsbase {gs}",
                "wrfsbase {next_fs}",
                "wrgsbase {next_gs}",
                before = in(reg) &mut before.image,
                next = in(reg) &self.image,
                next_fs = in(reg) self.bases[0],
                next_gs = in(reg) self.bases[1],
                fs = out(reg) before.bases[0],
                gs = out(reg) before.bases[1],
            );
        }
        before
    }
}

/// xorshift64 (Marsaglia 2003).
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// Registers that this thread left, and will find.
struct Mine {
    left: State,
    chance: Chance,
}

impl Mine {
    /// Nobody's before.
    fn new(seed: u64) -> Mine {
        Mine {
            left: State::NEW,
            chance: Chance(seed),
        }
    }

    /// They are as they were left; now others.
    fn turn(&mut self) {
        let next = State::chance(&mut self.chance);
        let found = next.swap();
        assert!(found.is(&self.left), "registers of somebody else's");
        self.left = next;
    }
}

fn main() -> ! {
    match startup::argument("role") {
        Some("peer") => peer(),
        Some("files") => event::serve(
            &mut Manager::new(b"/registers"),
            &mut Turns(Mine::new(3)),
            &mut Native::new(),
        ),
        Some("client") => {
            let mut mine = Mine::new(4);
            client(|| mine.turn());
        }
        _ => panic!("no role"),
    }
    log!("done");
    cairn_rt::start::exit(0)
}

fn peer() -> ! {
    let receiver = Receiver(Portal(native_slot::RECEIVE));
    let mut mine = Mine::new(5);
    let mut message = receiver.receive(None);
    loop {
        message = match message {
            Ok(Received {
                kind: received::kind::MESSAGE,
                token,
                words,
                ..
            }) => {
                mine.turn();
                receiver.reply_receive(token, Reply::new(&[words[0] + 1]), None)
            }
            _ => receiver.receive(None),
        }
    }
}

/// A folder with one file, `turn`; all that is done there is a turn.
struct Turns(Mine);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Node {
    Root,
    Turn,
}

impl cairn_resmgr::Server for Turns {
    type Node = Node;
    type State = ();

    fn root(&mut self, _: u64) -> Node {
        Node::Root
    }

    fn meta(&mut self, node: Node) -> Answer<Meta> {
        self.0.turn();
        let (mode, ino) = match node {
            Node::Root => (s::IFDIR | 0o755, 1),
            Node::Turn => (s::IFREG | 0o644, 2),
        };
        Ok(Meta {
            mode,
            ino,
            ..Meta::default()
        })
    }

    fn lookup(&mut self, _: &mut Context, _: Node, name: &[u8]) -> Answer<Node> {
        self.0.turn();
        match name {
            b"turn" => Ok(Node::Turn),
            _ => Err(Failure::Errno(cairn_idl::errno::ENOENT)),
        }
    }

    fn read<'a>(
        &'a mut self,
        _: &mut Context,
        _: &'a mut Handle<Self>,
        _: u64,
        _: usize,
    ) -> Answer<Data<'a>> {
        self.0.turn();
        Ok([][..].into())
    }

    fn write(
        &mut self,
        _: &mut Context,
        _: &mut Handle<Self>,
        _: u64,
        length: usize,
    ) -> Answer<usize> {
        self.0.turn();
        Ok(length)
    }
}
