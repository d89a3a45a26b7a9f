//! A file for the result of a long run. It is opened before the run: that it cannot be written is said before the work and not after it. What it held stays until there is something new.

use anyhow::{Context, Result};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

pub struct Output {
    path: PathBuf,
    file: File,
}

impl Output {
    pub fn open(path: &Path) -> Result<Output> {
        let file = File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .with_context(|| cannot_write(path))?;
        let path = path.to_path_buf();
        Ok(Output { path, file })
    }

    pub fn write(self, content: &[u8]) -> Result<()> {
        self.write_with(|out| out.write_all(content))
    }

    pub fn write_with(
        self,
        content: impl FnOnce(&mut dyn Write) -> std::io::Result<()>,
    ) -> Result<()> {
        let Output { path, file } = self;
        replace(file, content).with_context(|| cannot_write(&path))
    }
}

fn replace(
    file: File,
    content: impl FnOnce(&mut dyn Write) -> std::io::Result<()>,
) -> std::io::Result<()> {
    // A terminal or a pipe has nothing to be cut off.
    if file.metadata()?.is_file() {
        file.set_len(0)?;
    }
    let mut out = BufWriter::new(file);
    content(&mut out)?;
    out.flush()
}

fn cannot_write(path: &Path) -> String {
    format!("cannot write {}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn what_it_held_stays_until_there_is_something_new() {
        let folder = std::env::temp_dir().join(format!("cairn-output-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("result");
        fs::write(&path, "the longer one of before").unwrap();
        let output = Output::open(&path).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"the longer one of before");
        output.write(b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        fs::remove_dir_all(&folder).unwrap();
        // In a folder that is not there.
        let said = Output::open(&path).err().unwrap().to_string();
        assert_eq!(said, cannot_write(&path));
        Output::open(Path::new("/dev/null"))
            .unwrap()
            .write(b"gone")
            .unwrap();
    }
}
