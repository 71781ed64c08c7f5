//! A report of 10,000 kernels in headless Chromium: the time until it is on the screen, and that of a search.

use serde::Deserialize;

use super::Outcome;
use crate::bench::Bench;
use xtask::browser;
use xtask::failure::{Failure, Result};
use xtask::repository::Repository;
use xtask::step::Progress;

const ROUNDS: usize = 7;
/// Milliseconds until the page is on the screen.
const VIEW_GOAL: f64 = 1000.0;
/// Milliseconds from a change of the search to the frame that shows its result.
const SEARCH_GOAL: f64 = 100.0;

/// What the script prints, in milliseconds.
#[derive(Debug, Deserialize)]
struct Measured {
    kernels: u64,
    bytes: u64,
    first_view: f64,
    slowest_view: f64,
    search: f64,
    slowest_search: f64,
}

/// Makes the report and opens it.
pub fn run(bench: &mut Bench, progress: &Progress) -> Result<Outcome> {
    browser::install()?;
    let repository = Repository::find()?;
    let mut python = browser::script(&repository, "html-report/browser/measure.py");
    bench.linkers.environment().apply(&mut python);
    python.arg("--bundle").arg(bench.linkers.dist.join("bin/offload-bundle")).arg("--work").arg(&bench.folder);
    python.arg(format!("--rounds={}", bench.rounds.unwrap_or(ROUNDS)));
    let output = progress.run(&mut python)?;
    // Other lines are messages of the browser.
    let line = output.lines().find(|line| line.starts_with('{')).unwrap_or_default();
    let measured: Measured = serde_json::from_str(line)
        .map_err(|error| Failure { message: format!("no figures: {error}"), output: output.clone() })?;
    Ok(outcome(&measured))
}

fn outcome(measured: &Measured) -> Outcome {
    let Measured { kernels, bytes, first_view, slowest_view, search, slowest_search } = *measured;
    let mut missed = Vec::new();
    if first_view > VIEW_GOAL {
        missed.push(format!("first view after {first_view:.0} ms, goal {VIEW_GOAL}"));
    }
    if search > SEARCH_GOAL {
        missed.push(format!("search in {search:.0} ms, goal {SEARCH_GOAL}"));
    }
    let details = format!(
        "- {kernels} kernels, a page of {:.1} MB\n- first view after {first_view:.0} ms (slowest {slowest_view:.0}), a search in {search:.0} ms (slowest \
         {slowest_search:.0}), which includes two frames of 16 ms\n",
        bytes as f64 / 1e6
    );
    Outcome {
        brief: format!("first view {first_view:.0} ms, search {search:.0} ms"),
        details,
        missed,
        ..Outcome::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_goal_can_be_missed() {
        let measured = |first_view, search| Measured {
            kernels: 1,
            bytes: 1,
            first_view,
            slowest_view: first_view,
            search,
            slowest_search: 3000.0,
        };
        for (view, search, missed) in [(900.0, 99.0, 0), (1001.0, 99.0, 1), (900.0, 101.0, 1), (2000.0, 200.0, 2)] {
            assert_eq!(outcome(&measured(view, search)).missed.len(), missed);
        }
    }
}
