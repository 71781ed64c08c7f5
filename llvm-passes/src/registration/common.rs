//! The parts that registration code for every runtime shares: the table of offload entries, and functions that run at start-up.

use inkwell::builder::{Builder, BuilderError};
use inkwell::context::ContextRef;
use inkwell::module::{Linkage, Module};
use inkwell::types::{BasicMetadataTypeEnum, FunctionType, IntType, PointerType, StructType};
use inkwell::values::{BasicMetadataValueEnum, BasicValue, FunctionValue, GlobalValue, IntValue, PointerValue};
use inkwell::{AddressSpace, GlobalVisibility, IntPredicate};

/// Priority of the constructors: before the user's own.
const CONSTRUCTOR_PRIORITY: u64 = 101;

/// Fields of `__tgt_offload_entry` by index.
pub(super) mod field {
    pub const KIND: u32 = 2;
    pub const FLAGS: u32 = 3;
    pub const ADDRESS: u32 = 4;
    pub const NAME: u32 = 5;
    pub const SIZE: u32 = 6;
    pub const DATA: u32 = 7;
    pub const AUX: u32 = 8;
}

/// Flags of `__tgt_offload_entry`, as clang writes them for CUDA and HIP.
pub(super) mod flag {
    pub const TYPE: u64 = 0x7;
    pub const EXTERN: u64 = 0x8;
    pub const CONSTANT: u64 = 0x10;
    pub const NORMALIZED: u64 = 0x20;
}

/// The functions of CUDA's runtime or HIP's that register the binary of a device link.
pub(super) struct Runtime {
    /// Takes the binary's wrapper and returns a handle.
    pub(super) register: &'static str,
    /// Takes the handle, once everything in the binary is registered.
    pub(super) end: Option<&'static str>,
    /// Takes the handle at exit.
    pub(super) unregister: &'static str,
    /// Takes the handle and a kernel.
    pub(super) kernel: &'static str,
}

/// A module under construction, with the types that all registration code uses.
pub(super) struct RegistrationModule<'m, 'ctx> {
    pub(super) module: &'m Module<'ctx>,
    pub(super) context: ContextRef<'ctx>,
    pub(super) builder: Builder<'ctx>,
    pub(super) pointer: PointerType<'ctx>,
    pub(super) i32: IntType<'ctx>,
    pub(super) i64: IntType<'ctx>,
    /// `__tgt_offload_entry`, of which clang emits one for every kernel and variable.
    pub(super) entry: StructType<'ctx>,
}

impl<'m, 'ctx> RegistrationModule<'m, 'ctx> {
    pub(super) fn new(module: &'m Module<'ctx>) -> Self {
        let context = module.get_context();
        let (pointer, i32, i64) = (context.ptr_type(AddressSpace::default()), context.i32_type(), context.i64_type());
        let i16 = context.i16_type();
        let entry = context.opaque_struct_type("struct.__tgt_offload_entry");
        entry.set_body(
            &[
                i64.into(),
                i16.into(),
                i16.into(),
                i32.into(),
                pointer.into(),
                pointer.into(),
                i64.into(),
                i64.into(),
                pointer.into(),
            ],
            false,
        );
        RegistrationModule { module, context, builder: context.create_builder(), pointer, i32, i64, entry }
    }

    /// The bounds of the section that holds the entries of all objects; the linker defines these symbols. An empty dummy makes
    /// sure that the section exists even if no object has an entry.
    pub(super) fn entry_bounds(&self) -> (GlobalValue<'ctx>, GlobalValue<'ctx>) {
        let entries = self.entry.array_type(0);
        let bound = |name: &str| {
            let global = self.module.add_global(entries, None, name);
            global.set_linkage(Linkage::External);
            global.set_visibility(GlobalVisibility::Hidden);
            global.set_constant(true);
            global
        };
        let bounds = (bound("__start_llvm_offload_entries"), bound("__stop_llvm_offload_entries"));
        let dummy = self.constant("__dummy.llvm_offload_entries", entries.const_zero(), "llvm_offload_entries");
        let used = self.pointer.const_array(&[dummy.as_pointer_value()]);
        let list = self.module.add_global(used.get_type(), None, "llvm.compiler.used");
        list.set_linkage(Linkage::Appending);
        list.set_initializer(&used);
        list.set_section(Some("llvm.metadata"));
        bounds
    }

