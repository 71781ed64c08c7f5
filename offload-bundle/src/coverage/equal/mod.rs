//! Finds images that a fatbin could do without: each GPU that runs one would run another of equal code if it were gone.
//!
//! 1. `images` compares the cubins of a fatbin.
//! 2. `droppable` decides, by the driver's choice among the entries, which of them each GPU would run instead.
//! 3. `finding` reports them.

mod changes;
mod droppable;
mod finding;
mod images;

pub(crate) use changes::changed_choices;
pub(super) use droppable::is_of_one_target;
pub use droppable::{Droppable, Instead, droppable};
pub use finding::check_equal;
pub(super) use finding::findings;
pub use images::{EqualImages, equal_images};

#[cfg(test)]
mod tests;
