//! Servers of other kinds than Redis, and their faults.

use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lock_core::{InspectBackend, List};
use lock_etcd::EtcdBackend;
use lock_postgres::PostgresBackend;

use super::{Link, Remains};
use crate::chaos::Deployment;
use crate::{EtcdCluster, EtcdServer, PostgresServer, process};

/// The role of the workers and its password.
const USER: &str = "locks";
const PASSWORD: &str = "chaos";

/// The database of the locks.
const DATABASE: &str = "locks";

/// The only server of a stage, or a member of its cluster, where that is no Redis server. It can have several faults at
/// once.
#[derive(Debug)]
pub struct Other {
    server: Kind,
    state: Mutex<State>,
}

#[derive(Debug)]
enum Kind {
    Postgres(PostgresServer),
    Etcd(EtcdServer),
}

#[derive(Debug, Default)]
struct State {
    stops: u32,
    kills: u32,
    /// Whether it comes back without data.
    is_empty: bool,
}

impl Other {
    /// Starts those of the deployment. There are none if it has Redis servers, or no servers.
    pub(in crate::chaos) fn start(deployment: Deployment) -> Vec<Self> {
        let servers = match deployment {
            Deployment::Postgres => vec![Kind::Postgres(postgres())],
            Deployment::Etcd => vec![Kind::Etcd(EtcdServer::durable())],
            // What a member has written outlives its process, be it on the disk or not.
            Deployment::Members => {
                EtcdCluster::start().into_members().into_iter().map(Kind::Etcd).collect()
            }
            _ => Vec::new(),
        };
        let other = |server| Self { server, state: Mutex::default() };
        servers.into_iter().map(other).collect()
    }

    pub(super) fn addr(&self) -> SocketAddr {
        match &self.server {
            Kind::Postgres(server) => server.addr(),
            Kind::Etcd(server) => server.addr(),
        }
    }

    /// The URL for a worker that goes through these links, to this server and to the other members of its cluster.
    pub(super) fn url_through(&self, links: &[Link]) -> String {
        let addr = links[0].proxy().addr();
        match &self.server {
            Kind::Postgres(_) => {
                format!("postgres://{USER}:{PASSWORD}@{addr}/{DATABASE}?sslmode=disable")
            }
            Kind::Etcd(server) => {
                let others = links[1..].iter().map(|link| format!(",{}", link.proxy().addr()));
                server.url_through(addr) + &others.collect::<String>()
            }
        }
    }

    /// The processes that serve, if the server runs and no fault is being applied to it at this moment. PostgreSQL has
    /// one for each connection, and some of its own.
    pub(super) fn processes(&self) -> Vec<u32> {
        let Ok(state) = self.state.try_lock() else { return Vec::new() };
        match &self.server {
            _ if state.kills > 0 => Vec::new(),
            Kind::Postgres(server) => {
                let first = server.pid();
                [vec![first], process::children(first)].concat()
            }
            Kind::Etcd(server) => vec![server.pid()],
        }
    }

    pub(in crate::chaos) fn stop(&self) {
        let mut state = self.state();
        state.stops += 1;
        if state.stops == 1 && state.kills == 0 {
            self.stand();
        }
    }

    fn stand(&self) {
        match &self.server {
            Kind::Postgres(server) => server.stop(),
            Kind::Etcd(server) => server.stop(),
        }
    }

    pub(in crate::chaos) fn cont(&self) {
        let mut state = self.state();
        state.stops -= 1;
        if state.stops == 0 && state.kills == 0 {
            match &self.server {
                Kind::Postgres(server) => server.cont(),
                Kind::Etcd(server) => server.cont(),
            }
        }
    }

    pub(in crate::chaos) fn kill(&self) {
        let mut state = self.state();
        state.kills += 1;
        if state.kills == 1 {
            match &self.server {
                Kind::Postgres(server) => server.kill(),
                Kind::Etcd(server) => server.kill(),
            }
        }
    }

