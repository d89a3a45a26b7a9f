//! Terminals with a line and processes of the imagination.

use super::*;
use crate::world::{Arrived, Attached, LineGone};
use std::collections::VecDeque;

#[derive(Default)]
pub struct Fake {
    pub incoming: VecDeque<u8>,
    pub saw_break: bool,
    pub sent: Vec<u8>,
    /// How much the line still takes.
    pub room: usize,
    /// What the line says it has not sent.
    pub unsent: usize,
    pub gone: bool,
    pub attached: Vec<u64>,
    pub signals: Vec<(u32, u8)>,
    pub sessions: Vec<(u32, u64)>,
    pub foregrounds: Vec<(u32, u32)>,
    pub groups: Vec<u32>,
    pub configured: Vec<u32>,
    /// Members of sessions that gave the terminal up for themselves.
    pub left: Vec<u32>,
    /// By domain.
    pub processes: std::collections::BTreeMap<u32, Ids>,
}

impl World for Fake {
    fn attach(&mut self, _: usize, badge: u64) -> Attached {
        self.attached.push(badge);
        if self.gone {
            Attached::Gone
        } else {
            Attached::Done
        }
    }
    fn receive(&mut self, _: usize, into: &mut [u8]) -> Result<Arrived, LineGone> {
        let count = into.len().min(self.incoming.len());
        for (to, from) in into.iter_mut().zip(self.incoming.drain(..count)) {
            *to = from;
        }
        Ok(Arrived {
            count,
            saw_break: std::mem::take(&mut self.saw_break),
        })
    }
    fn send(&mut self, _: usize, bytes: &[u8]) -> Result<usize, LineGone> {
        if self.gone {
            return Err(LineGone);
        }
        let count = bytes.len().min(self.room);
        self.room -= count;
        self.sent.extend(&bytes[..count]);
        Ok(count)
    }
    fn unsent(&mut self, _: usize) -> usize {
        self.unsent
    }
    fn flush(&mut self, _: usize, which: u64) {
        if which & 1 != 0 {
            self.incoming.clear();
        }
    }
    fn configure(&mut self, _: usize, termios: &Termios) -> bool {
        self.configured.push(termios.speed);
        true
    }
    fn ids(&mut self, domain: u32) -> Option<Ids> {
        self.processes.get(&domain).copied()
    }
    fn session_of(&mut self, pid: u32) -> Option<u32> {
        (pid == 900).then_some(7)
    }
    fn signal(&mut self, group: u32, signal: u8) -> bool {
        if signal != 0 {
            self.signals.push((group, signal));
        }
        self.groups.contains(&group)
    }
    fn leave_terminal(&mut self, member: &Ids) -> Result<(), i64> {
        self.left.push(member.pid);
        Ok(())
    }
    fn set_terminal(&mut self, session: u32, device: u64, _: usize) -> Result<(), i64> {
        self.sessions.push((session, device));
        Ok(())
    }
    fn note_foreground(&mut self, session: u32, group: u32) {
        self.foregrounds.push((session, group));
    }
}

pub const DEVICE: u64 = 0x440;

fn terminal() -> Terminal {
    Terminal::new(
        0,
        DEVICE,
        Line::Serial(0),
        Termios::default(),
        Size::default(),
    )
}

pub fn world() -> Fake {
    Fake {
        room: usize::MAX,
        groups: vec![10, 20, 900],
        ..Fake::default()
    }
}

/// A shell (session and group 10) and one of its jobs (group 20) on the terminal.
pub fn shell() -> Ids {
    Ids {
        pid: 10,
        group: 10,
        session: 10,
        terminal: DEVICE,
        leader: true,
        ..Ids::default()
    }
}

pub fn job() -> Ids {
    Ids {
        pid: 20,
        group: 20,
        leader: false,
        ..shell()
    }
}

fn controlled() -> (Terminal, Fake) {
    let (mut terminal, mut world) = (terminal(), world());
    let fresh = Ids {
        terminal: 0,
        ..shell()
    };
    assert_eq!(terminal.acquire(&fresh, false, &mut world), Ok(()));
    assert_eq!(world.sessions, [(10, DEVICE)]);
    (terminal, world)
}

#[test]
fn typed_bytes_are_echoed_and_read() {
    let (mut terminal, mut world) = (terminal(), world());
    world.incoming.extend(b"date\r");
    let happened = terminal.fill(&mut world, 5);
    assert_eq!(happened & event::READ, event::READ);
    assert_eq!(world.sent, b"date\r\n");
    assert_eq!(terminal.reading(100, 0, 9, false), Reading::Now);
    let mut buffer = [0; 100];
    assert_eq!(terminal.discipline.read(&mut buffer), 5);
    assert_eq!(terminal.reading(100, 0, 9, false), Reading::Wait);
}

