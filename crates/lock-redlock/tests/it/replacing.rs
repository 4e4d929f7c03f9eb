//! Replacing a node, while clients with the former nodes and clients with the new ones ask for locks.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use lock_core::memory::{MemoryBackend, Verb};
use lock_core::{Acquire, AcquireOutcome, Backend, Claim, ErrorKind, Instant, Renew, Renewal, Ttl};
use lock_redlock::{Redlock, Voting};
use tokio::runtime::Handle;
use tokio::time::sleep;

use crate::support::{Quorum, claim, granted, node};

const MAX_TTL: Duration = Duration::from_secs(3);

fn ttl() -> Ttl {
    Ttl::new(MAX_TTL).unwrap()
}

/// Servers, by name.
struct Servers(Vec<(&'static str, MemoryBackend)>);

impl Servers {
    /// `a`, `b` and `c` are a quorum, and `d` is new.
    async fn new() -> Self {
        let servers = Self(["a", "b", "c", "d"].map(|name| (name, MemoryBackend::new())).into());
        servers.join(["a", "b", "c"]).await.init().await.unwrap();
        servers
    }

    fn get(&self, name: &str) -> &MemoryBackend {
        &self.0.iter().find(|(other, _)| *other == name).unwrap().1
    }

    /// A client whose quorum has these nodes.
    async fn join(&self, names: [&str; 3]) -> Quorum {
        let mut builder = Redlock::builder().max_ttl(ttl()).on_runtime(Handle::current());
        for name in names {
            builder = builder.node(name, self.get(name).client());
        }
        builder.build().await.unwrap()
    }
}

async fn is_refused(quorum: &Quorum, kind: ErrorKind) {
    let error = quorum.try_acquire(&Acquire::new(claim("a"), ttl())).await.unwrap_err();
    assert_eq!(error.kind(), kind, "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_node_is_replaced() {
    let servers = Servers::new().await;
    let before = servers.join(["a", "b", "c"]).await;
    let after = servers.join(["d", "c", "a"]).await;
    is_refused(&after, ErrorKind::InvalidConfig).await;
    assert_eq!(after.status().await[1].voting, Voting::Elsewhere);
    granted(&before, &claim("a"), ttl()).await;
    servers.get("b").faults().cut();
    after.replace("b", "d").await.unwrap();
    is_refused(&before, ErrorKind::InvalidConfig).await;
    // The nodes that stay vote at once, and the new one later.
    granted(&after, &claim("b"), ttl()).await;
    let voting = |status: &[lock_redlock::NodeStatus]| {
        status.iter().map(|it| it.voting == Voting::Yes).collect::<Vec<_>>()
    };
    assert_eq!(voting(&after.status().await), [false, true, true]);
    sleep(MAX_TTL + Duration::from_millis(100)).await;
    assert_eq!(voting(&after.status().await), [true, true, true]);
    // The call may be repeated.
    after.replace("b", "d").await.unwrap();
    granted(&after, &claim("c"), ttl()).await;
}

/// The holder's majority and the one of the other client have no node in common.
#[tokio::test(start_paused = true)]
async fn a_lease_of_former_members_is_over_before_the_new_node_votes() {
    let servers = Servers::new().await;
    let (before, after) =
        (servers.join(["a", "b", "c"]).await, servers.join(["c", "d", "a"]).await);
    node(&before, 2).faults().cut();
    let held = claim("a");
    let mut until = granted(&before, &held, ttl()).await.valid_until;
    node(&before, 2).faults().heal();
    // The client with the new nodes does not reach the node that stays and knows the lease.
    let replacing = servers.join(["a", "d", "c"]).await;
    replacing.replace("b", "d").await.unwrap();
    node(&after, 2).faults().cut();
    let clock = before.clock();
    let renew = Renew::new(held.clone(), ttl());
    while clock.now() < until {
        if let Renewal::Renewed { valid_until, .. } = before.renew(&renew).await {
            until = valid_until;
        }
        let attempt = after.try_acquire(&Acquire::new(claim("a"), ttl())).await;
        let is_granted = matches!(attempt, Ok(AcquireOutcome::Granted(_)));
        assert!(!is_granted || clock.now() >= until, "there are two holders");
        sleep(Duration::from_millis(20)).await;
    }
    sleep(MAX_TTL).await;
    granted(&after, &claim("a"), ttl()).await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_comes_too_early_vouches_for_no_new_node() {
    let servers = Servers::new().await;
    let early = servers.join(["a", "c", "d"]).await;
    sleep(20 * MAX_TTL).await;
    is_refused(&early, ErrorKind::InvalidConfig).await;
    let status = early.status().await;
    assert!(matches!(status[2].voting, Voting::KeptOut { .. }), "{status:?}");
    granted(&servers.join(["a", "b", "c"]).await, &claim("a"), ttl()).await;
}

#[tokio::test(start_paused = true)]
async fn a_call_that_fails_half_way_is_repeated() {
    let servers = Servers::new().await;
    let (before, after) =
        (servers.join(["a", "b", "c"]).await, servers.join(["a", "c", "d"]).await);
    // One of the nodes that stay is not reached.
    node(&after, 1).faults().cut();
    let error = after.replace("b", "d").await.unwrap_err();
    assert!(error.to_string().contains("1 of 3 nodes changed their membership"), "{error}");
    granted(&before, &claim("a"), ttl()).await;
    node(&after, 1).faults().heal();
    is_refused(&after, ErrorKind::InvalidConfig).await;
    // The new node is not reached.
    node(&after, 2).faults().cut();
    after.replace("b", "d").await.unwrap_err();
    node(&after, 2).faults().heal();
    // Its answer is lost.
    node(&after, 2).faults().on(Verb::Standing).lose_replies(1);
    after.replace("b", "d").await.unwrap_err();
    after.replace("b", "d").await.unwrap();
    is_refused(&before, ErrorKind::InvalidConfig).await;
    granted(&after, &claim("b"), ttl()).await;
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_replaced_is_refused() {
    let servers = Servers::new().await;
    let after = servers.join(["a", "c", "d"]).await;
    for (old, new) in [("a", "d"), ("b", "e"), ("d", "d")] {
        let error = after.replace(old, new).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{old} {new}: {error}");
    }
    // Another node than the former nodes have.
    let error = after.replace("e", "d").await.unwrap_err();
    assert!(error.to_string().contains("third quorum"), "{error}");
    // The new node has votes of a quorum of its own.
    let one = Redlock::builder().node("d", servers.get("d").client()).allow_any_number();
    one.build().await.unwrap().init().await.unwrap();
    let error = after.replace("b", "d").await.unwrap_err();
    assert!(error.to_string().contains("delete its data first"), "{error}");
    granted(&servers.join(["a", "b", "c"]).await, &claim("a"), ttl()).await;
}

/// Until when the last holder may rely on its lease.
type Believed = Arc<Mutex<Option<Instant>>>;

/// Takes the lock, renews its lease a few times and releases it, again and again. Returns how often it had the lock.
async fn work(quorum: Quorum, believed: Believed, until: Instant, pace: u64) -> usize {
    let (clock, mut count) = (quorum.clock(), 0);
    while clock.now() < until {
        sleep(Duration::from_millis(pace)).await;
        let held = claim("busy");
        let attempt = quorum.try_acquire(&Acquire::new(held.clone(), ttl())).await;
        let Ok(AcquireOutcome::Granted(grant)) = attempt else { continue };
        let earlier = believed.lock().unwrap().replace(grant.valid_until);
        assert!(earlier.is_none_or(|earlier| earlier <= clock.now()), "there are two holders");
        hold(&quorum, &held, &believed).await;
        count += 1;
    }
    count
}

async fn hold(quorum: &Quorum, held: &Claim, believed: &Believed) {
    let clock = quorum.clock();
    for _ in 0..8 {
        sleep(Duration::from_millis(250)).await;
        let until = believed.lock().unwrap().unwrap();
        if clock.now() >= until {
            // The lease was lost, and another client may hold the lock.
            return;
        }
        let renewal = quorum.renew(&Renew::new(held.clone(), ttl())).await;
        if let Renewal::Renewed { valid_until, .. } = renewal
            && clock.now() < until
        {
            *believed.lock().unwrap() = Some(valid_until);
        }
    }
    let is_valid = believed.lock().unwrap().is_some_and(|until| clock.now() < until);
    if is_valid {
        *believed.lock().unwrap() = Some(clock.now());
        quorum.release(held).await.ok();
    }
}

#[tokio::test(start_paused = true)]
async fn no_two_clients_hold_a_lock_while_a_node_is_replaced_under_load() {
    for missing in ["a", "b", "c"] {
        let servers = Servers::new().await;
        let former = servers.join(["a", "b", "c"]).await;
        // It sees a majority in which the replaced node may be.
        for (name, node) in former.nodes() {
            if name == missing {
                node.faults().cut();
            }
        }
        let next = servers.join(["a", "c", "d"]).await;
        for (name, node) in next.nodes() {
            if name != missing && name != "d" {
                node.faults().on(Verb::Vote).delay_requests(Duration::from_millis(3));
            }
        }
        let (believed, clock) = (Believed::default(), former.clock());
        let began = clock.now();
        let end = began + Duration::from_secs(30);
        let old = tokio::spawn(work(former, Arc::clone(&believed), end, 20));
        let new = tokio::spawn(work(next, Arc::clone(&believed), end, 35));
        sleep(Duration::from_secs(7)).await;
        servers.join(["a", "c", "d"]).await.replace("b", "d").await.unwrap();
        let counts = (old.await.unwrap(), new.await.unwrap());
        assert!(counts.0 > 0 && counts.1 > 0, "{missing}: {counts:?}");
    }
}
