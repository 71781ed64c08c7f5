//! The project's own commands, run as `cargo xtask COMMAND`.
//!
//! Without dependencies, since this is what a bare machine compiles first: what else is needed, `setup` installs.

mod bench;
mod big;
mod cuda;
mod debian;
mod demo;
mod dist;
mod environment;
mod failure;
mod fuzz;
mod library;
mod pages;
mod repository;
mod roundtrip;
mod setup;
mod step;
mod sysroot;
mod test;
mod toolchain;

use std::process::ExitCode;

use failure::Result;
use repository::Repository;

struct Subcommand {
    name: &'static str,
    help: &'static str,
    run: Run,
}

enum Run {
    Plain(fn(&Repository) -> Result<()>),
    WithArguments(fn(&Repository, &[String]) -> Result<()>),
}

const SUBCOMMANDS: [Subcommand; 9] = [
    Subcommand {
        name: "demo",
        help: "install what is missing, build fatlink, link a sample with it",
        run: Run::Plain(demo::run),
    },
    Subcommand { name: "test", help: "run every test that can run on this machine", run: Run::Plain(test::run) },
    Subcommand {
        name: "test --big",
        help: "link programs with 2.3 GB of device code; needs 6 GB of disk",
        run: Run::Plain(big::run),
    },
    Subcommand {
        name: "setup",
        help: "install LLVM 22, CUDA 13.0 and a C library to link against",
        run: Run::Plain(setup::run),
    },
    Subcommand {
        name: "env",
        help: "print what a shell needs to use them: eval \"$(cargo xtask env)\"",
        run: Run::Plain(environment::run),
    },
    Subcommand {
        name: "bench",
        help: "time fatlink against clang-linker-wrapper; bench --help says more",
        run: Run::WithArguments(bench::run),
    },
    Subcommand {
        name: "fuzz",
        help: "try damaged containers, 10 minutes each reader; --seconds N",
        run: Run::WithArguments(fuzz::run),
    },
    Subcommand {
        name: "roundtrip",
        help: "rebuild every container of the installed CUDA and LLVM",
        run: Run::Plain(roundtrip::run),
    },
    Subcommand { name: "dist", help: "build the programs and lay them out in dist/", run: Run::Plain(dist::run) },
];

impl Subcommand {
    fn is_named(&self, arguments: &[String]) -> bool {
        match self.run {
            Run::Plain(_) => arguments.join(" ") == self.name,
            Run::WithArguments(_) => arguments.first().is_some_and(|name| name == self.name),
        }
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [name] = arguments.as_slice()
        && matches!(name.as_str(), "help" | "--help" | "-h")
    {
        print!("{}", usage());
        return ExitCode::SUCCESS;
    }
    let chosen = SUBCOMMANDS.iter().find(|subcommand| subcommand.is_named(&arguments));
    let Some(subcommand) = chosen else {
        if !arguments.is_empty() {
            eprintln!("error: no such command: cargo xtask {}\n", arguments.join(" "));
        }
        eprint!("{}", usage());
        return ExitCode::from(2);
    };
    let outcome = Repository::find().and_then(|repository| match subcommand.run {
        Run::Plain(run) => run(&repository),
        Run::WithArguments(run) => run(&repository, &arguments[1..]),
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}

fn usage() -> String {
    let mut text = String::from("Usage: cargo xtask COMMAND\n\n");
    for subcommand in &SUBCOMMANDS {
        text += &format!("  {:10} {}\n", subcommand.name, subcommand.help);
    }
    text + "\nFATLINK_TOOLCHAIN names the folder that CUDA and that library are installed in, instead of .toolchain/;\n\
            several clones can share one.\n"
}
