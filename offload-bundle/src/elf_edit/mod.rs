//! Edits 64-bit little-endian ELF files in place instead of rewriting them: linkers and compilers leave things in them (groups,
//! address-significance tables, unwind tables) that no writer of ours should have to understand.
//!
//! Every editor reads the `tables`, changes numbers in them, and moves stretches of the file as a whole:
//!
//! - `shrink` puts smaller contents in place of larger ones. In an executable or shared library nothing may move in memory: contents
//!   stay at their address, and the room behind them is cut out of the file and left out of what is loaded (`image_cuts` chooses what to
//!   cut, `program_headers` finds room for the headers of the pieces, `verify` compares the result). In an object only offsets change.
//! - [`ObjectPatch`] renames and empties sections of an object and renames symbols.
//! - `extended` adds sections, and bytes to the ends of others, and puts larger contents into sections of an object.
//! - [`SectionSlot`] gives an empty section its contents once their size is known.

mod cuts;
mod extended;
mod image_cuts;
mod object_patch;
mod program_headers;
mod replacement;
mod section_slot;
mod shrink;
mod tables;
mod verify;

pub(crate) use extended::ExtendedElf;
pub use object_patch::ObjectPatch;
pub(crate) use replacement::{Replacement, ReplacementPart, range, spliced};
pub use section_slot::SectionSlot;
pub(crate) use shrink::shrink;
pub(crate) use tables::SectionHeader;
