//! Renewals and repeats of places that begin together, and cost few calls.

use std::pin::Pin;
use std::time::Duration;

use futures::future::join_all;
use futures::poll;
use lock_core::{
    Acquire, Attempt, Backend, Claim, Clock, Demand, ErrorKind, Key, Renew, Renewal, Watch,
};
use lock_redis::{Protocol, RedisBackend};
use tokio::runtime::Builder;
use tokio::task::yield_now;

use crate::support::{
    Client, Server, Waiter, attempt, claim, claim_of, granted, long, millis, proxy_before, refused,
    silence, soon,
};

const MANY: usize = 100;

type Running<'a> = Pin<Box<dyn Future<Output = Renewal> + Send + 'a>>;

fn open(server: &Server) -> RedisBackend {
    RedisBackend::open(server.url()).unwrap()
}

fn claims(count: usize) -> Vec<Claim> {
    (0..count).map(|number| claim(number.to_string())).collect()
}

/// How many scripts ran.
fn scripts(raw: &mut Client) -> u64 {
    let stats = raw.command::<String>(&["INFO", "commandstats"]);
    let line = stats.lines().find(|line| line.starts_with("cmdstat_evalsha:")).unwrap();
    line.split(['=', ',']).nth(1).unwrap().parse().unwrap()
}

async fn hold(backend: &RedisBackend, claims: &[Claim]) {
    join_all(claims.iter().map(|claim| granted(backend, claim))).await;
}

fn renewals<'a>(backend: &'a RedisBackend, claims: &'a [Claim]) -> Vec<Running<'a>> {
    let running = claims.iter().map(|claim| -> Running<'a> {
        Box::pin(async { backend.renew(&Renew::new(claim.clone(), long())).await })
    });
    running.collect()
}

/// Renews all, which begin together.
async fn renew(backend: &RedisBackend, claims: &[Claim]) -> Vec<Renewal> {
    join_all(renewals(backend, claims)).await
}

/// What a renewal says of those who wait; nothing, if the lease is lost.
fn demand(renewal: &Renewal) -> Option<Demand> {
    match renewal {
        Renewal::Renewed { valid_until, tokens: None, demand } => {
            let until = Clock::boot().now() + long().duration();
            assert!(*valid_until <= until && *valid_until + Duration::from_secs(30) > until);
            Some(*demand)
        }
        Renewal::Lost => None,
        other => panic!("{other:?}"),
    }
}

fn pttl(raw: &mut Client, key: &str) -> i64 {
    raw.command(&["PTTL", key])
}

#[tokio::test]
async fn renewals_that_begin_together_are_few_scripts() {
    let server = Server::start();
    let backend = open(&server);
    let claims = claims(MANY);
    hold(&backend, &claims).await;
    // The first batch loads the script.
    renew(&backend, &claims).await;
    let mut raw = server.client();
    for number in 0..MANY {
        raw.command::<()>(&["PEXPIRE", &format!("lock:{{{number}}}"), "5000"]);
        raw.command::<()>(&["PEXPIRE", &format!("lock:{{{number}}}:state"), "5000"]);
    }
    let before = scripts(&mut raw);
    let renewed = renew(&backend, &claims).await;
    assert_eq!(scripts(&mut raw) - before, 2);
    assert!(renewed.iter().all(|it| demand(it) == Some(Demand::Unknown)));
    for number in 0..MANY {
        let [lock, state] =
            ["", ":state"].map(|end| pttl(&mut raw, &format!("lock:{{{number}}}{end}")));
        assert!(lock > 50_000 && state > lock, "{lock} {state}");
    }
}

#[tokio::test]
async fn a_lone_renewal_is_the_script_that_it_was() {
    let server = Server::start();
    let backend = open(&server);
    let claims = claims(2);
    hold(&backend, &claims).await;
    let mut raw = server.client();
    let count = |raw: &mut Client| (scripts(raw), gets(raw));
    let before = count(&mut raw);
    for _ in 0..10 {
        renew(&backend, &claims[..1]).await;
    }
    // The quick script reads no state.
    assert_eq!(count(&mut raw), (before.0 + 10, before.1));
    let task = |claim: Claim| {
        let backend = backend.clone();
        tokio::spawn(async move { backend.renew(&Renew::new(claim, long())).await })
    };
    for claim in &claims {
        assert_eq!(demand(&task(claim.clone()).await.unwrap()), Some(Demand::Unknown));
    }
    assert_eq!(count(&mut raw), (before.0 + 12, before.1));
}

