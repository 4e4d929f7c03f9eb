//! The way to the server: one connection per runtime, replaced when it breaks.
//!
//! The first request opens a connection. It lives on the runtime in whose context that request was
//! polled, and serves the requests of that runtime: a reply that is read where it is awaited wakes no
//! other thread, and to wake one costs as much as the request. An app with a runtime of its own and a
//! driver for its locks has two connections. Behind sentinels, each of these runtimes also listens to them.

mod calling;
mod checks;
mod connect;
mod live;
mod manner;
mod mover;
mod preloads;
mod pulse;
mod recall;
mod recalling;
mod respite;
mod sentinels;
mod settings;
mod stream;
mod survey;
mod terms;
#[cfg(feature = "tls")]
mod tls;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use lock_core::{Error, ErrorKind, Instant};
use tokio::runtime::{self, Handle};
use tokio::sync::watch;
use tokio::time;

pub(crate) use self::connect::{Dedicated, enquire};
use self::live::CLOCK;
pub(crate) use self::live::{Answer, Live};
pub(crate) use self::recall::Quarantine;
pub(crate) use self::respite::Respite;
pub(crate) use self::sentinels::SWITCHED;
use self::sentinels::{Ears, Follower, Switches};
use self::settings::Hear;
pub(crate) use self::settings::{Origin, Settings};
use self::survey::Named;
pub(crate) use self::terms::history;
#[cfg(feature = "tls")]
pub(crate) use self::tls::Tls;
use crate::scripts;
use crate::wire::{Address, Call, Failure};

/// The way to the server. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Link(Arc<Shared>);

struct Shared {
    settings: Settings,
    hear: Hear,
    state: Mutex<State>,
}

/// A process has few runtimes, so a search through a list is the fastest one.
#[derive(Default)]
struct State {
    lives: Vec<(runtime::Id, Arc<Live>)>,
    /// The attempts to connect that are under way, each shared by all requests of its runtime.
    attempts: Vec<(runtime::Id, Attempt)>,
    respite: Respite,
    /// Why the last attempt failed, and when.
    trouble: Option<(Error, Instant)>,
    /// What listens to the sentinels, if there are any.
    ears: Ears,
    switches: Switches,
}

/// Becomes `Some` when the attempt is over; never if the runtime of the attempt has gone.
type Attempt = watch::Receiver<Option<Result<Arc<Live>, Error>>>;

/// The steps of a request that has no connection.
enum Next {
    Use(Arc<Live>),
    Await(Attempt),
    Fail(Error),
}

impl Link {
    pub(crate) fn new(settings: Settings, hear: Hear) -> Self {
        Self(Arc::new(Shared { settings, hear, state: Mutex::default() }))
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.0.settings
    }

    /// Calls a script, and loads it first if the server does not know it.
    ///
    /// # Errors
    ///
    /// After a [`Failure::Error`] that is retryable the script may have run. It has not if the server sits out.
    pub(crate) async fn run(&self, call: Call) -> Result<Answer, Failure> {
        match self.live() {
            Some(live) => self.run_on(&live, call).await,
            // In a box, because most calls find a connection.
            None => Box::pin(self.run_anew(call)).await,
        }
    }

    async fn run_on(&self, live: &Live, call: Call) -> Result<Answer, Failure> {
        match &self.settings().quarantine {
            Some(quarantine) => self.run_with_data(quarantine, live, call).await,
            None => live.run(call).await,
        }
    }

