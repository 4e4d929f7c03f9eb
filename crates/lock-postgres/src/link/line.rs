//! One connection for verbs, which is opened again when it breaks.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::{Duration, SystemTime};

use futures::StreamExt;
use futures::future::join_all;
use lock_core::{Clock, Error};
use tokio::sync::RwLock;
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row};

use super::{Dial, Kept, MayEnd};
use crate::failure;

/// A statement with its parameters. It has no name, so that any connection of a pooler can run it.
pub(crate) struct Statement {
    sql: &'static str,
    params: Vec<(Box<dyn ToSql + Sync + Send>, Type)>,
    is_dated: bool,
}

impl Statement {
    pub(crate) fn new(sql: &'static str) -> Self {
        Self { sql, params: Vec::new(), is_dated: false }
    }

    /// The last parameter of the statement, behind those that were given, is the time on the clock of the server after
    /// which the client has given up its answer.
    #[must_use]
    pub(crate) fn dated(mut self) -> Self {
        self.is_dated = true;
        self
    }

    #[must_use]
    pub(crate) fn with(mut self, value: impl ToSql + Sync + Send + 'static, kind: Type) -> Self {
        self.params.push((Box::new(value), kind));
        self
    }

    #[must_use]
    pub(crate) fn bytes(self, value: Vec<u8>) -> Self {
        self.with(value, Type::BYTEA)
    }

    #[must_use]
    pub(crate) fn text(self, value: String) -> Self {
        self.with(value, Type::TEXT)
    }

    #[must_use]
    pub(crate) fn int(self, value: i32) -> Self {
        self.with(value, Type::INT4)
    }

    #[must_use]
    pub(crate) fn long(self, value: i64) -> Self {
        self.with(value, Type::INT8)
    }

    #[must_use]
    pub(crate) fn bool(self, value: bool) -> Self {
        self.with(value, Type::BOOL)
    }
}

/// The answer to a statement.
pub(crate) struct Told {
    pub(crate) rows: Vec<Row>,
    /// When the statement was written on its connection. A lease that the answer brings lives from then on at the
    /// earliest. The time to log in and the wait for a turn take nothing from the lease.
    pub(crate) sent: lock_core::Instant,
}

impl Told {
    /// The only row.
    pub(crate) fn one(self) -> Result<(Row, lock_core::Instant), Error> {
        let row = self.rows.into_iter().next().ok_or_else(|| failure::protocol("no row"))?;
        Ok((row, self.sent))
    }
}

