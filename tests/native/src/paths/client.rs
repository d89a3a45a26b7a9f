//! A client: calls and notifies whom it can, and disturbs its own domain's threads.

use crate::common::{fold_words, known, weaker, Player, STEPS};
use crate::server::RELEASE;
use crate::{channel, count, DONE, STOPS, TARGETS, THREADS, UNSERVED, VICTIMS};
use cairn_abi::op;
use cairn_abi::service::{current, thread, AUTO};
use cairn_rt::gate::{selector, Gate};
use cairn_rt::Portal;
use core::sync::atomic::Ordering::Relaxed;

/// Plays until enough steps were made. `index`: which of the clients here; `near`: in the domain that the leader is in.
pub fn run(mut player: Player, index: u32, near: bool) -> ! {
    let most = if near { count() } else { count() / 4 };
    while STEPS.load(Relaxed) < most {
        STEPS.fetch_add(1, Relaxed);
        let target = TARGETS[player.random.below(3) as usize];
        match player.random.below(48) {
            0 => {
                let bits = player.random.next() & !RELEASE;
                player.service(target, op::NOTIFY, &[bits]);
            }
            1 => {
                player.own(current::YIELD, &[]);
            }
            2 => {
                player.own(current::POKE_TAKE, &[]);
            }
            3 if near => {
                let victim = 1 + player.random.below(VICTIMS) as u32;
                STOPS[victim as usize].fetch_add(1, Relaxed);
                player.service(THREADS + victim, thread::STOP, &[]);
            }
            4 => {
                let threads = if near { VICTIMS } else { 2 };
                let victim = 1 + player.random.below(threads) as u32;
                player.service(THREADS + victim, thread::POKE, &[]);
            }
            5 => weaker(&mut player, target),
            6 => {
                if let Some(gift) = player.take_gift() {
                    player.drop_gift(gift);
                }
            }
            7..=9 => {
                let at = player.random.below(5) as usize;
                let gift = player.gifts[at];
                if gift != 0 {
                    player.call(gift);
                }
            }
            10 => {
                let at = player.random.below(5) as usize;
                let gift = player.gifts[at];
                if gift != 0 {
                    let bits = player.random.next() & !RELEASE;
                    player.service(gift, op::NOTIFY, &[bits]);
                }
            }
            11 => {
                let slot = [63, 300, 70_000, AUTO as u32][player.random.below(4) as usize];
                player.call(slot);
            }
            12 => identity(),
            13 if near => {
                let slot = UNSERVED + 2 * index;
                channel(slot, slot + 1);
                player.call(slot + 1);
                player.own(current::PORTAL_CLOSE, &[slot as u64 + 1]);
            }
            13..=20 => words_only(&mut player, target),
            21..=26 => player.call_with_short_parts(target),
            27..=30 => player.call_with_shown_parts(target),
            _ => player.call(target),
        }
    }
    DONE.fetch_add(1, Relaxed);
    cairn_rt::start::exit(0)
}

fn identity() {
    if let Ok(w) = Portal::CURRENT.service(current::IDENTITY, &[]) {
        fold_words(&[known(w[0] as u32), known(w[1] as u32), w[2]]);
    }
}

/// The plainest of calls; registers that are no part of it must stay as they are.
fn words_only(player: &mut Player, slot: u32) {
    let mut g = Gate {
        rax: selector(slot, op::CALL, 0),
        words: player.words(),
        rbx: player.random.next(),
        rbp: player.random.next(),
        r14: player.random.next(),
        r15: player.random.next(),
    };
    let sent = g;
    // SAFETY: no parts.
    let _ = unsafe { g.traverse() };
    let kept = [g.rbx, g.rbp, g.r14, g.r15] == [sent.rbx, sent.rbp, sent.r14, sent.r15];
    fold_words(&[g.rax, kept as u64]);
    fold_words(&g.words);
    if g.rax as u8 == 0 {
        player.arrived(&g);
    }
}
