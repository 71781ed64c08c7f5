//! Parses the arguments of `--device-compiler=`, `--device-linker=` and `-mllvm`.
//!
//! clang writes these arguments for an inner clang and its nvlink wrapper. fatlink runs neither: it implements the arguments
//! itself and warns about those that have no effect.

use llvm_passes::pipeline::OptLevel;

use crate::cli::device_linker_words;
use crate::cli::device_options::{CUDA_TRIPLE, DeviceOptions};
use crate::cli::options::Options;

/// Parses the arguments for CUDA targets.
pub fn read(options: &Options) -> DeviceOptions {
    let mut device = DeviceOptions {
        llvm_options: options.llvm_options.clone(),
        relocatable: options.dlink && options.relocatable,
        ..DeviceOptions::default()
    };
    let mut words = for_cuda(&options.device_compiler);
    while let Some(word) = words.next() {
        if word == "-Xcuda-ptxas" {
            device.ptxas_arguments.extend(words.next().map(str::to_owned));
        } else if !compiler_word(&mut device, word) {
            device.unknown.push(format!("--device-compiler={word}"));
        }
    }
    let words: Vec<&str> = for_cuda(&options.device_linker).collect();
    device_linker_words::read(&mut device, &words);
    device
}

/// The optimization level that `--device-compiler=` sets for one triple; the last one counts.
pub fn level_for(options: &Options, triple: &str) -> OptLevel {
    let ours = options.device_compiler.iter().filter(|(of, _)| of.as_deref().is_none_or(|of| of == triple));
    let mut levels = ours.filter_map(|(_, word)| OptLevel::parse(word.strip_prefix("-O")?));
    levels.next_back().unwrap_or(OptLevel::O2)
}

fn for_cuda(arguments: &[(Option<String>, String)]) -> impl Iterator<Item = &str> {
    arguments
        .iter()
        .filter(|(triple, _)| triple.as_deref().is_none_or(|triple| triple == CUDA_TRIPLE))
        .map(|(_, value)| value.as_str())
}

fn compiler_word(device: &mut DeviceOptions, word: &str) -> bool {
    if let Some(path) = word.strip_prefix("--cuda-path=") {
        device.cuda_path = Some(path.into());
    } else if let Some(level) = word.strip_prefix("-O") {
        return device.set_level(level);
    } else if device.set_lto(word) {
        // Done.
    } else if word.starts_with("-save-temps") || word.starts_with("-march=") {
        // The images show whether there is bitcode to link, and for which target; --save-temps is an option of its own.
    } else if word == "-v" {
        device.verbose = true;
    } else if word.starts_with("-g") {
        device.debug = !word.starts_with("-gline") && word != "-g0" && word != "-g1";
    } else {
        return false;
    }
    true
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;
    use crate::cli::parse::parse;
    use crate::cli::persona::Persona;
    use crate::cli::values::LtoIrRule;

    fn of(compiler: &[(Option<&str>, &str)]) -> DeviceOptions {
        let owned = |(triple, value): &(Option<&str>, &str)| (triple.map(str::to_owned), (*value).to_owned());
        read(&Options { device_compiler: compiler.iter().map(owned).collect(), ..Options::default() })
    }

    #[test]
    fn only_arguments_for_cuda_count() {
        let device = of(&[(Some(CUDA_TRIPLE), "-O1"), (Some("amdgcn-amd-amdhsa"), "-O3")]);
        assert_eq!((device.level, device.ptxas_level), (OptLevel::O1, 1));
    }

    #[test]
    fn ptxas_words_come_in_pairs_and_the_unknown_is_named() {
        let device = of(&[(None, "-Xcuda-ptxas"), (None, "--maxrregcount=32"), (None, "-ffoo")]);
        assert_eq!(device.ptxas_arguments, ["--maxrregcount=32"]);
        assert_eq!(device.unknown, ["--device-compiler=-ffoo"]);
    }

    #[test]
    fn link_time_optimization_is_turned_off_by_each_of_its_options() {
        let linker = |words: &[&str]| Options {
            device_linker: words.iter().map(|word| (None, (*word).to_owned())).collect(),
            ..Options::default()
        };
        for word in ["-fno-lto", "-fno-offload-lto"] {
            assert_eq!(of(&[(None, "-flto"), (None, word)]).lto_ir, LtoIrRule::Never, "--device-compiler={word}");
            let device = read(&linker(&[word]));
            assert!(device.lto_ir == LtoIrRule::Never && device.nvlink_arguments.is_empty(), "--device-linker={word}");
            let words: Vec<OsString> = vec!["a.o".into(), word.into()];
            let options = parse(&words, Persona::Linker).expect("a valid line");
            assert_eq!((read(&options).lto_ir, options.host_line), (LtoIrRule::Never, vec!["a.o".into()]), "{word}");
        }
        assert_eq!(of(&[(None, "-fno-lto"), (None, "-foffload-lto=full")]).lto_ir, LtoIrRule::First);
        assert_eq!(read(&linker(&["-fno-lto", "-flto=thin"])).lto_ir, LtoIrRule::First);
        assert_eq!(read(&linker(&[])).lto_ir, LtoIrRule::IfNeeded);
    }

    #[test]
    fn debug_levels() {
        for (word, debug) in [("-g", true), ("-g2", true), ("-g0", false), ("-gline-tables-only", false)] {
            assert_eq!(of(&[(None, word)]).debug, debug, "{word}");
        }
    }
}
