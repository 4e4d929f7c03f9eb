//! A primary that fails over behind its sentinels: holders, waiters and renewals go on.

use std::time::{Duration, Instant};

use lock_core::{Backend, ErrorKind, Hint};
use lock_redis::{Builder, Protocol, RedisBackend};
use lock_tests::{SOON, Sentinels, eventually, eventually_async, soon};

use crate::support::{
    Waiter, claim, granted, guards_go_through, released, renewed, served_in_order,
};

fn client(deployment: &Sentinels) -> RedisBackend {
    RedisBackend::open(deployment.url()).unwrap()
}

/// Waits until all replicas have what the primary has.
fn replicated(deployment: &Sentinels) {
    let primary = &deployment.servers()[deployment.primary()];
    let replicas = deployment.servers().len() as i64 - 1;
    eventually("the replicas have everything", Duration::from_secs(30), || {
        primary.cli(&["SET", "marker", "1"]);
        primary.cli(&["WAIT", &replicas.to_string(), "1000"]).int() == replicas
    });
}

/// Waits until a client reaches the new primary: the old one does not have the key of this name.
async fn has_moved(deployment: &Sentinels, backend: &RedisBackend, before: usize, name: &str) {
    let primary = deployment.primary();
    assert_ne!(primary, before);
    let probe = claim(name);
    eventually_async("the client is at the new primary", SOON * 3, async || {
        _ = backend.release(&probe).await;
        _ = backend
            .try_acquire(&lock_core::Acquire::new(probe.clone(), crate::support::long()))
            .await;
        !deployment.servers()[primary].cli(&["GET", &format!("lock:{{{name}}}")]).is_nil()
    })
    .await;
}

