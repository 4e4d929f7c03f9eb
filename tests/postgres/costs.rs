//! What waiting and passing on cost the server, by its own count.

use std::time::{Duration, Instant};

use futures::future::join_all;
use lock_core::Backend;
use lock_postgres::PostgresBackend;
use lock_sync::{Locks, MutexGuard};
use lock_tests::{PostgresServer, SOON, eventually, eventually_async, soon};
use tokio::runtime::Handle;
use tokio::task::JoinSet;

use crate::support::{Database, claim};

/// A lease that is renewed after no test is over.
const LONG: Duration = Duration::from_secs(120);

/// The statements of the clients so far, and how often each was sent. This leaves out the functions that a statement
/// calls, the labels of clients, which come in the background, and the statements of this test.
const SENT: &str = "SELECT calls, query FROM pg_stat_statements WHERE toplevel \
     AND query NOT LIKE '%pg\\_stat%' AND query NOT LIKE '%introduce(%'";

/// How many stores the clients share: one for the holder, and one for each of ten waiters. A hundred would need too
/// many connections.
const STORES: usize = 11;

fn stores(url: &str) -> Vec<PostgresBackend> {
    (0..STORES).map(|_| PostgresBackend::open(url).unwrap()).collect()
}

/// A client with a place of its own in the queue.
fn client(store: &PostgresBackend) -> Locks<PostgresBackend> {
    Locks::builder(store.clone()).ttl(LONG).on_runtime(Handle::current()).build().unwrap()
}

/// A server that counts the statements it receives.
struct Counting(PostgresServer);

impl Counting {
    fn start() -> Self {
        let settings = ["fsync=off", "shared_preload_libraries=pg_stat_statements"];
        let server = PostgresServer::with(&settings);
        server.sql("postgres", "CREATE EXTENSION pg_stat_statements");
        Self(server)
    }

    fn begin(&self) {
        self.0.sql("postgres", "SELECT pg_stat_statements_reset()");
    }

    /// The statements of the clients about locks since the beginning: how many they are, and what they are.
    fn sent(&self) -> (u64, String) {
        self.sent_and("query LIKE '%lock\\_v1.%'")
    }

    /// All statements of the clients since the beginning.
    fn sent_of_any_kind(&self) -> (u64, String) {
        self.sent_and("true")
    }

    /// Waits until the clients have sent no statement about locks for a second, and counts from then on.
    async fn begin_when_quiet(&self) {
        eventually_async("the clients are quiet", SOON * 6, async || {
            self.begin();
            tokio::time::sleep(Duration::from_secs(1)).await;
            self.sent().0 == 0
        })
        .await;
        self.begin();
    }

    fn sent_and(&self, that: &str) -> (u64, String) {
        let sent = self.0.sql("postgres", &format!("{SENT} AND {that} ORDER BY query"));
        let calls = sent.lines().filter_map(|line| line.split_once('|')?.0.parse::<u64>().ok());
        (calls.sum(), sent)
    }
}

/// Starts so many clients, each of which waits for the lock, has it once and releases it. Returns when all wait.
async fn wait_for(
    here: &Locks<PostgresBackend>,
    stores: &[PostgresBackend],
    waiters: usize,
) -> JoinSet<Locks<PostgresBackend>> {
    let mut waiting = JoinSet::new();
    for store in stores.iter().cycle().take(waiters) {
        let client = client(store);
        waiting.spawn(async move {
            let mutex = client.mutex("it", ()).unwrap();
            let guard = mutex.lock().await.unwrap();
            MutexGuard::release(guard).await.unwrap();
            // So that closing the client counts as nothing here.
            client
        });
    }
    eventually_async("all wait", SOON * 6, async || {
        here.inspect("it").await.unwrap().waiting == waiters as u64
    })
    .await;
    waiting
}

