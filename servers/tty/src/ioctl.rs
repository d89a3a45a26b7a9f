//! The requests of tty_ioctl(4).

use crate::discipline::{SIGINT, SIGQUIT, SIGTSTP};
use crate::nodes::{Name, Node};
use crate::server::Tty;
use crate::terminal::{event, Line, Size};
use crate::termios::{Locked, Termios, SIZE, SIZE2, SIZE_OLD};
use crate::world::World;
use cairn_idl::errno::*;
use cairn_idl::label;
use cairn_resmgr::server::Answer;
use cairn_resmgr::{Context, Failure, Handle};
use cairn_rt::channel::Reply;

pub const TCGETS: u64 = 0x5401;
pub const TCSETS: u64 = 0x5402;
pub const TCSETSW: u64 = 0x5403;
pub const TCSETSF: u64 = 0x5404;
pub const TCGETA: u64 = 0x5405;
pub const TCSETA: u64 = 0x5406;
pub const TCSETAW: u64 = 0x5407;
pub const TCSETAF: u64 = 0x5408;
pub const TCSBRK: u64 = 0x5409;
pub const TCXONC: u64 = 0x540a;
pub const TCFLSH: u64 = 0x540b;
pub const TIOCEXCL: u64 = 0x540c;
pub const TIOCNXCL: u64 = 0x540d;
pub const TIOCSCTTY: u64 = 0x540e;
pub const TIOCGPGRP: u64 = 0x540f;
pub const TIOCSPGRP: u64 = 0x5410;
pub const TIOCOUTQ: u64 = 0x5411;
pub const TIOCSTI: u64 = 0x5412;
pub const TIOCGWINSZ: u64 = 0x5413;
pub const TIOCSWINSZ: u64 = 0x5414;
pub const FIONREAD: u64 = 0x541b;
pub const TIOCGSOFTCAR: u64 = 0x5419;
pub const TIOCSSOFTCAR: u64 = 0x541a;
pub const TIOCGSERIAL: u64 = 0x541e;
pub const TIOCPKT: u64 = 0x5420;
pub const TIOCNOTTY: u64 = 0x5422;
pub const TIOCSETD: u64 = 0x5423;
pub const TIOCGETD: u64 = 0x5424;
pub const TCSBRKP: u64 = 0x5425;
pub const TIOCSBRK: u64 = 0x5427;
pub const TIOCCBRK: u64 = 0x5428;
pub const TIOCGSID: u64 = 0x5429;
pub const TIOCVHANGUP: u64 = 0x5437;
pub const TIOCGLCKTRMIOS: u64 = 0x5456;
pub const TIOCSLCKTRMIOS: u64 = 0x5457;
pub const TCGETS2: u64 = 0x802c_542a;
pub const TCSETS2: u64 = 0x402c_542b;
pub const TCSETSW2: u64 = 0x402c_542c;
pub const TCSETSF2: u64 = 0x402c_542d;
pub const TIOCGPTN: u64 = 0x8004_5430;
pub const TIOCSPTLCK: u64 = 0x4004_5431;
pub const TIOCGDEV: u64 = 0x8004_5432;
pub const TIOCGPKT: u64 = 0x8004_5438;
pub const TIOCSIG: u64 = 0x4004_5436;
pub const TIOCGPTLCK: u64 = 0x8004_5439;
pub const TIOCGEXCL: u64 = 0x8004_5440;

/// PORT_16550A of linux/serial.h.
const PORT_16550A: u32 = 4;

const DONE: Answer<Reply<'static>> = Ok(Reply {
    words: [0; 8],
    data: &[],
    offset: 0,
    portals: 0,
    flags: 0,
});

fn give(cx: &mut Context, bytes: &[u8]) -> Answer<Reply<'static>> {
    cx.store(0, bytes)?;
    DONE
}

fn give_int(cx: &mut Context, value: u32) -> Answer<Reply<'static>> {
    give(cx, &value.to_le_bytes())
}

fn take_int(cx: &mut Context) -> Answer<i32> {
    let mut bytes = [0; 4];
    cx.fetch(0, &mut bytes)?;
    Ok(i32::from_le_bytes(bytes))
}