/// How often a state was read.
fn gets(raw: &mut Client) -> u64 {
    let stats = raw.command::<String>(&["INFO", "commandstats"]);
    let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_get:calls="));
    line.map_or(0, |line| line.split(',').next().unwrap().parse().unwrap())
}

/// What befalls a lease before it is renewed together with others.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Nothing,
    Watched,
    WatchedLater,
    Wanted,
    Gone,
    Taken,
    Overwritten,
    OfAnotherType,
    WithoutState,
    WithOddState,
    Unsettled,
}

const FATES: [Fate; 11] = [
    Fate::Nothing,
    Fate::Watched,
    Fate::WatchedLater,
    Fate::Wanted,
    Fate::Gone,
    Fate::Taken,
    Fate::Overwritten,
    Fate::OfAnotherType,
    Fate::WithoutState,
    Fate::WithOddState,
    Fate::Unsettled,
];

impl Fate {
    fn demand(self) -> Option<Demand> {
        match self {
            Self::Nothing | Self::WithoutState | Self::WithOddState => Some(Demand::Unknown),
            Self::Watched | Self::WatchedLater => Some(Demand::Quiet),
            Self::Wanted | Self::Unsettled => Some(Demand::Wanted),
            Self::Gone | Self::Taken | Self::Overwritten | Self::OfAnotherType => None,
        }
    }

    /// Whether the script for one lease has to decide.
    fn is_odd(self) -> bool {
        let odd = [Self::WatchedLater, Self::OfAnotherType, Self::WithoutState, Self::Unsettled];
        odd.contains(&self)
    }
}

/// Leases that met their fate, and what keeps it up.
struct Scene {
    claims: Vec<Claim>,
    watches: Vec<Watch>,
    waiters: Vec<Waiter>,
}

impl Scene {
    async fn set(server: &Server, holder: &RedisBackend, other: &RedisBackend) -> Self {
        let claims = claims(MANY);
        let mut scene = Self { claims: claims.clone(), watches: Vec::new(), waiters: Vec::new() };
        let mut raw = server.client();
        for (number, claim) in claims.iter().enumerate() {
            let fate = FATES[number % FATES.len()];
            if fate == Fate::Watched {
                scene.watches.push(holder.watch(&claim.key).await.unwrap());
            }
            granted(holder, claim).await;
            scene.befall(fate, claim, holder, other).await;
            befall_keys(&mut raw, fate, &format!("lock:{{{number}}}"));
        }
        scene
    }

    async fn befall(
        &mut self,
        fate: Fate,
        claim: &Claim,
        holder: &RedisBackend,
        other: &RedisBackend,
    ) {
        match fate {
            Fate::WatchedLater => self.watches.push(holder.watch(&claim.key).await.unwrap()),
            Fate::Wanted | Fate::Unsettled => {
                self.waiters.push(Waiter::queue(other, claim_of(claim.key.clone())).await);
            }
            Fate::Taken => {
                holder.release(claim).await.unwrap();
                granted(other, &claim_of(claim.key.clone())).await;
            }
            _ => {}
        }
    }
}

fn befall_keys(raw: &mut Client, fate: Fate, lock: &str) {
    let state = format!("{lock}:state");
    match fate {
        Fate::Gone => raw.command::<()>(&["DEL", lock]),
        Fate::Overwritten => raw.command(&["SET", lock, "theirs"]),
        Fate::OfAnotherType => {
            raw.command::<()>(&["DEL", lock]);
            raw.command(&["RPUSH", lock, "theirs"])
        }
        Fate::WithoutState => raw.command(&["DEL", &state]),
        Fate::WithOddState => raw.command(&["SET", &state, "odd", "PX", "9999999999"]),
        // The mark is lost, as where an older copy of the lock came back.
        Fate::Unsettled => {
            let text = raw.command::<String>(&["GET", lock]);
            raw.command(&["SET", lock, &text[..32], "PX", "5000"])
        }
        _ => {}
    }
}

