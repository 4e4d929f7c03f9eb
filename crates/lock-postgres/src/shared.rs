//! What the clones of one backend share.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use futures::StreamExt;
use futures::channel::mpsc::{self, UnboundedReceiver, UnboundedSender};
use futures::future::join_all;
use lock_core::{Error, ErrorKind, Key, Watch};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio_postgres::Row;

use crate::inbox::{Dropped, Hints, Inbox};
use crate::link::{Dial, Line, Statement};
use crate::naming;

/// The connections, and the thread on which they live: they depend on no runtime of the app, and a request goes on when its
/// future is dropped.
pub(crate) struct Shared {
    handle: Handle,
    /// The thread ends when this is dropped.
    _alive: oneshot::Sender<()>,
    /// All statements about a key use one line, so that they run in the order in which they were asked: a release after the
    /// request that it undoes.
    lines: Vec<Arc<Line>>,
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
    ) -> Result<Arc<Self>, Error> {
        let (alive, ended) = oneshot::channel();
        let work = async move {
            let _ = ended.await;
        };
        let handle = lock_core::runtime::spawn_thread("lock-postgres", work).map_err(|error| {
            Error::with_source(ErrorKind::Other, "no thread for the connections", error)
        })?;
        let line = || Arc::new(Line::new(Arc::clone(&verbs)));
        let lines: Vec<_> = (0..connections.max(1)).map(|_| line()).collect();
        let (janitor, dropped) = mpsc::unbounded();
        handle.spawn(clean(dropped, lines.clone()));
        Ok(Arc::new(Self {
            handle,
            _alive: alive,
            lines,
            inbox: Arc::new(Inbox::new(direct)),
            janitor,
            last_watch: AtomicI64::new(0),
            dial: verbs,
            queue_limit,
        }))
    }

    /// Runs a statement about this key.
    pub(crate) async fn ask(&self, key: &[u8], statement: Statement) -> Result<Vec<Row>, Error> {
        let line = Arc::clone(line(&self.lines, key));
        self.run(async move {
            let _turn = line.gate.read().await;
            line.ask(&statement).await
        })
        .await
    }

    /// Runs a statement that returns one row.
    pub(crate) async fn ask_one(&self, key: &[u8], statement: Statement) -> Result<Row, Error> {
        let rows = self.ask(key, statement).await?;
        rows.into_iter().next().ok_or_else(|| crate::failure::protocol("no row"))
    }

    /// Runs a statement on every line at once.
    pub(crate) async fn ask_each(&self, sql: &'static str) -> Result<Vec<Row>, Error> {
        let lines = self.lines.clone();
        self.run(async move {
            let statement = Statement::new(sql);
            let answers = join_all(lines.iter().map(|line| line.ask(&statement))).await;
            Ok(answers.into_iter().collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
        })
        .await
    }

    /// Runs a statement about several keys, in its turn among the statements about each of them.
    pub(crate) async fn ask_all(
        &self,
        keys: &[Vec<u8>],
        statement: Statement,
    ) -> Result<Vec<Row>, Error> {
        let mut indexes: Vec<_> = keys.iter().map(|key| index(&self.lines, key)).collect();
        indexes.sort_unstable();
        indexes.dedup();
        let lines: Vec<_> = indexes.iter().map(|index| Arc::clone(&self.lines[*index])).collect();
        self.run(async move {
            let _turns = join_all(lines.iter().map(|line| line.gate.write())).await;
            match lines.first() {
                Some(line) => line.ask(&statement).await,
                None => Ok(Vec::new()),
            }
        })
        .await
    }

    /// Listens for a key.
    pub(crate) async fn watch(&self, key: &Key) -> Result<Watch, Error> {
        let key = naming::key(key);
        let line = Arc::clone(line(&self.lines, &key));
        let (inbox, janitor) = (Arc::clone(&self.inbox), self.janitor.clone());
        let watch = self.last_watch.fetch_add(1, Ordering::Relaxed);
        self.run(async move {
            let session = inbox.session().await?;
            let (sender, hints) = mpsc::unbounded();
            let is_there = session.add(&key, watch, sender);
            let statement = Statement::new("SELECT lock_v1.watch($1, $2, $3)")
                .bytes(key.clone())
                .text(session.name.clone())
                .long(watch);
            let dropped = Dropped { key, session: Arc::clone(&session), watch };
            let hints = Hints { hints, dropped: Some(dropped), janitor };
            let _turn = line.gate.read().await;
            line.ask(&statement).await?;
            if !is_there || session.is_over() {
                return Err(Error::new(
                    ErrorKind::Unreachable,
                    "the listening connection has ended",
                ));
            }
            Ok(Watch::new(hints))
        })
        .await
    }

    /// Runs work to its end on the thread of the connections, even if the caller is dropped.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Result<T, Error> {
        self.handle.spawn(work).await.unwrap_or_else(|error| {
            Err(Error::with_source(
                ErrorKind::ShuttingDown,
                "the thread of the connections has ended",
                error,
            ))
        })
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

/// Tells the database of watches that were dropped. If that fails, the row goes with the listening connection.
async fn clean(mut dropped: UnboundedReceiver<Dropped>, lines: Vec<Arc<Line>>) {
    while let Some(Dropped { key, session, watch }) = dropped.next().await {
        if session.is_over() {
            continue;
        }
        let line = line(&lines, &key);
        let statement = Statement::new("SELECT lock_v1.unwatch($1, $2, $3)")
            .bytes(key.clone())
            .text(session.name.clone())
            .long(watch);
        let _turn = line.gate.read().await;
        if let Err(error) = line.ask(&statement).await {
            tracing::debug!(%error, "a watch was not ended");
        }
    }
}