pub fn perform<W: World>(
    tty: &mut Tty<W>,
    cx: &mut Context,
    handle: &Handle<Tty<W>>,
    request: u64,
    argument: u64,
) -> Answer<Reply<'static>> {
    let (index, name) = match handle.node {
        Node::Terminal(index, name) => (index, Some(name)),
        Node::Master(index) => (index, None),
        _ => return Err(Failure::Errno(ENOTTY)),
    };
    match request {
        TCSETS | TCSETSW | TCSETSF | TCSETS2 | TCSETSW2 | TCSETSF2 | TCSETA | TCSETAW | TCSETAF => {
            set_termios(tty, cx, index, request)
        }
        TIOCSLCKTRMIOS => {
            if !cx.has(label::SYSTEM) {
                return Err(Failure::Errno(EPERM));
            }
            let mut locked = Locked::default();
            cx.fetch(0, &mut locked.0)?;
            tty.both(index)?.0.locked = locked;
            DONE
        }
        TCSBRK | TCSBRKP | TIOCSBRK | TIOCCBRK => {
            change(tty, cx, index, name)?;
            if matches!(request, TCSBRK | TCSBRKP) {
                drain(tty, cx, index)?;
            }
            let breaks = if request == TCSBRK { argument } else { 0 };
            match (breaks, tty.both(index)?.0.line) {
                // A break has no meaning to a master; a serial line's driver cannot send one.
                (0, Line::Serial(_)) => Err(Failure::Errno(EINVAL)),
                _ => DONE,
            }
        }
        TCXONC => {
            change(tty, cx, index, name)?;
            if argument > 3 {
                return Err(Failure::Errno(EINVAL));
            }
            let (terminal, world) = tty.both(index)?;
            let happened = match argument {
                // A master has nobody behind it whom it could stop.
                _ if name.is_none() => 0,
                0 | 1 => terminal.stop_output(argument == 0, world),
                _ => terminal.stop_input(argument == 2, world),
            };
            tty.tell(cx, index, happened);
            DONE
        }
        TCFLSH => {
            change(tty, cx, index, name)?;
            if argument > 2 {
                return Err(Failure::Errno(EINVAL));
            }
            let (terminal, world) = tty.both(index)?;
            let happened = terminal.flush(argument + 1, world);
            tty.tell(cx, index, happened);
            DONE
        }
        TIOCSWINSZ => {
            let mut bytes = [0; 8];
            cx.fetch(0, &mut bytes)?;
            let word = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
            let size = Size {
                rows: word(0),
                columns: word(2),
                width: word(4),
                height: word(6),
            };
            let (terminal, world) = tty.both(index)?;
            terminal.set_size(size, world);
            DONE
        }
        TIOCSCTTY => {
            let ids = tty.ids(cx);
            let steal = argument == 1 && cx.has(label::SYSTEM);
            let (terminal, world) = tty.both(index)?;
            terminal
                .acquire(&ids, steal, world)
                .map_err(Failure::Errno)?;
            DONE
        }
        TIOCNOTTY => {
            let ids = tty.ids(cx);
            let (terminal, world) = tty.both(index)?;
            terminal.release(&ids, world).map_err(Failure::Errno)?;
            DONE
        }
        TIOCGPGRP | TIOCGSID => {
            let ids = tty.ids(cx);
            let (terminal, _) = tty.both(index)?;
            // A master may always ask.
            let nobody = terminal.session == 0 && (name.is_some() || request == TIOCGSID);
            if name.is_some() && !terminal.controls(&ids) || nobody {
                return Err(Failure::Errno(ENOTTY));
            }
            let answer = if request == TIOCGSID {
                terminal.session
            } else {
                terminal.foreground
            };
            give_int(cx, answer)
        }
        TIOCSPGRP => {
            let group = take_int(cx)?;
            let ids = tty.ids(cx);
            let (terminal, world) = tty.both(index)?;
            terminal
                .set_foreground(&ids, group, world)
                .map_err(Failure::Errno)?;
            // A reader that waits may be in the background now.
            cx.wake(crate::server::key(index, event::READ));
            DONE
        }
        TIOCVHANGUP => {
            if !cx.has(label::SYSTEM) {
                return Err(Failure::Errno(EPERM));
            }
            tty.cut(cx, index);
            DONE
        }
        TIOCSTI => {
            let ids = tty.ids(cx);
            let privileged = cx.has(label::SYSTEM);
            let now = cx.transport.monotonic();
            let (terminal, world) = tty.both(index)?;
            if !(privileged || name.is_some() && terminal.controls(&ids)) {
                return Err(Failure::Errno(EPERM));
            }
            let mut byte = [0];
            cx.fetch(0, &mut byte)?;
            let happened = match name {
                Some(_) => terminal.type_in(byte[0], world, now),
                None => {
                    terminal.discipline.put_out(byte[0]);
                    event::MASTER
                }
            };
            tty.tell(cx, index, happened);
            DONE
        }
        TIOCPKT | TIOCGPKT | TIOCGPTN | TIOCSPTLCK | TIOCGPTLCK | TIOCSIG if name.is_none() => {
            master(tty, cx, index, request, argument)
        }
        _ => ask(tty, cx, index, name, request, argument),
    }
}

