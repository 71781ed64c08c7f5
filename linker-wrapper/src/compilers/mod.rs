//! What compilers put into host objects beside clang's offload binaries: the units of nvcc, and the names that tell them.
//!
//! The host side calls a unit that clang did not make a foreign one, and knows nothing else of its compiler.

use offload_bundle::offload_binary::OffloadKinds;

pub mod foreign_units;
pub mod rdc_image;

/// The compiler of foreign units, as messages name it.
pub const FOREIGN: &str = "nvcc";

/// The section of a host object that holds the code of foreign units.
pub const FOREIGN_SECTION: &[u8] = b"__nv_relfatbin";

/// The local symbol at the code of each foreign unit.
pub const FOREIGN_SYMBOL: &str = "fatbinData";

/// Those of these programming models whose registration code needs no table of entries.
pub fn registered_without_table(kinds: OffloadKinds) -> OffloadKinds {
    if kinds.contains(OffloadKinds::SYCL) { OffloadKinds::SYCL } else { OffloadKinds::default() }
}
