//! `--offload-stats`: where the time and memory of a device link went, as a table or as JSON.

use std::fmt::Write;
use std::time::Duration;

use serde_json::{Value, json};

use crate::cli::values::StatsFormat;
use crate::diag::{byte_size, demangle};

/// Jobs in the table: the slowest.
const JOBS_SHOWN: usize = 10;

/// Most characters of a kernel's name in the table.
const NAME_WIDTH: usize = 60;

/// What one link did.
#[derive(Debug, Clone, Default)]
pub struct Stats {
    /// In order: name, wall time, processor time of all threads and tools.
    pub phases: Vec<(String, Duration, Duration)>,
    /// Most memory of the link and everything that it started, at the same time, in bytes.
    pub peak_memory: u64,
    /// Entries that the cache had.
    pub cache_hits: u64,
    /// Entries that it did not have.
    pub cache_misses: u64,
    /// Jobs that the device code was cut into, of all targets.
    pub partitions: u64,
    /// LLVM instructions that are compiled in more than one job, each time after the first.
    pub duplicate_instructions: u64,
    /// LLVM instructions before the cut.
    pub instructions: u64,
    /// All jobs.
    pub jobs: Vec<JobStat>,
}

/// What one job did.
#[derive(Debug, Clone, Default)]
pub struct JobStat {
    /// Its largest kernel, by symbol.
    pub label: String,
    /// "sm_90".
    pub target: String,
    /// Wall time of reading, optimization and code generation.
    pub llvm_seconds: f64,
    /// Wall time of ptxas.
    pub ptxas_seconds: f64,
    /// Most memory of the process that ran LLVM, in bytes.
    pub llvm_peak: u64,
    /// Most memory of ptxas, in bytes.
    pub ptxas_peak: u64,
    /// Size of its PTX.
    pub ptx_bytes: u64,
    /// Size of its machine code.
    pub cubin_bytes: u64,
    /// The cache had it.
    pub cached: bool,
}

impl JobStat {
    fn seconds(&self) -> f64 {
        self.llvm_seconds + self.ptxas_seconds
    }
}

impl Stats {
    /// As text that ends with a line break.
    pub fn render(&self, format: StatsFormat) -> String {
        match format {
            StatsFormat::Text => self.text(),
            StatsFormat::Json => format!("{}\n", self.json()),
        }
    }

    /// All jobs, the slowest first; equal ones by name, so that the same times give the same text.
    fn slowest(&self) -> Vec<&JobStat> {
        let mut jobs: Vec<&JobStat> = self.jobs.iter().collect();
        jobs.sort_by(|one, other| {
            let names = || (&one.label, &one.target).cmp(&(&other.label, &other.target));
            other.seconds().total_cmp(&one.seconds()).then_with(names)
        });
        jobs
    }

    fn text(&self) -> String {
        let mut out = String::new();
        let rows = self.phases.iter().map(|(name, wall, cpu)| {
            vec![name.clone(), format!("{:.3} s", wall.as_secs_f64()), format!("{:.3} s", cpu.as_secs_f64())]
        });
        let phases = table(&["phase", "wall", "cpu"], rows.collect());
        let cached = self.jobs.iter().filter(|job| job.cached).count();
        let percent = 100.0 * self.duplicate_instructions as f64 / self.instructions.max(1) as f64;
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{phases}\npeak memory     {}", byte_size::show(self.peak_memory));
        let _ = writeln!(out, "cache           {} found, {} not", self.cache_hits, self.cache_misses);
        let _ = writeln!(
            out,
            "jobs            {} ({cached} from the cache), {} partitions",
            self.jobs.len(),
            self.partitions
        );
        let _ = writeln!(
            out,
            "duplicate code  {} of {} instructions ({percent:.1} %)",
            self.duplicate_instructions, self.instructions
        );
        let slowest: Vec<_> = self.slowest().into_iter().filter(|job| !job.cached).take(JOBS_SHOWN).collect();
        if !slowest.is_empty() {
            let head = ["LLVM", "ptxas", "LLVM memory", "ptxas memory", "PTX", "code", "target", "slowest jobs"];
            let _ = write!(out, "\n{}", table(&head, slowest.into_iter().map(job_row).collect()));
        }
        out
    }

    fn json(&self) -> Value {
        let phases = self.phases.iter().map(|(name, wall, cpu)| {
            json!({ "name": name, "wall_seconds": wall.as_secs_f64(), "cpu_seconds": cpu.as_secs_f64() })
        });
        let jobs = self.slowest().into_iter().map(|job| {
            json!({
                "kernel": job.label, "name": demangle::demangled(&job.label), "target": job.target,
                "llvm_seconds": job.llvm_seconds, "ptxas_seconds": job.ptxas_seconds,
                "llvm_peak_bytes": job.llvm_peak, "ptxas_peak_bytes": job.ptxas_peak,
                "ptx_bytes": job.ptx_bytes, "cubin_bytes": job.cubin_bytes, "cached": job.cached,
            })
        });
        json!({
            "phases": phases.collect::<Vec<_>>(),
            "peak_memory_bytes": self.peak_memory,
            "cache": { "hits": self.cache_hits, "misses": self.cache_misses },
            "partitions": self.partitions,
            "instructions": self.instructions,
            "duplicate_instructions": self.duplicate_instructions,
            "jobs": jobs.collect::<Vec<_>>(),
        })
    }
}

