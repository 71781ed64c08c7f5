//! The CMake package: `dist/lib/cmake/fatlink`.

use crate::failure::Result;
use crate::repository::{Repository, create_folder, write_file};

const FILES: [(&str, &str); 6] = [
    ("fatlink-config.cmake", include_str!("../../../linker-wrapper/cmake/fatlink-config.cmake")),
    ("fatlink-config-version.cmake", include_str!("../../../linker-wrapper/cmake/fatlink-config-version.cmake")),
    ("fatlink-cuda-rules.cmake", include_str!("../../../linker-wrapper/cmake/fatlink-cuda-rules.cmake")),
    ("fatlink-folders.cmake", include_str!("../../../linker-wrapper/cmake/fatlink-folders.cmake")),
    ("fatlink-min-max.h", include_str!("../../../linker-wrapper/cmake/fatlink-min-max.h")),
    ("fatlink-toolchain.cmake", include_str!("../../../linker-wrapper/cmake/fatlink-toolchain.cmake")),
];

/// Writes its files.
pub fn write(repository: &Repository) -> Result<()> {
    let folder = repository.dist().join("lib/cmake/fatlink");
    create_folder(&folder)?;
    FILES.into_iter().try_for_each(|(name, text)| {
        write_file(&folder.join(name), text.replace("@VERSION@", env!("CARGO_PKG_VERSION")))
    })
}
