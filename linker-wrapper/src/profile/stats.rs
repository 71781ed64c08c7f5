//! `--offload-stats`: where the time and memory of a device link went, as a table or as JSON.

use std::fmt::Write;

use offload_bundle::demangle::readable;
use remote_cache::Counts;
use serde::{Serialize, Serializer};

use crate::cli::values::StatsFormat;
use crate::diag::{byte_size, demangle};

/// Maximum number of jobs in the table.
const JOBS_SHOWN: usize = 10;

/// Maximum length of a kernel's name in the table.
const NAME_WIDTH: usize = 60;

/// A phase of the link.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Phase {
    /// Processor time of this process and of its tools.
    pub cpu_seconds: f64,
    /// Its name.
    pub name: String,
    /// Its wall time.
    pub wall_seconds: f64,
}

/// The statistics of a link. The field names of this type and of those in it are the keys of the JSON form.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Stats {
    /// How many results were found in the cache.
    pub cache: Found,
    /// Number of registered kernels that the program cannot launch; 0 if that was not determined.
    pub dead_kernels: u64,
    /// Number of LLVM instructions that are compiled again in further partitions.
    pub duplicate_instructions: u64,
    /// Number of kernels of all targets that were not compiled because another one is equal.
    pub folded_kernels: u64,
    /// Number of LLVM instructions of programs in several partitions, before partitioning.
    pub instructions: u64,
    /// All jobs.
    pub jobs: Vec<JobStat>,
    /// Number of jobs that a distributor ran.
    pub jobs_elsewhere: u64,
    /// Number of jobs that it was given, and that ran here after all.
    pub jobs_returned: u64,
    /// Number of registered kernels that the program can launch.
    pub live_kernels: u64,
    /// The results that relocatable links left in the inputs, if there are any.
    pub object_results: Option<KeptResults>,
    /// Number of partitions of all targets; a program in one piece is one.
    pub partitions: u64,
    /// Peak memory of the link and its tools at the same time.
    pub peak_memory_bytes: u64,
    /// In the order in which they ended.
    pub phases: Vec<Phase>,
    /// What was read from the remote cache and sent to it, if there is one.
    pub remote_cache: Option<Counts>,
    /// How many times bitcode was parsed before its compilation: at most once for each unit.
    pub units_opened: u64,
}

/// How many results the cache had.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Found {
    /// Found.
    pub hits: u64,
    /// Not found.
    pub misses: u64,
}

/// Results in the inputs.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct KeptResults {
    /// How many there are.
    pub all: u64,
    /// How many were used.
    pub used: u64,
}

/// The statistics of a job.
#[derive(Debug, Clone, Default, Serialize)]
pub struct JobStat {
    /// Its results were found in the cache.
    pub cached: bool,
    /// Size of its machine code in bytes.
    #[serde(rename = "cubin_bytes")]
    pub code_bytes: u64,
    /// Symbol of its largest kernel, or what it compiles in words.
    #[serde(flatten, serialize_with = "with_readable_name")]
    pub label: String,
    /// Peak memory of the process that ran LLVM, in bytes.
    #[serde(rename = "llvm_peak_bytes")]
    pub llvm_peak: u64,
    /// Wall time of reading, optimization and code generation.
    pub llvm_seconds: f64,
    /// Size of the texts that the tools after LLVM read, in bytes.
    #[serde(rename = "ptx_bytes")]
    pub text_bytes: u64,
    /// Peak memory of these tools, in bytes.
    #[serde(rename = "ptxas_peak_bytes")]
    pub tools_peak: u64,
    /// Their wall time.
    #[serde(rename = "ptxas_seconds")]
    pub tool_seconds: f64,
    /// "sm_90".
    pub target: String,
}

/// Writes the symbol of a kernel, and its name for people.
fn with_readable_name<S: Serializer>(label: &String, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map([("kernel", label), ("name", &readable(label))])
}

impl JobStat {
    fn seconds(&self) -> f64 {
        self.llvm_seconds + self.tool_seconds
    }
}

impl Stats {
    /// Formats the statistics, with a line break at the end.
    pub fn render(&self, format: StatsFormat) -> String {
        // The slowest job first. Equal ones are sorted by name, so that the text is reproducible.
        let mut sorted = self.clone();
        sorted.jobs.sort_by(|one, other| {
            let names = || (&one.label, &one.target).cmp(&(&other.label, &other.target));
            other.seconds().total_cmp(&one.seconds()).then_with(names)
        });
        match format {
            StatsFormat::Text => sorted.text(),
            StatsFormat::Json => serde_json::to_string(&sorted).unwrap_or_default() + "\n",
        }
    }

