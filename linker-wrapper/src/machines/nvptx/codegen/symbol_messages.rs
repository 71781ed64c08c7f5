//! Reads in the messages of nvlink and nvJitLink which symbols of LTO-IR are defined twice or not at all. Nobody else can read them there; the
//! report is that of all other symbols, with the user's files.

use std::collections::BTreeMap;
use std::fmt::Display;

use offload_bundle::cubin::{self, SymbolBinding};
use offload_bundle::ptx;

use crate::device::error::Error;
use crate::device::symbol_errors;
use crate::diag::error::Errors;
use crate::machines::nvptx::codegen::device_object::{DeviceObject, Form};

/// The names that nvlink and nvJitLink give what they make of all LTO-IR.
const OF_LTO_IR: [&str; 2] = ["lto.cubin", "ltoPtx"];

/// Lines that add nothing to another one.
const CONSEQUENCES: [&str; 4] =
    ["merge_elf failed", "NVVM_ERROR_COMPILATION", "elfLink JIT compile failed", "ERROR 9: finish"];

/// The errors that the messages report, if they are all about symbols.
pub fn errors(messages: &str, arch: &dyn Display, objects: &[DeviceObject]) -> Option<Errors> {
    let mut duplicates = BTreeMap::new();
    let mut undefined: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for line in messages.lines() {
        let quoted: Vec<&str> = line.split('\'').collect();
        match quoted[..] {
            [start, name, rest, ..] if is_duplicate(start, rest) => {
                duplicates.insert(name, definers(name, objects));
            }
            [start, name, _, file, ..] if start.ends_with("Undefined reference to ") => {
                undefined.entry(name).or_default().push(file);
            }
            _ if line.trim().is_empty() || line.contains("info ") => {}
            _ if CONSEQUENCES.iter().any(|text| line.contains(text)) => {}
            _ => return None,
        }
    }
    // A definition that no object is known to have: its own words tell more.
    if duplicates.values().any(|definers| definers.len() < 2) || (duplicates.is_empty() && undefined.is_empty()) {
        return None;
    }
    let duplicates = duplicates.into_iter().map(|(name, definers)| {
        let places = definers.iter().map(|object| object.name.clone());
        symbol_errors::duplicate_in(name, arch, places)
    });
    let undefined = undefined.into_iter().map(|(name, files)| undefined_in(name, &files, arch, objects));
    Some(duplicates.chain(undefined).collect())
}

/// The error for a symbol that these objects define, by what the linker calls them.
pub fn duplicate_in(name: &str, files: [String; 2], arch: &dyn Display, objects: &[DeviceObject]) -> Error {
    let all: Vec<String> = definers(name, objects).iter().map(|object| object.name.clone()).collect();
    let places = if all.len() < 2 { files.to_vec() } else { all };
    symbol_errors::duplicate_in(name, arch, places.into_iter())
}

fn is_duplicate(start: &str, rest: &str) -> bool {
    let linking = start.ends_with("Linking globals named ") && rest.contains("multiply defined");
    linking || start.ends_with("Multiple definition of ")
}

/// The objects that define a symbol, as far as their code or their host code tells.
fn definers<'o>(name: &str, objects: &'o [DeviceObject]) -> Vec<&'o DeviceObject> {
    let is_strong =
        |symbol: &cubin::CubinSymbol| symbol.defined && symbol.binding == SymbolBinding::Global && symbol.name == name;
    let defines = |object: &&DeviceObject| match object.form {
        Form::LtoIr => object.host_definitions.iter().any(|own| own == name),
        Form::Cubin => cubin::parse(&object.bytes).is_ok_and(|cubin| cubin.symbols().iter().any(is_strong)),
        Form::Ptx => ptx::symbols(&object.bytes).iter().any(is_strong),
    };
    objects.iter().filter(defines).collect()
}

/// The error for a symbol that is undefined in these files. All LTO-IR is one file for nvlink.
pub fn undefined_in(name: &str, files: &[&str], arch: &dyn Display, objects: &[DeviceObject]) -> Error {
    let is_of_lto_ir = files.iter().any(|file| OF_LTO_IR.contains(file));
    let named =
        |object: &&DeviceObject| files.contains(&object.name.as_str()) || (object.form == Form::LtoIr && is_of_lto_ir);
    let mut places: Vec<String> = objects.iter().filter(named).map(|object| object.name.clone()).collect();
    let is_known = |file: &str| OF_LTO_IR.contains(&file) || objects.iter().any(|one| one.name == file);
    places.extend(files.iter().filter(|file| !is_known(file)).map(|file| (*file).to_owned()));
    let in_one = places.len() > 1 && is_of_lto_ir;
    symbol_errors::undefined_in(name, arch, places, in_one)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use offload_bundle::arch::GpuArch;

    use super::*;

    fn object(name: &str, definitions: &[&str]) -> DeviceObject {
        let arch = GpuArch::plain(90);
        DeviceObject {
            form: Form::LtoIr,
            host_definitions: definitions.iter().map(|name| (*name).to_owned()).collect(),
            ..DeviceObject::cubin(name.to_owned(), arch, PathBuf::new(), Vec::new(), true)
        }
    }

    #[test]
    fn duplicates_name_all_files_that_define_them() {
        let objects = [object("a.o", &["_Z1fi"]), object("b.o", &["_Z1gi"]), object("c.o", &["_Z1fi", "_Z1gi"])];
        let messages = "nvlink info    : c.o: link error: error: Linking globals named '_Z1fi': symbol multiply defined!\n\n\
                        NVVM_ERROR_COMPILATION\nnvlink fatal   : elfLink JIT compile failed";
        let errors = errors(messages, &"sm_90", &objects).expect("a duplicate").to_string();
        let expected = "duplicate device symbol 'f(int)' (_Z1fi) for sm_90: defined in a.o and in c.o; ";
        assert!(errors.starts_with(expected), "{errors}");
    }

    #[test]
    fn undefined_symbols_of_lto_ir_name_its_units() {
        let objects = [object("a.o", &[]), object("b.o", &[])];
        let messages = "nvlink error   : Undefined reference to '_Z1fi' in 'lto.cubin'\n";
        let errors = errors(messages, &"sm_90", &objects).expect("an undefined symbol").to_string();
        let expected = "undefined device symbol 'f(int)' (_Z1fi) for sm_90: referenced by one of a.o, b.o; ";
        assert!(errors.starts_with(expected), "{errors}");
    }

    #[test]
    fn other_messages_stay_as_they_are() {
        for messages in [
            "",
            "nvlink fatal   : Memory allocation failure",
            "nvlink error   : Multiple definition of 'f' in 'lto.cubin', first defined in 'a.o'\nnvlink fatal   : elfLink internal error",
            "nvlink error   : Multiple definition of 'unknown' in 'lto.cubin', first defined in 'a.o'",
        ] {
            assert!(
                errors(messages, &"sm_90", &[object("a.o", &["f"]), object("b.o", &["f"])]).is_none(),
                "{messages}"
            );
        }
    }
}
