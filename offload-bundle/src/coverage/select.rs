//! Predicts which entry the driver chooses, and what becomes of it.

use std::fmt;

use super::code::{Code, Content, Word};
use super::driver::{Driver, Jit, Runtime};
use crate::arch::{ArchFeature, CudaRelease, GpuArch, PtxVersion};
use crate::cubin::Fault;

/// What becomes of a fatbin on one GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// Machine code runs.
    Sass,
    /// PTX is compiled and runs.
    Ptx,
    /// `CUDA_ERROR_NO_BINARY_FOR_GPU`.
    NoBinary,
    /// `CUDA_ERROR_UNSUPPORTED_PTX_VERSION`.
    UnsupportedPtxVersion,
    /// `CUDA_ERROR_INVALID_IMAGE`.
    InvalidImage,
    /// `CUDA_ERROR_INVALID_PTX`.
    InvalidPtx,
    /// `CUDA_ERROR_INVALID_SOURCE`.
    InvalidSource,
    /// `CUDA_ERROR_UNKNOWN`.
    UnknownError,
    /// `CUDA_ERROR_ILLEGAL_INSTRUCTION`: kernels are loaded, and fail when they are launched.
    IllegalInstruction,
    /// The driver crashes the process.
    DriverCrash,
    /// The driver links the objects again, and the result runs.
    Link,
    /// `CUDA_ERROR_NOT_FOUND`: what is loaded has no kernels.
    SymbolNotFound,
    /// `CUDA_ERROR_JIT_COMPILATION_DISABLED`.
    JitDisabled,
    /// A program registers it, and there is no kernel in it that could fail.
    NoKernels,
    /// What the driver does is not known.
    Unknown,
    /// `CUDA_ERROR_NO_DEVICE`: the driver does not drive this GPU.
    NoDevice,
}

impl Verdict {
    /// Whether a kernel can be launched, or there is none.
    pub fn runs(self) -> bool {
        self.may_run() && self != Verdict::Unknown
    }

    /// The same, or whether that is not known.
    pub fn may_run(self) -> bool {
        self.error_name().is_none()
    }

    /// Its name in reports.
    pub fn word(self) -> &'static str {
        self.names().0
    }

    /// The driver's name for the error.
    pub fn error_name(self) -> Option<&'static str> {
        self.names().1
    }

    fn names(self) -> (&'static str, Option<&'static str>) {
        match self {
            Verdict::Sass => ("sass", None),
            Verdict::Ptx => ("ptx", None),
            Verdict::Link => ("link", None),
            Verdict::NoKernels => ("no-kernels", None),
            Verdict::Unknown => ("unknown", None),
            Verdict::NoBinary => ("no-binary", Some("CUDA_ERROR_NO_BINARY_FOR_GPU")),
            Verdict::UnsupportedPtxVersion => ("unsupported-ptx-version", Some("CUDA_ERROR_UNSUPPORTED_PTX_VERSION")),
            Verdict::InvalidImage => ("invalid-image", Some("CUDA_ERROR_INVALID_IMAGE")),
            Verdict::InvalidPtx => ("invalid-ptx", Some("CUDA_ERROR_INVALID_PTX")),
            Verdict::InvalidSource => ("invalid-source", Some("CUDA_ERROR_INVALID_SOURCE")),
            Verdict::UnknownError => ("unknown-error", Some("CUDA_ERROR_UNKNOWN")),
            Verdict::IllegalInstruction => ("illegal-instruction", Some("CUDA_ERROR_ILLEGAL_INSTRUCTION")),
            Verdict::DriverCrash => ("driver-crash", Some("SIGSEGV")),
            Verdict::SymbolNotFound => ("symbol-not-found", Some("CUDA_ERROR_NOT_FOUND")),
            Verdict::NoDevice => ("no-device", Some("CUDA_ERROR_NO_DEVICE")),
            Verdict::JitDisabled => ("jit-disabled", Some("CUDA_ERROR_JIT_COMPILATION_DISABLED")),
        }
    }
}

