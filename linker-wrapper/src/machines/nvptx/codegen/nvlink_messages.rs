//! Rewrites what nvlink prints for the user: it reads temporary files, and the user knows the files that they were made of.

use std::borrow::Cow;
use std::path::PathBuf;

use offload_bundle::cubin;
use offload_bundle::demangle::readable;

use crate::machines::nvptx::codegen::device_object::DeviceObject;

/// Returns the messages with the names of the objects in place of those of the files that nvlink read, in the same order. Functions that
/// have too many registers for the kernel that calls them are explained.
pub fn for_user(messages: &str, objects: &[DeviceObject], files: &[PathBuf]) -> String {
    let paths = files.iter().map(|file| file.to_string_lossy());
    let names: Vec<(Cow<'_, str>, &str)> = paths.zip(objects.iter().map(|object| object.name.as_str())).collect();
    let lines = messages.trim().lines().filter(|line| !is_partial_lto(line));
    lines.map(|line| renamed(line, &names) + &too_many_registers(line, objects)).collect::<Vec<_>>().join("\n")
}

/// Whether a message only says that machine code is among the inputs of link-time optimization.
fn is_partial_lto(line: &str) -> bool {
    line.starts_with("nvlink info") && line.contains("doing partial LTO")
}

/// nvlink quotes the names of files, its optimizer does not.
fn renamed(line: &str, names: &[(Cow<'_, str>, &str)]) -> String {
    let mentioned = names.iter().filter(|(path, _)| line.contains(&**path));
    mentioned.fold(line.to_owned(), |line, (path, name)| line.replace(&**path, name))
}

/// Says where a kernel and the function are of which nvlink says "entry function 'K' with max regcount of N calls function 'F' with
/// regcount of M", and what to do. Empty for other messages.
fn too_many_registers(line: &str, objects: &[DeviceObject]) -> String {
    let pieces: Vec<&str> = line.split('\'').collect();
    let [_, kernel, limited, function, _] = pieces[..] else { return String::new() };
    let limit = limited.strip_prefix(" with max regcount of ").and_then(|rest| rest.split_once(' '));
    let Some((limit, _)) = limit else { return String::new() };
    let (Some(caller), Some(callee)) = (file_with(kernel, objects), file_with(function, objects)) else {
        return String::new();
    };
    format!(
        ": {} is in {caller}, {} in {callee}; compile the function with -maxrregcount={limit}, or the kernel without this limit",
        readable(kernel),
        readable(function)
    )
}

/// The object that defines a function.
fn file_with<'o>(function: &str, objects: &'o [DeviceObject]) -> Option<&'o str> {
    let defines = |object: &&DeviceObject| {
        let parsed = cubin::parse(&object.bytes);
        parsed.is_ok_and(|cubin| cubin.symbols().iter().any(|symbol| symbol.defined && symbol.name == function))
    };
    objects.iter().find(defines).map(|object| object.name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use offload_bundle::arch::GpuArch;

    #[test]
    fn files_have_the_names_of_their_objects() {
        let object =
            |name: &str| DeviceObject::cubin(name.to_owned(), GpuArch::plain(90), PathBuf::new(), Vec::new(), true);
        let objects = [object("a.o"), object("libk.a(b.o)")];
        let files = ["/tmp/x/sm_90.0.o", "/tmp/x/sm_90.1.o"].map(PathBuf::from);
        let messages = "nvlink info    : requested LTO but '/tmp/x/sm_90.1.o' not built for LTO so doing partial LTO\n\
                        nvlink error   : Multiple definition of 'f' in '/tmp/x/sm_90.1.o', first defined in '/tmp/x/sm_90.0.o'\n\
                        nvlink info    : /tmp/x/sm_90.1.o: link error: symbol multiply defined!\n";
        let expected = "nvlink error   : Multiple definition of 'f' in 'libk.a(b.o)', first defined in 'a.o'\n\
                        nvlink info    : libk.a(b.o): link error: symbol multiply defined!";
        assert_eq!(for_user(messages, &objects, &files), expected);
    }
}
