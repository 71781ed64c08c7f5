//! The few LLVM-C calls that inkwell lacks. All `unsafe` of this crate is here.
#![allow(unsafe_code)]

pub(crate) mod owned_module;
pub(crate) mod owned_program;

use std::ffi::{CStr, CString, c_char, c_void};
use std::ptr;
use std::sync::{Mutex, Once, OnceLock};

use inkwell::context::{AsContextRef, Context};
use inkwell::llvm_sys::core as llvm;
use inkwell::llvm_sys::prelude::{LLVMDiagnosticInfoRef, LLVMMemoryBufferRef, LLVMModuleRef, LLVMValueRef};
use inkwell::llvm_sys::{LLVMDiagnosticSeverity, LLVMOpcode, bit_reader, error_handling, linker};
use inkwell::memory_buffer::MemoryBuffer;
use inkwell::module::Module;
use inkwell::targets::{InitializationConfig, Target};
use inkwell::values::{AsValueRef, FunctionValue, GlobalValue, PointerValue};

use crate::module_flags::DebugKind;
use crate::session::Warning;

/// One message of LLVM.
#[derive(Debug, Clone)]
pub(crate) struct Diagnostic {
    pub(crate) is_error: bool,
    pub(crate) is_warning: bool,
    /// As LLVM says it, with the place in it.
    pub(crate) message: String,
    /// The same, in parts.
    pub(crate) parts: Warning,
}

/// Where a context's diagnostics go. It must live as long as the context, at one address.
pub(crate) type DiagnosticSink = Mutex<Vec<Diagnostic>>;

/// Makes the targets known. Cheap to call again.
pub fn initialize() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let config = InitializationConfig { asm_parser: false, disassembler: false, ..Default::default() };
        Target::initialize_nvptx(&InitializationConfig { machine_code: true, ..config });
        // The registration object is host code, and OpenMP device code may be, with inline assembly in it.
        Target::initialize_x86(&InitializationConfig { disassembler: false, ..Default::default() });
    });
}

/// Mirrored in sys.cpp.
#[repr(C)]
struct RawPlace {
    function: *mut c_char,
    place: *mut c_char,
    prefix: *mut c_char,
}

unsafe extern "C" {
    fn fatlink_parse_llvm_options(count: i32, words: *const *const c_char) -> bool;
    fn fatlink_place_of(info: LLVMDiagnosticInfoRef, place: *mut RawPlace);
    fn fatlink_debug_information(module: LLVMModuleRef) -> i32;
    fn fatlink_set_module_flag(module: LLVMModuleRef, name: *const c_char, length: usize, value: u32);
}

/// Hands LLVM's own command line to it (`-mllvm`). Its options are global to the process: call this
/// once, before any thread. `false`: LLVM has said on stderr what is wrong with them.
pub fn parse_llvm_options(program: &str, options: &[String]) -> bool {
    let words: Vec<CString> = std::iter::once(program)
        .chain(options.iter().map(String::as_str))
        .filter_map(|word| CString::new(word).ok())
        .collect();
    let pointers: Vec<*const c_char> = words.iter().map(|word| word.as_ptr()).collect();
    // SAFETY: `pointers` holds that many C strings, alive over the call.
    unsafe { fatlink_parse_llvm_options(pointers.len() as i32, pointers.as_ptr()) }
}

static FATAL: OnceLock<fn(&str)> = OnceLock::new();

/// Sets what runs when LLVM gives up ("Cannot select", out of registers): `report` gets the reason
/// and should clean up and exit. If it returns, LLVM aborts the process.
pub fn on_fatal_error(report: fn(&str)) {
    if FATAL.set(report).is_ok() {
        // SAFETY: the handler is a plain function that lives forever.
        unsafe { error_handling::LLVMInstallFatalErrorHandler(Some(fatal)) };
    }
}

extern "C" fn fatal(reason: *const c_char) {
    // SAFETY: LLVM passes a C string that lives over the call.
    let reason = unsafe { CStr::from_ptr(reason) }.to_string_lossy();
    if let Some(report) = FATAL.get() {
        report(&reason);
    }
}

