//! CUDA: the fatbin's wrapper record and the constructor that registers it, its kernels and its
//! variables, as LLVM 22's linker wrapper lays them out (names, sections, priorities, calls).

mod prelinked;
mod units;

use std::collections::BTreeMap;
use std::ops::Deref;

use inkwell::builder::BuilderError;
use inkwell::module::Module;
use inkwell::values::{GlobalValue, IntValue, PointerValue, StructValue};

use super::common::{RegistrationModule, Runtime, WRAPPER};
use super::{EntryTables, Registration, Slot};

pub use prelinked::CudaPrelinked;
pub use units::{ClangUnits, CudaUnits};

/// Where the CUDA tools look for a fatbin in a host file.
const SLOT: Slot = Slot { section: ".nv_fatbin", symbol: ".fatbin_image" };

/// `__fatBinC_Wrapper_t`: its section, its magic number, and its versions for one whole fatbin and for the result of a device link,
/// whose last field points at the prelinked fatbins.
const WRAPPER_SECTION: &str = ".nvFatBinSegment";
const WRAPPER_MAGIC: u64 = 0x4662_43b1;
const WHOLE: u64 = 1;
const LINKED: u64 = 2;

const RUNTIME: Runtime = Runtime {
    prefix: ".cuda",
    kind: 2,
    former_section: "cuda_offloading_entries",
    register: "__cudaRegisterFatBinary",
    end: Some("__cudaRegisterFatBinaryEnd"),
    unregister: "__cudaUnregisterFatBinary",
    kernel: "__cudaRegisterFunction",
    variable: "__cudaRegisterVar",
    managed: "__cudaRegisterManagedVar",
    // Not registered, as in LLVM's linker wrapper: CUDA 12 removed their references.
    surface: None,
    texture: None,
};

/// One way to register a fatbin with the CUDA runtime.
trait CudaRegistration: Send + Sync {
    /// Where the fatbin goes.
    const SLOT: Slot = SLOT;

    /// As [`Registration::second_image`].
    fn second_image(&self) -> Option<(Slot, &[u8])> {
        None
    }

    /// As [`Registration::folded`].
    fn folded(&self) -> Option<&BTreeMap<String, String>> {
        None
    }

    /// Adds the tables and the start-up code.
    fn generate(&self, code: &Code<'_, '_>) -> Result<(), BuilderError>;
}

impl<R: CudaRegistration> Registration for R {
    fn name(&self) -> &'static str {
        "cuda"
    }

    fn slot(&self) -> Slot {
        R::SLOT
    }

    fn second_image(&self) -> Option<(Slot, &[u8])> {
        CudaRegistration::second_image(self)
    }

    fn folded(&self) -> Option<&BTreeMap<String, String>> {
        CudaRegistration::folded(self)
    }

    fn build(&self, module: &Module<'_>, tables: EntryTables) -> Result<(), BuilderError> {
        self.generate(&Code(RegistrationModule::new(module, tables)))
    }
}

/// One fatbin, registered with the CUDA runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cuda;

impl CudaRegistration for Cuda {
    fn generate(&self, code: &Code<'_, '_>) -> Result<(), BuilderError> {
        code.register_fatbin(&RUNTIME)
    }
}

/// One fatbin, registered with the CUDA runtime. The stubs of kernels that are not in it launch those that stand for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CudaFolded<'f> {
    /// The kernels that are not in the fatbin, each with the one that stands for it.
    pub folded: &'f BTreeMap<String, String>,
}

impl CudaRegistration for CudaFolded<'_> {
    fn folded(&self) -> Option<&BTreeMap<String, String>> {
        Some(self.folded)
    }

    fn generate(&self, code: &Code<'_, '_>) -> Result<(), BuilderError> {
        code.register_fatbin(&code.with_folded(&RUNTIME, ".cuda.folded_kernel_reg", self.folded)?)
    }
}

/// The registration module under construction.
struct Code<'m, 'ctx>(RegistrationModule<'m, 'ctx>);

impl<'m, 'ctx> Deref for Code<'m, 'ctx> {
    type Target = RegistrationModule<'m, 'ctx>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<'ctx> Code<'_, 'ctx> {
    /// Registers one whole fatbin with its kernels and variables.
    fn register_fatbin(&self, runtime: &Runtime) -> Result<(), BuilderError> {
        let entries = self.entries(runtime)?;
        let wrapper = self.fatbin_wrapper(WHOLE, self.pointer.const_null());
        self.register_whole(runtime, &entries, wrapper)
    }

    /// The wrapper of the fatbin that is registered, which points at the (still empty) image.
    fn fatbin_wrapper(&self, version: u64, prelinked: PointerValue<'ctx>) -> GlobalValue<'ctx> {
        let image = self.empty(SLOT);
        self.constant(WRAPPER, self.record(version, image, prelinked), WRAPPER_SECTION)
    }

    /// `__fatBinC_Wrapper_t`.
    fn record(&self, version: u64, fatbin: GlobalValue<'ctx>, prelinked: PointerValue<'ctx>) -> StructValue<'ctx> {
        self.wrapper_record([WRAPPER_MAGIC, version], fatbin, prelinked)
    }

    /// The empty contents of a slot.
    fn empty(&self, slot: Slot) -> GlobalValue<'ctx> {
        self.constant(slot.symbol, self.context.i8_type().array_type(0).const_zero(), slot.section)
    }

    fn address(&self, pointer: PointerValue<'ctx>) -> Result<IntValue<'ctx>, BuilderError> {
        self.builder.build_ptr_to_int(pointer, self.i64, "")
    }
}
