//! What a link reports while it runs.

use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

use crate::diagnostic::Diagnostic;

/// What a link reports while it runs.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Event<'e> {
    /// A job has ended, or there are more jobs: some links learn of all their jobs only as they run. A job is a device link that is compiled
    /// in one piece, or one of its partitions.
    Jobs {
        /// How many jobs have ended.
        done: u64,
        /// How many jobs the link knows of.
        known: u64,
    },
    /// A message. The result of the link has it, too.
    Diagnostic(&'e Diagnostic),
    /// Nothing has happened for 50 ms.
    Waiting,
}

/// The function that gets the events of a link.
pub(crate) type Observe = dyn Fn(&Event<'_>) -> ControlFlow<()> + Send + Sync;

/// The caller's function, if there is one.
#[derive(Clone, Default)]
pub(crate) struct Observer(pub Option<Arc<Observe>>);

impl Observer {
    /// Passes an event on.
    pub(crate) fn see(&self, event: &Event<'_>) -> ControlFlow<()> {
        self.0.as_ref().map_or(ControlFlow::Continue(()), |observe| observe(event))
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(if self.0.is_some() { "a function" } else { "none" })
    }
}
