//! A farm, and the simulation of a link on it.
//!
//! The link plans, uploads what the store lacks and submits all jobs, the longest first. The server hands the next job to the first free
//! core. A machine fetches each file once; its files come one after the other. Results go to the link one after the other, which then joins
//! them.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};

use clap::Args;

use super::trace::{Job, Trace};

/// A farm with its network.
#[derive(Debug, Clone, Args)]
pub struct Farm {
    /// Machines that run jobs
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub machines: usize,
    /// Cores of each
    #[arg(long, value_name = "N", default_value_t = 16)]
    pub cores: usize,
    /// Cores of the machine that links
    #[arg(long, value_name = "N", default_value_t = 16)]
    pub local_cores: usize,
    /// Bandwidth of the machine that links, in either direction, in Mbit/s
    #[arg(long, value_name = "N", default_value_t = 1000.0)]
    pub uplink: f64,
    /// Bandwidth of each machine that runs jobs, in Mbit/s
    #[arg(long, value_name = "N", default_value_t = 10_000.0)]
    pub lan: f64,
    /// Time of a request and its answer on the way, in milliseconds
    #[arg(long, value_name = "N", default_value_t = 2.0)]
    pub rtt: f64,
    /// Time in which the server handles one job, in milliseconds
    #[arg(long, value_name = "N", default_value_t = 1.0)]
    pub dispatch: f64,
    /// Time that a worker needs for a job besides running it (a folder, a sandbox), in milliseconds
    #[arg(long, value_name = "N", default_value_t = 200.0)]
    pub overhead: f64,
    /// The store knows the program and the tools
    #[arg(long)]
    pub warm: bool,
    /// Jobs start as soon as their own inputs are uploaded
    #[arg(long)]
    pub pipelined: bool,
}

/// When each phase ends, in seconds since the beginning.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Times {
    /// The plan.
    pub plan: f64,
    /// The upload.
    pub uploaded: f64,
    /// The last job.
    pub executed: f64,
    /// The last result is there.
    pub received: f64,
    /// The image.
    pub joined: f64,
    /// The longest job alone.
    pub longest: f64,
    /// All jobs on all cores.
    pub evenly: f64,
}

impl Times {
    /// What takes most of the time.
    pub fn bound(&self) -> &'static str {
        let jobs = (self.executed - self.uploaded).max(0.0);
        let terms = [
            (self.plan, "plan"),
            (self.uploaded - self.plan, "upload"),
            (if self.longest > self.evenly { jobs } else { 0.0 }, "longest job"),
            (if self.longest > self.evenly { 0.0 } else { jobs }, "number of cores"),
            (self.received - self.executed, "download"),
            (self.joined - self.received, "join"),
        ];
        terms.into_iter().max_by(|one, other| one.0.total_cmp(&other.0)).map_or("", |(_, name)| name)
    }
}

impl Farm {
    /// The same with a store that knows the program, and jobs that do not wait for inputs of others.
    pub fn pipelined(&self) -> Self {
        Farm { warm: true, pipelined: true, ..self.clone() }
    }

    /// The same with more bandwidth for the machine that links.
    pub fn faster(&self, factor: f64) -> Self {
        Farm { uplink: self.uplink * factor, ..self.clone() }
    }

    /// The same without any cost of communication.
    pub fn ideal_network(&self) -> Self {
        let (uplink, lan) = (f64::INFINITY, f64::INFINITY);
        Farm { uplink, lan, rtt: 0.0, dispatch: 0.0, overhead: 0.0, ..self.pipelined() }
    }
}

/// Time on the way, in seconds.
fn transfer(bytes: u64, megabits: f64) -> f64 {
    bytes as f64 * 8.0 / (megabits * 1e6)
}

/// A moment, for the queue of free cores.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
struct Moment(f64);

impl Eq for Moment {}

