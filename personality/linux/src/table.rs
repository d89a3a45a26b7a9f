//! The system calls by number, and the way through one: look up, call, put the result in the frame, have restarts and signals seen to.

use crate::calls::*;
use crate::errno::{Errno, Result, ENOSYS};
use crate::machine::area::{area, process, Frame, NO_CALL};
use crate::signal::rules::is_restart;
use crate::signal::{calls as signal, deliver};
use crate::strace;
use core::sync::atomic::Ordering;

pub type Handler = fn(&mut Frame) -> Result<u64>;

/// One more than the highest number known here.
pub const NUMBERS: usize = 453;

/// Number, name, handler, in ascending order.
static CALLS: &[(usize, &str, Handler)] = &[
    (0, "read", io::read),
    (1, "write", io::write),
    (2, "open", open::open),
    (3, "close", descriptors::close),
    (4, "stat", status::stat),
    (5, "fstat", status::fstat),
    (6, "lstat", status::lstat),
    (7, "poll", poll::poll),
    (8, "lseek", io::lseek),
    (9, "mmap", mapping::mmap),
    (10, "mprotect", mapping::mprotect),
    (11, "munmap", mapping::munmap),
    (12, "brk", mapping::brk),
    (13, "rt_sigaction", signal::rt_sigaction),
    (14, "rt_sigprocmask", signal::rt_sigprocmask),
    (15, "rt_sigreturn", sigreturn),
    (16, "ioctl", ioctl::ioctl),
    (17, "pread64", io::pread),
    (18, "pwrite64", io::pwrite),
    (19, "readv", io::readv),
    (20, "writev", io::writev),
    (21, "access", attributes::access),
    (22, "pipe", pipes::pipe),
    (23, "select", poll::select),
    (24, "sched_yield", scheduling::sched_yield),
    (25, "mremap", mapping::mremap),
    (26, "msync", mapping::msync),
    (27, "mincore", mapping::mincore),
    (28, "madvise", mapping::madvise),
    (29, "shmget", sysv::shmget),
    (30, "shmat", sysv::shmat),
    (31, "shmctl", sysv::shmctl),
    (32, "dup", descriptors::dup),
    (33, "dup2", descriptors::dup2),
    (34, "pause", signal::pause),
    (35, "nanosleep", clocks::nanosleep),
    (36, "getitimer", clocks::getitimer),
    (37, "alarm", clocks::alarm),
    (38, "setitimer", clocks::setitimer),
    (39, "getpid", ids::getpid),
    (40, "sendfile", transfer::sendfile),
    (41, "socket", sockets::socket),
    (42, "connect", sockets::connect),
    (43, "accept", sockets::accept),
    (44, "sendto", messages::sendto),
    (45, "recvfrom", messages::recvfrom),
    (46, "sendmsg", messages::sendmsg),
    (47, "recvmsg", messages::recvmsg),
    (48, "shutdown", sockets::shutdown),
    (49, "bind", sockets::bind),
    (50, "listen", sockets::listen),
    (51, "getsockname", sockets::getsockname),
    (52, "getpeername", sockets::getpeername),
    (53, "socketpair", sockets::socketpair),
    (54, "setsockopt", socket_options::setsockopt),
    (55, "getsockopt", socket_options::getsockopt),
    (56, "clone", fork::clone),
    (57, "fork", fork::fork),
    (58, "vfork", fork::vfork),
    (59, "execve", exec::execve),
    (60, "exit", exit::exit),
    (61, "wait4", wait::wait4),
    (62, "kill", signal::kill),
    (63, "uname", system::uname),
    (64, "semget", sysv::semget),
    (65, "semop", sysv::semop),
    (66, "semctl", sysv::semctl),
    (67, "shmdt", sysv::shmdt),
    (68, "msgget", sysv::msgget),
    (69, "msgsnd", sysv::msgsnd),
    (70, "msgrcv", sysv::msgrcv),
    (71, "msgctl", sysv::msgctl),
    (72, "fcntl", descriptors::fcntl),
    (73, "flock", locks::flock),
    (74, "fsync", io::fsync),
    (75, "fdatasync", io::fdatasync),
    (76, "truncate", names::truncate),
    (77, "ftruncate", io::ftruncate),
    (78, "getdents", directories::getdents),
    (79, "getcwd", open::getcwd),
    (80, "chdir", open::chdir),
    (81, "fchdir", open::fchdir),
    (82, "rename", names::rename),
    (83, "mkdir", names::mkdir),
    (84, "rmdir", names::rmdir),
    (85, "creat", open::creat),
    (86, "link", names::link),
    (87, "unlink", names::unlink),
    (88, "symlink", names::symlink),
    (89, "readlink", names::readlink),
    (90, "chmod", attributes::chmod),
    (91, "fchmod", attributes::fchmod),
    (92, "chown", attributes::chown),
    (93, "fchown", attributes::fchown),
    (94, "lchown", attributes::lchown),
    (95, "umask", open::umask),
    (96, "gettimeofday", clocks::gettimeofday),
    (97, "getrlimit", scheduling::getrlimit),
    (98, "getrusage", scheduling::getrusage),
    (99, "sysinfo", system::sysinfo),
    (100, "times", clocks::times),
    (101, "ptrace", ptrace::ptrace),
    (102, "getuid", ids::getuid),
    (103, "syslog", system::syslog),
    (104, "getgid", ids::getgid),
    (105, "setuid", ids::setuid),
    (106, "setgid", ids::setgid),
    (107, "geteuid", ids::geteuid),
    (108, "getegid", ids::getegid),
    (109, "setpgid", ids::setpgid),
    (110, "getppid", ids::getppid),
    (111, "getpgrp", ids::getpgrp),
    (112, "setsid", ids::setsid),
    (113, "setreuid", ids::setreuid),
    (114, "setregid", ids::setregid),
    (115, "getgroups", ids::getgroups),
    (116, "setgroups", ids::setgroups),
    (117, "setresuid", ids::setresuid),
    (118, "getresuid", ids::getresuid),
    (119, "setresgid", ids::setresgid),
    (120, "getresgid", ids::getresgid),
    (121, "getpgid", ids::getpgid),
    (122, "setfsuid", ids::setfsuid),
    (123, "setfsgid", ids::setfsgid),
    (124, "getsid", ids::getsid),
    (125, "capget", capabilities::capget),
    (126, "capset", capabilities::capset),
    (127, "rt_sigpending", signal::rt_sigpending),
    (128, "rt_sigtimedwait", signal::rt_sigtimedwait),
    (129, "rt_sigqueueinfo", signal::rt_sigqueueinfo),
    (130, "rt_sigsuspend", signal::rt_sigsuspend),
    (131, "sigaltstack", signal::sigaltstack),
    (132, "utime", attributes::utime),
    (133, "mknod", names::mknod),
    (135, "personality", system::personality),
    (136, "ustat", system::ustat),
    (137, "statfs", status::statfs),
    (138, "fstatfs", status::fstatfs),
    (139, "sysfs", system::sysfs),
    (140, "getpriority", scheduling::getpriority),
    (141, "setpriority", scheduling::setpriority),
    (142, "sched_setparam", scheduling::sched_setparam),
    (143, "sched_getparam", scheduling::sched_getparam),
    (144, "sched_setscheduler", scheduling::sched_setscheduler),
    (145, "sched_getscheduler", scheduling::sched_getscheduler),
    (
        146,
        "sched_get_priority_max",
        scheduling::sched_get_priority_max,
    ),
    (
        147,
        "sched_get_priority_min",
        scheduling::sched_get_priority_min,
    ),
    (
        148,
        "sched_rr_get_interval",
        scheduling::sched_rr_get_interval,
    ),
    (149, "mlock", mapping::mlock),
    (150, "munlock", mapping::munlock),
    (151, "mlockall", mapping::mlockall),
    (152, "munlockall", mapping::munlockall),
    (153, "vhangup", system::vhangup),
    (155, "pivot_root", spaces::pivot_root),
    (157, "prctl", prctl::prctl),
    (158, "arch_prctl", mapping::arch_prctl),
    (159, "adjtimex", clock_setting::adjtimex),
    (160, "setrlimit", scheduling::setrlimit),
    (161, "chroot", open::chroot),
    (162, "sync", io::sync),
    (163, "acct", absent::acct),
    (164, "settimeofday", clock_setting::settimeofday),
    (165, "mount", mounts::mount),
    (166, "umount2", mounts::umount2),
    (167, "swapon", absent::swapon),
    (168, "swapoff", absent::swapoff),
    (169, "reboot", system::reboot),
    (170, "sethostname", system::sethostname),
    (171, "setdomainname", system::setdomainname),
    (172, "iopl", absent::iopl),
    (173, "ioperm", absent::ioperm),
    (175, "init_module", absent::init_module),
    (176, "delete_module", absent::delete_module),
    (179, "quotactl", absent::quotactl),
    (186, "gettid", ids::gettid),
    (187, "readahead", io::readahead),
    (188, "setxattr", attributes::setxattr),
    (189, "lsetxattr", attributes::lsetxattr),
    (190, "fsetxattr", attributes::fsetxattr),
    (191, "getxattr", attributes::getxattr),
    (192, "lgetxattr", attributes::lgetxattr),
    (193, "fgetxattr", attributes::fgetxattr),
    (194, "listxattr", attributes::listxattr),
    (195, "llistxattr", attributes::llistxattr),
    (196, "flistxattr", attributes::flistxattr),
    (197, "removexattr", attributes::removexattr),
    (198, "lremovexattr", attributes::lremovexattr),
    (199, "fremovexattr", attributes::fremovexattr),
    (200, "tkill", signal::tkill),
    (201, "time", clocks::time),
    (202, "futex", futex::futex),
    (203, "sched_setaffinity", scheduling::sched_setaffinity),
    (204, "sched_getaffinity", scheduling::sched_getaffinity),
    (206, "io_setup", aio::io_setup),
    (207, "io_destroy", aio::io_destroy),
    (208, "io_getevents", aio::io_getevents),
    (209, "io_submit", aio::io_submit),
    (210, "io_cancel", aio::io_cancel),
    (213, "epoll_create", epoll::create),
    (216, "remap_file_pages", mapping::remap_file_pages),
    (217, "getdents64", directories::getdents64),
    (218, "set_tid_address", fork::set_tid_address),
    (219, "restart_syscall", absent::restart_syscall),
    (220, "semtimedop", sysv::semtimedop),
    (221, "fadvise64", io::fadvise),
    (222, "timer_create", clocks::timer_create),
    (223, "timer_settime", clocks::timer_settime),
    (224, "timer_gettime", clocks::timer_gettime),
    (225, "timer_getoverrun", clocks::timer_getoverrun),
    (226, "timer_delete", clocks::timer_delete),
    (227, "clock_settime", clock_setting::clock_settime),
    (228, "clock_gettime", clocks::clock_gettime),
    (229, "clock_getres", clocks::clock_getres),
    (230, "clock_nanosleep", clocks::clock_nanosleep),
    (231, "exit_group", exit::exit_group),
    (232, "epoll_wait", epoll::epoll_wait),
    (233, "epoll_ctl", epoll::ctl),
    (234, "tgkill", signal::tgkill),
    (235, "utimes", attributes::utimes),
    (237, "mbind", memory_policy::mbind),
    (238, "set_mempolicy", memory_policy::set_mempolicy),
    (239, "get_mempolicy", memory_policy::get_mempolicy),
    (240, "mq_open", mqueue::mq_open),
    (241, "mq_unlink", mqueue::mq_unlink),
    (242, "mq_timedsend", mqueue::mq_timedsend),
    (243, "mq_timedreceive", mqueue::mq_timedreceive),
    (244, "mq_notify", mqueue::mq_notify),
    (245, "mq_getsetattr", mqueue::mq_getsetattr),
    (246, "kexec_load", absent::kexec_load),
    (247, "waitid", wait::waitid),
    (248, "add_key", keys::add_key),
    (249, "request_key", keys::request_key),
    (250, "keyctl", keys::keyctl),
    (251, "ioprio_set", peers::ioprio_set),
    (252, "ioprio_get", peers::ioprio_get),
    (253, "inotify_init", notices::init),
    (254, "inotify_add_watch", notices::add_watch),
    (255, "inotify_rm_watch", notices::rm_watch),
    (256, "migrate_pages", memory_policy::migrate_pages),
    (257, "openat", open::openat),
    (258, "mkdirat", names::mkdirat),
    (259, "mknodat", names::mknodat),
    (260, "fchownat", attributes::fchownat),
    (261, "futimesat", attributes::futimesat),
    (262, "newfstatat", status::newfstatat),
    (263, "unlinkat", names::unlinkat),
    (264, "renameat", names::renameat),
    (265, "linkat", names::linkat),
    (266, "symlinkat", names::symlinkat),
    (267, "readlinkat", names::readlinkat),
    (268, "fchmodat", attributes::fchmodat),
    (269, "faccessat", attributes::faccessat),
    (270, "pselect6", poll::pselect6),
    (271, "ppoll", poll::ppoll),
    (272, "unshare", spaces::unshare),
    (273, "set_robust_list", futex::set_robust_list),
    (274, "get_robust_list", futex::get_robust_list),
    (275, "splice", transfer::splice),
    (276, "tee", transfer::tee),
    (277, "sync_file_range", io::sync_file_range),
    (278, "vmsplice", transfer::vmsplice),
    (279, "move_pages", memory_policy::move_pages),
    (280, "utimensat", attributes::utimensat),
    (281, "epoll_pwait", epoll::epoll_pwait),
    (282, "signalfd", system::signalfd),
    (283, "timerfd_create", clocks::timerfd_create),
    (284, "eventfd", pipes::eventfd),
    (285, "fallocate", io::fallocate),
    (286, "timerfd_settime", clocks::timerfd_settime),
    (287, "timerfd_gettime", clocks::timerfd_gettime),
    (288, "accept4", sockets::accept4),
    (289, "signalfd4", system::signalfd4),
    (290, "eventfd2", pipes::eventfd2),
    (291, "epoll_create1", epoll::create1),
    (292, "dup3", descriptors::dup3),
    (293, "pipe2", pipes::pipe2),
    (294, "inotify_init1", notices::init1),
    (295, "preadv", io::preadv),
    (296, "pwritev", io::pwritev),
    (297, "rt_tgsigqueueinfo", signal::rt_tgsigqueueinfo),
    (299, "recvmmsg", messages::recvmmsg),
    (302, "prlimit64", scheduling::prlimit64),
    (303, "name_to_handle_at", handles::name_to_handle_at),
    (304, "open_by_handle_at", handles::open_by_handle_at),
    (305, "clock_adjtime", clock_setting::clock_adjtime),
    (306, "syncfs", io::syncfs),
    (307, "sendmmsg", messages::sendmmsg),
    (308, "setns", spaces::setns),
    (309, "getcpu", scheduling::getcpu),
    (310, "process_vm_readv", peers::process_vm_readv),
    (311, "process_vm_writev", peers::process_vm_writev),
    (312, "kcmp", peers::kcmp),
    (313, "finit_module", absent::finit_module),
    (314, "sched_setattr", scheduling::sched_setattr),
    (315, "sched_getattr", scheduling::sched_getattr),
    (316, "renameat2", names::renameat2),
    (317, "seccomp", seccomp::seccomp),
    (318, "getrandom", random::getrandom),
    (319, "memfd_create", system::memfd_create),
    (320, "kexec_file_load", absent::kexec_file_load),
    (321, "bpf", absent::for_the_privileged),
    (322, "execveat", exec::execveat),
    (323, "userfaultfd", absent::for_the_privileged),
    (324, "membarrier", system::membarrier),
    (325, "mlock2", mapping::mlock2),
    (326, "copy_file_range", transfer::copy_file_range),
    (327, "preadv2", io::preadv2),
    (328, "pwritev2", io::pwritev2),
    (332, "statx", status::statx),
    (333, "io_pgetevents", aio::io_pgetevents),
    (424, "pidfd_send_signal", pidfds::pidfd_send_signal),
    (428, "open_tree", trees::open_tree),
    (429, "move_mount", trees::move_mount),
    (430, "fsopen", contexts::fsopen),
    (431, "fsconfig", contexts::fsconfig),
    (432, "fsmount", contexts::fsmount),
    (433, "fspick", contexts::fspick),
    (434, "pidfd_open", pidfds::pidfd_open),
    (435, "clone3", fork::clone3),
    (436, "close_range", descriptors::close_range),
    (437, "openat2", open::openat2),
    (438, "pidfd_getfd", others::pidfd_getfd),
    (439, "faccessat2", attributes::faccessat2),
    (440, "process_madvise", absent::process_madvise),
    (441, "epoll_pwait2", epoll::epoll_pwait2),
    (442, "mount_setattr", trees::mount_setattr),
    (443, "quotactl_fd", absent::quotactl_fd),
    (448, "process_mrelease", absent::process_mrelease),
    (449, "futex_waitv", futex::waitv),
    (
        450,
        "set_mempolicy_home_node",
        memory_policy::set_mempolicy_home_node,
    ),
    (452, "fchmodat2", attributes::fchmodat2),
];