/// Lets the lock go through all clients.
async fn pass_on(
    guard: MutexGuard<'_, ()>,
    mut waiting: JoinSet<Locks<PostgresBackend>>,
) -> Vec<Locks<PostgresBackend>> {
    MutexGuard::release(guard).await.unwrap();
    let mut clients = Vec::new();
    while let Some(client) = soon(waiting.join_next()).await {
        clients.push(client.unwrap());
    }
    clients
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hand_over_costs_no_more_if_more_clients_wait() {
    let server = Counting::start();
    let stores = stores(&server.0.locks());
    let mut each = Vec::new();
    for waiters in [2, 10, 100] {
        let here = client(&stores[0]);
        let mutex = here.mutex("it", ()).unwrap();
        let guard = soon(mutex.lock()).await.unwrap();
        let waiting = wait_for(&here, &stores[1..], waiters).await;
        server.begin();
        let clients = pass_on(guard, waiting).await;
        let (calls, sent) = server.sent();
        assert_eq!(clients.len(), waiters);
        let cost = calls as f64 / waiters as f64;
        assert!((1.0..=3.0).contains(&cost), "{cost} statements each for {waiters}: {sent}");
        each.push(cost);
    }
    println!("statements for each hand-over with 2, 10 and 100 waiters: {each:.2?}");
    // With two waiters, a few statements more would be much for each.
    assert!(each[2] - each[1] < 0.5, "statements for each hand-over: {each:?}");
}

/// How often a client tries out its listening connection.
const PULSE: Duration = Duration::from_secs(5);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_waiters_send_nothing_but_a_pulse_until_their_places_are_due() {
    let server = Counting::start();
    let stores = stores(&server.0.locks());
    let here = client(&stores[0]);
    let mutex = here.mutex("it", ()).unwrap();
    let guard = soon(mutex.lock()).await.unwrap();
    let waiting = wait_for(&here, &stores[1..], 20).await;
    // A waiter that has its place asks once more when it listens.
    server.begin_when_quiet().await;
    let begun = Instant::now();
    tokio::time::sleep(2 * PULSE + Duration::from_secs(1)).await;
    // The leases are long: neither a lease nor a place is due.
    let (calls, sent) = server.sent_of_any_kind();
    let most = STORES as u64 * (begun.elapsed().div_duration_f64(PULSE) as u64 + 1);
    assert_eq!(sent.trim_end(), format!("{calls}|SELECT $1"), "more than the pulse was sent");
    assert!((STORES as u64..=most).contains(&calls), "{calls} pulses of {STORES} clients");
    assert_eq!(pass_on(guard, waiting).await.len(), 20);
}

/// However many keys a client watches, and however many requests come at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_has_one_listening_connection_for_all_its_keys() {
    let database = Database::new();
    let clients = [database.open(), database.open()];
    let keys: Vec<_> = (0..5).map(|index| claim(format!("{index}")).key).collect();
    let watches = clients.iter().flat_map(|store| keys.iter().map(|key| store.watch(key)));
    let watches = join_all(watches).await.into_iter().collect::<Result<Vec<_>, _>>().unwrap();
    // A listening connection holds an advisory lock.
    let listening = "SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database \
                     WHERE l.locktype = 'advisory' AND d.datname = current_database()";
    assert_eq!(database.sql(listening), "2\n");
    let watchers = "SELECT count(*), count(DISTINCT client) FROM lock_v1.watcher";
    assert_eq!(database.sql(watchers), "10|2\n");
    drop(watches);
}

/// A session that planned its statements while the tables had a page finds the rows of many locks by an index.
#[test]
fn plans_that_are_made_for_few_locks_are_good_for_many() {
    let database = Database::new();
    let pairs = |from: u32, to: u32| {
        let grant = |mode: &str| {
            let owner = "lpad(i::text, 32, '0')";
            format!(
                "PERFORM lock_v1.acquire(('n{mode}' || i)::bytea, {owner}, '{mode}', 60000, 1, false, false, '', 10); \
                 IF i % 2 = 0 THEN PERFORM lock_v1.release(('n{mode}' || i)::bytea, {owner}, '{mode}', ''); END IF;"
            )
        };
        let grants: String = ["x", "s", "p:1:2"].map(grant).concat();
        database.sql(&format!("DO $$ BEGIN FOR i IN {from}..{to} LOOP {grants} END LOOP; END $$"));
    };
    let scans = |kind: &str| -> u64 {
        let sql = format!(
            "SELECT sum({kind}) FROM pg_stat_all_tables WHERE schemaname = 'lock_v1' \
             AND relname IN ('key', 'holder', 'waiter', 'watcher', 'semaphore')"
        );
        database.sql(&sql).trim().parse().unwrap()
    };
    pairs(1, 2);
    database.sql("VACUUM ANALYZE");
    let (by_index, whole) = (scans("idx_scan"), scans("seq_scan"));
    pairs(3, 300);
    eventually("the server has counted", SOON, || scans("idx_scan") > by_index + 300);
    assert_eq!(scans("seq_scan"), whole, "whole tables were read");
}
