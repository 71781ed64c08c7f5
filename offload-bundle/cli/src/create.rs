//! `offload-bundle create`.

mod spec;

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use offload_bundle::fatbin::{BuilderOptions, CompressMode, FatbinBuilder};
use offload_bundle::hip_bundle;
use offload_bundle::listing::{self, Row};
use offload_bundle::offload_binary::{self, Form, ImageToWrite, Packing};
use offload_bundle::recompress;
use serde::Serialize;

use crate::error::{Error, Result};
use crate::files;
use crate::output::{self, CommandOutput};
use crate::words::{Word, one_of};
use spec::{BundledImage, FatbinImage, FatbinImageKind, ImageSpec, PlainImage};

/// The container formats that `create` writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// NVIDIA's fatbin, as fatbinary of CUDA 13.0 writes it
    Fatbin,
    /// LLVM's offload binary, as llvm-offload-binary writes it
    OffloadBinary,
    /// The same in version 2, one for all images, which LLVM 23 and later read
    #[value(name = "offload-binary-2")]
    OffloadBinary2,
    /// The same in version 3, compressed, which LLVM 24 and later read
    #[value(name = "offload-binary-3")]
    OffloadBinary3,
    /// HIP's bundle, as clang-offload-bundler writes it for HIP
    HipBundle,
}

/// The compression modes of fatbinary.
const MODES: &[Word<CompressMode>] = &[
    ("default", CompressMode::Default, "Zstandard, level 5"),
    ("size", CompressMode::Size, "Zstandard, level 19; machine code too"),
    ("speed", CompressMode::Speed, "LZ4, which every driver supports"),
    ("balance", CompressMode::Balance, "Zstandard, level 5"),
    ("none", CompressMode::None, "Nothing is compressed"),
];

#[derive(Args)]
pub struct CreateArguments {
    /// The file to write
    #[arg(short, long, alias = "create", value_name = "FILE")]
    output: PathBuf,
    /// The kind of container
    #[arg(long, value_enum, default_value = "fatbin")]
    format: Format,
    /// An image: `kind=KIND,arch=ARCH,file=FILE`; repeat it for more images, which are stored in the order given
    #[arg(long, visible_aliases = ["image3", "gencode"], value_name = "SPEC", value_parser = spec::parse)]
    image: Vec<ImageSpec>,
    /// A name for the images of a fatbin, usually that of the source file
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    ident: String,
    /// Options of ptxas to record with PTX and LTO-IR
    #[arg(long, value_name = "OPTIONS", default_value = "", hide_default_value = true, allow_hyphen_values = true)]
    cmdline: String,
    /// Whether PTX, LTO-IR, and machine code with debug information or of more than 10,000,000 bytes are compressed
    #[arg(long, value_name = "true|false", default_value_t = true, action = clap::ArgAction::Set)]
    compress: bool,
    /// Compress all machine code, too
    #[arg(long)]
    compress_all: bool,
    /// Compress all images of a fatbin that become smaller, machine code too, and no others
    #[arg(long, conflicts_with = "compress_all")]
    compress_smaller: bool,
    /// How to compress
    #[arg(long, value_parser = one_of(MODES), default_value = "default")]
    compress_mode: CompressMode,
    /// Compress all PTX as one, and all machine code, as `fatbinary --concat` of CUDA 13.5 does: drivers up to 580 do not load it
    #[arg(long)]
    concat: bool,
    /// The device code has debug information
    #[arg(short = 'g', long)]
    debug: bool,
    /// The device code is relocatable; machine code is compressed
    #[arg(short = 'c', long)]
    device_c: bool,
    /// For a 32-bit host
    #[arg(long = "32", conflicts_with = "bits_64")]
    bits_32: bool,
    /// For a 64-bit host, which is the default
    #[arg(long = "64")]
    bits_64: bool,
    /// Print a JSON object with the images as in `offload-bundle list --json`
    #[arg(long)]
    json: bool,
}

/// The JSON output. The field names are its keys.
#[derive(Serialize)]
struct Created {
    file: String,
    size: u64,
    images: Vec<Row>,
}