/// What observers know a statement by: the function of the schema that it calls.
fn verb(sql: &'static str) -> &'static str {
    let called = sql.split_once("lock_v1.").and_then(|(_, rest)| rest.split_once('('));
    called.map_or("query", |(verb, _)| verb)
}

/// One connection. Statements run in the order in which they were asked.
pub(crate) struct Line {
    dial: Arc<Dial>,
    open: Kept<Open>,
    /// Connections that were given up while the server owed them an answer.
    abandoned: Mutex<Vec<AbortHandle>>,
    /// Statements are sent in the order in which they came, although the connection may have to be opened first.
    turn: tokio::sync::Mutex<()>,
    /// Shared by single statements. A statement that concerns several lines has all of them alone.
    gate: RwLock<()>,
}

/// A connection that is open.
struct Open {
    client: Client,
    /// The task that ends with the connection.
    serving: AbortHandle,
    /// A request was cancelled. The server may have cancelled another one of this connection instead, and a commit that
    /// is cancelled while it waits for standbys looks like one that has waited. So no answer counts any more.
    is_cancelled: AtomicBool,
    look: Mutex<Option<Look>>,
}

/// The clock of the server, a moment before the answer came.
#[derive(Clone, Copy)]
struct Look {
    at: SystemTime,
    seen: Instant,
}

impl Look {
    /// What the clock shows at a later time, or a little before: the rates of clocks differ by less than a hundredth.
    fn no_later_than(self, now: Instant, then: Instant) -> SystemTime {
        let drift = now.duration_since(self.seen) / 100;
        self.at + then.duration_since(self.seen).saturating_sub(drift)
    }
}

impl MayEnd for Open {
    fn is_over(&self) -> bool {
        self.client.is_closed()
    }
}

impl Open {
    /// Opens a connection.
    async fn dial(dial: &Dial) -> Result<Arc<Self>, Error> {
        let (client, mut messages) = dial.open().await?;
        // The task ends with the connection, which ends when the last request on it does.
        let serving = tokio::spawn(async move { while let Some(Ok(_)) = messages.next().await {} });
        let (serving, is_cancelled) = (serving.abort_handle(), AtomicBool::new(false));
        Ok(Arc::new(Self { client, serving, is_cancelled, look: Mutex::new(None) }))
    }

    /// The time of `then` on the clock of the server. Looks at the clock from time to time.
    async fn time(
        &self,
        then: Instant,
        limit: Duration,
    ) -> Result<SystemTime, tokio_postgres::Error> {
        let now = Instant::now();
        let last = *lock(&self.look);
        let look = match last.filter(|look| now.duration_since(look.seen) < 10 * limit) {
            Some(look) => look,
            None => {
                let row = self.client.query_typed_one("SELECT clock_timestamp()", &[]).await?;
                let look = Look { at: row.try_get(0)?, seen: Instant::now() };
                *lock(&self.look) = Some(look);
                look
            }
        };
        Ok(look.no_later_than(now.max(look.seen), then))
    }
}

/// So many connections of a line may be abandoned. A server that does not answer would else gather ever more of them.
const ABANDONED: usize = 2;

impl Line {
    pub(crate) fn new(dial: Arc<Dial>) -> Self {
        let (turn, gate) = (tokio::sync::Mutex::new(()), RwLock::new(()));
        Self { dial, open: Kept::new(), abandoned: Mutex::default(), turn, gate }
    }

    /// Runs a statement. After a retryable error it may have run.
    pub(crate) async fn ask(&self, statement: &Statement) -> Result<Told, Error> {
        self.heard(statement, self.ask_in_turn(statement, self.gate.read())).await
    }

    /// Runs a statement while none of these lines, of which this is one, runs another one.
    pub(crate) async fn ask_alone(
        &self,
        lines: &[Arc<Self>],
        statement: &Statement,
    ) -> Result<Told, Error> {
        let gates = join_all(lines.iter().map(|line| line.gate.write()));
        self.heard(statement, self.ask_in_turn(statement, gates)).await
    }

    /// Tells observers how a request has ended.
    async fn heard(
        &self,
        statement: &Statement,
        asking: impl Future<Output = Result<Told, Error>>,
    ) -> Result<Told, Error> {
        if !self.dial.is_heard() {
            return asking.await;
        }
        let since = Clock::boot().now();
        let outcome = asking.await;
        self.dial.answered(verb(statement.sql), since, outcome.as_ref().err());
        outcome
    }

    /// The limit is for all of it: the gates, the connection and the answer.
    async fn ask_in_turn<G>(
        &self,
        statement: &Statement,
        gates: impl Future<Output = G>,
    ) -> Result<Told, Error> {
        let mut used = None;
        let deadline = Instant::now() + self.dial.limit();
        let asking = async {
            let _gates = gates.await;
            self.send(statement, deadline, &mut used).await
        };
        let outcome = tokio::time::timeout_at(deadline, asking).await;
        match (outcome, used) {
            (Ok(Ok(_)), Some(open)) if open.is_cancelled.load(Ordering::Acquire) => {
                Err(failure::timeout())
            }
            (Ok(Ok(told)), _) => Ok(told),
            (Ok(Err((error, ends))), open) => {
                if let Some(open) = open.filter(|_| ends) {
                    self.open.leave(&open);
                }
                Err(error)
            }
            (Err(_), open) => {
                if let Some(open) = open {
                    self.abandon(&open);
                }
                Err(failure::timeout())
            }
        }
    }

    /// Sends a statement when those before it are sent. The error says whether the connection is of no more use.
    async fn send(
        &self,
        statement: &Statement,
        deadline: Instant,
        used: &mut Option<Arc<Open>>,
    ) -> Result<Told, (Error, bool)> {
        let failed = |error| {
            let ends = failure::ends_connection(&error);
            (failure::of(error), ends)
        };
        let turn = self.turn.lock().await;
        let open = self.open().await.map_err(|error| (error, false))?;
        let open = used.insert(open);
        let late;
        let params = statement.params.iter().map(|(value, kind)| (&**value as _, kind.clone()));
        let mut params: Vec<(&(dyn ToSql + Sync), Type)> = params.collect();
        if statement.is_dated {
            late = open.time(deadline, self.dial.limit()).await.map_err(failed)?;
            params.push((&late, Type::TIMESTAMPTZ));
        }
        let mut answer = pin!(open.client.query_typed(statement.sql, &params));
        let sent = Clock::boot().now();
        // The first poll sends the statement. Then the next one may be sent.
        let first = poll_fn(|context| Poll::Ready(answer.as_mut().poll(context))).await;
        drop(turn);
        let rows = match first {
            Poll::Ready(answer) => answer,
            Poll::Pending => answer.await,
        };
        Ok(Told { rows: rows.map_err(failed)?, sent })
    }

    /// Whether there is a connection now.
    pub(crate) fn is_open(&self) -> bool {
        self.open.current().is_some()
    }

    /// The connection, which is opened if there is none.
    async fn open(&self) -> Result<Arc<Open>, Error> {
        let open = || {
            let mut abandoned = lock(&self.abandoned);
            abandoned.retain(|serving| !serving.is_finished());
            if abandoned.len() >= ABANDONED {
                return Err(failure::unanswered());
            }
            let dial = Arc::clone(&self.dial);
            Ok(async move { Open::dial(&dial).await })
        };
        self.open.get_or_open(open).await
    }

    /// Gives up a connection whose server does not answer, and asks the server to give up the request.
    fn abandon(&self, used: &Arc<Open>) {
        if self.open.leave(used) {
            used.is_cancelled.store(true, Ordering::Release);
            lock(&self.abandoned).push(used.serving.clone());
            let (dial, token) = (Arc::clone(&self.dial), used.client.cancel_token());
            tokio::spawn(async move { dial.cancel(&token).await });
        }
    }
}

fn lock<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_of_the_server_is_not_taken_for_later_than_it_is() {
        let seen = Instant::now();
        let after = |seconds| seen + Duration::from_secs(seconds);
        let look = Look { at: SystemTime::UNIX_EPOCH, seen };
        let late = look.no_later_than(after(0), after(5));
        assert_eq!(late, SystemTime::UNIX_EPOCH + Duration::from_secs(5));
        let late = look.no_later_than(after(50), after(55));
        assert_eq!(late, SystemTime::UNIX_EPOCH + Duration::from_millis(54_500));
    }

    #[test]
    fn a_statement_is_known_by_its_function() {
        assert_eq!(verb("SELECT * FROM lock_v1.acquire($1, $2)"), "acquire");
        assert_eq!(verb("SELECT lock_v1.version()"), "version");
        assert_eq!(verb("SELECT 1"), "query");
    }
}
