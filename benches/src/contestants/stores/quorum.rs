//! A quorum of three Redis servers.

use std::sync::Arc;

use futures::FutureExt;
use lock_core::AnyBackend;
use lock_tests::RedisServer;

use super::{Deployment, Reach, Store, set_up};
use crate::contestants::quorums;
use crate::{Failure, Meter};

/// How many servers there are.
const SERVERS: usize = 3;

/// Between the URLs of the servers.
const COMMA: &str = ",";

pub(super) const STORE: Store = Store {
    name: "quorum of three",
    reach: Reach::Machines,
    has_fast_disk: false,
    rivals: &[],
    start: || {
        let servers: Vec<RedisServer> = (0..SERVERS).map(|_| RedisServer::start()).collect();
        let urls: Vec<String> = servers.iter().map(RedisServer::url).collect();
        set_up(quorums::init(&urls))?;
        let meters = servers.iter().map(|server| Meter::of_process(server.pid())).collect();
        Ok(Arc::new(Deployment { url: urls.join(COMMA), meters, _servers: servers }))
    },
    open: |urls| {
        async move {
            let urls: Vec<String> = urls.split(COMMA).map(str::to_owned).collect();
            Ok::<_, Failure>(AnyBackend::new(quorums::quorum(&urls, false).await?))
        }
        .boxed()
    },
};
