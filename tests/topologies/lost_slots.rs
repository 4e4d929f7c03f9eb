//! A node of a cluster that lost its data sits out with its slots, and so does every slot that comes to another node.

use std::time::Duration;

use lock_core::{
    Acquire, Backend, Claim, Clock, Error, ErrorKind, InspectBackend, Key, OwnerToken, Renew,
    Renewal, Ttl,
};
use lock_redis::RedisBackend;
use lock_sync::{Locks, Mutex};
use lock_tests::{Proxy, RedisCluster, RedisServer, SOON, eventually_async, soon};
use tokio::task::block_in_place;

use crate::lost_data::{answer_about, get};
use crate::support::{claim, long, released};

/// A server that restarts serves its slots after two seconds.
const BACK: &str = "2000";

fn longest() -> Ttl {
    Ttl::new(Duration::from_secs(3)).unwrap()
}

fn open(cluster: &RedisCluster) -> RedisBackend {
    RedisBackend::builder(cluster.url()).data_quarantine(longest()).build().unwrap()
}

fn mutex(cluster: &RedisCluster, name: &str) -> Mutex<()> {
    let ttl = longest().duration();
    Locks::builder(open(cluster)).ttl(ttl).build().unwrap().mutex(name, ()).unwrap()
}

async fn grants(backend: &RedisBackend, name: &str) {
    answer_about(backend, &claim(name), longest()).await.unwrap();
}

/// Asks for a lock whose slot must sit out.
async fn sits_out(backend: &RedisBackend, name: &str) -> Error {
    let error = answer_about(backend, &claim(name), longest()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotReady, "{error}");
    assert!(error.to_string().contains("may have forgotten leases"), "{error}");
    assert!(error.retry_after().unwrap() <= longest().quarantine(), "{error}");
    error
}

