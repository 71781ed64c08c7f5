//! The Debian packages, written by dpkg-deb from folders that are laid out here.
//!
//! Neither debhelper nor cargo-deb: both build from sources by rules of their own, and these packages have to hold the very files of dist/,
//! which are linked against an older C library.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::prefix::{self, Placed};
use super::{VERSION, write};
use crate::dist::{archive, licenses};
use crate::failure::{Failure, Result};
use crate::repository::{Repository, copy_file, create_folder, files_in, name_of, read_text, replace_link};
use crate::step::Progress;
use crate::toolchain::fresh_folder;

/// What lintian reports and is meant to be, each with its reason.
const OVERRIDES: &str = include_str!("lintian-overrides");
const STATIC_OVERRIDES: &str = include_str!("lintian-overrides-static");

/// The file `copyright`, without the exception.
const COPYRIGHT: &str = include_str!("copyright");
/// Where the exception begins in LICENSE.
const EXCEPTION: &str = "--- LLVM Exceptions to the Apache 2.0 License ----";

/// The package of the static library.
pub const STATIC: &str = "libnvfatbin-fatlink-dev";

/// Their control files, without version, maintainer and size.
const CONTROL: &str = include_str!("control");
const STATIC_CONTROL: &str = include_str!("control-static");

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
    build(repository, progress, &root, &path(folder), CONTROL)?;
    let root = work.join("static");
    lay_out_static(repository, &root)?;
    build(repository, progress, &root, &static_path(folder), STATIC_CONTROL)
}

/// Writes the package of what is laid out.
fn build(repository: &Repository, progress: &Progress, root: &Path, package: &Path, template: &str) -> Result<()> {
    // Everyone reads what is installed; root writes it.
    progress.run(Command::new("chmod").args(["--recursive", "u+rw,go+r,go-w,a+X"]).arg(root))?;
    let control = control(template, installed_kilobytes(progress, root)?);
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
    let (library, target) = prefix::LIBRARY_LINK;
    for (place, target) in prefix::names().into_iter().chain([(library.to_owned(), target)]) {
        let link = usr.join(place);
        create_folder(link.parent().unwrap_or(&usr))?;
        replace_link(target, &link)?;
    }
    write(&usr.join(prefix::README.0), prefix::README.1)?;
    replace_link("fatlink.1.gz", &usr.join("share/man/man1/ld.fatlink.1.gz"))?;
    let documents = usr.join("share/doc/fatlink");
    write(&documents.join("copyright"), copyright(repository)?)?;
    copy_file(&repository.root.join("README.md"), &documents.join("README.md"))?;
    copy_file(&repository.root.join("CHANGELOG.md"), &documents.join("changelog"))?;
    write(&documents.join("changelog.Debian"), changelog(repository, progress)?)?;
    licenses::collect(repository, progress, &documents.join("licenses"))?;
    write(&usr.join("share/lintian/overrides/fatlink"), OVERRIDES)?;
    compress(progress, &documents, &["changelog", "changelog.Debian"])?;
    let manual = usr.join("share/man/man1");
    let pages = files_in(&manual)?.into_iter().filter(|page| !page.is_symlink());
    compress(progress, &manual, &pages.map(|page| name_of(&page)).collect::<Vec<_>>())?;
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

fn control(template: &str, kilobytes: u64) -> String {
    let version = format!("{VERSION}-1");
    let size = kilobytes.to_string();
    template.replace("@VERSION@", &version).replace("@MAINTAINER@", &maintainer()).replace("@SIZE@", &size)
}

/// By the variables that Debian's own tools read.
fn maintainer() -> String {
    let variable =
        |name: &str, default: &str| std::env::var(name).ok().filter(|v| !v.is_empty()).unwrap_or(default.into());
    format!("{} <{}>", variable("DEBFULLNAME", "fatlink contributors"), variable("DEBEMAIL", "fatlink@localhost"))
}

/// The licenses of what is linked in stay files of their own, as in the archive. Debian's systems have Apache's license at a place of its own; the
/// exception is not there.
fn copyright(repository: &Repository) -> Result<String> {
    let path = repository.root.join("LICENSE");
    let license = read_text(&path)?;
    let (_, exception) = license
        .split_once(EXCEPTION)
        .ok_or_else(|| Failure::new(format!("{} has no line `{EXCEPTION}`: it has changed", path.display())))?;
    Ok(COPYRIGHT.to_owned() + &indented(exception.trim()))
}

fn indented(text: &str) -> String {
    text.lines().map(|line| if line.trim().is_empty() { " .\n".to_owned() } else { format!(" {line}\n") }).collect()
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
    fn control_files_are_complete() {
        for template in [CONTROL, STATIC_CONTROL] {
            let text = control(template, 7);
            assert!(text.contains("\nInstalled-Size: 7\n"), "{text}");
            assert!(["@VERSION@", "@MAINTAINER@"].iter().all(|place| !text.contains(place)), "{text}");
            // An empty line would end the paragraph.
            assert!(text.ends_with('\n') && !text.contains("\n\n"), "{text}");
        }
    }

    #[test]
    fn empty_lines_of_a_license_have_a_dot() {
        assert_eq!(indented("one\n\ntwo"), " one\n .\n two\n");
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
