//! The text of `--offload-plan`: all of it, or what fits on a screen.

use crate::device::symbol_errors::named;
use crate::diag::demangle::shortened_apart;
use crate::plan::report::{
    BackendReport, ImageReport, JobReport, KernelsReport, MemberReport, Outputs, PlanReport, SymbolReport, TargetReport,
};

/// Most lines of a plan that is printed whole.
const SCREEN: usize = 40;

/// Longest line of a brief plan, in characters.
const LINE_WIDTH: usize = 120;

/// Longest name of a kernel in a full plan, in characters.
const NAME_WIDTH: usize = 100;

/// Longest name in a brief plan.
const BRIEF_NAME_WIDTH: usize = 56;

/// How much of each list is printed.
#[derive(Clone, Copy)]
enum Extent {
    Full,
    /// The first rows of each list, and the largest jobs of each target.
    Brief {
        rows: usize,
        jobs: usize,
    },
}

struct Text {
    lines: Vec<String>,
    extent: Extent,
}

impl PlanReport {
    /// Formats all of the plan.
    pub fn full_text(&self) -> String {
        Text::of(self, Extent::Full).lines.join("\n") + "\n"
    }

    /// Formats the plan so that it fits on a screen, with the numbers of rows that are left out. A plan of few targets that fits is whole.
    pub fn text(&self) -> String {
        let whole = Text::of(self, Extent::Full).lines;
        let fits = |line: &String| line.chars().count() <= 2 * LINE_WIDTH;
        if whole.len() <= SCREEN && whole.iter().all(fits) {
            return whole.join("\n") + "\n";
        }
        let extent = match self.targets.len() {
            0 | 1 => Extent::Brief { rows: 2, jobs: 8 },
            2 => Extent::Brief { rows: 1, jobs: 2 },
            _ => Extent::Brief { rows: 0, jobs: 0 },
        };
        let mut lines: Vec<String> = Text::of(self, extent).lines.iter().map(|line| cut(line)).collect();
        lines.push("--offload-plan=full prints all of it".to_owned());
        lines.join("\n") + "\n"
    }
}

impl MemberReport {
    fn symbol(&self) -> &str {
        self.symbol.as_deref().unwrap_or_default()
    }
}

fn cut(line: &str) -> String {
    match line.char_indices().nth(LINE_WIDTH) {
        Some(_) => line.chars().take(LINE_WIDTH - 1).chain(['…']).collect(),
        None => line.to_owned(),
    }
}

impl Text {
    fn of(plan: &PlanReport, extent: Extent) -> Self {
        let mut text = Text { lines: vec![format!("offload plan: {}", plan.output)], extent };
        text.list("archive members", &plan.members, MemberReport::symbol, |MemberReport { file, symbol, of }, name| {
            match symbol {
                Some(_) => format!("member {file}: defines the {of} symbol {name}"),
                None => format!("member {file}: may define a {of} symbol that LTO-IR references"),
            }
        });
        if let Some(kernels) = &plan.kernels {
            text.kernels(kernels);
        }
        plan.targets.iter().for_each(|target| text.target(target));
        if plan.targets.is_empty() {
            text.lines.push("no device links".to_owned());
        }
        text
    }

    /// Adds a line for each row of a list and the name of its symbol, as far as the extent goes, and the number of those left out.
    fn list<R>(&mut self, what: &str, rows: &[R], symbol: impl Fn(&R) -> &str, line: impl Fn(&R, &str) -> String) {
        let shown = match self.extent {
            Extent::Full => rows,
            // One more row takes no more space than its number.
            Extent::Brief { rows: most, .. } if rows.len() == most + 1 => rows,
            Extent::Brief { rows: most, .. } => &rows[..most.min(rows.len())],
        };
        let symbols = shown.iter().map(symbol);
        let names: Vec<String> = match self.extent {
            Extent::Full => symbols.map(named).collect(),
            Extent::Brief { .. } => {
                shortened_apart(symbols, BRIEF_NAME_WIDTH).iter().map(|name| format!("'{name}'")).collect()
            }
        };
        self.lines.extend(shown.iter().zip(&names).map(|(row, name)| line(row, name)));
        self.rest(what, rows.len(), shown.len());
    }

    fn rest(&mut self, what: &str, count: usize, shown: usize) {
        match (count.saturating_sub(shown), shown) {
            (0, _) => {}
            (left, 0) => self.lines.push(format!("  {left} {what}")),
            (left, _) => self.lines.push(format!("  … {left} more {what}")),
        }
    }

