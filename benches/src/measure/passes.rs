//! One pass after another, each with its time.

use std::time::{Duration, Instant};

use tokio::time::timeout;

use crate::{Contestant, Failure};

/// The outcome of passes one after another.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Passes {
    /// The time of each successful pass.
    pub times: Vec<Duration>,
    /// How many passes failed.
    pub failed: u64,
    /// The reason of the first failure.
    pub trouble: Option<String>,
}

impl Passes {
    /// The outcome of these passes, all successful.
    pub fn of(times: Vec<Duration>) -> Self {
        Self { times, ..Self::default() }
    }

    /// How many passes there were.
    pub fn total(&self) -> u64 {
        self.times.len() as u64 + self.failed
    }

    /// Adds the passes of another outcome.
    pub fn merge(&mut self, other: &Self) {
        self.times.extend(&other.times);
        self.failed += other.failed;
        self.trouble = self.trouble.take().or_else(|| other.trouble.clone());
    }
}

/// Locks and unlocks a key for a while, at least once.
pub(crate) async fn passes<C: Contestant>(
    client: &C,
    name: &str,
    time: Duration,
    limit: Duration,
) -> Result<Passes, Failure> {
    let (key, mut passes) = (client.key(name)?, Passes::default());
    let begin = Instant::now();
    loop {
        let start = Instant::now();
        let outcome = timeout(limit, client.locked(&key, std::future::ready(()))).await;
        let took = start.elapsed();
        let trouble = match outcome {
            Ok(Ok(())) => None,
            Ok(Err(failure)) => Some(failure.to_string()),
            Err(_) => Some(format!("not within {limit:?}")),
        };
        match trouble {
            None => passes.times.push(took),
            Some(trouble) => {
                passes.failed += 1;
                passes.trouble.get_or_insert(trouble);
            }
        }
        if begin.elapsed() >= time {
            return Ok(passes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails, does not return, and succeeds, in turn.
    #[derive(Default)]
    struct Moody(std::sync::atomic::AtomicU64);

    impl Contestant for Moody {
        type Key = ();

        const INNER: &'static [&'static str] = &[];

        fn key(&self, _: &str) -> Result<(), Failure> {
            Ok(())
        }

        async fn locked<S>(&self, (): &(), section: S) -> Result<(), Failure>
        where
            S: Future<Output = ()> + Send + 'static,
        {
            section.await;
            match self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed) % 3 {
                0 => Err("no".into()),
                1 => std::future::pending().await,
                _ => Ok(()),
            }
        }
    }

    #[tokio::test]
    async fn failures_are_counted_and_have_no_time() {
        let (time, limit) = (Duration::from_secs(1), Duration::from_millis(5));
        let passes = passes(&Moody::default(), "a", time, limit).await.unwrap();
        let (failed, succeeded) = (passes.failed, passes.times.len() as u64);
        assert!(failed >= 2 * succeeded && failed <= 2 * succeeded + 2, "{passes:?}");
        assert!(succeeded > 0 && passes.total() == failed + succeeded);
        assert_eq!(passes.trouble.as_deref(), Some("no"));
    }
}
