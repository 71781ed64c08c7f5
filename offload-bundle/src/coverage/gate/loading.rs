//! What this machine's driver says of the modules of a file.

use super::super::containers::Role;
use super::super::driver::Driver;
use super::super::findings::FindingCode;
use super::cell::{Cell, CellVerdict};
use super::fate::{Fate, fate};
use super::judge::{FileCode, FileGate};
use super::requirement::{Requirement, Rung};
use crate::arch::GpuArch;
use crate::fatbin;

/// A fatbin that a process loads as a module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModuleToLoad<'a> {
    /// Its number.
    pub container: usize,
    /// Its bytes, which have been read as a whole fatbin.
    pub fatbin: &'a [u8],
    /// The kernels that it must have.
    pub kernels: Vec<&'a str>,
}

/// What a driver on a GPU did with the modules of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadedModules {
    /// The number of the GPU's architecture.
    pub gpu: u32,
    /// The driver.
    pub driver: Driver,
    /// The number of each fatbin, and why it was not loaded with all of its kernels.
    pub containers: Vec<(usize, Option<String>)>,
}

impl FileCode {
    /// The modules that run on a GPU as they are. What would crash or hang the driver is none of them, nor what it links again at the start
    /// of a program, which needs the program's own registration.
    pub fn modules_for<'a>(&'a self, gpu: u32, data: &'a [u8]) -> Vec<ModuleToLoad<'a>> {
        let gpu = GpuArch::plain(gpu);
        let whole = self.fatbins().iter().filter(|found| matches!(found.role, Role::Whole | Role::Linked(_)));
        let module = |found: &'a super::super::containers::FoundContainer| {
            let (Fate::Runs(taken) | Fate::Compiles(taken)) = fate(found, self.fatbins(), gpu, Driver::NewEnough)
            else {
                return None;
            };
            let [(container, code)] = taken.entries.as_slice() else { return None };
            let is_own = *container == found.place.container;
            let symbols = found.symbols.get(code.number.checked_sub(1)?)?;
            let fatbin = fatbin::container_at(data, found.place.offset).ok().filter(|_| is_own)?;
            let kernels = symbols.kernels.iter().map(AsRef::as_ref).filter(|name| !name.contains(['\n', '\0']));
            Some(ModuleToLoad { container: *container, fatbin, kernels: kernels.collect() })
        };
        whole.filter_map(module).collect()
    }
}

impl FileGate {
    /// The same with what this machine's driver did. A cell stands on it only if every module of the file was loaded.
    #[must_use]
    pub fn with_loaded(mut self, loaded: &LoadedModules, code: &FileCode, requirement: &Requirement) -> Self {
        let name = GpuArch::plain(loaded.gpu).to_string();
        let is_meant = |cell: &&mut Cell| {
            cell.gpu == name && cell.driver.is_none_or(|branch| loaded.driver == Driver::Branch(branch))
        };
        let tried: Vec<usize> = loaded.containers.iter().map(|(container, _)| *container).collect();
        let loadable = code.fatbins().iter().filter(|found| matches!(found.role, Role::Whole | Role::Linked(_)));
        let is_complete = loadable.map(|found| found.place.container).all(|number| tried.contains(&number));
        let failure = loaded.containers.iter().find_map(|(container, failure)| Some((container, failure.as_ref()?)));
        for cell in self.cells.iter_mut().filter(is_meant) {
            if let (Some((container, failure)), CellVerdict::Runs | CellVerdict::Jit) = (failure, cell.verdict) {
                cell.verdict = CellVerdict::Fails;
                cell.rung = Rung::Loaded;
                cell.fault = Some(FindingCode::NotLoaded);
                cell.reason = format!("this machine's driver did not load fatbin {container}: {failure}");
            } else if failure.is_none() && is_complete && matches!(cell.verdict, CellVerdict::Runs | CellVerdict::Jit) {
                cell.rung = Rung::Loaded;
            }
            cell.passes = cell.verdict.passes(requirement.jit, requirement.kernels);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coverage::containers::FoundContainer;
    use crate::coverage::testing::{sass, set};

    #[test]
    fn a_cell_stands_on_modules_that_were_all_loaded() {
        let requirement: Requirement = "sm_80,sm_90@580".parse().expect("a requirement");
        let code = FileCode::of_link(vec![FoundContainer::whole(set([sass("80"), sass("90")]).to_vec())]);
        let with = |containers: Vec<(usize, Option<String>)>| {
            let loaded = LoadedModules { gpu: 90, driver: Driver::Branch(580), containers };
            let gate = FileGate::new(&code, &requirement).with_loaded(&loaded, &code, &requirement);
            gate.cells.iter().map(|cell| (cell.verdict, cell.rung)).collect::<Vec<_>>()
        };
        let (runs, other) = (CellVerdict::Runs, (CellVerdict::Runs, Rung::Documented));
        assert_eq!(with(vec![(1, None)]), [other, (runs, Rung::Loaded)]);
        assert_eq!(with(Vec::new()), [other, (runs, Rung::Observed)]);
        assert_eq!(with(vec![(1, Some("no".to_owned()))]), [other, (CellVerdict::Fails, Rung::Loaded)]);
    }
}
