//! Prints what the CUDA driver runs of each fatbin of a program on a GPU, and what `offload-bundle check` reports:
//! `cargo run -p offload-bundle-library --example explain_fatbin -- a.out sm_90`.
#![allow(clippy::print_stdout, reason = "a program for a terminal")]

use std::error::Error;

use offload_bundle::GpuArch;
use offload_bundle::archive::reject_thin_members;
use offload_bundle::coverage::{self, CheckOptions, CheckReport, Detail, Driver, ExplainReport};
use offload_bundle::host_object::Search;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().ok_or("usage: explain_fatbin FILE [GPU]")?;
    let gpu = arguments.next().map(|gpu| gpu.parse::<GpuArch>()).transpose()?;
    let data = std::fs::read(file)?;
    let containers = coverage::containers(&data, reject_thin_members, Search::Sections)?;
    // A driver of branch 580, which came with CUDA 13.0.
    let driver = Driver::Branch(580);
    print!("{}", ExplainReport::new(&containers, gpu, driver).text(Detail::Grouped));
    let options = CheckOptions { driver, ..CheckOptions::default() };
    print!("{}", CheckReport::new(&containers, &options).text(Detail::Grouped));
    Ok(())
}