#[tokio::test]
async fn each_renewal_has_its_own_answer() {
    let server = Server::start();
    for protocol in [Protocol::Resp2, Protocol::Resp3] {
        let open = || RedisBackend::builder(server.url()).protocol(protocol).build().unwrap();
        let (holder, other) = (open(), open());
        let mut raw = server.client();
        let scene = Scene::set(&server, &holder, &other).await;
        renew(&holder, &scene.claims[..2]).await;
        let before = scripts(&mut raw);
        let renewed = renew(&holder, &scene.claims).await;
        let calls = scripts(&mut raw) - before;
        let fates = || (0..MANY).map(|number| FATES[number % FATES.len()]);
        for (number, (fate, renewal)) in fates().zip(&renewed).enumerate() {
            // What is unwatched and unmarked is taken to be wanted by nobody, as the quick script takes it.
            let expected =
                if fate == Fate::Unsettled { Some(Demand::Unknown) } else { fate.demand() };
            assert_eq!(demand(renewal), expected, "{number} {fate:?}");
            if expected.is_some() {
                assert!(pttl(&mut raw, &format!("lock:{{{number}}}")) > 50_000, "{fate:?}");
            }
        }
        let odd = fates().filter(|fate| fate.is_odd() && *fate != Fate::Unsettled).count() as u64;
        assert_eq!(calls, 2 + odd, "{protocol:?}");
        assert_eq!(raw.command::<String>(&["GET", "lock:{6}"]), "theirs");
        assert_eq!(raw.command::<String>(&["GET", "lock:{9}:state"]), "odd");
        // What was odd is put right.
        let before = scripts(&mut raw);
        let renewed = renew(&holder, &scene.claims[1..3]).await;
        assert!(renewed.iter().all(|it| demand(it) == Some(Demand::Quiet)));
        assert_eq!(scripts(&mut raw) - before, 1);
        raw.command::<()>(&["FLUSHALL"]);
    }
}

#[tokio::test]
async fn places_that_are_kept_together_are_few_scripts_and_served_in_order() {
    let server = Server::start();
    let (holder, other) = (open(&server), open(&server));
    let claims = claims(MANY);
    hold(&holder, &claims).await;
    let mut line = Vec::new();
    for turn in 0..2 {
        for claim in claims.iter().take(if turn == 0 { MANY } else { 10 }) {
            line.push(Waiter::queue(&other, claim_of(claim.key.clone())).await);
        }
    }
    let mut raw = server.client();
    join_all(line.iter().map(Waiter::ask)).await;
    for number in 0..MANY {
        for end in ["queue", "places"] {
            raw.command::<()>(&["PEXPIRE", &format!("lock:{{{number}}}:{end}"), "5000"]);
        }
    }
    let before = scripts(&mut raw);
    for attempt in join_all(line.iter().map(Waiter::ask)).await {
        let Attempt::Queued { retry_after: Some(after) } = attempt.unwrap() else { panic!() };
        assert!(after > Duration::from_secs(5) && after <= long().duration());
    }
    assert_eq!(scripts(&mut raw) - before, 2);
    for number in 0..MANY {
        let [queue, places] =
            ["queue", "places"].map(|end| pttl(&mut raw, &format!("lock:{{{number}}}:{end}")));
        assert!(queue > 15_000 && places > 15_000, "{queue} {places}");
    }
    let (first, second) = line.split_at_mut(MANY);
    for (claim, waiter) in claims.iter().zip(&mut *first) {
        holder.release(claim).await.unwrap();
        assert!(waiter.told().await.is_some(), "enough of the lease is known");
    }
    for (holder, waiter) in first.iter().zip(second) {
        holder.release().await;
        assert!(waiter.told().await.is_some());
    }
}

