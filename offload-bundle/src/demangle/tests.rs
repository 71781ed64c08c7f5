use proptest::prelude::*;

use super::demangle;

#[track_caller]
fn assert_reads(names: &[(&str, &str)]) {
    for (name, text) in names {
        assert_eq!(demangle(name).as_deref(), Some(*text), "{name}");
    }
}

#[test]
fn kernels_are_read() {
    assert_reads(&[
        ("_Z6helperi", "helper(int)"),
        ("_ZL1xv", "x()"),
        ("_Z6reduceIiLi4EEvPT_", "void reduce<int, 4>(int*)"),
        (
            "_ZN2ns4sortISt6vectorIS1_IiEEEEvT_i",
            "void ns::sort<std::vector<std::vector<int>>>(std::vector<std::vector<int>>, int)",
        ),
        ("_ZN12_GLOBAL__N_11kERKNS_1PE", "(anonymous namespace)::k((anonymous namespace)::P const&)"),
        ("_Z1fIJidEEvDpT_", "void f<int, double>(int, double)"),
        ("_ZNSsC1Ev", "std::basic_string<char, std::char_traits<char>, std::allocator<char>>::basic_string()"),
        ("_ZN1AD2Ev.llvm.42", "A::~A() (.llvm.42)"),
    ]);
}

#[test]
fn newer_language_is_read() {
    assert_reads(&[
        // Lambdas with template parameters, `auto`, and constraints.
        ("_ZN1aUlTyT_E_E", "a::'lambda'<typename $T>($T)"),
        ("_ZZ4mainENKUlT_E_clIiEEDaS_", "auto main::'lambda'(auto)::operator()<int>(auto) const"),
        ("_Z1fITk1CiEvT_Q1DIT_E", "void f<int>(int) requires D<T>"),
        ("_Z1gIiQrqXplT_T_EEvv", "void g<int>()"),
        // A value parameter that is declared `auto`, and a template parameter.
        ("_Z1fITnDaLi3EEvv", "void f<3>()"),
        ("_Z1fITtTyE1aEvv", "void f<a>()"),
        (
            "_Z4fillIdTnNSt9enable_ifIXoosr3stdE9is_same_vIT_dEsr3stdE9is_same_vIS1_fEEiE4typeELi0EEvPS1_m",
            "void fill<double, 0>(double*, unsigned long)",
        ),
        // Tags of the ABI, and modules.
        ("_ZN1AIiE1fB5cxx11Ev", "A<int>::f[abi:cxx11]()"),
        ("_ZW1MW1N1fv", "f@M.N()"),
    ]);
}

#[test]
fn halves_of_types_meet() {
    assert_reads(&[
        ("_Z1fPFivE", "f(int (*)())"),
        ("_Z1fRA4_Ki", "f(int const (&) [4])"),
        ("_Z1fM1AFvvE", "f(void (A::*)())"),
        ("_Z1fIiEPFT_S0_EPS1_", "int (*f<int>(int (*)(int)))(int)"),
        ("_Z1fIRiEvOT_", "void f<int&>(int&)"),
        ("_ZN1AcvPT_IiEEv", "A::operator int*<int>()"),
    ]);
}

#[test]
fn expressions_keep_their_parentheses() {
    assert_reads(&[
        ("_Z1fIXgtLi2ELi1EEEvv", "void f<(2 > 1)>()"),
        ("_Z1fIXmlplLi1ELi2ELi3EEEvv", "void f<(1 + 2) * 3>()"),
        ("_Z1fILd3ff0000000000000ELf3f800000EEvv", "void f<0x1p+0, 0x1p+0f>()"),
        ("_Z1fILe3fff8000000000000000EEvv", "void f<0x8p-3L>()"),
        ("_Z1fIXtlA3_cLc104ELc105EEEEvv", "void f<\"hi\">()"),
        ("_Z1fIXtl1Adi1xLi1EEEEvv", "void f<A{.x = 1}>()"),
        ("_Z1fIJLi1ELi2EEEvDTfrplT_E", "void f<1, 2>(decltype(((1, 2) + ...)))"),
        ("_Z1fIiEDTcl1gcvT__EEEv", "decltype(g((int)())) f<int>()"),
    ]);
}

#[test]
fn what_is_not_mangled_has_no_other_name() {
    for name in ["", "f", "main", "_Z", "_Znonsense!", "_Z3ab", "_Z1fS_", "_Z1fT_", "_Z1fv junk", "_ZN1A", "Z1fv"] {
        assert_eq!(demangle(name), None, "{name}");
    }
}

#[test]
fn names_nest_as_deep_as_templates_do() {
    for (open, close) in [("N1a1bI", "EE"), ("P", ""), ("A2_", ""), ("Fi", "E")] {
        let name = |depth| format!("_Z1f{}i{}", open.repeat(depth), close.repeat(depth));
        assert!(demangle(&name(100)).is_some(), "{open}");
        assert_eq!(demangle(&name(100_000)), None, "{open}");
    }
}

