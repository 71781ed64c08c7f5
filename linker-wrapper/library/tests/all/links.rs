//! Links of the library have the bytes of the program's, say what the program says, and leave nothing behind.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

use crate::common::{SAMPLES, entries, linker, program};
use fatlink::{Error, Event, Link, Linker, Ptx, Severity};

#[test]
fn files_and_bytes_become_what_the_program_makes() {
    let (linker, temporary) = linker();
    for names in [["kernel.o", "helper.o"], ["kernel.hip.o", "helper.hip.o"]] {
        let object = SAMPLES.linked_by_program(&["--dlink=translated"], &names);
        let image = SAMPLES.linked_by_program(&["--emit-fatbin-only"], &names);
        let bytes = names.iter().fold(Link::new(), |link, name| link.unit(SAMPLES.bytes(name), *name));
        let files = names.iter().fold(Link::new(), |link, name| link.file(SAMPLES.path(name)));
        for link in [bytes, files] {
            let linked = linker.run(&link).unwrap();
            assert_eq!((&linked.image, linked.registration.as_ref()), (&image, Some(&object)));
            assert_eq!((linked.report, linked.diagnostics), (None, vec![]));
            let alone = linker.run(&link.image_only()).unwrap();
            assert_eq!((alone.image, alone.registration), (image.clone(), None));
        }
    }
    assert_eq!(entries(temporary.path()).len(), 0);
}

#[test]
fn targets_ptx_and_libraries_are_those_of_the_link() {
    let (linker, _temporary) = linker();
    let link = Link::new().base(SAMPLES.path("")).file("kernel.o").library_path(".").library("helper");
    let linked = linker.run(&link.target("sm_90").ptx(Ptx::Newest)).unwrap();
    let words = ["--emit-fatbin-only", "--offload-sass=sm_90", "--offload-ptx=newest"];
    assert_eq!(linked.image, SAMPLES.linked_by_program(&words, &["kernel.o", "helper.o"]));
    // A whole archive is linked in any order.
    let link = Link::new().base(SAMPLES.path("")).whole_archive("libhelper.a").file("kernel.o");
    assert!(linker.run(&link).is_ok());
}

#[test]
fn bare_code_is_linked_like_that_of_objects() {
    let (linker, _temporary) = linker();
    let bitcode = Link::new().file(SAMPLES.path("kernel.bc")).unit(SAMPLES.bytes("helper.bc"), "helper.bc");
    assert!(linker.run(&bitcode.clone().target("sm_90")).unwrap().image.starts_with(&[0x50, 0xed, 0x55, 0xba]));
    // Without a target it is no device code.
    let error = linker.run(&bitcode).unwrap_err();
    assert!(error.to_string().contains("no unit of the link has device code"), "{error}");
    let mixed = Link::new().unit(SAMPLES.bytes("kernel.ptx"), "kernel.ptx").file(SAMPLES.path("helper.bc"));
    let mixed = linker.run(&mixed.target("sm_90")).unwrap();
    // A fatbin is an input, too.
    let again = linker.run(&Link::new().unit(mixed.image, "linked.fatbin")).unwrap();
    assert!(again.image.starts_with(&[0x50, 0xed, 0x55, 0xba]));
}

#[test]
fn the_report_is_the_programs() {
    let (linker, _temporary) = linker();
    let link = Link::new().base(SAMPLES.path("")).file("kernel.o").file("helper.o").report();
    let report = linker.run(&link).unwrap().report.unwrap();
    assert!(report.starts_with('{') && report.contains("\"sm_90\"") && report.contains("kernel.o"), "{report}");
}