/// Sends every diagnostic of the context to `sink`.
pub(crate) fn collect_diagnostics(context: &Context, sink: &DiagnosticSink) {
    let sink: *const DiagnosticSink = sink;
    // SAFETY: Session keeps `sink` boxed and drops the context before it.
    unsafe { llvm::LLVMContextSetDiagnosticHandler(context.as_ctx_ref(), Some(record), sink as *mut c_void) };
}

extern "C" fn record(info: LLVMDiagnosticInfoRef, sink: *mut c_void) {
    // SAFETY: `sink` is the pointer given to LLVMContextSetDiagnosticHandler; the description is a
    // fresh C string that is ours.
    let (sink, severity, message) = unsafe {
        let message = owned(llvm::LLVMGetDiagInfoDescription(info)).unwrap_or_default();
        (&*(sink as *const DiagnosticSink), llvm::LLVMGetDiagInfoSeverity(info), message)
    };
    let diagnostic = Diagnostic {
        is_error: matches!(severity, LLVMDiagnosticSeverity::LLVMDSError),
        is_warning: matches!(severity, LLVMDiagnosticSeverity::LLVMDSWarning),
        parts: parts_of(info, &message),
        message,
    };
    if let Ok(mut list) = sink.lock() {
        list.push(diagnostic);
    }
}

/// The text without its place, the function, and the place.
fn parts_of(info: LLVMDiagnosticInfoRef, message: &str) -> Warning {
    let mut raw = RawPlace { function: ptr::null_mut(), place: ptr::null_mut(), prefix: ptr::null_mut() };
    // SAFETY: the diagnostic is alive; all texts are fresh C strings or null, and ours.
    let (function, place, prefix) = unsafe {
        fatlink_place_of(info, &mut raw);
        (owned(raw.function), owned(raw.place), owned(raw.prefix))
    };
    let text = message.strip_prefix(&prefix.unwrap_or_default()).unwrap_or(message).trim_end();
    Warning { text: text.to_owned(), function, place }
}

/// SAFETY: `text` must be null or a C string that LLVMDisposeMessage may free.
unsafe fn owned(text: *mut c_char) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: by the contract above.
    unsafe {
        let copy = CStr::from_ptr(text).to_string_lossy().into_owned();
        llvm::LLVMDisposeMessage(text);
        Some(copy)
    }
}

/// Merges `source` into `destination`. `Err(())`: the context's sink says why.
pub(crate) fn link_modules(destination: &Module<'_>, source: Module<'_>) -> Result<(), ()> {
    let raw = source.as_mut_ptr();
    std::mem::forget(source);
    // SAFETY: both modules live in one context, and LLVM takes `source` over in any case.
    match unsafe { linker::LLVMLinkModules2(destination.as_mut_ptr(), raw) } {
        0 => Ok(()),
        _ => Err(()),
    }
}

/// Reads a module whose function bodies are loaded when they are first needed. `Err(())`: see the sink.
pub(crate) fn read_lazily<'ctx>(context: &'ctx Context, buffer: MemoryBuffer<'_>) -> Result<Module<'ctx>, ()> {
    let raw: LLVMMemoryBufferRef = buffer.as_mut_ptr();
    let mut module: LLVMModuleRef = ptr::null_mut();
    // SAFETY: on success the module owns the buffer, so it is forgotten here; on failure it stays ours.
    unsafe {
        if bit_reader::LLVMGetBitcodeModuleInContext2(context.as_ctx_ref(), raw, &mut module) != 0 {
            return Err(());
        }
        std::mem::forget(buffer);
        Ok(Module::new(module))
    }
}

/// A global alias or ifunc of a module: what inkwell does not list.
#[derive(Clone, Copy)]
pub(crate) struct Indirect(LLVMValueRef);

impl Indirect {
    pub(crate) fn name(self) -> String {
        let mut length = 0;
        // SAFETY: the value is a global of a live module; the name is `length` bytes.
        unsafe {
            let name = llvm::LLVMGetValueName2(self.0, &mut length);
            String::from_utf8_lossy(std::slice::from_raw_parts(name.cast(), length)).into_owned()
        }
    }

    pub(crate) fn linkage(self) -> inkwell::llvm_sys::LLVMLinkage {
        // SAFETY: as above.
        unsafe { llvm::LLVMGetLinkage(self.0) }
    }

