//! Writes the device images of a file into a folder, decompressed:
//! `cargo run -p offload-bundle-library --example extract_images -- a.out images/`.
#![allow(clippy::print_stdout, reason = "a program for a terminal")]

use std::error::Error;
use std::path::PathBuf;

use offload_bundle::archive::reject_thin_members;
use offload_bundle::listing;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let (Some(file), Some(folder)) = (arguments.next(), arguments.next()) else {
        return Err("usage: extract_images FILE FOLDER".into());
    };
    let folder = PathBuf::from(folder);
    std::fs::create_dir_all(&folder)?;
    let data = std::fs::read(file)?;
    let mut images = Vec::new();
    listing::visit(&data, reject_thin_members, |found| {
        let name = format!("{}.{}.{}", images.len() + 1, found.row.target, found.row.image.replace(' ', "-"));
        images.push((name.replace(['/', ':'], "_"), found.payload()?.into_owned()));
        Ok(())
    })?;
    for (name, bytes) in images {
        println!("{name}: {} bytes", bytes.len());
        std::fs::write(folder.join(name), bytes)?;
    }
    Ok(())
}
