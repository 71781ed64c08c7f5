//! LLVM gives up or crashes in the process of a link: that is an error like any other for the caller, and nothing is left.

use std::process::Command;

use crate::common::{entries, folder, linker, run};
use fatlink::{Error, Link, Severity};

const HELPER: &str = r#"
target triple = "nvptx64-nvidia-cuda"
define void @_Z6helperPi(ptr %out) noinline {
  %p = inttoptr i64 5 to ptr addrspace(101)
  %x = atomicrmw add ptr addrspace(101) %p, i32 1 seq_cst
  store i32 %x, ptr %out
  ret void
}
"#;
const CALL: &str = r#"
target triple = "nvptx64-nvidia-cuda"
declare void @_Z6helperPi(ptr)
define ptx_kernel void @call(ptr %out) {
  call void @_Z6helperPi(ptr %out)
  ret void
}
"#;
const COMPARE: &str = r#"
target triple = "nvptx64-nvidia-cuda"
define ptx_kernel void @compare(ptr byval([64 x i8]) align 8 %s, ptr %q, ptr %out) {
  %e = getelementptr i8, ptr %s, i64 8
  %v = load i32, ptr %s
  %c = icmp eq ptr %e, %q
  %x = select i1 %c, i32 %v, i32 2
  store i32 %x, ptr %out
  ret void
}
"#;

fn bitcode(text: &str) -> Vec<u8> {
    let folder = folder();
    let (source, output) = (folder.path().join("a.ll"), folder.path().join("a.bc"));
    std::fs::write(&source, text).unwrap();
    run(Command::new("/usr/lib/llvm-22/bin/llvm-as").arg(source).arg("-o").arg(&output));
    std::fs::read(output).unwrap()
}

#[test]
fn failures_of_llvm_name_the_function_and_its_unit() {
    let gives_up = Link::new().unit(bitcode(CALL), "call.bc").unit(bitcode(HELPER), "helper.bc");
    let crashes = Link::new().unit(bitcode(COMPARE), "compare.bc");
    for (link, function, unit) in [(gives_up, "helper(int*)", "helper.bc"), (crashes, "compare", "compare.bc")] {
        for ahead in [0, 1] {
            let (linker, temporary) = linker();
            let linker = linker.ahead(ahead);
            linker.prepare().unwrap();
            let Err(Error::Failed { diagnostics }) = linker.run(&link.clone().target("sm_90")) else {
                panic!("{unit}")
            };
            let errors: Vec<_> = diagnostics.iter().filter(|found| found.severity == Severity::Error).collect();
            assert_eq!(errors.len(), 1, "{diagnostics:?}");
            assert!(errors[0].message.starts_with("LLVM cannot compile the "), "{}", errors[0].message);
            assert!(errors[0].message.contains(&format!("'{function}'")), "{}", errors[0].message);
            assert_eq!(errors[0].file.as_deref(), Some(unit));
            drop(linker);
            assert_eq!(entries(temporary.path()), Vec::<std::path::PathBuf>::new());
        }
    }
}
