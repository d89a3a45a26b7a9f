//! Tables: bytes typed → what the screen shows, what signals go out, what lines a reader gets.

use super::*;

fn with(change: impl FnOnce(&mut Termios)) -> Discipline {
    let mut termios = Termios::default();
    change(&mut termios);
    Discipline::new(termios)
}

/// Type; returns (screen, signals, every read with a buffer of 4096).
fn typed(discipline: &mut Discipline, bytes: &[u8]) -> (String, u32, Vec<String>) {
    let mut events = Events::default();
    assert_eq!(discipline.receive(bytes, &mut events), bytes.len());
    let mut reads = Vec::new();
    while discipline.readable(1) {
        let mut buffer = [0; 4096];
        let count = discipline.read(&mut buffer);
        reads.push(String::from_utf8_lossy(&buffer[..count]).into_owned());
    }
    (screen(discipline), events.signals, reads)
}

fn screen(discipline: &mut Discipline) -> String {
    let mut shown = Vec::new();
    while !discipline.output().is_empty() {
        let bytes = discipline.output().to_vec();
        discipline.sent(bytes.len());
        shown.extend(bytes);
    }
    String::from_utf8_lossy(&shown).into_owned()
}

fn check(mut discipline: Discipline, input: &[u8], shown: &str, signals: u32, reads: &[&str]) {
    let (screen, sent, lines) = typed(&mut discipline, input);
    assert_eq!(screen, shown, "screen after {input:?}");
    assert_eq!(sent, signals, "signals after {input:?}");
    assert_eq!(lines, reads, "reads after {input:?}");
}

#[test]
fn lines_are_edited_and_echoed() {
    let rows: &[(&[u8], &str, &[&str])] = &[
        (b"ls\r", "ls\r\n", &["ls\n"]),
        (b"ls\n", "ls\r\n", &["ls\n"]),
        (b"ab", "ab", &[]),
        (b"a\rb\r", "a\r\nb\r\n", &["a\n", "b\n"]),
        // Erase, erase at the start of the line, erase of a control character.
        (b"ax\x7fb\r", "ax\x08 \x08b\r\n", &["ab\n"]),
        (b"\x7f\x7fa\r", "a\r\n", &["a\n"]),
        (
            b"a\x16\x01\x7f\r",
            "a^\x08^A\x08 \x08\x08 \x08\r\n",
            &["a\n"],
        ),
        // Kill and word erase.
        (
            b"abc\x15d\r",
            "abc\x08 \x08\x08 \x08\x08 \x08d\r\n",
            &["d\n"],
        ),
        (
            b"ab  cd \x17e\r",
            "ab  cd \x08 \x08\x08 \x08\x08 \x08e\r\n",
            &["ab  e\n"],
        ),
        // Reprint.
        (b"ab\x12c\r", "ab^R\r\nabc\r\n", &["abc\n"]),
        // End of file: with and without something before it, twice.
        (b"\x04", "", &[""]),
        (b"ab\x04", "ab", &["ab"]),
        (b"ab\x04\x04", "ab", &["ab", ""]),
        // Literal next takes every meaning away.
        (b"\x16\x03\r", "^\x08^C\r\n", &["\u{3}\n"]),
        (b"\x16\x04\r", "^\x08^D\r\n", &["\u{4}\n"]),
        (b"\x16\n\r", "^\x08\r\n\r\n", &["\n\n"]),
        // Other control characters show as ^X.
        (b"\x01\x1b[A\r", "^A^[[A\r\n", &["\u{1}\u{1b}[A\n"]),
    ];
    for (input, shown, reads) in rows {
        check(with(|_| {}), input, shown, 0, reads);
    }
}

#[test]
fn tabs_are_erased_by_their_width() {
    check(
        with(|_| {}),
        b"\t\x7f",
        "\t\x08\x08\x08\x08\x08\x08\x08\x08",
        0,
        &[],
    );
    check(
        with(|_| {}),
        b"abc\t\x7f",
        "abc\t\x08\x08\x08\x08\x08",
        0,
        &[],
    );
    check(
        with(|_| {}),
        b"\tab\t\x7f",
        "\tab\t\x08\x08\x08\x08\x08\x08",
        0,
        &[],
    );
    // A prompt moved the column before the line began.
    let mut discipline = with(|_| {});
    discipline.write(b"$ ");
    check(discipline, b"a\t\x7f", "$ a\t\x08\x08\x08\x08\x08", 0, &[]);
}

