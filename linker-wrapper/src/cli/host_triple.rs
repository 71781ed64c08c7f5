//! The hosts: machines in whose programs this program links device code.
//!
//! To add one, add its row, and its code generator in `llvm-passes/src/host.rs`.

use object::Architecture;

/// A host.
#[derive(Debug, PartialEq, Eq)]
pub struct Host {
    /// Its name in triples.
    pub name: &'static str,
    /// Another name that some systems have for it.
    other_name: &'static str,
    /// The triple of its programs, where the line names none.
    pub triple: &'static str,
    /// What its object files are for.
    pub architecture: Architecture,
    /// Its own folders of libraries on Debian, in the order of GNU ld.
    pub library_folders: [&'static str; 3],
    /// Its folders of libraries in a toolkit of CUDA.
    pub cuda_folders: [&'static str; 2],
}

const HOSTS: [Host; 2] = [
    Host {
        name: "x86_64",
        other_name: "amd64",
        triple: "x86_64-pc-linux-gnu",
        architecture: Architecture::X86_64,
        library_folders: ["/usr/local/lib/x86_64-linux-gnu", "/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu"],
        cuda_folders: ["targets/x86_64-linux/lib", "lib/x86_64-linux-gnu"],
    },
    Host {
        name: "aarch64",
        other_name: "arm64",
        triple: "aarch64-unknown-linux-gnu",
        architecture: Architecture::Aarch64,
        library_folders: ["/usr/local/lib/aarch64-linux-gnu", "/lib/aarch64-linux-gnu", "/usr/lib/aarch64-linux-gnu"],
        cuda_folders: ["targets/sbsa-linux/lib", "lib/aarch64-linux-gnu"],
    },
];

/// The machine that this program runs on, which stands for that of the host code where nothing names it.
pub const NATIVE: &Host = if cfg!(target_arch = "aarch64") { &HOSTS[1] } else { &HOSTS[0] };

/// The host of a triple, or of a machine as triples name it.
pub fn of_triple(triple: &str) -> Option<&'static Host> {
    let processor = triple.split('-').next()?;
    HOSTS.iter().find(|host| processor == host.name || processor == host.other_name)
}

/// The host of an object file.
pub fn of_architecture(architecture: Architecture) -> Option<&'static Host> {
    HOSTS.iter().find(|host| host.architecture == architecture)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn systems_name_it_differently() {
        let names = ["x86_64-pc-linux-gnu", "amd64", "aarch64-linux-gnu", "arm64-apple-macosx"].map(of_triple);
        assert_eq!(names.map(|host| host.map(|host| host.name)), ["x86_64", "x86_64", "aarch64", "aarch64"].map(Some));
        assert_eq!(["", "i686", "aarch64_be-linux-gnu", "x86_64h"].map(of_triple), [None; 4]);
    }

    #[test]
    fn the_triple_of_a_host_is_its_own() {
        assert!(HOSTS.iter().all(|host| of_triple(host.triple) == Some(host)));
        assert!(HOSTS.iter().all(|host| of_architecture(host.architecture) == Some(host)));
    }
}
