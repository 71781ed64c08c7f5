//! What goes into the image, how it is stored, and what is reported about it.

use std::fmt;
use std::path::PathBuf;

use offload_bundle::arch::{GpuArch, PtxVersion, UnknownArch};
use offload_bundle::coverage::Driver;
use offload_bundle::coverage::gate::Requirement;
use offload_bundle::fatbin::CompressMode;

use crate::cli::error::Error;

/// `--offload-ptx=`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum PtxPolicy {
    /// What the files' recorded flags request; none where no file has such a flag.
    #[default]
    Objects,
    /// What `--cuda-include-ptx=` and `--no-cuda-include-ptx=` on the link line request, with clang's meaning.
    Line,
    /// No PTX.
    None,
    /// Of the highest target.
    Newest,
    /// Of the lowest target.
    Oldest,
    /// Of every target.
    All,
    /// Of these architectures, whether machine code is made for them or not.
    List(Vec<GpuArch>),
}

impl PtxPolicy {
    /// Reads the option's value.
    ///
    /// # Errors
    /// A word that is neither a policy nor an architecture.
    pub fn parse(text: &str) -> Result<Self, Error> {
        const EXPECTED: &str = "objects, none, newest, oldest, all or a list such as compute_80,compute_90";
        Ok(match text {
            "objects" => PtxPolicy::Objects,
            "none" => PtxPolicy::None,
            "newest" => PtxPolicy::Newest,
            "oldest" => PtxPolicy::Oldest,
            "all" => PtxPolicy::All,
            _ => PtxPolicy::List(list(text).map_err(|source| Error::Targets {
                option: "--offload-ptx=",
                expected: EXPECTED,
                source,
            })?),
        })
    }
}

impl fmt::Display for PtxPolicy {
    /// As the option spells it.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            PtxPolicy::Objects => "objects",
            PtxPolicy::Line => "--cuda-include-ptx",
            PtxPolicy::None => "none",
            PtxPolicy::Newest => "newest",
            PtxPolicy::Oldest => "oldest",
            PtxPolicy::All => "all",
            PtxPolicy::List(archs) => return formatter.write_str(&joined(archs, GpuArch::virtual_name)),
        })
    }
}

/// `--offload-sass=`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum SassPolicy {
    /// Machine code for every target that files were compiled for.
    #[default]
    All,
    /// No machine code: the image holds PTX alone.
    None,
    /// For these architectures, whether files were compiled for them or not.
    List(Vec<GpuArch>),
}

impl SassPolicy {
    /// The architectures that the line names.
    pub fn listed(&self) -> &[GpuArch] {
        match self {
            SassPolicy::All | SassPolicy::None => &[],
            SassPolicy::List(list) => list,
        }
    }

    /// Reads the option's value.
    ///
    /// # Errors
    /// A word that is neither a policy nor an architecture.
    pub fn parse(text: &str) -> Result<Self, Error> {
        const EXPECTED: &str = "all, none or a list such as sm_80,sm_90";
        Ok(match text {
            "all" => SassPolicy::All,
            "none" => SassPolicy::None,
            _ => SassPolicy::List(list(text).map_err(|source| Error::Targets {
                option: "--offload-sass=",
                expected: EXPECTED,
                source,
            })?),
        })
    }
}

impl fmt::Display for SassPolicy {
    /// As the option spells it.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            SassPolicy::All => "all",
            SassPolicy::None => "none",
            SassPolicy::List(archs) => return formatter.write_str(&joined(archs, |arch| arch.to_string())),
        })
    }
}

fn joined(archs: &[GpuArch], name: impl Fn(GpuArch) -> String) -> String {
    archs.iter().map(|arch| name(*arch)).collect::<Vec<_>>().join(",")
}

fn list(text: &str) -> Result<Vec<GpuArch>, UnknownArch> {
    text.split(',').map(str::parse).collect()
}

/// Reads the value of `--offload-ptx-version=`.
///
/// # Errors
/// Anything but two numbers with a dot between them.
pub fn ptx_version(text: &str) -> Result<PtxVersion, Error> {
    let numbers = text.split_once('.').and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
    match numbers {
        Some((major, minor)) => Ok(PtxVersion { major, minor }),
        None => Err(Error::value("--offload-ptx-version=", "a version such as 8.0", text)),
    }
}

