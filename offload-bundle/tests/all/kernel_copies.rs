//! Kernels that are copied inside a cubin, compared with what ptxas and nvlink make of the same kernel under the other name.

use std::collections::BTreeMap;
use std::path::Path;

use offload_bundle::cubin::{self, with_kernel_copies};

use crate::tools::{cuda, ptxas, run};

/// Kernels in PTX, each with what it needs outside of it. `NAME` is the kernel.
const KERNELS: [(&str, &str); 8] = [
    ("empty", ".visible .entry NAME()\n{ ret; }\n"),
    (
        "arguments and bounds",
        ".weak .entry NAME(.param .u64 p, .param .align 8 .b8 s[24]) .maxntid 128, 1, 1 .minnctapersm 2\n{ .reg .b64 %rd<4>; .reg .b32 %r<4>; .reg .pred %p<2>;\n\
         ld.param.u64 %rd1, [p]; ld.param.u32 %r1, [s+8]; mov.u32 %r2, %tid.x; setp.eq.s32 %p1, %r1, %r2; @%p1 bra L; st.global.u32 [%rd1], %r2; L: ret; }\n",
    ),
    (
        "shared, constant and global variables",
        ".visible .entry NAME(.param .u64 p)\n{ .reg .b64 %rd<4>; .reg .b32 %r<6>; .shared .align 16 .b8 tile[512];\n\
         ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 2; mov.u32 %r3, tile; add.s32 %r3, %r3, %r2; st.shared.u32 [%r3], %r1; bar.sync 0;\n\
         ld.shared.u32 %r4, [%r3]; ld.const.u32 %r5, [limits+4]; add.s32 %r4, %r4, %r5; atom.global.add.u32 %r1, [counter], %r4; st.global.u32 [%rd1], %r1; ret; }\n",
    ),
    (
        "an operation that becomes a function",
        ".visible .entry NAME(.param .u64 p)\n{ .reg .b64 %rd<4>; .reg .f64 %fd<4>; .reg .b64 %l<4>;\n\
         ld.param.u64 %rd1, [p]; ld.global.f64 %fd1, [%rd1]; ld.global.f64 %fd2, [%rd1+8]; div.rn.f64 %fd3, %fd1, %fd2; st.global.f64 [%rd1+16], %fd3;\n\
         ld.global.s64 %l1, [%rd1+24]; ld.global.s64 %l2, [%rd1+32]; div.s64 %l3, %l1, %l2; st.global.s64 [%rd1+40], %l3; ret; }\n",
    ),
    (
        "calls and local memory",
        ".visible .entry NAME(.param .u64 p)\n{ .reg .b64 %rd<6>; .reg .b32 %r<4>; .local .align 8 .b8 frame[64];\n\
         ld.param.u64 %rd1, [p]; ld.global.u32 %r1, [%rd1]; mul.wide.u32 %rd2, %r1, 4; mov.u64 %rd3, frame; add.s64 %rd3, %rd3, %rd2; st.local.u32 [%rd3], %r1; ld.local.u32 %r2, [frame+8];\n\
         { .param .b32 a; .param .b32 b; st.param.b32 [a], %r2; call.uni (b), helper, (a); ld.param.b32 %r3, [b]; } st.global.u32 [%rd1], %r3; ret; }\n",
    ),
    (
        "a call through a pointer and a system call",
        ".visible .entry NAME(.param .u64 p)\n{ .reg .b64 %rd<6>; .reg .b32 %r<4>;\n\
         ld.param.u64 %rd1, [p]; ld.global.u64 %rd2, [table];\n\
         { .param .b32 a; .param .b32 b; st.param.b32 [a], 3; prototype: .callprototype (.param .b32 _) _ (.param .b32 _); call (b), %rd2, (a), prototype; ld.param.b32 %r3, [b]; }\n\
         { .param .b64 a; .param .b64 b; .param .b32 c; st.param.b64 [a], %rd1; st.param.b64 [b], %rd1; call.uni (c), vprintf, (a, b); ld.param.b32 %r2, [c]; }\n\
         st.global.u32 [%rd1], %r3; ret; }\n",
    ),
    (
        "a jump table",
        ".visible .entry NAME(.param .u64 p)\n{ .reg .b64 %rd<6>; .reg .b32 %r<4>;\n\
         ld.param.u64 %rd1, [p]; ld.global.u32 %r1, [%rd1]; and.b32 %r1, %r1, 3; targets: .branchtargets A, B, C, D; brx.idx %r1, targets;\n\
         A: st.global.u32 [%rd1], 10; ret; B: st.global.u32 [%rd1+8], 20; bra C; C: st.global.u32 [%rd1+4], 30; ret; D: bar.sync 1; st.global.u32 [%rd1], 40; ret; }\n",
    ),
    (
        "warps and barriers",
        ".visible .entry NAME(.param .u64 p)\n{ .reg .b64 %rd<6>; .reg .b32 %r<6>; .reg .pred %p<3>;\n\
         ld.param.u64 %rd1, [p]; mov.u32 %r1, %laneid; shfl.sync.bfly.b32 %r2, %r1, 1, 31, -1; setp.gt.s32 %p1, %r2, 7; vote.sync.ballot.b32 %r3, %p1, -1; red.global.add.u32 [%rd1], %r3;\n\
         bar.warp.sync -1; membar.sys; @%p1 exit; st.global.u32 [%rd1+4], %r2; ret; }\n",
    ),
];

