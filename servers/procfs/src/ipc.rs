//! /proc/sysvipc, and the limits of System V's things below /proc/sys/kernel: asked of their server.

use crate::system::System;
use crate::table::Who;
use alloc::string::String;
use cairn_idl::errno::EINVAL;
use cairn_idl::ipc::{Kind, Limits};
use cairn_idl::proc::SpaceKind;
use cairn_resmgr::written::Numbers;
use core::fmt::Write;

/// A kind of thing, and the head of its table.
pub struct List {
    pub kind: Kind,
    head: &'static str,
}

pub const SHM: List = List {
    kind: Kind::Shm,
    head: "       key      shmid perms                  size  cpid  lpid nattch   uid   gid  cuid  cgid      atime      dtime      ctime                   rss                  swap\n",
};
pub const SEMAPHORES: List = List {
    kind: Kind::Sem,
    head: "       key      semid perms      nsems   uid   gid  cuid  cgid      otime      ctime\n",
};
pub const MSG: List = List {
    kind: Kind::Msg,
    head: "       key      msqid perms      cbytes       qnum lspid lrpid   uid   gid  cuid  cgid      stime      rtime      ctime\n",
};

/// The four of /proc/sys/kernel/sem.
pub const SEM: [Limits; 4] = [
    Limits::Semmsl,
    Limits::Semmns,
    Limits::Semopm,
    Limits::Semmni,
];

/// (Of the first IPC name space; who is in another one is told nothing.)
pub fn list<S: System>(system: &mut S, who: Who, list: List, to: &mut String) -> Option<()> {
    to.push_str(list.head);
    let reader = system.pid_of(who.reader);
    let apart = reader.and_then(|pid| system.space_id(pid, SpaceKind::Ipc));
    if apart.unwrap_or(0) == 0 {
        to.push_str(&system.ipc_list(list.kind));
    }
    Some(())
}

pub fn limits<S: System>(system: &mut S, which: &[Limits], to: &mut String) -> Option<()> {
    for (at, which) in which.iter().enumerate() {
        let value = system.ipc_limit(*which).unwrap_or(0);
        // (No identifier is wished: what fits into no number of them.)
        let value = match which {
            Limits::ShmNextId | Limits::SemNextId | Limits::MsgNextId => value as i32 as i128,
            _ => value.into(),
        };
        let separator = if at == 0 { "" } else { "\t" };
        write!(to, "{separator}{value}").ok()?;
    }
    to.push('\n');
    Some(())
}

/// Which limits a file of /proc/sys/kernel shows; none: another file.
pub fn limits_of(name: &str) -> &'static [Limits] {
    match name {
        "msgmax" => &[Limits::Msgmax],
        "msgmnb" => &[Limits::Msgmnb],
        "msgmni" => &[Limits::Msgmni],
        "sem" => &SEM,
        "msg_next_id" => &[Limits::MsgNextId],
        "sem_next_id" => &[Limits::SemNextId],
        "shm_next_id" => &[Limits::ShmNextId],
        "shmall" => &[Limits::Shmall],
        "shmmax" => &[Limits::Shmmax],
        "shmmni" => &[Limits::Shmmni],
        "msg_max" => &[Limits::MqMsgMax],
        "msgsize_max" => &[Limits::MqMsgsizeMax],
        "msg_default" => &[Limits::MqMsgDefault],
        "msgsize_default" => &[Limits::MqMsgsizeDefault],
        "queues_max" => &[Limits::MqQueuesMax],
        _ => &[],
    }
}

/// Numbers written to such a file, and how much of the text they are. Fewer than it shows are the first ones.
pub fn set_limits<S: System>(system: &mut S, which: &[Limits], text: &[u8]) -> Result<usize, i64> {
    let mut used = Err(EINVAL);
    for (which, number) in which.iter().zip(Numbers::new(text)) {
        let (value, end) = number?;
        system.set_ipc_limit(*which, value)?;
        used = Ok(end);
    }
    used
}
