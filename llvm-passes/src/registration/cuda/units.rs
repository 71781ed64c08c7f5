//! CUDA with units of nvcc: their registration by one fatbin, in place of what `nvcc -dlink` adds to a program.
//!
//! A constructor of each unit calls `__cudaRegisterLinkedBinary<id>` with its wrapper and with a callback that registers its kernels and
//! variables. All these functions are one. It collects the units, and after the last one it registers the linked fatbin, runs the
//! callbacks with its handle, and registers the entries of clang's units with the same handle. The wrapper of the linked fatbin is of
//! version 2: it also points at the prelinked fatbins, those of all units, which the driver links again for GPUs that the linked one
//! has nothing for. Clang's units have one there together.
//!
//! How many units there are is known at run time alone: the host linker may leave archive members out. The table `.cuda.units`
//! refers to the record of each weakly, so that it pulls no member into the link, and counts those that are there. A record is there if
//! and only if the constructor that calls is: both are in the object, and linkers never discard `.init_array`, from which the
//! constructor leads to the record. The references are hidden: the record of the same unit in a shared library is another.

use std::ffi::CString;

use inkwell::builder::BuilderError;
use inkwell::module::Linkage;
use inkwell::values::{FunctionValue, GlobalValue, IntValue, PointerValue};
use inkwell::{GlobalVisibility, IntPredicate};
use offload_bundle::host_object::{CLANG_ID_PREFIX, REGISTER_PREFIX, WRAPPER_PREFIX};

use super::super::Slot;
use super::{Code, CudaRegistration, LINKED, RUNTIME, WHOLE, WRAPPER_SECTION};
use crate::sys;

/// Where nvcc's objects have their fatbins, of which clang's PTX is one.
const PTX_SLOT: Slot = Slot { section: "__nv_relfatbin", symbol: ".cuda.linked_ptx" };

/// Where the ids of units are recorded: those of objects, and behind `def ` those that a device link registers.
pub(super) const MODULE_IDS: &str = "__nv_module_id";

const POINTER_SIZE: u64 = 8;
/// Where a wrapper has the pointer to its fatbin.
const WRAPPER_DATA: u64 = 8;

/// One fatbin for units of nvcc, and for those of clang if there are any.
///
/// It registers when the constructor of the last unit of nvcc that is in the program has run. Like in programs that nvcc links, these
/// constructors have the default priority, so that kernels cannot be launched from constructors that run before. If no unit of nvcc is
/// in the program, clang's are registered before all constructors of the default priority, as [`Cuda`](super::Cuda) does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CudaUnits<'a> {
    /// The ids of the units of this device link whose `__cudaRegisterLinkedBinary<id>` nothing else defines.
    pub ids: &'a [String],
    /// The id of NVIDIA's device runtime, if kernels call it: one more unit, which the object extracts from its archive.
    pub device_runtime: Option<&'a str>,
    /// Whether units of clang are linked with them.
    pub clang: ClangUnits<'a>,
}

/// The units of clang in a device link with units of nvcc.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClangUnits<'a> {
    /// There are none, and the offload entries of the program belong to other device links.
    None,
    /// Their offload entries are registered with the fatbin.
    Linked {
        /// A fatbin with the PTX of all of them, from which the driver can link the program again.
        ptx: Option<&'a [u8]>,
    },
}

impl CudaUnits<'_> {
    /// The id of clang's units together. With PTX they are one more of the prelinked fatbins.
    fn clang_id(&self) -> Option<String> {
        let first = self.ids.first().map_or("", String::as_str);
        matches!(self.clang, ClangUnits::Linked { .. }).then(|| format!("{CLANG_ID_PREFIX}{first}"))
    }

    /// The same if they have PTX.
    fn ptx_id(&self) -> Option<String> {
        self.second_image().and_then(|_| self.clang_id())
    }

    /// The ids of all units whose constructors call.
    fn calling(&self) -> impl Iterator<Item = &str> {
        self.ids.iter().map(String::as_str).chain(self.device_runtime)
    }

    /// The text of this object's section `__nv_module_id`.
    fn module_ids(&self) -> Vec<u8> {
        let own = self.ptx_id().into_iter().map(|id| format!("{id}\0"));
        let registered = self.calling().map(str::to_owned).chain(self.clang_id()).map(|id| format!("def {id}\0"));
        own.chain(registered).collect::<String>().into_bytes()
    }
}

