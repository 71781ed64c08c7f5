//! A link, as its caller describes it.

use std::ffi::OsString;
use std::fmt;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use crate::cancellation::Cancellation;
use crate::event::{Event, Observer};
use crate::unit::Input;

/// Which PTX the image has beside machine code. Later GPUs can compile it.
///
/// ```
/// # use fatlink::{Link, Ptx};
/// let link = Link::new().ptx(Ptx::Newest).ptx(Ptx::Of(vec!["sm_80".into(), "sm_90".into()]));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Ptx {
    /// What the units were compiled to have.
    #[default]
    Objects,
    /// None.
    None,
    /// That of the highest target.
    Newest,
    /// That of the lowest target.
    Oldest,
    /// That of every target.
    All,
    /// That of these targets.
    Of(Vec<String>),
}

impl Ptx {
    /// The policy that the program's option `--offload-ptx=` has this value for. A link with a value that has no meaning fails.
    ///
    /// ```
    /// # use fatlink::Ptx;
    /// assert_eq!(Ptx::named("newest"), Ptx::Newest);
    /// assert_eq!(Ptx::named("sm_80,sm_90"), Ptx::Of(vec!["sm_80".into(), "sm_90".into()]));
    /// ```
    pub fn named(text: &str) -> Self {
        let fixed = [Ptx::Objects, Ptx::None, Ptx::Newest, Ptx::Oldest, Ptx::All];
        let found = fixed.into_iter().find(|policy| policy.to_string() == text);
        found.unwrap_or_else(|| Ptx::Of(text.split(',').map(str::to_owned).collect()))
    }
}

impl fmt::Display for Ptx {
    /// The value of the program's option `--offload-ptx=`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Ptx::Objects => "objects",
            Ptx::None => "none",
            Ptx::Newest => "newest",
            Ptx::Oldest => "oldest",
            Ptx::All => "all",
            Ptx::Of(targets) => return formatter.write_str(&targets.join(",")),
        })
    }
}

/// A link of device code: its inputs and what is made of them.
///
/// A link can be run any number of times, also by several threads at once. Nothing is read before [`Link::run`] or [`Linker::run`](crate::Linker::run).
///
/// ```no_run
/// use fatlink::{Link, Ptx};
///
/// let kernel = std::fs::read("kernel.o")?;
/// let linked = Link::new()
///     .unit(kernel, "kernel.o")
///     .file("/build/libdevice-code.a")
///     .target("sm_90")
///     .ptx(Ptx::Newest)
///     .run()?;
/// std::fs::write("registration.o", linked.registration.unwrap())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Link {
    pub(crate) inputs: Vec<Input>,
    pub(crate) targets: Vec<String>,
    pub(crate) ptx: Ptx,
    pub(crate) library_paths: Vec<PathBuf>,
    pub(crate) cache: Option<PathBuf>,
    pub(crate) base: Option<PathBuf>,
    pub(crate) options: Vec<OsString>,
    pub(crate) is_image_only: bool,
    pub(crate) is_reported: bool,
    pub(crate) observer: Observer,
    pub(crate) cancellation: Option<Cancellation>,
}

impl Link {
    /// A link without inputs.
    pub fn new() -> Self {
        Link::default()
    }

    /// Adds an input of bytes: a host object with device code, an archive, LLVM's offload binary, or bare device code (LLVM bitcode, PTX,
    /// a cubin, a fatbin). Bitcode is code for each target of the link ([`Link::target`]). Diagnostics call the unit by `name`.
    ///
    /// ```
    /// # use fatlink::Link;
    /// let link = Link::new().unit(*b"BC\xc0\xde", "kernel.bc").target("sm_90");
    /// ```
    pub fn unit(mut self, bytes: impl Into<Arc<[u8]>>, name: impl Into<String>) -> Self {
        self.inputs.push(Input::Bytes { name: name.into(), bytes: bytes.into() });
        self
    }

    /// Adds a file with what [`Link::unit`] takes. Of an archive, the members are linked that other inputs need. A relative path counts
    /// from [`Link::base`].
    ///
    /// ```
    /// # use fatlink::Link;
    /// let link = Link::new().base("/build").file("main.o").file("/usr/lib/libdevice-code.a");
    /// ```
    pub fn file(mut self, path: impl Into<PathBuf>) -> Self {
        self.inputs.push(Input::File { path: path.into(), whole: false });
        self
    }

    /// Adds an archive of which all members are linked.
    ///
    /// ```
    /// # use fatlink::Link;
    /// let link = Link::new().whole_archive("/usr/lib/libdevice-code.a");
    /// ```
    pub fn whole_archive(mut self, path: impl Into<PathBuf>) -> Self {
        self.inputs.push(Input::File { path: path.into(), whole: true });
        self
    }

