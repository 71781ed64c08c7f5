//! The host's names of kernels, which differ between clang and nvcc.
//!
//! A kernel `k(int)` stands in host code as a function that launches it, whose address is also the kernel's handle. nvcc gives that
//! function the kernel's own name, `_Z1ki`, and clang calls it `__device_stub__k`, so `_Z16__device_stub__ki`. Where one compiler's unit
//! defines a kernel and the other's launches it, the two names have to become one address.

use std::collections::HashSet;

/// What clang puts in front of a kernel's identifier.
const PREFIX: &str = "__device_stub__";

/// A name that a link has to define at the address of another.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StubAlias {
    /// The undefined name.
    pub name: String,
    /// The symbol that has the address.
    pub target: String,
}

/// The kernels' host functions that are undefined under the name of one compiler and defined under that of the other, sorted.
///
/// Both sets are symbols of the objects that are linked. A symbol that is also defined is not undefined.
pub fn stub_aliases(defined: &HashSet<&str>, undefined: &HashSet<&str>) -> Vec<StubAlias> {
    let is_missing = |name: &str| undefined.contains(name) && !defined.contains(name);
    let mut aliases = Vec::new();
    for stub in undefined.iter().filter(|stub| stub.contains(PREFIX) && is_missing(stub)) {
        if let Some(target) = kernel_names(stub).into_iter().find(|kernel| defined.contains(kernel.as_str())) {
            aliases.push(StubAlias { name: (*stub).to_owned(), target });
        }
    }
    for stub in defined.iter().filter(|stub| stub.contains(PREFIX)) {
        let names = kernel_names(stub).into_iter().filter(|kernel| is_missing(kernel));
        aliases.extend(names.map(|name| StubAlias { name, target: (*stub).to_owned() }));
    }
    aliases.sort();
    aliases
}

/// The names that a kernel has in device code if this is the host function that stands for it: nvcc gives both the same name.
pub(crate) fn kernels_of_function(name: &str) -> Vec<String> {
    if name.contains(PREFIX) { kernel_names(name) } else { vec![name.to_owned()] }
}

/// nvcc's names of the kernel whose function clang calls `stub`; none if that is no name of such a function.
///
/// In a mangled name the length of the identifier stands in front of it. Behind a name that ends with a digit, more than one number can
/// be read as that length; each gives a name.
fn kernel_names(stub: &str) -> Vec<String> {
    if let Some(name) = stub.strip_prefix(PREFIX) {
        return vec![name.to_owned()];
    }
    let Some((front, rest)) = stub.split_once(PREFIX) else { return Vec::new() };
    let digits = front.len() - front.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    let starts = front.len() - digits..front.len();
    starts.filter_map(|start| shortened(&front[..start], &front[start..], rest)).collect()
}

/// The name of the kernel that a function of nvcc's host code launches: `_Z1ki` for `_Z21__device_stub__Z1kiPi`, and `ck` for
/// `_Z17__device_stub__ckv`. Behind the prefix, without its last underscore, stands the kernel's mangled name, and `_ck` for a C name.
pub fn kernel_of_stub(stub: &str) -> Option<String> {
    let prefix = PREFIX.strip_suffix('_')?;
    let (length, _) = stub.strip_prefix("_Z")?.split_once(prefix)?;
    let start = "_Z".len().checked_add(length.len())?;
    let end = start.checked_add(length.parse().ok()?)?;
    let name = stub.get(start..end)?.strip_prefix(prefix)?;
    Some(if name.starts_with("_Z") { name } else { name.strip_prefix('_')? }.to_owned())
}

/// `front` and `rest` with the identifier between them that is left of one of `length` characters without the prefix.
fn shortened(front: &str, length: &str, rest: &str) -> Option<String> {
    let left = length.parse::<usize>().ok()?.checked_sub(PREFIX.len())?;
    let is_length = front.starts_with("_Z") && !length.starts_with('0') && (1..=rest.len()).contains(&left);
    is_length.then(|| format!("{front}{left}{rest}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_kernels() {
        // Names that nvcc 13.0 and clang 22 give the same kernels.
        for (stub, kernel) in [
            ("_Z16__device_stub__ki", "_Z1ki"),
            ("__device_stub__ck", "ck"),
            ("_ZN2ns17__device_stub__k1Ei", "_ZN2ns2k1Ei"),
            ("_ZN2ns17__device_stub__tkIfEEvT_", "_ZN2ns2tkIfEEvT_"),
            ("_ZN2n117__device_stub__k2Ev", "_ZN2n12k2Ev"),
        ] {
            assert!(kernel_names(stub).iter().any(|name| name == kernel), "{stub}: {:?}", kernel_names(stub));
        }
        for other in
            ["_Z1ki", "", "_Z3__device_stub__k", "16__device_stub__k", "_Z999999999999999999999__device_stub__k"]
        {
            assert_eq!(kernel_names(other), Vec::<String>::new(), "{other}");
        }
    }

    #[test]
    fn kernels_of_nvccs_functions() {
        for (stub, kernel) in [
            ("_Z24__device_stub__Z5thingPiPi", Some("_Z5thingPi")),
            ("_Z16__device_stub__kPi", Some("k")),
            (
                "_Z65__device_stub__ZN38_GLOBAL__N__733ba681_6_mix_cu_f36db39d4anonEPiPi",
                Some("_ZN38_GLOBAL__N__733ba681_6_mix_cu_f36db39d4anonEPi"),
            ),
            ("_Z99__device_stub__Z5thingPiPi", None),
            ("_Z18446744073709551615__device_stub__Z", None),
            ("_Z16__device_stub__ki", Some("k")),
            ("_Zx__device_stub__", None),
            ("__device_stub__k", None),
            ("_Z5thingPi", None),
        ] {
            assert_eq!(kernel_of_stub(stub).as_deref(), kernel, "{stub}");
        }
    }

    #[test]
    fn an_alias_for_either_compiler() {
        let defined = HashSet::from(["_Z1ai", "_Z16__device_stub__bi", "_Z16__device_stub__ci", "_Z1ci", "main"]);
        let undefined = HashSet::from(["_Z16__device_stub__ai", "_Z1bi", "_Z1ci", "_Z16__device_stub__di", "_Z1ei"]);
        let aliases = stub_aliases(&defined, &undefined);
        let pairs: Vec<_> = aliases.iter().map(|alias| (alias.name.as_str(), alias.target.as_str())).collect();
        assert_eq!(pairs, [("_Z16__device_stub__ai", "_Z1ai"), ("_Z1bi", "_Z16__device_stub__bi")]);
    }
}
