//! What `explain` says of programs of nvcc's `-rdc=true`, against what a GPU made of them.
//!
//! `driver-truth/rdc.tsv` has a line for each program that ran on an H200. The program is built anew here as nvcc lays it out, in
//! little: the machine code by ptxas and nvlink, the rest by hand.
//!
//! - linked for: the entries of the linked fatbin, `-` for none. `s90` is machine code of sm_90, `p80` PTX of compute_80, `l80` LTO-IR,
//!   `s90<80` machine code of sm_90 made of compute_80, `p100=90` PTX of compute_100 under the label of compute_90. `!magic`, `!text`,
//!   `!version` and `!zstd` damage an entry: the magic of its ELF file, its first word, a PTX version after the driver's, its compression.
//! - objects: what each object defines (see [`source`]), and its entries. `R` is libcudadevrt's object. A second device link stands
//!   behind `|`, or `||` if the linker got both links behind all objects. `w` is compiled without `-rdc`.
//! - the outcomes, for each kernel: for which architecture the kernel and the function that it calls were compiled, or the runtime's
//!   error.

use std::collections::HashMap;
use std::path::Path;

use offload_bundle::coverage::{
    CheckOptions, CheckReport, ContainerReport, Detail, Driver, ExplainReport, GpuReport, Jit, Runtime, containers,
    forgotten_link,
};
use offload_bundle::fatbin::{self, BuilderOptions, CompressMode, FatbinBuilder};
use offload_bundle::host_object::Search;
use offload_bundle::{GpuArch, archive, host_object};
use proptest::prelude::*;
use proptest::sample::Index;

use crate::tools;

/// PTX of an object of kind `kind`, in which the names of the `link`th device link end with that number.
fn source(kind: char, link: usize, version: &str, arch: &str) -> String {
    let helper = format!(
        ".visible .func (.param .b32 r) helper{link}(.param .b32 p)\n{{\n.reg .b32 %r<3>;\nld.param.b32 %r1, [p];\nadd.s32 %r2, %r1, 1;\nst.param.b32 [r], %r2;\nret;\n}}\n"
    );
    let variable = format!(".visible .global .align 4 .u32 variable{link} = 7;\n");
    let call = |function: &str| {
        format!(
            "{{\n.param .b32 a;\n.param .b32 b;\nst.param.b32 [a], 4;\ncall.uni (b), {function}, (a);\nld.param.b32 %r1, [b];\n}}\n"
        )
    };
    let external = |function: &str| format!(".extern .func (.param .b32 r) {function}(.param .b32 p);\n");
    let kernel = |name: &str, body: &str| {
        format!(
            ".visible .entry {name}(.param .u64 p)\n{{\n.reg .b32 %r<4>;\n.reg .b64 %rd<4>;\nld.param.u64 %rd1, [p];\ncvta.to.global.u64 %rd2, %rd1;\nmov.u32 %r1, 1;\n{body}st.global.u32 [%rd2], %r1;\nret;\n}}\n"
        )
    };
    let calling = |others: &[&str]| {
        let externals: String = others.iter().map(|function| external(function)).collect();
        let calls: String = others.iter().map(|function| call(function)).collect();
        let load = format!("ld.global.u32 %r2, [variable{link}];\nst.global.u32 [%rd2+4], %r2;\n");
        let declared = format!(".extern .global .align 4 .u32 variable{link};\n");
        format!("{externals}{declared}{}", kernel(&format!("kernel{link}"), &format!("{calls}{load}")))
    };
    let own = format!("helper{link}");
    let text = match kind {
        'a' => calling(&[&own]),
        // As a kernel that launches another.
        'g' => calling(&[&own, "__cudaCDP2LaunchDeviceV2"]),
        'b' => helper + &variable,
        'h' => helper,
        'v' => variable,
        'c' => helper.replace("helper", "unrelated"),
        't' => {
            let print = ".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);\n";
            let call = "{\n.param .b64 f;\n.param .b64 a;\n.param .b32 b;\nst.param.b64 [f], 0;\nst.param.b64 [a], 0;\ncall.uni (b), vprintf, (f, a);\n}\n";
            print.to_owned() + &helper.replace("helper", "talk").replace("add.s32", &format!("{call}add.s32"))
        }
        'k' | 'w' => kernel("lone", ""),
        kind => panic!("no object {kind}"),
    };
    format!(".version {version}\n.target sm_{arch}\n.address_size 64\n{text}")
}

