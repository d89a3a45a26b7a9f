//! Key rings: add_key(2), request_key(2), keyctl(2), asked of their server ([`cairn_idl::keys`]), which knows who asks and whose rings those with names are.

use crate::errno::{Result, EFAULT, EINVAL, EOPNOTSUPP};
use crate::machine::area::{area, process, Frame, OwnKeys};
use crate::machine::request::{Request, Vector};
use crate::machine::user::{self, UserRange};
use crate::path::scheme;
use crate::user_space;
use cairn_abi::layout::LINUX_TOP;
use cairn_idl::keys::{self, Command};

/// The name of their server.
pub const MANAGER: &[u8] = b"keys:";
const THREAD: i32 = -1;
const PROCESS: i32 = -2;
/// What keyctl(2) can do here: all, persistent and large keys, invalidating, restricting, moving.
const CAPABILITIES: [u8; 2] = [0x01 | 0x02 | 0x10 | 0x20 | 0x40 | 0x80, 0];

fn id(argument: u64) -> i32 {
    argument as i32
}

/// A word of the request: a key's number, with its sign.
fn word(argument: u64) -> u64 {
    id(argument) as i64 as u64
}

/// The server, once the calling thread has what key ring it is to have. (Linux gives new threads one if their maker has one.)
fn server() -> Result<u32> {
    let slot = scheme(MANAGER)?;
    if area().keys.get() == OwnKeys::Wanted {
        area().keys.set(OwnKeys::There);
        let words = [
            keys::CONTROL,
            Command::GetKeyringId.word(),
            THREAD as i64 as u64,
            1,
        ];
        Request::new(&words).call(slot)?;
    }
    Ok(slot)
}

/// Whatever is asked with the name of the thread's ring may make it: its server is told when the thread ends.
fn note_thread(ids: &[u64]) {
    if ids.iter().any(|&argument| id(argument) == THREAD) {
        area().keys.set(OwnKeys::There);
    }
}

/// The thread ends, and with it its key ring.
pub fn thread_ends() {
    if area().keys.take() == OwnKeys::There {
        if let Ok(slot) = scheme(MANAGER) {
            let _ = Request::new(&[keys::THREAD_ENDS]).call(slot);
        }
    }
}

/// The program's text at an address, without its end.
fn text(address: u64, most: u64) -> Result<UserRange> {
    let length = user::string_length(address, most, EINVAL)?;
    user::range(address, length)
}

/// Type and description, and perhaps more behind them.
fn named(kind: u64, description: u64) -> Result<(Vector, u64, u64)> {
    let kind = text(kind, keys::KIND_MAX)?;
    // (A type's name says what is wrong with it before the description is looked at.)
    if kind.is_empty() {
        return Err(EINVAL);
    }
    let description = match description {
        0 => UserRange::EMPTY,
        address => text(address, keys::DESCRIPTION_MAX)?,
    };
    let mut vector = Vector::new();
    vector.push(kind)?;
    vector.push(description)?;
    Ok((vector, kind.len(), description.len()))
}

fn payload(address: u64, length: u64) -> Result<UserRange> {
    if length > keys::PAYLOAD_MAX {
        return Err(EINVAL);
    }
    match length {
        0 => Ok(UserRange::EMPTY),
        length => user::range(address, length),
    }
}

pub fn add_key(f: &mut Frame) -> Result<u64> {
    let (address, length, ring) = (f.arg(2), f.arg(3), f.arg(4));
    if length > keys::PAYLOAD_MAX {
        return Err(EINVAL);
    }
    let (mut vector, kind, description) = named(f.arg(0), f.arg(1))?;
    vector.push(payload(address, length)?)?;
    note_thread(&[ring]);
    let words = [keys::ADD, word(ring), kind, description];
    let request = Request::new(&words).out_vector(&vector);
    Ok(request.call(server()?)?[0])
}

pub fn request_key(f: &mut Frame) -> Result<u64> {
    let (information, ring) = (f.arg(2), f.arg(3));
    if f.arg(1) == 0 {
        return Err(EFAULT);
    }
    let (vector, kind, description) = named(f.arg(0), f.arg(1))?;
    if information != 0 {
        user::string_length(information, keys::DESCRIPTION_MAX, EINVAL)?;
    }
    note_thread(&[ring]);
    let words = [keys::REQUEST, word(ring), kind, description];
    let request = Request::new(&words).out_vector(&vector);
    Ok(request.call(server()?)?[0])
}

/// A command without anything to point at.
fn plain(command: Command, arguments: [u64; 4]) -> Result<u64> {
    let [first, second, third, fourth] = arguments;
    let words = [keys::CONTROL, command.word(), first, second, third, fourth];
    Ok(Request::new(&words).call(server()?)?[0])
}

/// A command that tells something.
fn telling(command: Command, key: u64, address: u64, length: u64) -> Result<u64> {
    let room = match address {
        0 => UserRange::EMPTY,
        address => {
            let length = LINUX_TOP.saturating_sub(address).min(length);
            user::range(address, length.min(8 * keys::MOST as u64))?
        }
    };
    let words = [keys::CONTROL, command.word(), word(key)];
    let request = Request::new(&words).input_user(room);
    Ok(request.call(server()?)?[0])
}