impl CudaRegistration for CudaUnits<'_> {
    fn second_image(&self) -> Option<(Slot, &[u8])> {
        match self.clang {
            ClangUnits::Linked { ptx: Some(ptx) } => Some((PTX_SLOT, ptx)),
            _ => None,
        }
    }

    fn generate(&self, code: &Code<'_, '_>) -> Result<(), BuilderError> {
        let ptx_id = self.ptx_id();
        let tables = Tables::new(code, self, ptx_id.as_deref());
        let wrapper = code.fatbin_wrapper(LINKED, tables.prelinked.as_pointer_value());
        let mut parts = vec![code.run_callbacks(&tables)?];
        if self.clang != ClangUnits::None {
            parts.push(code.register_entries(&RUNTIME, &code.entries(&RUNTIME)?)?);
        }
        let binary = code.declare_binary(&RUNTIME);
        code.define_binary(&RUNTIME, &binary, wrapper, &parts)?;
        let register = binary.register;
        let count = code.count_units(&tables)?;
        let register_unit = code.register_unit(&tables, count, register)?;
        for id in self.calling().chain(ptx_id.as_deref()) {
            let name = format!("{REGISTER_PREFIX}{id}\0");
            // An id was read as the end of a symbol's name, which has no NUL.
            let name = CString::from_vec_with_nul(name.into_bytes()).expect("no NUL inside");
            sys::add_hidden_alias(code.module, &name, register_unit);
        }
        if self.clang != ClangUnits::None {
            code.add_constructor(code.register_without_units(count, register)?);
        }
        Ok(())
    }
}

/// What the code works on.
struct Tables<'ctx> {
    /// How many units there may be.
    size: u64,
    /// The records of the units, of which some are null, and behind them the ids.
    units: GlobalValue<'ctx>,
    /// The prelinked fatbins, with a null at the end: that of clang's units, then those of the units that called.
    prelinked: GlobalValue<'ctx>,
    /// How many of them are there from the start.
    first: u64,
    /// The callbacks of the units that called.
    callbacks: GlobalValue<'ctx>,
    /// How many called.
    called: GlobalValue<'ctx>,
    /// How many will call, once the first has.
    total: GlobalValue<'ctx>,
}

impl<'ctx> Tables<'ctx> {
    fn new(code: &Code<'_, 'ctx>, units: &CudaUnits<'_>, ptx_id: Option<&str>) -> Self {
        let null = code.pointer.const_null();
        let size = units.calling().count();
        let ptx = ptx_id.map(|id| code.add_ptx(id));
        let first = usize::from(ptx.is_some());
        let mut prelinked: Vec<PointerValue<'ctx>> = ptx.into_iter().map(GlobalValue::as_pointer_value).collect();
        prelinked.resize(first + size + 1, null);
        let prelinked = code.variable(".cuda.prelinked_fatbins", code.pointer.const_array(&prelinked));
        let callbacks = code.variable(".cuda.unit_callbacks", code.pointer.const_array(&vec![null; size]));
        let zero = code.i64.const_zero();
        Tables {
            size: size as u64,
            units: code.unit_table(units),
            prelinked,
            first: first as u64,
            callbacks,
            called: code.variable(".cuda.units_called", zero),
            total: code.variable(".cuda.units_total", zero),
        }
    }
}

