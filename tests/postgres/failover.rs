//! A standby takes over from a primary that dies.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lock_core::{
    Acquire, AcquireOutcome, Backend, Clock, Error, FencingToken, Grant, Instant, Released, Renew,
    Renewal, Ttl,
};
use lock_postgres::PostgresBackend;
use lock_tests::PostgresServer;

use crate::support::{attempt, claim, granted, long, refused, until_ok};

/// How many turns of each client there are at least before the failover, and after it.
const TURNS: usize = 20;

/// The turns of one lock, which two clients share.
#[derive(Default)]
struct Turns {
    /// When the lease of the client that is inside ends.
    inside: std::sync::Mutex<Option<Instant>>,
    tokens: std::sync::Mutex<Vec<FencingToken>>,
    ends: AtomicBool,
}

impl Turns {
    fn count(&self) -> usize {
        self.tokens.lock().unwrap().len()
    }

    /// Returns whether the lease is not over. A client that stood still may be inside for longer than its lease.
    fn enter(&self, grant: &Grant) -> bool {
        let mut inside = self.inside.lock().unwrap();
        let now = Clock::boot().now();
        if now >= grant.valid_until {
            return false;
        }
        let before = inside.replace(grant.valid_until);
        assert!(before.is_none_or(|until| until <= now), "two holders");
        self.tokens.lock().unwrap().push(grant.tokens.first());
        true
    }

    fn leave(&self, grant: &Grant) {
        // The next client may be inside already.
        self.inside.lock().unwrap().take_if(|until| *until == grant.valid_until);
    }
}

/// Takes the lock again and again, and repeats each request that fails, as lock-sync does.
async fn take_turns(store: PostgresBackend, turns: Arc<Turns>) {
    // A release that the failover forgets ends with the lease.
    let ttl = Ttl::new(Duration::from_secs(2)).unwrap();
    while !turns.ends.load(Ordering::SeqCst) {
        let ours = claim("turns");
        let outcome = loop {
            match store.try_acquire(&Acquire::new(ours.clone(), ttl)).await {
                Ok(outcome) => break outcome,
                Err(error) => pause_after(&error).await,
            }
        };
        let AcquireOutcome::Granted(grant) = outcome else {
            tokio::time::sleep(Duration::from_millis(3)).await;
            continue;
        };
        if turns.enter(&grant) {
            tokio::task::yield_now().await;
            turns.leave(&grant);
        }
        while let Err(error) = store.release(&ours).await {
            pause_after(&error).await;
        }
    }
}

async fn pause_after(error: &Error) {
    assert!(error.is_retryable(), "{error:?}");
    tokio::time::sleep(Duration::from_millis(3)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_synchronous_standby_that_takes_over_has_every_lease_and_goes_on_with_the_tokens() {
    let primary = PostgresServer::durable();
    let database = primary.database();
    primary.sql(&database, &PostgresBackend::schema());
    let standby = primary.standby();
    primary.commit_on_standbys();
    let open = || PostgresBackend::open(primary.url_with(&standby, &database)).unwrap();
    let (one, other) = (open(), open());
    let held = claim("held");
    let first = granted(&one, &held, long()).await;

    let turns = Arc::new(Turns::default());
    let tasks = [&one, &other].map(|it| tokio::spawn(take_turns(it.clone(), Arc::clone(&turns))));
    let after = async |count| {
        lock_tests::eventually_async("turns are taken", Duration::from_secs(60), async || {
            turns.count() >= count || tasks.iter().any(|it| it.is_finished())
        })
        .await;
    };
    after(TURNS).await;
    primary.kill();
    standby.promote();
    after(turns.count() + TURNS).await;
    turns.ends.store(true, Ordering::SeqCst);
    for task in tasks {
        task.await.unwrap();
    }
    let tokens = turns.tokens.lock().unwrap().clone();
    assert!(tokens.is_sorted_by(|one, next| one < next), "{tokens:?}");

    // The lease from before the failover is there, for its owner and for the others.
    refused(&other, &claim("held")).await.expect("a time to ask again");
    let renewal = one.renew(&Renew::new(held.clone(), long())).await;
    assert!(matches!(renewal, Renewal::Renewed { .. }), "{renewal:?}");
    assert!(matches!(one.release(&held).await.unwrap(), Released::Freed { .. }));
    let AcquireOutcome::Granted(next) = attempt(&other, &claim("held"), long()).await.unwrap()
    else {
        panic!("it was released")
    };
    assert!(next.tokens.first() > first.tokens.last(), "{next:?} after {first:?}");
}

/// The standby answers reads, and takes no writes. Its client leaves it, and finds the primary when there is one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_of_a_standby_is_told_so_and_works_after_the_promotion() {
    let primary = PostgresServer::durable();
    let database = primary.database();
    primary.sql(&database, &PostgresBackend::schema());
    let standby = primary.standby();
    let store = PostgresBackend::open(standby.url(&database)).unwrap();
    let report = until_ok("the standby has the database", async || store.check().await).await;
    assert!(report.with_code("standby").count() == 1, "{report}");
    let error = attempt(&store, &claim("a"), long()).await.unwrap_err();
    assert_eq!(error.kind(), lock_core::ErrorKind::NotReady, "{error:?}");

    let followed = PostgresBackend::open(primary.url(&database)).unwrap().check().await.unwrap();
    assert!(followed.with_code("failover-forgets").count() == 1, "{followed}");
    primary.kill();
    standby.promote();
    let grant =
        until_ok("it is granted", async || attempt(&store, &claim("a"), long()).await).await;
    assert!(matches!(grant, AcquireOutcome::Granted(_)), "{grant:?}");
}
