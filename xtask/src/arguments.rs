//! The command line of `cargo xtask`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Parser;

use crate::cuda_release::CudaRelease;
use crate::llvm_release::LlvmRelease;
use crate::llvm_source::Release;
use crate::test::selection::Selection;

const AFTER_HELP: &str = "\
FATLINK_TOOLCHAIN names the folder in which CUDA and the C library are installed, instead of .toolchain/;
several clones can share one.";

/// The commands of the fatlink project
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", after_help = AFTER_HELP)]
pub struct Arguments {
    #[command(subcommand)]
    pub subcommand: Subcommand,
}

/// The commands, in the order of the help text.
#[derive(Debug, PartialEq, clap::Subcommand)]
pub enum Subcommand {
    /// Install what is missing, build fatlink, link a sample with it
    Demo,
    /// Run every test that can run on this machine
    Test {
        /// Only format, clippy, unit tests, and the lit tests of options and errors
        #[arg(long, conflicts_with_all = ["big", "farm", "packages", "browser", "stress", "nightly"])]
        quick: bool,
        /// Run the built tests once beside four busy threads for each core instead; the results are kept in target/stress/
        #[arg(long, conflicts_with_all = ["big", "farm", "packages", "browser", "nightly"])]
        stress: bool,
        /// Run what takes too long for every change instead: rustdoc, --shipped, --stress, --big, --rocm, the releases of clang and CUDA, LLVM's tests, --packages, --browser, --farm; as root
        #[arg(long, conflicts_with_all = ["big", "farm", "packages", "browser"])]
        nightly: bool,
        /// Link programs with 2.3 GB of device code instead; needs 6 GB of disk
        #[arg(long, conflicts_with_all = ["farm", "browser"])]
        big: bool,
        /// Compile and link programs with hipcc instead, and compare them with LLVM's; installs it, as root
        #[arg(long, conflicts_with_all = ["big", "farm", "packages", "browser", "stress", "nightly"])]
        rocm: bool,
        /// Link with real servers for jobs and shared results instead, all or these (reapi, slurm, webdav, s3); installs and starts them, as root
        #[arg(long, value_name = "ENGINE", num_args = 0..)]
        farm: Option<Vec<String>>,
        /// Install each package in Debian 11 and 12 instead, link a sample, remove it, compare; try CMake 3.25, 3.31 and 4; as root
        #[arg(long, conflicts_with_all = ["big", "farm"])]
        packages: bool,
        /// Take the packages as they are
        #[arg(long, requires = "packages")]
        no_build: bool,
        /// Open reports in headless Chromium instead, those that this makes and these; installs Chromium, as root
        #[arg(long, value_name = "REPORT", num_args = 0.., conflicts_with_all = ["farm", "packages"])]
        browser: Option<Vec<PathBuf>>,
        #[command(flatten)]
        selection: Selection,
    },
    /// Install LLVM 22, CUDA 13.0 and a C library to link against
    Setup {
        /// Also build OpenMP's runtime for NVIDIA's and AMD's GPUs out of LLVM's source, a download of 200 MB
        #[arg(long)]
        openmp_device: bool,
        /// Also install hipcc, and AMD's headers and libraries, out of Debian's experimental suite
        #[arg(long)]
        rocm: bool,
        /// Also install the libraries of this LLVM
        #[arg(long, value_enum, value_name = "RELEASE", default_value = "22")]
        llvm: LlvmRelease,
        /// Also install these releases of CUDA
        #[arg(long, value_enum, value_name = "RELEASE", value_delimiter = ',')]
        cuda: Vec<CudaRelease>,
    },
    /// Print what a shell needs to use them: eval "$(cargo xtask env)"
    Env,
    /// Time fatlink against clang-linker-wrapper or another build of fatlink; see bench --help
    // The crate in benchmarks/ parses these.
    #[command(disable_help_flag = true)]
    Bench {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
        arguments: Vec<OsString>,
    },
    /// Run the parsers of offload-bundle on damaged containers
    Fuzz {
        /// Time for each target
        #[arg(long, value_name = "N", default_value_t = 600)]
        seconds: u32,
        /// Fuzz targets under offload-bundle/fuzz; all by default
        #[arg(value_name = "TARGET")]
        targets: Vec<String>,
    },
    /// Compile and link two units with every release of clang and of CUDA by dist/, and fill in the tables of docs/reference/platforms.md
    Releases {
        /// Fail if they are other ones, instead
        #[arg(long)]
        check: bool,
    },
    /// Print the changelog's section of a release, if its tag fits the version of the packages
    ReleaseNotes {
        /// Such as v0.1.0
        tag: String,
    },
    /// Rebuild every container of the installed CUDA and LLVM
    Roundtrip,
    /// Run LLVM's own tests of clang-linker-wrapper on dist/, with Debian's source package
    UpstreamTests {
        /// The release: 22, or 23 with --offload-llvm-rules=23
        #[arg(long, value_name = "RELEASE", default_value = "22", value_parser = Release::parse)]
        llvm: &'static Release,
        /// The folder of the tests, instead of those that apt downloads
        #[arg(long, value_name = "FOLDER")]
        tests: Option<PathBuf>,
        /// Link LLVM 22's programs that offload to x86-64, by its tool and by dist/, and run them
        #[arg(long, conflicts_with_all = ["llvm", "tests"])]
        programs: bool,
    },
    /// Build the programs and lay them out in dist/
    Dist {
        /// Also write archives with documentation, licenses and checksums into the target folder
        #[arg(long)]
        archive: bool,
        /// Build fatlink with this LLVM
        #[arg(long, value_enum, value_name = "RELEASE", default_value = "22")]
        llvm: LlvmRelease,
        /// Build programs that run on AArch64, with LLVM 23, into dist-aarch64/
        #[arg(long, conflicts_with = "llvm")]
        aarch64: bool,
        /// Also write a Python wheel into the target folder for AArch64; `cargo xtask package` writes that for x86-64
        #[arg(long, requires = "aarch64")]
        wheel: bool,
    },
    /// Build docs/ as a book with mdbook, which cargo installs
    Docs,
    /// Build Debian packages, a Python wheel and archives of dist/
    Package {
        /// Take dist/ as it is
        #[arg(long)]
        no_build: bool,
        /// Also a container image with clang and CUDA, of Debian 12; as root
        #[arg(long)]
        image: bool,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test::selection::Step;

    fn parsed(line: &str) -> Result<Subcommand, clap::Error> {
        let words = std::iter::once("xtask").chain(line.split_whitespace());
        Arguments::try_parse_from(words).map(|arguments| arguments.subcommand)
    }

    #[test]
    fn the_definition_is_consistent() {
        <Arguments as clap::CommandFactory>::command().debug_assert();
    }

    #[test]
    fn workflows_name_commands_that_exist() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let mut commands = 0;
        for file in std::fs::read_dir(root.join(".github/workflows")).unwrap() {
            let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
            for line in text.lines().filter_map(|line| line.split_once("cargo xtask ")).map(|(_, line)| line) {
                // Up to where the shell sends the output.
                let line = line.split(" > ").next().unwrap_or(line);
                parsed(line).unwrap_or_else(|error| panic!("{line}: {error}"));
                commands += 1;
            }
        }
        assert!(commands >= 3, "{commands}");
    }

