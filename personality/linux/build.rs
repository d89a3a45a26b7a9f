//! Linker arguments of the personality's image: a static image at `layout::PERSONALITY`.

fn main() {
    let here = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    // With its whole path: in a checkout that was moved the old one is missing, and this is asked again.
    println!("cargo:rerun-if-changed={here}/personality.ld");
    println!("cargo:rerun-if-changed=build.rs");
    if std::env::var("TARGET").is_ok_and(|target| target.ends_with("-none")) {
        println!("cargo:rustc-link-arg-bins=-T{here}/personality.ld");
        println!("cargo:rustc-link-arg-bins=-zmax-page-size=4096");
        println!("cargo:rustc-link-arg-bins=--no-pie");
    }
}
