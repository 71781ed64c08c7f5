//! Adds kernels to PTX that have the code of others, under names of their own.

use std::collections::BTreeMap;

use super::scan::{statements, words};
use crate::error::FormatError;

/// Copies PTX as LLVM writes it and adds kernels: for each of its kernels that `copies` names, one of each name in the list, behind it.
///
/// # Errors
/// Text that LLVM does not write, or that does not define such a kernel.
pub fn with_kernel_copies(text: &[u8], copies: &BTreeMap<String, Vec<String>>) -> Result<Vec<u8>, FormatError> {
    let all = statements(text).map_err(|error| FormatError::damaged(error.offset as u64, error.what))?;
    let mut found = 0;
    let mut out = Vec::with_capacity(text.len());
    let mut from = 0;
    for statement in all.iter().filter(|statement| statement.is_function() && statement.has_body) {
        let name = String::from_utf8_lossy(statement.name);
        let Some(names) = copies.get(&*name) else { continue };
        found += 1;
        let end = statement.text.as_ptr().addr().wrapping_sub(text.as_ptr().addr()) + statement.text.len();
        out.extend_from_slice(text.get(from..end).unwrap_or_default());
        from = end;
        for copy in names {
            out.extend_from_slice(b"\n");
            out.extend(renamed(statement.text, name.as_bytes(), copy.as_bytes()));
        }
    }
    out.extend_from_slice(text.get(from..).unwrap_or_default());
    if found < copies.len() {
        return Err(FormatError::unsupported(0, "PTX without one of the kernels to copy"));
    }
    Ok(out)
}

/// The text with the kernel's name replaced, also in front of the names of its parameters.
fn renamed(text: &[u8], kernel: &[u8], copy: &[u8]) -> Vec<u8> {
    const PARAMETER: &[u8] = b"_param_";
    let (mut out, mut done) = (Vec::with_capacity(text.len()), 0);
    for word in words(text) {
        let Some(rest) = text[word.clone()].strip_prefix(kernel) else { continue };
        if rest.is_empty() || rest.starts_with(PARAMETER) {
            out.extend_from_slice(&text[done..word.start]);
            out.extend_from_slice(copy);
            done = word.start + kernel.len();
        }
    }
    out.extend_from_slice(&text[done..]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "//\n.version 8.8\n.target sm_90\n.address_size 64\n.global .align 4 .u32 k_param_0;\n\
        // -- Begin function k\n.weak .entry k(.param .u64 k_param_0, .param .u32 k_param_1) .maxntid 64\n{\n\
        // } of k\n ld.param.b64 %rd1, [k_param_0]; ld.param.b32 %r1, [kk_param_1];\n ret;\n}\n.visible .entry other()\n{ ret; }\n";

    fn copied(names: &[(&str, &[&str])]) -> Result<String, FormatError> {
        let names = names
            .iter()
            .map(|(name, copies)| (name.to_string(), copies.iter().map(|copy| (*copy).to_owned()).collect::<Vec<_>>()));
        with_kernel_copies(TEXT.as_bytes(), &names.collect()).map(|text| String::from_utf8(text).expect("text"))
    }

    #[test]
    fn copies_have_names_of_their_own() {
        let text = copied(&[("k", &["a", "b"])]).expect("a kernel");
        let entry = TEXT.find(".weak").zip(TEXT.find("\n.visible")).map(|(from, to)| &TEXT[from..to]);
        let own = entry.expect("the kernel").replace("entry k", "entry a").replace("[k_", "[a_").replace(" k_", " a_");
        assert!(text.contains(&own), "{text}");
        assert_eq!(text.matches(".weak .entry").count(), 3);
        assert_eq!(text.len(), TEXT.len() + 2 * (own.len() + 1));
        assert_eq!(super::super::symbols(text.as_bytes()).len(), 4);
    }

    #[test]
    fn a_kernel_that_is_not_there_is_an_error() {
        assert!(copied(&[("l", &["a"])]).is_err());
        assert!(with_kernel_copies(b"ret;", &BTreeMap::new()).is_err());
        assert_eq!(copied(&[]).as_deref(), Ok(TEXT));
    }
}
