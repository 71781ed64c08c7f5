//! `FatbinBuilder`: builds fatbins, as nvFatbin does.

use offload_bundle::fatbin::{self, BuilderOptions};
use offload_bundle::{GpuArch, arch::UnknownArch};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;

use crate::error::{Failure, of_fatbin};

/// A fatbin under construction.
#[pyclass(module = "fatlink")]
pub struct FatbinBuilder(fatbin::FatbinBuilder<'static>);

/// PTX as text or as bytes.
#[derive(FromPyObject)]
pub enum Ptx {
    /// As files hold it.
    Bytes(PyBackedBytes),
    /// As programs generate it.
    Text(String),
}

impl Ptx {
    fn into_bytes(self) -> Vec<u8> {
        match self {
            Ptx::Bytes(bytes) => bytes.to_vec(),
            Ptx::Text(text) => text.into_bytes(),
        }
    }
}

fn arch(text: &str) -> Result<GpuArch, Failure> {
    text.parse().map_err(|error: UnknownArch| Failure::Argument(error.to_string()))
}

// What is added is copied: Python may free or change it before the fatbin is built.
#[pymethods]
impl FatbinBuilder {
    #[new]
    #[pyo3(signature = (*options))]
    fn new(py: Python<'_>, options: Vec<String>) -> PyResult<Self> {
        let options = BuilderOptions::parse(options).map_err(|error| of_fatbin(py, &error))?;
        Ok(Self(fatbin::FatbinBuilder::new(options)))
    }

    #[pyo3(signature = (arch, text, identifier = "", options = ""))]
    fn add_ptx(&mut self, py: Python<'_>, arch: &str, text: Ptx, identifier: &str, options: &str) -> PyResult<()> {
        let arch = self::arch(arch)?;
        self.0.add_ptx(arch, text.into_bytes(), identifier, options).map_err(|error| of_fatbin(py, &error))
    }

    #[pyo3(signature = (arch, image, identifier = ""))]
    fn add_cubin(&mut self, py: Python<'_>, arch: &str, image: PyBackedBytes, identifier: &str) -> PyResult<()> {
        let arch = self::arch(arch)?;
        self.0.add_cubin(arch, image.to_vec(), identifier).map_err(|error| of_fatbin(py, &error))
    }

    #[pyo3(signature = (arch, image, identifier = "", options = ""))]
    fn add_ltoir(
        &mut self,
        py: Python<'_>,
        arch: &str,
        image: PyBackedBytes,
        identifier: &str,
        options: &str,
    ) -> PyResult<()> {
        let arch = self::arch(arch)?;
        self.0.add_ltoir(arch, image.to_vec(), identifier, options).map_err(|error| of_fatbin(py, &error))
    }

    fn add_relocatable(&mut self, py: Python<'_>, object: PyBackedBytes) -> PyResult<usize> {
        self.0.add_relocatable(object.to_vec()).map_err(|error| of_fatbin(py, &error))
    }

    /// More images can be added afterwards, and the next fatbin has all of them.
    fn build<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let builder = self.0.clone();
        let bytes = py.detach(move || builder.finish()).map_err(|error| of_fatbin(py, &error))?;
        Ok(PyBytes::new(py, &bytes))
    }
}
