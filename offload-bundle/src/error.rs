//! The errors of readers and editors: what is wrong, and where in the bytes.

use std::borrow::Cow;
use std::fmt;
use std::io;

use crate::arch::GpuArch;
use crate::compression::CompressionError;
use crate::file_kind::FileKind;

/// What is wrong with a container and where.
///
/// Displayed as `<kind> at offset 0x<offset>`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
#[error("{kind} at offset {offset:#x}")]
pub struct FormatError {
    /// Offset in bytes from the start of the data that was given to the reader.
    pub offset: u64,
    /// What is wrong there.
    pub kind: FormatErrorKind,
}

/// What is wrong with a container, without the place.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum FormatErrorKind {
    /// A field, table or payload lies outside of the data.
    #[error("{what} goes beyond the end of the data")]
    Truncated {
        /// What lies outside.
        what: String,
    },
    /// A string without its NUL.
    #[error("{what} has no end")]
    Unterminated {
        /// The string.
        what: String,
    },
    /// A string that is no UTF-8.
    #[error("{what} is not UTF-8 text")]
    NotUtf8 {
        /// The string.
        what: String,
    },
    /// The data is of another format than the reader's.
    #[error("{0}")]
    WrongFormat(Cow<'static, str>),
    /// The data is of a version or form that cannot be read.
    #[error("{0}")]
    Unsupported(Cow<'static, str>),
    /// The data contradicts itself or its format.
    #[error("{0}")]
    Damaged(Cow<'static, str>),
    /// The library that reads ELF, COFF, Mach-O or archives rejects the data.
    #[error("{what}: {message}")]
    Parser {
        /// What was being read.
        what: &'static str,
        /// That library's message.
        message: String,
    },
    /// A cubin is for another GPU than the one named.
    #[error("cubin for {image} where one for {wanted} is wanted")]
    WrongTarget {
        /// The GPU that the cubin is for.
        image: GpuArch,
        /// The one named.
        wanted: GpuArch,
    },
    /// A payload cannot be compressed or decompressed.
    #[error(transparent)]
    Compression(#[from] CompressionError),
    /// A sound file cannot be edited.
    #[error(transparent)]
    Edit(#[from] EditError),
    /// The same, in a part of the data.
    #[error("{place}: {kind}")]
    Within {
        /// The part, such as `section .nv_fatbin`.
        place: String,
        /// What is wrong there.
        kind: Box<FormatErrorKind>,
    },
}

/// Why [`strip`](crate::strip) or [`annotate`](crate::annotate) cannot change a file, or [`retargeted`](crate::cubin::retargeted) a cubin.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum EditError {
    /// A thin archive was to be stripped.
    #[error("a thin archive holds no members; strip the files that it names")]
    StripThinArchive,
    /// The images of an archive were to be stored in another form.
    #[error("an archive; recompress the objects, or the program that is linked of them")]
    RecompressArchive,
    /// A fatbin takes more room in another form.
    #[error(
        "the fatbin would take {size} bytes in this form, and there is no room for more than {most} in a file that is linked already; link it again (fatlink's --offload-compress=, nvcc's --compress-mode=)"
    )]
    LargerFatbin {
        /// Bytes that it would take.
        size: u64,
        /// Bytes that it takes.
        most: u64,
    },
    /// An archive was to be stripped for some GPUs.
    #[error(
        "an archive, which is not linked yet: what a link takes of it is not known; name what to drop (--drop) or to keep (--keep)"
    )]
    StripArchiveForGpus,
    /// A fatbin to strip for some GPUs has code that this crate does not read.
    #[error(
        "entry {number} of the fatbin is of the kind '{kind}', which is not read here, so that nobody can say which GPUs need it; nothing was dropped"
    )]
    UnreadCode {
        /// The number of the entry, from 1.
        number: usize,
        /// Its kind.
        kind: String,
    },
    /// Without the entries that were dropped, another one would be taken.
    #[error(
        "the driver would do something else with the result, so nothing was written; this is a fault of offload-bundle"
    )]
    OtherOutcome,
    /// A thin archive was to be annotated.
    #[error("a thin archive, which holds no objects: annotate the files that it names")]
    AnnotateThinArchive,
    /// Bitcode was to be annotated.
    #[error("bitcode (-flto), which cannot be written into: compile with -frecord-command-line and the option itself")]
    AnnotateBitcode,
    /// A file to annotate is neither an object nor an archive.
    #[error("no object file and no archive ({0:?})")]
    NotAnObject(FileKind),
    /// An ELF file of another class or byte order.
    #[error("only 64-bit little-endian ELF files can be changed")]
    OtherElf,
    /// A file to annotate has no offload binaries.
    #[error("no device images in offload binaries: there is nothing to write into")]
    NoDeviceImages,
    /// A section that would have to move is aligned to more than any compiler writes.
    #[error("a section aligned to {0} bytes, which cannot be moved")]
    Alignment(u64),
    /// An image is registered by its address.
    #[error("the {image} for {target} is registered by its address already; link again without it")]
    Registered {
        /// The kind of the image.
        image: String,
        /// Its target.
        target: String,
    },
    /// A HIP bundle takes more room with fewer images, because its images overlap, or because it was compressed better than is possible here.
    #[error(
        "the bundle would take {size} bytes without these images, and there is only room for {most}; build the file again"
    )]
    LargerBundle {
        /// Bytes that it would take.
        size: u64,
        /// Bytes that it takes.
        most: u64,
    },
    /// An image of a container that cannot be rewritten was to be dropped.
    #[error(
        "the {image} for {target} cannot be dropped: only fatbins, HIP bundles and offload binaries can be stripped, by themselves or in ELF files and archives"
    )]
    NotStrippable {
        /// The kind of the image.
        image: String,
        /// Its target.
        target: String,
    },
    /// All images of a container were to be dropped.
    #[error(
        "every image would be dropped, and no kernel could run (--allow-empty does it all the same): the {container}"
    )]
    NothingLeft {
        /// The kind of the container.
        container: &'static str,
    },
    /// A program cannot be laid out without moving something in memory.
    #[error("the layout of this file cannot be kept without these images; link it again")]
    Layout,
    /// The stripped file cannot be read.
    #[error("the result could not be read back, so nothing was written: {0}")]
    Unreadable(String),
    /// The stripped file holds other images than it should.
    #[error("the result does not hold what was to stay, so nothing was written; this is a fault of offload-bundle")]
    ImagesLost,
    /// An archive has an index of an unknown kind.
    #[error("the archive's index is of a kind that cannot be rewritten; build the archive again with ar")]
    UnknownIndex,
    /// An archive outgrows the offsets of its index.
    #[error("an archive that grows beyond what its index can name")]
    IndexOverflow,
    /// A cubin's header has no room for the number of this GPU.
    #[error("a cubin cannot record {0}")]
    UnrecordableTarget(GpuArch),
    /// A 32-bit cubin was to be retargeted.
    #[error("a 32-bit cubin, which is for none of today's GPUs")]
    Cubin32,
}