    /// Calls a script on a new connection. If none can be opened, calls it on the connection of another runtime. For
    /// example, the server may have no room for another client, or the network may lose the answers of the server.
    async fn run_anew(&self, call: Call) -> Result<Answer, Failure> {
        let Settings { telling, origin, command_timeout, .. } = self.settings();
        let (since, is_hard) = (CLOCK.now(), self.lock().trouble.is_some());
        // After a failure, this call waits for the next attempt for a moment only.
        let is_lent = is_hard && self.lent().is_some();
        let wait = if is_lent { *command_timeout / 8 } else { *command_timeout };
        let error = match self.connect(wait).await {
            Ok(live) => return self.run_on(&live, call).await,
            Err(error) => error,
        };
        let Some(lent) = self.lent() else {
            telling.answered(origin, call.script().verb(), since, Some(&error));
            return Err(Failure::Unsent(error));
        };
        // The timer of that connection stands still with its runtime.
        let answered = time::timeout(*command_timeout, self.run_on(&lent, call)).await;
        answered.unwrap_or_else(|_| {
            let message =
                "the connection of another runtime does not answer, and none can be opened";
            Err(Error::with_source(ErrorKind::Timeout, message, error).into())
        })
    }

    /// Calls a script, unless it asks for a lease of which the server may have forgotten the former one.
    async fn run_with_data(
        &self,
        quarantine: &Quarantine,
        live: &Live,
        call: Call,
    ) -> Result<Answer, Failure> {
        let Some(record) = quarantine.record_for(&call) else { return live.run(call).await };
        if scripts::asks(call.script()) {
            live.has_recalled(quarantine, record).await?;
        }
        let outcome = live.run(call).await;
        match &outcome {
            Ok(answer) => live.recall().ran(record, answer.sent),
            Err(Failure::Moved(..) | Failure::Asks(..) | Failure::Moving(_)) => {
                let lives = &self.lock().lives;
                lives.iter().for_each(|(_, live)| live.recall().forget(record));
            }
            Err(_) => {}
        }
        outcome
    }

    /// Ends the quarantine of the server's data, as far as this record counts, if servers sit out at all.
    pub(crate) async fn end_quarantine(&self, record: u16) -> Result<(), Failure> {
        let live = self.connected().await.map_err(Failure::Unsent)?;
        match &self.settings().quarantine {
            Some(quarantine) => live.end_quarantine(quarantine, record).await,
            None => Ok(()),
        }
    }

    /// The connection, which this opens if there is none.
    pub(crate) async fn connected(&self) -> Result<Arc<Live>, Error> {
        match self.live() {
            Some(live) => Ok(live),
            None => Box::pin(self.connect(self.settings().command_timeout)).await,
        }
    }

    /// A connection that only listens, to the server of another connection.
    ///
    /// The server is not asked for its role again. The other connection has asked, and the user of this one gives it
    /// up together with the other one, which ends when a sentinel names another primary or the server refuses a write.
    /// What is heard from a server that has been demoted meanwhile is a hint. The question that follows goes by the
    /// other connection.
    pub(crate) async fn listen(&self, beside: &Live) -> Result<Dedicated, Error> {
        Dedicated::open(&self.0.settings, beside.endpoint(), &self.0.hear).await
    }

    /// A connection of its own for rare requests, to the server of another connection.
    pub(crate) async fn beside(&self, other: &Live) -> Result<Live, Error> {
        connect::connect_bare(&self.0.settings, other.endpoint()).await
    }

    /// The connection of the present runtime. Outside a runtime there is none: connections of other
    /// runtimes are of no use while no thread drives those runtimes.
    pub(crate) fn live(&self) -> Option<Arc<Live>> {
        let here = Handle::try_current().ok()?.id();
        let state = self.lock();
        let mut lives = state.lives.iter();
        lives
            .find(|(runtime, live)| *runtime == here && !live.is_closed())
            .map(|(_, live)| Arc::clone(live))
    }

    /// The open connection of another runtime, for a request on a runtime that cannot connect.
    fn lent(&self) -> Option<Arc<Live>> {
        Handle::try_current().ok()?;
        let state = self.lock();
        let open = state.lives.iter().find(|(_, live)| !live.is_closed());
        open.map(|(_, live)| Arc::clone(live))
    }

