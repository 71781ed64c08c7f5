//! The matrix as text, on one screen.

use super::super::findings::Finding;
use super::super::text::without_common_folder;
use super::cell::CellVerdict;
use super::judge::FileGate;
use super::report::{GateFinding, GateReport, SetCell};
use super::requirement::Rung;
use crate::listing::aligned;
use crate::printable;

/// Findings of one kind, beyond which they are counted.
const MOST_FINDINGS: usize = 6;

/// Files that get a line each; of more only those that fail do.
const MOST_FILES: usize = 12;

impl GateReport {
    /// Formats the verdict, the matrix, the files and what is wrong. `full`: everything, however long that is.
    pub fn text(&self, full: bool) -> String {
        let (place, named) = without_common_folder(&self.files);
        let names: Vec<(Option<&str>, &FileGate)> = named;
        let verdict = if self.passes { "passes" } else { "does not pass" };
        let mut out = format!("{}: {verdict}\n{place}\n", files(self.files.len()));
        out += &self.matrix();
        out += &self.stands_on();
        if self.files.len() > 1 {
            out += &self.by_file(&names, full);
        }
        if self.unlinked > 0 {
            out += &format!("{} passed over: objects and archives, which no process loads\n", files(self.unlinked));
        }
        if !self.unreadable.is_empty() {
            out += &format!("{} cannot be read, so nothing is known of them\n", files(self.unreadable.len()));
        }
        out += &self.findings_text(&names, full);
        match (self.serves.as_slice(), self.files.len()) {
            ([], _) => out += "\nno GPU is served as required\n",
            (gpus, 1) => out += &format!("\nserves {}\n", gpus.join(", ")),
            (gpus, _) => out += &format!("\nall files serve {}\n", gpus.join(", ")),
        }
        out
    }

    fn matrix(&self) -> String {
        let mut drivers: Vec<Option<u32>> = Vec::new();
        let mut gpus: Vec<&str> = Vec::new();
        for cell in &self.together {
            if !drivers.contains(&cell.driver) {
                drivers.push(cell.driver);
            }
            if !gpus.contains(&cell.gpu.as_str()) {
                gpus.push(&cell.gpu);
            }
        }
        let heading = |driver: &Option<u32>| driver.map_or("ANY DRIVER".to_owned(), |branch| branch.to_string());
        let mut lines = vec![["GPU".to_owned()].into_iter().chain(drivers.iter().map(heading)).collect::<Vec<_>>()];
        for gpu in gpus {
            let cell = |driver| self.together.iter().find(|cell| cell.gpu == gpu && cell.driver == driver);
            let row = drivers.iter().map(|driver| cell(*driver).map(|cell| self.cell(cell)).unwrap_or_default());
            lines.push([gpu.to_owned()].into_iter().chain(row).collect());
        }
        aligned(&lines, |_| true, |_| false)
    }

    /// `runs sass 90`, `FAILS`, `jit ptx 80, 12 s`: in capitals where it is not what was required.
    fn cell(&self, cell: &SetCell) -> String {
        let word = cell.verdict.word();
        let word = if cell.passes { word.to_owned() } else { word.to_uppercase() };
        let time = cell.compile_ms.map(|ms| format!(", {}", seconds(ms))).unwrap_or_default();
        let details = match (self.files.as_slice(), cell.failing) {
            ([one], _) => {
                let own = one.report.cells.iter().find(|own| own.gpu == cell.gpu && own.driver == cell.driver);
                own.map(|own| own.outcome.clone()).filter(|outcome| !outcome.is_empty())
            }
            (_, 0) => None,
            (_, failing) => Some(format!("({})", files(failing))),
        };
        let rung = if cell.verdict == CellVerdict::Absent { "" } else { mark(cell.rung) };
        format!("{word}{}{time}{rung}", details.map(|details| format!(" {details}")).unwrap_or_default())
    }