/// An entry as the table writes it.
struct FatbinEntry<'t> {
    kind: char,
    arch: &'t str,
    /// What the code is compiled from.
    from: &'t str,
    label: &'t str,
    damage: &'t str,
}

fn entry(text: &str) -> FatbinEntry<'_> {
    let (kind, rest) = text.split_at(1);
    let (rest, damage) = rest.split_once('!').unwrap_or((rest, ""));
    let (rest, label) = rest.split_once('=').unwrap_or((rest, ""));
    let (arch, from) = rest.split_once('<').unwrap_or((rest, rest));
    FatbinEntry { kind: kind.chars().next().expect("a letter"), arch, from, label, damage }
}

fn entries(text: &str) -> Vec<FatbinEntry<'_>> {
    text.split(',').filter(|word| *word != "-").map(entry).collect()
}

/// Assembles each source once.
#[derive(Default)]
struct Assembler {
    cubins: HashMap<(String, String, bool), Vec<u8>>,
}

impl Assembler {
    fn cubin(&mut self, dir: &Path, ptx: &str, arch: &str, relocatable: bool) -> Vec<u8> {
        let options: &[&str] = if relocatable { &["-c"] } else { &[] };
        let make = || tools::ptxas(dir, ptx, &format!("sm_{arch}"), options);
        self.cubins.entry((ptx.to_owned(), arch.to_owned(), relocatable)).or_insert_with(make).clone()
    }
}