impl<'ctx> Code<'_, 'ctx> {
    /// Adds the slot for the PTX of clang's units, with a record as units of nvcc have one.
    fn add_ptx(&self, id: &str) -> GlobalValue<'ctx> {
        let image = self.empty(PTX_SLOT);
        let record = self.record(WHOLE, image, self.pointer.const_null());
        let record = self.constant(&format!("{WRAPPER_PREFIX}{id}"), record, WRAPPER_SECTION);
        record.set_linkage(Linkage::External);
        record.set_visibility(GlobalVisibility::Hidden);
        image
    }

    /// References to the records of all units, weak unless they are to extract the unit. The last element keeps the ids in the
    /// program.
    fn unit_table(&self, units: &CudaUnits<'_>) -> GlobalValue<'ctx> {
        let ids = self.context.const_string(&units.module_ids(), false);
        let ids = self.constant(".cuda.unit_ids", ids, MODULE_IDS);
        ids.set_alignment(1);
        let record = |id: &str| {
            let record = self.module.add_global(self.context.i8_type(), None, &format!("{WRAPPER_PREFIX}{id}"));
            let is_extracted = units.device_runtime == Some(id);
            record.set_linkage(if is_extracted { Linkage::External } else { Linkage::ExternalWeak });
            record.set_visibility(GlobalVisibility::Hidden);
            record.as_pointer_value()
        };
        let mut pointers: Vec<PointerValue<'ctx>> = units.calling().map(record).collect();
        pointers.push(ids.as_pointer_value());
        let table = self.variable(".cuda.units", self.pointer.const_array(&pointers));
        table.set_constant(true);
        table
    }

    /// `.cuda.units_reg(handle)`: runs the callbacks of all units that called.
    fn run_callbacks(&self, tables: &Tables<'ctx>) -> Result<FunctionValue<'ctx>, BuilderError> {
        let pointer = [self.pointer.into()];
        let function = self.startup_function(".cuda.units_reg", &pointer);
        let handle = function.get_nth_param(0).expect("one parameter").into_pointer_value();
        let [start, body, done] =
            ["entry", "while.entry", "while.end"].map(|name| self.context.append_basic_block(function, name));
        let zero = self.i64.const_zero();

        self.builder.position_at_end(start);
        let called = self.builder.build_load(self.i64, tables.called.as_pointer_value(), "called")?.into_int_value();
        let none = self.equals(called, 0)?;
        self.builder.build_conditional_branch(none, done, body)?;

        self.builder.position_at_end(body);
        let index = self.builder.build_phi(self.i64, "index")?;
        let at = index.as_basic_value().into_int_value();
        let callback = self.builder.build_load(self.pointer, self.element(tables.callbacks, at)?, "callback")?;
        let signature = self.context.void_type().fn_type(&pointer, false);
        self.builder.build_indirect_call(signature, callback.into_pointer_value(), &[handle.into()], "")?;
        let next = self.next(at)?;
        let more = self.builder.build_int_compare(IntPredicate::ULT, next, called, "")?;
        self.builder.build_conditional_branch(more, body, done)?;
        index.add_incoming(&[(&zero, start), (&next, body)]);

        self.builder.position_at_end(done);
        self.builder.build_return(None)?;
        Ok(function)
    }

    /// `.cuda.units_count()`: how many units the host linker took.
    fn count_units(&self, tables: &Tables<'ctx>) -> Result<FunctionValue<'ctx>, BuilderError> {
        let function = self.module.add_function(".cuda.units_count", self.i64.fn_type(&[], false), None);
        function.set_linkage(Linkage::Internal);
        function.set_section(Some(".text.startup"));
        let [start, body, done] =
            ["entry", "while.entry", "while.end"].map(|name| self.context.append_basic_block(function, name));
        let zero = self.i64.const_zero();

        self.builder.position_at_end(start);
        let any = self.context.bool_type().const_int(u64::from(tables.size > 0), false);
        self.builder.build_conditional_branch(any, body, done)?;

        self.builder.position_at_end(body);
        let (index, count) = (self.builder.build_phi(self.i64, "index")?, self.builder.build_phi(self.i64, "count")?);
        let at = index.as_basic_value().into_int_value();
        let record = self.builder.build_load(self.pointer, self.element(tables.units, at)?, "record")?;
        let is_there = self.builder.build_is_not_null(record.into_pointer_value(), "")?;
        let one = self.builder.build_int_z_extend(is_there, self.i64, "")?;
        let counted = self.builder.build_int_add(count.as_basic_value().into_int_value(), one, "")?;
        let next = self.next(at)?;
        let all = self.equals(next, tables.size)?;
        self.builder.build_conditional_branch(all, done, body)?;
        index.add_incoming(&[(&zero, start), (&next, body)]);
        count.add_incoming(&[(&zero, start), (&counted, body)]);

        self.builder.position_at_end(done);
        let total = self.builder.build_phi(self.i64, "total")?;
        total.add_incoming(&[(&zero, start), (&counted, body)]);
        self.builder.build_return(Some(&total.as_basic_value()))?;
        Ok(function)
    }

    /// `.cuda.unit_reg(callback, wrapper, id, keep)`, which is `__cudaRegisterLinkedBinary<id>` of every unit.
    ///
    /// More calls than there are units come from a program that has a unit twice, by `--allow-multiple-definition`.
    fn register_unit(
        &self,
        tables: &Tables<'ctx>,
        count: FunctionValue<'ctx>,
        register: FunctionValue<'ctx>,
    ) -> Result<FunctionValue<'ctx>, BuilderError> {
        let function = self.startup_function(".cuda.unit_reg", &[self.pointer.into(); 4]);
        let parameter = |index| function.get_nth_param(index).expect("four parameters").into_pointer_value();
        let (callback, wrapper) = (parameter(0), parameter(1));
        let [start, first, check, add, last, done] =
            ["entry", "if.first", "if.expected", "if.unit", "if.last", "if.end"]
                .map(|name| self.context.append_basic_block(function, name));
        let (called_at, total_at) = (tables.called.as_pointer_value(), tables.total.as_pointer_value());

        self.builder.position_at_end(start);
        let called = self.builder.build_load(self.i64, called_at, "called")?.into_int_value();
        let is_first = self.equals(called, 0)?;
        self.builder.build_conditional_branch(is_first, first, check)?;

        self.builder.position_at_end(first);
        let counted = self.builder.build_call(count, &[], "")?.try_as_basic_value().expect_basic("it returns a number");
        self.builder.build_store(total_at, counted)?;
        self.builder.build_unconditional_branch(check)?;

        self.builder.position_at_end(check);
        let total = self.builder.build_load(self.i64, total_at, "total")?.into_int_value();
        let expected = self.builder.build_int_compare(IntPredicate::ULT, called, total, "")?;
        self.builder.build_conditional_branch(expected, add, done)?;

        self.builder.position_at_end(add);
        let data = self.builder.build_int_add(self.address(wrapper)?, self.i64.const_int(WRAPPER_DATA, false), "")?;
        let data = self.builder.build_int_to_ptr(data, self.pointer, "")?;
        let fatbin = self.builder.build_load(self.pointer, data, "fatbin")?;
        let behind = self.builder.build_int_add(called, self.i64.const_int(tables.first, false), "")?;
        self.builder.build_store(self.element(tables.prelinked, behind)?, fatbin)?;
        self.builder.build_store(self.element(tables.callbacks, called)?, callback)?;
        let next = self.next(called)?;
        self.builder.build_store(called_at, next)?;
        let is_last = self.builder.build_int_compare(IntPredicate::EQ, next, total, "")?;
        self.builder.build_conditional_branch(is_last, last, done)?;

        self.builder.position_at_end(last);
        self.builder.build_call(register, &[], "")?;
        self.builder.build_unconditional_branch(done)?;

        self.builder.position_at_end(done);
        self.builder.build_return(None)?;
        Ok(function)
    }

    /// `.cuda.clang_reg()`, the constructor: registers clang's units if no unit of nvcc will.
    fn register_without_units(
        &self,
        count: FunctionValue<'ctx>,
        register: FunctionValue<'ctx>,
    ) -> Result<FunctionValue<'ctx>, BuilderError> {
        let function = self.startup_function(".cuda.clang_reg", &[]);
        let [start, none, done] =
            ["entry", "if.none", "if.end"].map(|name| self.context.append_basic_block(function, name));
        self.builder.position_at_end(start);
        let counted = self.builder.build_call(count, &[], "")?.try_as_basic_value().expect_basic("it returns a number");
        let is_none = self.equals(counted.into_int_value(), 0)?;
        self.builder.build_conditional_branch(is_none, none, done)?;
        self.builder.position_at_end(none);
        self.builder.build_call(register, &[], "")?;
        self.builder.build_unconditional_branch(done)?;
        self.builder.position_at_end(done);
        self.builder.build_return(None)?;
        Ok(function)
    }

    /// The address of an element of a table of pointers.
    fn element(&self, table: GlobalValue<'ctx>, index: IntValue<'ctx>) -> Result<PointerValue<'ctx>, BuilderError> {
        let bytes = self.builder.build_int_mul(index, self.i64.const_int(POINTER_SIZE, false), "")?;
        let address = self.builder.build_int_add(self.address(table.as_pointer_value())?, bytes, "")?;
        self.builder.build_int_to_ptr(address, self.pointer, "")
    }

    fn next(&self, index: IntValue<'ctx>) -> Result<IntValue<'ctx>, BuilderError> {
        self.builder.build_int_add(index, self.i64.const_int(1, false), "")
    }
}

#[cfg(test)]
#[path = "units_tests.rs"]
mod tests;