#[expect(clippy::derive_ord_xor_partial_ord, reason = "no moment is NaN, and the order is the same")]
impl Ord for Moment {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// What a machine has.
#[derive(Debug, Default, Clone)]
struct Machine {
    has_tools: bool,
    units: HashSet<usize>,
    /// When its network is free.
    free: f64,
}

/// Simulates the link of a program that is `copies` times that of the trace, with units of their own.
pub fn simulate(trace: &Trace, copies: usize, farm: &Farm) -> Times {
    let jobs = all_jobs(trace, copies);
    let plan = trace.plan_seconds * copies as f64 / farm.local_cores as f64;
    let (available, uploaded) = upload(trace, &jobs, plan, farm);
    let (rtt, dispatch, overhead) = (farm.rtt / 1e3, farm.dispatch / 1e3, farm.overhead / 1e3);
    let mut machines = vec![Machine::default(); farm.machines];
    let slots = (0..farm.machines * farm.cores).map(|slot| Reverse((Moment(0.0), slot)));
    let mut slots: BinaryHeap<Reverse<(Moment, usize)>> = slots.collect();
    let (mut server, mut ends) = (0.0_f64, Vec::with_capacity(jobs.len()));
    for (job, available) in jobs.iter().zip(available) {
        let Some(Reverse((Moment(free), slot))) = slots.pop() else { break };
        server = server.max(available) + dispatch;
        let start = free.max(server) + rtt;
        // Cores of one machine are apart, so that the first jobs go to different machines.
        let machine = &mut machines[slot % farm.machines];
        let mut bytes = job.manifest;
        if !std::mem::replace(&mut machine.has_tools, true) {
            bytes += trace.program + trace.tools;
        }
        for unit in job.units.iter().filter(|unit| machine.units.insert(**unit)) {
            bytes += trace.units[unit % trace.units.len()];
        }
        machine.free = machine.free.max(start) + transfer(bytes, farm.lan);
        let end = machine.free + overhead + job.seconds;
        ends.push((end, job.result));
        slots.push(Reverse((Moment(end), slot)));
    }
    ends.sort_by(|one, other| one.0.total_cmp(&other.0));
    let executed = ends.last().map_or(uploaded, |(end, _)| end.max(uploaded));
    let received =
        ends.iter().fold(0.0_f64, |free, (end, result)| free.max(end + rtt) + transfer(*result, farm.uplink));
    let work: f64 = jobs.iter().map(|job| job.seconds + overhead).sum();
    Times {
        plan,
        uploaded,
        executed,
        received: received.max(executed),
        joined: received.max(executed) + trace.join_seconds * copies as f64,
        longest: trace.longest(),
        evenly: work / (farm.machines * farm.cores) as f64,
    }
}

/// The jobs of all copies, the longest first, with units of their own.
fn all_jobs(trace: &Trace, copies: usize) -> Vec<Job> {
    let copy = |copy: usize| {
        let first = copy * trace.units.len();
        trace
            .jobs
            .iter()
            .map(move |job| Job { units: job.units.iter().map(|unit| first + unit).collect(), ..job.clone() })
    };
    let mut jobs: Vec<Job> = (0..copies).flat_map(copy).collect();
    jobs.sort_by(|one, other| other.seconds.total_cmp(&one.seconds));
    jobs
}

/// When the inputs of each job are uploaded, and when all are. They are sent in the order of the jobs.
fn upload(trace: &Trace, jobs: &[Job], from: f64, farm: &Farm) -> (Vec<f64>, f64) {
    let rtt = farm.rtt / 1e3;
    // The store is asked once what it lacks.
    let mut now = from + rtt;
    if !farm.warm {
        now += transfer(trace.program + trace.tools, farm.uplink);
    }
    let mut sent = HashSet::new();
    let mut available = Vec::with_capacity(jobs.len());
    for job in jobs {
        let units = job.units.iter().filter(|unit| sent.insert(**unit));
        let bytes: u64 = units.map(|unit| trace.units[unit % trace.units.len()]).sum();
        now += transfer(bytes + job.manifest, farm.uplink);
        available.push(now);
    }
    if farm.pipelined {
        // What matters is when the first job can start.
        let first = available.first().copied().unwrap_or(now);
        return (available, first);
    }
    (vec![now; jobs.len()], now)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(seconds: &[f64]) -> Trace {
        let job = |seconds: &f64| Job { seconds: *seconds, units: vec![0], manifest: 0, result: 1_000_000 };
        Trace {
            name: String::new(),
            note: String::new(),
            kernels: 1,
            plan_seconds: 4.0,
            join_seconds: 1.0,
            program: 100_000_000,
            tools: 0,
            units: vec![25_000_000],
            jobs: seconds.iter().map(job).collect(),
        }
    }

    fn farm() -> Farm {
        Farm {
            machines: 2,
            cores: 1,
            local_cores: 4,
            uplink: 1000.0,
            lan: 1000.0,
            rtt: 0.0,
            dispatch: 0.0,
            overhead: 0.0,
            warm: false,
            pipelined: false,
        }
    }

    fn near(one: f64, other: f64) -> bool {
        (one - other).abs() < 1e-9
    }

    #[test]
    fn without_a_network_jobs_end_as_on_so_many_cores() {
        let times = simulate(&trace(&[1.0, 2.0, 3.0]), 1, &farm().ideal_network());
        assert!(near(times.plan, 1.0) && near(times.executed, 1.0 + 3.0) && near(times.joined, 5.0), "{times:?}");
        assert_eq!(times.bound(), "number of cores");
        let times = simulate(&trace(&[1.0, 9.0]), 1, &farm().ideal_network());
        assert_eq!((times.bound(), times.longest), ("longest job", 9.0));
    }

    #[test]
    fn every_byte_is_sent_once_and_fetched_once_by_each_machine() {
        let times = simulate(&trace(&[1.0, 1.0]), 1, &farm());
        // 125 MB at 125 MB/s up and to each machine, and two results of 1 MB.
        assert!(near(times.uploaded, 2.0) && near(times.executed, 4.0), "{times:?}");
        assert!(near(times.received, 4.016), "{times:?}");
        let warm = simulate(&trace(&[1.0, 1.0]), 1, &Farm { warm: true, ..farm() });
        assert!(near(warm.uploaded, 1.2), "{warm:?}");
    }

    #[test]
    fn copies_have_units_and_plans_of_their_own() {
        let times = simulate(&trace(&[1.0]), 2, &Farm { warm: true, ..farm() });
        assert!(near(times.plan, 2.0) && near(times.uploaded, 2.4), "{times:?}");
        assert!(near(times.joined - times.received, 2.0), "{times:?}");
    }
}