#[test]
fn nesting_ends_before_the_stack_does() {
    let all = [
        ("_Z1fI", "J", "i", "E", "Evv"),
        ("_Z1fIX", "ng", "Li1E", "", "EEvv"),
        ("_Z1fIX", "cl1f", "Li1E", "E", "EEvv"),
        ("_Z1fIX", "cvi", "Li1E", "", "EEvv"),
        ("_Z1fIX", "ildi1a", "Li1E", "E", "EEvv"),
        ("_Z", "Z", "1fv", "E1gv", ""),
        ("_Z1f", "N1aUl", "i", "E_E", ""),
        ("_ZN1aUl", "Tt", "Ty", "E", "vE_E"),
        ("_Z1f", "U1a", "i", "", ""),
        ("_Z1f", "M1AF", "iv", "E", ""),
        ("_Z1f", "DtscDt", "Li1EELi1E", "Li1EE", ""),
    ];
    for (start, open, middle, close, end) in all {
        for depth in [10, 130, 190, 390, 10_000] {
            let _ = demangle(&format!("{start}{}{middle}{}{end}", open.repeat(depth), close.repeat(depth)));
        }
    }
}

/// The seq-id that refers to a substitution.
fn substitution(index: usize) -> String {
    let digit = |number: usize, place| char::from_digit((number / 36_usize.pow(place) % 36) as u32, 36).unwrap_or('0');
    let digits = |number| [2, 1, 0].map(|place| digit(number, place)).iter().collect::<String>().to_uppercase();
    index.checked_sub(1).map_or_else(|| "S_".to_owned(), |number| format!("S{}_", digits(number)))
}

/// A function of types, each of which is this around the one before it (`@`), and adds so many substitutions.
fn chain((form, added): (&str, usize), length: usize) -> String {
    let parts = (0..length).map(|index| form.replace('@', &substitution(index * added)));
    format!("_Z1f1x{}", parts.collect::<String>())
}

#[test]
fn types_that_refer_to_earlier_ones_end_before_the_stack_does() {
    let types =
        ["P@", "R@", "K@", "A2_@", "M@i", "Mi@", "C@", "U1a@", "U1aI@Ei", "N@1aE", "Dp@", "DTcv@Li1EE", "Dtsc@Li1EE"];
    let instances =
        ["FvR@E", "1aI@E", "1aIJ@EE", "1aIXst@EE", "1aIXtl@EEE", "1aIXsP@EEE", "1aIXL_Z1g@EEE", "1aIXsr@1aEE"];
    for form in types.map(|form| (form, 1)).into_iter().chain(instances.map(|form| (form, 2))) {
        assert!(demangle(&chain(form, 20)).is_some(), "{form:?}");
        for length in [200, 250, 399, 800, 20_000] {
            let _ = demangle(&chain(form, length));
        }
    }
    assert!(demangle(&chain(("P@", 1), 200)).is_some());
}

#[test]
fn short_names_of_endless_texts_are_left_alone() {
    for form in [("M@@", 1), ("Fv@@E", 1), ("1aI@@E", 2), ("1aIXplcv@Li1Ecv@Li1EEE", 2)] {
        assert!(demangle(&chain(form, 5)).is_some(), "{form:?}");
        assert_eq!(demangle(&chain(form, 60)), None, "{form:?}");
    }
}

#[test]
fn what_empty_packs_take_back_counts_as_printed() {
    let long = "x".repeat(10_000);
    let name = |count| format!("_Z1fIJEEvP10000{long}Dp1aIT_S1_E{}", "Dp1aIT_S1_E".repeat(count));
    assert!(demangle(&name(10)).is_some());
    assert_eq!(demangle(&name(1000)), None);
}

fn pieces() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        Just("N".to_owned()),
        Just("E".to_owned()),
        Just("I".to_owned()),
        Just("1a".to_owned()),
        Just("S_".to_owned()),
        Just("S0_".to_owned()),
        Just("T_".to_owned()),
        Just("TL0__".to_owned()),
        Just("Dp".to_owned()),
        Just("cv".to_owned()),
        Just("Ul".to_owned()),
        Just("E_".to_owned()),
        Just("X".to_owned()),
        Just("J".to_owned()),
        Just("Q".to_owned()),
        Just("rq".to_owned()),
        Just("L".to_owned()),
        "[A-Za-z0-9_]{1,2}",
    ];
    prop::collection::vec(part, 0..24).prop_map(|parts| format!("_Z{}", parts.concat()))
}

proptest! {
    #[test]
    fn any_text_is_read_or_rejected(name in "\\PC*") {
        let _ = demangle(&name);
        let _ = demangle(&format!("_Z{name}"));
    }

    #[test]
    fn any_order_of_codes_is_read_or_rejected(name in pieces()) {
        let _ = demangle(&name);
    }
}
