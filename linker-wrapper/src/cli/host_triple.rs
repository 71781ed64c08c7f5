//! The host in target triples.

/// The machine that this program runs on, which stands for that of the host code where nothing names it.
pub const NATIVE: &str = if cfg!(target_arch = "aarch64") { "aarch64" } else { "x86_64" };

/// The machine of a triple, as triples name it, if fatlink has registration code for it.
pub fn supported_machine(triple: &str) -> Option<&'static str> {
    match triple.split('-').next()? {
        processor if is_x86_64(processor) => Some("x86_64"),
        "aarch64" | "arm64" => Some("aarch64"),
        _ => None,
    }
}

/// The triple of programs for a machine that has registration code, where the line names none.
pub fn of_machine(machine: &str) -> &'static str {
    match machine {
        "aarch64" => "aarch64-unknown-linux-gnu",
        _ => "x86_64-pc-linux-gnu",
    }
}

/// Whether a triple's processor is x86-64.
pub fn is_x86_64(processor: &str) -> bool {
    matches!(processor, "x86_64" | "amd64")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn systems_name_it_differently() {
        assert!(is_x86_64("x86_64") && is_x86_64("amd64"));
        assert!(!is_x86_64("") && !is_x86_64("i686") && !is_x86_64("aarch64"));
    }
}
