//! Registers the kernels and variables of clang's units: a walk over the offload entries of the program.

use inkwell::IntPredicate;
use inkwell::basic_block::BasicBlock;
use inkwell::builder::BuilderError;
use inkwell::types::{BasicMetadataTypeEnum, BasicType};
use inkwell::values::{BasicMetadataValueEnum, BasicValueEnum, FunctionValue, IntValue, PointerValue};

use super::super::common::{field, flag};
use super::{Code, RUNTIME};

/// The kind of `__tgt_offload_entry`, and the types of variables in its flags.
const KIND_CUDA: u64 = 2;
const TYPE_VARIABLE: u64 = 0;
const TYPE_MANAGED: u64 = 1;

/// Bytes of one `__tgt_offload_entry`.
const ENTRY_SIZE: u64 = 56;

impl<'ctx> Code<'_, 'ctx> {
    /// `.cuda.globals_reg(handle)`: walks all entries of the program and registers those of CUDA.
    pub(super) fn register_globals(&self) -> Result<FunctionValue<'ctx>, BuilderError> {
        let (begin, end) = self.entry_bounds();
        let (begin, end) = (begin.as_pointer_value(), end.as_pointer_value());
        let function = self.startup_function(".cuda.globals_reg", &[self.pointer.into()]);
        let block = |name| self.context.append_basic_block(function, name);
        let [start, body, kernel_or_variable, kernel, variable, plain, managed, next, done] = [
            "entry",
            "while.entry",
            "if.kind",
            "if.kernel",
            "if.global",
            "sw.global",
            "sw.managed",
            "if.end",
            "while.end",
        ]
        .map(block);

        self.builder.position_at_end(start);
        let any = self.builder.build_int_compare(IntPredicate::NE, self.address(begin)?, self.address(end)?, "")?;
        self.builder.build_conditional_branch(any, body, done)?;

        self.builder.position_at_end(body);
        let current = self.builder.build_phi(self.pointer, "entry1")?;
        let entry = current.as_basic_value().into_pointer_value();
        let kind = self.load(entry, field::KIND, self.context.i16_type())?.into_int_value();
        let ours = self.equals(kind, KIND_CUDA)?;
        self.builder.build_conditional_branch(ours, kernel_or_variable, next)?;

        self.builder.position_at_end(kernel_or_variable);
        let size = self.load(entry, field::SIZE, self.i64)?.into_int_value();
        let is_kernel = self.equals(size, 0)?;
        self.builder.build_conditional_branch(is_kernel, kernel, variable)?;

        let handle = function.get_nth_param(0).expect("one parameter").into_pointer_value();
        self.builder.position_at_end(kernel);
        let name = self.load(entry, field::NAME, self.pointer)?.into();
        let stub = self.load(entry, field::ADDRESS, self.pointer)?.into();
        self.register_kernel(&RUNTIME, handle, stub, name)?;
        self.builder.build_unconditional_branch(next)?;
        self.register_variable(variable, (plain, managed), handle, entry, next)?;

        self.builder.position_at_end(next);
        let following = self.step(entry)?;
        let more =
            self.builder.build_int_compare(IntPredicate::NE, self.address(following)?, self.address(end)?, "")?;
        self.builder.build_conditional_branch(more, body, done)?;
        current.add_incoming(&[(&begin, start), (&following, next)]);

        self.builder.position_at_end(done);
        self.builder.build_return(None)?;
        Ok(function)
    }

    /// `__cudaRegisterVar` and `__cudaRegisterManagedVar`. Surfaces and textures are not registered,
    /// as in clang-linker-wrapper: CUDA 12 removed their references.
    fn register_variable(
        &self,
        block: BasicBlock<'ctx>,
        (plain, managed): (BasicBlock<'ctx>, BasicBlock<'ctx>),
        handle: PointerValue<'ctx>,
        entry: PointerValue<'ctx>,
        next: BasicBlock<'ctx>,
    ) -> Result<(), BuilderError> {
        self.builder.position_at_end(block);
        let flags = self.load(entry, field::FLAGS, self.i32)?.into_int_value();
        let kind = self.builder.build_and(flags, self.i32.const_int(flag::TYPE, false), "type")?;
        let address: BasicMetadataValueEnum<'ctx> = self.load(entry, field::ADDRESS, self.pointer)?.into();
        let name: BasicMetadataValueEnum<'ctx> = self.load(entry, field::NAME, self.pointer)?.into();
        let size: BasicMetadataValueEnum<'ctx> = self.load(entry, field::SIZE, self.i64)?.into();
        let cases =
            [(self.i32.const_int(TYPE_VARIABLE, false), plain), (self.i32.const_int(TYPE_MANAGED, false), managed)];
        self.builder.build_switch(kind, next, &cases)?;

        let (p, i32, i64): (BasicMetadataTypeEnum<'ctx>, _, _) =
            (self.pointer.into(), self.i32.into(), self.i64.into());
        let void = self.context.void_type();
        self.builder.position_at_end(plain);
        let external = self.flag(flags, flag::EXTERN, "")?;
        let constant = self.flag(flags, flag::CONSTANT, "")?;
        let signature = void.fn_type(&[p, p, p, p, i32, i64, i32, i32], false);
        let zero = self.i32.const_zero().into();
        let arguments = [handle.into(), address, name, name, external, size, constant, zero];
        self.call("__cudaRegisterVar", signature, &arguments)?;
        self.builder.build_unconditional_branch(next)?;

        self.builder.position_at_end(managed);
        let alignment = self.load(entry, field::DATA, self.i64)?.into_int_value();
        let alignment = self.builder.build_int_truncate(alignment, self.i32, "align")?;
        let storage = self.load(entry, field::AUX, self.pointer)?.into();
        let signature = void.fn_type(&[p, p, p, p, i64, i32], false);
        let arguments = [handle.into(), storage, address, name, size, alignment.into()];
        self.call("__cudaRegisterManagedVar", signature, &arguments)?;
        self.builder.build_unconditional_branch(next)?;
        Ok(())
    }

    fn load(
        &self,
        entry: PointerValue<'ctx>,
        field: u32,
        kind: impl BasicType<'ctx>,
    ) -> Result<BasicValueEnum<'ctx>, BuilderError> {
        let place = self.builder.build_struct_gep(self.entry, entry, field, "")?;
        self.builder.build_load(kind, place, "")
    }

    /// The entry behind this one.
    fn step(&self, entry: PointerValue<'ctx>) -> Result<PointerValue<'ctx>, BuilderError> {
        let bytes = self.i64.const_int(ENTRY_SIZE, false);
        let address = self.builder.build_int_add(self.address(entry)?, bytes, "")?;
        self.builder.build_int_to_ptr(address, self.pointer, "")
    }

    pub(super) fn address(&self, pointer: PointerValue<'ctx>) -> Result<IntValue<'ctx>, BuilderError> {
        self.builder.build_ptr_to_int(pointer, self.i64, "")
    }
}
