//! A device function in Rust, which CUDA C++ calls.
//!
//! ```text
//! RUSTC_BOOTSTRAP=1 rustc --target nvptx64-nvidia-cuda -C target-cpu=sm_90 --crate-type=lib -O --emit=llvm-bc scale.rs
//! ```
//!
//! There is no core library for this target without a nightly compiler, so that the file has the few items of it that it needs.
#![feature(no_core, lang_items)]
#![allow(internal_features)]
#![no_core]

#[lang = "pointee_sized"]
pub trait PointeeSized {}
#[lang = "meta_sized"]
pub trait MetaSized: PointeeSized {}
#[lang = "sized"]
pub trait Sized: MetaSized {}
#[lang = "copy"]
pub trait Copy {}
impl Copy for f32 {}

#[lang = "mul"]
pub trait Mul<Rhs = Self> {
    type Output;
    fn mul(self, rhs: Rhs) -> Self::Output;
}

impl Mul for f32 {
    type Output = f32;

    fn mul(self, rhs: f32) -> f32 {
        self * rhs
    }
}

/// Three times the value.
#[unsafe(no_mangle)]
pub extern "C" fn scale(value: f32) -> f32 {
    value * 3.0
}
