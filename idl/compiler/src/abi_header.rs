//! `cairn/abi.h`: the constants of `cairn-abi` that C programs need, by their values in this build, so that they are written down once.

use cairn_abi::service::memory::pool;
use cairn_abi::service::{current, domain, interrupt, log, ports, receive, window};
use cairn_abi::{flag, layout, op, pulse, received, rights, state, Error};
use std::fmt::Write;

/// The header.
pub fn header() -> String {
    let mut text = String::from(
        "// What the nucleus and every program agree on, as far as C programs need it. Generated from cairn-abi by ./cairn; what the values mean stands there.\n\
         #ifndef CAIRN_ABI_H\n#define CAIRN_ABI_H\n\n#include <stdint.h>\n\n",
    );
    let mut define = |name: &str, value: u64| {
        let _ = writeln!(text, "#define CAIRN_{name} UINT64_C({value:#x})");
    };
    for (name, value) in [
        ("OP_CALL", op::CALL),
        ("OP_NOTIFY", op::NOTIFY),
        ("DOMAIN_INFO", domain::INFO),
        ("CURRENT_EXIT", current::EXIT),
        ("CURRENT_DEADLINE", current::DEADLINE),
        ("CURRENT_CLOCK", current::CLOCK),
        ("CURRENT_PORTAL_CLOSE", current::PORTAL_CLOSE),
        ("CURRENT_WINDOW_CREATE", current::WINDOW_CREATE),
        ("WINDOW_OPEN", window::OPEN),
        ("WINDOW_CLOSE", window::CLOSE),
        ("RECEIVE_RECEIVE", receive::RECEIVE),
        ("RECEIVE_REPLY", receive::REPLY),
        ("RECEIVE_REPLY_RECEIVE", receive::REPLY_RECEIVE),
        ("RECEIVE_READ", receive::READ),
        ("RECEIVE_WRITE", receive::WRITE),
        ("RECEIVE_MAKE_PORTAL", receive::MAKE_PORTAL),
        ("RECEIVE_SIGN", receive::SIGN),
        ("RECEIVE_NEXT_BADGE", receive::NEXT_BADGE),
        ("LOG_WRITE", log::WRITE),
        ("INTERRUPT_BIND", interrupt::BIND),
        ("INTERRUPT_ACKNOWLEDGE", interrupt::ACKNOWLEDGE),
        ("PORTS_IN8", ports::IN8),
        ("PORTS_OUT8", ports::OUT8),
        ("PORTS_IN16", ports::IN16),
        ("PORTS_OUT16", ports::OUT16),
        ("PORTS_IN32", ports::IN32),
        ("PORTS_OUT32", ports::OUT32),
        ("KIND_MESSAGE", received::kind::MESSAGE),
        ("KIND_PULSE", received::kind::PULSE),
    ] {
        define(name, u64::from(value));
    }
    for (name, value) in [
        ("FLAG_PARTS", flag::PARTS),
        ("FLAG_OUT_VECTOR", flag::OUT_VECTOR),
        ("FLAG_IN_VECTOR", flag::IN_VECTOR),
        ("FLAG_WINDOWS", flag::WINDOWS),
        ("FLAG_KEEP", flag::KEEP),
        ("FLAG_MOVE", flag::MOVE),
        ("FLAG_INTERRUPTIBLE", flag::INTERRUPTIBLE),
        ("FLAG_MINT", flag::MINT),
        ("FLAG_PASS_ONCE", flag::PASS_ONCE),
        ("FLAG_NOT_FURTHER", flag::NOT_FURTHER),
        ("PORTALS_SHIFT", u64::from(flag::PORTALS_SHIFT)),
        ("MAX_PORTALS", cairn_abi::MAX_PORTALS as u64),
        ("RECEIVED_KIND_SHIFT", u64::from(received::KIND_SHIFT)),
        ("RECEIVED_PORTALS_SHIFT", u64::from(received::PORTALS_SHIFT)),
        ("RECEIVED_SENDER_SHIFT", u64::from(received::SENDER_SHIFT)),
        ("PULSE_NOTIFY", pulse::NOTIFY),
        ("PULSE_CLOSED", pulse::CLOSED),
        ("PULSE_UNBLOCK", pulse::UNBLOCK),
        ("PULSE_GONE", pulse::GONE),
        ("PULSE_INTERRUPT", pulse::INTERRUPT),
        ("RIGHTS_DEFAULT", u64::from(rights::DEFAULT)),
        ("POOL_SIGNATURE", pool::SIGNATURE),
        ("AUTO", cairn_abi::service::AUTO),
        ("PAGE", layout::PAGE),
        ("DEVICES", layout::DEVICES),
        ("WINDOW_PAGES", window::MAX_PAGES),
        ("WINDOW_IN", window::IN),
        ("WINDOW_KEEP", window::KEEP),
        ("WINDOW_COPY", window::COPY),
        ("STARTUP", layout::STARTUP),
        ("STARTUP_MAGIC", state::STARTUP_MAGIC),
        ("SLOT_CURRENT", u64::from(layout::native_slot::CURRENT)),
        ("SLOT_DOMAIN", u64::from(layout::native_slot::DOMAIN)),
        ("SLOT_LOG", u64::from(layout::native_slot::LOG)),
        ("SLOT_RECEIVE", u64::from(layout::native_slot::RECEIVE)),
        ("SLOT_VM", u64::from(layout::native_slot::VM)),
    ] {
        define(name, value);
    }
    for code in 1..=u8::MAX {
        if let Some(error) = Error::from_code(code) {
            define(
                &format!("ERROR_{}", parted(&format!("{error:?}"))),
                u64::from(code),
            );
        }
    }
    text.push_str("\n#endif\n");
    text
}

/// `BadPortal` → `BAD_PORTAL`.
fn parted(name: &str) -> String {
    let mut text = String::new();
    for (i, letter) in name.chars().enumerate() {
        if letter.is_ascii_uppercase() && i > 0 {
            text.push('_');
        }
        text.push(letter.to_ascii_uppercase());
    }
    text
}
