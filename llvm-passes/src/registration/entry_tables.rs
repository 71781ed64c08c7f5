//! Joins the tables of offload entries of a program into one, when it starts: those of clang 15 to 20 have sections of their own, and up to
//! clang 19 another layout.
//!
//! | field   | `llvm_offload_entries`, and clang 20 | clang 15 to 19 |
//! |---------|--------------------------------------|----------------|
//! | zero    | i64 at 0                             |                |
//! | version | i16 at 8, 1                          |                |
//! | kind    | i16 at 10                            |                |
//! | flags   | i32 at 12                            | i32 at 24      |
//! | address | 16                                   | 0              |
//! | name    | 24                                   | 8              |
//! | size    | i64 at 32                            | i64 at 16      |
//! | data    | i64 at 40                            | i32 at 28      |
//! | aux     | 48                                   |                |
//!
//! A section may hold both layouts. An entry of the older one starts with an address, which is never zero.

use inkwell::IntPredicate;
use inkwell::basic_block::BasicBlock;
use inkwell::builder::BuilderError;
use inkwell::module::Linkage;
use inkwell::types::BasicType;
use inkwell::values::{BasicValue, BasicValueEnum, FunctionValue, GlobalValue, IntValue, PointerValue};

use super::common::{CURRENT_SECTION, RegistrationModule};
use super::entries::field;
use crate::sys;

/// Sizes of entries, in bytes.
const CURRENT_SIZE: u64 = 56;
const FORMER_SIZE: u64 = 32;
/// The version of entries of the current layout.
const VERSION: u64 = 1;

/// Offsets of fields of the former layout, in bytes.
mod former {
    pub const ADDRESS: u64 = 0;
    pub const NAME: u64 = 8;
    pub const SIZE: u64 = 16;
    pub const FLAGS: u64 = 24;
    pub const DATA: u64 = 28;
}