#[test]
fn more_than_fits_stays_with_the_driver_and_comes_later() {
    let (mut terminal, mut world) = (terminal(), world());
    let text = b"0123456789abcde\r".repeat(2000);
    world.incoming.extend(&text);
    terminal.fill(&mut world, 1);
    assert!(!world.incoming.is_empty());
    let mut lines = 0;
    let mut buffer = [0; 100];
    while terminal.discipline.readable(1) {
        assert_eq!(terminal.discipline.read(&mut buffer), 16);
        assert_eq!(&buffer[..16], b"0123456789abcde\n");
        lines += 1;
        terminal.refill(&mut world, 2);
    }
    assert_eq!(lines, 2000);
}

#[test]
fn a_full_line_makes_writers_wait_until_it_takes_more() {
    let (mut terminal, mut world) = (terminal(), world());
    world.room = 10;
    let text = vec![b'x'; 6000];
    assert_eq!(terminal.discipline.write(&text), 6000);
    assert_eq!(terminal.pump(&mut world) & event::WRITE, 0);
    assert!(!terminal.drained(&mut world));
    world.room = 6000;
    assert_eq!(terminal.pump(&mut world), event::WRITE | event::DRAINED);
    assert_eq!(world.sent, text);
    assert!(terminal.drained(&mut world));
}

#[test]
fn output_for_a_dead_line_is_dropped() {
    let (mut terminal, mut world) = (terminal(), world());
    world.gone = true;
    terminal.discipline.write(b"x");
    assert_eq!(terminal.pump(&mut world), event::WRITE | event::DRAINED);
}

#[test]
fn raw_reads_follow_min_and_time() {
    // (VMIN, VTIME, bytes there, wanted, since, last input, now) → answer
    let second = 1_000_000_000u64;
    for (min, time, there, wanted, since, last, now, expected) in [
        (1, 0, 0, 10, 0, 0, 0, Reading::Wait),
        (1, 0, 1, 10, 0, 0, 0, Reading::Now),
        (5, 0, 3, 10, 0, 0, 0, Reading::Wait),
        (5, 0, 3, 3, 0, 0, 0, Reading::Now),
        (0, 0, 0, 10, 0, 0, 0, Reading::Empty),
        (0, 0, 1, 10, 0, 0, 0, Reading::Now),
        (0, 10, 0, 10, 5, 0, 5, Reading::WaitUntil(5 + second)),
        (0, 10, 0, 10, 5, 0, 5 + second, Reading::Empty),
        (0, 10, 1, 10, 5, 0, 6, Reading::Now),
        (5, 10, 0, 10, 0, 0, 9 * second, Reading::Wait),
        (5, 10, 2, 10, 0, 7, 8, Reading::WaitUntil(7 + second)),
        (5, 10, 2, 10, 0, 7, 7 + second, Reading::Now),
        (5, 10, 5, 10, 0, 7, 8, Reading::Now),
    ] {
        let mut terminal = terminal();
        terminal.discipline.termios.lflag = 0;
        terminal.discipline.termios.cc[cc::MIN] = min;
        terminal.discipline.termios.cc[cc::TIME] = time;
        let bytes = vec![b'x'; there];
        terminal.discipline.receive(&bytes, &mut Events::default());
        terminal.last_input = last;
        assert_eq!(
            terminal.reading(wanted, since, now, false),
            expected,
            "VMIN {min} VTIME {time}, {there} of {wanted} at {now}"
        );
    }
}

#[test]
fn characters_signal_the_foreground_group() {
    let (mut terminal, mut world) = controlled();
    assert_eq!(terminal.set_foreground(&shell(), 20, &mut world), Ok(()));
    assert_eq!(world.foregrounds, [(10, 10), (10, 20)]);
    world.incoming.push_back(3);
    terminal.fill(&mut world, 1);
    assert_eq!(world.signals, [(20, 2)]);
    assert_eq!(world.sent, b"^C");
    world.signals.clear();
    world.saw_break = true;
    terminal.discipline.termios.iflag |= crate::termios::i::BRKINT;
    terminal.fill(&mut world, 1);
    assert_eq!(world.signals, [(20, 2)]);
}

#[test]
fn the_background_is_stopped() {
    let (mut terminal, mut world) = controlled();
    assert_eq!(terminal.check_read(&shell(), &mut world), Ok(()));
    assert_eq!(terminal.check_read(&job(), &mut world), Err(ERESTARTSYS));
    assert_eq!(terminal.check_change(&job(), &mut world), Err(ERESTARTSYS));
    assert_eq!(world.signals, [(20, SIGTTIN), (20, SIGTTOU)]);
    let deaf = Ids {
        ignores_ttin: true,
        ignores_ttou: true,
        ..job()
    };
    assert_eq!(terminal.check_read(&deaf, &mut world), Err(EIO));
    assert_eq!(terminal.check_change(&deaf, &mut world), Ok(()));
    let orphan = Ids {
        orphaned: true,
        ..job()
    };
    assert_eq!(terminal.check_read(&orphan, &mut world), Err(EIO));
    assert_eq!(terminal.check_change(&orphan, &mut world), Err(EIO));
    // Somebody of another session is not subject to job control here.
    let other = Ids {
        session: 99,
        terminal: 0,
        ..job()
    };
    assert_eq!(terminal.check_read(&other, &mut world), Ok(()));
    // A job may not take the foreground behind the shell's back.
    assert_eq!(
        terminal.set_foreground(&job(), 20, &mut world),
        Err(ERESTARTSYS)
    );
}

