//! A kind and a machine for tests, the smallest that go through all stages of a link: bitcode in, jobs, cache, plan, checks, bundle,
//! registration.
//!
//! It follows "Add a kind" in CONTRIBUTING.md, but generates code as for AMD's GPUs, joins objects by appending them, and uses the
//! registration (llvm-passes) and the container (offload-bundle) of OpenMP instead of its own.

use std::ops::Range;
use std::path::Path;

use llvm_passes::amdgpu::{AmdTarget, PartitionCode};
use llvm_passes::pipeline::OptLevel;
use llvm_passes::program;
use llvm_passes::registration;
use llvm_passes::resolve::{self};
use offload_bundle::audit::ReadImages;
use offload_bundle::offload_binary::{OffloadImage, OffloadKinds};

use crate::device::compat_checks::{ComparedImage, ComparedTarget, Source};
use crate::device::targets::{DeviceImage, TargetImages};
use crate::diag::error::Errors;
use crate::host::registration_object::Blobs;
use crate::kinds::interface::{Bundle, DeviceLink, Kind, Products, Setup};
use crate::lto::device_link as lto;
use crate::lto::products::LinkedTarget;
use crate::lto::result_cache::ResultCache;
use crate::machines::amdgcn::job_code::{AmdCode, Hides};
use crate::machines::error::Error;
use crate::machines::flaw::require_some;
use crate::machines::interface::{
    Again, Compiled, Fields, Generated, JobPart, Joined, Machine, NameFacts, NotCached, Planned,
};
use crate::machines::job_code::{Emitted, JobCode, Made};
use crate::plan::link_context::LinkContext;
use crate::plan::report::BackendReport;
use crate::plan::target_plan::{Names, TargetPlan};
use crate::sys::mapped_file::Mapped;

/// The triple of its images.
const TRIPLE: &str = "copy-test-none";

/// The kind for triple `copy-test-none`.
pub struct CopyBytes;

impl Kind for CopyBytes {
    fn name(&self) -> &'static str {
        "copy"
    }

    fn accepts(&self) -> &'static str {
        "images for copy-test-none"
    }

    fn takes(&self, image: &OffloadImage<'_>) -> bool {
        image.offload_kinds == OffloadKinds::OPENMP && image.triple() == TRIPLE
    }

    fn plan<'a>(&self, setup: &Setup<'a>) -> Result<Box<dyn DeviceLink + 'a>, Errors> {
        let images = setup.images.iter().map(|found| DeviceImage::from_host(found));
        Ok(Box::new(CopyLink(vec![TargetImages { arch: "one".to_owned(), images: images.collect() }])))
    }

    fn finished(&self, _file: &str, content: Mapped) -> Result<Box<dyn Products>, Errors> {
        Ok(Box::new(Copied::new(content.bytes().to_vec(), None)))
    }
}

/// The only target.
struct CopyLink<'a>(Vec<TargetImages<'a, String>>);

impl DeviceLink for CopyLink<'_> {
    fn triples(&self) -> Vec<&str> {
        vec![TRIPLE]
    }

    fn link<'p>(&'p self, context: &LinkContext<'p>) -> Result<Box<dyn Products + 'p>, Errors> {
        let result_cache = ResultCache::open(context, Vec::new())?;
        let (machine, others) = (Copier { link: context }, lto::Others::default());
        let link = lto::DeviceLink {
            kind: "copy",
            folds_kernels: true,
            machine: &machine,
            targets: &self.0,
            others,
            link: context,
            result_cache: &result_cache,
        };
        let linked: Vec<LinkedTarget<Vec<u8>>> = link.link()?;
        result_cache.store_targets(&linked, false);
        result_cache.finish(context.request);
        let bytes = linked.into_iter().flat_map(|target| target.code).collect();
        Ok(Box::new(Copied::new(bytes, result_cache.counts())))
    }
}

/// A machine whose linker appends objects to each other.
struct Copier<'a> {
    link: &'a LinkContext<'a>,
}

