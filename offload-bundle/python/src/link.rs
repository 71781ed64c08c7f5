//! `link` and what goes with it: device code to an image and the object that registers it.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use fatlink::{Event, Link, Linked as Made, Linker, Ptx};
use pyo3::exceptions::{PyOSError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyMemoryView};

use crate::error::{Cancelled, Error, LinkError};

/// A message of a link.
#[pyclass(frozen, get_all, eq, module = "fatlink")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    severity: &'static str,
    message: String,
    file: Option<String>,
    member: Option<String>,
    offset: Option<u64>,
}

impl From<&fatlink::Diagnostic> for Diagnostic {
    fn from(of: &fatlink::Diagnostic) -> Self {
        let severity = match of.severity {
            fatlink::Severity::Note => "note",
            fatlink::Severity::Warning => "warning",
            fatlink::Severity::Error => "error",
        };
        let fatlink::Diagnostic { message, file, member, offset, .. } = of.clone();
        Diagnostic { severity, message, file, member, offset }
    }
}

#[pymethods]
impl Diagnostic {
    fn __repr__(&self) -> String {
        format!("<fatlink.Diagnostic {}: {}>", self.severity, self.message)
    }

    fn __str__(&self) -> String {
        format!("{}: {}", self.severity, self.message)
    }
}

/// What a link has made.
#[pyclass(frozen, get_all, module = "fatlink")]
#[derive(Debug)]
pub struct Linked {
    image: Py<PyBytes>,
    registration: Option<Py<PyBytes>>,
    report: Option<String>,
    diagnostics: Vec<Diagnostic>,
}

impl Linked {
    fn new(py: Python<'_>, made: &Made) -> Self {
        Linked {
            image: PyBytes::new(py, &made.image).unbind(),
            registration: made.registration.as_ref().map(|object| PyBytes::new(py, object).unbind()),
            report: made.report.clone(),
            diagnostics: made.diagnostics.iter().map(Diagnostic::from).collect(),
        }
    }
}

/// Cancels links from any thread.
#[pyclass(frozen, module = "fatlink")]
#[derive(Debug)]
pub struct Cancellation(fatlink::Cancellation);

#[pymethods]
impl Cancellation {
    #[new]
    fn new() -> PyResult<Self> {
        Ok(Cancellation(fatlink::Cancellation::new().map_err(|error| PyOSError::new_err(error.to_string()))?))
    }

    fn cancel(&self) {
        self.0.cancel();
    }

    #[getter]
    fn cancelled(&self) -> bool {
        self.0.is_cancelled()
    }
}

/// A unit: a path, or bytes with or without a name.
#[derive(FromPyObject)]
pub enum Unit<'py> {
    /// `str` or `os.PathLike`.
    Path(PathBuf),
    /// A name, and what has a buffer.
    Named(String, Bound<'py, PyAny>),
    /// What has a buffer.
    Bytes(Bound<'py, PyAny>),
}

/// Everything that a link can be given besides its units.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Settings<'py> {
    targets: Vec<String>,
    ptx: String,
    libraries: Vec<String>,
    library_paths: Vec<PathBuf>,
    cache: Option<PathBuf>,
    options: Vec<String>,
    image_only: bool,
    report: bool,
    observer: Option<Bound<'py, PyAny>>,
    cancellation: Option<Py<Cancellation>>,
}

