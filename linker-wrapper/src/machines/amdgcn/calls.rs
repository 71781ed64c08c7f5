//! Calls between machine code of several files. LLVM computes the registers and the stack of a kernel from the functions of its own module, and
//! ld.lld changes neither, so a kernel would run with too few of them.

use std::collections::{BTreeSet, HashMap};

use llvm_passes::symbols::SymbolKind;
use offload_bundle::amdgpu::Code;

use crate::device::error::Error as DeviceError;
use crate::device::symbol_errors::named;
use crate::device::targets::DeviceImage;
use crate::diag::error::{Errors, collect};
use crate::machines::amdgcn::error::Error;
use crate::machines::amdgcn::images;
use crate::machines::amdgcn::target::AmdImages;

/// An object that ld.lld links.
struct Linked<'o> {
    code: Code<'o>,
    /// The image that it is; none for compiled bitcode.
    image: Option<&'o DeviceImage<'o>>,
}

/// Rejects machine code whose functions use functions of other files. `compiled` are the objects of the bitcode, which form one program.
///
/// # Errors
/// One for each pair of files. A damaged object.
pub fn reject_across(target: &AmdImages<'_>, compiled: &[Vec<u8>]) -> Result<(), Errors> {
    if !images::has_objects(target) {
        return Ok(());
    }
    let damaged = |image: &DeviceImage<'_>, source| DeviceError::DamagedImage { origin: image.origin.clone(), source };
    let own = images::objects(target).map(|image| {
        let code = Code::parse(image.bytes).map_err(|source| damaged(image, source))?;
        Ok(Linked { code, image: Some(image) })
    });
    let mut objects = collect(own)?;
    for object in compiled {
        objects.push(Linked { code: Code::parse(object)?, image: None });
    }
    let mut definers: HashMap<&str, &Linked<'_>> = HashMap::new();
    for object in &objects {
        object.code.visible_functions().into_iter().for_each(|name| {
            definers.entry(name).or_insert(object);
        });
    }
    let (mut errors, mut reported) = (Errors::default(), BTreeSet::new());
    for object in &objects {
        let uses = object.code.outer_uses().map_err(|source| match object.image {
            Some(image) => Errors::from(damaged(image, source)),
            None => source.into(),
        })?;
        for used in uses {
            let Some(definer) = definers.get(used.name.as_str()).filter(|definer| is_other(object, definer)) else {
                continue;
            };
            let user_file = file(target, object, &used.user)?;
            let function_file = file(target, definer, &used.name)?;
            if reported.insert((user_file.clone(), function_file.clone())) {
                let (user, function) = (named(&used.user), named(&used.name));
                let target = target.arch.name.clone();
                errors.extend(Error::CallAcross { user, user_file, function, function_file, target });
            }
        }
    }
    errors.or(())
}

/// Whether two objects were compiled apart.
fn is_other(one: &Linked<'_>, other: &Linked<'_>) -> bool {
    match (one.image, other.image) {
        (Some(one), Some(other)) => !std::ptr::eq(one, other),
        (one, other) => one.is_some() || other.is_some(),
    }
}

/// The file that defines a symbol of an object: of compiled bitcode, the unit.
fn file(target: &AmdImages<'_>, object: &Linked<'_>, name: &str) -> Result<String, Errors> {
    if let Some(image) = object.image {
        return Ok(image.origin.to_string());
    }
    for unit in target.units() {
        let mut symbols = unit.symbols()?.iter().filter(|symbol| symbol.kind != SymbolKind::Variable);
        if symbols.any(|symbol| symbol.name == name && symbol.strength.is_definition()) {
            return Ok(unit.name().to_owned());
        }
    }
    // A function that no other unit sees.
    Ok("the bitcode".to_owned())
}