/// `--offload-compress=`: how the fatbin is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ImageCompression {
    /// Whatever becomes smaller, by a method that the oldest driver for the image decompresses.
    #[default]
    Auto,
    /// By the rules of `fatbinary` of CUDA 13.0.
    AsFatbinary(CompressMode),
}

impl ImageCompression {
    /// Reads `auto`, and the names that CUDA 13.0 gives its modes.
    ///
    /// # Errors
    /// Any other word.
    pub fn parse(text: &str) -> Result<Self, Error> {
        if text == Self::Auto.name() {
            return Ok(Self::Auto);
        }
        CompressMode::named(text).map(Self::AsFatbinary).ok_or_else(|| {
            let names = CompressMode::ALL.map(CompressMode::name).join(", ");
            Error::value("--offload-compress=", format!("one of auto, {names}"), text)
        })
    }

    /// Its name in the option.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::AsFatbinary(mode) => mode.name(),
        }
    }
}

/// Reads the value of `--offload-driver=`, the oldest driver that has to load the image.
///
/// # Errors
/// Anything but a driver's version such as 580 or 580.159.04.
pub fn driver(text: &str) -> Result<Driver, Error> {
    text.parse().map_err(|_| Error::value("--offload-driver=", "a driver version such as 580 or 580.159.04", text))
}

/// Reads the value of `--offload-require=`, the GPUs and drivers that the image has to serve.
///
/// # Errors
/// Anything but words for GPUs, behind `@` words for drivers, and `no-jit`.
pub fn require(text: &str) -> Result<Requirement, Error> {
    text.parse().map_err(|reason| Error::Require { reason })
}

/// Reads the value of `--compression-level=`, Zstandard's level for HIP bundles.
///
/// # Errors
/// No level of Zstandard.
pub fn compression_level(text: &str) -> Result<i32, Error> {
    let level = text.parse().ok().filter(|level| (-7..=22).contains(level));
    level.ok_or_else(|| Error::value("--compression-level=", "a level of Zstandard from -7 to 22", text))
}

/// `--offload-fatbin-section=`: where in the program the fatbin, or the HIP bundle, goes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ImageSection {
    /// Among the read-only data.
    #[default]
    Default,
    /// Away from code and data, which then stay within reach of each other.
    Large,
}

impl ImageSection {
    /// The option.
    pub const OPTION: &str = "--offload-fatbin-section=";

    /// What goes there, in messages and names of files.
    pub const CONTENT: &str = "fatbin";

    /// The sections that programs have it in.
    pub const NAMES: [&str; 2] = [".nv_fatbin", ".hip_fatbin"];

    /// Reads the option's value.
    ///
    /// # Errors
    /// A word that is neither.
    pub fn parse(text: &str) -> Result<Self, Error> {
        match text {
            "default" => Ok(ImageSection::Default),
            "large" => Ok(ImageSection::Large),
            _ => Err(Error::value(Self::OPTION, "default or large", text)),
        }
    }

    /// As the option spells it.
    pub fn name(self) -> &'static str {
        match self {
            ImageSection::Default => "default",
            ImageSection::Large => "large",
        }
    }
}

/// The form of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportForm {
    /// For people.
    Text,
    /// For programs.
    Json,
}

/// The form of a report, and the file that it goes to; `None`: standard output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportRequest {
    /// Its form.
    pub form: ReportForm,
    /// Its file.
    pub file: Option<PathBuf>,
}

impl ReportRequest {
    /// Reads the value of `option`: `text` or `json`, optionally followed by `:FILE`.
    ///
    /// # Errors
    /// Another form, or an empty file name.
    pub fn parse(option: &'static str, text: &str) -> Result<Self, Error> {
        let (form, file) = text.split_once(':').map_or((text, None), |(form, file)| (form, Some(file)));
        let form = match form {
            "text" => Some(ReportForm::Text),
            "json" => Some(ReportForm::Json),
            _ => None,
        };
        match (form, file) {
            (Some(form), file) if file != Some("") => Ok(ReportRequest { form, file: file.map(PathBuf::from) }),
            _ => Err(Error::value(option, "text or json, and :<file> behind it if you like", text)),
        }
    }
}