#[test]
fn signals_flush_and_show() {
    for (byte, signal, shown) in [
        (3u8, SIGINT, "^C"),
        (0x1c, SIGQUIT, "^\\"),
        (0x1a, SIGTSTP, "^Z"),
    ] {
        let mut discipline = with(|_| {});
        let mut events = Events::default();
        discipline.receive(b"done\rab", &mut events);
        discipline.receive(&[byte], &mut events);
        assert_eq!(events.signals, 1 << signal);
        assert!(events.flush);
        assert!(!discipline.readable(1), "waiting lines are thrown away");
        assert_eq!(screen(&mut discipline), shown, "unsent output too");
        // The line being typed is gone as well.
        let (_, _, reads) = typed(&mut discipline, b"c\r");
        assert_eq!(reads, ["c\n"]);
    }
    // NOFLSH keeps everything.
    check(
        with(|t| t.lflag |= l::NOFLSH),
        b"ab\x03c\r",
        "ab^Cc\r\n",
        1 << SIGINT,
        &["abc\n"],
    );
    // Without ISIG they are bytes.
    check(
        with(|t| t.lflag &= !l::ISIG),
        b"\x03\r",
        "^C\r\n",
        0,
        &["\u{3}\n"],
    );
}

#[test]
fn input_flags_translate() {
    check(with(|t| t.iflag = 0), b"a\rb\n", "a^Mb\r\n", 0, &["a\rb\n"]);
    check(
        with(|t| t.iflag = i::IGNCR),
        b"a\rb\n",
        "ab\r\n",
        0,
        &["ab\n"],
    );
    check(with(|t| t.iflag = i::INLCR), b"a\nb", "a^Mb", 0, &[]);
    check(
        with(|t| t.iflag = i::ISTRIP),
        b"\xe1\n",
        "a\r\n",
        0,
        &["a\n"],
    );
    check(
        with(|t| t.iflag = i::IUCLC),
        b"AbC\n",
        "abc\r\n",
        0,
        &["abc\n"],
    );
    let mut marked = with(|t| t.iflag = i::PARMRK);
    let mut events = Events::default();
    marked.receive(b"\xff\n", &mut events);
    let mut buffer = [0; 8];
    assert_eq!(marked.read(&mut buffer), 3);
    assert_eq!(buffer[..3], *b"\xff\xff\n");
}

#[test]
fn breaks_follow_their_flags() {
    for (flags, signals, expected) in [
        (i::IGNBRK, 0, &b""[..]),
        (i::BRKINT, 1 << SIGINT, b""),
        (0, 0, b"\0"),
        (i::PARMRK, 0, b"\xff\0\0"),
    ] {
        let mut discipline = with(|t| {
            t.iflag = flags;
            t.lflag &= !l::ICANON;
        });
        let mut events = Events::default();
        discipline.receive_break(&mut events);
        assert_eq!(events.signals, signals);
        let mut buffer = [9; 8];
        let count = discipline.read(&mut buffer);
        assert_eq!(&buffer[..count], expected);
    }
}

#[test]
fn echo_flags_change_what_is_shown() {
    check(
        with(|t| t.lflag &= !l::ECHO),
        b"ab\x7f\x15c\r",
        "",
        0,
        &["c\n"],
    );
    check(
        with(|t| {
            t.lflag &= !l::ECHO;
            t.lflag |= l::ECHONL;
        }),
        b"pw\r",
        "\r\n",
        0,
        &["pw\n"],
    );
    check(
        with(|t| t.lflag &= !l::ECHOE),
        b"ab\x7f\r",
        "ab^?\r\n",
        0,
        &["a\n"],
    );
    check(
        with(|t| t.lflag &= !l::ECHOKE),
        b"ab\x15c\r",
        "ab^U\r\nc\r\n",
        0,
        &["c\n"],
    );
    check(
        with(|t| t.lflag &= !(l::ECHOKE | l::ECHOK)),
        b"ab\x15c\r",
        "ab^Uc\r\n",
        0,
        &["c\n"],
    );
    check(
        with(|t| t.lflag &= !l::ECHOCTL),
        b"\x01\x7f\r",
        "\u{1}\r\n",
        0,
        &["\n"],
    );
    check(
        with(|t| t.lflag |= l::ECHOPRT),
        b"abc\x7f\x7fd\r",
        "abc\\cb/d\r\n",
        0,
        &["ad\n"],
    );
}

