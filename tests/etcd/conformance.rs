//! Every law of the contract and of the capabilities.
//!
//! The shortest lease of etcd is two seconds long, so most laws wait for seconds. All of them run at once, on a thread
//! of their own, and the test of each law waits for its verdict. A run of chosen tests runs only the laws that it
//! needs.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use lock_core::conformance::{Harness, Hook, Suite, Verdict};
use lock_core::{Backend, Error, Ttl};
use lock_etcd::{Builder, EtcdBackend};
use lock_tests::{EtcdServer, Proxy, Ways};
use tokio::runtime;
use tokio::sync::Semaphore;

use crate::support::{Part, builder};

/// How many laws run at once. Laws wait for most of their time.
const AT_ONCE: usize = 48;

/// How late a server may be to end a lease: a second by itself, and more on a loaded machine.
const LAG: Duration = Duration::from_secs(4);

/// A prefix, and for each client a proxy of its own that can be cut.
struct OnePart {
    part: Part,
    ways: Ways,
}

impl OnePart {
    fn new() -> Self {
        Self { part: Part::new(), ways: Ways::default() }
    }

    fn build(&self, setup: impl FnOnce(Builder) -> Builder) -> Result<EtcdBackend, Error> {
        let proxy = Proxy::start(self.part.server.addr());
        let url = self.part.server.url_through(proxy.addr());
        let client = setup(builder(url).prefix(&self.part.prefix)).build()?;
        self.ways.keep(&client, vec![proxy]);
        Ok(client)
    }
}

#[async_trait]
impl Harness for OnePart {
    type Client = EtcdBackend;

    async fn client(&self) -> Result<EtcdBackend, Error> {
        self.build(|it| it)
    }

    async fn limited_client(&self, waiters: NonZeroU32) -> Result<Option<EtcdBackend>, Error> {
        self.build(|it| it.queue_limit(waiters)).map(Some)
    }

    async fn other_server(&self) -> Result<Option<EtcdBackend>, Error> {
        static SERVER: LazyLock<EtcdServer> = LazyLock::new(EtcdServer::start);
        builder(SERVER.url()).prefix(&self.part.prefix).build().map(Some)
    }

    async fn cut(&self, client: &EtcdBackend) -> Hook {
        self.ways.cut_off(client)
    }

    async fn heal(&self, client: &EtcdBackend) {
        self.ways.heal(client);
    }

    async fn forget(&self) -> Hook {
        let (server, prefix) = (self.part.server, self.part.folder());
        let forget = move || server.forget(&prefix);
        tokio::task::spawn_blocking(forget).await.unwrap();
        Hook::Done
    }

    async fn outlast(&self, time: Duration) {
        let lease =
            Ttl::new(time).map_or(time, |ttl| self.part.open().limits().lease(ttl).duration());
        self.pause(lease + LAG).await;
    }

    /// A whole number of seconds, and more than the shortest time.
    fn ttl(&self) -> Ttl {
        Ttl::new(Duration::from_secs(3)).unwrap()
    }

    /// A busy machine is slow, and so many laws make it busy.
    fn patience(&self) -> Duration {
        Duration::from_secs(20)
    }
}

type Laws = fn() -> Suite<OnePart>;

/// Each suite, and whether it is about a semaphore of one permit, whose laws have the names of those of a mutex.
const SUITES: [(bool, Laws); 9] = [
    (false, Suite::backend),
    (false, Suite::shared),
    (false, Suite::convert),
    (false, Suite::joint),
    (false, Suite::permits),
    (true, Suite::one_permit),
    (false, Suite::cell),
    (false, Suite::inspect),
    (false, Suite::quorum),
];

/// The verdicts to come, by kind of suite and law.
type Verdicts = HashMap<(bool, &'static str), Receiver<Verdict>>;

/// Begins all laws.
static ALL: LazyLock<Mutex<Verdicts>> = LazyLock::new(|| {
    let mut verdicts = Verdicts::new();
    let mut laws = Vec::new();
    for (one_permit, suite) in SUITES {
        for law in suite().laws() {
            let (sender, receiver) = channel();
            verdicts.insert((one_permit, law.name()), receiver);
            laws.push((suite, law.name(), sender));
        }
    }
    let judge = async move {
        let slots = Arc::new(Semaphore::new(AT_ONCE));
        for (suite, law, sender) in laws {
            let slot = Arc::clone(&slots).acquire_owned().await.unwrap();
            tokio::spawn(async move {
                let verdict = suite().run(law, &OnePart::new()).await;
                // A test that has failed waits for no verdict.
                _ = sender.send(verdict);
                drop(slot);
            });
        }
        _ = slots.acquire_many(AT_ONCE as u32).await;
    };
    std::thread::spawn(move || {
        runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(judge);
    });
    Mutex::new(verdicts)
});

/// Whether the command that runs the tests names some of them.
fn is_selective() -> bool {
    std::env::args().skip(1).any(|word| !word.starts_with('-'))
}

fn enforce(one_permit: bool, suite: Laws, law: &'static str) {
    if is_selective() {
        return lock_tests::enforce(suite, law, OnePart::new);
    }
    let verdict = ALL.lock().unwrap().remove(&(one_permit, law)).unwrap();
    match verdict.recv().unwrap() {
        Verdict::Holds => {}
        // On the standing error stream, which the test runner does not hide.
        Verdict::NotApplicable(why) => eprintln!("note: {law} is not applicable: {why}"),
        verdict => panic!("{law} is broken: {verdict:?}"),
    }
}

// The law of a restart, which would harm the other tests, is in `voting.rs`.
lock_tests::laws! {
    (|suite, law| enforce(false, suite, law))
    backend shared convert joint permits cell inspect quorum
}

lock_tests::laws! { (|suite, law| enforce(true, suite, law)) one_permit }
