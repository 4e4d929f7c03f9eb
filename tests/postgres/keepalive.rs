//! How the server notices that a listening client has gone without a word.

#![cfg(target_os = "linux")]

use std::fs;
use std::time::Duration;

use lock_core::Backend;
use lock_postgres::PostgresBackend;
use lock_tests::{PostgresServer, Proxy, SOON, eventually};

use crate::support::{Database, claim, granted, handed_over, long, queued};

/// The times until the next probe of idle connections, of which this port is the server's.
fn probes(port: u16) -> Vec<Duration> {
    // The kernel counts these in hundredths of a second, whatever its own clock does.
    const TICK: Duration = Duration::from_millis(10);
    /// The connection is established.
    const ESTABLISHED: &str = "01";
    /// The timer is one for probes.
    const KEEPALIVE: &str = "02";
    let local = format!(":{port:04X}");
    let table = fs::read_to_string("/proc/net/tcp").unwrap();
    let rows = table.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    rows.filter(|row| row[1].ends_with(&local) && row[3] == ESTABLISHED)
        .filter_map(|row| {
            let (kind, when) = row[5].split_once(':')?;
            let ticks = u32::from_str_radix(when, 16).ok()?;
            (kind == KEEPALIVE).then(|| TICK * ticks)
        })
        .collect()
}

/// A client whose machine vanishes closes nothing. The server has to ask, and soon: while it does not know, the client
/// counts as there, and its place in a queue is not passed over. By default a server asks after two hours.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_server_probes_a_listening_connection_within_seconds() {
    let server = PostgresServer::start();
    let store = PostgresBackend::open(server.locks()).unwrap();
    let soon = || {
        probes(server.addr().port()).into_iter().filter(|it| *it <= Duration::from_secs(3)).count()
    };
    granted(&store, &claim("a"), long()).await;
    assert_eq!(soon(), 0, "a connection for verbs proves nothing, so it is not probed so often");
    let _watch = store.watch(&claim("a").key).await.unwrap();
    eventually("the listening connection is probed", SOON, || soon() == 1);
    let set = server.sql(
        "postgres",
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'lock-postgres'",
    );
    assert!(set.trim().parse::<u32>().unwrap() >= 2, "{set}");
}

/// The server gets no answer to its probes: neither from the client nor from the kernel of the client's machine.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_whose_machine_has_vanished_is_skipped_after_the_keepalive() {
    /// The server probes after 3 s. It gives up after five unanswered probes, one each second. The rest is for a loaded
    /// machine.
    const KEEPALIVE: Duration = Duration::from_secs(3 + 5 + 12);
    let database = Database::new();
    let proxy = Proxy::start(database.server.addr());
    let url = database.server.url_through(proxy.addr(), &database.name);
    let (holder, vanishing) = (database.open(), PostgresBackend::open(url).unwrap());
    let other = database.open();
    let (ours, first, second) = (claim("a"), claim("a"), claim("a"));
    granted(&holder, &ours, long()).await;
    let _lost = queued(&vanishing, &first).await;
    let mut watch = queued(&other, &second).await;
    let listening = || {
        let here = "database = (SELECT oid FROM pg_database WHERE datname = current_database())";
        let locks = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'";
        database.sql(&format!("{locks} AND {here}"))
    };
    assert_eq!(listening(), "2\n");

    proxy.refuse();
    proxy.vanish();
    eventually("the server ends the connection", KEEPALIVE, || listening() == "1\n");
    let places = "SELECT count(*) FROM lock_v1.waiter WHERE ends > clock_timestamp()";
    assert_eq!(database.sql(places), "2\n", "the place has not ended by itself");
    holder.release(&ours).await.unwrap();
    handed_over(&other, &mut watch, &second).await;
}
