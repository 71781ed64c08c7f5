//! `cargo xtask package --image`: a container image for builds, with clang, CUDA and fatlink in Debian 12.
//!
//! It is an archive of the Open Container Initiative's image layout, which podman, docker and skopeo load.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::VERSION;
use crate::chroot::Chroot;
use crate::debian;
use crate::demo;
use crate::failure::{Failure, Result};
use crate::repository::{Repository, copy_file, write_file};
use crate::step::{Progress, step};
use crate::toolchain::{Toolchain, fresh_folder, remove_folder};

const SUITE: &str = "bookworm";

/// What builds projects, beside fatlink and CUDA.
const PACKAGES: [&str; 10] =
    ["ca-certificates", "clang-22", "cmake", "g++", "git", "libomp-22-dev", "lld-22", "llvm-22", "make", "ninja-build"];

/// Where apt's package shows what a sources.list is with Debian's own archives.
const SOURCES_EXAMPLE: &str = "usr/share/doc/apt/examples/sources.list";

const SOURCES: &str = "etc/apt/sources.list";

/// Where CUDA is inside.
const CUDA: &str = "/usr/local/cuda";

const PATH: &str =
    "/usr/lib/llvm-22/bin:/usr/local/cuda/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Writes the image with this Debian package, and returns its path.
pub fn write(repository: &Repository, toolchain: &Toolchain, deb: &Path, folder: &Path) -> Result<PathBuf> {
    let work = repository.target.join("image");
    fresh_folder(&work)?;
    let chroot = step("Debian 12 with clang, by debootstrap", |progress| system(progress, work.join("root")))?;
    step("install fatlink and CUDA in it", |progress| {
        let copy = chroot.path("tmp/fatlink.deb");
        copy_file(deb, &copy)?;
        let mut install = chroot.command("apt-get");
        progress.run(install.args(["install", "--yes", "--no-install-recommends", "/tmp/fatlink.deb"]))?;
        std::fs::remove_file(&copy).map_err(|error| Failure::file("remove", &copy, &error))?;
        let mut cp = Command::new("cp");
        progress.run(cp.args(["--recursive", "-H"]).arg(toolchain.cuda()).arg(chroot.path(CUDA)))?;
        progress.run(chroot.command("apt-get").arg("clean"))?;
        fresh_folder(&chroot.path("var/lib/apt/lists"))?;
        // The mirrors of this machine may be out of reach where the image is used.
        copy_file(&chroot.path(SOURCES_EXAMPLE), &chroot.path(SOURCES))
    })?;
    step("build the sample in it", |progress| build_sample(repository, progress, &chroot))?;
    let image = folder.join(format!("fatlink-{VERSION}-image.tar"));
    step("write the image", |progress| pack(progress, &work, &chroot, &image))?;
    remove_folder(&work)?;
    Ok(image)
}

/// A system with the packages, from Debian's archive and its security archive, which has clang 22.
fn system(progress: &Progress, root: PathBuf) -> Result<Chroot> {
    let chroot = Chroot::new(progress, root, SUITE, "ca-certificates")?;
    let lines = |mirrors: Vec<String>, suite: &str| -> String {
        mirrors.iter().map(|mirror| format!("deb {mirror} {suite} main\n")).collect()
    };
    let security = debian::security_mirrors(progress)?;
    let sources = lines(debian::mirrors(progress)?, SUITE) + &lines(security, &format!("{SUITE}-security"));
    write_file(&chroot.path(SOURCES), sources)?;
    progress.run(chroot.command("apt-get").arg("update"))?;
    progress.run(chroot.command("apt-get").args(["install", "--yes", "--no-install-recommends"]).args(PACKAGES))?;
    Ok(chroot)
}

/// Builds the CUDA sample with the image's own tools by the toolchain file, and has its program checked.
fn build_sample(repository: &Repository, progress: &Progress, chroot: &Chroot) -> Result<()> {
    let place = chroot.path("root");
    progress.run(
        Command::new("cp").arg("--recursive").arg(repository.root.join(demo::CUDA.folder)).arg(place.join("sample")),
    )?;
    let script = "cmake -S sample -B build -DCMAKE_CUDA_ARCHITECTURES=90 --toolchain /usr/lib/cmake/fatlink/fatlink-toolchain.cmake \
                  && cmake --build build && offload-bundle check build/plate --gpus sm_90";
    let mut shell = chroot.command("sh");
    shell.args(["-ec", &format!("cd /root; {script}")]).env("PATH", PATH).env("CUDA_PATH", CUDA);
    progress.run(&mut shell)?;
    ["sample", "build"].iter().try_for_each(|folder| remove_folder(&place.join(folder)))
}

fn pack(progress: &Progress, work: &Path, chroot: &Chroot, image: &Path) -> Result<()> {
    debian::install_for(progress, "umoci", "umoci")?;
    let layout = work.join("layout");
    let name = format!("{}:{VERSION}", layout.display());
    let umoci = |words: &[&str]| {
        let mut command = Command::new("umoci");
        command.args(words);
        command
    };
    progress.run(umoci(&["init", "--layout"]).arg(&layout))?;
    progress.run(&mut umoci(&["new", "--image", &name]))?;
    progress.run(umoci(&["insert", "--image", &name]).arg(chroot.root()).arg("/"))?;
    let (path, cuda) = (format!("PATH={PATH}"), format!("CUDA_PATH={CUDA}"));
    let environment = ["--config.env", &path, "--config.env", &cuda];
    progress.run(umoci(&["config", "--image", &name, "--config.cmd", "bash"]).args(environment))?;
    progress.run(umoci(&["gc", "--layout"]).arg(&layout))?;
    let mut tar = Command::new("tar");
    progress.run(tar.arg("--create").arg("--file").arg(image).arg("--directory").arg(&layout).arg(".")).map(drop)
}
