// Build script of every native component, included by its `build.rs`: links the program at an address of its own.
//
// Each component has an address space to itself, so all could be linked to the same address, and those that are not named here are. The standard ones differ so that
// an address tells whose it is: for a debugger that has all symbols loaded, a breakpoint is then in one component only.

/// Packages in this order are linked to 16 MiB, 32 MiB, …; `layout::NATIVE_BASE` is below them.
const PLACES: [&str; 10] = [
    "cairn-init",
    "cairn-vm",
    "cairn-proc",
    "cairn-tmpfs",
    "cairn-pipe",
    "cairn-tty",
    "cairn-procfs",
    "cairn-devfs",
    "cairn-uart",
    "cairn-event",
];

pub fn main() {
    let package = std::env::var("CARGO_PKG_NAME").unwrap_or_default();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../lib/rt/native.ld");
    println!("cargo:rerun-if-changed={script}");
    println!("cargo:rerun-if-changed=build.rs");
    for argument in ["--no-pie", "-zmax-page-size=4096", &format!("-T{script}")] {
        println!("cargo:rustc-link-arg-bins={argument}");
    }
    if let Some(place) = PLACES.iter().position(|name| *name == package) {
        let base = (place + 1) << 24;
        println!("cargo:rustc-link-arg-bins=--defsym=NATIVE_BASE={base:#x}");
    }
}
