//! The calls of etcd's protocol, each on the present connection.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::channel::mpsc;
use futures::{StreamExt, stream};
use lock_core::observer::Telling;
use lock_core::{Backoff, Clock, Error};
use tokio::time::Instant;
use tonic::transport::Endpoint;
use tonic::{Status, Streaming};

use super::endpoints::name;
use super::era::Era;
use super::messages::{
    LeaseGrant, LeaseId, LeaseState, Nothing, Status as Member, Transacted, Transaction,
    WatchCancel, WatchCommand, WatchCreate, WatchRequest, Watched,
};
use super::once::had_ended;
use super::untold;
use super::wire::Wire;
use crate::failure::{self, Fault};

/// The way to a cluster: one connection, to one member at a time.
pub(crate) struct Link {
    pub(super) endpoints: Vec<Endpoint>,
    pub(super) user: Option<(String, String)>,
    any_version: bool,
    pub(super) limit: Duration,
    telling: Telling,
    current: Mutex<Option<Arc<Wire>>>,
    pub(super) opening: tokio::sync::Mutex<Attempts>,
    opened: AtomicU64,
    era: Mutex<Era>,
}

/// The attempts to connect.
pub(super) struct Attempts {
    /// The member to try next.
    next: usize,
    backoff: Backoff,
    /// The last failure, and when the next attempt may be made.
    failed: Option<(Error, Instant)>,
}

impl Link {
    pub(crate) fn new(
        endpoints: Vec<Endpoint>,
        user: Option<(String, String)>,
        any_version: bool,
        limit: Duration,
        telling: Telling,
    ) -> Self {
        let backoff = Backoff::new(Duration::from_millis(20), Duration::from_millis(500));
        let opening = tokio::sync::Mutex::new(Attempts { next: 0, backoff, failed: None });
        let (current, opened) = (Mutex::new(None), AtomicU64::new(0));
        let era = Mutex::default();
        Self { endpoints, user, any_version, limit, telling, current, opening, opened, era }
    }

    /// Host and port of each member that the URL names.
    pub(crate) fn hosts(&self) -> Vec<String> {
        self.endpoints.iter().map(name).collect()
    }

    fn current(&self) -> Option<Arc<Wire>> {
        let current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        current.as_ref().filter(|wire| !wire.is_broken()).cloned()
    }

    /// Rises whenever the data of the server may be older than what was seen of them: a connection was opened, or an
    /// answer shows so.
    pub(crate) fn opened(&self) -> u64 {
        self.opened.load(Ordering::Relaxed)
    }

    /// The present connection. Opens one if there is none.
    pub(crate) async fn wire(&self) -> Result<Arc<Wire>, Error> {
        if let Some(wire) = self.current() {
            return Ok(wire);
        }
        Box::pin(untold::unlocked(self.opened_wire())).await
    }

    async fn opened_wire(&self) -> Result<Arc<Wire>, Error> {
        let mut attempts = self.opening.lock().await;
        if let Some(wire) = self.current() {
            return Ok(wire);
        }
        if let Some((error, until)) = &attempts.failed
            && *until > Instant::now()
        {
            return Err(error.clone());
        }
        match self.open(&mut attempts.next).await {
            Ok(wire) => {
                attempts.failed = None;
                attempts.backoff.reset();
                let wire = Arc::new(wire);
                let (opened, telling) = (Arc::clone(&wire), self.telling.clone());
                untold::tell(move || opened.tell(&telling));
                self.opened.fetch_add(1, Ordering::Relaxed);
                let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
                *current = Some(Arc::clone(&wire));
                Ok(wire)
            }
            Err(error) => {
                let until = Instant::now() + attempts.backoff.fail();
                attempts.failed = Some((error.clone(), until));
                Err(error)
            }
        }
    }

    /// Connects to the first member that can serve, in turn. A failure that a person must change ends the search.
    async fn open(&self, next: &mut usize) -> Result<Wire, Error> {
        let mut failure = failure::timeout();
        for _ in &self.endpoints {
            let endpoint = &self.endpoints[*next % self.endpoints.len()];
            *next += 1;
            let opening = Wire::open(endpoint, self.user.as_ref(), self.any_version, self.limit);
            match opening.await {
                Ok(wire) => return Ok(wire),
                Err(error) => {
                    let (telling, server) = (self.telling.clone(), name(endpoint));
                    let failure_told = error.clone();
                    untold::tell(move || telling.failed(server, &failure_told));
                    if !error.is_retryable() {
                        return Err(error);
                    }
                    failure = error;
                }
            }
        }
        Err(failure)
    }

