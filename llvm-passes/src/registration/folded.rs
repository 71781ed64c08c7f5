//! Kernels that are not in an image, since others that are equal stand for them: at start-up the stub of each is registered under the name of
//! the kernel that stands for it.

use std::collections::BTreeMap;

use inkwell::IntPredicate;
use inkwell::builder::BuilderError;
use inkwell::module::Linkage;
use inkwell::types::BasicMetadataTypeEnum;
use inkwell::values::{BasicMetadataValueEnum, FunctionValue, PointerValue};

use super::common::{RegistrationModule, Runtime};
use crate::sys;

impl<'ctx> RegistrationModule<'_, 'ctx> {
    /// Defines a function that registers a kernel as the one that stands for it, and returns a runtime that calls it. `register` is the
    /// function's name.
    pub(super) fn with_folded(
        &self,
        runtime: &Runtime,
        register: &'static str,
        folded: &BTreeMap<String, String>,
    ) -> Result<Runtime, BuilderError> {
        self.define_register(runtime, register, folded)?;
        Ok(Runtime { kernel: register, ..*runtime })
    }

    /// `register(handle, stub, name, name, …)`: as the runtime's function, with the name of the kernel that stands for
    /// this one. Both names come from a table that is sorted by the first, as `strcmp` sorts.
    fn define_register(
        &self,
        runtime: &Runtime,
        register: &str,
        folded: &BTreeMap<String, String>,
    ) -> Result<(), BuilderError> {
        let (p, i32): (BasicMetadataTypeEnum<'ctx>, BasicMetadataTypeEnum<'ctx>) =
            (self.pointer.into(), self.i32.into());
        let signature = self.i32.fn_type(&[p, p, p, p, i32, p, p, p, p, p], false);
        let function = self.module.add_function(register, signature, Some(Linkage::Internal));
        function.set_section(Some(".text.startup"));
        let [entry, head, look, other, found, last] = ["entry", "head", "look", "other", "found", "register"]
            .map(|name| self.context.append_basic_block(function, name));
        let row = self.context.struct_type(&[self.pointer.into(), self.pointer.into()], false);
        let table = self.name_table(runtime.prefix, folded);
        let own = function.get_nth_param(2).expect("a name").into_pointer_value();

        self.builder.position_at_end(entry);
        self.builder.build_unconditional_branch(head)?;

        self.builder.position_at_end(head);
        let (low, high) = (self.builder.build_phi(self.i64, "low")?, self.builder.build_phi(self.i64, "high")?);
        let (from, to) = (low.as_basic_value().into_int_value(), high.as_basic_value().into_int_value());
        let any = self.builder.build_int_compare(IntPredicate::ULT, from, to, "any")?;
        self.builder.build_conditional_branch(any, look, last)?;

        self.builder.position_at_end(look);
        let one = self.i64.const_int(1, false);
        let sum = self.builder.build_int_add(from, to, "sum")?;
        let middle = self.builder.build_right_shift(sum, one, false, "middle")?;
        let place = sys::element(&self.builder, row, table, &[middle])?;
        let name = self.builder.build_load(self.pointer, place, "name")?;
        let compare = self.declare("strcmp", self.i32.fn_type(&[p, p], false));
        let order = self.builder.build_call(compare, &[name.into(), own.into()], "order")?;
        let order = order.try_as_basic_value().expect_basic("it returns a number").into_int_value();
        let same = self.equals(order, 0)?;
        self.builder.build_conditional_branch(same, found, other)?;

        self.builder.position_at_end(other);
        let less = self.builder.build_int_compare(IntPredicate::SLT, order, self.i32.const_zero(), "less")?;
        let behind = self.builder.build_int_add(middle, one, "behind")?;
        let next_low = self.builder.build_select(less, behind, from, "low")?;
        let next_high = self.builder.build_select(less, to, middle, "high")?;
        self.builder.build_unconditional_branch(head)?;
        let count = self.i64.const_int(folded.len() as u64, false);
        low.add_incoming(&[(&self.i64.const_zero(), entry), (&next_low, other)]);
        high.add_incoming(&[(&count, entry), (&next_high, other)]);

        self.builder.position_at_end(found);
        let second = [self.i32.const_zero(), self.i32.const_int(1, false)];
        let equal = sys::element(&self.builder, row, place, &second)?;
        let equal = self.builder.build_load(self.pointer, equal, "equal")?;
        self.builder.build_unconditional_branch(last)?;

        self.builder.position_at_end(last);
        let name = self.builder.build_phi(self.pointer, "name")?;
        name.add_incoming(&[(&own, head), (&equal, found)]);
        let name = name.as_basic_value().into();
        self.forward(runtime, function, name)
    }

    /// Ends a function with a call of the runtime's, with the same arguments but for the names.
    fn forward(
        &self,
        runtime: &Runtime,
        function: FunctionValue<'ctx>,
        name: BasicMetadataValueEnum<'ctx>,
    ) -> Result<(), BuilderError> {
        let mut arguments: Vec<BasicMetadataValueEnum<'ctx>> =
            function.get_param_iter().map(BasicMetadataValueEnum::from).collect();
        arguments[2] = name;
        arguments[3] = name;
        let own = self.declare(runtime.kernel, function.get_type());
        let result = self.builder.build_call(own, &arguments, "")?;
        let result = result.try_as_basic_value().expect_basic("it returns a number");
        self.builder.build_return(Some(&result))?;
        Ok(())
    }

    /// The table of names.
    fn name_table(&self, prefix: &str, folded: &BTreeMap<String, String>) -> PointerValue<'ctx> {
        let text = |name: &str| {
            let text =
                self.variable(&format!("{prefix}.kernel_name"), self.context.const_string(name.as_bytes(), true));
            text.set_constant(true);
            text.as_pointer_value()
        };
        let rows: Vec<_> = folded
            .iter()
            .map(|(kernel, equal)| self.context.const_struct(&[text(kernel).into(), text(equal).into()], false))
            .collect();
        let row = self.context.struct_type(&[self.pointer.into(), self.pointer.into()], false);
        let table = self.variable(&format!("{prefix}.folded_kernels"), row.const_array(&rows));
        table.set_constant(true);
        table.as_pointer_value()
    }
}
