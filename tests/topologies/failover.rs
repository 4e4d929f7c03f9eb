//! A failover after the replication was cut: the new primary knows the lease, but not its last renewal.

use std::time::Duration;

use lock_core::{Acquire, AcquireOutcome, Backend, Claim, Clock, Instant, Renew, Renewal, Ttl};
use lock_redis::RedisBackend;
use lock_tests::{ClusterNode, RedisCluster, RedisServer, Sentinels, eventually};

use crate::support::{claim, granted, long, released, renewed};

const LIMIT: Duration = Duration::from_secs(120);

/// The lease is waited out; or, without a quarantine, is much longer than a failover takes on a busy machine.
fn lease(quarantine: bool) -> Ttl {
    Ttl::new(Duration::from_secs(if quarantine { 10 } else { 120 })).unwrap()
}

/// A primary and its replica, in a deployment that replaces a primary.
struct Pair<'a> {
    primary: &'a RedisServer,
    replica: &'a RedisServer,
    url: String,
    /// A lock on this primary.
    name: &'a dyn Fn(&str) -> String,
}

impl Pair<'_> {
    fn client(&self, quarantine: bool) -> RedisBackend {
        let builder = RedisBackend::builder(&*self.url).term_quarantine(quarantine);
        builder.build().unwrap()
    }

    fn claim(&self, name: &str) -> Claim {
        claim((self.name)(name))
    }

    /// Waits until the replica has what the primary has.
    fn replicated(&self) {
        let marker = format!("lock:{{{}}}", (self.name)("marker"));
        eventually("the replica has everything", LIMIT, || {
            self.primary.cli(&["SET", &marker, "1"]);
            self.primary.cli(&["WAIT", "1", "1000"]).int() == 1
        });
    }

    /// No replica follows the primary any more.
    fn cut(&self) {
        self.primary.keep_from_replicas(true);
        eventually("the replication is cut", LIMIT, || {
            let info = self.replica.cli(&["INFO", "replication"]).text();
            info.contains("master_link_status:down")
        });
    }

    /// Renews after the replication was cut, loses the primary, and asks for the lock until another client has it.
    /// Returns until when the holder had it, and since when the other client.
    async fn lose_a_renewal(&self, quarantine: bool) -> [Instant; 2] {
        let [here, there] = [(); 2].map(|()| self.client(quarantine));
        let lease = lease(quarantine);
        let (held, kept, idle) = (self.claim("held"), self.claim("kept"), self.claim("idle"));
        let grant = here.try_acquire(&Acquire::new(held.clone(), lease)).await.unwrap();
        assert!(matches!(grant, AcquireOutcome::Granted(_)), "{grant:?}");
        granted(&here, &kept).await;
        let next = ["held", "idle", "new"].map(|name| self.claim(name));
        granted(&here, &idle).await;
        released(&here, &idle).await;
        let key = format!("lock:{{{}}}", (self.name)("held"));
        tokio::task::block_in_place(|| {
            // As if the holder had had the lock for a while.
            assert_eq!(self.primary.cli(&["PEXPIRE", &key, "4000"]).int(), 1);
            self.replicated();
            self.cut();
        });
        let renewal = here.renew(&Renew::new(held, lease)).await;
        let Renewal::Renewed { valid_until, .. } = renewal else { panic!("{renewal:?}") };
        self.primary.kill();

        let [next, others @ ..] = next;
        let since = get(&there, &next).await;
        // Of these the new primary knows everything.
        renewed(&here, &kept).await;
        for claim in &others {
            granted(&there, claim).await;
        }
        [valid_until, since]
    }
}

/// Asks until the claim is granted. Returns when that was.
async fn get(backend: &RedisBackend, claim: &Claim) -> Instant {
    let request = Acquire::new(claim.clone(), long());
    loop {
        match backend.try_acquire(&request).await {
            Ok(AcquireOutcome::Granted(_)) => return Clock::boot().now(),
            Ok(_) => {}
            Err(error) => assert!(error.is_retryable(), "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn behind_sentinels(quarantine: bool) -> [Instant; 2] {
    let deployment = Sentinels::start(1, 3);
    let [primary, replica] = deployment.servers() else { panic!() };
    let pair = Pair { primary, replica, url: deployment.url(), name: &str::to_owned };
    pair.lose_a_renewal(quarantine).await
}

async fn in_a_cluster(quarantine: bool) -> [Instant; 2] {
    let cluster = RedisCluster::start(3, 3);
    let name = |name: &str| {
        let mut names = (0..).map(|number| format!("{name}{number}"));
        names.find(|it| cluster.owner_of(&format!("lock:{{{it}}}")) == 0).unwrap()
    };
    let [primary, replica] = [0, 3].map(|index| ClusterNode::server(&cluster.nodes()[index]));
    let pair = Pair { primary, replica, url: cluster.url(), name: &name };
    pair.lose_a_renewal(quarantine).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn behind_sentinels_a_lease_whose_renewal_was_lost_is_waited_out() {
    let [until, since] = behind_sentinels(true).await;
    assert!(
        since >= until,
        "two holders at once, for {:?}",
        until.saturating_duration_since(since)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn behind_sentinels_without_the_quarantine_there_are_two_holders() {
    let [until, since] = behind_sentinels(false).await;
    assert!(since < until, "the test proves nothing");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_a_cluster_a_lease_whose_renewal_was_lost_is_waited_out() {
    let [until, since] = in_a_cluster(true).await;
    assert!(
        since >= until,
        "two holders at once, for {:?}",
        until.saturating_duration_since(since)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_a_cluster_without_the_quarantine_there_are_two_holders() {
    let [until, since] = in_a_cluster(false).await;
    assert!(since < until, "the test proves nothing");
}
