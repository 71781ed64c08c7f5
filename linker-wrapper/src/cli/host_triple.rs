//! The host in target triples.

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
