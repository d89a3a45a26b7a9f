//! The program of /proc: `cmdline=` is the machine's boot command line, `filesystems=` what disks can be mounted with; portals `proc` (system badge), `vm`
//! (control badge), `ipc`, `keys`, `net`, `local`, `event`, and `components` (`init`'s list).
#![no_std]
#![no_main]
#![forbid(unsafe_code)]

extern crate alloc;

use alloc::string::String;
use cairn_procfs::outside::{random, Outside};
use cairn_procfs::server::Procfs;
use cairn_resmgr::event::serve;
use cairn_resmgr::{Manager, Native};
use cairn_rt::{log, startup};

cairn_rt::entry!(main);

fn main() -> ! {
    let (Some(proc), Some(vm)) = (startup::portal("proc"), startup::portal("vm")) else {
        log!("portals \"proc\" and \"vm\" are missing");
        cairn_rt::start::exit(1)
    };
    let mut procfs = Procfs::new(Outside {
        proc,
        vm,
        ipc: startup::portal("ipc"),
        keys: startup::portal("keys"),
        net: startup::portal("net"),
        local: startup::portal("local"),
        event: startup::portal("event"),
        components: startup::portal("components"),
        core_pattern: "core".into(),
        boot_line: startup::argument("cmdline").unwrap_or("").into(),
        disk_types: startup::argument("filesystems")
            .unwrap_or("")
            .split(',')
            .filter(|name| !name.is_empty())
            .map(String::from)
            .collect(),
        boot_id: random(),
    });
    serve(&mut Manager::new(b"/proc"), &mut procfs, &mut Native::new())
}
