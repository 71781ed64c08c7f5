//! What links the code of all machines, and what reads host files, names none of the machines and kinds.

/// The folders and files of `src` that know [`Machine`](linker_wrapper) and kinds by their traits alone.
const NEUTRAL: [&str; 6] = ["lto/", "plan/", "host/", "link/", "link.rs", "session.rs"];

/// Words of vendors, in identifiers, paths and strings.
const WORDS: [&str; 15] = [
    "nvptx", "cuda", "ptx", "nvcc", "nvlink", "cubin", "fatbin", "sm_", "amd", "gfx", "hip", "hsa", "rdc", "openmp",
    "sycl",
];

/// The words in each line of a file's code, up to its unit tests, with the number of the line.
fn named(text: &str) -> Vec<(usize, &'static str)> {
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let lines = code.lines().map(|line| line.split("//").next().unwrap_or_default().to_lowercase());
    let found = lines.enumerate().flat_map(|(index, line)| {
        WORDS.iter().filter(move |word| line.contains(**word)).map(move |word| (index + 1, *word))
    });
    found.collect()
}

#[test]
fn links_are_neutral() {
    let sources = crate::sources_below("linker-wrapper/src");
    let neutral = sources.iter().filter(|(path, _)| NEUTRAL.iter().any(|start| path.starts_with(start)));
    let neutral = neutral.filter(|(path, _)| !path.ends_with("tests.rs"));
    let wrong: Vec<String> = neutral
        .flat_map(|(path, text)| named(text).into_iter().map(move |(line, word)| format!("{path}:{line}: {word}")))
        .collect();
    assert!(wrong.is_empty(), "let a machine or a kind say it:\n{}", wrong.join("\n"));
}

#[test]
fn machines_know_no_cache_no_queue_and_no_partitioner() {
    const OTHERS: [&str; 6] = [
        "crate::lto",
        "crate::sys::cache",
        "crate::sys::job_queue",
        "llvm_passes::partition",
        "remote_cache",
        "crate::kinds",
    ];
    let sources = crate::sources_below("linker-wrapper/src");
    let machines = sources.iter().filter(|(path, _)| path.starts_with("machines/"));
    let wrong = machines.flat_map(|(path, text)| {
        OTHERS.iter().filter(move |other| text.contains(**other)).map(move |other| format!("{path}: {other}"))
    });
    let wrong: Vec<String> = wrong.collect();
    assert!(wrong.is_empty(), "leave it to lto/:\n{}", wrong.join("\n"));
}

#[test]
fn words_count_in_code_and_strings_but_not_in_comments() {
    assert_eq!(named("// PTX\nlet text = \"a.ptx\"; // cubin\nAmdCode\n"), [(2, "ptx"), (3, "amd")]);
    assert_eq!(named("#[cfg(test)]\nmod tests {\n    \"sm_90\"\n}\n"), []);
}
