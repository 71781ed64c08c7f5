//! The bitcode container, as far as it is read without LLVM: the producer, and checks before LLVM's reader runs.
//!
//! The format is LLVM's "Bitcode File Format" (Bitstream Container Format, wrapper, IDENTIFICATION_BLOCK). No bytes make these
//! functions panic.

use crate::error::{BitcodeError, IrError};

/// Magic of raw bitcode, "BC" 0xC0DE.
const RAW_MAGIC: [u8; 4] = [b'B', b'C', 0xC0, 0xDE];
/// Magic of the wrapper that Darwin puts around bitcode: 0x0B17C0DE, little endian.
const WRAPPER_MAGIC: [u8; 4] = [0xDE, 0xC0, 0x17, 0x0B];
const IDENTIFICATION_BLOCK: u64 = 13;
const CODE_STRING: u64 = 1;
/// Abbreviation ids at the top level have 2 bits; there are only blocks.
const TOP_LEVEL_WIDTH: u64 = 2;
const MODULE_BLOCK: u64 = 8;
const PARAMATTR_GROUP_BLOCK: u64 = 10;
const GROUP_ENTRY: u64 = 3;
/// The parameter index that stands for the function itself.
const OF_THE_FUNCTION: u64 = 0xffff_ffff;
/// No real function has more parameters.
const MOST_PARAMETERS: u64 = 1 << 16;

/// The version of the LLVM that is linked in.
pub fn our_version() -> String {
    let (major, minor, patch) = inkwell::support::get_llvm_version();
    format!("{major}.{minor}.{patch}")
}

/// Whether the bytes start with a magic of bitcode.
pub fn is_bitcode(bytes: &[u8]) -> bool {
    bytes.starts_with(&RAW_MAGIC) || bytes.starts_with(&WRAPPER_MAGIC)
}

/// The producer in the identification block, such as "LLVM22.1.8". `None` if there is no such block or it is damaged; LLVM's
/// reader then reports what is wrong.
pub fn producer(bytes: &[u8]) -> Option<String> {
    let mut reader = BitReader::new(unwrap(bytes)?, 32);
    if reader.fixed(TOP_LEVEL_WIDTH)? != ENTER_SUBBLOCK {
        return None;
    }
    let block = reader.enter()?;
    if block.id == IDENTIFICATION_BLOCK { identification_string(&mut reader, block.width) } else { None }
}

/// Rejects what is not bitcode, what a newer LLVM wrote, and what would exhaust the memory of LLVM's reader.
pub(crate) fn check(unit: &str, bytes: &[u8]) -> Result<(), IrError> {
    if !is_bitcode(bytes) {
        return Err(IrError::Bitcode { unit: unit.to_owned(), cause: BitcodeError::Magic });
    }
    if let Some(index) = absurd_parameter(bytes) {
        return Err(IrError::Bitcode { unit: unit.to_owned(), cause: BitcodeError::Parameter { index } });
    }
    let Some(theirs) = producer(bytes).and_then(|text| version_in(&text)) else { return Ok(()) };
    let ours = our_version();
    if major(&theirs) > major(&ours) {
        return Err(IrError::NewerBitcode { unit: unit.to_owned(), theirs, ours });
    }
    Ok(())
}

/// "LLVM23.1.0-rust-1.99" -> "23.1.0"; `None` for other producers, whose versions are not LLVM's.
fn version_in(producer: &str) -> Option<String> {
    let digits = producer.strip_prefix("LLVM")?;
    let end = digits.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(digits.len());
    let version = digits[..end].trim_end_matches('.');
    (!version.is_empty()).then(|| version.to_owned())
}

fn major(version: &str) -> u32 {
    version.split('.').next().and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// The first parameter index beyond [`MOST_PARAMETERS`] that has attributes. LLVM's reader would allocate a list of as many
/// elements, gigabytes in the worst case. `None` also if the blocks before are unreadable, which LLVM reports.
fn absurd_parameter(bytes: &[u8]) -> Option<u64> {
    let mut reader = BitReader::new(unwrap(bytes)?, 32);
    loop {
        if reader.fixed(TOP_LEVEL_WIDTH)? != ENTER_SUBBLOCK {
            return None;
        }
        let block = reader.enter()?;
        if block.id == MODULE_BLOCK {
            return in_module(&mut reader, block.width);
        }
        reader.skip(&block)?;
    }
}

fn in_module(reader: &mut BitReader<'_>, width: u64) -> Option<u64> {
    let mut abbreviations = Vec::new();
    loop {
        match reader.fixed(width)? {
            END_BLOCK => return None,
            ENTER_SUBBLOCK => match reader.enter()? {
                block if block.id == PARAMATTR_GROUP_BLOCK => return in_attribute_groups(reader, block.width),
                block => reader.skip(&block)?,
            },
            id => drop(record(reader, id, &mut abbreviations)?),
        }
    }
}

/// Reads records of group, parameter index, and attributes.
fn in_attribute_groups(reader: &mut BitReader<'_>, width: u64) -> Option<u64> {
    let mut abbreviations = Vec::new();
    loop {
        match reader.fixed(width)? {
            END_BLOCK | ENTER_SUBBLOCK => return None,
            id => match record(reader, id, &mut abbreviations)?[..] {
                [GROUP_ENTRY, _, index, ..] if index > MOST_PARAMETERS && index != OF_THE_FUNCTION => {
                    return Some(index);
                }
                _ => {}
            },
        }
    }
}

/// Strips the wrapper: magic, version, offset, size, cpu type, each a little-endian u32.
fn unwrap(bytes: &[u8]) -> Option<&[u8]> {
    if !bytes.starts_with(&WRAPPER_MAGIC) {
        return Some(bytes);
    }
    let word = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?) as usize);
    let (offset, size) = (word(8)?, word(12)?);
    bytes.get(offset..offset.checked_add(size)?)
}