impl FormatError {
    /// An error at `offset`, in bytes from the start of the data given.
    pub fn new(offset: u64, kind: impl Into<FormatErrorKind>) -> Self {
        Self { offset, kind: kind.into() }
    }

    pub(crate) fn damaged(offset: u64, what: impl Into<Cow<'static, str>>) -> Self {
        Self { offset, kind: FormatErrorKind::Damaged(what.into()) }
    }

    /// The container that is written from the data at this offset cannot be written.
    pub fn unwritable(offset: u64, cause: &dyn std::error::Error) -> Self {
        Self::unsupported(offset, cause.to_string())
    }

    pub(crate) fn unsupported(offset: u64, what: impl Into<Cow<'static, str>>) -> Self {
        Self { offset, kind: FormatErrorKind::Unsupported(what.into()) }
    }

    pub(crate) fn wrong_format(offset: u64, what: impl Into<Cow<'static, str>>) -> Self {
        Self { offset, kind: FormatErrorKind::WrongFormat(what.into()) }
    }

    pub(crate) fn truncated(offset: u64, what: impl Into<String>) -> Self {
        Self { offset, kind: FormatErrorKind::Truncated { what: what.into() } }
    }

    pub(crate) fn parser(offset: u64, what: &'static str, error: impl fmt::Display) -> Self {
        Self { offset, kind: FormatErrorKind::Parser { what, message: error.to_string() } }
    }

    /// The same error seen from a file in which the data starts at `base`.
    #[must_use]
    pub fn shifted(mut self, base: u64) -> Self {
        self.offset = self.offset.saturating_add(base);
        self
    }

    /// The same error with the place named in front: `<place>: <kind>`.
    #[must_use]
    pub fn within(self, place: &str) -> Self {
        let kind = FormatErrorKind::Within { place: place.to_owned(), kind: Box::new(self.kind) };
        Self { offset: self.offset, kind }
    }
}

/// Why a file, or a member of an archive, cannot be read or edited.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// A container is damaged.
    #[error("{error}")]
    Format {
        /// The archive member that holds it.
        member: Option<String>,
        /// What is wrong, and where in the file.
        error: FormatError,
    },
    /// A member of a thin archive cannot be read.
    #[error("{error}")]
    ThinMember {
        /// The path as recorded.
        member: String,
        /// The error of whoever reads the member's file.
        error: io::Error,
    },
}

impl FileError {
    /// The archive member that the error is about.
    pub fn member(&self) -> Option<&str> {
        match self {
            FileError::Format { member, .. } => member.as_deref(),
            FileError::ThinMember { member, .. } => Some(member),
        }
    }
}

impl From<FormatError> for FileError {
    /// An error of the file itself, not of an archive member.
    fn from(error: FormatError) -> Self {
        FileError::Format { member: None, error }
    }
}
