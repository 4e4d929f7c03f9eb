//! The bugs that a review of the scripts has found, so that they do not come back.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lock_core::{
    Acquire, AcquireOutcome, Backend, Ballot, Claim, ErrorKind, FencingToken, Hint, InspectBackend,
    Mode, OwnerToken, QuorumNode, Released, Renew, Renewal, Ttl, Vote,
};
use lock_redis::{Builder, RedisBackend};
use lock_tests::{Direction, Proxy, RedisServer, SOON, ServerClock, eventually_async};

use crate::support::{Client, Server, Waiter, claim, granted, long, open, proxy_before, refused};

const LOCK: &str = "lock:{a}";
const STATE: &str = "lock:{a}:state";
const QUEUE: &str = "lock:{a}:queue";
const HOUR: Duration = Duration::from_secs(3_600);

fn exists(raw: &mut Client, key: &str) -> bool {
    raw.command(&["EXISTS", key])
}

/// Ends the connections of a client for good, and waits until the server has noticed. This many clients that hear are
/// left.
async fn gone(proxy: &Proxy, raw: &mut Client, left: usize) {
    proxy.cut_off();
    eventually_async("the server has noticed", SOON, async || {
        raw.command::<Vec<String>>(&["PUBSUB", "CHANNELS", "lock:inbox:*"]).len() == left
    })
    .await;
}

fn floor() -> FencingToken {
    FencingToken::floor(SystemTime::now().duration_since(UNIX_EPOCH).unwrap())
}

fn ballot() -> Ballot {
    Ballot::new(Acquire::new(claim("a"), long()), floor())
}

mod a_lock_that_is_released_by_force {
    use super::*;

    /// A client behind a proxy, one that holds the lock, and another one.
    async fn clients(server: &Server) -> (Proxy, [RedisBackend; 3]) {
        let proxy = proxy_before(server);
        let lost = RedisBackend::open(proxy.url()).unwrap();
        let (holder, other) = (open(server), open(server));
        granted(&holder, &claim("a")).await;
        (proxy, [lost, holder, other])
    }

    #[tokio::test]
    async fn is_not_left_to_a_waiter_that_has_gone() {
        let server = Server::start();
        let (proxy, [lost, _holder, other]) = clients(&server).await;
        let mut raw = server.client();
        let waiter = Waiter::queue(&lost, claim("a")).await;
        gone(&proxy, &mut raw, 0).await;
        assert_eq!(raw.command::<u64>(&["LLEN", QUEUE]), 1, "it has its place still");
        assert_eq!(other.force_release(&waiter.claim().key).await.unwrap(), 1);
        assert!(!exists(&mut raw, LOCK) && !exists(&mut raw, QUEUE));
        granted(&other, &claim("a")).await;
    }

    #[tokio::test]
    async fn goes_to_the_first_waiter_that_is_there() {
        let server = Server::start();
        let (proxy, [lost, holder, other]) = clients(&server).await;
        let mut raw = server.client();
        let _dead = Waiter::queue(&lost, claim("a")).await;
        let mut live = Waiter::queue(&other, claim("a")).await;
        gone(&proxy, &mut raw, 1).await;
        assert_eq!(holder.force_release(&live.claim().key).await.unwrap(), 1);
        live.gets_it().await;
        refused(&holder, &claim("a")).await;
        assert!(matches!(live.release().await, Released::Freed { .. }));
        assert!(!exists(&mut raw, LOCK));
    }
}

