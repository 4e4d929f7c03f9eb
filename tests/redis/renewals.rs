//! Renewals that shorten a lease, and renewals that the server reads after later ones.

use std::fmt::Debug;
use std::time::Duration;

use futures::future::{join, join_all};
use lock_core::{
    Acquire, Backend, Ballot, FencingToken, Mode, OwnerToken, QuorumNode, Renew, Renewal, Ttl, Vote,
};
use lock_redis::{Builder, RedisBackend};
use lock_tests::{Direction, Proxy, SOON, eventually, eventually_async, requests};

use crate::support::{Server, calls, claim, long, millis, proxy_before};

/// How long a connection waits for an answer, if it may stall.
const PATIENCE: Duration = Duration::from_millis(600);

/// Longer than [`long`].
fn longer() -> Ttl {
    millis(240_000)
}

fn modes() -> [Mode; 5] {
    let group = OwnerToken::generate().unwrap();
    let permits = Mode::Permits { take: 1, of: 2 };
    [Mode::Exclusive, Mode::Shared, Mode::Upgradable, permits, Mode::Joint { group }]
}

/// A client, or a connection of it, with the quarantine of terms or without it.
fn client(url: String, terms: bool) -> Builder {
    RedisBackend::builder(url).term_quarantine(terms)
}

/// Repeats a renewal until it succeeds, because a busy machine may be too slow for an impatient client.
async fn renewed(client: &RedisBackend, renew: &Renew) {
    let is_renewed = async || matches!(client.renew(renew).await, Renewal::Renewed { .. });
    eventually_async("a renewal", SOON, is_renewed).await;
}

async fn not_told(client: &RedisBackend, renew: &Renew) {
    let renewal = client.renew(renew).await;
    assert!(matches!(renewal, Renewal::Unknown(_)), "{renewal:?}");
}

/// Two connections to one server, of which one may stall.
struct Connections {
    server: Server,
    proxy: Proxy,
    stalled: RedisBackend,
    other: RedisBackend,
}

impl Connections {
    fn open(terms: bool, patience: Duration) -> Self {
        let server = Server::start();
        let proxy = proxy_before(&server);
        let stalled = client(proxy.url(), terms).command_timeout(patience).build().unwrap();
        let other = client(server.url(), terms).build().unwrap();
        Self { server, proxy, stalled, other }
    }

    /// How long the server keeps this lock.
    fn lasts(&self, name: &str) -> Duration {
        let left = self.server.client().command::<i64>(&["PTTL", &format!("lock:{{{name}}}")]);
        Duration::from_millis(left.try_into().unwrap())
    }

    fn scripts(&self) -> u64 {
        calls(&mut self.server.client(), "evalsha")
    }

    /// Delivers what the connection held back, and waits until the server has read it.
    fn deliver(&self) {
        let before = self.scripts();
        self.proxy.speak(Direction::ToServer);
        eventually("the server has read it", SOON, || self.scripts() > before);
    }

    /// Holds these leases, renews them on the connection that stalls, and then for longer on the other one.
    async fn renew_late(&self, renewals: &[Renew]) {
        // The scripts are known from now on.
        join_all(renewals.iter().map(|it| renewed(&self.stalled, it))).await;
        self.proxy.silence(Direction::ToServer);
        join_all(renewals.iter().map(|it| not_told(&self.stalled, it))).await;
        for it in renewals {
            renewed(&self.other, &Renew::new(it.claim.clone(), longer())).await;
        }
        self.deliver();
    }
}

/// The lease is not one of the late renewal.
fn assert_long(connections: &Connections, name: &str, what: impl Debug) {
    let lasts = connections.lasts(name);
    assert!(lasts > long().duration(), "{what:?}: {lasts:?}");
}

#[tokio::test]
async fn a_renewal_that_is_read_after_a_later_one_does_not_shorten_the_lease() {
    for terms in [false, true] {
        // With tokens, the full script renews an exclusive lease.
        let modes = modes().map(|mode| (mode, 0)).into_iter().chain([(Mode::Exclusive, 8)]);
        // Each has a server of its own, and waits for the patience of its client.
        let scenes = modes.map(|(mode, tokens)| (Connections::open(terms, PATIENCE), mode, tokens));
        let scenes: Vec<_> = scenes.collect();
        join_all(scenes.into_iter().map(|(connections, mode, tokens)| async move {
            let held = claim("a").in_mode(mode);
            requests::granted(&connections.other, &held, long()).await;
            connections.renew_late(&[Renew::new(held, long()).reserving(tokens)]).await;
            assert_long(&connections, "a", (terms, mode, tokens));
        }))
        .await;
    }
}

