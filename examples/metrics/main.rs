//! Locks under load, with their metrics for Prometheus.
//!
//! Two clients of one store contend for a few locks. One observer records what happens to both, and a small endpoint
//! shows the metrics. `docs/grafana/locks.json` is a dashboard for them, and `docs/prometheus` has what Prometheus
//! needs.
//!
//! Over memory there is no network, so there are no requests, no connections and no nodes.
//!
//! ```text
//! cargo run --example metrics                       # until Ctrl-C
//! cargo run --example metrics -- --seconds 5        # then it prints the metrics
//! LOCK_URL=redis://127.0.0.1:6379 cargo run --example metrics
//! METRICS_ADDR=127.0.0.1:9464 cargo run --example metrics
//! ```

#![forbid(unsafe_code)]

mod endpoint;
mod load;

use std::env;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use lock_examples::{AnyError, exit, fresh, url};
use lock_telemetry::Metrics;
use lock_telemetry::names::{BUCKETS, HOLD_TTL_RATIO, RATIO_BUCKETS};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusRecorder};
use tokio::time::sleep;

use crate::endpoint::Endpoint;
use crate::load::Load;

/// The variable that names the address of the endpoint.
const ADDR: &str = "METRICS_ADDR";
/// Any free port of this machine.
const ANY_PORT: &str = "127.0.0.1:0";

#[tokio::main]
async fn main() -> ExitCode {
    exit(run().await)
}

async fn run() -> Result<(), AnyError> {
    let limit = seconds(env::args().skip(1))?;
    let addr = env::var(ADDR).unwrap_or_else(|_| ANY_PORT.to_owned()).parse()?;
    let show = Show::begin(&url(), addr).await?;
    println!("metrics: http://{}/metrics", show.endpoint.addr());
    match limit {
        None => tokio::signal::ctrl_c().await?,
        Some(limit) => {
            sleep(limit).await;
            print!("{}", show.endpoint.page());
        }
    }
    show.end().await
}

/// For how long the example runs, if the command line says so.
fn seconds(args: impl Iterator<Item = String>) -> Result<Option<Duration>, AnyError> {
    match args.collect::<Vec<_>>().as_slice() {
        [] => Ok(None),
        [option, value] if option == "--seconds" => {
            Ok(Some(Duration::try_from_secs_f64(value.parse()?)?))
        }
        _ => Err("the only option is `--seconds N`".into()),
    }
}

/// Locks under load, and the endpoint.
struct Show {
    load: Load,
    endpoint: Endpoint,
}

impl Show {
    async fn begin(url: &str, addr: SocketAddr) -> Result<Self, AnyError> {
        let recorder = recorder()?;
        let endpoint = Endpoint::open(addr, recorder.handle()).await?;
        let scheme = url.split(':').next().unwrap_or_default().to_owned();
        let metrics = Metrics::builder()
            .recorder(recorder)
            .label("backend", scheme)
            .classify(load::class)
            .build();
        let load = Load::begin(url, &fresh("metrics"), Arc::new(metrics)).await?;
        Ok(Self { load, endpoint })
    }

    async fn end(self) -> Result<(), AnyError> {
        self.load.end().await
    }
}

/// A recorder that keeps buckets, so that quantiles can be computed over several processes.
fn recorder() -> Result<PrometheusRecorder, AnyError> {
    let ratio = Matcher::Full(HOLD_TTL_RATIO.name.to_owned());
    Ok(PrometheusBuilder::new()
        // Units and kinds become part of the names: `lock_acquire_duration_seconds`, `lock_lost_total`.
        .with_recommended_naming(true)
        .set_buckets_for_metric(Matcher::Prefix("lock".to_owned()), BUCKETS)?
        .set_buckets_for_metric(ratio, RATIO_BUCKETS)?
        .build_recorder())
}

#[cfg(test)]
mod tests;
