//! A lock that was held under another term of the server, and not seen released, waits out its lease.

use std::time::Duration;

use lock_core::{
    Acquire, AcquireOutcome, Backend, Claim, Clock, Convert, ConvertBackend, ErrorKind,
    InspectBackend, Mode, OwnerToken, Released, Renew, Renewal, Ttl,
};
use lock_redis::RedisBackend;
use lock_tests::{CommandStats, RedisCluster, RedisServer, SOON, Sentinels, eventually_async};

use crate::support::{Waiter, claim, released};

fn modes() -> [Mode; 5] {
    let permits = Mode::Permits { take: 2, of: 3 };
    let joint = Mode::Joint { group: OwnerToken::from_bytes([7; 16]) };
    [Mode::Exclusive, Mode::Shared, Mode::Upgradable, permits, joint]
}

fn ttl(millis: u64) -> Ttl {
    Ttl::new(Duration::from_millis(millis)).unwrap()
}

/// One server, whose term changes when it becomes a replica for a moment.
struct Server(RedisServer);

impl Server {
    fn start() -> Self {
        Self(RedisServer::start())
    }

    fn client(&self) -> RedisBackend {
        RedisBackend::builder(self.0.url()).term_quarantine(true).build().unwrap()
    }

    fn term(&self) -> String {
        let info = self.0.cli(&["INFO", "replication"]).text();
        let term = info.lines().find_map(|line| line.strip_prefix("master_replid:"));
        term.unwrap().to_owned()
    }

    fn begin_another_term(&self) {
        let before = self.term();
        for command in [["REPLICAOF", "127.0.0.1", "1"], ["REPLICAOF", "NO", "ONE"]] {
            assert_eq!(self.0.cli(&command).text(), "OK");
        }
        assert_ne!(self.term(), before);
    }

    /// The lock is as on a server whose clock is ahead: its lease seems to be over.
    fn end_leases(&self, name: &str) {
        let names = ["", ":holders", ":grants"].map(|end| format!("lock:{{{name}}}{end}"));
        self.0.cli(&[&["DEL"][..], &names.each_ref().map(String::as_str)].concat());
    }

    fn state(&self, name: &str) -> String {
        self.0.cli(&["GET", &format!("lock:{{{name}}}:state")]).text()
    }
}

async fn ask(backend: &RedisBackend, claim: &Claim, ttl: Ttl) -> AcquireOutcome {
    backend.try_acquire(&Acquire::new(claim.clone(), ttl)).await.unwrap()
}

async fn take(backend: &RedisBackend, claim: &Claim, ttl: Ttl) {
    let attempt = ask(backend, claim, ttl).await;
    assert!(matches!(attempt, AcquireOutcome::Granted(_)), "{claim:?} {attempt:?}");
}

async fn renew(backend: &RedisBackend, claim: &Claim, ttl: Ttl) -> Renewal {
    backend.renew(&Renew::new(claim.clone(), ttl)).await
}