    pub(crate) fn make_internal(self) {
        // SAFETY: as above.
        unsafe { llvm::LLVMSetLinkage(self.0, inkwell::llvm_sys::LLVMLinkage::LLVMInternalLinkage) }
    }
}

/// All aliases and ifuncs of a module.
pub(crate) fn indirects(module: &Module<'_>) -> Vec<Indirect> {
    let mut found = Vec::new();
    // SAFETY: plain iteration over a live module's lists.
    unsafe {
        let mut alias = llvm::LLVMGetFirstGlobalAlias(module.as_mut_ptr());
        while !alias.is_null() {
            found.push(Indirect(alias));
            alias = llvm::LLVMGetNextGlobalAlias(alias);
        }
        let mut ifunc = llvm::LLVMGetFirstGlobalIFunc(module.as_mut_ptr());
        while !ifunc.is_null() {
            found.push(Indirect(ifunc));
            ifunc = llvm::LLVMGetNextGlobalIFunc(ifunc);
        }
    }
    found
}

/// Takes a global out of its comdat: an internal symbol may not stay in one that others can drop.
pub(crate) fn leave_comdat(global: GlobalValue<'_>) {
    // SAFETY: a null comdat is LLVM's way to say none.
    unsafe { inkwell::llvm_sys::comdat::LLVMSetComdat(global.as_value_ref(), ptr::null_mut()) }
}

/// Takes `llvm.global_ctors` or `llvm.global_dtors` out of the module: the functions with their priorities.
pub(crate) fn take_structors<'ctx>(module: &Module<'ctx>, list: &str) -> Vec<(u64, PointerValue<'ctx>)> {
    let Some(global) = module.get_global(list) else { return Vec::new() };
    let mut found = Vec::new();
    // SAFETY: the list's initializer is an array of {priority, function, data}, as the verifier knows; nothing
    // refers to the list itself, and the functions outlive it.
    unsafe {
        let array = llvm::LLVMGetInitializer(global.as_value_ref());
        let count = if array.is_null() { 0 } else { llvm::LLVMGetNumOperands(array) };
        for index in 0..count.max(0) as u32 {
            let record = llvm::LLVMGetOperand(array, index);
            if llvm::LLVMGetNumOperands(record) < 2 {
                continue;
            }
            let (priority, function) = (llvm::LLVMGetOperand(record, 0), llvm::LLVMGetOperand(record, 1));
            if !llvm::LLVMIsAConstantInt(priority).is_null() && llvm::LLVMIsNull(function) == 0 {
                found.push((llvm::LLVMConstIntGetZExtValue(priority), PointerValue::new(function)));
            }
        }
        llvm::LLVMDeleteGlobal(global.as_value_ref());
    }
    found
}

/// Whether anything in the module uses this global.
pub(crate) fn is_used(value: impl AsValueRef) -> bool {
    // SAFETY: a query on a live value.
    unsafe { !llvm::LLVMGetFirstUse(value.as_value_ref()).is_null() }
}

/// Replaces every call of `reflect` (`__nvvm_reflect`) by the number that `answer` gives for its
/// string argument. Calls whose argument is not a constant string stay: code generation rejects them.
pub(crate) fn replace_reflect_calls(reflect: FunctionValue<'_>, answer: &dyn Fn(&str) -> u32) {
    let mut calls = Vec::new();
    // SAFETY: the uses are collected first, because erasing a call changes the list; `answer` gets a
    // Rust string; the replaced value has the call's own integer type.
    unsafe {
        let mut edge = llvm::LLVMGetFirstUse(reflect.as_value_ref());
        while !edge.is_null() {
            calls.push(llvm::LLVMGetUser(edge));
            edge = llvm::LLVMGetNextUse(edge);
        }
        for call in calls {
            if llvm::LLVMIsACallInst(call).is_null() {
                continue;
            }
            if let Some(question) = constant_string(llvm::LLVMGetOperand(call, 0)) {
                let number = llvm::LLVMConstInt(llvm::LLVMTypeOf(call), u64::from(answer(&question)), 0);
                llvm::LLVMReplaceAllUsesWith(call, number);
                llvm::LLVMInstructionEraseFromParent(call);
            }
        }
    }
}