impl<'ctx> RegistrationModule<'_, 'ctx> {
    /// Defines a function that writes all entries to a table of today's layout, stores the table's end through its parameter and returns its
    /// start. The table lives as long as the program.
    pub(super) fn join_tables(
        &self,
        prefix: &str,
        section: &str,
        kind: u64,
    ) -> Result<FunctionValue<'ctx>, BuilderError> {
        let [current, old] = self.bounds_of(&[CURRENT_SECTION, section]);
        let name = format!("{prefix}.entry_tables");
        let signature = self.pointer.fn_type(&[self.pointer.into()], false);
        let function = self.module.add_function(&name, signature, Some(Linkage::Internal));
        function.set_section(Some(".text.startup"));
        let [start, head, body, copy, convert, next, done] =
            ["entry", "head", "body", "copy", "convert", "next", "done"]
                .map(|name| self.context.append_basic_block(function, name));

        self.builder.position_at_end(start);
        let (table, first) = self.copy_current(current, old)?;
        let keep = self.variable(&format!("{prefix}.entries"), self.pointer.const_null());
        self.builder.build_store(keep.as_pointer_value(), table)?;
        self.builder.build_unconditional_branch(head)?;

        self.builder.position_at_end(head);
        let (from, to) = (self.builder.build_phi(self.pointer, "from")?, self.builder.build_phi(self.pointer, "to")?);
        let (place, target) = (from.as_basic_value().into_pointer_value(), to.as_basic_value().into_pointer_value());
        let at_end = self.builder.build_int_compare(IntPredicate::EQ, place, old.1.as_pointer_value(), "")?;
        self.builder.build_conditional_branch(at_end, done, body)?;

        self.builder.position_at_end(body);
        let is_current = self.is_current(place)?;
        self.builder.build_conditional_branch(is_current, copy, convert)?;
        let behind_current = self.copy_entry((copy, next), place, target)?;
        let behind_former = self.convert_entry((convert, next), place, target)?;

        self.builder.position_at_end(next);
        let behind = self.builder.build_phi(self.pointer, "behind")?;
        behind.add_incoming(&[(&behind_current, copy), (&behind_former, convert)]);
        let number = self.context.i16_type().const_int(kind, false);
        self.store(target, field::KIND, number)?;
        let next_target = self.advance(target, CURRENT_SIZE)?;
        self.builder.build_unconditional_branch(head)?;
        from.add_incoming(&[(&old.0.as_pointer_value(), start), (&behind.as_basic_value(), next)]);
        to.add_incoming(&[(&first, start), (&next_target, next)]);

        self.builder.position_at_end(done);
        let end = function.get_nth_param(0).expect("one parameter").into_pointer_value();
        self.builder.build_store(end, target)?;
        self.builder.build_return(Some(&table))?;
        Ok(function)
    }

    /// Calls the function, and returns where the table starts and ends.
    pub(super) fn call_join(
        &self,
        join: FunctionValue<'ctx>,
    ) -> Result<(PointerValue<'ctx>, PointerValue<'ctx>), BuilderError> {
        let end = self.builder.build_alloca(self.pointer, "end")?;
        let start = self.builder.build_call(join, &[end.into()], "entries")?;
        let start = start.try_as_basic_value().expect_basic("it returns the table").into_pointer_value();
        let end = self.builder.build_load(self.pointer, end, "entries_end")?.into_pointer_value();
        Ok((start, end))
    }

    /// Allocates the table and copies today's entries. Returns its start, and where the next entry goes.
    fn copy_current(
        &self,
        current: (GlobalValue<'ctx>, GlobalValue<'ctx>),
        old: (GlobalValue<'ctx>, GlobalValue<'ctx>),
    ) -> Result<(PointerValue<'ctx>, PointerValue<'ctx>), BuilderError> {
        let size = |(begin, end): (GlobalValue<'ctx>, GlobalValue<'ctx>)| {
            let begin = self.builder.build_ptr_to_int(begin.as_pointer_value(), self.i64, "")?;
            let end = self.builder.build_ptr_to_int(end.as_pointer_value(), self.i64, "")?;
            self.builder.build_int_sub(end, begin, "size")
        };
        let (copied, converted) = (size(current)?, size(old)?);
        // An entry of 32 bytes becomes one of 56. The table is never empty, for which allocators may return null.
        let twice = self.builder.build_int_add(converted, converted, "")?;
        let all = self.builder.build_int_add(copied, twice, "")?;
        let all = self.builder.build_int_add(all, self.i64.const_int(CURRENT_SIZE, false), "")?;
        let calloc = self.declare("calloc", self.pointer.fn_type(&[self.i64.into(), self.i64.into()], false));
        let one = self.i64.const_int(1, false);
        let table = self.builder.build_call(calloc, &[one.into(), all.into()], "table")?;
        let table = table.try_as_basic_value().expect_basic("it returns memory").into_pointer_value();
        self.builder.build_memcpy(table, 8, current.0.as_pointer_value(), 8, copied)?;
        let first = sys::element(&self.builder, self.context.i8_type(), table, &[copied])?;
        Ok((table, first))
    }

    /// Whether the entry at `place` has today's layout.
    fn is_current(&self, place: PointerValue<'ctx>) -> Result<IntValue<'ctx>, BuilderError> {
        let zero = self.read(place, 0, self.i64)?.into_int_value();
        let version = self.read(place, 8, self.context.i16_type())?.into_int_value();
        let (zero, version) = (self.equals(zero, 0)?, self.equals(version, VERSION)?);
        self.builder.build_and(zero, version, "is_current")
    }

    /// Copies an entry of clang 20. Returns what is behind it.
    fn copy_entry(
        &self,
        (block, next): (BasicBlock<'ctx>, BasicBlock<'ctx>),
        from: PointerValue<'ctx>,
        to: PointerValue<'ctx>,
    ) -> Result<PointerValue<'ctx>, BuilderError> {
        self.builder.position_at_end(block);
        self.builder.build_memcpy(to, 8, from, 1, self.i64.const_int(CURRENT_SIZE, false))?;
        let behind = self.advance(from, CURRENT_SIZE)?;
        self.builder.build_unconditional_branch(next)?;
        Ok(behind)
    }

    /// Converts an entry of clang 15 to 19. Returns what is behind it.
    fn convert_entry(
        &self,
        (block, next): (BasicBlock<'ctx>, BasicBlock<'ctx>),
        from: PointerValue<'ctx>,
        to: PointerValue<'ctx>,
    ) -> Result<PointerValue<'ctx>, BuilderError> {
        self.builder.position_at_end(block);
        self.store(to, field::VERSION, self.context.i16_type().const_int(VERSION, false))?;
        self.store(to, field::ADDRESS, self.read(from, former::ADDRESS, self.pointer)?)?;
        self.store(to, field::NAME, self.read(from, former::NAME, self.pointer)?)?;
        self.store(to, field::SIZE, self.read(from, former::SIZE, self.i64)?)?;
        self.store(to, field::FLAGS, self.read(from, former::FLAGS, self.i32)?)?;
        let data = self.read(from, former::DATA, self.i32)?.into_int_value();
        self.store(to, field::DATA, self.builder.build_int_z_extend(data, self.i64, "data")?)?;
        let behind = self.advance(from, FORMER_SIZE)?;
        self.builder.build_unconditional_branch(next)?;
        Ok(behind)
    }

    /// Loads what is `offset` bytes behind `place`: entries of clang 15 to 20 are not aligned.
    fn read(
        &self,
        place: PointerValue<'ctx>,
        offset: u64,
        kind: impl BasicType<'ctx>,
    ) -> Result<BasicValueEnum<'ctx>, BuilderError> {
        let place = self.advance(place, offset)?;
        let value = self.builder.build_load(kind, place, "")?;
        if let Some(load) = value.as_instruction_value() {
            load.set_alignment(1).expect("a power of two");
        }
        Ok(value)
    }

    /// Stores a field of an entry in the table.
    fn store(&self, entry: PointerValue<'ctx>, field: u32, value: impl BasicValue<'ctx>) -> Result<(), BuilderError> {
        let indices = [self.i32.const_zero(), self.i32.const_int(field.into(), false)];
        let place = sys::element(&self.builder, self.entry, entry, &indices)?;
        self.builder.build_store(place, value).map(drop)
    }

    fn advance(&self, place: PointerValue<'ctx>, bytes: u64) -> Result<PointerValue<'ctx>, BuilderError> {
        sys::element(&self.builder, self.context.i8_type(), place, &[self.i64.const_int(bytes, false)])
    }
}
