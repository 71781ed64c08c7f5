//! CUDA: the result of a relocatable device link (`nvcc -dlink -r`), which a later device link takes as one more unit.
//!
//! It is like a unit of nvcc that registers no kernel: a fatbin of relocatable code, its record, an id, and a constructor that calls the
//! function which that device link defines. The units that it was made of keep their constructors, which register their kernels.
//! Both go into one object, this one first, because nvlink reads only the first fatbin of an object.

use inkwell::builder::BuilderError;
use inkwell::module::Linkage;
use inkwell::values::{FunctionValue, GlobalValue};
use offload_bundle::host_object::{PRELINKED_MARK, REGISTER_PREFIX, WRAPPER_PREFIX};

use super::super::Slot;
use super::units::MODULE_IDS;
use super::{Code, CudaRegistration, WHOLE, WRAPPER_SECTION};

const SLOT: Slot = Slot { section: "__nv_relfatbin", symbol: ".cuda.prelinked" };

/// One fatbin of relocatable code, made of units of nvcc.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CudaPrelinked<'a> {
    /// The id of the result, different from those of all units.
    pub id: &'a str,
}

impl CudaRegistration for CudaPrelinked<'_> {
    const SLOT: Slot = SLOT;

    fn generate(&self, code: &Code<'_, '_>) -> Result<(), BuilderError> {
        let id = self.id;
        let image = code.empty(SLOT);
        let record = code.record(WHOLE, image, code.pointer.const_null());
        let record = code.constant(&format!("{WRAPPER_PREFIX}{id}"), record, WRAPPER_SECTION);
        record.set_linkage(Linkage::External);
        let mark = code.variable(PRELINKED_MARK, record.as_pointer_value());
        mark.set_linkage(Linkage::WeakAny);
        let text = code.constant(".cuda.prelinked_id", code.context.const_string(id.as_bytes(), true), MODULE_IDS);
        text.set_alignment(1);
        let callback = code.empty_function(".cuda.prelinked_callback")?;
        let keep = code.empty_function(".cuda.prelinked_keep")?;

        let function = code.startup_function(".cuda.prelinked_reg", &[]);
        code.builder.position_at_end(code.context.append_basic_block(function, "entry"));
        let signature = code.context.void_type().fn_type(&[code.pointer.into(); 4], false);
        let (callback, keep) = (callback.as_global_value(), keep.as_global_value());
        let arguments = [callback, record, text, keep].map(GlobalValue::as_pointer_value);
        code.call(&format!("{REGISTER_PREFIX}{id}"), signature, &arguments.map(Into::into))?;
        code.builder.build_return(None)?;
        code.add_constructor(function);
        Ok(())
    }
}

impl<'ctx> Code<'_, 'ctx> {
    /// A function that takes a pointer and does nothing.
    fn empty_function(&self, name: &str) -> Result<FunctionValue<'ctx>, BuilderError> {
        let function = self.startup_function(name, &[self.pointer.into()]);
        self.builder.position_at_end(self.context.append_basic_block(function, "entry"));
        self.builder.build_return(None)?;
        Ok(function)
    }
}

#[cfg(test)]
mod tests {
    use offload_bundle::elf_edit::SectionSlot;
    use offload_bundle::host_object::{self, RdcRegistration};

    use super::*;
    use crate::registration;
    use crate::session::Session;

    #[test]
    fn a_later_device_link_finds_one_unit() {
        const EMPTY: &[u8] = b"\x50\xed\x55\xba\x01\0\x10\0\0\0\0\0\0\0\0\0";
        crate::initialize();
        let (session, host) = (Session::new(), "x86_64-pc-linux-gnu");
        let prelinked = CudaPrelinked { id: "_12345678_9_prelinked_9abcdef0" };
        let module =
            registration::build(&session, host, &prelinked, registration::EntryTables::Current).expect("a module");
        module.verify().expect("sound code");
        let object = registration::compile(&session, &module, host).expect("an object");
        let slot = SectionSlot::find(object, SLOT.section, SLOT.symbol).expect("the slot");
        let mut object = slot.in_front_of(EMPTY.len() as u64);
        object.extend(EMPTY);
        let units = host_object::rdc_objects(&object).expect("a sound object");
        let [unit] = units.as_slice() else { panic!("{units:?}") };
        assert_eq!((unit.id, unit.fatbin, unit.is_prelinked), (prelinked.id, EMPTY, true));
        assert_eq!(unit.registration, RdcRegistration::Undefined);
        let (_, ids) = host_object::section(&object, b"__nv_module_id").expect("the section");
        assert_eq!(ids, format!("{}\0", prelinked.id).as_bytes());
    }
}