/// Times that are printed with an exponent unless a script prevents it.
#[tokio::test]
async fn a_foreign_lock_that_lives_for_ages_is_refused_in_words_that_are_understood() {
    let server = Server::start();
    let (plain, watching) = (open(&server), open(&server));
    let mut raw = server.client();
    let _watch = watching.watch(&claim("a").key).await.unwrap();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64;
    // The last one ends when the clock of the server does, a minute before that.
    let most = i64::MAX as u64 - now - 60_000;
    for left in [100_000_000_000_000, 1 << 53, 1_000_000_000_000_000_000, most] {
        raw.command::<()>(&["SET", LOCK, "theirs", "PX", &left.to_string()]);
        let is_about = |told: Option<Duration>| {
            let told = told.expect("the lease has an end").as_millis() as f64;
            // No double distinguishes such times by the millisecond.
            assert!((told - left as f64).abs() < 60_000., "{told} of {left}");
        };
        for backend in [&plain, &watching] {
            is_about(refused(backend, &claim("a")).await);
            is_about(refused(backend, &claim("a").in_mode(Mode::Shared)).await);
            is_about(refused(backend, &claim("a").in_mode(Mode::Permits { take: 1, of: 2 })).await);
            for mode in [Mode::Exclusive, Mode::Shared] {
                let mut ballot = ballot();
                ballot.request.claim.mode = mode;
                match backend.vote(&ballot).await.unwrap() {
                    Vote::Busy { retry_after, .. } => is_about(retry_after),
                    other => panic!("{other:?}"),
                }
            }
            let requests = ["a", "b"].map(|name| Acquire::new(claim(name), long()));
            match backend.try_acquire_all(&requests).await.unwrap().as_deref() {
                Some([AcquireOutcome::Busy { retry_after }, _]) => is_about(*retry_after),
                other => panic!("{other:?}"),
            }
            is_about(backend.inspect(&claim("a").key).await.unwrap().holders[0].remaining);
        }
        let request = Acquire::new(claim("a"), long()).queued();
        let queued = watching.try_acquire(&request).await.unwrap();
        assert!(matches!(queued, AcquireOutcome::Queued { retry_after: Some(_) }), "{queued:?}");
        watching.release(&request.claim).await.unwrap();
        assert_eq!(raw.command::<String>(&["GET", LOCK]), "theirs");
    }
}

mod a_server_whose_clock_is_before_2020 {
    use super::*;

    /// A time before that, in seconds since 1970.
    const NEW_YEAR_2020: i64 = 1_577_836_800;

    /// Once by the quick scripts, and once by those for clients that watch the lock.
    async fn refuses_every_grant(server: &RedisServer) {
        let plain = RedisBackend::open(server.url()).unwrap();
        refuses(server, &plain).await;
        let watching = RedisBackend::open(server.url()).unwrap();
        let _watch = watching.watch(&claim("a").key).await.unwrap();
        refuses(server, &watching).await;
    }

    async fn refuses(server: &RedisServer, backend: &RedisBackend) {
        let clock = server.cli(&["TIME"]).array()[0].text();
        let is_refused = |error: lock_core::Error, what: String| {
            assert_eq!(error.kind(), ErrorKind::NotReady, "{what} at {clock}: {error}");
            assert!(error.to_string().contains("clock"), "{what} at {clock}: {error}");
            let keys = server.keys("*");
            let left = keys.iter().any(|key| ["lock:{a}", "lock:{b}"].contains(&key.as_str()));
            assert!(!left, "{what} at {clock} left {keys:?}");
        };
        let error = backend.vote(&ballot()).await.expect_err(&clock);
        is_refused(error, "a vote".to_owned());
        let group = OwnerToken::generate().unwrap();
        let permits = Mode::Permits { take: 1, of: 2 };
        for mode in
            [Mode::Exclusive, Mode::Shared, Mode::Upgradable, permits, Mode::Joint { group }]
        {
            for is_queued in [false, true] {
                let mut request = Acquire::new(claim("a").in_mode(mode), long());
                request.queue = is_queued;
                let error = backend.try_acquire(&request).await.expect_err(&clock);
                is_refused(error, format!("{mode:?}"));
            }
        }
        let requests = ["a", "b"].map(|name| Acquire::new(claim(name), long()));
        let error = backend.try_acquire_all(&requests).await.expect_err(&clock);
        is_refused(error, "several together".to_owned());
    }

