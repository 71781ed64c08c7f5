//! Linker scripts that stand for libraries, as `libc.so` does on most systems. Only the commands that name files are read.

/// The files in a script's `INPUT` and `GROUP` commands, in order: paths, file names and `-l` options.
pub fn inputs(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut depth = 0_usize;
    let mut expects_list = false;
    for token in tokens(text) {
        match token.as_str() {
            "INPUT" | "GROUP" | "AS_NEEDED" if depth == 0 || token == "AS_NEEDED" => expects_list = true,
            "(" if expects_list || depth > 0 => {
                depth += 1;
                expects_list = false;
            }
            ")" => depth = depth.saturating_sub(1),
            name if depth > 0 => names.push(name.to_owned()),
            _ => expects_list = false,
        }
    }
    names
}

/// Splits a script into words and parentheses, without comments.
fn tokens(text: &str) -> Vec<String> {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once("/*") {
        plain.push_str(before);
        plain.push(' ');
        rest = behind.split_once("*/").map_or("", |(_, behind)| behind);
    }
    plain.push_str(rest);
    let spaced = plain.replace('(', " ( ").replace(')', " ) ").replace([',', '"'], " ");
    spaced.split_whitespace().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::inputs;

    #[test]
    fn scripts_name_their_inputs() {
        let libc = "/* GNU ld script */\nOUTPUT_FORMAT(elf64-x86-64)\n\
                    GROUP ( /lib/libc.so.6 /usr/lib/libc_nonshared.a  AS_NEEDED ( /lib64/ld.so.2 ) )";
        assert_eq!(inputs(libc), ["/lib/libc.so.6", "/usr/lib/libc_nonshared.a", "/lib64/ld.so.2"]);
        assert_eq!(inputs("INPUT(-lfoo, libbar.a)"), ["-lfoo", "libbar.a"]);
        assert!(inputs("SECTIONS { .text : { *(.text) } }").is_empty());
        assert!(inputs("int main() {}").is_empty());
    }
}
