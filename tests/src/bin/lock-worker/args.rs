//! The options of the worker.

use std::error::Error;
use std::time::Duration;

use lock_redis::RedisBackend;
use lock_sync::{Handoff, Locks};

use crate::shelf::Shelf;

/// The locks that the options describe.
pub(crate) fn parse(mut args: impl Iterator<Item = String>) -> Result<Shelf, Box<dyn Error>> {
    let url = match (args.next().as_deref(), args.next()) {
        (Some("--url"), Some(url)) => url,
        _ => return Err("the first option must be --url URL".into()),
    };
    let mut builder = Locks::builder(RedisBackend::open(url)?);
    let mut cache = None;
    while let Some(name) = args.next() {
        let value = args.next().ok_or_else(|| format!("{name} needs a value"))?;
        let millis = || value.parse().map(Duration::from_millis);
        builder = match name.as_str() {
            "--ttl" => builder.ttl(millis()?),
            "--max-hold" => builder.max_hold(millis()?),
            "--wait-limit" => builder.wait_limit(millis()?),
            "--renewal" => builder.renewal(value.parse()?),
            "--fair" if value.parse()? => builder.handoff(Handoff::Fair),
            "--fair" => builder,
            "--cache" => {
                cache = Some(millis()?);
                builder
            }
            _ => return Err(format!("unknown option {name}").into()),
        };
    }
    Ok(Shelf::new(builder.build()?, cache))
}
