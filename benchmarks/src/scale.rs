//! `cargo xtask bench scale`: where the time of a link would go whose jobs run on many machines. A simulation, fed with the jobs that
//! `benchmarks/scale/trace.py` has measured.

mod farm;
mod trace;

use std::path::PathBuf;

use clap::Args;
use xtask::failure::Result;

use farm::{Farm, Times, simulate};
use trace::Trace;

/// What is simulated.
#[derive(Debug, Args)]
pub struct Request {
    /// Traces of links, written by benchmarks/scale/trace.py
    #[arg(value_name = "TRACE", required = true)]
    traces: Vec<PathBuf>,
    /// Kernels of the program: the jobs of a trace are repeated until there are as many
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    kernels: usize,
    #[command(flatten)]
    farm: Farm,
}

/// Prints a table for each trace: the usual farm, and what would change with another one.
pub fn run(request: &Request) -> Result<()> {
    for file in &request.traces {
        let trace = Trace::read(file)?;
        let copies = trace.copies_for(request.kernels);
        println!("{}", heading(&trace, copies));
        println!("| farm | link, s | plan | upload | jobs | last result | join | bound |");
        println!("| --- | --- | --- | --- | --- | --- | --- | --- |");
        for (name, farm, trace) in variants(&request.farm, &trace) {
            println!("{}", row(&name, &simulate(&trace, copies, &farm)));
        }
        println!();
    }
    Ok(())
}

fn heading(trace: &Trace, copies: usize) -> String {
    let seconds: f64 = trace.jobs.iter().map(|job| job.seconds).sum();
    let longest = trace.longest();
    format!(
        "{} ({}): {} kernels, {} jobs with {seconds:.0} s of processor time, the longest {longest:.1} s; {} times, {} kernels, {} jobs\n",
        trace.name,
        trace.note,
        trace.kernels,
        trace.jobs.len(),
        copies,
        trace.kernels * copies,
        trace.jobs.len() * copies,
    )
}

/// Farms that differ from the usual one in one thing each, and the programs that they link.
fn variants(usual: &Farm, trace: &Trace) -> Vec<(String, Farm, Trace)> {
    let farm = |name: String, farm: Farm| (name, farm, trace.clone());
    let Farm { machines, cores, uplink, lan, .. } = *usual;
    let network = format!("{uplink} Mbit/s up, {lan} each");
    let one_machine = Farm { machines: 1, ..usual.ideal_network() };
    vec![
        farm(format!("{machines} machines of {cores} cores, {network}"), usual.clone()),
        farm("the program and the tools are known to the store".to_owned(), Farm { warm: true, ..usual.clone() }),
        farm("known, and jobs start as soon as their own inputs are there".to_owned(), usual.pipelined()),
        farm("the same, ten times the bandwidth of the link's machine".to_owned(), usual.pipelined().faster(10.0)),
        farm("no network at all".to_owned(), usual.ideal_network()),
        farm("half of the machines".to_owned(), Farm { machines: (machines / 2).max(1), ..usual.pipelined() }),
        farm("four times the machines".to_owned(), Farm { machines: machines * 4, ..usual.pipelined() }),
        ("no job longer than 2 s".to_owned(), usual.pipelined(), trace.cut(2.0)),
        ("the join takes a tenth".to_owned(), usual.pipelined(), trace.with_join(0.1)),
        farm(format!("one machine of {cores} cores, without a network"), one_machine),
    ]
}

fn row(name: &str, times: &Times) -> String {
    let Times { plan, uploaded, executed, received, joined, .. } = times;
    format!(
        "| {name} | {joined:.1} | {plan:.1} | {:.1} | {:.1} | {:.1} | {:.1} | {} |",
        uploaded - plan,
        executed - uploaded,
        received - executed,
        joined - received,
        times.bound()
    )
}
