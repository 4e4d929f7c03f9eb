//! What the clones of one backend share.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::iter;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use futures::StreamExt;
use futures::channel::mpsc::{self, UnboundedReceiver, UnboundedSender};
use futures::future::join_all;
use lock_core::hints::hints;
use lock_core::runtime::Thread;
use lock_core::{Error, ErrorKind, Instant, Key, Watch, scattered};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::answer::column;
use crate::inbox::{Dropped, Hints, Inbox};
use crate::link::{Dial, Line, MayEnd, Statement, Told};
use crate::naming;

/// The connections, and the thread on which they live: they depend on no runtime of the app, and a request goes on when
/// its future is dropped.
pub(crate) struct Shared {
    pub(crate) thread: Thread,
    /// All statements about a key use one line, so that they run in the order in which they were asked: a release after
    /// the request that it undoes.
    lines: Vec<Arc<Line>>,
    /// Renewals have lines of their own: no slow request delays them. A renewal and other requests need no order, because
    /// the renewal follows the answer that brought the lease, and finds nothing after the release. All renewals of a key use
    /// one line, so that an earlier one does not shorten what a later one has prolonged.
    renewals: Vec<Arc<Line>>,
    pub(crate) inbox: Arc<Inbox>,
    janitor: UnboundedSender<Dropped>,
    last_watch: AtomicI64,
    pub(crate) dial: Arc<Dial>,
    pub(crate) queue_limit: i32,
}

impl Shared {
    pub(crate) fn start(
        verbs: Arc<Dial>,
        direct: Option<Arc<Dial>>,
        connections: usize,
        queue_limit: i32,
        sweep: Duration,
    ) -> Result<Arc<Self>, Error> {
        let thread = Thread::start("lock-postgres", async {})?;
        let line = || Arc::new(Line::new(Arc::clone(&verbs)));
        let lines: Vec<_> = (0..connections.max(1)).map(|_| line()).collect();
        let renewals = (0..lines.len().div_ceil(2)).map(|_| line()).collect();
        let (janitor, dropped) = mpsc::unbounded();
        thread.spawn(clean(dropped, lines.clone()));
        thread.spawn(sweeping(lines[0].clone(), Arc::clone(&verbs), sweep));
        Ok(Arc::new(Self {
            thread,
            lines,
            renewals,
            inbox: Arc::new(Inbox::new(direct)),
            janitor,
            last_watch: AtomicI64::new(0),
            dial: verbs,
            queue_limit,
        }))
    }

    /// Runs a statement about this key.
    pub(crate) async fn ask(&self, key: &[u8], statement: Statement) -> Result<Told, Error> {
        let line = Arc::clone(line(&self.lines, key));
        self.thread.run(async move { line.ask(&statement).await }).await
    }

    /// Runs a statement that returns one row.
    pub(crate) async fn ask_one(&self, key: &[u8], statement: Statement) -> Result<Row, Error> {
        self.ask(key, statement).await?.one().map(|(row, _)| row)
    }

    /// Runs a request for a lease, which returns one row. The time is that of [`Told::sent`].
    pub(crate) async fn ask_lease(
        &self,
        key: &[u8],
        statement: Statement,
    ) -> Result<(Row, Instant), Error> {
        self.ask(key, statement.dated()).await?.one()
    }

    /// Runs a renewal, which returns one row. The time is that of [`Told::sent`].
    pub(crate) async fn ask_renewal(
        &self,
        key: &[u8],
        statement: Statement,
    ) -> Result<(Row, Instant), Error> {
        let (line, statement) = (Arc::clone(line(&self.renewals, key)), statement.dated());
        self.thread.run(async move { line.ask(&statement).await }).await?.one()
    }

    /// Runs a statement on every line at once, those of the renewals among them.
    pub(crate) async fn ask_each(&self, sql: &'static str) -> Result<Vec<Row>, Error> {
        let lines = [self.lines.as_slice(), &self.renewals].concat();
        self.thread
            .run(async move {
                let statement = Statement::new(sql);
                let answers = join_all(lines.iter().map(|line| line.ask(&statement))).await;
                let told = answers.into_iter().collect::<Result<Vec<_>, _>>()?;
                Ok(told.into_iter().flat_map(|told| told.rows).collect())
            })
            .await
    }

    /// Runs a request for the leases of several keys, in its turn among the statements about each of them.
    pub(crate) async fn ask_leases(
        &self,
        first: &[u8],
        others: &[Vec<u8>],
        statement: Statement,
    ) -> Result<Told, Error> {
        let runner = Arc::clone(line(&self.lines, first));
        let keys = iter::once(first).chain(others.iter().map(Vec::as_slice));
        let mut indexes: Vec<_> = keys.map(|key| index(&self.lines, key)).collect();
        indexes.sort_unstable();
        indexes.dedup();
        let lines: Vec<_> = indexes.iter().map(|index| Arc::clone(&self.lines[*index])).collect();
        let statement = statement.dated();
        self.thread.run(async move { runner.ask_alone(&lines, &statement).await }).await
    }

