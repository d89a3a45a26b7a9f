//! Links the components and makes `sums.idl` into a module.

mod link {
    include!("../../lib/rt/link.rs");
}

fn main() {
    link::main();
    cairn_idl_compiler::build_or_exit(&["sums.idl".as_ref()]);
}
