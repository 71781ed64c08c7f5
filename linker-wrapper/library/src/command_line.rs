//! A link as a command line of the program, and what the program writes.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::folder::{Folder, OWN};
use crate::link::{Link, Ptx};
use crate::unit::{self, Input};

/// Where the program writes the registration object or the image, the image beside the object, and the report.
const OUTPUT: &str = "output";
const IMAGE: &str = "image";
const REPORT: &str = "report.json";

impl Link {
    /// Writes the units that are bytes into the folder, and returns the command line with which the program links all.
    pub(crate) fn prepare(&self, folder: &Folder, cuda: Option<&Path>) -> Result<Prepared, Error> {
        let mut prepared = Prepared { words: self.options_of_output(), ..Prepared::default() };
        prepared.words.extend(cuda.map(|root| option("--cuda-path=", root)));
        if let Some(target) = self.targets.iter().find(|target| !unit::is_target(target)) {
            let what = format!("'{target}' is no target; targets are GPUs such as sm_90 and gfx90a");
            return Err(Error::Argument { what });
        }
        let targets: Vec<&str> =
            self.targets.iter().map(String::as_str).filter(|name| unit::is_of_nvidia(name)).collect();
        if !targets.is_empty() {
            prepared.words.push(format!("--offload-sass={}", targets.join(",")).into());
        }
        if self.ptx != Ptx::Objects {
            prepared.words.push(format!("--offload-ptx={}", self.ptx).into());
        }
        if let Some(cache) = &self.cache {
            prepared.words.push(option("--offload-cache=", &self.absolute(cache)?));
        }
        prepared.words.extend(self.options.iter().cloned());
        for folder in &self.library_paths {
            prepared.words.push(option("-L", &self.absolute(folder)?));
        }
        for (index, input) in self.inputs.iter().enumerate() {
            self.add(index, input, folder, &mut prepared)?;
        }
        Ok(prepared)
    }

    fn options_of_output(&self) -> Vec<OsString> {
        let own = |prefix: &str, name: &str| OsString::from(format!("{prefix}{OWN}{name}"));
        let mut words = if self.is_image_only {
            vec!["--emit-fatbin-only".into()]
        } else {
            vec!["--dlink=translated".into(), own("--offload-image=", IMAGE)]
        };
        words.extend(self.is_reported.then(|| own("--offload-report=json:", REPORT)));
        words.extend(["-o".into(), own("", OUTPUT)]);
        words
    }

    fn add(&self, index: usize, input: &Input, folder: &Folder, prepared: &mut Prepared) -> Result<(), Error> {
        match input {
            Input::Library(name) => prepared.words.push(format!("-l{name}").into()),
            Input::Bytes { name, bytes } => {
                let contained = unit::contained(name, bytes, &self.targets)?;
                prepared.write(index, name, contained.as_deref().unwrap_or(bytes), folder)?;
            }
            Input::File { path, whole } => {
                let absolute = self.absolute(path)?;
                let name = path.display().to_string();
                if let Some(contained) = contained_file(&absolute, &name, &self.targets)? {
                    return prepared.write(index, &name, &contained, folder);
                }
                prepared.words.extend(whole.then(|| "--whole-archive".into()));
                prepared.words.push(absolute.clone().into());
                prepared.words.extend(whole.then(|| "--no-whole-archive".into()));
                prepared.named(absolute.display().to_string(), name);
            }
        }
        Ok(())
    }

    fn absolute(&self, path: &Path) -> Result<PathBuf, Error> {
        let absolute = self.base.as_ref().map_or_else(|| path.to_owned(), |base| base.join(path));
        if absolute.is_absolute() {
            return Ok(absolute);
        }
        let what = format!("{}: a relative path; make it absolute, or name its folder with Link::base", path.display());
        Err(Error::Argument { what })
    }

    /// Reads what the program has written.
    pub(crate) fn results(&self, folder: &Folder) -> Result<Results, Error> {
        let read = |name: &str| folder.read(&format!("{OWN}{name}"));
        let output = read(OUTPUT)?;
        let (image, registration) = if self.is_image_only { (output, None) } else { (read(IMAGE)?, Some(output)) };
        let report = self.is_reported.then(|| read(REPORT)).transpose()?;
        Ok(Results { image, registration, report })
    }

    /// Whether the folder has an image. A link of inputs without device code succeeds for the program, and has none.
    pub(crate) fn has_image(&self, folder: &Folder) -> bool {
        self.is_image_only || folder.path().join(format!("{OWN}{IMAGE}")).exists()
    }
}

/// What the program has written.
pub struct Results {
    pub image: Vec<u8>,
    pub registration: Option<Vec<u8>>,
    pub report: Option<Vec<u8>>,
}

