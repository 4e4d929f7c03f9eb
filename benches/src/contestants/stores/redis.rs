//! One Redis server, by itself and with a replica that confirms.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use lock_core::AnyBackend;
use lock_redis::RedisBackend;
use lock_tests::{RedisServer, Sentinels};

use super::{Deployment, Reach, Rival, Store};
use crate::contestants::{PLAIN, Plain};
use crate::{Entrant, Meter};

/// How many replicas confirm.
const REPLICAS: u32 = 1;

/// How long a replica may take to confirm.
const LIMIT: Duration = Duration::from_millis(500);

/// No server fails.
const PATIENCE: Duration = Duration::from_secs(3_600);

pub(super) const STORE: Store = Store {
    name: "Redis",
    reach: Reach::Machines,
    has_fast_disk: false,
    rivals: &[Rival {
        name: PLAIN,
        is_floor: true,
        waits: false,
        most: usize::MAX,
        open: |name, url, clients| {
            async move { Ok(entrants!(name, clients, Plain::connect(&url).await?)) }.boxed()
        },
    }],
    start: || {
        let server = RedisServer::start();
        let meters = vec![Meter::of_process(server.pid())];
        Ok(Arc::new(Deployment { url: server.url(), meters, _servers: server }))
    },
    open: |url| async move { Ok(AnyBackend::new(RedisBackend::open(url)?)) }.boxed(),
};

pub(super) const CONFIRMED: Store = Store {
    name: "Redis, confirmed",
    reach: Reach::Machines,
    has_fast_disk: false,
    rivals: &[],
    start: || {
        let service = Sentinels::with_patience(REPLICAS as usize, 1, PATIENCE);
        let servers = service.servers();
        let meters = servers.iter().map(|server| Meter::of_process(server.pid())).collect();
        Ok(Arc::new(Deployment { url: servers[0].url(), meters, _servers: service }))
    },
    open: |url| {
        async move {
            let backend = RedisBackend::builder(url).confirm(REPLICAS, LIMIT).build()?;
            Ok(AnyBackend::new(backend))
        }
        .boxed()
    },
};
