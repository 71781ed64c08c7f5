//! Demangles names of device symbols and shortens them.

use cpp_demangle::DemangleOptions;

/// Demangles `_Z6helperi` to `helper(int)`; other names stay as they are.
pub fn demangled(name: &str) -> String {
    // clang appends these to the names of static kernels and variables that the host can reference.
    let plain =
        ["__intern__", "__static__"].iter().find_map(|mark| name.split_once(mark)).map_or(name, |(plain, _)| plain);
    // The demangler reads bare types, too: `f` would be `float`.
    let symbol = plain.starts_with("_Z").then(|| cpp_demangle::Symbol::new(plain).ok()).flatten();
    let text = symbol.and_then(|symbol| symbol.demangle_with_options(&DemangleOptions::default()).ok());
    text.unwrap_or_else(|| plain.to_owned())
}

/// Demangles a name and shortens it to `width` characters: template arguments are dropped first, from the innermost outwards,
/// then the parameters, then the end.
pub fn shortened(name: &str, width: usize) -> String {
    let full = demangled(name);
    let deepest = full.chars().fold((0_usize, 0), |(depth, most), c| match c {
        '<' => (depth + 1, most.max(depth + 1)),
        '>' => (depth.saturating_sub(1), most),
        _ => (depth, most),
    });
    let fewer = (1..=deepest.1).rev().map(|depth| without_arguments(&full, depth));
    let mut forms: Vec<String> = std::iter::once(full.clone()).chain(fewer).collect();
    let barest = forms.last().unwrap_or(&full);
    let bare = barest.split_once('(').map_or(barest.as_str(), |(bare, _)| bare).to_owned();
    if !bare.is_empty() {
        forms.push(bare);
    }
    let fits = |text: &&String| text.chars().count() <= width;
    match (forms.iter().find(fits), forms.last()) {
        (Some(form), _) => form.clone(),
        (None, Some(last)) => last.chars().take(width.saturating_sub(1)).chain(['…']).collect(),
        (None, None) => full,
    }
}

/// Replaces template arguments at this depth and deeper by `…`.
fn without_arguments(name: &str, from: usize) -> String {
    let (mut depth, mut out) = (0_usize, String::new());
    for c in name.chars() {
        if c == '>' {
            depth = depth.saturating_sub(1);
        }
        if depth < from {
            out.push(c);
        }
        if c == '<' {
            depth += 1;
            if depth == from {
                out.push('…');
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_not_mangled_stays() {
        for name in ["f", "kernel", "i", "_start", ""] {
            assert_eq!(demangled(name), name);
        }
    }

    #[test]
    fn mangled_names_are_read() {
        for (name, expected) in [
            ("_Z6helperi", "helper(int)"),
            ("plain_c_kernel", "plain_c_kernel"),
            ("_ZL1xv__intern__abc", "x()"),
            ("_Znonsense!", "_Znonsense!"),
        ] {
            assert_eq!(demangled(name), expected);
        }
    }

    #[test]
    fn long_names_lose_their_arguments_first() {
        let name = "_Z4sortISt6vectorIS0_IiEEEvT_i";
        assert_eq!(demangled(name), "void sort<std::vector<std::vector<int> > >(std::vector<std::vector<int> >, int)");
        for (width, expected) in [
            (100, "void sort<std::vector<std::vector<int> > >(std::vector<std::vector<int> >, int)"),
            (77, "void sort<std::vector<std::vector<…> > >(std::vector<std::vector<int> >, int)"),
            (70, "void sort<std::vector<…> >(std::vector<std::vector<…> >, int)"),
            (40, "void sort<…>(std::vector<…>, int)"),
            (30, "void sort<…>"),
            (12, "void sort<…>"),
            (6, "void …"),
            (0, "…"),
        ] {
            let short = shortened(name, width);
            assert!(short.chars().count() <= width.max(1), "{short}");
            assert_eq!(short, expected);
        }
    }
}