pub fn run(arguments: &CreateArguments) -> Result<CommandOutput> {
    let bytes = match arguments.format {
        Format::Fatbin => fatbin(arguments)?,
        Format::OffloadBinary => offload_binary(arguments, Form::Version1)?,
        Format::OffloadBinary2 => offload_binary(arguments, Form::Version2)?,
        Format::OffloadBinary3 => offload_binary(arguments, Form::Version3(Packing::Zstd(ZSTD_LEVEL)))?,
        Format::HipBundle => hip_bundle(arguments)?,
    };
    // Reject a container that this program could not read, before it is written.
    let rows = listing::list(&bytes, offload_bundle::archive::reject_thin_members)
        .map_err(|source| Error::ReadBack { output: arguments.output.clone(), source })?;
    files::write(&arguments.output, &bytes)?;
    if !arguments.json {
        return Ok(CommandOutput::success(String::new()));
    }
    let file = arguments.output.display().to_string();
    let text = output::json(&Created { file, size: bytes.len() as u64, images: rows })?;
    Ok(CommandOutput::success(text))
}

fn fatbin(arguments: &CreateArguments) -> Result<Vec<u8>> {
    let images = collect(arguments, FatbinImage::read)?;
    let mut builder = FatbinBuilder::new(arguments.options());
    let mut errors = Vec::new();
    for FatbinImage { kind, arch, bytes, file } in &images {
        let (bytes, ident, options) = (bytes.as_slice(), &arguments.ident, &arguments.cmdline);
        let added = match kind {
            FatbinImageKind::Cubin => builder.add_cubin(*arch, bytes, ident),
            FatbinImageKind::Ptx => builder.add_ptx(*arch, bytes, ident, options),
            FatbinImageKind::LtoIr => builder.add_ltoir(*arch, bytes, ident, options),
            FatbinImageKind::TileIr => builder.add_tile_ir(bytes, ident, options),
            FatbinImageKind::Relocatable => builder.add_relocatable(bytes).map(|_| ()),
        };
        if let Err(source) = added {
            errors.push(Error::AddToFatbin { file: file.clone(), source });
        }
    }
    Error::all(errors)?;
    let fatbin = builder.finish().map_err(|source| Error::BuildFatbin { output: arguments.output.clone(), source })?;
    if arguments.concat { concatenated(fatbin, arguments) } else { Ok(fatbin) }
}

fn concatenated(fatbin: Vec<u8>, arguments: &CreateArguments) -> Result<Vec<u8>> {
    let mode = arguments.options().concatenation().ok_or(Error::UncompressedConcatenation)?;
    let failed = |source| Error::ReadBack { output: arguments.output.clone(), source };
    let new = recompress::concatenate(&fatbin, mode).map_err(failed)?;
    Ok(if new.changed == 0 { fatbin } else { new.bytes })
}

/// The level at which LLVM compresses.
const ZSTD_LEVEL: i32 = 5;

fn offload_binary(arguments: &CreateArguments, form: Form) -> Result<Vec<u8>> {
    let images = collect(arguments, PlainImage::read)?;
    let images: Vec<ImageToWrite<'_>> = images
        .iter()
        .map(|image| ImageToWrite {
            image_kind: image.image_kind,
            offload_kinds: image.offload_kinds,
            flags: 0,
            strings: image.strings.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect(),
            image: &image.bytes,
        })
        .collect();
    offload_binary::write_all(&images, form)
        .map_err(|source| Error::BuildOffloadBinary { output: arguments.output.clone(), source })
}

/// Bundles the images behind an empty entry for the host, as clang does.
fn hip_bundle(arguments: &CreateArguments) -> Result<Vec<u8>> {
    let images = collect(arguments, BundledImage::read)?;
    let host = ("host-x86_64-unknown-linux-gnu-", &[][..]);
    let entries = images.iter().map(|image| (image.id.as_str(), image.bytes.as_slice()));
    let entries: Vec<(&str, &[u8])> = [host].into_iter().chain(entries).collect();
    Ok(hip_bundle::write(&entries, hip_bundle::HIP_ALIGNMENT))
}

/// Reads all images, or fails with an error for each image that cannot be read.
fn collect<T>(arguments: &CreateArguments, read: impl Fn(&ImageSpec) -> Result<T>) -> Result<Vec<T>> {
    let (mut images, mut errors) = (Vec::new(), Vec::new());
    for spec in &arguments.image {
        match read(spec) {
            Ok(image) => images.push(image),
            Err(error) => errors.push(error),
        }
    }
    Error::all(errors)?;
    Ok(images)
}

impl CreateArguments {
    fn options(&self) -> BuilderOptions {
        BuilderOptions {
            is_64_bit: !self.bits_32,
            debug: self.debug,
            relocatable: self.device_c,
            compress: self.compress,
            compress_all: self.compress_all,
            compress_smaller: self.compress_smaller,
            mode: self.compress_mode,
            ..BuilderOptions::default()
        }
    }
}