/// `--offload-plan=`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanRequest {
    /// The form, and the file.
    pub report: ReportRequest,
    /// Whether the text has every row, however many there are, and whole names.
    pub full: bool,
}

impl PlanRequest {
    /// Reads the value of the option: `full`, or what [`ReportRequest`] reads. A file gets the whole text: it is no screen.
    ///
    /// # Errors
    /// Another form, or an empty file name.
    pub fn parse(text: &str) -> Result<Self, Error> {
        const OPTION: &str = "--offload-plan=";
        let rest = text.strip_prefix("full").filter(|rest| rest.is_empty() || rest.starts_with(':'));
        let report = ReportRequest::parse(OPTION, &rest.map_or_else(|| text.to_owned(), |rest| format!("text{rest}")));
        let expected = "text, full or json, and :<file> behind it if you like";
        let report = report.map_err(|_| Error::value(OPTION, expected, text))?;
        Ok(PlanRequest { full: rest.is_some() || report.file.is_some(), report })
    }
}

/// `--offload-report=`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OffloadReport {
    /// Printed, or in a file, as text or JSON.
    Printed(ReportRequest),
    /// A page for browsers in this file.
    Html(PathBuf),
}

impl OffloadReport {
    /// Reads the value of the option: `html:FILE`, or what [`ReportRequest`] reads.
    ///
    /// # Errors
    /// Another form, or no file name where one is required.
    pub fn parse(text: &str) -> Result<Self, Error> {
        const OPTION: &str = "--offload-report=";
        const FORMS: &str = "text or json, and :<file> behind it if you like, or html:<file>";
        match text.split_once(':') {
            Some(("html", file)) if !file.is_empty() => Ok(OffloadReport::Html(PathBuf::from(file))),
            _ => match ReportRequest::parse(OPTION, text) {
                Ok(request) => Ok(OffloadReport::Printed(request)),
                Err(_) => Err(Error::value(OPTION, FORMS, text)),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_for_browsers_have_a_file() {
        assert_eq!(OffloadReport::parse("html:a:b.html"), Ok(OffloadReport::Html(PathBuf::from("a:b.html"))));
        let json = ReportRequest { form: ReportForm::Json, file: None };
        assert_eq!(OffloadReport::parse("json"), Ok(OffloadReport::Printed(json)));
        for bad in ["html", "html:", "HTML:x", "text:"] {
            assert!(OffloadReport::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn plans_are_whole_in_files() {
        let parse =
            |text| PlanRequest::parse(text).map(|plan| (plan.report.form, plan.report.file.is_some(), plan.full));
        assert_eq!(parse("text"), Ok((ReportForm::Text, false, false)));
        assert_eq!(parse("full"), Ok((ReportForm::Text, false, true)));
        assert_eq!(parse("text:a"), Ok((ReportForm::Text, true, true)));
        assert_eq!(parse("full:a"), Ok((ReportForm::Text, true, true)));
        assert_eq!(parse("json").map(|(form, ..)| form), Ok(ReportForm::Json));
        for bad in ["fuller", "full:", "Full", ""] {
            assert!(parse(bad).unwrap_err().to_string().contains("expected text, full or json"), "{bad}");
        }
    }

    #[test]
    fn reports() {
        let request = |form, file: Option<&str>| Ok(ReportRequest { form, file: file.map(PathBuf::from) });
        assert_eq!(ReportRequest::parse("--offload-report=", "text"), request(ReportForm::Text, None));
        assert_eq!(
            ReportRequest::parse("--offload-report=", "json:a:b.json"),
            request(ReportForm::Json, Some("a:b.json"))
        );
        for bad in ["", "xml", "json:", "JSON"] {
            assert!(ReportRequest::parse("--offload-report=", bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn policies() {
        for text in ["objects", "none", "newest", "oldest", "all", "compute_80,compute_90"] {
            assert_eq!(PtxPolicy::parse(text).unwrap().to_string(), text);
        }
        for text in ["all", "none", "sm_80,sm_90a"] {
            assert_eq!(SassPolicy::parse(text).unwrap().to_string(), text);
        }
        assert!(PtxPolicy::parse("compute_90,best").is_err());
        assert!(SassPolicy::parse("fast").is_err());
    }
}
