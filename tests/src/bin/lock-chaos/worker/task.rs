//! A task that takes lock after lock.

use std::panic;
use std::sync::Arc;
use std::time::Duration;

use lock_tests::Random;
use lock_tests::chaos::history;
use lock_tests::chaos::resource::Client;

use super::acts;
use super::crew::Crew;
use super::grip::Grip;
use super::op::{Asking, Holding, Subject};
use super::options::Primitive;
use super::polls::Whim;
use super::refusal::Denial;

/// A task, and the source of its random decisions.
pub(crate) struct Task {
    pub(crate) crew: Arc<Crew>,
    pub(crate) number: u32,
    pub(crate) random: Random,
    /// The connection to the resource, while the task is not inside.
    visitor: Option<Client>,
    /// Whether its last request failed.
    failed: bool,
}

/// How long to wait for a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// As the options say.
    Usual,
    Within(Duration),
    /// No wait for other holders.
    None,
}

/// A guard is dropped by a panic with this value, which is not reported.
struct Panicked;

impl Task {
    pub(crate) fn new(crew: &Arc<Crew>, number: u32) -> Self {
        let random = crew.random();
        Self { crew: Arc::clone(crew), number, random, visitor: None, failed: false }
    }

    /// Takes one lock after the other until it is over.
    pub(crate) async fn run(mut self) {
        while !self.crew.is_over() {
            self.failed = false;
            acts::act(&mut self).await;
            let pause = if self.failed { 12 } else { 4 };
            let pause = self.random.between(Duration::ZERO, Duration::from_millis(pause));
            tokio::time::sleep(pause).await;
        }
    }

    pub(crate) fn primitive(&mut self) -> Primitive {
        *self.random.pick(&self.crew.menu)
    }

    pub(crate) fn patience(&mut self) -> Patience {
        match self.random.below(100) {
            0..=54 => Patience::Usual,
            55..=74 => Patience::None,
            75..=89 => Patience::Within(Duration::from_millis(1 + self.random.below(20) as u64)),
            _ => Patience::Within(self.some_time(self.crew.options.ttl)),
        }
    }

    /// The time of the options.
    pub(crate) fn limit(&self, patience: Patience) -> history::Patience {
        match patience {
            Patience::Usual => history::Patience::Within(self.crew.options.wait_limit),
            Patience::Within(limit) => history::Patience::Within(limit),
            Patience::None => history::Patience::None,
        }
    }

    /// Mostly until the end.
    pub(crate) fn whim(&mut self) -> Whim {
        Whim::draw(&mut self.random, Duration::from_millis(30))
    }

    /// From a millisecond on, below the limit.
    pub(crate) fn some_time(&mut self, limit: Duration) -> Duration {
        self.random.between(Duration::from_millis(1), limit)
    }

    /// Requests a lock, or several at once. `ask` has not been polled yet.
    pub(crate) async fn take<G: Grip, E: Denial>(
        &mut self,
        subjects: &[Subject],
        patience: Patience,
        ask: impl Future<Output = Result<G, E>>,
    ) -> Option<Holding<G>> {
        let whim = self.whim();
        self.take_with(whim, subjects, patience, ask).await
    }

    /// As above, but the caller says how long to continue.
    pub(crate) async fn take_with<G: Grip, E: Denial>(
        &mut self,
        whim: Whim,
        subjects: &[Subject],
        patience: Patience,
        ask: impl Future<Output = Result<G, E>>,
    ) -> Option<Holding<G>> {
        let limit = self.limit(patience);
        let asking = Asking::begin(&self.crew.journal, self.number, subjects, limit);
        match whim.bear(ask).await {
            Some(Ok(guard)) => return Some(asking.got(guard)),
            Some(Err(error)) => asking.not(&error.refusal()),
            None => drop(asking),
        }
        self.failed = true;
        None
    }

    /// As above, from a thread that may block.
    pub(crate) async fn take_blocking<G, E>(
        &mut self,
        subject: Subject,
        ask: impl FnOnce() -> Result<G, E> + Send + 'static,
    ) -> Option<Holding<G>>
    where
        G: Grip + 'static,
        E: Denial,
    {
        let presence = self.crew.blocking.enter()?;
        let (journal, number) = (Arc::clone(&self.crew.journal), self.number);
        let limit = self.limit(Patience::Usual);
        let taking = tokio::task::spawn_blocking(move || {
            let _presence = presence;
            let asking = Asking::begin(&journal, number, &[subject], limit);
            match ask() {
                Ok(guard) => Some(asking.got(guard)),
                Err(error) => {
                    asking.not(&error.refusal());
                    None
                }
            }
        });
        let taken = taking.await.ok().flatten();
        self.failed = taken.is_none();
        taken
    }

