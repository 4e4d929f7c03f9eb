//! The number of permits: what is remembered, for how long, and how exactly.

use lock_core::{
    Acquire, AcquireOutcome, Backend, Claim, Convert, ConvertBackend, ErrorKind, Mode,
    PermitBackend, Permits,
};
use lock_core::{Released, Renew, Renewal, Resize};

use crate::support::{
    Client, Server, Waiter, attempt, claim, granted, long, millis, open, refused,
};

const LIMIT: &str = "lock:{a}:limit";
const HOUR: i64 = 60 * 60 * 1000;

fn permits(take: u32, of: u32) -> Claim {
    claim("a").in_mode(Mode::Permits { take, of })
}

fn left(raw: &mut Client) -> i64 {
    raw.command(&["PTTL", LIMIT])
}

fn state(limit: u32, held: u32, waiting: u32) -> Permits {
    let mut permits = Permits::new(limit);
    (permits.held, permits.waiting) = (held, waiting);
    permits
}

#[tokio::test]
async fn a_limit_is_kept_for_an_hour_after_the_last_lease_or_for_good_once_it_was_changed() {
    let server = Server::start();
    let backend = open(&server);
    let mut raw = server.client();
    let held = permits(2, 5);
    granted(&backend, &held).await;
    assert_eq!(raw.command::<String>(&["GET", LIMIT]), "5 5 open");
    let lease = long().as_millis() as i64;
    assert!((HOUR..=HOUR + lease).contains(&left(&mut raw)), "{}", left(&mut raw));
    // A renewal is a use, and so is a look, which does not shorten the rest of its life.
    raw.command::<()>(&["PEXPIRE", LIMIT, "1000"]);
    assert!(matches!(
        backend.renew(&Renew::new(held.clone(), long())).await,
        Renewal::Renewed { .. }
    ));
    assert!(left(&mut raw) > HOUR);
    assert_eq!(backend.permits(&held.key, 5).await.unwrap(), state(5, 2, 0));
    assert!(left(&mut raw) > HOUR + lease / 2);

    backend.resize(&held.key, 5, Resize::Add(1)).await.unwrap();
    assert_eq!(raw.command::<String>(&["GET", LIMIT]), "5 6 open");
    assert_eq!(left(&mut raw), -1);
    // Neither a grant nor a renewal nor a look gives it an end.
    granted(&backend, &permits(4, 5)).await;
    assert!(matches!(
        backend.renew(&Renew::new(held.clone(), long())).await,
        Renewal::Renewed { .. }
    ));
    backend.permits(&held.key, 5).await.unwrap();
    assert_eq!(left(&mut raw), -1);
}

#[tokio::test]
async fn every_number_is_exact() {
    let server = Server::start();
    let backend = open(&server);
    let key = claim("a").key;
    let all = permits(u32::MAX, u32::MAX);
    granted(&backend, &all).await;
    assert_eq!(backend.permits(&key, u32::MAX).await.unwrap(), state(u32::MAX, u32::MAX, 0));
    let error = backend.resize(&key, u32::MAX, Resize::Add(1)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidConfig);
    assert!(error.to_string().contains("4294967295"), "{error}");
    refused(&backend, &permits(1, u32::MAX)).await;
    // One is released, and is free.
    let rest = all.clone().in_mode(Mode::Permits { take: u32::MAX - 1, of: u32::MAX });
    let request = Convert::new(all.clone(), rest.mode, long());
    assert!(matches!(backend.convert(&request).await.unwrap(), AcquireOutcome::Granted(_)));
    refused(&backend, &permits(2, u32::MAX)).await;
    let last = permits(1, u32::MAX);
    granted(&backend, &last).await;
    assert!(matches!(backend.forget(&rest).await.unwrap(), Released::Freed { .. }));
    assert_eq!(backend.forget(&rest).await.unwrap(), Released::NotHeld);
    assert_eq!(backend.permits(&key, u32::MAX).await.unwrap(), state(1, 1, 0));
    backend.release(&last).await.unwrap();
    let resized = backend.resize(&key, u32::MAX, Resize::Remove(u32::MAX)).await.unwrap();
    assert_eq!((resized.changed, resized.permits), (1, state(0, 0, 0)));
    let resized = backend.resize(&key, u32::MAX, Resize::Add(u32::MAX)).await.unwrap();
    assert_eq!((resized.changed, resized.permits), (u32::MAX, state(u32::MAX, 0, 0)));
}

