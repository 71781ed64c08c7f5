//! The options of nvFatbin, typed.

use std::collections::HashSet;
use std::num::NonZero;

use super::encode::{LARGEST_PLAIN_CUBIN, Packing, Store};
use super::{EntryKind, FatbinError, StoreMode, flag};

/// The operating system of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Host {
    /// Linux.
    #[default]
    Linux,
    /// macOS.
    Mac,
    /// Windows.
    Windows,
}

impl Host {
    pub(super) fn flag(self) -> u64 {
        match self {
            Host::Linux => flag::HOST_LINUX,
            Host::Mac => flag::HOST_MAC,
            Host::Windows => flag::HOST_WINDOWS,
        }
    }
}

/// The compiler driver that a fatbin comes from, if recorded. Neither nvcc nor clang records it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Producer {
    /// Not recorded.
    #[default]
    Unsaid,
    /// `-cuda`.
    Cuda,
    /// `-opencl`.
    OpenCl,
}

/// What compression optimizes for (`-compress-mode=`), as in nvFatbin and `fatbinary` 13.0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum CompressMode {
    /// Zstandard of level 5.
    #[default]
    Default,
    /// Zstandard of level 19, of cubins too.
    Size,
    /// LZ4, which every driver decompresses, and the fastest.
    Speed,
    /// The same as the default.
    Balance,
    /// No compression.
    None,
}

impl CompressMode {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Default, Self::Size, Self::Speed, Self::Balance, Self::None];

    /// Its name in `-compress-mode=`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Size => "size",
            Self::Speed => "speed",
            Self::Balance => "balance",
            Self::None => "none",
        }
    }

    /// The mode with that name.
    pub fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.name() == word)
    }
}

/// How images are validated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Validation {
    /// Rejects what no driver or linker could use: damaged cubins, PTX whose `.target` does not fit its label, damaged LTO-IR.
    #[default]
    Strict,
    /// Accepts what nvFatbin 13.0 accepts. (It never reads a `.target`; of a cubin it reads four fields.)
    Nvidia,
}

/// Options of every entry of a fatbin. The defaults are nvFatbin's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BuilderOptions {
    /// Device code for a 64-bit host (`-64`), else for a 32-bit one (`-32`).
    pub is_64_bit: bool,
    /// Device code with debug information (`-g`).
    pub debug: bool,
    /// Relocatable device code (`-c`). Its one effect is that cubins are compressed.
    pub relocatable: bool,
    /// The operating system of the host (`-host=`).
    pub host: Host,
    /// `-cuda` or `-opencl`.
    pub producer: Producer,
    /// Whether anything is compressed (`-compress=`).
    pub compress: bool,
    /// Whether all cubins are, too (`-compress-all`), not only those with debug information or of more than 10,000,000 bytes.
    pub compress_all: bool,
    /// Whether everything is compressed that becomes smaller, cubins too, and nothing else. nvFatbin has no such option.
    pub compress_smaller: bool,
    /// How it is compressed (`-compress-mode=`).
    pub mode: CompressMode,
    /// The level of Zstandard, from 1 to 22, in place of the mode's own.
    pub level: Option<u8>,
    /// Threads that compress machine code and LTO-IR with Zstandard, in pieces. The bytes are the same for every number of threads, but a
    /// little more than those of `None`, which are `fatbinary`'s.
    pub threads: Option<NonZero<u32>>,
    /// How images are validated.
    pub validation: Validation,
}

impl Default for BuilderOptions {
    fn default() -> Self {
        Self {
            is_64_bit: true,
            debug: false,
            relocatable: false,
            host: Host::Linux,
            producer: Producer::Unsaid,
            compress: true,
            compress_all: false,
            compress_smaller: false,
            mode: CompressMode::Default,
            level: None,
            threads: None,
            validation: Validation::Strict,
        }
    }
}

impl BuilderOptions {
    /// Reads options in nvFatbin's spelling, such as `-g` and `-compress-mode=size`.
    ///
    /// Of an option with a value that comes more than once, the first counts, as in nvFatbin.
    ///
    /// ```
    /// use offload_bundle::fatbin::{BuilderOptions, CompressMode};
    ///
    /// let options = BuilderOptions::parse(["-64", "-compress-mode=size"])?;
    /// assert_eq!(options.mode, CompressMode::Size);
    /// assert!(BuilderOptions::parse(["-64", "-32"]).is_err());
    /// # Ok::<(), offload_bundle::fatbin::FatbinError>(())
    /// ```
    ///
    /// # Errors
    /// [`FatbinError::UnrecognizedOption`] for any other word, and for one that contradicts an earlier one.
    pub fn parse<T: AsRef<str>>(words: impl IntoIterator<Item = T>) -> Result<Self, FatbinError> {
        let mut parser = Parser::default();
        for word in words {
            let word = word.as_ref();
            parser.take(word).ok_or_else(|| FatbinError::UnrecognizedOption(word.to_owned()))?;
        }
        Ok(parser.options)
    }

