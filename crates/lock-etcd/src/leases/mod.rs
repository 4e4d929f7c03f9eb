//! The leases of etcd behind the holds of this client.

mod pool;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::join_all;
use lock_core::{Clock, Error, Instant};
use tokio::sync::Notify;

use self::pool::{Pool, Upkeep};
pub(crate) use self::pool::{SHORTEST, seconds};
use crate::failure::Fault;
use crate::link::Link;

/// How long the renewal of an idle lease may take.
const LIMIT: Duration = Duration::from_secs(1);

/// Obtains leases, keeps the idle ones alive, and ends those that are not wanted.
pub(crate) struct Leases {
    link: Arc<Link>,
    pool: Mutex<Pool>,
    changed: Notify,
}

impl Leases {
    pub(crate) fn new(link: Arc<Link>) -> Self {
        Self { link, pool: Mutex::default(), changed: Notify::new() }
    }

    fn pool(&self) -> MutexGuard<'_, Pool> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An idle lease of so many seconds, or a new one.
    pub(crate) async fn obtain(self: &Arc<Self>, seconds: i64) -> Result<Taken, Error> {
        let idle = self.pool().take(seconds, now());
        let id = match idle {
            Some(id) => id,
            None => {
                let sent = now();
                let (id, granted) = self.link.grant(seconds).await?;
                self.pool().add(id, seconds, pool::dated(sent, seconds, granted));
                id
            }
        };
        Ok(Taken { leases: Arc::clone(self), id, seconds, state: State::Unused })
    }

    /// Gives a lease its whole time again. Returns the seconds that it has then; `None` if it is over.
    pub(crate) async fn refresh(&self, id: i64, limit: Duration) -> Result<Option<i64>, Fault> {
        let sent = now();
        let left = self.link.keep_alive(id, limit).await?;
        match left {
            Some(seconds) => self.pool().refreshed(id, sent, seconds),
            None => self.pool().forget(id),
        }
        Ok(left)
    }

    /// When the last request was sent that gave the lease its whole time, if this client knows.
    pub(crate) fn last_refreshed(&self, id: i64) -> Option<Instant> {
        self.pool().last_refreshed(id)
    }

    /// Whether a lease lives by the clock of this client.
    pub(crate) fn lives(&self, id: i64, now: Instant) -> bool {
        self.pool().lives(id, now)
    }

    pub(crate) fn is_planted(&self, id: i64) -> bool {
        self.pool().is_planted(id)
    }

    pub(crate) fn plant(&self, id: i64) {
        self.pool().plant(id);
    }

    pub(crate) fn forget(&self, id: i64) {
        self.pool().forget(id);
    }

    /// A hold has ended, and with it the use of its lease: the next hold may use it, or else it is revoked.
    pub(crate) fn release(self: &Arc<Self>, id: i64) {
        if self.pool().give_back(id, now()) {
            self.changed.notify_one();
            return;
        }
        let link = Arc::clone(&self.link);
        tokio::spawn(async move {
            if let Err(fault) = link.revoke(id).await {
                tracing::debug!(error = %fault.error, "a lease was not revoked, and ends by itself");
            }
        });
    }

    /// Keeps the idle leases alive.
    pub(crate) async fn keep(&self) {
        loop {
            let Upkeep { keep_alive, revoke, next } = self.pool().upkeep(now());
            let renewals = keep_alive.into_iter().map(|id| self.refresh(id, LIMIT));
            let endings = revoke.into_iter().map(|id| self.link.revoke(id));
            let (renewed, ended) = tokio::join!(join_all(renewals), join_all(endings));
            let failures = renewed.into_iter().filter_map(Result::err);
            for fault in failures.chain(ended.into_iter().filter_map(Result::err)) {
                tracing::debug!(error = %fault.error, "an idle lease was not looked after");
            }
            let pause = async {
                match next {
                    Some(next) => {
                        tokio::time::sleep(next.saturating_duration_since(now())).await;
                    }
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = pause => {}
                () = self.changed.notified() => {}
            }
        }
    }

    /// Ends the idle leases, because the client ends.
    pub(crate) async fn end(&self) {
        let idle = self.pool().idle();
        join_all(idle.into_iter().map(|id| self.link.revoke(id))).await;
    }
}

fn now() -> Instant {
    Clock::boot().now()
}

/// A lease that was taken for a request. If the request does not use it, the next one may.
pub(crate) struct Taken {
    leases: Arc<Leases>,
    pub(crate) id: i64,
    pub(crate) seconds: i64,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Unused,
    /// A request that names it is under way.
    Sent,
    /// A hold has it, or it is over.
    Gone,
}

impl Taken {
    /// A request that names the lease is sent. Until its outcome is known, the lease may have a hold.
    pub(crate) fn send(&mut self) {
        self.state = State::Sent;
    }

    /// The request was not carried out.
    pub(crate) fn unsend(&mut self) {
        self.state = State::Unused;
    }

    /// A hold has the lease.
    pub(crate) fn keep(mut self) {
        self.state = State::Gone;
    }

    /// The lease is over.
    pub(crate) fn lose(mut self) {
        self.state = State::Gone;
        self.leases.forget(self.id);
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        match self.state {
            State::Unused => {
                if self.leases.pool().give_back(self.id, now()) {
                    self.leases.changed.notify_one();
                }
            }
            State::Sent => self.leases.forget(self.id),
            State::Gone => {}
        }
    }
}
