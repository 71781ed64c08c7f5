//! Links relocatable cubins, NVIDIA's machine code as `ptxas -c` writes it, as nvlink does.
//!
//! NVIDIA documents neither the format nor its linker. Everything here was found by linking inputs with nvlink 13.0 and comparing
//! (docs/reference/cubin-link.md); what was not found is [`Unsupported`], so that a caller can leave the link to nvlink with a reason.
//!
//! The crate works on bytes alone. It opens no files, starts no processes, contains no `unsafe` code, and uses no threads but rayon's. The
//! cubin is the same for every number of threads.
//!
//! # The way of the data
//!
//! 1. `unit/` reads and checks each input.
//! 2. `program/` resolves names, follows calls, and computes what kernels take.
//! 3. `layout.rs` and `shared.rs` place data and shared variables.
//! 4. `relocate.rs` applies relocations.
//! 5. `output/` writes the cubin.
#![forbid(unsafe_code)]

mod bytes;
mod error;
mod layout;
mod output;
mod program;
mod relocate;
mod shared;
mod unit;

use rayon::prelude::*;

pub use error::{LinkError, Reference, Unsupported};
use offload_bundle::{ArchFeature, GpuArch};

use layout::Layout;
use output::Image;
use program::{Calls, Kept, Own, Program, Reach};
use relocate::Relocator;
use shared::Shared;
use unit::{Kind, Relocation, Unit};

/// A relocatable cubin to link.
#[derive(Debug, Clone, Copy)]
pub struct Input<'a> {
    /// What messages call it.
    pub file: &'a str,
    /// The cubin.
    pub data: &'a [u8],
}

/// A finished cubin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Linked {
    /// The cubin, which a driver can load.
    pub cubin: Vec<u8>,
    /// Kernels whose stack has no limit that a linker can know, because a function may call itself.
    pub endless_stacks: Vec<String>,
    /// All kernels.
    pub kernels: Vec<String>,
    /// Constants that no code of the cubin refers to. nvlink removes some of them from units of nvcc: which ones is not known.
    pub unused_constants: Vec<String>,
}

/// Relocations of each unit, by the section that they are about.
type Relocations = Vec<Vec<(usize, Vec<Relocation>)>>;

/// Changes with every change of what a link makes of the same inputs, for the keys of caches.
pub const VERSION: u32 = 2;

/// Whether links for a GPU are known at all.
pub fn knows(target: GpuArch) -> bool {
    KNOWN_GPUS.contains(&target.number) && matches!(target.feature, ArchFeature::Plain | ArchFeature::Accelerated)
}

/// The GPUs for which links are proven to be those of nvlink.
const KNOWN_GPUS: [u32; 1] = [90];

/// Links cubins for a GPU, in the order of nvlink's command line.
///
/// # Errors
/// Damaged inputs, undefined or doubly defined symbols, and [`LinkError::Unsupported`] for what is not known to be linked as nvlink
/// does.
pub fn link(inputs: &[Input<'_>], target: GpuArch) -> Result<Linked, LinkError> {
    link_kept(inputs, target, None)
}

/// As [`link`], and leaves out kernels that the predicate does not keep, with what only they need: as nvlink does with kernels of nvcc's
/// units to which no host code refers.
///
/// # Errors
/// As [`link`].
pub fn link_kernels(
    inputs: &[Input<'_>],
    target: GpuArch,
    keeps: &(dyn Fn(&str) -> bool + Sync),
) -> Result<Linked, LinkError> {
    link_kept(inputs, target, Some(keeps))
}

fn link_kept(inputs: &[Input<'_>], target: GpuArch, kept: Kept<'_>) -> Result<Linked, LinkError> {
    let units = read_all(inputs)?;
    check_target(&units, target)?;
    let own = units.iter().map(Own::read).collect::<Result<Vec<_>, _>>()?;
    let program = program::resolve(&units, own)?;
    let relocations = relocations(&units)?;
    let in_data = referenced_by_data(&program, &relocations)?;
    let calls = Calls::read(&program, &in_data)?;
    let reach = Reach::new(&program, &calls, &in_data, kept);
    program::check_defined(&program, &reach, &relocations)?;
    reach.check_left_out(&program)?;
    reach.check_registers(&program)?;
    let layout = Layout::new(&program)?;
    let shared = Shared::new(&program, &reach, &relocations)?;
    let relocator =
        Relocator { program: &program, reach: &reach, layout: &layout, shared: &shared, relocations: &relocations };
    let numbers = 0..program.symbols.len();
    let code = numbers
        .clone()
        .into_par_iter()
        .map(|function| if reach.needed[function] { relocator.code(function) } else { Ok((Vec::new(), Vec::new())) });
    let code = code.collect::<Vec<_>>().into_iter().collect::<Result<Vec<_>, _>>()?;
    let data = layout.merged.iter().map(|merged| relocator.data(merged)).collect::<Result<Vec<_>, _>>()?;
    let is_kernel = |number: usize| reach.has_kernel(&program, number);
    let totals: Vec<_> =
        numbers.into_par_iter().map(|number| is_kernel(number).then(|| reach.totals(&program, number))).collect();
    let kernels = program.symbols.iter().enumerate().filter(|(number, _)| is_kernel(*number));
    let kernels = kernels.map(|(_, linked)| linked.name.to_owned()).collect();
    let unused_constants = program::unused_constants(&program, &reach, &relocations);
    let endless = totals.iter().zip(&program.symbols);
    let endless = endless.filter(|(totals, _)| totals.as_ref().is_some_and(|totals| totals.stack.is_none()));
    let endless_stacks = endless.map(|(_, linked)| linked.name.to_owned()).collect();
    let image = Image {
        target: &target.to_string(),
        program: &program,
        calls: &calls,
        reach: &reach,
        layout: &layout,
        shared: &shared,
        data,
        code,
        totals,
    };
    Ok(Linked { cubin: output::write(&image)?, endless_stacks, kernels, unused_constants })
}

fn read_all<'a>(inputs: &[Input<'a>]) -> Result<Vec<Unit<'a>>, LinkError> {
    let units: Vec<_> = inputs.par_iter().map(|input| unit::read(input.file, input.data)).collect();
    // The first error in the order of the inputs, whichever thread found one first.
    units.into_iter().collect()
}