/// The bare device code of a file in a container. `None` if the program reads the file itself, or reports why that is impossible.
fn contained_file(path: &Path, name: &str, targets: &[String]) -> Result<Option<Vec<u8>>, Error> {
    let cannot = |source| Error::File { path: path.to_owned(), source };
    // Host objects and archives may be large; what they begin with tells them apart.
    let mut start = [0; 20];
    let mut file = File::open(path).map_err(cannot)?;
    let length = read_start(&mut file, &mut start).map_err(cannot)?;
    if unit::is_never_bare(&start[..length]) {
        return Ok(None);
    }
    unit::contained(name, &std::fs::read(path).map_err(cannot)?, targets)
}

fn read_start(file: &mut File, start: &mut [u8]) -> std::io::Result<usize> {
    let mut length = 0;
    loop {
        match file.read(&mut start[length..])? {
            0 => return Ok(length),
            read => length += read,
        }
    }
}

fn option(prefix: &str, path: &Path) -> OsString {
    [OsStr::new(prefix), path.as_os_str()].into_iter().collect()
}

/// A link that is ready to run.
#[derive(Debug, Default)]
pub(crate) struct Prepared {
    /// The command line.
    pub words: Vec<OsString>,
    /// What the program calls inputs, and what the caller calls them, where both differ.
    renamed: Vec<(String, String)>,
    /// What the caller calls the inputs.
    pub names: Vec<String>,
}

impl Prepared {
    fn write(&mut self, index: usize, name: &str, bytes: &[u8], folder: &Folder) -> Result<(), Error> {
        let taken: Vec<Cow<'_, str>> = self.names.iter().map(|name| Cow::Borrowed(name.as_str())).collect();
        let file = unit::file_name(index, name, &taken).into_owned();
        folder.write(&file, bytes)?;
        self.words.push(file.clone().into());
        self.named(file, name.to_owned());
        Ok(())
    }

    fn named(&mut self, written: String, name: String) {
        if written != name {
            self.renamed.push((written, name.clone()));
        }
        self.names.push(name);
    }

    /// A message of the program with the caller's names.
    pub fn with_names(&self, mut text: String) -> String {
        for (written, name) in &self.renamed {
            text = text.replace(written.as_str(), name);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_becomes_a_command_line() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::new(place.path()).unwrap();
        let object = place.path().join("a.a");
        std::fs::write(&object, "!<arch>\n").unwrap();
        let link = Link::new()
            .base(place.path())
            .unit(*b"\x7fELF", "k.o")
            .unit(*b"\x7fELF", "k.o")
            .whole_archive("a.a")
            .library_path("/lib")
            .library("x")
            .target("sm_90")
            .ptx(Ptx::Of(vec!["sm_80".into(), "sm_90".into()]))
            .cache("cache")
            .option("--device-compiler=-O1")
            .report();
        let prepared = link.prepare(&folder, Some(Path::new("/cuda"))).unwrap();
        let words: Vec<_> = prepared.words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        let base = place.path().display();
        let expected = [
            "--dlink=translated",
            "--offload-image=.fatlink.image",
            "--offload-report=json:.fatlink.report.json",
            "-o",
            ".fatlink.output",
            "--cuda-path=/cuda",
            "--offload-sass=sm_90",
            "--offload-ptx=sm_80,sm_90",
            &format!("--offload-cache={base}/cache"),
            "--device-compiler=-O1",
            "-L/lib",
            "k.o",
            ".unit/1",
            "--whole-archive",
            &format!("{base}/a.a"),
            "--no-whole-archive",
            "-lx",
        ];
        assert_eq!(words, expected);
        assert_eq!(prepared.names, ["k.o", "k.o", "a.a"]);
        assert_eq!(prepared.with_names(format!(".unit/1 and {base}/a.a")), "k.o and a.a");
    }

    #[test]
    fn what_is_no_target_is_named() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::new(place.path()).unwrap();
        for target in ["", "90", "SM_90", "sm_", "sm_90 ", "gfx", "sm_80,sm_90"] {
            let error = Link::new().target(target).prepare(&folder, None).unwrap_err();
            assert_eq!(
                error.to_string(),
                format!("'{target}' is no target; targets are GPUs such as sm_90 and gfx90a")
            );
        }
        assert!(
            Link::new().target("sm_100f").target("gfx90a:xnack+").target("gfx9-generic").prepare(&folder, None).is_ok()
        );
    }

    #[test]
    fn relative_paths_need_a_base() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::new(place.path()).unwrap();
        for link in [Link::new().file("a.o"), Link::new().cache("c"), Link::new().library_path("l")] {
            let error = link.prepare(&folder, None).unwrap_err();
            assert!(error.to_string().contains("relative path"), "{error}");
        }
    }
}
