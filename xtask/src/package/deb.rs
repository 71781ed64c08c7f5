//! The Debian packages, written by dpkg-deb from folders that are laid out here.
//!
//! Neither debhelper nor cargo-deb: both build from sources by rules of their own, and these packages have to hold the very files of dist/,
//! which are linked against an older C library.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::prefix::{self, Placed};
use super::{VERSION, copyright, depends, fresh_folder, write};
use crate::dist::{archive, licenses};
use crate::failure::{Failure, Result};
use crate::repository::{Repository, copy_file, create_folder, replace_link};
use crate::step::Progress;

/// What lintian reports and is meant to be, each with its reason.
const OVERRIDES: &str = include_str!("lintian-overrides");
const STATIC_OVERRIDES: &str = include_str!("lintian-overrides-static");

/// The package of the static library.
pub const STATIC: &str = "libnvfatbin-fatlink-dev";

const DESCRIPTION: &str = "\
Description: linker for the device code of CUDA, HIP and OpenMP programs
 fatlink links the device code that Clang leaves inside host objects: it merges
 and optimizes it across translation units, turns it into machine code for each
 GPU, and puts it into the program. It takes the place of clang-linker-wrapper.
 .
 offload-bundle shows, extracts, checks, compares and drops the device code of
 objects, libraries and programs.
 .
 CUDA's tools are not part of this package; fatlink finds an installed toolkit.
";

const STATIC_DESCRIPTION: &str = "\
Description: static library that takes the place of NVIDIA's nvFatbin
 libnvfatbin_static.a builds fatbins, NVIDIA's containers of device code, and is
 linked into programs. The package fatlink has its header and a shared library.
";

/// The package in this folder.
pub fn path(folder: &Path) -> PathBuf {
    file_of("fatlink", folder)
}

/// That of the static library.
pub fn static_path(folder: &Path) -> PathBuf {
    file_of(STATIC, folder)
}

fn file_of(package: &str, folder: &Path) -> PathBuf {
    folder.join(format!("{package}_{VERSION}-1_amd64.deb"))
}

/// Writes both packages into the folder.
pub fn write_packages(repository: &Repository, progress: &Progress, folder: &Path) -> Result<()> {
    let work = repository.target.join("package-deb");
    fresh_folder(&work)?;
    let root = work.join("root");
    lay_out(repository, progress, &root)?;
    let depends = depends::of(progress, &programs_of(&root), &work.join("depends"))?;
    build(repository, progress, &root, &path(folder), |kilobytes| control(&depends, kilobytes))?;
    let root = work.join("static");
    lay_out_static(repository, &root)?;
    build(repository, progress, &root, &static_path(folder), static_control)
}

/// Writes the package of what is laid out. `control` is its control file, for the size in kilobytes.
fn build(
    repository: &Repository,
    progress: &Progress,
    root: &Path,
    package: &Path,
    control: impl Fn(u64) -> String,
) -> Result<()> {
    // Everyone reads what is installed; root writes it.
    progress.run(Command::new("chmod").args(["--recursive", "u+rw,go+r,go-w,a+X"]).arg(root))?;
    let control = control(installed_kilobytes(progress, root)?);
    write(&root.join("DEBIAN/md5sums"), checksums(progress, root)?)?;
    write(&root.join("DEBIAN/control"), control)?;
    let mut dpkg = Command::new("dpkg-deb");
    // xz: dpkg of Debian 11 reads no Zstandard. One thread: their number changes the bytes.
    dpkg.args(["--build", "--root-owner-group", "-Zxz", "--threads-max=1"]).args([root, package]);
    // dpkg-deb takes the times of all files from it.
    let time = archive::timestamp(repository, progress).to_string();
    progress.run(dpkg.env("SOURCE_DATE_EPOCH", time)).map(drop)
}

fn lay_out(repository: &Repository, progress: &Progress, root: &Path) -> Result<()> {
    let (dist, usr) = (repository.dist(), root.join("usr"));
    let files =
        [prefix::programs(&dist), prefix::cmake(&dist)?, prefix::pages(&dist)?, prefix::library(&dist)].concat();
    for Placed { from, to } in files {
        copy_file(&from, &usr.join(debian_place(&to)))?;
    }
    for (place, target) in prefix::NAMES.into_iter().chain([prefix::LIBRARY_LINK]) {
        let link = usr.join(place);
        create_folder(link.parent().unwrap_or(&usr))?;
        replace_link(target, &link)?;
    }
    write(&usr.join(prefix::README.0), prefix::README.1)?;
    replace_link("fatlink.1.gz", &usr.join("share/man/man1/ld.fatlink.1.gz"))?;
    let documents = usr.join("share/doc/fatlink");
    write(&documents.join("copyright"), copyright::text(repository)?)?;
    copy_file(&repository.root.join("README.md"), &documents.join("README.md"))?;
    copy_file(&repository.root.join("CHANGELOG.md"), &documents.join("changelog"))?;
    write(&documents.join("changelog.Debian"), changelog(repository, progress)?)?;
    licenses::collect(repository, progress, &documents.join("licenses"))?;
    write(&usr.join("share/lintian/overrides/fatlink"), OVERRIDES)?;
    compress(progress, &documents, &["changelog", "changelog.Debian"])?;
    let pages: Vec<String> = prefix::pages(&dist)?
        .iter()
        .filter(|page| page.to.starts_with("share/man"))
        .filter_map(|page| Some(page.to.file_name()?.to_string_lossy().into_owned()))
        .collect();
    compress(progress, &usr.join("share/man/man1"), &pages)?;
    // Debian's shared libraries are not executable, unlike those that a linker writes.
    let library = usr.join("lib/fatlink/lib/libnvfatbin.so.13");
    progress.run(Command::new("chmod").arg("a-x").arg(library)).map(drop)
}

