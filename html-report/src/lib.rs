//! Reports as one HTML file that needs no network: a treemap of the bytes of device code, what each GPU runs, tables of kernels and images,
//! and the timeline of a link.
//!
//! The programs gather data and fill a [`Page`]; [`Page::html`] embeds it as JSON beside the style and the script of `web/`, which show it and
//! compute nothing that Rust knows: outcomes come from [`offload_bundle::coverage`], resources from [`offload_bundle::usage`].
//!
//! 1. [`table`] has tables and the texts that their cells refer to, [`tree`] the bytes by file, section, target and function, [`gpus`] the
//!    outcomes of the containers that run the same, [`gate`] where files run, [`timeline`] the spans of a link.
//! 2. [`contents`] reads one file; [`files`] makes a page of files, [`difference`] one of two files or folders, [`gate_page`] one of where files run.
//! 3. [`page`] writes the HTML.
#![forbid(unsafe_code)]

pub mod contents;
pub mod difference;
pub mod files;
pub mod gate;
pub mod gate_page;
pub mod gpus;
mod images;
mod kernels;
pub mod page;
pub mod table;
#[cfg(test)]
mod tests;
pub mod timeline;
pub mod tree;

pub use contents::FileContents;
pub use page::{Fact, Page, PageKind};
