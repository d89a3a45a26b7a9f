//! Hands the nucleus's linker script to the linker; only the bare program uses it.

fn main() {
    let folder = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    // With its whole path: in a checkout that was moved the old one is missing, and this is asked again.
    println!("cargo:rerun-if-changed={folder}/kernel.ld");
    println!("cargo:rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("none") {
        println!("cargo:rustc-link-arg-bins=-T{folder}/kernel.ld");
        println!("cargo:rustc-link-arg-bins=-zmax-page-size=4096");
        println!("cargo:rustc-link-arg-bins=--no-pie");
    }
}
