//! What a link has made, and its diagnostics.

use std::ffi::{CString, c_char};

use fatlink::{Diagnostic, Error, Linked, Severity};

use crate::pointers::free;

/// How a link has ended.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum fatlink_status {
    /// There is an image.
    Ok = 0,
    /// The link failed; the diagnostics say why.
    Failed = 1,
    /// The caller cancelled the link.
    Cancelled = 2,
    /// The program fatlink is missing, cannot be started, or is of another release; the diagnostics say which.
    NoProgram = 3,
    /// The library failed; this is a defect of it.
    Internal = 4,
}

/// How bad a message is.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum fatlink_severity {
    /// What an option requests to be shown.
    Note = 0,
    /// The link goes on.
    Warning = 1,
    /// The link fails.
    Error = 2,
}

/// A message of a link. The texts belong to the result, or to the event, that it comes from.
#[repr(C)]
pub struct fatlink_diagnostic {
    /// How bad it is.
    pub severity: fatlink_severity,
    /// The whole text, of one line or more.
    pub message: *const c_char,
    /// The input that it is about, or null.
    pub file: *const c_char,
    /// The member of the archive that it is about, or null.
    pub member: *const c_char,
    /// The offset in the input in bytes, or -1.
    pub offset: i64,
}

/// What a link has made.
pub struct fatlink_result {
    status: fatlink_status,
    image: Vec<u8>,
    registration: Option<Vec<u8>>,
    report: Option<CString>,
    diagnostics: Vec<Texts>,
}

/// A diagnostic with texts as C has them.
pub struct Texts {
    severity: fatlink_severity,
    message: CString,
    file: Option<CString>,
    member: Option<CString>,
    offset: Option<u64>,
}

impl From<&Diagnostic> for Texts {
    fn from(of: &Diagnostic) -> Self {
        let severity = match of.severity {
            Severity::Note => fatlink_severity::Note,
            Severity::Warning => fatlink_severity::Warning,
            Severity::Error => fatlink_severity::Error,
        };
        let optional = |text: &Option<String>| text.as_deref().map(c_text);
        let (file, member) = (optional(&of.file), optional(&of.member));
        Texts { severity, message: c_text(&of.message), file, member, offset: of.offset }
    }
}

/// A text for C, which ends where it has a zero.
fn c_text(text: &str) -> CString {
    let end = text.find('\0').unwrap_or(text.len());
    CString::new(&text[..end]).unwrap_or_default()
}

impl Texts {
    /// Pointers to the texts.
    pub fn pointers(&self) -> fatlink_diagnostic {
        let optional = |text: &Option<CString>| text.as_ref().map_or(std::ptr::null(), |text| text.as_ptr());
        fatlink_diagnostic {
            severity: self.severity,
            message: self.message.as_ptr(),
            file: optional(&self.file),
            member: optional(&self.member),
            offset: self.offset.and_then(|offset| i64::try_from(offset).ok()).unwrap_or(-1),
        }
    }
}

impl fatlink_result {
    /// Of a link that was run.
    pub fn of(outcome: Result<Linked, Error>) -> Self {
        match outcome {
            Ok(linked) => fatlink_result {
                status: fatlink_status::Ok,
                image: linked.image,
                registration: linked.registration,
                report: linked.report.as_deref().map(c_text),
                diagnostics: linked.diagnostics.iter().map(Texts::from).collect(),
            },
            Err(error) => {
                let status = match &error {
                    Error::Cancelled => fatlink_status::Cancelled,
                    Error::NoProgram { .. } | Error::Start { .. } | Error::OtherRelease { .. } => {
                        fatlink_status::NoProgram
                    }
                    _ => fatlink_status::Failed,
                };
                let diagnostics = error.diagnostics().iter().map(Texts::from).collect();
                fatlink_result { diagnostics, ..Self::empty(status) }
            }
        }
    }

    /// Without anything.
    pub fn empty(status: fatlink_status) -> Self {
        fatlink_result { status, image: Vec::new(), registration: None, report: None, diagnostics: Vec::new() }
    }
}

/// Bytes for C: null if there are none.
///
/// # Safety
/// `size` is null or may be written to.
unsafe fn bytes(bytes: Option<&[u8]>, size: *mut usize) -> *const u8 {
    let bytes = bytes.unwrap_or_default();
    // SAFETY: as the caller promises.
    if let Some(size) = unsafe { size.as_mut() } {
        *size = bytes.len();
    }
    if bytes.is_empty() { std::ptr::null() } else { bytes.as_ptr() }
}

/// Returns how the link has ended.
///
/// # Safety
/// `result` is null or was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fatlink_result_status(result: *const fatlink_result) -> fatlink_status {
    // SAFETY: as the caller promises.
    unsafe { result.as_ref() }.map_or(fatlink_status::Internal, |result| result.status)
}

/// Returns the image, with its size in bytes in `size`: a fatbin for CUDA, a bundle for HIP. Null if the link failed.
///
/// # Safety
/// `result` is null or was not freed; `size` is null or may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fatlink_result_image(result: *const fatlink_result, size: *mut usize) -> *const u8 {
    // SAFETY: as the caller promises.
    unsafe { bytes(result.as_ref().map(|result| &result.image[..]), size) }
}

/// Returns the host object that registers the image, with its size in bytes in `size`. Null if the link failed or made the image alone.
///
/// # Safety
/// `result` is null or was not freed; `size` is null or may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fatlink_result_registration(result: *const fatlink_result, size: *mut usize) -> *const u8 {
    // SAFETY: as the caller promises.
    unsafe { bytes(result.as_ref().and_then(|result| result.registration.as_deref()), size) }
}

/// Returns the report as JSON, or null if the link did not make one.
///
/// # Safety
/// `result` is null or was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fatlink_result_report(result: *const fatlink_result) -> *const c_char {
    // SAFETY: as the caller promises.
    let report = unsafe { result.as_ref() }.and_then(|result| result.report.as_ref());
    report.map_or(std::ptr::null(), |report| report.as_ptr())
}

/// Returns the number of diagnostics: errors of a failed link, warnings and notes of any.
///
/// # Safety
/// `result` is null or was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fatlink_result_diagnostic_count(result: *const fatlink_result) -> usize {
    // SAFETY: as the caller promises.
    unsafe { result.as_ref() }.map_or(0, |result| result.diagnostics.len())
}

/// Writes the diagnostic of this index to `diagnostic`. Returns 1, or 0 if there is none of this index.
///
/// # Safety
/// `result` is null or was not freed; `diagnostic` is null or may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fatlink_result_diagnostic(
    result: *const fatlink_result,
    index: usize,
    diagnostic: *mut fatlink_diagnostic,
) -> i32 {
    // SAFETY: as the caller promises.
    let found = unsafe { result.as_ref() }.and_then(|result| result.diagnostics.get(index));
    match found {
        Some(texts) if !diagnostic.is_null() => {
            // SAFETY: it is not null, and the caller lets it be written to.
            unsafe { diagnostic.write(texts.pointers()) };
            1
        }
        _ => 0,
    }
}

/// Frees a result, with all that points into it.
///
/// # Safety
/// `result` is null or was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fatlink_result_free(result: *mut fatlink_result) {
    // SAFETY: as the caller promises.
    unsafe { free(result) };
}
