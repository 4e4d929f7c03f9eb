//! Leases that several owners share: readers and permits.

use lock_core::{Acquire, AcquireOutcome, Backend, Mode, Released};
use lock_core::{Renew, Renewal};

use crate::support::{Server, claim, granted, keys, long, millis, open, refused, soon};

const LOCK: &str = "lock:{a}";
const HOLDERS: &str = "lock:{a}:holders";
/// The keys of an unused semaphore.
const LEFT: [&str; 2] = ["lock:{a}:limit", "lock:{a}:state"];

#[tokio::test]
async fn sharers_end_with_the_key() {
    let server = Server::start();
    let (one, other) = (open(&server), open(&server));
    let mut raw = server.client();
    for end in [&["DEL", LOCK][..], &["SET", LOCK, "theirs", "PX", "50"]] {
        let readers = [claim("a").in_mode(Mode::Shared), claim("a").in_mode(Mode::Upgradable)];
        for reader in &readers {
            granted(&one, reader).await;
        }
        raw.command::<()>(end);
        for reader in &readers {
            let renewal = one.renew(&Renew::new(reader.clone(), long())).await;
            assert!(matches!(renewal, Renewal::Lost), "{renewal:?}");
            assert_eq!(one.release(reader).await.unwrap(), Released::NotHeld);
        }
        soon(async {
            while raw.command::<bool>(&["EXISTS", LOCK]) {
                tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            }
        })
        .await;
        // The rest of them counts for no later claim.
        let worker = claim("a").in_mode(Mode::Permits { take: 2, of: 2 });
        granted(&other, &worker).await;
        other.release(&worker).await.unwrap();
        assert_eq!(keys(&mut raw), LEFT);
    }
}

#[tokio::test]
async fn sharers_whose_time_is_over_make_room_a_few_at_a_time() {
    const MANY: u32 = 100;
    let server = Server::start();
    let (one, other) = (open(&server), open(&server));
    let mut raw = server.client();
    let permit = Mode::Permits { take: 1, of: MANY + 1 };
    let stays = claim("a").in_mode(permit);
    for _ in 0..MANY {
        granted(&one, &claim("a").in_mode(permit)).await;
    }
    // As if their leases had all ended at once.
    for name in raw.command::<Vec<String>>(&["ZRANGE", HOLDERS, "0", "-1"]) {
        raw.command::<()>(&["ZADD", HOLDERS, "1", &name]);
    }
    granted(&one, &stays).await;
    let rest = Acquire::new(claim("a").in_mode(Mode::Permits { take: MANY, of: MANY + 1 }), long());
    let mut refusals = 0;
    while let AcquireOutcome::Busy { retry_after } = other.try_acquire(&rest).await.unwrap() {
        assert!(retry_after.unwrap() <= millis(10).duration(), "{retry_after:?}");
        refusals += 1;
    }
    assert!((1..MANY / 10).contains(&refusals), "a hundred were cleared away in {refusals} calls");
    assert!(matches!(one.renew(&Renew::new(stays, long())).await, Renewal::Renewed { .. }));
}

#[tokio::test]
async fn a_lock_that_is_shared_lasts_as_long_as_its_last_lease() {
    let server = Server::start();
    let backend = open(&server);
    let mut raw = server.client();
    let reader = || claim("a").in_mode(Mode::Shared);
    let (long_one, short_one) = (reader(), reader());
    for (reader, ttl) in [(&long_one, millis(60_000)), (&short_one, millis(20_000))] {
        let attempt = backend.try_acquire(&Acquire::new(reader.clone(), ttl)).await.unwrap();
        assert!(matches!(attempt, AcquireOutcome::Granted(_)));
    }
    assert!(raw.command::<i64>(&["PTTL", LOCK]) > 20_000);
    backend.release(&long_one).await.unwrap();
    let left = raw.command::<i64>(&["PTTL", LOCK]);
    assert!(left > 0 && left <= 20_000, "{left}");
    let told = refused(&backend, &claim("a")).await.unwrap();
    assert!(told <= millis(20_000).duration(), "{told:?}");

    // A foreign PERSIST neither makes the lock last, nor ends it with the next claim.
    raw.command::<()>(&["PERSIST", LOCK]);
    let brief = Acquire::new(reader(), millis(100));
    assert!(matches!(backend.try_acquire(&brief).await.unwrap(), AcquireOutcome::Granted(_)));
    let left = raw.command::<i64>(&["PTTL", LOCK]);
    assert!(left > 10_000 && left <= 20_000, "{left}");
    raw.command::<()>(&["PERSIST", LOCK]);
    let renewal = backend.renew(&Renew::new(short_one, millis(20_000))).await;
    assert!(matches!(renewal, Renewal::Renewed { .. }), "{renewal:?}");
    assert!(raw.command::<i64>(&["PTTL", LOCK]) > 10_000);
}

#[tokio::test]
async fn what_is_not_known_of_sharers_makes_no_room() {
    let server = Server::start();
    let backend = open(&server);
    let mut raw = server.client();
    let permits = |take| claim("a").in_mode(Mode::Permits { take, of: 5 });
    let first = permits(3);
    granted(&backend, &first).await;
    raw.command::<()>(&["DEL", "lock:{a}:grants"]);
    refused(&backend, &permits(2)).await;
    backend.release(&first).await.unwrap();
    assert_eq!(keys(&mut raw), LEFT);
    granted(&backend, &permits(5)).await;
}
