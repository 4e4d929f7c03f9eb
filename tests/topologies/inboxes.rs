//! The inbox of a client in a cluster: a channel in a slot of the server, beside the channel that all servers have.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lock_core::{Acquire, AcquireOutcome, Backend, Hint, Watch};
use lock_redis::RedisBackend;
use lock_tests::{RedisCluster, RedisServer, SOON, eventually, soon};

use crate::support::{Waiter, claim, granted, long, released, renewed};

fn client(cluster: &RedisCluster) -> RedisBackend {
    RedisBackend::open(cluster.url()).unwrap()
}

/// The server of a lock.
fn server_of<'a>(cluster: &'a RedisCluster, name: &str) -> &'a RedisServer {
    cluster.nodes()[cluster.owner_of(&key(name))].server()
}

fn key(name: &str) -> String {
    format!("lock:{{{name}}}")
}

/// Names of locks at one server, each in a slot of its own.
fn neighbours<const N: usize>(cluster: &RedisCluster) -> [String; N] {
    let owner = cluster.owner_of(&key("0"));
    let mut names: Vec<String> = Vec::new();
    for name in (0..).map(|number: u32| number.to_string()) {
        let slot = cluster.slot_of(&name);
        let is_new = names.iter().all(|other| cluster.slot_of(other) != slot);
        if is_new && cluster.owner_of(&key(&name)) == owner {
            names.push(name);
        }
        if names.len() == N {
            break;
        }
    }
    names.try_into().unwrap()
}

/// How many messages the scripts have published: to clients of one server, and to those of all.
fn published(server: &RedisServer) -> [u64; 2] {
    let stats = server.commandstats();
    ["spublish", "publish"].map(|command| stats.calls(command))
}

/// What one hand-over to the waiter publishes.
async fn of_a_hand_over(
    server: &RedisServer,
    holder: &RedisBackend,
    to: &RedisBackend,
) -> [u64; 2] {
    let held = claim("a");
    granted(holder, &held).await;
    let mut waiter = Waiter::queue(to, claim("a")).await;
    let before = published(server);
    released(holder, &held).await;
    let after = published(server);
    waiter.waits_for_its_grant().await;
    released(to, &waiter.request.claim).await;
    [after[0] - before[0], after[1] - before[1]]
}

/// A user that may not subscribe in slots, or not publish there, costs the others nothing but messages to all servers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_is_told_to_the_clients_of_one_server_if_that_is_possible() {
    let cluster = RedisCluster::start(3, 0);
    let user = |name: &str, without: &str| {
        let rules = ["on", ">hunter2", "allkeys", "allchannels", "allcommands", without];
        for node in cluster.nodes() {
            let command = [&["ACL", "SETUSER", name][..], &rules].concat();
            assert_eq!(node.server().cli(&command).text(), "OK");
        }
        RedisBackend::open(cluster.url_as(&format!("{name}:hunter2@"))).unwrap()
    };
    let (deaf, mute) = (user("deaf", "-ssubscribe"), user("mute", "-spublish"));
    let (here, there, server) = (client(&cluster), client(&cluster), server_of(&cluster, "a"));
    assert_eq!(of_a_hand_over(server, &here, &there).await, [1, 0]);
    assert_eq!(of_a_hand_over(server, &here, &deaf).await, [0, 1]);
    assert_eq!(of_a_hand_over(server, &deaf, &there).await, [1, 0]);
    let [_, to_all] = of_a_hand_over(server, &mute, &there).await;
    assert_eq!(to_all, 1);
}

/// As servers before version 7 are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_without_channels_in_slots_tell_the_clients_of_all_servers() {
    let cluster =
        RedisCluster::of(1, 0, |server| server.config("rename-command", "SSUBSCRIBE \"\""));
    let (here, there) = (client(&cluster), client(&cluster));
    assert_eq!(of_a_hand_over(server_of(&cluster, "a"), &here, &there).await, [0, 1]);
}

/// A client whose inbox is in another slot than the lock for which it waits.
struct Apart {
    cluster: RedisCluster,
    /// The lock in the slot of the inbox, and the lock for which the client waits.
    names: [String; 2],
    holder: RedisBackend,
    waiting: RedisBackend,
    /// The inbox is in the slot of the first lock that its client watches.
    _watch: Watch,
}

impl Apart {
    async fn new() -> Self {
        let cluster = RedisCluster::start(3, 0);
        let names = neighbours(&cluster);
        let (holder, waiting) = (client(&cluster), client(&cluster));
        let _watch = waiting.watch(&claim(&names[0]).key).await.unwrap();
        Self { cluster, names, holder, waiting, _watch }
    }

    fn server(&self) -> &RedisServer {
        server_of(&self.cluster, &self.names[1])
    }

