//! Links the program at a fixed address. LLVM is full of tables of pointers: as a position-independent
//! program it would spend milliseconds of every start relocating them.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-link-arg-bins=-no-pie");
    // The C library comes first among the shared libraries: the dynamic linker resolves some 300 symbols at every start, nearly all of
    // them there, and would look for each in the smaller libraries before.
    println!("cargo::rustc-link-lib=dylib=c");
}