impl Machine for Copier<'_> {
    type Arch = String;
    type Resolved = ();
    type Plan = ();
    type Code = Vec<u8>;
    type Stored = Vec<u8>;
    type Linked = Vec<u8>;

    fn name(&self) -> &'static str {
        "copy"
    }

    fn rules(&self) -> program::Machine {
        program::Machine::Amdgpu
    }

    fn stem(&self, arch: &String) -> String {
        arch.clone()
    }

    fn whole_job(&self, arch: &String) -> String {
        format!("{arch}.whole")
    }

    fn llvm_options(&self) -> Vec<String> {
        Vec::new()
    }

    fn compared<'i>(&self, target: &'i TargetImages<'i, String>) -> ComparedTarget<'i> {
        let image = |image: &'i DeviceImage<'i>| ComparedImage {
            file: &image.origin.file,
            from_host: true,
            source: image.unit.map_or(Source::Unknown, Source::Unit),
        };
        ComparedTarget { name: target.arch.clone(), is_amd: true, images: target.images.iter().map(image).collect() }
    }

    fn resolve(&self, facts: &NameFacts<'_, Self>) -> Result<(Names, ()), Errors> {
        let resolution = resolve::resolve(facts.symbols, &|_| true);
        let visible = resolution.prevailing.keys().cloned().collect();
        Ok((Names { resolution, visible, ..Names::default() }, ()))
    }

    fn plan(&self, _facts: &NameFacts<'_, Self>, _plan: &TargetPlan, _resolved: ()) -> Result<(), Errors> {
        Ok(())
    }

    fn job_code(&self, _target: &Planned<'_, Self>, part: &JobPart<'_>) -> Result<JobCode, Errors> {
        let target = AmdTarget::new("gfx90a".to_owned(), String::new(), OptLevel::O2);
        let object = self.link.temp_files.file(&format!("{}.o", part.name));
        Ok(JobCode::Amdgpu(AmdCode { target, hides: Hides::Nothing, object }))
    }

    fn finish(
        &self,
        _target: &Planned<'_, Self>,
        _name: &str,
        _code: &JobCode,
        emitted: Emitted,
    ) -> Result<Generated<Vec<u8>>, Errors> {
        let Emitted::Amdgpu(PartitionCode::Object(code, _)) = emitted else { return Ok(Generated::default()) };
        Ok(Generated { code, ..Generated::default() })
    }

    /// Small programs are compiled in one piece, in this process.
    fn read(
        &self,
        _target: &Planned<'_, Self>,
        _name: &str,
        _code: &JobCode,
        _made: Made,
        _sizes: &[u64],
    ) -> Result<Generated<Vec<u8>>, Errors> {
        Ok(Generated::default())
    }

    fn check(&self, _arch: &String, code: &Vec<u8>, _kernels: &[String]) -> Result<(), Errors> {
        let file = self.link.temp_files.file("one.o");
        Ok(require_some(code).map_err(|flaw| Error::unusable(Path::new("the copier"), "one", flaw, &file))?)
    }

    fn check_linked(&self, arch: &String, linked: &Vec<u8>) -> Result<(), Errors> {
        self.check(arch, linked, &[])
    }

    fn store(&self, code: &Vec<u8>) -> Vec<u8> {
        code.clone()
    }

    fn restore(
        &self,
        _name: &str,
        _described: &str,
        _code: &JobCode,
        stored: Vec<u8>,
    ) -> Result<Option<Vec<u8>>, Errors> {
        Ok(Some(stored))
    }

    fn join(
        &self,
        _target: &Planned<'_, Self>,
        parts: Vec<Compiled<Vec<u8>>>,
        _assembled: Vec<Vec<u8>>,
        _again: Again<'_, Self>,
    ) -> Result<Joined<Vec<u8>>, Errors> {
        Ok(Joined { linked: parts.into_iter().flat_map(|part| part.code).collect(), ..Joined::default() })
    }

    fn code_bytes(&self, code: &Vec<u8>) -> u64 {
        code.len() as u64
    }

    fn code_fields(&self, _code: &JobCode) -> Result<Fields, NotCached> {
        Ok(Vec::new())
    }

    fn target_fields(&self, _target: &TargetImages<'_, String>) -> Result<Fields, NotCached> {
        Ok(Vec::new())
    }

    fn backend(&self, _arch: &String) -> Option<BackendReport> {
        let reason = "it appends objects".to_owned();
        Some(BackendReport { name: "copier", file: String::new(), reason })
    }
}

/// All objects, one after the other.
struct Copied {
    blobs: Vec<Vec<u8>>,
    images: Vec<Range<u64>>,
    counts: Option<(u64, u64)>,
}

impl Copied {
    fn new(bytes: Vec<u8>, counts: Option<(u64, u64)>) -> Self {
        let whole = 0..bytes.len() as u64;
        Copied { blobs: vec![bytes], images: vec![whole], counts }
    }
}

impl Products for Copied {
    fn bundle<'p>(&'p self, _context: &LinkContext<'_>) -> Result<Bundle<'p>, Errors> {
        Ok(Bundle {
            image: Box::new(Blobs::borrowed(&self.blobs)),
            registration: Box::new(registration::OpenMp { images: &self.images, relocatable: false }),
            section: None,
            saved_as: None,
            report: None,
            read: ReadImages::default(),
        })
    }

    fn cache_counts(&self) -> Option<(u64, u64)> {
        self.counts
    }
}

mod tests {
    use std::ffi::OsString;
    use std::path::Path;
    use std::process::Command;

