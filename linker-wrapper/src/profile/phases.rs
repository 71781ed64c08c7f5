//! The layer that measures phases for `--offload-stats`.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tracing::Subscriber;
use tracing::span::{Attributes, Id};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use crate::profile::fields::Fields;
use crate::profile::stats::Phase;

/// Ticks per second in `/proc/self/stat`, on every supported Linux.
const TICKS: u64 = 100;

/// The phases that have ended, in the order of their ends.
static ENDED: Mutex<Vec<Phase>> = Mutex::new(Vec::new());

/// The phases that have ended since the last call.
pub fn take() -> Vec<Phase> {
    std::mem::take(&mut *ended())
}

fn ended() -> MutexGuard<'static, Vec<Phase>> {
    ENDED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A phase that is running.
struct Running {
    name: String,
    wall: Instant,
    cpu: Duration,
}

/// The layer of a link whose statistics were requested: measures phases.
pub struct Phases;

impl<S: Subscriber + for<'l> LookupSpan<'l>> Layer<S> for Phases {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let name = Fields::of(attributes).name;
        span.extensions_mut().insert(Running { name, wall: Instant::now(), cpu: processor_time() });
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(Running { name, wall, cpu }) = context.span(&id).and_then(|span| span.extensions_mut().remove())
        else {
            return;
        };
        let cpu_seconds = processor_time().saturating_sub(cpu).as_secs_f64();
        ended().push(Phase { name, wall_seconds: wall.elapsed().as_secs_f64(), cpu_seconds });
    }
}

/// Processor time of this process and of all its children that have ended.
fn processor_time() -> Duration {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name, in parentheses, may contain anything; the fields behind it begin with the third.
    let rest = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks: u64 = rest.split_whitespace().skip(11).take(4).filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 1000 / TICKS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{only, span};
    use tracing_subscriber::layer::SubscriberExt;

    #[test]
    fn phases_are_timed_in_the_order_of_their_ends() {
        let subscriber = tracing_subscriber::registry().with(Phases.with_filter(only(span::STATISTICS)));
        let sum = tracing::subscriber::with_default(subscriber, || {
            span::counted("outer", || {
                let _traced = span::traced("of the time trace", || unreachable!("there is no time trace"));
                span::counted("work", || (0..30_000_000_u64).fold(0, |sum, number| sum ^ number.wrapping_mul(sum | 1)))
            })
        });
        assert_ne!(sum, 1);
        let phases = take();
        assert_eq!(phases.iter().map(|phase| &*phase.name).collect::<Vec<_>>(), ["work", "outer"]);
        assert!(phases[0].wall_seconds > 0.0 && phases[1].wall_seconds >= phases[0].wall_seconds);
    }
}
