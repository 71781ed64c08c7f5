//! Errors of the commands.

use std::io;
use std::path::{Path, PathBuf};

use offload_bundle::audit::LostContainer;
use offload_bundle::fatbin::FatbinError;
use offload_bundle::{FileError, FormatError, GpuArch, printable};

use crate::image_error::ImageError;

pub type Result<T> = std::result::Result<T, Error>;

/// Why a command fails. The texts include those of the causes.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{path}: {source}")]
    Io { path: PathBuf, source: io::Error },
    #[error("{name}: {error}")]
    Package { name: String, error: String },
    #[error("{name}: {what}; if you trust the file, pass --allow-expansion")]
    Expands { name: PathBuf, what: String },
    #[error("{path}: cannot be read: {error}")]
    Folder { path: PathBuf, error: String },
    #[error("{path}: a quote or backslash in it has no end")]
    UnendedQuote { path: PathBuf },
    #[error("{path}: cannot be written: {source}")]
    Write { path: PathBuf, source: io::Error },
    #[error("{path}: cannot be created: {source}")]
    CreateFolder { path: PathBuf, source: io::Error },
    #[error("{path}: is a folder; name a file")]
    OutputIsFolder { path: PathBuf },
    #[error("standard output: {0}")]
    StandardOutput(#[source] io::Error),
    #[error("{}", with_member(file, source))]
    Parse { file: PathBuf, source: FileError },
    #[error("{file}: {source}")]
    Annotate { file: PathBuf, source: FormatError },
    #[error("--cuda-include-ptx={target} and --no-cuda-include-ptx={target} contradict each other")]
    ContradictingFlags { target: String },
    #[error("{file}: no device images")]
    NoImages { file: PathBuf },
    #[error(
        "{file}: no fatbin, no HIP bundle, and no section .nv_fatbin, __nv_relfatbin or .hip_fatbin with one; --scan looks elsewhere in the file, too"
    )]
    NoContainer { file: PathBuf },
    #[error("{file}: {lost}; the program registers no images there: link it again")]
    Lost { file: PathBuf, lost: LostContainer },
    #[error("{file}{}: {nothing}", and_others(*others))]
    NothingInside { file: PathBuf, others: usize, nothing: &'static str },
    #[error("{file}: no images for GPUs of {vendor}; `offload-bundle list` shows what there is")]
    NoContainerFor { file: PathBuf, vendor: &'static str },
    #[error("{file}: no fatbin and no HIP bundle in section {}", sections.join(", "))]
    NoFatbinInSection { file: PathBuf, sections: Vec<String> },
    #[error("nothing says where to write: name a file or folder (-o PATH), or use --in-place or --dry-run")]
    NoDestination,
    #[error("{file}: no wheel: a zip file is rewritten only with its one .dist-info/RECORD; unpack it")]
    NotAWheel { file: PathBuf },
    #[error(
        "{file}: the wheel is signed (.dist-info/RECORD.jws or .p7s), and the signature would not hold; remove it first"
    )]
    SignedWheel { file: PathBuf },
    #[error("{file}: {name} is not in .dist-info/RECORD, so the wheel is damaged")]
    NotInRecord { file: PathBuf, name: String },
    #[error(
        "{file}: .dist-info/RECORD has {recorded} for {name}, and the file in the wheel has {found}: one of them was changed; get the wheel \
         again, or make a new RECORD (`wheel unpack` and `wheel pack`)"
    )]
    OtherThanRecorded { file: PathBuf, name: String, recorded: String, found: String },
    #[error(
        "{file}: .dist-info/RECORD has no SHA-256, SHA-384 or SHA-512 hash for {name}, but {said:?}, so the file may have been changed; get the \
         wheel again, or make a new RECORD (`wheel unpack` and `wheel pack`)"
    )]
    RecordedWithoutHash { file: PathBuf, name: String, said: String },
    #[error("{file}: .dist-info/RECORD has two lines for {name}; make a new one (`wheel unpack` and `wheel pack`)")]
    RecordedTwice { file: PathBuf, name: String },
    #[error(
        "{file}: two entries have the name {name}, and installers may take either; unpack the wheel and pack it again"
    )]
    EntryTwice { file: PathBuf, name: String },
    #[error("{file}: the new wheel could not be read back, so nothing was written: {what}")]
    WheelReadBack { file: PathBuf, what: String },
    #[error(
        "{file}: nothing in it runs on {}, so nothing was dropped; leave {} out of --for (`offload-bundle explain --gpu` says why)",
        gpus.join(", "), if gpus.len() == 1 { "it" } else { "them" }
    )]
    Unserved { file: PathBuf, gpus: Vec<String> },
    #[error(
        "{file}: less of it would run than before, so nothing was written: on {}{}; require less, or choose another form",
        first(cells), if cells.len() > 4 { format!(" and {} more", cells.len() - 4) } else { String::new() }
    )]
    Worse { file: PathBuf, cells: Vec<String> },
    #[error("{file}: these GPUs need all of the {count} device images")]
    AllNeeded { file: PathBuf, count: usize },
    #[error(
        "{file}: none of the {count} device images has the code of another one that its GPUs would run in its place, so nothing was dropped"
    )]
    NothingEqual { file: PathBuf, count: usize },
    #[error("--within: `{text}` is not a target such as sm_90; name two targets whose cubins are to be compared")]
    NoTarget { text: String },
    #[error("{file}: no fatbin in it has a cubin for {target}; `offload-bundle list` shows what there is")]
    NoCubinFor { file: PathBuf, target: GpuArch },
    #[error("{file}: all images are stored in this form already")]
    StoredSo { file: PathBuf },
    #[error(
        "--concat compresses several images as one, and this mode compresses nothing; choose balance, size or speed"
    )]
    UncompressedConcatenation,
    #[error("{file}: the options select none of the {count} device images; `offload-bundle list` shows what there is")]
    NothingSelected { file: PathBuf, count: usize },
    #[error("{file}: the options drop none of the {count} device images; `offload-bundle list` shows what there is")]
    NothingDropped { file: PathBuf, count: usize },
    #[error(
        "{file}: the options select {} images (lines {}), but -o names one file; select one, or name a folder (`-o DIR/`)",
        lines.len(), joined(lines, ", ")
    )]
    SeveralImagesForOneFile { file: PathBuf, lines: Vec<usize> },
    #[error(
        "no GPU is named: several drivers, --no-jit, --kernels, --assemble, --load and --html need --gpus=GPU,... or gpus in the file of --claims"
    )]
    NoGpus,
    #[error("{0}")]
    Driver(String),
    #[error("--load: {0}; --load needs a machine with a GPU of NVIDIA's and its driver")]
    NoDriver(String),
    #[error("--load: this machine has {what}, which is not among --gpus and --driver")]
    OtherMachine { what: String },
    #[error("--assemble finds no ptxas: name one by --ptxas=PATH, or a toolkit by CUDA_PATH")]
    NoPtxas,
    #[error("{path}: {what}")]
    Ptxas { path: PathBuf, what: String },
    #[error("{path}: {what}")]
    Claims { path: PathBuf, what: String },
    #[error("--diff compares two files or folders, the old one and the new one, and not {count}")]
    NotTwoFiles { count: usize },
    #[error("--json and -o - would write to the same place; name a file with -o")]
    JsonAndImageOnStandardOutput,
    #[error("--image: {file}: {source}")]
    ImageSpec { file: PathBuf, source: ImageError },
    #[error("{file}: {source}")]
    AddToFatbin { file: PathBuf, source: FatbinError },
    #[error("{output}: {source}")]
    BuildFatbin { output: PathBuf, source: FatbinError },
    #[error("{output}: {source}")]
    BuildOffloadBinary { output: PathBuf, source: FormatError },
    #[error("{output}: the new container cannot be read back: {source}")]
    ReadBack { output: PathBuf, source: FileError },
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// Displayed as one line each.
    #[error("{}", joined(.0, "\n"))]
    Several(Vec<Error>),
}

/// A thin archive's member that is a pipe, a device or a folder.
#[derive(Debug, thiserror::Error)]
#[error("is not a regular file, as the members of a thin archive must be; rebuild the archive")]
pub struct NotARegularFile;

impl Error {
    /// Fails with all `errors`, if there are any.
    pub fn all(errors: Vec<Error>) -> Result<()> {
        if errors.is_empty() { Ok(()) } else { Err(Error::Several(errors)) }
    }
}

/// Formats `libx.a(a.o): <error>` with the names from the file escaped.
fn with_member(file: &Path, error: &FileError) -> String {
    let member = error.member().map(|member| format!("({member})")).unwrap_or_default();
    printable::name(&format!("{}{member}: {error}", file.display())).into_owned()
}

/// ` and 2 others`.
fn and_others(number: usize) -> String {
    match number {
        0 => String::new(),
        1 => " and another".to_owned(),
        number => format!(" and {number} others"),
    }
}

fn first(values: &[String]) -> String {
    joined(values.get(..4).unwrap_or(values), ", ")
}

fn joined(values: &[impl ToString], separator: &str) -> String {
    values.iter().map(ToString::to_string).collect::<Vec<_>>().join(separator)
}
