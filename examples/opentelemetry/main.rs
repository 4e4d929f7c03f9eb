//! Traces and metrics of locks, sent to an OpenTelemetry collector.
//!
//! Several requests of a service want one lock. Each request has a span; the spans of its lock are inside it. The
//! collector gets the spans, and the metrics of both observers' locks.
//!
//! ```text
//! OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318 cargo run --example opentelemetry
//! ```

#![forbid(unsafe_code)]

use std::env;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use lock_any::lock_sync::Locks;
use lock_core::observer::{Observer, Observers};
use lock_example_opentelemetry::Bridge;
use lock_examples::{AnyError, exit, fresh, url};
use lock_telemetry::{Metrics, Traces};
use opentelemetry::metrics::MeterProvider;
use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::{MetricExporter, Protocol, SpanExporter, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::metrics::SdkMeterProvider;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tracing::{Instrument, Subscriber, info_span};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::Registry;

/// The variable that names the collector.
const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const DEFAULT_ENDPOINT: &str = "http://localhost:4318";
/// How many requests the service has at once.
const REQUESTS: u32 = 8;

fn main() -> ExitCode {
    exit(run())
}

fn run() -> Result<(), AnyError> {
    let endpoint = env::var(ENDPOINT).unwrap_or_else(|_| DEFAULT_ENDPOINT.to_owned());
    let telemetry = Telemetry::to(&endpoint)?;
    tracing::subscriber::set_global_default(telemetry.subscriber())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(serve(&url(), telemetry.observer()))?;
    telemetry.end()?;
    println!("{REQUESTS} requests were served. {endpoint} has their traces and metrics.");
    Ok(())
}

/// The exporters. They send from threads of their own.
struct Telemetry {
    spans: SdkTracerProvider,
    meters: SdkMeterProvider,
}

impl Telemetry {
    fn to(endpoint: &str) -> Result<Self, AnyError> {
        let resource = Resource::builder().with_service_name("lock-example").build();
        let spans = SpanExporter::builder()
            .with_http()
            .with_protocol(Protocol::HttpJson)
            .with_endpoint(format!("{endpoint}/v1/traces"))
            .build()?;
        let metrics = MetricExporter::builder()
            .with_http()
            .with_protocol(Protocol::HttpJson)
            .with_endpoint(format!("{endpoint}/v1/metrics"))
            .build()?;
        Ok(Self {
            spans: SdkTracerProvider::builder()
                .with_batch_exporter(spans)
                .with_resource(resource.clone())
                .build(),
            meters: SdkMeterProvider::builder()
                .with_periodic_exporter(metrics)
                .with_resource(resource)
                .build(),
        })
    }

    /// Makes spans of OpenTelemetry from the spans of the service and of its locks, and of nothing else.
    fn subscriber(&self) -> impl Subscriber + Send + Sync + use<> {
        let wanted = Targets::new()
            .with_target("lock", tracing::Level::INFO)
            .with_target(module_path!(), tracing::Level::INFO);
        let layer = tracing_opentelemetry::layer().with_tracer(self.spans.tracer("locks"));
        Registry::default().with(layer.with_filter(wanted))
    }

    /// Both observers as one.
    fn observer(&self) -> Arc<dyn Observer> {
        let bridge = Bridge::new(self.meters.meter("locks"));
        let mut observers = Observers::none();
        observers.add(Arc::new(Metrics::builder().recorder(bridge).build()));
        observers.add(Arc::new(Traces::new()));
        Arc::new(observers)
    }

    /// Sends what is left.
    fn end(self) -> Result<(), AnyError> {
        self.spans.shutdown()?;
        Ok(self.meters.shutdown()?)
    }
}

/// Serves some requests at once.
async fn serve(url: &str, observer: Arc<dyn Observer>) -> Result<(), AnyError> {
    let locks = lock_any::connect_observed(url, observer).await?;
    let (name, mut requests) = (fresh("opentelemetry"), JoinSet::new());
    for number in 0..REQUESTS {
        let request = answer(locks.clone(), name.clone());
        requests.spawn(request.instrument(info_span!("request", number)));
    }
    while let Some(done) = requests.join_next().await {
        done??;
    }
    locks.shutdown().await;
    Ok(())
}

/// A request: it works for a while, and needs the lock for a part of that.
async fn answer(locks: Locks, name: String) -> Result<(), AnyError> {
    let guard = locks.lock(name.as_str()).await?;
    sleep(Duration::from_millis(5)).await;
    drop(guard);
    sleep(Duration::from_millis(1)).await;
    Ok(())
}

#[cfg(test)]
mod tests;