/// Names of locks, one for each of the first servers.
fn names(cluster: &RedisCluster) -> [String; 3] {
    [0, 1, 2].map(|server| {
        let mut names = (0..).map(|number| format!("a{number}"));
        names.find(|name| cluster.owner_of(&format!("lock:{{{name}}}")) == server).unwrap()
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_lost_its_data_sits_out_and_the_others_go_on() {
    let cluster = RedisCluster::of(3, 0, |it| it.config("cluster-node-timeout", BACK));
    let [held, other, _] = &block_in_place(|| names(&cluster));
    let unguarded = || RedisBackend::builder(cluster.url()).prefix("unguarded:").build().unwrap();
    let (here, there) = (open(&cluster), open(&cluster));
    let waiting = mutex(&cluster, held);
    here.init().await.unwrap();
    let forgotten = answer_about(&unguarded(), &claim(held), long()).await.unwrap();
    let until = answer_about(&here, &claim(held), longest()).await.unwrap();

    block_in_place(|| cluster.nodes()[0].server().restart());
    // Without the option there are two holders now.
    let since = get(&unguarded(), held, long()).await;
    assert!(since < forgotten, "the test proves nothing");
    sits_out(&there, held).await;
    grants(&there, other).await;
    let _guard = soon(waiting.lock()).await.unwrap();
    assert!(Clock::boot().now() >= until, "two holders at once");
    grants(&here, other).await;
}

/// Nothing proves that the other node has all leases.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_that_moves_sits_out_while_its_holder_goes_on() {
    let cluster = RedisCluster::start(3, 0);
    let [name, other, _] = &block_in_place(|| names(&cluster));
    let key = format!("lock:{{{name}}}");
    let (here, there) = (open(&cluster), open(&cluster));
    // A first run looks like one that lost its data, and an operator vouches for all slots.
    for name in [name, other] {
        sits_out(&here, name).await;
    }
    there.init().await.unwrap();
    let records: i64 =
        cluster.nodes().iter().map(|node| node.server().cli(&["DBSIZE"]).int()).sum();
    assert_eq!(records, 16_384);
    let waiting = mutex(&cluster, name);
    let held = claim(name);
    answer_about(&there, &held, longest()).await.unwrap();
    let waits = tokio::spawn(async move {
        let _guard = waiting.lock().await.unwrap();
        Clock::boot().now()
    });
    let waits_now = async || there.inspect(&held.key).await.unwrap().waiting == 1;
    eventually_async("the claim waits", SOON, waits_now).await;

    block_in_place(|| cluster.move_slot(&key, 1));
    let moved = Clock::boot().now();
    sits_out(&open(&cluster), name).await;
    let renewal = there.renew(&Renew::new(held.clone(), longest())).await;
    assert!(matches!(renewal, Renewal::Renewed { .. }), "{renewal:?}");
    // That client asks twice a second at most whether a slot still sits out.
    get(&here, other, longest()).await;
    released(&there, &held).await;
    // A hand-over is no proof either.
    assert!(soon(waits).await.unwrap() >= moved + longest().duration());

    // The connections to the first server live on.
    block_in_place(|| cluster.move_slot(&key, 0));
    for backend in [&here, &there] {
        sits_out(backend, name).await;
    }
    get(&here, name, longest()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_is_promoted_in_a_cluster_goes_on() {
    let cluster = RedisCluster::start(3, 1);
    let [name, _, _] = &block_in_place(|| names(&cluster));
    let (here, there) = (open(&cluster), open(&cluster));
    here.init().await.unwrap();
    grants(&here, name).await;
    block_in_place(|| cluster.fail_over_to(3, false));
    // From this version on, nothing is known of a promoted replica in a cluster.
    let info = block_in_place(|| cluster.nodes()[3].server().cli(&["INFO", "server"]).text());
    let version = info.lines().find_map(|line| line.strip_prefix("redis_version:")).unwrap();
    let mut numbers = version.split('.').map(|number| number.parse::<u32>().unwrap());
    if (numbers.next(), numbers.next()) >= (Some(8), Some(4)) {
        sits_out(&here, name).await;
        return;
    }
    for (number, backend) in [&here, &there, &open(&cluster)].into_iter().enumerate() {
        // Other locks of the slot.
        let key = Key::raw(format!("{{{name}}}{number}")).unwrap();
        let claim = Claim::exclusive(key, OwnerToken::generate().unwrap());
        answer_about(backend, &claim, longest()).await.unwrap();
    }
    assert_eq!(block_in_place(|| cluster.owner_of(&format!("lock:{{{name}}}"))), 3);
}

#[tokio::test]
async fn a_lease_for_which_no_slot_would_sit_out_long_enough_is_refused() {
    let url = "redis+cluster://127.0.0.1:1";
    let backend = RedisBackend::builder(url).data_quarantine(longest()).build().unwrap();
    let error = backend.try_acquire(&Acquire::new(claim("a"), long())).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{error}");
}

/// Such a server shows the map of the time when it lost its cluster. Here it lacks a slot, so its cluster is down, and
/// the new owner of the other slots does not know it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_has_lost_its_cluster_does_not_confirm_its_own_map() {
    let [lost, owner] = [16_383, 16_384].map(|slots| {
        let server = RedisServer::builder().config("cluster-enabled", "yes").start();
        let slots = (0..slots).map(|slot| slot.to_string());
        let command: Vec<_> =
            ["CLUSTER", "ADDSLOTS"].map(str::to_owned).into_iter().chain(slots).collect();
        server.cli(&command);
        server
    });
    let proxy = Proxy::before(&owner);
    proxy.refuse();
    let url = format!("redis+cluster://{},{}", lost.addr(), proxy.addr());
    let backend = RedisBackend::open(url).unwrap();
    let request = Acquire::new(claim("a"), long());
    let error = backend.try_acquire(&request).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotReady, "{error}");
    proxy.accept();
    let is_granted = async || backend.try_acquire(&request).await.is_ok();
    eventually_async("the new owner grants the lock", SOON, is_granted).await;
}
