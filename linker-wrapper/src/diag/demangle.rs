//! Shortens the names of device symbols.

use offload_bundle::demangle::{apart, readable};

/// Demangles a name and shortens it to `width` characters: template arguments are dropped first, from the innermost outwards,
/// then the parameters, then the end.
pub fn shortened(name: &str, width: usize) -> String {
    let full = readable(name);
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

/// Demangles the names of a list and shortens them so that they differ; see [`apart`].
pub fn shortened_apart<'n>(names: impl Iterator<Item = &'n str>, width: usize) -> Vec<String> {
    let names: Vec<String> = names.map(readable).collect();
    apart(&names, width, |name| shortened(name, width))
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
    fn long_names_lose_their_arguments_first() {
        let name = "_Z4sortISt6vectorIS0_IiEEEvT_i";
        assert_eq!(readable(name), "void sort<std::vector<std::vector<int>>>(std::vector<std::vector<int>>, int)");
        for (width, expected) in [
            (90, "void sort<std::vector<std::vector<int>>>(std::vector<std::vector<int>>, int)"),
            (75, "void sort<std::vector<std::vector<…>>>(std::vector<std::vector<int>>, int)"),
            (70, "void sort<std::vector<…>>(std::vector<std::vector<…>>, int)"),
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
