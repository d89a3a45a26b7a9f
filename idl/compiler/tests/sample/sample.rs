/// Every construct of the language, for the compiler's tests.
#[allow(clippy::too_many_arguments)]
pub mod sample {
    /// As written and as computed.
    pub const TEXT_MAX: usize = 200;
    pub const MODE: u32 = 0o644;
    pub const MASK: u64 = 6;
    pub const PAGE_AFTER: u64 = 4112;
    pub const BELOW: i64 = -3;
    pub const BADGE_KEEPER: u64 = 7;

    /// Bits.
    pub mod marks {
        pub const BOLD: u64 = 1;
        pub const ITALIC: u64 = 2;
        pub const BLINKING: u64 = 0x8000_0000_0000_0000;
    }

    pub mod small {
        pub const ONE: u32 = 1;
        pub const TWO: u32 = 2;
    }

    /// One of them.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    #[repr(u64)]
    pub enum Colour {
        Red = 0,
        /// Between.
        DarkGreen = 5,
        Blue = 18446744073709551615,
    }

    impl Colour {
        /// As it travels in a word.
        pub const fn word(self) -> u64 {
            self as u64
        }

        /// `None` for a word that means none of them.
        pub const fn from_word(word: u64) -> Option<Colour> {
            match word {
                0 => Some(Colour::Red),
                5 => Some(Colour::DarkGreen),
                18446744073709551615 => Some(Colour::Blue),
                _ => None,
            }
        }
    }

    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    #[repr(C)]
    pub struct Point {
        pub x: i32,
        pub y: i32,
    }

    impl Point {
        /// Bytes that it has in a part.
        pub const BYTES: usize = 8;

        /// As it travels, little-endian.
        pub fn to_bytes(&self) -> [u8; Self::BYTES] {
            let mut bytes = [0; Self::BYTES];
            ::cairn_idl::wire::put(&mut bytes, 0, &self.x.to_le_bytes());
            ::cairn_idl::wire::put(&mut bytes, 4, &self.y.to_le_bytes());
            bytes
        }

        /// From what arrived. Every pattern of bytes is some value.
        pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> Point {
            Point {
                x: i32::from_le_bytes(::cairn_idl::wire::take(bytes, 0)),
                y: i32::from_le_bytes(::cairn_idl::wire::take(bytes, 4)),
            }
        }
    }
    const _: () = assert!(::core::mem::size_of::<Point>() == Point::BYTES);

    /// Nested, with arrays in arrays.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[repr(C)]
    pub struct Shape {
        pub corners: [[Point; 2]; 3],
        pub name: [u8; 40],
        pub weights: [u16; 4],
        pub best: u64,
    }

    impl Shape {
        /// Bytes that it has in a part.
        pub const BYTES: usize = 104;

        /// As it travels, little-endian.
        pub fn to_bytes(&self) -> [u8; Self::BYTES] {
            let mut bytes = [0; Self::BYTES];
            for (i3, each3) in self.corners.iter().enumerate() {
                for (i4, each4) in each3.iter().enumerate() {
                    ::cairn_idl::wire::put(&mut bytes, i3 * ::core::mem::size_of::<[Point; 2]>() + i4 * ::core::mem::size_of::<Point>(), &each4.to_bytes());
                }
            }
            ::cairn_idl::wire::put(&mut bytes, 48, &self.name);
            for (i3, each3) in self.weights.iter().enumerate() {
                ::cairn_idl::wire::put(&mut bytes, 88 + i3 * ::core::mem::size_of::<u16>(), &each3.to_le_bytes());
            }
            ::cairn_idl::wire::put(&mut bytes, 96, &self.best.to_le_bytes());
            bytes
        }

        /// From what arrived. Every pattern of bytes is some value.
        pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> Shape {
            Shape {
                corners: ::core::array::from_fn(|i| { let at = i * ::core::mem::size_of::<[Point; 2]>(); ::core::array::from_fn(|i| { let at = at + i * ::core::mem::size_of::<Point>(); Point::from_bytes(&::cairn_idl::wire::take(bytes, at)) }) }),
                name: ::cairn_idl::wire::take(bytes, 48),
                weights: ::core::array::from_fn(|i| { let at = 88 + i * ::core::mem::size_of::<u16>(); u16::from_le_bytes(::cairn_idl::wire::take(bytes, at)) }),
                best: u64::from_le_bytes(::cairn_idl::wire::take(bytes, 96)),
            }
        }
    }
    const _: () = assert!(::core::mem::size_of::<Shape>() == Shape::BYTES);
    /// Every type of a word.
    ///
    /// `(w1 a: u8, w2 b: u16, w3 c: u32, w4 d: u64, w5 e: i32, w6 f: i64, w7 g: bool) -> (w0 sum: u64, w1 e_again: i32, w2 f_again: i64, w3 small_bits: small, w4 right: bool, w7 tint: colour)`
    pub const COUNT: u64 = 1;
    /// Both parts, and a length.
    ///
    /// `(w1 marks: marks, out text ≤ 200, in copy ≤ 400) -> (w0 length of copy, w1 sum: u8)`
    pub const ECHO: u64 = 2;
    /// Structures both ways.
    ///
    /// `(w2 by: i8, out Shape (104), in Shape (104)) -> (w1 corners: u8)`
    pub const MOVE_SHAPE: u64 = 3;
    ///
    /// `(out text (first 10)) -> (w0 taken: u32)`
    pub const FIRST_TEN: u64 = 4;
    /// A portal each way; needs the keeper's badge.
    ///
    /// `(w1 note: u64, w7 given: portal moved) -> (w7 got: portal minted)`
    pub const TRADE: u64 = 5;
    ///
    /// `(w7 lent: portal optional once not further) -> (w6 one: portal, w7 other: portal)`
    pub const LEND: u64 = 6;
    ///
    /// `(w1 tint: colour, in text ≤ 16) -> (w0 length of text)`
    pub const WAIT_FOR: u64 = 7;
    /// A portal beside a word that may mean nothing.
    ///
    /// `() -> (w1 tint: colour, w7 one: portal moved)`
    pub const ASK_ONE: u64 = 8;
    /// Pieces both ways; one way, beside a structure; of more bytes than count.
    ///
    /// `(w1 by: u8, out threads ≤ 200 pieces 4, in cloth ≤ 300 pieces 3) -> (w0 length of cloth, w1 sum: u8)`
    pub const WEAVE: u64 = 9;
    ///
    /// `(out Point (8), in bits ≤ 100 pieces 2) -> (w0 length of bits)`
    pub const GATHER: u64 = 10;
    ///
    /// `(out text (first 10) pieces 64) -> (w0 taken: u32)`
    pub const SPREAD: u64 = 11;
    /// Seen in place of copied: for the call; kept.
    ///
    /// `(out picture ≤ 65536 shown, in negative ≤ 65536 shown) -> (w0 length of negative, w1 sum: u64)`
    pub const LOOK: u64 = 12;
    ///
    /// `(w1 until: u64, out picture ≤ 8192 shown kept)`
    pub const STUDY: u64 = 13;
    /// Pages that change hands.
    ///
    /// `(w7 given: pages ≤ 16384) -> (w1 most: u64)`
    pub const GIVE: u64 = 14;
    ///
    /// `() -> (w7 back: pages ≤ 4096 moved)`
    pub const TAKE_BACK: u64 = 15;
    /// A portal of the client's to this server; the server sees its badge.
    ///
    /// `(w1 by: u8, w2 marks: marks, w7 at: badge) -> (w1 badge: u64)`
    pub const POINT_AT: u64 = 16;
    ///
    /// `()`
    pub const NOTHING: u64 = 128;

