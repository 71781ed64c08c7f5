//! Tests of joined texts, and of arbitrary bytes. `tests/ptx_join.rs` assembles joined texts with ptxas.

use proptest::prelude::*;

use super::*;

const HEADER: &str = ".version 8.8\n.target sm_90\n.address_size 64\n";

fn joined(parts: &[&str]) -> Result<String, JoinError> {
    let parts: Vec<String> = parts.iter().map(|text| format!("{HEADER}{text}")).collect();
    let parts: Vec<&[u8]> = parts.iter().map(String::as_bytes).collect();
    join(&parts).map(|bytes| String::from_utf8(bytes).unwrap())
}

/// The joined text behind the header, blanks and line breaks as one blank.
fn body(parts: &[&str]) -> String {
    let text = joined(parts).unwrap();
    let body = text.split_once(".address_size 64\n").unwrap().1;
    body.split_ascii_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn the_header_is_there_once() {
    let text = joined(&["", ""]).unwrap();
    assert_eq!(text.matches(".version").count(), 1);
    assert!(join(&[]).is_err());
    assert!(join(&[b".version 8.8\n"]).is_err());
    let other = HEADER.replace("sm_90", "sm_80");
    assert!(
        join(&[HEADER.as_bytes(), other.as_bytes()]).unwrap_err().to_string().contains("different versions or targets")
    );
}

#[test]
fn full_debug_information_is_refused() {
    let debug = HEADER.replace("sm_90", "sm_90, debug");
    assert!(join(&[debug.as_bytes(), debug.as_bytes()]).unwrap_err().to_string().contains("full debug information"));
    assert!(joined(&[".section .debug_info { .b8 1 }"]).unwrap_err().to_string().contains("full debug information"));
    assert_eq!(body(&[".section .debug_macinfo { }", ".section .debug_macinfo { }"]), ".section .debug_macinfo { }");
}

#[test]
fn a_function_of_another_part_is_declared_as_it_is_defined() {
    let wants = ".extern .func (.param .b32 r) f (.param .b32 f_0); .visible .entry k() { call f; }";
    let has = ".visible .func (.param .b32 r) f (.param .b32 f_0) .noreturn // comment\n{ trap; }";
    let declared = ".visible .func (.param .b32 r) f (.param .b32 f_0) .noreturn;";
    let text = body(&[wants, has]);
    assert!(text.starts_with(declared) && !text.contains("extern"), "{text}");
    assert!(body(&[has, wants]).starts_with(declared));
    let weak = wants.replace(".extern", ".weak");
    assert!(body(&[&weak, has]).starts_with(declared), "a strong definition prevails");
    let other = wants.replace("f_0", "f_0, .param .b64 f_1");
    assert_eq!(joined(&[&other, has]).unwrap_err().to_string(), "f is not the same in two parts");
}

#[test]
fn what_nobody_defines_is_declared_once() {
    let print = ".extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b) ;";
    assert_eq!(body(&[print, print]), print);
    let stops = ".extern .func stop () .noreturn ;";
    assert_eq!(body(&[stops, ".extern .func stop () ;"]), ".extern .func stop () ;");
    let shared = [".extern .shared .align 4 .b8 s[];", ".extern .shared .align 16 .b8 s[];"];
    assert_eq!(body(&shared), shared[1]);
}

#[test]
fn variables_come_behind_what_their_values_name() {
    let wants = ".extern .global .align 8 .b8 x[8]; .visible .global .align 8 .u64 p = generic(x);";
    let has = ".global .align 4 .u32 own; .visible .global .align 8 .u64 x[2] = {own, 12}; // a value";
    assert_eq!(
        body(&[wants, has]),
        ".global .align 4 .u32 own; .visible .global .align 8 .u64 x[2] = {own, 12}; \
         .visible .global .align 8 .u64 p = generic(x);"
    );
    assert_eq!(
        joined(&[wants, ".visible .const .align 8 .u64 x;"]).unwrap_err().to_string(),
        "x is not the same in two parts"
    );
    let again = has.replace("own, 12", "own, 13");
    assert_eq!(joined(&[has, &again]).unwrap_err().to_string(), "x is not the same in two parts");
    // As many as a program may have, each naming the next, in two parts in turn.
    let chain = |part: usize| -> String {
        let one = |n: usize| format!(".extern .global .u64 v{}; .visible .global .u64 v{n} = v{};\n", n + 1, n + 1);
        (0..20_000).map(|n| one(2 * n + part)).collect()
    };
    let text = joined(&[&chain(0), &chain(1)]).unwrap();
    assert!(text.find("v39999 =").unwrap() < text.find("v0 =").unwrap() && text.matches("extern").count() == 1);
}

#[test]
fn variables_in_a_circle_are_announced() {
    let one = ".extern .global .align 8 .b8 x[8]; .visible .global .align 8 .u64 p = generic(x);";
    let two = ".visible .global .align 8 .u64 x[1] = {p}; .visible .global .u64 self = self;";
    assert_eq!(
        body(&[one, two]),
        ".extern .global .align 8 .u64 p; .visible .global .align 8 .u64 x[1] = {p}; \
         .visible .global .align 8 .u64 p = generic(x); .visible .global .u64 self = self;"
    );
    let local = ".extern .global .u64 x; .global .u64 own = x; .visible .global .u64 p = own;";
    assert!(
        joined(&[local, two]).unwrap_err().to_string().contains("own and of variables in another part name each other")
    );
}

#[test]
fn weak_definitions_fold_to_the_first() {
    let weak = |value: &str| format!(".weak .global .align 4 .u32 x = {value}; .weak .func f() {{ mov {value}; }}");
    assert_eq!(body(&[&weak("1"), &weak("2")]), weak("1"));
    let strong = ".visible .global .align 4 .u32 x = 3;";
    let text = body(&[&weak("1"), strong]);
    assert!(text.starts_with(strong) && !text.contains("= 1"));
}

#[test]
fn local_names_stay_apart() {
    let part = |value: &str| {
        format!(
            ".global .align 4 .u32 x = {value}; .func f() {{ ld.x.u32 %x, [x+4]; // x\n bar.x \"x\"; xx; }} \
             .visible .entry k{value}() {{ call f; }}"
        )
    };
    let text = body(&[&part("1"), &part("2")]);
    assert!(text.contains(".global .align 4 .u32 x = 1;") && text.contains(".global .align 4 .u32 x$j1 = 2;"));
    assert!(text.contains(".func f() { ld.x.u32 %x, [x+4];") && text.contains("entry k1() { call f; }"));
    assert!(text.contains(".func f$j1() { ld.x.u32 %x, [x$j1+4]; // x bar.x \"x\"; xx; }"), "{text}");
    assert!(text.contains("entry k2() { call f$j1; }"));
    // A name that all see keeps it, whatever the order.
    let local = ".global .align 4 .u32 k1; .visible .entry k3() { ld [k1]; }";
    assert!(body(&[local, &part("1")]).contains("ld [k1$j0];"));
    // A new name that means something in the part already.
    assert!(
        joined(&[&part("1"), &part("2").replace("xx", "x$j1")]).unwrap_err().to_string().contains("x$j1 is in use")
    );
}

#[test]
fn equal_local_constants_are_one() {
    let table = ".const .align 4 .b8 t[4] = {1, 2};";
    assert_eq!(body(&[table, table]), table);
    assert!(body(&[table, &table.replace('2', "3")]).contains("t$j1[4] = {1, 3}"));
    let first = format!(".extern .global .u64 p; .visible .global .u64 q = p; {table}");
    let second = format!("{table} .visible .global .u64 p = generic(t);");
    let text = body(&[&first, &second]);
    assert!(text.starts_with(&format!("{table} .visible .global .u64 p = generic(t);")), "{text}");
    let address = ".const .align 8 .u64 t = f;";
    assert!(body(&[address, address]).contains("t$j1"));
    let written = ".global .align 4 .b8 t[4] = {1, 2};";
    assert!(body(&[written, written]).contains("t$j1"));
}

#[test]
fn files_are_numbered_anew() {
    let part = |name: &str, files: &str| {
        format!(
            ".visible .func {name}() {{ .loc\t2 7 1, function_name x, inlined_at 1 2 3 // 2\n ld.loc 1; }}\n{files}"
        )
    };
    let one = part("f", ".file 1 \"a.cu\"\n.file 2 \"b.h\"");
    let two = part("g", ".file 1 \"b.h\" // same\n.file 2 \"c.h\", 12, 34");
    let text = body(&[&one, &two]);
    assert!(text.contains("f() { .loc 2 7 1, function_name x, inlined_at 1 2 3"), "{text}");
    assert!(text.contains("g() { .loc 3 7 1, function_name x, inlined_at 2 2 3"), "{text}");
    assert!(text.ends_with(".file 1 \"a.cu\" .file 2 \"b.h\" .file 3 \"c.h\", 12, 34"), "{text}");
}

#[test]
fn aliases_come_behind_what_they_name() {
    let part = ".visible .func g(); .visible .func f() { ret; } .alias g, f;";
    let text = body(&[part, ".extern .func g(); .visible .entry k() { call g; }"]);
    assert!(text.starts_with(".visible .func g();") && text.ends_with(".alias g, f;"), "{text}");
}

#[test]
fn text_that_llvm_does_not_write_is_an_error() {
    for (text, error) in [
        ("ret;", "no directive"),
        (".visible .func f() {", "a brace that is not closed"),
        (".global .u32 x", "the text ends inside a statement"),
        (".global .u32 x, y;", "several variables"),
        (".func ();", "without a name"),
        (".func f);", "not opened"),
        (".file \"a\"", "without a number"),
        (".global .u32 x /* ;", "the text ends"),
        (".pragma \"; ", "the text ends"),
        (".", "the text ends"),
    ] {
        let found = joined(&[text]).unwrap_err().to_string();
        assert!(found.contains(error), "{text}: {found}");
    }
}

/// Texts of the pieces that PTX is made of, most of them wrong.
fn pieces() -> impl Strategy<Value = String> {
    const WORDS: [&str; 34] = [
        ".visible",
        ".extern",
        ".weak",
        ".common",
        ".func",
        ".entry",
        ".global",
        ".const",
        ".shared",
        ".alias",
        ".file 1 \"a\"\n",
        ".section",
        ".debug_x",
        ".loc 1 2 3\n",
        ".align 8",
        ".u32",
        ".",
        "x",
        "y",
        "_$_s",
        "12",
        "{",
        "}",
        "(",
        ")",
        "[",
        "]",
        ";",
        ",",
        "=",
        "\"",
        "//",
        "/*",
        "\n",
    ];
    proptest::collection::vec(proptest::sample::select(&WORDS[..]), 0..40).prop_map(|words| words.join(" "))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_joined_or_refused(one in proptest::collection::vec(any::<u8>(), 0..200), two in pieces()) {
        let _ = join(&[&one, two.as_bytes()]);
        let _ = super::super::scan::statements(&one);
    }

    #[test]
    fn any_pieces_are_joined_or_refused(one in pieces(), two in pieces()) {
        let _ = joined(&[&one, &two]);
        // An accepted result is accepted again.
        if let Ok(text) = joined(&[&one]) {
            prop_assert!(join(&[text.as_bytes()]).is_ok(), "{text}");
        }
    }

    #[test]
    fn any_damage_is_joined_or_refused(place in 0..4000_usize, byte: u8, cut in 0..4000_usize) {
        let mut text = include_bytes!("test.ptx").to_vec();
        let place = place % text.len();
        text[place] = byte;
        let _ = join(&[&text, include_bytes!("test.ptx")]);
        text.truncate(cut);
        let _ = join(&[include_bytes!("test.ptx"), &text]);
    }
}
