//! The command lines of the linkers.

use std::path::{Path, PathBuf};
use std::process::Command;

use clap::ValueEnum;

use crate::corpus::Targets;
use xtask::environment::Environment;
use xtask::failure::{Failure, Result};
use xtask::repository::{create_folder, replace_link};
use xtask::step::Progress;
use xtask::toolchain::LLVM;

/// The linker that fatlink is compared with.
#[derive(Clone, Copy, Debug, Default, PartialEq, ValueEnum)]
pub enum Peer {
    /// clang-linker-wrapper of LLVM 22
    #[default]
    Clang,
    /// nvcc -dlto, on objects that it compiled itself from the same sources
    Nvcc,
}

/// Whose link it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Side {
    /// The fatlink that is measured.
    Ours,
    /// The peer.
    Theirs,
    /// Another build of fatlink.
    Baseline,
}

impl Side {
    /// For file names and messages.
    pub fn name(self) -> &'static str {
        match self {
            Side::Ours => "ours",
            Side::Theirs => "theirs",
            Side::Baseline => "baseline",
        }
    }
}

/// What links the host code afterwards.
#[derive(Clone, Debug, PartialEq)]
pub enum Host {
    /// /bin/true: the device link alone.
    None,
    /// ld.lld, to a program that runs.
    Program,
    /// ld.lld, to a relocatable object.
    Object,
}

/// One link, by any of the linkers.
#[derive(Clone, Debug)]
pub struct Link {
    pub objects: Vec<PathBuf>,
    /// What nvcc links, where it is the peer.
    pub nvcc: Option<NvccLink>,
    pub targets: Targets,
    pub host: Host,
    /// Further options for fatlink.
    pub ours: Vec<String>,
    /// Further options for the peer.
    pub theirs: Vec<String>,
}

/// nvcc's device link.
#[derive(Clone, Debug)]
pub struct NvccLink {
    pub objects: Vec<PathBuf>,
    pub options: Vec<String>,
}

/// Where the programs are.
pub struct Linkers {
    pub dist: PathBuf,
    /// Links to another build of fatlink, as in `bin` of `dist`.
    baseline: Option<PathBuf>,
    pub cuda: PathBuf,
    environment: Environment,
    /// What clang passes to the host linker around the objects: start files, library folders, libraries.
    host_line: HostLine,
}

struct HostLine {
    before: Vec<String>,
    after: Vec<String>,
}

const OUTPUT: &str = "OUTPUT";

impl Linkers {
    /// The environment of tools.
    pub fn environment(&self) -> &Environment {
        &self.environment
    }

    /// Finds the host linker's command line by running clang with an object that exists.
    pub fn new(
        progress: &Progress,
        object: &Path,
        dist: PathBuf,
        cuda: PathBuf,
        environment: Environment,
    ) -> Result<Self> {
        let mut clang = Command::new(Path::new(LLVM).join("bin/clang++"));
        clang.arg("-###").arg(object).args(["-o", OUTPUT]).arg(format!("-L{}", cuda.join("lib").display()));
        clang.args(["-lcudart_static", "-ldl", "-lrt", "-lpthread"]);
        let shown = progress.run(&mut clang)?;
        let host_line = host_line(&shown, &object.to_string_lossy())
            .ok_or_else(|| Failure { message: "clang -### shows no line for the host linker".into(), output: shown })?;
        Ok(Self { dist, baseline: None, cuda, environment, host_line })
    }

    /// Makes another build of fatlink the baseline: a program, or a folder laid out like dist/. fatlink behaves by the name that it
    /// is called by, so `folder` gets links of the names that are needed.
    pub fn set_baseline(&mut self, build: &Path, folder: &Path) -> Result<()> {
        let program = if build.is_dir() { build.join("bin/fatlink") } else { build.to_owned() };
        let program = program.canonicalize().map_err(|error| Failure::file("find", &program, &error))?;
        create_folder(folder)?;
        for name in ["clang-linker-wrapper", "ld.fatlink"] {
            replace_link(&program.to_string_lossy(), &folder.join(name))?;
        }
        self.baseline = Some(folder.to_owned());
        Ok(())
    }

