//! The program `fatlink`. All of it is in the library, which compiles for the program and for its unit tests alone.

use std::process::ExitCode;

fn main() -> ExitCode {
    linker_wrapper::main()
}