    #[tokio::test]
    async fn refuses_every_grant_and_leaves_no_lock() {
        let clock = ServerClock::new();
        assert!(clock.is_real(), "the clock of the server cannot be set here");
        let server = clock.options(RedisServer::builder()).start();
        let backend = RedisBackend::open(server.url()).unwrap();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64;
        // As digits, some of these sort after the beginning of 2020, and the last two equal the beginning of the
        // present time.
        let times =
            [NEW_YEAR_2020 - 3_600, 999_999_000, 200_000_000, 86_400, now / 10_000, now / 100];
        for knows_the_lock in [false, true] {
            for time in times {
                if knows_the_lock {
                    let held = claim("a");
                    granted(&backend, &held).await;
                    backend.release(&held).await.unwrap();
                }
                let back = now - time;
                clock.jump(&server, -back * 1_000);
                refuses_every_grant(&server).await;
                clock.jump(&server, back * 1_000);
                server.cli(&["FLUSHALL"]);
            }
        }
        granted(&backend, &claim("a")).await;
    }
}

/// A waiter that hears of its grant and does not react.
#[tokio::test]
async fn the_claim_after_a_silent_one_is_told_when_to_ask() {
    for mode in [Mode::Exclusive, Mode::Shared] {
        let server = Server::start();
        let proxy = proxy_before(&server);
        let silent = RedisBackend::open(proxy.url()).unwrap();
        let (holder, other) = (open(&server), open(&server));
        let held = claim("a").in_mode(mode);
        granted(&holder, &held).await;
        let first = Waiter::queue(&silent, claim("a")).await;
        let mut next = Waiter::queue(&other, claim("a")).await;
        proxy.silence(Direction::ToClient);
        holder.release(&held).await.unwrap();
        let Hint::Next { owner, after } = next.hint().await else { panic!("it is not told") };
        assert_eq!(owner, next.claim().owner);
        assert!(after <= first.request.ttl.for_grant().duration(), "{after:?}");
        // It asks when the hint says so, and again for the rest of the lease then.
        next.asks_until_it_has(after).await;
    }
}

/// A foreign client sends no message of its release.
#[tokio::test]
async fn the_first_in_the_queue_looks_for_the_end_of_a_foreign_lease_and_no_other_does() {
    const OFTEN: Duration = Duration::from_millis(100);
    let server = Server::start();
    let (one, other) = (open(&server), open(&server));
    let mut raw = server.client();
    for lease in [&["SET", LOCK, "theirs"][..], &["SET", LOCK, "theirs", "PX", "60000"]] {
        raw.command::<()>(lease);
        let first = Waiter::queue(&one, claim("a")).await;
        let mut second = Waiter::queue(&other, claim("a")).await;
        for _ in 0..3 {
            assert!(first.asks_in().await <= OFTEN);
            assert!(second.asks_in().await > OFTEN);
        }
        assert_eq!(first.release().await, Released::NotHeld);
        // The client hears that it may ask at once.
        assert_eq!(second.told().await, None);
        assert!(second.asks_in().await <= OFTEN);
        assert_eq!(raw.command::<String>(&["GET", LOCK]), "theirs");
        raw.command::<()>(&["DEL", LOCK]);
        second.asks_and_has().await;
        second.release().await;
    }
}

mod a_foreign_value_of_64_mib {
    use super::*;

    /// How often each request is sent in one round. There are so many rounds that the best of them is undisturbed.
    const ASKS: usize = 20;
    const ROUNDS: usize = 10;

    /// How often the server ran scripts, and for how long, in µs.
    fn scripts(raw: &mut Client) -> (f64, f64) {
        let stats = raw.command::<String>(&["INFO", "commandstats"]);
        let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:")).unwrap();
        let mut figures = line.split(',').map(|figure| figure.split_once('=').unwrap().1);
        let mut next = || figures.next().unwrap().parse().unwrap();
        (next(), next())
    }

