//! What to run, and how it ended.

/// A command for the guest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spec {
    /// The command and its arguments; a command without `/` is looked for along PATH.
    pub argv: Vec<Vec<u8>>,
    /// The whole environment, each `NAME=value`.
    pub env: Vec<Vec<u8>>,
    /// Where it runs. Made if it is not there.
    pub cwd: Vec<u8>,
    /// Standard input is empty from the start: no STDIN frames follow.
    pub no_stdin: bool,
}

/// An encoded spec that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpecError;

impl Spec {
    /// Flags byte, working directory, then argv and env as counted lists of counted byte strings.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![u8::from(self.no_stdin)];
        put(&mut out, &self.cwd);
        for list in [&self.argv, &self.env] {
            out.extend_from_slice(&(list.len() as u32).to_le_bytes());
            for item in list {
                put(&mut out, item);
            }
        }
        out
    }

    pub fn decode(bytes: &[u8]) -> Result<Spec, SpecError> {
        let (&flags, mut rest) = bytes.split_first().ok_or(SpecError)?;
        let cwd = take(&mut rest)?.to_vec();
        let mut lists = [Vec::new(), Vec::new()];
        for list in &mut lists {
            for _ in 0..take_number(&mut rest)? {
                list.push(take(&mut rest)?.to_vec());
            }
        }
        let [argv, env] = lists;
        if !rest.is_empty() || argv.is_empty() {
            return Err(SpecError);
        }
        Ok(Spec {
            argv,
            env,
            cwd,
            no_stdin: flags & 1 != 0,
        })
    }
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    Exited(u8),
    Signalled(u8),
}

impl Ended {
    pub fn encode(self) -> [u8; 2] {
        match self {
            Ended::Exited(status) => [0, status],
            Ended::Signalled(signal) => [1, signal],
        }
    }

    pub fn decode(bytes: &[u8]) -> Option<Ended> {
        match bytes {
            [0, status] => Some(Ended::Exited(*status)),
            [1, signal] => Some(Ended::Signalled(*signal)),
            _ => None,
        }
    }

    /// As a shell reports it: the status, or 128 and the signal's number.
    pub fn shell_status(self) -> u8 {
        match self {
            Ended::Exited(status) => status,
            Ended::Signalled(signal) => 128u8.wrapping_add(signal),
        }
    }
}

fn put(out: &mut Vec<u8>, item: &[u8]) {
    out.extend_from_slice(&(item.len() as u32).to_le_bytes());
    out.extend_from_slice(item);
}

fn take_number(rest: &mut &[u8]) -> Result<u32, SpecError> {
    let (head, tail) = rest.split_first_chunk::<4>().ok_or(SpecError)?;
    *rest = tail;
    Ok(u32::from_le_bytes(*head))
}

fn take<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8], SpecError> {
    let length = take_number(rest)? as usize;
    if length > rest.len() {
        return Err(SpecError);
    }
    let (head, tail) = rest.split_at(length);
    *rest = tail;
    Ok(head)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Spec {
        Spec {
            argv: vec![
                b"sh".to_vec(),
                b"-c".to_vec(),
                b"echo \xff".to_vec(),
                Vec::new(),
            ],
            env: vec![b"PATH=/bin".to_vec()],
            cwd: b"/root".to_vec(),
            no_stdin: true,
        }
    }

    #[test]
    fn specs_come_back_as_they_were() {
        assert_eq!(Spec::decode(&example().encode()), Ok(example()));
    }

    #[test]
    fn no_cut_spec_is_accepted() {
        let whole = example().encode();
        for length in 0..whole.len() {
            assert_eq!(
                Spec::decode(&whole[..length]),
                Err(SpecError),
                "{length} bytes"
            );
        }
        let mut longer = whole;
        longer.push(0);
        assert_eq!(Spec::decode(&longer), Err(SpecError));
    }

    #[test]
    fn endings_come_back_as_they_were() {
        for ended in [Ended::Exited(0), Ended::Exited(255), Ended::Signalled(9)] {
            assert_eq!(Ended::decode(&ended.encode()), Some(ended));
        }
        assert_eq!(Ended::Signalled(9).shell_status(), 137);
        assert_eq!(Ended::decode(&[]), None);
    }
}
