//! execve: check everything, pass the point of no return at `proc`, then map the new program. Files with set-id bits go on in [`super::fresh`].

use super::attributes::check_execute;
use super::fresh;
use super::io::read_at;
use super::open::open_file;
use super::random;
use crate::descriptors::OpenFile;
use crate::errno::{
    Errno, Result, E2BIG, EACCES, EFAULT, EINVAL, EIO, ELOOP, ENOENT, ENOEXEC, ENOMEM, ENXIO,
};
use crate::frames;
use crate::loader::{self, Program};
use crate::machine::area::{self, area, process, Frame, NO_CALL};
use crate::machine::request::Request;
use crate::machine::user::{self, UserString};
use crate::machine::{buffer, fpu, gate, vdso};
use crate::memory::{self, flags, prot};
use crate::path::{self, AT_FDCWD};
use crate::process::Process;
use crate::script;
use crate::signal::AltStack;
use crate::spare;
use crate::stack::{self, at, Strings};
use alloc::sync::Arc;
use alloc::vec::Vec;
use cairn_abi::layout::{linux_slot, LINUX_STACK_TOP, PAGE};
use cairn_idl::fs::{self, o, s};
use cairn_idl::proc;
use core::sync::atomic::Ordering;

/// Most bytes of one string, of all strings with their pointers.
const STRING_MAX: u64 = 128 * 1024;
const STRINGS_MAX: u64 = 2 * 1024 * 1024;
const SCRIPTS_MAX: usize = 4;
/// What is read of a file at first: a linker puts all headers there, and the interpreter's name.
const HEAD: usize = 1024;
const STACK_SIZE: u64 = 8 * 1024 * 1024;
/// Where the first thread's stack begins.
pub const STACK: u64 = LINUX_STACK_TOP - STACK_SIZE;
/// Entries of the auxiliary vector, beside those that [`stack::build`] adds.
const AUXILIARY: usize = 17;
/// The command line that `proc` keeps for /proc.
const COMMAND_LINE_MAX: usize = 4096;

pub fn execve(f: &mut Frame) -> Result<u64> {
    let name = read_name(f.arg(0))?;
    if name.is_empty() {
        return Err(ENOENT);
    }
    let arguments = read_strings(f.arg(1))?;
    let environment = read_strings(f.arg(2))?;
    exec(f, AT_FDCWD, name, arguments, environment)
}

pub fn execveat(f: &mut Frame) -> Result<u64> {
    let (dirfd, flags) = (f.arg(0) as i32, f.arg(4) & 0xffff_ffff);
    let name = read_name(f.arg(1))?;
    if name.is_empty() && flags & fs::at::EMPTY_PATH == 0 {
        return Err(ENOENT);
    }
    let arguments = read_strings(f.arg(2))?;
    let environment = read_strings(f.arg(3))?;
    if flags & !(fs::at::EMPTY_PATH | fs::at::SYMLINK_NOFOLLOW) != 0 {
        return Err(EINVAL);
    }
    if name.is_empty() {
        let mut line = crate::text::Line::new();
        line.text("/dev/fd/").signed(dirfd as i64);
        return exec(f, AT_FDCWD, line.bytes().to_vec(), arguments, environment);
    }
    exec(f, dirfd, name, arguments, environment)
}

/// A program's name. (Its first place is a page of stack, which nobody needs any more when memory is copied.)
#[inline(never)]
fn read_name(address: u64) -> Result<Vec<u8>> {
    let mut name = UserString::empty();
    name.fill(address)?;
    Ok(name.as_bytes().to_vec())
}

/// A null-terminated array of strings.
fn read_strings(address: u64) -> Result<Strings> {
    let mut strings = Strings::with_room();
    if address == 0 {
        return Ok(strings);
    }
    loop {
        let count = strings.count() as u64;
        let at = address.checked_add(8 * count).ok_or(EFAULT)?;
        let string: u64 = user::read(at)?;
        if string == 0 {
            return Ok(strings);
        }
        user::append_string(&mut strings.bytes, string, STRING_MAX, E2BIG)?;
        if strings.bytes.len() as u64 + 9 * count > STRINGS_MAX {
            return Err(E2BIG);
        }
        strings.end();
    }
}

/// A file that may be executed, with its first bytes.
pub(super) struct Executable {
    file: Arc<OpenFile>,
    head: Vec<u8>,
}

