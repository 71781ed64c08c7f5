//! The symbols that PTX defines and references.

use crate::cubin::{CubinSymbol, Memory, SymbolBinding, SymbolKind};

/// Directives that end with their line instead of a semicolon.
const LINES: [&str; 4] = [".version", ".target", ".address_size", ".file"];

/// The symbols that other modules of the link see, without their sizes. A prototype whose function follows counts once.
pub fn symbols(data: &[u8]) -> Vec<CubinSymbol> {
    let mut scanner = SymbolScanner { data, at: 0 };
    let mut found = Vec::new();
    while scanner.peek().is_some() {
        let before = scanner.at;
        if LINES.iter().any(|word| scanner.rest().starts_with(word.as_bytes())) {
            scanner.line();
        } else {
            let (head, body) = scanner.statement();
            found.extend(symbol(&String::from_utf8_lossy(head), body));
        }
        if scanner.at == before {
            // A byte that begins no statement.
            scanner.at += 1;
        }
    }
    found
}

/// Whether PTX as LLVM writes it defines functions beside kernels.
pub fn defines_functions(ptx: &[u8]) -> bool {
    let starts =
        |line: &[u8]| [&b".func"[..], b".visible .func", b".weak .func"].iter().any(|word| line.starts_with(word));
    ptx.split(|byte| *byte == b'\n').any(starts)
}

/// The symbol that a statement outside functions declares or defines. `body`: a function's code follows.
fn symbol(head: &str, body: bool) -> Option<CubinSymbol> {
    let mut linkage = None;
    let mut kind = None;
    for word in words_outside_parentheses(head) {
        match word {
            ".visible" | ".extern" | ".weak" | ".common" => linkage = Some(word),
            ".entry" => kind = Some((SymbolKind::Kernel, None)),
            ".func" => kind = Some((SymbolKind::Function, None)),
            ".global" => kind = Some((SymbolKind::Object, Some(Memory::Global))),
            ".const" => kind = Some((SymbolKind::Object, Some(Memory::Constant))),
            ".shared" => kind = Some((SymbolKind::Object, Some(Memory::Shared))),
            _ if word.starts_with(|first: char| first.is_ascii_alphabetic() || "_$%".contains(first)) => {
                let (kind, memory) = kind?;
                let prototype = kind == SymbolKind::Function && !body;
                let binding =
                    if matches!(linkage?, ".weak" | ".common") { SymbolBinding::Weak } else { SymbolBinding::Global };
                let defined = linkage != Some(".extern");
                return (!prototype || !defined).then(|| CubinSymbol {
                    name: word.to_owned(),
                    defined,
                    binding,
                    kind,
                    memory,
                    size: 0,
                });
            }
            _ => {}
        }
    }
    None
}

fn words_outside_parentheses(head: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_usize;
    head.split_inclusive(|c: char| c.is_ascii_whitespace() || "()[],".contains(c)).filter_map(move |piece| {
        let inside = depth > 0;
        depth = depth.saturating_add(piece.matches('(').count()).saturating_sub(piece.matches(')').count());
        let word = piece.trim_end_matches(|c: char| c.is_ascii_whitespace() || "()[],".contains(c));
        (!inside && !word.is_empty()).then_some(word)
    })
}

/// Walks over statements, comments and strings.
struct SymbolScanner<'a> {
    data: &'a [u8],
    at: usize,
}