    pub(super) fn constant(&self, name: &str, value: impl BasicValue<'ctx>, section: &str) -> GlobalValue<'ctx> {
        let global = self.variable(name, value);
        global.set_constant(true);
        global.set_section(Some(section));
        global
    }

    pub(super) fn variable(&self, name: &str, value: impl BasicValue<'ctx>) -> GlobalValue<'ctx> {
        let value = value.as_basic_value_enum();
        let global = self.module.add_global(value.get_type(), None, name);
        global.set_linkage(Linkage::Internal);
        global.set_initializer(&value);
        global.set_alignment(8);
        global
    }

    pub(super) fn add_constructor(&self, function: FunctionValue<'ctx>) {
        let record = self.context.const_struct(
            &[
                self.i32.const_int(CONSTRUCTOR_PRIORITY, false).into(),
                function.as_global_value().as_pointer_value().into(),
                self.pointer.const_null().into(),
            ],
            false,
        );
        let list = record.get_type().const_array(&[record]);
        let constructors = self.module.add_global(list.get_type(), None, "llvm.global_ctors");
        constructors.set_linkage(Linkage::Appending);
        constructors.set_initializer(&list);
    }

    pub(super) fn startup_function(
        &self,
        name: &str,
        parameters: &[BasicMetadataTypeEnum<'ctx>],
    ) -> FunctionValue<'ctx> {
        let signature = self.context.void_type().fn_type(parameters, false);
        let function = self.module.add_function(name, signature, Some(Linkage::Internal));
        function.set_section(Some(".text.startup"));
        function
    }

    pub(super) fn declare(&self, name: &str, signature: FunctionType<'ctx>) -> FunctionValue<'ctx> {
        self.module.get_function(name).unwrap_or_else(|| self.module.add_function(name, signature, None))
    }

    pub(super) fn call(
        &self,
        name: &str,
        signature: FunctionType<'ctx>,
        arguments: &[BasicMetadataValueEnum<'ctx>],
    ) -> Result<(), BuilderError> {
        self.builder.build_call(self.declare(name, signature), arguments, "").map(|_| ())
    }

    /// The body of the function that registers a binary, and has each of `parts` register what is in it with its handle.
    pub(super) fn register_binary(
        &self,
        function: FunctionValue<'ctx>,
        runtime: &Runtime,
        wrapper: GlobalValue<'ctx>,
        handle: GlobalValue<'ctx>,
        parts: &[FunctionValue<'ctx>],
        unregister: FunctionValue<'ctx>,
    ) -> Result<(), BuilderError> {
        self.builder.position_at_end(self.context.append_basic_block(function, "entry"));
        let p: BasicMetadataTypeEnum<'ctx> = self.pointer.into();
        let signature = self.pointer.fn_type(&[p], false);
        let wrapper = wrapper.as_pointer_value().into();
        let call = self.builder.build_call(self.declare(runtime.register, signature), &[wrapper], "")?;
        let value = call.try_as_basic_value().expect_basic("it returns a handle");
        self.builder.build_store(handle.as_pointer_value(), value)?;
        for part in parts {
            self.builder.build_call(*part, &[value.into()], "")?;
        }
        if let Some(end) = runtime.end {
            self.call(end, self.context.void_type().fn_type(&[p], false), &[value.into()])?;
        }
        let unregister = unregister.as_global_value().as_pointer_value().into();
        self.call("atexit", self.i32.fn_type(&[p], false), &[unregister])?;
        self.builder.build_return(None)?;
        Ok(())
    }

    /// The body of the function that runs at exit.
    pub(super) fn unregister_binary(
        &self,
        function: FunctionValue<'ctx>,
        runtime: &Runtime,
        handle: GlobalValue<'ctx>,
    ) -> Result<(), BuilderError> {
        self.builder.position_at_end(self.context.append_basic_block(function, "entry"));
        let value = self.builder.build_load(self.pointer, handle.as_pointer_value(), "")?;
        let signature = self.context.void_type().fn_type(&[self.pointer.into()], false);
        self.call(runtime.unregister, signature, &[value.into()])?;
        self.builder.build_return(None)?;
        Ok(())
    }

    /// `register(handle, stub, name, name, -1, no thread and block bounds)`.
    pub(super) fn register_kernel(
        &self,
        runtime: &Runtime,
        handle: PointerValue<'ctx>,
        stub: BasicMetadataValueEnum<'ctx>,
        name: BasicMetadataValueEnum<'ctx>,
    ) -> Result<(), BuilderError> {
        let (p, null) = (self.pointer.into(), self.pointer.const_null().into());
        let signature = self.i32.fn_type(&[p, p, p, p, self.i32.into(), p, p, p, p, p], false);
        let no_limit = self.i32.const_all_ones().into();
        let arguments = [handle.into(), stub, name, name, no_limit, null, null, null, null, null];
        self.call(runtime.kernel, signature, &arguments)
    }

    pub(super) fn equals(&self, value: IntValue<'ctx>, number: u64) -> Result<IntValue<'ctx>, BuilderError> {
        self.builder.build_int_compare(IntPredicate::EQ, value, value.get_type().const_int(number, false), "")
    }

    /// One flag as 0 or 1.
    pub(super) fn flag(
        &self,
        flags: IntValue<'ctx>,
        mask: u64,
        name: &str,
    ) -> Result<BasicMetadataValueEnum<'ctx>, BuilderError> {
        let bit = self.builder.build_and(flags, self.i32.const_int(mask, false), "")?;
        let shift = self.i32.const_int(u64::from(mask.trailing_zeros()), false);
        Ok(self.builder.build_right_shift(bit, shift, false, name)?.into())
    }
}
