//! Links the program as a native component.
fn main() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../lib/rt/native.ld");
    println!("cargo:rerun-if-changed={script}");
    for argument in ["--no-pie", "-zmax-page-size=4096", &format!("-T{script}")] {
        println!("cargo:rustc-link-arg-bins={argument}");
    }
}