    /// The folder with a side's `clang-linker-wrapper`.
    pub fn folder(&self, side: Side) -> PathBuf {
        match (side, &self.baseline) {
            (Side::Theirs, _) => Path::new(LLVM).join("bin"),
            (Side::Baseline, Some(baseline)) => baseline.clone(),
            (Side::Ours | Side::Baseline, _) => self.dist.join("bin"),
        }
    }

    /// The line by which clang calls its linker wrapper, or a replacement of it.
    pub fn command(&self, side: Side, link: &Link, output: &Path) -> Command {
        if let (Side::Theirs, Some(nvcc)) = (side, &link.nvcc) {
            return self.nvcc(link.targets, nvcc, output);
        }
        let cuda = self.cuda.display();
        let mut command = Command::new(self.folder(side).join("clang-linker-wrapper"));
        self.environment.apply(&mut command);
        // Only the options name a cache, not the user's environment.
        command.env_remove("FATLINK_CACHE");
        command.args(link.targets.architectures().iter().map(|name| format!("--should-extract={name}")));
        command.arg("--host-triple=x86_64-pc-linux-gnu");
        if link.targets == Targets::Amd {
            command.args(["-O2", "-flto=full"].map(|option| format!("--device-compiler=amdgcn-amd-amdhsa={option}")));
            if side == Side::Theirs {
                // What clang passes: code is generated by eight threads.
                command.arg("--device-linker=amdgcn-amd-amdhsa=--lto-partitions=8");
            }
        } else {
            command.arg(format!("--device-compiler=nvptx64-nvidia-cuda=--cuda-path={cuda}"));
            command.args(["-O2", "-flto=full"].map(|option| format!("--device-compiler=nvptx64-nvidia-cuda={option}")));
            command.arg(format!("--cuda-path={cuda}"));
        }
        command.args(match side {
            Side::Ours | Side::Baseline => &link.ours,
            Side::Theirs => &link.theirs,
        });
        match link.host {
            Host::None => command.arg("--linker-path=/bin/true").arg("-o").arg(output).args(&link.objects),
            Host::Object => command
                .arg(format!("--linker-path={LLVM}/bin/ld.lld"))
                .args(["-r", "-o"])
                .arg(output)
                .args(&link.objects),
            Host::Program => {
                command.arg(format!("--linker-path={LLVM}/bin/ld.lld")).args(&self.host_line.before);
                command.arg("-o").arg(output).args(&link.objects).args(&self.host_line.after)
            }
        };
        command
    }

    /// The host linker alone, without the code that registers the images.
    pub fn host_link(&self, objects: &[PathBuf], output: &Path) -> Command {
        let mut command = Command::new(Path::new(LLVM).join("bin/ld.lld"));
        command.args(&self.host_line.before).arg("-o").arg(output).args(objects).args(&self.host_line.after);
        command
    }

    /// nvcc's device link, which writes an object with the fatbin.
    fn nvcc(&self, targets: Targets, link: &NvccLink, output: &Path) -> Command {
        let mut command = Command::new(self.cuda.join("bin/nvcc"));
        command.arg("-dlink").args(&link.options);
        for name in targets.numbers() {
            command.arg(format!("-gencode=arch=compute_{name},code=sm_{name}"));
        }
        command.args(&link.objects).arg("-o").arg(output);
        command
    }
}

/// From the last line of `clang -###`, where each word is quoted.
fn host_line(shown: &str, object: &str) -> Option<HostLine> {
    let line = shown.lines().rev().find(|line| line.contains(object))?;
    let mut words: Vec<String> = line.trim().trim_matches('"').split("\" \"").map(str::to_owned).skip(1).collect();
    let output = words.iter().position(|word| word == OUTPUT)?;
    words.drain(output.checked_sub(1)?..=output);
    let place = words.iter().position(|word| word == object)?;
    let after = words.split_off(place);
    Some(HostLine { before: words, after: after.into_iter().skip(1).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_line_keeps_its_order() {
        let shown = "Debian clang version 22\n \"/usr/bin/ld\" \"-pie\" \"-o\" \"OUTPUT\" \"crt1.o\" \"a.o\" \"-lc\"\n";
        let line = host_line(shown, "a.o").unwrap();
        assert_eq!((line.before, line.after), (vec!["-pie".to_owned(), "crt1.o".into()], vec!["-lc".to_owned()]));
        assert!(host_line("nothing", "a.o").is_none());
    }
}