impl<'a> SymbolScanner<'a> {
    fn rest(&self) -> &'a [u8] {
        self.data.get(self.at..).unwrap_or_default()
    }

    /// Skips white space, comments and NULs, and returns the byte behind them.
    fn peek(&mut self) -> Option<u8> {
        loop {
            let rest = self.rest();
            let byte = *rest.first()?;
            if byte.is_ascii_whitespace() || byte == 0 {
                self.at += 1;
            } else if rest.starts_with(b"//") || rest.starts_with(b"/*") {
                self.comment();
            } else {
                return Some(byte);
            }
        }
    }

    fn comment(&mut self) {
        let rest = self.rest();
        let end = if rest.starts_with(b"/*") {
            rest.windows(2).skip(2).position(|pair| pair == b"*/").map(|place| place + 4)
        } else {
            rest.iter().position(|byte| *byte == b'\n')
        };
        self.at += end.unwrap_or(rest.len());
    }

    fn string(&mut self) {
        let rest = self.rest();
        let end = rest.iter().skip(1).position(|byte| *byte == b'"').map_or(rest.len(), |place| place + 2);
        self.at += end;
    }

    /// The rest of the line, without its end.
    fn line(&mut self) -> &'a [u8] {
        let rest = self.rest();
        let end = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')).unwrap_or(rest.len());
        self.at += end;
        rest.get(..end).unwrap_or_default()
    }

    /// One statement outside functions: what stands before its body, its value or its end, and whether there is a body.
    fn statement(&mut self) -> (&'a [u8], bool) {
        let start = self.at;
        let mut head = None;
        let mut depth = 0_usize;
        while let Some(byte) = self.peek() {
            let here = self.at;
            match byte {
                b'"' => {
                    self.string();
                    continue;
                }
                b'{' => {
                    head.get_or_insert((here, true));
                    depth += 1;
                }
                b'}' => {
                    depth = depth.saturating_sub(1);
                    if depth == 0 && head.is_none_or(|(_, body)| body) {
                        self.at += 1;
                        break;
                    }
                }
                b'=' if depth == 0 => {
                    head.get_or_insert((here, false));
                }
                b';' if depth == 0 => {
                    head.get_or_insert((here, false));
                    self.at += 1;
                    break;
                }
                _ => {}
            }
            self.at += 1;
        }
        let (end, body) = head.unwrap_or((self.at.min(self.data.len()), false));
        (self.data.get(start..end).unwrap_or_default(), body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// PTX as nvcc writes it, with what makes scanning hard.
    const TEXT: &str = r#"
//
// Generated by NVIDIA NVVM Compiler; .version 1.0 is no version
/* .target sm_20 */
.version 9.0
.target sm_90a, debug
.address_size 64
	.file	1 "a; { .visible .global .u32 no;"
.extern .func  (.param .b32 func_retval0) _Z5counti
(
	.param .b32 _Z5counti_param_0
)
;
.visible .func plain(.param .b32 x)
;
.visible .func  (.param .b32 func_retval0) plain(
	.param .b32 plain_param_0
)
{
	.reg .b32 	%r<3>;
	{ // .visible .global .u32 inside;
	call (retval0), _Z5counti, (param0);
	}
	ret;
}
.func local_one() { ret; }
.weak .entry kernel(.param .u64 kernel_param_0) .maxntid 128, 1, 1 { ret; }
.visible .global .align 4 .u32 counter;
.extern .global .attribute(.managed) .align 4 .b8 far[16];
.common .global .b32 shared_by_all;
.visible .const .align 4 .b8 table[3] = {1, 2, 3};
.extern .shared .align 16 .b8 dynamic[];
.global .align 1 .b8 $str[4] = {123, 125, 0};
"#;

    #[test]
    fn symbols_as_other_modules_see_them() {
        let found: Vec<String> = symbols(TEXT.as_bytes())
            .iter()
            .map(|symbol| {
                let defined = if symbol.defined { "" } else { "?" };
                format!("{:?} {:?} {}{defined} {:?}", symbol.binding, symbol.kind, symbol.name, symbol.memory)
            })
            .collect();
        assert_eq!(
            found,
            [
                "Global Function _Z5counti? None",
                "Global Function plain None",
                "Weak Kernel kernel None",
                "Global Object counter Some(Global)",
                "Global Object far? Some(Global)",
                "Weak Object shared_by_all Some(Global)",
                "Global Object table Some(Constant)",
                "Global Object dynamic? Some(Shared)",
            ]
        );
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_to_their_end(mut bytes in proptest::collection::vec(any::<u8>(), 0..300), at in 0..1800_usize) {
            let _ = symbols(&bytes);
            // And the damaged middle of something that looks right.
            let at = at.min(TEXT.len());
            let mut text = TEXT.as_bytes()[..at].to_vec();
            text.append(&mut bytes);
            text.extend_from_slice(&TEXT.as_bytes()[at..]);
            let _ = symbols(&text);
        }
    }
}
