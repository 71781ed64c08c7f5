//! HIP: the bundle's wrapper record and the constructor that registers it, its kernels and its variables, as LLVM 22's linker
//! wrapper lays them out (names, sections, priorities, calls).

use std::collections::BTreeMap;
use std::ops::Deref;

use inkwell::builder::BuilderError;
use inkwell::module::Module;
use inkwell::values::GlobalValue;

use super::common::{RegistrationModule, Runtime, WRAPPER};
use super::{EntryTables, Registration, Slot};

/// Where AMD's tools look for bundles in a host file.
const SLOT: Slot = Slot { section: ".hip_fatbin", symbol: ".fatbin_image" };

/// The alignment of bundles that HIP's runtime requires, in bytes.
const BUNDLE_ALIGNMENT: u32 = 4096;

/// The wrapper record: its section, its magic number ("HIPF") and its version.
const WRAPPER_SECTION: &str = ".hipFatBinSegment";
const WRAPPER_MAGIC: u64 = 0x4849_5046;
const WRAPPER_VERSION: u64 = 1;

const RUNTIME: Runtime = Runtime {
    prefix: ".hip",
    kind: 4,
    former_section: "hip_offloading_entries",
    register: "__hipRegisterFatBinary",
    end: None,
    unregister: "__hipUnregisterFatBinary",
    kernel: "__hipRegisterFunction",
    variable: "__hipRegisterVar",
    managed: "__hipRegisterManagedVar",
    surface: Some("__hipRegisterSurface"),
    texture: Some("__hipRegisterTexture"),
};

/// One HIP bundle, registered with the HIP runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hip;

impl Registration for Hip {
    fn name(&self) -> &'static str {
        "hip"
    }

    fn slot(&self) -> Slot {
        SLOT
    }

    fn build(&self, module: &Module<'_>, tables: EntryTables) -> Result<(), BuilderError> {
        let code = Code(RegistrationModule::new(module, tables));
        let entries = code.entries(&RUNTIME)?;
        let wrapper = code.bundle_wrapper();
        code.register_whole(&RUNTIME, &entries, wrapper)
    }
}

/// One HIP bundle. The stubs of kernels that are not in it launch those that stand for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HipFolded<'f> {
    /// The kernels that are not in the bundle, each with the one that stands for it.
    pub folded: &'f BTreeMap<String, String>,
}

impl Registration for HipFolded<'_> {
    fn folded(&self) -> Option<&BTreeMap<String, String>> {
        Some(self.folded)
    }

    fn name(&self) -> &'static str {
        Hip.name()
    }

    fn slot(&self) -> Slot {
        SLOT
    }

    fn build(&self, module: &Module<'_>, tables: EntryTables) -> Result<(), BuilderError> {
        let code = Code(RegistrationModule::new(module, tables));
        let entries = code.entries(&RUNTIME)?;
        let wrapper = code.bundle_wrapper();
        let runtime = code.with_folded(&RUNTIME, ".hip.folded_kernel_reg", self.folded)?;
        code.register_whole(&runtime, &entries, wrapper)
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
    /// The wrapper record, which points at the (still empty) image.
    fn bundle_wrapper(&self) -> GlobalValue<'ctx> {
        let image = self.context.i8_type().array_type(0).const_zero();
        let image = self.constant(SLOT.symbol, image, SLOT.section);
        image.set_alignment(BUNDLE_ALIGNMENT);
        let record = self.wrapper_record([WRAPPER_MAGIC, WRAPPER_VERSION], image, self.pointer.const_null());
        self.constant(WRAPPER, record, WRAPPER_SECTION)
    }
}