#[test]
fn errors_are_diagnostics_with_places() {
    let (linker, temporary) = linker();
    let Err(Error::Failed { diagnostics }) = linker.run(&Link::new().unit(SAMPLES.bytes("kernel.o"), "my/kernel.o"))
    else {
        panic!("there is no helper")
    };
    let [error] = &diagnostics[..] else { panic!("{diagnostics:?}") };
    assert_eq!((error.severity, error.file.as_deref()), (Severity::Error, Some("my/kernel.o")));
    assert!(error.message.starts_with("undefined device symbol 'helper(int)'"), "{}", error.message);
    // Damage behind the start of the offload binary, with an unusual name for the unit.
    let mut damaged = SAMPLES.bytes("kernel.o");
    let start = damaged.windows(4).position(|bytes| bytes == [0x10, 0xff, 0x10, 0xad]).unwrap();
    damaged[start + 8..start + 16].fill(0xff);
    let error = linker.run(&Link::new().unit(damaged, "/kernel (1).o")).unwrap_err();
    let [diagnostic] = &error.diagnostics()[..] else { panic!("{error}") };
    assert_eq!(diagnostic.file.as_deref(), Some("/kernel (1).o"));
    assert!(diagnostic.offset.is_some_and(|offset| offset >= start as u64), "{diagnostic:?}");
    // A member of an archive.
    let twice = Link::new().base(SAMPLES.path("")).file("kernel.o").file("helper.o").whole_archive("libhelper.a");
    let error = linker.run(&twice).unwrap_err();
    assert!(error.to_string().contains("libhelper.a(helper.o)"), "{error}");
    let missing = linker.run(&Link::new().file("/no/such/file.o")).unwrap_err();
    assert_eq!(missing.diagnostics()[0].file.as_deref(), Some("/no/such/file.o"));
    let unknown = linker.run(&Link::new().file(SAMPLES.path("kernel.o")).option("--offload-ptx=what")).unwrap_err();
    assert!(unknown.to_string().contains("--offload-ptx=: expected"), "{unknown}");
    assert_eq!(entries(temporary.path()).len(), 0);
}

#[test]
fn warnings_come_with_the_result_and_as_events() {
    let (linker, _temporary) = linker();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let link = Link::new().base(SAMPLES.path("")).file("kernel.o").file("helper.o").option("--device-compiler=-ffoo");
    let heard = Arc::clone(&seen);
    let link = link.observed_by(move |event| {
        if !matches!(event, Event::Waiting) {
            heard.lock().unwrap().push(format!("{event:?}"));
        }
        ControlFlow::Continue(())
    });
    let linked = linker.run(&link).unwrap();
    assert_eq!(linked.diagnostics.len(), 1);
    assert_eq!(linked.diagnostics[0].severity, Severity::Warning);
    let seen = seen.lock().unwrap();
    assert!(seen.iter().any(|event| event.starts_with("Diagnostic")), "{seen:?}");
    assert_eq!(seen.iter().filter(|event| event.contains("done: 1, known: 1")).count(), 1, "{seen:?}");
}

#[test]
fn a_program_that_is_not_fatlink_is_named() {
    let link = Link::new().file(SAMPLES.path("kernel.o"));
    assert!(matches!(Linker::at("/bin/true").run(&link), Err(Error::OtherRelease { .. })));
    assert!(matches!(Linker::at("/bin/cat").run(&link), Err(Error::OtherRelease { .. })));
    assert!(matches!(Linker::at("/no/such/program").run(&link), Err(Error::Start { .. })));
    assert!(matches!(Linker::beside("/usr/include/stdio.h"), Err(Error::NoProgram { .. })));
    let beside = Linker::beside(program()).unwrap();
    assert!(format!("{beside:?}").contains("fatlink"));
}

#[test]
fn links_side_by_side_share_nothing() {
    let (linker, temporary) = linker();
    let linker = linker.ahead(2);
    let names = |kind: &str| [format!("kernel{kind}.o"), format!("helper{kind}.o")];
    let expected = ["", ".hip"]
        .map(|kind| SAMPLES.linked_by_program(&["--dlink=translated"], &names(kind).each_ref().map(String::as_str)));
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (linker, expected) = (&linker, &expected[thread % 2]);
            let link = names(["", ".hip"][thread % 2])
                .iter()
                .fold(Link::new(), |link, name| link.unit(SAMPLES.bytes(name), name));
            scope.spawn(move || {
                for _ in 0..3 {
                    assert_eq!(linker.run(&link).unwrap().registration.as_ref(), Some(expected));
                }
            });
        }
    });
    drop(linker);
    assert_eq!(entries(temporary.path()).len(), 0);
}

#[test]
fn the_environment_and_the_folder_of_the_caller_do_not_matter() {
    // The program itself would take a cache from this variable, and options of make.
    let (linker, temporary) = linker();
    let link = Link::new().unit(SAMPLES.bytes("kernel.o"), "k.o").unit(SAMPLES.bytes("helper.o"), "h.o");
    let linked = linker.run(&link).unwrap();
    let cache = temporary.path().join("cache");
    let cached = linker.run(&link.cache(&cache)).unwrap();
    assert_eq!(linked.image, cached.image);
    assert!(!entries(&cache).is_empty());
}