/// The predicted behaviour of the driver for a fatbin on one GPU, with the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome<'a> {
    /// The GPU.
    pub gpu: GpuArch,
    /// What becomes of it.
    pub verdict: Verdict,
    /// The entry that the driver chooses, whether it runs or not.
    pub code: Option<&'a Code>,
    /// The reason, in a line.
    pub reason: String,
    /// The other entries, in order.
    pub passed_over: Vec<PassedOver<'a>>,
    /// What the driver links again, if it does.
    pub parts: Vec<LinkPart<'a>>,
    /// The numbers of the fatbins that are left out of that link although they are needed: another part references them, or a kernel
    /// may be in them.
    pub missing: Vec<usize>,
}

/// An image that the driver links with others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkPart<'a> {
    /// The number of the fatbin in its file.
    pub container: usize,
    /// The entry.
    pub code: &'a Code,
}

impl Outcome<'_> {
    /// That no machine has both this GPU and the driver.
    pub(super) fn without_machine(gpu: GpuArch, reason: String) -> Self {
        let (passed_over, parts, missing) = (Vec::new(), Vec::new(), Vec::new());
        Outcome { gpu, verdict: Verdict::NoDevice, code: None, reason, passed_over, parts, missing }
    }

    /// In short: `sass 90a`, `ptx 80 #2`, `link ptx 75 + ptx 80`, `no-binary`.
    pub fn brief(&self) -> String {
        if self.verdict == Verdict::Link {
            let mut names: Vec<String> = self.parts.iter().map(|part| part.code.name()).collect();
            names.sort();
            names.dedup();
            return format!("{} {}", self.verdict.word(), names.join(" + "));
        }
        match self.code {
            Some(code) if self.verdict.runs() && self.verdict != Verdict::NoKernels => code.name(),
            _ => self.verdict.word().to_owned(),
        }
    }
}

/// An entry that the driver passes over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PassedOver<'a> {
    /// The entry.
    pub code: &'a Code,
    /// Why not.
    pub why: WhyNot,
}

/// Why the driver passes over an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhyNot {
    /// Code for a link.
    LtoIr,
    /// A kind that no driver is known to load.
    OtherKind,
    /// Machine code of another GPU.
    SassOfOtherGpu,
    /// PTX for a later GPU, or with a suffix for another one.
    PtxOfOtherGpu,
    /// Machine code is preferred to PTX.
    SassGoesFirst,
    /// There is one for a nearer architecture.
    NearerArch(GpuArch),
    /// The first of its twins is preferred.
    FirstWins,
    /// The last of its twins is preferred.
    LastWins,
    /// `CUDA_FORCE_PTX_JIT` is set.
    PtxOnly,
    /// A part of a concatenation.
    Concatenated,
}

impl fmt::Display for WhyNot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            WhyNot::LtoIr => "LTO-IR is never loaded",
            WhyNot::OtherKind => "no driver is known to load this kind",
            WhyNot::SassOfOtherGpu => "machine code of another GPU",
            WhyNot::PtxOfOtherGpu => "PTX for a later GPU or another family",
            WhyNot::SassGoesFirst => "machine code that fits goes before PTX",
            WhyNot::NearerArch(arch) => return write!(f, "{arch} is nearer to the GPU"),
            WhyNot::FirstWins => "the first of several alike wins",
            WhyNot::LastWins => "the last of several alike wins",
            WhyNot::PtxOnly => "CUDA_FORCE_PTX_JIT ignores machine code",
            WhyNot::Concatenated => "drivers up to 580 pass over concatenations",
        })
    }
}

/// Predicts what the driver does with a fatbin of these entries. The suffix of `gpu` does not matter: every GPU has all features of its
/// number.
pub fn outcome(codes: &[Code], gpu: GpuArch, runtime: impl Into<Runtime>) -> Outcome<'_> {
    let (gpu, runtime) = (GpuArch::plain(gpu.number), runtime.into());
    let Some(code) = chosen(codes, gpu, runtime) else {
        let passed_over = passed_over(codes, None, gpu, runtime);
        let (verdict, reason) = (Verdict::NoBinary, why_nothing(&passed_over));
        return Outcome { gpu, verdict, code: None, reason, passed_over, parts: Vec::new(), missing: Vec::new() };
    };
    let (verdict, problem) = judge(code, gpu, runtime);
    let reason = problem.unwrap_or_else(|| why_this(code, gpu));
    let passed_over = passed_over(codes, Some(code), gpu, runtime);
    Outcome { gpu, verdict, code: Some(code), reason, passed_over, parts: Vec::new(), missing: Vec::new() }
}

