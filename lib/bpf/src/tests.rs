use super::*;

const CALL: About = About::Call(64);
const LD: u16 = 0x20;
const RET: u16 = 0x06;
const JEQ: u16 = 0x15;
const JGE: u16 = 0x35;
const JA: u16 = 0x05;

fn op(code: u16, k: u32) -> Instruction {
    jump(code, k, 0, 0)
}

fn jump(code: u16, k: u32, jump_true: u8, jump_false: u8) -> Instruction {
    Instruction {
        code,
        jump_true,
        jump_false,
        k,
    }
}

fn answer(program: &[Instruction], words: &[u32]) -> u32 {
    assert!(is_valid(program, CALL));
    run(program, |place| Some(words[place.at as usize / 4]), 64)
}

#[test]
fn programs_run() {
    let choose = [op(LD, 0), jump(JEQ, 5, 0, 1), op(RET, 1), op(RET, 2)];
    assert_eq!(answer(&choose, &[5]), 1);
    assert_eq!(answer(&choose, &[6]), 2);
    let arithmetic = |code, a, k| answer(&[op(0, a), op(code, k), op(0x16, 0)], &[]);
    for (code, a, k, expected) in [
        (0x04, u32::MAX, 2, 1),
        (0x14, 1, 2, u32::MAX),
        (0x24, 1 << 31, 2, 0),
        (0x34, 7, 2, 3),
        (0x44, 5, 2, 7),
        (0x54, 7, 2, 2),
        (0x64, 3, 4, 48),
        (0x74, 48, 4, 3),
        (0xa4, 6, 3, 5),
        (0x84, 1, 0, u32::MAX),
    ] {
        assert_eq!(arithmetic(code, a, k), expected, "{code:#x}");
    }
    // Memory, X, length; division by an X of 0 answers 0.
    let memory = [op(0, 9), op(0x02, 3), op(0x61, 3), op(0x87, 0), op(0x16, 0)];
    assert_eq!(answer(&memory, &[]), 9);
    assert_eq!(answer(&[op(0x80, 0), op(0x16, 0)], &[]), 64);
    assert_eq!(answer(&[op(0, 9), op(0x3c, 0), op(RET, 7)], &[]), 0);
    let jumps = [
        op(JA, 1),
        op(RET, 1),
        jump(JGE, 1, 1, 0),
        op(RET, 2),
        op(RET, 3),
    ];
    assert_eq!(answer(&jumps, &[]), 2);
}

#[test]
fn what_is_refused() {
    let good = op(RET, 0);
    let refused: &[&[Instruction]] = &[
        &[],
        // No return at the end; jumps beyond it.
        &[op(LD, 0)],
        &[op(JA, 1), good],
        &[jump(JEQ, 0, 1, 0), good],
        &[jump(JEQ, 0, 0, 1), good],
        &[op(JA, u32::MAX), good],
        // Data: not of words, beyond the end.
        &[op(LD, 2), good],
        &[op(LD, 64), good],
        &[op(0x28, 0), good],
        &[op(0x30, 0), good],
        &[op(0x40, 0), good],
        // Constants without meaning; memory that is not there, or not written on each way.
        &[op(0x34, 0), good],
        &[op(0x64, 32), good],
        &[op(0x02, 16), good],
        &[op(0x60, 0), good],
        &[jump(JEQ, 0, 1, 0), op(0x02, 0), op(0x60, 0), good],
        // Modulo, a return of X, and what is no code.
        &[op(0x94, 2), good],
        &[op(0x0e, 0)],
        &[op(0xffff, 0), good],
    ];
    for (at, program) in refused.iter().enumerate() {
        assert!(!is_valid(program, CALL), "{at}");
    }
    assert!(is_valid(&[op(0x02, 0), op(0x60, 0), good], CALL));
    let mut long = Vec::from([good; MOST]);
    assert!(is_valid(&long, CALL));
    long.push(good);
    assert!(!is_valid(&long, CALL));
}

#[test]
fn what_a_program_always_answers() {
    let number = |n: u32| move |at: u32| (at == 0).then_some(n);
    let refuses = |value: u32| value == 9;
    // Call 5 is refused unless its first argument is 1; calls from 10 on always; others never.
    let program = [
        op(LD, 0),
        jump(JGE, 10, 4, 0),
        jump(JEQ, 5, 0, 2),
        op(LD, 16),
        jump(JEQ, 1, 0, 1),
        op(RET, 1),
        op(RET, 9),
    ];
    assert!(is_valid(&program, CALL));
    let sure = |n: u32| always(&program, number(n), 64, refuses);
    assert_eq!([sure(4), sure(5), sure(10)], [false, false, true]);
    // What arithmetic with an unknown makes is unknown; a constant behind it is known.
    let unknown = [op(LD, 16), op(0x54, 0), op(0x16, 0)];
    assert!(!always(&unknown, number(0), 64, |value| value == 0));
    let hidden = [op(LD, 16), op(0, 9), op(0x16, 0)];
    assert!(always(&hidden, number(0), 64, refuses));
    // Two ways meet: equal on both.
    let meets = [
        op(LD, 16),
        jump(JEQ, 1, 0, 1),
        op(0, 9),
        op(0, 9),
        op(0x16, 0),
    ];
    assert!(always(&meets, number(0), 64, refuses));
}

/// Whatever a program always answers, it answers for any data.
#[test]
fn what_is_sure_is_so() {
    let mut seed = 1u64;
    let mut random = |below: u64| {
        seed = seed
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (seed >> 33) % below
    };
    let codes = [
        0x00, 0x20, 0x80, 0x01, 0x02, 0x60, 0x61, 0x04, 0x0c, 0x54, 0x5c, 0x3c, 0x74, 0x05, 0x15,
        0x1d, 0x25, 0x35, 0x45, 0x06, 0x16, 0x07, 0x87,
    ];
    let (mut valid, mut sure) = (0, 0);
    for _ in 0..200_000 {
        let mut program = Vec::new();
        for _ in 0..random(9) + 1 {
            let code = codes[random(codes.len() as u64) as usize];
            program.push(jump(
                code,
                random(5) as u32 * 4,
                random(3) as u8,
                random(3) as u8,
            ));
        }
        program.push(op(RET, random(3) as u32 * 4));
        if !is_valid(&program, CALL) {
            continue;
        }
        valid += 1;
        if always(
            &program,
            |at| (at == 0).then_some(4),
            64,
            |value| value == 4,
        ) {
            sure += 1;
            for _ in 0..8 {
                let words: Vec<u32> = (0..16)
                    .map(|at| if at == 0 { 4 } else { random(4) as u32 * 4 })
                    .collect();
                assert_eq!(answer(&program, &words), 4, "{program:?}");
            }
        }
    }
    assert!(valid > 1000 && sure > 100, "{valid} {sure}");
}
