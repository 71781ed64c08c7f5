//! What a module defines, and whether its text is all there.

use super::scan::{Linkage, StatementKind, outermost_statements};

/// What can be told of PTX without its bodies.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outline {
    /// The kernels that other modules and the host see, in order.
    pub kernels: Vec<String>,
    /// Whether the text ends between two statements. One that was cut off there by chance lacks names only.
    pub is_whole: bool,
}

/// Reads the outline of PTX that any compiler wrote.
pub fn outline(data: &[u8]) -> Outline {
    let mut found = Outline { kernels: Vec::new(), is_whole: true };
    for statement in outermost_statements(data) {
        match statement {
            Ok(statement) if statement.kind == (StatementKind::Function { is_kernel: true }) => {
                if statement.has_body && statement.linkage != Linkage::Local {
                    found.kernels.push(String::from_utf8_lossy(statement.name).into_owned());
                }
            }
            Ok(_) => {}
            Err(error) => found.is_whole &= error.offset < data.len(),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "//\n.version 9.0\n.target sm_90\n.address_size 64\n\
        .visible .entry one(.param .u64 p) { ret; }\n.weak .entry two() { // }\n ret; }\n.entry local() { ret; }\n\
        .extern .entry far();\n.visible .func helper() { ret; }\n.global .align 1 .b8 table[2] = {1, 2};\n";

    #[test]
    fn kernels_are_those_with_a_body_that_others_see() {
        let found = outline(TEXT.as_bytes());
        assert_eq!(found, Outline { kernels: vec!["one".to_owned(), "two".to_owned()], is_whole: true });
        // As fatbins store it.
        assert!(outline(format!("{TEXT}\0\0").as_bytes()).is_whole);
    }

    #[test]
    fn a_text_that_was_cut_off_is_not_whole_or_lacks_names() {
        let body = TEXT.find(".visible .entry one").unwrap();
        let last = TEXT.trim_end().len();
        for end in body + 1..last {
            let found = outline(&TEXT.as_bytes()[..end]);
            let ends_between = ["}", ";", "\n", "\n "].iter().any(|word| TEXT[..end].ends_with(word));
            assert!(!found.is_whole || ends_between, "{}", &TEXT[..end]);
        }
        assert!(!outline(&TEXT.as_bytes()[..body + 30]).is_whole);
        assert_eq!(outline(b"").kernels, Vec::<String>::new());
    }
}
