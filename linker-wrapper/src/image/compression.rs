//! How the entries of the fatbin are compressed: `--offload-compress=`.

use std::num::NonZero;

use offload_bundle::coverage::Driver;
use offload_bundle::cubin;
use offload_bundle::fatbin::{BuilderOptions, CompressMode, Compression};
use offload_bundle::ptx;

use crate::cli::options;
use crate::cli::values::ImageCompression;
use crate::image::fatbin::Parts;

/// Translates the options of the link into those of the fatbin writer.
///
/// Up to `threads` threads compress machine code.
pub fn options(parts: &Parts<'_>, link: &options::Options, debug: bool, threads: usize) -> BuilderOptions {
    let threads = NonZero::new(u32::try_from(threads).unwrap_or(u32::MAX)).or(NonZero::new(1));
    let options = BuilderOptions { debug, threads, ..BuilderOptions::default() };
    match link.compress {
        // LZ4, which drivers before 550 read, too.
        ImageCompression::Auto if !may_be_zstd(parts, link.oldest_driver()) => {
            BuilderOptions { compress_smaller: true, mode: CompressMode::Speed, ..options }
        }
        ImageCompression::Auto => BuilderOptions { compress_smaller: true, ..options },
        ImageCompression::AsFatbinary(mode) => BuilderOptions { mode, ..options },
    }
}

/// Whether Zstandard keeps no driver from the image: the one that the user named reads it, or those that do not cannot load the machine
/// code either.
///
/// Without machine code the PTX decides. Beside machine code it does not: LZ4 would make the image larger, and
/// `fatbinary` of the same toolkit takes Zstandard, too. Users who need their PTX on older drivers name the driver.
fn may_be_zstd(parts: &Parts<'_>, named: Option<Driver>) -> bool {
    if let Some(driver) = named {
        return driver.lacks_for_compression(Compression::Zstd).is_none();
    }
    let Some(newest_without) = Driver::newest_without(Compression::Zstd) else { return true };
    let lacks_sass = |bytes| {
        let toolkit = cubin::parse(bytes).ok().and_then(|cubin| cubin.toolkit());
        toolkit.is_some_and(|toolkit| newest_without.lacks_for_sass(toolkit).is_some())
    };
    let lacks_ptx = |text| ptx::version(text).is_some_and(|version| newest_without.lacks_for_ptx(version).is_some());
    let has_sass = parts.entries().any(|(kind, ..)| kind == "cubin");
    parts.entries().all(|(kind, _, bytes)| match kind {
        "cubin" => lacks_sass(bytes),
        _ => has_sass || lacks_ptx(bytes),
    })
}

#[cfg(test)]
mod tests {
    use offload_bundle::arch::GpuArch;

    use super::*;
    use crate::lto::products::LinkedTarget;
    use crate::machines::nvptx::products::LinkedCode;
    use crate::sys::process::Mode;

    fn is_lz4(ptx: &[&str], driver: Option<Driver>) -> bool {
        let ptx = ptx.iter().map(|text| (GpuArch::plain(80), text.as_bytes().to_vec())).collect();
        let code = LinkedCode { ptx, ..LinkedCode::default() };
        let linked = [LinkedTarget { code, ..LinkedTarget::default() }];
        let link = options::Options { driver, ..options::Options::default() };
        options(&Parts::of_targets(&linked, Mode::default()), &link, false, 1).mode == CompressMode::Speed
    }

    #[test]
    fn the_oldest_driver_of_the_code_or_the_named_one_has_to_decompress_it() {
        let (old, new) = (".version 7.0\n.target sm_80\n", ".version 8.4\n.target sm_80\n");
        assert!(is_lz4(&[old], None) && is_lz4(&[new, old], None) && !is_lz4(&[new], None));
        for (branch, expected) in [(549, true), (550, false)] {
            for text in [old, new] {
                assert_eq!(is_lz4(&[text], Some(Driver::Branch(branch))), expected, "{branch}");
            }
        }
    }
}
