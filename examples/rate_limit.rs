//! A rate limit across services: together they call a partner at most so often in any period.
//!
//! Each call takes a permit of a `Semaphore` that all services share, and keeps the permit for a whole period. The
//! story shows who called in each period.
//!
//! The page `lock_sync::guide::patterns` has the core of it: "A rate limit across services".
//!
//! ```text
//! cargo run --example rate_limit
//! LOCK_URL=redis://127.0.0.1:6379 cargo run --example rate_limit
//! ```

#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lock_any::lock_sync::Semaphore;
use lock_examples::{AnyError, exit, fresh, url};
use tokio::task::JoinSet;
use tokio::time::sleep;

/// The partner allows so many calls in a period.
const LIMIT: usize = 6;
const PERIOD: Duration = Duration::from_millis(200);
const SERVICES: [char; 3] = ['A', 'B', 'C'];
const TASKS_OF_A_SERVICE: usize = 3;
const CALLS_OF_A_TASK: usize = 4;

/// A call that the partner has seen: its instant and the service.
type Call = (Instant, char);

#[tokio::main]
async fn main() -> ExitCode {
    exit(run(&url()).await)
}

/// Has the services call, and checks how often they did.
async fn run(url: &str) -> Result<(), AnyError> {
    let name = fresh("partner");
    let mut tasks = JoinSet::new();
    for service in SERVICES {
        let limit = Arc::new(lock_any::connect(url).await?.semaphore(name.as_str(), LIMIT)?);
        for _ in 0..TASKS_OF_A_SERVICE {
            tasks.spawn(call(Arc::clone(&limit), service));
        }
    }
    let mut calls: Vec<Call> = Vec::new();
    for of_a_task in tasks.join_all().await {
        calls.extend(of_a_task?);
    }
    calls.sort_unstable();

    println!("{LIMIT} calls are allowed in {} ms.\n", PERIOD.as_millis());
    show(&calls);
    // The first call that is one too many comes a period later.
    let is_too_fast = |calls: &[Call]| calls[LIMIT].0 - calls[0].0 < PERIOD;
    if let Some(calls) = calls.windows(LIMIT + 1).find(|calls| is_too_fast(calls)) {
        return Err(format!("{} calls in less than a period: {calls:?}", LIMIT + 1).into());
    }
    println!("\n{} calls. None was one too many.", calls.len());
    Ok(())
}

/// One task of a service.
async fn call(limit: Arc<Semaphore>, service: char) -> Result<Vec<Call>, AnyError> {
    let mut calls = Vec::new();
    for _ in 0..CALLS_OF_A_TASK {
        let permit = Arc::clone(&limit).acquire_owned().await?;
        calls.push((Instant::now(), service)); // here the service calls the partner
        // If this process dies, the permit comes back when its lease ends. So the ttl must be longer than the period.
        tokio::spawn(async move {
            sleep(PERIOD).await;
            drop(permit);
        });
    }
    Ok(calls)
}

/// Prints a line for each period: which services called.
fn show(calls: &[Call]) {
    let Some((start, _)) = calls.first() else { return };
    let period = |call: &Call| (call.0 - *start).as_millis() / PERIOD.as_millis();
    for calls in calls.chunk_by(|one, next| period(one) == period(next)) {
        let services: String = calls.iter().map(|(_, service)| service).collect();
        println!("from {:>4} ms on  {services}", period(&calls[0]) * PERIOD.as_millis());
    }
}

#[cfg(test)]
mod tests {
    use lock_tests::{EtcdServer, PostgresServer, RedisServer};

    #[tokio::test(flavor = "multi_thread")]
    async fn the_limit_holds_over_memory() {
        super::run("memory:").await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_limit_holds_over_redis() {
        super::run(&RedisServer::start().url()).await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_limit_holds_over_postgres() {
        let server = PostgresServer::start();
        super::run(&server.locks()).await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_limit_holds_over_etcd() {
        let server = EtcdServer::start();
        super::run(&server.locks()).await.unwrap();
    }
}