/// The text behind a pointer to a constant string, through casts and zero offsets.
/// SAFETY: `pointer` must be a live value.
unsafe fn constant_string(mut pointer: LLVMValueRef) -> Option<String> {
    // SAFETY: operands of live constants are alive; the string is `length` bytes of the initializer.
    unsafe {
        while !llvm::LLVMIsAConstantExpr(pointer).is_null() {
            match llvm::LLVMGetConstOpcode(pointer) {
                LLVMOpcode::LLVMAddrSpaceCast | LLVMOpcode::LLVMBitCast | LLVMOpcode::LLVMGetElementPtr => {
                    pointer = llvm::LLVMGetOperand(pointer, 0);
                }
                _ => return None,
            }
        }
        let global = llvm::LLVMIsAGlobalVariable(pointer);
        if global.is_null() {
            return None;
        }
        let value = llvm::LLVMGetInitializer(global);
        if value.is_null()
            || llvm::LLVMIsAConstantDataSequential(value).is_null()
            || llvm::LLVMIsConstantString(value) == 0
        {
            return None;
        }
        let mut length = 0;
        let text = llvm::LLVMGetAsString(value, &mut length);
        let bytes = std::slice::from_raw_parts(text.cast::<u8>(), length);
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        Some(String::from_utf8_lossy(&bytes[..end]).into_owned())
    }
}

/// How much debug information a module has.
pub(crate) fn debug_information(module: &Module<'_>) -> DebugKind {
    // SAFETY: a query on a live module.
    match unsafe { fatlink_debug_information(module.as_mut_ptr()) } {
        0 => DebugKind::None,
        1 => DebugKind::Lines,
        _ => DebugKind::Full,
    }
}

/// Sets an integer module flag that overrides those of other modules.
pub(crate) fn set_module_flag(module: &Module<'_>, key: &str, value: u32) {
    // SAFETY: the key is that many bytes, alive over the call.
    unsafe { fatlink_set_module_flag(module.as_mut_ptr(), key.as_ptr().cast(), key.len(), value) }
}

/// The value of an integer module flag.
pub(crate) fn integer_module_flag(module: &Module<'_>, key: &str) -> Option<u64> {
    // SAFETY: the flag's metadata lives as long as the module; it is an integer constant or we say none.
    unsafe {
        let metadata = llvm::LLVMGetModuleFlag(module.as_mut_ptr(), key.as_ptr().cast(), key.len());
        if metadata.is_null() {
            return None;
        }
        let context = llvm::LLVMGetModuleContext(module.as_mut_ptr());
        let value = llvm::LLVMMetadataAsValue(context, metadata);
        // A constant in metadata is a wrapper; its one operand is the constant itself.
        let number = llvm::LLVMIsAConstantInt(llvm::LLVMGetOperand(value, 0));
        if number.is_null() { None } else { Some(llvm::LLVMConstIntGetZExtValue(number)) }
    }
}

/// What LLVM says of one function or variable; mirrored in graph.cpp.
#[repr(C)]
pub(crate) struct RawGlobal {
    name: *const c_char,
    name_length: usize,
    content: *const c_char,
    content_length: usize,
    pub(crate) size: u64,
    pub(crate) address_space: u32,
    pub(crate) linkage: u32,
    pub(crate) instructions: u32,
    pub(crate) is_function: u8,
    pub(crate) is_definition: u8,
    pub(crate) is_kernel: u8,
    pub(crate) is_constant: u8,
    pub(crate) address_matters: u8,
    pub(crate) is_retained: u8,
    pub(crate) is_intrinsic: u8,
}

impl RawGlobal {
    pub(crate) fn name(&self) -> String {
        // SAFETY: the text is alive during the visit, and as long as it says.
        unsafe { text_of(self.name, self.name_length) }
    }

    /// The text that equal constants share.
    pub(crate) fn content(&self) -> Option<String> {
        // SAFETY: as above.
        (!self.content.is_null()).then(|| unsafe { text_of(self.content, self.content_length) })
    }
}

/// SAFETY: `start` must be `length` readable bytes, or the length 0.
unsafe fn text_of(start: *const c_char, length: usize) -> String {
    if length == 0 {
        return String::new();
    }
    // SAFETY: by the contract above.
    String::from_utf8_lossy(unsafe { std::slice::from_raw_parts(start.cast(), length) }).into_owned()
}

