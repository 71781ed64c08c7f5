//! Processors of the host as a [`Machine`].

use std::path::Path;

use llvm_passes::program;

use crate::cli::device_words;
use crate::device::compat_checks::ComparedTarget;
use crate::device::targets::Code;
use crate::diag::error::{Errors, collect};
use crate::host::host_linker;
use crate::machines::error::Error;
use crate::machines::host::image_linker;
use crate::machines::host::job_code::HostJob;
use crate::machines::host::soundness;
use crate::machines::host::target::{Host, HostArch, HostCode, HostImages};
use crate::machines::interface::{
    Again, Compiled, Fields, Generated, JobPart, Joined, Machine, NameFacts, NotCached, OnePiece, Planned,
};
use crate::machines::job_code::{Emitted, JobCode, Made};
use crate::plan::report::BackendReport;
use crate::plan::target_plan::{Names, TargetPlan};
use crate::sys::temp_files;

/// Why the host linker links the images.
const WHY_HOST_LINKER: &str = "the code is for the host's own kind of processor";

impl Machine for Host<'_> {
    type Arch = HostArch;
    type Resolved = ();
    type Plan = ();
    type Code = HostCode;
    type Stored = HostCode;
    type Linked = HostCode;

    fn name(&self) -> &'static str {
        "host"
    }

    fn rules(&self) -> program::Machine {
        program::Machine::Host
    }

    fn stem(&self, arch: &HostArch) -> String {
        arch.stem()
    }

    fn whole_job(&self, arch: &HostArch) -> String {
        format!("{}.lto", arch.stem())
    }

    fn llvm_options(&self) -> Vec<String> {
        self.link.request.options.llvm_options.clone()
    }

    fn require_tools(&self) -> Result<(), Errors> {
        self.link.host_linker().map(drop)
    }

    fn one_piece(&self, _target: &HostImages<'_>) -> Option<OnePiece> {
        Some(OnePiece { reason: None })
    }

    /// Units for the host have none of the properties that the checks compare.
    fn compared<'i>(&self, target: &'i HostImages<'i>) -> ComparedTarget<'i> {
        ComparedTarget { name: target.arch.to_string(), is_amd: false, images: Vec::new() }
    }

    /// The host linker resolves names.
    fn resolves(&self, _target: &HostImages<'_>) -> bool {
        false
    }

    fn resolve(&self, _facts: &NameFacts<'_, Self>) -> Result<(Names, ()), Errors> {
        Ok((Names::default(), ()))
    }

    fn plan(&self, _facts: &NameFacts<'_, Self>, _plan: &TargetPlan, _resolved: ()) -> Result<(), Errors> {
        Ok(())
    }

    fn job_code(&self, target: &Planned<'_, Self>, part: &JobPart<'_>) -> Result<JobCode, Errors> {
        let triple = target.images.arch.triple.clone();
        let level = device_words::level_for(self.link.request.options, &triple);
        Ok(JobCode::Host(HostJob { triple, level, object: self.link.temp_files.file(&format!("{}.o", part.name)) }))
    }

    fn finish(
        &self,
        _target: &Planned<'_, Self>,
        name: &str,
        _code: &JobCode,
        emitted: Emitted,
    ) -> Result<Generated<HostCode>, Errors> {
        let Emitted::Host(bytes) = emitted else { return Err(Error::NoCode { name: name.to_owned() }.into()) };
        Ok(Generated { code: HostCode { bytes }, ..Generated::default() })
    }

    fn read(
        &self,
        _target: &Planned<'_, Self>,
        name: &str,
        code: &JobCode,
        _made: Made,
        _sizes: &[u64],
    ) -> Result<Generated<HostCode>, Errors> {
        let JobCode::Host(job) = code else { return Err(Error::NoCode { name: name.to_owned() }.into()) };
        Ok(Generated { code: HostCode { bytes: temp_files::read_file(&job.object)? }, ..Generated::default() })
    }

    fn check(&self, arch: &HostArch, code: &HostCode, _kernels: &[String]) -> Result<(), Errors> {
        let file = self.link.temp_files.file(&format!("{}.lto.o", arch.stem()));
        let unusable = |flaw| Error::unusable(Path::new(self.link.request.program), &arch.triple, flaw, &file);
        Ok(soundness::check(&code.bytes, &arch.triple, false).map_err(unusable)?)
    }

    fn check_linked(&self, arch: &HostArch, linked: &HostCode) -> Result<(), Errors> {
        let linker = self.link.host_linker()?;
        let file = self.link.temp_files.file(&format!("{}.img", arch.stem()));
        let unusable = |flaw| Error::unusable(linker, &arch.triple, flaw, &file);
        Ok(soundness::check(&linked.bytes, &arch.triple, true).map_err(unusable)?)
    }

    fn store(&self, code: &HostCode) -> HostCode {
        code.clone()
    }

    fn restore(
        &self,
        _name: &str,
        _described: &str,
        _code: &JobCode,
        stored: HostCode,
    ) -> Result<Option<HostCode>, Errors> {
        Ok(Some(stored))
    }

    /// Links the compiled object with those among the images to a shared library.
    fn join(
        &self,
        target: &Planned<'_, Self>,
        parts: Vec<Compiled<HostCode>>,
        _assembled: Vec<HostCode>,
        _again: Again<'_, Self>,
    ) -> Result<Joined<HostCode>, Errors> {
        let (link, HostArch { triple, .. }) = (self.link, &target.images.arch);
        let options = link.request.options;
        if options.diagnosing {
            return Ok(Joined::default());
        }
        let stem = target.images.arch.stem();
        let own = target.images.of_code(Code::Object);
        let mut inputs =
            collect(own.map(|(place, image)| link.temp_files.write(&image.file_name(&stem, place), image.bytes)))?;
        for part in &parts {
            inputs.push(link.temp_files.write(&format!("{stem}.lto.o"), &part.code.bytes)?);
        }
        let words = options.device_linker.iter();
        let own = words.filter(|(of, _)| of.as_deref().is_none_or(|of| of == triple));
        let arguments: Vec<String> = own.map(|(_, value)| value.clone()).collect();
        let output = link.temp_files.file(&format!("{stem}.img"));
        let line = image_linker::line(&inputs, &output, &options.host_line, &arguments);
        let short = host_linker::shortened(&line, &stem, link.temp_files)?;
        let linker = link.host_linker()?;
        let bytes = image_linker::link_shared(linker, triple, &inputs, &short, &output, link.request.mode)?;
        let messages = parts.into_iter().map(|part| part.messages).collect();
        Ok(Joined { linked: HostCode { bytes }, messages, ..Joined::default() })
    }

    fn code_bytes(&self, code: &HostCode) -> u64 {
        code.bytes.len() as u64
    }

    fn code_fields(&self, _code: &JobCode) -> Result<Fields, NotCached> {
        Err(None)
    }

    fn backend(&self, _arch: &HostArch) -> Option<BackendReport> {
        let file = self.link.host_linker().ok()?.display().to_string();
        Some(BackendReport { name: "host linker", file, reason: WHY_HOST_LINKER.to_owned() })
    }
}