const OUTSIDE: &str = ".extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);
.visible .global .align 4 .u32 counter;
.visible .const .align 4 .b8 limits[16];
.func (.param .b32 r) helper (.param .b32 p) { .reg .b32 %r<9>; .reg .f64 %fd<4>; ld.param.b32 %r1, [p]; mul.lo.s32 %r2, %r1, %r1; atom.global.add.u32 %r3, [counter], %r2; st.param.b32 [r], %r3; ret; }
.visible .global .align 8 .u64 table[2] = {helper, helper};
";

const TARGETS: [&str; 3] = ["sm_75", "sm_89", "sm_90a"];

/// Assembles kernels of these names, and links them in the third way.
fn build(dir: &Path, target: &str, names: &[(&str, String)], how: &str) -> Vec<u8> {
    let mut text = format!(".version 8.8\n.target {target}\n.address_size 64\n{OUTSIDE}");
    for (code, name) in names {
        text.push_str(&code.replace("NAME", name));
    }
    let args: &[&str] = if how == "whole" { &[] } else { &["-c"] };
    let bytes = ptxas(dir, &text, target, args);
    if how != "linked" {
        return bytes;
    }
    let (input, output) = (dir.join("in.cubin"), dir.join("out.cubin"));
    std::fs::write(&input, bytes).expect("a file");
    run(&cuda("nvlink"), ["-arch".as_ref(), target.as_ref(), input.as_os_str(), "-o".as_ref(), output.as_os_str()]);
    std::fs::read(&output).expect("nvlink wrote a cubin")
}

/// What the tools print of a cubin.
struct Printed {
    code: String,
    sections: String,
    resources: String,
}

impl Printed {
    fn of(dir: &Path, cubin: &[u8]) -> Self {
        let file = dir.join("shown.cubin");
        std::fs::write(&file, cubin).expect("a file");
        let shown = |tool: &str, option: &str| run(&cuda(tool), [option.as_ref(), file.as_os_str()]);
        Printed {
            code: shown("nvdisasm", "-hex"),
            sections: shown("cuobjdump", "-elf"),
            resources: shown("cuobjdump", "-res-usage"),
        }
    }

    /// What they print of a kernel: its code with the relocations, its attributes, its resources.
    fn kernel(&self, kernel: &str) -> String {
        let from = |text: &str, head: String, ends: &dyn Fn(&str) -> bool| {
            let lines = text.lines().skip_while(|line| *line != head).skip(1).take_while(|line| !ends(line));
            lines.map(str::to_owned).collect::<Vec<String>>()
        };
        let mut all = from(&self.code, format!(".text.{kernel}:"), &|line| line.starts_with("//----"));
        let mut attributes = from(&self.sections, format!(".nv.info.{kernel}"), &|line| line.is_empty());
        for at in 0..attributes.len() {
            // Symbols have other numbers.
            let (place, part) = if attributes[at].contains("PARAM_CBANK") {
                (at + 2, attributes[at + 2].split_whitespace().last())
            } else if attributes[at].contains("externs:") {
                (at, attributes[at].split('(').next())
            } else {
                continue;
            };
            let part = part.unwrap_or_default().to_owned();
            attributes[place] = part;
        }
        assert!(attributes.len() > 4 && all.len() > 8, "{kernel}");
        all.extend(attributes);
        let head = format!(" Function {kernel}:");
        all.extend(self.resources.lines().skip_while(|line| *line != head).take(2).map(str::to_owned));
        all.join("\n")
    }
}

/// The text without numbers of labels and of functions that ptxas adds, and with one blank between words.
fn normal(text: &str, kernel: &str) -> String {
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut rest = text.replace(kernel, "KERNEL").lines().map(words).collect::<Vec<_>>().join("\n");
    for mark in [".L_x_", ".L_", "$__internal_", "$__tile__"] {
        let mut pieces = rest.split(mark);
        let mut next = pieces.next().unwrap_or_default().to_owned();
        for piece in pieces {
            next.push('#');
            next.push_str(piece.trim_start_matches(|c: char| c.is_ascii_digit() || c == '_'));
        }
        rest = next;
    }
    rest
}

