//! The limits of etcd: leases of whole seconds, and requests of 128 comparisons, 128 operations, 1.5 MiB.

use std::time::Duration;

use lock_core::{
    Acquire, AcquireOutcome, Backend, Cell, CellBackend, Claim, Clock, Hint, InspectBackend,
    Instant, Mode, Released, Renew, Renewal, Stored, Ttl,
};
use lock_etcd::EtcdBackend;
use lock_tests::{Direction, Proxy, SOON, eventually_async, soon};

use crate::support::{Part, attempt, builder, claim, granted, long, seconds};

async fn renewed(store: &EtcdBackend, claim: &Claim) {
    let renewal = store.renew(&Renew::new(claim.clone(), long())).await;
    assert!(matches!(renewal, Renewal::Renewed { .. }), "{renewal:?}");
}

async fn freed(store: &EtcdBackend, claim: &Claim) {
    let released = store.release(claim).await.unwrap();
    assert!(matches!(released, Released::Freed { .. }), "{released:?}");
}

/// Two hundred owners, each with a lease of its own, of two clients.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renewal_costs_no_more_beside_two_hundred_holders() {
    let server = lock_tests::EtcdServer::start();
    let stores = [(); 2].map(|()| builder(server.url()).build().unwrap());
    let permit = || claim("it").in_mode(Mode::Permits { take: 1, of: 200 });
    let permits: Vec<Claim> = (0..200).map(|_| permit()).collect();
    let mut costs = Vec::new();
    for (index, permit) in permits.iter().enumerate() {
        let store = &stores[index % 2];
        granted(store, permit, long()).await;
        if index == 3 || index == 199 {
            let before = server.received();
            renewed(store, permit).await;
            renewed(&stores[1 - index % 2], &permits[index - 1]).await;
            costs.push(server.received().since(&before).calls("Txn"));
        }
    }
    assert_eq!(costs[0], costs[1], "transactions");
    let busy = attempt(&stores[0], &permit(), long()).await.unwrap();
    assert!(matches!(busy, AcquireOutcome::Busy { .. }), "{busy:?}");
    freed(&stores[0], &permits[0]).await;
    granted(&stores[1], &permit(), long()).await;
    for (index, permit) in permits.iter().enumerate().skip(1) {
        freed(&stores[index % 2], permit).await;
    }
}

/// The lease of one of two keys ends before the client learns that it has both. The other key is free at once, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_that_loses_one_key_on_the_way_keeps_none() {
    let part = Part::new();
    let proxy = Proxy::start(part.server.addr());
    let url = part.server.url_through(proxy.addr());
    // The answers come only when the short lease has ended.
    let patient = builder(url).prefix(&part.prefix).command_timeout(SOON * 2);
    let (store, rival) = (patient.build().unwrap(), part.open());
    let (short, lasting) = (claim("short"), claim("lasting"));
    for (ours, ttl) in [(&lasting, long()), (&short, seconds(2))] {
        granted(&store, ours, ttl).await;
        freed(&store, ours).await;
    }
    // An idle lease that is not quite new is renewed beside the transaction.
    tokio::time::sleep(Duration::from_millis(350)).await;

    let requests = [Acquire::new(short, seconds(2)), Acquire::new(lasting.clone(), long())];
    let asker = store.clone();
    proxy.silence(Direction::ToClient);
    let asking = tokio::spawn(async move { asker.try_acquire_all(&requests).await });
    eventually_async("the group has both keys", SOON, async || {
        rival.inspect(&lasting.key).await.unwrap().holding == 1
    })
    .await;
    let taken = claim("short");
    eventually_async("the lease has ended", SOON, async || {
        let outcome = attempt(&rival, &taken, long()).await.unwrap();
        matches!(outcome, AcquireOutcome::Granted(_))
    })
    .await;
    proxy.pass();
    let answers = soon(asking).await.unwrap().unwrap().expect("one step");
    let busy = |it: &AcquireOutcome| matches!(it, AcquireOutcome::Busy { .. });
    assert!(answers.iter().all(busy), "{answers:?}");
    granted(&rival, &claim("lasting"), long()).await;
}

