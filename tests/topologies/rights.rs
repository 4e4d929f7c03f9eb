//! The least rights at several servers, and the need for each of them: the last table on the page about rights.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lock_core::{Acquire, AcquireOutcome, Backend, Claim, Error, Released, Renew, Renewal};
use lock_redis::{Builder, Notifications, RedisBackend};
use lock_tests::{ClusterNode, RedisCluster, RedisServer, SOON, Sentinels, eventually, soon};

use crate::support::{Waiter, claim, long};

const PAGE: &str = include_str!("../../crates/lock-redis/src/acl.md");
/// No server fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// The rows of the table of this place on the page: their cells, without the head.
fn table(place: usize) -> Vec<Vec<String>> {
    let table = PAGE.split("\n\n").filter(|part| part.starts_with('|')).nth(place).unwrap();
    let cells = |row: &str| -> Vec<String> {
        let row = row.trim_matches('|').replace("\\|", "\0");
        row.split('|').map(|cell| cell.trim().replace('\0', "|")).collect()
    };
    table.lines().skip(2).map(cells).collect()
}

/// The texts between backticks.
fn named(cell: &str) -> Vec<String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The rights that every mutex needs.
fn of_a_mutex() -> Vec<String> {
    let rows = table(0);
    let rows = rows.iter().filter(|row| row[1] == "×");
    rows.flat_map(|row| named(&row[0])).collect()
}

/// The rights in the row that begins like this, up to the words about other cases.
fn of(feature: &str) -> Vec<String> {
    let rows = table(2);
    let row = rows.iter().find(|row| row[0].contains(feature)).expect("the page has no such row");
    named(row[1].split(';').next().unwrap())
}

/// Gives a new user these rights at all servers. Returns its part of a URL.
fn user<'a>(servers: impl IntoIterator<Item = &'a RedisServer>, rights: &[String]) -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let name = format!("user{}", NEXT.fetch_add(1, Ordering::Relaxed));
    let words = ["ACL", "SETUSER", &name, "on", ">hunter2", "resetkeys", "resetchannels", "-@all"];
    for server in servers {
        let rights = rights.iter().map(String::as_str);
        let command: Vec<&str> = words.into_iter().chain(rights).collect();
        assert_eq!(server.cli(&command).text(), "OK", "{command:?}");
    }
    format!("{name}:hunter2@")
}

/// With all these rights, beside those of a mutex, the feature works. Without any one of them it does not.
async fn are_needed(rights: &[String], works: impl AsyncFn(&[String]) -> Result<(), String>) {
    assert!(!rights.is_empty());
    let all = [of_a_mutex(), rights.to_vec()].concat();
    works(&all).await.unwrap();
    for right in rights {
        let without: Vec<_> = all.iter().filter(|it| *it != right).cloned().collect();
        assert!(works(&without).await.is_err(), "the feature works without {right}");
    }
}

/// A client without a place in the queue.
fn client(url: String, setup: impl FnOnce(Builder) -> Builder) -> RedisBackend {
    let builder = RedisBackend::builder(url).notifications(Notifications::Off);
    setup(builder.release_messages(false).command_timeout(SOON)).build().unwrap()
}

async fn take(backend: &RedisBackend, claim: &Claim) -> Result<(), String> {
    match soon(backend.try_acquire(&Acquire::new(claim.clone(), long()))).await {
        Ok(AcquireOutcome::Granted(_)) => Ok(()),
        other => Err(format!("{other:?}")),
    }
}

async fn give_back(backend: &RedisBackend, claim: &Claim) -> Result<(), String> {
    match soon(backend.release(claim)).await {
        Ok(Released::Freed { .. }) => Ok(()),
        other => Err(format!("{other:?}")),
    }
}

fn told(error: Error) -> String {
    error.to_string()
}

#[tokio::test]
async fn the_quarantine_of_terms_needs_its_rights() {
    let server = RedisServer::start();
    let name = AtomicUsize::new(0);
    are_needed(&of("quarantine of terms"), async |rights| {
        let login = user([&server], rights);
        let url = format!("redis://{login}{}", server.addr());
        let backend = client(url, |it| it.term_quarantine(true));
        let name = name.fetch_add(1, Ordering::Relaxed).to_string();
        let held = claim(&name);
        take(&backend, &held).await?;
        give_back(&backend, &held).await?;
        for command in [["REPLICAOF", "127.0.0.1", "1"], ["REPLICAOF", "NO", "ONE"]] {
            assert_eq!(server.cli(&command).text(), "OK");
        }
        // The release was noted, so no lease of the earlier term is waited for.
        take(&backend, &claim(&name)).await
    })
    .await;
}

