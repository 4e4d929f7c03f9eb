//! The server's round trip.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::Failure;
use crate::contestants::Plain;

/// The times of commands that do nothing: back to back, or each after a pause.
///
/// # Errors
///
/// If the server does not answer.
pub async fn pings(
    plain: Arc<Plain>,
    time: Duration,
    pause: Option<Duration>,
) -> Result<Vec<Duration>, Failure> {
    let (begin, mut times) = (Instant::now(), Vec::new());
    while begin.elapsed() < time {
        if let Some(pause) = pause {
            tokio::time::sleep(pause).await;
        }
        let start = Instant::now();
        plain.ping().await?;
        times.push(start.elapsed());
    }
    Ok(times)
}
