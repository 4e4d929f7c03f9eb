//! Faults of one request, or of the call, that leave the other requests alone.

use std::time::Duration;

use futures::future::join_all;
use lock_core::{Backend, Contention, ErrorKind, Key, Renew, Renewal};
use lock_redis::RedisBackend;
use tokio::runtime::Builder;
use tokio::task::yield_now;

use super::{MANY, begin, claims, contention, hold, open, renew, renewals, scripts};
use crate::support::{Server, claim_of, long, proxy_before, silence, soon};

#[tokio::test]
async fn a_renewal_that_is_dropped_harms_no_other() {
    let server = Server::start();
    let proxy = proxy_before(&server);
    let backend = RedisBackend::open(format!("redis://{}", proxy.addr())).unwrap();
    let claims = claims(10);
    hold(&backend, &claims).await;
    // Before the call is sent: the first, the last, and one between them.
    let mut running = renewals(&backend, &claims);
    begin(&mut running).await;
    for gone in [9, 4, 0] {
        drop(running.remove(gone));
    }
    assert!(soon(join_all(running)).await.iter().all(|it| contention(it).is_some()));
    // While the call is under way.
    silence(&proxy);
    let mut running = renewals(&backend, &claims);
    for _ in 0..3 {
        begin(&mut running).await;
        yield_now().await;
    }
    for gone in [9, 4, 0] {
        drop(running.remove(gone));
    }
    proxy.pass();
    assert!(soon(join_all(running)).await.iter().all(|it| contention(it).is_some()));
    // All but one.
    let mut running = renewals(&backend, &claims);
    begin(&mut running).await;
    running.truncate(1);
    assert!(soon(join_all(running)).await.iter().all(|it| contention(it).is_some()));
}

#[tokio::test]
async fn a_renewal_that_is_not_polled_holds_up_no_other() {
    let server = Server::start();
    let backend = open(&server);
    let claims = claims(3);
    hold(&backend, &claims).await;
    for first in 0..3 {
        let mut running = renewals(&backend, &claims);
        begin(&mut running).await;
        let idle = running.remove(first);
        assert!(soon(join_all(running)).await.iter().all(|it| contention(it).is_some()));
        assert!(contention(&soon(idle).await).is_some());
    }
}

#[test]
fn renewals_whose_runtime_goes_away_are_told_so() {
    let server = Server::start();
    let proxy = proxy_before(&server);
    let backend = RedisBackend::open(format!("redis://{}", proxy.addr())).unwrap();
    let claims = claims(4);
    let runtime = || Builder::new_current_thread().enable_all().build().unwrap();
    let (one, other) = (runtime(), runtime());
    one.block_on(hold(&backend, &claims));
    for rounds in [1, 3] {
        silence(&proxy);
        let one = runtime();
        let mut running = renewals(&backend, &claims);
        one.block_on(async {
            for _ in 0..rounds {
                begin(&mut running).await;
                yield_now().await;
            }
        });
        drop(one);
        proxy.pass();
        for renewal in other.block_on(soon(join_all(running))) {
            match renewal {
                Renewal::Unknown(error) => {
                    assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
                }
                // Requests that were not sent on one runtime are sent on the other.
                renewal => assert!(rounds == 1 && contention(&renewal).is_some()),
            }
        }
    }
    let renewed = other.block_on(renew(&backend, &claims));
    assert!(renewed.iter().all(|it| contention(it).is_some()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn renewals_on_several_threads_are_answered() {
    let server = Server::start();
    let backend = open(&server);
    let claims = claims(MANY);
    hold(&backend, &claims).await;
    for _ in 0..20 {
        let tasks = claims.iter().map(|claim| {
            let (backend, claim) = (backend.clone(), claim.clone());
            tokio::spawn(async move { backend.renew(&Renew::new(claim, long())).await })
        });
        let tasks = tasks.collect::<Vec<_>>();
        for renewal in soon(join_all(tasks)).await {
            assert_eq!(contention(&renewal.unwrap()), Some(Contention::Unknown));
        }
    }
}

#[tokio::test]
async fn what_a_server_does_not_answer_is_unknown_of_each() {
    let server = Server::start();
    let proxy = proxy_before(&server);
    let builder = RedisBackend::builder(format!("redis://{}", proxy.addr()));
    // The server answers within it until it is silent.
    let backend = builder.command_timeout(Duration::from_secs(4)).build().unwrap();
    let claims = claims(5);
    hold(&backend, &claims).await;
    silence(&proxy);
    for renewal in soon(renew(&backend, &claims)).await {
        let Renewal::Unknown(error) = renewal else { panic!("{renewal:?}") };
        assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    }
}

#[tokio::test]
async fn a_cluster_is_asked_slot_by_slot() {
    let server = Server::with(&["--cluster-enabled", "yes"]);
    let mut raw = server.client();
    raw.command::<()>(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]);
    soon(async {
        while !raw.command::<String>(&["CLUSTER", "INFO"]).contains("cluster_state:ok") {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    let backend = open(&server);
    let mut claims = claims(4);
    for slot in ["a", "b"] {
        let near = |number: usize| claim_of(Key::raw(format!("{{{slot}}}{number}")).unwrap());
        claims.extend((0..5).map(near));
    }
    hold(&backend, &claims).await;
    for _ in 0..2 {
        let renewed = renew(&backend, &claims).await;
        assert!(renewed.iter().all(|it| contention(it) == Some(Contention::Unknown)));
    }
    let before = scripts(&mut raw);
    let renewed = renew(&backend, &claims).await;
    assert!(renewed.iter().all(|it| contention(it) == Some(Contention::Unknown)));
    assert_eq!(scripts(&mut raw) - before, 4 + 2);
}

#[tokio::test]
async fn a_user_without_rights_to_one_lock_keeps_the_others() {
    let server = Server::start();
    let mut raw = server.client();
    let user =
        |keys: &str| format!("ACL SETUSER app on >secret resetkeys {keys} allchannels +@all");
    let mut set = |keys: &str| raw.command::<()>(&user(keys).split(' ').collect::<Vec<_>>());
    set("~lock:* ~theirs");
    let backend = RedisBackend::open(server.url().replace("//", "//app:secret@")).unwrap();
    let mut claims = claims(4);
    claims.push(claim_of(Key::raw("theirs").unwrap()));
    hold(&backend, &claims).await;
    set("~lock:*");
    let mut renewed = renew(&backend, &claims).await;
    let Some(Renewal::Unknown(error)) = renewed.pop() else { panic!() };
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    assert!(renewed.iter().all(|it| contention(it) == Some(Contention::Unknown)));
}
