//! `cairn-9p`: a tree of files, served by 9P2000.L to clients such as Linux's `mount -t 9p`.
//!
//! It is an ordinary Linux program without rights of its own. Each connection has a process ([`listen`]), which is the user whom its client is taken for;
//! a client whose users are believed has one for each of them ([`relay`]). So the file servers check permissions as they do for everybody, what a client
//! holds is on its user's account, and all of it goes with the connection.
//!
//! [`session`] reads requests and answers them, [`tree`] does them.

mod cancel;
mod fid;
mod listen;
mod relay;
mod session;
mod sys;
#[cfg(test)]
mod tests;
mod tree;
mod users;

use listen::Place;
use rustix::process::{geteuid, getrlimit, setrlimit, umask, Resource, Rlimit};
use std::path::PathBuf;
use users::{Believed, User, Users, NOBODY};

pub const NAME: &str = "cairn-9p";

const HELP: &str = "\
cairn-9p [--user USER] [--believe LIST] [--read-only] [--most N] PLACE FOLDER

PLACE is tcp:PORT, tcp:ADDRESS:PORT, unix:PATH, or - for one client at standard input and output.
  --user USER      whom every client is taken for; without it nobody (65534), or who starts it if that is not root
  --believe LIST   users whom a client may be by its own word: 0,1000-1999 or all
  --read-only      nothing can be changed
  --most N         clients at the same time (64)
";

/// Descriptors of a session beside those of its numbers.
const DESCRIPTORS: u64 = 64;

/// What is to be served, how, and to whom.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Options {
    user: u32,
    believed: Believed,
    read_only: bool,
    most: usize,
    place: Place,
    folder: PathBuf,
}

fn parse(words: &[String], users: &Users, own: u32) -> Result<Options, String> {
    let (mut user, mut believed) = (None, Believed::default());
    let (mut read_only, mut most) = (false, 64);
    let mut rest = words.iter();
    let mut others = Vec::new();
    while let Some(word) = rest.next() {
        let mut value = || rest.next().ok_or(format!("{word} wants a value"));
        match word.as_str() {
            "--user" => {
                let name = value()?;
                user = Some(users.number(name).ok_or(format!("no user {name}"))?);
            }
            "--believe" => {
                let list = value()?;
                believed = Believed::parse(list).ok_or(format!("no list of users: {list}"))?;
            }
            "--read-only" => read_only = true,
            "--most" => {
                let number = value()?;
                let wrong = || format!("no number of clients: {number}");
                most = number.parse().ok().filter(|n| *n > 0).ok_or_else(wrong)?;
            }
            option if option.starts_with("--") => return Err(format!("not understood: {option}")),
            _ => others.push(word),
        }
    }
    let [place, folder] = others[..] else {
        return Err("a place and a folder are wanted".to_string());
    };
    let user = user.unwrap_or(if own == 0 { NOBODY } else { own });
    if own != 0 && (user != own || !believed.is_empty()) {
        return Err("only root can serve as others".to_string());
    }
    Ok(Options {
        user,
        believed,
        read_only,
        most,
        place: Place::parse(place)?,
        folder: folder.into(),
    })
}

/// The whole program; its exit status.
pub fn main(words: &[String]) -> u8 {
    if words.is_empty() || words.iter().any(|word| word == "--help" || word == "-h") {
        eprint!("{HELP}");
        return if words.is_empty() { 2 } else { 0 };
    }
    let users = Users::of_this_system();
    let options = match parse(words, &users, geteuid().as_raw()) {
        Ok(options) => options,
        Err(why) => {
            eprint!("{NAME}: {why}\n{HELP}");
            return 2;
        }
    };
    let done = match (&options.place, options.believed.is_empty()) {
        (Place::Here, true) => one(&options, &users.user(options.user)),
        (Place::Here, false) => listen::relay(&options),
        (place, _) => listen::listen(place, &options),
    };
    match done {
        Ok(()) => 0,
        Err(why) => {
            eprintln!("{NAME}: {why}");
            1
        }
    }
}

/// The client at standard input and output, as this user. The folder is found as who started it.
fn one(options: &Options, user: &User) -> Result<(), String> {
    let folder = listen::folder(options)?;
    users::become_user(user).map_err(|error| format!("cannot be user {}: {error}", user.uid))?;
    // Clients say with which modes files are made.
    umask(rustix::fs::Mode::empty());
    let most = fid::MOST as u64 + DESCRIPTORS;
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.map_or(most, |maximum| maximum.min(most));
    let limit = Rlimit {
        current: Some(most),
        maximum: Some(most),
    };
    // With fewer a client has fewer, and is told so.
    let _ = setrlimit(Resource::Nofile, limit);
    let export = tree::Export {
        root: folder,
        read_only: options.read_only,
        groups: users::may_give(user),
    };
    let input = std::io::BufReader::with_capacity(64 << 10, listen::input()?);
    session::serve(input, listen::output()?, export);
    // Threads that still wait have nobody to answer.
    Ok(())
}
