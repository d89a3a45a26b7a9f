//! A server that does with its callers whatever chance says.

use crate::common::{fold, fold_token, fold_words, known, weaker, Held, Player, BEGINNING};
use cairn_abi::service::{receive, window};
use cairn_abi::{flag, op, pulse, received, Error};
use cairn_rt::gate::{selector, Gate};
use cairn_rt::window::Window;
use cairn_rt::{Portal, Receiver};
use core::sync::atomic::Ordering::Relaxed;

pub struct Server {
    pub player: Player,
    /// Slot of the receive right.
    pub receive: u32,
    pub held: &'static Held,
    /// Servers that it may call itself.
    pub above: &'static [u32],
    /// Answers messages that begin with [`CONTROL`].
    pub control: fn([u64; 8]) -> [u64; 8],
    pub window: Window,
}

pub fn window() -> Window {
    Window::make(2).expect("a window")
}

/// First word of messages of those who run the game.
pub const CONTROL: u64 = 0x636f_6e74_726f_6c21;
/// Bit of a notification: let go of all who were put off.
pub const RELEASE: u64 = 1 << 60;

const AFTER_REPLY: [u8; 3] = [
    Error::Interrupted as u8,
    Error::TimedOut as u8,
    Error::BadToken as u8,
];

impl Server {
    pub fn run(mut self) -> ! {
        let mut g = self.receive();
        let mut moved = None;
        loop {
            let sent = g;
            // SAFETY: the data of a reply is in this thread's region; a receive writes registers only.
            let _ = unsafe { g.traverse() };
            let error = g.rax as u8;
            let replied = (sent.rax >> 32) as u8 == receive::REPLY_RECEIVE;
            if replied && error != 0 && !AFTER_REPLY.contains(&error) {
                // The reply was refused: nothing was received, and the caller still waits.
                fold(error as u64 | ((g.rbp == sent.rbp) as u64) << 8);
                if let Some(slot) = moved.take() {
                    self.player.keep(slot);
                }
                g = self.plain(receive::REPLY_RECEIVE, sent.rbp);
                continue;
            }
            if error != 0 {
                fold(error as u64);
                g = self.receive();
                continue;
            }
            self.fold_received(&g);
            (g, moved) = match (g.rax >> received::KIND_SHIFT) as u8 {
                received::kind::PULSE => (self.pulse(&g), None),
                _ if g.words[0] == CONTROL => {
                    let words = (self.control)(g.words);
                    let mut answer = self.plain(receive::REPLY_RECEIVE, g.rbp);
                    answer.words = words;
                    if words[7] != 0 {
                        answer.rax |= flag::portals(1);
                    }
                    (answer, None)
                }
                _ => self.message(&g),
            };
        }
    }

    fn fold_received(&mut self, g: &Gate) {
        fold(known((g.rax >> received::SENDER_SHIFT) as u32));
        fold(g.rax as u32 as u64);
        let pulse = (g.rax >> received::KIND_SHIFT) as u8 == received::kind::PULSE;
        if pulse && matches!(g.words[0], pulse::UNBLOCK | pulse::GONE) {
            fold_token(g.words[1]);
            fold_words(&[g.words[0], g.words[2], g.rbx]);
        } else {
            fold_words(&g.words);
            fold_words(&[g.rbx, g.r14, g.r15]);
        }
        fold_token(g.rbp);
    }

    fn gate(&mut self, operation: u8, token: u64) -> Gate {
        Gate {
            rax: selector(self.receive, operation, 0),
            words: self.player.words(),
            rbp: token,
            ..Gate::default()
        }
    }

    fn receive(&mut self) -> Gate {
        let mut g = self.gate(receive::RECEIVE, 0);
        self.waiting(&mut g);
        g
    }

    fn plain(&mut self, operation: u8, token: u64) -> Gate {
        self.gate(operation, token)
    }