impl Executable {
    pub(super) fn read(file: Arc<OpenFile>) -> Result<Executable> {
        let head = read_head(&file, HEAD)?;
        let head = if head.len() == HEAD && loader::headers_end(&head) > HEAD as u64 {
            read_head(&file, 2 * PAGE as usize)?
        } else {
            head
        };
        Ok(Executable { file, head })
    }
}

fn open_executable(dirfd: i32, name: &[u8]) -> Result<Executable> {
    // A FIFO is not waited for, a socket not asked.
    let file = open_file(dirfd, name, o::RDONLY | o::NONBLOCK, 0).map_err(|error| match error {
        ENXIO => EACCES,
        error => error,
    })?;
    if file.mode & s::IFMT != s::IFREG {
        return Err(EACCES);
    }
    // Whoever it is may execute what everybody may.
    if file.mode & 0o111 != 0o111 {
        check_execute(&file)?;
    }
    Executable::read(file)
}

fn read_head(file: &OpenFile, length: usize) -> Result<Vec<u8>> {
    buffer::receive_vec(length, Request::new(&[fs::READ, 0, 0]), file.slot())
}

pub fn exec(
    f: &mut Frame,
    dirfd: i32,
    given: Vec<u8>,
    mut arguments: Strings,
    environment: Strings,
) -> Result<u64> {
    if arguments.count() == 0 {
        arguments.push(b"");
    }
    let mut executable = open_executable(dirfd, &given)?;
    let mut name = given.clone();
    let mut scripts = 0;
    while let Some(line) = script::parse(&executable.head) {
        if line.interpreter.is_empty() {
            return Err(EACCES);
        }
        scripts += 1;
        if scripts > SCRIPTS_MAX {
            return Err(ELOOP);
        }
        if dirfd != AT_FDCWD && name.first() != Some(&b'/') && scripts == 1 {
            // The interpreter must find the script again by name.
            name = path::path_of(&executable.file)?;
        }
        let mut longer = Strings::default();
        longer.push(line.interpreter);
        if let Some(argument) = line.argument {
            longer.push(argument);
        }
        longer.push(&name);
        for argument in arguments.iter().skip(1) {
            longer.push(argument);
        }
        let interpreter = line.interpreter.to_vec();
        executable = open_executable(AT_FDCWD, &interpreter)?;
        name = interpreter;
        arguments = longer;
    }
    let Loadable {
        file,
        program,
        interpreter,
    } = Loadable::check(executable)?;
    let exe = path::path_of(&file).unwrap_or_else(|_| name.clone());
    if fresh::is_wanted(&file)? {
        let names = (&given[..], &name[..]);
        return Err(fresh::exec(&file, &exe, names, &arguments, &environment));
    }
    let places = first_stack(&arguments, &environment, &name);
    let seed = pass_point_of_no_return(&exe, &arguments, &given, places)?;
    // From here on there is no program to go back to.
    let traced = traced_by(&environment);
    let texts = (&name[..], &arguments, &environment);
    if enter(f, &program, interpreter.as_ref(), texts, (seed, false)).is_err() {
        super::exit::die(crate::signal::SIGSEGV);
    }
    drop(program);
    spare::close_own(file);
    if let Some(interpreter) = interpreter {
        spare::close_own(interpreter.into_file());
    }
    settle(exe, &given, traced);
    Ok(0)
}

/// The rest of exec in a domain that is the program's already; with BEGIN's answer. It is never traced: others can read the log.
pub(super) fn load(
    f: &mut Frame,
    executable: Executable,
    (given, name): (&[u8], &[u8]),
    arguments: &Strings,
    environment: &Strings,
    begun: ([u64; 2], bool),
) -> Result<()> {
    let Loadable {
        file,
        program,
        interpreter,
    } = Loadable::check(executable)?;
    let exe = path::path_of(&file).unwrap_or_else(|_| name.to_vec());
    let interpreter = interpreter.as_ref();
    let texts = (name, arguments, environment);
    enter(f, &program, interpreter, texts, begun)?;
    settle(exe, given, false);
    Ok(())
}

/// A program and, if it has one, its interpreter, looked through.
struct Loadable {
    file: Arc<OpenFile>,
    program: Program,
    interpreter: Option<Program>,
}

