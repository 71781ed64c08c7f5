//! Neither the number of jobs changes the program, nor whether its code comes from the cache, nor that the link is repeated from the
//! archive of `--reproduce=`.

use std::path::Path;
use std::process::Command;

use super::{Outcome, link_of};
use crate::bench::{Bench, remove};
use crate::corpus::Corpus;
use crate::link::{Host, Side};
use crate::measure::{self, Memory};
use xtask::failure::{Failure, Result};
use xtask::repository::create_folder;
use xtask::step::Progress;

/// Compares the programs of several links.
pub fn run(bench: &mut Bench, progress: &Progress) -> Result<Outcome> {
    let objects = Corpus::Medium.objects(&bench.compiler, progress)?;
    bench.empty_cache()?;
    let archive = bench.folder.join("reproduced.tar");
    let reproduce = format!("--reproduce={}", archive.display());
    let (mut missed, mut sizes) = (Vec::new(), Vec::new());
    // With a cache each unit is cut by itself.
    for of_group in [Vec::new(), vec![bench.cache_option()]] {
        let link = |options: &[String]| -> Result<Vec<u8>> {
            let options = [&of_group, options].concat();
            bench.link(Side::Ours, &link_of(objects.clone(), Host::Program, options), Memory::Ignored)?;
            read(&bench.output(Side::Ours))
        };
        let first = link(&["--wrapper-jobs=1".to_owned(), reproduce.clone()])?;
        sizes.push(first.len().to_string());
        let mut compare = |what: &str, program: Vec<u8>| {
            if program != first {
                missed.push(format!("{what} {} gives other bytes than one job", of_group.concat()));
            }
        };
        compare("the archive", link_again(bench, progress, &archive)?);
        for jobs in ["--wrapper-jobs=1", "--wrapper-jobs=2", "--wrapper-jobs=16"] {
            compare(jobs, link(&[jobs.to_owned()])?);
        }
    }
    bench.cache_is_used()?;
    remove(&archive)?;
    let brief = format!("10 links, {} bytes, {} others", sizes.join(" and "), missed.len());
    Ok(Outcome { details: format!("- {brief}\n"), brief, missed, ..Outcome::default() })
}

/// Links what is in the archive, in a folder with nothing else, and returns the program.
fn link_again(bench: &Bench, progress: &Progress, archive: &Path) -> Result<Vec<u8>> {
    let folder = bench.folder.join("reproduced");
    remove(&folder)?;
    create_folder(&folder)?;
    progress.run(Command::new("tar").arg("-xf").arg(archive).arg("-C").arg(&folder))?;
    let unpacked = folder.join("reproduced");
    let mut command = Command::new(bench.linkers.folder(Side::Ours).join("clang-linker-wrapper"));
    command.arg("@response.txt").current_dir(&unpacked).env_remove("CUDA_PATH").env_remove("FATLINK_CACHE");
    measure::run(&mut command, &bench.log(), Memory::Ignored)?;
    let program = read(&unpacked.join("program.ours"))?;
    remove(&folder)?;
    Ok(program)
}

fn read(program: &Path) -> Result<Vec<u8>> {
    std::fs::read(program).map_err(|error| Failure::file("read", program, &error))
}
