//! A platform for tests, the smallest that can be linked. Its code generation copies bytes.
//!
//! It follows "Add a platform" in CONTRIBUTING.md, but uses the registration (llvm-passes) and the container (offload-bundle) of
//! OpenMP instead of its own.

use std::ops::Range;

use llvm_passes::registration;
use offload_bundle::offload_binary::{OffloadImage, OffloadKinds};

use crate::diag::error::Errors;
use crate::host::registration_object::Blobs;
use crate::plan::link_context::LinkContext;
use crate::platform::interface::{Bundle, DeviceLink, Platform, Products, Setup};
use crate::sys::mapped_file::Mapped;

/// The triple of its images.
const TRIPLE: &str = "copy-test-none";

/// The platform for triple `copy-test-none`.
pub struct CopyBytes;

impl Platform for CopyBytes {
    fn kind(&self) -> &'static str {
        "copy"
    }

    fn accepts(&self) -> &'static str {
        "images for copy-test-none"
    }

    fn takes(&self, image: &OffloadImage<'_>) -> bool {
        image.offload_kinds == OffloadKinds::OPENMP && image.triple() == TRIPLE
    }

    fn plan<'a>(&self, setup: &Setup<'a>) -> Result<Box<dyn DeviceLink + 'a>, Errors> {
        Ok(Box::new(CopyLink(setup.images.iter().map(|found| found.image.image).collect())))
    }

    fn finished(&self, _file: &str, content: Mapped) -> Result<Box<dyn Products>, Errors> {
        Ok(Box::new(Copied::new(content.bytes().to_vec())))
    }
}

/// The images, in link order.
struct CopyLink<'a>(Vec<&'a [u8]>);

impl DeviceLink for CopyLink<'_> {
    fn warnings(&self) -> &[String] {
        &[]
    }

    fn triples(&self) -> Vec<&str> {
        vec![TRIPLE]
    }

    fn link<'p>(&'p self, context: &LinkContext<'p>) -> Result<Box<dyn Products + 'p>, Errors> {
        context.plan.add(Vec::new)?;
        Ok(Box::new(Copied::new(self.0.concat())))
    }
}

/// All images, one behind the other.
struct Copied {
    blobs: Vec<Vec<u8>>,
    images: Vec<Range<u64>>,
}

impl Copied {
    fn new(bytes: Vec<u8>) -> Self {
        let whole = 0..bytes.len() as u64;
        Copied { blobs: vec![bytes], images: vec![whole] }
    }
}

impl Products for Copied {
    fn bundle<'p>(&'p self, _context: &LinkContext<'_>) -> Result<Bundle<'p>, Errors> {
        Ok(Bundle {
            image: Box::new(Blobs::borrowed(&self.blobs)),
            registration: Box::new(registration::OpenMp { images: &self.images, relocatable: false }),
            section: None,
            kept_as: None,
            report: None,
        })
    }
}

mod tests {
    use std::ffi::OsString;
    use std::path::Path;
    use std::process::Command;

    use object::write::Object;
    use object::{Architecture, BinaryFormat, Endianness, Object as _, ObjectSection, SectionFlags, SectionKind};
    use offload_bundle::offload_binary::{self, ImageKind, ImageToWrite};

    use super::*;

    /// A host object that carries an image for the platform.
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
    fn a_platform_of_one_file_is_linked_bundled_and_registered() {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "platform::copy_bytes::tests::child_that_links", "--nocapture"]).env(CHILD, "1");
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
        write_object(&folder.path().join("a.o"), b"first code;");
        write_object(&folder.path().join("b.o"), b"second code");
        assert_eq!(link(folder.path(), &["--emit-fatbin-only"]), b"first code;second code");
        let program = link(folder.path(), &["-shared"]);
        let program = object::File::parse(&*program).unwrap();
        let images = program.section_by_name(".llvm.offloading").unwrap().data().unwrap().to_vec();
        assert!(images.windows(22).any(|bytes| bytes == b"first code;second code"));
        assert!(program.dynamic_symbols().any(|symbol| {
            use object::ObjectSymbol;
            symbol.name() == Ok("__tgt_register_lib")
        }));
    }
}