#[tokio::test]
async fn a_place_that_cannot_be_kept_is_asked_for_alone() {
    let server = Server::start();
    let (holder, other) = (open(&server), open(&server));
    let claims = claims(8);
    hold(&holder, &claims).await;
    let mut line = Vec::new();
    for claim in &claims {
        line.push(Waiter::queue(&other, claim_of(claim.key.clone())).await);
    }
    join_all(line.iter().map(Waiter::ask)).await;
    let mut raw = server.client();
    spoil_places(&mut raw, &line[6]);
    let before = scripts(&mut raw);
    let told = join_all(line.iter().map(Waiter::ask)).await;
    assert_eq!(scripts(&mut raw) - before, 1 + 5);
    let waits = told.into_iter().map(|attempt| match attempt.unwrap() {
        Attempt::Queued { retry_after } => retry_after,
        Attempt::Granted(_) => None,
        other => panic!("{other:?}"),
    });
    let waits = waits.collect::<Vec<_>>();
    for (number, wait) in waits.iter().enumerate() {
        assert_eq!(wait.is_some(), number != 1, "{number}");
    }
    // The first in the queue looks after a client that tells nobody of its release.
    for (number, wait) in waits.iter().enumerate() {
        let is_soon = *wait == Some(Duration::from_millis(60));
        assert_eq!(is_soon, [3, 4].contains(&number), "{number}");
    }
    for key in ["lock:{2}:queue", "lock:{4}:queue", "lock:{6}:queue"] {
        assert_eq!(raw.command::<u64>(&["LLEN", key]), 1, "{key}");
    }
    refused(&holder, &claim("1")).await;
}

/// The first is free, the second is without its queue, another kind of client holds the third and the fourth, where
/// a place is before that lapsed, the fifth is shared, and in the sixth the place is lost.
fn spoil_places(raw: &mut Client, sixth: &Waiter) {
    raw.command::<()>(&["DEL", "lock:{1}"]);
    raw.command::<()>(&["DEL", "lock:{2}:queue"]);
    raw.command::<()>(&["SET", "lock:{3}", "theirs", "PX", "50000"]);
    raw.command::<()>(&["SET", "lock:{4}", "theirs", "PX", "50000"]);
    raw.command::<()>(&["LPUSH", "lock:{4}:queue", "x:00000000000000000000000000000000"]);
    raw.command::<()>(&["SET", "lock:{5}", &format!("{:32}", "*shared"), "PX", "50000"]);
    raw.command::<()>(&["HDEL", "lock:{6}:places", &format!("x:{}", owner(sixth.claim()))]);
}

fn owner(claim: &Claim) -> String {
    String::from_utf8(claim.owner.expose().to_vec()).unwrap()
}

#[tokio::test]
async fn a_repeat_that_is_dropped_takes_no_place() {
    let server = Server::start();
    let (holder, other) = (open(&server), open(&server));
    let claims = claims(3);
    hold(&holder, &claims).await;
    let mut line = Vec::new();
    for claim in &claims {
        line.push(Waiter::queue(&other, claim_of(claim.key.clone())).await);
    }
    let mut asking = line.iter().map(|waiter| Box::pin(waiter.ask())).collect::<Vec<_>>();
    for ask in &mut asking {
        assert!(poll!(ask).is_pending());
    }
    drop(asking.remove(0));
    line[0].release().await;
    for attempt in join_all(asking).await {
        assert!(matches!(attempt.unwrap(), Attempt::Queued { .. }));
    }
    assert!(!server.client().command::<bool>(&["EXISTS", "lock:{0}:queue"]));
}

#[tokio::test]
async fn a_renewal_that_is_dropped_harms_no_other() {
    let server = Server::start();
    let proxy = proxy_before(&server);
    let backend = RedisBackend::open(format!("redis://{}", proxy.addr())).unwrap();
    let claims = claims(10);
    hold(&backend, &claims).await;
    // Before the call is sent: the first, the last, and one between them.
    let mut running = renewals(&backend, &claims);
    for renewal in &mut running {
        assert!(poll!(renewal).is_pending());
    }
    for gone in [9, 4, 0] {
        drop(running.remove(gone));
    }
    assert!(soon(join_all(running)).await.iter().all(|it| demand(it).is_some()));
    // While the call is under way.
    silence(&proxy);
    let mut running = renewals(&backend, &claims);
    for _ in 0..3 {
        for renewal in &mut running {
            assert!(poll!(renewal).is_pending());
        }
        yield_now().await;
    }
    for gone in [9, 4, 0] {
        drop(running.remove(gone));
    }
    proxy.pass();
    assert!(soon(join_all(running)).await.iter().all(|it| demand(it).is_some()));
    // All but one.
    let mut running = renewals(&backend, &claims);
    for renewal in &mut running {
        assert!(poll!(renewal).is_pending());
    }
    running.truncate(1);
    assert!(soon(join_all(running)).await.iter().all(|it| demand(it).is_some()));
}