    /// Opens the listening connection, if there is a direct way to the database.
    pub(crate) async fn listen(&self) -> Result<(), Error> {
        if !self.inbox.is_possible() {
            return Ok(());
        }
        let inbox = Arc::clone(&self.inbox);
        self.thread.run(async move { inbox.session().await.map(drop) }).await
    }

    /// Listens for a key.
    pub(crate) async fn watch(&self, key: &Key) -> Result<Watch, Error> {
        let key = naming::key(key);
        let line = Arc::clone(line(&self.lines, &key));
        let (inbox, janitor) = (Arc::clone(&self.inbox), self.janitor.clone());
        let watch = self.last_watch.fetch_add(1, Ordering::Relaxed);
        self.thread
            .run(async move {
                let session = inbox.session().await?;
                let (sender, hints) = hints();
                let is_there = session.add(&key, watch, sender);
                let statement = Statement::new("SELECT lock_v1.watch($1, $2, $3)")
                    .bytes(key.clone())
                    .text(session.name.clone())
                    .long(watch);
                let dropped = Dropped { key: key.clone(), session: Arc::clone(&session), watch };
                let hints = Hints { hints, dropped: Some(dropped), janitor };
                let told = line.ask(&statement).await?;
                let hears = told.rows.first().is_some_and(|row| row.try_get(0).unwrap_or(false));
                if !hears && !session.is_over() {
                    session.end();
                    let message =
                        "the listening connection leads to another database than the verbs";
                    return Err(Error::new(ErrorKind::Unreachable, message));
                }
                if !is_there || session.is_over() {
                    return Err(Error::new(
                        ErrorKind::Unreachable,
                        "the listening connection has ended",
                    ));
                }
                session.confirm(&key, watch);
                Ok(Watch::new(hints))
            })
            .await
    }
}

fn index(lines: &[Arc<Line>], key: &[u8]) -> usize {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    (hasher.finish() % lines.len() as u64) as usize
}

fn line<'a>(lines: &'a [Arc<Line>], key: &[u8]) -> &'a Arc<Line> {
    &lines[index(lines, key)]
}

/// So many watches are ended at once. A server that is slow to end one does not keep the others.
const ENDING: usize = 32;

/// Tells the database of watches that were dropped.
async fn clean(dropped: UnboundedReceiver<Dropped>, lines: Vec<Arc<Line>>) {
    dropped.for_each_concurrent(ENDING, |watch| end(watch, &lines)).await;
}

/// Ends a watch. If that fails, its row goes with the listening connection.
async fn end(Dropped { key, session, watch }: Dropped, lines: &[Arc<Line>]) {
    if session.is_over() {
        return;
    }
    let statement = Statement::new("SELECT lock_v1.unwatch($1, $2, $3)")
        .bytes(key.clone())
        .text(session.name.clone())
        .long(watch);
    if let Err(error) = line(lines, &key).ask(&statement).await {
        tracing::debug!(%error, "a watch was not ended");
    }
}

/// How many locks one statement of a sweep looks at. It keeps their rows for some hundredths of a second at most.
const SWEPT: i32 = 200;

/// The database has this time for other work between two statements of a sweep.
const REST: Duration = Duration::from_millis(20);

/// Has the database remove what was not used for an hour, as long as this client has a connection.
async fn sweeping(serving: Arc<Line>, dial: Arc<Dial>, every: Duration) {
    loop {
        tokio::time::sleep(scattered(every)).await;
        if let Err(error) = sweep(&serving, &dial).await {
            tracing::debug!(%error, "a sweep has stopped");
        }
    }
}

/// Makes a sweep, if one is due. The first step finds out whether it is. The others use a connection of their own, so that
/// they delay no request for a lock.
async fn sweep(serving: &Line, dial: &Arc<Dial>) -> Result<(), Error> {
    let mut own = None;
    let mut reached = None;
    while serving.is_open() {
        reached = step(own.as_ref().unwrap_or(serving), reached).await?;
        if reached.is_none() {
            break;
        }
        own.get_or_insert_with(|| Line::new(Arc::clone(dial)));
        tokio::time::sleep(REST).await;
    }
    Ok(())
}

/// Makes one step of a sweep. Returns how far the sweep has come, unless it ends here.
async fn step(line: &Line, former: Option<Vec<u8>>) -> Result<Option<Vec<u8>>, Error> {
    let statement = Statement::new("SELECT reached FROM lock_v1.tidy_on($1, $2)")
        .int(SWEPT)
        .with(former, Type::BYTEA);
    let told = line.ask(&statement).await?;
    told.rows.first().map_or(Ok(None), |row| column(row, 0))
}
