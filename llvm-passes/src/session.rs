//! A session is one LLVM context with its diagnostics. Modules stay in their session; only bytes pass between sessions.

use inkwell::context::Context;
use inkwell::memory_buffer::MemoryBuffer;
use inkwell::module::Module;

use crate::error::IrError;
pub use crate::message::{Message, MessageKind};
use crate::sys::{self, Diagnostic, DiagnosticSink, RemarkRecords};
use crate::{bitcode, crash};

/// An LLVM context that collects every diagnostic. One thread at a time can use it.
pub struct Session {
    // Declared first, so that it is dropped before the sink that its handler points at.
    context: Context,
    // Boxed, because the handler keeps its address and a session may move.
    #[allow(clippy::box_collection)]
    sink: Box<DiagnosticSink>,
    // Behind the context, which writes to them.
    records: Option<RemarkRecords>,
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
        sys::unique_debug_types(&context);
        let records = RemarkRecords::begin(&context);
        Session { context, sink, records }
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

    /// Returns and removes the messages so far whose text contains these words, without errors.
    pub(crate) fn take_messages_with(&self, words: &str) -> Vec<Message> {
        let Ok(mut list) = self.sink.lock() else { return Vec::new() };
        let is_wanted = |diagnostic: &Diagnostic| !diagnostic.is_error && diagnostic.parts.text.contains(words);
        let (wanted, rest): (Vec<_>, Vec<_>) = list.drain(..).partition(is_wanted);
        *list = rest;
        wanted.into_iter().map(|diagnostic| diagnostic.parts).collect()
    }

    /// Returns and removes the messages so far, without errors.
    pub fn take_messages(&self) -> Vec<Message> {
        let Ok(mut list) = self.sink.lock() else { return Vec::new() };
        let records = self.records.as_ref().map(RemarkRecords::take).unwrap_or_default();
        list.drain(..)
            .filter(|diagnostic| !diagnostic.is_error)
            .map(|diagnostic| diagnostic.parts)
            .chain(documents(&records))
            .collect()
    }
}

/// The YAML documents of recorded remarks, each with the function that it is about.
fn documents(records: &str) -> impl Iterator<Item = Message> {
    let starts =
        records.match_indices("--- !").map(|(at, _)| at).filter(|at| *at == 0 || records.as_bytes()[at - 1] == b'\n');
    let starts: Vec<usize> = starts.chain([records.len()]).collect();
    let documents: Vec<&str> = starts.windows(2).map(|bounds| &records[bounds[0]..bounds[1]]).collect();
    let function = |text: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix("Function:"))?;
        Some(line.trim().trim_matches('\'').to_owned())
    };
    let record = |text: &str| Message {
        kind: MessageKind::Record,
        text: text.to_owned(),
        function: function(text),
        place: None,
    };
    documents.into_iter().map(record).collect::<Vec<_>>().into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_split_into_documents() {
        let records = "--- !Missed\nName: x\nFunction:        first\n...\n--- !Passed\nFunction:        '?f'\n  - String: --- !\n...\n";
        let found: Vec<_> =
            documents(records).map(|message| (message.function, message.text.lines().count())).collect();
        assert_eq!(found, [(Some("first".to_owned()), 4), (Some("?f".to_owned()), 4)]);
        assert_eq!(documents("").count(), 0);
    }
}