    /// Sends requests that cannot be served, in every way that costs a script.
    async fn asks(plain: &RedisBackend, waiter: &Waiter) {
        let lost = claim("a");
        refused(plain, &lost).await;
        refused(plain, &claim("a").in_mode(Mode::Shared)).await;
        let queued = waiter.ask().await.unwrap();
        assert!(matches!(queued, AcquireOutcome::Queued { .. }), "{queued:?}");
        let unqueued = Acquire::new(claim("a"), long());
        let busy = waiter.backend.try_acquire(&unqueued).await.unwrap();
        assert!(matches!(busy, AcquireOutcome::Busy { .. }), "{busy:?}");
        for backend in [plain, &waiter.backend] {
            let renewal = backend.renew(&Renew::new(lost.clone(), long())).await;
            assert!(matches!(renewal, Renewal::Lost), "{renewal:?}");
            assert_eq!(backend.release(&lost).await.unwrap(), Released::NotHeld);
            backend.inspect(&lost.key).await.unwrap();
            let vote = backend.vote(&ballot()).await.unwrap();
            assert!(matches!(vote, Vote::Busy { .. }), "{vote:?}");
        }
    }

    /// The cost of one script, in µs.
    async fn cost(raw: &mut Client, plain: &RedisBackend, waiter: &Waiter) -> f64 {
        let before = scripts(raw);
        for _ in 0..ASKS {
            asks(plain, waiter).await;
        }
        let after = scripts(raw);
        assert!(after.0 - before.0 >= (ASKS * 10) as f64);
        (after.1 - before.1) / (after.0 - before.0)
    }

    #[tokio::test]
    async fn costs_no_more_than_one_of_ten_bytes() {
        let server = Server::start();
        let (plain, other) = (open(&server), open(&server));
        let mut raw = server.client();
        raw.command::<()>(&["SET", LOCK, "ten bytes!"]);
        let waiter = Waiter::queue(&other, claim("a")).await;
        let mut least = [f64::MAX; 2];
        for _ in 0..ROUNDS {
            raw.command::<()>(&["SET", LOCK, "ten bytes!"]);
            least[0] = least[0].min(cost(&mut raw, &plain, &waiter).await);
            raw.command::<()>(&["SETRANGE", LOCK, "67108863", "x"]);
            least[1] = least[1].min(cost(&mut raw, &plain, &waiter).await);
            assert_eq!(raw.command::<usize>(&["STRLEN", LOCK]), 64 << 20);
        }
        let [small, large] = least;
        assert!(large <= 3. * small && large <= 1_000., "{large} µs instead of {small} µs");
    }
}

mod a_queue_that_is_full {
    use super::*;

    const MANY: u32 = 100;

    /// A lock with this many places in its queue, whose clients have gone, and which are kept for hours.
    async fn of_the_dead(server: &Server, holder: &Claim) -> RedisBackend {
        let proxy = proxy_before(server);
        let lost = RedisBackend::builder(proxy.url()).queue_limit(MANY).build().unwrap();
        let backend = open(server);
        granted(&backend, holder).await;
        let mut raw = server.client();
        let hours = Ttl::new(3 * HOUR).unwrap();
        for _ in 0..MANY {
            Waiter::queue_for(&lost, claim("a"), hours).await;
        }
        gone(&proxy, &mut raw, 0).await;
        assert_eq!(raw.command::<u32>(&["LLEN", QUEUE]), MANY);
        backend
    }

    #[tokio::test]
    async fn of_places_whose_clients_have_gone_takes_one_that_is_there() {
        let server = Server::start();
        let held = claim("a");
        let holder = of_the_dead(&server, &held).await;
        // One script clears away some tens of places, and a smaller limit needs more of them gone.
        for (limit, most) in [(MANY, 1), (MANY / 10, 5)] {
            let live = RedisBackend::builder(server.url()).queue_limit(limit).build().unwrap();
            let _watch = live.watch(&held.key).await.unwrap();
            let request = Acquire::new(claim("a"), long()).queued();
            let mut asks = 1;
            while let Err(error) = live.try_acquire(&request).await {
                assert_eq!(error.kind(), ErrorKind::QueueFull, "{error}");
                assert!(asks < most, "it was refused {asks} times");
                asks += 1;
            }
            live.release(&request.claim).await.unwrap();
        }
        // The rest of them does not keep the lock from a new claim.
        holder.release(&held).await.unwrap();
        granted(&open(&server), &claim("a")).await;
    }