/// The fatbin of an object, or of a device link whose cubins `linked` makes.
fn fatbin_of(
    entries: &[FatbinEntry<'_>],
    mut cubin: impl FnMut(&FatbinEntry<'_>) -> Vec<u8>,
    ptx: impl Fn(&FatbinEntry<'_>) -> String,
) -> Vec<u8> {
    let mut bodies = Vec::new();
    for entry in entries {
        let mode = if entry.damage == "zstd" { CompressMode::Default } else { CompressMode::None };
        let mut builder = FatbinBuilder::new(BuilderOptions { mode, ..BuilderOptions::default() });
        let arch: GpuArch = format!("sm_{}", entry.arch).parse().expect("an architecture");
        let added = match entry.kind {
            's' => builder.add_cubin(arch, cubin(entry), ""),
            'p' => builder.add_ptx(arch, ptx(entry).into_bytes(), "", ""),
            _ => builder.add_ltoir(arch, [b"\xed\x43\x4e\x7f\x01\x41".as_slice(), &[0; 90]].concat(), "", ""),
        };
        added.expect("a sound image");
        let mut bytes = builder.finish().expect("a fatbin");
        damage(&mut bytes, entry);
        bodies.extend_from_slice(&bytes[16..]);
    }
    let mut fatbin = FatbinBuilder::new(BuilderOptions::default()).finish().expect("an empty fatbin");
    fatbin[8..16].copy_from_slice(&(bodies.len() as u64).to_le_bytes());
    fatbin.extend(bodies);
    fatbin
}

fn damage(fatbin: &mut [u8], entry: &FatbinEntry<'_>) {
    let stored = fatbin::read(fatbin).expect("a fatbin");
    let (header, payload) = (stored[0].offset as usize, stored[0].payload_offset as usize);
    if !entry.label.is_empty() {
        let number: u32 = entry.label.parse().expect("a number");
        fatbin[header + 0x1c..header + 0x20].copy_from_slice(&number.to_le_bytes());
    }
    match entry.damage {
        "magic" | "zstd" => fatbin[payload..payload + 4].fill(0),
        "text" => fatbin[payload + 2] = b'a',
        _ => {}
    }
}

/// A program, as far as it has been laid out.
#[derive(Default)]
struct Program {
    ids: Vec<u8>,
    objects: Vec<u8>,
    fatbins: Vec<u8>,
    /// Version, section and offset in it of each wrapper's fatbin.
    wrappers: Vec<(u32, usize, usize)>,
}

const OBJECTS: usize = 1;
const FATBINS: usize = 2;

impl Program {
    fn add_object(&mut self, id: &str, fatbin: &[u8]) {
        self.ids.extend(format!("{id}\0").into_bytes());
        self.wrappers.push((1, OBJECTS, self.objects.len()));
        self.objects.extend(fatbin);
    }

    fn add_fatbin(&mut self, ids: &str, version: u32, fatbin: &[u8]) {
        self.ids.extend(ids.as_bytes());
        self.wrappers.push((version, FATBINS, self.fatbins.len()));
        self.fatbins.extend(fatbin);
    }

    /// An executable without relocations.
    fn elf(&self) -> Vec<u8> {
        const BASE: u64 = 0x40_0000;
        let names = b"\0__nv_module_id\0__nv_relfatbin\0.nv_fatbin\0.nvFatBinSegment\0.shstrtab\0";
        let offset_of =
            |name: &[u8]| names.windows(name.len()).position(|window| window == name).expect("a name") as u32;
        let mut bytes = vec![0; 64];
        let mut offsets = Vec::new();
        for data in [&self.ids, &self.objects, &self.fatbins] {
            bytes.resize(bytes.len().next_multiple_of(8), 0);
            offsets.push(bytes.len() as u64);
            bytes.extend(data);
        }
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        offsets.push(bytes.len() as u64);
        for (version, section, offset) in &self.wrappers {
            bytes.extend(0x4662_43b1_u32.to_le_bytes());
            bytes.extend(version.to_le_bytes());
            bytes.extend((BASE + offsets[*section] + *offset as u64).to_le_bytes());
            bytes.extend(0_u64.to_le_bytes());
        }
        offsets.push(bytes.len() as u64);
        bytes.extend(names);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        let table = bytes.len() as u64;
        let sizes = [self.ids.len(), self.objects.len(), self.fatbins.len(), self.wrappers.len() * 24, names.len()];
        let section_names: [&[u8]; 5] =
            [b"__nv_module_id", b"__nv_relfatbin", b".nv_fatbin", b".nvFatBinSegment", b".shstrtab"];
        bytes.extend([0; 64]);
        for (index, name) in section_names.iter().enumerate() {
            let (kind, flags, address) = if index == 4 { (3_u32, 0_u64, 0) } else { (1, 2, BASE + offsets[index]) };
            bytes.extend(offset_of(name).to_le_bytes());
            bytes.extend(kind.to_le_bytes());
            for number in [flags, address, offsets[index], sizes[index] as u64, 0, 8, 0] {
                bytes.extend(number.to_le_bytes());
            }
        }
        let mut header = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x3e\0\x01\0\0\0".to_vec();
        for number in [0, 0, table] {
            header.extend(u64::to_le_bytes(number));
        }
        header.extend(0_u32.to_le_bytes());
        for number in [64_u16, 0, 0, 64, 6, 5] {
            header.extend(number.to_le_bytes());
        }
        bytes[..64].copy_from_slice(&header);
        bytes
    }
}

/// An object of a program: its letter, its entries, and the number of its device link.
type Object<'t> = (char, Vec<FatbinEntry<'t>>, usize);

struct Builder<'d> {
    dir: &'d Path,
    assembler: Assembler,
    device_runtime: Vec<u8>,
}

impl Builder<'_> {
    fn object(&mut self, (kind, entries, link): &Object<'_>) -> Vec<u8> {
        if *kind == 'R' {
            return self.device_runtime.clone();
        }
        let text = |entry: &FatbinEntry<'_>| {
            let version = if entry.damage == "version" { "9.1" } else { "9.0" };
            source(*kind, *link, version, entry.from)
        };
        let (dir, assembler) = (self.dir, &mut self.assembler);
        fatbin_of(entries, |entry| assembler.cubin(dir, &text(entry), entry.arch, *kind != 'w'), text)
    }

    /// The fatbin that a device link of these objects makes.
    fn linked(&mut self, entries: &[FatbinEntry<'_>], objects: &[Object<'_>]) -> Vec<u8> {
        let (dir, assembler) = (self.dir, &mut self.assembler);
        let link = |entry: &FatbinEntry<'_>| {
            let mut inputs = Vec::new();
            for (index, (kind, _, link)) in objects.iter().filter(|(kind, ..)| *kind != 'R').enumerate() {
                let kind = if *kind == 'g' { 'a' } else { *kind };
                let cubin = assembler.cubin(dir, &source(kind, *link, "9.0", entry.arch), entry.arch, true);
                let path = dir.join(format!("{index}.cubin"));
                std::fs::write(&path, cubin).expect("written");
                inputs.push(path);
            }
            let out = dir.join("linked.cubin");
            let mut words = vec!["-arch".into(), format!("sm_{}", entry.arch).into(), "-o".into(), out.clone()];
            words.extend(inputs);
            tools::run(&tools::cuda("nvlink"), words);
            std::fs::read(out).expect("nvlink wrote a cubin")
        };
        fatbin_of(entries, link, |_| String::new())
    }

    /// The program of a line of the table, and all its objects.
    fn program<'t>(&mut self, linked: &'t str, objects: &'t str) -> (Vec<u8>, Vec<Object<'t>>) {
        let mut program = Program::default();
        let mut all = Vec::new();
        let mut device_links = Vec::new();
        let links_last = objects.contains("||");
        for (link, (linked, words)) in
            linked.split(" | ").zip(objects.split('|').filter(|part| !part.is_empty())).enumerate()
        {
            let words = words.split_whitespace();
            let of_word = |word: &'t str| {
                let (kind, text) = word.split_once(':').unwrap_or((word, "-"));
                (kind.chars().next().expect("a letter"), entries(text), link)
            };
            let (whole, objects): (Vec<Object<'t>>, Vec<Object<'t>>) =
                words.map(of_word).partition(|(kind, ..)| *kind == 'w');
            let mut ids = String::new();
            for object in &objects {
                let id = format!("_0123abcd_4_{}_cu_{link}", object.0);
                program.add_object(&id, &self.object(object));
                ids += &format!("def {id}\0");
            }
            device_links.push((ids, self.linked(&entries(linked), &objects)));
            if !links_last {
                device_links.drain(..).for_each(|(ids, fatbin)| program.add_fatbin(&ids, 2, &fatbin));
            }
            for object in &whole {
                program.add_fatbin("__NV_MODULE_ID\0", 1, &self.object(object));
            }
            all.extend(objects.into_iter().chain(whole));
        }
        device_links.drain(..).for_each(|(ids, fatbin)| program.add_fatbin(&ids, 2, &fatbin));
        (program.elf(), all)
    }
}