    /// Makes a call at this path, and tells observers how it has ended.
    async fn call<T, R>(
        &self,
        path: &'static str,
        limit: Duration,
        call: impl Fn(Arc<Wire>) -> R,
    ) -> Result<T, Fault>
    where
        R: Future<Output = Result<T, Status>>,
    {
        if !self.telling.is_heard() {
            return self.call_unheard(path, limit, call).await;
        }
        let since = Clock::boot().now();
        let member = Mutex::new(None);
        let noting = |wire: Arc<Wire>| {
            *member.lock().unwrap_or_else(PoisonError::into_inner) = Some(wire.member().to_owned());
            call(wire)
        };
        let outcome = self.call_unheard(path, limit, noting).await;
        let member = member.into_inner().unwrap_or_else(PoisonError::into_inner);
        // A call that found no connection is one to the cluster.
        let server = member.unwrap_or_else(|| self.hosts().join(","));
        let took = Clock::boot().now().saturating_duration_since(since);
        let error = outcome.as_ref().err().map(|fault| fault.error.clone());
        let telling = self.telling.clone();
        untold::tell(move || telling.answered_after(took, server, verb(path), error.as_ref()));
        outcome
    }

    /// Makes a call on the present connection. Once more, on another connection, if that one had ended before, or if
    /// the proof of who the client is has expired.
    async fn call_unheard<T, R>(
        &self,
        path: &str,
        limit: Duration,
        call: impl Fn(Arc<Wire>) -> R,
    ) -> Result<T, Fault>
    where
        R: Future<Output = Result<T, Status>>,
    {
        let calls = async {
            let mut is_second = false;
            loop {
                let wire = self.wire().await?;
                let asking = wire.asking(needs_agreement(path));
                let outcome = call(Arc::clone(&wire)).await;
                asking.end();
                let status = match outcome {
                    Ok(answer) => return Ok(answer),
                    Err(status) => status,
                };
                let has_no_login = self.user.is_some() && wire.lacks_login(&status);
                let needs_login = failure::wants_new_token(&status) || has_no_login;
                if (needs_login || had_ended(&status)) && !is_second {
                    wire.give_up();
                    is_second = true;
                    continue;
                }
                let fault = Fault::from(status);
                if failure::ends_connection(&fault.error) {
                    wire.give_up();
                }
                return Err(fault);
            }
        };
        let outcome = tokio::time::timeout(limit, calls).await;
        outcome.unwrap_or_else(|_| Err(failure::timeout().into()))
    }

    pub(crate) async fn transact(&self, transaction: &Transaction) -> Result<Transacted, Fault> {
        self.transact_on(None, transaction).await
    }

    /// Carries a transaction out on the connection with this number. An error, if there is another connection: then
    /// nothing was sent.
    pub(crate) async fn transact_on(
        &self,
        connection: Option<u64>,
        transaction: &Transaction,
    ) -> Result<Transacted, Fault> {
        let path = "/etcdserverpb.KV/Txn";
        let call = |wire: Arc<Wire>| {
            let is_another = connection.is_some_and(|it| it != self.opened());
            async move {
                if is_another {
                    return Ok(None);
                }
                wire.unary(path, transaction).await.map(Some)
            }
        };
        let sent_at = self.era().revision();
        let answer: Option<Transacted> = self.call(path, self.limit, call).await?;
        let answer = answer.ok_or_else(failure::disconnected)?;
        if answer.header.as_ref().is_some_and(|header| self.era().see(sent_at, header)) {
            tracing::warn!("etcd was restored, or is another cluster than before");
            self.opened.fetch_add(1, Ordering::Relaxed);
        }
        Ok(answer)
    }

    fn era(&self) -> MutexGuard<'_, Era> {
        self.era.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the member of the present connection says about itself.
    pub(crate) async fn status(&self) -> Result<Member, Fault> {
        let path = "/etcdserverpb.Maintenance/Status";
        let call = |wire: Arc<Wire>| async move { wire.unary(path, &Nothing {}).await };
        self.call(path, self.limit, call).await
    }

