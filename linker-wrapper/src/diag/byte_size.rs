//! Sizes such as `512M` and `8G`.
//!
//! The `bytesize` crate does not fit: it reads `M` as 10^6 and accepts fractions and blanks.

/// Parses a number of bytes, or of KiB, MiB, GiB or TiB with a suffix (`K`, `M`, `G`, `T`; `KiB` and `KB` mean the same).
/// `None`: the text is not a size, or exceeds 2^64 - 1 bytes.
pub fn parse(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" | "kib" => 1 << 10,
        "m" | "mb" | "mib" => 1 << 20,
        "g" | "gb" | "gib" => 1 << 30,
        "t" | "tb" | "tib" => 1_u64 << 40,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

/// Formats a size for people: `1.5 GiB`.
pub fn show(bytes: u64) -> String {
    const UNITS: [(&str, u32); 4] = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    match UNITS.iter().find(|(_, shift)| bytes >> shift > 0) {
        Some((unit, shift)) => format!("{:.1} {unit}", bytes as f64 / (1_u64 << shift) as f64),
        None => format!("{bytes} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_shown() {
        for (text, bytes) in [
            ("0", Some(0)),
            ("17", Some(17)),
            ("2K", Some(2048)),
            ("512M", Some(512 << 20)),
            ("8g", Some(8 << 30)),
            ("8GiB", Some(8 << 30)),
            ("1T", Some(1 << 40)),
            ("", None),
            ("G", None),
            ("-1", None),
            ("1.5G", None),
            ("8 G", None),
            ("8X", None),
            ("99999999999T", None),
        ] {
            assert_eq!(parse(text), bytes, "{text}");
        }
        assert_eq!([show(17), show(2048), show(3 << 29)], ["17 B", "2.0 KiB", "1.5 GiB"]);
    }
}