/// The fatbin of libcudadevrt.
fn device_runtime() -> Vec<u8> {
    let library = tools::cuda("nvcc").parent().expect("a folder").join("../lib/libcudadevrt.a");
    let library = std::fs::read(library).expect("libcudadevrt");
    let members = archive::members(&library).expect("an archive");
    let fatbin = members.iter().find_map(|member| match &member.data {
        archive::MemberData::Inline(object) => host_object::section(object, b"__nv_relfatbin"),
        archive::MemberData::Thin { .. } => None,
    });
    fatbin.expect("a fatbin").1.to_vec()
}

/// What is told of each kernel, in the words of the table.
fn told(report: &ExplainReport, objects: &[Object<'_>]) -> Vec<String> {
    let of_role = |role: &str| -> Vec<&ContainerReport> {
        report.containers.iter().filter(|container| container.role.role == role).collect()
    };
    let (links, mut whole) = (of_role("linked"), of_role("whole").into_iter());
    let parts: Vec<&ContainerReport> = of_role("object");
    let mut numbers = parts.iter().map(|part| part.place.container);
    let numbered: Vec<(&Object<'_>, Option<usize>)> =
        objects.iter().map(|object| (object, if object.0 == 'w' { None } else { numbers.next() })).collect();
    let kernels = numbered.iter().filter(|((kind, ..), _)| "agkw".contains(*kind));
    kernels
        .map(|((kind, entries, link), number)| {
            let row = if *kind == 'w' { &whole.next().expect("a fatbin").gpus[0] } else { &links[*link].gpus[0] };
            let callee = numbered.iter().find(|((other, _, of), _)| of == link && "bh".contains(*other));
            match (kind, callee) {
                ('w', _) => word(row, |row| row.entry.map(|index| entries[index - 1].from.to_owned())),
                ('k', _) | (_, None) => word(row, |row| from(row, *number, entries)),
                (_, Some(((_, callee, _), callee_number))) => word(row, |row| {
                    Some(format!("{}+{}", from(row, *number, entries)?, from(row, *callee_number, callee)?))
                }),
            }
        })
        .collect()
}

/// What the entry that the driver takes of an object was compiled from.
fn from(row: &GpuReport, number: Option<usize>, entries: &[FatbinEntry<'_>]) -> Option<String> {
    let part = row.parts.iter().find(|part| Some(part.container) == number)?;
    Some(entries[part.entry - 1].from.trim_end_matches(['a', 'f']).to_owned())
}

fn word(row: &GpuReport, from: impl Fn(&GpuReport) -> Option<String>) -> String {
    let error = match row.outcome.as_str() {
        "symbol-not-found" => "SymbolNotFound",
        "invalid-source" => "InvalidSource",
        "invalid-image" => "InvalidKernelImage",
        "invalid-ptx" => "InvalidPtx",
        "unsupported-ptx-version" => "UnsupportedPtxVersion",
        "unknown-error" => "Unknown",
        "no-binary" => "NoKernelImageForDevice",
        "jit-disabled" => "JitCompilationDisabled",
        outcome if row.parts.is_empty() && outcome.starts_with("sass") => return "linked".to_owned(),
        _ => return from(row).unwrap_or_else(|| "SymbolNotFound".to_owned()),
    };
    error.to_owned()
}

/// Whether what is told is what was seen.
fn agrees(told: &str, seen: &str) -> bool {
    match told {
        // Which parts it was linked of does not show.
        "linked" => seen.contains('+'),
        told if told.bytes().all(|byte| byte.is_ascii_digit()) => seen == format!("{told}+{told}"),
        told => told == seen,
    }
}

#[test]
fn programs_of_nvcc_rdc_run_as_told() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut builder = Builder { dir: dir.path(), assembler: Assembler::default(), device_runtime: device_runtime() };
    let table = include_str!("../driver-truth/rdc.tsv");
    let mut wrong = Vec::new();
    let mut count = 0;
    for line in table.lines().filter(|line| !line.starts_with('#')) {
        let [name, linked, objects, seen @ ..] =
            line.split('\t').collect::<Vec<_>>().try_into().map(|row: [&str; 6]| row).expect("a row");
        let (bytes, objects) = builder.program(linked, objects);
        let found = containers(&bytes, offload_bundle::archive::reject_thin_members, Search::Sections)
            .expect("a sound program");
        for (jit, seen) in [Jit::Allowed, Jit::Forced, Jit::Disabled].into_iter().zip(seen) {
            let runtime = Runtime { driver: Driver::Branch(580), jit };
            let report = ExplainReport::new(&found, Some(GpuArch::plain(90)), runtime);
            let told = told(&report, &objects);
            let seen: Vec<&str> = seen.split(' ').collect();
            if told.len() != seen.len() || !told.iter().zip(&seen).all(|(told, seen)| agrees(told, seen)) {
                wrong.push(format!("{name} {jit:?}: seen {seen:?}, told {told:?}\n{}", report.text(Detail::Grouped)));
            }
            count += 1;
        }
    }
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(count > 250, "{count}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// Whatever the bytes, there is an answer.
    #[test]
    fn damaged_programs(
        changes in prop::collection::vec((any::<Index>(), any::<u8>()), 1..6),
        behind_images in any::<bool>(),
        cut in prop::option::weighted(0.1, any::<Index>()),
    ) {
        thread_local!(static PROGRAM: Vec<u8> = {
            let dir = tempfile::tempdir().expect("a folder");
            let mut builder = Builder { dir: dir.path(), assembler: Assembler::default(), device_runtime: Vec::new() };
            builder.program("s80 | s80", "a:s80,s90 b:s80,p80 || a:p80 b:l80 w:p90").0
        });
        let mut data = PROGRAM.with(Clone::clone);
        // Wrappers, names and headers are the last 700 bytes.
        let first = if behind_images { data.len() - 700 } else { 0 };
        for (at, byte) in changes {
            let at = first + at.index(data.len() - first);
            data[at] = byte;
        }
        if let Some(end) = cut {
            data.truncate(end.index(data.len()));
        }
        let _ = forgotten_link(&data);
        let Ok(found) = containers(&data, offload_bundle::archive::reject_thin_members, Search::Sections) else { return Ok(()) };
        for jit in [Jit::Allowed, Jit::Forced, Jit::Disabled] {
            let report = ExplainReport::new(&found, None, Runtime { driver: Driver::Branch(580), jit });
            prop_assert!(!report.text(Detail::Grouped).is_empty());
        }
        prop_assert!(!CheckReport::new(&found, &CheckOptions::default()).text(Detail::Grouped).is_empty());
    }
}
