//! Links the program at a fixed address. LLVM is full of tables of pointers: as a position-independent
//! program it would spend milliseconds of every start relocating them.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-link-arg-bins=-no-pie");
}
