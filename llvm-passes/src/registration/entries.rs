//! The walk over a program's offload entries, of which clang emits one for every kernel and variable: names of blocks and order of
//! instructions as in LLVM's linker wrapper, whose tests look at them.

use inkwell::IntPredicate;
use inkwell::basic_block::BasicBlock;
use inkwell::builder::BuilderError;
use inkwell::types::{BasicMetadataTypeEnum, BasicType};
use inkwell::values::{BasicMetadataValueEnum, BasicValueEnum, FunctionValue, GlobalValue, IntValue, PointerValue};

use super::EntryTables;
use super::common::{RegistrationModule, Runtime};
use crate::sys;

/// Fields of `__tgt_offload_entry` by index.
pub(super) mod field {
    pub const VERSION: u32 = 1;
    pub const KIND: u32 = 2;
    pub const FLAGS: u32 = 3;
    pub const ADDRESS: u32 = 4;
    pub const NAME: u32 = 5;
    pub const SIZE: u32 = 6;
    pub const DATA: u32 = 7;
    pub const AUX: u32 = 8;
}

/// Flags of `__tgt_offload_entry`, as clang writes them for CUDA and HIP.
mod flag {
    pub const TYPE: u64 = 0x7;
    pub const EXTERN: u64 = 0x8;
    pub const CONSTANT: u64 = 0x10;
    pub const NORMALIZED: u64 = 0x20;
}

/// Where the code finds the entries.
pub(super) enum Entries<'ctx> {
    /// Between these bounds.
    Section((GlobalValue<'ctx>, GlobalValue<'ctx>)),
    /// In the table that this function makes.
    Joined(FunctionValue<'ctx>),
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

impl<'ctx> RegistrationModule<'_, 'ctx> {
    /// `.cuda.globals_reg(handle)`: walks all entries of the program and registers those of the runtime.
    pub(super) fn register_entries(
        &self,
        runtime: &Runtime,
        entries: &Entries<'ctx>,
    ) -> Result<FunctionValue<'ctx>, BuilderError> {
        let function = self.startup_function(&format!("{}.globals_reg", runtime.prefix), &[self.pointer.into()]);
        let block = |name| self.context.append_basic_block(function, name);
        let [start, body, of_runtime, kernel, variable] =
            ["entry", "while.entry", "if.kind", "if.then", "if.else"].map(block);
        let cases = ["sw.global", "sw.managed", "sw.surface", "sw.texture"].map(block);
        let [next, done] = ["if.end", "while.end"].map(block);

        self.builder.position_at_end(start);
        let (begin, end) = self.entry_range(entries)?;
        let any = self.builder.build_int_compare(IntPredicate::NE, begin, end, "")?;
        self.builder.build_conditional_branch(any, body, done)?;

        self.builder.position_at_end(body);
        let current = self.builder.build_phi(self.pointer, "entry1")?;
        let place = current.as_basic_value().into_pointer_value();
        let handle = function.get_nth_param(0).expect("one parameter").into_pointer_value();
        let entry = self.load_entry(handle, place)?;
        let is_ours = self.equals(entry.kind, runtime.kind)?;
        self.builder.build_conditional_branch(is_ours, of_runtime, next)?;

        self.builder.position_at_end(of_runtime);
        let is_kernel = self.equals(entry.size, 0)?;
        self.builder.build_conditional_branch(is_kernel, kernel, variable)?;
        self.builder.position_at_end(kernel);
        self.register_kernel(runtime, handle, entry.address, entry.name)?;
        self.builder.build_unconditional_branch(next)?;
        self.builder.position_at_end(variable);
        let numbered =
            std::array::from_fn::<_, 4, _>(|number| (self.i32.const_int(number as u64, false), cases[number]));
        self.builder.build_switch(entry.variable_type, next, &numbered)?;
        self.register_variable(runtime, &entry, cases, next)?;

        self.builder.position_at_end(next);
        let following = sys::element(&self.builder, self.entry, place, &[self.i64.const_int(1, false)])?;
        let at_end = self.builder.build_int_compare(IntPredicate::EQ, following, end, "")?;
        self.builder.build_conditional_branch(at_end, done, body)?;
        current.add_incoming(&[(&begin, start), (&following, next)]);

        self.builder.position_at_end(done);
        self.builder.build_return(None)?;
        Ok(function)
    }

    /// The entries of the program. Their bounds are declared first, as LLVM's tool does.
    pub(super) fn entries(&self, runtime: &Runtime) -> Result<Entries<'ctx>, BuilderError> {
        Ok(match self.tables {
            EntryTables::Current => Entries::Section(self.entry_bounds()),
            EntryTables::WithFormer | EntryTables::WithFormerOfOpenMp => {
                Entries::Joined(self.join_tables(runtime.prefix, runtime.former_section, runtime.kind)?)
            }
        })
    }

    /// Where they start and end.
    fn entry_range(&self, entries: &Entries<'ctx>) -> Result<(PointerValue<'ctx>, PointerValue<'ctx>), BuilderError> {
        match entries {
            Entries::Section((begin, end)) => Ok((begin.as_pointer_value(), end.as_pointer_value())),
            Entries::Joined(join) => self.call_join(*join),
        }
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
        runtime: &Runtime,
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
                Some(runtime.variable),
                &[p, p, p, p, i32, i64, i32, i32],
                &[handle, address, name, name, is_extern, size, is_constant, zero],
            ),
            (managed, Some(runtime.managed), &[p, p, p, p, i64, i32], &[handle, aux, address, name, size, data]),
            (surface, runtime.surface, &[p, p, p, p, i32, i32], &[handle, address, name, name, data, is_extern]),
            (
                texture,
                runtime.texture,
                &[p, p, p, p, i32, i32, i32],
                &[handle, address, name, name, data, is_normalized, is_extern],
            ),
        ];
        for (block, function, parameters, arguments) in calls {
            self.builder.position_at_end(block);
            if let Some(function) = function {
                self.call(function, self.context.void_type().fn_type(parameters, false), arguments)?;
            }
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

    /// `register(handle, stub, name, name, -1, no thread and block bounds)`.
    fn register_kernel(
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

    /// One flag as 0 or 1.
    fn flag(&self, flags: IntValue<'ctx>, mask: u64, name: &str) -> Result<BasicMetadataValueEnum<'ctx>, BuilderError> {
        let bit = self.builder.build_and(flags, self.i32.const_int(mask, false), "")?;
        let shift = self.i32.const_int(u64::from(mask.trailing_zeros()), false);
        Ok(self.builder.build_right_shift(bit, shift, false, name)?.into())
    }
}
