//! The log as /dev/kmsg has it, a record at a time.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;

const DEVICE: &str = "/dev/kmsg";
const RECORD: usize = 8192;

/// Show what there is; `follow`: and then what comes, for ever.
pub fn show(follow: bool) -> Result<(), String> {
    let mut options = File::options();
    options.read(true);
    if !follow {
        options.custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32);
    }
    let refused = |e: std::io::Error| match e.kind() {
        ErrorKind::PermissionDenied => "only user 0 may read the log".to_string(),
        _ => format!("{DEVICE}: {e}"),
    };
    let mut device = options.open(DEVICE).map_err(refused)?;
    let mut record = vec![0; RECORD];
    loop {
        match device.read(&mut record) {
            Ok(0) => return Ok(()),
            Ok(length) => {
                if let Some(line) = line(&String::from_utf8_lossy(&record[..length])) {
                    crate::print(&line);
                }
            }
            Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
            // What was to come next was overwritten meanwhile.
            Err(e) if e.kind() == ErrorKind::BrokenPipe => {}
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(refused(e)),
        }
    }
}

/// `[    5.000000] text` of `6,12,5000000,-;text`.
fn line(record: &str) -> Option<String> {
    let (head, text) = record.split_once(';')?;
    let time: u64 = head.split(',').nth(2)?.parse().ok()?;
    let (seconds, rest) = (time / 1_000_000, time % 1_000_000);
    Some(format!(
        "[{seconds:5}.{rest:06}] {}\n",
        text.lines().next()?
    ))
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_record_becomes_a_line() {
        let line = super::line("6,12,5000001,-;init: hello; there\n KEY=x\n");
        assert_eq!(line.as_deref(), Some("[    5.000001] init: hello; there\n"));
        assert_eq!(super::line("nothing"), None);
    }
}
