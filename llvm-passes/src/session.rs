//! A session is one LLVM context with its diagnostics. Modules never leave it; bytes do.

use inkwell::context::Context;
use inkwell::memory_buffer::MemoryBuffer;
use inkwell::module::Module;
use serde::{Deserialize, Serialize};

use crate::sys::{self, DiagnosticSink};
use crate::{IrError, bitcode, crash};

/// What LLVM warns about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Warning {
    /// What is wrong, without the place.
    pub text: String,
    /// The function that was being compiled, by its symbol: mostly a kernel, everything else is inlined.
    pub function: Option<String>,
    /// `FILE:LINE:COLUMN` of the source, or `FILE:LINE` of the function, if there is debug information.
    pub place: Option<String>,
}

/// One LLVM context that keeps every diagnostic. One per thread or job.
pub struct Session {
    // Dropped first: the context's handler points at the sink.
    context: Context,
    // Boxed: the handler keeps its address, and a Session may move.
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

    /// Reads bitcode whole.
    ///
    /// # Errors
    /// [`IrError::NewerBitcode`] and [`IrError::Bitcode`].
    pub fn read(&self, unit: &str, bytes: &[u8]) -> Result<Module<'_>, IrError> {
        bitcode::check(unit, bytes)?;
        let buffer = MemoryBuffer::create_from_memory_range(bytes, "bitcode");
        let parsed =
            crash::during(&format!("reading {unit}"), || Module::parse_bitcode_from_buffer(&buffer, &self.context));
        parsed.map_err(|error| {
            let described = self.take_errors();
            let message = if described.is_empty() { error.to_string_lossy().into_owned() } else { described };
            IrError::unreadable(unit, message)
        })
    }

    /// Reads bitcode whose function bodies are loaded on first use. `bytes` must outlive the module,
    /// which the lifetimes say.
    ///
    /// # Errors
    /// As [`Session::read`].
    pub fn read_lazily<'a>(&'a self, unit: &str, bytes: &'a [u8]) -> Result<Module<'a>, IrError> {
        bitcode::check(unit, bytes)?;
        let buffer = MemoryBuffer::create_from_memory_range(bytes, "bitcode");
        crash::during(&format!("reading {unit}"), || sys::read_lazily(&self.context, buffer))
            .map_err(|()| IrError::unreadable(unit, self.take_errors()))
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

    /// The errors since the last call, joined by "; ". Empty: none.
    pub fn take_errors(&self) -> String {
        let Ok(mut list) = self.sink.lock() else { return "diagnostics lost".to_owned() };
        let (errors, rest): (Vec<_>, Vec<_>) = list.drain(..).partition(|diagnostic| diagnostic.is_error);
        *list = rest;
        errors.into_iter().map(|diagnostic| diagnostic.message).collect::<Vec<_>>().join("; ")
    }

    /// The warnings since the last call.
    pub fn take_warnings(&self) -> Vec<Warning> {
        let Ok(mut list) = self.sink.lock() else { return Vec::new() };
        list.drain(..).filter(|diagnostic| diagnostic.is_warning).map(|diagnostic| diagnostic.parts).collect()
    }
}
