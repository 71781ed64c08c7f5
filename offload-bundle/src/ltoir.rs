//! LTO-IR, NVIDIA's own code for link-time optimization: only its header is known. (Seen in the files of NVRTC 12.2 and 12.9 and nvcc
//! 13.0: magic, then the version of the container in two bytes, major and minor.)

const MAGIC: [u8; 4] = [0xed, 0x43, 0x4e, 0x7f];

/// The version of the container: 1.59 from CUDA 12.2, 1.64 from 12.9, 1.65 from 13.0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct LtoIrVersion {
    /// 1 of 1.65.
    pub major: u8,
    /// 65 of 1.65.
    pub minor: u8,
}

impl LtoIrVersion {
    /// The newest version that the tools of a CUDA release can know; where only a later release was looked at, that one's.
    /// `None`: releases after 13.0, of which nothing is known.
    pub fn of_cuda(major: u32, minor: u32) -> Option<LtoIrVersion> {
        const KNOWN: [((u32, u32), u8); 3] = [((12, 2), 59), ((12, 9), 64), ((13, 0), 65)];
        let row = KNOWN.iter().find(|(release, _)| (major, minor) <= *release);
        row.map(|row| LtoIrVersion { major: 1, minor: row.1 })
    }
}

impl std::fmt::Display for LtoIrVersion {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}.{}", self.major, self.minor)
    }
}

/// The version of LTO-IR; `None`: it is none.
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
        let of = |major, minor| LtoIrVersion::of_cuda(major, minor).map(|version| version.minor);
        assert_eq!(
            [of(12, 0), of(12, 2), of(12, 5), of(12, 9), of(13, 0), of(13, 5)],
            [Some(59), Some(59), Some(64), Some(64), Some(65), None]
        );
    }
}
