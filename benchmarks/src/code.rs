//! The machine code in a linked program, kernel by kernel.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use object::read::elf::ElfFile64;
use object::{Object, ObjectSection, ObjectSymbol, SectionIndex, SymbolFlags};
use xtask::failure::{Failure, Result};
use xtask::repository::create_folder;
use xtask::step::Progress;

/// What one kernel costs on the GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Kernel {
    /// Registers of a thread.
    pub registers: u32,
    /// Instructions that spill a register to local memory or reload it. Variables in local memory do not count: they move from
    /// a function to the kernel into which it is inlined.
    pub spills: u32,
}

/// The code for one architecture.
#[derive(Debug, Default, PartialEq)]
pub struct Code {
    /// Bytes of all functions.
    pub size: u64,
    /// By mangled name.
    pub kernels: BTreeMap<String, Kernel>,
    /// Spills of the functions that kernels call, by mangled name.
    pub functions: BTreeMap<String, u32>,
}

impl Code {
    fn all_spills(&self) -> u32 {
        let of_kernels = self.kernels.values().map(|kernel| kernel.spills);
        of_kernels.chain(self.functions.values().copied()).sum()
    }
}

/// The code for each architecture that a program carries, read by NVIDIA's own tool.
pub fn of_program(progress: &Progress, program: &Path, cuda: &Path, scratch: &Path) -> Result<BTreeMap<String, Code>> {
    if scratch.exists() {
        std::fs::remove_dir_all(scratch).map_err(|error| Failure::file("remove", scratch, &error))?;
    }
    create_folder(scratch)?;
    let cuobjdump = || Command::new(cuda.join("bin/cuobjdump"));
    let program = std::path::absolute(program).map_err(|error| Failure::file("find", program, &error))?;
    progress.run(cuobjdump().args(["-xelf", "all"]).arg(&program).current_dir(scratch))?;
    let mut found = BTreeMap::new();
    for cubin in cubins(scratch)? {
        let usage = progress.run(cuobjdump().arg("-res-usage").arg(&cubin))?;
        let data = std::fs::read(&cubin).map_err(|error| Failure::file("read", &cubin, &error))?;
        let code = found.entry(architecture(&cubin)?).or_default();
        add(code, &data, &usage).map_err(|error| Failure::new(format!("{}: {error}", cubin.display())))?;
    }
    Ok(found)
}

fn cubins(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).map_err(|error| Failure::file("read", folder, &error))?;
    let mut cubins: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    cubins.sort();
    Ok(cubins)
}

/// cuobjdump writes it into the file's name: `program.1.sm_90.cubin`.
fn architecture(cubin: &Path) -> Result<String> {
    let name = cubin.file_name().unwrap_or_default().to_string_lossy();
    let found = name.split('.').find(|part| part.starts_with("sm_"));
    found.map(str::to_owned).ok_or_else(|| Failure::new(format!("cuobjdump wrote {name}, which names no architecture")))
}

/// Adds the functions of one cubin, whose resources cuobjdump printed.
fn add(code: &mut Code, data: &[u8], usage: &str) -> object::Result<()> {
    let registers = registers(usage);
    let elf: ElfFile64 = ElfFile64::parse(data)?;
    let kernels = kernel_sections(&elf);
    let mut attributes = Vec::new();
    for section in elf.sections() {
        let name = section.name()?;
        if let Some(function) = name.strip_prefix(".text.") {
            code.size += section.data()?.len() as u64;
            if kernels.contains(&section.index()) {
                let registers = registers.get(function).copied().unwrap_or(0);
                code.kernels.insert(function.to_owned(), Kernel { registers, spills: 0 });
            } else {
                code.functions.insert(function.to_owned(), 0);
            }
        } else if let Some(function) = name.strip_prefix(".nv.info.") {
            attributes.push((function, section.data()?));
        }
    }
    for (function, attributes) in attributes {
        if let Some(kernel) = code.kernels.get_mut(function) {
            kernel.spills = spills(attributes);
        } else if let Some(found) = code.functions.get_mut(function) {
            *found = spills(attributes);
        }
    }
    Ok(())
}

/// The sections with a symbol that is marked as an entry (STO_CUDA_ENTRY in `st_other`).
fn kernel_sections(elf: &ElfFile64) -> Vec<SectionIndex> {
    const ENTRY: u8 = 0x10;
    let is_entry = |flags| matches!(flags, SymbolFlags::Elf { st_other, .. } if st_other.0 & ENTRY != 0);
    elf.symbols().filter(|symbol| is_entry(symbol.flags())).filter_map(|symbol| symbol.section_index()).collect()
}

