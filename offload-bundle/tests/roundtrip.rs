//! Every container in every object, archive and program below some folders is taken apart and put together again: the bytes must be
//! the same. `cargo xtask roundtrip` runs it over the installed CUDA and LLVM, which is too much for each `cargo test`.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program for a terminal")]

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use offload_bundle::archive::{self, MemberData};
use offload_bundle::fatbin::{self, BuilderOptions, Compression, EntryKind, FatbinBuilder};
use offload_bundle::host_object::{self, FileKind};
use offload_bundle::listing;
use offload_bundle::offload_binary::{self, ImageToWrite};
use offload_bundle::strip::{Choice, strip};
use offload_bundle::{FileError, cubin};

/// How many of each kind were seen, and what did not come back the same.
#[derive(Default)]
struct Report {
    counts: BTreeMap<String, usize>,
    failures: Vec<String>,
}

impl Report {
    fn saw(&mut self, what: &str) {
        *self.counts.entry(what.to_owned()).or_default() += 1;
    }

    fn check(&mut self, what: &str, place: &str, outcome: Result<bool, impl Display>) {
        self.saw(what);
        match outcome {
            Ok(true) => {}
            Ok(false) => self.failures.push(format!("{place}: {what} does not come back the same")),
            Err(error) => self.failures.push(format!("{place}: {what}: {error}")),
        }
    }
}

fn main() -> ExitCode {
    let folders: Vec<PathBuf> =
        std::env::args_os().skip(1).filter(|word| word != "--nocapture").map(PathBuf::from).collect();
    let mut report = Report::default();
    for folder in &folders {
        walk(folder, &mut report);
    }
    for (what, count) in &report.counts {
        println!("{count:8} {what}");
    }
    for failure in &report.failures {
        eprintln!("FAILED: {failure}");
    }
    // A run that looked at nothing proves nothing.
    let looked = report.counts.keys().any(|what| what.starts_with("fatbin"));
    if report.failures.is_empty() && looked { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn walk(folder: &Path, report: &mut Report) {
    let mut entries: Vec<_> = std::fs::read_dir(folder).expect("a folder").filter_map(Result::ok).collect();
    entries.sort_by_key(std::fs::DirEntry::path);
    for entry in entries {
        let kind = entry.file_type().expect("a kind");
        if kind.is_dir() {
            walk(&entry.path(), report);
        } else if kind.is_file() {
            let data = std::fs::read(entry.path()).expect("a file that can be read");
            file(&data, &entry.path().display().to_string(), report);
        }
    }
}

fn file(data: &[u8], place: &str, report: &mut Report) {
    match host_object::file_kind(data) {
        FileKind::Archive => {
            report.saw("archives");
            let members = archive::members(data);
            for member in members.as_deref().unwrap_or_default() {
                if let MemberData::Inline(bytes) = member.data {
                    plain_file(bytes, &format!("{place}({})", member.name), report);
                }
            }
            report.check("archives left as they are by strip", place, stays(data));
            if let Err(error) = members {
                report.failures.push(format!("{place}: {error}"));
            }
        }
        _ => plain_file(data, place, report),
    }
}

/// Nothing in the world has this target, so every byte stays.
fn stays(data: &[u8]) -> Result<bool, FileError> {
    let drop = vec!["sm_9999".parse().expect("a selector")];
    strip(data, &Choice { drop, ..Choice::default() }).map(|stripped| stripped.bytes == data)
}

fn plain_file(data: &[u8], place: &str, report: &mut Report) {
    let kind = match host_object::file_kind(data) {
        FileKind::ElfRelocatable => "objects",
        FileKind::ElfShared => "shared libraries and position-independent programs",
        FileKind::ElfExecutable => "programs with a fixed address",
        FileKind::Fatbin => return fatbins(data, "fatbins in files of their own", place, report),
        FileKind::OffloadBinary => return offload_binaries(data, place, report),
        _ => return,
    };
    report.saw(kind);
    report.check("files left as they are by strip", place, stays(data));
    for name in [".nv_fatbin", "__nv_relfatbin"] {
        if let Some((_, contents)) = host_object::section(data, name.as_bytes()) {
            fatbins(contents, &format!("fatbins in {name}"), place, report);
        }
    }
    if let Some((_, contents)) = host_object::section(data, b".llvm.offloading") {
        offload_binaries(contents, place, report);
    }
    let found = listing::visit(data, offload_bundle::archive::reject_thin_members, |found| {
        let entry = found.row.image == "cubin" && found.row.compression == "none";
        if entry && let Ok(payload) = found.payload() {
            report.check("cubins found again behind padding", place, Ok::<_, Infallible>(exact(&payload)));
        }
        Ok(())
    });
    if let Err(error) = found {
        report.failures.push(format!("{place}: {error}"));
    }
}

/// Whether zeros behind a cubin are told from the cubin.
fn exact(payload: &[u8]) -> bool {
    let padded = [payload, &[0; 7]].concat();
    cubin::exact_size(payload) == payload.len() && cubin::exact_size(&padded) == payload.len()
}

fn fatbins(data: &[u8], what: &str, place: &str, report: &mut Report) {
    let containers = match fatbin::read_containers(data) {
        Ok(containers) => containers,
        Err(error) => return report.failures.push(format!("{place}: {what}: {error}")),
    };
    for container in containers {
        let mut builder = FatbinBuilder::new(BuilderOptions::default());
        for entry in &container.entries {
            if let Err(error) = builder.add_entry(entry) {
                report.failures.push(format!("{place}: {what}: {error}"));
            }
            let version = entry.code_version.1;
            let compression =
                if entry.compression == Compression::None { "plain".to_owned() } else { entry.compression.to_string() };
            report
                .saw(&format!("  entries: {} {compression} (version {}.{version})", entry.kind, entry.code_version.0));
            if matches!(entry.kind, EntryKind::Elf | EntryKind::Ptx) {
                let read = entry.payload().map(|payload| !payload.is_empty());
                report.check("  payloads decompressed", place, read);
            }
        }
        let rebuilt = builder.finish();
        let start = usize::try_from(container.offset).expect("a place in memory");
        let same = rebuilt.map(|rebuilt| data.get(start..start + rebuilt.len()) == Some(rebuilt.as_slice()));
        report.check(what, place, same);
    }
}

fn offload_binaries(data: &[u8], place: &str, report: &mut Report) {
    let images = match offload_binary::read_all(data) {
        Ok(images) => images,
        Err(error) => return report.failures.push(format!("{place}: offload binaries: {error}")),
    };
    let write = |image: &offload_binary::OffloadImage<'_>| {
        offload_binary::write(&ImageToWrite {
            image_kind: image.image_kind,
            offload_kinds: image.offload_kinds,
            flags: image.flags,
            strings: image.strings.clone(),
            image: image.image,
        })
    };
    let rebuilt: Vec<u8> = images.iter().flat_map(write).collect();
    report.check("sections of offload binaries", place, Ok::<_, Infallible>(rebuilt == data));
}