    /// How it waits.
    fn waiting(&mut self, g: &mut Gate) {
        match self.player.random.below(40) {
            0 => g.rax |= flag::POLL,
            1..=3 => g.rax |= flag::INTERRUPTIBLE,
            4 => {
                self.player
                    .own(cairn_abi::service::current::DEADLINE, &[u64::MAX / 2]);
            }
            _ => {}
        }
    }

    fn pulse(&mut self, g: &Gate) -> Gate {
        match g.words[0] {
            pulse::NOTIFY if g.words[1] & RELEASE != 0 => {
                while let Some(token) = self.held.take() {
                    self.answer(token, 0);
                }
            }
            pulse::NOTIFY if self.player.random.one_in(2) => {
                if let Some(token) = self.held.take() {
                    let mut g = self.plain(receive::REPLY_RECEIVE, token);
                    self.waiting(&mut g);
                    return g;
                }
            }
            pulse::UNBLOCK if self.player.random.one_in(2) && self.held.forget(g.words[1]) => {
                self.answer(g.words[1], 0);
            }
            pulse::GONE => fold(self.held.forget(g.words[1]) as u64),
            _ => {}
        }
        self.receive()
    }

    /// Reply and go on. `room`: how much the caller takes, if that is known.
    fn answer(&mut self, token: u64, room: u64) {
        let mut g = self.plain(receive::REPLY, token);
        let moved = self.extras(&mut g, room);
        // SAFETY: data is in this thread's region.
        let _ = unsafe { g.traverse() };
        fold(g.rax as u8 as u64);
        fold_token(g.rbp);
        let error = g.rax as u8;
        if error != 0 {
            if let Some(slot) = moved {
                self.player.keep(slot);
            }
        }
        if error != 0 && error != Error::BadToken as u8 {
            let mut g = self.plain(receive::REPLY, token);
            // SAFETY: a reply of words touches no memory.
            let _ = unsafe { g.traverse() };
            fold_words(&g.words);
            fold(g.rax as u8 as u64);
        }
    }

    /// Data and portals for a reply. The gift that leaves this table if all goes well.
    fn extras(&mut self, g: &mut Gate, room: u64) -> Option<u32> {
        match self.player.random.below(20) {
            0..=9 => None,
            10..=14 => {
                self.data(g, room);
                None
            }
            15 | 16 => {
                g.rax |= flag::MINT | flag::portals(1);
                None
            }
            17 => {
                g.rax |= flag::MINT | flag::portals(1 + self.player.random.below(4));
                self.data(g, room);
                None
            }
            18 => self.player.pass(g),
            _ => {
                g.rax |= [flag::MINT, flag::OUT_VECTOR, flag::IN_VECTOR | flag::PARTS]
                    [self.player.random.below(3) as usize];
                None
            }
        }
    }

    fn data(&mut self, g: &mut Gate, room: u64) {
        g.rax |= flag::PARTS;
        g.r14 = self.player.out();
        let random = &mut self.player.random;
        g.r15 = match random.below(12) {
            0 => room,
            1 => room + 1,
            2 => random.length(),
            _ => random.length().min(room),
        };
        g.rbx = match random.below(6) {
            0 => random.below(room + 2),
            _ => 0,
        };
        if random.one_in(60) {
            g.r14 = 64;
        }
    }

