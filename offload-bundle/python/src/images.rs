//! `images` and `extract`.

use offload_bundle::listing::{self, Row};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::error::Failure;
use crate::source::{Source, search};

/// A device image: a row of `offload-bundle list`.
#[pyclass(frozen, get_all, eq, module = "fatlink")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    index: usize,
    member: Option<String>,
    section: Option<String>,
    offset: u64,
    kind: String,
    triple: Option<String>,
    target: String,
    image: String,
    relocatable: Option<bool>,
    version: Option<String>,
    name: Option<String>,
    size: u64,
    compression: String,
    uncompressed_size: Option<u64>,
}

impl Image {
    /// `index` counts from 0, as in the list that Python gets.
    fn new(index: usize, row: Row) -> Self {
        Self {
            index,
            member: row.member,
            section: row.section,
            offset: row.offset,
            kind: row.kind,
            triple: row.triple,
            target: row.target,
            image: row.image,
            relocatable: row.relocatable,
            version: row.version,
            name: row.name,
            size: row.size,
            compression: row.compression,
            uncompressed_size: row.uncompressed_size,
        }
    }
}

#[pymethods]
impl Image {
    fn __repr__(&self) -> String {
        format!("<fatlink.Image {}: {} for {}, {} bytes>", self.index, self.image, self.target, self.size)
    }
}

/// An image, or its index.
#[derive(FromPyObject)]
pub enum Which {
    /// As `images` returned it.
    Image(Py<Image>),
    /// From 0.
    Index(usize),
}

/// Returns the device images of a file. Cubins are checked as a whole.
#[pyfunction]
#[pyo3(signature = (source, *, scan = false))]
pub fn images(py: Python<'_>, source: Source, scan: bool) -> PyResult<Vec<Image>> {
    let rows = source.parse(py, |data, read_thin| listing::list_in(data, read_thin, search(scan)))?;
    Ok(rows.into_iter().enumerate().map(|(index, row)| Image::new(index, row)).collect())
}

/// Returns the bytes of one image: decompressed, or with `raw` as they are stored.
#[pyfunction]
#[pyo3(signature = (source, image, *, raw = false, scan = false))]
pub fn extract<'py>(
    py: Python<'py>,
    source: Source,
    image: Which,
    raw: bool,
    scan: bool,
) -> PyResult<Bound<'py, PyBytes>> {
    let wanted = match &image {
        Which::Image(image) => image.get().index,
        Which::Index(index) => *index,
    };
    let (bytes, count) = source.parse(py, |data, read_thin| {
        let (mut bytes, mut count) = (None, 0);
        listing::visit_in(data, read_thin, search(scan), |found| {
            if count == wanted {
                bytes = Some(if raw { found.stored().to_vec() } else { found.payload()?.into_owned() });
            }
            count += 1;
            Ok(())
        })?;
        Ok((bytes, count))
    })?;
    let bytes = bytes.ok_or_else(|| Failure::Argument(format!("there is no image {wanted}: the file has {count}")))?;
    Ok(PyBytes::new(py, &bytes))
}
