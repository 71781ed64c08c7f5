//! Caches and distributors.

use offload_bundle::user_cache::CacheChoice;

use crate::cli::error::Error;
use crate::cli::flags::flag::{Flag, Reproduced, Topic, Value, add, assign, set};
use crate::cli::options::Options;
use crate::cli::values::{self, RemoteChoice};
use crate::diag::error::Errors;

pub const TOPIC: Topic = Topic {
    title: "Caches and other machines",
    flags: &[
        Flag::joined(
            &["--offload-cache="],
            "<dir>|on|off",
            "Cache device link results in this directory; on: the user's cache directory (default: \
             FATLINK_CACHE, else off)",
            |options, value| set(&mut options.cache, CacheChoice::parse(value.word).ok_or(Error::EmptyCache)),
        )
        .reproduced(Reproduced::Omitted),
        Flag::joined(
            &["--offload-cache-size="],
            "<size>",
            "Size of the cache, such as 500M; what was not used for longest goes first (default: 10G)",
            |options, value| set(&mut options.cache_size, values::cache_size(value.text)),
        ),
        Flag::joined(
            &["--offload-cache-remote="],
            "<url>|off",
            "Share cached results through this store, too: http(s)://, dav(s):// or s3:// (default: \
             FATLINK_CACHE_REMOTE, else off)",
            |options, value| {
                set(&mut options.remote_cache.place, RemoteChoice::parse("--offload-cache-remote=", value.text))
            },
        )
        .reproduced(Reproduced::LeftOut),
        Flag::joined(
            &["--offload-cache-remote-mode="],
            "read-write|read-only",
            "Whether results are added to the store (default: FATLINK_CACHE_REMOTE_MODE, else read-write)",
            |options, value| {
                set(&mut options.remote_cache.mode, values::remote_mode("--offload-cache-remote-mode=", value.text))
            },
        )
        .reproduced(Reproduced::LeftOut),
        Flag::joined(
            &["--offload-cache-remote-timeout="],
            "<seconds>",
            "Time for each request to the store, and at the end for results still to be sent (default: \
             FATLINK_CACHE_REMOTE_TIMEOUT, else 10)",
            |options, value| {
                set(
                    &mut options.remote_cache.limit,
                    values::remote_timeout("--offload-cache-remote-timeout=", value.text),
                )
            },
        )
        .reproduced(Reproduced::LeftOut),
        Flag::joined(
            &["--offload-cache-key-file="],
            "<file>",
            "A secret: only results sealed with it are used from the store (default: FATLINK_CACHE_KEY_FILE, \
             else none)",
            |options, value| assign(&mut options.remote_cache.key_file, value.path()),
        )
        .reproduced(Reproduced::LeftOut),
        Flag::joined(
            &["--offload-distributor="],
            "<program>",
            "Let this program run jobs elsewhere, as in LLVM's distributed ThinLTO (fatlink-slurm, fatlink-reapi)",
            distributor,
        )
        .reproduced(Reproduced::LeftOut),
        Flag::joined(&["--offload-distributor-arg="], "<arg>", "An argument for that program", |options, value| {
            add(&mut options.distributor_arguments, [value.word.to_owned()])
        })
        .reproduced(Reproduced::LeftOut),
    ],
};

fn distributor(options: &mut Options, value: &Value<'_>) -> Result<(), Errors> {
    let program = Some(value.word.to_owned()).filter(|program| !program.is_empty());
    set(&mut options.distributor, program.ok_or(Error::NoDistributor))
}
