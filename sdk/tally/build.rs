//! Makes `tally.idl` into a module and links the programs as native components.

mod link {
    include!("../../lib/rt/link.rs");
}

fn main() {
    link::main();
    cairn_idl_compiler::build_or_exit(&["tally.idl".as_ref()]);
}
