//! HIP: the bundle's wrapper record and the constructor that registers it, its kernels and its variables, as LLVM 22's linker
//! wrapper lays them out (names, sections, priorities, calls).

use std::ops::Deref;

use inkwell::IntPredicate;
use inkwell::basic_block::BasicBlock;
use inkwell::builder::BuilderError;
use inkwell::module::Module;
use inkwell::types::{BasicMetadataTypeEnum, BasicType};
use inkwell::values::{BasicMetadataValueEnum, BasicValueEnum, FunctionValue, GlobalValue, IntValue, PointerValue};

use super::common::{RegistrationModule, Runtime, field, flag};
use super::{Registration, Slot};
use crate::sys;

/// Where AMD's tools look for bundles in a host file.
const SLOT: Slot = Slot { section: ".hip_fatbin", symbol: ".fatbin_image" };

/// The alignment of bundles that HIP's runtime requires, in bytes.
const BUNDLE_ALIGNMENT: u32 = 4096;

/// The wrapper record: its section, its magic number ("HIPF") and its version.
const WRAPPER_SECTION: &str = ".hipFatBinSegment";
const WRAPPER_MAGIC: u64 = 0x4849_5046;
const WRAPPER_VERSION: u64 = 1;

/// The kind of `__tgt_offload_entry`.
const KIND_HIP: u64 = 4;

