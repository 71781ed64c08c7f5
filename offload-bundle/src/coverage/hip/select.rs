//! Chooses the entry of a bundle that a GPU runs.

use super::code::{BundledCode, Form};
use crate::amdgpu::{Fit, TargetId};

/// What becomes of a bundle on one GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HipVerdict {
    /// The entry runs.
    Runs,
    /// No entry is for this GPU.
    NoBinary,
    /// The entry is taken by its id, and its image cannot be loaded.
    InvalidImage,
}

/// What HIP's runtime does with a bundle on one GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HipOutcome<'c> {
    /// Whether something runs.
    pub verdict: HipVerdict,
    /// The entry that is taken, whether it runs or not.
    pub code: Option<&'c BundledCode>,
    /// Why.
    pub reason: String,
    /// The other entries, with the reason why each is not taken.
    pub passed_over: Vec<(&'c BundledCode, String)>,
}

/// Predicts what a GPU runs, whose features all have a setting.
///
/// ```
/// use offload_bundle::coverage::{BundledCode, HipVerdict, hip_outcome};
/// use offload_bundle::hip_bundle::{HIP_ALIGNMENT, read_all, write};
///
/// let bundle = write(&[("hip-amdgcn-amd-amdhsa--gfx90a:xnack+", b"no code")], HIP_ALIGNMENT);
/// let codes = BundledCode::of_bundle(&read_all(&bundle)?);
/// let gpu = "gfx90a:sramecc+:xnack-".parse().expect("a GPU");
/// assert_eq!(hip_outcome(&codes, &gpu).verdict, HipVerdict::NoBinary);
/// # Ok::<(), offload_bundle::FormatError>(())
/// ```
pub fn hip_outcome<'c>(codes: &'c [BundledCode], gpu: &TargetId) -> HipOutcome<'c> {
    let fits: Vec<(&BundledCode, Result<Fit, String>)> = codes.iter().map(|code| (code, fit(code, gpu))).collect();
    let fitting = fits.iter().filter_map(|(code, fit)| Some((fit.as_ref().ok()?, code.number, *code)));
    let chosen = fitting.min_by_key(|(fit, number, _)| (**fit, *number)).map(|(fit, _, code)| (*fit, code));
    let others = fits.iter().filter(|(code, _)| chosen.is_none_or(|(_, own)| own.number != code.number));
    let passed_over = others.map(|(code, fit)| (*code, why_not(fit, chosen))).collect();
    let Some((fit, code)) = chosen else {
        let reason = match codes {
            [] => "the bundle has no entries".to_owned(),
            _ => "no entry is for this GPU".to_owned(),
        };
        return HipOutcome { verdict: HipVerdict::NoBinary, code: None, reason, passed_over };
    };
    let (verdict, reason) = match refusal(code, fit, gpu) {
        Some(why) => (HipVerdict::InvalidImage, format!("the id fits, but {why}")),
        None => (HipVerdict::Runs, reason(code, fit)),
    };
    HipOutcome { verdict, code: Some(code), reason, passed_over }
}

fn fit(code: &BundledCode, gpu: &TargetId) -> Result<Fit, String> {
    match &code.target {
        Some(target) => target.fit(gpu).map_err(|misfit| misfit.to_string()),
        None => Err("has an id that HIP's runtime does not look for".to_owned()),
    }
}

/// Why the loader rejects an entry that was chosen by its id.
fn refusal(code: &BundledCode, fit: Fit, gpu: &TargetId) -> Option<String> {
    match (&code.form, fit) {
        (Form::Unusable(why), _) => Some(why.clone()),
        (Form::Spirv, Fit::Spirv) => None,
        (Form::Spirv, _) => Some("it is SPIR-V, which is compiled only under the id of amdgcnspirv".to_owned()),
        (Form::CodeObject(_), Fit::Spirv) => Some("it is a code object, and its id is that of SPIR-V".to_owned()),
        (Form::CodeObject(header), _) => header.refused_by(gpu),
    }
}

fn reason(code: &BundledCode, fit: Fit) -> String {
    let settings = code.target.as_ref().map_or(0, TargetId::settings);
    let with = if settings > 0 { ", with the GPU's settings" } else { "" };
    match fit {
        Fit::Native => format!("code for this GPU{with}"),
        Fit::Generic => format!("no code for this GPU alone: code for its generic processor{with}"),
        Fit::Spirv => "no code object fits: the runtime compiles the SPIR-V for this GPU".to_owned(),
    }
}

