//! A store without room: etcd raises the alarm `NOSPACE`, and does nothing but read, renew leases and end them.

use std::time::Duration;

use lock_core::{
    AcquireOutcome, Backend, Claim, Error, ErrorKind, FencingToken, InspectBackend, Instant,
    Released, Renew, Renewal, Ttl,
};
use lock_etcd::EtcdBackend;
use lock_sync::{Lease, Locks, LossReason, Mutex, MutexGuard};
use lock_tests::{EtcdCluster, EtcdServer, Proxy, SOON, eventually, soon};
use tokio::task::JoinHandle;

use crate::support::{
    LATE, attempt, builder, claim, granted, let_go, locks, long, open, seconds, until_granted,
    until_ok, until_waiting, waits,
};

/// A server that is full soon.
fn small() -> EtcdServer {
    EtcdServer::with(&["--unsafe-no-fsync", "--quota-backend-bytes=4194304"])
}

fn fill(server: &EtcdServer) {
    tokio::task::block_in_place(|| server.fill());
}

fn make_room(server: &EtcdServer) {
    tokio::task::block_in_place(|| server.make_room());
}

/// One client takes the lock, and another one waits for it and has its place. Then the store fills up.
async fn fills_up<'a>(
    server: &EtcdServer,
    mutex: &'a Mutex<()>,
    there: &Locks<EtcdBackend>,
) -> (MutexGuard<'a, ()>, JoinHandle<(Instant, FencingToken)>) {
    let guard = soon(mutex.lock()).await.unwrap();
    let waiting = waits(there);
    until_waiting(there, 1).await;
    fill(server);
    (guard, waiting)
}

/// Once there is room again, the waiter gets the lock, with a higher token than that of the holder before it.
async fn passes_on(
    server: &EtcdServer,
    lease: &Lease,
    waiting: JoinHandle<(Instant, FencingToken)>,
) {
    assert!(!waiting.is_finished(), "nothing can be written");
    make_room(server);
    let (_, token) = tokio::time::timeout(SOON * 3, waiting).await.expect("it passes on").unwrap();
    assert!(token > lease.fencing_token());
}