const RUNTIME: Runtime = Runtime {
    register: "__hipRegisterFatBinary",
    end: None,
    unregister: "__hipUnregisterFatBinary",
    kernel: "__hipRegisterFunction",
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

    fn build(&self, module: &Module<'_>) -> Result<(), BuilderError> {
        let code = Code(RegistrationModule::new(module));
        let (begin, end) = code.entry_bounds();
        let wrapper = code.wrapper();
        let handle = code.variable(".hip.binary_handle", code.pointer.const_null());
        let register = code.startup_function(".hip.fatbin_reg", &[]);
        let unregister = code.startup_function(".hip.fatbin_unreg", &[]);
        code.unregister_binary(unregister, &RUNTIME, handle)?;
        let globals = code.startup_function(".hip.globals_reg", &[code.pointer.into()]);
        code.register_binary(register, &RUNTIME, wrapper, handle, &[globals], unregister)?;
        code.register_globals(globals, begin.as_pointer_value(), end.as_pointer_value())?;
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

/// The loaded fields of the entry that is being registered, with the handle.
struct Entry<'ctx> {
    handle: PointerValue<'ctx>,
    address: BasicMetadataValueEnum<'ctx>,
    aux: BasicMetadataValueEnum<'ctx>,
    kind: IntValue<'ctx>,
    name: BasicMetadataValueEnum<'ctx>,
    size: IntValue<'ctx>,
    data: BasicMetadataValueEnum<'ctx>,
    variable_type: IntValue<'ctx>,
    is_extern: BasicMetadataValueEnum<'ctx>,
    is_constant: BasicMetadataValueEnum<'ctx>,
    is_normalized: BasicMetadataValueEnum<'ctx>,
}

impl<'ctx> Code<'_, 'ctx> {
    /// The wrapper record, which points at the (still empty) image.
    fn wrapper(&self) -> GlobalValue<'ctx> {
        let image = self.context.i8_type().array_type(0).const_zero();
        let image = self.constant(SLOT.symbol, image, SLOT.section);
        image.set_alignment(BUNDLE_ALIGNMENT);
        let record = self.context.opaque_struct_type("fatbin_wrapper");
        record.set_body(&[self.i32.into(), self.i32.into(), self.pointer.into(), self.pointer.into()], false);
        let record = record.const_named_struct(&[
            self.i32.const_int(WRAPPER_MAGIC, false).into(),
            self.i32.const_int(WRAPPER_VERSION, false).into(),
            image.as_pointer_value().into(),
            self.pointer.const_null().into(),
        ]);
        let wrapper = self.constant(".fatbin_wrapper", record, WRAPPER_SECTION);
        sys::exclude_from_sanitizers(wrapper);
        wrapper
    }

    /// `.hip.globals_reg(handle)`: walks all entries of the program and registers those of HIP.
    fn register_globals(
        &self,
        function: FunctionValue<'ctx>,
        begin: PointerValue<'ctx>,
        end: PointerValue<'ctx>,
    ) -> Result<(), BuilderError> {
        let block = |name| self.context.append_basic_block(function, name);
        let [start, body, of_hip, kernel, variable] =
            ["entry", "while.entry", "if.kind", "if.then", "if.else"].map(block);
        let cases = ["sw.global", "sw.managed", "sw.surface", "sw.texture"].map(block);
        let [next, done] = ["if.end", "while.end"].map(block);

        self.builder.position_at_end(start);
        let any = self.builder.build_int_compare(IntPredicate::NE, begin, end, "")?;
        self.builder.build_conditional_branch(any, body, done)?;

        self.builder.position_at_end(body);
        let current = self.builder.build_phi(self.pointer, "entry1")?;
        let place = current.as_basic_value().into_pointer_value();
        let handle = function.get_nth_param(0).expect("one parameter").into_pointer_value();
        let entry = self.load_entry(handle, place)?;
        let is_hip = self.equals(entry.kind, KIND_HIP)?;
        self.builder.build_conditional_branch(is_hip, of_hip, next)?;

        self.builder.position_at_end(of_hip);
        let is_kernel = self.equals(entry.size, 0)?;
        self.builder.build_conditional_branch(is_kernel, kernel, variable)?;
        self.builder.position_at_end(kernel);
        self.register_kernel(&RUNTIME, handle, entry.address, entry.name)?;
        self.builder.build_unconditional_branch(next)?;
        self.builder.position_at_end(variable);
        let numbered =
            std::array::from_fn::<_, 4, _>(|number| (self.i32.const_int(number as u64, false), cases[number]));
        self.builder.build_switch(entry.variable_type, next, &numbered)?;
        self.register_variable(&entry, cases, next)?;

        self.builder.position_at_end(next);
        let following = sys::element(&self.builder, self.entry, place, &[self.i64.const_int(1, false)])?;
        let at_end = self.builder.build_int_compare(IntPredicate::EQ, following, end, "")?;
        self.builder.build_conditional_branch(at_end, done, body)?;
        current.add_incoming(&[(&begin, start), (&following, next)]);

        self.builder.position_at_end(done);
        self.builder.build_return(None)?;
        Ok(())
    }

    fn load_entry(&self, handle: PointerValue<'ctx>, place: PointerValue<'ctx>) -> Result<Entry<'ctx>, BuilderError> {
        let address = self.load(place, field::ADDRESS, self.pointer, "addr")?;
        let aux = self.load(place, field::AUX, self.pointer, "aux_addr")?;
        let kind = self.load(place, field::KIND, self.context.i16_type(), "kind")?.into_int_value();
        let name = self.load(place, field::NAME, self.pointer, "name")?;
        let size = self.load(place, field::SIZE, self.i64, "size")?.into_int_value();
        let flags = self.load(place, field::FLAGS, self.i32, "flags")?.into_int_value();
        let data = self.load(place, field::DATA, self.i64, "data")?.into_int_value();
        Ok(Entry {
            handle,
            address: address.into(),
            aux: aux.into(),
            kind,
            name: name.into(),
            size,
            data: self.builder.build_int_truncate(data, self.i32, "")?.into(),
            variable_type: self.builder.build_and(flags, self.i32.const_int(flag::TYPE, false), "type")?,
            is_extern: self.flag(flags, flag::EXTERN, "extern")?,
            is_constant: self.flag(flags, flag::CONSTANT, "constant")?,
            is_normalized: self.flag(flags, flag::NORMALIZED, "normalized")?,
        })
    }

    /// Variables, managed variables, surfaces and textures, a block for each.
    fn register_variable(
        &self,
        entry: &Entry<'ctx>,
        [plain, managed, surface, texture]: [BasicBlock<'ctx>; 4],
        next: BasicBlock<'ctx>,
    ) -> Result<(), BuilderError> {
        let (p, i32, i64): (BasicMetadataTypeEnum<'ctx>, _, _) =
            (self.pointer.into(), self.i32.into(), self.i64.into());
        let Entry { address, aux, name, data, is_extern, is_constant, is_normalized, .. } = *entry;
        let (handle, size, zero) = (entry.handle.into(), entry.size.into(), self.i32.const_zero().into());
        let calls: [(_, _, &[_], &[_]); 4] = [
            (
                plain,
                "__hipRegisterVar",
                &[p, p, p, p, i32, i64, i32, i32],
                &[handle, address, name, name, is_extern, size, is_constant, zero],
            ),
            (managed, "__hipRegisterManagedVar", &[p, p, p, p, i64, i32], &[handle, aux, address, name, size, data]),
            (surface, "__hipRegisterSurface", &[p, p, p, p, i32, i32], &[handle, address, name, name, data, is_extern]),
            (
                texture,
                "__hipRegisterTexture",
                &[p, p, p, p, i32, i32, i32],
                &[handle, address, name, name, data, is_normalized, is_extern],
            ),
        ];
        for (block, function, parameters, arguments) in calls {
            self.builder.position_at_end(block);
            self.call(function, self.context.void_type().fn_type(parameters, false), arguments)?;
            self.builder.build_unconditional_branch(next)?;
        }
        Ok(())
    }

    fn load(
        &self,
        entry: PointerValue<'ctx>,
        field: u32,
        kind: impl BasicType<'ctx>,
        name: &str,
    ) -> Result<BasicValueEnum<'ctx>, BuilderError> {
        let indices = [self.i32.const_zero(), self.i32.const_int(field.into(), false)];
        let place = sys::element(&self.builder, self.entry, entry, &indices)?;
        self.builder.build_load(kind, place, name)
    }
}