/// Requests that change nothing but the exclusive mark.
fn ask<W: World>(
    tty: &mut Tty<W>,
    cx: &mut Context,
    index: usize,
    name: Option<Name>,
    request: u64,
    argument: u64,
) -> Answer<Reply<'static>> {
    let (terminal, world) = tty.both(index)?;
    match request {
        TCGETS => give(cx, &terminal.discipline.termios.encode()[..SIZE]),
        TCGETS2 => give(cx, &terminal.discipline.termios.encode()),
        TCGETA => give(cx, &terminal.discipline.termios.encode_old()),
        TIOCGLCKTRMIOS => give(cx, &terminal.locked.0),
        TIOCGWINSZ => {
            let size = terminal.size;
            let mut bytes = [0; 8];
            for (place, value) in
                bytes
                    .chunks_exact_mut(2)
                    .zip([size.rows, size.columns, size.width, size.height])
            {
                place.copy_from_slice(&value.to_le_bytes());
            }
            give(cx, &bytes)
        }
        FIONREAD => {
            let waiting = match name {
                Some(_) => terminal.discipline.waiting(),
                None => terminal.discipline.unsent(),
            };
            give_int(cx, waiting as u32)
        }
        TIOCOUTQ => {
            let driver = match terminal.line {
                Line::Serial(line) => world.unsent(line),
                // Its master has all at once.
                Line::Master(_) => return give_int(cx, 0),
            };
            give_int(cx, (terminal.discipline.unsent() + driver) as u32)
        }
        TIOCGSOFTCAR => {
            let local = terminal.discipline.termios.cflag & crate::termios::c::CLOCAL != 0;
            give_int(cx, local.into())
        }
        TIOCSSOFTCAR => {
            let local = take_int(cx)? != 0;
            let mut new = tty.both(index)?.0.discipline.termios;
            new.cflag &= !crate::termios::c::CLOCAL;
            if local {
                new.cflag |= crate::termios::c::CLOCAL;
            }
            let (terminal, world) = tty.both(index)?;
            let happened = terminal.set_termios(new, world);
            tty.tell(cx, index, happened);
            DONE
        }
        TIOCEXCL | TIOCNXCL => {
            terminal.exclusive = request == TIOCEXCL;
            DONE
        }
        TIOCGEXCL => give_int(cx, terminal.exclusive as u32),
        TIOCGETD => give_int(cx, 0),
        TIOCSETD => {
            let wanted = take_int(cx)?;
            // There is one line discipline, N_TTY.
            if wanted != 0 {
                return Err(Failure::Errno(EINVAL));
            }
            DONE
        }
        TIOCGDEV => give_int(cx, terminal.device as u32),
        TIOCGSERIAL => {
            let Line::Serial(line) = terminal.line else {
                return Err(Failure::Errno(ENOTTY));
            };
            // `struct serial_struct`: type and line are what programs look at (to learn the console's name).
            let mut bytes = [0; 72];
            bytes[..4].copy_from_slice(&PORT_16550A.to_le_bytes());
            bytes[4..8].copy_from_slice(&(line as u32).to_le_bytes());
            give(cx, &bytes)
        }
        _ => {
            let _ = argument;
            Err(Failure::Errno(ENOTTY))
        }
    }
}