/// Where keys are put that request_key(2) has made, which happens nowhere here: what is said is remembered, and the rings that are named are there then.
fn set_reqkey_keyring(wish: i32) -> Result<u64> {
    const NO_CHANGE: i32 = -1;
    let ring = match wish {
        NO_CHANGE | 0 | 3..=5 | 7 => None,
        1 => Some(THREAD),
        2 => Some(PROCESS),
        _ => return Err(EINVAL),
    };
    if let Some(ring) = ring {
        let ring = ring as i64 as u64;
        note_thread(&[ring]);
        plain(Command::GetKeyringId, [ring, 1, 0, 0])?;
    }
    let mut state = process().state();
    let before = state.new_keys_ring;
    if wish != NO_CHANGE {
        state.new_keys_ring = wish;
    }
    Ok(before as u64)
}

fn capabilities(address: u64, length: u64) -> Result<u64> {
    let known = CAPABILITIES.len() as u64;
    if length != 0 {
        let told = known.min(length);
        user::write_bytes(address, &CAPABILITIES[..told as usize])?;
        user::clear(address + told, length - told)?;
    }
    Ok(known)
}

/// The upper ids of a user name space are its own.
fn owner(argument: u64, outside: fn(u32) -> Option<u32>) -> Result<u64> {
    match argument as u32 {
        u32::MAX => Ok(u32::MAX.into()),
        id => outside(id).map(u64::from).ok_or(EINVAL),
    }
}

pub fn keyctl(f: &mut Frame) -> Result<u64> {
    let [a, b, c, d] = [f.arg(1), f.arg(2), f.arg(3), f.arg(4)];
    let command = Command::from_word(f.arg(0) as u32 as u64).ok_or(EOPNOTSUPP)?;
    let one = [word(a), 0, 0, 0];
    match command {
        Command::GetKeyringId => {
            if id(b) != 0 {
                note_thread(&[a]);
            }
            plain(command, [word(a), word(b), 0, 0])
        }
        Command::JoinSessionKeyring => {
            if a == 0 {
                return plain(command, [0; 4]);
            }
            let name = text(a, keys::DESCRIPTION_MAX)?;
            let words = [keys::CONTROL, command.word(), 1];
            let request = Request::new(&words).out_user(name);
            Ok(request.call(server()?)?[0])
        }
        Command::Update => {
            if c > keys::UPDATE_MAX {
                return Err(EINVAL);
            }
            let words = [keys::CONTROL, command.word(), word(a)];
            let request = Request::new(&words).out_user(payload(b, c)?);
            Ok(request.call(server()?)?[0])
        }
        Command::Chown => {
            let (user, group) = (
                owner(b, user_space::outside_user)?,
                owner(c, user_space::outside_group)?,
            );
            note_thread(&[a]);
            plain(command, [word(a), user, group, 0])
        }
        Command::Setperm | Command::SetTimeout => {
            note_thread(&[a]);
            plain(command, [word(a), b as u32 as u64, 0, 0])
        }
        Command::Describe | Command::Read | Command::GetSecurity => telling(command, a, b, c),
        Command::Link => {
            note_thread(&[a, b]);
            plain(command, [word(a), word(b), 0, 0])
        }
        Command::Unlink => plain(command, [word(a), word(b), 0, 0]),
        Command::Search => {
            if c == 0 {
                return Err(EFAULT);
            }
            let (vector, kind, description) = named(b, c)?;
            note_thread(&[d]);
            let words = [
                keys::CONTROL,
                command.word(),
                word(a),
                kind,
                description,
                word(d),
            ];
            let request = Request::new(&words).out_vector(&vector);
            Ok(request.call(server()?)?[0])
        }
        Command::GetPersistent => {
            let user = owner(a, user_space::outside_user)?;
            note_thread(&[b]);
            plain(command, [user, word(b), 0, 0])
        }
        Command::RestrictKeyring => {
            let mut vector = Vector::new();
            let mut lengths = [0; 2];
            for ((length, address), most) in lengths
                .iter_mut()
                .zip([b, c])
                .zip([keys::KIND_MAX, keys::DESCRIPTION_MAX])
            {
                if address != 0 {
                    let text = text(address, most)?;
                    *length = text.len() + 1;
                    vector.push(text)?;
                }
            }
            let [kind, restriction] = lengths;
            let words = [keys::CONTROL, command.word(), word(a), 0, kind, restriction];
            let request = Request::new(&words).out_vector(&vector);
            Ok(request.call(server()?)?[0])
        }
        Command::Move => {
            note_thread(&[a, c]);
            plain(command, [word(a), word(b), word(c), d as u32 as u64])
        }
        Command::Reject => match c as i32 {
            1..4095 => plain(command, one),
            _ => Err(EINVAL),
        },
        Command::Clear => {
            note_thread(&[a]);
            plain(command, one)
        }
        Command::SetReqkeyKeyring => set_reqkey_keyring(id(a)),
        Command::Capabilities => capabilities(a, b),
        Command::Revoke
        | Command::Invalidate
        | Command::Instantiate
        | Command::InstantiateIov
        | Command::Negate
        | Command::AssumeAuthority
        | Command::SessionToParent => plain(command, one),
    }
}
