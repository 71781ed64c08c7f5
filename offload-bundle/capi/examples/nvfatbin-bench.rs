//! Our builder and our C library against NVIDIA's nvFatbin, in one process and one run; then many entries on one thread and on all.
//!
//! `cargo run --release -p offload-bundle-capi --example nvfatbin-bench`, after `cargo xtask dist`, with the variables of
//! `cargo xtask env`. The kernels are compiled once, by nvcc, into a folder of their own.

#![allow(clippy::print_stdout, reason = "a program for a terminal")]

#[path = "../tests/library/mod.rs"]
mod library;
#[path = "../../tests/tools/mod.rs"]
mod tools;

use std::fmt::Write;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use library::{Library, nvidia_13, ours};
use offload_bundle::GpuArch;
use offload_bundle::fatbin::{BuilderOptions, FatbinBuilder};

/// Rounds that count; one more goes first to warm up.
const ROUNDS: usize = 15;
const MANY: usize = 64;

struct Inputs {
    cubin: Vec<u8>,
    ptx: Vec<u8>,
}

/// As many kernels as make about 1.1 MB of machine code and 4 MB of PTX.
fn inputs() -> Inputs {
    let folder = std::env::temp_dir().join("fatlink-nvfatbin-bench");
    let compile = |name: &str, kernels: usize, mode: &str| {
        let (source, output) = (folder.join(format!("{name}.cu")), folder.join(name));
        if !output.exists() {
            std::fs::create_dir_all(&folder).expect("a folder");
            std::fs::write(&source, source_of(kernels)).expect("a source");
            let mut nvcc = Command::new(tools::cuda("nvcc"));
            nvcc.args(["-arch=sm_90", mode, "-o"]).arg(&output).arg(&source);
            assert!(nvcc.status().expect("nvcc starts").success());
        }
        std::fs::read(&output).expect("nvcc wrote a file")
    };
    let mut ptx = compile("kernels.ptx", 147, "-ptx");
    // What a C program hands over.
    ptx.push(0);
    Inputs { cubin: compile("kernels.cubin", 91, "-cubin"), ptx }
}

fn source_of(kernels: usize) -> String {
    let mut text = String::new();
    for index in 0..kernels {
        let _ = writeln!(
            text,
            "__global__ void kernel_{index}(float *a, int n) {{ float r[100];\n#pragma unroll\nfor (int i = 0; i < 100; ++i) \
             r[i] = a[i * n + threadIdx.x];\n__syncthreads();\n#pragma unroll\nfor (int i = 0; i < 100; ++i) \
             a[threadIdx.x * {} + i * n] = r[99 - i] * r[i] + {index}; }}",
            index + 3
        );
    }
    text
}

fn by_library(library: &Library, inputs: &Inputs) -> usize {
    let fatbin = library.create(&[]).expect("no options");
    assert_eq!(fatbin.add_cubin_in_place(&inputs.cubin, c"90"), 0);
    assert_eq!(fatbin.add_ptx_in_place(&inputs.ptx, c"90"), 0);
    fatbin.finish().len()
}

fn by_builder(inputs: &Inputs) -> usize {
    many(inputs, 1).len()
}

fn many(inputs: &Inputs, count: usize) -> Vec<u8> {
    let mut builder = FatbinBuilder::new(BuilderOptions::default());
    for _ in 0..count {
        builder.add_cubin(GpuArch::plain(90), &inputs.cubin[..], "").expect("a cubin");
        builder.add_ptx(GpuArch::plain(90), &inputs.ptx[..], "", "").expect("PTX");
    }
    builder.finish().expect("images of some megabytes")
}

fn milliseconds(work: impl FnOnce() -> usize) -> f64 {
    let start = Instant::now();
    let size = work();
    assert!(size > 0);
    start.elapsed().as_secs_f64() * 1000.0
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn on_threads<T: Send>(threads: usize, work: impl FnOnce() -> T + Send) -> T {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads").install(work)
}

fn compare(inputs: &Inputs) {
    let (theirs, ours) = (nvidia_13(), ours());
    assert_eq!(by_library(&theirs, inputs), by_builder(inputs), "the same fatbin");
    let mut times = [const { Vec::new() }; 3];
    let mut ratios = [const { Vec::new() }; 2];
    on_threads(1, || {
        for round in 0..=ROUNDS {
            let of = [
                milliseconds(|| by_library(&theirs, inputs)),
                milliseconds(|| by_builder(inputs)),
                milliseconds(|| by_library(&ours, inputs)),
            ];
            if round > 0 {
                of.iter().zip(&mut times).for_each(|(time, times)| times.push(*time));
                ratios[0].push(of[1] / of[0]);
                ratios[1].push(of[2] / of[0]);
            }
        }
    });
    let [nvidia, builder, library] = times.map(median);
    let [of_builder, of_library] = ratios.map(median);
    println!("nvFatbin 13.0       {nvidia:7.2} ms");
    println!("FatbinBuilder       {builder:7.2} ms  {of_builder:.2} of nvFatbin's time on one thread, goal 0.2");
    println!("our libnvfatbin     {library:7.2} ms  {of_library:.2} of nvFatbin's time");
}

fn scale(inputs: &Inputs) {
    let all = std::thread::available_parallelism().map_or(1, usize::from);
    let time =
        |threads| median((0..3).map(|_| on_threads(threads, || milliseconds(|| many(inputs, MANY).len()))).collect());
    let (one, many) = (time(1), time(all));
    println!("{MANY} such pairs: {one:.0} ms on one thread, {many:.0} ms on {all}: {:.1} times as fast", one / many);
}

/// The most memory that this process ever had, in bytes.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("the peak");
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().expect("a number") * 1024
}

/// In a process of its own: the peak over what was there before, which includes the inputs.
fn memory(inputs: Inputs, what: &str) {
    let largest = inputs.cubin.len().max(inputs.ptx.len()) as f64;
    let given = (inputs.cubin.len() + inputs.ptx.len()) as f64;
    let mut builder = FatbinBuilder::new(BuilderOptions::default());
    if what == "one" {
        builder.add_cubin(GpuArch::plain(90), &inputs.cubin[..], "").expect("a cubin");
        builder.add_ptx(GpuArch::plain(90), &inputs.ptx[..], "", "").expect("PTX");
    }
    let count = if what == "one" { 1 } else { MANY };
    if what == "many" {
        for _ in 0..MANY {
            builder.add_cubin(GpuArch::plain(90), inputs.cubin.clone(), "").expect("a cubin");
            builder.add_ptx(GpuArch::plain(90), inputs.ptx.clone(), "", "").expect("PTX");
        }
    }
    let before = peak();
    let fatbin = builder.finish().expect("images of some megabytes");
    let over = peak().saturating_sub(before) as f64;
    println!(
        "memory, {count} pair(s) of {:.1} MB: {:.1} MB over the inputs, {:.2} times the largest entry; the fatbin is {:.1} MB of it",
        given / 1e6,
        over / 1e6,
        over / largest,
        fatbin.len() as f64 / 1e6
    );
}

fn main() {
    let inputs = inputs();
    if let Some(what) = std::env::args().nth(1) {
        return memory(inputs, &what);
    }
    println!("a cubin of {} and PTX of {} bytes", inputs.cubin.len(), inputs.ptx.len());
    compare(&inputs);
    scale(&inputs);
    let program = std::env::current_exe().expect("this program");
    for what in ["one", "many"] {
        assert!(Command::new(Path::new(&program)).arg(what).status().expect("it starts").success());
    }
}
