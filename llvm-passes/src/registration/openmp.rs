//! OpenMP: the descriptor of all device images and the constructor that registers it with libomptarget, as
//! LLVM 22's linker wrapper lays them out.

use std::ops::Range;

use inkwell::builder::BuilderError;
use inkwell::module::Module;
use inkwell::types::StructType;
use inkwell::values::{FunctionValue, GlobalValue, PointerValue};

use super::common::{CURRENT_SECTION, RegistrationModule};
use super::{EntryTables, Registration, Slot};

/// The entries of clang 15 to 20, which the libomptarget of that time reads.
const FORMER_SECTION: &str = "omp_offloading_entries";
const SYMBOL: &str = ".omp_offloading.device_image";
/// Where the images go. In a relocatable link the usual section's name would make a later wrapper take the
/// finished images for those of its own link.
const SLOT: Slot = Slot { section: ".llvm.offloading", symbol: SYMBOL };
const RELOCATABLE_SLOT: Slot = Slot { section: ".llvm.offloading.relocatable", symbol: SYMBOL };

/// Offload binaries back to back, registered with libomptarget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenMp<'a> {
    /// Where in the slot the images proper lie, in bytes.
    pub images: &'a [Range<u64>],
    /// The host link is a relocatable one (`-r`).
    pub relocatable: bool,
}

impl Registration for OpenMp<'_> {
    fn name(&self) -> &'static str {
        "openmp"
    }

    fn slot(&self) -> Slot {
        if self.relocatable { RELOCATABLE_SLOT } else { SLOT }
    }

    fn build(&self, module: &Module<'_>, tables: EntryTables) -> Result<(), BuilderError> {
        let code = RegistrationModule::new(module, tables);
        let [(begin, end)] = code.bounds_of(&[match tables {
            EntryTables::Current | EntryTables::WithFormer => CURRENT_SECTION,
            EntryTables::WithFormerOfOpenMp => FORMER_SECTION,
        }]);
        let descriptor = descriptor(&code, self.slot(), self.images, begin, end);
        let unregister = function(&code, ".omp_offloading.descriptor_unreg", "__tgt_unregister_lib", descriptor, None)?;
        let register =
            function(&code, ".omp_offloading.descriptor_reg", "__tgt_register_lib", descriptor, Some(unregister))?;
        code.add_constructor(register);
        Ok(())
    }
}

/// `__tgt_bin_desc`: number of images, the images, and the program's entries.
fn descriptor<'ctx>(
    code: &RegistrationModule<'_, 'ctx>,
    slot: Slot,
    images: &[Range<u64>],
    begin: GlobalValue<'ctx>,
    end: GlobalValue<'ctx>,
) -> GlobalValue<'ctx> {
    let (begin, end) = (begin.as_pointer_value(), end.as_pointer_value());
    let pointer = code.pointer;
    let image_type = named_struct(code, "__tgt_device_image", &[pointer.into(); 4]);
    let bytes = code.constant(slot.symbol, code.context.i8_type().array_type(0).const_zero(), slot.section);
    let base = bytes.as_pointer_value();
    let records: Vec<_> = images
        .iter()
        .map(|image| {
            let bounds = [offset(code, base, image.start), offset(code, base, image.end), begin, end];
            image_type.const_named_struct(&bounds.map(Into::into))
        })
        .collect();
    let table = code.variable(".omp_offloading.device_images", image_type.const_array(&records));
    table.set_constant(true);

    let fields = [code.i32.into(), pointer.into(), pointer.into(), pointer.into()];
    let descriptor_type = named_struct(code, "__tgt_bin_desc", &fields);
    let value = descriptor_type.const_named_struct(&[
        code.i32.const_int(images.len() as u64, false).into(),
        table.as_pointer_value().into(),
        begin.into(),
        end.into(),
    ]);
    let descriptor = code.variable(".omp_offloading.descriptor", value);
    descriptor.set_constant(true);
    descriptor
}

fn named_struct<'ctx>(
    code: &RegistrationModule<'_, 'ctx>,
    name: &str,
    fields: &[inkwell::types::BasicTypeEnum<'ctx>],
) -> StructType<'ctx> {
    let structure = code.context.opaque_struct_type(name);
    structure.set_body(fields, false);
    structure
}

/// The address `bytes` behind `base`: a relocation with an addend.
fn offset<'ctx>(code: &RegistrationModule<'_, 'ctx>, base: PointerValue<'ctx>, bytes: u64) -> PointerValue<'ctx> {
    let address = base.const_to_int(code.i64).const_add(code.i64.const_int(bytes, false));
    address.const_to_pointer(code.pointer)
}

/// A start-up function that calls the runtime with the descriptor, and has `at_exit` run at the end.
fn function<'ctx>(
    code: &RegistrationModule<'_, 'ctx>,
    name: &str,
    call: &str,
    descriptor: GlobalValue<'ctx>,
    at_exit: Option<FunctionValue<'ctx>>,
) -> Result<FunctionValue<'ctx>, BuilderError> {
    let function = code.startup_function(name, &[]);
    code.builder.position_at_end(code.context.append_basic_block(function, "entry"));
    let pointer = [code.pointer.into()];
    let descriptor = descriptor.as_pointer_value().into();
    code.call(call, code.context.void_type().fn_type(&pointer, false), &[descriptor])?;
    if let Some(at_exit) = at_exit {
        let at_exit = at_exit.as_global_value().as_pointer_value().into();
        code.call("atexit", code.i32.fn_type(&pointer, false), &[at_exit])?;
    }
    code.builder.build_return(None)?;
    Ok(function)
}
