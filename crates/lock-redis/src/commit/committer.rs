//! The connection on which commits are waited for.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use lock_core::{Error, ErrorKind};

use super::marker::Marker;
use super::rounds::{Rounds, Ticket};
use super::verdict::{self, Marked, Outcome, Term, Wish, unconfirmed};
use crate::link::{Link, Live};
use crate::wire::{Command, Failure, Reply};

/// The committers for the connections to one server: one for each connection and each wish.
#[derive(Default)]
pub(crate) struct Committers {
    known: Mutex<Vec<(Weak<Live>, Arc<Committer>)>>,
}

/// The time of one request, from before it was sent.
pub(crate) struct Stint {
    live: Arc<Live>,
    committer: Arc<Committer>,
    term: Term,
}

/// The commits for one connection.
struct Committer {
    wish: Wish,
    /// The term of the server, as last told.
    term: Mutex<Option<Term>>,
    rounds: Mutex<Rounds<Outcome>>,
    /// The connection of its own, used by one commit at a time.
    channel: tokio::sync::Mutex<Option<Channel>>,
}

/// A connection to one run of one server, that of the grants.
struct Channel {
    live: Live,
    /// Whether the last commit found those replicas attached that count. Then the next one waits for them at once.
    hopes: bool,
}

/// What the replicas said: how many acknowledged, and whether the server itself has everything where it has to.
type Acknowledged = (u32, bool);

impl Committers {
    /// Prepares for a request that may be granted. The `marker` is one of the server.
    ///
    /// # Errors
    ///
    /// If the server cannot be reached, or does not tell its term.
    pub(crate) async fn begin(
        &self,
        wish: Wish,
        link: &Link,
        marker: &Marker,
    ) -> Result<Stint, Failure> {
        let live = link.connected().await.map_err(Failure::Unsent)?;
        let committer = self.committer_of(&live, wish);
        let term = match committer.term() {
            Some(term) => term,
            None => Arc::clone(&committer).ask(link, &live, marker).await?,
        };
        Ok(Stint { live, committer, term })
    }

    fn committer_of(&self, live: &Arc<Live>, wish: Wish) -> Arc<Committer> {
        let mut known = lock(&self.known);
        let is_it = |(other, committer): &&(Weak<Live>, Arc<Committer>)| {
            std::ptr::eq(other.as_ptr(), Arc::as_ptr(live)) && committer.wish == wish
        };
        if let Some((_, committer)) = known.iter().find(is_it) {
            return Arc::clone(committer);
        }
        known.retain(|(other, _)| other.strong_count() > 0);
        let committer = Arc::new(Committer::new(wish));
        known.push((Arc::downgrade(live), Arc::clone(&committer)));
        committer
    }
}

impl Stint {
    /// Returns once the replicas have everything that the server has answered on the connection of the request.
    ///
    /// # Errors
    ///
    /// If they do not.
    ///
    /// # Cancel safety
    ///
    /// Leaves open whether they do.
    pub(crate) async fn commit(self, link: &Link, marker: &Marker) -> Result<(), Error> {
        let is_open = |now: Arc<Live>| Arc::ptr_eq(&now, &self.live);
        if !link.live().is_some_and(is_open) {
            return Err(unconfirmed(
                "its connection has ended, or another runtime goes on with the request",
            ));
        }
        let wish = self.committer.wish;
        let outcome = self.committer.commit(link, &self.live, marker).await;
        wish.judge(&self.term, outcome)
    }
}

impl Committer {
    fn new(wish: Wish) -> Self {
        let (term, rounds) = (Mutex::default(), Mutex::default());
        Self { wish, term, rounds, channel: tokio::sync::Mutex::default() }
    }

    fn term(&self) -> Option<Term> {
        lock(&self.term).clone()
    }

    /// Asks the server for its term.
    async fn ask(
        self: Arc<Self>,
        link: &Link,
        live: &Arc<Live>,
        marker: &Marker,
    ) -> Result<Term, Failure> {
        let (link, live, marker) = (link.clone(), Arc::clone(live), marker.clone());
        let asking = in_task(async move {
            let mut channel = self.channel.lock().await;
            match self.term() {
                Some(term) => Ok(term),
                None => {
                    let channel = opened(&link, &live, &mut channel).await?;
                    Ok(self.mark(&channel.live, &marker).await?.term)
                }
            }
        });
        asking.await.unwrap_or_else(|error| Err(error.into()))
    }

    /// Commits what was answered so far, together with others.
    async fn commit(self: Arc<Self>, link: &Link, live: &Arc<Live>, marker: &Marker) -> Outcome {
        let ticket = lock(&self.rounds).ticket();
        let (link, live, marker) = (link.clone(), Arc::clone(live), marker.clone());
        let committing = in_task(async move { self.cover(ticket, &link, &live, &marker).await });
        committing.await.unwrap_or_else(Outcome::Failed)
    }

