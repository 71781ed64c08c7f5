//! What a link makes of its inputs, decided once from the options, and what each kind of link needs.

use crate::cli::options::Options;

/// What a link does with device code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkMode {
    /// Links the device code of the inputs.
    Link(Output),
    /// Registers a finished image (`--override-image=`). The inputs are not searched for device code.
    Wrap(Output),
    /// Links the device code again to find the function that LLVM cannot compile, and writes nothing.
    Diagnose(Output),
}

/// What a link writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// A program or a shared library.
    Program,
    /// An object that registers its device code itself (`-r`).
    Relocatable,
    /// An object whose device code later links take (`-r` with `--offload-relocatable=merge`).
    Merged,
    /// The registration object, for a later host link (`--dlink`).
    DeviceObject {
        /// The device code is linked again with that of other such objects (`-r`).
        relocatable: bool,
    },
    /// The container of the images, without any host code.
    Bundle {
        /// The images are those of a relocatable link (`-r`).
        relocatable: bool,
        /// The line is that of a device link (`--dlink`).
        device_link: bool,
    },
}

impl LinkMode {
    /// The mode that these options request.
    pub fn of(options: &Options) -> Self {
        let output = Output::of(options);
        if options.override_image.is_some() {
            LinkMode::Wrap(output)
        } else if options.diagnosing {
            LinkMode::Diagnose(output)
        } else {
            LinkMode::Link(output)
        }
    }

    /// What the link writes. A diagnosis writes nothing, but reads its inputs as the link did that it repeats.
    pub fn output(self) -> Output {
        match self {
            LinkMode::Link(output) | LinkMode::Wrap(output) | LinkMode::Diagnose(output) => output,
        }
    }

    /// Whether the link has an image without searching for any.
    pub fn is_given_image(self) -> bool {
        matches!(self, LinkMode::Wrap(_))
    }

    /// Whether a function is searched for that LLVM cannot compile.
    pub fn is_diagnosis(self) -> bool {
        matches!(self, LinkMode::Diagnose(_))
    }

    /// Whether registration code is compiled for the host.
    pub fn needs_registration(self) -> bool {
        !matches!(self.output(), Output::Bundle { .. } | Output::Merged)
    }

    /// Whether the host linker, or a later one, links the inputs' host code with the registration code.
    pub fn links_host_code(self) -> bool {
        !matches!(self.output(), Output::Bundle { .. })
    }

    /// Whether the inputs are searched for offload entries that the registration code would not see.
    pub fn checks_former_entries(self) -> bool {
        !self.is_given_image() && self.links_host_code()
    }

    /// Whether everything that the inputs register must have an image. The output of a relocatable link (`-r`) is not a program yet: its
    /// final link checks this.
    pub fn checks_lost_images(self) -> bool {
        let is_final = matches!(self.output(), Output::Program | Output::DeviceObject { relocatable: false });
        !self.is_given_image() && is_final
    }

    /// Whether units of other compilers than clang stay in the output as they are, for the link of the program. `are_alone`: no other
    /// device code is linked.
    pub fn leaves_foreign_units(self, are_alone: bool) -> bool {
        match self.output() {
            Output::Merged => true,
            Output::Relocatable | Output::Bundle { relocatable: true, device_link: false } => are_alone,
            Output::Program | Output::DeviceObject { .. } | Output::Bundle { .. } => false,
        }
    }

    /// Whether a link without any device image is one for the host linker alone. (A bundle without images is an error.)
    pub fn may_lack_images(self) -> bool {
        !self.is_given_image() && self.links_host_code()
    }

    /// Whether all units of the output are known, so that they can be compared.
    pub fn compares_units(self) -> bool {
        match self.output() {
            Output::Program => true,
            Output::Relocatable | Output::Merged => false,
            Output::DeviceObject { relocatable } | Output::Bundle { relocatable, .. } => !relocatable,
        }
    }
}

impl Output {
    fn of(options: &Options) -> Self {
        let Options { relocatable, dlink, .. } = *options;
        if options.emit_image_only {
            Output::Bundle { relocatable, device_link: dlink }
        } else if dlink && options.override_image.is_none() {
            Output::DeviceObject { relocatable }
        } else if options.merges_device_code() {
            Output::Merged
        } else if relocatable {
            Output::Relocatable
        } else {
            Output::Program
        }
    }

    /// Whether the host linker writes a relocatable object.
    pub fn is_relocatable_object(self) -> bool {
        matches!(self, Output::Relocatable | Output::Merged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::values::RelocatableCode;

    #[test]
    fn options_decide_the_mode() {
        let none = Options::default;
        let relocatable = || Options { relocatable: true, ..none() };
        let merged = || Options { relocatable_code: RelocatableCode::Merged, ..relocatable() };
        let image = Some(("kind".to_owned(), "file".into()));
        let device_object = Output::DeviceObject { relocatable: false };
        for (options, mode) in [
            (none(), LinkMode::Link(Output::Program)),
            (relocatable(), LinkMode::Link(Output::Relocatable)),
            (merged(), LinkMode::Link(Output::Merged)),
            (Options { dlink: true, ..none() }, LinkMode::Link(device_object)),
            (Options { dlink: true, ..relocatable() }, LinkMode::Link(Output::DeviceObject { relocatable: true })),
            (Options { dlink: true, diagnosing: true, ..none() }, LinkMode::Diagnose(device_object)),
            (Options { override_image: image.clone(), ..merged() }, LinkMode::Wrap(Output::Merged)),
            // Wrapping an image is a host link.
            (Options { override_image: image, dlink: true, ..none() }, LinkMode::Wrap(Output::Program)),
        ] {
            assert_eq!(LinkMode::of(&options), mode);
        }
    }

    #[test]
    fn outputs_that_are_no_programs_are_not_checked_as_programs() {
        let bundle = Output::Bundle { relocatable: false, device_link: false };
        for (output, registers, former, lost) in [
            (Output::Program, true, true, true),
            (Output::Relocatable, true, true, false),
            (Output::Merged, false, true, false),
            (Output::DeviceObject { relocatable: false }, true, true, true),
            (Output::DeviceObject { relocatable: true }, true, true, false),
            (bundle, false, false, false),
        ] {
            let mode = LinkMode::Link(output);
            let checks = (mode.needs_registration(), mode.checks_former_entries(), mode.checks_lost_images());
            assert_eq!(checks, (registers, former, lost), "{output:?}");
            let wrap = LinkMode::Wrap(output);
            assert!(!wrap.checks_former_entries() && !wrap.checks_lost_images() && !wrap.may_lack_images());
        }
    }

    #[test]
    fn foreign_units_stay_in_relocatable_objects() {
        let bundle = |device_link| Output::Bundle { relocatable: true, device_link };
        for (output, alone, beside_others) in [
            (Output::Program, false, false),
            (Output::Relocatable, true, false),
            (Output::Merged, true, true),
            (Output::DeviceObject { relocatable: true }, false, false),
            (bundle(false), true, false),
            (bundle(true), false, false),
        ] {
            let mode = LinkMode::Link(output);
            assert_eq!((mode.leaves_foreign_units(true), mode.leaves_foreign_units(false)), (alone, beside_others));
        }
    }
}
