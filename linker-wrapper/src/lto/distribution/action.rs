//! A job as files that any machine can run: a manifest, the bitcode of the units that the job reads, and the tools. All of them are in one
//! folder, named without it, and the manifest has the hash of each. Nothing in the manifest depends on the link that made it, so the same
//! code leads to the same manifest, and engines that keep results find them again.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use blake3::Hash;
use object::Object;
use serde::{Deserialize, Serialize};

use crate::diag::error::Errors;
use crate::lto::compile_job::{CompileJob, UnitRange};
use crate::lto::error::Error;
use crate::sys::mapped_file::Mapped;
use crate::sys::temp_files;

/// The manifest.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Action {
    /// The build of fatlink that made it, which alone runs it.
    pub program: String,
    /// The job. Its paths are names of files in the folder of the manifest or, for what it writes, in a folder that is made for it. Its
    /// units are files of their own, named by their hashes.
    pub job: CompileJob,
    /// The tools and libraries that the job reads, besides the units.
    pub tools: Vec<NamedFile>,
}

/// A file of an action.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct NamedFile {
    /// Its name in the folder.
    pub name: String,
    /// BLAKE3 of its content, in hexadecimal digits.
    pub hash: String,
}

/// The files of one job.
#[derive(Debug)]
pub struct ActionFiles {
    /// BLAKE3 of the manifest.
    pub hash: Hash,
    /// A unit's bitcode, the manifest, and the bitcode of further units.
    pub inputs: Vec<PathBuf>,
    /// The file of the result.
    pub output: PathBuf,
}

/// The folder with the files of all jobs of a link.
#[derive(Debug)]
pub struct Files {
    folder: PathBuf,
    program: String,
    /// The file of units that was opened last: all jobs of a target share one.
    units: Option<(PathBuf, Mapped)>,
    written: BTreeSet<String>,
    tools: Vec<(PathBuf, NamedFile)>,
}

/// Name of a unit's bitcode in the folder.
pub fn unit_name(range: &UnitRange) -> String {
    format!("{}.bc", range.hash)
}

/// Identifies a build of this program by the id that its linker gave it, or by its content.
///
/// # Errors
/// The program cannot be read.
pub fn build_id(program: &Path) -> Result<String, Errors> {
    let content = Mapped::open(program).map_err(|source| Error::Read { file: program.to_owned(), source })?;
    let file = object::File::parse(content.bytes()).ok();
    let id = file.as_ref().and_then(|file| file.build_id().ok().flatten());
    let digits = |id: &[u8]| id.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(id.map_or_else(|| blake3::hash(content.bytes()).to_hex().to_string(), digits))
}

impl Files {
    /// Makes the folder.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn new(folder: PathBuf) -> Result<Self, Errors> {
        std::fs::create_dir(&folder).map_err(|source| Error::Folder { folder: folder.clone(), source })?;
        let program = build_id(&crate::sys::process::itself())?;
        Ok(Files { folder, program, units: None, written: BTreeSet::new(), tools: Vec::new() })
    }

    /// Returns the folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the tools and libraries of the jobs.
    pub fn common(&self) -> Vec<PathBuf> {
        self.tools.iter().map(|(_, file)| self.folder.join(&file.name)).collect()
    }

    /// Writes the files of a job.
    ///
    /// # Errors
    /// A file cannot be read or written.
    pub fn add(&mut self, job: &CompileJob) -> Result<ActionFiles, Errors> {
        for range in &job.ranges {
            self.write_unit(job, range)?;
        }
        let (portable, tools) = self.portable(job)?;
        let action = Action { program: self.program.clone(), job: portable, tools };
        let text =
            serde_json::to_vec_pretty(&action).map_err(|source| Error::Describe { what: job.name.clone(), source })?;
        let hash = blake3::hash(&text);
        let stem = &hash.to_hex()[..32];
        let manifest = self.folder.join(format!("{stem}.json"));
        temp_files::write_file(&manifest, &text)?;
        let names: BTreeSet<String> = job.ranges.iter().map(unit_name).collect();
        let mut inputs: Vec<PathBuf> = names.iter().map(|name| self.folder.join(name)).collect();
        inputs.insert(inputs.len().min(1), manifest);
        Ok(ActionFiles { hash, inputs, output: self.folder.join(format!("{stem}.result")) })
    }

    fn write_unit(&mut self, job: &CompileJob, range: &UnitRange) -> Result<(), Errors> {
        let name = unit_name(range);
        if self.written.contains(&name) {
            return Ok(());
        }
        if self.units.as_ref().is_none_or(|(path, _)| *path != job.units) {
            let content = Mapped::open(&job.units).map_err(|source| Error::Read { file: job.units.clone(), source })?;
            self.units = Some((job.units.clone(), content));
        }
        let content = self.units.as_ref().map_or(&[][..], |(_, content)| content.bytes());
        let end = range.start.checked_add(range.length);
        let unit = end.and_then(|end| content.get(range.start..end));
        let unit = unit.ok_or_else(|| Error::MissingUnit { unit: range.name.clone(), file: job.units.clone() })?;
        temp_files::write_file(&self.folder.join(&name), unit)?;
        self.written.insert(name);
        Ok(())
    }

    /// Puts a tool into the folder, as a link to it.
    fn tool(&mut self, path: &Path, name: &str) -> Result<PathBuf, Errors> {
        if !self.tools.iter().any(|(known, _)| known == path) {
            let cannot = |source| Error::Read { file: path.to_owned(), source };
            let real = std::fs::canonicalize(path).map_err(cannot)?;
            let content = Mapped::open(&real).map_err(cannot)?;
            let hash = blake3::hash(content.bytes()).to_hex().to_string();
            let link = self.folder.join(name);
            std::os::unix::fs::symlink(real, &link).map_err(|source| Error::Folder { folder: link, source })?;
            self.tools.push((path.to_owned(), NamedFile { name: name.to_owned(), hash }));
        }
        Ok(name.into())
    }

    /// The job with the names of the files in the folder, without anything that depends on this link; and the tools that it runs.
    fn portable(&mut self, job: &CompileJob) -> Result<(CompileJob, Vec<NamedFile>), Errors> {
        let mut start = 0;
        let ranges = job.ranges.iter().map(|range| {
            let placed = UnitRange { start, name: base_name(&range.name), ..range.clone() };
            start += range.length;
            placed
        });
        let ranges = ranges.collect();
        let mut put = Vec::new();
        let code = job.code.steps().portable(&mut |path, name| {
            put.push(name);
            self.tool(path, name)
        })?;
        let tools = self.tools.iter().map(|(_, file)| file).filter(|file| put.contains(&file.name.as_str()));
        let tools = tools.cloned().collect();
        let (name, units) = ("job".to_owned(), PathBuf::from("units"));
        let job = CompileJob {
            name,
            units,
            ranges,
            code,
            saved_stages: None,
            cached_code: None,
            traced: false,
            ..job.clone()
        };
        Ok((job, tools))
    }
}

/// A unit's name without the folder, which differs between machines.
fn base_name(name: &str) -> String {
    name.rsplit('/').next().unwrap_or(name).to_owned()
}