    /// Lets it come back, once no fault keeps it down any more. The fault that leaves the least data decides.
    pub(in crate::chaos) fn rise(&self, is_empty: bool) {
        let mut state = self.state();
        state.is_empty |= is_empty;
        state.kills -= 1;
        if state.kills > 0 {
            return;
        }
        let is_empty = std::mem::take(&mut state.is_empty);
        match &self.server {
            Kind::Postgres(server) => server.restart(),
            Kind::Etcd(server) => {
                if is_empty {
                    server.erase();
                }
                server.restart();
            }
        }
        if state.stops > 0 {
            self.stand();
        }
    }

    /// Deletes all locks, if it listens. Returns whether it did.
    pub(in crate::chaos) fn flush(&self) -> bool {
        let state = self.state();
        if !state.hears() {
            return false;
        }
        match &self.server {
            Kind::Postgres(server) => {
                let tables = "key, holder, waiter, watcher, semaphore, cell, fence, label";
                let tables = tables.replace(' ', "").replace(',', ", lock_v1.");
                server.try_sql(DATABASE, &format!("TRUNCATE lock_v1.{tables}")).is_ok()
            }
            Kind::Etcd(server) => {
                server.forget("");
                true
            }
        }
    }

    /// Ends the sessions of all clients, if it listens and has any. Returns whether it did.
    pub(in crate::chaos) fn kill_clients(&self) -> bool {
        let Kind::Postgres(server) = &self.server else { return false };
        let state = self.state();
        let end = format!(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE usename = '{USER}'"
        );
        state.hears() && server.try_sql(DATABASE, &end).is_ok_and(|count| count != "0\n")
    }

    /// Whether it listens.
    pub(in crate::chaos) fn hears(&self) -> bool {
        self.state().hears()
    }

    /// Whether it leads the cluster of which it is a member.
    pub(in crate::chaos) fn leads(&self) -> bool {
        matches!(&self.server, Kind::Etcd(server) if server.leads())
    }

    /// Passes the lead of its cluster on to another member. Returns whether it did.
    pub(in crate::chaos) fn pass_lead(&self, to: &Self) -> bool {
        match (&self.server, &to.server) {
            (Kind::Etcd(old), Kind::Etcd(new)) => old.pass_lead(new).is_ok(),
            _ => false,
        }
    }

    /// The locks that are held or waited for, and the connections of the workers.
    pub(super) fn remains(&self) -> Remains {
        match &self.server {
            Kind::Postgres(server) => {
                let count =
                    format!("SELECT count(*) FROM pg_stat_activity WHERE usename = '{USER}'");
                let connections = server.sql(DATABASE, &count).trim().parse().unwrap_or(usize::MAX);
                let store = PostgresBackend::open(server.url(DATABASE));
                remains(connections, store)
            }
            Kind::Etcd(server) => {
                let store = EtcdBackend::builder(server.url()).allow_unsafe_version().build();
                // The server does not tell its connections.
                remains(0, store)
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn hears(&self) -> bool {
        self.stops == 0 && self.kills == 0
    }
}

/// A server with the schema, and with a role that may call the verbs alone.
fn postgres() -> PostgresServer {
    let server = PostgresServer::durable();
    server.sql("postgres", &format!("CREATE ROLE {USER} LOGIN PASSWORD '{PASSWORD}'"));
    server.sql("postgres", &format!("CREATE DATABASE {DATABASE}"));
    server.sql(DATABASE, &PostgresBackend::schema());
    server.sql(DATABASE, &format!("CALL lock_v1.allow('{USER}')"));
    server
}

/// As an operator sees it, who lists the locks.
fn remains(connections: usize, store: Result<impl InspectBackend, lock_core::Error>) -> Remains {
    let list = || {
        let store = store?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.unwrap_or_else(|error| panic!("no runtime: {error}"));
        runtime.block_on(store.list(&List::of("")))
    };
    let page = list().unwrap_or_else(|error| panic!("the locks cannot be listed: {error:?}"));
    let left = page.locks.iter().map(|lock| {
        let inspection = &lock.inspection;
        let longest: Option<Duration> =
            inspection.holders.iter().filter_map(|holder| holder.remaining).max();
        let what =
            format!("{}: {} hold, {} wait", lock.key, inspection.holding, inspection.waiting);
        (what, longest)
    });
    Remains { keys: left.collect(), connections }
}