/// What becomes of one global of a unit; mirrored in graph.cpp.
#[repr(C)]
struct RawTake {
    number: u32,
    how: u8,
    name: *const c_char,
}

unsafe extern "C" {
    fn fatlink_graph(
        module: LLVMModuleRef,
        sink: *mut c_void,
        visit: extern "C" fn(*mut c_void, *const RawGlobal),
        refer: extern "C" fn(*mut c_void, u32, u32, u8),
    ) -> *const c_char;
    fn fatlink_delete_body(function: LLVMValueRef);
    fn fatlink_begin_copies(module: LLVMModuleRef);
    fn fatlink_end_copies(module: LLVMModuleRef);
    fn fatlink_mover_new(destination: LLVMModuleRef) -> *mut c_void;
    fn fatlink_mover_delete(mover: *mut c_void);
    fn fatlink_mover_move(
        mover: *mut c_void,
        source: LLVMModuleRef,
        takes: *const RawTake,
        count: usize,
    ) -> *mut c_char;
}

/// Who is told what a module holds.
pub(crate) trait GraphVisitor {
    /// The next function or variable, in the module's order.
    fn global(&mut self, global: &RawGlobal);
    /// One global refers to another, both by number: as the callee of a call, or by its address.
    fn reference(&mut self, from: u32, to: u32, called: bool);
}

/// Tells all globals of a module that is loaded whole, then all references. The text says why the module can
/// only be compiled whole.
pub(crate) fn visit_graph<V: GraphVisitor>(module: &Module<'_>, visitor: &mut V) -> Option<&'static str> {
    extern "C" fn visit<V: GraphVisitor>(sink: *mut c_void, global: *const RawGlobal) {
        // SAFETY: `sink` is the visitor below, and the global lives during the call.
        unsafe { (*sink.cast::<V>()).global(&*global) }
    }
    extern "C" fn refer<V: GraphVisitor>(sink: *mut c_void, from: u32, to: u32, called: u8) {
        // SAFETY: as above.
        unsafe { (*sink.cast::<V>()).reference(from, to, called != 0) }
    }
    let sink: *mut V = visitor;
    // SAFETY: the module is alive, the callbacks fit the visitor's type, and the answer is a literal or null.
    unsafe {
        let whole = fatlink_graph(module.as_mut_ptr(), sink.cast(), visit::<V>, refer::<V>);
        (!whole.is_null()).then(|| CStr::from_ptr(whole).to_str().unwrap_or("it says so"))
    }
}

/// Turns a definition into a declaration.
pub(crate) fn delete_body(function: FunctionValue<'_>) {
    // SAFETY: the function lives in a live module.
    unsafe { fatlink_delete_body(function.as_value_ref()) }
}

/// Functions that partitions share, and whose bodies are here, get copies of this partition's own until [`end_copies`].
pub(crate) fn begin_copies(module: &Module<'_>) {
    // SAFETY: the module is alive, and nobody holds values of it.
    unsafe { fatlink_begin_copies(module.as_mut_ptr()) }
}

/// What takes the addresses of such functions gets the owner's again.
pub(crate) fn end_copies(module: &Module<'_>) {
    // SAFETY: as above.
    unsafe { fatlink_end_copies(module.as_mut_ptr()) }
}

/// Moves chosen definitions of modules into one, loading only the bodies that are wanted.
pub(crate) struct Mover<'m, 'ctx> {
    raw: *mut c_void,
    // The mover points at it.
    destination: std::marker::PhantomData<&'m Module<'ctx>>,
}

impl<'m, 'ctx> Mover<'m, 'ctx> {
    pub(crate) fn new(destination: &'m Module<'ctx>) -> Self {
        // SAFETY: the module outlives the mover by the lifetimes.
        let raw = unsafe { fatlink_mover_new(destination.as_mut_ptr()) };
        Mover { raw, destination: std::marker::PhantomData }
    }

    /// Moves the globals of these numbers, and nothing else but declarations.
    pub(crate) fn take(&mut self, source: Module<'ctx>, takes: &[(u32, u8, Option<CString>)]) -> Result<(), String> {
        let raw_takes: Vec<RawTake> = takes
            .iter()
            .map(|(number, how, name)| RawTake {
                number: *number,
                how: *how,
                name: name.as_ref().map_or(std::ptr::null(), |name| name.as_ptr()),
            })
            .collect();
        let module = source.as_mut_ptr();
        std::mem::forget(source);
        // SAFETY: both modules live in one context; LLVM takes the source over in any case; the names outlive
        // the call; a message is ours to dispose of.
        unsafe {
            let message = fatlink_mover_move(self.raw, module, raw_takes.as_ptr(), raw_takes.len());
            if message.is_null() {
                return Ok(());
            }
            let text = CStr::from_ptr(message).to_string_lossy().into_owned();
            llvm::LLVMDisposeMessage(message);
            Err(text)
        }
    }
}

impl Drop for Mover<'_, '_> {
    fn drop(&mut self) {
        // SAFETY: made by fatlink_mover_new, deleted once.
        unsafe { fatlink_mover_delete(self.raw) }
    }
}

/// The strings that the nodes of a named metadata list hold themselves.
pub(crate) fn metadata_strings(module: &Module<'_>, list: &CStr) -> Vec<String> {
    let operands = metadata_nodes(module, list).into_iter().flatten();
    // SAFETY: an operand is null or lives as long as the module.
    operands.filter_map(|operand| unsafe { metadata_string(operand) }).collect()
}

/// The operands of every node in a named metadata list.
fn metadata_nodes(module: &Module<'_>, list: &CStr) -> Vec<Vec<LLVMValueRef>> {
    let name = list.as_ptr();
    // SAFETY: the counts are LLVM's own, the buffers are as long as they say; all values live in the module.
    unsafe {
        let count = llvm::LLVMGetNamedMetadataNumOperands(module.as_mut_ptr(), name) as usize;
        let mut nodes = vec![ptr::null_mut(); count];
        llvm::LLVMGetNamedMetadataOperands(module.as_mut_ptr(), name, nodes.as_mut_ptr());
        let operands = |node| {
            let mut operands = vec![ptr::null_mut(); llvm::LLVMGetMDNodeNumOperands(node) as usize];
            llvm::LLVMGetMDNodeOperands(node, operands.as_mut_ptr());
            operands
        };
        nodes.into_iter().map(operands).collect()
    }
}

/// The bytes of the globals that `llvm.embedded.objects` lists for `section`.
pub(crate) fn embedded_objects(module: &Module<'_>, section: &str) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    for operands in metadata_nodes(module, c"llvm.embedded.objects") {
        let [global, place, ..] = operands[..] else { continue };
        // SAFETY: an operand is null or lives as long as the module.
        unsafe {
            if metadata_string(place).as_deref() == Some(section) {
                found.extend(constant_bytes(global));
            }
        }
    }
    found
}

