//! The bill of materials of the programs and libraries: everything that is linked into them, as CycloneDX 1.5 describes it.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::licenses::{self, Package};
use crate::failure::Result;
use crate::repository::{Repository, write_file};
use crate::step::Progress;

/// Debian's packages whose libraries are linked in statically, with the names of their projects and the licenses that these state.
const SYSTEM: [(&str, &str, &str); 4] = [
    ("llvm-22-dev", "LLVM", "Apache-2.0 WITH LLVM-exception"),
    ("zlib1g-dev", "zlib", "Zlib"),
    ("gcc-12-base", "gcc-runtime", "GPL-3.0-or-later WITH GCC-exception-3.1"),
    ("libc6-dev", "glibc", "LGPL-2.1-or-later"),
];

/// Writes the bill into a file.
pub fn write(repository: &Repository, progress: &Progress, version: &str, path: &Path) -> Result<()> {
    let crates = licenses::linked(repository, progress)?;
    let mut components: Vec<Value> = crates.iter().map(of_crate).collect();
    for (package, name, license) in SYSTEM {
        let found = progress.run(Command::new("dpkg-query").args(["--show", "--showformat=${Version}", package]))?;
        components.push(component(name, &found, license, &format!("pkg:deb/debian/{package}@{found}")));
    }
    let bill = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "component": { "type": "application", "name": "fatlink", "version": version } },
        "components": components,
    });
    write_file(path, format!("{bill:#}\n"))
}

fn of_crate(package: &Package) -> Value {
    let Package { name, version, license, .. } = package;
    component(name, version, license, &format!("pkg:cargo/{name}@{version}"))
}

fn component(name: &str, version: &str, license: &str, url: &str) -> Value {
    json!({
        "type": "library",
        "bom-ref": url,
        "name": name,
        "version": version,
        "purl": url,
        "licenses": [licensed(license)],
    })
}

/// Some crates write `MIT/Apache-2.0`, which is no SPDX expression.
fn licensed(license: &str) -> Value {
    let is_expression = license.split(['(', ')', ' ']).all(|word| {
        let is_id = word.chars().all(|c| c.is_ascii_alphanumeric() || "-.+".contains(c));
        is_id && !word.chars().any(|c| c == '/')
    });
    match is_expression && !license.starts_with("see ") {
        true => json!({ "expression": license }),
        false => json!({ "license": { "name": license } }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_spdx_expressions_are_stated_as_such() {
        for (license, is_expression) in [
            ("MIT OR Apache-2.0", true),
            ("(MIT OR Apache-2.0) AND Unicode-3.0", true),
            ("MIT/Apache-2.0", false),
            ("see its license file", false),
        ] {
            assert_eq!(licensed(license).get("expression").is_some(), is_expression, "{license}");
        }
    }
}