    /// Adds a library, such as `foo` for `libfoo.a` in one of the folders of [`Link::library_path`].
    ///
    /// ```
    /// # use fatlink::Link;
    /// let link = Link::new().library_path("/usr/lib/gpu").library("device-code");
    /// ```
    pub fn library(mut self, name: impl Into<String>) -> Self {
        self.inputs.push(Input::Library(name.into()));
        self
    }

    /// Adds a folder in which libraries are searched.
    ///
    /// ```
    /// # use fatlink::Link;
    /// let link = Link::new().library_path("/usr/lib/gpu").library("device-code");
    /// ```
    pub fn library_path(mut self, folder: impl Into<PathBuf>) -> Self {
        self.library_paths.push(folder.into());
        self
    }

    /// Adds a target that machine code is made for, such as `sm_90`. Without any, machine code is made for the targets that the units were
    /// compiled for. Of AMD's GPUs (`gfx90a`) this concerns units of bitcode alone.
    ///
    /// ```
    /// # use fatlink::Link;
    /// let link = Link::new().file("/build/kernel.o").target("sm_80").target("sm_90");
    /// ```
    pub fn target(mut self, target: impl Into<String>) -> Self {
        self.targets.push(target.into());
        self
    }

    /// Says which PTX the image has beside machine code.
    ///
    /// ```
    /// # use fatlink::{Link, Ptx};
    /// let link = Link::new().file("/build/kernel.o").ptx(Ptx::Newest);
    /// ```
    pub fn ptx(mut self, ptx: Ptx) -> Self {
        self.ptx = ptx;
        self
    }

    /// Keeps results of device links in a folder, and takes them from there. Several links may share one at the same time.
    ///
    /// ```
    /// # use fatlink::Link;
    /// let link = Link::new().file("/build/kernel.o").cache("/var/cache/fatlink");
    /// ```
    pub fn cache(mut self, folder: impl Into<PathBuf>) -> Self {
        self.cache = Some(folder.into());
        self
    }

    /// Names the folder from which relative paths of this link count. Without it, a relative path is an error: the link does not depend on
    /// the folder that the process happens to be in.
    ///
    /// ```
    /// # use fatlink::Link;
    /// let link = Link::new().base("/build").file("kernel.o");
    /// ```
    pub fn base(mut self, folder: impl Into<PathBuf>) -> Self {
        self.base = Some(folder.into());
        self
    }

    /// Adds an option of the program fatlink, as `fatlink --help` lists them. Options that name other outputs have no place here.
    ///
    /// ```
    /// # use fatlink::Link;
    /// let link = Link::new().file("/build/kernel.o").option("--offload-compress=size");
    /// ```
    pub fn option(mut self, option: impl Into<OsString>) -> Self {
        self.options.push(option.into());
        self
    }

    /// Makes the image alone, without a registration object.
    ///
    /// ```
    /// # use fatlink::Link;
    /// let link = Link::new().file("/build/kernel.o").image_only();
    /// ```
    pub fn image_only(mut self) -> Self {
        self.is_image_only = true;
        self
    }

    /// Makes the report on the image, too: what `--offload-report=json` of the program says.
    ///
    /// ```
    /// # use fatlink::Link;
    /// let link = Link::new().file("/build/kernel.o").report();
    /// ```
    pub fn report(mut self) -> Self {
        self.is_reported = true;
        self
    }

    /// Names a function that gets the events of the link while it runs, in the thread that runs it. With `Break` the link is cancelled, and
    /// returns [`Error::Cancelled`](crate::Error::Cancelled).
    ///
    /// ```
    /// # use fatlink::{Event, Link};
    /// use std::ops::ControlFlow;
    ///
    /// let link = Link::new().file("/build/kernel.o").observed_by(|event| {
    ///     if let Event::Jobs { done, known } = event {
    ///         eprintln!("{done} of {known} jobs");
    ///     }
    ///     ControlFlow::Continue(())
    /// });
    /// ```
    pub fn observed_by(mut self, observe: impl Fn(&Event<'_>) -> ControlFlow<()> + Send + Sync + 'static) -> Self {
        self.observer = Observer(Some(Arc::new(observe)));
        self
    }

    /// Names what cancels the link.
    ///
    /// ```
    /// # use fatlink::{Cancellation, Link};
    /// let cancellation = Cancellation::new()?;
    /// let link = Link::new().file("/build/kernel.o").cancelled_by(&cancellation);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn cancelled_by(mut self, cancellation: &Cancellation) -> Self {
        self.cancellation = Some(cancellation.clone());
        self
    }
}
