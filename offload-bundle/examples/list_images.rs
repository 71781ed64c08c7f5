//! Lists the device images of a file: `cargo run -p offload-bundle-library --example list_images -- a.out`.
#![allow(clippy::print_stdout, reason = "a program for a terminal")]

use std::error::Error;
use std::io;
use std::path::Path;

use offload_bundle::listing;

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args_os().nth(1).ok_or("usage: list_images FILE")?;
    let data = std::fs::read(&path)?;
    // The members of a thin archive are files of their own, named relative to the archive.
    let folder = Path::new(&path).parent().unwrap_or(Path::new(""));
    let read_thin = |member: &str| -> io::Result<Vec<u8>> { std::fs::read(folder.join(member)) };
    for row in listing::list(&data, read_thin)? {
        println!("{:#x}: {} for {}, {} bytes ({})", row.offset, row.image, row.target, row.size, row.compression);
    }
    Ok(())
}