    /// Whether the last attempt to connect has failed within this time, and no connection is open. A failure that only
    /// a person can mend does not count.
    pub(crate) fn is_away(&self, within: Duration) -> bool {
        let state = self.lock();
        let is_fresh = |(error, at): &(Error, Instant)| {
            error.is_retryable() && CLOCK.now().saturating_duration_since(*at) < within
        };
        state.trouble.as_ref().is_some_and(is_fresh)
            && state.lives.iter().all(|(_, live)| live.is_closed())
    }

    /// Waits up to `limit` for the attempt that is under way, or starts one.
    async fn connect(&self, limit: Duration) -> Result<Arc<Live>, Error> {
        // Each iteration after the first means that a runtime has gone.
        for _ in 0..3 {
            let mut attempt = match self.next()? {
                Next::Use(live) => return Ok(live),
                Next::Await(attempt) => attempt,
                Next::Fail(error) => return Err(error),
            };
            match time::timeout(limit, attempt.wait_for(Option::is_some)).await {
                Ok(Ok(outcome)) => {
                    if let Some(outcome) = outcome.clone() {
                        return outcome;
                    }
                }
                Ok(Err(_)) => {}
                Err(_) => return Err(self.unreachable("is still being connected to")),
            }
        }
        Err(self.unreachable("cannot be connected to: the tokio runtime is going away"))
    }

    fn next(&self) -> Result<Next, Error> {
        let runtime = Handle::try_current().map_err(|error| {
            let message = "a connection can be opened in the context of a tokio runtime only";
            Error::with_source(ErrorKind::InvalidConfig, message, error)
        })?;
        let here = runtime.id();
        let mut state = self.lock();
        state.bury();
        if let Some((_, live)) = state.lives.iter().find(|(runtime, _)| *runtime == here) {
            return Ok(Next::Use(Arc::clone(live)));
        }
        // An attempt whose runtime has gone never ends.
        state.attempts.retain(|(_, attempt)| attempt.has_changed().is_ok());
        if let Some((_, attempt)) = state.attempts.iter().find(|(runtime, _)| *runtime == here) {
            return Ok(Next::Await(attempt.clone()));
        }
        if !state.respite.remaining().is_zero() {
            let trouble = state.trouble.as_ref().map(|(error, _)| error.clone());
            return Ok(Next::Fail(trouble.unwrap_or_else(|| self.unreachable("keeps hanging up"))));
        }
        let (over, attempt) = watch::channel(None);
        state.attempts.push((here, attempt.clone()));
        runtime.spawn(self.clone().attempt(here, over));
        Ok(Next::Await(attempt))
    }

    async fn attempt(
        self,
        runtime: runtime::Id,
        over: watch::Sender<Option<Result<Arc<Live>, Error>>>,
    ) {
        let Shared { settings, hear, .. } = &*self.0;
        let before = self.lock().switches.count();
        let connected = connect_to_primary(settings, hear).await;
        let mut state = self.lock();
        let outcome = connected.and_then(|(live, epoch)| state.admit(live, epoch, before));
        state.attempts.retain(|(other, _)| *other != runtime);
        match &outcome {
            Ok(live) => {
                tracing::debug!(server = %live.endpoint(), "connected");
                state.lives.push((runtime, Arc::clone(live)));
                state.trouble = None;
                self.listen_to_sentinels(&mut state, runtime);
            }
            Err(error) => {
                tracing::debug!(server = %settings.origin, %error, "cannot connect");
                state.respite.failed();
                state.trouble = Some((error.clone(), CLOCK.now()));
            }
        }
        drop(state);
        if let Err(error) = &outcome {
            settings.telling.failed(&settings.origin, error);
        }
        over.send_replace(Some(outcome));
    }

    /// Has the sentinels report a new primary, on the runtime on which this is called.
    fn listen_to_sentinels(&self, state: &mut State, here: runtime::Id) {
        let Shared { settings, .. } = &*self.0;
        let Origin::Service(service) = &settings.origin else { return };
        state.ears.listen_on(here, || {
            let follower = Arc::new(Arc::downgrade(&self.0));
            sentinels::listen(settings.clone(), Arc::clone(service), follower)
        });
    }

