//! Code by target, for serde: bytes as a whole. A list of bytes is written and read byte by byte, which takes longer than all else in a link
//! that compiles nothing.

use offload_bundle::arch::GpuArch;
use serde::{Deserialize, Deserializer, Serializer};
use serde_bytes::{ByteBuf, Bytes};

/// Writes the list.
///
/// # Errors
/// Those of the serializer.
pub fn serialize<S: Serializer>(code: &[(GpuArch, Vec<u8>)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(code.iter().map(|(arch, bytes)| (arch, Bytes::new(bytes))))
}

/// Reads the list.
///
/// # Errors
/// Those of the deserializer.
pub fn deserialize<'d, D: Deserializer<'d>>(deserializer: D) -> Result<Vec<(GpuArch, Vec<u8>)>, D::Error> {
    let code = Vec::<(GpuArch, ByteBuf)>::deserialize(deserializer)?;
    Ok(code.into_iter().map(|(arch, bytes)| (arch, bytes.into_vec())).collect())
}

#[cfg(test)]
mod tests {
    use serde::Serialize;

    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Whole(#[serde(with = "super")] Vec<(GpuArch, Vec<u8>)>);

    #[test]
    fn bytes_are_written_as_a_list_of_them_would_be() {
        let arch = |name: &str| name.parse::<GpuArch>().unwrap();
        let code = vec![(arch("sm_90a"), (0..=255).collect()), (arch("sm_80"), Vec::new())];
        let bytes = postcard::to_allocvec(&Whole(code.clone())).unwrap();
        assert_eq!(bytes, postcard::to_allocvec(&code).unwrap());
        assert_eq!(postcard::from_bytes::<Whole>(&bytes).unwrap(), Whole(code));
        for end in 0..bytes.len() {
            assert!(postcard::from_bytes::<Whole>(&bytes[..end]).is_err(), "{end}");
        }
    }
}
