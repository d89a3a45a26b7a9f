//! The board on the host: a caller that is a structure.

use super::*;
use board::Server;
use cairn_abi::Error;
use core::sync::atomic::AtomicU64;

struct Asks<'a>(&'a [u8]);

impl Caller for Asks<'_> {
    fn words(&self) -> &[u64; 8] {
        &[0; 8]
    }
    fn badge(&self) -> u64 {
        0
    }
    fn sender(&self) -> u32 {
        1
    }
    fn label(&self) -> u64 {
        0
    }
    fn token(&self) -> u64 {
        77
    }
    fn out_len(&self) -> usize {
        self.0.len()
    }
    fn in_len(&self) -> usize {
        0
    }
    fn portals(&self) -> usize {
        0
    }
    fn read(&self, offset: usize, into: &mut [u8]) -> Result<usize, Error> {
        into.copy_from_slice(&self.0[offset..][..into.len()]);
        Ok(into.len())
    }
    fn write(&self, _: usize, _: &[u8]) -> Result<usize, Error> {
        Err(Error::BadAddress)
    }
    fn close(&self, _: u32) {}
}

#[derive(Default)]
struct Posted {
    answers: Vec<(u64, i64, Vec<u8>)>,
    told: Vec<(u32, u64)>,
    closed: Vec<u32>,
    view: Option<Seen>,
}

/// A window of a page of ones.
struct Seen(Vec<AtomicU64>);

impl View for Seen {
    fn open(&self, token: u64, offset: u64, pages: u64, flags: u64) -> Result<&[AtomicU64], Error> {
        assert_eq!((token, offset, pages, flags), (77, 0, 1, 0));
        Ok(&self.0)
    }
}

impl Post for Posted {
    type View = Seen;
    fn view(&self) -> Option<&Seen> {
        self.view.as_ref()
    }
    fn hang(&mut self, poster: Pages) -> Result<u64, Errno> {
        Ok(poster.most)
    }
    fn take_down(&mut self, receiver: u32) -> Result<u32, Errno> {
        Ok(receiver)
    }
    fn answer(&mut self, token: u64, reply: &Reply) {
        let answer = (token, reply.words[0] as i64, reply.data.to_vec());
        self.answers.push(answer);
    }
    fn notify(&mut self, watcher: u32, bits: u64) {
        self.told.push((watcher, bits));
    }
    fn close(&mut self, watcher: u32) {
        self.closed.push(watcher);
    }
}

fn pin(board: &mut Board<Posted>, place: u32, text: &[u8]) -> Result<u32, Errno> {
    let asks = Asks(text);
    let note = Out::of(&asks, &board::SIGNATURES[0].out);
    board.pin(&asks, place, Colour::Red, note)
}

#[test]
fn notes_are_pinned_and_read() {
    let mut board = Board::new(Posted::default());
    assert_eq!(pin(&mut board, 2, b"milk"), Ok(1));
    assert_eq!(pin(&mut board, 2, b"bread"), Ok(1));
    assert_eq!(pin(&mut board, 8, b"x"), Err(EINVAL));
    let asks = Asks(b"");
    assert_eq!(board.read(&asks, 2, 9), Ok((Colour::Red, &b"bread"[..])));
    assert_eq!(board.read(&asks, 3, 9), Err(ENOENT));
    let summary = board.summary(&asks).unwrap();
    assert_eq!((summary.notes, summary.longest, summary.pinned), (1, 5, 2));
    board.clear(&asks).unwrap();
    assert_eq!(board.read(&asks, 2, 9), Err(ENOENT));
}

#[test]
fn watchers_are_told() {
    let mut board = Board::new(Posted::default());
    let asks = Asks(b"");
    board.watch(&asks, 5).unwrap();
    pin(&mut board, 0, b"x").unwrap();
    board.watch(&asks, 6).unwrap();
    board.clear(&asks).unwrap();
    assert_eq!(board.post.told, [(5, change::PINNED), (6, change::CLEARED)]);
    assert_eq!(board.post.closed, [5]);
}

#[test]
fn who_waits_is_answered_once() {
    let mut board = Board::new(Posted::default());
    let asks = Asks(b"");
    assert_eq!(board.wait(&asks, 4, 10), Err(EINVAL));
    assert_eq!(board.wait(&asks, 4, NOTE_MAX), Ok(None));
    assert_eq!(board.wait(&asks, 4, NOTE_MAX), Err(EBUSY));
    pin(&mut board, 4, b"now").unwrap();
    pin(&mut board, 4, b"again").unwrap();
    assert_eq!(board.post.answers, [(77, 3, b"now".to_vec())]);
    assert_eq!(board.wait(&asks, 4, 10), Ok(Some(&b"again"[..])));
    // Interrupted, and gone.
    board.clear(&asks).unwrap();
    assert_eq!(board.wait(&asks, 4, NOTE_MAX), Ok(None));
    board.forget(77, true);
    assert_eq!(board.post.answers[1], (77, -EINTR, Vec::new()));
    assert_eq!(board.wait(&asks, 4, NOTE_MAX), Ok(None));
    board.forget(77, false);
    pin(&mut board, 4, b"x").unwrap();
    assert_eq!(board.post.answers.len(), 2);
}

#[test]
fn posters_are_seen_or_copied() {
    let mut poster = vec![0; PAGE as usize + 12];
    poster[8] = 5;
    poster[PAGE as usize + 8] = 7;
    let asks = Asks(&poster);
    let mut board = Board::new(Posted::default());
    let out = || Out::of(&asks, &board::SIGNATURES[8].out);
    let answer = board.survey(&asks, out()).unwrap();
    assert_eq!((answer.sum, answer.seen), (12, false));
    board.post.view = Some(Seen((0..PAGE / 8).map(|_| AtomicU64::new(1)).collect()));
    let answer = board.survey(&asks, out()).unwrap();
    assert_eq!((answer.sum, answer.seen), (PAGE / 8 + 7, true));
}

#[test]
fn all_notes_are_read_from_where_they_lie() {
    let mut board = Board::new(Posted::default());
    let asks = Asks(b"");
    pin(&mut board, 7, b"last").unwrap();
    pin(&mut board, 1, b"first").unwrap();
    let (notes, texts) = board.read_all(&asks, 100).unwrap();
    assert_eq!((notes, &texts.concat()[..]), (2, &b"firstlast"[..]));
}
