//! Parses the arguments of `--device-linker=` (`-Xoffload-linker`): inputs of the device link, and arguments for nvlink.
//!
//! clang-nvlink-wrapper takes the same arguments: it has the options of a linker and passes everything else to nvlink.

use crate::cli::device_options::{DeviceInput, DeviceOptions};

/// Options of nvlink that may take their value from the next argument, from its `--help`.
const NVLINK_VALUES: [&str; 27] = [
    "Ofast-compile",
    "Ofc",
    "Xnvvm",
    "Xptxas",
    "arch",
    "cpu-arch",
    "gen-host-linker-script",
    "ghls",
    "kernels-used",
    "m",
    "machine",
    "maxrregcount",
    "nvvmpath",
    "o",
    "options-file",
    "optf",
    "output-file",
    "register-link-binaries",
    "split-compile",
    "split-compile-extended",
    "time",
    "uidx",
    "uidx-file",
    "variables-used",
    "nvvm-options",
    "ptxas-options",
    "host-ccbin",
];

/// Options of clang-nvlink-wrapper that nvlink does not know and that have no effect here.
const WITHOUT_EFFECT: [&str; 9] = [
    "-r",
    "--relocatable",
    "--lto-emit-llvm",
    "--lto-emit-asm",
    "--lto-debug-pass-manager",
    "--dry-run",
    "--assume-device-object",
    "--lto-newpm-passes=",
    "--ptxas-path=",
];

/// Parses the arguments for CUDA targets.
pub fn read(device: &mut DeviceOptions, words: &[&str]) {
    let mut whole = false;
    let mut words = words.iter().copied();
    while let Some(word) = words.next() {
        if let Some((option, value)) = option_of(word, &mut words) {
            match value {
                Some(value) => with_value(device, option, value, whole),
                None => device.unknown.push(shown(word)),
            }
        } else if let Some(option) = word.strip_prefix("--plugin-opt=").or_else(|| word.strip_prefix("-plugin-opt=")) {
            plugin_option(device, option, shown(word));
        } else if device.set_lto(word) {
            // Done.
        } else if matches!(word, "-g" | "--debug") {
            device.debug = true;
        } else if word == "--save-temps" {
            device.saves_temps = true;
        } else if matches!(word, "--whole-archive" | "--no-whole-archive") {
            whole = word == "--whole-archive";
        } else if WITHOUT_EFFECT.iter().any(|known| word == *known || (known.ends_with('=') && word.starts_with(known)))
        {
            device.unknown.push(shown(word));
        } else if !word.starts_with('-') {
            device.inputs.push(DeviceInput::File { path: word.into(), whole });
        } else {
            device.nvlink_arguments.push(word.to_owned());
            if NVLINK_VALUES.contains(&word.trim_start_matches('-')) {
                device.nvlink_arguments.extend(words.next().map(str::to_owned));
            }
        }
    }
}

fn with_value(device: &mut DeviceOptions, option: &str, value: String, whole: bool) {
    match option {
        "-mllvm" => llvm_option(device, &value, shown(&format!("-mllvm {value}"))),
        "-L" | "--library-path" => device.library_paths.push(value.into()),
        "-l" | "--library" => device.inputs.push(DeviceInput::Library { name: value, whole }),
        "-u" | "--undefined" => device.roots.push(value),
        "--cuda-path" => device.cuda_path = Some(value.into()),
        // clang names gold's LTO plugin, which fatlink does not need.
        _ => device.unknown.push(shown(&format!("{option} {value}"))),
    }
}

/// Formats arguments as warnings show them.
fn shown(words: &str) -> String {
    format!("--device-linker={words}")
}

/// Splits an argument into an option and its value, which may be in the next argument; a long option may have it after `=`.
/// The inner `None`: the line ends before the value.
fn option_of<'w>(word: &str, rest: &mut impl Iterator<Item = &'w str>) -> Option<(&'static str, Option<String>)> {
    const OPTIONS: [&str; 9] =
        ["-L", "-l", "-u", "-mllvm", "-plugin", "--library-path", "--library", "--undefined", "--cuda-path"];
    // nvlink's own.
    const OTHERS: [&str; 3] = ["-lto", "-uidx", "-use-host-info"];
    if OTHERS.contains(&word) {
        return None;
    }
    OPTIONS.iter().find_map(|option| {
        let behind = word.strip_prefix(option)?;
        let is_short = option.len() == 2;
        match behind.strip_prefix('=') {
            _ if behind.is_empty() => Some((*option, rest.next().map(str::to_owned))),
            _ if is_short => Some((*option, Some(behind.to_owned()))),
            Some(value) => Some((*option, Some(value.to_owned()))),
            None => None,
        }
    })
}

/// Applies an option of the LTO plugin.
fn plugin_option(device: &mut DeviceOptions, option: &str, argument: String) {
    let number = |name: &str| option.strip_prefix(name)?.parse::<usize>().ok();
    if let Some(jobs) = number("jobs=") {
        // As for LLVM, 0 stands for all cores.
        device.jobs = (jobs > 0).then_some(jobs);
    } else if let Some(parts) = number("lto-partitions=") {
        device.is_whole = parts == 1;
    } else if let Some(processor) = option.strip_prefix("mcpu=") {
        device.processors.push((argument, processor.to_owned()));
    } else if matches!(option, "thinlto" | "opt-remarks-format=yaml") {
        // Units of ThinLTO are linked as a whole, and records are YAML.
    } else if option.strip_prefix('O').is_some_and(|level| device.set_level(level)) {
        // Done.
    } else if option.starts_with('-') {
        llvm_option(device, option, argument);
    } else if let Some(recorded) = recorded_remarks(option) {
        device.llvm_options.push(recorded);
    } else {
        device.refused.push((argument, "there is no such option of the LTO plugin here".to_owned()));
    }
}

