//! CUDA: the fatbin's wrapper record and the constructor that registers it, its kernels and its
//! variables, as LLVM 22's linker wrapper lays them out (names, sections, priorities, calls).

mod entries;
mod prelinked;
mod units;

use std::ops::Deref;

use inkwell::builder::BuilderError;
use inkwell::module::Module;
use inkwell::values::{FunctionValue, GlobalValue, PointerValue, StructValue};

use super::common::{RegistrationModule, Runtime};
use super::{Registration, Slot};

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
    register: "__cudaRegisterFatBinary",
    end: Some("__cudaRegisterFatBinaryEnd"),
    unregister: "__cudaUnregisterFatBinary",
    kernel: "__cudaRegisterFunction",
};

/// One fatbin, registered with the CUDA runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cuda;

impl Registration for Cuda {
    fn name(&self) -> &'static str {
        "cuda"
    }

    fn slot(&self) -> Slot {
        SLOT
    }

    fn build(&self, module: &Module<'_>) -> Result<(), BuilderError> {
        let code = Code(RegistrationModule::new(module));
        let wrapper = code.wrapper(WHOLE, code.pointer.const_null());
        let globals = code.register_globals()?;
        let register = code.register(wrapper, &[globals])?;
        code.add_constructor(register);
        Ok(())
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
    /// The wrapper of the fatbin that is registered, which points at the (still empty) image.
    fn wrapper(&self, version: u64, prelinked: PointerValue<'ctx>) -> GlobalValue<'ctx> {
        let image = self.empty(SLOT);
        self.constant(".fatbin_wrapper", self.wrapper_record(version, image, prelinked), WRAPPER_SECTION)
    }

    /// `__fatBinC_Wrapper_t`.
    fn wrapper_record(
        &self,
        version: u64,
        fatbin: GlobalValue<'ctx>,
        prelinked: PointerValue<'ctx>,
    ) -> StructValue<'ctx> {
        let magic = self.i32.const_int(WRAPPER_MAGIC, false).into();
        let version = self.i32.const_int(version, false).into();
        self.context.const_struct(&[magic, version, fatbin.as_pointer_value().into(), prelinked.into()], false)
    }

    /// The empty contents of a slot.
    fn empty(&self, slot: Slot) -> GlobalValue<'ctx> {
        self.constant(slot.symbol, self.context.i8_type().array_type(0).const_zero(), slot.section)
    }

    /// `.cuda.fatbin_reg()`: registers the fatbin, and has each of `parts` register what is in it with its handle.
    fn register(
        &self,
        wrapper: GlobalValue<'ctx>,
        parts: &[FunctionValue<'ctx>],
    ) -> Result<FunctionValue<'ctx>, BuilderError> {
        let handle = self.variable(".cuda.binary_handle", self.pointer.const_null());
        let unregister = self.startup_function(".cuda.fatbin_unreg", &[]);
        self.unregister_binary(unregister, &RUNTIME, handle)?;
        let function = self.startup_function(".cuda.fatbin_reg", &[]);
        self.register_binary(function, &RUNTIME, wrapper, handle, parts, unregister)?;
        Ok(function)
    }
}
