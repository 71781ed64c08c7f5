//! Loads the modules of files on this machine's GPU, in processes of their own: with lazy and with eager loading.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use offload_bundle::coverage::Driver;
use offload_bundle::coverage::gate::{FileCode, FileGate, LoadedModules, Requirement};

use crate::error::{Error, Result};
use crate::load_modules::{Loaded, Machine, paths};

/// How a process loads modules (`CUDA_MODULE_LOADING`).
const MODES: [&str; 2] = ["LAZY", "EAGER"];

/// The time in which a module has to be loaded; compiling the PTX of a large one takes minutes.
const LONGEST: Duration = Duration::from_secs(600);

/// The machine's GPU and driver.
pub struct ThisMachine {
    machine: Machine,
    driver: Driver,
}

impl ThisMachine {
    /// Asks a process of its own, which also shows that modules can be loaded there.
    pub fn find(requirement: &Requirement) -> Result<Self> {
        let folder = tempfile::tempdir().map_err(|source| Error::Write { path: std::env::temp_dir(), source })?;
        let (machine, _) = load(folder.path(), 0, MODES[0])?;
        let driver = installed_driver()
            .ok_or_else(|| Error::Driver("its version is not in /proc/driver/nvidia/version".to_owned()))?;
        let found = Self { machine, driver };
        let is_gpu = requirement.gpus.nvidia.iter().any(|gpu| gpu.number == found.machine.gpu);
        let is_driver =
            requirement.drivers().iter().any(|driver| *driver == found.driver || *driver == Driver::NewEnough);
        if is_gpu && is_driver { Ok(found) } else { Err(Error::OtherMachine { what: found.to_string() }) }
    }

    /// Loads all modules of a file that a process would load, in both modes.
    pub fn run(&self, code: &FileCode, gate: FileGate, data: &[u8], requirement: &Requirement) -> Result<FileGate> {
        let modules = code.modules_for(self.machine.gpu, data);
        let folder = tempfile::tempdir().map_err(|source| Error::Write { path: std::env::temp_dir(), source })?;
        for (number, module) in modules.iter().enumerate() {
            let (fatbin, kernels) = paths(folder.path(), number);
            let write = |path: &Path, bytes: &[u8]| {
                std::fs::write(path, bytes).map_err(|source| Error::Write { path: path.to_owned(), source })
            };
            write(&fatbin, module.fatbin)?;
            write(&kernels, module.kernels.join("\n").as_bytes())?;
        }
        let mut failures = vec![None; modules.len()];
        for mode in MODES {
            let (_, lines) = load(folder.path(), modules.len(), mode)?;
            for (number, place) in failures.iter_mut().enumerate() {
                let failure = match lines.get(number) {
                    Some(line) => line.failure.clone(),
                    None if number == lines.len() => Some("the driver ended or hung the process".to_owned()),
                    None => Some("not tried, because the driver ended the process before".to_owned()),
                };
                *place = place.take().or_else(|| failure.map(|failure| format!("{failure} ({mode} loading)")));
            }
        }
        let containers = modules.iter().map(|module| module.container).zip(failures);
        let loaded = LoadedModules { gpu: self.machine.gpu, driver: self.driver, containers: containers.collect() };
        Ok(gate.with_loaded(&loaded, code, requirement))
    }
}

impl std::fmt::Display for ThisMachine {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Driver::Branch(branch) = self.driver else { return formatter.write_str(&self.machine.name) };
        write!(formatter, "{} (sm_{}) with driver {branch}", self.machine.name, self.machine.gpu)
    }
}

/// The driver that the kernel has loaded: `… Kernel Module  580.159.04  …` on Linux.
fn installed_driver() -> Option<Driver> {
    let text = std::fs::read_to_string("/proc/driver/nvidia/version").ok()?;
    text.lines().next().and_then(version_in)
}

fn version_in(line: &str) -> Option<Driver> {
    line.split_whitespace().filter(|word| word.contains('.')).find_map(|word| word.parse().ok())
}

/// Runs the process, and returns what it says. A process that says nothing for too long is ended.
fn load(folder: &Path, count: usize, mode: &str) -> Result<(Machine, Vec<Loaded>)> {
    let failed = |error: std::io::Error| Error::Driver(error.to_string());
    let program = std::env::current_exe().map_err(failed)?;
    let mut process = Command::new(program)
        .arg("load-modules")
        .arg(folder)
        .arg(count.to_string())
        .env("CUDA_MODULE_LOADING", mode)
        // A compiled PTX of an earlier process would prove nothing.
        .env("CUDA_CACHE_DISABLE", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let Some(output) = process.stdout.take() else { return Err(Error::Driver("no output".to_owned())) };
    let (sender, receiver) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(std::result::Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    let mut lines = Vec::new();
    while let Ok(line) = receiver.recv_timeout(LONGEST) {
        lines.push(line);
    }
    // It has ended, or hangs.
    let _ = process.kill();
    let said = process.wait_with_output().map_err(failed)?;
    let _ = reader.join();
    let Some(machine) = lines.first().and_then(|line| serde_json::from_str(line).ok()) else {
        let text = String::from_utf8_lossy(&said.stderr);
        let why = text.lines().next().unwrap_or("the process ended without a word");
        return Err(Error::NoDriver(why.trim_start_matches("offload-bundle: error: ").to_owned()));
    };
    let modules = lines.iter().skip(1).map_while(|line| serde_json::from_str(line).ok());
    Ok((machine, modules.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_the_kernel_module() {
        for line in [
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.04  Tue Sep 10 22:13:20 UTC 2026",
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (dvs-builder@U22)",
        ] {
            assert_eq!(version_in(line), Some(Driver::Branch(580)), "{line}");
        }
        assert_eq!(version_in("GCC version:  gcc version 12.3.0"), None);
    }
}
