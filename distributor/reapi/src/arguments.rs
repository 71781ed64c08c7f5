//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;

/// Runs jobs of fatlink on a server of the Remote Execution API. Name it to a link with
/// `--offload-distributor=fatlink-reapi --offload-distributor-arg=--server=grpc://HOST:PORT`.
#[derive(Debug, Clone, Parser)]
#[command(name = "fatlink-reapi", version)]
pub struct Arguments {
    /// The server: grpc://HOST:PORT, or grpcs://HOST:PORT with TLS
    #[arg(long, value_name = "URL")]
    pub server: String,
    /// The server of the blobs, if it is another one
    #[arg(long, value_name = "URL")]
    pub cas: Option<String>,
    /// The instance on the server
    #[arg(long, value_name = "NAME", default_value = "")]
    pub instance: String,
    /// What workers must have, as the server names it; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    pub platform: Vec<(String, String)>,
    /// A file with a token that is sent to the server
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// A file with certificates (PEM) of authorities to trust besides the system's
    #[arg(long, value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
    /// Jobs that the server has at a time
    #[arg(long, value_name = "N", default_value_t = 500)]
    pub jobs: usize,
    /// Jobs that run here when the server makes no progress [default: the number of processors]
    #[arg(long, value_name = "N")]
    pub local_jobs: Option<usize>,
    /// How long no job may end before jobs run here, too; twice the time of the longest job if that is more
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    pub patience: Duration,
    /// Time limit for the connection and for each answer of the server, but for the jobs' own
    #[arg(long, value_name = "SECONDS", default_value = "20", value_parser = seconds)]
    pub timeout: Duration,
    /// Do not use results of earlier links
    #[arg(long)]
    pub no_cached_results: bool,
    /// Say what was uploaded and where jobs ran
    #[arg(short, long)]
    pub verbose: bool,
    /// The list of jobs
    #[arg(value_name = "JOBS.json")]
    pub list: PathBuf,
}

impl Arguments {
    /// How many jobs may run here.
    pub fn local_jobs(&self) -> usize {
        let processors = || std::thread::available_parallelism().map_or(1, usize::from);
        self.local_jobs.unwrap_or_else(processors)
    }
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE")?;
    Ok((key.to_owned(), value.to_owned()))
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds.ok_or_else(|| "expected a number of seconds".to_owned())
}