#[tokio::test]
async fn confirmed_grants_need_their_rights() {
    let [primary, replica] = [(); 2].map(|()| {
        let quick = RedisServer::builder().config("repl-diskless-sync-delay", "0");
        quick.config("repl-ping-replica-period", "1").start()
    });
    let port = primary.port().to_string();
    assert_eq!(replica.cli(&["REPLICAOF", "127.0.0.1", &port]).text(), "OK");
    eventually("the replica acknowledges", PATIENCE, || {
        primary.cli(&["SET", "marker", "1"]);
        primary.cli(&["WAIT", "1", "1000"]).int() == 1
    });
    let name = AtomicUsize::new(0);
    let works = async |rights: &[String], on_disk: bool| {
        let url = format!("redis://{}{}", user([&primary], rights), primary.addr());
        let backend = client(url, |it| it.confirm(1, SOON / 2).confirm_on_disk(on_disk));
        let name = name.fetch_add(1, Ordering::Relaxed).to_string();
        let held = claim(&name);
        take(&backend, &held).await?;
        match soon(backend.renew(&Renew::new(held.clone(), long()))).await {
            Renewal::Renewed { .. } => {}
            other => return Err(format!("{other:?}")),
        }
        give_back(&backend, &held).await?;
        let state = primary.cli(&["GET", &format!("lock:{{{name}}}:state")]).text();
        if state.contains(" r") { Ok(()) } else { Err("the release is not noted".to_owned()) }
    };
    let rights = of("confirmed grants");
    are_needed(&rights, async |rights| works(rights, false).await).await;
    if matches!(primary.cli(&["COMMAND", "INFO", "WAITAOF"]).array(), [it] if !it.is_nil()) {
        for server in [&primary, &replica] {
            assert_eq!(server.cli(&["CONFIG", "SET", "appendonly", "yes"]).text(), "OK");
        }
        let on_disk = |right: &String| right.replace("+wait", "+waitaof");
        let rights: Vec<_> = rights.iter().map(on_disk).collect();
        are_needed(&rights, async |rights| works(rights, true).await).await;
    }
}

#[tokio::test]
async fn a_cluster_needs_its_rights() {
    let cluster = RedisCluster::start(3, 0);
    are_needed(&of("a cluster"), async |rights| {
        let servers = cluster.nodes().iter().map(ClusterNode::server);
        let url = cluster.url_as(&user(servers, rights));
        let backend = client(url, |it| it.term_quarantine(false));
        let held = claim("a");
        take(&backend, &held).await?;
        let moving = cluster.begin_move("lock:{a}", (cluster.owner_of("lock:{a}") + 1) % 3);
        while moving.step() > 0 {}
        // The lock is at the server to which its slot is being moved.
        let renewal = soon(backend.renew(&Renew::new(held.clone(), long()))).await;
        moving.finish();
        // For the next user.
        let able = client(cluster.url(), |it| it.term_quarantine(false));
        give_back(&able, &held).await?;
        match renewal {
            Renewal::Renewed { .. } => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}

#[tokio::test]
async fn servers_behind_sentinels_need_to_tell_their_role() {
    let deployment = Sentinels::with_patience(0, 1, PATIENCE);
    are_needed(&of("sentinels, at the servers"), async |rights| {
        let url = deployment.url_as(&user(deployment.servers(), rights));
        let backend = client(url, |it| it.term_quarantine(false));
        let held = claim("a");
        take(&backend, &held).await?;
        give_back(&backend, &held).await
    })
    .await;
}

#[tokio::test]
async fn sentinels_need_to_name_the_primary() {
    let deployment = Sentinels::with_patience(0, 1, PATIENCE);
    let works = async |rights: &[String]| {
        let login = user(deployment.sentinels(), rights);
        let (name, password) = login.trim_end_matches('@').split_once(':').unwrap();
        let url = format!("{}?sentinel_user={name}&sentinel_pass={password}", deployment.url());
        let backend = client(url, |it| it);
        backend.release(&claim("a")).await.map(drop).map_err(told)
    };
    let all = of("sentinels, at the sentinels");
    works(&all).await.unwrap();
    let without: Vec<_> = all.iter().filter(|it| !it.contains("sentinel")).cloned().collect();
    assert!(without.len() < all.len() && works(&without).await.is_err());
}

#[tokio::test]
async fn messages_to_one_server_of_a_cluster_need_their_rights() {
    let cluster = RedisCluster::start(1, 0);
    let server = cluster.nodes()[0].server();
    // Those of a mutex whose waiters hear messages, and those without which no lock is granted in a cluster.
    let mutex = table(0).into_iter().filter(|row| row[2] == "×");
    let mut more: Vec<_> = mutex.flat_map(|row| named(&row[0])).collect();
    more.extend([of("a cluster"), of("quarantine of terms")].concat());
    are_needed(&of("messages to one server"), async |rights| {
        let login = user([server], &[rights, &more].concat());
        let [holder, waiting] =
            [(); 2].map(|()| RedisBackend::open(cluster.url_as(&login)).unwrap());
        let held = claim("a");
        take(&holder, &held).await?;
        let waiter = Waiter::queue(&waiting, claim("a")).await;
        let before = server.commandstats().calls("spublish");
        soon(holder.release(&held)).await.map_err(told)?;
        give_back(&waiter.backend, &waiter.request.claim).await?;
        match server.commandstats().calls("spublish") - before {
            1 => Ok(()),
            count => Err(format!("{count} messages")),
        }
    })
    .await;
}