fn why_not(fit: &Result<Fit, String>, chosen: Option<(Fit, &BundledCode)>) -> String {
    match (fit, chosen) {
        (Err(why), _) => why.clone(),
        (Ok(own), Some((taken, first))) if *own == taken => {
            format!("entry {} fits, too, and comes first", first.number)
        }
        (Ok(Fit::Spirv), _) => "code objects go before SPIR-V".to_owned(),
        (Ok(_), _) => "code for this GPU alone goes before that for its generic processor".to_owned(),
    }
}

impl HipVerdict {
    /// Whether a kernel can be launched.
    pub fn runs(self) -> bool {
        self == HipVerdict::Runs
    }

    /// The error of the runtime.
    pub fn error_name(self) -> Option<&'static str> {
        (!self.runs()).then_some("hipErrorNoBinaryForGpu")
    }
}

impl HipOutcome<'_> {
    /// What runs (`code gfx90a`), or why nothing does (`no-binary`).
    pub fn brief(&self) -> String {
        match (self.verdict, self.code) {
            (HipVerdict::Runs, Some(code)) => code.name(),
            (HipVerdict::InvalidImage, _) => "invalid-image".to_owned(),
            _ => "no-binary".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::amdgpu::CodeHeader;

    fn code(number: usize, target: &str) -> BundledCode {
        let id = format!("hip-amdgcn-amd-amdhsa--{target}");
        let target: TargetId = target.parse().unwrap();
        let form = match target.processor.as_str() {
            "amdgcnspirv" => Form::Spirv,
            processor => Form::CodeObject(CodeHeader {
                version: 6,
                generic_version: u8::from(processor.ends_with("generic")),
                target: Some(target.clone()),
                relocatable: false,
            }),
        };
        BundledCode { number, id, target: Some(target), form, size: 0 }
    }

    fn brief(targets: &[&str], gpu: &str) -> String {
        let codes: Vec<BundledCode> = targets.iter().zip(1..).map(|(target, number)| code(number, target)).collect();
        hip_outcome(&codes, &gpu.parse().unwrap()).brief()
    }

    #[test]
    fn code_for_the_gpu_then_generic_code_then_spirv() {
        let all = ["amdgcnspirv", "gfx11-generic", "gfx1100"];
        assert_eq!(brief(&all, "gfx1100"), "code gfx1100");
        assert_eq!(brief(&all, "gfx1101"), "code gfx11-generic");
        assert_eq!(brief(&all, "gfx1200"), "spirv amdgcnspirv");
        assert_eq!(brief(&all[1..], "gfx1200"), "no-binary");
    }

    #[test]
    fn settings_decide_and_the_first_that_fits_is_taken() {
        let by_xnack = ["gfx90a:xnack+", "gfx90a:xnack-"];
        assert_eq!(brief(&by_xnack, "gfx90a:sramecc+:xnack+"), "code gfx90a:xnack+");
        assert_eq!(brief(&by_xnack, "gfx90a:sramecc+:xnack-"), "code gfx90a:xnack-");
        assert_eq!(brief(&["gfx90a", "gfx90a:xnack+"], "gfx90a:sramecc+:xnack+"), "code gfx90a");
        assert_eq!(brief(&["gfx90a:sramecc-"], "gfx90a:sramecc+:xnack+"), "no-binary");
        let codes = [code(1, "gfx90a:xnack-"), code(2, "gfx90a"), code(3, "gfx90a:sramecc+")];
        let outcome = hip_outcome(&codes, &"gfx90a:sramecc+:xnack+".parse().unwrap());
        let passed_over: Vec<&str> = outcome.passed_over.iter().map(|(_, why)| why.as_str()).collect();
        assert_eq!(passed_over, ["needs xnack-, and the GPU has it on", "entry 2 fits, too, and comes first"]);
    }

    #[test]
    fn the_loader_rejects_what_its_header_does_not_allow() {
        let gpu = "gfx1100".parse().unwrap();
        let mut mislabelled = code(1, "gfx1100");
        mislabelled.form = code(1, "gfx1101").form;
        let codes = [mislabelled];
        let outcome = hip_outcome(&codes, &gpu);
        assert_eq!((outcome.verdict, outcome.brief().as_str()), (HipVerdict::InvalidImage, "invalid-image"));
        assert_eq!(outcome.reason, "the id fits, but its header says that it is for gfx1101");
        let bitcode = [BundledCode { form: Form::Unusable("it is LLVM bitcode".to_owned()), ..code(1, "gfx1100") }];
        assert_eq!(hip_outcome(&bitcode, &gpu).reason, "the id fits, but it is LLVM bitcode");
        let unknown = [BundledCode { target: None, ..code(1, "gfx1100") }];
        assert_eq!(hip_outcome(&unknown, &gpu).verdict, HipVerdict::NoBinary);
    }
}
