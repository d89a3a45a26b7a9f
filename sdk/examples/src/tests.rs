//! The board on the host: a caller that is a structure.

use super::*;
use board::Server;
use cairn_abi::Error;

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
}

impl Post for Posted {
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
    let note = Out::whole(&asks, NOTE_MAX)?;
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