impl Loadable {
    fn check(Executable { file, head }: Executable) -> Result<Loadable> {
        let program = Program::check(&file, &head)?;
        // What is not needed any more makes room before memory is copied.
        drop(head);
        let interpreter = match &program.interpreter {
            None => None,
            Some(name) => {
                let Executable { file, head } =
                    open_executable(AT_FDCWD, name).map_err(missing_interpreter)?;
                let program = Program::check(&file, &head)?;
                if program.interpreter.is_some() {
                    return Err(ENOEXEC);
                }
                Some(program)
            }
        };
        Ok(Loadable {
            file,
            program,
            interpreter,
        })
    }
}

/// A program whose interpreter is not there cannot be executed; Linux says ENOENT.
fn missing_interpreter(error: Errno) -> Errno {
    if error == EIO {
        ENOEXEC
    } else {
        error
    }
}

/// What `proc` keeps of the arguments.
pub(super) fn command_line(arguments: &Strings) -> &[u8] {
    &arguments.bytes[..arguments.bytes.len().min(COMMAND_LINE_MAX)]
}

/// Where [`enter`] will put the environment and the auxiliary vector, for /proc.
pub(super) fn first_stack(arguments: &Strings, environment: &Strings, name: &[u8]) -> u64 {
    stack::places(arguments, environment, name, AUXILIARY).word()
}

fn pass_point_of_no_return(
    exe: &[u8],
    arguments: &Strings,
    name: &[u8],
    places: u64,
) -> Result<[u64; 2]> {
    let line = command_line(arguments);
    let mut text = Vec::with_capacity(exe.len() + line.len() + name.len());
    text.extend_from_slice(exe);
    text.extend_from_slice(line);
    text.extend_from_slice(name);
    super::mqueue::leaving();
    let (area, process) = (area(), process());
    let robust = area.robust_list.get();
    super::futex::release_robust_list();
    // (If the old program goes on, it has its list still.)
    area.robust_list.set(robust);
    let arena = area.arena.get();
    // Who lives in an arena needs nothing else of the personality's memory.
    let (first, end) = match arena {
        Some(arena) if !arena.has_spilled() => arena.range(),
        _ => (0, 0),
    };
    let words = [
        proc::EXEC,
        exe.len() as u64,
        line.len() as u64,
        name.len() as u64,
        first,
        end,
        places,
    ];
    let Some(arena) = arena else {
        // Other threads end here: no lock may be in other hands.
        process.hold_everything();
        let result = Request::new(&words).out(&text).call(linux_slot::PROC);
        process.release_everything();
        return result.map(|answer| in_new_space(process, answer));
    };
    // The same, of what goes on with the arena; the rest may be in its parent's hands.
    process.growth.acquire();
    process.state.acquire();
    process.futexes.acquire();
    arena.lists.acquire();
    let result = Request::new(&words).out(&text).call(linux_slot::PROC);
    arena.lists.release();
    if result.is_ok() {
        arena.become_heap();
    }
    process.futexes.release();
    process.state.release();
    process.growth.release();
    result.map(|answer| in_new_space(process, answer))
}

/// With the answer of EXEC; the random bytes in it.
fn in_new_space(process: &Process, answer: [u64; 8]) -> [u64; 2] {
    let [_, effective, permitted, low, high, ..] = answer;
    process.borrows_memory.store(false, Ordering::Relaxed);
    process.set_capabilities(effective, permitted);
    let mut state = process.state();
    frames::forget(state.files.files().map(|(_, entry)| &entry.file), false);
    let contexts = core::mem::take(&mut state.contexts);
    state.policies.forget_ranges();
    drop(state);
    drop(contexts);
    [low, high]
}

/// Does the environment ask for a trace of calls?
fn traced_by(environment: &Strings) -> bool {
    environment.iter().any(|v| v == b"CAIRN_STRACE=1")
}