#[test]
fn copies_are_what_the_tools_make_of_the_kernel_under_the_other_name() {
    let dir = tempfile::tempdir().expect("a folder");
    for target in TARGETS {
        for how in ["relocatable", "whole", "linked"] {
            let name = |index: usize, copy: &str| format!("kernel{index}{copy}");
            let all = KERNELS.iter().enumerate();
            let once: Vec<(&str, String)> = all.clone().map(|(index, (_, code))| (*code, name(index, "a"))).collect();
            let thrice: Vec<(&str, String)> = all
                .clone()
                .flat_map(|(index, (_, code))| ["a", "b_longer", "c"].map(|copy| (*code, name(index, copy))))
                .collect();
            let copies: BTreeMap<String, Vec<String>> = all
                .clone()
                .map(|(index, _)| (name(index, "a"), vec![name(index, "b_longer"), name(index, "c")]))
                .collect();
            let built = build(dir.path(), target, &once, how);
            let copied = with_kernel_copies(&built, &copies).unwrap_or_else(|error| panic!("{target} {how}: {error}"));
            let expected = build(dir.path(), target, &thrice, how);
            let (ours, theirs) = (Printed::of(dir.path(), &copied), Printed::of(dir.path(), &expected));
            for (index, (what, _)) in all {
                for copy in ["a", "b_longer", "c"] {
                    let kernel = name(index, copy);
                    let ours = normal(&ours.kernel(&kernel), &kernel);
                    let theirs = normal(&theirs.kernel(&kernel), &kernel);
                    let different = ours.lines().zip(theirs.lines()).find(|(ours, theirs)| ours != theirs);
                    assert_eq!(different, None, "{target} {how}, {what}: {kernel}");
                    assert_eq!(ours.len(), theirs.len(), "{target} {how}, {what}: {kernel}");
                }
            }
            let of = |bytes: &[u8]| {
                let cubin = cubin::parse(bytes).expect("a sound cubin");
                let resources = cubin.resources();
                let mut all: Vec<String> = resources.functions.iter().map(|one| format!("{one:?}")).collect();
                all.sort();
                all
            };
            assert_eq!(of(&copied), of(&expected), "{target} {how}");
        }
    }
}

#[test]
fn what_cannot_be_copied_is_an_error() {
    let dir = tempfile::tempdir().expect("a folder");
    let copies = |kernel: &str, name: &str| BTreeMap::from([(kernel.to_owned(), vec![name.to_owned()])]);
    let kernels = [(KERNELS[2].1, "k".to_owned()), (KERNELS[0].1, "l".to_owned())];
    let sound = build(dir.path(), "sm_90", &kernels, "linked");
    let refused = |bytes: &[u8], copies: &BTreeMap<String, Vec<String>>| {
        with_kernel_copies(bytes, copies).expect_err("an error").to_string()
    };
    assert_eq!(refused(&sound, &copies("m", "n")), "cubin without the kernel m at offset 0x0");
    assert_eq!(refused(&sound, &copies("k", "l")), "cubin that has l already at offset 0x0");
    // Machine code in two forms.
    let newer = build(dir.path(), "sm_100", &kernels, "linked");
    assert_eq!(refused(&newer, &copies("k", "m")), "cubin whose kernels cannot be copied at offset 0x0");
    // Line tables.
    let text = format!(".version 8.8\n.target sm_90\n.address_size 64\n.file 1 \"a.cu\"\n{OUTSIDE}{}", KERNELS[2].1)
        .replace("NAME", "k")
        .replace("bar.sync 0;", ".loc 1 7 3\nbar.sync 0;\n.loc 1 8 1\n");
    let lines = ptxas(dir.path(), &text, "sm_90", &["-lineinfo"]);
    assert!(
        refused(&lines, &copies("k", "m")).contains("which refers to the kernel"),
        "{}",
        refused(&lines, &copies("k", "m"))
    );
    assert_eq!(with_kernel_copies(&sound, &BTreeMap::new()).as_ref(), Ok(&sound));
}

#[test]
fn damaged_cubins_are_errors_or_copied() {
    let dir = tempfile::tempdir().expect("a folder");
    let kernels: Vec<(&str, String)> =
        KERNELS.iter().enumerate().map(|(index, (_, code))| (*code, format!("k{index}"))).collect();
    let copies: BTreeMap<String, Vec<String>> =
        kernels.iter().map(|(_, name)| (name.clone(), vec![format!("{name}_copy")])).collect();
    let sound = build(dir.path(), "sm_86", &kernels, "linked");
    for length in (0..sound.len()).step_by(97) {
        assert!(with_kernel_copies(&sound[..length], &copies).is_err(), "{length}");
    }
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in 0..3_000 {
        let mut damaged = sound.clone();
        for _ in 0..2 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let at = (random >> 33) as usize % damaged.len();
            damaged[at] = [0, 1, 0x7f, 0x80, 0xff, damaged[at] ^ 1][(random >> 20) as usize % 6];
        }
        let _ = with_kernel_copies(&damaged, &copies);
    }
}