fn job_row(job: &JobStat) -> Vec<String> {
    vec![
        format!("{:.3} s", job.llvm_seconds),
        format!("{:.3} s", job.ptxas_seconds),
        byte_size::show(job.llvm_peak),
        byte_size::show(job.ptxas_peak),
        byte_size::show(job.ptx_bytes),
        byte_size::show(job.cubin_bytes),
        job.target.clone(),
        demangle::shortened(&job.label, NAME_WIDTH),
    ]
}

/// Columns as wide as their widest cell: numbers to the right, words to the left.
fn table(head: &[&str], rows: Vec<Vec<String>>) -> String {
    let head: Vec<String> = head.iter().map(|text| (*text).to_owned()).collect();
    let all: Vec<Vec<String>> = std::iter::once(head).chain(rows).collect();
    let columns = all.first().map_or(0, Vec::len);
    let length = |text: &String| text.chars().count();
    let widths: Vec<usize> = (0..columns)
        .map(|column| all.iter().filter_map(|row| row.get(column).map(length)).max().unwrap_or(0))
        .collect();
    let words: Vec<bool> = (0..columns)
        .map(|column| all.iter().skip(1).any(|row| !row[column].starts_with(|c: char| c.is_ascii_digit())))
        .collect();
    let mut out = String::new();
    for row in &all {
        let cells = row.iter().zip(&widths).zip(&words).map(|((cell, width), word)| match word {
            true => format!("{cell:<width$}"),
            false => format!("{cell:>width$}"),
        });
        out.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats() -> Stats {
        let second = Duration::from_millis(1000);
        let job = |label: &str, llvm_seconds: f64, cached| JobStat {
            label: label.to_owned(),
            target: "sm_90".to_owned(),
            llvm_seconds,
            ptxas_seconds: 2.0 * llvm_seconds,
            llvm_peak: 100 << 20,
            ptxas_peak: 3 << 29,
            ptx_bytes: 2048,
            cubin_bytes: 512,
            cached,
        };
        Stats {
            phases: vec![("read".into(), second / 8, second / 4), ("device link".into(), second * 12, second * 20)],
            peak_memory: 3 << 30,
            cache_hits: 1,
            cache_misses: 2,
            partitions: 3,
            duplicate_instructions: 50,
            instructions: 1000,
            jobs: vec![job("_Z5smalli", 0.5, false), job("_Z5otheri", 0.0, true), job("_Z5largei", 4.0, false)],
        }
    }

    #[test]
    fn the_table() {
        let expected = "\
phase          wall       cpu
read        0.125 s   0.250 s
device link 12.000 s  20.000 s

peak memory     3.0 GiB
cache           1 found, 2 not
jobs            3 (1 from the cache), 3 partitions
duplicate code  50 of 1000 instructions (5.0 %)

   LLVM    ptxas  LLVM memory  ptxas memory      PTX   code  target  slowest jobs
4.000 s  8.000 s    100.0 MiB       1.5 GiB  2.0 KiB  512 B  sm_90   large(int)
0.500 s  1.000 s    100.0 MiB       1.5 GiB  2.0 KiB  512 B  sm_90   small(int)
";
        let words = |text: &str| {
            text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>()
        };
        let text = stats().render(StatsFormat::Text);
        assert_eq!(words(&text), words(expected));
        assert!(text.contains(expected.split_once("\n\n   LLVM").unwrap().1), "{text}");
        assert!(!Stats::default().render(StatsFormat::Text).contains("slowest"));
    }

    #[test]
    fn at_most_ten_jobs() {
        let one = stats().jobs.remove(0);
        let all = Stats { jobs: vec![one; 30], ..stats() };
        assert_eq!(all.render(StatsFormat::Text).matches("small(int)").count(), JOBS_SHOWN);
        assert_eq!(all.json()["jobs"].as_array().unwrap().len(), 30);
    }

    #[test]
    fn json_has_everything() {
        let value: Value = serde_json::from_str(&stats().render(StatsFormat::Json)).unwrap();
        assert_eq!(value["phases"][1]["wall_seconds"], 12.0);
        assert_eq!(value["cache"]["misses"], 2);
        assert_eq!(value["jobs"][0]["name"], "large(int)");
        assert_eq!(value["jobs"][2]["cached"], true);
        assert_eq!(value["peak_memory_bytes"], 3_u64 << 30);
    }
}
