//! Builds a fatbin out of PTX files: `cargo run -p offload-bundle-library --example build_fatbin -- out.fatbin a.ptx b.ptx`.

use std::error::Error;

use offload_bundle::fatbin::{BuilderOptions, CompressMode, FatbinBuilder};
use offload_bundle::ptx;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let output = arguments.next().ok_or("usage: build_fatbin OUTPUT PTX...")?;
    // LZ4 is what every driver decompresses.
    let mut builder = FatbinBuilder::new(BuilderOptions { mode: CompressMode::Speed, ..BuilderOptions::default() });
    for path in arguments {
        let text = std::fs::read(&path)?;
        let name = path.to_string_lossy();
        let target = ptx::target(&text).ok_or_else(|| format!("{name}: no PTX with a .target"))?;
        builder.add_ptx(target, text, name.as_bytes(), "")?;
    }
    std::fs::write(output, builder.finish()?)?;
    Ok(())
}