/// The entry that the driver chooses: machine code before PTX, then the nearest architecture, then by order.
///
/// The driver chooses by labels alone: it notices faults of the image when it can no longer choose another.
pub(super) fn choose<'a>(codes: impl IntoIterator<Item = &'a Code>, gpu: GpuArch) -> Option<&'a Code> {
    let mut best: Option<&Code> = None;
    for code in codes.into_iter().filter(|code| fits(code, gpu)) {
        if best.is_none_or(|best| goes_before(code, best, gpu)) {
            best = Some(code);
        }
    }
    best
}

/// The same of those that a driver takes.
pub(super) fn chosen(codes: &[Code], gpu: GpuArch, runtime: Runtime) -> Option<&Code> {
    choose(codes.iter().filter(|code| runtime.takes(code)), gpu)
}

/// Whether this GPU runs it, according to the label.
pub(super) fn fits(code: &Code, gpu: GpuArch) -> bool {
    match code.word() {
        Word::Sass => gpu.runs_sass_of(code.arch),
        Word::Ptx => gpu.can_jit_ptx_of(code.arch),
        Word::LtoIr | Word::Other => false,
    }
}

/// Whether the driver prefers `later` to `earlier`, both of which fit.
fn goes_before(later: &Code, earlier: &Code, gpu: GpuArch) -> bool {
    let rank = |code: &Code| (code.word() == Word::Sass, code.arch);
    match rank(later).cmp(&rank(earlier)) {
        std::cmp::Ordering::Equal => last_wins(later, gpu),
        order => order.is_gt(),
    }
}

/// Of equal entries the first wins, except for PTX of the GPU's own architecture without a suffix. Observed: of PTX for
/// `sm_90a` the first wins on sm_90. PTX with the suffix `f` was not tried; it is assumed to behave like that with `a`.
pub(super) fn last_wins(code: &Code, gpu: GpuArch) -> bool {
    code.word() == Word::Ptx && code.arch == GpuArch::plain(gpu.number)
}

/// What becomes of the chosen entry, and what is wrong if it does not run.
pub(super) fn judge(code: &Code, gpu: GpuArch, runtime: Runtime) -> (Verdict, Option<String>) {
    let driver = runtime.driver;
    if code.is_concatenated {
        return (Verdict::Unknown, Some(CONCATENATED.to_owned()));
    }
    if runtime.jit == Jit::Disabled && code.word() == Word::Ptx {
        let why = "CUDA_DISABLE_PTX_JIT keeps the driver from compiling PTX".to_owned();
        return (Verdict::JitDisabled, Some(why));
    }
    if let Some(branch) = driver.lacks_for_compression(code.compression) {
        let why = format!("compressed with {}, which needs a driver of branch {branch}", code.compression);
        return (Verdict::InvalidImage, Some(why));
    }
    match &code.content {
        Content::Crashing(error) => {
            (Verdict::DriverCrash, Some(format!("{error}: the driver does not refuse it, it crashes")))
        }
        // Observed with machine code and Zstandard; PTX and the other compressions are assumed to behave alike.
        Content::Undecompressable(error) => (Verdict::UnknownError, Some(no_fallback(error))),
        Content::Damaged(error) if code.word() == Word::Ptx => (Verdict::InvalidPtx, Some(no_fallback(error))),
        Content::Damaged(error) => (Verdict::InvalidImage, Some(no_fallback(error))),
        Content::Faulty(fault) => (of_fault(fault), Some(no_fallback(fault.error()))),
        Content::Sass { arch, toolkit, .. } => judge_sass(code, *arch, *toolkit, gpu, driver),
        Content::Ptx { version, target } => judge_ptx(code, *version, *target, gpu, driver),
        Content::LtoIr | Content::Other => (Verdict::NoBinary, None),
    }
}

