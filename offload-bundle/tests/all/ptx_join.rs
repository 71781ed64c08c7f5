//! PTX of several translation units, joined and assembled: what clang writes, and what ptxas and nvlink make of it.
//!
//! `cargo xtask test` sets the environment.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use object::{Object, ObjectSymbol, SymbolFlags};
use offload_bundle::ptx::join as ptx_join;

const LLVM: &str = "/usr/lib/llvm-22/bin";

const COMMON: &str = r#"
#include <cassert>
#include <cstdio>
#include <new>
struct Wide { float x[4]; };
struct Base { __device__ virtual int f(int) = 0; };
struct Table { int (*call)(int); const int *value; };
extern __device__ int counter;
extern __device__ int open_array[];
extern __device__ Table dispatch;
extern __device__ const int *ring_a, *ring_b;
extern __constant__ float weights[16];
__device__ int helper(int);
__device__ void stop(int);
__device__ Wide widen(Wide, int);
__device__ Base *make(void *);
template <class T> __device__ __noinline__ T rotate(T v, int n) {
  __shared__ T lanes[32];
  lanes[threadIdx.x % 32] = v;
  __syncthreads();
  return lanes[n % 32];
}
inline __device__ __noinline__ int count(int a) { static int calls; return a + atomicAdd(&calls, 1); }
"#;

const FIRST: &str = r#"
#include "common.h"
__device__ int counter = 7;
extern "C" __device__ void __cxa_pure_virtual() { __trap(); }
__device__ const int *ring_a = &counter;
static __device__ int own = 3;
static __device__ __noinline__ int step(int a) { atomicAdd(&own, a); return a * own + threadIdx.x; }
static __constant__ int odd[4] = {1, 3, 5, 7};
struct One : Base { __device__ int f(int a) override { return a + 1; } };
__device__ Base *make(void *p) { return new (p) One; }
__device__ __noinline__ int helper(int a) { return step(a) + counter + odd[a & 3]; }
__device__ __noinline__ void stop(int a) { printf("stop %d\n", a); __trap(); }
__device__ int choose(int a) {
  switch (a) { case 0: return 17; case 1: return counter; case 2: return helper(a); case 3: return 99;
               case 4: return 2 * a; case 5: return own; case 6: return a ^ 77; default: return 0; }
}
__global__ void first(int *out) {
  extern __shared__ int dynamic[];
  dynamic[threadIdx.x] = out[0];
  __syncthreads();
  if (out[7] == 3) stop(3);
  out[threadIdx.x] = helper(dynamic[0]) + rotate<int>(out[1], out[2]) + count(3) + (int)weights[out[3] & 15] + choose(out[4])
                     + open_array[out[5]] + dispatch.call(*ring_b);
  printf("first %d %s\n", out[0], "done");
  assert(out[9] != 4);
}
"#;

const SECOND: &str = r#"
#include "common.h"
__constant__ float weights[16] = {1, 2, 3};
__device__ int open_array[8] = {8, 7, 6};
__device__ Table dispatch = {helper, &counter};
__device__ const int *ring_b = open_array;
static __device__ int own = 4;
static __device__ __noinline__ int step(int a) { atomicSub(&own, a); return a * own - blockIdx.x; }
static __constant__ int odd[4] = {1, 3, 5, 7};
__device__ __noinline__ Wide widen(Wide w, int i) { w.x[i % 4] += odd[i & 3]; return w; }
__global__ void __launch_bounds__(128, 2) second(int *out, Wide w) {
  extern __shared__ double dynamic_doubles[];
  dynamic_doubles[1] = out[0];
  alignas(8) char place[16];
  if (out[7] == 3) stop(4);
  out[threadIdx.x] = helper(out[0]) + step(3) + rotate<int>(out[1], out[2]) + (int)rotate<double>(out[1], 2) + count(4)
                     + (int)widen(w, out[3]).x[out[4] & 3] + counter + make(place)->f(2) + (int)dynamic_doubles[1];
  printf("second %d\n", out[0]);
  assert(out[9] != 5);
}
"#;

const THIRD: &str = r#"
#include "common.h"
extern __device__ int nowhere(int);
static __device__ __noinline__ int step(int a) { return nowhere(a); }
static __device__ int *others[2] = {&counter, open_array};
__global__ void third(int *out) {
  extern __shared__ int dynamic[];
  out[0] = step(out[1]) + dispatch.call(*others[out[2] & 1]) + dynamic[0] + rotate<float>(out[3], 4) + *ring_a;
}
"#;

fn cuda() -> PathBuf {
    std::env::var_os("CUDA_PATH").expect("CUDA_PATH is not set: run `cargo xtask test`").into()
}