/// SAFETY: `value` must be null or a live value.
unsafe fn metadata_string(value: LLVMValueRef) -> Option<String> {
    // SAFETY: the text belongs to the context and is `length` bytes.
    unsafe {
        if value.is_null() {
            return None;
        }
        let mut length = 0;
        let text = llvm::LLVMGetMDString(value, &mut length);
        let bytes = (!text.is_null()).then(|| std::slice::from_raw_parts(text.cast::<u8>(), length as usize))?;
        Some(String::from_utf8_lossy(bytes).into_owned())
    }
}

/// The bytes of a global's initializer, if it is plain data.
/// SAFETY: `value` must be null or a live value.
unsafe fn constant_bytes(value: LLVMValueRef) -> Option<Vec<u8>> {
    // SAFETY: the initializer of a live global is alive, and its data is `size` bytes.
    unsafe {
        if value.is_null() || llvm::LLVMIsAGlobalVariable(value).is_null() {
            return None;
        }
        let initializer = llvm::LLVMGetInitializer(value);
        let is_data = !initializer.is_null() && !llvm::LLVMIsAConstantDataSequential(initializer).is_null();
        // A "constant string" is any array of bytes.
        if !is_data || llvm::LLVMIsConstantString(initializer) == 0 {
            return None;
        }
        let mut size = 0;
        let data = llvm::LLVMGetAsString(initializer, &mut size);
        Some(std::slice::from_raw_parts(data.cast::<u8>(), size).to_vec())
    }
}
