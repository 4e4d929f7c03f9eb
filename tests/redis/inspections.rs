//! What people see of a lock, and how they can end it.

use lock_core::{
    Acquire, AcquireOutcome, Backend, ErrorKind, Hint, InspectBackend, Kind, Mode, OwnerToken,
};
use lock_core::{Inspection, Renew, Renewal};
use lock_redis::{Notifications, RedisBackend};

use crate::support::{Client, Server, Waiter, claim, granted, keys, long, open, soon};

const LOCK: &str = "lock:{a}";

/// All keys of the server that concern locks.
fn dump(raw: &mut Client) -> Vec<(String, Vec<u8>)> {
    keys(raw)
        .into_iter()
        .map(|key| {
            let value = raw.command::<Vec<u8>>(&["DUMP", &key]);
            (key, value)
        })
        .collect()
}

#[tokio::test]
async fn to_look_changes_nothing() {
    let server = Server::start();
    let (one, other) = (open(&server), open(&server));
    let key = claim("a").key;
    assert_eq!(one.inspect(&key).await.unwrap(), Inspection::default());
    let group = Mode::Joint { group: OwnerToken::generate().unwrap() };
    let permits = Mode::Permits { take: 3, of: 4 };
    for (mode, kind) in [
        (Mode::Exclusive, Kind::Exclusive),
        (Mode::Shared, Kind::Shared),
        (Mode::Upgradable, Kind::Upgradable),
        (group, Kind::Joint),
        (permits, Kind::Permits(3)),
    ] {
        let held = claim("a").in_mode(mode);
        let token = granted(&one, &held).await.tokens.first();
        let waiting = [Mode::Exclusive, permits].map(|mode| claim("a").in_mode(mode));
        let mut line = Vec::new();
        for claim in waiting {
            line.push(Waiter::queue(&other, claim).await);
        }
        let mut raw = server.client();
        let before = dump(&mut raw);
        let seen = one.inspect(&key).await.unwrap();
        assert_eq!(dump(&mut raw), before);
        assert_eq!((seen.holding, seen.waiting), (1, 2), "{mode:?}");
        assert_eq!((seen.holders[0].kind, seen.holders[0].token), (kind, Some(token)));
        assert!(seen.holders[0].remaining.unwrap() <= long().duration());
        let kinds = seen.waiters.iter().map(|waiter| waiter.kind).collect::<Vec<_>>();
        assert_eq!(kinds, [Kind::Exclusive, Kind::Permits(3)]);
        for waiter in &line {
            waiter.release().await;
        }
        one.release(&held).await.unwrap();
    }
}

#[tokio::test]
async fn a_lock_of_another_library_is_seen_and_ended() {
    let server = Server::start();
    let (one, other) = (open(&server), open(&server));
    let mut raw = server.client();
    raw.command::<()>(&["SET", LOCK, "theirs"]);
    let mut waiter = Waiter::queue(&other, claim("a")).await;
    let seen = one.inspect(&claim("a").key).await.unwrap();
    assert_eq!((seen.holding, seen.waiting), (1, 1));
    let holder = &seen.holders[0];
    assert_eq!((holder.kind, holder.token, holder.remaining), (Kind::Exclusive, None, None));
    assert_eq!(one.force_release(&claim("a").key).await.unwrap(), 1);
    waiter.gets_it().await;
    assert_eq!(one.force_release(&claim("a").key).await.unwrap(), 1);
    assert_eq!(one.force_release(&claim("a").key).await.unwrap(), 0);
    // A value that is no lock is left alone.
    raw.command::<()>(&["RPUSH", LOCK, "x"]);
    for outcome in [
        one.inspect(&claim("a").key).await.map(drop),
        one.force_release(&claim("a").key).await.map(drop),
    ] {
        assert_eq!(outcome.unwrap_err().kind(), ErrorKind::ForeignKey);
    }
    assert!(raw.command::<bool>(&["EXISTS", LOCK]));
}

#[tokio::test]
async fn a_forced_release_reaches_holders_and_waiters_over_each_source() {
    let server = Server::with(&["--notify-keyspace-events", "Kg$xe"]);
    let person = open(&server);
    let build = || RedisBackend::builder(server.url());
    for builder in [
        build(),
        build().notifications(Notifications::Off),
        build().release_messages(false),
        build().release_messages(false).notifications(Notifications::Off).tracking(true),
    ] {
        let (holder, other) = (builder.clone().build().unwrap(), builder.build().unwrap());
        let permits = |take| claim("a").in_mode(Mode::Permits { take, of: 3 });
        let mut watch = holder.watch(&claim("a").key).await.unwrap();
        let held = [permits(1), permits(2)];
        for claim in &held {
            granted(&holder, claim).await;
        }
        let mut waiter = Waiter::queue(&other, permits(3)).await;
        assert_eq!(soon(watch.next()).await, Some(Hint::Contended));
        assert_eq!(person.force_release(&claim("a").key).await.unwrap(), 2);
        waiter.gets_it().await;
        assert!(matches!(soon(watch.next()).await, Some(Hint::Released | Hint::Changed)));
        for claim in held {
            assert!(matches!(holder.renew(&Renew::new(claim, long())).await, Renewal::Lost));
        }
        waiter.release().await;
    }
}

#[tokio::test]
async fn of_very_many_a_thousand_are_listed() {
    const MANY: usize = Inspection::MAX + 1;
    let server = Server::start();
    let backend = open(&server);
    let _watch = backend.watch(&claim("a").key).await.unwrap();
    for _ in 0..MANY {
        granted(&backend, &claim("a").in_mode(Mode::Shared)).await;
    }
    for _ in 0..MANY {
        let request = Acquire::new(claim("a"), long()).queued();
        assert!(matches!(
            backend.try_acquire(&request).await.unwrap(),
            AcquireOutcome::Queued { .. }
        ));
    }
    let seen = backend.inspect(&claim("a").key).await.unwrap();
    assert_eq!((seen.holders.len(), seen.holding), (Inspection::MAX, MANY as u64));
    assert_eq!((seen.waiters.len(), seen.waiting), (Inspection::MAX, MANY as u64));
}
