//! epoll, in the process: a set of open files, waited for as poll does. Edge-triggered interests are reported like level-triggered ones until the program has seen them once
//! and the file was found not ready in between.

use super::io::{file, usable};
use super::poll::{deadline_ms, wait, Watched};
use crate::descriptors::{number, OpenFile};
use crate::errno::{Result, EEXIST, EINVAL, ELOOP, ENOENT, EPERM};
use crate::event::Object;
use crate::machine::area::{process, Frame};
use crate::machine::lock::Lock;
use crate::machine::request::without_handler;
use crate::machine::user;
use crate::signal::calls::{begin_mask, end_mask};
use crate::time;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use cairn_idl::fs::{o, poll, s};

const ONESHOT: u64 = 1 << 30;
const FLAGS: u64 = 0xf000_0000;

#[derive(Clone)]
pub struct Interest {
    pub fd: u32,
    /// Not kept open by the set: a file that is closed leaves it.
    pub file: Weak<OpenFile>,
    /// Wanted poll bits; 0 after a one-shot has fired.
    pub events: u64,
    pub flags: u64,
    pub data: u64,
}

pub fn create(f: &mut Frame) -> Result<u64> {
    if (f.arg(0) as i32) <= 0 {
        return Err(EINVAL);
    }
    make(0)
}

pub fn create1(f: &mut Frame) -> Result<u64> {
    if f.arg(0) & !o::CLOEXEC != 0 {
        return Err(EINVAL);
    }
    make(f.arg(0))
}

fn make(flags: u64) -> Result<u64> {
    let file = Arc::new(OpenFile::own(Object::Epoll(Lock::new(Vec::new()))));
    let cloexec = flags & o::CLOEXEC != 0;
    process()
        .state()
        .files
        .insert(file, cloexec, 0)
        .map(u64::from)
}

impl Interest {
    fn is(&self, fd: u32, file: &Arc<OpenFile>) -> bool {
        self.fd == fd && self.file.as_ptr() == Arc::as_ptr(file)
    }
}

/// The open files of a set, with their interests.
pub fn open_interests(set: &Lock<Vec<Interest>>) -> Vec<(Interest, Arc<OpenFile>)> {
    let mut set = set.lock();
    set.retain(|i| i.file.strong_count() > 0);
    let all = set.iter();
    all.filter_map(|i| i.file.upgrade().map(|file| (i.clone(), file)))
        .collect()
}

fn set_of(file: &OpenFile) -> Result<&Lock<Vec<Interest>>> {
    match &file.object {
        Some(Object::Epoll(set)) => Ok(set),
        _ => Err(EINVAL),
    }
}

pub fn ctl(f: &mut Frame) -> Result<u64> {
    const ADD: u64 = 1;
    const DEL: u64 = 2;
    const MOD: u64 = 3;
    let epoll = file(f.arg(0))?;
    let fd = number(f.arg(2))?;
    let target = usable(f.arg(2))?;
    if Arc::ptr_eq(&epoll, &target) {
        return Err(EINVAL);
    }
    let set = set_of(&epoll)?;
    let operation = f.arg(1) & 0xffff_ffff;
    let (events, data) = if operation == DEL {
        (0, 0)
    } else {
        // `struct epoll_event` is packed: events, data.
        let [events, low, high] = user::read::<[u32; 3]>(f.arg(3))?;
        (events as u64, low as u64 | (high as u64) << 32)
    };
    if matches!(target.mode & s::IFMT, s::IFREG | s::IFDIR) && target.object.is_none() {
        return Err(EPERM);
    }
    if matches!(&target.object, Some(Object::Epoll(inner)) if contains(inner, &epoll, 0)) {
        return Err(ELOOP);
    }
    let mut set = set.lock();
    let at = set.iter().position(|i| i.is(fd, &target));
    let interest = Interest {
        fd,
        file: Arc::downgrade(&target),
        events: events & !FLAGS,
        flags: events & FLAGS,
        data,
    };
    match (operation, at) {
        (ADD, Some(_)) => Err(EEXIST),
        (ADD, None) => {
            set.push(interest);
            Ok(0)
        }
        (DEL | MOD, None) => Err(ENOENT),
        (DEL, Some(at)) => {
            set.remove(at);
            Ok(0)
        }
        (MOD, Some(at)) => {
            set[at] = interest;
            Ok(0)
        }
        _ => Err(EINVAL),
    }
}

/// Is `epoll` in the set, or in a set in it?
fn contains(set: &Lock<Vec<Interest>>, epoll: &Arc<OpenFile>, depth: u32) -> bool {
    depth > 4
        || open_interests(set).iter().any(|(_, file)| {
            Arc::ptr_eq(file, epoll)
                || matches!(&file.object, Some(Object::Epoll(inner)) if contains(inner, epoll, depth + 1))
        })
}

fn do_wait(f: &Frame, deadline: Option<u64>) -> Result<u64> {
    let (array, most) = (f.arg(1), f.arg(2) as i32);
    if most <= 0 {
        return Err(EINVAL);
    }
    let epoll = file(f.arg(0))?;
    let set = set_of(&epoll)?;
    user::range(array, 12 * most as u64)?;
    let interests = open_interests(set);
    let mut watched: Vec<Watched> = interests
        .iter()
        .map(|(i, file)| Watched {
            file: (i.events != 0).then(|| file.clone()),
            mask: i.events,
            ready: 0,
        })
        .collect();
    // An empty set still waits for its deadline.
    wait(&mut watched, deadline).map_err(without_handler)?;
    let mut count = 0;
    for ((interest, file), found) in interests.iter().zip(&watched) {
        let ready = found.ready & (interest.events | poll::ERR | poll::HUP);
        if ready == 0 || count == most as u64 {
            continue;
        }
        let event = [
            ready as u32,
            interest.data as u32,
            (interest.data >> 32) as u32,
        ];
        user::write(array + 12 * count, &event)?;
        count += 1;
        if interest.flags & ONESHOT != 0 {
            let mut set = set.lock();
            if let Some(one) = set.iter_mut().find(|i| i.is(interest.fd, file)) {
                one.events = 0;
            }
        }
    }
    Ok(count)
}

pub fn epoll_wait(f: &mut Frame) -> Result<u64> {
    do_wait(f, deadline_ms(f.arg(3) as i32))
}

pub fn epoll_pwait(f: &mut Frame) -> Result<u64> {
    let begun = begin_mask(f.arg(4), f.arg(5))?;
    let result = do_wait(f, deadline_ms(f.arg(3) as i32));
    end_mask(begun, result)
}

pub fn epoll_pwait2(f: &mut Frame) -> Result<u64> {
    let deadline = match f.arg(3) {
        0 => None,
        address => match time::read_timespec(address)? {
            0 => Some(0),
            ns => Some(time::deadline_after(ns)),
        },
    };
    let begun = begin_mask(f.arg(4), f.arg(5))?;
    let result = do_wait(f, deadline);
    end_mask(begun, result)
}
