//! One pass after another.

use std::time::{Duration, Instant};

use crate::{Contestant, Effort, Failure};

/// Locks and unlocks keys in turn, `count` times. Returns the time that this took.
pub(crate) async fn pairs<C: Contestant>(
    client: &C,
    names: &[String],
    count: u64,
) -> Result<Duration, Failure> {
    let mut keys = Vec::with_capacity(names.len());
    for name in names {
        keys.push(client.key(name)?);
    }
    let start = Instant::now();
    for (key, _) in keys.iter().cycle().zip(0..count) {
        client.locked(key, std::future::ready(())).await?;
    }
    Ok(start.elapsed())
}

/// The number of passes that fill a sample. To find it, this runs some passes, which also warm everything up.
///
/// The first passes open a connection, and a server may plan its statements meanwhile. So they take as long as many later
/// passes. Each number of passes runs twice, and the shorter time counts.
///
/// # Errors
///
/// Those of the contestant.
pub fn calibrate(
    effort: &Effort,
    mut pairs: impl FnMut(u64) -> Result<Duration, Failure>,
) -> Result<u64, Failure> {
    let mut count = 1;
    loop {
        let elapsed = pairs(count)?.min(pairs(count)?);
        if elapsed >= effort.sample / 2 {
            let share = effort.sample.as_secs_f64() / elapsed.as_secs_f64();
            return Ok(((count as f64 * share) as u64).max(1));
        }
        count *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_first_passes_are_not_the_measure() {
        let effort = Effort::full();
        let (mut is_first, each) = (true, effort.sample / 100);
        let count = calibrate(&effort, |count| {
            let once = if std::mem::take(&mut is_first) { effort.sample } else { Duration::ZERO };
            Ok(once + each * u32::try_from(count).unwrap())
        });
        assert!((95..=100).contains(&count.unwrap()));
    }
}
