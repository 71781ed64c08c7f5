use std::collections::BTreeSet;

use inkwell::context::Context;
use inkwell::memory_buffer::MemoryBuffer;

use super::*;
use crate::reference_graph;
use crate::resolve::{self, UnitSymbols};

/// Parses a unit.
fn unit(text: &str) -> (ReferenceGraph, Bodies) {
    let context = Context::create();
    let text = format!("target triple = \"nvptx64-nvidia-cuda\"\n{text}");
    let buffer = MemoryBuffer::create_from_memory_range_copy(text.as_bytes(), "unit");
    let module = context.create_module_from_ir(buffer).unwrap_or_else(|error| panic!("{error}: {text}"));
    (reference_graph::of_module(&module), Bodies::of_module(&module))
}

fn of_units(texts: &[&str], keep: &[&str]) -> EqualKernels {
    of_units_with(texts, keep, &[])
}

fn of_units_with(texts: &[&str], keep: &[&str], finished: &[&str]) -> EqualKernels {
    let units: Vec<_> = texts.iter().map(|text| unit(text)).collect();
    let graphs: Vec<&ReferenceGraph> = units.iter().map(|(graph, _)| graph).collect();
    let bodies: Vec<&Bodies> = units.iter().map(|(_, bodies)| bodies).collect();
    let symbols: Vec<UnitSymbols> =
        graphs.iter().map(|graph| UnitSymbols { symbols: reference_graph::symbols(graph) }).collect();
    let resolution = resolve::resolve(&symbols, &|_| true);
    let keep: BTreeSet<String> = keep.iter().map(|name| (*name).to_owned()).collect();
    let tags = (0..units.len()).map(|unit| format!("tag{unit}")).collect();
    let program = Program::new(graphs.clone(), tags, &|name| resolution.prevailing.get(name).copied(), &keep);
    let finished = finished.iter().map(|name| (*name).to_owned()).collect();
    find(&program, &graphs, &bodies, &|_| true, &finished)
}

fn pairs(found: &EqualKernels) -> Vec<(&str, &str)> {
    found.folded.iter().map(|(one, other)| (one.as_str(), other.as_str())).collect()
}

/// A program of two kernels, of which `edit` changes the second. `@OWN` stands for `a` in the first and for `b` in the second.
fn two(edit: impl Fn(&str) -> String) -> String {
    let edited = edit(KERNEL);
    let kernel =
        |text: &str, name: &str| text.replace("@OWN", &format!("@{name}")).replace("#A", "\"nvvm.maxntid\"=\"64\"");
    format!("{COMMON}{}{}", kernel(KERNEL, "a"), kernel(&edited, "b"))
}

