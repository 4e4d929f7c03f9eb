//! A server refuses one command to a user, in the middle of an operation. Then a final error is true: the operation has
//! changed nothing. Every later claim is served, and no key stays for ever.

mod leases;
mod others;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use futures::future::LocalBoxFuture;
use lock_core::{AcquireOutcome, Backend, Claim, FencingToken, Mode, Renew, Renewal, Ttl};
use lock_redis::RedisBackend;
use lock_tests::{CommandStats, requests};
use tokio::runtime::Builder;

use crate::rights::{LEAST, of_a_node, user};
use crate::support::{Client, Server, Waiter, claim, granted, long, millis, open};

/// An operation, and what must hold afterwards.
type Scenario = (&'static str, for<'a> fn(&'a Case<'a>) -> LocalBoxFuture<'a, ()>);

/// A right that is missing during one operation, and a lock for this case alone.
struct Case<'a> {
    /// The client that carries out the operation.
    poor: &'a RedisBackend,
    /// A client with all rights.
    other: &'a RedisBackend,
    raw: &'a RefCell<Client>,
    /// The missing right. Without one, the case finds out which commands the operation runs.
    missing: Option<&'a str>,
    name: String,
}

const EXCLUSIVE: Mode = Mode::Exclusive;
const SHARED: Mode = Mode::Shared;
const UPGRADABLE: Mode = Mode::Upgradable;
const TWO: Mode = Mode::Permits { take: 2, of: 3 };

/// The rest of a lease whose end a test can wait for.
fn short() -> Ttl {
    millis(300)
}

impl Case<'_> {
    fn claim(&self, mode: Mode) -> Claim {
        claim(&self.name).in_mode(mode)
    }

    fn command<T: redis::FromRedisValue>(&self, words: &[&str]) -> T {
        self.raw.borrow_mut().command(words)
    }

    fn set_right(&self, sign: char) {
        if let Some(right) = self.missing {
            self.command::<()>(&["ACL", "SETUSER", "locks", &format!("{sign}{right}")]);
        }
    }

    /// Carries out an operation without the right.
    async fn without<T>(&self, operation: impl Future<Output = T>) -> T {
        self.set_right('-');
        let answer = operation.await;
        self.set_right('+');
        let keys: Vec<String> = self.command(&["KEYS", &format!("lock:{{{}*", self.name)]);
        assert!(
            !keys.is_empty() || self.missing.is_some(),
            "{self}: the names of the keys are others"
        );
        for key in keys {
            let is_kept = key.ends_with(":cell") || key.ends_with(":limit");
            let left: i64 = self.command(&["PTTL", &key]);
            assert!(is_kept || left != -1, "{self}: {key} stays for ever");
        }
        answer
    }

    /// Holds the lock in a mode with the other client.
    async fn held_in(&self, mode: Mode) -> Claim {
        let held = self.claim(mode);
        granted(self.other, &held).await;
        held
    }

    /// A claim of the other client that waits.
    async fn waiting_for(&self, mode: Option<Mode>) -> Option<Waiter> {
        match mode {
            Some(mode) => Some(Waiter::queue(self.other, self.claim(mode)).await),
            None => None,
        }
    }

    /// The claim that waits is served, if there is one, and leaves. Returns its token.
    async fn serves(&self, waiter: Option<Waiter>) -> Option<FencingToken> {
        let waiter = waiter?;
        let token = waiter.asks_until_it_has(Duration::ZERO).await;
        waiter.release().await;
        Some(token)
    }

    async fn ask(&self) -> (Claim, AcquireOutcome) {
        let next = self.claim(EXCLUSIVE);
        let attempt = requests::attempt(self.other, &next, long()).await;
        (next, attempt.unwrap_or_else(|error| panic!("{self}: {error}")))
    }

    /// No claim is in the way of another claim.
    async fn is_free(&self) {
        let (next, attempt) = self.ask().await;
        assert!(matches!(attempt, AcquireOutcome::Granted(_)), "{self}: {attempt:?}");
        self.other.release(&next).await.unwrap();
    }

    async fn is_held(&self) {
        let (_, attempt) = self.ask().await;
        assert!(matches!(attempt, AcquireOutcome::Busy { .. }), "{self}: {attempt:?}");
    }

    /// Another claim gets the lock, at the latest when a [short](short) lease is over. Returns its token.
    async fn becomes_free(&self) -> FencingToken {
        let waiter = Waiter::new(self.other, self.claim(EXCLUSIVE), long()).await;
        self.serves(Some(waiter)).await.unwrap()
    }

    /// The lock lives for as long as a lease of a minute that began a moment ago.
    fn is_not_cut(&self) {
        let left: u64 = self.command(&["PTTL", &format!("lock:{{{}}}", self.name)]);
        assert!(left > 30_000, "{self}: the lock ends in {left} ms");
    }

    /// No claim waits.
    fn has_no_queue(&self) {
        let key = format!("lock:{{{}}}:queue", self.name);
        assert_eq!(self.command::<u64>(&["LLEN", &key]), 0, "{self}");
    }

    /// Makes the message of a grant to this claim reach no client.
    fn deafen(&self, claim: &Claim, mode: char) {
        let places = format!("lock:{{{}}}:places", self.name);
        let owner = std::str::from_utf8(claim.owner.expose()).unwrap();
        let name = format!("{mode}:{owner}");
        let place: String = self.command(&["HGET", &places, &name]);
        let mut words: Vec<_> = place.split(' ').collect();
        // The inbox ends in what the client knows of the history of the server.
        let (rest, term) = words[5].split_at(words[5].len() - 6);
        let inbox = format!("{}{term}", "0".repeat(rest.len()));
        words[5] = &inbox;
        self.command::<()>(&["HSET", &places, &name, &words.join(" ")]);
    }

    /// Gives the claim a [short](short) lease. Its lease was long while other claims took their places.
    async fn has_briefly(&self, claim: &Claim) {
        let renewal = self.poor.renew(&Renew::new(claim.clone(), short())).await;
        assert!(matches!(renewal, Renewal::Renewed { .. }), "{self}: {renewal:?}");
    }

    async fn has(&self, claim: &Claim) {
        let renewal = self.poor.renew(&Renew::new(claim.clone(), long())).await;
        assert!(matches!(renewal, Renewal::Renewed { .. }), "{self}: {renewal:?}");
        self.is_held().await;
    }

    /// The claim has its lease, and no other claim is in the way once it is released.
    async fn has_alone(&self, claim: &Claim) {
        self.has(claim).await;
        self.poor.release(claim).await.unwrap();
        self.is_free().await;
    }
}

