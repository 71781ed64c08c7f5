//! Links relocatable cubins with this crate, and compares the result with that of nvlink.
//!
//!     cargo run -p cubin-link --example compare -- sm_90 NVLINKS.cubin INPUT.o...
//!     cargo run -p cubin-link --example compare -- sm_90 --nvlink=PATH INPUT.o...
//!
//! With --output=FILE it also writes the cubin. Exit codes: 0 equal, 1 different, 2 neither links or something is wrong, 3 unsupported.

#[path = "../tests/compare/mod.rs"]
mod compare;

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, ExitCode};

use cubin_link::{Input, LinkError, link};

fn main() -> ExitCode {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let output = arguments.iter().position(|argument| argument.starts_with("--output="));
    let output = output.map(|place| arguments.remove(place));
    let [target, theirs, files @ ..] = &arguments[..] else {
        say("usage: compare TARGET NVLINKS.cubin|--nvlink=PATH INPUT...");
        return ExitCode::from(2);
    };
    let mut datas = Vec::new();
    for file in files {
        match std::fs::read(file) {
            Ok(data) => datas.push(data),
            Err(error) => {
                say(&format!("{file}: {error}"));
                return ExitCode::from(2);
            }
        }
    }
    let inputs: Vec<Input<'_>> = files.iter().zip(&datas).map(|(file, data)| Input { file, data }).collect();
    let theirs = match theirs.strip_prefix("--nvlink=") {
        Some(nvlink) => with_nvlink(nvlink, target, files),
        None => std::fs::read(theirs).map_err(|error| error.to_string()),
    };
    let Ok(arch) = target.parse() else {
        say(&format!("{target} is no GPU"));
        return ExitCode::from(2);
    };
    let start = std::time::Instant::now();
    let ours = link(&inputs, arch);
    let time = start.elapsed();
    if let (Ok(ours), Some(output)) = (&ours, output.as_deref().and_then(|output| output.strip_prefix("--output="))) {
        let _ = std::fs::write(output, &ours.cubin);
    }
    match (ours, theirs) {
        (Err(LinkError::Unsupported(reason)), _) => {
            say(&format!("unsupported: {reason}"));
            ExitCode::from(3)
        }
        (Ok(ours), Ok(theirs)) => {
            let lines = compare::differences(&ours.cubin, &theirs);
            lines.iter().for_each(|line| say(line));
            say(&format!("our link took {:.1} ms", time.as_secs_f64() * 1e3));
            say(if lines.is_empty() { "equal" } else { "different" });
            ExitCode::from(u8::from(!lines.is_empty()))
        }
        (Err(error), Err(theirs)) => {
            say(&format!("neither links\nours: {error}\ntheirs: {theirs}"));
            ExitCode::from(2)
        }
        (Ok(_), Err(error)) => {
            say(&format!("different: only ours links; theirs: {error}"));
            ExitCode::from(1)
        }
        (Err(error), Ok(_)) => {
            say(&format!("different: only theirs links; ours: {error}"));
            ExitCode::from(1)
        }
    }
}

fn with_nvlink(nvlink: &str, target: &str, files: &[String]) -> Result<Vec<u8>, String> {
    let output = std::env::temp_dir().join(format!("compare-{}.cubin", std::process::id()));
    let done = Command::new(Path::new(nvlink)).args(["-arch", target, "-o"]).arg(&output).args(files).output();
    let done = done.map_err(|error| error.to_string())?;
    if !done.status.success() {
        return Err(String::from_utf8_lossy(&done.stderr).into_owned());
    }
    let bytes = std::fs::read(&output).map_err(|error| error.to_string());
    let _ = std::fs::remove_file(&output);
    bytes
}

fn say(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}
