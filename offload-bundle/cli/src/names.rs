//! The names of functions as people read them.

use std::io::IsTerminal;

use offload_bundle::demangle::{apart, readable};

/// The columns of the terminal that standard output is; `COLUMNS` overrides them. `None` for files and pipes, which get whole names.
pub fn terminal_width() -> Option<usize> {
    let given = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    given.filter(|columns| *columns > 0).or_else(columns)
}

#[cfg(unix)]
fn columns() -> Option<usize> {
    let stdout = std::io::stdout();
    let size = rustix::termios::tcgetwinsize(&stdout).ok().filter(|_| stdout.is_terminal());
    size.map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

#[cfg(not(unix))]
fn columns() -> Option<usize> {
    None
}

/// Demangles a C++ name, and returns other names unchanged. What does not fit into `room` is left out: template arguments, then parameters,
/// then the end.
pub fn demangled(name: &str, room: Option<usize>) -> String {
    fitting(readable(name), room)
}

/// Demangles the names of a table. Those that do not fit into `room` keep what tells them apart.
pub fn demangled_apart(names: &[&str], room: Option<usize>) -> Vec<String> {
    let whole: Vec<String> = names.iter().map(|name| readable(name)).collect();
    match room {
        Some(room) => apart(&whole, room, |name| fitting(name.to_owned(), Some(room))),
        None => whole,
    }
}

fn fitting(whole: String, room: Option<usize>) -> String {
    let Some(room) = room else { return whole };
    let fits = |name: &str| name.chars().count() <= room;
    if fits(&whole) {
        return whole;
    }
    let folded = folded(&whole, '<', '>');
    if fits(&folded) {
        return folded;
    }
    cut(&self::folded(&folded, '(', ')'), Some(room))
}

/// The name, with what does not fit at its end left out.
pub fn cut(name: &str, room: Option<usize>) -> String {
    match room {
        Some(room) if name.chars().count() > room => {
            name.chars().take(room.saturating_sub(1)).chain(['\u{2026}']).collect()
        }
        _ => name.to_owned(),
    }
}

/// The name with `…` for what is between the outermost pairs of these characters.
fn folded(name: &str, open: char, close: char) -> String {
    let mut out = String::with_capacity(name.len());
    let mut depth = 0usize;
    let mut rest = name;
    while let Some(char) = rest.chars().next() {
        // The characters of an operator's name are no brackets.
        let operator = operator(rest).filter(|_| open == '<' && !ends_in_word(&out));
        let len = operator.unwrap_or(char.len_utf8());
        let (token, behind) = rest.split_at(len);
        let is_arrow = char == '>' && name[..name.len() - rest.len()].ends_with('-');
        match (operator, char) {
            (None, _) if char == close && !is_arrow => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    out.push(close);
                }
            }
            (None, _) if char == open => {
                if depth == 0 {
                    out.push(open);
                    out.push('\u{2026}');
                }
                depth += 1;
            }
            _ if depth == 0 => out.push_str(token),
            _ => {}
        }
        rest = behind;
    }
    out
}

/// The length of an operator's name that contains angle brackets, at the start of `text`.
fn operator(text: &str) -> Option<usize> {
    const SYMBOLS: [&str; 8] = ["<=>", "<<=", ">>=", "<<", ">>", "<=", ">=", "->"];
    let behind = text.strip_prefix("operator")?;
    let is_symbol = |symbol: &&&str| {
        // In `operator<<int>`, the second bracket starts the arguments of `operator<`.
        behind.strip_prefix(**symbol).is_some_and(|behind| **symbol != "<<" || behind.starts_with(['<', '(', ' ']))
    };
    let symbol = SYMBOLS.iter().find(is_symbol).map(|symbol| symbol.len());
    let symbol = symbol.or_else(|| behind.starts_with(['<', '>']).then_some(1))?;
    Some("operator".len() + symbol)
}

fn ends_in_word(text: &str) -> bool {
    text.ends_with(|char: char| char.is_alphanumeric() || char == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_left_out() {
        let name = "_Z6reduceIiLi4EEvPT_";
        let seen = [None, Some(40), Some(28), Some(18), Some(8)].map(|room| demangled(name, room));
        let expected = [
            "void reduce<int, 4>(int*)",
            "void reduce<int, 4>(int*)",
            "void reduce<int, 4>(int*)",
            "void reduce<\u{2026}>(\u{2026})",
            "void re\u{2026}",
        ];
        assert_eq!(seen, expected);
        assert_eq!(demangled("plain", Some(3)), "pl\u{2026}");
    }

    #[test]
    fn brackets_of_operators_are_none() {
        let fold = |name: &str| folded(name, '<', '>');
        assert_eq!(fold("a<b<c>, d>::operator<(e<f>)"), "a<\u{2026}>::operator<(e<\u{2026}>)");
        assert_eq!(fold("operator<<<int>(x)"), "operator<<<\u{2026}>(x)");
        assert_eq!(fold("operator<<int>(x)"), "operator<<\u{2026}>(x)");
        assert_eq!(fold("a::operator->() const"), "a::operator->() const");
        assert_eq!(fold("f(decltype(a->b)) [t<x>]"), "f(decltype(a->b)) [t<\u{2026}>]");
        assert_eq!(fold("unclosed<a"), "unclosed<\u{2026}");
    }
}
