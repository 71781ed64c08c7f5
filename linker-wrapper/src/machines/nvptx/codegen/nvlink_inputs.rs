//! The files that nvlink reads. Bare cubins, or, if the link holds units of nvcc or LTO-IR, host objects that carry the code: these tell
//! nvlink what the host refers to, so that it drops the rest as it does in nvcc's own links. If one input does not tell, nvlink keeps
//! everything, so all inputs become such objects.

use std::path::PathBuf;

use offload_bundle::cubin;
use offload_bundle::fatbin::{self, BuilderOptions, FatbinWriter};
use offload_bundle::host_object::write_rdc_object;
use rayon::prelude::*;

use crate::diag::error::{Errors, collect};
use crate::machines::nvptx::codegen::device_object::{DeviceObject, Form};
use crate::machines::nvptx::codegen::error::Error;
use crate::machines::nvptx::codegen::host_references;
use crate::sys::temp_files::TempFiles;

/// What becomes of code that the host does not refer to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unreferenced {
    /// nvlink removes it, as in nvcc's own links.
    Removed,
    /// nvlink keeps all code.
    Kept,
}

/// Returns the paths of the files for nvlink, in the order of the objects.
///
/// # Errors
/// Damaged code, or a file that cannot be written.
pub fn files(
    objects: &[DeviceObject],
    unreferenced: Unreferenced,
    temp_files: &TempFiles,
    dry: bool,
) -> Result<Vec<PathBuf>, Errors> {
    let are_bare = objects.iter().all(|object| object.unit.is_none() && object.form == Form::Cubin);
    if are_bare || dry {
        return Ok(objects.iter().map(|object| object.path.clone()).collect());
    }
    let file = |(place, object)| host_object(place, object, unreferenced, temp_files);
    collect(objects.par_iter().enumerate().map(file).collect::<Vec<_>>())
}

fn host_object(
    place: usize,
    object: &DeviceObject,
    unreferenced: Unreferenced,
    temp_files: &TempFiles,
) -> Result<PathBuf, Errors> {
    let DeviceObject { name, arch, form, unit, bytes, .. } = object;
    let damaged = |source| Error::DamagedCubin { name: name.clone(), source };
    let mut writer = FatbinWriter::new(BuilderOptions { compress: false, ..BuilderOptions::default() });
    match form {
        Form::LtoIr if fatbin::read(bytes).is_ok() => {}
        Form::LtoIr => writer.add_ltoir(*arch, bytes.as_slice(), "", "").map_err(damaged)?,
        Form::Cubin | Form::Ptx => {
            // A unit's code may be for an earlier target that this one runs.
            let own = cubin::parse(bytes).map_err(damaged)?.arch();
            writer.add_cubin(own, bytes.as_slice(), "").map_err(damaged)?;
        }
    }
    let written = writer.finish();
    let fatbin = if *form == Form::LtoIr && fatbin::read(bytes).is_ok() { bytes } else { &written };
    let id = unit.as_ref().map_or_else(|| format!("_object_{place}"), |(id, _)| id.clone());
    let references = host_references::of(object).filter(|_| unreferenced == Unreferenced::Removed);
    let object = write_rdc_object(&id, fatbin, references.as_ref()).map_err(damaged)?;
    temp_files.write(&format!("{arch}.{place}.o"), &object)
}