#[tokio::test]
async fn permits_that_are_added_are_handed_over_in_the_same_step() {
    let server = Server::start();
    let (one, other) = (open(&server), open(&server));
    let held = permits(2, 2);
    granted(&one, &held).await;
    let mut line = Vec::new();
    for take in [2, 1, 1] {
        line.push(Waiter::queue(&other, permits(take, 2)).await);
    }
    assert_eq!(one.permits(&held.key, 2).await.unwrap(), state(2, 2, 3));
    // Not enough for the first claim, which is not overtaken.
    let resized = one.resize(&held.key, 2, Resize::Add(1)).await.unwrap();
    assert_eq!((resized.changed, resized.permits), (1, state(3, 2, 3)));
    assert_eq!(one.resize(&held.key, 2, Resize::Remove(1)).await.unwrap().changed, 0);
    let resized = one.resize(&held.key, 2, Resize::Add(2)).await.unwrap();
    assert_eq!(resized.permits, state(5, 5, 1));
    for waiter in &mut line[..2] {
        waiter.gets_it().await;
    }
    assert!(matches!(line[2].ask().await.unwrap(), AcquireOutcome::Queued { .. }));
}

#[tokio::test]
async fn waiters_hear_that_a_semaphore_is_closed() {
    let server = Server::start();
    let (one, other) = (open(&server), open(&server));
    let held = permits(1, 1);
    granted(&one, &held).await;
    let mut line = Vec::new();
    for backend in [&other, &one, &other] {
        line.push(Waiter::queue(backend, permits(1, 1)).await);
    }
    one.close(&held.key, 1).await.unwrap();
    for waiter in &mut line {
        assert_eq!(waiter.told().await, None);
        assert_eq!(waiter.ask().await.unwrap_err().kind(), ErrorKind::Closed);
    }
    let mut raw = server.client();
    assert!(!raw.command::<bool>(&["EXISTS", "lock:{a}:queue"]));
    assert!(!raw.command::<bool>(&["EXISTS", "lock:{a}:places"]));
    assert_eq!(left(&mut raw), -1);
    // The holder of a permit asks again for its permit.
    granted(&one, &held).await;
    assert!(one.permits(&held.key, 1).await.unwrap().closed);
}

#[tokio::test]
async fn a_limit_that_was_evicted_is_known_to_its_holders() {
    let server = Server::start();
    let backend = open(&server);
    let mut raw = server.client();
    let held = permits(2, 3);
    granted(&backend, &held).await;
    raw.command::<()>(&["DEL", LIMIT]);
    let error = attempt(&backend, &permits(1, 4)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidConfig);
    assert!(error.to_string().contains('3') && error.to_string().contains('4'), "{error}");
    assert_eq!(backend.permits(&held.key, 4).await.unwrap_err().kind(), ErrorKind::InvalidConfig);
    refused(&backend, &permits(2, 3)).await;
    assert_eq!(raw.command::<String>(&["GET", LIMIT]), "3 3 open");
    raw.command::<()>(&["DEL", LIMIT]);
    backend.forget(&held).await.unwrap();
    assert_eq!(raw.command::<String>(&["GET", LIMIT]), "3 1 open");
}