#[test]
fn the_foreground_group_must_exist_in_the_session() {
    let (mut terminal, mut world) = controlled();
    for (group, error) in [(-1, EINVAL), (0, ESRCH), (555, ESRCH), (900, EPERM)] {
        assert_eq!(
            terminal.set_foreground(&shell(), group, &mut world),
            Err(error)
        );
    }
    let stranger = Ids {
        session: 99,
        ..shell()
    };
    assert_eq!(
        terminal.set_foreground(&stranger, 20, &mut world),
        Err(ENOTTY)
    );
}

#[test]
fn only_a_leader_without_terminal_acquires() {
    let (mut terminal, mut world) = controlled();
    assert_eq!(
        terminal.acquire(&shell(), false, &mut world),
        Ok(()),
        "has it"
    );
    let other = Ids {
        pid: 50,
        group: 50,
        session: 50,
        terminal: 0,
        leader: true,
        ..Ids::default()
    };
    assert_eq!(terminal.acquire(&other, false, &mut world), Err(EPERM));
    assert_eq!(terminal.acquire(&other, true, &mut world), Ok(()));
    assert_eq!(world.sessions, [(10, DEVICE), (10, 0), (50, DEVICE)]);
    let member = Ids {
        leader: false,
        ..other
    };
    assert_eq!(terminal.acquire(&member, true, &mut world), Err(EPERM));
    let busy = Ids {
        terminal: 0x501,
        session: 60,
        ..other
    };
    assert_eq!(terminal.acquire(&busy, true, &mut world), Err(EPERM));
}

#[test]
fn a_member_gives_the_terminal_up_for_itself_and_the_leader_for_all() {
    let (mut terminal, mut world) = controlled();
    let member = Ids {
        pid: 30,
        leader: false,
        ..shell()
    };
    assert_eq!(terminal.release(&member, &mut world), Ok(()));
    assert_eq!((&world.left[..], terminal.session), (&[30][..], 10));
    let gone = Ids {
        terminal: 0,
        ..member
    };
    assert_eq!(terminal.release(&gone, &mut world), Err(ENOTTY));
    assert!(world.signals.is_empty());
    assert_eq!(terminal.release(&shell(), &mut world), Ok(()));
    assert_eq!((world.left.len(), terminal.session), (1, 0));
}

#[test]
fn a_hang_up_tells_the_foreground_and_ends_the_session() {
    let (mut terminal, mut world) = controlled();
    terminal.foreground = 20;
    let generation = terminal.generation;
    assert_eq!(terminal.hang_up(true, &mut world), event::ALL);
    assert_eq!(world.signals, [(20, SIGHUP), (20, SIGCONT)]);
    assert_eq!((terminal.session, terminal.foreground), (0, 0));
    assert_ne!(terminal.generation, generation);
    assert_eq!(world.sessions.last(), Some(&(10, 0)));
}

#[test]
fn a_new_size_is_told_once() {
    let (mut terminal, mut world) = controlled();
    let size = Size {
        rows: 30,
        columns: 100,
        ..Size::default()
    };
    terminal.set_size(size, &mut world);
    terminal.set_size(size, &mut world);
    assert_eq!(world.signals, [(10, SIGWINCH)]);
}

#[test]
fn only_a_changed_speed_or_format_reaches_the_line() {
    let (mut terminal, mut world) = (terminal(), world());
    let mut termios = Termios {
        lflag: 0,
        ..Termios::default()
    };
    terminal.set_termios(termios, &mut world);
    assert!(world.configured.is_empty());
    termios.speed = 9600;
    terminal.set_termios(termios, &mut world);
    assert_eq!(world.configured, [9600]);
}

fn master_read(terminal: &mut Terminal, into: &mut [u8]) -> usize {
    let count = terminal.master_reads(into);
    terminal.master_has(count);
    count
}

#[test]
fn a_master_reads_output_and_echo_and_writes_input() {
    let mut world = world();
    let mut terminal = Terminal::new(
        3,
        0x8800,
        Line::Master(Master::default()),
        Termios::pseudo(),
        Size::default(),
    );
    assert_eq!(terminal.discipline.write(b"$ \n"), 3);
    let (taken, happened) = terminal.master_write(b"ls\r", &mut world, 1);
    assert_eq!(taken, 3);
    assert_eq!(happened & (event::READ | event::MASTER), 9);
    let mut buffer = [0; 4];
    assert_eq!(master_read(&mut terminal, &mut buffer), 4);
    assert_eq!(&buffer, b"$ \r\n");
    assert_eq!(master_read(&mut terminal, &mut buffer), 4);
    assert_eq!(&buffer, b"ls\r\n");
    assert!(terminal.drained(&mut world));
    // What the master has not read yet survives a signal, as if it were on the line.
    terminal.discipline.write(b"A\n");
    terminal.master_write(b"\x03", &mut world, 1);
    let mut buffer = [0; 8];
    assert_eq!(master_read(&mut terminal, &mut buffer), 5);
    assert_eq!(&buffer[..5], b"A\r\n^C");
}