    /// A new lease of so many seconds: its number, and the seconds that the server grants.
    pub(crate) async fn grant(&self, ttl: i64) -> Result<(i64, i64), Fault> {
        let path = "/etcdserverpb.Lease/LeaseGrant";
        let message = LeaseGrant { ttl, id: 0 };
        let call = |wire: Arc<Wire>| async move { wire.unary(path, &message).await };
        // Few requests need a new lease, or renew one, so the futures of the others have no room for these calls.
        let LeaseState { id, ttl } = Box::pin(self.call(path, self.limit, call)).await?;
        if id == 0 || ttl <= 0 {
            return Err(failure::protocol("a lease without a number or a time").into());
        }
        Ok((id, ttl))
    }

    /// Ends a lease, and all that is attached to it. A lease that is over is no error.
    pub(crate) async fn revoke(&self, id: i64) -> Result<(), Fault> {
        let path = "/etcdserverpb.Lease/LeaseRevoke";
        let call =
            |wire: Arc<Wire>| async move { wire.unary::<Nothing>(path, &LeaseId { id }).await };
        match self.call(path, self.limit, call).await {
            Ok(Nothing {}) => Ok(()),
            Err(fault) if fault.lease_is_over => Ok(()),
            Err(fault) => Err(fault),
        }
    }

    /// Gives a lease its whole time again. Returns the seconds that it has then; `None` if it is over.
    pub(crate) async fn keep_alive(&self, id: i64, limit: Duration) -> Result<Option<i64>, Fault> {
        let path = "/etcdserverpb.Lease/LeaseKeepAlive";
        let call = |wire: Arc<Wire>| async move {
            let message = stream::iter([LeaseId { id }]);
            let mut answers: Streaming<LeaseState> = wire.stream(path, message).await?;
            let answer = answers.message().await?;
            answer.ok_or_else(|| Status::unavailable("the stream of renewals has ended"))
        };
        let state = Box::pin(self.call(path, limit, call)).await?;
        Ok(Some(state.ttl).filter(|seconds| *seconds > 0))
    }

    /// How many whole seconds a lease has left. `None` if it is over.
    pub(crate) async fn time_left(&self, id: i64) -> Result<Option<Duration>, Fault> {
        let path = "/etcdserverpb.Lease/LeaseTimeToLive";
        let call = |wire: Arc<Wire>| async move { wire.unary(path, &LeaseId { id }).await };
        let state: LeaseState = self.call(path, self.limit, call).await?;
        Ok(u64::try_from(state.ttl).ok().map(Duration::from_secs))
    }

    /// A stream of watches that begins with these. The server does not answer before it has a request.
    pub(crate) async fn feed(&self, first: Vec<WatchCreate>) -> Result<Feed, Fault> {
        let path = "/etcdserverpb.Watch/Watch";
        let has_user = self.user.is_some();
        let call = |wire: Arc<Wire>| {
            let (requests, receiver) = mpsc::unbounded();
            for create in &first {
                send(&requests, WatchCommand::Create(create.clone()));
            }
            async move {
                let answers = wire.stream(path, receiver).await?;
                Ok(Feed { requests, answers, wire, has_user })
            }
        };
        self.call(path, self.limit, call).await
    }
}

