//! Describes the jobs of a target: the PTX that LLVM emits, and what is made of it.

use std::collections::BTreeSet;

use offload_bundle::arch::GpuArch;

use crate::diag::error::{Errors, collect};
use crate::machines::interface::{JobPart, Planned};
use crate::machines::job_code::JobCode;
use crate::machines::nvptx::codegen::Codegen;
use crate::machines::nvptx::job_code::NvptxCode;
use crate::machines::nvptx::outputs::{Emission, ImagePtx, ImagePtxVersion, MachineCode, Outputs, Relocatable};
use crate::machines::nvptx::target::Nvptx;

/// Describes what the code of a job becomes.
///
/// # Errors
/// No backend supports the target, or it is too new for one.
pub fn code<'a>(machine: &Nvptx<'a>, target: &Planned<'_, Nvptx<'a>>, part: &JobPart<'_>) -> Result<JobCode, Errors> {
    let Planned { images, plan, own } = target;
    let codegen = own.codegen(machine.backends)?;
    let version = codegen.ptx_version(images.arch)?;
    let writer = Writer { machine, target, codegen, name: part.name };
    let (emissions, outputs) = if plan.is_whole() || part.is_finished {
        writer.outputs_of_whole(own.needs.joins && !part.is_finished)?
    } else {
        writer.outputs(part.described)?
    };
    Ok(JobCode::Nvptx(NvptxCode {
        arch: images.arch,
        version,
        level: machine.options().level,
        dead: if part.units.is_none() { plan.dead.clone() } else { BTreeSet::new() },
        declared_kernels: own.kernels_declared_by(part.units, images),
        libdevice: machine.libraries.libdevice_path().map(Into::into),
        emissions,
        outputs,
        assembler: codegen.assembler()?,
    }))
}

/// Names and versions of the outputs of one job.
struct Writer<'j, 'a> {
    machine: &'j Nvptx<'a>,
    target: &'j Planned<'j, Nvptx<'a>>,
    codegen: Codegen<'a>,
    /// The beginning of the names of the job's files.
    name: &'j str,
}

impl Writer<'_, '_> {
    /// Returns the emissions of a partition, and what is made of them.
    fn outputs(&self, described: &str) -> Result<(Vec<Emission>, Outputs), Errors> {
        let own = &self.target.own;
        let mut outputs = Outputs { ptx_version: self.image_ptx_version(), ..Outputs::default() };
        let more = own.ptx.iter().filter(|arch| !own.sass.contains(arch));
        let archs: Vec<GpuArch> = own.sass.iter().chain(more).copied().collect();
        let all = archs.iter().map(|arch| self.emission(*arch, &format!("{}.{arch}.ptx", self.name), false));
        let all = collect(all)?;
        let places = |of: &[GpuArch]| {
            of.iter().filter_map(|arch| archs.iter().position(|other| other == arch)).collect::<Vec<_>>()
        };
        let code = |emission| MachineCode { emission, relocatable: Relocatable::Always, name: described.to_owned() };
        outputs.machine_code = places(&own.sass).into_iter().map(code).collect();
        outputs.ptx = places(&own.ptx).into_iter().map(|place| self.image_ptx(archs[place], place)).collect();
        Ok((all, outputs))
    }

    /// Returns the emissions of all code of a target, and what is made of them. `is_joined`: the machine code is linked with other code.
    fn outputs_of_whole(&self, is_joined: bool) -> Result<(Vec<Emission>, Outputs), Errors> {
        let (own, arch, name, codegen) = (&self.target.own, self.target.images.arch, self.name, self.codegen);
        let mut all = Vec::new();
        let mut outputs = Outputs { ptx_version: self.image_ptx_version(), ..Outputs::default() };
        // Functions stay local in PTX for the image. The target's own code is emitted last, from the module itself instead of a copy.
        for arch in &own.ptx {
            outputs.ptx.push(self.image_ptx(*arch, all.len()));
            all.push(self.emission(*arch, &format!("{name}.image.{arch}.ptx"), false)?);
        }
        let finished = || if codegen.can_finish() { Relocatable::WithFunctions } else { Relocatable::Never };
        let code = |arch: GpuArch, emission: usize, is_joined: bool| MachineCode {
            emission,
            relocatable: if is_joined { Relocatable::Always } else { finished() },
            name: format!("the linked code for {arch}"),
        };
        let (of_target, others): (Vec<GpuArch>, Vec<GpuArch>) = own.sass.iter().partition(|other| **other == arch);
        for other in others {
            let is_joined = !self.machine.options().nvlink_arguments.is_empty();
            outputs.machine_code.push(code(other, all.len(), is_joined));
            all.push(self.emission(other, &format!("{other}.from.{arch}.ptx"), false)?);
        }
        for arch in of_target {
            outputs.machine_code.insert(0, code(arch, all.len(), is_joined));
            // Functions that become visible must not collide with those of other objects.
            let visible = !is_joined && codegen.can_finish();
            all.push(self.emission(arch, &format!("{name}.ptx"), visible)?);
        }
        Ok((all, outputs))
    }

    fn emission(&self, arch: GpuArch, file: &str, visible_functions: bool) -> Result<Emission, Errors> {
        let version = self.codegen.ptx_version(arch)?;
        Ok(Emission { arch, version, visible_functions, path: self.machine.link.temp_files.file(file) })
    }

    fn image_ptx(&self, arch: GpuArch, emission: usize) -> ImagePtx {
        let file = |ending: &str| {
            self.machine.link.temp_files.file(&format!("{}.{}.{ending}.ptx", self.name, arch.virtual_name()))
        };
        ImagePtx { emission, probe: file("probe"), path: file("image") }
    }

    fn image_ptx_version(&self) -> ImagePtxVersion {
        match self.machine.link.request.options.ptx_version {
            _ if self.machine.is_dry_run() => ImagePtxVersion::Unchanged,
            Some(version) => ImagePtxVersion::Fixed(version),
            None => ImagePtxVersion::Lowest,
        }
    }
}