#[tokio::test]
async fn a_renewal_that_is_not_polled_holds_up_no_other() {
    let server = Server::start();
    let backend = open(&server);
    let claims = claims(3);
    hold(&backend, &claims).await;
    for first in 0..3 {
        let mut running = renewals(&backend, &claims);
        for renewal in &mut running {
            assert!(poll!(renewal).is_pending());
        }
        let idle = running.remove(first);
        assert!(soon(join_all(running)).await.iter().all(|it| demand(it).is_some()));
        assert!(demand(&soon(idle).await).is_some());
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
                for renewal in &mut running {
                    assert!(poll!(renewal).is_pending());
                }
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
                // What was not sent on one runtime is sent on the other.
                renewal => assert!(rounds == 1 && demand(&renewal).is_some()),
            }
        }
    }
    let renewed = other.block_on(renew(&backend, &claims));
    assert!(renewed.iter().all(|it| demand(it).is_some()));
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
            assert_eq!(demand(&renewal.unwrap()), Some(Demand::Unknown));
        }
    }
}

#[tokio::test]
async fn what_a_server_does_not_answer_is_unknown_of_each() {
    let server = Server::start();
    let proxy = proxy_before(&server);
    let builder = RedisBackend::builder(format!("redis://{}", proxy.addr()));
    let backend = builder.command_timeout(Duration::from_millis(200)).build().unwrap();
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
        let near = |number: usize| claim_of(Key::as_is(format!("{{{slot}}}{number}")).unwrap());
        claims.extend((0..5).map(near));
    }
    hold(&backend, &claims).await;
    for _ in 0..2 {
        let renewed = renew(&backend, &claims).await;
        assert!(renewed.iter().all(|it| demand(it) == Some(Demand::Unknown)));
    }
    let before = scripts(&mut raw);
    let renewed = renew(&backend, &claims).await;
    assert!(renewed.iter().all(|it| demand(it) == Some(Demand::Unknown)));
    assert_eq!(scripts(&mut raw) - before, 4 + 2);
}

#[tokio::test]
async fn a_user_who_lacks_a_right_to_one_lock_keeps_the_others() {
    let server = Server::start();
    let mut raw = server.client();
    let user =
        |keys: &str| format!("ACL SETUSER app on >secret resetkeys {keys} allchannels +@all");
    let mut set = |keys: &str| raw.command::<()>(&user(keys).split(' ').collect::<Vec<_>>());
    set("~lock:* ~theirs");
    let backend = RedisBackend::open(server.url().replace("//", "//app:secret@")).unwrap();
    let mut claims = claims(4);
    claims.push(claim_of(Key::as_is("theirs").unwrap()));
    hold(&backend, &claims).await;
    set("~lock:*");
    let mut renewed = renew(&backend, &claims).await;
    let Some(Renewal::Unknown(error)) = renewed.pop() else { panic!() };
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    assert!(renewed.iter().all(|it| demand(it) == Some(Demand::Unknown)));
}

#[tokio::test]
async fn a_lease_that_a_short_place_was_told_of_is_not_taken() {
    let server = Server::start();
    let (holder, other) = (open(&server), open(&server));
    let held = claims(2);
    let short = millis(400);
    for claim in &held {
        let attempt = holder.try_acquire(&Acquire::new(claim.clone(), short)).await.unwrap();
        assert!(matches!(attempt, Attempt::Granted(_)));
    }
    let mut line = Vec::new();
    for claim in &held {
        line.push(Waiter::queue(&other, claim_of(claim.key.clone())).await);
    }
    // The client asks again when the lease ends, and has the lock then.
    for attempt in join_all(line.iter().map(Waiter::ask)).await {
        let Attempt::Queued { retry_after: Some(after) } = attempt.unwrap() else { panic!() };
        assert!(after <= short.duration());
    }
    tokio::time::sleep(short.duration() + Duration::from_millis(10)).await;
    for attempt in join_all(line.iter().map(Waiter::ask)).await {
        assert!(matches!(attempt.unwrap(), Attempt::Granted(_)));
    }
    for claim in &held {
        assert!(matches!(attempt(&holder, claim).await.unwrap(), Attempt::Busy { .. }));
    }
}