/// Runs a tool, which must not complain about the joined text.
fn run(command: &mut Command) {
    let output = command.output().unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !words.contains("extern"), "{command:?}: {words}");
}

const FILES: [(&str, &str); 3] = [("first", FIRST), ("second", SECOND), ("third", THIRD)];

/// PTX of the files.
fn compile(folder: &Path, files: &[(&str, &str)], options: &[&str]) -> Vec<Vec<u8>> {
    std::fs::write(folder.join("common.h"), COMMON).unwrap();
    let compile = |(name, source): &(&str, &str)| {
        std::fs::write(folder.join(format!("{name}.cu")), source).unwrap();
        let output = folder.join(format!("{name}.ptx"));
        run(Command::new(format!("{LLVM}/clang++"))
            .current_dir(folder)
            .args(["-x", "cuda", "--cuda-device-only", "--cuda-gpu-arch=sm_90", "-fgpu-rdc", "-S"])
            .args(["-Wno-unknown-cuda-version"])
            .arg(format!("--cuda-path={}", cuda().display()))
            .args(options)
            .arg(format!("{name}.cu"))
            .arg("-o")
            .arg(&output));
        std::fs::read(output).unwrap()
    };
    files.iter().map(compile).collect()
}

fn assemble(folder: &Path, name: &str, ptx: &[u8], options: &[&str]) -> Vec<u8> {
    let (input, output) = (folder.join(format!("{name}.ptx")), folder.join(format!("{name}.cubin")));
    std::fs::write(&input, ptx).unwrap();
    let ptxas = cuda().join("bin/ptxas");
    run(Command::new(ptxas).args(["-arch=sm_90"]).args(options).arg(input).arg("-o").arg(&output));
    std::fs::read(output).unwrap()
}

/// What others see: name to whether it is defined and weak.
type Symbols = BTreeMap<String, (bool, bool)>;

fn symbols(cubin: &[u8]) -> Symbols {
    let file = object::File::parse(cubin).unwrap();
    let mut found = Symbols::new();
    for symbol in file.symbols().filter(|symbol| symbol.is_global() || symbol.is_weak()) {
        // ELF's own binding: `object` takes NVIDIA's symbol types for something else.
        let SymbolFlags::Elf { st_info, .. } = symbol.flags() else { continue };
        found.insert(symbol.name().unwrap().to_owned(), (!symbol.is_undefined(), st_info.0 >> 4 == 2));
    }
    found
}

/// What a linker makes of the symbols of several files.
fn linked(all: &[Symbols]) -> Symbols {
    let mut result = Symbols::new();
    for (name, (defined, weak)) in all.iter().flatten() {
        let entry = result.entry(name.clone()).or_insert((*defined, *weak));
        if *defined && (!entry.0 || !weak) {
            *entry = (true, *weak);
        }
    }
    result
}

fn check(options: &[&str], ptxas: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let parts = compile(folder.path(), &FILES, options);
    let assembled: Vec<Symbols> = parts
        .iter()
        .enumerate()
        .map(|(index, ptx)| symbols(&assemble(folder.path(), &index.to_string(), ptx, ptxas)))
        .collect();
    for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
        let ordered = order.map(|index| &parts[index][..]);
        let joined = ptx_join::join(&ordered).unwrap();
        assert_eq!(joined, ptx_join::join(&ordered).unwrap());
        let cubin = assemble(folder.path(), "joined", &joined, ptxas);
        assert_eq!(symbols(&cubin), linked(&order.map(|index| assembled[index].clone())), "{order:?}");
        // Where nothing is missing no linker is needed either.
        let whole = ptx_join::join(&[&parts[order[0]], &parts[order[1]]]).unwrap();
        if !order[..2].contains(&2) {
            assemble(folder.path(), "whole", &whole, &ptxas[1..]);
        }
        // Joined with nothing, it is itself; joined again, nothing is new.
        let again = ptx_join::join(&[&joined]).unwrap();
        assert_eq!(symbols(&assemble(folder.path(), "again", &again, ptxas)), symbols(&cubin));
    }
}

#[test]
fn optimized_code() {
    check(&["-O2"], &["-c"]);
}

#[test]
fn optimized_code_with_line_tables() {
    check(&["-O2", "-gline-tables-only"], &["-c", "-lineinfo"]);
}

#[test]
fn unoptimized_code() {
    check(&["-O0"], &["-c"]);
}

#[test]
fn full_debug_information_is_left_to_one_piece() {
    let folder = tempfile::tempdir().unwrap();
    let part = compile(folder.path(), &FILES[2..], &["-O0", "-g"]).remove(0);
    assert!(ptx_join::join(&[&part, &part]).unwrap_err().to_string().contains("full debug information"));
}
