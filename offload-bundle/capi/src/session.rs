//! nvFatbin's rules: what it checks, in which order, and what may be called when.

use std::io::{self, Write};

use offload_bundle::fatbin::{BuilderOptions, CompressMode, FatbinBuilder, FatbinError, StoreMode, Validation};
use offload_bundle::{ArchFeature, GpuArch, recompress};

use crate::squeeze::squeeze_12;

/// Fatbins are those of nvFatbin 13.5, byte for byte where that is possible; 13.0 writes the same, but no Tile IR and no concatenations.
pub(crate) const VERSION: (u32, u32) = (13, 5);

/// A fatbin under construction.
#[derive(Debug)]
pub(crate) struct Session {
    builder: FatbinBuilder<'static>,
    /// PTX is stored as nvFatbin 12 stores it.
    is_as_12: bool,
    /// How its images are put together as concatenations, if they are.
    concatenation: Option<StoreMode>,
    /// The fatbin with concatenations, for which the size was requested.
    concatenated: Vec<u8>,
    /// Its size, if it was requested after the last image was added.
    size: Option<usize>,
}

impl Session {
    /// Options are nvFatbin's, and those that only this library has: `-strict` and `-as=12`.
    pub(crate) fn create(words: &[&[u8]]) -> Result<Self, FatbinError> {
        let mut validation = Validation::Nvidia;
        let (mut is_as_12, mut concatenates) = (false, false);
        let mut rest = Vec::new();
        for word in words {
            match *word {
                b"-strict" => validation = Validation::Strict,
                b"-as=12" => is_as_12 = true,
                b"-concat" => concatenates = true,
                _ => rest.push(String::from_utf8_lossy(word)),
            }
        }
        let mut options = BuilderOptions { validation, ..BuilderOptions::parse(&rest)? };
        // nvFatbin 12 compresses with LZ4 by default.
        if is_as_12 && options.mode == CompressMode::Default {
            options.mode = CompressMode::Speed;
        }
        let concatenation = concatenates
            .then(|| options.concatenation().ok_or_else(|| FatbinError::UnrecognizedOption("-concat".to_owned())))
            .transpose()?;
        let builder = FatbinBuilder::new(options);
        Ok(Self { builder, is_as_12, concatenation, concatenated: Vec::new(), size: None })
    }

    pub(crate) fn add_ptx(
        &mut self,
        text: &[u8],
        arch: &[u8],
        identifier: &[u8],
        options: &[u8],
    ) -> Result<(), FatbinError> {
        // Callers free their images right after the call, so they are copied.
        let (text, arch) = (not_empty(text)?, parse_arch(arch)?);
        if self.is_as_12 {
            self.builder.add_ptx_stored_as(arch, text, squeeze_12(text), identifier, options)?;
        } else {
            self.builder.add_ptx(arch, text.to_vec(), identifier, options)?;
        }
        self.size = None;
        Ok(())
    }

    pub(crate) fn add_cubin(&mut self, cubin: &[u8], arch: &[u8], identifier: &[u8]) -> Result<(), FatbinError> {
        let (cubin, arch) = (not_empty(cubin)?, parse_arch(arch)?);
        self.builder.add_cubin(arch, cubin.to_vec(), identifier)?;
        self.size = None;
        Ok(())
    }

    pub(crate) fn add_ltoir(
        &mut self,
        image: &[u8],
        arch: &[u8],
        identifier: &[u8],
        options: &[u8],
    ) -> Result<(), FatbinError> {
        let (image, arch) = (not_empty(image)?, parse_arch(arch)?);
        self.builder.add_ltoir(arch, image.to_vec(), identifier, options)?;
        self.size = None;
        Ok(())
    }

    pub(crate) fn add_tile_ir(&mut self, image: &[u8], identifier: &[u8], options: &[u8]) -> Result<(), FatbinError> {
        self.builder.add_tile_ir(not_empty(image)?.to_vec(), identifier, options)?;
        self.size = None;
        Ok(())
    }

    pub(crate) fn add_index(&mut self, image: &[u8]) -> Result<(), FatbinError> {
        not_empty(image)?;
        Err(FatbinError::InvalidIndex)
    }