fn lay_out_static(repository: &Repository, root: &Path) -> Result<()> {
    let usr = root.join("usr");
    let Placed { from, to } = prefix::static_library(&repository.dist());
    copy_file(&from, &usr.join(to))?;
    // Debian's policy lets packages of one source share copyright and changelog.
    create_folder(&usr.join("share/doc"))?;
    replace_link("fatlink", &usr.join("share/doc").join(STATIC))?;
    write(&usr.join("share/lintian/overrides").join(STATIC), STATIC_OVERRIDES)
}

/// Debian's zsh searches another folder than others do.
fn debian_place(place: &Path) -> PathBuf {
    match place.strip_prefix("share/zsh/site-functions") {
        Ok(name) => Path::new("share/zsh/vendor-completions").join(name),
        Err(_) => place.to_owned(),
    }
}

fn compress(progress: &Progress, folder: &Path, names: &[impl AsRef<str>]) -> Result<()> {
    let mut gzip = Command::new("gzip");
    gzip.current_dir(folder).args(["--best", "--no-name"]).args(names.iter().map(AsRef::as_ref));
    progress.run(&mut gzip).map(drop)
}

/// Programs and shared libraries.
fn programs_of(root: &Path) -> Vec<PathBuf> {
    let names = [
        "bin/fatlink",
        "bin/offload-bundle",
        "bin/fatlink-slurm",
        "bin/fatlink-reapi",
        "lib/fatlink/lib/libnvfatbin.so.13",
    ];
    names.into_iter().map(|name| root.join("usr").join(name)).collect()
}

fn control(depends: &str, kilobytes: u64) -> String {
    let mut text = String::from("Package: fatlink\n");
    let _ = writeln!(text, "Version: {VERSION}-1");
    let _ = writeln!(text, "Architecture: amd64\nMaintainer: {}", maintainer());
    let _ = writeln!(text, "Installed-Size: {kilobytes}\nDepends: {depends}");
    // Any host linker; clang 22 compiles what is linked.
    text += "Recommends: binutils | lld | mold\nSuggests: clang-22, nvidia-cuda-toolkit\nSection: devel\nPriority: optional\n";
    text + DESCRIPTION
}

fn static_control(kilobytes: u64) -> String {
    format!(
        "Package: {STATIC}\nSource: fatlink\nVersion: {VERSION}-1\nArchitecture: amd64\nMaintainer: {}\n\
         Installed-Size: {kilobytes}\nDepends: fatlink (= {VERSION}-1)\nSection: libdevel\nPriority: optional\n{STATIC_DESCRIPTION}",
        maintainer()
    )
}

/// By the variables that Debian's own tools read.
fn maintainer() -> String {
    let variable =
        |name: &str, default: &str| std::env::var(name).ok().filter(|v| !v.is_empty()).unwrap_or(default.into());
    format!("{} <{}>", variable("DEBFULLNAME", "fatlink contributors"), variable("DEBEMAIL", "fatlink@localhost"))
}

fn changelog(repository: &Repository, progress: &Progress) -> Result<String> {
    let time = archive::timestamp(repository, progress);
    let mut date = Command::new("date");
    let date = progress.run(date.env("LC_ALL", "C").args(["--utc", "--rfc-email"]).arg(format!("--date=@{time}")))?;
    Ok(format!(
        "fatlink ({VERSION}-1) unstable; urgency=medium\n\n  * Built by `cargo xtask package`; changelog.gz has the changes.\n\n -- {}  {}\n",
        maintainer(),
        date.trim()
    ))
}

fn installed_kilobytes(progress: &Progress, root: &Path) -> Result<u64> {
    let output =
        progress.run(Command::new("du").args(["--summarize", "--apparent-size", "--block-size=1024"]).arg(root))?;
    let size = output.split_whitespace().next().and_then(|size| size.parse().ok());
    size.ok_or_else(|| Failure { message: "du prints no size".into(), output })
}

fn checksums(progress: &Progress, root: &Path) -> Result<String> {
    let mut files = Vec::new();
    archive::collect_files(root, Path::new(""), &mut files)?;
    files.sort();
    progress.run(Command::new("md5sum").args(files).current_dir(root))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_control_file_ends_with_the_description() {
        let main = control("libc6 (>= 2.30)", 7);
        assert!(main.contains("\nInstalled-Size: 7\nDepends: libc6 (>= 2.30)\n"), "{main}");
        assert!(main.ends_with(DESCRIPTION));
        let library = static_control(7);
        assert!(library.contains("\nInstalled-Size: 7\nDepends: fatlink (= "), "{library}");
        assert!(library.ends_with(STATIC_DESCRIPTION));
        // An empty line would end the paragraph.
        assert!(!main.contains("\n\n") && !library.contains("\n\n"), "{main}{library}");
    }

    #[test]
    fn completions_of_zsh_are_where_debian_has_them() {
        assert_eq!(
            debian_place(Path::new("share/zsh/site-functions/_x")),
            Path::new("share/zsh/vendor-completions/_x")
        );
        assert_eq!(debian_place(Path::new("bin/fatlink")), Path::new("bin/fatlink"));
    }
}