#[tokio::test]
async fn many_renewals_that_are_read_after_later_ones_do_not_shorten_their_leases() {
    for terms in [false, true] {
        let connections = Connections::open(terms, PATIENCE);
        let names = ["a", "b", "c"];
        let held = names.map(claim);
        for claim in &held {
            requests::granted(&connections.other, claim, long()).await;
        }
        connections.renew_late(&held.map(|claim| Renew::new(claim, long()))).await;
        names.iter().for_each(|name| assert_long(&connections, name, terms));
    }
}

#[tokio::test]
async fn a_renewal_of_a_vote_that_is_read_after_a_later_one_does_not_shorten_the_lease() {
    for mode in [Mode::Exclusive, Mode::Shared] {
        let connections = Connections::open(false, PATIENCE);
        let held = claim("a").in_mode(mode);
        let _watch = connections.stalled.watch(&held.key).await.unwrap();
        let ballot = Ballot::new(Acquire::new(held.clone(), long()), FencingToken::new(1));
        let vote = connections.other.vote(&ballot).await.unwrap();
        assert!(matches!(vote, Vote::Granted(_)), "{vote:?}");
        connections.renew_late(&[Renew::new(held, long())]).await;
        assert_long(&connections, "a", mode);
    }
}

/// A lease of several sharers ends for each of them at its own time.
#[tokio::test]
async fn a_late_renewal_of_one_sharer_does_not_end_its_lease_before_that_of_another() {
    let connections = Connections::open(false, PATIENCE);
    let [one, other] = [(); 2].map(|()| claim("a").in_mode(Mode::Shared));
    for held in [&one, &other] {
        requests::granted(&connections.other, held, long()).await;
    }
    connections.renew_late(&[Renew::new(one, long())]).await;
    connections.other.release(&other).await.unwrap();
    assert_long(&connections, "a", ());
}

#[tokio::test]
async fn a_renewal_can_shorten_a_lease_in_every_mode() {
    for terms in [false, true] {
        let server = Server::start();
        let one = client(server.url(), terms).build().unwrap();
        for mode in modes() {
            let held = claim("a").in_mode(mode);
            requests::granted(&one, &held, longer()).await;
            renewed(&one, &Renew::new(held.clone(), long())).await;
            let left = server.client().command::<u64>(&["PTTL", "lock:{a}"]);
            assert!(left <= long().as_millis(), "{mode:?}: {left}");
            one.release(&held).await.unwrap();
        }
    }
}

/// A client that asks to shorten a lease hears when the lease ends, and asks again. That request is late.
#[tokio::test]
async fn a_second_request_that_is_late_shortens_no_lease_that_was_renewed_meanwhile() {
    let scenes = [Mode::Exclusive, Mode::Shared];
    let scenes = scenes.map(|mode| (Connections::open(false, 4 * PATIENCE), mode));
    let late = scenes.map(|(connections, mode)| async move {
        let held = claim("a").in_mode(mode);
        requests::granted(&connections.other, &held, long()).await;
        // The full script is known from now on.
        renewed(&connections.stalled, &Renew::new(held.clone(), long()).reserving(8)).await;
        let shorter = Renew::new(held.clone(), millis(5_000)).reserving(8);
        let before = connections.scripts();
        connections.proxy.silence(Direction::ToClient);
        let stall = async {
            let is_read = async || connections.scripts() > before;
            eventually_async("the server has read it", SOON, is_read).await;
            connections.proxy.silence(Direction::ToServer);
            connections.proxy.speak(Direction::ToClient);
        };
        join(not_told(&connections.stalled, &shorter), stall).await;
        renewed(&connections.other, &Renew::new(held, longer())).await;
        connections.deliver();
        assert_long(&connections, "a", mode);
    });
    join_all(late).await;
}