#[tokio::test]
async fn a_limit_that_makes_no_sense_grants_nothing() {
    let server = Server::start();
    let backend = open(&server);
    let mut raw = server.client();
    for nonsense in ["", "x", "3", "3 3", "3 3 open ", "-3 3 open"] {
        raw.command::<()>(&["SET", LIMIT, nonsense]);
        let error = attempt(&backend, &permits(1, 3)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{nonsense}: {error}");
        assert!(!raw.command::<bool>(&["EXISTS", "lock:{a}"]));
    }
    raw.command::<()>(&["DEL", LIMIT]);
    raw.command::<()>(&["RPUSH", LIMIT, "x"]);
    assert_eq!(attempt(&backend, &permits(1, 3)).await.unwrap_err().kind(), ErrorKind::ForeignKey);
}

#[tokio::test]
async fn a_request_for_more_permits_than_exist_waits_until_they_are_added() {
    let server = Server::start();
    let (one, other) = (open(&server), open(&server));
    let key = claim("a").key;
    // Either all of them are free, or one is held for a while.
    for held in [None, Some(permits(1, 2))] {
        if let Some(held) = &held {
            granted(&one, held).await;
        }
        assert_eq!(refused(&other, &permits(3, 2)).await, None);
    }
    let mut waiter = Waiter::queue(&other, permits(3, 2)).await;
    one.resize(&key, 2, Resize::Add(2)).await.unwrap();
    waiter.gets_it().await;
    // There are four, and all are held.
    assert_eq!(refused(&other, &permits(5, 2)).await, None);
    assert!(refused(&other, &permits(4, 2)).await.is_some());
}

#[tokio::test]
async fn a_waiter_for_a_permit_keeps_the_limit_known() {
    let server = Server::start();
    let backend = open(&server);
    let mut raw = server.client();
    refused(&backend, &permits(1, 0)).await;
    assert_eq!(raw.command::<String>(&["GET", LIMIT]), "0 0 open");
    raw.command::<()>(&["PEXPIRE", LIMIT, "1000"]);
    refused(&backend, &permits(1, 0)).await;
    assert!(left(&mut raw) > HOUR, "{}", left(&mut raw));
    // A claim that declares another number is no use of the limit.
    raw.command::<()>(&["PEXPIRE", LIMIT, "1000"]);
    attempt(&backend, &permits(1, 3)).await.unwrap_err();
    assert!(left(&mut raw) <= 1000, "{}", left(&mut raw));
}

#[tokio::test]
async fn a_lease_of_no_permits_ends_like_any_other() {
    let server = Server::start();
    let backend = open(&server);
    let (none, all) = (permits(0, 2), permits(2, 2));
    granted(&backend, &all).await;
    granted(&backend, &none).await;
    assert!(matches!(backend.release(&none).await.unwrap(), Released::Freed { .. }));
    assert_eq!(backend.permits(&all.key, 2).await.unwrap(), state(2, 2, 0));
}

#[tokio::test]
async fn a_key_that_is_another_kind_of_lock_has_no_permits() {
    let server = Server::start();
    let backend = open(&server);
    for mode in [Mode::Exclusive, Mode::Shared, Mode::Joint { group: claim("a").owner }] {
        let held = claim("a").in_mode(mode);
        granted(&backend, &held).await;
        let error = backend.permits(&held.key, 3).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ForeignKey, "{error}");
        backend.release(&held).await.unwrap();
    }
    let mut raw = server.client();
    raw.command::<()>(&["SET", "lock:{a}", "theirs"]);
    let error = backend.close(&claim("a").key, 3).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ForeignKey, "{error}");
    assert!(!raw.command::<bool>(&["EXISTS", LIMIT]));
    let error = backend.forget(&claim("a")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidConfig);
}

#[tokio::test]
async fn a_look_at_permits_gives_those_of_ended_leases_to_waiters() {
    let server = Server::start();
    let (one, other) = (open(&server), open(&server));
    let key = claim("a").key;
    // Another claim has to wait before it ends.
    let lease = millis(5_000);
    let request = Acquire::new(permits(1, 1), lease);
    assert!(matches!(one.try_acquire(&request).await.unwrap(), AcquireOutcome::Granted(_)));
    let mut waiter = Waiter::queue(&other, permits(1, 1)).await;
    tokio::time::sleep(lease.duration() + millis(30).duration()).await;
    assert_eq!(one.permits(&key, 1).await.unwrap(), state(1, 1, 0));
    waiter.gets_it().await;
}