#[test]
fn multi_byte_characters_are_erased_whole() {
    let typed_in = "aü\u{7f}b\r".as_bytes();
    check(
        with(|t| t.iflag |= i::IUTF8),
        typed_in,
        "aü\x08 \x08b\r\n",
        0,
        &["ab\n"],
    );
}

#[test]
fn the_other_line_ends() {
    check(
        with(|t| {
            t.cc[cc::EOL] = b';';
            t.cc[cc::EOL2] = b'!';
        }),
        b"a;b!c\r",
        "a;b!c\r\n",
        0,
        &["a;", "b!", "c\n"],
    );
}

#[test]
fn raw_mode_hands_out_bytes() {
    let raw = |t: &mut Termios| {
        t.iflag = 0;
        t.lflag = 0;
        t.oflag = 0;
    };
    check(
        with(raw),
        b"a\x03\x7f\r\n\x04",
        "",
        0,
        &["a\u{3}\u{7f}\r\n\u{4}"],
    );
    let mut discipline = with(raw);
    discipline.receive(b"abc", &mut Events::default());
    assert!(discipline.readable(3));
    assert!(!discipline.readable(4));
    assert_eq!(discipline.waiting(), 3);
    let mut two = [0; 2];
    assert_eq!(discipline.read(&mut two), 2);
    assert_eq!(&two, b"ab");
}

#[test]
fn changing_the_mode_keeps_what_was_typed() {
    // Type-ahead of a shell: half a line becomes bytes.
    let mut discipline = with(|_| {});
    discipline.receive(b"ab\rcd", &mut Events::default());
    let mut raw = discipline.termios;
    raw.lflag &= !l::ICANON;
    discipline.set_termios(raw);
    let mut buffer = [0; 16];
    assert_eq!(discipline.read(&mut buffer), 5);
    assert_eq!(&buffer[..5], b"ab\ncd");
    // And bytes become a line.
    discipline.receive(b"ef", &mut Events::default());
    discipline.set_termios(Termios::default());
    assert!(discipline.readable(1));
    assert_eq!(discipline.read(&mut buffer), 2);
    assert!(!discipline.readable(1));
}

#[test]
fn a_line_may_be_read_in_pieces() {
    let mut discipline = with(|_| {});
    discipline.receive(b"abcdef\rx\r", &mut Events::default());
    let mut four = [0; 4];
    assert_eq!(discipline.read(&mut four), 4);
    assert_eq!(discipline.read(&mut four), 3);
    assert_eq!(&four[..3], b"ef\n");
    assert_eq!(discipline.read(&mut four), 2);
    // An end of file right behind a full buffer is part of that line.
    discipline.receive(b"abcd\x04", &mut Events::default());
    assert_eq!(discipline.read(&mut four), 4);
    assert!(!discipline.readable(1));
}

#[test]
fn a_line_too_long_is_cut_but_ends() {
    let mut discipline = with(|t| t.iflag |= i::IMAXBEL);
    let mut events = Events::default();
    let long = vec![b'x'; 5000];
    assert_eq!(discipline.receive(&long, &mut events), 5000);
    assert!(screen(&mut discipline).ends_with('\u{7}'));
    discipline.receive(b"\r", &mut events);
    let mut buffer = vec![0; 8192];
    assert_eq!(discipline.read(&mut buffer), queue::SIZE);
    assert_eq!(buffer[queue::SIZE - 1], b'\n');
    // With lines waiting nothing is cut: the line's driver keeps the rest.
    let lines = b"0123456\r".repeat(600);
    let taken = discipline.receive(&lines, &mut events);
    assert!(taken < lines.len());
    let mut total = 0;
    let mut offered = taken;
    while total < lines.len() {
        while discipline.readable(1) {
            let count = discipline.read(&mut buffer);
            assert_eq!(&buffer[..count], b"0123456\n");
            total += count;
        }
        offered += discipline.receive(&lines[offered..], &mut events);
        screen(&mut discipline);
    }
}