/// A holder and two waiters go through a failover: they keep what they have, and are served in order.
async fn go_through(fail: impl FnOnce(&Sentinels)) {
    let deployment = Sentinels::start(2, 3);
    let clients = [(); 3].map(|()| client(&deployment));
    let held = claim("a");
    let token = granted(&clients[0], &held).await.tokens.last();
    let mut first = Waiter::queue(&clients[1], claim("a")).await;
    let mut second = Waiter::queue(&clients[2], claim("a")).await;
    replicated(&deployment);
    let before = deployment.primary();
    fail(&deployment);
    for (client, name) in clients.iter().zip(["x", "y", "z"]) {
        has_moved(&deployment, client, before, name).await;
    }
    soon(renewed(&clients[0], &held)).await;
    first.hears(Hint::Resync).await;
    second.hears(Hint::Resync).await;
    soon(first.is_queued()).await;
    soon(second.is_queued()).await;
    soon(released(&clients[0], &held)).await;
    let grant = first.gets_it().await;
    served_in_order(token, &grant, &first, &mut second).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_planned_failover_keeps_the_holder_and_the_order_of_waiters() {
    go_through(|deployment| tokio::task::block_in_place(|| deployment.fail_over())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_that_is_killed_is_replaced_and_what_was_replicated_stays() {
    go_through(|deployment| {
        let before = deployment.primary();
        deployment.servers()[before].kill();
        tokio::task::block_in_place(|| deployment.replaces(before));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guard_and_its_waiter_live_through_a_failover() {
    let deployment = Sentinels::start(1, 3);
    let primary = &deployment.servers()[0];
    guards_go_through([(); 2].map(|()| client(&deployment)), primary, || {
        replicated(&deployment);
        primary.kill();
        deployment.replaces(0);
    })
    .await;
}

#[tokio::test]
async fn a_replica_is_refused_although_sentinels_name_it() {
    // The sentinels go on to name the first server for longer than the test takes.
    let deployment = Sentinels::with_patience(1, 3, Duration::from_secs(60));
    let backend = client(&deployment);
    let held = claim("a");
    granted(&backend, &held).await;
    let [old, new] = deployment.servers() else { panic!() };
    assert_eq!(new.cli(&["REPLICAOF", "NO", "ONE"]).text(), "OK");
    old.cli(&["REPLICAOF", "127.0.0.1", &new.port().to_string()]);
    old.client_kill_all();
    eventually_async("the server is not believed", SOON, async || {
        let error = soon(backend.release(&held)).await.unwrap_err();
        assert!(error.is_retryable(), "{error}");
        error.to_string().contains("is not a primary")
    })
    .await;
    assert_eq!(old.cli(&["REPLICAOF", "NO", "ONE"]).text(), "OK");
    eventually_async("the server is believed again", SOON, async || {
        backend.release(&held).await.is_ok()
    })
    .await;
}

#[tokio::test]
async fn one_sentinel_that_answers_is_enough_and_a_service_that_none_knows_is_an_error() {
    let deployment = Sentinels::start(0, 3);
    deployment.sentinels()[0].stop();
    deployment.sentinels()[1].kill();
    let held = claim("a");
    granted(&client(&deployment), &held).await;
    let url = deployment.url().replace("/main", "/mian");
    let error = RedisBackend::open(url).unwrap().release(&held).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{error}");
    assert!(error.to_string().contains("no service mian"), "{error}");
    deployment.sentinels()[0].cont();
}

fn built(builder: Builder) -> RedisBackend {
    builder.build().unwrap()
}

/// The old primary has lost its sentinels and its replica, and goes on to answer. Only a message says that it was
/// replaced.
async fn a_client_leaves_a_primary_that_still_answers(
    login: &str,
    open: impl FnOnce(Builder) -> RedisBackend,
    prepare: impl FnOnce(&Sentinels),
) {
    let patience = Duration::from_millis(500);
    let deployment = Sentinels::of(1, 3, patience, |it| it.user("locks", "on >secret ~* &* +@all"));
    prepare(&deployment);
    let [old, new] = deployment.servers() else { panic!() };
    let url = deployment.url_as("locks:secret@") + login;
    let backend = open(RedisBackend::builder(url));
    let held = claim("a");
    granted(&backend, &held).await;
    let mut watch = backend.watch(&held.key).await.unwrap();
    replicated(&deployment);
    deployment.cut_off(0);
    let is_named = async || {
        // All that time the client uses its connection.
        renewed(&backend, &held).await;
        tokio::task::block_in_place(|| deployment.primary()) == 1
    };
    // Sentinels of a busy machine may have to elect a leader several times.
    eventually_async("another primary is named", SOON * 9, is_named).await;
    let named = Instant::now();
    soon(async { while watch.next().await.unwrap() != Hint::Resync {} }).await;
    granted(&backend, &claim("b")).await;
    println!("the client follows the message within {:?}", named.elapsed());
    assert!(!new.cli(&["GET", "lock:{b}"]).is_nil() && old.cli(&["GET", "lock:{b}"]).is_nil());
    // Messages come from the new primary, too.
    let mut watch = backend.watch(&claim("c").key).await.unwrap();
    let other = claim("c");
    granted(&backend, &other).await;
    released(&backend, &other).await;
    soon(async { while watch.next().await.unwrap() != Hint::Released {} }).await;
    // The lease goes on at the new primary, although the old one would still serve the client.
    renewed(&backend, &held).await;
    let there = RedisBackend::open(old.url_as("locks", "secret")).unwrap();
    granted(&there, &claim("b")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_leaves_a_primary_that_still_answers_when_sentinels_name_another() {
    a_client_leaves_a_primary_that_still_answers("", built, |_| {}).await;
}

/// With RESP2, messages have a connection of their own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_with_two_connections_leaves_a_primary_that_still_answers() {
    let open = |it: Builder| built(it.protocol(Protocol::Resp2));
    a_client_leaves_a_primary_that_still_answers("", open, |_| {}).await;
}

/// The first request came from a runtime that no thread drives any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_leaves_a_primary_although_its_first_runtime_stands_still() {
    let first = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let open = |it: Builder| {
        let backend = built(it);
        let asking = async { granted(&backend, &claim("first")).await };
        tokio::task::block_in_place(|| first.block_on(asking));
        backend
    };
    a_client_leaves_a_primary_that_still_answers("", open, |_| {}).await;
    first.shutdown_background();
}

/// The first two sentinels let the client ask, but not listen.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_of_the_last_sentinel_alone_is_enough() {
    let eyes = "?sentinel_user=eyes&sentinel_pass=hunter2";
    let prepare = |deployment: &Sentinels| {
        for (at, sentinel) in deployment.sentinels().iter().enumerate() {
            let channels = if at == 2 { "allchannels" } else { "resetchannels" };
            let rules = ["ACL", "SETUSER", "eyes", "on", ">hunter2", "+@all", channels];
            assert_eq!(sentinel.cli(&rules).text(), "OK");
        }
    };
    a_client_leaves_a_primary_that_still_answers(eyes, built, prepare).await;
}