const END_BLOCK: u64 = 0;
const ENTER_SUBBLOCK: u64 = 1;
const DEFINE_ABBREV: u64 = 2;
const UNABBREV_RECORD: u64 = 3;

/// One operand of an abbreviation.
#[derive(Clone, Copy)]
enum Operand {
    Literal(u64),
    Fixed(u64),
    Vbr(u64),
    Array,
    Char6,
}

fn identification_string(reader: &mut BitReader<'_>, width: u64) -> Option<String> {
    let mut abbreviations = Vec::new();
    loop {
        let record = match reader.fixed(width)? {
            END_BLOCK | ENTER_SUBBLOCK => return None,
            id => record(reader, id, &mut abbreviations)?,
        };
        if record.first() == Some(&CODE_STRING) {
            let text = record[1..].iter().map(|value| u8::try_from(*value).ok()).collect::<Option<Vec<u8>>>()?;
            return String::from_utf8(text).ok();
        }
    }
}

/// The record behind an abbreviation id. The definition of an abbreviation is added to the list and gives an empty record.
fn record(reader: &mut BitReader<'_>, id: u64, abbreviations: &mut Vec<Vec<Operand>>) -> Option<Vec<u64>> {
    match id {
        DEFINE_ABBREV => {
            abbreviations.push(define_abbreviation(reader)?);
            Some(Vec::new())
        }
        UNABBREV_RECORD => unabbreviated(reader),
        id => abbreviated(reader, abbreviations.get(usize::try_from(id.checked_sub(4)?).ok()?)?),
    }
}

fn define_abbreviation(reader: &mut BitReader<'_>) -> Option<Vec<Operand>> {
    let count = reader.vbr(5)?;
    let mut operands = Vec::new();
    for _ in 0..count.min(64) {
        operands.push(if reader.fixed(1)? == 1 {
            Operand::Literal(reader.vbr(8)?)
        } else {
            match reader.fixed(3)? {
                1 => Operand::Fixed(reader.vbr(5)?),
                2 => Operand::Vbr(reader.vbr(5)?),
                3 => Operand::Array,
                4 => Operand::Char6,
                // A blob does not occur in these blocks.
                _ => return None,
            }
        });
    }
    Some(operands)
}

fn unabbreviated(reader: &mut BitReader<'_>) -> Option<Vec<u64>> {
    let mut record = vec![reader.vbr(6)?];
    for _ in 0..reader.vbr(6)? {
        record.push(reader.vbr(6)?);
    }
    Some(record)
}

fn abbreviated(reader: &mut BitReader<'_>, operands: &[Operand]) -> Option<Vec<u64>> {
    let mut record = Vec::new();
    let mut rest = operands.iter();
    while let Some(operand) = rest.next() {
        if let Operand::Array = operand {
            let element = *rest.next()?;
            for _ in 0..reader.vbr(6)? {
                record.push(scalar(reader, element)?);
            }
        } else {
            record.push(scalar(reader, *operand)?);
        }
    }
    Some(record)
}

fn scalar(reader: &mut BitReader<'_>, operand: Operand) -> Option<u64> {
    const CHAR6: &[u8; 64] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._";
    match operand {
        Operand::Literal(value) => Some(value),
        Operand::Fixed(width) => reader.fixed(width),
        Operand::Vbr(width) => reader.vbr(width),
        Operand::Char6 => CHAR6.get(usize::try_from(reader.fixed(6)?).ok()?).map(|c| u64::from(*c)),
        Operand::Array => None,
    }
}

/// The header of a block.
struct Block {
    id: u64,
    /// Width of the abbreviation ids inside, in bits.
    width: u64,
    words: u64,
}

/// Bits of a bitstream, least significant first.
struct BitReader<'a> {
    bytes: &'a [u8],
    bit: usize,
}

impl<'a> BitReader<'a> {
    fn new(bytes: &'a [u8], bit: usize) -> Self {
        BitReader { bytes, bit }
    }