/// Adds an option of LLVM. Those that describe the target are no options of LLVM here.
fn llvm_option(device: &mut DeviceOptions, option: &str, argument: String) {
    let name = option.trim_start_matches('-');
    if let Some(processor) = name.strip_prefix("mcpu=") {
        device.processors.push((argument, processor.to_owned()));
    } else if let Some(features) = name.strip_prefix("mattr=") {
        if features.split(',').all(|feature| feature.starts_with("+ptx")) {
            // The PTX is of the newest version that LLVM and ptxas both support.
            device.unknown.push(argument);
        } else {
            device.refused.push((argument, "the targets of the files alone say what code may use".to_owned()));
        }
    } else {
        device.llvm_options.push(option.to_owned());
    }
}

/// The option for recorded remarks that LLVM's own tools have in place of this one of an LTO plugin.
fn recorded_remarks(option: &str) -> Option<String> {
    let (name, value) = option.split_once('=').unwrap_or((option, ""));
    match name {
        "opt-remarks-with-hotness" => Some("-pass-remarks-with-hotness".to_owned()),
        "opt-remarks-filename" => Some(format!("-pass-remarks-output={value}")),
        "opt-remarks-passes" | "opt-remarks-filter" => Some(format!("-pass-remarks-filter={value}")),
        "opt-remarks-hotness-threshold" => Some(format!("-pass-remarks-hotness-threshold={value}")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn of(words: &[&str]) -> DeviceOptions {
        let mut device = DeviceOptions::default();
        read(&mut device, words);
        device
    }

    fn library(name: &str, whole: bool) -> DeviceInput {
        DeviceInput::Library { name: name.to_owned(), whole }
    }

    #[test]
    fn files_and_libraries_are_inputs() {
        let device = of(&[
            "-L",
            "one",
            "-Ltwo",
            "-ldev",
            "-l",
            ":exact.a",
            "--whole-archive",
            "b.o",
            "--no-whole-archive",
            "c.bc",
        ]);
        assert_eq!(device.library_paths, [PathBuf::from("one"), "two".into()]);
        let file = |path: &str, whole| DeviceInput::File { path: path.into(), whole };
        assert_eq!(
            device.inputs,
            [library("dev", false), library(":exact.a", false), file("b.o", true), file("c.bc", false)]
        );
        assert!(device.nvlink_arguments.is_empty() && device.unknown.is_empty());
    }

    #[test]
    fn long_options_take_values_either_way() {
        let device = of(&["--library-path=one", "--library", "dev", "--undefined=f", "-ug", "-u", "h"]);
        assert_eq!((device.library_paths, device.inputs), (vec!["one".into()], vec![library("dev", false)]));
        assert_eq!(device.roots, ["f", "g", "h"]);
    }

    #[test]
    fn values_of_nvlinks_options_are_no_files() {
        let words = ["--maxrregcount", "32", "-Xptxas=-v", "-O1", "--verbose", "-lto"];
        let device = of(&words);
        assert_eq!(device.nvlink_arguments, words);
        assert!(device.inputs.is_empty());
    }

    #[test]
    fn words_without_effect_are_named() {
        let device = of(&["--lto-emit-llvm", "-plugin", "x.so", "-r"]);
        assert_eq!(device.unknown, ["--lto-emit-llvm", "-plugin x.so", "-r"].map(shown));
        assert_eq!(of(&["-L"]).unknown, [shown("-L")]);
    }

    #[test]
    fn jobs_and_partitions_of_the_lto_plugin_are_ours() {
        let device = of(&["--plugin-opt=jobs=3", "--plugin-opt=lto-partitions=1"]);
        assert_eq!((device.jobs, device.is_whole), (Some(3), true));
        let device = of(&["--plugin-opt=jobs=0", "--plugin-opt=lto-partitions=8"]);
        assert_eq!((device.jobs, device.is_whole), (None, false));
        assert!(device.llvm_options.is_empty());
    }

    #[test]
    fn forms_of_the_plugins_options_that_the_peer_takes_are_no_options_of_llvm() {
        let device =
            of(&["--plugin-opt=-mattr=+ptx78", "--plugin-opt=thinlto", "--plugin-opt=opt-remarks-format=yaml"]);
        assert_eq!(device.unknown, [shown("--plugin-opt=-mattr=+ptx78")]);
        assert!(device.llvm_options.is_empty() && device.refused.is_empty());
        let device = of(&["--plugin-opt=mcpu=sm_90", "-mllvm", "-mcpu=sm_80"]);
        let processors: Vec<&str> = device.processors.iter().map(|(_, processor)| processor.as_str()).collect();
        assert_eq!(processors, ["sm_90", "sm_80"]);
        for word in ["--plugin-opt=save-temps", "--plugin-opt=jobs=many", "--plugin-opt=", "--plugin-opt=-mattr=+sm_90"]
        {
            let device = of(&[word]);
            assert_eq!((device.refused.len(), device.llvm_options.len()), (1, 0), "{word}");
        }
    }

    #[test]
    fn llvms_options_and_levels() {
        let remarks = "--plugin-opt=opt-remarks-filename=r.yaml";
        let device = of(&["--plugin-opt=O3", "--plugin-opt=-inline-threshold=1", "-mllvm=-x", "-mllvm", "-y", remarks]);
        assert_eq!(device.level, llvm_passes::pipeline::OptLevel::O3);
        assert_eq!(device.llvm_options, ["-inline-threshold=1", "-x", "-y", "-pass-remarks-output=r.yaml"]);
    }
}