    /// What [`COUNT`] answers.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct CountAnswer {
        pub sum: u64,
        pub e_again: i32,
        pub f_again: i64,
        pub small_bits: u32,
        pub right: bool,
        pub tint: Colour,
    }

    /// What [`MOVE_SHAPE`] answers.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct MoveShapeAnswer {
        pub corners: u8,
        pub moved: Shape,
    }

    /// What [`LEND`] answers.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct LendAnswer {
        pub one: ::cairn_idl::wire::Given,
        pub other: ::cairn_idl::wire::Given,
    }

    /// What [`ASK_ONE`] answers.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct AskOneAnswer {
        pub tint: Colour,
        pub one: ::cairn_idl::wire::Given,
    }

    /// The client's side: calls through the portal that it holds.
    #[derive(Clone, Copy, Debug)]
    pub struct Client<'t, T: ?Sized>(pub &'t T);

    impl<T: ::cairn_idl::wire::Transport + ?Sized> Client<'_, T> {
        /// Every type of a word.
        #[inline]
        pub fn count(&self, a: u8, b: u16, c: u32, d: u64, e: i32, f: i64, g: bool) -> Result<CountAnswer, ::cairn_idl::wire::Failure> {
            let words = ::cairn_idl::wire::call(self.0, ::cairn_idl::wire::Message {
                words: [COUNT, u64::from(a), u64::from(b), u64::from(c), d, i64::from(e) as u64, f as u64, u64::from(g)],
                out: &[],
                input: &mut [],
                portals: 0,
                flags: 0,
            }, 0)?;
            let answer = || Some(CountAnswer { sum: words[0], e_again: i32::try_from(words[1] as i64).ok()?, f_again: words[2] as i64, small_bits: u32::try_from(words[3]).ok()?, right: ::cairn_idl::wire::truth(words[4])?, tint: Colour::from_word(words[7])? });
            ::cairn_idl::wire::or_close(self.0, words, 0, answer())
        }

        /// Both parts, and a length.
        #[inline]
        pub fn echo(&self, marks: u64, text: &[u8], copy: &mut [u8]) -> Result<(u8, usize), ::cairn_idl::wire::Failure> {
            let room = copy.len();
            let words = ::cairn_idl::wire::call(self.0, ::cairn_idl::wire::Message {
                words: [ECHO, marks, 0, 0, 0, 0, 0, 0],
                out: text,
                input: copy,
                portals: 0,
                flags: 0,
            }, 0)?;
            let answer = || Some((u8::try_from(words[1]).ok()?, ::cairn_idl::wire::length(words[0], room)?));
            ::cairn_idl::wire::or_close(self.0, words, 0, answer())
        }

        /// Structures both ways.
        #[inline]
        pub fn move_shape(&self, by: i8, shape: &Shape) -> Result<MoveShapeAnswer, ::cairn_idl::wire::Failure> {
            let mut bytes = [0; Shape::BYTES];
            let words = ::cairn_idl::wire::call(self.0, ::cairn_idl::wire::Message {
                words: [MOVE_SHAPE, 0, i64::from(by) as u64, 0, 0, 0, 0, 0],
                out: &shape.to_bytes(),
                input: &mut bytes,
                portals: 0,
                flags: 0,
            }, 0)?;
            let answer = || Some(MoveShapeAnswer { corners: u8::try_from(words[1]).ok()?, moved: Shape::from_bytes(&bytes) });
            ::cairn_idl::wire::or_close(self.0, words, 0, answer())
        }

        #[inline]
        pub fn first_ten(&self, text: &[u8]) -> Result<u32, ::cairn_idl::wire::Failure> {
            let words = ::cairn_idl::wire::call(self.0, ::cairn_idl::wire::Message {
                words: [FIRST_TEN, 0, 0, 0, 0, 0, 0, 0],
                out: text,
                input: &mut [],
                portals: 0,
                flags: 0,
            }, 0)?;
            ::cairn_idl::wire::or_close(self.0, words, 0, u32::try_from(words[0]).ok())
        }

        /// A portal each way; needs the keeper's badge.
        #[inline]
        pub fn trade(&self, note: u64, given: u32) -> Result<::cairn_idl::wire::Given, ::cairn_idl::wire::Failure> {
            let words = ::cairn_idl::wire::call(self.0, ::cairn_idl::wire::Message {
                words: [TRADE, note, 0, 0, 0, 0, 0, u64::from(given)],
                out: &[],
                input: &mut [],
                portals: 1,
                flags: ::cairn_idl::wire::MOVE,
            }, 1)?;
            Ok(::cairn_idl::wire::Given(words[7]))
        }

        #[inline]
        pub fn lend(&self, lent: Option<u32>) -> Result<LendAnswer, ::cairn_idl::wire::Failure> {
            let words = ::cairn_idl::wire::call(self.0, ::cairn_idl::wire::Message {
                words: [LEND, 0, 0, 0, 0, 0, 0, lent.map_or(0, u64::from)],
                out: &[],
                input: &mut [],
                portals: u64::from(lent.is_some()),
                flags: ::cairn_idl::wire::PASS_ONCE | ::cairn_idl::wire::NOT_FURTHER,
            }, 2)?;
            Ok(LendAnswer { one: ::cairn_idl::wire::Given(words[6]), other: ::cairn_idl::wire::Given(words[7]) })
        }

        #[inline]
        pub fn wait_for(&self, tint: Colour, text: &mut [u8]) -> Result<usize, ::cairn_idl::wire::Failure> {
            let room = text.len();
            let words = ::cairn_idl::wire::call(self.0, ::cairn_idl::wire::Message {
                words: [WAIT_FOR, tint.word(), 0, 0, 0, 0, 0, 0],
                out: &[],
                input: text,
                portals: 0,
                flags: ::cairn_idl::wire::INTERRUPTIBLE,
            }, 0)?;
            ::cairn_idl::wire::or_close(self.0, words, 0, ::cairn_idl::wire::length(words[0], room))
        }

        /// A portal beside a word that may mean nothing.
        #[inline]
        pub fn ask_one(&self) -> Result<AskOneAnswer, ::cairn_idl::wire::Failure> {
            let words = ::cairn_idl::wire::call(self.0, ::cairn_idl::wire::Message {
                words: [ASK_ONE, 0, 0, 0, 0, 0, 0, 0],
                out: &[],
                input: &mut [],
                portals: 0,
                flags: 0,
            }, 1)?;
            let answer = || Some(AskOneAnswer { tint: Colour::from_word(words[1])?, one: ::cairn_idl::wire::Given(words[7]) });
            ::cairn_idl::wire::or_close(self.0, words, 1, answer())
        }

        /// Pieces both ways; one way, beside a structure; of more bytes than count.
        #[inline]
        pub fn weave(&self, by: u8, threads: &[&[u8]], cloth: &mut [&mut [u8]]) -> Result<(u8, usize), ::cairn_idl::wire::Failure> {
            ::cairn_idl::wire::at_most(threads.len(), 4)?;
            ::cairn_idl::wire::at_most(cloth.len(), 3)?;
            let room = ::cairn_idl::wire::room(cloth);
            let words = ::cairn_idl::wire::call_pieces(self.0, ::cairn_idl::wire::Message {
                words: [WEAVE, u64::from(by), 0, 0, 0, 0, 0, 0],
                portals: 0,
                flags: 0,
                ..::cairn_idl::wire::Message::default()
            }, threads, cloth, 0)?;
            let answer = || Some((u8::try_from(words[1]).ok()?, ::cairn_idl::wire::length(words[0], room)?));
            ::cairn_idl::wire::or_close(self.0, words, 0, answer())
        }

        #[inline]
        pub fn gather(&self, point: &Point, bits: &mut [&mut [u8]]) -> Result<usize, ::cairn_idl::wire::Failure> {
            ::cairn_idl::wire::at_most(bits.len(), 2)?;
            let room = ::cairn_idl::wire::room(bits);
            let words = ::cairn_idl::wire::call_pieces(self.0, ::cairn_idl::wire::Message {
                words: [GATHER, 0, 0, 0, 0, 0, 0, 0],
                portals: 0,
                flags: 0,
                ..::cairn_idl::wire::Message::default()
            }, &[&point.to_bytes()[..]], bits, 0)?;
            ::cairn_idl::wire::or_close(self.0, words, 0, ::cairn_idl::wire::length(words[0], room))
        }

        #[inline]
        pub fn spread(&self, text: &[&[u8]]) -> Result<u32, ::cairn_idl::wire::Failure> {
            ::cairn_idl::wire::at_most(text.len(), 64)?;
            let words = ::cairn_idl::wire::call_pieces(self.0, ::cairn_idl::wire::Message {
                words: [SPREAD, 0, 0, 0, 0, 0, 0, 0],
                portals: 0,
                flags: 0,
                ..::cairn_idl::wire::Message::default()
            }, text, &mut [], 0)?;
            ::cairn_idl::wire::or_close(self.0, words, 0, u32::try_from(words[0]).ok())
        }

        /// Seen in place of copied: for the call; kept.
        #[inline]
        pub fn look(&self, picture: &[u8], negative: &mut [u8]) -> Result<(u64, usize), ::cairn_idl::wire::Failure> {
            let room = negative.len();
            let words = ::cairn_idl::wire::call(self.0, ::cairn_idl::wire::Message {
                words: [LOOK, 0, 0, 0, 0, 0, 0, 0],
                out: picture,
                input: negative,
                portals: 0,
                flags: ::cairn_idl::wire::WINDOWS,
            }, 0)?;
            let answer = || Some((words[1], ::cairn_idl::wire::length(words[0], room)?));
            ::cairn_idl::wire::or_close(self.0, words, 0, answer())
        }

        #[inline]
        pub fn study(&self, until: u64, picture: &[u8]) -> Result<(), ::cairn_idl::wire::Failure> {
            let _ = ::cairn_idl::wire::call(self.0, ::cairn_idl::wire::Message {
                words: [STUDY, until, 0, 0, 0, 0, 0, 0],
                out: picture,
                input: &mut [],
                portals: 0,
                flags: ::cairn_idl::wire::INTERRUPTIBLE | ::cairn_idl::wire::WINDOWS | ::cairn_idl::wire::KEEP,
            }, 0)?;
            Ok(())
        }

        /// Pages that change hands.
        #[inline]
        pub fn give(&self, given: u32) -> Result<u64, ::cairn_idl::wire::Failure> {
            let words = ::cairn_idl::wire::call(self.0, ::cairn_idl::wire::Message {
                words: [GIVE, 0, 0, 0, 0, 0, 0, u64::from(given)],
                out: &[],
                input: &mut [],
                portals: 1,
                flags: 0,
            }, 0)?;
            Ok(words[1])
        }

        #[inline]
        pub fn take_back(&self) -> Result<::cairn_idl::wire::Given, ::cairn_idl::wire::Failure> {
            let words = ::cairn_idl::wire::call(self.0, ::cairn_idl::wire::Message {
                words: [TAKE_BACK, 0, 0, 0, 0, 0, 0, 0],
                out: &[],
                input: &mut [],
                portals: 0,
                flags: 0,
            }, 1)?;
            Ok(::cairn_idl::wire::Given(words[7]))
        }

        /// A portal of the client's to this server; the server sees its badge.
        #[inline]
        pub fn point_at(&self, by: u8, marks: u64, at: u32) -> Result<u64, ::cairn_idl::wire::Failure> {
            let words = ::cairn_idl::wire::call(self.0, ::cairn_idl::wire::Message {
                words: [POINT_AT, u64::from(by), marks, 0, 0, 0, 0, u64::from(at)],
                out: &[],
                input: &mut [],
                portals: 0,
                flags: 0,
            }, 0)?;
            Ok(words[1])
        }

        #[inline]
        pub fn nothing(&self) -> Result<(), ::cairn_idl::wire::Failure> {
            let _ = ::cairn_idl::wire::call(self.0, ::cairn_idl::wire::Message {
                words: [NOTHING, 0, 0, 0, 0, 0, 0, 0],
                out: &[],
                input: &mut [],
                portals: 0,
                flags: 0,
            }, 0)?;
            Ok(())
        }
    }

    /// The server's side. A method gets what was checked: numbers in their ranges, flags that are defined, parts within their bounds, as many portals as belong to the operation.
    /// A portal that arrived is the server's own if the method succeeds, and closed otherwise.
    pub trait Server {
        /// Every type of a word.
        fn count<C: ::cairn_idl::wire::Caller>(&mut self, caller: &C, a: u8, b: u16, c: u32, d: u64, e: i32, f: i64, g: bool) -> Result<CountAnswer, ::cairn_idl::wire::Errno>;

        /// Both parts, and a length.
        fn echo<C: ::cairn_idl::wire::Caller>(&mut self, caller: &C, marks: u64, text: ::cairn_idl::wire::Out<'_, C>, copy_room: usize) -> Result<(u8, &[u8]), ::cairn_idl::wire::Errno>;

        /// Structures both ways.
        fn move_shape<C: ::cairn_idl::wire::Caller>(&mut self, caller: &C, by: i8, shape: Shape) -> Result<MoveShapeAnswer, ::cairn_idl::wire::Errno>;

        fn first_ten<C: ::cairn_idl::wire::Caller>(&mut self, caller: &C, text: ::cairn_idl::wire::Out<'_, C>) -> Result<u32, ::cairn_idl::wire::Errno>;

        /// A portal each way; needs the keeper's badge.
        fn trade<C: ::cairn_idl::wire::Caller>(&mut self, caller: &C, note: u64, given: u32) -> Result<::cairn_idl::wire::Given, ::cairn_idl::wire::Errno>;

        fn lend<C: ::cairn_idl::wire::Caller>(&mut self, caller: &C, lent: Option<u32>) -> Result<LendAnswer, ::cairn_idl::wire::Errno>;

        fn wait_for<C: ::cairn_idl::wire::Caller>(&mut self, caller: &C, tint: Colour, text_room: usize) -> Result<Option<&[u8]>, ::cairn_idl::wire::Errno>;

        /// A portal beside a word that may mean nothing.
        fn ask_one<C: ::cairn_idl::wire::Caller>(&mut self, caller: &C) -> Result<AskOneAnswer, ::cairn_idl::wire::Errno>;

        /// Pieces both ways; one way, beside a structure; of more bytes than count.
        fn weave<C: ::cairn_idl::wire::Caller>(&mut self, caller: &C, by: u8, threads: ::cairn_idl::wire::Out<'_, C>, cloth_room: usize) -> Result<(u8, [&[u8]; 3]), ::cairn_idl::wire::Errno>;

        fn gather<C: ::cairn_idl::wire::Caller>(&mut self, caller: &C, point: Point, bits_room: usize) -> Result<[&[u8]; 2], ::cairn_idl::wire::Errno>;

        fn spread<C: ::cairn_idl::wire::Caller>(&mut self, caller: &C, text: ::cairn_idl::wire::Out<'_, C>) -> Result<u32, ::cairn_idl::wire::Errno>;

        /// Seen in place of copied: for the call; kept.
        fn look<C: ::cairn_idl::wire::Caller>(&mut self, caller: &C, picture: ::cairn_idl::wire::Out<'_, C>, negative_room: ::cairn_idl::wire::Room<'_, C>) -> Result<(u64, ::cairn_idl::wire::Filled<'_>), ::cairn_idl::wire::Errno>;

        fn study<C: ::cairn_idl::wire::Caller>(&mut self, caller: &C, until: u64, picture: ::cairn_idl::wire::Out<'_, C>) -> Result<(), ::cairn_idl::wire::Errno>;

        /// Pages that change hands.
        fn give<C: ::cairn_idl::wire::Caller>(&mut self, caller: &C, given: ::cairn_idl::wire::Pages) -> Result<u64, ::cairn_idl::wire::Errno>;

        fn take_back<C: ::cairn_idl::wire::Caller>(&mut self, caller: &C) -> Result<::cairn_idl::wire::Given, ::cairn_idl::wire::Errno>;

        /// A portal of the client's to this server; the server sees its badge.
        fn point_at<C: ::cairn_idl::wire::Caller>(&mut self, caller: &C, by: u8, marks: u64, at: u64) -> Result<u64, ::cairn_idl::wire::Errno>;

        fn nothing<C: ::cairn_idl::wire::Caller>(&mut self, caller: &C) -> Result<(), ::cairn_idl::wire::Errno>;
    }

    /// The answer to [`COUNT`] as it travels.
    #[inline]
    pub fn count_reply(answer: Result<CountAnswer, ::cairn_idl::wire::Errno>) -> ::cairn_idl::wire::Reply<'static> {
        match answer {
            Ok(answer) => ::cairn_idl::wire::Reply {
                words: [::cairn_idl::wire::result(answer.sum), i64::from(answer.e_again) as u64, answer.f_again as u64, u64::from(answer.small_bits), u64::from(answer.right), 0, 0, answer.tint.word()],
                data: &[],
                portals: 0,
                flags: 0,
            },
            Err(errno) => ::cairn_idl::wire::Reply::error(::cairn_idl::wire::refusal(&SIGNATURES[0], errno)),
        }
    }

    /// The answer to [`ECHO`] as it travels.
    #[inline]
    pub fn echo_reply<'s>(answer: Result<(u8, &'s [u8]), ::cairn_idl::wire::Errno>) -> ::cairn_idl::wire::Reply<'s> {
        match answer {
            Ok((answer, bytes)) => ::cairn_idl::wire::Reply {
                words: [bytes.len() as u64, u64::from(answer), 0, 0, 0, 0, 0, 0],
                data: bytes,
                portals: 0,
                flags: 0,
            },
            Err(errno) => ::cairn_idl::wire::Reply::error(::cairn_idl::wire::refusal(&SIGNATURES[1], errno)),
        }
    }

    /// The answer to [`MOVE_SHAPE`] as it travels.
    #[inline]
    pub fn move_shape_reply(answer: Result<MoveShapeAnswer, ::cairn_idl::wire::Errno>) -> ::cairn_idl::wire::Reply<'static> {
        match answer {
            Ok(answer) => ::cairn_idl::wire::Reply {
                words: [0, u64::from(answer.corners), 0, 0, 0, 0, 0, 0],
                data: &[],
                portals: 0,
                flags: 0,
            },
            Err(errno) => ::cairn_idl::wire::Reply::error(::cairn_idl::wire::refusal(&SIGNATURES[2], errno)),
        }
    }

    /// The answer to [`FIRST_TEN`] as it travels.
    #[inline]
    pub fn first_ten_reply(answer: Result<u32, ::cairn_idl::wire::Errno>) -> ::cairn_idl::wire::Reply<'static> {
        match answer {
            Ok(answer) => ::cairn_idl::wire::Reply {
                words: [u64::from(answer), 0, 0, 0, 0, 0, 0, 0],
                data: &[],
                portals: 0,
                flags: 0,
            },
            Err(errno) => ::cairn_idl::wire::Reply::error(::cairn_idl::wire::refusal(&SIGNATURES[3], errno)),
        }
    }

    /// The answer to [`TRADE`] as it travels.
    #[inline]
    pub fn trade_reply(answer: Result<::cairn_idl::wire::Given, ::cairn_idl::wire::Errno>) -> ::cairn_idl::wire::Reply<'static> {
        match answer {
            Ok(answer) => ::cairn_idl::wire::Reply {
                words: [0, 0, 0, 0, 0, 0, 0, answer.0],
                data: &[],
                portals: 1,
                flags: ::cairn_idl::wire::MINT,
            },
            Err(errno) => ::cairn_idl::wire::Reply::error(::cairn_idl::wire::refusal(&SIGNATURES[4], errno)),
        }
    }

    /// The answer to [`LEND`] as it travels.
    #[inline]
    pub fn lend_reply(answer: Result<LendAnswer, ::cairn_idl::wire::Errno>) -> ::cairn_idl::wire::Reply<'static> {
        match answer {
            Ok(answer) => ::cairn_idl::wire::Reply {
                words: [0, 0, 0, 0, 0, 0, answer.one.0, answer.other.0],
                data: &[],
                portals: 2,
                flags: 0,
            },
            Err(errno) => ::cairn_idl::wire::Reply::error(::cairn_idl::wire::refusal(&SIGNATURES[5], errno)),
        }
    }

    /// The answer to [`WAIT_FOR`] as it travels.
    #[inline]
    pub fn wait_for_reply<'s>(answer: Result<&'s [u8], ::cairn_idl::wire::Errno>) -> ::cairn_idl::wire::Reply<'s> {
        match answer {
            Ok(bytes) => ::cairn_idl::wire::Reply {
                words: [bytes.len() as u64, 0, 0, 0, 0, 0, 0, 0],
                data: bytes,
                portals: 0,
                flags: 0,
            },
            Err(errno) => ::cairn_idl::wire::Reply::error(::cairn_idl::wire::refusal(&SIGNATURES[6], errno)),
        }
    }

    /// The answer to [`ASK_ONE`] as it travels.
    #[inline]
    pub fn ask_one_reply(answer: Result<AskOneAnswer, ::cairn_idl::wire::Errno>) -> ::cairn_idl::wire::Reply<'static> {
        match answer {
            Ok(answer) => ::cairn_idl::wire::Reply {
                words: [0, answer.tint.word(), 0, 0, 0, 0, 0, answer.one.0],
                data: &[],
                portals: 1,
                flags: ::cairn_idl::wire::MOVE,
            },
            Err(errno) => ::cairn_idl::wire::Reply::error(::cairn_idl::wire::refusal(&SIGNATURES[7], errno)),
        }
    }

    /// The answer to [`WEAVE`] as it travels.
    #[inline]
    pub fn weave_reply(answer: Result<(u8, usize), ::cairn_idl::wire::Errno>) -> ::cairn_idl::wire::Reply<'static> {
        match answer {
            Ok((answer, bytes)) => ::cairn_idl::wire::Reply {
                words: [bytes as u64, u64::from(answer), 0, 0, 0, 0, 0, 0],
                data: &[],
                portals: 0,
                flags: 0,
            },
            Err(errno) => ::cairn_idl::wire::Reply::error(::cairn_idl::wire::refusal(&SIGNATURES[8], errno)),
        }
    }

    /// The answer to [`GATHER`] as it travels.
    #[inline]
    pub fn gather_reply(answer: Result<usize, ::cairn_idl::wire::Errno>) -> ::cairn_idl::wire::Reply<'static> {
        match answer {
            Ok(bytes) => ::cairn_idl::wire::Reply {
                words: [bytes as u64, 0, 0, 0, 0, 0, 0, 0],
                data: &[],
                portals: 0,
                flags: 0,
            },
            Err(errno) => ::cairn_idl::wire::Reply::error(::cairn_idl::wire::refusal(&SIGNATURES[9], errno)),
        }
    }

    /// The answer to [`SPREAD`] as it travels.
    #[inline]
    pub fn spread_reply(answer: Result<u32, ::cairn_idl::wire::Errno>) -> ::cairn_idl::wire::Reply<'static> {
        match answer {
            Ok(answer) => ::cairn_idl::wire::Reply {
                words: [u64::from(answer), 0, 0, 0, 0, 0, 0, 0],
                data: &[],
                portals: 0,
                flags: 0,
            },
            Err(errno) => ::cairn_idl::wire::Reply::error(::cairn_idl::wire::refusal(&SIGNATURES[10], errno)),
        }
    }

    /// The answer to [`LOOK`] as it travels.
    #[inline]
    pub fn look_reply<'s>(answer: Result<(u64, ::cairn_idl::wire::Filled<'s>), ::cairn_idl::wire::Errno>) -> ::cairn_idl::wire::Reply<'s> {
        match answer {
            Ok((answer, bytes)) => ::cairn_idl::wire::Reply {
                words: [bytes.len() as u64, answer, 0, 0, 0, 0, 0, 0],
                data: bytes.bytes(),
                portals: 0,
                flags: 0,
            },
            Err(errno) => ::cairn_idl::wire::Reply::error(::cairn_idl::wire::refusal(&SIGNATURES[11], errno)),
        }
    }

    /// The answer to [`STUDY`] as it travels.
    #[inline]
    pub fn study_reply(answer: Result<(), ::cairn_idl::wire::Errno>) -> ::cairn_idl::wire::Reply<'static> {
        match answer {
            Ok(_) => ::cairn_idl::wire::Reply {
                words: [0, 0, 0, 0, 0, 0, 0, 0],
                data: &[],
                portals: 0,
                flags: 0,
            },
            Err(errno) => ::cairn_idl::wire::Reply::error(::cairn_idl::wire::refusal(&SIGNATURES[12], errno)),
        }
    }

    /// The answer to [`GIVE`] as it travels.
    #[inline]
    pub fn give_reply(answer: Result<u64, ::cairn_idl::wire::Errno>) -> ::cairn_idl::wire::Reply<'static> {
        match answer {
            Ok(answer) => ::cairn_idl::wire::Reply {
                words: [0, answer, 0, 0, 0, 0, 0, 0],
                data: &[],
                portals: 0,
                flags: 0,
            },
            Err(errno) => ::cairn_idl::wire::Reply::error(::cairn_idl::wire::refusal(&SIGNATURES[13], errno)),
        }
    }

    /// The answer to [`TAKE_BACK`] as it travels.
    #[inline]
    pub fn take_back_reply(answer: Result<::cairn_idl::wire::Given, ::cairn_idl::wire::Errno>) -> ::cairn_idl::wire::Reply<'static> {
        match answer {
            Ok(answer) => ::cairn_idl::wire::Reply {
                words: [0, 0, 0, 0, 0, 0, 0, answer.0],
                data: &[],
                portals: 1,
                flags: ::cairn_idl::wire::MOVE,
            },
            Err(errno) => ::cairn_idl::wire::Reply::error(::cairn_idl::wire::refusal(&SIGNATURES[14], errno)),
        }
    }

    /// The answer to [`POINT_AT`] as it travels.
    #[inline]
    pub fn point_at_reply(answer: Result<u64, ::cairn_idl::wire::Errno>) -> ::cairn_idl::wire::Reply<'static> {
        match answer {
            Ok(answer) => ::cairn_idl::wire::Reply {
                words: [0, answer, 0, 0, 0, 0, 0, 0],
                data: &[],
                portals: 0,
                flags: 0,
            },
            Err(errno) => ::cairn_idl::wire::Reply::error(::cairn_idl::wire::refusal(&SIGNATURES[15], errno)),
        }
    }

    /// The answer to [`NOTHING`] as it travels.
    #[inline]
    pub fn nothing_reply(answer: Result<(), ::cairn_idl::wire::Errno>) -> ::cairn_idl::wire::Reply<'static> {
        match answer {
            Ok(_) => ::cairn_idl::wire::Reply {
                words: [0, 0, 0, 0, 0, 0, 0, 0],
                data: &[],
                portals: 0,
                flags: 0,
            },
            Err(errno) => ::cairn_idl::wire::Reply::error(::cairn_idl::wire::refusal(&SIGNATURES[16], errno)),
        }
    }

    fn serve_count<'s, S: Server + ?Sized, C: ::cairn_idl::wire::Caller>(server: &'s mut S, caller: &C) -> Result<::cairn_idl::wire::Outcome<'s>, ::cairn_idl::wire::Errno> {
        let signature = &SIGNATURES[0];
        ::cairn_idl::wire::admit(signature, caller)?;
        let w = caller.words();
        let a = if C::SIGNED { w[1] as u8 } else { u8::try_from(w[1]).ok().ok_or(::cairn_idl::wire::EINVAL)? };
        let b = if C::SIGNED { w[2] as u16 } else { u16::try_from(w[2]).ok().ok_or(::cairn_idl::wire::EINVAL)? };
        let c = if C::SIGNED { w[3] as u32 } else { u32::try_from(w[3]).ok().ok_or(::cairn_idl::wire::EINVAL)? };
        let d = w[4];
        let e = i32::try_from(w[5] as i64).ok().ok_or(::cairn_idl::wire::EINVAL)?;
        let f = w[6] as i64;
        let g = if C::SIGNED { w[7] != 0 } else { ::cairn_idl::wire::truth(w[7]).ok_or(::cairn_idl::wire::EINVAL)? };
        let answer = server.count(caller, a, b, c, d, e, f, g)?;
        Ok(::cairn_idl::wire::Outcome::Reply(count_reply(Ok(answer))))
    }

    fn serve_echo<'s, S: Server + ?Sized, C: ::cairn_idl::wire::Caller>(server: &'s mut S, caller: &C) -> Result<::cairn_idl::wire::Outcome<'s>, ::cairn_idl::wire::Errno> {
        let signature = &SIGNATURES[1];
        ::cairn_idl::wire::admit(signature, caller)?;
        let w = caller.words();
        let marks = w[1];
        ::cairn_idl::wire::only(marks, 9223372036854775811)?;
        let text = ::cairn_idl::wire::Out::of(caller, &signature.out);
        let room = caller.in_len().min(signature.input.most);
        let answer = server.echo(caller, marks, text, room)?;
        let answer = (answer.0, ::cairn_idl::wire::within(answer.1, room));
        Ok(::cairn_idl::wire::Outcome::Reply(echo_reply(Ok(answer))))
    }

    fn serve_move_shape<'s, S: Server + ?Sized, C: ::cairn_idl::wire::Caller>(server: &'s mut S, caller: &C) -> Result<::cairn_idl::wire::Outcome<'s>, ::cairn_idl::wire::Errno> {
        let signature = &SIGNATURES[2];
        ::cairn_idl::wire::admit(signature, caller)?;
        let w = caller.words();
        let by = i8::try_from(w[2] as i64).ok().ok_or(::cairn_idl::wire::EINVAL)?;
        let shape = Shape::from_bytes(&::cairn_idl::wire::structure(caller)?);
        let answer = server.move_shape(caller, by, shape)?;
        ::cairn_idl::wire::deliver(caller, &answer.moved.to_bytes())?;
        Ok(::cairn_idl::wire::Outcome::Reply(move_shape_reply(Ok(answer))))
    }

    fn serve_first_ten<'s, S: Server + ?Sized, C: ::cairn_idl::wire::Caller>(server: &'s mut S, caller: &C) -> Result<::cairn_idl::wire::Outcome<'s>, ::cairn_idl::wire::Errno> {
        let signature = &SIGNATURES[3];
        ::cairn_idl::wire::admit(signature, caller)?;
        let text = ::cairn_idl::wire::Out::of(caller, &signature.out);
        let answer = server.first_ten(caller, text)?;
        Ok(::cairn_idl::wire::Outcome::Reply(first_ten_reply(Ok(answer))))
    }

    fn serve_trade<'s, S: Server + ?Sized, C: ::cairn_idl::wire::Caller>(server: &'s mut S, caller: &C) -> Result<::cairn_idl::wire::Outcome<'s>, ::cairn_idl::wire::Errno> {
        let signature = &SIGNATURES[4];
        ::cairn_idl::wire::admit(signature, caller)?;
        let w = caller.words();
        let note = w[1];
        let given = w[7] as u32;
        let answer = server.trade(caller, note, given)?;
        Ok(::cairn_idl::wire::Outcome::Reply(trade_reply(Ok(answer))))
    }

    fn serve_lend<'s, S: Server + ?Sized, C: ::cairn_idl::wire::Caller>(server: &'s mut S, caller: &C) -> Result<::cairn_idl::wire::Outcome<'s>, ::cairn_idl::wire::Errno> {
        let signature = &SIGNATURES[5];
        ::cairn_idl::wire::admit(signature, caller)?;
        let w = caller.words();
        let lent = (caller.portals() > 0).then_some(w[7] as u32);
        let answer = server.lend(caller, lent)?;
        Ok(::cairn_idl::wire::Outcome::Reply(lend_reply(Ok(answer))))
    }

    fn serve_wait_for<'s, S: Server + ?Sized, C: ::cairn_idl::wire::Caller>(server: &'s mut S, caller: &C) -> Result<::cairn_idl::wire::Outcome<'s>, ::cairn_idl::wire::Errno> {
        let signature = &SIGNATURES[6];
        ::cairn_idl::wire::admit(signature, caller)?;
        let w = caller.words();
        let tint = Colour::from_word(w[1]).ok_or(::cairn_idl::wire::EINVAL)?;
        let room = caller.in_len().min(signature.input.most);
        let Some(answer) = server.wait_for(caller, tint, room)? else {
            return Ok(::cairn_idl::wire::Outcome::Later);
        };
        let answer = ::cairn_idl::wire::within(answer, room);
        Ok(::cairn_idl::wire::Outcome::Reply(wait_for_reply(Ok(answer))))
    }

    fn serve_ask_one<'s, S: Server + ?Sized, C: ::cairn_idl::wire::Caller>(server: &'s mut S, caller: &C) -> Result<::cairn_idl::wire::Outcome<'s>, ::cairn_idl::wire::Errno> {
        let signature = &SIGNATURES[7];
        ::cairn_idl::wire::admit(signature, caller)?;
        let answer = server.ask_one(caller)?;
        Ok(::cairn_idl::wire::Outcome::Reply(ask_one_reply(Ok(answer))))
    }

    fn serve_weave<'s, S: Server + ?Sized, C: ::cairn_idl::wire::Caller>(server: &'s mut S, caller: &C) -> Result<::cairn_idl::wire::Outcome<'s>, ::cairn_idl::wire::Errno> {
        let signature = &SIGNATURES[8];
        ::cairn_idl::wire::admit(signature, caller)?;
        let w = caller.words();
        let by = if C::SIGNED { w[1] as u8 } else { u8::try_from(w[1]).ok().ok_or(::cairn_idl::wire::EINVAL)? };
        let threads = ::cairn_idl::wire::Out::of(caller, &signature.out);
        let room = caller.in_len().min(signature.input.most);
        let answer = server.weave(caller, by, threads, room)?;
        let answer = (answer.0, ::cairn_idl::wire::deliver_pieces(caller, answer.1, room)?);
        Ok(::cairn_idl::wire::Outcome::Reply(weave_reply(Ok(answer))))
    }

    fn serve_gather<'s, S: Server + ?Sized, C: ::cairn_idl::wire::Caller>(server: &'s mut S, caller: &C) -> Result<::cairn_idl::wire::Outcome<'s>, ::cairn_idl::wire::Errno> {
        let signature = &SIGNATURES[9];
        ::cairn_idl::wire::admit(signature, caller)?;
        let point = Point::from_bytes(&::cairn_idl::wire::structure(caller)?);
        let room = caller.in_len().min(signature.input.most);
        let answer = server.gather(caller, point, room)?;
        let answer = ::cairn_idl::wire::deliver_pieces(caller, answer, room)?;
        Ok(::cairn_idl::wire::Outcome::Reply(gather_reply(Ok(answer))))
    }

    fn serve_spread<'s, S: Server + ?Sized, C: ::cairn_idl::wire::Caller>(server: &'s mut S, caller: &C) -> Result<::cairn_idl::wire::Outcome<'s>, ::cairn_idl::wire::Errno> {
        let signature = &SIGNATURES[10];
        ::cairn_idl::wire::admit(signature, caller)?;
        let text = ::cairn_idl::wire::Out::of(caller, &signature.out);
        let answer = server.spread(caller, text)?;
        Ok(::cairn_idl::wire::Outcome::Reply(spread_reply(Ok(answer))))
    }

    fn serve_look<'s, S: Server + ?Sized, C: ::cairn_idl::wire::Caller>(server: &'s mut S, caller: &C) -> Result<::cairn_idl::wire::Outcome<'s>, ::cairn_idl::wire::Errno> {
        let signature = &SIGNATURES[11];
        ::cairn_idl::wire::admit(signature, caller)?;
        let picture = ::cairn_idl::wire::Out::of(caller, &signature.out);
        let room = caller.in_len().min(signature.input.most);
        let answer = server.look(caller, picture, ::cairn_idl::wire::Room::of(caller, &signature.input))?;
        let answer = (answer.0, answer.1.within(room));
        Ok(::cairn_idl::wire::Outcome::Reply(look_reply(Ok(answer))))
    }

    fn serve_study<'s, S: Server + ?Sized, C: ::cairn_idl::wire::Caller>(server: &'s mut S, caller: &C) -> Result<::cairn_idl::wire::Outcome<'s>, ::cairn_idl::wire::Errno> {
        let signature = &SIGNATURES[12];
        ::cairn_idl::wire::admit(signature, caller)?;
        let w = caller.words();
        let until = w[1];
        let picture = ::cairn_idl::wire::Out::of(caller, &signature.out);
        server.study(caller, until, picture)?;
        Ok(::cairn_idl::wire::Outcome::Reply(study_reply(Ok(()))))
    }

    fn serve_give<'s, S: Server + ?Sized, C: ::cairn_idl::wire::Caller>(server: &'s mut S, caller: &C) -> Result<::cairn_idl::wire::Outcome<'s>, ::cairn_idl::wire::Errno> {
        let signature = &SIGNATURES[13];
        ::cairn_idl::wire::admit(signature, caller)?;
        let w = caller.words();
        let given = ::cairn_idl::wire::Pages { slot: w[7] as u32, most: 16384 };
        let answer = server.give(caller, given)?;
        Ok(::cairn_idl::wire::Outcome::Reply(give_reply(Ok(answer))))
    }

    fn serve_take_back<'s, S: Server + ?Sized, C: ::cairn_idl::wire::Caller>(server: &'s mut S, caller: &C) -> Result<::cairn_idl::wire::Outcome<'s>, ::cairn_idl::wire::Errno> {
        let signature = &SIGNATURES[14];
        ::cairn_idl::wire::admit(signature, caller)?;
        let answer = server.take_back(caller)?;
        Ok(::cairn_idl::wire::Outcome::Reply(take_back_reply(Ok(answer))))
    }

    fn serve_point_at<'s, S: Server + ?Sized, C: ::cairn_idl::wire::Caller>(server: &'s mut S, caller: &C) -> Result<::cairn_idl::wire::Outcome<'s>, ::cairn_idl::wire::Errno> {
        let signature = &SIGNATURES[15];
        ::cairn_idl::wire::admit(signature, caller)?;
        let w = caller.words();
        if !C::SIGNED {
            return Err(::cairn_idl::wire::ENOSYS);
        }
        let by = if C::SIGNED { w[1] as u8 } else { u8::try_from(w[1]).ok().ok_or(::cairn_idl::wire::EINVAL)? };
        let marks = w[2];
        ::cairn_idl::wire::only(marks, 9223372036854775811)?;
        let at = w[7];
        let answer = server.point_at(caller, by, marks, at)?;
        Ok(::cairn_idl::wire::Outcome::Reply(point_at_reply(Ok(answer))))
    }

    fn serve_nothing<'s, S: Server + ?Sized, C: ::cairn_idl::wire::Caller>(server: &'s mut S, caller: &C) -> Result<::cairn_idl::wire::Outcome<'s>, ::cairn_idl::wire::Errno> {
        let signature = &SIGNATURES[16];
        ::cairn_idl::wire::admit(signature, caller)?;
        server.nothing(caller)?;
        Ok(::cairn_idl::wire::Outcome::Reply(nothing_reply(Ok(()))))
    }

    /// Decode a request, let the server do it, encode the answer. Unknown operations are ENOSYS, and what has not the operation's shape ([`SIGNATURES`]) is refused; portals that nobody took are closed.
    pub fn dispatch<'s, S: Server + ?Sized, C: ::cairn_idl::wire::Caller>(server: &'s mut S, caller: &C) -> ::cairn_idl::wire::Outcome<'s> {
        let (done, signature) = match caller.words()[0] {
            COUNT => (serve_count(server, caller), Some(&SIGNATURES[0])),
            ECHO => (serve_echo(server, caller), Some(&SIGNATURES[1])),
            MOVE_SHAPE => (serve_move_shape(server, caller), Some(&SIGNATURES[2])),
            FIRST_TEN => (serve_first_ten(server, caller), Some(&SIGNATURES[3])),
            TRADE => (serve_trade(server, caller), Some(&SIGNATURES[4])),
            LEND => (serve_lend(server, caller), Some(&SIGNATURES[5])),
            WAIT_FOR => (serve_wait_for(server, caller), Some(&SIGNATURES[6])),
            ASK_ONE => (serve_ask_one(server, caller), Some(&SIGNATURES[7])),
            WEAVE => (serve_weave(server, caller), Some(&SIGNATURES[8])),
            GATHER => (serve_gather(server, caller), Some(&SIGNATURES[9])),
            SPREAD => (serve_spread(server, caller), Some(&SIGNATURES[10])),
            LOOK => (serve_look(server, caller), Some(&SIGNATURES[11])),
            STUDY => (serve_study(server, caller), Some(&SIGNATURES[12])),
            GIVE => (serve_give(server, caller), Some(&SIGNATURES[13])),
            TAKE_BACK => (serve_take_back(server, caller), Some(&SIGNATURES[14])),
            POINT_AT => (serve_point_at(server, caller), Some(&SIGNATURES[15])),
            NOTHING => (serve_nothing(server, caller), Some(&SIGNATURES[16])),
            _ => (Err(::cairn_idl::wire::ENOSYS), None),
        };
        ::cairn_idl::wire::finish(caller, done, signature)
    }

    /// What each operation's messages look like, by number.
    pub static SIGNATURES: [::cairn_idl::wire::Signature; 17] = [
        ::cairn_idl::wire::Signature {
            name: "COUNT",
            number: COUNT,
            words_in: 0b11111111,
            words_out: 0b10011111,
            out: ::cairn_idl::wire::Part::NONE,
            input: ::cairn_idl::wire::Part::NONE,
            portals_least: 0,
            portals_in: 0,
            portals_out: 0,
            request: ::cairn_idl::wire::Terms { passing: ::cairn_idl::wire::Passing::Copied, once: false, not_further: false },
            answer: ::cairn_idl::wire::Terms { passing: ::cairn_idl::wire::Passing::Copied, once: false, not_further: false },
            pages_in: 0,
            pages_out: 0,
            flags: 0,
            badge: None,
            asked: Some([1, 255, 65535, 4294967295, 18446744073709551615, 18446744073709551615, 18446744073709551615, 1]),
            errors: &[::cairn_idl::errno::EINVAL, ::cairn_idl::errno::EOVERFLOW],
            deferred: false,
            interruptible: false,
            trust: ::cairn_idl::wire::Trust::Server,
            float: ::cairn_idl::wire::Float::Switched,
        },
        ::cairn_idl::wire::Signature {
            name: "ECHO",
            number: ECHO,
            words_in: 0b00000011,
            words_out: 0b00000011,
            out: ::cairn_idl::wire::Part { length: ::cairn_idl::wire::Length::Most, most: 200, pieces: 1, shown: ::cairn_idl::wire::Shown::No },
            input: ::cairn_idl::wire::Part { length: ::cairn_idl::wire::Length::Most, most: 400, pieces: 1, shown: ::cairn_idl::wire::Shown::No },
            portals_least: 0,
            portals_in: 0,
            portals_out: 0,
            request: ::cairn_idl::wire::Terms { passing: ::cairn_idl::wire::Passing::Copied, once: false, not_further: false },
            answer: ::cairn_idl::wire::Terms { passing: ::cairn_idl::wire::Passing::Copied, once: false, not_further: false },
            pages_in: 0,
            pages_out: 0,
            flags: 0,
            badge: None,
            asked: Some([2, 9223372036854775811, 18446744073709551615, 18446744073709551615, 18446744073709551615, 18446744073709551615, 18446744073709551615, 18446744073709551615]),
            errors: &[::cairn_idl::errno::EMSGSIZE],
            deferred: false,
            interruptible: false,
            trust: ::cairn_idl::wire::Trust::Server,
            float: ::cairn_idl::wire::Float::Switched,
        },
        ::cairn_idl::wire::Signature {
            name: "MOVE_SHAPE",
            number: MOVE_SHAPE,
            words_in: 0b00000101,
            words_out: 0b00000011,
            out: ::cairn_idl::wire::Part { length: ::cairn_idl::wire::Length::Exact, most: 104, pieces: 1, shown: ::cairn_idl::wire::Shown::No },
            input: ::cairn_idl::wire::Part { length: ::cairn_idl::wire::Length::Exact, most: 104, pieces: 1, shown: ::cairn_idl::wire::Shown::No },
            portals_least: 0,
            portals_in: 0,
            portals_out: 0,
            request: ::cairn_idl::wire::Terms { passing: ::cairn_idl::wire::Passing::Copied, once: false, not_further: false },
            answer: ::cairn_idl::wire::Terms { passing: ::cairn_idl::wire::Passing::Copied, once: false, not_further: false },
            pages_in: 0,
            pages_out: 0,
            flags: 0,
            badge: None,
            asked: None,
            errors: &[],
            deferred: false,
            interruptible: false,
            trust: ::cairn_idl::wire::Trust::Server,
            float: ::cairn_idl::wire::Float::Switched,
        },
        ::cairn_idl::wire::Signature {
            name: "FIRST_TEN",
            number: FIRST_TEN,
            words_in: 0b00000001,
            words_out: 0b00000001,
            out: ::cairn_idl::wire::Part { length: ::cairn_idl::wire::Length::First, most: 10, pieces: 1, shown: ::cairn_idl::wire::Shown::No },
            input: ::cairn_idl::wire::Part::NONE,
            portals_least: 0,
            portals_in: 0,
            portals_out: 0,
            request: ::cairn_idl::wire::Terms { passing: ::cairn_idl::wire::Passing::Copied, once: false, not_further: false },
            answer: ::cairn_idl::wire::Terms { passing: ::cairn_idl::wire::Passing::Copied, once: false, not_further: false },
            pages_in: 0,
            pages_out: 0,
            flags: 0,
            badge: None,
            asked: None,
            errors: &[],
            deferred: false,
            interruptible: false,
            trust: ::cairn_idl::wire::Trust::Server,
            float: ::cairn_idl::wire::Float::Switched,
        },
        ::cairn_idl::wire::Signature {
            name: "TRADE",
            number: TRADE,
            words_in: 0b10000011,
            words_out: 0b10000001,
            out: ::cairn_idl::wire::Part::NONE,
            input: ::cairn_idl::wire::Part::NONE,
            portals_least: 1,
            portals_in: 1,
            portals_out: 1,
            request: ::cairn_idl::wire::Terms { passing: ::cairn_idl::wire::Passing::Moved, once: false, not_further: false },
            answer: ::cairn_idl::wire::Terms { passing: ::cairn_idl::wire::Passing::Minted, once: false, not_further: false },
            pages_in: 0,
            pages_out: 0,
            flags: ::cairn_idl::wire::MOVE,
            badge: Some(7),
            asked: None,
            errors: &[::cairn_idl::errno::EPERM],
            deferred: false,
            interruptible: false,
            trust: ::cairn_idl::wire::Trust::Server,
            float: ::cairn_idl::wire::Float::Switched,
        },
        ::cairn_idl::wire::Signature {
            name: "LEND",
            number: LEND,
            words_in: 0b10000001,
            words_out: 0b11000001,
            out: ::cairn_idl::wire::Part::NONE,
            input: ::cairn_idl::wire::Part::NONE,
            portals_least: 0,
            portals_in: 1,
            portals_out: 2,
            request: ::cairn_idl::wire::Terms { passing: ::cairn_idl::wire::Passing::Copied, once: true, not_further: true },
            answer: ::cairn_idl::wire::Terms { passing: ::cairn_idl::wire::Passing::Copied, once: false, not_further: false },
            pages_in: 0,
            pages_out: 0,
            flags: ::cairn_idl::wire::PASS_ONCE | ::cairn_idl::wire::NOT_FURTHER,
            badge: None,
            asked: None,
            errors: &[],
            deferred: false,
            interruptible: false,
            trust: ::cairn_idl::wire::Trust::Server,
            float: ::cairn_idl::wire::Float::Switched,
        },
        ::cairn_idl::wire::Signature {
            name: "WAIT_FOR",
            number: WAIT_FOR,
            words_in: 0b00000011,
            words_out: 0b00000001,
            out: ::cairn_idl::wire::Part::NONE,
            input: ::cairn_idl::wire::Part { length: ::cairn_idl::wire::Length::Most, most: 16, pieces: 1, shown: ::cairn_idl::wire::Shown::No },
            portals_least: 0,
            portals_in: 0,
            portals_out: 0,
            request: ::cairn_idl::wire::Terms { passing: ::cairn_idl::wire::Passing::Copied, once: false, not_further: false },
            answer: ::cairn_idl::wire::Terms { passing: ::cairn_idl::wire::Passing::Copied, once: false, not_further: false },
            pages_in: 0,
            pages_out: 0,
            flags: ::cairn_idl::wire::INTERRUPTIBLE,
            badge: None,
            asked: None,
            errors: &[::cairn_idl::errno::EINTR],
            deferred: true,
            interruptible: true,
            trust: ::cairn_idl::wire::Trust::Server,
            float: ::cairn_idl::wire::Float::Switched,
        },
        ::cairn_idl::wire::Signature {
            name: "ASK_ONE",
            number: ASK_ONE,
            words_in: 0b00000001,
            words_out: 0b10000011,
            out: ::cairn_idl::wire::Part::NONE,
            input: ::cairn_idl::wire::Part::NONE,
            portals_least: 0,
            portals_in: 0,
            portals_out: 1,
            request: ::cairn_idl::wire::Terms { passing: ::cairn_idl::wire::Passing::Copied, once: false, not_further: false },
            answer: ::cairn_idl::wire::Terms { passing: ::cairn_idl::wire::Passing::Moved, once: false, not_further: false },
            pages_in: 0,
            pages_out: 0,
            flags: 0,
            badge: None,
            asked: None,
            errors: &[],
            deferred: false,
            interruptible: false,
            trust: ::cairn_idl::wire::Trust::Server,
            float: ::cairn_idl::wire::Float::Switched,
        },
        ::cairn_idl::wire::Signature {
            name: "WEAVE",
            number: WEAVE,
            words_in: 0b00000011,
            words_out: 0b00000011,
            out: ::cairn_idl::wire::Part { length: ::cairn_idl::wire::Length::Most, most: 200, pieces: 4, shown: ::cairn_idl::wire::Shown::No },
            input: ::cairn_idl::wire::Part { length: ::cairn_idl::wire::Length::Most, most: 300, pieces: 3, shown: ::cairn_idl::wire::Shown::No },
            portals_least: 0,
            portals_in: 0,
            portals_out: 0,
            request: ::cairn_idl::wire::Terms { passing: ::cairn_idl::wire::Passing::Copied, once: false, not_further: false },
            answer: ::cairn_idl::wire::Terms { passing: ::cairn_idl::wire::Passing::Copied, once: false, not_further: false },
            pages_in: 0,
            pages_out: 0,
            flags: 0,
            badge: None,
            asked: Some([9, 255, 18446744073709551615, 18446744073709551615, 18446744073709551615, 18446744073709551615, 18446744073709551615, 18446744073709551615]),
            errors: &[],
            deferred: false,
            interruptible: false,
            trust: ::cairn_idl::wire::Trust::Server,
            float: ::cairn_idl::wire::Float::Switched,
        },
        ::cairn_idl::wire::Signature {
            name: "GATHER",
            number: GATHER,
            words_in: 0b00000001,
            words_out: 0b00000001,
            out: ::cairn_idl::wire::Part { length: ::cairn_idl::wire::Length::Exact, most: 8, pieces: 1, shown: ::cairn_idl::wire::Shown::No },
            input: ::cairn_idl::wire::Part { length: ::cairn_idl::wire::Length::Most, most: 100, pieces: 2, shown: ::cairn_idl::wire::Shown::No },
            portals_least: 0,
            portals_in: 0,
            portals_out: 0,
            request: ::cairn_idl::wire::Terms { passing: ::cairn_idl::wire::Passing::Copied, once: false, not_further: false },
            answer: ::cairn_idl::wire::Terms { passing: ::cairn_idl::wire::Passing::Copied, once: false, not_further: false },
            pages_in: 0,
            pages_out: 0,
            flags: 0,
            badge: None,
            asked: None,
            errors: &[::cairn_idl::errno::ENOENT],
            deferred: false,
            interruptible: false,
            trust: ::cairn_idl::wire::Trust::Server,
            float: ::cairn_idl::wire::Float::Switched,
        },
        ::cairn_idl::wire::Signature {
            name: "SPREAD",
            number: SPREAD,
            words_in: 0b00000001,
            words_out: 0b00000001,
            out: ::cairn_idl::wire::Part { length: ::cairn_idl::wire::Length::First, most: 10, pieces: 64, shown: ::cairn_idl::wire::Shown::No },
            input: ::cairn_idl::wire::Part::NONE,
            portals_least: 0,
            portals_in: 0,
            portals_out: 0,
            request: ::cairn_idl::wire::Terms { passing: ::cairn_idl::wire::Passing::Copied, once: false, not_further: false },
            answer: ::cairn_idl::wire::Terms { passing: ::cairn_idl::wire::Passing::Copied, once: false, not_further: false },
            pages_in: 0,
            pages_out: 0,
            flags: 0,
            badge: None,
            asked: None,
            errors: &[],
            deferred: false,
            interruptible: false,
            trust: ::cairn_idl::wire::Trust::Server,
            float: ::cairn_idl::wire::Float::Switched,
        },
        ::cairn_idl::wire::Signature {
            name: "LOOK",
            number: LOOK,
            words_in: 0b00000001,
            words_out: 0b00000011,
            out: ::cairn_idl::wire::Part { length: ::cairn_idl::wire::Length::Most, most: 65536, pieces: 1, shown: ::cairn_idl::wire::Shown::Call },
            input: ::cairn_idl::wire::Part { length: ::cairn_idl::wire::Length::Most, most: 65536, pieces: 1, shown: ::cairn_idl::wire::Shown::Call },
            portals_least: 0,
            portals_in: 0,
            portals_out: 0,
            request: ::cairn_idl::wire::Terms { passing: ::cairn_idl::wire::Passing::Copied, once: false, not_further: false },
            answer: ::cairn_idl::wire::Terms { passing: ::cairn_idl::wire::Passing::Copied, once: false, not_further: false },
            pages_in: 0,
            pages_out: 0,
            flags: ::cairn_idl::wire::WINDOWS,
            badge: None,
            asked: None,
            errors: &[],
            deferred: false,
            interruptible: false,
            trust: ::cairn_idl::wire::Trust::Server,
            float: ::cairn_idl::wire::Float::Switched,
        },
        ::cairn_idl::wire::Signature {
            name: "STUDY",
            number: STUDY,
            words_in: 0b00000011,
            words_out: 0b00000001,
            out: ::cairn_idl::wire::Part { length: ::cairn_idl::wire::Length::Most, most: 8192, pieces: 1, shown: ::cairn_idl::wire::Shown::Kept },
            input: ::cairn_idl::wire::Part::NONE,
            portals_least: 0,
            portals_in: 0,
            portals_out: 0,
            request: ::cairn_idl::wire::Terms { passing: ::cairn_idl::wire::Passing::Copied, once: false, not_further: false },
            answer: ::cairn_idl::wire::Terms { passing: ::cairn_idl::wire::Passing::Copied, once: false, not_further: false },
            pages_in: 0,
            pages_out: 0,
            flags: ::cairn_idl::wire::INTERRUPTIBLE | ::cairn_idl::wire::WINDOWS | ::cairn_idl::wire::KEEP,
            badge: None,
            asked: None,
            errors: &[],
            deferred: false,
            interruptible: true,
            trust: ::cairn_idl::wire::Trust::Server,
            float: ::cairn_idl::wire::Float::Switched,
        },
        ::cairn_idl::wire::Signature {
            name: "GIVE",
            number: GIVE,
            words_in: 0b10000001,
            words_out: 0b00000011,
            out: ::cairn_idl::wire::Part::NONE,
            input: ::cairn_idl::wire::Part::NONE,
            portals_least: 1,
            portals_in: 1,
            portals_out: 0,
            request: ::cairn_idl::wire::Terms { passing: ::cairn_idl::wire::Passing::Copied, once: false, not_further: false },
            answer: ::cairn_idl::wire::Terms { passing: ::cairn_idl::wire::Passing::Copied, once: false, not_further: false },
            pages_in: 16384,
            pages_out: 0,
            flags: 0,
            badge: None,
            asked: None,
            errors: &[],
            deferred: false,
            interruptible: false,
            trust: ::cairn_idl::wire::Trust::Server,
            float: ::cairn_idl::wire::Float::Switched,
        },
        ::cairn_idl::wire::Signature {
            name: "TAKE_BACK",
            number: TAKE_BACK,
            words_in: 0b00000001,
            words_out: 0b10000001,
            out: ::cairn_idl::wire::Part::NONE,
            input: ::cairn_idl::wire::Part::NONE,
            portals_least: 0,
            portals_in: 0,
            portals_out: 1,
            request: ::cairn_idl::wire::Terms { passing: ::cairn_idl::wire::Passing::Copied, once: false, not_further: false },
            answer: ::cairn_idl::wire::Terms { passing: ::cairn_idl::wire::Passing::Moved, once: false, not_further: false },
            pages_in: 0,
            pages_out: 4096,
            flags: 0,
            badge: None,
            asked: None,
            errors: &[],
            deferred: false,
            interruptible: false,
            trust: ::cairn_idl::wire::Trust::Server,
            float: ::cairn_idl::wire::Float::Switched,
        },
        ::cairn_idl::wire::Signature {
            name: "POINT_AT",
            number: POINT_AT,
            words_in: 0b10000111,
            words_out: 0b00000011,
            out: ::cairn_idl::wire::Part::NONE,
            input: ::cairn_idl::wire::Part::NONE,
            portals_least: 0,
            portals_in: 0,
            portals_out: 0,
            request: ::cairn_idl::wire::Terms { passing: ::cairn_idl::wire::Passing::Copied, once: false, not_further: false },
            answer: ::cairn_idl::wire::Terms { passing: ::cairn_idl::wire::Passing::Copied, once: false, not_further: false },
            pages_in: 0,
            pages_out: 0,
            flags: 0,
            badge: None,
            asked: Some([4294967312, 255, 9223372036854775811, 18446744073709551615, 18446744073709551615, 18446744073709551615, 18446744073709551615, 18446744073709551615]),
            errors: &[],
            deferred: false,
            interruptible: false,
            trust: ::cairn_idl::wire::Trust::Server,
            float: ::cairn_idl::wire::Float::Switched,
        },
        ::cairn_idl::wire::Signature {
            name: "NOTHING",
            number: NOTHING,
            words_in: 0b00000001,
            words_out: 0b00000001,
            out: ::cairn_idl::wire::Part::NONE,
            input: ::cairn_idl::wire::Part::NONE,
            portals_least: 0,
            portals_in: 0,
            portals_out: 0,
            request: ::cairn_idl::wire::Terms { passing: ::cairn_idl::wire::Passing::Copied, once: false, not_further: false },
            answer: ::cairn_idl::wire::Terms { passing: ::cairn_idl::wire::Passing::Copied, once: false, not_further: false },
            pages_in: 0,
            pages_out: 0,
            flags: 0,
            badge: None,
            asked: None,
            errors: &[],
            deferred: false,
            interruptible: false,
            trust: ::cairn_idl::wire::Trust::Both,
            float: ::cairn_idl::wire::Float::Kept,
        },
    ];
}
