//! AMD GPUs: which processors LLVM knows, and their objects.

use std::ffi::{c_char, c_void};

use inkwell::llvm_sys::prelude::LLVMModuleRef;
use inkwell::llvm_sys::target_machine::LLVMTargetMachineRef;
use inkwell::module::Module;
use inkwell::targets::TargetMachine;
use offload_bundle::amdgpu::{PointerCalls, Registers};

use super::constructors::initialize_amdgpu;
use super::{copy_text, take_message};

unsafe extern "C" {
    fn fatlink_called_declarations(
        module: LLVMModuleRef,
        visitor: *mut c_void,
        visit: extern "C" fn(*mut c_void, *const c_char, usize),
    );
    fn fatlink_local_memory_of(
        module: LLVMModuleRef,
        name: *const c_char,
        length: usize,
        visitor: *mut c_void,
        visit: extern "C" fn(*mut c_void, *const c_char, usize),
    );
    fn fatlink_is_amd_processor(name: *const c_char, length: usize) -> bool;
    fn fatlink_use_sections(machine: LLVMTargetMachineRef);
    fn fatlink_emit_amd_object(
        module: LLVMModuleRef,
        machine: LLVMTargetMachineRef,
        is_part: bool,
        registers: *mut i64,
        reader: *mut c_void,
        read: extern "C" fn(*mut c_void, *const c_char, usize),
        visitor: *mut c_void,
        visit: extern "C" fn(*mut c_void, *const c_char, usize, *const i64),
    ) -> *mut c_char;
}

/// Whether LLVM generates code for a processor of that name.
pub(crate) fn is_amd_processor(name: &str) -> bool {
    initialize_amdgpu();
    // SAFETY: the name is that many bytes, alive during the call.
    unsafe { fatlink_is_amd_processor(name.as_ptr().cast(), name.len()) }
}

/// Makes the machine emit each function and variable into a section of its own.
pub(crate) fn use_sections(machine: &TargetMachine) {
    // SAFETY: the machine is alive during the call.
    unsafe { fatlink_use_sections(machine.as_mut_ptr()) }
}

/// Adds a name to a `Vec<String>`.
extern "C" fn add_name(names: *mut c_void, name: *const c_char, length: usize) {
    // SAFETY: the callers below pass a pointer to their list, alive during the visit, and so is the text of that length.
    unsafe { (*names.cast::<Vec<String>>()).push(copy_text(name, length)) };
}

/// The declared functions that the module calls directly, without intrinsics.
pub(crate) fn called_declarations(module: &Module<'_>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    // SAFETY: the module is alive, and `add_name` gets the pointer that it expects.
    unsafe { fatlink_called_declarations(module.as_mut_ptr(), (&raw mut names).cast(), add_name) };
    names
}

/// The variables in local memory that a function of the module uses.
pub(crate) fn local_memory_of(module: &Module<'_>, function: &str) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    // SAFETY: the module is alive, the name is that many bytes, and `add_name` gets the pointer that it expects.
    unsafe {
        let name = function.as_ptr().cast();
        fatlink_local_memory_of(module.as_mut_ptr(), name, function.len(), (&raw mut names).cast(), add_name);
    }
    names
}

/// Emits a relocatable object, and tells what calls through pointers mean for its kernels. The object of a part of a program, and of one with
/// such calls, has the symbols with the registers of its kernels.
pub(crate) fn emit_amd_object(
    module: &Module<'_>,
    machine: &TargetMachine,
    is_part: bool,
) -> Result<(Vec<u8>, PointerCalls), String> {
    extern "C" fn read(object: *mut c_void, bytes: *const c_char, length: usize) {
        // SAFETY: `object` is the one below, which nothing else uses during the call; the bytes are alive during the call.
        unsafe { (*object.cast::<Vec<u8>>()).extend_from_slice(std::slice::from_raw_parts(bytes.cast(), length)) };
    }
    extern "C" fn add(kernels: *mut c_void, name: *const c_char, length: usize, registers: *const i64) {
        // SAFETY: `kernels` is the list below, which nothing else uses during the call; the name and the three numbers, if there are any, are
        // alive during it.
        unsafe {
            let registers = registers.cast::<[i64; 3]>().as_ref().map(|registers| counted(*registers));
            (*kernels.cast::<Vec<(String, Option<Registers>)>>()).push((copy_text(name, length), registers));
        }
    }
    let mut object: Vec<u8> = Vec::new();
    let mut kernels: Vec<(String, Option<Registers>)> = Vec::new();
    let mut registers = [0_i64; 3];
    let (module, machine) = (module.as_mut_ptr(), machine.as_mut_ptr());
    // SAFETY: module and machine are alive, there is room for three numbers, the callbacks fit object and list; a message is ours to free.
    let failure = unsafe {
        let (reader, visitor) = ((&raw mut object).cast(), (&raw mut kernels).cast());
        let registers = registers.as_mut_ptr();
        take_message(fatlink_emit_amd_object(module, machine, is_part, registers, reader, read, visitor, add))
    };
    failure.map_or(Ok((object, PointerCalls { functions: counted(registers), kernels })), Err)
}

fn counted(registers: [i64; 3]) -> Registers {
    let [vgprs, agprs, sgprs] = registers.map(|count| u32::try_from(count).unwrap_or(u32::MAX));
    Registers { vgprs, agprs, sgprs }
}
