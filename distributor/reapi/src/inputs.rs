//! Jobs as actions of the Remote Execution API: a command, and a tree of all files that it needs.
//!
//! The tree has the program in `bin`, the loader and the shared libraries in `lib`, and the inputs of the job in `job`. The command starts the
//! loader, so a worker needs nothing of its own but a kernel. Names are the same for all jobs, so actions differ only in their content.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use bazel_remote_apis::build::bazel::remote::execution::v2::platform::Property;
use bazel_remote_apis::build::bazel::remote::execution::v2::{
    Action, Command, Digest, Directory, DirectoryNode, FileNode, Platform,
};
use distributor::{Job, JobList};

use crate::blobs::Blob;
use crate::error::Error;
use crate::libraries::Libraries;

/// The output of every job.
pub const RESULT: &str = "out/result";

/// Name of the manifest, which has another one for each job on this machine.
const MANIFEST: &str = "manifest.json";

/// All actions of a list with everything to upload.
#[derive(Debug, Default)]
pub struct Actions {
    /// The blobs, by their hashes.
    pub blobs: BTreeMap<String, Blob>,
    /// The actions, in the order of the jobs.
    pub actions: Vec<Digest>,
}

/// What all actions share.
struct Shared {
    bin: Digest,
    lib: Digest,
    loader: String,
    program: String,
    common: Vec<FileNode>,
    platform: Option<Platform>,
}

impl Actions {
    /// Makes the actions of a list.
    ///
    /// # Errors
    /// An input cannot be read, or a program lacks a shared library.
    pub fn of(list: &JobList, platform: &[(String, String)]) -> Result<Self, Error> {
        let mut all = Actions::default();
        let program = PathBuf::from(list.program());
        let mut programs = vec![&*program];
        programs.extend(list.common.inputs.iter().map(Path::new).filter(|input| is_program(input)));
        let libraries = Libraries::of(&programs)?;
        let lib = libraries.files.iter().map(|(name, path)| all.file(path, name.clone())).collect::<Result<_, _>>()?;
        let bin = vec![all.file(&program, "fatlink".to_owned())?];
        let common = list.common.inputs.iter().map(|input| all.input(input)).collect::<Result<_, _>>()?;
        let property = |(name, value): &(String, String)| Property { name: name.clone(), value: value.clone() };
        let mut properties: Vec<Property> = platform.iter().map(property).collect();
        properties.sort_by(|one, other| (&one.name, &one.value).cmp(&(&other.name, &other.value)));
        let shared = Shared {
            bin: all.directory(bin, Vec::new()),
            lib: all.directory(lib, Vec::new()),
            loader: libraries.loader_name(),
            program: "bin/fatlink".to_owned(),
            common,
            platform: (!properties.is_empty()).then_some(Platform { properties }),
        };
        for job in &list.jobs {
            let action = all.action(job, list, &shared)?;
            all.actions.push(action);
        }
        Ok(all)
    }

    fn add(&mut self, blob: Blob) -> Digest {
        let digest = blob.digest.clone();
        self.blobs.insert(digest.hash.clone(), blob);
        digest
    }

    fn file(&mut self, path: &Path, name: String) -> Result<FileNode, Error> {
        let is_executable = is_program(path);
        let digest = Some(self.add(Blob::of_file(path)?));
        Ok(FileNode { name, digest, is_executable, ..FileNode::default() })
    }

    /// An input of a job, under its own name.
    fn input(&mut self, path: &str) -> Result<FileNode, Error> {
        let name = Path::new(path).file_name().unwrap_or_default().to_string_lossy().into_owned();
        self.file(Path::new(path), name)
    }

    fn directory(&mut self, mut files: Vec<FileNode>, directories: Vec<DirectoryNode>) -> Digest {
        files.sort_by(|one, other| one.name.cmp(&other.name));
        self.add(Blob::of_message(&Directory { files, directories, ..Directory::default() }))
    }