/// What is known of drivers and concatenations.
pub(super) const CONCATENATED: &str =
    "concatenated with other images: drivers up to 580 pass over it, and no newer one is known to load it";

fn of_fault(fault: &Fault) -> Verdict {
    match fault {
        Fault::Rejected(_) => Verdict::InvalidImage,
        Fault::KernelNotFound(_) => Verdict::SymbolNotFound,
        Fault::FunctionNotFound(_) | Fault::SymbolsNotRead(_) => Verdict::UnknownError,
        Fault::ResourcesNotLinked(_) => Verdict::IllegalInstruction,
    }
}

fn judge_sass(
    code: &Code,
    own: GpuArch,
    toolkit: Option<CudaRelease>,
    gpu: GpuArch,
    driver: Driver,
) -> (Verdict, Option<String>) {
    if let Some((toolkit, branch)) = toolkit.and_then(|toolkit| Some((toolkit, driver.lacks_for_sass(toolkit)?))) {
        let why = format!("machine code of CUDA {} needs a driver of branch {branch}", toolkit.major);
        return (Verdict::InvalidImage, Some(why));
    }
    if !gpu.runs_sass_of(own) {
        let why = format!("labelled {}, but the machine code is for {own}", code.arch);
        return (Verdict::InvalidSource, Some(why));
    }
    (Verdict::Sass, None)
}

fn judge_ptx(
    code: &Code,
    version: PtxVersion,
    own: Option<GpuArch>,
    gpu: GpuArch,
    driver: Driver,
) -> (Verdict, Option<String>) {
    if let Some(branch) = driver.lacks_for_ptx(version) {
        let why = no_fallback(&format!("PTX {version} needs a driver of branch {branch}"));
        return (Verdict::UnsupportedPtxVersion, Some(why));
    }
    if let Some(own) = own.filter(|own| !gpu.can_jit_ptx_of(*own)) {
        return (Verdict::InvalidPtx, Some(format!("labelled {}, but the PTX is for {own}", code.arch)));
    }
    if let Some(own) = own.filter(|own| version < own.min_ptx()) {
        let why =
            no_fallback(&format!("PTX {version} has no target {own}, which is of PTX {} and later", own.min_ptx()));
        return (Verdict::InvalidPtx, Some(why));
    }
    (Verdict::Ptx, None)
}

fn no_fallback(problem: &impl fmt::Display) -> String {
    format!("{problem}; the driver does not fall back to another entry")
}

fn why_this(code: &Code, gpu: GpuArch) -> String {
    let exact = code.arch.number == gpu.number;
    let mut why = match (code.word(), exact, code.arch.feature) {
        (Word::Sass, true, ArchFeature::Plain) => "machine code for this GPU".to_owned(),
        (Word::Sass, true, _) => format!("machine code for this GPU, {} before plain", code.arch),
        (Word::Sass, false, _) => format!("machine code of {} runs on later GPUs of its major version", code.arch),
        (_, true, _) => "no machine code fits: compiles the PTX for this GPU".to_owned(),
        (_, false, _) => format!("no machine code fits: compiles the PTX of the nearest earlier GPU, {}", code.arch),
    };
    if code.twins.count > 1 {
        let which = if last_wins(code, gpu) { "last" } else { "first" };
        why += &format!("; the {which} of {} alike", code.twins.count);
    }
    why
}

fn passed_over<'a>(codes: &'a [Code], taken: Option<&Code>, gpu: GpuArch, runtime: Runtime) -> Vec<PassedOver<'a>> {
    let others = codes.iter().filter(|code| taken.is_none_or(|taken| taken.number != code.number));
    others.map(|code| PassedOver { code, why: why_not(code, taken, gpu, runtime) }).collect()
}