    fn text(&self) -> String {
        let seconds = |seconds: f64| format!("{seconds:.3} s");
        let phase = |phase: &Phase| vec![phase.name.clone(), seconds(phase.wall_seconds), seconds(phase.cpu_seconds)];
        let mut out = table(&["phase", "wall", "cpu"], self.phases.iter().map(phase).collect()) + "\n";
        for (name, value) in self.figures() {
            // Writing to a String cannot fail.
            let _ = writeln!(out, "{name:<16}{value}");
        }
        let slowest: Vec<_> = self.jobs.iter().filter(|job| !job.cached).take(JOBS_SHOWN).collect();
        if !slowest.is_empty() {
            let head = ["LLVM", "ptxas", "LLVM memory", "ptxas memory", "PTX", "code", "target", "slowest jobs"];
            let names = demangle::shortened_apart(slowest.iter().map(|job| job.label.as_str()), NAME_WIDTH);
            let rows = slowest.into_iter().zip(names).map(|(job, name)| job_row(job, name));
            let _ = write!(out, "\n{}", table(&head, rows.collect()));
        }
        out
    }

    /// Those that this link has, by their names.
    fn figures(&self) -> Vec<(&'static str, String)> {
        let Stats { cache: Found { hits, misses }, duplicate_instructions, instructions, .. } = self;
        let (jobs, cached) = (self.jobs.len(), self.jobs.iter().filter(|job| job.cached).count());
        let (partitions, plural) = (self.partitions, if self.partitions == 1 { "" } else { "s" });
        let mut figures = vec![
            ("peak memory", byte_size::show(self.peak_memory_bytes)),
            ("cache", format!("{hits} found, {misses} not")),
        ];
        let kept = |KeptResults { all, used }: KeptResults| format!("{used} of {all} in the inputs used");
        figures.extend(self.object_results.map(|results| ("kept results", kept(results))));
        figures.extend(self.remote_cache.map(|counts| ("remote cache", remote_text(&counts))));
        figures.push(("jobs", format!("{jobs} ({cached} from the cache), {partitions} partition{plural}")));
        if self.jobs_elsewhere + self.jobs_returned > 0 {
            let (elsewhere, here) = (self.jobs_elsewhere, self.jobs_returned);
            figures.push(("distributor", format!("{elsewhere} jobs run elsewhere, {here} here after all")));
        }
        if *instructions > 0 {
            let percent = 100.0 * *duplicate_instructions as f64 / *instructions as f64;
            let text = format!("{duplicate_instructions} of {instructions} instructions ({percent:.1} %)");
            figures.push(("duplicate code", text));
        }
        let kernels = self.live_kernels + self.dead_kernels;
        if kernels > 0 {
            figures.push(("dead kernels", format!("{} of {kernels}", self.dead_kernels)));
        }
        if self.folded_kernels > 0 {
            figures.push(("equal kernels", format!("{} not compiled", self.folded_kernels)));
        }
        figures
    }
}

/// "3 found (1.2 MiB in 0.120 s), 1 not; 1 sent (20 KiB in 0.050 s)".
fn remote_text(counts: &Counts) -> String {
    let Counts { hits, misses, receiving_seconds, sending_seconds, sent, .. } = counts;
    let (received, sent_size) = (byte_size::show(counts.received_bytes), byte_size::show(counts.sent_bytes));
    let mut text = format!(
        "{hits} found ({received} in {receiving_seconds:.3} s), {misses} not; \
         {sent} sent ({sent_size} in {sending_seconds:.3} s)"
    );
    for (count, what) in [(counts.refused, "refused"), (counts.unsent, "not sent")] {
        if count > 0 {
            let _ = write!(text, ", {count} {what}");
        }
    }
    text
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
        let phase = |name: &str, wall_seconds, cpu_seconds| Phase { name: name.to_owned(), wall_seconds, cpu_seconds };
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
            phases: vec![phase("read", 0.125, 0.25), phase("device link", 12.0, 20.0)],
            peak_memory_bytes: 3 << 30,
            cache: Found { hits: 1, misses: 2 },
            object_results: Some(KeptResults { all: 7, used: 6 }),
            remote_cache: Some(Counts {
                hits: 3,
                misses: 4,
                refused: 1,
                received_bytes: 2048,
                receiving_seconds: 0.25,
                sent: 5,
                sent_bytes: 3 << 20,
                sending_seconds: 0.125,
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
        assert_eq!(all.render(StatsFormat::Json).matches("\"kernel\":\"_Z5smalli\"").count(), 30);
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
