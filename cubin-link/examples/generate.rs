//! Writes the units of generated programs as PTX:
//! `cargo run -p cubin-link --example generate -- FOLDER TARGET FIRST COUNT [FEATURE]...`: with the features
//! named, or with all.

#[path = "../tests/generator/mod.rs"]
mod generator;

use std::path::Path;

fn main() -> std::io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, target, first, count, features @ ..] = &arguments[..] else {
        return Err(std::io::Error::other("usage: generate FOLDER TARGET FIRST COUNT [FEATURE]..."));
    };
    let has = |name: &str| (features.is_empty() && name != "runs") || features.iter().any(|feature| feature == name);
    let features = generator::Features {
        shared: has("shared"),
        pointers: has("pointers"),
        recursion: has("recursion"),
        system: has("system"),
        weak: has("weak"),
        runs: has("runs"),
    };
    let number = |text: &str| text.parse::<u64>().map_err(std::io::Error::other);
    let first = number(first)?;
    for seed in first..first + number(count)? {
        let program = generator::Program::new(seed, target, features);
        let folder = Path::new(folder).join(seed.to_string());
        std::fs::create_dir_all(&folder)?;
        for unit in 0..program.units {
            std::fs::write(folder.join(format!("unit{unit}.ptx")), program.ptx(unit))?;
        }
    }
    Ok(())
}