    fn kernels(&mut self, kernels: &KernelsReport) {
        self.lines.extend(kernels.keeps_all.iter().map(|why| format!("all kernels are kept: {why}")));
        self.list(
            "dead kernels",
            &kernels.dead,
            |kernel| kernel,
            |_, name| format!("dead kernel {name}: no code that the program reaches launches it"),
        );
        self.list(
            "live kernels",
            &kernels.alive,
            |live| &live.kernel,
            |live, name| format!("live kernel {name}: {}", live.path.join(" -> ")),
        );
    }

    fn target(&mut self, target: &TargetReport) {
        self.lines.push(format!("target {} ({}):", target.target, target.platform));
        self.list(
            "inputs",
            &target.images,
            |_| "",
            |ImageReport { file, offset, code }, _| {
                let offset = offset.map(|offset| format!(" at offset {offset:#x}")).unwrap_or_default();
                format!("  input {file}{offset}: {code}")
            },
        );
        for Outputs { name, targets, .. } in target.outputs.iter().filter(|output| !output.targets.is_empty()) {
            self.lines.push(format!("  {name} for {}", targets.join(", ")));
        }
        if let Some(BackendReport { name, file, reason }) = &target.backend {
            self.lines.push(format!("  backend {name} ({file}): {reason}"));
        }
        if target.cached {
            self.lines.push("  the result is in the cache".to_owned());
        }
        self.list(
            "symbols",
            &target.symbols,
            |row| &row.symbol,
            |SymbolReport { image, visible, .. }, name| {
                let file = target.images.get(*image).map_or("", |image| &image.file);
                let scope = if *visible { "visible" } else { "internal" };
                format!("  symbol {name}: defined by {file}, {scope}")
            },
        );
        self.lines.extend(target.not_cut.iter().map(|reason| format!("  not cut into partitions: {reason}")));
        self.list(
            "dead kernels that are compiled",
            &target.dead_but_kept,
            |row| &row.kernel,
            |row, name| format!("  dead kernel {name} is compiled all the same: {}", row.reason),
        );
        self.list(
            "folded kernels",
            &target.folded,
            |row| &row.kernel,
            |row, name| format!("  folded kernel {name}: equal to {}", named(&row.equal)),
        );
        self.list(
            "reasons for kernels that are not folded",
            &target.not_folded,
            |_| "",
            |reason, _| format!("  not folded: {reason}"),
        );
        self.jobs(&target.jobs);
    }

    fn jobs(&mut self, jobs: &[JobReport]) {
        let mut shown: Vec<(usize, &JobReport)> = jobs.iter().enumerate().collect();
        let width = match self.extent {
            Extent::Full => NAME_WIDTH,
            Extent::Brief { jobs, .. } => {
                shown.sort_by_key(|(place, job)| (std::cmp::Reverse(job.instructions), *place));
                shown.truncate(jobs);
                BRIEF_NAME_WIDTH
            }
        };
        let count = shown.len();
        let names = shown.iter().flat_map(|(_, job)| job.kernels.iter().map(String::as_str));
        let mut names = shortened_apart(names, width).into_iter();
        for (place, job) in shown {
            let kernels: Vec<String> = names.by_ref().take(job.kernels.len()).collect();
            let kernels = if kernels.is_empty() { String::new() } else { format!(": {}", kernels.join(", ")) };
            let JobReport { runs_in, instructions, units, .. } = job;
            self.lines
                .push(format!("  job {place} in a {runs_in}: {instructions} instructions of {units} units{kernels}"));
        }
        self.rest("jobs", jobs.len(), count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(targets: usize, jobs: usize) -> PlanReport {
        let kernel = |number: usize| format!("_Z6launchI4Node3b{number:02}Evv");
        let job = |number: usize| JobReport {
            runs_in: "worker",
            kernels: vec![kernel(number)],
            instructions: number as u64,
            units: 1,
        };
        let target =
            TargetReport { target: "sm_90".to_owned(), jobs: (0..jobs).map(job).collect(), ..Default::default() };
        PlanReport { output: "app".to_owned(), targets: vec![target; targets], ..Default::default() }
    }

    #[test]
    fn what_fits_on_a_screen_is_whole() {
        let plan = plan(1, 38);
        assert_eq!(plan.text(), plan.full_text());
        assert_eq!(plan.text().lines().count(), 40);
    }

    #[test]
    fn long_plans_show_the_largest_jobs_and_what_is_left_out() {
        let text = plan(1, 100).text();
        assert!(text.contains("\n  job 99 in a worker: 99 instructions") && !text.contains("job 91 "), "{text}");
        assert!(text.ends_with("\n  … 92 more jobs\n--offload-plan=full prints all of it\n"), "{text}");
        assert!(plan(12, 100).text().lines().count() <= SCREEN);
        assert_eq!(plan(12, 100).full_text().matches("  job ").count(), 1200);
    }
}