/// Requests of a master.
fn master<W: World>(
    tty: &mut Tty<W>,
    cx: &mut Context,
    index: usize,
    request: u64,
    argument: u64,
) -> Answer<Reply<'static>> {
    let lines = tty.lines;
    let on = matches!(request, TIOCSPTLCK | TIOCPKT) && take_int(cx)? != 0;
    let (terminal, world) = tty.both(index)?;
    let foreground = terminal.foreground;
    let Line::Master(state) = &mut terminal.line else {
        return Err(Failure::Errno(ENOTTY));
    };
    match request {
        TIOCGPTN => give_int(cx, (index - lines) as u32),
        TIOCGPTLCK => give_int(cx, state.locked as u32),
        TIOCSPTLCK => {
            state.locked = on;
            DONE
        }
        TIOCGPKT => give_int(cx, state.packet as u32),
        TIOCPKT => {
            // What happened before is not told.
            if on && !state.packet {
                state.status = 0;
            }
            state.packet = on;
            DONE
        }
        _ => {
            // What can be typed, as on Linux.
            let signal = u8::try_from(argument)
                .ok()
                .filter(|signal| matches!(*signal, SIGINT | SIGQUIT | SIGTSTP))
                .ok_or(Failure::Errno(EINVAL))?;
            if foreground != 0 {
                world.signal(foreground, signal);
            }
            DONE
        }
    }
}

/// Job control for requests that change something.
fn change<W: World>(
    tty: &mut Tty<W>,
    cx: &mut Context,
    index: usize,
    name: Option<Name>,
) -> Answer<()> {
    if name.is_none() || tty.both(index)?.0.session == 0 {
        return Ok(());
    }
    let ids = tty.ids(cx);
    let (terminal, world) = tty.both(index)?;
    terminal.check_change(&ids, world).map_err(Failure::Errno)
}

/// Wait until all output has left.
fn drain<W: World>(tty: &mut Tty<W>, cx: &mut Context, index: usize) -> Answer<()> {
    let (terminal, world) = tty.both(index)?;
    if terminal.drained(world) {
        return Ok(());
    }
    Err(tty.wait_drained(cx, index))
}

fn set_termios<W: World>(
    tty: &mut Tty<W>,
    cx: &mut Context,
    index: usize,
    request: u64,
) -> Answer<Reply<'static>> {
    let wish = match request {
        TCSETA | TCSETAW | TCSETAF => {
            let mut bytes = [0; SIZE_OLD];
            cx.fetch(0, &mut bytes)?;
            let termios = tty.both(index)?.0.discipline.termios;
            termios.with_old(&bytes)
        }
        _ => {
            let two = matches!(request, TCSETS2 | TCSETSW2 | TCSETSF2);
            let mut bytes = [0; SIZE2];
            let bytes = &mut bytes[..if two { SIZE2 } else { SIZE }];
            cx.fetch(0, bytes)?;
            Termios::decode(bytes)
        }
    };
    let mut new = wish.ok_or(Failure::Errno(EINVAL))?;
    change(tty, cx, index, Some(Name::Own))?;
    if !matches!(request, TCSETS | TCSETS2 | TCSETA) {
        drain(tty, cx, index)?;
    }
    let (terminal, world) = tty.both(index)?;
    if new.speed == 0 && new.cflag & crate::termios::c::CBAUD == crate::termios::c::BOTHER {
        // `struct termios` cannot tell an unusual speed: it stays.
        new.speed = terminal.discipline.termios.speed;
    }
    let mut happened = 0;
    if matches!(request, TCSETSF | TCSETSF2 | TCSETAF) {
        happened |= terminal.flush(1, world);
    }
    happened |= terminal.set_termios(new, world);
    tty.tell(cx, index, happened);
    DONE
}
