//! The release of LLVM that fatlink is built with: Debian's 22, or 23 from PyPI's wheels.

use std::path::PathBuf;
use std::process::Command;

use clap::ValueEnum;

use crate::failure::Result;
use crate::toolchain::Toolchain;
use crate::wheels::Wheels;

/// A release that fatlink can be built with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum LlvmRelease {
    /// Debian's.
    #[default]
    #[value(name = "22")]
    Llvm22,
    /// PyPI's.
    #[value(name = "23")]
    Llvm23,
}

const LLVM_23: Wheels = Wheels {
    title: "LLVM 23",
    pins: include_str!("../llvm-23-wheels.txt"),
    folder: "llvm-23",
    proof: "mlc_llvm_static/static/lib/libLLVMNVPTXCodeGen.a",
    platform: None,
};

impl LlvmRelease {
    /// Installs the libraries that Debian does not have.
    pub fn install(self, toolchain: &Toolchain) -> Result<()> {
        match self {
            LlvmRelease::Llvm22 => Ok(()),
            LlvmRelease::Llvm23 => LLVM_23.install(toolchain),
        }
    }

    /// Where LLVM 23 is installed.
    pub fn place(toolchain: &Toolchain) -> PathBuf {
        LLVM_23.place(toolchain).join("mlc_llvm_static/static")
    }

    /// Chooses the release in a run of cargo that builds fatlink alone: features of other packages have other names.
    pub fn choose(self, cargo: &mut Command, toolchain: &Toolchain) {
        if self == LlvmRelease::Llvm23 {
            cargo.args(["--no-default-features", "--features=llvm23,network"]);
            cargo.env("LLVM_SYS_231_PREFIX", Self::place(toolchain));
        }
    }
}