#[test]
fn raw_input_stops_when_full() {
    let mut discipline = with(|t| t.lflag = 0);
    let bytes: Vec<u8> = (0..10_000u32).map(|n| (n * 7 % 251) as u8 | 0x40).collect();
    let mut got = Vec::new();
    let mut offered = 0;
    while got.len() < bytes.len() {
        offered += discipline.receive(&bytes[offered..], &mut Events::default());
        let mut buffer = [0; 1000];
        let count = discipline.read(&mut buffer);
        got.extend_from_slice(&buffer[..count]);
    }
    assert_eq!(got, bytes);
}

#[test]
fn flow_control_stops_and_starts_output() {
    let mut discipline = with(|_| {});
    let mut events = Events::default();
    discipline.receive(b"\x13", &mut events);
    assert_eq!(discipline.write(b"text"), 4);
    assert!(discipline.output().is_empty());
    discipline.receive(b"\x11", &mut events);
    assert_eq!(screen(&mut discipline), "text");
    // IXANY: any character starts it again.
    discipline.termios.iflag |= i::IXANY;
    discipline.receive(b"\x13a", &mut events);
    assert_eq!(screen(&mut discipline), "a");
    // ^C starts it too.
    discipline.termios.iflag &= !i::IXANY;
    discipline.receive(b"\x13\x03", &mut events);
    assert_eq!(screen(&mut discipline), "^C");
}

#[test]
fn output_is_processed() {
    let rows: &[(u32, &str, &str)] = &[
        (o::OPOST | o::ONLCR, "a\nb\n", "a\r\nb\r\n"),
        (o::OPOST, "a\nb", "a\nb"),
        (0, "a\nb\t", "a\nb\t"),
        (o::OPOST | o::OCRNL, "a\rb", "a\nb"),
        (o::OPOST | o::ONOCR, "\ra\r\r", "a\r"),
        (o::OPOST | o::OLCUC, "abÄ1", "ABÄ1"),
        (
            o::OPOST | o::XTABS,
            "a\tb\x08\x08c\t.",
            "a       b\x08\x08c        .",
        ),
        (o::OPOST | o::ONLCR | o::XTABS, "ab\n\tc", "ab\r\n        c"),
    ];
    for (flags, input, shown) in rows {
        let mut discipline = with(|t| t.oflag = *flags);
        assert_eq!(discipline.write(input.as_bytes()), input.len());
        assert_eq!(&screen(&mut discipline), shown, "{flags:o} {input:?}");
    }
}

#[test]
fn writers_wait_and_echo_is_bounded() {
    let mut discipline = with(|_| {});
    let text = vec![b'\n'; 3 * OUTPUT_LIMIT];
    let taken = discipline.write(&text);
    assert!(taken < OUTPUT_LIMIT && !discipline.writable());
    for _ in 0..10 * OUTPUT_LIMIT {
        discipline.receive(b"a\x7f", &mut Events::default());
    }
    assert!(discipline.unsent() <= 2 * OUTPUT_LIMIT);
}

/// Whatever is typed and however the modes change: no panic, and nothing beyond the limits.
#[test]
fn random_bytes_and_modes_break_nothing() {
    let mut seed = 0x1234_5678_9abc_def0u64;
    let mut random = move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    let mut discipline = with(|_| {});
    for _ in 0..200_000 {
        let word = random();
        match word % 16 {
            0 => {
                let mut termios = Termios::default();
                termios.lflag ^= (random() & random()) as u32;
                termios.iflag ^= (random() & random()) as u32;
                termios.oflag ^= (random() & random()) as u32;
                discipline.set_termios(termios);
            }
            1 => {
                let mut buffer = [0; 100];
                let length = random() as usize % 100;
                discipline.read(&mut buffer[..length]);
            }
            2 => discipline.sent(random() as usize % 200),
            3 => {
                discipline.write(&word.to_le_bytes());
            }
            _ => {
                discipline.receive(&word.to_le_bytes(), &mut Events::default());
            }
        }
        assert!(discipline.waiting() <= queue::SIZE);
        assert!(discipline.unsent() <= 2 * OUTPUT_LIMIT);
    }
}