/// The last part of a path, which names the call.
fn verb(path: &'static str) -> &'static str {
    path.rsplit('/').next().unwrap_or(path)
}

/// If the stream has ended, [`Feed::next`] says so.
fn send(requests: &mpsc::UnboundedSender<WatchRequest>, command: WatchCommand) {
    let _gone = requests.unbounded_send(WatchRequest { command: Some(command) });
}

/// A stream of watches, each with a number that the client chose.
pub(crate) struct Feed {
    requests: mpsc::UnboundedSender<WatchRequest>,
    answers: Streaming<Watched>,
    wire: Arc<Wire>,
    has_user: bool,
}

impl Feed {
    /// Whether the client has a user to log in as.
    pub(crate) fn has_user(&self) -> bool {
        self.has_user
    }

    pub(crate) fn watch(&self, create: WatchCreate) {
        send(&self.requests, WatchCommand::Create(create));
    }

    pub(crate) fn cancel(&self, watch_id: i64) {
        send(&self.requests, WatchCommand::Cancel(WatchCancel { watch_id }));
    }

    /// Gives up the connection, so that the next stream has a new one, with another login.
    pub(crate) fn give_up(&self) {
        self.wire.give_up();
    }

    /// The next message. An error ends the stream.
    pub(crate) async fn next(&mut self) -> Result<Watched, Fault> {
        match self.answers.next().await {
            Some(Ok(watched)) => {
                self.wire.heard();
                Ok(watched)
            }
            Some(Err(status)) => Err(status.into()),
            None => Err(Status::unavailable("the stream of watches has ended").into()),
        }
    }
}

/// Whether the members have to agree on a call. They need no agreement to keep a lease alive or to tell their state.
fn needs_agreement(path: &str) -> bool {
    path.starts_with("/etcdserverpb.KV/")
        || path.ends_with("/LeaseGrant")
        || path.ends_with("/LeaseRevoke")
}

#[cfg(test)]
impl Link {
    /// A link to no member.
    pub(crate) fn unconnected() -> Self {
        let telling = Telling::new(lock_core::observer::Observers::default());
        Self::new(Vec::new(), None, true, Duration::from_secs(5), telling)
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    const PATH: &str = "/etcdserverpb.KV/Txn";
    const SHORT: Duration = Duration::from_millis(700);

    /// A link with this connection, over which no byte goes.
    fn link(wire: &Arc<Wire>) -> Link {
        let link = Link::unconnected();
        *link.current.lock().unwrap() = Some(Arc::clone(wire));
        link
    }

    async fn unanswered(link: &Link, limit: Duration) {
        let call = link.call(PATH, limit, |_| pending::<Result<(), Status>>()).await;
        assert_eq!(call.unwrap_err().error.kind(), lock_core::ErrorKind::Timeout);
    }

    #[tokio::test(start_paused = true)]
    async fn a_timeout_gives_up_the_connection_of_its_call_and_no_other_one() {
        let (old, new) = (Arc::new(Wire::idle()), Arc::new(Wire::idle()));
        let link = link(&old);
        tokio::join!(unanswered(&link, link.limit), async {
            tokio::task::yield_now().await;
            *link.current.lock().unwrap() = Some(Arc::clone(&new));
        });
        assert!(old.is_broken() && !new.is_broken());
    }

    #[tokio::test(start_paused = true)]
    async fn short_timeouts_give_a_connection_up_when_they_follow_one_another() {
        let wire = Arc::new(Wire::idle());
        let link = link(&wire);
        for _ in 0..3 {
            unanswered(&link, SHORT).await;
            assert!(link.call(PATH, SHORT, |_| ready(Ok(()))).await.is_ok());
            assert!(!wire.is_broken());
        }
        unanswered(&link, SHORT).await;
        unanswered(&link, SHORT).await;
        assert!(wire.is_broken());
    }

    /// The disk of the member stands still. The member keeps leases alive meanwhile.
    #[tokio::test(start_paused = true)]
    async fn answers_to_other_calls_do_not_hide_that_the_members_agree_on_nothing() {
        let wire = Arc::new(Wire::idle());
        let link = link(&wire);
        let keeping = async {
            for _ in 0..10 {
                if wire.is_broken() {
                    return;
                }
                let path = "/etcdserverpb.Lease/LeaseKeepAlive";
                link.call(path, SHORT, |_| ready(Ok(()))).await.unwrap();
                tokio::time::sleep(SHORT).await;
            }
        };
        tokio::join!(unanswered(&link, link.limit), keeping);
        assert!(wire.is_broken());
    }

    /// The request may have a time limit of its own, which drops the call.
    #[tokio::test(start_paused = true)]
    async fn calls_that_are_dropped_without_an_answer_count() {
        let wire = Arc::new(Wire::idle());
        let link = link(&wire);
        for _ in 0..2 {
            let call = link.call(PATH, link.limit, |_| pending::<Result<(), Status>>());
            assert!(tokio::time::timeout(SHORT, call).await.is_err());
        }
        assert!(wire.is_broken());
    }
}
