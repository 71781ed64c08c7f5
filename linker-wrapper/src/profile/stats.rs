//! `--offload-stats`: where the time and memory of a device link went, as a table or as JSON.

use std::fmt::Write;
use std::time::Duration;

use offload_bundle::demangle::readable;
use remote_cache::Counts;
use serde::Serialize;

use crate::cli::values::StatsFormat;
use crate::diag::{byte_size, demangle};

/// Maximum number of jobs in the table.
const JOBS_SHOWN: usize = 10;

/// Maximum length of a kernel's name in the table.
const NAME_WIDTH: usize = 60;

/// A phase of the link.
#[derive(Debug, Clone, Default)]
pub struct Phase {
    /// Its name.
    pub name: String,
    /// Its wall time.
    pub wall: Duration,
    /// Processor time of this process and of its tools.
    pub cpu: Duration,
}

/// The statistics of a link.
#[derive(Debug, Clone, Default)]
pub struct Stats {
    /// In the order in which they ended.
    pub phases: Vec<Phase>,
    /// Peak memory of the link and its tools at the same time, in bytes.
    pub peak_memory: u64,
    /// Number of results found in the cache.
    pub cache_hits: u64,
    /// Number of results not found in the cache.
    pub cache_misses: u64,
    /// How many of the results that relocatable links left in the inputs were used, and how many there are, if there are any.
    pub object_results: Option<(u64, u64)>,
    /// What was read from the remote cache and sent to it, if there is one.
    pub remote_cache: Option<Counts>,
    /// Number of partitions of all targets; a program in one piece is one.
    pub partitions: u64,
    /// Number of LLVM instructions that are compiled again in further partitions.
    pub duplicate_instructions: u64,
    /// Number of LLVM instructions of programs in several partitions, before partitioning.
    pub instructions: u64,
    /// Number of registered kernels that the program can launch; 0 if that was not determined.
    pub live_kernels: u64,
    /// Number of those that it cannot launch.
    pub dead_kernels: u64,
    /// Number of jobs that a distributor ran.
    pub jobs_elsewhere: u64,
    /// Number of jobs that it was given, and that ran here after all.
    pub jobs_returned: u64,
    /// Number of kernels of all targets that were not compiled because another one is equal.
    pub folded_kernels: u64,
    /// How many times bitcode was parsed before its compilation: at most once for each unit.
    pub units_opened: u64,
    /// All jobs.
    pub jobs: Vec<JobStat>,
}

/// The statistics of a job.
#[derive(Debug, Clone, Default)]
pub struct JobStat {
    /// Symbol of its largest kernel, or what it compiles in words.
    pub label: String,
    /// "sm_90".
    pub target: String,
    /// Wall time of reading, optimization and code generation.
    pub llvm_seconds: f64,
    /// Wall time of the tools that ran after LLVM.
    pub tool_seconds: f64,
    /// Peak memory of the process that ran LLVM, in bytes.
    pub llvm_peak: u64,
    /// Peak memory of these tools, in bytes.
    pub tools_peak: u64,
    /// Size of the texts that they read, in bytes.
    pub text_bytes: u64,
    /// Size of its machine code in bytes.
    pub code_bytes: u64,
    /// Its results were found in the cache.
    pub cached: bool,
}

impl JobStat {
    fn seconds(&self) -> f64 {
        self.llvm_seconds + self.tool_seconds
    }
}

impl Stats {
    /// Formats the statistics, with a line break at the end.
    pub fn render(&self, format: StatsFormat) -> String {
        match format {
            StatsFormat::Text => self.text(),
            StatsFormat::Json => serde_json::to_string(&self.json()).unwrap_or_default() + "\n",
        }
    }