/// Asks until the claim is granted, as the store proposes. Returns how long that took.
async fn wait_for(backend: &RedisBackend, claim: &Claim) -> Duration {
    let since = Clock::boot().now();
    loop {
        match ask(backend, claim, ttl(60_000)).await {
            AcquireOutcome::Granted(_) => {
                return Clock::boot().now().saturating_duration_since(since);
            }
            AcquireOutcome::Busy { retry_after: Some(after) } => tokio::time::sleep(after).await,
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_lock_of_another_term_waits_out_its_lease_in_every_mode() {
    let server = Server::start();
    let backend = server.client();
    for held in modes() {
        // One lock for each mode in which another claim asks. These claims wait at once.
        let asked: Vec<_> = modes()
            .into_iter()
            .enumerate()
            .map(|(number, asked)| (number.to_string(), asked))
            .collect();
        for (name, _) in &asked {
            take(&backend, &claim(name).in_mode(held), ttl(400)).await;
        }
        server.begin_another_term();
        asked.iter().for_each(|(name, _)| server.end_leases(name));
        let waits = asked.iter().map(|(name, asked)| {
            let (backend, asked) = (&backend, claim(name).in_mode(*asked));
            async move {
                let waited = wait_for(backend, &asked).await;
                assert!(waited >= Duration::from_millis(402), "{held:?} {asked:?} {waited:?}");
                released(backend, &asked).await;
            }
        });
        futures::future::join_all(waits).await;
        server.0.flushall();
    }
}

#[tokio::test]
async fn the_longest_lease_counts_that_was_granted_or_renewed() {
    let server = Server::start();
    let watching = server.client();
    let (mut watches, mut locks) = (Vec::new(), Vec::new());
    for mode in modes() {
        for is_watched in [true, false] {
            let name = locks.len().to_string();
            // A client that watches the lock uses other scripts.
            let client = if is_watched { watching.clone() } else { server.client() };
            if is_watched {
                watches.push(client.watch(&claim(&name).key).await.unwrap());
            }
            let [short, long] = [(); 2].map(|()| claim(&name).in_mode(mode));
            take(&client, &short, ttl(2_800)).await;
            assert!(matches!(renew(&client, &short, ttl(3_000)).await, Renewal::Renewed { .. }));
            if mode == Mode::Shared {
                take(&client, &long, ttl(100)).await;
            }
            let again = renew(&client, &short, ttl(200)).await;
            assert!(matches!(again, Renewal::Renewed { .. }));
            locks.push((client, name, mode));
        }
    }
    server.begin_another_term();
    locks.iter().for_each(|(_, name, _)| server.end_leases(name));
    let waits = locks.iter().map(|(client, name, mode)| async move {
        let waited = wait_for(client, &claim(name)).await;
        assert!(waited >= Duration::from_millis(3_015), "{mode:?} {waited:?}");
    });
    futures::future::join_all(waits).await;
    drop(watches);
}

#[tokio::test]
async fn many_renewals_in_one_call_are_noted() {
    let server = Server::start();
    let backend = server.client();
    let claims = ["a", "b"].map(claim);
    for claim in &claims {
        take(&backend, claim, ttl(5_000)).await;
    }
    // The first round notes the longer lease, and the second one finds it noted.
    for _ in 0..2 {
        let renewals = claims.iter().map(|claim| renew(&backend, claim, ttl(9_000)));
        for renewal in futures::future::join_all(renewals).await {
            assert!(matches!(renewal, Renewal::Renewed { .. }), "{renewal:?}");
        }
    }
    for name in ["a", "b"] {
        assert!(server.state(name).ends_with(".9000"), "{}", server.state(name));
    }
}

#[tokio::test]
async fn a_lock_that_was_never_taken_or_was_released_is_granted_at_once() {
    let server = Server::start();
    let backend = server.client();
    let long = ttl(60_000);
    for mode in modes() {
        for way in ["never", "released", "watched", "handed over", "forced"] {
            let [held, next] = [(); 2].map(|()| claim("a").in_mode(mode));
            let watch = backend.watch(&held.key).await.unwrap();
            // Without a watch the quick scripts do everything.
            let watch = (way != "released").then_some(watch);
            if way != "never" {
                take(&backend, &held, long).await;
            }
            match way {
                "forced" => assert_eq!(backend.force_release(&held.key).await.unwrap(), 1),
                "handed over" => {
                    let waits = claim("a");
                    let request = Acquire::new(waits.clone(), long).queued();
                    let queued = backend.try_acquire(&request).await.unwrap();
                    assert!(matches!(queued, AcquireOutcome::Queued { .. }), "{queued:?}");
                    released(&backend, &held).await;
                    assert!(!server.state("a").contains(" r"), "{}", server.state("a"));
                    assert!(matches!(renew(&backend, &waits, long).await, Renewal::Renewed { .. }));
                    assert_ne!(released(&backend, &waits).await, Released::NotHeld);
                }
                "never" => {}
                _ => assert_ne!(released(&backend, &held).await, Released::NotHeld),
            }
            server.begin_another_term();
            take(&backend, &next, long).await;
            released(&backend, &next).await;
            drop(watch);
            server.0.flushall();
        }
    }
}

#[tokio::test]
async fn what_is_held_stays_held_and_is_handed_over() {
    let server = Server::start();
    let backend = server.client();
    let long = ttl(60_000);
    for mode in modes() {
        let held = claim("a").in_mode(mode);
        take(&backend, &held, long).await;
        let mut waiter = Waiter::queue(&server.client(), claim("a")).await;
        server.begin_another_term();
        assert!(matches!(renew(&backend, &held, long).await, Renewal::Renewed { .. }));
        assert!(matches!(waiter.ask().await, AcquireOutcome::Queued { .. }));
        if mode == Mode::Exclusive {
            assert_ne!(released(&backend, &held).await, Released::NotHeld);
            waiter.gets_it().await;
            released(&waiter.backend, &waiter.request.claim).await;
        }
        server.0.flushall();
    }
}

#[tokio::test]
async fn sharers_go_on_while_no_other_claim_is_granted() {
    let server = Server::start();
    let backend = server.client();
    let [first, second] = [(); 2].map(|()| claim("a").in_mode(Mode::Shared));
    let upgradable = claim("a").in_mode(Mode::Upgradable);
    for claim in [&first, &upgradable] {
        take(&backend, claim, ttl(900)).await;
    }
    server.begin_another_term();
    take(&backend, &second, ttl(900)).await;
    for claim in [&first, &second] {
        assert_ne!(released(&backend, claim).await, Released::NotHeld);
    }
    // A lease of a sharer may have ended here too early, so no sharer is known to be the only one.
    let upgrade = Convert::new(upgradable.clone(), Mode::Exclusive, ttl(900));
    let attempt = backend.convert(&upgrade).await.unwrap();
    assert!(matches!(attempt, AcquireOutcome::Busy { .. }), "{attempt:?}");
    assert_ne!(released(&backend, &upgradable).await, Released::NotHeld);
    let next = claim("a");
    assert!(matches!(ask(&backend, &next, ttl(60_000)).await, AcquireOutcome::Busy { .. }));
    wait_for(&backend, &next).await;
}

#[tokio::test]
async fn several_locks_in_one_step_wait_out_the_lease_of_one() {
    let server = Server::start();
    let backend = server.client();
    take(&backend, &claim("a"), ttl(400)).await;
    server.begin_another_term();
    server.end_leases("a");
    let since = Clock::boot().now();
    let requests = ["a", "b"].map(|name| Acquire::new(claim(name), ttl(60_000)));
    loop {
        let attempts = backend.try_acquire_all(&requests).await.unwrap().unwrap();
        match &attempts[..] {
            [AcquireOutcome::Granted(_), AcquireOutcome::Granted(_)] => break,
            [AcquireOutcome::Busy { retry_after: Some(after) }, _] => {
                tokio::time::sleep(*after).await
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(Clock::boot().now().saturating_duration_since(since) >= Duration::from_millis(402));
}

/// How often the server was asked for its term.
fn asked(server: &Server, before: &CommandStats) -> u64 {
    server.0.commandstats().since(before).calls("info")
}

#[tokio::test]
async fn grants_do_not_each_ask_the_server_for_its_term() {
    const GRANTS: u64 = 500;
    let server = Server::start();
    let (here, there) = (server.client(), server.client());
    let since = Clock::boot().now();
    let before = server.0.commandstats();
    for number in 0..GRANTS {
        let held = claim((number % 7).to_string());
        take(&here, &held, ttl(60_000)).await;
        assert_ne!(released(&here, &held).await, Released::NotHeld);
    }
    // Hand-overs do not, either.
    let (mut holder, mut questions) = (claim("a"), 0);
    take(&here, &holder, ttl(60_000)).await;
    for turn in 0..GRANTS {
        let (from, to) = if turn % 2 == 0 { (&here, &there) } else { (&there, &here) };
        let mut waiter = Waiter::queue(to, claim("a")).await;
        released(from, &holder).await;
        questions += u64::from(waiter.waits_for_its_grant().await);
        assert_ne!(server.state("a").find(&server.term()[..16]), None, "{}", server.state("a"));
        holder = waiter.request.claim;
    }
    // The message is enough, if it does not come late on a busy machine.
    assert!(questions < GRANTS / 10, "{questions} questions");
    let seconds = Clock::boot().now().saturating_duration_since(since).as_secs();
    // The test asks once in each turn. Each client asks once in a second, and a few times at first.
    let asked = asked(&server, &before) - GRANTS;
    assert!(asked <= 2 * (seconds + 8), "{asked} questions in {seconds} s");
}

/// The client of a connection that outlives a term goes on to name that term for a while.
#[tokio::test]
async fn a_lock_that_names_an_earlier_term_is_kept_back_all_the_same() {
    let server = Server::start();
    let backend = server.client();
    take(&backend, &claim("other"), ttl(60_000)).await;
    let term = server.term();
    take(&backend, &claim("before"), ttl(500)).await;
    server.begin_another_term();
    take(&backend, &claim("a"), ttl(500)).await;
    let state = server.state("a");
    assert!(
        state.contains(&term[..16]),
        "the test proves nothing: {state} names another term than {term}"
    );
    server.begin_another_term();
    server.end_leases("a");
    server.end_leases("before");
    for name in ["before", "a"] {
        assert!(wait_for(&backend, &claim(name)).await >= Duration::from_millis(505), "{name}");
    }
}

#[tokio::test]
async fn every_further_term_counts_anew() {
    let server = Server::start();
    let backend = server.client();
    take(&backend, &claim("a"), ttl(600)).await;
    server.begin_another_term();
    server.end_leases("a");
    let next = claim("a");
    assert!(matches!(ask(&backend, &next, ttl(60_000)).await, AcquireOutcome::Busy { .. }));
    tokio::time::sleep(Duration::from_millis(300)).await;
    server.begin_another_term();
    assert!(wait_for(&backend, &next).await >= Duration::from_millis(605));
}

#[tokio::test]
async fn without_the_right_to_the_term_nothing_is_granted() {
    let server = Server::start();
    let rules = ["on", ">hunter2", "~*", "&*", "+@all", "-info"];
    server.0.cli(&[&["ACL", "SETUSER", "locks"][..], &rules].concat());
    let url = server.0.url_as("locks", "hunter2");
    let client = |on| RedisBackend::builder(url.clone()).term_quarantine(on).build().unwrap();
    for mode in modes() {
        let request = Acquire::new(claim("a").in_mode(mode), ttl(60_000));
        let error = client(true).try_acquire(&request).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
        assert!(error.to_string().contains("+info"), "{error}");
        assert!(server.0.keys("lock:{a}").is_empty(), "{mode:?}");
    }
    take(&client(false), &claim("a"), ttl(60_000)).await;
}

/// Holds a lock of a client with default options, has the lease end too early under another term, and asks for the
/// lock.
async fn by_default(url: String, fail: impl FnOnce()) -> Duration {
    let backend = RedisBackend::open(url).unwrap();
    take(&backend, &claim("a"), ttl(5_000)).await;
    tokio::task::block_in_place(fail);
    let next = claim("a");
    let since = Clock::boot().now();
    eventually_async("the lock is granted", SOON * 3, async || {
        let attempt = backend.try_acquire(&Acquire::new(next.clone(), ttl(60_000))).await;
        attempt.is_ok_and(|it| matches!(it, AcquireOutcome::Granted(_)))
    })
    .await;
    Clock::boot().now().saturating_duration_since(since)
}

const LOCK: [&str; 2] = ["DEL", "lock:{a}"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn behind_sentinels_a_lock_of_another_term_is_kept_back_by_default() {
    let deployment = Sentinels::with_patience(0, 1, SOON * 6);
    let server = &deployment.servers()[0];
    let fail = || {
        for command in [["REPLICAOF", "127.0.0.1", "1"], ["REPLICAOF", "NO", "ONE"]] {
            assert_eq!(server.cli(&command).text(), "OK");
        }
        assert_eq!(server.cli(&LOCK).int(), 1);
    };
    let waited = by_default(deployment.url(), fail).await;
    assert!(waited >= Duration::from_millis(5_050), "{waited:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_a_cluster_a_lock_of_another_term_is_kept_back_by_default() {
    let cluster = RedisCluster::start(1, 1);
    let fail = || {
        cluster.fail_over_to(1, false);
        assert_eq!(cluster.nodes()[1].server().cli(&LOCK).int(), 1);
    };
    let waited = by_default(cluster.url(), fail).await;
    assert!(waited >= Duration::from_millis(5_050), "{waited:?}");
}