    fn action(&mut self, job: &Job, list: &JobList, shared: &Shared) -> Result<Digest, Error> {
        let manifest = job.args.first().cloned().unwrap_or_default();
        let mut files = shared.common.clone();
        for input in &job.inputs {
            let mut file = self.input(input)?;
            if *input == manifest {
                MANIFEST.clone_into(&mut file.name);
            }
            files.push(file);
        }
        let inputs = self.directory(files, Vec::new());
        let folder =
            |name: &str, digest: &Digest| DirectoryNode { name: name.to_owned(), digest: Some(digest.clone()) };
        let folders = vec![folder("bin", &shared.bin), folder("job", &inputs), folder("lib", &shared.lib)];
        let root = self.directory(Vec::new(), folders);
        let command = self.add(Blob::of_message(&shared.command(job, list)));
        let action = Action {
            command_digest: Some(command),
            input_root_digest: Some(root),
            platform: shared.platform.clone(),
            ..Action::default()
        };
        Ok(self.add(Blob::of_message(&action)))
    }
}

impl Shared {
    #[expect(deprecated, reason = "older servers know only these fields")]
    fn command(&self, job: &Job, list: &JobList) -> Command {
        let loader = format!("lib/{}", self.loader);
        let mut arguments = vec![loader.clone(), "--library-path".to_owned(), "lib".to_owned(), self.program.clone()];
        let manifest = job.args.first();
        arguments.extend(list.arguments(job).map(|word| match word {
            word if Some(word) == manifest => format!("job/{MANIFEST}"),
            word if Path::new(word) == job.output() => RESULT.to_owned(),
            word => word.clone(),
        }));
        arguments.push(format!("--loader={loader},lib"));
        Command {
            arguments,
            output_files: vec![RESULT.to_owned()],
            output_paths: vec![RESULT.to_owned()],
            platform: self.platform.clone(),
            ..Command::default()
        }
    }
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;

    /// A list with one job, in a folder that each call makes anew.
    fn actions(manifest: &str) -> (Actions, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
        std::fs::write(path("unit.bc"), b"bitcode").unwrap();
        std::fs::write(path("libdevice.bc"), b"library").unwrap();
        std::fs::write(path(manifest), b"{}").unwrap();
        let own = std::env::current_exe().unwrap().to_string_lossy().into_owned();
        let list = serde_json_list(&own, &path("libdevice.bc"), &path("unit.bc"), &path(manifest), &path("r"));
        (Actions::of(&list, &[("OSFamily".to_owned(), "linux".to_owned())]).unwrap(), folder)
    }

    fn serde_json_list(program: &str, common: &str, unit: &str, manifest: &str, result: &str) -> JobList {
        let text = format!(
            r#"{{"common": {{"linker_output": "app", "args": ["{program}", "--run-job"], "inputs": ["{common}"]}},
            "jobs": [{{"args": ["{manifest}", "-o", "{result}"], "inputs": ["{unit}", "{manifest}"],
            "outputs": ["{result}"]}}]}}"#
        );
        JobList::parse(text.as_bytes(), Path::new("jobs.json")).unwrap()
    }

    #[test]
    fn an_action_does_not_depend_on_names_of_this_machine() {
        let ((one, _one), (other, _other)) = (actions("a.json"), actions("b.json"));
        assert_eq!(one.actions, other.actions);
    }

    #[test]
    fn the_command_names_files_of_the_tree() {
        let (all, _folder) = actions("a.json");
        let message = |digest: &Digest| all.blobs[&digest.hash].bytes().unwrap();
        let action = Action::decode(&*message(&all.actions[0])).unwrap();
        let command = Command::decode(&*message(&action.command_digest.unwrap())).unwrap();
        let words = command.arguments.join(" ");
        assert!(words.contains("--library-path lib bin/fatlink --run-job job/manifest.json -o out/result"), "{words}");
        let root = Directory::decode(&*message(&action.input_root_digest.unwrap())).unwrap();
        let names: Vec<&str> = root.directories.iter().map(|folder| &*folder.name).collect();
        assert_eq!(names, ["bin", "job", "lib"]);
        let job = Directory::decode(&*message(root.directories[1].digest.as_ref().unwrap())).unwrap();
        let names: Vec<&str> = job.files.iter().map(|file| &*file.name).collect();
        assert_eq!(names, ["libdevice.bc", "manifest.json", "unit.bc"]);
    }
}