    /// All jobs, the slowest first. Equal ones are sorted by name, so that the text is reproducible.
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
        let seconds = |time: Duration| format!("{:.3} s", time.as_secs_f64());
        let rows = self.phases.iter().map(|phase| vec![phase.name.clone(), seconds(phase.wall), seconds(phase.cpu)]);
        let phases = table(&["phase", "wall", "cpu"], rows.collect());
        let cached = self.jobs.iter().filter(|job| job.cached).count();
        let percent = 100.0 * self.duplicate_instructions as f64 / self.instructions.max(1) as f64;
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{phases}\npeak memory     {}", byte_size::show(self.peak_memory));
        let _ = writeln!(out, "cache           {} found, {} not", self.cache_hits, self.cache_misses);
        if let Some((used, all)) = self.object_results {
            let _ = writeln!(out, "kept results    {used} of {all} in the inputs used");
        }
        if let Some(remote) = &self.remote_cache {
            let _ = writeln!(out, "remote cache    {}", remote_text(remote));
        }
        let _ = writeln!(
            out,
            "jobs            {} ({cached} from the cache), {} partition{}",
            self.jobs.len(),
            self.partitions,
            if self.partitions == 1 { "" } else { "s" }
        );
        if self.jobs_elsewhere + self.jobs_returned > 0 {
            let (elsewhere, here) = (self.jobs_elsewhere, self.jobs_returned);
            let _ = writeln!(out, "distributor     {elsewhere} jobs run elsewhere, {here} here after all");
        }
        if self.instructions > 0 {
            let (duplicates, all) = (self.duplicate_instructions, self.instructions);
            let _ = writeln!(out, "duplicate code  {duplicates} of {all} instructions ({percent:.1} %)");
        }
        if self.live_kernels + self.dead_kernels > 0 {
            let all = self.live_kernels + self.dead_kernels;
            let _ = writeln!(out, "dead kernels    {} of {all}", self.dead_kernels);
        }
        if self.folded_kernels > 0 {
            let _ = writeln!(out, "equal kernels   {} not compiled", self.folded_kernels);
        }
        let slowest: Vec<_> = self.slowest().into_iter().filter(|job| !job.cached).take(JOBS_SHOWN).collect();
        if !slowest.is_empty() {
            let head = ["LLVM", "ptxas", "LLVM memory", "ptxas memory", "PTX", "code", "target", "slowest jobs"];
            let names = demangle::shortened_apart(slowest.iter().map(|job| job.label.as_str()), NAME_WIDTH);
            let rows = slowest.into_iter().zip(names).map(|(job, name)| job_row(job, name));
            let _ = write!(out, "\n{}", table(&head, rows.collect()));
        }
        out
    }

    fn json(&self) -> StatsJson<'_> {
        StatsJson {
            cache: CacheJson { hits: self.cache_hits, misses: self.cache_misses },
            dead_kernels: self.dead_kernels,
            duplicate_instructions: self.duplicate_instructions,
            folded_kernels: self.folded_kernels,
            live_kernels: self.live_kernels,
            instructions: self.instructions,
            units_opened: self.units_opened,
            jobs_elsewhere: self.jobs_elsewhere,
            jobs_returned: self.jobs_returned,
            jobs: self.slowest().into_iter().map(JobJson::of).collect(),
            object_results: self.object_results.map(|(used, all)| ObjectResultsJson { all, used }),
            partitions: self.partitions,
            peak_memory_bytes: self.peak_memory,
            remote_cache: self.remote_cache.as_ref().map(RemoteJson::of),
            phases: self.phases.iter().map(PhaseJson::of).collect(),
        }
    }
}

/// The statistics as JSON. The field names of this type and the following ones are its keys.
#[derive(Serialize)]
struct StatsJson<'s> {
    cache: CacheJson,
    dead_kernels: u64,
    duplicate_instructions: u64,
    folded_kernels: u64,
    instructions: u64,
    jobs: Vec<JobJson<'s>>,
    jobs_elsewhere: u64,
    jobs_returned: u64,
    live_kernels: u64,
    /// `null` if no input has any.
    object_results: Option<ObjectResultsJson>,
    partitions: u64,
    peak_memory_bytes: u64,
    phases: Vec<PhaseJson<'s>>,
    /// `null` without a remote cache.
    remote_cache: Option<RemoteJson>,
    units_opened: u64,
}

#[derive(Serialize)]
struct ObjectResultsJson {
    all: u64,
    used: u64,
}

#[derive(Serialize)]
struct CacheJson {
    hits: u64,
    misses: u64,
}

#[derive(Serialize)]
struct RemoteJson {
    hits: u64,
    misses: u64,
    received_bytes: u64,
    receiving_seconds: f64,
    refused: u64,
    sending_seconds: f64,
    sent: u64,
    sent_bytes: u64,
    unsent: u64,
}

impl RemoteJson {
    fn of(counts: &Counts) -> Self {
        let Counts { hits, misses, refused, received_bytes, receiving, sent, sent_bytes, sending, unsent } = *counts;
        RemoteJson {
            hits,
            misses,
            received_bytes,
            receiving_seconds: receiving.as_secs_f64(),
            refused,
            sending_seconds: sending.as_secs_f64(),
            sent,
            sent_bytes,
            unsent,
        }
    }
}

/// "3 found (1.2 MiB in 0.120 s), 1 not; 1 sent (20 KiB in 0.050 s)".
fn remote_text(counts: &Counts) -> String {
    let Counts { hits, misses, refused, received_bytes, receiving, sent, sent_bytes, sending, unsent } = *counts;
    let (received, sent_size) = (byte_size::show(received_bytes), byte_size::show(sent_bytes));
    let (receiving, sending) = (receiving.as_secs_f64(), sending.as_secs_f64());
    let mut text = format!(
        "{hits} found ({received} in {receiving:.3} s), {misses} not; {sent} sent ({sent_size} in {sending:.3} s)"
    );
    for (count, what) in [(refused, "refused"), (unsent, "not sent")] {
        if count > 0 {
            let _ = write!(text, ", {count} {what}");
        }
    }
    text
}

#[derive(Serialize)]
struct PhaseJson<'s> {
    cpu_seconds: f64,
    name: &'s str,
    wall_seconds: f64,
}