#[track_caller]
fn assert_full(error: &Error) {
    assert_eq!(error.kind(), ErrorKind::NotReady, "{error:?}");
    assert!(error.is_retryable() && error.to_string().contains("space exceeded"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_store_grants_nothing_and_says_so() {
    let server = small();
    let (known, new) = (open(server.url()), open(server.url()));
    let before = claim("a");
    granted(&known, &before, long()).await;
    known.release(&before).await.unwrap();
    fill(&server);
    // One of these clients has an idle lease of etcd, and the other one has nothing.
    for store in [&known, &new] {
        assert_full(&attempt(store, &claim("a"), long()).await.unwrap_err());
        assert_full(&attempt(store, &claim("b"), long()).await.unwrap_err());
        assert_full(&store.watch(&claim("c").key).await.unwrap_err());
    }
    let report = new.check().await.unwrap();
    assert!(report.findings.iter().any(|it| it.code == "space-full"), "{report}");
    make_room(&server);
    let ours = claim("a");
    granted(&known, &ours, long()).await;
    let busy = attempt(&new, &claim("a"), long()).await.unwrap();
    assert!(matches!(busy, AcquireOutcome::Busy { .. }), "{busy:?}");
    granted(&new, &claim("b"), long()).await;
    new.watch(&claim("c").key).await.unwrap();
}

/// Renews a lease again and again, while the test does something else.
async fn renews(store: EtcdBackend, claim: Claim, ttl: Ttl) {
    loop {
        _ = store.renew(&Renew::new(claim.clone(), ttl)).await;
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
}

/// Renewals need no room, be it that they ask for tokens, which do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_keeps_its_lease_in_a_full_store_and_releases_it_later() {
    let server = small();
    let (store, rival) = (open(server.url()), open(server.url()));
    let ours = claim("it");
    let ttl = seconds(6);
    let grant = granted(&store, &ours, ttl).await;
    // It takes a while.
    let kept = tokio::spawn(renews(store.clone(), ours.clone(), ttl));
    fill(&server);
    kept.abort();
    assert_full(&store.release(&ours).await.unwrap_err());
    let (start, pause) = (std::time::Instant::now(), Duration::from_millis(300));
    let mut wanted = 0;
    while start.elapsed() < ttl.duration() + LATE / 2 {
        wanted = 8 - wanted;
        let renewal = store.renew(&Renew::new(ours.clone(), ttl).reserving(wanted)).await;
        let Renewal::Renewed { tokens, .. } = renewal else { panic!("{renewal:?}") };
        assert_eq!(tokens, None, "the store has no room for them");
        match attempt(&rival, &claim("it"), long()).await {
            Ok(AcquireOutcome::Busy { .. }) => {}
            Ok(other) => panic!("two holders: {other:?}"),
            Err(error) => assert_full(&error),
        }
        tokio::time::sleep(pause).await;
    }
    make_room(&server);
    let renewal = store.renew(&Renew::new(ours.clone(), ttl).reserving(8)).await;
    assert!(matches!(renewal, Renewal::Renewed { tokens: Some(_), .. }), "{renewal:?}");
    let freed = store.release(&ours).await.unwrap();
    assert!(matches!(freed, Released::Freed { .. }), "{freed:?}");
    let next = until_granted(&rival, &claim("it"), long()).await;
    assert!(next.tokens.first() > grant.tokens.last());
}

/// The waiter has its place from before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_passes_on_once_there_is_room_again() {
    let server = small();
    let ttl = Duration::from_secs(3);
    let (here, there) = (locks(open(server.url()), ttl), locks(open(server.url()), ttl));
    let mutex = here.mutex("it", ()).unwrap();
    let (guard, waiting) = fills_up(&server, &mutex, &there).await;
    let lease = MutexGuard::lease(&guard);
    tokio::time::sleep(ttl * 2).await;
    assert!(lease.is_valid() && !waiting.is_finished(), "the lease is renewed");
    let_go(guard).await;
    passes_on(&server, &lease, waiting).await;
}

/// A full store ends leases all the same. The lock stays without a holder as long as there is no room.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_that_is_cut_off_loses_its_lease_in_a_full_store() {
    let server = small();
    let proxy = Proxy::start(server.addr());
    let ttl = Duration::from_secs(2);
    let here = locks(builder(server.url_through(proxy.addr())).build().unwrap(), ttl);
    let there = locks(open(server.url()), Duration::from_secs(60));
    let mutex = here.mutex("it", ()).unwrap();
    let (guard, waiting) = fills_up(&server, &mutex, &there).await;
    let lease = MutexGuard::lease(&guard);
    proxy.cut_off();
    let lost = tokio::time::timeout(ttl + LATE, lease.lost()).await.expect("it is told");
    assert_eq!(lost.reason(), LossReason::Expired);
    passes_on(&server, &lease, waiting).await;
    proxy.pass();
}

/// How many fillers take more room than a small cluster has.
const FILLERS: u64 = 5;

/// A cluster that has room for one filler. A member knows its size after each change. The leader waits some seconds for
/// the others before it gives up the lead.
fn small_cluster() -> EtcdCluster {
    let options = ["--quota-backend-bytes=524288", "--backend-batch-limit=1"];
    EtcdCluster::with(&[&options[..], &["--election-timeout=20000"]].concat())
}

/// The leader accepts the request while it has room. Fillers go before it, and take the room. So the leader carries the
/// request out, and answers that there was no room.
async fn outrun_by_fillers<T: Send + 'static>(
    cluster: &EtcdCluster,
    leader: usize,
    request: impl Future<Output = T> + Send + 'static,
) -> T {
    let others = [(leader + 1) % 3, (leader + 2) % 3].map(|it| &cluster.members()[it]);
    let leader = &cluster.members()[leader];
    let filler = "x".repeat(125_000);
    let asking = tokio::task::block_in_place(|| {
        std::thread::scope(|scope| {
            others.iter().for_each(|it| it.stop());
            for _ in 0..FILLERS {
                scope.spawn(|| leader.try_ctl(&["put", "filler", &filler]));
            }
            eventually("the fillers wait for the others", SOON, || leader.pending() >= FILLERS);
            let asking = tokio::spawn(request);
            eventually("the request waits behind them", SOON, || leader.pending() > FILLERS);
            others.iter().for_each(|it| it.cont());
            asking
        })
    });
    soon(asking).await.unwrap()
}

/// Removes the fillers from every member, and ends the alarms. Each member looks at its own data, and raises the alarm for
/// all.
fn make_room_in(cluster: &EtcdCluster, leader: usize) {
    let leader = &cluster.members()[leader];
    leader.ctl(&["del", "filler"]);
    leader.compact();
    eventually("there is room", SOON * 3, || {
        cluster.members().iter().for_each(|it| drop(it.ctl(&["defrag"])));
        leader.ctl(&["alarm", "disarm"]);
        cluster.members().iter().all(|it| it.try_ctl(&["put", "any", "x"]).is_ok())
    });
}

/// etcd looks for room before it carries a change out, and once more when it does. Only the first look prevents the
/// change. So a claim may have the lease behind a grant although the answer was an error.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_that_fills_the_store_has_a_lease_of_its_own() {
    let cluster = small_cluster();
    let place = tokio::task::block_in_place(|| cluster.leader());
    let leader = &cluster.members()[place];
    let (store, rival) = (open(leader.url()), open(leader.url()));
    let (ours, other) = (claim("it"), claim("other"));
    // The client has an idle lease then, and knows the document. So its request is one transaction.
    granted(&store, &ours, long()).await;
    store.release(&ours).await.unwrap();
    let (asker, asked) = (store.clone(), ours.clone());
    let request = async move { attempt(&asker, &asked, long()).await };
    assert_full(&outrun_by_fillers(&cluster, place, request).await.unwrap_err());
    assert_eq!(rival.inspect(&ours.key).await.unwrap().holding, 1, "it was carried out");
    until_granted(&store, &ours, long()).await;
    tokio::task::block_in_place(|| make_room_in(&cluster, place));
    until_granted(&store, &other, long()).await;
    // An end of this hold revokes its lease, and no other one.
    until_ok("it ends", async || rival.force_release(&other.key).await).await;
    let asking = async || attempt(&rival, &claim("it"), long()).await;
    let busy = until_ok("it answers", asking).await;
    assert!(matches!(busy, AcquireOutcome::Busy { .. }), "two holders: {busy:?}");
}