    /// Gives up the connections to servers that are no primary any more.
    fn leave_all_but(&self, mut state: MutexGuard<'_, State>, named: &[Address]) {
        let Some(primary) = named.first() else { return };
        state.switches.hear(named);
        // The pause was on account of the primary that has gone.
        state.respite.reset();
        // Several tasks hear of one switch. The first takes the connections out, so observers hear of each connection once.
        let is_left = |live: &Live| !named.contains(&live.endpoint().address) && !live.is_closed();
        let left: Vec<_> = state.lives.extract_if(.., |(_, live)| is_left(live)).collect();
        drop(state);
        for (_, live) in left {
            tracing::info!(server = %live.endpoint(), %primary, "the primary has changed");
            self.settings().telling.redirected(&live.endpoint().address, Some(primary));
            live.leave();
        }
    }

    fn unreachable(&self, what: &str) -> Error {
        let origin = &self.settings().origin;
        Error::new(ErrorKind::Unreachable, format!("{origin} {what}"))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Opens a connection to the server, which has to be a primary if sentinels name it.
/// Returns also the number of failovers of which the sentinels know.
async fn connect_to_primary(settings: &Settings, hear: &Hear) -> Result<(Arc<Live>, u64), Error> {
    let (live, epoch) = match &settings.origin {
        Origin::Server(endpoint) => (connect::connect(settings, endpoint, hear).await?, 0),
        Origin::Service(service) => {
            let (endpoint, epoch) = sentinels::locate(settings, service).await?;
            let live = connect::connect(settings, &endpoint, hear).await?;
            sentinels::check_role(&live).await?;
            (live, epoch)
        }
    };
    Ok((Arc::new(live), epoch))
}

impl Follower for Weak<Shared> {
    fn is_at(&self, primary: &Address) -> bool {
        let Some(shared) = self.upgrade() else { return true };
        let link = Link(shared);
        let state = link.lock();
        let is_there = |live: &Live| live.endpoint().address == *primary || live.is_closed();
        state.attempts.is_empty() && state.lives.iter().all(|(_, live)| is_there(live))
    }

    fn switches(&self) -> u64 {
        self.upgrade().map_or(0, |shared| Link(shared).lock().switches.count())
    }

    fn follow(&self, primary: Address) {
        if let Some(shared) = self.upgrade() {
            let link = Link(shared);
            link.leave_all_but(link.lock(), &[primary]);
        }
    }

    fn follow_all(&self, named: &Named, before: u64) {
        let Some(shared) = self.upgrade() else { return };
        let link = Link(shared);
        let mut state = link.lock();
        if state.switches.follows(named.epoch, before) {
            state.switches.saw(named.epoch);
            link.leave_all_but(state, &named.servers);
        }
    }
}

impl State {
    /// The connection of an attempt that began when the count of switches was `before`. Sentinels have named its server
    /// after so many failovers.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotReady`] if another server is the primary now.
    fn admit(&mut self, live: Arc<Live>, epoch: u64, before: u64) -> Result<Arc<Live>, Error> {
        let server = &live.endpoint().address;
        if let Some(primary) = self.switches.successor(server, before) {
            let message = format!("{server} is not the primary any more, but {primary} is");
            return Err(Error::new(ErrorKind::NotReady, message));
        }
        self.switches.saw(epoch);
        Ok(live)
    }

    /// Forgets the connections that have ended.
    fn bury(&mut self) {
        for (_, live) in self.lives.extract_if(.., |(_, live)| live.is_closed()) {
            tracing::info!(server = %live.endpoint(), "a connection has ended");
            if live.was_useless() {
                self.respite.relapsed();
            } else {
                self.respite.reset();
            }
        }
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Link({})", self.settings().origin)
    }
}