    fn move_inbox(&self) {
        let lock = key(&self.names[0]);
        let to = (self.cluster.owner_of(&lock) + 1) % 3;
        tokio::task::block_in_place(|| self.cluster.move_slot(&lock, to));
    }
}

/// The slot of the inbox moves, and that of the lock stays. A claim that names the former inbox keeps its place and
/// hears of its grant; after that, the inbox is in another slot.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_hears_its_grant_after_the_slot_of_its_inbox_has_moved() {
    let apart = Apart::new().await;
    let Apart { cluster, names: [_, name], holder, waiting, .. } = &apart;
    let held = claim(name);
    granted(holder, &held).await;
    let mut first = Waiter::queue(waiting, claim(name)).await;
    let mut second = Waiter::queue(&client(cluster), claim(name)).await;
    apart.move_inbox();
    let before = published(apart.server());
    released(holder, &held).await;
    assert_eq!(published(apart.server())[1], before[1] + 1, "the test proves nothing");
    let mut is_moved = false;
    while first.hears_its_grant().await.is_err() {
        is_moved = true;
    }
    renewed(waiting, &first.request.claim).await;
    released(waiting, &first.request.claim).await;
    second.gets_it().await;
    renewed(&second.backend, &second.request.claim).await;

    while !is_moved {
        is_moved = soon(first.watch.next()).await.unwrap() == Hint::Resync;
    }
    first.request = Acquire::new(claim(name), long()).queued();
    assert!(matches!(first.ask().await, AcquireOutcome::Queued { .. }));
    let before = published(apart.server());
    released(&second.backend, &second.request.claim).await;
    assert_eq!(published(apart.server()), [before[0] + 1, before[1]]);
    first.hears_its_grant().await.unwrap();
}

/// Asks for a lock and releases it, until that is over.
async fn ask_on(backend: RedisBackend, name: String, is_over: Arc<AtomicBool>) {
    while !is_over.load(Ordering::SeqCst) {
        let claim = claim(&name);
        let request = Acquire::new(claim.clone(), long());
        if let AcquireOutcome::Granted(_) = backend.try_acquire(&request).await.unwrap() {
            backend.release(&claim).await.unwrap();
        }
    }
}

/// The server says that a subscription has ended while requests are under way on its connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_request_fails_while_the_slot_of_the_inbox_moves() {
    let apart = Apart::new().await;
    let is_over = Arc::new(AtomicBool::new(false));
    let tasks = [(); 64].map(|()| {
        let asking = ask_on(apart.waiting.clone(), apart.names[1].clone(), Arc::clone(&is_over));
        tokio::spawn(asking)
    });
    let _watch = apart.waiting.watch(&claim(&apart.names[1]).key).await.unwrap();
    apart.move_inbox();
    is_over.store(true, Ordering::SeqCst);
    for task in tasks {
        soon(task).await.unwrap();
    }
}

/// The process of the first waiter has ended. The release serves the second one in the same step.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_whose_client_has_gone_is_skipped_at_once() {
    let cluster = RedisCluster::start(3, 0);
    let (holder, server) = (client(&cluster), server_of(&cluster, "a"));
    let held = claim("a");
    granted(&holder, &held).await;
    let clients = || server.cli(&["CLIENT", "LIST"]).text().lines().count();
    let before = clients();
    let first = Waiter::queue(&client(&cluster), claim("a")).await;
    let mut second = Waiter::queue(&client(&cluster), claim("a")).await;
    drop(first);
    eventually("the connection has ended", SOON, || clients() == before + 1);
    released(&holder, &held).await;
    let holder = server.cli(&["GETRANGE", &key("a"), "0", "31"]).text();
    assert_eq!(holder.as_bytes(), second.request.claim.owner.expose());
    second.hears_its_grant().await.unwrap();
}

/// A client of an earlier version publishes on the channel that claims name as a whole.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_knows_of_no_slots_reaches_every_inbox() {
    let cluster = RedisCluster::start(3, 0);
    let (holder, server) = (client(&cluster), server_of(&cluster, "a"));
    granted(&holder, &claim("a")).await;
    let mut waiter = Waiter::queue(&client(&cluster), claim("a")).await;
    let place = server.cli(&["HVALS", "lock:{a}:places"]).array()[0].text();
    let inbox = place.split(' ').nth(5).unwrap();
    assert!(inbox.len() > 16, "the test proves nothing: {inbox}");
    let owner = String::from_utf8_lossy(waiter.request.claim.owner.expose()).into_owned();
    let (channel, said) = (format!("lock:inbox:{inbox}"), format!("next {owner} 0 {}", key("a")));
    assert_eq!(server.cli(&["PUBLISH", &channel, &said]).int(), 1);
    let hint = soon(waiter.watch.next()).await;
    assert!(matches!(hint, Some(Hint::Granted { grant: None, .. })), "{hint:?}");
}
