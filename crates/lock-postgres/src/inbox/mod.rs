//! The listening connection of a client: one for all its keys.

mod news;
mod session;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::channel::mpsc::UnboundedSender;
use futures::{Stream, StreamExt};
use lock_core::hints::Taker;
use lock_core::{Error, ErrorKind, Hint};
use tokio::sync::oneshot;
use tokio_postgres::{AsyncMessage, Client};

pub(crate) use self::news::Placed;
pub(crate) use self::session::Session;
use crate::answer::Answer;
use crate::failure;
use crate::link::{DIRECT, Dial, Kept, Messages};

/// How often the connection is tried out. A server does this for its part, with the settings of [`setup`].
const PULSE: Duration = Duration::from_secs(5);

/// A watch that was dropped, for the task that tells the database.
pub(crate) struct Dropped {
    pub(crate) key: Vec<u8>,
    pub(crate) session: Arc<Session>,
    pub(crate) watch: i64,
}

/// The connection that listens, if there is one.
pub(crate) struct Inbox {
    /// `None` if there is no direct way to the database.
    dial: Option<Arc<Dial>>,
    session: Kept<Session>,
}

impl Inbox {
    pub(crate) fn new(dial: Option<Arc<Dial>>) -> Self {
        Self { dial, session: Kept::new() }
    }

    /// Whether there is a direct way to the database.
    pub(crate) fn is_possible(&self) -> bool {
        self.dial.is_some()
    }

    /// The connection that listens now.
    pub(crate) fn current(&self) -> Option<Arc<Session>> {
        self.session.current()
    }

    /// The name of the connection that listens; empty if none does.
    pub(crate) fn name(&self) -> String {
        name_of(self.current().as_deref())
    }

    /// The connection that listens now, for a request about this key.
    pub(crate) fn listener(&self, key: &[u8]) -> Listener {
        let session = self.current();
        let latest = session.as_ref().and_then(|session| session.known(key));
        Listener { session, latest }
    }

    /// The connection that listens. Opens one if there is none.
    pub(crate) async fn session(&self) -> Result<Arc<Session>, Error> {
        let Some(dial) = self.dial.clone() else {
            let message = "without a direct connection to the database, no notification arrives";
            return Err(Error::new(ErrorKind::Unsupported, message));
        };
        self.session.get_or_open(|| Ok(async move { listen(&dial).await })).await
    }
}

fn name_of(session: Option<&Session>) -> String {
    session.map(|session| session.name.clone()).unwrap_or_default()
}

/// The listening connection that a request names.
pub(crate) struct Listener {
    session: Option<Arc<Session>>,
    /// The latest watch of the key that the database had confirmed before the request.
    latest: Option<i64>,
}

impl Listener {
    /// The name of the connection; empty if there is none.
    pub(crate) fn name(&self) -> String {
        name_of(self.session.as_deref())
    }

    /// Ends the watches of the key if the answer shows that the database has forgotten them. For example, an operator has
    /// emptied its tables. `queue`: the request asks for a place.
    pub(crate) fn learn(&self, key: &[u8], answer: &Answer, queue: bool) {
        if let (Some(session), Some(latest)) = (&self.session, self.latest)
            && answer.shows_no_watch(queue)
        {
            tracing::debug!("the database has forgotten a watch");
            session.end_watches(key, latest);
        }
    }
}

/// Opens a listening connection. Two tasks serve it: one hears, the other one tries it out.
async fn listen(dial: &Dial) -> Result<Arc<Session>, Error> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(|error| {
        Error::with_source(ErrorKind::Other, "no random bytes from the system", error)
    })?;
    let name: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    let [a, b, c, d, e, f, g, h, ..] = random;
    let id = i64::from_be_bytes([a, b, c, d, e, f, g, h]);
    let (session, ended) = Session::new(name);
    let session = Arc::new(session);
    let (client, messages) = dial.open().await?;
    tokio::spawn(hear(messages, Arc::clone(&session), ended));
    let setup = setup(&session.name, id);
    let ready = client.batch_execute(&setup);
    let ready = tokio::time::timeout(dial.limit(), ready).await;
    if let Err(error) = ready.map_err(|_| failure::timeout()).and_then(|it| it.map_err(failure::of))
    {
        session.end();
        return Err(error);
    }
    tokio::spawn(beat(client, Arc::clone(&session)));
    Ok(session)
}

/// While the connection lives, it holds an advisory lock, so that every transaction sees at once whether it does. The
/// server notices within eight seconds that the other end is gone without a word. PostgreSQL 13 has no limit for idle
/// sessions.
///
/// A pooler that drops settings gives the session to other clients afterwards. They would keep the lock, so nothing is
/// done there.
fn setup(name: &str, id: i64) -> String {
    format!(
        "DO $$ BEGIN IF current_setting('{DIRECT}', true) IS DISTINCT FROM 'yes' THEN \
         RAISE EXCEPTION 'the session has not taken the settings of its client' USING ERRCODE = 'LK009'; END IF; END $$; \
         SET statement_timeout = 0; SET tcp_keepalives_idle = 3; \
         SET tcp_keepalives_interval = 1; SET tcp_keepalives_count = 5; SET tcp_user_timeout = 8000; \
         SELECT set_config(name, '0', false) FROM pg_settings WHERE name = 'idle_session_timeout'; \
         LISTEN \"lock_{name}\"; SELECT pg_advisory_lock({id})"
    )
}

async fn hear(mut messages: Messages, session: Arc<Session>, ended: oneshot::Receiver<()>) {
    // Also if the thread of the connections ends before this task does.
    let session = Ending(session);
    let hearing = async {
        while let Some(Ok(message)) = messages.next().await {
            if let AsyncMessage::Notification(news) = message {
                session.0.deliver(news.payload());
            }
        }
    };
    tokio::select! {
        () = hearing => {}
        _ = ended => {}
    }
    tracing::debug!("the listening connection has ended");
}

/// Ends the session, in whatever way its task ends.
struct Ending(Arc<Session>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Ends the session when the connection does not answer.
async fn beat(client: Client, session: Arc<Session>) {
    loop {
        tokio::time::sleep(PULSE).await;
        let answer = tokio::time::timeout(PULSE, client.batch_execute("SELECT 1")).await;
        if !matches!(answer, Ok(Ok(()))) {
            session.end();
            return;
        }
    }
}

/// A watch, as its user sees it.
pub(crate) struct Hints {
    pub(crate) hints: Taker,
    pub(crate) dropped: Option<Dropped>,
    pub(crate) janitor: UnboundedSender<Dropped>,
}

impl Stream for Hints {
    type Item = Hint;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Hint>> {
        self.hints.poll_next_unpin(context)
    }
}

impl Drop for Hints {
    fn drop(&mut self) {
        if let Some(dropped) = self.dropped.take() {
            dropped.session.remove(&dropped.key, dropped.watch);
            let _gone = self.janitor.unbounded_send(dropped);
        }
    }
}
