//! Device code for NVIDIA's GPUs, of any kind.

use offload_bundle::arch::GpuArch;

use crate::cli::values::Part;
use crate::device::cudadevrt;
use crate::device::targets::TargetImages;
use crate::diag::error::{Errors, both};
use crate::diag::messages;
use crate::lto::device_link as lto;
use crate::lto::result_cache::ResultCache;
use crate::machines::nvptx::backend::BackendDecision;
use crate::machines::nvptx::codegen::Backends;
use crate::machines::nvptx::image_policy::ImageEntries;
use crate::machines::nvptx::libraries::CudaLibraries;
use crate::machines::nvptx::target::Nvptx;
use crate::plan::link_context::{LinkContext, Request};
use crate::sys::cache;
use crate::sys::stamp::Stamp;
use crate::toolchain::Toolchain;
use crate::toolchain::tools::Tools;

/// The targets of a kind that are NVIDIA's GPUs.
pub struct NvptxCode<'a> {
    /// The name of the kind.
    pub kind: &'static str,
    /// The targets.
    pub targets: &'a [TargetImages<'a, GpuArch>],
    /// What is generated from their code.
    pub entries: &'a ImageEntries,
    /// Whether the kind can register a kernel in place of an equal one.
    pub folds_kernels: bool,
    /// Whether the kind's runtime looks up a name in the images.
    pub looks_up: fn(&str) -> bool,
}

impl NvptxCode<'_> {
    /// Does `work` with the tools of the link and the results of earlier ones. Returns also these and the choices of backends.
    ///
    /// # Errors
    /// Those of the work, and tools that changed meanwhile.
    pub fn with_tools<'p, T: Send>(
        &self,
        context: &LinkContext<'p>,
        work: impl FnOnce(&lto::DeviceLink<'_, Nvptx<'_>>) -> Result<T, Errors> + Send,
    ) -> Result<(T, ResultCache<'p>, Vec<BackendDecision>), Errors> {
        let Request { options, device, mode, .. } = context.request;
        let toolchain = Toolchain::of(options, device);
        // Who opens the cache of results reports that there is no such folder.
        let cache = || cache::of(options.cache.as_ref(), options.cache_size).ok().flatten();
        let cache = context.request.may_use_results().then(cache).flatten();
        let backends = Backends::new(Tools::new(toolchain.clone(), cache), context);
        let library = cudadevrt::path(options, &toolchain);
        let parts = [Part::Ptxas, Part::Nvlink, Part::Libdevice].map(|part| toolchain.path(part));
        let stamps = parts.iter().chain([&library]).flatten().filter_map(|path| Stamp::of(path).ok());
        let result_cache = ResultCache::open(context, stamps.collect())?;
        let done = std::thread::scope(|scope| {
            // ptxas takes 2 ms to print its version: run it while LLVM reads and optimizes. If no thread can be started, it runs
            // when it is needed.
            let _ = std::thread::Builder::new().spawn_scoped(scope, || backends.probe_early());
            let libraries = &CudaLibraries::new(toolchain.path(Part::Libdevice), library.clone());
            let machine = Nvptx {
                link: context,
                backends: &backends,
                libraries,
                entries: self.entries.clone(),
                looks_up: self.looks_up,
            };
            work(&lto::DeviceLink {
                kind: self.kind,
                folds_kernels: self.folds_kernels,
                machine: &machine,
                targets: self.targets,
                others: lto::Others::default(),
                link: context,
                result_cache: &result_cache,
            })
        });
        if mode.show {
            // Printed as shell comments, so that the output can be pasted into a shell.
            backends.decisions().iter().for_each(|choice| messages::show(format_args!(" # {choice}")));
        }
        // If a tool or library was replaced during the link, that may be the cause of the other errors: it comes first.
        let done = both(result_cache.check_tools(), done);
        let ((), done) = done.inspect_err(|_| result_cache.finish(context.request))?;
        Ok((done, result_cache, backends.decisions()))
    }
}