/// Links units by a program `fatlink`, which the package's Python names. `linker` and `settings` are what its functions were given.
#[pyfunction]
pub fn _link(
    py: Python<'_>,
    linker: &PreparedLinker,
    units: Vec<Unit<'_>>,
    settings: &Bound<'_, PyDict>,
) -> PyResult<Linked> {
    let settings: Settings<'_> = settings.as_any().extract()?;
    let folder = std::env::current_dir().map_err(|error| PyOSError::new_err(error.to_string()))?;
    // Paths of Python's functions count from the current folder.
    let mut link = Link::new().base(folder).ptx(Ptx::named(&settings.ptx));
    for (index, unit) in units.into_iter().enumerate() {
        link = match unit {
            Unit::Path(path) => link.file(path),
            Unit::Named(name, bytes) => link.unit(contents(&bytes)?, name),
            Unit::Bytes(bytes) => link.unit(contents(&bytes)?, format!("unit {}", index + 1)),
        };
    }
    link = settings.targets.into_iter().fold(link, Link::target);
    link = settings.libraries.into_iter().fold(link, Link::library);
    link = settings.library_paths.into_iter().fold(link, Link::library_path);
    link = settings.options.into_iter().fold(link, Link::option);
    link = settings.cache.into_iter().fold(link, Link::cache);
    link = if settings.image_only { link.image_only() } else { link };
    link = if settings.report { link.report() } else { link };
    link = settings.cancellation.iter().fold(link, |link, cancellation| link.cancelled_by(&cancellation.get().0));
    let raised: Raised = Arc::default();
    link = observed(link, settings.observer.map(Bound::unbind), &raised);
    let outcome = py.detach(|| linker.0.run(&link));
    let raised = raised.lock().unwrap_or_else(PoisonError::into_inner).take();
    match (raised, outcome) {
        (Some(error), _) => Err(error),
        (None, Ok(made)) => Ok(Linked::new(py, &made)),
        (None, Err(error)) => Err(raised_by(py, &error)),
    }
}

/// The exception of a link without a result.
fn raised_by(py: Python<'_>, error: &fatlink::Error) -> PyErr {
    if matches!(error, fatlink::Error::Cancelled) {
        return Cancelled::new_err(error.to_string());
    }
    let raised = LinkError::new_err(error.to_string());
    let diagnostics: Vec<Diagnostic> = error.diagnostics().iter().map(Diagnostic::from).collect();
    // An exception without diagnostics is better than another exception.
    let _ = raised.value(py).setattr("diagnostics", diagnostics);
    raised
}

/// The exception that has cancelled a link.
type Raised = Arc<Mutex<Option<PyErr>>>;

/// The link with an observer that calls Python's, and lets signals such as that of Ctrl-C end the link.
fn observed(link: Link, observer: Option<Py<PyAny>>, raised: &Raised) -> Link {
    let raised = Arc::clone(raised);
    link.observed_by(move |event| {
        let seen = Python::attach(|py| {
            py.check_signals()?;
            match (&observer, event) {
                (Some(observer), Event::Jobs { done, known }) => observer.call1(py, (*done, *known)).map(drop),
                _ => Ok(()),
            }
        });
        match seen {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                *raised.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                ControlFlow::Break(())
            }
        }
    })
}

/// The bytes of an object with a buffer, such as `bytes`, `memoryview` or an array of numpy, in the order of C.
fn contents(object: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    let view = PyMemoryView::from(object).map_err(|_| {
        let given = object.get_type();
        PyTypeError::new_err(format!("a unit is a path, bytes, or a name and bytes, not {given}"))
    })?;
    view.call_method0("tobytes")?.extract()
}

/// The program that links, and its environment.
#[pyclass(frozen, module = "fatlink")]
pub struct PreparedLinker(Linker);

#[pymethods]
impl PreparedLinker {
    #[new]
    fn new(
        program: PathBuf,
        cuda: Option<PathBuf>,
        environment: Vec<(String, String)>,
        temporary_folder: PathBuf,
        ahead: usize,
    ) -> PyResult<Self> {
        if program.is_relative() || temporary_folder.is_relative() {
            return Err(Error::new_err("the program and the folder for temporary files need absolute paths"));
        }
        let mut linker = Linker::at(program).temporary_files_in(temporary_folder).ahead(ahead);
        for (name, value) in environment {
            linker = linker.variable(name, value);
        }
        Ok(PreparedLinker(cuda.into_iter().fold(linker, Linker::cuda)))
    }
}