/// From lines such as ` Function NAME:` and `  REG:10 STACK:0 …`.
fn registers(usage: &str) -> BTreeMap<&str, u32> {
    let mut function = None;
    let mut found = BTreeMap::new();
    for line in usage.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("Function ") {
            function = Some(name.trim_end_matches(':'));
        } else if let (Some(name), Some(rest)) = (function, line.strip_prefix("REG:")) {
            let digits = rest.split(' ').next().unwrap_or_default();
            found.insert(name, digits.parse().unwrap_or(0));
        }
    }
    found
}

/// Counts the spills that ptxas records in a function's attributes: {u8 format, u8 attribute, u16 size or value}, and with
/// format 4 that many bytes. In those of attribute 0x55 (annotations) are pairs {u32 type, u32 offset}; type 1 is a spill.
fn spills(mut attributes: &[u8]) -> u32 {
    const WITH_BYTES: u8 = 4;
    const ANNOTATIONS: u8 = 0x55;
    let mut count = 0;
    while let Some((&[format, attribute, low, high], rest)) = attributes.split_first_chunk::<4>() {
        attributes = rest;
        if format != WITH_BYTES {
            continue;
        }
        let size = usize::from(u16::from_le_bytes([low, high]));
        let Some((bytes, rest)) = attributes.split_at_checked(size) else { break };
        attributes = rest;
        if attribute == ANNOTATIONS {
            let spills = bytes.chunks_exact(8).filter(|pair| pair.starts_with(&[1, 0, 0, 0])).count();
            count += u32::try_from(spills).unwrap_or(u32::MAX);
        }
    }
    count
}

/// The kernels of one linker compared with another's.
#[derive(Debug, Default, PartialEq)]
pub struct Comparison {
    /// Bytes of code, ours over theirs.
    pub size: f64,
    /// Kernels in both.
    pub kernels: usize,
    /// Kernels that only one of the two has.
    pub only_ours: Vec<String>,
    pub only_theirs: Vec<String>,
    /// Kernels with more spills than the peer's: name, ours, theirs.
    pub more_spills: Vec<(String, u32, u32)>,
    /// Kernels whose registers differ by more than 2: name, ours, theirs.
    pub other_registers: Vec<(String, u32, u32)>,
    /// Functions in both that spill more, and less, than the peer's.
    pub functions: (usize, usize),
    /// Spills of all kernels and functions: ours, theirs.
    pub all_spills: (u32, u32),
}

impl Comparison {
    /// Of the code for one architecture.
    pub fn of(ours: &Code, theirs: &Code) -> Self {
        let missing = |from: &Code, other: &Code| {
            from.kernels.keys().filter(|name| !other.kernels.contains_key(*name)).cloned().collect()
        };
        #[allow(clippy::cast_precision_loss)]
        let size = ours.size as f64 / theirs.size.max(1) as f64;
        let mut comparison = Self {
            size,
            only_ours: missing(ours, theirs),
            only_theirs: missing(theirs, ours),
            all_spills: (ours.all_spills(), theirs.all_spills()),
            ..Self::default()
        };
        for (name, our) in &ours.functions {
            let Some(their) = theirs.functions.get(name) else { continue };
            comparison.functions.0 += usize::from(our > their);
            comparison.functions.1 += usize::from(our < their);
        }
        for (name, our) in &ours.kernels {
            let Some(their) = theirs.kernels.get(name) else { continue };
            comparison.kernels += 1;
            if our.spills > their.spills {
                comparison.more_spills.push((name.clone(), our.spills, their.spills));
            }
            if our.registers.abs_diff(their.registers) > 2 {
                comparison.other_registers.push((name.clone(), our.registers, their.registers));
            }
        }
        comparison
    }

    /// Share of the kernels whose registers are within 2 of the peer's.
    pub fn close_registers(&self) -> f64 {
        let share = |part: usize| f64::from(u32::try_from(part).unwrap_or(u32::MAX));
        1.0 - share(self.other_registers.len()) / share(self.kernels.max(1))
    }

