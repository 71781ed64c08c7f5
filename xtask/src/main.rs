//! `cargo xtask COMMAND`; the library does the work.

use std::process::ExitCode;

fn main() -> ExitCode {
    xtask::main()
}
