//! What operations cost in instructions: does one kind of operation so often, for a counting emulator. The difference between two counts, divided by the
//! difference in operations, is the price of one.
//!
//!     mke2fs -q -t ext4 -b 4096 /tmp/image 256M
//!     for n in 1000 3000; do valgrind --tool=none -v …/cost create $n < /tmp/image; done

use cairn_ext4::{Error, Fs, Mount, New, Progress, Time, ROOT};
use std::io::Read;

struct Caller {
    fs: Fs,
    image: Vec<u8>,
    size: usize,
}

const NOW: Time = Time {
    sec: 1_700_000_000,
    nsec: 0,
};

impl Caller {
    fn open(mut image: Vec<u8>) -> Result<Caller, Error> {
        let mut mount = Mount::new(&image[1024..2048], image.len() as u64, 4096, true)?;
        let size = mount.block_size();
        loop {
            match mount.run(NOW) {
                Ok(Progress::Done) => break,
                Ok(Progress::Step(step)) => {
                    for (block, data) in step.writes {
                        let at = block as usize * size;
                        image[at..at + size].copy_from_slice(&data);
                    }
                }
                Err(Error::Need { block, count }) => {
                    for block in block as usize..block as usize + count as usize {
                        mount.supply(block as u64, &image[block * size..][..size]);
                    }
                }
                Err(error) => return Err(error),
            }
        }
        let fs = mount.finish()?;
        Ok(Caller { fs, image, size })
    }

    fn act<R>(
        &mut self,
        mut operation: impl FnMut(&mut Fs) -> Result<R, Error>,
    ) -> Result<R, Error> {
        loop {
            match operation(&mut self.fs) {
                Err(Error::Need { block, count }) => {
                    for block in block as usize..block as usize + count as usize {
                        self.fs
                            .supply(block as u64, &self.image[block * self.size..][..self.size]);
                    }
                }
                Err(Error::CommitFirst) => {
                    self.fs.commit();
                    // The device of this program is infinitely fast.
                    while let Some(step) = self.fs.step(NOW)? {
                        drop(step);
                        self.fs.stepped(true);
                    }
                }
                other => return other,
            }
        }
    }
}

fn main() -> Result<(), Error> {
    let what = std::env::args().nth(1).unwrap_or_default();
    let count: u32 = std::env::args()
        .nth(2)
        .and_then(|text| text.parse().ok())
        .unwrap_or(0);
    let mut image = Vec::new();
    std::io::stdin()
        .read_to_end(&mut image)
        .map_err(|_| Error::Invalid)?;
    let mut caller = Caller::open(image)?;
    let new = New {
        mode: 0o100_644,
        uid: 0,
        gid: 0,
        device: (0, 0),
        now: NOW,
    };
    let file = caller.act(|fs| fs.create(ROOT, b"file", &new))?;
    let dir = caller.act(|fs| {
        fs.create(
            ROOT,
            b"dir",
            &New {
                mode: 0o040_755,
                ..new
            },
        )
    })?;
    for number in 0..count {
        match what.as_str() {
            // creat and unlink of the same name, with the inode's end.
            "create" => {
                caller.act(|fs| fs.create(dir, b"name", &new))?;
                let gone = caller.act(|fs| fs.unlink(dir, b"name", NOW))?;
                caller.act(|fs| fs.finish(gone.ino, NOW))?;
            }
            "many" => {
                let name = format!("name {number}");
                caller.act(|fs| fs.create(dir, name.as_bytes(), &new))?;
            }
            // Two new blocks at the end of a file, as write-behind would do with many more at a time.
            "write" => {
                let run = caller.act(|fs| fs.reserve(file, 2 * number, 2))?;
                caller.act(|fs| {
                    fs.attach(file, 2 * number, run, u64::from(number + 1) * 8192, NOW)
                })?;
            }
            "lookup" => _ = caller.act(|fs| fs.lookup(ROOT, b"file"))?,
            "map" => _ = caller.act(|fs| fs.map(file, 0, 1))?,
            "inode" => _ = caller.act(|fs| fs.inode(file))?,
            // A changed inode and a commit, without the device.
            "commit" => {
                let now = Time {
                    sec: NOW.sec + i64::from(number),
                    nsec: 0,
                };
                caller.act(|fs| fs.extend(file, 0, now))?;
                caller.fs.commit();
                while let Some(step) = caller.fs.step(NOW)? {
                    drop(step);
                    caller.fs.stepped(true);
                }
            }
            _ => return Err(Error::Invalid),
        }
    }
    Ok(())
}