    /// Differences that break the promise that speed is not bought with worse code.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if self.kernels == 0 {
            problems.push("no kernel is in both images".to_owned());
        }
        let (ours, theirs) = (self.only_ours.len(), self.only_theirs.len());
        if ours + theirs > 0 {
            problems.push(format!("{ours} kernels only in ours, {theirs} only in the peer's"));
        }
        if self.size > 1.05 {
            problems.push(format!("code is {:.3} times the peer's, more than 1.05", self.size));
        }
        if !self.more_spills.is_empty() {
            problems.push(format!("{} kernels spill more than the peer's", self.more_spills.len()));
        }
        if self.close_registers() < 0.95 {
            problems
                .push(format!("registers within 2 for {:.1} % of the kernels only", 100.0 * self.close_registers()));
        }
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(size: u64, kernels: &[(&str, u32, u32)]) -> Code {
        let kernel = |&(name, registers, spills): &(&str, u32, u32)| (name.to_owned(), Kernel { registers, spills });
        Code { size, kernels: kernels.iter().map(kernel).collect(), functions: BTreeMap::from([("f".to_owned(), 1)]) }
    }

    #[test]
    fn a_dropped_kernel_is_a_problem() {
        let comparison = Comparison::of(&code(10, &[("a", 8, 0)]), &code(10, &[("a", 8, 0), ("b", 8, 0)]));
        assert_eq!(comparison.only_theirs, ["b"]);
        assert_eq!(comparison.problems(), ["0 kernels only in ours, 1 only in the peer's"]);
        assert_eq!(Comparison::of(&code(0, &[]), &code(0, &[])).problems(), ["no kernel is in both images"]);
    }

    #[test]
    fn worse_code_is_a_problem() {
        let comparison = Comparison::of(&code(106, &[("a", 12, 3)]), &code(100, &[("a", 8, 2)]));
        assert_eq!(comparison.more_spills, [("a".to_owned(), 3, 2)]);
        assert_eq!(comparison.other_registers, [("a".to_owned(), 12, 8)]);
        assert_eq!(comparison.problems().len(), 3);
        let better = Comparison::of(&code(100, &[("a", 8, 0)]), &code(100, &[("a", 10, 2)]));
        assert_eq!(better.problems(), [""; 0]);
    }

    #[test]
    fn registers_are_read_from_cuobjdump() {
        let usage = "Resource usage:\n Common:\n  GLOBAL:8\n Function _Z1av:\n  REG:10 STACK:0 SHARED:0\n";
        assert_eq!(registers(usage), BTreeMap::from([("_Z1av", 10)]));
    }

    #[test]
    fn spills_are_read_from_the_annotations() {
        let number = [3, 0x4c, 1, 0];
        let pair = |kind: u8| [kind, 0, 0, 0, 16, 0, 0, 0];
        let annotations = |attribute, size| [4, attribute, size, 0];
        let info = [&number[..], &annotations(0x55, 24), &pair(1), &pair(2), &pair(1), &annotations(0x11, 8), &pair(1)];
        assert_eq!(spills(&info.concat()), 2);
        assert_eq!(spills(&annotations(0x55, 24)), 0);
    }

    /// Two kernels, one of which keeps an array in local memory, which is no spill.
    const PTX: &str = "
        .version 8.0
        .target sm_90
        .address_size 64
        .visible .entry simple(.param .u64 out) { .reg .b64 %p; ld.param.u64 %p, [out]; st.global.u32 [%p], 1; ret; }
        .visible .entry local(.param .u64 out, .param .u64 place) {
          .local .align 8 .b8 array[64];
          .reg .b64 %p<4>;
          .reg .b32 %v;
          ld.param.u64 %p0, [place];
          mov.u64 %p1, array;
          add.u64 %p2, %p1, %p0;
          st.local.u32 [%p2], 7;
          ld.local.u32 %v, [%p1+4];
          ld.param.u64 %p3, [out];
          st.global.u32 [%p3], %v;
          ret;
        }";

    /// Needs CUDA, which `cargo xtask test` provides.
    #[test]
    fn a_real_cubin_is_read() {
        let Some(cuda) = std::env::var_os("CUDA_PATH").map(PathBuf::from) else { return };
        let folder = tempfile::tempdir().unwrap();
        let (ptx, cubin) = (folder.path().join("a.ptx"), folder.path().join("a.cubin"));
        std::fs::write(&ptx, PTX).unwrap();
        let mut ptxas = Command::new(cuda.join("bin/ptxas"));
        assert!(ptxas.arg("-arch=sm_90").arg(&ptx).arg("-o").arg(&cubin).status().unwrap().success());
        let usage = Command::new(cuda.join("bin/cuobjdump")).arg("-res-usage").arg(&cubin).output().unwrap();
        let mut code = Code::default();
        add(&mut code, &std::fs::read(&cubin).unwrap(), &String::from_utf8(usage.stdout).unwrap()).unwrap();
        assert_eq!(code.kernels.keys().collect::<Vec<_>>(), ["local", "simple"]);
        assert_eq!(code.kernels["simple"].spills, 0);
        assert_eq!(code.kernels["local"].spills, 0, "{code:?}");
        assert!(code.kernels.values().all(|kernel| kernel.registers > 0), "{code:?}");
    }

    #[test]
    fn damaged_cubins_are_rejected() {
        let mut code = Code::default();
        assert!(add(&mut code, b"\x7fELF\x02", "").is_err());
        assert!(add(&mut code, &[0; 100], "").is_err());
    }
}
