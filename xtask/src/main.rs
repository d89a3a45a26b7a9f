//! The host tool behind `./cairn`: builds the system, starts it in QEMU, runs commands and tests in it, measures it.
//!
//! Everything that it makes lies under `build/`. It asks nothing and needs no configuration; what it could not do, it says with what to do next.
//!
//! Where things are: [`cli`] what can be typed; [`build`] cargo and what comes out of it; [`packages`] Debian packages that are only unpacked; [`modules`] Linux's;
//! [`image`] the guest's files; [`archive`] the boot archive's format; [`machine`] QEMU; [`disk`] its disks, [`link`] its network links, and [`composition`] what the manifest says of them; [`wire`] what is between machines; [`guest`] the conversation with the guest; [`verdict`] how a machine can fail;
//! [`interfaces`] interface definitions; [`packet`] TCP's scripts; [`portal_code`] the nucleus's shortest ways, decoded and checked.
#![forbid(unsafe_code)]

mod archive;
mod bench;
mod book;
mod build;
mod cli;
mod compat;
mod compiled;
mod composition;
mod debian;
mod debug;
mod disk;
mod exec;
mod graph;
mod guest;
mod image;
mod interfaces;
mod iso;
mod link;
mod linux_kernel;
mod log;
mod machine;
mod modules;
mod nucleus_text;
mod output;
mod packages;
mod packet;
mod places;
mod portal_code;
mod powercut;
mod progress;
mod registers;
mod run;
mod scratch;
mod share;
mod ssh;
mod symbols;
mod test;
mod trace;
mod unwind;
mod verdict;
mod wire;

use clap::Parser;
use std::panic;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = cli::Cli::parse_from(cli::without_help_for_help(std::env::args_os()));
    quiet_without_reader();
    match dispatch(cli.command) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("cairn: {error:#}");
            ExitCode::from(verdict::HOST_FAILED)
        }
    }
}

/// Whoever read our output may have gone (`./cairn test --list | head`). `println!` panics then, which need not be told.
fn quiet_without_reader() {
    let tell = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        let message = info.payload().downcast_ref::<String>();
        if message.is_some_and(|m| m.starts_with("failed printing to stdout: Broken pipe")) {
            std::process::exit(verdict::WITHOUT_READER.into());
        }
        tell(info);
    }));
}

fn dispatch(command: cli::Command) -> anyhow::Result<u8> {
    match command {
        cli::Command::Run(arguments) => run::run(&arguments),
        cli::Command::Exec(arguments) => exec::exec(&arguments),
        cli::Command::Test(arguments) => test::test(&arguments),
        cli::Command::Stress(arguments) => test::stress(&arguments),
        cli::Command::Build(arguments) => build::command(&arguments),
        cli::Command::Bench(arguments) => bench::bench(&arguments),
        cli::Command::Debug(arguments) => debug::debug(&arguments),
        cli::Command::Trace(arguments) => trace::command(&arguments),
        cli::Command::Powercut(arguments) => powercut::powercut(&arguments),
        cli::Command::Portals(arguments) => portal_code::command(&arguments),
        cli::Command::Compat(arguments) => compat::compat(&arguments),
        cli::Command::Packet(arguments) => packet::command(&arguments),
        cli::Command::Wire(arguments) => wire::command(&arguments),
        cli::Command::Docs(arguments) => book::command(&arguments),
        cli::Command::Graph(arguments) => graph::command(&arguments),
        cli::Command::Log(arguments) => log::command(&arguments),
        cli::Command::Idl(arguments) => interfaces::command(&arguments),
        cli::Command::Clean(arguments) => build::clean(&arguments),
    }
}