/// A value of the greatest length.
fn value() -> Vec<u8> {
    vec![7; Cell::MAX_LEN]
}

async fn stored(store: &EtcdBackend, claim: &Claim) {
    let grant = granted(store, claim, long()).await;
    let stored = store.store(claim, grant.tokens.first(), Some(&value())).await.unwrap();
    assert_eq!(stored, Stored::Written);
}

/// The news of the grant bring the value to each of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_waiters_that_want_a_long_value_are_served() {
    let part = Part::new();
    let (store, waiter) = (part.open(), part.open());
    let ours = claim("it");
    stored(&store, &ours).await;
    let mut watch = waiter.watch(&ours.key).await.unwrap();
    let readers: Vec<Claim> = (0..40).map(|_| claim("it").in_mode(Mode::Shared)).collect();
    for reader in &readers {
        let request = Acquire::new(reader.clone(), long()).queued().with_value();
        let queued = waiter.try_acquire(&request).await.unwrap();
        assert!(matches!(queued, AcquireOutcome::Queued { .. }), "{queued:?}");
    }
    freed(&store, &ours).await;
    let mut told = 0;
    while told < readers.len() {
        if let Hint::Granted { .. } = soon(watch.next()).await.unwrap() {
            told += 1;
        }
    }
    for reader in &readers {
        granted(&waiter, reader, long()).await;
    }
}

/// Each of these documents has a long value.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_with_long_values_are_not_taken_in_one_step() {
    let part = Part::new();
    let store = part.open();
    let mut requests = Vec::new();
    for index in 0..24 {
        let ours = claim(format!("key {index}"));
        stored(&store, &ours).await;
        freed(&store, &ours).await;
        requests.push(Acquire::new(ours, long()));
    }
    assert!(store.try_acquire_all(&requests).await.unwrap().is_none());
    let some = store.try_acquire_all(&requests[..8]).await.unwrap().expect("one step");
    let is_granted = |it: &AcquireOutcome| matches!(it, AcquireOutcome::Granted(_));
    assert!(some.iter().all(is_granted), "{some:?}");
}

/// etcd counts 21 seconds, and the holder the 20.5 that it has asked for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_store_rounds_a_ttl_up_and_the_holder_does_not() {
    let part = Part::new();
    let store = part.open();
    let ttl = Ttl::new(Duration::from_millis(20_500)).unwrap();
    assert_eq!(store.limits().lease(ttl), seconds(21));
    // The deadline follows from the time of the request, which is between these two.
    let is_exact = |asked: Instant, until: Instant| {
        let answered = Clock::boot().now();
        assert!(until >= ttl.valid_until(asked), "the deadline was rounded down");
        assert!(until <= ttl.valid_until(answered), "the deadline was rounded up");
    };
    granted(&store, &claim("first"), long()).await;
    let others = part.server.leases_of(&part.folder());

    let (ours, asked) = (claim("it"), Clock::boot().now());
    is_exact(asked, granted(&store, &ours, ttl).await.valid_until);
    let leases = part.server.leases_of(&part.folder());
    let [lease] = leases.iter().filter(|id| !others.contains(id)).collect::<Vec<_>>()[..] else {
        panic!("one more lease: {leases:?} after {others:?}")
    };
    let told = part.server.ctl(&["lease", "timetolive", lease]);
    assert!(told.contains("granted with TTL(21s)"), "{told}");

    let asked = Clock::boot().now();
    let renewal = store.renew(&Renew::new(ours, ttl)).await;
    let Renewal::Renewed { valid_until, .. } = renewal else { panic!("{renewal:?}") };
    is_exact(asked, valid_until);
}