impl fmt::Display for Case<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// Carries out each scenario without each of the commands that it runs. Several servers share the scenarios, each on a
/// thread of its own: the scenarios mostly wait for leases to end.
fn all(scenarios: &[Scenario]) {
    const SERVERS: usize = 5;
    std::thread::scope(|scope| {
        for first in 0..SERVERS {
            let share = move || {
                let runtime = Builder::new_current_thread().enable_all().build().unwrap();
                runtime.block_on(each(scenarios.iter().skip(first).step_by(SERVERS)));
            };
            let thread = std::thread::Builder::new().name(format!("server {first}"));
            thread.spawn_scoped(scope, share).unwrap();
        }
    });
}

async fn each<'a>(scenarios: impl Iterator<Item = &'a Scenario>) {
    let server = Server::start();
    let poor = user(&server, &of_a_node()).build().unwrap();
    let (other, raw) = (open(&server), RefCell::new(server.client()));
    let rights: Vec<_> = LEAST.split(" +").skip(1).collect();
    let calls = || {
        let info: String = raw.borrow_mut().command(&["INFO", "commandstats"]);
        let stats = CommandStats::parse(&info);
        rights.iter().map(|right| stats.calls(right)).collect::<Vec<_>>()
    };
    for (scenario, check) in scenarios {
        let before = calls();
        let case = |missing: Option<_>| {
            let name = format!("{scenario} without {}", missing.unwrap_or("nothing"));
            // A space would be written in another way in the names of keys.
            let name = name.replace(' ', "-");
            Case { poor: &poor, other: &other, raw: &raw, missing, name }
        };
        check(&case(None)).await;
        let used = rights.iter().zip(before).zip(calls());
        let used: BTreeSet<_> =
            used.filter(|((_, before), now)| now > before).map(|((right, _), _)| *right).collect();
        assert!(used.len() > 1, "{scenario} runs {used:?}");
        for right in used.into_iter().filter(|right| !right.contains("subscribe")) {
            println!("{scenario} without {right}");
            check(&case(Some(right))).await;
        }
    }
}
