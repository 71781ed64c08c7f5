//! The command line of `lld` in a device link for AMD's GPUs, as clang's former offload driver writes it for HIP.
//!
//! That driver starts no linker wrapper: it unbundles the device code itself, links the bitcode of each target by a program `lld`, which it looks
//! for in the folders of `-B`, and bundles the code objects.

use std::ffi::{OsStr, OsString};

use llvm_passes::amdgpu::TRIPLE;
use offload_bundle::amdgpu::{FeatureSetting, TargetId};

use crate::cli::flags::EMIT_CODE_OBJECT;
use crate::cli::lld_lto_options;
use crate::cli::words;

/// The name by which that driver starts the linker.
pub const NAME: &str = "lld";

/// ld.lld's name for AMD's GPUs as the machine of its output.
const EMULATION: &str = "elf64_amdgpu";

/// A line that makes a code object.
pub struct CodeObjectLine<'w> {
    items: Vec<Item<'w>>,
}

/// One or two words of the line.
enum Item<'w> {
    /// An input.
    File(&'w OsString),
    /// The output.
    Output(&'w OsStr),
    /// The flavor of lld.
    Flavor(&'w OsString),
    /// The machine of the output.
    Machine(&'w OsStr),
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

impl<'w> CodeObjectLine<'w> {
    /// Reads a line. `None` if it makes no code object for one of AMD's GPUs.
    pub fn read(line: &'w [OsString]) -> Option<Self> {
        let items = items(line);
        let has = |is: fn(&Item<'_>) -> bool| items.iter().any(is);
        let makes_code_object = has(|item| matches!(item, Item::Flavor(flavor) if *flavor == "gnu"))
            && has(|item| matches!(item, Item::Machine(machine) if *machine == EMULATION))
            && has(|item| matches!(item, Item::Shared))
            && has(|item| matches!(item, Item::Processor(_)));
        makes_code_object.then_some(CodeObjectLine { items })
    }

    /// The files that the line links.
    pub fn files(&self) -> impl Iterator<Item = &'w OsString> {
        self.items.iter().filter_map(|item| if let Item::File(file) = item { Some(*file) } else { None })
    }

    /// Translates the line to options of this program.
    pub fn translate(&self) -> Vec<OsString> {
        let (mut target, mut others) = (no_target(), Vec::new());
        for item in &self.items {
            match *item {
                Item::File(word) | Item::Own(word) => others.push(word.clone()),
                Item::Output(file) => others.extend(["-o".into(), file.to_owned()]),
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

/// Reads the item that a word begins, with one dash or two as ld.lld takes its options. `None` if the line ends before its value.
fn item<'w>(word: &'w OsString, rest: &mut std::slice::Iter<'w, OsString>) -> Option<Item<'w>> {
    let Some(text) = word.to_str().filter(|text| text.starts_with('-') && text.len() > 1) else {
        return Some(Item::File(word));
    };
    Some(match text {
        "-flavor" => Item::Flavor(rest.next()?),
        "-m" => Item::Machine(rest.next()?),
        "-o" | "--output" => Item::Output(rest.next()?),
        "-shared" | "--shared" | "-Bshareable" => Item::Shared,
        // Every link reports undefined symbols.
        "--no-undefined" | "-no-undefined" => Item::Implied,
        "--whole-archive" | "--no-whole-archive" => Item::Own(word),
        _ if text.starts_with("--offload-") || text.starts_with("--wrapper-") => Item::Own(word),
        _ => joined(text)
            .unwrap_or_else(|| Item::Option(word, takes_next_word(word, text).then(|| rest.next()).flatten())),
    })
}

/// Reads an option whose value stands in the same word.
fn joined(text: &str) -> Option<Item<'_>> {
    let of_plugin = text.strip_prefix('-').map(|rest| rest.strip_prefix('-').unwrap_or(rest));
    let of_plugin = of_plugin.and_then(|rest| rest.strip_prefix("plugin-opt="));
    if let Some(option) = of_plugin {
        let processor = option.strip_prefix("mcpu=").map(Item::Processor);
        return processor.or_else(|| option.strip_prefix("-mattr=").map(Item::Features));
    }
    let output = text.strip_prefix("--output=").or_else(|| text.strip_prefix("-o"));
    let machine = || text.strip_prefix("-m").filter(|name| *name == EMULATION);
    output.map(|file| Item::Output(file.as_ref())).or_else(|| machine().map(|name| Item::Machine(name.as_ref())))
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
        let line = words(&format!(
            "{BEGIN} --lto-partitions=8 -plugin-opt=mcpu=gfx90a -plugin-opt=O3 --lto-CGO3 -plugin-opt=-mattr=+xnack,-sramecc,+cumode -mllvm -x \
             --offload-cache=dir --whole-archive -o a.out a.o libb.a --no-whole-archive"
        ));
        let line = CodeObjectLine::read(&line).unwrap();
        assert!(line.files().eq(["a.o", "libb.a"]));
        let linker = |word: &OsString| OsString::from(format!("--device-linker=amdgcn-amd-amdhsa={}", word.display()));
        let options = "-plugin-opt=-amdgpu-internalize-symbols --lto-partitions=8 -plugin-opt=O3 --lto-CGO3 -plugin-opt=-mattr=+cumode -mllvm -x";
        let expected = [
            words("--emit-code-object=gfx90a:sramecc-:xnack+"),
            words(options).iter().map(linker).collect(),
            words("--offload-cache=dir --whole-archive -o a.out a.o libb.a --no-whole-archive"),
        ];
        assert_eq!(line.translate(), expected.concat());
    }

    #[test]
    fn each_spelling_that_lld_takes_is_read() {
        let output = ["-o x", "-ox", "--output x", "--output=x"];
        let others = [
            "-m elf64_amdgpu -shared -plugin-opt=mcpu=gfx90a -plugin-opt=-mattr=+xnack",
            "-melf64_amdgpu --shared --plugin-opt=mcpu=gfx90a --plugin-opt=-mattr=+xnack",
        ];
        for (output, others) in output.iter().flat_map(|output| others.map(|others| (output, others))) {
            let line = words(&format!("-flavor gnu {others} {output} a.o"));
            let translated = CodeObjectLine::read(&line).unwrap().translate();
            assert_eq!(translated, words("--emit-code-object=gfx90a:xnack+ -o x a.o"), "{line:?}");
        }
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
            assert!(CodeObjectLine::read(&words(line)).is_none(), "{line}");
        }
    }
}