    #[tokio::test]
    async fn of_places_whose_clients_are_there_stays_full() {
        let server = Server::start();
        let held = claim("a");
        let (holder, line) = (open(&server), open(&server));
        granted(&holder, &held).await;
        let first = Waiter::queue(&line, claim("a")).await;
        let second = Waiter::queue(&line, claim("a")).await;
        let late = RedisBackend::builder(server.url()).queue_limit(2).build().unwrap();
        let _watch = late.watch(&held.key).await.unwrap();
        for _ in 0..5 {
            let request = Acquire::new(claim("a"), long()).queued();
            let error = late.try_acquire(&request).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::QueueFull, "{error}");
        }
        assert_eq!(server.client().command::<u64>(&["LLEN", QUEUE]), 2);
        drop((first, second));
    }
}

mod the_retention {
    use super::*;

    fn with(server: &Server, retention: Duration) -> Builder {
        RedisBackend::builder(server.url()).retention(retention)
    }

    /// The state outlives a lease by the retention, counted from the grant, and no longer.
    fn check(raw: &mut Client, retention: Duration, what: &str) {
        let left = Duration::from_millis(raw.command(&["PTTL", STATE]));
        let most = long().duration() + retention;
        // The time of the test itself is not counted.
        assert!(left <= most && left > most - SOON, "{what}: {left:?} of {most:?}");
        raw.command::<()>(&["DEL", LOCK, STATE]);
    }

    #[tokio::test]
    async fn is_how_long_the_state_stays() {
        let server = Server::start();
        let mut raw = server.client();
        for retention in [Duration::from_secs(1), HOUR / 6, 720 * HOUR] {
            let build = || with(&server, retention).build().unwrap();
            let (plain, watching) = (build(), build());
            let permits = Mode::Permits { take: 1, of: 2 };
            for mode in [Mode::Exclusive, Mode::Shared, Mode::Upgradable, permits] {
                let held = claim("a").in_mode(mode);
                granted(&plain, &held).await;
                plain.release(&held).await.unwrap();
                check(&mut raw, retention, &format!("{mode:?}"));
            }
            let requests = ["a", "b"].map(|name| Acquire::new(claim(name), long()));
            plain.try_acquire_all(&requests).await.unwrap();
            for request in &requests {
                plain.release(&request.claim).await.unwrap();
            }
            check(&mut raw, retention, "together");

            let held = claim("a");
            let _watch = watching.watch(&held.key).await.unwrap();
            raw.command::<()>(&["DEL", STATE]);
            granted(&watching, &held).await;
            watching.release(&held).await.unwrap();
            check(&mut raw, retention, "the full script");
        }
    }

    #[tokio::test]
    async fn is_an_hour_unless_it_is_said() {
        let server = Server::start();
        let held = claim("a");
        let backend = open(&server);
        granted(&backend, &held).await;
        backend.release(&held).await.unwrap();
        check(&mut server.client(), HOUR, "the default");
    }

    #[tokio::test]
    async fn is_at_least_a_second_and_at_most_thirty_days() {
        let server = Server::start();
        let (least, most) = (Duration::from_secs(1), 720 * HOUR);
        let tick = Duration::from_nanos(1);
        for bad in [Duration::ZERO, least - tick, most + tick, Duration::MAX] {
            let error = with(&server, bad).build().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{bad:?}");
        }
        for good in [least, most] {
            let backend = with(&server, good).build().unwrap();
            let held = claim("a");
            granted(&backend, &held).await;
            backend.release(&held).await.unwrap();
        }
    }
}