    /// Returns the outcome of a commit that covers this grant: of the last one, or of a new one.
    async fn cover(&self, ticket: Ticket, link: &Link, live: &Live, marker: &Marker) -> Outcome {
        let mut channel = self.channel.lock().await;
        let known = lock(&self.rounds).outcome(ticket);
        if let Some(outcome) = known {
            return outcome;
        }
        let covered = lock(&self.rounds).begin();
        let outcome = match self.round(link, live, &mut channel, marker).await {
            Ok(outcome) => outcome,
            // This slot is moved. The grants in others are none the worse for it.
            Err(failure @ (Failure::Moving(_) | Failure::Moved(..) | Failure::Asks(..))) => {
                return Outcome::Failed(unconfirmed(&failure.into_error().to_string()));
            }
            Err(failure) => Outcome::Failed(failure.into_error()),
        };
        lock(&self.rounds).end(covered, outcome.clone());
        outcome
    }

    async fn round(
        &self,
        link: &Link,
        live: &Live,
        channel: &mut Option<Channel>,
        marker: &Marker,
    ) -> Result<Outcome, Failure> {
        let channel = opened(link, live, channel).await?;
        let (marked, mut acknowledged) = if channel.hopes {
            self.mark_and_wait(&channel.live, marker).await?
        } else {
            (self.mark(&channel.live, marker).await?, None)
        };
        channel.hopes = self.wish.is_met_by(&marked);
        if channel.hopes {
            // An acknowledgement may be late, and is asked for anew.
            for _ in 0..2 {
                if acknowledged
                    .is_none_or(|(count, is_local)| count < self.wish.replicas || !is_local)
                {
                    acknowledged = Some(self.wait(&channel.live).await?);
                }
            }
        }
        let (count, is_local) = acknowledged.unwrap_or_default();
        Ok(Outcome::Acknowledged { marked, count, is_local })
    }

    /// Writes a marker.
    async fn mark(&self, own: &Live, marker: &Marker) -> Result<Marked, Failure> {
        let answer = match own.run(marker.write()).await {
            Err(Failure::Asks(..)) => own.run(marker.write_lock()).await?,
            outcome => outcome?,
        };
        self.marked(&answer.reply)
    }

    /// Writes a marker and waits for half of the time, in one step, if the server knows the script.
    async fn mark_and_wait(
        &self,
        own: &Live,
        marker: &Marker,
    ) -> Result<(Marked, Option<Acknowledged>), Failure> {
        match own.run_before(marker.write(), &self.waiting()).await? {
            Some([reply, told]) => Ok((self.marked(&reply)?, Some(self.told(&told)?))),
            None => Ok((self.mark(own, marker).await?, None)),
        }
    }

    /// Waits for half of the time.
    async fn wait(&self, own: &Live) -> Result<Acknowledged, Failure> {
        let reply = own.call(&self.waiting()).await?;
        self.told(&reply)
    }

    fn waiting(&self) -> Command {
        let Wish { replicas, timeout, on_disk } = self.wish;
        let (replicas, half) = (replicas.to_string(), (timeout / 2).as_millis().max(1).to_string());
        let command: &[&str] =
            if on_disk { &["WAITAOF", "1", &replicas, &half] } else { &["WAIT", &replicas, &half] };
        Command::words(command)
    }

    fn marked(&self, reply: &Reply) -> Result<Marked, Failure> {
        let marked = verdict::marked(reply).ok_or_else(|| nonsense("the marker"))?;
        *lock(&self.term) = Some(marked.term.clone());
        Ok(marked)
    }

    fn told(&self, reply: &Reply) -> Result<Acknowledged, Failure> {
        Ok(verdict::acknowledged(reply).ok_or_else(|| nonsense("WAIT"))?)
    }
}

/// The connection of the commits, which this opens if there is none.
async fn opened<'a>(
    link: &Link,
    live: &Live,
    channel: &'a mut Option<Channel>,
) -> Result<&'a mut Channel, Failure> {
    if channel.as_ref().is_some_and(|own| own.live.is_closed()) {
        *channel = None;
    }
    match channel {
        Some(own) => Ok(own),
        None => Ok(channel.insert(Channel { live: open_beside(link, live).await?, hopes: false })),
    }
}

/// Runs a commit in a task. The task of an app may stop to poll its request, and would keep the connection of the
/// commits from all others.
async fn in_task<T: Send + 'static>(
    commit: impl Future<Output = T> + Send + 'static,
) -> Result<T, Error> {
    tokio::spawn(commit).await.map_err(|_| unconfirmed("the tokio runtime is going away"))
}

/// Opens another connection to this run of this server.
async fn open_beside(link: &Link, live: &Live) -> Result<Live, Failure> {
    let own = link.beside(live).await.map_err(Failure::Unsent)?;
    if run_of(&own).await? == run_of(live).await? {
        return Ok(own);
    }
    Err(unconfirmed("a second connection leads to another server").into())
}

/// The name of a server's run.
async fn run_of(live: &Live) -> Result<Box<[u8]>, Failure> {
    const FIELD: &[u8] = b"run_id:";
    let reply = live.call(&Command::words(&["INFO", "server"])).await?;
    let Reply::Text(info) = &reply else { return Err(nonsense("INFO").into()) };
    let run = info.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(FIELD));
    Ok(run.ok_or_else(|| nonsense("INFO"))?.trim_ascii_end().into())
}

fn nonsense(what: &str) -> Error {
    Error::new(ErrorKind::Protocol, format!("{what} was answered with nonsense"))
}

/// A panic under the lock leaves nothing half done.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for Committers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Committers").finish_non_exhaustive()
    }
}
