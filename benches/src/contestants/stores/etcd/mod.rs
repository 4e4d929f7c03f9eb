//! One etcd server: as it is by default, and on a disk that takes no time.

mod etcdctl;
mod own;
mod transactions;
mod wire;

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use lock_core::AnyBackend;
use lock_etcd::EtcdBackend;
use lock_tests::EtcdServer;

use self::etcdctl::{Lock, Read};
use self::own::Own;
use self::transactions::Transactions;
use super::{Deployment, Reach, Rival, Store};
use crate::{Entrant, Failure, Meter, Site};

pub(super) const STORE: Store = Store {
    name: "etcd",
    reach: Reach::Machines,
    has_fast_disk: false,
    rivals: &[transactions("two transactions"), own("its own transactions"), LOCK, READ],
    start: || start(EtcdServer::durable()),
    open,
};

/// The same on a disk that answers at once, for which the server without `fsync` stands.
pub(super) const FAST_DISK: Store = Store {
    name: "etcd, fast disk",
    reach: Reach::Machines,
    has_fast_disk: true,
    rivals: &[transactions("two transactions, fast disk"), own("its own transactions, fast disk")],
    start: || start(EtcdServer::start()),
    open,
};

/// The lock that etcd brings along: its package `concurrency`, by its client tool.
const LOCK: Rival = Rival {
    name: "etcdctl lock",
    is_floor: false,
    waits: true,
    // Each caller has a process.
    most: 4,
    open: |name, url, clients| async move { Ok(entrants!(name, clients, Lock::at(&url))) }.boxed(),
};

/// What it takes to start the client tool.
const READ: Rival = Rival {
    name: "etcdctl get",
    is_floor: false,
    waits: false,
    most: 4,
    open: |name, url, clients| async move { Ok(entrants!(name, clients, Read::at(&url))) }.boxed(),
};

/// Two transactions that change one key and wait for the disk.
const fn transactions(name: &'static str) -> Rival {
    Rival {
        name,
        is_floor: true,
        waits: false,
        most: usize::MAX,
        open: |name, url, clients| {
            async move { Ok(entrants!(name, clients, Transactions::connect(&url).await?)) }.boxed()
        },
    }
}

/// What our lock sends, by a client that does nothing else.
const fn own(name: &'static str) -> Rival {
    Rival {
        name,
        is_floor: true,
        waits: false,
        most: usize::MAX,
        open: |name, url, clients| {
            async move { Ok(entrants!(name, clients, Own::connect(&url).await?)) }.boxed()
        },
    }
}

fn start(server: EtcdServer) -> Result<Arc<dyn Site>, Failure> {
    let meters = vec![Meter::of_process(server.pid())];
    Ok(Arc::new(Deployment { url: server.url(), meters, _servers: server }))
}

/// One member is safe in any version.
fn open(url: String) -> BoxFuture<'static, Result<AnyBackend, Failure>> {
    async move { Ok(AnyBackend::new(EtcdBackend::builder(url).allow_unsafe_version().build()?)) }
        .boxed()
}

/// The address as other clients of etcd want it.
fn http(url: &str) -> String {
    url.replacen("etcd://", "http://", 1)
}