    fn message(&mut self, g: &Gate) -> (Gate, Option<u32>) {
        let token = g.rbp;
        let (out, room) = (g.r15 & u32::MAX as u64, g.r15 >> 32);
        self.player.arrived(g);
        if out != 0 && self.player.random.one_in(2) {
            self.read(token, out);
        }
        match self.player.random.below(24) {
            0 | 1 => self.write(token, room),
            2..=4 => self.look_at(token),
            5..=8 if !self.above.is_empty() => {
                let at = self.player.random.below(self.above.len() as u64) as usize;
                self.player.call(self.above[at]);
            }
            9 => {
                if let Some(gift) = self.player.take_gift() {
                    let bits = self.player.random.next() & !RELEASE;
                    self.player.service(gift, op::NOTIFY, &[bits]);
                    self.player.keep(gift);
                }
            }
            10 => {
                if let Some(gift) = self.player.take_gift() {
                    self.player.drop_gift(gift);
                }
            }
            11 => {
                let at = self.player.random.below(5) as usize;
                let slot = self.player.gifts[at];
                weaker(&mut self.player, slot);
            }
            12 => {
                // Not that one.
                let wrong = self.player.random.below(6);
                let wrong =
                    token.wrapping_sub([1 << 32, 1, 1 << 20, 5 << 32, token, 7][wrong as usize]);
                let mut g = self.plain(receive::REPLY_RECEIVE, wrong);
                // SAFETY: no data.
                let _ = unsafe { g.traverse() };
                fold(g.rax as u8 as u64 | ((g.rbp == wrong) as u64) << 8);
            }
            13 if self.player.random.one_in(8) => self.player.sign(self.receive),
            14..=16 => self.show(token),
            _ => {}
        }
        match self.player.random.below(20) {
            0 | 1 => {
                self.answer(token, room);
                (self.receive(), None)
            }
            2..=4 if self.held.put(token) => (self.receive(), None),
            5 => {
                self.answer(token, room);
                while let Some(token) = self.held.take() {
                    self.answer(token, 0);
                }
                (self.receive(), None)
            }
            6 | 7 => {
                let other = self.held.take().unwrap_or(token);
                if other != token && !self.held.put(token) {
                    self.answer(token, room);
                }
                self.reply(other, 0)
            }
            _ => self.reply(token, room),
        }
    }

    fn reply(&mut self, token: u64, room: u64) -> (Gate, Option<u32>) {
        let mut g = self.plain(receive::REPLY_RECEIVE, token);
        let moved = self.extras(&mut g, room);
        self.waiting(&mut g);
        (g, moved)
    }

    fn read(&mut self, token: u64, out: u64) {
        let address = self.player.scratch();
        let offset = match self.player.random.below(3) {
            0 => self.player.random.below(out.min(30_000) + 2),
            _ => 0,
        };
        let length = self.player.random.length();
        let words = [token, offset, address, length];
        let count = self.player.service(self.receive, receive::READ, &words);
        self.player.fold_bytes(address, count.min(length));
    }

    fn write(&mut self, token: u64, room: u64) {
        let address = self.player.out();
        let offset = self.player.random.below(room.min(30_000) + 2);
        let length = self.player.random.length();
        let words = [token, offset, address, length];
        self.player.service(self.receive, receive::WRITE, &words);
    }

    /// Look at the caller's pages where they are, or write there. The window stays open, or does not.
    fn show(&mut self, token: u64) {
        let random = &mut self.player.random;
        let flags = random.below(8) & !(random.below(2) * window::KEEP);
        let (offset, pages) = (random.below(3) * 4096, 1 + random.below(2));
        let channel = Receiver(Portal(self.receive));
        match self.window.open(channel, token, offset, pages, flags) {
            Ok(words) => {
                let at = random.below(BEGINNING / 8) as usize;
                if flags & (window::IN | window::COPY) != 0 {
                    words[at].store(random.next(), Relaxed);
                }
                fold_words(&[words.len() as u64, words[at].load(Relaxed)]);
            }
            Err(error) => fold(error as u64),
        }
        if random.one_in(2) {
            self.window.close();
        }
        fold(self.window.is_open() as u64);
    }

    fn look_at(&mut self, token: u64) {
        let portal = Portal(self.receive);
        match portal.service(receive::CALLER, &[token]) {
            Ok(w) => fold_words(&[known(w[0] as u32), known(w[1] as u32), w[2], w[3], w[4]]),
            Err(error) => fold(error as u64),
        }
    }
}