const fn handlers() -> [Handler; NUMBERS] {
    let mut table: [Handler; NUMBERS] = [missing; NUMBERS];
    let mut i = 0;
    while i < CALLS.len() {
        table[CALLS[i].0] = CALLS[i].2;
        i += 1;
    }
    table
}

static TABLE: [Handler; NUMBERS] = handlers();

/// The name of a call, if it is here.
pub fn name(number: u64) -> Option<&'static str> {
    let number = usize::try_from(number).ok()?;
    let at = CALLS.binary_search_by_key(&number, |call| call.0).ok()?;
    Some(CALLS[at].1)
}

fn missing(f: &mut Frame) -> Result<u64> {
    let process = process();
    process.missing.fetch_add(1, Ordering::Relaxed);
    if process.tracing() {
        strace::missing(f.number);
    }
    Err(ENOSYS)
}

/// rt_sigreturn replaces the whole frame: its "result" is the register it restored.
fn sigreturn(f: &mut Frame) -> Result<u64> {
    deliver::sigreturn(f);
    Ok(f.rax)
}

/// Entered from the entry code with the program's registers; leaves the result in the frame.
pub fn dispatch(f: &mut Frame) {
    if !direct(f) {
        ordinary(f);
    }
}

#[inline(never)]
fn ordinary(f: &mut Frame) {
    let handler = match TABLE.get(f.number as usize) {
        Some(handler) => *handler,
        None => missing,
    };
    if process().tracing() {
        return traced(f, handler);
    }
    finish(f, handler);
}