    use llvm_passes::pipeline;
    use llvm_passes::session::Session;
    use object::write::Object;
    use object::{
        Architecture, BinaryFormat, Endianness, Object as _, ObjectSection, ObjectSymbol, SectionFlags, SectionKind,
    };
    use offload_bundle::offload_binary::{self, ImageKind, ImageToWrite};

    use super::*;

    /// A host object that carries an image for the kind.
    fn write_object(path: &Path, code: &[u8]) {
        let binary = offload_binary::write(&ImageToWrite {
            image_kind: ImageKind::Object,
            offload_kinds: OffloadKinds::OPENMP,
            flags: 0,
            strings: vec![("arch", ""), ("triple", TRIPLE)],
            image: code,
        });
        let mut object = Object::new(BinaryFormat::Elf, Architecture::X86_64, Endianness::Little);
        let section = object.add_section(Vec::new(), b".llvm.offloading".to_vec(), SectionKind::ReadOnlyData);
        // SHT_LLVM_OFFLOADING
        let sh_type = object::elf::SectionType(0x6fff_4c0b);
        let sh_flags = object::elf::SHF_EXCLUDE;
        object.section_mut(section).flags = SectionFlags::Elf { sh_type, sh_flags };
        object.append_section_data(section, &binary, 8);
        std::fs::write(path, object.write().unwrap()).unwrap();
    }

    /// Bitcode with one function of this name.
    fn bitcode(name: &str) -> Vec<u8> {
        let session = Session::new();
        let module = session.context().create_module(name);
        let function = module.add_function(name, session.context().i32_type().fn_type(&[], false), None);
        let builder = session.context().create_builder();
        builder.position_at_end(session.context().append_basic_block(function, "entry"));
        builder.build_return(Some(&session.context().i32_type().const_int(7, false))).unwrap();
        pipeline::bitcode_of(&module)
    }

    fn link(folder: &Path, words: &[&str]) -> Vec<u8> {
        let output = folder.join("out");
        let inputs = ["a.o", "b.o"].map(|name| folder.join(name).into_os_string());
        let words = ["fatlink"].iter().chain(words).map(OsString::from).chain(inputs);
        let words: Vec<OsString> = words.chain(["-o".into(), output.clone().into()]).collect();
        assert_eq!(crate::link::run(&words), Ok(0));
        std::fs::read(output).unwrap()
    }

    /// Set in the process that links.
    const CHILD: &str = "FATLINK_TEST_COPY_BYTES";

    /// A link sets up the thread pool of its process, so it has a process of its own.
    #[test]
    fn a_kind_of_one_file_is_linked_bundled_and_registered() {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "kinds::copy_bytes::tests::child_that_links", "--nocapture"]).env(CHILD, "1");
        let output = command.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && text.contains("1 passed"), "{text}");
    }

    #[test]
    fn child_that_links() {
        if std::env::var_os(CHILD).is_none() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name);
        write_object(&file("a.o"), &bitcode("first"));
        write_object(&file("b.o"), &bitcode("second"));
        let option = |option: &str, name: &str| format!("{option}{}", file(name).display());
        let (cache, plan) = (option("--offload-cache=", "cache"), option("--offload-plan=json:", "plan.json"));
        let image = link(folder.path(), &["--emit-fatbin-only", &cache, &plan]);
        let names = |image: &[u8]| -> Vec<String> {
            let file = object::File::parse(image).unwrap();
            let names = file.symbols().filter(ObjectSymbol::is_definition).filter_map(|symbol| symbol.name().ok());
            names.map(str::to_owned).collect()
        };
        assert!(["first", "second"].iter().all(|name| names(&image).contains(&(*name).to_owned())));
        let planned = |name: &str| {
            let text = std::fs::read_to_string(file(name)).unwrap();
            serde_json::from_str::<serde_json::Value>(&text).unwrap()["targets"][0].clone()
        };
        let target = planned("plan.json");
        assert_eq!((&target["platform"], &target["cached"]), (&"copy".into(), &false.into()));
        assert_eq!((&target["jobs"][0]["units"], &target["backend"]["name"]), (&2.into(), &"copier".into()));
        assert_eq!(link(folder.path(), &["--emit-fatbin-only", &cache, &plan]), image);
        assert_eq!(planned("plan.json")["cached"], true);
        let program = link(folder.path(), &["-shared"]);
        let program = object::File::parse(&*program).unwrap();
        let images = program.section_by_name(".llvm.offloading").unwrap().data().unwrap().to_vec();
        assert!(images.windows(image.len()).any(|bytes| bytes == image));
        assert!(program.dynamic_symbols().any(|symbol| symbol.name() == Ok("__tgt_register_lib")));
    }
}
