//! OpenMP: the descriptor of all device images and the constructor that registers it with libomptarget, as
//! LLVM 22's linker wrapper lays them out.

use std::ops::Range;

use inkwell::builder::BuilderError;
use inkwell::module::Module;
use inkwell::types::StructType;
use inkwell::values::{FunctionValue, GlobalValue, PointerValue};

use super::Slot;
use super::common::Wrapper;

const SYMBOL: &str = ".omp_offloading.device_image";
/// Where the images go. In a relocatable link the usual section's name would make a later wrapper take the
/// finished images for open ends.
pub(super) const SLOT: Slot = Slot { section: ".llvm.offloading", symbol: SYMBOL };
pub(super) const RELOCATABLE_SLOT: Slot = Slot { section: ".llvm.offloading.relocatable", symbol: SYMBOL };

/// Fills `module` with the registration of the images that lie at `images`, in bytes, in the slot.
pub(super) fn build(module: &Module<'_>, slot: Slot, images: &[Range<u64>]) -> Result<(), BuilderError> {
    let wrapper = Wrapper::new(module);
    let (begin, end) = wrapper.entry_bounds();
    let descriptor = descriptor(&wrapper, slot, images, begin, end);
    let unregister = function(&wrapper, ".omp_offloading.descriptor_unreg", "__tgt_unregister_lib", descriptor, None)?;
    let register =
        function(&wrapper, ".omp_offloading.descriptor_reg", "__tgt_register_lib", descriptor, Some(unregister))?;
    wrapper.add_constructor(register);
    Ok(())
}

/// `__tgt_bin_desc`: number of images, the images, and the program's entries.
fn descriptor<'ctx>(
    wrapper: &Wrapper<'_, 'ctx>,
    slot: Slot,
    images: &[Range<u64>],
    begin: GlobalValue<'ctx>,
    end: GlobalValue<'ctx>,
) -> GlobalValue<'ctx> {
    let (begin, end) = (begin.as_pointer_value(), end.as_pointer_value());
    let pointer = wrapper.pointer;
    let image_type = named_struct(wrapper, "__tgt_device_image", &[pointer.into(); 4]);
    let bytes = wrapper.constant(slot.symbol, wrapper.context.i8_type().array_type(0).const_zero(), slot.section);
    let base = bytes.as_pointer_value();
    let records: Vec<_> = images
        .iter()
        .map(|image| {
            let bounds = [offset(wrapper, base, image.start), offset(wrapper, base, image.end), begin, end];
            image_type.const_named_struct(&bounds.map(Into::into))
        })
        .collect();
    let table = wrapper.variable(".omp_offloading.device_images", image_type.const_array(&records));
    table.set_constant(true);

    let fields = [wrapper.i32.into(), pointer.into(), pointer.into(), pointer.into()];
    let descriptor_type = named_struct(wrapper, "__tgt_bin_desc", &fields);
    let value = descriptor_type.const_named_struct(&[
        wrapper.i32.const_int(images.len() as u64, false).into(),
        table.as_pointer_value().into(),
        begin.into(),
        end.into(),
    ]);
    let descriptor = wrapper.variable(".omp_offloading.descriptor", value);
    descriptor.set_constant(true);
    descriptor
}

fn named_struct<'ctx>(
    wrapper: &Wrapper<'_, 'ctx>,
    name: &str,
    fields: &[inkwell::types::BasicTypeEnum<'ctx>],
) -> StructType<'ctx> {
    let structure = wrapper.context.opaque_struct_type(name);
    structure.set_body(fields, false);
    structure
}

/// The address `bytes` behind `base`: a relocation with an addend.
fn offset<'ctx>(wrapper: &Wrapper<'_, 'ctx>, base: PointerValue<'ctx>, bytes: u64) -> PointerValue<'ctx> {
    let address = base.const_to_int(wrapper.i64).const_add(wrapper.i64.const_int(bytes, false));
    address.const_to_pointer(wrapper.pointer)
}

/// A start-up function that calls the runtime with the descriptor, and has `at_exit` run at the end.
fn function<'ctx>(
    wrapper: &Wrapper<'_, 'ctx>,
    name: &str,
    call: &str,
    descriptor: GlobalValue<'ctx>,
    at_exit: Option<FunctionValue<'ctx>>,
) -> Result<FunctionValue<'ctx>, BuilderError> {
    let function = wrapper.startup_function(name, &[]);
    wrapper.builder.position_at_end(wrapper.context.append_basic_block(function, "entry"));
    let pointer = [wrapper.pointer.into()];
    let descriptor = descriptor.as_pointer_value().into();
    wrapper.call(call, wrapper.context.void_type().fn_type(&pointer, false), &[descriptor])?;
    if let Some(at_exit) = at_exit {
        let at_exit = at_exit.as_global_value().as_pointer_value().into();
        wrapper.call("atexit", wrapper.i32.fn_type(&pointer, false), &[at_exit])?;
    }
    wrapper.builder.build_return(None)?;
    Ok(function)
}
