//! The parts that registration code for every runtime shares: the table of offload entries, and functions that run at start-up.

use inkwell::builder::{Builder, BuilderError};
use inkwell::context::ContextRef;
use inkwell::module::{Linkage, Module};
use inkwell::types::{BasicMetadataTypeEnum, FunctionType, IntType, PointerType, StructType};
use inkwell::values::{
    BasicMetadataValueEnum, BasicValue, FunctionValue, GlobalValue, IntValue, PointerValue, StructValue,
};
use inkwell::{AddressSpace, GlobalVisibility, IntPredicate};

use super::EntryTables;
use super::entries::Entries;

/// The section of the entries of clang 21 and later.
pub(super) const CURRENT_SECTION: &str = "llvm_offload_entries";

/// The record by which a runtime finds the binary that is registered.
pub(super) const WRAPPER: &str = ".fatbin_wrapper";

/// Priority of the constructors: before the user's own.
const CONSTRUCTOR_PRIORITY: u64 = 101;

/// What differs between CUDA's runtime and HIP's: names of functions, and the kind of their offload entries.
#[derive(Clone, Copy)]
pub(super) struct Runtime {
    /// The start of the names of our own functions and variables, such as `.cuda`.
    pub(super) prefix: &'static str,
    /// The kind of `__tgt_offload_entry`.
    pub(super) kind: u64,
    /// The section of the entries of clang 15 to 20.
    pub(super) former_section: &'static str,
    /// Takes the binary's wrapper and returns a handle.
    pub(super) register: &'static str,
    /// Takes the handle, once everything in the binary is registered.
    pub(super) end: Option<&'static str>,
    /// Takes the handle at exit.
    pub(super) unregister: &'static str,
    /// Takes the handle and a kernel.
    pub(super) kernel: &'static str,
    /// Takes the handle and a variable.
    pub(super) variable: &'static str,
    /// Takes the handle and a managed variable.
    pub(super) managed: &'static str,
    /// Takes the handle and a surface reference, if the runtime still has them.
    pub(super) surface: Option<&'static str>,
    /// Takes the handle and a texture reference, if the runtime still has them.
    pub(super) texture: Option<&'static str>,
}

/// The functions that register a binary and remove it again, and where its handle is kept.
pub(super) struct Binary<'ctx> {
    handle: GlobalValue<'ctx>,
    pub(super) register: FunctionValue<'ctx>,
    unregister: FunctionValue<'ctx>,
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
    /// Which tables of entries the program has.
    pub(super) tables: EntryTables,
}

impl<'m, 'ctx> RegistrationModule<'m, 'ctx> {
    pub(super) fn new(module: &'m Module<'ctx>, tables: EntryTables) -> Self {
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
        RegistrationModule { module, context, builder: context.create_builder(), pointer, i32, i64, entry, tables }
    }

    /// The bounds of the section that holds the entries of all objects; the linker defines these symbols. An empty dummy makes
    /// sure that the section exists even if no object has an entry.
    pub(super) fn entry_bounds(&self) -> (GlobalValue<'ctx>, GlobalValue<'ctx>) {
        self.bounds_of(&[CURRENT_SECTION])[0]
    }

    /// The same for several sections of entries.
    pub(super) fn bounds_of<const N: usize>(
        &self,
        sections: &[&str; N],
    ) -> [(GlobalValue<'ctx>, GlobalValue<'ctx>); N] {
        let entries = self.entry.array_type(0);
        let bound = |name: String| {
            let global = self.module.add_global(entries, None, &name);
            global.set_linkage(Linkage::External);
            global.set_visibility(GlobalVisibility::Hidden);
            global.set_constant(true);
            global
        };
        let bounds = sections.map(|section| (bound(format!("__start_{section}")), bound(format!("__stop_{section}"))));
        let dummy = |section: &str| self.constant(&format!("__dummy.{section}"), entries.const_zero(), section);
        let used = self.pointer.const_array(&sections.map(|section| dummy(section).as_pointer_value()));
        let list = self.module.add_global(used.get_type(), None, "llvm.compiler.used");
        list.set_linkage(Linkage::Appending);
        list.set_initializer(&used);
        list.set_section(Some("llvm.metadata"));
        bounds
    }