/// A read or write on the direct way; false if it must go the ordinary one.
#[inline(always)]
fn direct(f: &mut Frame) -> bool {
    const READ: u64 = 0;
    const WRITE: u64 = 1;
    const PREAD: u64 = 17;
    const PWRITE: u64 = 18;
    let result = match f.number {
        READ => io::read_direct(f),
        WRITE => io::write_direct(f),
        PREAD => io::pread_direct(f),
        PWRITE => io::pwrite_direct(f),
        _ => None,
    };
    match result {
        Some(Ok(value)) => f.rax = value,
        Some(Err(error)) => fail(f, error),
        None => return false,
    }
    true
}

#[inline(always)]
fn finish(f: &mut Frame, handler: Handler) {
    let result = handler(f);
    // exec and sigreturn made the frame anew: it holds what it must.
    if f.number == NO_CALL && result.is_ok() {
        return;
    }
    match result {
        Ok(value) => f.rax = value,
        Err(error) => fail(f, error),
    }
}

#[cold]
fn fail(f: &mut Frame, error: Errno) {
    f.rax = error.value();
    if is_restart(f.rax).is_some() {
        area().mark();
    }
}

#[cold]
fn traced(f: &mut Frame, handler: Handler) {
    let call = *f;
    strace::begin(&call);
    finish(f, handler);
    strace::end(&call, f.rax);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_ascend_and_have_names() {
        assert!(CALLS.windows(2).all(|w| w[0].0 < w[1].0));
        assert_eq!(CALLS[CALLS.len() - 1].0 + 1, NUMBERS);
        assert_eq!(name(59), Some("execve"));
        assert_eq!(name(334), None);
        assert_eq!(name(u64::MAX), None);
    }
}
