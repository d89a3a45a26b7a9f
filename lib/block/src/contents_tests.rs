//! Images as their tools make them, beside what libblkid says of them; and damaged ones.

use super::*;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

struct Image(Vec<u8>);

impl Bytes for Image {
    fn bytes(&mut self, at: u64, into: &mut [u8]) -> Result<(), Unreadable> {
        let at = usize::try_from(at).map_err(|_| Unreadable)?;
        let end = at.checked_add(into.len()).ok_or(Unreadable)?;
        into.copy_from_slice(self.0.get(at..end).ok_or(Unreadable)?);
        Ok(())
    }
}

impl Image {
    fn contents(&mut self) -> Option<Contents> {
        let bytes = self.0.len() as u64;
        contents(bytes, self).unwrap_or(None)
    }
}

/// A file that goes with the test.
struct Made(PathBuf);

impl Drop for Made {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// So many KiB, made by this command, whose last argument is the file.
fn made(name: &str, kib: u64, command: &[&str]) -> Made {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = format!("cairn-contents-{}-{count}-{name}", std::process::id());
    let made = Made(std::env::temp_dir().join(name));
    fs::File::create(&made.0)
        .and_then(|file| file.set_len(kib * 1024))
        .expect("a file");
    let run = Command::new(command[0])
        .args(&command[1..])
        .arg(&made.0)
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .output()
        .unwrap_or_else(|why| panic!("{}: {why}", command[0]));
    assert!(run.status.success(), "{command:?}: {run:?}");
    made
}

fn all() -> Vec<Made> {
    let uuid = "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9";
    let lists: [(&str, u64, &[&str]); 9] = [
        (
            "ext4",
            4096,
            &["mke2fs", "-qFt", "ext4", "-L", "a b/ü", "-U", uuid],
        ),
        ("ext2", 512, &["mke2fs", "-qFt", "ext2"]),
        ("swap", 512, &["mkswap", "-q", "-L", "swapped", "-U", uuid]),
        ("unnamed", 40, &["mkswap", "-q"]),
        (
            "fat12",
            2048,
            &["mkfs.vfat", "-F", "12", "-n", "TWELVE", "-i", "00112233"],
        ),
        (
            "fat16",
            16_384,
            &[
                "mkfs.vfat",
                "-F",
                "16",
                "-n",
                "SIXTEEN 16",
                "-i",
                "a0b1c2d3",
            ],
        ),
        (
            "fat32",
            40_960,
            &["mkfs.vfat", "-F", "32", "-n", "LARGE", "-i", "12345678"],
        ),
        ("noname", 40_960, &["mkfs.vfat", "-F", "32"]),
        (
            "iso",
            0,
            &[
                "xorriso",
                "-as",
                "mkisofs",
                "-quiet",
                "-V",
                "A VOLUME",
                "/usr/lib/os-release",
                "-o",
            ],
        ),
    ];
    lists
        .map(|(name, kib, command)| made(name, kib, command))
        .into()
}

/// What libblkid says.
fn told(image: &Made, tag: &str) -> String {
    let run = Command::new("/usr/sbin/blkid")
        .args(["-c", "/dev/null", "-p", "-o", "value", "-s", tag])
        .arg(&image.0)
        .output()
        .expect("blkid is installed");
    String::from_utf8_lossy(&run.stdout).trim_end().to_string()
}

#[test]
fn what_is_there_is_called_as_libblkid_calls_it() {
    for image in all() {
        let found = Image(fs::read(&image.0).expect("read")).contents();
        let found = found.unwrap_or_else(|| panic!("{:?}", image.0));
        assert_eq!(found.uuid, told(&image, "UUID"), "{:?}", image.0);
        let label = String::from_utf8_lossy(&found.label);
        assert_eq!(label, told(&image, "LABEL"), "{:?}", image.0);
    }
}

#[test]
fn what_is_nothing_or_two_things_has_no_name() {
    assert_eq!(Image(vec![0; 65_536]).contents(), None);
    assert_eq!(Image(vec![]).contents(), None);
    let images = all();
    let read = |at: usize| fs::read(&images[at].0).expect("read");
    let mut both = read(0);
    both[4086..4096].copy_from_slice(b"SWAPSPACE2");
    assert!(Image(both.clone()).contents().is_some());
    both[1024..1028].copy_from_slice(&[1, 0, 0, 0]);
    assert_eq!(Image(both).contents(), None);
    let mut cut = read(6);
    cut.truncate(4096);
    assert_eq!(Image(cut).contents(), None, "its folder is not there");
}

#[test]
fn damaged_ones_are_read_without_harm() {
    let mut seed = 7u64;
    for image in all() {
        let whole = fs::read(&image.0).expect("read");
        for _ in 0..500 {
            let mut image = Image(whole[..whole.len().min(65_536)].to_vec());
            for _ in 0..6 {
                seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1);
                let from = [0, 1024, 4000, 32_768][(seed >> 60) as usize % 4];
                let at = from + (seed >> 33) as usize % 512;
                let length = image.0.len();
                image.0[at % length] ^= (seed >> 20) as u8;
            }
            image.contents();
        }
    }
}