    /// The record by which a runtime finds a binary: `{ magic, version, binary, null or more binaries }`.
    pub(super) fn wrapper_record(
        &self,
        [magic, version]: [u64; 2],
        binary: GlobalValue<'ctx>,
        more: PointerValue<'ctx>,
    ) -> StructValue<'ctx> {
        let record = self.context.get_struct_type("fatbin_wrapper").unwrap_or_else(|| {
            let record = self.context.opaque_struct_type("fatbin_wrapper");
            record.set_body(&[self.i32.into(), self.i32.into(), self.pointer.into(), self.pointer.into()], false);
            record
        });
        let [magic, version] = [magic, version].map(|number| self.i32.const_int(number, false).into());
        record.const_named_struct(&[magic, version, binary.as_pointer_value().into(), more.into()])
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

    /// Registers one whole binary, and the kernels and variables of all entries, from a constructor.
    pub(super) fn register_whole(
        &self,
        runtime: &Runtime,
        entries: &Entries<'ctx>,
        wrapper: GlobalValue<'ctx>,
    ) -> Result<(), BuilderError> {
        let binary = self.declare_binary(runtime);
        let entries = self.register_entries(runtime, entries)?;
        self.define_binary(runtime, &binary, wrapper, &[entries])?;
        self.add_constructor(binary.register);
        Ok(())
    }

    /// The functions of a binary, still without bodies.
    pub(super) fn declare_binary(&self, runtime: &Runtime) -> Binary<'ctx> {
        let prefix = runtime.prefix;
        Binary {
            handle: self.variable(&format!("{prefix}.binary_handle"), self.pointer.const_null()),
            register: self.startup_function(&format!("{prefix}.fatbin_reg"), &[]),
            unregister: self.startup_function(&format!("{prefix}.fatbin_unreg"), &[]),
        }
    }

    /// Their bodies. Each of `parts` registers what is in the binary with its handle.
    pub(super) fn define_binary(
        &self,
        runtime: &Runtime,
        binary: &Binary<'ctx>,
        wrapper: GlobalValue<'ctx>,
        parts: &[FunctionValue<'ctx>],
    ) -> Result<(), BuilderError> {
        self.unregister_binary(runtime, binary)?;
        self.builder.position_at_end(self.context.append_basic_block(binary.register, "entry"));
        let p: BasicMetadataTypeEnum<'ctx> = self.pointer.into();
        let signature = self.pointer.fn_type(&[p], false);
        let wrapper = wrapper.as_pointer_value().into();
        let call = self.builder.build_call(self.declare(runtime.register, signature), &[wrapper], "")?;
        let value = call.try_as_basic_value().expect_basic("it returns a handle");
        self.builder.build_store(binary.handle.as_pointer_value(), value)?;
        for part in parts {
            self.builder.build_call(*part, &[value.into()], "")?;
        }
        if let Some(end) = runtime.end {
            self.call(end, self.context.void_type().fn_type(&[p], false), &[value.into()])?;
        }
        let unregister = binary.unregister.as_global_value().as_pointer_value().into();
        self.call("atexit", self.i32.fn_type(&[p], false), &[unregister])?;
        self.builder.build_return(None)?;
        Ok(())
    }

    /// The body of the function that runs at exit.
    fn unregister_binary(&self, runtime: &Runtime, binary: &Binary<'ctx>) -> Result<(), BuilderError> {
        self.builder.position_at_end(self.context.append_basic_block(binary.unregister, "entry"));
        let value = self.builder.build_load(self.pointer, binary.handle.as_pointer_value(), "")?;
        let signature = self.context.void_type().fn_type(&[self.pointer.into()], false);
        self.call(runtime.unregister, signature, &[value.into()])?;
        self.builder.build_return(None)?;
        Ok(())
    }

    pub(super) fn equals(&self, value: IntValue<'ctx>, number: u64) -> Result<IntValue<'ctx>, BuilderError> {
        self.builder.build_int_compare(IntPredicate::EQ, value, value.get_type().const_int(number, false), "")
    }
}
