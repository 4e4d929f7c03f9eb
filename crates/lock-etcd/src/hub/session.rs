//! The task that keeps the session and the stream of watches.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::channel::mpsc::UnboundedReceiver;
use lock_core::{Backoff, Clock, Error, Instant, Key};
use tokio::sync::oneshot;

use super::desk::{Desk, Next};
use super::{Command, Hub};
use crate::link::{Link, Operation, Transaction};
use crate::naming::Names;

/// How long etcd keeps a session of which it hears nothing: after this time, a client that has gone is passed over.
pub(super) const SESSION: Duration = Duration::from_secs(3);

/// How often the session is kept alive.
const PULSE: Duration = Duration::from_secs(1);

/// How long the server may take to keep the session alive. After two such times, another connection can still do so.
const PATIENCE: Duration = Duration::from_millis(600);

/// How long a session without a watch is kept.
const LINGER: Duration = Duration::from_secs(10);

/// Answers a request to listen.
pub(super) type Ready = oneshot::Sender<Result<(), Error>>;

/// The requests to listen that have no answer yet, with their keys.
pub(super) type Waiting = Vec<(Key, Ready)>;

/// Keeps a session whenever a watch needs one. Runs until the client is dropped.
pub(crate) async fn run(
    hub: Arc<Hub>,
    link: Arc<Link>,
    names: Arc<Names>,
    mut commands: UnboundedReceiver<Command>,
) {
    let mut backoff = Backoff::new(Duration::from_millis(20), Duration::from_millis(500));
    let mut is_first = true;
    loop {
        let mut waiting = Waiting::new();
        while hub.is_idle() {
            let Some(command) = commands.next().await else { return };
            note(command, &mut waiting);
        }
        match open(&link, &names).await {
            Ok(Made { id, lives_until, revision }) => {
                backoff.reset();
                hub.begin(id, lives_until);
                let pulse =
                    AbortOnDrop(tokio::spawn(pulse(Arc::clone(&hub), Arc::clone(&link), id)));
                let desk = Desk::new(&hub, &link, &names, id, revision, waiting);
                listen(desk, &mut commands, &mut is_first).await;
                drop(pulse);
                hub.end();
                let link = Arc::clone(&link);
                tokio::spawn(async move { link.revoke(id).await });
            }
            Err(error) => {
                tracing::debug!(%error, "no session");
                while let Ok(command) = commands.try_recv() {
                    note(command, &mut waiting);
                }
                for (_, ready) in waiting {
                    let _gone = ready.send(Err(error.clone()));
                }
                // The watches that exist already hear of it when there is a session again.
                is_first = false;
                tokio::time::sleep(backoff.fail()).await;
            }
        }
    }
}

/// A command that comes while there is no session.
fn note(command: Command, waiting: &mut Waiting) {
    if let Command::Listen { key, ready } = command {
        waiting.push((key, ready));
    }
}

struct AbortOnDrop(tokio::task::JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A session that was made.
struct Made {
    id: i64,
    /// Until when it lives for sure.
    lives_until: Instant,
    /// That of the store, when the key of the session was written.
    revision: i64,
}

/// Makes a session: a lease, and the key that shows that it lives.
async fn open(link: &Link, names: &Names) -> Result<Made, Error> {
    let sent = Clock::boot().now();
    let seconds = i64::try_from(SESSION.as_secs()).unwrap_or(i64::MAX);
    let (id, granted) = link.grant(seconds).await?;
    let success = vec![Operation::put(names.alive(id), Vec::new(), id)];
    let made = link.transact(&Transaction { success, ..Transaction::default() }).await?;
    let revision = made.header.map_or(0, |header| header.revision);
    Ok(Made { id, lives_until: sent + lasts(granted), revision })
}

/// How long a session lives for sure to which etcd gives so many seconds.
fn lasts(seconds: i64) -> Duration {
    SESSION.min(Duration::from_secs(u64::try_from(seconds).unwrap_or(0)))
}

/// Keeps a session alive, and says when it is over.
async fn pulse(hub: Arc<Hub>, link: Arc<Link>, id: i64) {
    let mut pause = PULSE;
    while let Some(lives_until) = hub.lives_until(id) {
        let now = Clock::boot().now();
        tokio::time::sleep(pause.min(lives_until.saturating_duration_since(now))).await;
        let sent = Clock::boot().now();
        match link.keep_alive(id, PATIENCE).await {
            Ok(Some(seconds)) => {
                hub.extend(id, sent + lasts(seconds));
                pause = PULSE;
            }
            Ok(None) => break,
            Err(fault) => {
                tracing::debug!(error = %fault.error, "the session was not kept alive");
                pause = PULSE / 5;
            }
        }
    }
    hub.over(id);
}

/// Waits until a session is over.
async fn until_over(hub: &Hub, session: i64) {
    while let Some(until) = hub.lives_until(session) {
        tokio::time::sleep(until.saturating_duration_since(Clock::boot().now())).await;
    }
}

/// Listens until the session is over, with one stream of watches after another.
async fn listen(
    mut desk: Desk<'_>,
    commands: &mut UnboundedReceiver<Command>,
    is_first: &mut bool,
) {
    let mut backoff = Backoff::new(Duration::from_millis(20), Duration::from_millis(500));
    loop {
        let over = until_over(desk.hub, desk.session);
        let opened = tokio::select! {
            opened = desk.open() => opened,
            () = over => return,
        };
        if let Err(error) = opened {
            tracing::debug!(%error, "no stream of watches");
            desk.refuse(&error);
            tokio::time::sleep(backoff.fail()).await;
            *is_first = false;
            continue;
        }
        let mut is_complete = false;
        let goes_on = serve(&mut desk, commands, is_first, &mut is_complete).await;
        // Hints that come before the next stream are missed.
        *is_first = false;
        if !goes_on {
            return;
        }
        if is_complete {
            backoff.reset();
        } else {
            tokio::time::sleep(backoff.fail()).await;
        }
    }
}

/// Serves one stream of watches. Returns whether the session goes on with another one.
async fn serve(
    desk: &mut Desk<'_>,
    commands: &mut UnboundedReceiver<Command>,
    is_first: &mut bool,
    is_complete: &mut bool,
) -> bool {
    let mut idle_since = None;
    loop {
        let linger = async {
            match idle_since {
                Some(since) => tokio::time::sleep_until(since + LINGER).await,
                None => std::future::pending().await,
            }
        };
        let next = tokio::select! {
            next = desk.next() => next,
            Some(command) = commands.next() => desk.obey(command),
            () = linger => return false,
        };
        match next {
            Next::Complete => {
                *is_complete = true;
                // The stream before this one may have missed hints.
                if !std::mem::take(is_first) {
                    desk.hub.resync();
                }
            }
            Next::Go => {}
            Next::Reopen => return true,
            Next::Over => return false,
        }
        let is_idle = desk.hub.is_idle();
        idle_since = is_idle.then(|| idle_since.unwrap_or_else(tokio::time::Instant::now));
    }
}
