//! The options of the worker.

use std::error::Error;
use std::num::ParseIntError;
use std::time::Duration;

use lock_core::{Backend, Ttl};
use lock_etcd::EtcdBackend;
use lock_postgres::PostgresBackend;
use lock_redis::RedisBackend;
use lock_redlock::Redlock;
use lock_sync::{Handoff, Locks};

use super::shelf::Shelf;
use super::store::Store;

/// The locks that the options describe: of one store, or of a quorum of Redis servers if there are several URLs.
pub(crate) async fn parse(mut args: impl Iterator<Item = String>) -> Result<Shelf, Box<dyn Error>> {
    let (mut urls, mut quorum) = (Vec::new(), Redlock::builder());
    let (mut options, mut cache) = (Vec::new(), None);
    while let Some(name) = args.next() {
        let value = args.next().ok_or_else(|| format!("{name} needs a value"))?;
        match name.as_str() {
            "--url" => urls.push(value),
            "--max-ttl" => quorum = quorum.max_ttl(Ttl::new(millis(&value)?)?),
            "--node-timeout" => quorum = quorum.node_timeout(millis(&value)?),
            "--cache" => cache = Some(millis(&value)?),
            _ => options.push((name, value)),
        }
    }
    let store = match &urls[..] {
        [] => return Err("there must be a --url URL".into()),
        [url] => Store::Server(locks_at(url, options)?),
        urls => {
            let nodes = urls.iter().map(RedisBackend::open).collect::<Result<Vec<_>, _>>()?;
            Store::Quorum(locks(quorum.nodes(nodes).build().await?, options)?)
        }
    };
    Ok(Shelf::new(store, cache))
}

/// The locks of the store that the URL names. The scheme says the kind of the store.
fn locks_at(url: &str, options: Vec<(String, String)>) -> Result<Locks, Box<dyn Error>> {
    Ok(match url.split_once(':') {
        Some(("postgres", _)) => locks(PostgresBackend::open(url)?, options)?.erase(),
        Some(("etcd", _)) => {
            // The tests have one member, of any version.
            let etcd = EtcdBackend::builder(url).allow_unsafe_version().build()?;
            locks(etcd, options)?.erase()
        }
        _ => locks(RedisBackend::open(url)?, options)?.erase(),
    })
}

fn locks<B: Backend>(
    backend: B,
    options: Vec<(String, String)>,
) -> Result<Locks<B>, Box<dyn Error>> {
    let mut builder = Locks::builder(backend);
    for (name, value) in options {
        builder = match name.as_str() {
            "--ttl" => builder.ttl(millis(&value)?),
            "--max-hold" => builder.max_hold(millis(&value)?),
            "--wait-limit" => builder.wait_limit(millis(&value)?),
            "--renewal" => builder.renewal(value.parse()?),
            "--fair" if value.parse()? => builder.handoff(Handoff::Fair),
            "--fair" => builder,
            "--budget" => {
                let time = millis(&value)?;
                builder.handoff(Handoff::Budget { handoffs: u32::MAX, time })
            }
            _ => return Err(format!("unknown option {name}").into()),
        };
    }
    Ok(builder.build()?)
}

fn millis(value: &str) -> Result<Duration, ParseIntError> {
    value.parse().map(Duration::from_millis)
}
