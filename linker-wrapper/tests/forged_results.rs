//! Objects of `-r --offload-relocatable=merge` whose kept results were exchanged for others under the same keys. The links that take such an
//! object get what it claims; a cache's folder must not pass it on to links of sound objects.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use llvm_passes::reference_graph::Reference;
use llvm_passes::unit::UnitFacts;
use offload_bundle::host_object;
use offload_bundle::kept_results::{self, KeptResults};
use tempfile::TempDir;

const LLVM: &str = "/usr/lib/llvm-22/bin";

const KERNELS: &str = r#"
// What clang wants to see of the CUDA runtime; its headers would take seconds.
struct dim3 { unsigned x, y, z; };
typedef struct stream *cudaStream_t;
extern "C" int cudaLaunchKernel(const void *, dim3, dim3, void **, __SIZE_TYPE__, cudaStream_t);
extern "C" int __cudaPopCallConfiguration(dim3 *, dim3 *, __SIZE_TYPE__ *, void *);
__attribute__((global)) void first(int *out) { out[0] = 0x12345678; }
__attribute__((global)) void second(int *out) { out[1] = out[0]; }
"#;

/// What the code of the first kernel contains, and what a forged result has in its place.
const NUMBERS: [u32; 2] = [0x1234_5678, 0x1234_5679];

/// A merged object, in a folder of its own.
struct Library {
    folder: TempDir,
}

impl Library {
    fn new() -> Self {
        let library = Library { folder: tempfile::tempdir().unwrap() };
        std::fs::write(library.path("kernels.cu"), KERNELS).unwrap();
        library.run(
            Command::new(format!("{LLVM}/clang"))
                .args(["-x", "cuda", "-nogpuinc", "-nogpulib", "-fgpu-rdc", "-foffload-lto", "--offload-arch=sm_90"])
                .args(["-Wno-unknown-cuda-version", "-O1", "-c", "kernels.cu", "-o", "kernels.o"])
                .arg(format!("--cuda-path={}", cuda().display())),
        );
        let merge = ["-r", "--offload-relocatable=merge", "kernels.o", "-o", "sound.o"];
        library.run(library.fatlink().args(merge));
        library
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn run(&self, command: &mut Command) {
        let output = command.current_dir(self.folder.path()).output().unwrap();
        assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    fn fatlink(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fatlink"));
        // Each kernel is a partition.
        command.arg(format!("--cuda-path={}", cuda().display())).arg("--offload-partition-size=1");
        command
    }

    /// Links an object with a cache in this folder, and returns the fatbin.
    fn link(&self, object: &str, cache: &str) -> Vec<u8> {
        let cache = format!("--offload-cache={cache}");
        self.run(self.fatlink().args(["--emit-fatbin-only", &cache, object, "-o", "fatbin"]));
        std::fs::read(self.path("fatbin")).unwrap()
    }

    /// Links an object without a cache.
    fn link_alone(&self, object: &str) -> Vec<u8> {
        self.run(self.fatlink().args(["--emit-fatbin-only", object, "-o", "fatbin"]));
        std::fs::read(self.path("fatbin")).unwrap()
    }

    /// Writes forged.o, whose results are what `forge` makes of the sound ones, and stripped.o, which has none. `forge` returns whether it
    /// has changed the result.
    fn forge(&self, forge: impl Fn(&mut Vec<u8>) -> bool) {
        let object = std::fs::read(self.path("sound.o")).unwrap();
        let sections = host_object::sections_named(&object, kept_results::SECTION).unwrap();
        let results = KeptResults::parse(sections[0].1).unwrap();
        let contents = results.keys().map(|key| (*key, results.get(key).unwrap()));
        let mut contents: BTreeMap<[u8; 32], Vec<u8>> = contents.collect();
        let changed = contents.values_mut().filter_map(|content| forge(content).then_some(())).count();
        assert!(changed > 0, "nothing was forged");
        std::fs::write(self.path("section"), kept_results::write(&contents)).unwrap();
        let objcopy = || Command::new(format!("{LLVM}/llvm-objcopy"));
        self.run(
            objcopy().arg(format!("--update-section={}=section", kept_results::SECTION)).args(["sound.o", "forged.o"]),
        );
        self.run(objcopy().arg(format!("--remove-section={}", kept_results::SECTION)).args(["sound.o", "stripped.o"]));
    }

    /// Links the forged object with a cache, then sound ones, which must not notice.
    fn check(&self) {
        self.link("forged.o", "cache");
        for object in ["sound.o", "stripped.o"] {
            let expected = self.link(object, &format!("cache of {object}"));
            assert!(self.link(object, "cache") == expected, "the link of {object} used what forged.o claims");
        }
    }
}

fn cuda() -> PathBuf {
    std::env::var_os("CUDA_PATH").expect("CUDA_PATH is not set: run `cargo xtask test`").into()
}

/// Exchanges a number in machine code. Returns whether it is there.
fn exchange(content: &mut [u8], [from, to]: [u32; 2]) -> bool {
    let places: Vec<usize> = memchr::memmem::find_iter(content, &from.to_le_bytes()).collect();
    for place in &places {
        content[*place..place + 4].copy_from_slice(&to.to_le_bytes());
    }
    !places.is_empty()
}

#[test]
fn forged_code_stays_out_of_a_cache() {
    let library = Library::new();
    library.forge(|content| exchange(content, NUMBERS));
    assert!(library.link_alone("forged.o") != library.link_alone("sound.o"), "the forged code was not used");
    library.check();
}

#[test]
fn forged_facts_about_a_unit_stay_out_of_a_cache() {
    let library = Library::new();
    library.forge(|content| {
        let Ok((mut facts, [])) = postcard::take_from_bytes::<UnitFacts>(content) else { return false };
        let Some(references) = &mut facts.references else { return false };
        references.monolithic = Some("it is forged".to_owned());
        // A link that reads this adds it to what the object claims.
        facts.module_flags = None;
        *content = postcard::to_allocvec(&facts).unwrap();
        true
    });
    assert!(library.link_alone("forged.o") != library.link_alone("sound.o"), "the forged facts were not used");
    library.check();
}

#[test]
fn forged_facts_that_refer_to_nothing_are_not_used() {
    let library = Library::new();
    library.forge(|content| {
        let Ok((mut facts, [])) = postcard::take_from_bytes::<UnitFacts>(content) else { return false };
        let Some(references) = &mut facts.references else { return false };
        let nowhere = Reference { to: references.globals.len() as u32, called: true };
        references.globals.iter_mut().for_each(|global| global.references.push(nowhere));
        *content = postcard::to_allocvec(&facts).unwrap();
        true
    });
    assert!(library.link_alone("forged.o") == library.link_alone("sound.o"), "the forged facts were used");
    library.check();
}

#[test]
fn finished_code_in_place_of_relocatable_code_is_not_used() {
    const E_TYPE: usize = 16;
    const REL: u8 = 1;
    const EXEC: u8 = 2;
    let library = Library::new();
    library.forge(|content| {
        let elfs: Vec<usize> = memchr::memmem::find_iter(content, b"\x7fELF").collect();
        let relocatable: Vec<usize> = elfs.into_iter().filter(|elf| content[elf + E_TYPE] == REL).collect();
        relocatable.iter().for_each(|elf| content[elf + E_TYPE] = EXEC);
        !relocatable.is_empty()
    });
    assert!(library.link_alone("forged.o") == library.link_alone("sound.o"), "finished code was used");
    library.check();
}