    #[test]
    fn options_of_the_benchmark_are_passed_on() {
        let arguments = ["--help", "--case", "small", "--brief"].map(OsString::from).to_vec();
        assert_eq!(parsed("bench --help --case small --brief").unwrap(), Subcommand::Bench { arguments });
        assert_eq!(parsed("bench").unwrap(), Subcommand::Bench { arguments: Vec::new() });
    }

    #[test]
    fn tests_of_engines_take_names() {
        let selection = Selection { only: Vec::new(), from: None, shipped: false, failed: false, budget: None };
        let test = |farm| {
            let (browser, selection) = (None, selection.clone());
            Subcommand::Test {
                quick: false,
                big: false,
                rocm: false,
                farm,
                packages: false,
                no_build: false,
                browser,
                stress: false,
                nightly: false,
                selection,
            }
        };
        assert_eq!(parsed("test").unwrap(), test(None));
        assert_eq!(parsed("test --farm").unwrap(), test(Some(Vec::new())));
        assert_eq!(parsed("test --farm reapi slurm").unwrap(), test(Some(vec!["reapi".into(), "slurm".into()])));
        assert!(parsed("test --farm --big").is_err());
        assert!(parsed("test --packages --no-build").is_ok());
        assert!(parsed("test --no-build").is_err());
        let Subcommand::Test { browser, .. } = parsed("test --browser a.html").unwrap() else { unreachable!() };
        assert_eq!(browser, Some(vec!["a.html".into()]));
        assert!(parsed("test --browser --packages").is_err());
    }

    #[test]
    fn tests_are_selected_by_step() {
        let Subcommand::Test { selection, .. } = parsed("test --only build,lit --budget 5").unwrap() else {
            unreachable!()
        };
        assert_eq!((selection.only, selection.budget), (vec![Step::Build, Step::Lit], Some(5)));
        assert!(parsed("test --from nowhere").is_err());
    }

    #[test]
    fn the_device_runtime_is_built_only_on_request() {
        assert_eq!(
            parsed("setup").unwrap(),
            Subcommand::Setup { openmp_device: false, rocm: false, llvm: LlvmRelease::Llvm22, cuda: Vec::new() }
        );
        assert_eq!(
            parsed("setup --openmp-device").unwrap(),
            Subcommand::Setup { openmp_device: true, rocm: false, llvm: LlvmRelease::Llvm22, cuda: Vec::new() }
        );
        assert_eq!(
            parsed("setup --llvm=23").unwrap(),
            Subcommand::Setup { openmp_device: false, rocm: false, llvm: LlvmRelease::Llvm23, cuda: Vec::new() }
        );
    }

    #[test]
    fn fuzzing_takes_targets_around_its_option() {
        let expected = Subcommand::Fuzz { seconds: 5, targets: vec!["a".into(), "b".into()] };
        assert_eq!(parsed("fuzz a --seconds 5 b").unwrap(), expected);
        assert!(parsed("fuzz --seconds").is_err());
    }
}
