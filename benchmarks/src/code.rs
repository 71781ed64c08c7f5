//! The machine code in a linked program, kernel by kernel.

use std::collections::BTreeMap;
use std::path::Path;

use offload_bundle::host_object::Search;
use offload_bundle::usage::{self, FunctionUsage, Order};
use xtask::failure::{Failure, Result};

/// The functions for one architecture.
#[derive(Debug, Default)]
pub struct Code(Vec<FunctionUsage>);

impl Code {
    /// What the host can launch.
    pub fn kernels(&self) -> impl Iterator<Item = &FunctionUsage> {
        self.0.iter().filter(|function| function.kernel)
    }

    fn find(&self, like: &FunctionUsage) -> Option<&FunctionUsage> {
        self.0.iter().find(|function| function.name == like.name && function.kernel == like.kernel)
    }

    /// Bytes of all functions.
    fn size(&self) -> u64 {
        self.0.iter().map(|function| function.code).sum()
    }
}

/// Bytes that a thread spills and reloads, as ptxas recorded it. Variables in local memory do not count: they move from a function to the
/// kernel into which it is inlined.
fn spilled(function: &FunctionUsage) -> u64 {
    function.spill_stores.unwrap_or(0) + function.spill_loads.unwrap_or(0)
}

/// The code for each architecture that a program carries.
pub fn of_program(program: &Path) -> Result<BTreeMap<String, Code>> {
    let data = std::fs::read(program).map_err(|error| Failure::file("read", program, &error))?;
    let no_members = |_: &str| Err(std::io::ErrorKind::NotFound.into());
    let cubins = usage::usage(&data, no_members, Search::Sections, Order::Name)
        .map_err(|error| Failure::new(format!("{}: {error}", program.display())))?;
    let mut found = BTreeMap::<String, Code>::new();
    for cubin in cubins {
        found.entry(cubin.target).or_default().0.extend(cubin.functions);
    }
    Ok(found)
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
    /// Kernels that spill more bytes than the peer's: name, ours, theirs.
    pub more_spills: Vec<(String, u64, u64)>,
    /// The number of kernels whose registers differ by more than 2.
    pub other_registers: usize,
    /// Functions in both that spill more, and less, than the peer's.
    pub functions: (usize, usize),
    /// Bytes that all kernels and functions spill: ours, theirs.
    pub all_spills: (u64, u64),
}

impl Comparison {
    /// Of the code for one architecture.
    pub fn of(ours: &Code, theirs: &Code) -> Self {
        let missing = |from: &Code, other: &Code| {
            from.kernels().filter(|kernel| other.find(kernel).is_none()).map(|kernel| kernel.name.clone()).collect()
        };
        let all_spills = |code: &Code| code.0.iter().map(spilled).sum();
        #[allow(clippy::cast_precision_loss)]
        let size = ours.size() as f64 / theirs.size().max(1) as f64;
        let mut comparison = Self {
            size,
            only_ours: missing(ours, theirs),
            only_theirs: missing(theirs, ours),
            all_spills: (all_spills(ours), all_spills(theirs)),
            ..Self::default()
        };
        for our in &ours.0 {
            if let Some(their) = theirs.find(our) {
                comparison.add(our, their);
            }
        }
        comparison
    }

    /// Adds a function that both have.
    fn add(&mut self, our: &FunctionUsage, their: &FunctionUsage) {
        let spills = (spilled(our), spilled(their));
        if !our.kernel {
            self.functions.0 += usize::from(spills.0 > spills.1);
            self.functions.1 += usize::from(spills.0 < spills.1);
            return;
        }
        self.kernels += 1;
        if spills.0 > spills.1 {
            self.more_spills.push((our.name.clone(), spills.0, spills.1));
        }
        let registers = [our, their].map(|kernel| u64::from(kernel.registers.unwrap_or(0)));
        self.other_registers += usize::from(registers[0].abs_diff(registers[1]) > 2);
    }

    /// Share of the kernels whose registers are within 2 of the peer's.
    pub fn close_registers(&self) -> f64 {
        let share = |part: usize| f64::from(u32::try_from(part).unwrap_or(u32::MAX));
        1.0 - share(self.other_registers) / share(self.kernels.max(1))
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

    /// A function of this size, and kernels without code.
    fn code(size: u64, kernels: &[(&str, u32, u64)]) -> Code {
        let kernel = |&(name, registers, spills): &(&str, u32, u64)| FunctionUsage {
            name: name.to_owned(),
            kernel: true,
            registers: Some(registers),
            spill_stores: Some(spills),
            ..FunctionUsage::default()
        };
        let function = FunctionUsage { name: "f".to_owned(), code: size, ..FunctionUsage::default() };
        Code(kernels.iter().map(kernel).chain([function]).collect())
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
        assert_eq!(comparison.other_registers, 1);
        assert_eq!(comparison.problems().len(), 3);
        let better = Comparison::of(&code(100, &[("a", 8, 0)]), &code(100, &[("a", 10, 2)]));
        assert_eq!(better.problems(), [""; 0]);
    }
}
