//! Spans of a worker in the time trace of its link. The worker reports where its spans begin and end, and the link repeats them.

use serde::{Deserialize, Serialize};
use tracing::span::{Attributes, EnteredSpan, Id};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use crate::profile::fields::Fields;
use crate::profile::span;

/// The beginning or the end of a span, and what LLVM did in it. Spans of a worker are nested, so that an end belongs to the last beginning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Boundary {
    /// It begins.
    Begin {
        /// The phase.
        name: String,
        /// What it works on.
        detail: String,
    },
    /// LLVM recorded these passes in it.
    Passes(String),
    /// It ends.
    End,
}

/// The layer of a worker: reports its spans to this function.
pub struct Forwarding(pub fn(Boundary));

impl<S: Subscriber> Layer<S> for Forwarding {
    fn on_new_span(&self, attributes: &Attributes<'_>, _: &Id, _: Context<'_, S>) {
        let Fields { name, detail, .. } = Fields::of(attributes);
        (self.0)(Boundary::Begin { name, detail });
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        (self.0)(Boundary::Passes(Fields::of_event(event).passes));
    }

    fn on_close(&self, _: Id, _: Context<'_, S>) {
        (self.0)(Boundary::End);
    }
}

/// The spans of a worker that are open. Those that a worker leaves open end with it.
#[derive(Debug, Default)]
pub struct Repeated {
    open: Vec<EnteredSpan>,
}

impl Repeated {
    /// Begins or ends a span of this process, as the worker did.
    pub fn repeat(&mut self, boundary: &Boundary) {
        match boundary {
            Boundary::Begin { name, detail } => self.open.push(span::traced(name, || detail.clone())),
            Boundary::Passes(json) => span::passes(json),
            Boundary::End => drop(self.open.pop()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::profile::only;
    use tracing_subscriber::layer::SubscriberExt;

    static SEEN: Mutex<Vec<Boundary>> = Mutex::new(Vec::new());

    fn seen_in(work: impl FnOnce()) -> Vec<Boundary> {
        let layer = Forwarding(|boundary| SEEN.lock().unwrap().push(boundary)).with_filter(only(span::TIME_TRACE));
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), work);
        std::mem::take(&mut SEEN.lock().unwrap())
    }

    #[test]
    fn a_repeated_span_is_the_workers() {
        let begin = |name: &str, detail: &str| Boundary::Begin { name: name.to_owned(), detail: detail.to_owned() };
        let original = seen_in(|| {
            let _outer = span::traced("outer", || "a".to_owned());
            span::passes("[]");
            span::counted("of the statistics", || drop(span::traced("inner", || "b".to_owned())));
            drop(span::traced("second", String::new));
        });
        let passes = Boundary::Passes("[]".to_owned());
        let inner = [begin("inner", "b"), Boundary::End, begin("second", ""), Boundary::End];
        let expected = [&[begin("outer", "a"), passes], &inner[..]].concat();
        assert_eq!(original, [&expected[..], &[Boundary::End]].concat());
        let again = seen_in(|| {
            let mut repeated = Repeated::default();
            // The worker ends without its last line.
            original[..6].iter().for_each(|boundary| repeated.repeat(boundary));
        });
        assert_eq!(again, original);
    }
}
