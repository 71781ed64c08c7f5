//! The CMake package, as the Debian package installs it: the CUDA sample with each version of CMake and each generator.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::environment::Environment;
use crate::failure::{Failure, Result};
use crate::package::Packages;
use crate::repository::Repository;
use crate::step::{Progress, step};
use crate::toolchain::{LLVM, Toolchain, fresh_folder};
use crate::wheels::Wheels;

/// The oldest that is supported, the last CMake 3, and CMake 4; each with whether it has linker types.
const VERSIONS: [(Wheels, bool); 3] = [
    (cmake("CMake 3.25", include_str!("../../cmake-3.25-wheels.txt"), "cmake-3.25"), false),
    (cmake("CMake 3.31", include_str!("../../cmake-3.31-wheels.txt"), "cmake-3.31"), true),
    (CMAKE_4, true),
];

const CMAKE_4: Wheels = cmake("CMake 4", include_str!("../../cmake-4-wheels.txt"), "cmake-4");

const NINJA: Wheels = Wheels {
    title: "Ninja",
    pins: include_str!("../../ninja-wheels.txt"),
    folder: "ninja",
    proof: "bin/ninja",
    platform: None,
};

const GENERATORS: [&str; 2] = ["Ninja", "Unix Makefiles"];

const fn cmake(title: &'static str, pins: &'static str, folder: &'static str) -> Wheels {
    Wheels { title, pins, folder, proof: "cmake/data/bin/cmake", platform: None }
}

/// Installs CMake 4 and Ninja, and returns their folders, for `PATH`.
pub fn install_newest(toolchain: &Toolchain) -> Result<[PathBuf; 2]> {
    let folder = |wheels: &Wheels| {
        wheels.install(toolchain)?;
        let mut program = wheels.place(toolchain).join(wheels.proof);
        program.pop();
        Ok(program)
    };
    Ok([folder(&CMAKE_4)?, folder(&NINJA)?])
}

/// One build.
struct Build<'b> {
    repository: &'b Repository,
    toolchain: &'b Toolchain,
    /// The folder of cmake and ctest.
    programs: PathBuf,
    prefix: &'b Path,
    folder: PathBuf,
}

/// Returns how many builds there were.
pub fn build_samples(repository: &Repository, toolchain: &Toolchain, packages: &Packages) -> Result<usize> {
    NINJA.install(toolchain)?;
    VERSIONS.iter().try_for_each(|(cmake, _)| cmake.install(toolchain))?;
    let work = repository.target.join("package-test/cmake");
    fresh_folder(&work)?;
    let root = work.join("root");
    step("unpack the Debian package", |progress| {
        progress.run(Command::new("dpkg-deb").arg("--extract").arg(&packages.debs[0]).arg(&root))
    })?;
    let mut builds = 0;
    for (cmake, has_linker_types) in &VERSIONS {
        for (number, generator) in GENERATORS.into_iter().enumerate() {
            let build = Build {
                repository,
                toolchain,
                programs: cmake.place(toolchain).join("cmake/data/bin"),
                prefix: &root.join("usr"),
                folder: work.join(format!("{}-{number}", cmake.title)),
            };
            step(&format!("{}, {generator}: the sample by fatlink_target", cmake.title), |progress| {
                build.run(progress, generator, false)
            })?;
            builds += 1;
            if *has_linker_types {
                step(&format!("{}, {generator}: by the linker type", cmake.title), |progress| {
                    build.run(progress, generator, true)
                })?;
                builds += 1;
            }
        }
    }
    Ok(builds)
}

impl Build<'_> {
    /// Configures, builds, has CTest look at the program, and builds again, which has nothing to do.
    fn run(&self, progress: &Progress, generator: &str, by_linker_type: bool) -> Result<()> {
        let clang = format!("{LLVM}/bin/clang++");
        let mut configure = self.command("cmake");
        configure.arg("-S").arg(self.repository.root.join("samples/cuda")).arg("-B").arg(&self.folder);
        configure.args(["-G", generator, "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_CUDA_ARCHITECTURES=90"]);
        configure.arg("-DCMAKE_CUDA_FLAGS=--offload-arch=sm_90 -Wno-unknown-cuda-version");
        configure.arg(format!("-DCMAKE_CXX_COMPILER={clang}")).arg(format!("-DCMAKE_CUDA_COMPILER={clang}"));
        configure.arg(format!("-DCMAKE_PREFIX_PATH={}", self.prefix.display()));
        configure.arg(format!("-DBY_LINKER_TYPE={}", if by_linker_type { "ON" } else { "OFF" }));
        if generator == "Ninja" {
            let ninja = NINJA.place(self.toolchain).join(NINJA.proof);
            configure.arg(format!("-DCMAKE_MAKE_PROGRAM={}", ninja.display()));
        }
        progress.run(&mut configure)?;
        let program = self.folder.join("plate");
        // A program of the build before must not be taken for this one's.
        let _ = std::fs::remove_file(&program);
        progress.run(self.command("cmake").arg("--build").arg(&self.folder))?;
        progress.run(self.command("ctest").arg("--test-dir").arg(&self.folder).arg("--output-on-failure"))?;
        let time =
            |path: &Path| path.metadata().and_then(|file| file.modified()).map_err(|e| Failure::file("find", path, &e));
        let built = time(&program)?;
        progress.run(self.command("cmake").arg("--build").arg(&self.folder))?;
        match time(&program)? == built {
            true => Ok(()),
            false => Err(Failure::new("a second build links the program again")),
        }
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.programs.join(program));
        Environment::new(self.repository, self.toolchain).apply(&mut command);
        command
    }
}
