//! The layer that measures phases for `--offload-stats`.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
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

/// The phases that have ended, in the order of their ends. The layer, which lives as long as the process, and the link's recorder share it.
#[derive(Debug, Clone, Default)]
pub struct EndedPhases(Arc<Mutex<Vec<Phase>>>);

impl EndedPhases {
    /// The phases that have ended since the last call.
    pub fn take(&self) -> Vec<Phase> {
        std::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Phase>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A phase that is running.
struct Running {
    name: String,
    wall: Instant,
    cpu: Duration,
}

/// Measures phases.
pub struct Phases {
    ended: EndedPhases,
}

/// The layer of a link whose statistics were requested.
pub fn layer(ended: EndedPhases) -> Phases {
    Phases { ended }
}

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
        self.ended.lock().push(Phase { name, wall_seconds: wall.elapsed().as_secs_f64(), cpu_seconds });
    }
}

/// Processor time of this process and of all its children that have ended.
fn processor_time() -> Duration {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name, in parentheses, may contain anything; the fields after it begin with the third.
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
        let ended = EndedPhases::default();
        let subscriber = tracing_subscriber::registry().with(layer(ended.clone()).with_filter(only(span::STATISTICS)));
        let sum = tracing::subscriber::with_default(subscriber, || {
            span::counted("outer", || {
                let _traced = span::traced("of the time trace", || unreachable!("there is no time trace"));
                span::counted("work", || (0..30_000_000_u64).fold(0, |sum, number| sum ^ number.wrapping_mul(sum | 1)))
            })
        });
        assert_ne!(sum, 1);
        let phases = ended.take();
        assert_eq!(phases.iter().map(|phase| &*phase.name).collect::<Vec<_>>(), ["work", "outer"]);
        assert!(phases[0].wall_seconds > 0.0 && phases[1].wall_seconds >= phases[0].wall_seconds);
    }
}
