//! The command line of `cargo xtask bench`.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Args, Parser};

use crate::cases::{self, CASES};
use crate::corpus::{Corpus, Targets};

/// Time fatlink against clang-linker-wrapper or another build of fatlink
///
/// Without --brief and --against the results go to docs/benchmarks.md. Exits with 1 when a case misses its goal. All cases
/// together take about two hours on two cores.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask bench", bin_name = "cargo xtask bench", after_help = cases::help())]
#[command(args_conflicts_with_subcommands = true)]
pub struct Arguments {
    #[command(subcommand)]
    pub subcommand: Option<Subcommand>,
    #[command(flatten)]
    pub selection: Selection,
    /// Compile a corpus, print where its objects are, and measure nothing
    #[arg(long, value_name = "CORPUS", conflicts_with_all = ["cases", "pack"])]
    pub objects: Option<Corpus>,
    /// Write an archive for measuring on a machine without compilers
    #[arg(long, value_name = "FILE", conflicts_with = "cases")]
    pub pack: Option<PathBuf>,
}

/// Which cases to measure, and how.
#[derive(Debug, Default, Args)]
pub struct Selection {
    /// Measure this case; all by default; can be repeated
    #[arg(long = "case", value_name = "NAME", value_parser = case_names(), hide_possible_values = true)]
    pub cases: Vec<String>,
    /// Print one line for each case
    #[arg(long)]
    pub brief: bool,
    /// Compare with this build of fatlink instead: the program, or a folder laid out like dist/
    #[arg(long, value_name = "PROGRAM")]
    pub against: Option<PathBuf>,
    /// With --against: count the instructions of fatlink's own process by valgrind instead of taking the time
    #[arg(long, requires = "against")]
    pub count_instructions: bool,
    /// Pairs of runs, instead of each case's own number
    #[arg(long, value_name = "N")]
    pub rounds: Option<NonZeroUsize>,
    /// Measure the programs in this folder, laid out like dist/, instead of building them
    #[arg(long, value_name = "DIR")]
    pub dist: Option<PathBuf>,
}

/// What is not a measurement.
#[derive(Debug, clap::Subcommand)]
pub enum Subcommand {
    /// Link cases with two builds of fatlink and compare the device images byte for byte
    CompareImages(ImageComparison),
}

/// What `compare-images` links.
#[derive(Debug, Args)]
pub struct ImageComparison {
    /// The other build of fatlink: the program, or a folder laid out like dist/
    #[arg(long, value_name = "PROGRAM")]
    pub against: PathBuf,
    /// Link the objects of this case; can be repeated
    #[arg(long = "case", value_name = "NAME", value_parser = timed_case_names(), default_values = ["small", "medium"])]
    pub cases: Vec<String>,
    /// Values for --wrapper-jobs=
    #[arg(long, value_name = "N", value_delimiter = ',', default_values = ["1", "2", "16"])]
    pub jobs: Vec<NonZeroUsize>,
    /// Keep the images of both builds in this folder
    #[arg(long, value_name = "DIR")]
    pub keep: Option<PathBuf>,
    /// Use the programs in this folder, laid out like dist/, instead of building them
    #[arg(long, value_name = "DIR")]
    pub dist: Option<PathBuf>,
}

fn case_names() -> PossibleValuesParser {
    CASES.iter().map(|case| case.name).collect::<Vec<_>>().into()
}

/// Those that link a program: nothing here can link HIP's.
fn timed_case_names() -> PossibleValuesParser {
    let is_linked = |case: &&cases::Case| case.timed().is_some_and(|timed| timed.corpus.targets() != Targets::Amd);
    CASES.iter().filter(is_linked).map(|case| case.name).collect::<Vec<_>>().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Arguments, clap::Error> {
        Arguments::try_parse_from(std::iter::once("bench").chain(line.split_whitespace()))
    }

    #[test]
    fn the_definition_is_consistent() {
        <Arguments as clap::CommandFactory>::command().debug_assert();
    }

    #[test]
    fn values_may_stand_apart_or_joined() {
        let selection = parsed("--case small --case=large --brief --rounds 2 --dist d").unwrap().selection;
        assert_eq!(selection.cases, ["small", "large"]);
        assert!(selection.brief);
        assert_eq!((selection.rounds, selection.dist), (NonZeroUsize::new(2), Some("d".into())));
        assert_eq!(parsed("--pack a.tar.xz").unwrap().pack, Some("a.tar.xz".into()));
        assert_eq!(parsed("--objects medium-two").unwrap().objects, Some(Corpus::MediumTwo));
    }

    #[test]
    fn bad_arguments_are_named() {
        for (line, named) in [
            ("--cases small", "--cases"),
            ("--case", "--case"),
            ("--case tiny", "tiny"),
            ("--rounds 0", "0"),
            ("--count-instructions", "--against"),
        ] {
            assert!(parsed(line).unwrap_err().to_string().contains(named), "{line}");
        }
    }

    #[test]
    fn images_are_compared_at_several_numbers_of_jobs() {
        let arguments = parsed("compare-images --against old --case small --jobs 1,16").unwrap();
        let Some(Subcommand::CompareImages(comparison)) = arguments.subcommand else { panic!("{arguments:?}") };
        assert_eq!(comparison.jobs.iter().map(|jobs| jobs.get()).collect::<Vec<_>>(), [1, 16]);
        assert!(parsed("compare-images --against old --case memory").is_err());
    }
}