fn why_not(code: &Code, taken: Option<&Code>, gpu: GpuArch, runtime: Runtime) -> WhyNot {
    if !runtime.takes(code) {
        return if runtime.jit.takes(code) { WhyNot::Concatenated } else { WhyNot::PtxOnly };
    }
    match (code.word(), taken.filter(|_| fits(code, gpu))) {
        (Word::LtoIr, _) => WhyNot::LtoIr,
        (Word::Other, _) => WhyNot::OtherKind,
        (Word::Sass, None) => WhyNot::SassOfOtherGpu,
        (Word::Ptx, None) => WhyNot::PtxOfOtherGpu,
        (Word::Ptx, Some(taken)) if taken.word() == Word::Sass => WhyNot::SassGoesFirst,
        (_, Some(taken)) if taken.arch != code.arch => WhyNot::NearerArch(taken.arch),
        _ if last_wins(code, gpu) => WhyNot::LastWins,
        _ => WhyNot::FirstWins,
    }
}

fn why_nothing(passed_over: &[PassedOver<'_>]) -> String {
    if passed_over.is_empty() {
        return "the fatbin has no entries".to_owned();
    }
    let archs = |why: WhyNot| {
        let mut archs: Vec<GpuArch> = passed_over.iter().filter(|p| p.why == why).map(|p| p.code.arch).collect();
        archs.sort();
        archs.dedup();
        let shown: Vec<String> = archs.iter().take(6).map(GpuArch::to_string).collect();
        let more = if archs.len() > shown.len() { ", ..." } else { "" };
        (!shown.is_empty()).then(|| shown.join(", ") + more)
    };
    let sass = archs(WhyNot::SassOfOtherGpu).map(|archs| format!("machine code is for {archs}"));
    let ptx = archs(WhyNot::PtxOfOtherGpu).map(|archs| format!("PTX is for {archs}"));
    let lto = archs(WhyNot::LtoIr).map(|_| WhyNot::LtoIr.to_string());
    let other =
        archs(WhyNot::OtherKind).map(|_| "there are entries of kinds that no driver is known to load".to_owned());
    let ignored = archs(WhyNot::PtxOnly).map(|_| WhyNot::PtxOnly.to_string());
    let concatenated = archs(WhyNot::Concatenated).map(|_| WhyNot::Concatenated.to_string());
    let parts: Vec<String> = [sass, ptx, lto, other, ignored, concatenated].into_iter().flatten().collect();
    parts.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coverage::testing::{damaged, lto, ptx, ptx_of, sass, sass_of, set, undecompressable};

    fn brief(codes: &[Code], gpu: u32) -> String {
        outcome(codes, GpuArch::plain(gpu), Driver::Branch(580)).brief()
    }

    #[test]
    fn machine_code_on_other_gpus() {
        let codes = set([sass("80"), sass("86"), sass("87"), sass("90a"), sass("100f"), sass("103a"), sass("120f")]);
        let seen = [75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121].map(|gpu| brief(&codes, gpu));
        // 87 and 88 are Tegra: they run their own code only, and no other GPU runs that. 110 is not in family 100.
        let expected = [
            "no-binary",
            "sass 80",
            "sass 86",
            "sass 87",
            "no-binary",
            "sass 86",
            "sass 90a",
            "sass 100f",
            "sass 103a",
            "no-binary",
            "sass 120f",
            "sass 120f",
        ];
        assert_eq!(seen, expected);
    }

    #[test]
    fn ptx_on_other_gpus() {
        let codes = set([ptx("80"), ptx("90a"), ptx("100f"), ptx("103a"), ptx("120")]);
        let seen = [75, 80, 87, 88, 89, 90, 100, 103, 110, 120, 121].map(|gpu| brief(&codes, gpu));
        let expected = [
            "no-binary",
            "ptx 80",
            "ptx 80",
            "ptx 80",
            "ptx 80",
            "ptx 90a",
            "ptx 100f",
            "ptx 103a",
            "ptx 80",
            "ptx 120",
            "ptx 120",
        ];
        assert_eq!(seen, expected);
    }

    #[test]
    fn entries_alike() {
        let both = set([ptx("90"), ptx("90"), sass("80"), sass("80")]);
        assert_eq!(
            [80, 86, 90, 100].map(|gpu| brief(&both, gpu)),
            ["sass 80 #1", "sass 80 #1", "ptx 90 #2", "ptx 90 #1"]
        );
        let found = outcome(&both, GpuArch::plain(90), Driver::NewEnough);
        assert!(found.reason.ends_with("; the last of 2 alike"), "{}", found.reason);
        let why: Vec<WhyNot> = found.passed_over.iter().map(|other| other.why).collect();
        assert_eq!(why, [WhyNot::LastWins, WhyNot::SassOfOtherGpu, WhyNot::SassOfOtherGpu]);
        // Only PTX without a suffix.
        let accelerated = set([ptx("90a"), ptx("90a")]);
        let found = outcome(&accelerated, GpuArch::plain(90), Driver::NewEnough);
        assert_eq!((found.brief().as_str(), found.passed_over[0].why), ("ptx 90a #1", WhyNot::FirstWins));
        assert!(found.reason.ends_with("; the first of 2 alike"), "{}", found.reason);
    }

    #[test]
    fn why_the_others_are_passed_over() {
        let codes = set([lto("90"), ptx("90"), sass("90"), sass("90a"), ptx("100"), sass("80")]);
        let found = outcome(&codes, "sm_90a".parse().expect("an architecture"), Driver::NewEnough);
        let nearer = WhyNot::NearerArch("sm_90a".parse().expect("an architecture"));
        let why: Vec<WhyNot> = found.passed_over.iter().map(|other| other.why).collect();
        let expected = [WhyNot::LtoIr, WhyNot::SassGoesFirst, nearer, WhyNot::PtxOfOtherGpu, WhyNot::SassOfOtherGpu];
        assert_eq!((found.brief().as_str(), why.as_slice()), ("sass 90a", expected.as_slice()));
        let nothing = outcome(&codes[4..], GpuArch::plain(75), Driver::NewEnough);
        assert_eq!(nothing.reason, "machine code is for sm_80; PTX is for sm_100");
        assert_eq!(outcome(&[], GpuArch::plain(75), Driver::NewEnough).reason, "the fatbin has no entries");
    }

    #[test]
    fn drivers_that_are_too_old() {
        let codes = set([sass("90"), ptx_of("8.6", "80", "80")]);
        let seen = |gpu, branch| outcome(&codes, GpuArch::plain(gpu), Driver::Branch(branch)).brief();
        assert_eq!([seen(90, 580), seen(90, 575)], ["sass 90", "invalid-image"]);
        assert_eq!([seen(80, 565), seen(80, 560)], ["ptx 80", "unsupported-ptx-version"]);
    }

    #[test]
    fn images_that_are_not_what_the_label_says() {
        assert_eq!(brief(&set([sass_of("80", "90"), ptx("80")]), 90), "invalid-source");
        assert_eq!(brief(&set([ptx_of("9.0", "100", "90"), ptx("80")]), 90), "invalid-ptx");
        // PTX 8.0 is the first with this target.
        assert_eq!(brief(&set([ptx_of("7.8", "90a", "90a"), ptx("80")]), 90), "invalid-ptx");
        // Of the same or an earlier GPU, it does no harm.
        assert_eq!(brief(&set([sass_of("90a", "90")]), 90), "sass 90");
        assert_eq!(brief(&set([ptx_of("9.0", "80", "90")]), 90), "ptx 90");
    }

    #[test]
    fn damage_counts_only_where_it_is_taken() {
        let codes = set([damaged(sass("90"), false), ptx("90"), damaged(ptx("100"), false), damaged(sass("80"), true)]);
        let seen = [80, 90, 100].map(|gpu| brief(&codes, gpu));
        assert_eq!(seen, ["driver-crash", "invalid-image", "invalid-ptx"]);
        assert_eq!(brief(&set([damaged(sass("90"), false), sass("90a")]), 90), "sass 90a");
        let codes = set([undecompressable(sass("90")), ptx("90")]);
        assert_eq!([80, 90, 100].map(|gpu| brief(&codes, gpu)), ["no-binary", "unknown-error", "ptx 90"]);
    }
}
