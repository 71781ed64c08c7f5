//! The parts that registration code for every runtime shares: the table of offload entries, and functions that run at start-up.

use inkwell::builder::{Builder, BuilderError};
use inkwell::context::ContextRef;
use inkwell::module::{Linkage, Module};
use inkwell::types::{BasicMetadataTypeEnum, FunctionType, IntType, PointerType, StructType};
use inkwell::values::{BasicMetadataValueEnum, BasicValue, FunctionValue, GlobalValue};
use inkwell::{AddressSpace, GlobalVisibility};

/// Priority of the constructors: before the user's own.
const CONSTRUCTOR_PRIORITY: u64 = 101;

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
}
