//! Runs ptxas on the PTX that drivers would compile, and keeps what it says in the cache's folder.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use offload_bundle::coverage::gate::{Assembled, FileCode, FileGate, PtxJob, PtxText};
use rayon::prelude::*;

use super::cache::Cache;
use crate::error::{Error, Result};

/// Assemblers, and where their results are kept.
pub struct Assemblers {
    tools: Vec<Ptxas>,
    cache: Cache,
}

struct Ptxas {
    path: PathBuf,
    /// `13.0`, or the whole of what it prints.
    release: String,
    /// What it prints of itself, which tells builds apart.
    version: String,
}

impl Assemblers {
    /// The ptxas of the toolkit at hand, if there is one, and those named.
    pub fn find(named: &[PathBuf]) -> Result<Self> {
        let mut tools: Vec<Ptxas> = Vec::new();
        for path in at_hand().into_iter().chain(named.iter().cloned()) {
            let tool = Ptxas::new(path)?;
            if tools.iter().all(|known| known.version != tool.version) {
                tools.push(tool);
            }
        }
        if tools.is_empty() {
            return Err(Error::NoPtxas);
        }
        Ok(Self { tools, cache: Cache::of_user() })
    }

    /// `ptxas 13.0`, for each.
    pub fn names(&self) -> Vec<String> {
        self.tools.iter().map(|tool| format!("ptxas {}", tool.release)).collect()
    }

    /// Assembles what drivers would compile of a file. The PTX are read one by one, since a file may have gigabytes of them.
    pub fn assemble(&self, code: &FileCode, gate: &FileGate, data: &[u8]) -> Result<BTreeMap<PtxJob, Assembled>> {
        let folder = tempfile::tempdir().map_err(|source| Error::Write { path: std::env::temp_dir(), source })?;
        let assemble = |job: PtxJob| Some(self.all(&job.text(code, data)?, folder.path()).map(|said| (job, said)));
        gate.ptx_jobs().into_par_iter().filter_map(assemble).collect()
    }

    fn all(&self, ptx: &PtxText, folder: &Path) -> Result<Assembled> {
        let mut said: Option<Assembled> = None;
        for tool in &self.tools {
            let own = self.one(tool, ptx, folder)?;
            said = Some(said.map_or(own.clone(), |said| said.and(own)));
        }
        said.ok_or(Error::NoPtxas)
    }

    fn one(&self, tool: &Ptxas, ptx: &PtxText, folder: &Path) -> Result<Assembled> {
        let target = ptx.target.to_string();
        let part = if ptx.is_part { "part" } else { "whole" };
        let key = Cache::key(&[b"ptxas 1", tool.version.as_bytes(), target.as_bytes(), part.as_bytes(), &ptx.text]);
        if let Some(said) = self.cache.get(&key).and_then(|bytes| serde_json::from_slice(&bytes).ok()) {
            return Ok(said);
        }
        let said = tool.run(ptx, &target, folder)?;
        self.cache.put(&key, &serde_json::to_vec(&said)?);
        Ok(said)
    }
}

/// The ptxas of the toolkit that the environment names, or on the path.
fn at_hand() -> Option<PathBuf> {
    let toolkits =
        ["CUDA_PATH", "CUDA_HOME"].into_iter().filter_map(std::env::var_os).map(|root| PathBuf::from(root).join("bin"));
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let on_path: Vec<PathBuf> = std::env::split_paths(&paths).filter(|folder| folder.is_absolute()).collect();
    let default = [PathBuf::from("/usr/local/cuda/bin")];
    toolkits.chain(on_path).chain(default).map(|folder| folder.join("ptxas")).find(|path| path.is_file())
}

impl Ptxas {
    fn new(path: PathBuf) -> Result<Self> {
        let failed = |what: String| Error::Ptxas { path: path.clone(), what };
        let output = Command::new(&path).arg("--version").output().map_err(|error| failed(error.to_string()))?;
        let version = String::from_utf8_lossy(&output.stdout).into_owned();
        let release = version.split_once("release ").and_then(|(_, rest)| rest.split(',').next()).map(str::to_owned);
        match release {
            Some(release) if output.status.success() => Ok(Self { path, release, version }),
            _ => Err(failed("prints no release for --version, so it is no ptxas".to_owned())),
        }
    }

    fn run(&self, ptx: &PtxText, target: &str, folder: &Path) -> Result<Assembled> {
        let failed = |what: String| Error::Ptxas { path: self.path.clone(), what };
        let mut input =
            tempfile::Builder::new().suffix(".ptx").tempfile_in(folder).map_err(|error| failed(error.to_string()))?;
        input.write_all(&ptx.text).map_err(|error| failed(error.to_string()))?;
        let output = input.path().with_extension("cubin");
        let mut arguments: Vec<OsString> = vec!["-arch".into(), target.into(), "-o".into(), output.clone().into()];
        arguments.extend(ptx.is_part.then(|| "-c".into()));
        arguments.push(input.path().into());
        let start = Instant::now();
        let done = Command::new(&self.path).args(arguments).output().map_err(|error| failed(error.to_string()))?;
        let ms = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
        // The next one may be large.
        let _ = std::fs::remove_file(&output);
        if done.status.success() {
            return Ok(Assembled::Accepted(ms));
        }
        let text = format!("{}\n{}", String::from_utf8_lossy(&done.stderr), String::from_utf8_lossy(&done.stdout));
        match reason(&text) {
            // Killed, or out of memory: not a word on the PTX, and nothing to keep.
            None => Err(failed(format!("failed without a reason ({}) on PTX for {target}", done.status))),
            Some(why) if is_too_new(&why) => Ok(Assembled::Unable(format!("ptxas {}: {why}", self.release))),
            Some(why) => Ok(Assembled::Rejected(format!("ptxas {} rejects it: {why}", self.release))),
        }
    }
}

/// The first complaint of ptxas, without the name of the file.
fn reason(output: &str) -> Option<String> {
    let is_complaint = |line: &&str| line.contains("error ") || line.contains("fatal ");
    let line = output.lines().find(is_complaint)?;
    let place = line.find(", line ").map(|at| line.get(at + 2..).unwrap_or_default());
    Some(
        place
            .unwrap_or(line.trim_start_matches("ptxas "))
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
            .replace(" :", ":"),
    )
}

/// Whether a complaint is that this ptxas knows the PTX version or the GPU too little.
fn is_too_new(why: &str) -> bool {
    why.contains("Unsupported .version") || why.contains("is not defined for option 'gpu-name'")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complaints() {
        let error = "ptxas /tmp/x.ptx, line 4; error   : Unknown modifier '.bar'\nptxas fatal   : Ptx assembly aborted due to errors\n";
        assert_eq!(reason(error).as_deref(), Some("line 4; error: Unknown modifier '.bar'"));
        let version = "ptxas x.ptx, line 1; fatal   : Unsupported .version 9.3; current version is '9.0'\n";
        assert!(reason(version).is_some_and(|why| is_too_new(&why)));
        let gpu = "ptxas fatal   : Value 'sm_50' is not defined for option 'gpu-name'\n";
        assert_eq!(reason(gpu).as_deref(), Some("fatal: Value 'sm_50' is not defined for option 'gpu-name'"));
        assert!(is_too_new(gpu) && reason("Killed\n").is_none());
    }
}