    /// Enters the resource, works there, and leaves.
    pub(crate) async fn visit<G: Grip>(&mut self, holding: &mut Holding<G>) {
        let visitor = match self.visitor.take() {
            Some(visitor) => visitor,
            None => self.connect().await,
        };
        holding.enter(visitor).await;
        self.stay(holding).await;
        self.visitor = holding.leave().await;
    }

    async fn connect(&self) -> Client {
        let path = self.crew.options.resource();
        let client = Client::connect(&path).await;
        client.unwrap_or_else(|error| panic!("there is no resource at {path:?}: {error}"))
    }

    async fn stay<G: Grip>(&mut self, holding: &mut Holding<G>) {
        let is_careless = self.random.percent(self.crew.options.careless);
        let goes_on = self.linger(holding).await;
        // A careless task does not even hear that the lease is lost.
        if holding.writes() && (is_careless || (goes_on && holding.is_valid())) {
            holding.write().await;
        }
        if goes_on && self.random.percent(30) && holding.looks() && self.random.percent(50) {
            self.linger(holding).await;
        }
    }

    /// Works for some time, and returns whether the lock is still held, as far as the task knows.
    async fn linger<G: Grip>(&mut self, holding: &mut Holding<G>) -> bool {
        let hold = self.crew.options.hold.max(Duration::from_millis(2));
        let time = match self.random.below(600) {
            0..=199 => Duration::ZERO,
            // Long enough for a renewal of the lease, or for its end.
            599 => (self.crew.options.ttl * 3 / 2).min(Duration::from_millis(1_500)),
            _ => self.some_time(hold),
        };
        let lost = holding.lost().filter(|_| self.random.percent(25));
        let pause = async {
            if time.is_zero() {
                tokio::task::yield_now().await;
            } else {
                tokio::time::sleep(time).await;
            }
        };
        match lost {
            None => pause.await,
            Some(lost) => {
                tokio::select! {
                    () = pause => {}
                    _ = lost => {
                        holding.is_lost();
                        return false;
                    }
                }
            }
        }
        true
    }

    /// Enters and leaves, and releases, if there is a guard.
    pub(crate) async fn use_up<G: Grip>(&mut self, taken: Option<Holding<G>>) {
        if let Some(mut holding) = taken {
            self.visit(&mut holding).await;
            self.part(holding).await;
        }
    }

    /// As above, and perhaps releases in another task.
    pub(crate) async fn use_up_anywhere<G: Grip + 'static>(&mut self, taken: Option<Holding<G>>) {
        if let Some(mut holding) = taken {
            self.visit(&mut holding).await;
            self.part_anywhere(holding).await;
        }
    }

    /// Releases in one of several ways.
    pub(crate) async fn part<G: Grip>(&mut self, holding: Holding<G>) {
        match self.random.below(10) {
            0..=5 => holding.release(Whim::Steady).await,
            6 => holding.release(Whim::Polls(self.random.below(3))).await,
            _ => drop(holding),
        }
    }

    /// Releases in one of several ways, perhaps in another task.
    pub(crate) async fn part_anywhere<G: Grip + 'static>(&mut self, mut holding: Holding<G>) {
        let errand = self.crew.errands.enter();
        match self.random.below(20) {
            0 => _ = std::thread::spawn(move || drop((holding, errand))),
            1 => {
                let dropped = tokio::spawn(async move {
                    let _kept = (holding, errand);
                    panic::resume_unwind(Box::new(Panicked));
                });
                _ = dropped.await;
            }
            2 => _ = tokio::spawn(async move { drop((holding, errand)) }),
            // Another task enters, and releases.
            3..=5 => {
                let mut other = Self::new(&self.crew, self.number);
                let handed_on = tokio::spawn(async move {
                    other.visit(&mut holding).await;
                    other.part(holding).await;
                    drop(errand);
                });
                _ = handed_on.await;
            }
            _ => self.part(holding).await,
        }
    }
}