const COMMON: &str = "
%S = type { i32, double }
@counter = addrspace(1) global i32 0
@other = addrspace(1) global i32 0
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
@llvm.used = appending global [1 x ptr] [ptr addrspacecast (ptr addrspace(1) @counter to ptr)]
define linkonce_odr void @leaf(ptr %p) { store i32 1, ptr %p, align 4 ret void }
define linkonce_odr void @leaf2(ptr %p) { store i32 1, ptr %p, align 4 ret void }
define linkonce_odr void @leaf3(ptr %p) { store i32 3, ptr %p, align 4 ret void }
declare void @outside(ptr)
declare void @outside2(ptr)
!llvm.module.flags = !{!0}
!0 = !{i32 2, !\"Debug Info Version\", i32 3}
!1 = !{!2, !2, i64 0}
!2 = !{!\"int\", !3}
!3 = !{!\"root\"}
!4 = !{!2, !2, i64 0, i64 1}
!6 = distinct !{!6, !7}
!7 = !{!\"llvm.loop.unroll.disable\"}
!8 = distinct !{!8, !9}
!9 = !{!\"llvm.loop.unroll.count\", i32 4}
!llvm.dbg.cu = !{!10}
!10 = distinct !DICompileUnit(language: DW_LANG_C_plus_plus, file: !11, emissionKind: DebugDirectivesOnly)
!11 = !DIFile(filename: \"a.cu\", directory: \"/\")
!12 = distinct !DISubprogram(name: \"a\", file: !11, line: 5, unit: !10, spFlags: DISPFlagDefinition)
!13 = !DILocation(line: 6, column: 7, scope: !12)
";
const KERNEL: &str = "
@OWN.tile = internal addrspace(3) global [32 x i32] undef, align 16
@OWN.table = private unnamed_addr addrspace(4) constant [2 x i32] [i32 7, i32 8], align 4
@OWN.text = private unnamed_addr constant [3 x i8] c\"ab\\00\"
define linkonce_odr void @OWN.helper(ptr %p) {
  call void @leaf(ptr %p)
  ret void
}
define ptx_kernel void @OWN(ptr byval(%S) align 8 %s, ptr %p, i32 %n) #A {
entry:
  %i = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %x = load i32, ptr %p, align 4, !tbaa !1
  %y = add nsw i32 %x, %i
  %e = getelementptr inbounds [2 x i32], ptr addrspacecast (ptr addrspace(4) @OWN.table to ptr), i64 0, i32 %n
  %z = load i32, ptr %e, align 4
  store i32 %z, ptr addrspacecast (ptr addrspace(3) @OWN.tile to ptr), align 16
  %old = atomicrmw add ptr addrspacecast (ptr addrspace(1) @counter to ptr), i32 %y syncscope(\"device\") monotonic, align 4
  call void @OWN.helper(ptr %p)
  call void @outside(ptr @OWN.text)
  %c = icmp slt i32 %n, 5
  br i1 %c, label %loop, label %end
loop:
  %k = phi i32 [ 0, %entry ], [ %k1, %loop ]
  %k1 = add i32 %k, 1
  fence syncscope(\"block\") acquire
  %m = call i32 asm sideeffect \"mov.u32 $0, %clock;\", \"=r\"()
  %d = icmp ult i32 %k1, %n
  br i1 %d, label %loop, label %end, !llvm.loop !6
end:
  ret void
}
";
#[test]
fn kernels_that_differ_in_names_only_are_equal() {
    let program = two(str::to_owned);
    assert_eq!(pairs(&of_units(&[&program], &[])), [("b", "a")]);
}

#[test]
fn every_difference_counts() {
    let edits = [
        ("nothing at all", "", ""),
        ("nsw", "add nsw", "add"),
        ("an opcode", "add nsw", "sub nsw"),
        ("a parameter's alignment", "byval(%S) align 8", "byval(%S) align 16"),
        ("a parameter's type", "byval(%S)", "byval([16 x i8])"),
        ("an attribute", "#A", "\"nvvm.maxntid\"=\"128\""),
        ("no attribute", "#A", ""),
        ("linkage", "define ptx_kernel void @OWN(", "define weak_odr ptx_kernel void @OWN("),
        ("visibility", "define ptx_kernel void @OWN(", "define protected ptx_kernel void @OWN("),
        ("a load's alignment", "ptr %p, align 4, !tbaa", "ptr %p, align 2, !tbaa"),
        ("a load's volatility", "%x = load", "%x = load volatile"),
        ("alias information", ", !tbaa !1", ", !tbaa !4"),
        ("no alias information", ", !tbaa !1", ""),
        ("the content of a table", "i32 7, i32 8", "i32 7, i32 9"),
        ("the alignment of shared memory", "undef, align 16", "undef, align 32"),
        ("the size of shared memory", "[32 x i32] undef", "[33 x i32] undef"),
        ("a text", "c\"ab\\00\"", "c\"ac\\00\""),
        ("a variable", "@counter to ptr), i32 %y", "@other to ptr), i32 %y"),
        ("a scope", "syncscope(\"device\")", ""),
        ("an ordering", "monotonic", "acq_rel"),
        ("an atomic operation", "atomicrmw add", "atomicrmw max"),
        ("a called function", "@leaf(ptr", "@leaf3(ptr"),
        (
            "a function that is called and its address",
            "call void @outside(ptr @OWN.text)",
            "call void @outside(ptr @leaf)",
        ),
        ("a function from outside", "@outside(ptr", "@outside2(ptr"),
        ("a predicate", "icmp slt", "icmp sle"),
        ("a number", "%n, 5", "%n, 6"),
        ("the order of values", "[ 0, %entry ], [ %k1, %loop ]", "[ %k1, %loop ], [ 0, %entry ]"),
        ("the targets of a branch", "label %loop, label %end, !llvm", "label %end, label %loop, !llvm"),
        ("what a loop says", "!llvm.loop !6", "!llvm.loop !8"),
        ("a fence", "fence syncscope(\"block\")", "fence"),
        ("assembly", "%clock;", "%clock_hi;"),
        ("constraints of assembly", "\"=r\"()", "\"=&r\"()"),
        ("inbounds", "getelementptr inbounds", "getelementptr"),
        ("an element type", "getelementptr inbounds [2 x i32]", "getelementptr inbounds [3 x i32]"),
        ("a use of a parameter", "%z = load i32, ptr %e", "%z = load i32, ptr %p"),
        ("a tail call", "call void @OWN.helper", "tail call void @OWN.helper"),
    ];
    for (what, from, to) in edits {
        let edit = |text: &str| text.replace(from, to);
        assert_eq!(edit(KERNEL) == KERNEL, from == to, "{what}");
        let found = of_units(&[&two(edit)], &[]);
        let expected: &[(&str, &str)] = if from == to { &[("b", "a")] } else { &[] };
        assert_eq!(pairs(&found), expected, "{what}");
    }
}

#[test]
fn functions_of_other_names_may_be_equal() {
    let program = two(|text| text.replace("@leaf(", "@leaf2("));
    assert_eq!(pairs(&of_units(&[&program], &[])), [("b", "a")]);
}

#[test]
fn a_variable_has_to_be_the_same_one() {
    let local = |name: &str| {
        format!(
            "@v{name} = internal addrspace(1) global i32 0\ndefine ptx_kernel void @{name}() {{ store i32 1, ptr addrspace(1) @v{name} ret void }}\n"
        )
    };
    assert_eq!(pairs(&of_units(&[&(local("a") + &local("b"))], &[])), []);
    let constant = local("a")
        .replace("addrspace(1) global", "addrspace(1) constant")
        .replace("store i32 1, ptr addrspace(1) @va", "%x = load i32, ptr addrspace(1) @va");
    assert_eq!(
        pairs(&of_units(&[&(constant.clone() + &constant.replace("@a", "@b").replace("@va", "@vb"))], &[])),
        [("b", "a")]
    );
}

#[test]
fn shared_variables_correspond_one_to_one() {
    let kernel = |name: &str, first: &str, second: &str| {
        format!(
            "@s{name} = internal addrspace(3) global i32 undef\n@t{name} = internal addrspace(3) global i32 undef\n\
             define ptx_kernel void @{name}() {{\n store i32 1, ptr addrspace(3) @{first}{name}\n store i32 1, ptr addrspace(3) @{second}{name}\n ret void\n}}\n"
        )
    };
    assert_eq!(pairs(&of_units(&[&(kernel("a", "s", "t") + &kernel("b", "t", "s"))], &[])), [("b", "a")]);
    assert_eq!(pairs(&of_units(&[&(kernel("a", "s", "t") + &kernel("b", "s", "s"))], &[])), []);
}

#[test]
fn kernels_of_several_units() {
    let kernel = |name: &str| format!("define ptx_kernel void @{name}(ptr %p) {{ store i32 1, ptr %p ret void }}\n");
    let of = |names: &[&str]| names.iter().map(|name| kernel(name)).collect::<String>();
    let (one, two) = (of(&["c", "b"]), of(&["a", "d"]));
    assert_eq!(pairs(&of_units(&[&one, &two], &[])), [("b", "a"), ("c", "a"), ("d", "a")]);
    assert_eq!(of_units(&[&two, &one], &[]), of_units(&[&one, &two], &[]));
    let flagged = two.clone() + "!llvm.module.flags = !{!0}\n!0 = !{i32 4, !\"nvvm-reflect-ftz\", i32 1}\n";
    assert_eq!(pairs(&of_units(&[&one, &flagged], &[])), [("c", "b"), ("d", "a")]);
    let assembly = two.clone() + "module asm \".global .u32 x;\"\n";
    assert_eq!(pairs(&of_units(&[&one, &assembly], &[])), [("c", "b")]);
}

#[test]
fn kernels_that_device_code_refers_to_are_compiled() {
    let kernel = |name: &str| format!("define ptx_kernel void @{name}(ptr %p) {{ store i32 1, ptr %p ret void }}\n");
    let all = kernel("a") + &kernel("b") + &kernel("c");
    let launches = all.clone() + "@table = global [2 x ptr] [ptr @b, ptr @c]\n";
    let found = of_units(&[&launches], &[]);
    assert_eq!(pairs(&found), [("a", "b")]);
    assert_eq!(found.referenced, ["c"]);
    let retained = all + "@llvm.used = appending global [1 x ptr] [ptr @c], section \"llvm.metadata\"\n";
    assert_eq!(pairs(&of_units(&[&retained], &[])), [("a", "c"), ("b", "c")]);
}

#[test]
fn line_tables_have_to_be_equal() {
    let unit = |kind: &str, line: u32, inlined: &str| {
        let kernel = |name: &str, line: u32, program: u32, inlined: &str| {
            let scope = program + 1;
            format!(
                "define ptx_kernel void @{name}(ptr %p) !dbg !{program} {{\n store i32 1, ptr %p, !dbg !DILocation(line: {line}, scope: !{scope}, inlinedAt: !DILocation(line: 9, scope: !{program}))\n ret void\n}}\n\
                 !{program} = distinct !DISubprogram(name: \"{name}\", linkageName: \"{name}\", file: !2, line: 5, unit: !1, spFlags: DISPFlagDefinition)\n\
                 !{scope} = distinct !DISubprogram(name: \"{inlined}\", file: !2, line: 1, unit: !1, spFlags: DISPFlagDefinition)\n"
            )
        };
        format!(
            "{}{}!llvm.dbg.cu = !{{!1}}\n!llvm.module.flags = !{{!0}}\n!0 = !{{i32 2, !\"Debug Info Version\", i32 3}}\n\
             !1 = distinct !DICompileUnit(language: DW_LANG_C_plus_plus, file: !2, emissionKind: {kind})\n!2 = !DIFile(filename: \"a.cu\", directory: \"/\")\n",
            kernel("a", 7, 10, "f"),
            kernel("b", line, 20, inlined)
        )
    };
    assert_eq!(pairs(&of_units(&[&unit("DebugDirectivesOnly", 7, "f")], &[])), [("b", "a")]);
    assert_eq!(pairs(&of_units(&[&unit("DebugDirectivesOnly", 8, "f")], &[])), []);
    assert_eq!(pairs(&of_units(&[&unit("DebugDirectivesOnly", 7, "g")], &[])), []);
    assert_eq!(pairs(&of_units(&[&unit("FullDebug", 7, "f")], &[])), []);
}

#[test]
fn a_finished_kernel_stands_for_others() {
    let found = of_units_with(&[&two(str::to_owned)], &[], &["b"]);
    assert_eq!(pairs(&found), [("a", "b")]);
    let found = of_units_with(&[&two(str::to_owned)], &[], &["a", "b"]);
    assert_eq!(pairs(&found), [("b", "a")]);
}
