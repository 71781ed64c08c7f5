//! Which names of sections the driver needs: what `explain` says of a cubin with one bit flipped in them, against what an H200 (sm_90,
//! driver 580.159.04) did. 20,000 such cubins went one way for each name, whichever bit was flipped.

use offload_bundle::GpuArch;
use offload_bundle::coverage::{Driver, check, inspect, outcome};
use offload_bundle::cubin;
use offload_bundle::fatbin::{self, BuilderOptions, FatbinBuilder, Validation};

use crate::tools;

/// A kernel with variables in several memories and a function that it calls.
const SOURCE: &str = "
.version 9.0
.target sm_90
.address_size 64
.visible .global .align 4 .u32 counter = 2;
.visible .global .align 4 .b8 zeroed[400];
.visible .const .align 4 .u32 table[4] = {40, 41, 42, 43};
.func (.param .b32 r) callee(.param .b32 p)
{
.reg .b32 %r<3>;
ld.param.b32 %r1, [p];
add.s32 %r2, %r1, %r1;
st.param.b32 [r], %r2;
ret;
}
.visible .entry k(.param .u64 p)
{
.reg .b64 %rd<3>;
.reg .b32 %r<6>;
.shared .align 4 .b8 shared[128];
ld.param.u64 %rd1, [p];
cvta.to.global.u64 %rd2, %rd1;
ld.global.u32 %r1, [counter];
ld.const.u32 %r2, [table+8];
{
.param .b32 a;
.param .b32 b;
st.param.b32 [a], %r1;
call.uni (b), callee, (a);
ld.param.b32 %r3, [b];
}
st.shared.u32 [shared], %r3;
bar.sync 0;
ld.shared.u32 %r4, [shared+4];
add.s32 %r5, %r4, %r2;
st.global.u32 [%rd2], %r5;
st.global.u32 [zeroed], %r5;
ret;
}
";

/// What the driver did where that name was damaged; it ran all others.
fn seen(name: &str) -> &'static str {
    match name {
        ".note.nv.tkinfo" | ".note.nv.cuinfo" | ".nv.global" | ".nv.global.init" => "invalid-image",
        ".text.k" => "symbol-not-found",
        _ => "sass 90",
    }
}

fn fatbin_of(cubin: Vec<u8>) -> Vec<u8> {
    let options = BuilderOptions { validation: Validation::Nvidia, ..BuilderOptions::default() };
    let mut builder = FatbinBuilder::new(options);
    builder.add_cubin(GpuArch::plain(90), cubin, "").expect("a cubin");
    builder.finish().expect("a fatbin")
}

/// Name of each section, and where it is in the cubin.
fn names(cubin: &[u8]) -> Vec<(String, usize)> {
    let sections = cubin::parse(cubin).expect("a sound cubin");
    let names = sections.section_sizes().filter(|(name, _)| !name.is_empty());
    names
        .map(|(name, _)| {
            let whole = [b"\0", name.as_bytes(), b"\0"].concat();
            let at = cubin.windows(whole.len()).position(|window| window == whole).expect("the name");
            (name.to_owned(), at + 1)
        })
        .collect()
}

#[test]
fn damaged_section_names() {
    let dir = tempfile::tempdir().expect("a folder");
    let sound = tools::ptxas(dir.path(), SOURCE, "sm_90", &[]);
    let names = names(&sound);
    for needed in [".note.nv.tkinfo", ".note.nv.cuinfo", ".text.k", ".nv.global", ".nv.global.init", ".nv.constant3"] {
        assert!(names.iter().any(|(name, _)| name == needed), "{needed}");
    }
    for (name, at) in names {
        for (byte, bit) in (0..name.len()).flat_map(|byte| (0..7).map(move |bit| (byte, bit))) {
            let mut damaged = sound.clone();
            damaged[at + byte] ^= 1 << bit;
            let fatbin = fatbin_of(damaged);
            let codes = inspect(&fatbin::read(&fatbin).expect("a fatbin"));
            let told = outcome(&codes, GpuArch::plain(90), Driver::Branch(580));
            assert_eq!(told.brief(), seen(&name), "{name}, bit {bit} of byte {byte}: {}", told.reason);
        }
    }
}

#[test]
fn an_unknown_name_is_a_note() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut damaged = tools::ptxas(dir.path(), SOURCE, "sm_90", &[]);
    let at = damaged.windows(13).position(|window| window == b".nv.constant3").expect("the name");
    damaged[at + 4] ^= 1;
    let fatbin = fatbin_of(damaged);
    let codes = inspect(&fatbin::read(&fatbin).expect("a fatbin"));
    let findings = check(&codes, &Default::default());
    let note = findings.iter().find(|finding| finding.code.name() == "FB016").expect("a note");
    assert!(note.message.contains("\".nv.bonstant3\""), "{}", note.message);
}

/// ptxas puts `__shared__` unions into a section `.nv_debug.shared`, as bitsandbytes has it: a name of another kind is no damage.
#[test]
fn variables_in_sections_of_other_kinds() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut cubin = tools::ptxas(dir.path(), SOURCE, "sm_90", &[]);
    let number =
        |at: usize, size: usize| cubin[at..at + size].iter().rev().fold(0, |n, byte| n << 8 | usize::from(*byte));
    let (table, count, names) = (number(40, 8), number(60, 2), number(62, 2));
    let names = number(table + 64 * names + 24, 8);
    let header = |name: &[u8]| {
        let is_named = |at: &usize| cubin[names + number(*at, 4)..].starts_with(name);
        (0..count).map(|index| table + 64 * index).find(is_named).expect("a section")
    };
    let (variables, other) = (header(b".nv.global\0"), header(b".debug_frame\0"));
    let name: [u8; 4] = cubin[other..other + 4].try_into().expect("a number");
    cubin[variables..variables + 4].copy_from_slice(&name);
    let fatbin = fatbin_of(cubin);
    let codes = inspect(&fatbin::read(&fatbin).expect("a fatbin"));
    assert_eq!(outcome(&codes, GpuArch::plain(90), Driver::Branch(580)).brief(), "sass 90");
}