    /// What the cells stand on, for each mark that occurs.
    fn stands_on(&self) -> String {
        let of = |rung: Rung| self.together.iter().any(|cell| cell.rung == rung && cell.verdict != CellVerdict::Absent);
        let meanings = [
            (Rung::Documented, "documented: NVIDIA's and AMD's rules".to_owned()),
            (
                Rung::Assembled,
                format!(
                    "assembled by {}: all PTX that the driver would compile; the time is about that of the first start",
                    self.assemblers.join(" and ")
                ),
            ),
            (Rung::Observed, "observed: the rules were seen on this GPU with this driver".to_owned()),
            (Rung::Loaded, "loaded: seen as this machine's driver loaded the modules".to_owned()),
        ];
        let line = |(rung, meaning): &(Rung, String)| {
            let mark = mark(*rung).trim();
            of(*rung)
                .then(|| format!("{}{meaning}\n", if mark.is_empty() { String::new() } else { format!("{mark} ") }))
        };
        meanings.iter().filter_map(line).collect()
    }

    fn by_file(&self, names: &[(Option<&str>, &FileGate)], full: bool) -> String {
        let fails = |gate: &FileGate| gate.cells.iter().filter(|cell| !cell.passes).count();
        let all = full || names.len() <= MOST_FILES;
        let mut lines = vec![["FILE", "KERNELS", "NOT AS REQUIRED", "JIT"].map(str::to_owned)];
        let mut shown: Vec<&(Option<&str>, &FileGate)> =
            names.iter().filter(|(_, gate)| all || fails(gate) > 0).collect();
        shown.sort_by_key(|(_, gate)| std::cmp::Reverse(fails(gate)));
        let rest = names.len() - if full { shown.len() } else { shown.len().min(MOST_FILES) };
        let most = if full { shown.len() } else { MOST_FILES };
        for (name, gate) in shown.into_iter().take(most) {
            let jit = gate.cells.iter().filter(|cell| cell.verdict == CellVerdict::Jit).count();
            let of =
                |number: usize| if number == 0 { "-".to_owned() } else { format!("{number} of {}", gate.cells.len()) };
            let name = printable::name(name.unwrap_or_default()).into_owned();
            lines.push([name, gate.kernels.to_string(), of(fails(gate)), of(jit)]);
        }
        let and = if lines.len() > 1 { "and " } else { "" };
        let more = if rest > 0 { format!("{and}{} more; --full shows all\n", files(rest)) } else { String::new() };
        let table = if lines.len() > 1 { aligned(&lines, |_| true, |column| column == 1) } else { String::new() };
        format!("\n{table}{more}")
    }

    fn findings_text(&self, names: &[(Option<&str>, &FileGate)], full: bool) -> String {
        let short = |file: &str| {
            let place = self.files.iter().position(|of| of.file == file);
            place.and_then(|place| names.get(place)).and_then(|(name, _)| *name).unwrap_or(file).to_owned()
        };
        let mut codes: Vec<_> = self.findings.iter().map(|of| of.finding.code).collect();
        codes.sort_unstable();
        codes.dedup();
        let mut out = String::new();
        for code in codes {
            let of_code: Vec<&GateFinding> = self.findings.iter().filter(|of| of.finding.code == code).collect();
            let most = if full { of_code.len() } else { MOST_FINDINGS };
            out += "\n";
            for GateFinding { file, finding } in of_code.iter().take(most).copied() {
                let file = file.as_deref().filter(|_| self.files.len() > 1).map(|file| short(file) + ": ");
                out += &line(&file.unwrap_or_default(), finding);
            }
            if of_code.len() > most {
                out += &format!("error: {code}: {} more like these; --full shows all\n", of_code.len() - most);
            }
            out.extend(of_code.first().map(|of| format!("  {}\n", of.finding.advice)));
        }
        out
    }
}

fn line(file: &str, finding: &Finding) -> String {
    let gpus = if finding.gpus.is_empty() { String::new() } else { format!(" (on {})", finding.gpus.join(", ")) };
    let text = printable::name(&format!("{file}{}", finding.message)).into_owned();
    format!("{}: {}: {text}{gpus}\n", finding.severity, finding.code)
}

fn mark(rung: Rung) -> &'static str {
    match rung {
        Rung::Documented => "",
        Rung::Assembled => " [a]",
        Rung::Observed => " [o]",
        Rung::Loaded => " [l]",
    }
}

fn files(number: usize) -> String {
    format!("{number} file{}", if number == 1 { "" } else { "s" })
}

/// `0.8 s`, `12 s`.
fn seconds(ms: u64) -> String {
    match ms {
        0..10_000 => format!("{}.{} s", ms / 1000, ms % 1000 / 100),
        _ => format!("{} s", ms / 1000),
    }
}