impl<'s> PhaseJson<'s> {
    fn of(phase: &'s Phase) -> Self {
        PhaseJson { cpu_seconds: phase.cpu.as_secs_f64(), name: &phase.name, wall_seconds: phase.wall.as_secs_f64() }
    }
}

#[derive(Serialize)]
struct JobJson<'s> {
    cached: bool,
    cubin_bytes: u64,
    kernel: &'s str,
    llvm_peak_bytes: u64,
    llvm_seconds: f64,
    name: String,
    ptx_bytes: u64,
    ptxas_peak_bytes: u64,
    ptxas_seconds: f64,
    target: &'s str,
}

impl<'s> JobJson<'s> {
    fn of(job: &'s JobStat) -> Self {
        JobJson {
            cached: job.cached,
            cubin_bytes: job.code_bytes,
            kernel: &job.label,
            llvm_peak_bytes: job.llvm_peak,
            llvm_seconds: job.llvm_seconds,
            name: readable(&job.label),
            ptx_bytes: job.text_bytes,
            ptxas_peak_bytes: job.tools_peak,
            ptxas_seconds: job.tool_seconds,
            target: &job.target,
        }
    }
}

fn job_row(job: &JobStat, name: String) -> Vec<String> {
    vec![
        format!("{:.3} s", job.llvm_seconds),
        format!("{:.3} s", job.tool_seconds),
        byte_size::show(job.llvm_peak),
        byte_size::show(job.tools_peak),
        byte_size::show(job.text_bytes),
        byte_size::show(job.code_bytes),
        job.target.clone(),
        name,
    ]
}

/// Formats columns as wide as their widest cell, with numbers aligned to the right.
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
    use serde_json::Value;

    fn stats() -> Stats {
        let second = Duration::from_millis(1000);
        let phase = |name: &str, wall, cpu| Phase { name: name.to_owned(), wall, cpu };
        let job = |label: &str, llvm_seconds: f64, cached| JobStat {
            label: label.to_owned(),
            target: "sm_90".to_owned(),
            llvm_seconds,
            tool_seconds: 2.0 * llvm_seconds,
            llvm_peak: 100 << 20,
            tools_peak: 3 << 29,
            text_bytes: 2048,
            code_bytes: 512,
            cached,
        };
        Stats {
            units_opened: 2,
            live_kernels: 4,
            dead_kernels: 3,
            jobs_elsewhere: 5,
            jobs_returned: 1,
            folded_kernels: 5,
            phases: vec![phase("read", second / 8, second / 4), phase("device link", second * 12, second * 20)],
            peak_memory: 3 << 30,
            cache_hits: 1,
            cache_misses: 2,
            object_results: Some((6, 7)),
            remote_cache: Some(Counts {
                hits: 3,
                misses: 4,
                refused: 1,
                received_bytes: 2048,
                receiving: second / 4,
                sent: 5,
                sent_bytes: 3 << 20,
                sending: second / 8,
                unsent: 0,
            }),
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
kept results    6 of 7 in the inputs used
remote cache    3 found (2.0 KiB in 0.250 s), 4 not; 5 sent (3.0 MiB in 0.125 s), 1 refused
jobs            3 (1 from the cache), 3 partitions
distributor     5 jobs run elsewhere, 1 here after all
duplicate code  50 of 1000 instructions (5.0 %)
dead kernels    3 of 7
equal kernels   5 not compiled

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
    fn a_program_in_one_piece_is_one_partition_without_duplicates() {
        let whole = Stats { partitions: 1, instructions: 0, jobs: stats().jobs[..1].to_vec(), ..stats() };
        let text = whole.render(StatsFormat::Text);
        assert!(text.contains("\njobs            1 (0 from the cache), 1 partition\n"), "{text}");
        assert!(!text.contains("duplicate code"), "{text}");
    }

    #[test]
    fn at_most_ten_jobs() {
        let one = stats().jobs.remove(0);
        let all = Stats { jobs: vec![one; 30], ..stats() };
        assert_eq!(all.render(StatsFormat::Text).matches("small(int)").count(), JOBS_SHOWN);
        assert_eq!(all.json().jobs.len(), 30);
    }

    #[test]
    fn json_has_everything() {
        let value: Value = serde_json::from_str(&stats().render(StatsFormat::Json)).unwrap();
        assert_eq!(value["phases"][1]["wall_seconds"], 12.0);
        assert_eq!(value["cache"]["misses"], 2);
        assert_eq!(value["object_results"]["used"], 6);
        assert_eq!(value["remote_cache"]["sent_bytes"], 3_u64 << 20);
        assert!(
            serde_json::from_str::<Value>(&Stats::default().render(StatsFormat::Json)).unwrap()["remote_cache"]
                .is_null()
        );
        assert_eq!(value["jobs"][0]["name"], "large(int)");
        assert_eq!(value["jobs"][2]["cached"], true);
        assert_eq!(value["dead_kernels"], 3);
        assert_eq!(value["folded_kernels"], 5);
        assert_eq!(value["peak_memory_bytes"], 3_u64 << 30);
    }
}