    pub(crate) fn add_relocatable(&mut self, object: &[u8]) -> Result<(), FatbinError> {
        self.builder.add_relocatable(object.to_vec())?;
        self.size = None;
        Ok(())
    }

    /// The size of the fatbin in bytes.
    pub(crate) fn size(&mut self) -> Result<usize, FatbinError> {
        let mut size = usize::try_from(self.builder.size()?).map_err(|_| FatbinError::LargerThanMemory)?;
        if let Some(mode) = self.concatenation {
            self.concatenated = self.concatenated(mode)?;
            size = self.concatenated.len();
        }
        self.size = Some(size);
        Ok(size)
    }

    fn concatenated(&mut self, mode: StoreMode) -> Result<Vec<u8>, FatbinError> {
        let mut fatbin = Vec::new();
        self.builder.write_to(&mut fatbin).map_err(|error| FatbinError::Write(error.to_string()))?;
        let new = recompress::concatenate_all(&fatbin, mode).map_err(|error| FatbinError::Write(error.to_string()))?;
        Ok(if new.changed == 0 { fatbin } else { new.bytes })
    }

    /// Passes the bytes on in pieces, each with its offset; all together are as many as [`Session::size`] returned.
    pub(crate) fn write_pieces(&mut self, mut take: impl FnMut(usize, &[u8])) -> Result<(), FatbinError> {
        if self.size.is_none() {
            return Err(FatbinError::CallOrder { call: "nvFatbinGet", before: "nvFatbinSize" });
        }
        if self.concatenation.is_some() {
            take(0, &self.concatenated);
            return Ok(());
        }
        let mut pieces = PieceWriter { offset: 0, take };
        self.builder.write_to(&mut pieces).map_err(|error| FatbinError::Write(error.to_string()))
    }
}

/// A writer that knows how far it is.
struct PieceWriter<F> {
    offset: usize,
    take: F,
}

impl<F: FnMut(usize, &[u8])> Write for PieceWriter<F> {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        (self.take)(self.offset, piece);
        self.offset += piece.len();
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn not_empty(image: &[u8]) -> Result<&[u8], FatbinError> {
    if image.is_empty() { Err(FatbinError::EmptyInput) } else { Ok(image) }
}

/// Reads `90a` as nvFatbin does: C's `strtol` up to the suffix. An empty text is 0, which is accepted.
fn parse_arch(text: &[u8]) -> Result<GpuArch, FatbinError> {
    let invalid = || FatbinError::InvalidArch(String::from_utf8_lossy(text).into_owned());
    let (number, feature) = match text {
        [number @ .., b'a'] => (number, ArchFeature::Accelerated),
        [number @ .., b'f'] => (number, ArchFeature::Family),
        _ => (text, ArchFeature::Plain),
    };
    if number.is_empty() {
        return Ok(GpuArch { number: 0, feature });
    }
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t'..=b'\r');
    let start = number.iter().position(|byte| !is_space(byte)).ok_or_else(invalid)?;
    let digits = match number.get(start..) {
        Some([b'+', digits @ ..]) => digits,
        // Minus zero is a number like any other, but the only one with a minus.
        Some([b'-', digits @ ..]) if digits.iter().all(|digit| *digit == b'0') => digits,
        Some(digits) => digits,
        None => return Err(invalid()),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(invalid());
    }
    let number = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok()).ok_or_else(invalid)?;
    Ok(GpuArch { number, feature })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn architectures_as_strtol_reads_them() {
        let number = |text: &str| parse_arch(text.as_bytes()).map(|arch| arch.number).map_err(|error| error.code());
        for (text, expected) in [("90", 90), ("90a", 90), ("", 0), ("a", 0), (" +0090f", 90), ("4294967295", u32::MAX)]
        {
            assert_eq!(number(text), Ok(expected), "{text}");
        }
        for text in ["sm_90", "compute_90", "90 ", "90A", "-90", "abc", "90aa", " ", "+", "4294967296", "9 0"] {
            assert_eq!(number(text), Err(9), "{text}");
        }
    }
}
