//! LTO-IR, NVIDIA's own code for link-time optimization: only its header is known. (Seen in the files of NVRTC 12.2 and 12.9 and nvcc
//! 13.0: magic, then the version of the container in two bytes, major and minor.)

use crate::arch::LtoIrVersion;

const MAGIC: [u8; 4] = [0xed, 0x43, 0x4e, 0x7f];

/// The version of LTO-IR; `None`: the bytes are not LTO-IR.
pub fn version(data: &[u8]) -> Option<LtoIrVersion> {
    let [a, b, c, d, major, minor] = *data.first_chunk()?;
    ([a, b, c, d] == MAGIC).then_some(LtoIrVersion { major, minor })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        assert_eq!(version(b"\xedCN\x7f\x01\x41\x02"), Some(LtoIrVersion { major: 1, minor: 65 }));
        assert_eq!(version(b"\xedCN\x7f\x01"), None);
        assert_eq!(version(b"\x7fELF\x01\x41"), None);
    }
}
