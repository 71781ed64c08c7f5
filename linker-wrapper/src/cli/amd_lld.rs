//! The command line of `lld` in a device link for AMD's GPUs, as clang's former offload driver writes it for HIP.
//!
//! That driver starts no linker wrapper: it unbundles the device code itself, links the bitcode of each target by a program `lld`, which it looks
//! for in the folders of `-B`, and bundles the code objects.

use std::ffi::OsString;

use llvm_passes::amdgpu::TRIPLE;
use offload_bundle::amdgpu::{FeatureSetting, TargetId};

use crate::cli::flags::EMIT_CODE_OBJECT;
use crate::cli::lld_lto_options;
use crate::cli::words;

/// The name by which that driver starts the linker.
pub const NAME: &str = "lld";

/// ld.lld's name for AMD's GPUs as the machine of its output.
const EMULATION: &str = "elf64_amdgpu";

/// One or two words of the line.
enum Item<'w> {
    /// An input.
    File(&'w OsString),
    /// The output.
    Output(&'w OsString),
    /// The flavor of lld.
    Flavor(&'w OsString),
    /// The machine of the output.
    Machine(&'w OsString),
    /// The output is a shared object, as a code object is.
    Shared,
    /// The processor.
    Processor(&'w str),
    /// Features of the processor.
    Features(&'w str),
    /// An option that holds for every code object of this program.
    Implied,
    /// An option of this program, or of the archives behind it.
    Own(&'w OsString),
    /// Another option, with the word that is its value.
    Option(&'w OsString, Option<&'w OsString>),
}

/// Whether the line makes a code object for one of AMD's GPUs.
pub fn is_device_link(line: &[OsString]) -> bool {
    let has = |is: fn(&Item<'_>) -> bool| items(line).iter().any(is);
    has(|item| matches!(item, Item::Flavor(flavor) if *flavor == "gnu"))
        && has(|item| matches!(item, Item::Machine(machine) if *machine == EMULATION))
        && has(|item| matches!(item, Item::Shared))
        && has(|item| matches!(item, Item::Processor(_)))
}

/// The files that the line links.
pub fn files(line: &[OsString]) -> Vec<&OsString> {
    let file = |item| if let Item::File(file) = item { Some(file) } else { None };
    items(line).into_iter().filter_map(file).collect()
}

/// Translates a line that makes a code object to options of this program.
pub fn translate(line: &[OsString]) -> Vec<OsString> {
    let (mut target, mut others) = (no_target(), Vec::new());
    for item in items(line) {
        match item {
            Item::File(word) | Item::Own(word) => others.push(word.clone()),
            Item::Output(file) => others.extend(["-o".into(), file.clone()]),
            Item::Processor(processor) => processor.clone_into(&mut target.processor),
            Item::Features(list) => {
                others.extend(list.split(',').filter(|feature| !set(&mut target, feature)).map(feature));
            }
            Item::Option(word, value) => others.extend(std::iter::once(word).chain(value).map(for_device_link)),
            Item::Flavor(_) | Item::Machine(_) | Item::Shared | Item::Implied => {}
        }
    }
    std::iter::once(format!("{EMIT_CODE_OBJECT}{target}").into()).chain(others).collect()
}

fn no_target() -> TargetId {
    TargetId { processor: String::new(), sramecc: FeatureSetting::Any, xnack: FeatureSetting::Any }
}

/// Sets one of the features that target ids have, such as `+xnack`. Returns whether it is one.
fn set(target: &mut TargetId, feature: &str) -> bool {
    let setting = if feature.starts_with('-') { FeatureSetting::Off } else { FeatureSetting::On };
    match feature.trim_start_matches(['+', '-']) {
        "sramecc" => target.sramecc = setting,
        "xnack" => target.xnack = setting,
        _ => return false,
    }
    true
}

fn feature(feature: &str) -> OsString {
    for_device_link(&format!("-plugin-opt=-mattr={feature}").into())
}

/// An option of ld.lld, as this program takes it.
fn for_device_link(word: &OsString) -> OsString {
    let mut own = OsString::from(format!("--device-linker={TRIPLE}="));
    own.push(word);
    own
}

fn items(line: &[OsString]) -> Vec<Item<'_>> {
    let mut rest = line.iter();
    let mut items = Vec::new();
    while let Some(word) = rest.next() {
        items.extend(item(word, &mut rest));
    }
    items
}

/// Reads the item that a word begins. `None` if the line ends before its value.
fn item<'w>(word: &'w OsString, rest: &mut std::slice::Iter<'w, OsString>) -> Option<Item<'w>> {
    let Some(text) = word.to_str().filter(|text| text.starts_with('-') && text.len() > 1) else {
        return Some(Item::File(word));
    };
    Some(match text {
        "-flavor" => Item::Flavor(rest.next()?),
        "-m" => Item::Machine(rest.next()?),
        "-o" => Item::Output(rest.next()?),
        "-shared" => Item::Shared,
        // Every link reports undefined symbols.
        "--no-undefined" => Item::Implied,
        "--whole-archive" | "--no-whole-archive" => Item::Own(word),
        _ if text.starts_with("--offload-") || text.starts_with("--wrapper-") => Item::Own(word),
        _ => match (text.strip_prefix("-plugin-opt=mcpu="), text.strip_prefix("-plugin-opt=-mattr=")) {
            (Some(processor), _) => Item::Processor(processor),
            (_, Some(features)) => Item::Features(features),
            _ => Item::Option(word, takes_next_word(word, text).then(|| rest.next()).flatten()),
        },
    })
}

fn takes_next_word(word: &OsString, text: &str) -> bool {
    lld_lto_options::find(text).map_or_else(|| words::takes_next_word(word), |found| found.value.is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split_whitespace().map(OsString::from).collect()
    }

    const BEGIN: &str = "-flavor gnu -m elf64_amdgpu --no-undefined -shared -plugin-opt=-amdgpu-internalize-symbols";

    #[test]
    fn clangs_line_is_one_of_this_program() {
        let line = format!(
            "{BEGIN} --lto-partitions=8 -plugin-opt=mcpu=gfx90a -plugin-opt=O3 --lto-CGO3 -plugin-opt=-mattr=+xnack,-sramecc,+cumode -mllvm -x \
             --offload-cache=dir --whole-archive -o a.out a.o libb.a --no-whole-archive"
        );
        assert!(is_device_link(&words(&line)));
        assert_eq!(files(&words(&line)), ["a.o", "libb.a"]);
        let linker = |word: &OsString| OsString::from(format!("--device-linker=amdgcn-amd-amdhsa={}", word.display()));
        let options = "-plugin-opt=-amdgpu-internalize-symbols --lto-partitions=8 -plugin-opt=O3 --lto-CGO3 -plugin-opt=-mattr=+cumode -mllvm -x";
        let expected = [
            words("--emit-code-object=gfx90a:sramecc-:xnack+"),
            words(options).iter().map(linker).collect(),
            words("--offload-cache=dir --whole-archive -o a.out a.o libb.a --no-whole-archive"),
        ];
        assert_eq!(translate(&words(&line)), expected.concat());
    }

    #[test]
    fn other_lines_are_those_of_another_lld() {
        for line in [
            "-flavor link -m elf64_amdgpu -shared -plugin-opt=mcpu=gfx90a a.o",
            "-flavor gnu -m elf_x86_64 -shared -plugin-opt=mcpu=gfx90a a.o",
            "-flavor gnu -m elf64_amdgpu -r -plugin-opt=mcpu=gfx90a a.o",
            "-flavor gnu -m elf64_amdgpu -shared a.o",
            "-flavor gnu --version",
            "-flavor",
            "",
        ] {
            assert!(!is_device_link(&words(line)), "{line}");
        }
    }
}
