//! How quarantines end, and what clients say until then.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lock_core::memory::{MemoryBackend, Verb};
use lock_core::{Acquire, AcquireOutcome, Backend, Error, ErrorKind, Ttl};
use lock_redlock::Voting;
use tokio::time::{Instant, sleep};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber, span};

use crate::support::{Cluster, Quorum, claim, granted, node};

const TTL: Ttl = Ttl::DEFAULT;

/// The longest lease by default.
const LONGEST: Duration = Duration::from_secs(60);

/// How often a short-lived client comes.
const PERIOD: Duration = Duration::from_secs(20);

/// A client that asks once and goes away.
async fn passes_by(quorum: Quorum) -> Result<AcquireOutcome, Error> {
    let attempt = quorum.try_acquire(&Acquire::new(claim("a"), TTL)).await;
    drop(quorum);
    sleep(PERIOD).await;
    attempt
}

#[tokio::test(start_paused = true)]
async fn short_lived_clients_get_locks_again_after_all_nodes_have_restarted() {
    let cluster = Cluster::of(3).await;
    cluster.stores.iter().for_each(MemoryBackend::restart);
    let began = Instant::now();
    loop {
        match passes_by(cluster.join().await).await {
            Ok(attempt) => {
                assert!(matches!(attempt, AcquireOutcome::Granted(_)), "{attempt:?}");
                break;
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::NotReady, "{error}"),
        }
        assert!(began.elapsed() <= 2 * LONGEST, "no client gets a lock");
    }
    assert!(began.elapsed() > 2 * LONGEST, "a lease may still be held");
    assert!(began.elapsed() <= 2 * LONGEST + PERIOD);
}

#[tokio::test(start_paused = true)]
async fn one_client_that_rules_it_out_keeps_the_clock_from_ending_a_quarantine() {
    let cluster = Cluster::of(3).await;
    cluster.stores.iter().for_each(MemoryBackend::restart);
    passes_by(cluster.builder().without_clock_fallback().build().await.unwrap()).await.unwrap_err();
    let began = Instant::now();
    while began.elapsed() < 10 * LONGEST {
        let error = passes_by(cluster.join().await).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotReady, "{error}");
    }
    // A client that stays vouches for them.
    let quorum = cluster.join().await;
    sleep(LONGEST + Duration::from_secs(1)).await;
    granted(&quorum, &claim("a"), TTL).await;
}

/// What the fallback assumes.
#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_forward_ends_a_quarantine_too_early() {
    let cluster = Cluster::of(3).await;
    let (holder, other) = (cluster.join().await, cluster.join().await);
    granted(&holder, &claim("a"), TTL).await;
    for store in &cluster.stores {
        store.forget();
    }
    other.status().await;
    for store in &cluster.stores {
        store.set_clock_forward(2 * LONGEST);
    }
    granted(&other, &claim("a"), TTL).await;
}

#[tokio::test(start_paused = true)]
async fn a_first_run_says_what_to_do() {
    let log = Log::default();
    let _subscribed = tracing::subscriber::set_default(log.clone());
    let cluster = Cluster::new(3);
    let quorum = cluster.join().await;
    for _ in 0..3 {
        let attempt = quorum.try_acquire(&Acquire::new(claim("a"), TTL)).await;
        let error = attempt.unwrap_err().to_string();
        assert!(
            error.contains("quarantined for another") && error.contains("Redlock::init"),
            "{error}"
        );
    }
    let warnings = log.warnings();
    assert!(warnings.len() == 1 && warnings[0].contains("Redlock::init"), "{warnings:?}");
    quorum.init().await.unwrap();
    granted(&quorum, &claim("a"), TTL).await;
    // One node alone is no reason.
    cluster.stores[0].restart();
    granted(&quorum, &claim("b"), TTL).await;
    let status = quorum.status().await;
    assert!(matches!(status[0].voting, Voting::KeptOut { .. }), "{status:?}");
    assert_eq!(log.warnings().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_first_run_that_does_what_it_should_hears_no_warning() {
    let log = Log::default();
    let _subscribed = tracing::subscriber::set_default(log.clone());
    let quorum = Cluster::new(3).join().await;
    quorum.init().await.unwrap();
    granted(&quorum, &claim("a"), TTL).await;
    assert_eq!(log.warnings(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn one_denial_does_not_let_a_node_vote_that_has_forgotten() {
    let cluster = Cluster::of(3).await;
    let quorum = cluster.join().await;
    let first = node(&quorum, 0);
    // It loses its connection, and the first answer on the next one is a refusal.
    first.faults().on(Verb::Vote).fail_next(1, ErrorKind::Unreachable);
    granted(&quorum, &claim("a"), TTL).await;
    first.faults().on(Verb::Standing).fail_next(1, ErrorKind::Denied);
    assert_eq!(quorum.status().await[0].voting, Voting::No);
    cluster.stores[0].restart();
    granted(&quorum, &claim("b"), TTL).await;
    assert!(matches!(quorum.status().await[0].voting, Voting::KeptOut { .. }));
}

#[tokio::test(start_paused = true)]
async fn a_node_that_cannot_tell_at_first_is_asked_again() {
    let cluster = Cluster::of(3).await;
    let stores: Vec<_> = cluster.stores.iter().map(MemoryBackend::client).collect();
    // Its first look is denied.
    stores[0].faults().on(Verb::Standing).fail_next(1, ErrorKind::Denied);
    let builder = lock_redlock::Redlock::builder().nodes(stores);
    let quorum = builder.on_runtime(tokio::runtime::Handle::current()).build().await.unwrap();
    cluster.stores[0].restart();
    sleep(Duration::from_secs(6)).await;
    // The request needs the vote of the node.
    node(&quorum, 1).faults().cut();
    let attempt = quorum.try_acquire(&Acquire::new(claim("a"), TTL)).await;
    assert!(attempt.is_err(), "{attempt:?}");
    node(&quorum, 1).faults().heal();
    granted(&quorum, &claim("b"), TTL).await;
    assert!(matches!(quorum.status().await[0].voting, Voting::KeptOut { .. }));
}

/// The warnings of one thread.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn warnings(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN
    }

    fn event(&self, event: &Event<'_>) {
        struct Text(String);
        impl Visit for Text {
            fn record_debug(&mut self, _: &Field, value: &dyn fmt::Debug) {
                self.0 += &format!("{value:?} ");
            }
        }
        let mut text = Text(String::new());
        event.record(&mut text);
        self.0.lock().unwrap().push(text.0);
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}
