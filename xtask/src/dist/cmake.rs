//! The CMake package: `dist/lib/cmake/fatlink`.

use crate::failure::Result;
use crate::repository::{Repository, create_folder, write_file};

const FILES: [(&str, &str); 4] = [
    ("fatlink-config.cmake", include_str!("../../../linker-wrapper/cmake/fatlink-config.cmake")),
    ("fatlink-cuda-rules.cmake", include_str!("../../../linker-wrapper/cmake/fatlink-cuda-rules.cmake")),
    ("fatlink-folders.cmake", include_str!("../../../linker-wrapper/cmake/fatlink-folders.cmake")),
    ("fatlink-toolchain.cmake", include_str!("../../../linker-wrapper/cmake/fatlink-toolchain.cmake")),
];

/// Writes its files.
pub fn write(repository: &Repository) -> Result<()> {
    let folder = repository.dist().join("lib/cmake/fatlink");
    create_folder(&folder)?;
    let version = version_file(env!("CARGO_PKG_VERSION"));
    for (name, text) in FILES.into_iter().chain([("fatlink-config-version.cmake", version.as_str())]) {
        write_file(&folder.join(name), text)?;
    }
    Ok(())
}

/// Later versions are compatible with earlier ones, as `VERSION_LESS` compares them.
fn version_file(version: &str) -> String {
    format!(
        "set(PACKAGE_VERSION \"{version}\")\n\
         if(NOT PACKAGE_VERSION VERSION_LESS PACKAGE_FIND_VERSION)\n  \
           set(PACKAGE_VERSION_COMPATIBLE TRUE)\n\
         endif()\n\
         if(PACKAGE_VERSION VERSION_EQUAL PACKAGE_FIND_VERSION)\n  \
           set(PACKAGE_VERSION_EXACT TRUE)\n\
         endif()\n"
    )
}