/// Map the program and make the frame its first instruction. `seed` and `careful` (AT_SECURE) are what `proc` said.
fn enter(
    f: &mut Frame,
    program: &Program,
    interpreter: Option<&Program>,
    (name, arguments, environment): (&[u8], &Strings, &Strings),
    (seed, careful): ([u64; 2], bool),
) -> Result<()> {
    let process = process();
    // The stack first: what `vm` places by itself goes below it.
    let stack_flags = flags::FIXED | flags::STACK;
    let stack = |rights| memory::map(STACK, STACK_SIZE, rights, stack_flags);
    let plain = prot::READ | prot::WRITE;
    match program.executable_stack() {
        // (Where code may not be written it is a stack as all others.)
        true => stack(plain | prot::EXECUTE).or_else(|_| stack(plain))?,
        false => stack(plain)?,
    };
    let bias = program.place()?;
    program.map(Some(bias))?;
    let (entry, base) = match interpreter {
        Some(interpreter) => {
            let base = interpreter.map(None)?;
            (interpreter.entry(base), base)
        }
        None => (program.entry(bias), 0),
    };
    // Room behind it is reserved when a program asks for it first.
    let end = program.end(bias);
    process.state().attached.clear();
    process.brk_start.store(end, Ordering::Relaxed);
    process.brk_now.store(end, Ordering::Relaxed);
    process.brk_max.store(end, Ordering::Relaxed);
    process.brk_exact.store(false, Ordering::Relaxed);
    let (uid, gid) = (
        process.uid.load(Ordering::Relaxed),
        process.gid.load(Ordering::Relaxed),
    );
    let (euid, egid) = (
        process.euid.load(Ordering::Relaxed),
        process.egid.load(Ordering::Relaxed),
    );
    let features = core::arch::x86_64::__cpuid(1).edx as u64;
    let auxiliary: [_; AUXILIARY] = [
        (at::SYSINFO_EHDR, vdso::address()),
        (at::MINSIGSTKSZ, 440 + fpu::size() as u64 + 192),
        (at::HWCAP, features),
        (at::PAGESZ, PAGE),
        (at::CLKTCK, 100),
        (at::PHDR, program.headers(bias)),
        (at::PHENT, 56),
        (at::PHNUM, program.header_count()),
        (at::BASE, base),
        (at::FLAGS, 0),
        (at::ENTRY, program.entry(bias)),
        (at::UID, uid as u64),
        (at::EUID, euid as u64),
        (at::GID, gid as u64),
        (at::EGID, egid as u64),
        (at::SECURE, (careful || uid != euid || gid != egid) as u64),
        // FSGSBASE may be used by programs.
        (at::HWCAP2, 2),
    ];
    let random = random::at_random(seed);
    let image = stack::build(
        LINUX_STACK_TOP,
        arguments,
        environment,
        name,
        random,
        &auxiliary,
    );
    user::write_bytes(image.sp, &image.bytes)?;
    let told = [
        (&process.auxiliary, image.auxiliary),
        (&process.arguments, image.arguments),
        (&process.arguments_length, arguments.bytes.len() as u64),
    ];
    for (place, address) in told {
        place.store(address, Ordering::Relaxed);
    }
    *f = Frame {
        rip: entry,
        rsp: image.sp,
        rflags: 0x202,
        cs: f.cs,
        ss: f.ss,
        full: 1,
        number: NO_CALL,
        ..Frame::default()
    };
    Ok(())
}

/// The process's state as a new program finds it.
fn settle(exe: Vec<u8>, name: &[u8], traced: bool) {
    let (area, process) = (area(), process());
    area::set_fs_base(0);
    area.reset_fpu();
    area.clear_tid.set(0);
    area.keys.take();
    area.robust_list.set(0);
    {
        let mut signals = area.signals.borrow_mut();
        signals.alternate = AltStack::default();
        signals.saved_mask = None;
    }
    // The thread that calls exec becomes the first one.
    area.set_tid(process.pid());
    process.trace.store(traced as u32, Ordering::Relaxed);
    let mutexes = process.futexes.lock().clear();
    mutexes.into_iter().for_each(gate::close);
    let exe = path::as_seen(&exe).unwrap_or(exe);
    let mut state = process.state();
    state.actions.reset_for_exec();
    state.wanted = 0;
    state.threads.clear();
    state.threads.push(area.peer.clone());
    state.name = short_name(name);
    state.exe = exe;
    let closed = state.files.take_close_on_exec();
    drop(state);
    for entry in &closed {
        super::locks::closing(&entry.file);
    }
    drop(closed);
    crate::signal::calls::tell_proc();
}

/// What PR_GET_NAME says: the last component, cut.
fn short_name(path: &[u8]) -> [u8; 16] {
    let last = path.rsplit(|b| *b == b'/').next().unwrap_or(path);
    let mut name = [0; 16];
    let count = last.len().min(15);
    name[..count].copy_from_slice(&last[..count]);
    name
}

/// Read a piece of a file into the program's memory (for files that cannot be mapped).
pub fn read_into(file: &OpenFile, address: u64, length: u64, offset: u64) -> Result<()> {
    let mut done = 0;
    while done < length {
        let range = user::range(address + done, length - done)?;
        match read_at(file, range, offset + done, 0)? {
            0 => return Err(ENOMEM),
            count => done += count,
        }
    }
    Ok(())
}
