//! Reads the fields of a span or an event.

use std::fmt;

use tracing::Event;
use tracing::field::{Field, Visit};
use tracing::span::Attributes;

/// The fields of a phase's span, or of an event in one.
#[derive(Debug, Default)]
pub struct Fields {
    /// The phase.
    pub name: String,
    /// What it works on.
    pub detail: String,
    /// What LLVM recorded in it.
    pub passes: String,
}

impl Fields {
    /// Reads them from a new span.
    pub fn of(attributes: &Attributes<'_>) -> Self {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        fields
    }

    /// Reads them from an event.
    pub fn of_event(event: &Event<'_>) -> Self {
        let mut fields = Fields::default();
        event.record(&mut fields);
        fields
    }
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "name" => value.clone_into(&mut self.name),
            "detail" => value.clone_into(&mut self.detail),
            "passes" => value.clone_into(&mut self.passes),
            _ => {}
        }
    }

    /// All fields are text.
    fn record_debug(&mut self, _: &Field, _: &dyn fmt::Debug) {}
}