    pub(super) fn flags(&self) -> u64 {
        let producer = match self.producer {
            Producer::Unsaid => 0,
            Producer::Cuda => flag::CUDA,
            Producer::OpenCl => flag::OPENCL,
        };
        let bits = if self.is_64_bit { flag::BITS_64 } else { 0 };
        let debug = if self.debug { flag::DEBUG } else { 0 };
        self.host.flag() | producer | bits | debug
    }

    /// How PTX, LTO-IR and Tile IR are stored, and cubins that are compressed.
    pub(super) fn store_of_code(&self, kind: EntryKind) -> Store {
        // PTX shrinks to a tenth in one pass, and its bytes stay those of `fatbinary`.
        let threads = self.threads.filter(|_| kind != EntryKind::Ptx);
        let zstd = |level| {
            let level = self.level.map_or(level, i32::from);
            threads.map_or(Packing::Zstd(level), |threads| Packing::ZstdInPieces(level, threads))
        };
        let packing = match self.mode {
            _ if !self.compress => return Store::Plain,
            CompressMode::None => return Store::Plain,
            CompressMode::Default | CompressMode::Balance => zstd(5),
            CompressMode::Size => zstd(19),
            CompressMode::Speed => Packing::Lz4,
        };
        if self.compress_smaller { Store::Smaller(packing) } else { Store::Packed(packing) }
    }

    /// How the images are stored if they are put together as concatenations, which are always compressed; `None` if these options exclude that.
    pub fn concatenation(&self) -> Option<StoreMode> {
        match self.mode {
            _ if !self.compress => None,
            CompressMode::None => None,
            CompressMode::Default | CompressMode::Balance => Some(StoreMode::Balance),
            CompressMode::Size => Some(StoreMode::Size),
            CompressMode::Speed => Some(StoreMode::Speed),
        }
    }

    /// How a cubin of this size in bytes is stored.
    pub(super) fn store_of_cubin(&self, size: usize) -> Store {
        let is_all = self.compress_all || self.compress_smaller || self.mode == CompressMode::Size;
        let wanted = is_all || self.debug || self.relocatable || size > LARGEST_PLAIN_CUBIN;
        if wanted { self.store_of_code(EntryKind::Elf) } else { Store::Plain }
    }
}

/// The options so far, and the words that set them.
#[derive(Debug, Default)]
struct Parser {
    options: BuilderOptions,
    words: HashSet<String>,
}

impl Parser {
    fn take(&mut self, word: &str) -> Option<()> {
        match word.split_once('=') {
            None | Some((_, "")) => self.take_flag(word.trim_end_matches('=')),
            Some((name, value)) => self.take_value(name, value),
        }
    }

    fn take_flag(&mut self, word: &str) -> Option<()> {
        const CONTRADICTIONS: [[&str; 2]; 2] = [["-64", "-32"], ["-cuda", "-opencl"]];
        let options = &mut self.options;
        match word {
            "-64" => options.is_64_bit = true,
            "-32" => options.is_64_bit = false,
            "-cuda" => options.producer = Producer::Cuda,
            "-opencl" => options.producer = Producer::OpenCl,
            "-g" => options.debug = true,
            "-c" => options.relocatable = true,
            "-compress-all" => options.compress_all = true,
            _ => return None,
        }
        self.words.insert(word.to_owned());
        let is_contradicted = CONTRADICTIONS.iter().any(|words| words.iter().all(|word| self.words.contains(*word)));
        (!is_contradicted).then_some(())
    }

    /// The first value counts, and the others have to be valid.
    fn take_value(&mut self, name: &str, value: &str) -> Option<()> {
        let mut options = self.options;
        match name {
            "-compress" => options.compress = value.parse().ok()?,
            "-compress-mode" => options.mode = CompressMode::named(value)?,
            "-host" => options.host = host(value)?,
            "-compress-level" => options.level = Some(value.parse().ok().filter(|level| (1..=22).contains(level))?),
            _ => return None,
        }
        if self.words.insert(name.to_owned()) {
            self.options = options;
        }
        Some(())
    }
}

fn host(value: &str) -> Option<Host> {
    Some(match value {
        "linux" => Host::Linux,
        "mac" => Host::Mac,
        "windows" => Host::Windows,
        _ => return None,
    })
}