    /// `width` bits; a width of 0 reads nothing and gives 0, as LLVM does.
    fn fixed(&mut self, width: u64) -> Option<u64> {
        if width > 64 {
            return None;
        }
        // Far from the end of the bytes, one load has all bits of any width that occurs.
        let start = self.bit / 8;
        if width <= 56
            && let Some(bytes) = self.bytes.get(start..).and_then(<[u8]>::first_chunk)
        {
            let value = u64::from_le_bytes(*bytes) >> (self.bit % 8) & ((1 << width) - 1);
            self.bit += width as usize;
            return Some(value);
        }
        let mut value = 0;
        for place in 0..width {
            let byte = *self.bytes.get(self.bit / 8)?;
            value |= u64::from(byte >> (self.bit % 8) & 1) << place;
            self.bit += 1;
        }
        Some(value)
    }

    /// A variable-width number in chunks of `width` bits; the top bit of a chunk means that another one follows.
    fn vbr(&mut self, width: u64) -> Option<u64> {
        if !(2..=32).contains(&width) {
            return None;
        }
        let (mut value, mut shift) = (0u64, 0);
        loop {
            let chunk = self.fixed(width)?;
            let more = 1 << (width - 1);
            if shift >= 64 {
                return None;
            }
            value |= (chunk & (more - 1)) << shift;
            if chunk & more == 0 {
                return Some(value);
            }
            shift += width - 1;
        }
    }

    /// The header of a block, behind ENTER_SUBBLOCK.
    fn enter(&mut self) -> Option<Block> {
        let (id, width) = (self.vbr(8)?, self.vbr(4)?);
        self.align32()?;
        Some(Block { id, width, words: self.fixed(32)? })
    }

    /// Skips to the end of a block that was just entered.
    fn skip(&mut self, block: &Block) -> Option<()> {
        self.bit = self.bit.checked_add(usize::try_from(block.words).ok()?.checked_mul(32)?)?;
        Some(())
    }

    fn align32(&mut self) -> Option<()> {
        self.bit = self.bit.checked_next_multiple_of(32)?;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn real_bitcode() -> Vec<u8> {
        let context = inkwell::context::Context::create();
        let module = context.create_module("m");
        let buffer = module.write_bitcode_to_memory();
        // inkwell includes the NUL behind the bitcode.
        buffer.as_slice().to_vec()
    }

    #[test]
    fn the_producer_of_real_bitcode_is_this_llvm() {
        assert_eq!(producer(&real_bitcode()), Some(format!("LLVM{}", our_version())));
        assert_eq!(check("m", &real_bitcode()), Ok(()));
    }

    #[test]
    fn versions_are_read_out_of_producers() {
        assert_eq!(version_in("LLVM22.1.8").as_deref(), Some("22.1.8"));
        assert_eq!(version_in("LLVM23.1.0-rust-1.99.0").as_deref(), Some("23.1.0"));
        assert_eq!(version_in("APPLE_1_1600"), None);
    }

    #[test]
    fn bits_are_the_same_near_the_end_and_far_from_it() {
        let bytes: Vec<u8> = (0..16u8).map(|byte| byte.wrapping_mul(0x9d) ^ 0x5a).collect();
        for (bit, width) in (0..64).flat_map(|bit| (0..=64).map(move |width| (bit, width))) {
            let expected = (0..width).fold(0u64, |value, place| {
                let at = bit + place as usize;
                value | u64::from(bytes[at / 8] >> (at % 8) & 1) << place
            });
            assert_eq!(BitReader::new(&bytes, bit).fixed(width), Some(expected), "{width} bits at {bit}");
        }
        assert_eq!(BitReader::new(&bytes, 120).fixed(9), None);
    }

    #[test]
    fn cut_off_bitcode_never_panics() {
        let bytes = real_bitcode();
        for end in 0..bytes.len().min(200) {
            let _ = producer(&bytes[..end]);
        }
        assert_eq!(producer(b"BC\xC0\xDE"), None);
    }

    #[test]
    fn attributes_of_a_parameter_that_no_function_has_are_rejected() {
        let context = inkwell::context::Context::create();
        let module = context.create_module("m");
        let byte = context.i8_type();
        let function = module.add_function("f", byte.fn_type(&[byte.into()], false), None);
        let kind = inkwell::attributes::Attribute::get_named_enum_kind_id("zeroext");
        let attribute = context.create_enum_attribute(kind, 0);
        function.add_attribute(inkwell::attributes::AttributeLoc::Function, context.create_string_attribute("a", "b"));
        function.add_attribute(inkwell::attributes::AttributeLoc::Param(0), attribute);
        let sound = module.write_bitcode_to_memory().as_slice().to_vec();
        assert_eq!(check("m", &sound), Ok(()));
        // Some change of one bit makes another parameter of it.
        let changed = (0..sound.len() * 8).filter(|bit| {
            let mut damaged = sound.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            absurd_parameter(&damaged).is_some()
        });
        assert!(changed.count() > 0);
    }

    #[test]
    fn text_is_not_bitcode() {
        assert!(matches!(check("a.o", b"hello"), Err(IrError::Bitcode { .. })));
    }
}
