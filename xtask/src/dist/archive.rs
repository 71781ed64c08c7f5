//! `cargo xtask dist --archive`: dist/ with documentation, licenses and checksums, for installing elsewhere.
//!
//! The static libraries, which are larger than all the rest, are in an archive of their own, for the same folder.
//! Equal contents make an equal archive: files are sorted, and owners, modes and times are fixed.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::library::LIBRARIES;
use super::licenses;
use crate::failure::{Failure, Result};
use crate::repository::{Repository, create_folder, files_in, name_of, write_file};
use crate::step::{Progress, step};
use crate::toolchain::fresh_folder;

/// The name of the first archive, which is the folder that both unpack to, and that of the second.
fn names(repository: &Repository) -> [String; 2] {
    ["fatlink-", "libnvfatbin-fatlink-dev-"]
        .map(|name| format!("{name}{}-{}-linux-gnu", env!("CARGO_PKG_VERSION"), repository.machine))
}

/// Copied from the root of the working tree.
const DOCUMENTS: [&str; 4] = ["README.md", "CHANGELOG.md", "LICENSE", "docs"];

/// The name of a file with hashes.
pub const CHECKSUMS: &str = "SHA256SUMS";

/// The archives that were written last: compressed by xz, or by gzip where xz was missing.
pub fn paths(repository: &Repository) -> [PathBuf; 2] {
    names(repository).map(|name| {
        let by_gzip = repository.target.join(format!("{name}.tar.gz"));
        if by_gzip.is_file() { by_gzip } else { repository.target.join(format!("{name}.tar.xz")) }
    })
}

/// Writes the archives of a dist/ that is built already.
pub fn write(repository: &Repository) -> Result<()> {
    let hashes = step("write the archives", |progress| {
        let [name, static_name] = names(repository);
        let [parent, of_static] = ["archive", "archive-static"].map(|name| repository.target.join(name));
        let [root, static_root] = [&parent, &of_static].map(|parent| parent.join(&name));
        [&root, &static_root].into_iter().try_for_each(|root| fresh_folder(root))?;
        copy(progress, &[repository.dist().join(".")], &root)?;
        copy(progress, &DOCUMENTS.map(|name| repository.root.join(name)), &root)?;
        licenses::collect(repository, progress, &root.join("licenses"))?;
        copy(progress, &[root.join("LICENSE"), root.join("licenses")], &static_root)?;
        create_folder(&static_root.join("lib"))?;
        for name in LIBRARIES.map(|library| format!("lib/{}", library.archive.1)) {
            let (from, to) = (root.join(&name), static_root.join(&name));
            std::fs::rename(&from, to).map_err(|error| Failure::file("move", &from, &error))?;
        }
        write_checksums(progress, &root)?;
        let archives = [
            compress(repository, progress, &parent, [&name, &name])?,
            compress(repository, progress, &of_static, [&name, &static_name])?,
        ];
        sha256(progress, &archives, &parent)
    })?;
    for (hash, archive) in hashes.lines().filter_map(|line| line.split_once("  ")) {
        println!("  {archive}\n  SHA-256 {hash}");
    }
    Ok(())
}

fn copy(progress: &Progress, from: &[PathBuf], to: &Path) -> Result<()> {
    let mut cp = Command::new("cp");
    progress.run(cp.arg("--archive").args(from).arg(to)).map(drop)
}

/// Hashes of all files but symbolic links, by paths relative to the root.
fn write_checksums(progress: &Progress, root: &Path) -> Result<()> {
    let mut files = Vec::new();
    collect_files(root, Path::new(""), &mut files)?;
    files.sort();
    let text = sha256(progress, &files, root)?;
    write_file(&root.join(CHECKSUMS), text)
}

/// All files below `folder` of `root`, by their paths from `root`; no links.
pub fn collect_files(root: &Path, folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for path in files_in(&root.join(folder))? {
        let name = folder.join(name_of(&path));
        if path.is_symlink() {
            continue;
        }
        if path.is_dir() {
            collect_files(root, &name, files)?;
        } else {
            files.push(name);
        }
    }
    Ok(())
}

/// Hashes of files, by their paths relative to `folder`, as sha256sum prints them.
pub fn sha256(progress: &Progress, files: &[impl AsRef<std::ffi::OsStr>], folder: &Path) -> Result<String> {
    progress.run(Command::new("sha256sum").args(files).current_dir(folder))
}

/// Writes an archive of a folder by xz, or by gzip where it is missing.
fn compress(repository: &Repository, progress: &Progress, parent: &Path, [folder, name]: [&str; 2]) -> Result<PathBuf> {
    let has_xz = progress.run(Command::new("xz").arg("--version")).is_ok();
    // With one thread, as the number of threads changes the bytes.
    let (end, program) = if has_xz { ("tar.xz", "xz --threads=1") } else { ("tar.gz", "gzip --no-name") };
    let archive = repository.target.join(format!("{name}.{end}"));
    let partial = repository.target.join(format!("{name}.{end}.partial"));
    let mut tar = Command::new("tar");
    tar.args(["--create", "--format=gnu", "--sort=name", "--owner=0", "--group=0", "--numeric-owner"]);
    tar.arg("--mode=u+rw,go+r,go-w,a+X").arg(format!("--mtime=@{}", timestamp(repository, progress)));
    tar.arg(format!("--use-compress-program={program}")).arg("--file").arg(&partial);
    tar.arg("--directory").arg(parent).arg(folder);
    progress.run(tar.env_remove("XZ_OPT").env_remove("XZ_DEFAULTS"))?;
    std::fs::rename(&partial, &archive).map_err(|error| Failure::file("write", &archive, &error))?;
    Ok(archive)
}

/// The date of all files, in seconds since 1970: `SOURCE_DATE_EPOCH`, or that of the last commit.
pub fn timestamp(repository: &Repository, progress: &Progress) -> u64 {
    let named = std::env::var("SOURCE_DATE_EPOCH").ok().and_then(|seconds| seconds.parse().ok());
    named.unwrap_or_else(|| {
        let mut git = Command::new("git");
        git.current_dir(&repository.root).args(["log", "-1", "--format=%ct"]);
        progress.run(&mut git).ok().and_then(|seconds| seconds.trim().parse().ok()).unwrap_or(0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_name_files_relative_to_the_root() {
        let temporary = tempfile::tempdir().unwrap();
        let root = temporary.path();
        create_folder(&root.join("bin")).unwrap();
        std::fs::write(root.join("bin/program"), "").unwrap();
        std::os::unix::fs::symlink("program", root.join("bin/link")).unwrap();
        write_checksums(&Progress::hidden(), root).unwrap();
        let text = std::fs::read_to_string(root.join(CHECKSUMS)).unwrap();
        assert_eq!(text, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  bin/program\n");
    }
}
