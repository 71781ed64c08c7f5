//! Errors in the images of a kind.

use std::io;
use std::path::PathBuf;

use offload_bundle::FormatError;
use offload_bundle::amdgpu::TargetIdError;
use offload_bundle::arch::GpuArch;
use offload_bundle::offload_binary::{ImageKind, OffloadKinds};

/// An image that no kind can link, or an option that leaves none.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{name}: a device image of kind {kinds} for {triple}: this version links {accepted} only")]
    NoKind { name: String, kinds: OffloadKinds, triple: String, accepted: String },
    #[error("cannot read {file}: {source}")]
    Read { file: PathBuf, source: io::Error },
    #[error("--override-image={kind}=: this version wraps the kinds {known}")]
    UnknownKind { kind: String, known: String },
    #[error("{file}: --override-image=openmp= takes an ELF shared object for x86-64 or AArch64")]
    NotShared { file: String },
    #[error(
        "OpenMP's device code for {triple} cannot be linked into a program for {program}: the program's own linker makes it; compile with \
         -fopenmp-targets={program}"
    )]
    OtherHost { triple: String, program: String },
    #[error("{file}: {source}; --override-image=cuda= takes a cubin")]
    NotCubin { file: String, source: FormatError },
    #[error("{file}: {reason}; --override-image=hip= takes an AMD GPU code object")]
    NotCodeObject { file: String, reason: String },
    #[error("{name}: {source}; compile with --offload-arch=")]
    TargetId { name: String, source: TargetIdError },
    #[error(
        "{name}: the device image is for '{processor}', a processor that LLVM {llvm} does not know; compile for another with \
         --offload-arch=, or use a fatlink built with a newer LLVM"
    )]
    UnknownProcessor { name: String, processor: String, llvm: String },
    #[error(
        "{first_file} is for {first} and {second_file} for {second}, which cannot both be targets of one program, since GPUs would fit both; \
         compile all files with or without the setting, or link with --offload-llvm-rules=23, by which code without it joins the target with it"
    )]
    ConflictingTargets { first: String, first_file: String, second: String, second_file: String },
    #[error("the HIP bundle cannot be compressed: {source}; link without --compress")]
    CompressBundle { source: FormatError },
    #[error(
        "--offload-gc=host is not possible for HIP: what its runtime does with a registered kernel that has no code is not documented; \
         leave it out"
    )]
    GcOfHip,
    #[error(
        "--offload-require= judges finished images of CUDA, and this link has {what}; leave it out, and judge the program with \
         offload-bundle check --gpus="
    )]
    RequireOther { what: &'static str },
    #[error("LLVM rejects these options of --device-linker= for AMD GPUs: {options}")]
    LlvmOptions { options: String },
    #[error("{option} is not possible for {gpus} GPUs: {why}; leave it out")]
    RefusedLinkerOption { option: String, gpus: &'static str, why: String },
    #[error(
        "{option} names the processor {processor}, and the device images are for {target}; leave it out, and compile for another target with \
         --offload-arch="
    )]
    OtherProcessor { option: String, processor: String, target: String },
    #[error("--offload-sass=none without PTX leaves the image empty; add --offload-ptx=")]
    EmptyImage,
    #[error(
        "--dlink -r: without an object of nvcc, no later link would find the code of device files; add -fatbin, or give the files to the last link"
    )]
    RelocatableAlone,
    #[error(
        "--dlink -r accepts only nvcc objects, and {file} is not one; pass it to the link of the program, or link the objects with ld -r"
    )]
    RelocatableOther { file: String },
    #[error("--dlink -r leaves relocatable machine code, and no PTX; leave out {option}, the objects keep their PTX")]
    RelocatablePtx { option: &'static str },
    #[error(
        "{name}: the device image names the target '{target}', which is not a GPU target such as sm_90; compile with \
         --offload-arch="
    )]
    UnknownTarget { name: String, target: String },
    #[error(
        "{name}: the device image for {arch} is neither LLVM bitcode, nor a cubin, nor PTX, nor LTO-IR ({kind}); compile with \
         -fgpu-rdc"
    )]
    UnknownForm { name: String, arch: GpuArch, kind: ImageKind },
    #[error(
        "{name}: PTX for {ptx_arch} cannot become machine code for {arch}, which the device image names; compile it for {arch}"
    )]
    PtxForOtherTarget { name: String, ptx_arch: GpuArch, arch: GpuArch },
}
