//! NVIDIA's device runtime, `libcudadevrt.a`, which kernels that launch kernels call. Its device code, relocatable cubins in
//! nvcc's fatbins, is linked with the program's by the backend. In a program with units of nvcc it is one of them: the driver
//! takes its code for the GPU when it links the program again.

use std::path::{Path, PathBuf};

use offload_bundle::arch::{ArchFeature, GpuArch};
use offload_bundle::archive::{self, MemberData};
use offload_bundle::cubin::{self, SymbolBinding};
use offload_bundle::fatbin::{self, EntryKind};
use offload_bundle::host_object::{self, RdcObject, ReferenceLists};

use crate::cli::options::{Input, Options};
use crate::cli::values::Part;
use crate::host::library_folders;
use crate::sys::mapped_file::Mapped;
use crate::toolchain::Toolchain;

const NAME: &str = "cudadevrt";

/// The library's cubin for one target.
pub struct DeviceLibrary {
    /// The relocatable cubin.
    pub cubin: Vec<u8>,
    /// The visible names that it defines.
    pub defines: Vec<String>,
    /// The id of its unit.
    pub id: String,
    /// What its host code refers to: kernels that its own functions launch.
    pub references: Option<ReferenceLists>,
}

/// The library as a unit of the program.
pub struct LibraryUnit {
    /// The archive.
    pub path: PathBuf,
    /// The id of its unit.
    pub id: String,
    /// Its fatbin, with code for all GPUs that it supports.
    pub fatbin: Vec<u8>,
}

/// Finds the library: the one that `--cudadevrt-path=` names, else the one on the line, else the toolkit's.
pub fn path(options: &Options, toolchain: &Toolchain) -> Option<PathBuf> {
    let library = Input::Library { name: NAME.to_owned(), archive_only: true, whole: false };
    let named = options.parts.get(Part::Cudadevrt).map(Path::to_owned);
    named
        .or_else(|| library_folders::locate(&library, options, &|| library_folders::of_system(options)))
        .or_else(|| toolchain.path(Part::Cudadevrt))
}

/// Reads the code for `arch` from the library. Returns `None` if it has none or is not such a library; the names that it would
/// define are then reported as undefined.
pub fn read(path: &Path, arch: GpuArch) -> Option<DeviceLibrary> {
    of_member(path, |object, unit| {
        let cubin = best_cubin(unit.fatbin, arch)?;
        let defines = defined_names(&cubin)?;
        let (id, references) = (unit.id.to_owned(), ReferenceLists::of_object(object));
        Some(DeviceLibrary { cubin, defines, id, references })
    })
}

/// Reads the library's unit. Returns `None` if it is not such a library.
pub fn unit(path: &Path) -> Option<LibraryUnit> {
    let of_unit = |unit: RdcObject<'_>| LibraryUnit {
        path: path.to_owned(),
        id: unit.id.to_owned(),
        fatbin: unit.fatbin.to_vec(),
    };
    of_member(path, |_, unit| Some(of_unit(unit)))
}

/// The first result that `read` has for a member, which it gets with the unit that it holds.
fn of_member<T>(path: &Path, read: impl Fn(&[u8], RdcObject<'_>) -> Option<T>) -> Option<T> {
    let content = Mapped::open(path).ok()?;
    let members = archive::members(content.bytes()).ok()?;
    members.into_iter().find_map(|member| {
        let MemberData::Inline(data) = member.data else { return None };
        read(data, host_object::rdc_objects(data).ok()?.into_iter().next()?)
    })
}

/// Selects the relocatable cubin that fits `arch` best: its own, else that of the nearest earlier target of its generation,
/// relabelled for `arch`.
///
/// Without the new label, nvlink gives the image the lowest virtual architecture of its inputs, and libraries that query it for a
/// kernel then find no matching code of their own. nvlink before CUDA 13.2 even rejects such a cubin.
fn best_cubin(fatbin: &[u8], arch: GpuArch) -> Option<Vec<u8>> {
    let entries = fatbin::read(fatbin).ok()?;
    let fitting = entries.iter().filter(|entry| entry.kind == EntryKind::Elf && runs_on(entry.arch, arch));
    let best = fitting.max_by_key(|entry| entry.arch)?;
    let code = best.payload().ok()?.into_owned();
    if best.arch.number == arch.number { Some(code) } else { cubin::retargeted(&code, arch).ok() }
}

/// Whether the library's machine code for `entry` runs on `arch`. NVIDIA's libraries have none for the GPUs of Tegra (sm_87,
/// sm_88); nvlink since CUDA 13.2 uses that of the same generation for them, too.
fn runs_on(entry: GpuArch, arch: GpuArch) -> bool {
    entry.number == arch.number
        || (entry.feature == ArchFeature::Plain && entry.major() == arch.major() && entry.number < arch.number)
}

fn defined_names(bytes: &[u8]) -> Option<Vec<String>> {
    let cubin = cubin::parse(bytes).ok()?;
    let visible = cubin.symbols().iter().filter(|symbol| symbol.defined && symbol.binding != SymbolBinding::Local);
    Some(visible.map(|symbol| symbol.name.clone()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_earlier_target_of_the_generation_runs_on() {
        let arch = |name: &str| name.parse::<GpuArch>().unwrap();
        for (entry, target, expected) in [
            ("sm_86", "sm_87", true),
            ("sm_86", "sm_88", true),
            ("sm_90", "sm_90a", true),
            ("sm_89", "sm_88", false),
            ("sm_75", "sm_80", false),
            ("sm_100a", "sm_103", false),
        ] {
            assert_eq!(runs_on(arch(entry), arch(target)), expected, "{entry} for {target}");
        }
    }
}