/// All inputs have to be for this GPU, and it for one that is known.
fn check_target(units: &[Unit<'_>], target: GpuArch) -> Result<(), LinkError> {
    let Some(first) = units.first() else { return Err(LinkError::unsupported("", 0, "link without inputs")) };
    for unit in units {
        let gpu = gpu(unit);
        if gpu != target || !knows(target) {
            return Err(LinkError::unsupported(unit.file, 48, format!("cubin for {gpu} in a link for {target}")));
        }
        if unit.flags != first.flags {
            let what = format!("cubin with the flags {:#x}, where {} has {:#x}", unit.flags, first.file, first.flags);
            return Err(LinkError::unsupported(unit.file, 48, what));
        }
    }
    Ok(())
}

/// The GPU that a unit was compiled for, from `e_flags` and `ACCELERATOR_TARGET` in `.nv.compat`.
fn gpu(unit: &Unit<'_>) -> GpuArch {
    const ACCELERATOR_TARGET: u8 = 9;
    let compatibility = unit.sections.iter().filter(|section| section.kind == Kind::Compatibility);
    let mut records = compatibility.filter_map(|section| unit::records(section.data)).flatten();
    let accelerated =
        records.any(|record| record.attribute == ACCELERATOR_TARGET && record.value != unit::Value::Short(0));
    let feature = if accelerated { ArchFeature::Accelerated } else { ArchFeature::Plain };
    GpuArch { number: unit.flags >> 8 & 0xff, feature }
}

fn relocations(units: &[Unit<'_>]) -> Result<Relocations, LinkError> {
    let of_unit = |unit: &Unit<'_>| {
        let mut all: Vec<(usize, Vec<Relocation>)> = Vec::new();
        for section in &unit.sections {
            let Kind::Relocations(of) = section.kind else { continue };
            if all.iter().any(|(other, _)| *other == of) {
                return Err(LinkError::unsupported(
                    unit.file,
                    section.offset,
                    "two tables of relocations of one section",
                ));
            }
            all.push((of, unit::relocations(unit, section)?));
        }
        Ok(all)
    };
    units.iter().map(of_unit).collect()
}

/// The functions that stay because variables have their addresses: those whose definition in the same unit prevails, or that it does not
/// define.
///
/// # Errors
/// A repeated function in a constant: nvlink 13.0 leaves zeros there.
fn referenced_by_data(program: &Program<'_>, relocations: &Relocations) -> Result<Vec<usize>, LinkError> {
    let mut functions = Vec::new();
    for (number, unit) in program.units.iter().enumerate() {
        for (section, entries) in &relocations[number] {
            if !matches!(unit.sections[*section].kind, Kind::Initialized | Kind::Constants(_)) {
                continue;
            }
            for relocation in entries {
                let symbol = &unit.symbols[relocation.symbol];
                let Some(function) = program.numbers[number][relocation.symbol].filter(|_| symbol.kind.is_code())
                else {
                    continue;
                };
                if program.is_replaced(number, *section, relocation.offset) {
                    continue;
                }
                if !program.is_repeated(number, relocation.symbol) {
                    functions.push(function);
                } else if unit.sections[*section].kind != Kind::Initialized {
                    let what =
                        format!("constant with the address of {}, which another input defines, too", symbol.name);
                    return Err(LinkError::unsupported(unit.file, relocation.at, what));
                }
            }
        }
    }
    Ok(functions)
}
