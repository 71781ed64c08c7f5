//! A session is one LLVM context with its diagnostics. Modules stay in their session; only bytes pass between sessions.

use inkwell::context::Context;
use inkwell::memory_buffer::MemoryBuffer;
use inkwell::module::Module;
use serde::{Deserialize, Serialize};

use crate::sys::{self, DiagnosticSink};
use crate::{IrError, bitcode, crash};

/// A warning of LLVM.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Warning {
    /// The text, without the source location.
    pub text: String,
    /// Symbol of the function that was being compiled: mostly a kernel, because other functions are inlined.
    pub function: Option<String>,
    /// `FILE:LINE:COLUMN` of the code, or `FILE:LINE` of the function, if there is debug information.
    pub place: Option<String>,
}

/// An LLVM context that collects every diagnostic. One thread at a time can use it.
pub struct Session {
    // Declared first, so that it is dropped before the sink that its handler points at.
    context: Context,
    // Boxed, because the handler keeps its address and a session may move.
    #[allow(clippy::box_collection)]
    sink: Box<DiagnosticSink>,
}

impl Default for Session {
    fn default() -> Self {
        Self::new()
    }
}

impl Session {
    /// Opens a context.
    pub fn new() -> Self {
        sys::initialize();
        let (context, sink) = (Context::create(), Box::new(DiagnosticSink::default()));
        sys::collect_diagnostics(&context, &sink);
        Session { context, sink }
    }

    /// The context, for building new modules.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// Reads bitcode with all function bodies.
    ///
    /// # Errors
    /// [`IrError::NewerBitcode`] and [`IrError::Bitcode`].
    pub fn read(&self, unit: &str, bytes: &[u8]) -> Result<Module<'_>, IrError> {
        bitcode::check(unit, bytes)?;
        let buffer = MemoryBuffer::create_from_memory_range(bytes, "bitcode");
        let parsed =
            crash::during(&format!("reading {unit}"), || Module::parse_bitcode_from_buffer(&buffer, &self.context));
        let module = parsed.map_err(|error| {
            let described = self.take_errors();
            let message = if described.is_empty() { error.to_string_lossy().into_owned() } else { described };
            IrError::unreadable(unit, message)
        })?;
        sys::drop_host_uses(&module);
        Ok(module)
    }

    /// Reads bitcode whose function bodies are loaded when they are first needed.
    ///
    /// # Errors
    /// As [`Session::read`].
    pub fn read_lazily<'a>(&'a self, unit: &str, bytes: &'a [u8]) -> Result<Module<'a>, IrError> {
        bitcode::check(unit, bytes)?;
        let buffer = MemoryBuffer::create_from_memory_range(bytes, "bitcode");
        let module = crash::during(&format!("reading {unit}"), || sys::read_lazily(&self.context, buffer))
            .map_err(|()| IrError::unreadable(unit, self.take_errors()))?;
        sys::drop_host_uses(&module);
        Ok(module)
    }

    /// Merges `source` into `destination`; `unit` names `source` in errors.
    ///
    /// # Errors
    /// [`IrError::Merge`].
    pub fn merge(&self, destination: &Module<'_>, source: Module<'_>, unit: &str) -> Result<(), IrError> {
        let linked = crash::during(&format!("merging {unit}"), || sys::link_modules(destination, source));
        let message = self.take_errors();
        match linked {
            Ok(()) if message.is_empty() => Ok(()),
            _ => Err(IrError::merge(unit, message)),
        }
    }

    /// Returns and removes the errors so far, joined by "; "; empty if there are none.
    pub fn take_errors(&self) -> String {
        let Ok(mut list) = self.sink.lock() else { return "diagnostics lost".to_owned() };
        let (errors, rest): (Vec<_>, Vec<_>) = list.drain(..).partition(|diagnostic| diagnostic.is_error);
        *list = rest;
        errors.into_iter().map(|diagnostic| diagnostic.message).collect::<Vec<_>>().join("; ")
    }

    /// Returns and removes the warnings so far.
    pub fn take_warnings(&self) -> Vec<Warning> {
        let Ok(mut list) = self.sink.lock() else { return Vec::new() };
        list.drain(..).filter(|diagnostic| diagnostic.is_warning).map(|diagnostic| diagnostic.parts).collect()
    }
}
