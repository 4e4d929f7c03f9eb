//! One connection, from its birth to its end.

use std::fmt;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lock_core::observer::{Telling, Told};
use lock_core::{Clock, Error, ErrorKind, Instant};
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use super::checks::Checks;
use super::manner::{Manner, Manners};
use super::mover::Mover;
use super::preloads::Preloads;
use super::pulse::{Pulse, Unanswered};
use super::recall::Recall;
use super::settings::STRIKES;
use super::terms::Terms;
use crate::wire::Script;
use crate::wire::{By, Call, Command, Connection, Driver, Endpoint, Failure, Numbers, Reply};

pub(super) const CLOCK: Clock = Clock::boot();

/// A connection that works, or worked until a moment ago.
pub(crate) struct Live {
    connection: Connection,
    numbers: Numbers,
    pub(super) manners: Manners,
    preloads: Preloads,
    checks: Checks,
    recall: Recall,
    pub(super) terms: Terms,
    endpoint: Arc<Endpoint>,
    limit: Duration,
    pulse: Arc<Pulse>,
    mover: Arc<Mover>,
    end: Arc<End>,
    silence: Mutex<Silence>,
    /// Whether callers have waited in vain since the last answer: a check without a lock.
    is_silent: AtomicBool,
    born: Instant,
    driver: AbortHandle,
    /// `None` without observers.
    pub(super) told: Option<Arc<Told>>,
}

/// A reply, and the instant before its request was sent.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) sent: Instant,
    pub(crate) reply: Reply,
}

impl Live {
    /// Starts a connection, on the runtime in whose context this is called.
    pub(super) fn start(
        connection: Connection,
        driver: Driver,
        endpoint: &Arc<Endpoint>,
        limit: Duration,
        telling: &Telling,
    ) -> Result<Self, Error> {
        let numbers = Numbers::new()?;
        let pulse = Arc::new(Pulse::new(limit));
        let mover = Mover::new(driver);
        let told = telling.connected(&endpoint.address).map(Arc::new);
        let (end, driver) = spawn(Arc::clone(&mover).run(), told.clone());
        let ended = Arc::clone(&end);
        tokio::spawn(Arc::clone(&pulse).run(async move { ended.reached().await }));
        let endpoint = Arc::clone(endpoint);
        let (silence, is_silent, born) = (Mutex::default(), AtomicBool::new(false), CLOCK.now());
        Ok(Self {
            connection,
            numbers,
            manners: Manners::default(),
            preloads: Preloads::default(),
            checks: Checks::default(),
            recall: Recall::default(),
            terms: Terms::default(),
            endpoint,
            limit,
            pulse,
            mover,
            end,
            silence,
            is_silent,
            born,
            driver,
            told,
        })
    }

    /// Has the server load each of these scripts before its first call, without a round trip of its own.
    pub(super) fn preloading(self, scripts: impl Iterator<Item = &'static Script>) -> Self {
        Self { preloads: scripts.collect(), ..self }
    }

    /// Sends a command and waits for its reply, up to the time limit.
    ///
    /// # Cancel safety
    ///
    /// Leaves open whether the command ran.
    pub(crate) async fn call(&self, command: &Command) -> Result<Reply, Failure> {
        Ok(self.ask(pin!(self.connection.call(command))).await?.reply)
    }

    /// Calls a script in this way and waits for the reply, up to the time limit.
    ///
    /// # Cancel safety
    ///
    /// Leaves open whether the script ran.
    pub(super) async fn tell(&self, call: &mut Call, by: By) -> Result<Answer, Failure> {
        let telling = async {
            self.preload(call, by).await;
            self.connection.run(call, by, self.numbers.next()).await
        };
        self.ask(pin!(telling)).await
    }

    /// Calls a script by its digest and sends a command right behind it, and waits for both replies, up to the time
    /// limit.
    pub(super) async fn tell_before(
        &self,
        call: &mut Call,
        then: &Command,
    ) -> Result<[Reply; 2], Failure> {
        let telling = async {
            self.preload(call, By::Digest).await;
            let replies = self.connection.run_before(call, self.numbers.next(), then).await?;
            Ok(Reply::List(replies.into()))
        };
        match self.ask(pin!(telling)).await?.reply {
            Reply::List(replies) => {
                Ok(<[Reply; 2]>::try_from(replies).unwrap_or([Reply::Nil, Reply::Nil]))
            }
            _ => Ok([Reply::Nil, Reply::Nil]),
        }
    }

    /// Sends the script ahead of its first call, if it is one of those, and the server is not known to load none.
    async fn preload(&self, call: &Call, by: By) {
        if by == By::Digest
            && self.manners.get() == Manner::Loads
            && let Some(first) = self.preloads.of(call.sends())
        {
            // Once for each script of a connection, so the calls have no room for it.
            Box::pin(self.connection.preload(call.sends())).await;
            self.preloads.is_sent(first);
        }
    }

    /// Has the server load a script, up to the time limit.
    pub(crate) async fn load(&self, script: &Script) -> Result<(), Failure> {
        let loading = async { self.connection.load(script).await.map(|()| Reply::Nil) };
        self.ask(pin!(loading)).await.map(drop)
    }

    /// Subscribes to a channel of a slot, up to the time limit.
    pub(crate) async fn subscribe_in_slot(&self, channel: &[u8]) -> Result<(), Failure> {
        let subscribing =
            async { self.connection.subscribe_in_slot(channel).await.map(|()| Reply::Nil) };
        self.ask(pin!(subscribing)).await.map(drop)
    }

    async fn ask(
        &self,
        request: Pin<&mut impl Future<Output = Result<Reply, Failure>>>,
    ) -> Result<Answer, Failure> {
        let waiting = self.wait();
        let sent = waiting.since;
        match self.pulse.within(CLOCK, sent, pin!(self.mover.carry(request))).await {
            Ok(Ok(reply)) => {
                waiting.ends();
                Ok(Answer { sent, reply })
            }
            Ok(Err(failure)) => {
                waiting.ends();
                self.suffer(&failure);
                Err(failure)
            }
            Err(why) => Err(self.unanswered(why).into()),
        }
    }

    /// Gives up a connection to a server that refuses writes, or on which replies go astray. Behind a name
    /// or a virtual address the next connection may lead to a server that accepts writes.
    fn suffer(&self, failure: &Failure) {
        match failure {
            Failure::Demoted(_) => self.leave(),
            Failure::Astray(error) => {
                tracing::warn!(server = %self.endpoint, %error, "gave up a connection");
                self.leave();
            }
            _ => {}
        }
    }

    /// Runs an operation that is not a plain command on the connection, up to the time limit.
    pub(crate) async fn within<T>(
        &self,
        request: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let waiting = self.wait();
        match self.pulse.within(CLOCK, waiting.since, pin!(request)).await {
            Ok(outcome) => {
                waiting.ends();
                outcome
            }
            Err(why) => Err(self.unanswered(why)),
        }
    }

    /// The server at the other end.
    pub(crate) fn endpoint(&self) -> &Arc<Endpoint> {
        &self.endpoint
    }

    pub(crate) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// When the server was last looked at in full, for votes.
    pub(crate) fn checks(&self) -> &Checks {
        &self.checks
    }

    /// Whether the server may have forgotten leases.
    pub(super) fn recall(&self) -> &Recall {
        &self.recall
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.end.is_reached()
    }

    /// Returns when the connection has ended.
    pub(crate) async fn closed(&self) {
        self.end.reached().await;
    }

    /// Whether the connection was of no use: soon after it was opened, the server ended it or turned out to
    /// be the wrong one.
    pub(super) fn was_useless(&self) -> bool {
        const SOON: Duration = Duration::from_secs(1);
        let age = CLOCK.now().saturating_duration_since(self.born);
        self.end.refused.load(Ordering::Relaxed) && age < SOON
    }

    /// Gives up the connection: the server is the wrong one.
    pub(super) fn leave(&self) {
        self.end.refused.store(true, Ordering::Relaxed);
        self.give_up();
    }

    /// Ends the connection. Its task ends only when it is polled, but no request uses it until then.
    fn give_up(&self) {
        self.end.reach();
        self.driver.abort();
    }

    /// A caller begins to wait for an answer.
    fn wait(&self) -> Waiting<'_> {
        Waiting { live: self, since: CLOCK.now(), is_over: false }
    }

    /// Counts the time for which a caller has waited in vain. After a few time limits, the connection is given up.
    ///
    /// A peer that vanished without closing the connection looks like a slow one, and a new connection shows the
    /// difference.
    fn waited_since(&self, since: Instant) {
        let now = CLOCK.now();
        self.is_silent.store(true, Ordering::Relaxed);
        let mut silence = self.silence();
        // Callers that wait at one time wait in one silence.
        let alone = since.max(silence.until);
        silence.lasted += now.saturating_duration_since(alone);
        silence.until = now;
        if silence.lasted >= self.limit * STRIKES && !self.is_closed() {
            drop(silence);
            tracing::warn!(server = %self.endpoint, "gave up a connection that does not answer");
            self.give_up();
        }
    }

    fn silence(&self) -> MutexGuard<'_, Silence> {
        self.silence.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unanswered(&self, why: Unanswered) -> Error {
        let address = &self.endpoint.address;
        if why == Unanswered::Ended {
            let message = format!("the connection to {address} has ended");
            return Error::new(ErrorKind::Unreachable, message);
        }
        Error::new(ErrorKind::Timeout, format!("{address} did not answer within {:?}", self.limit))
    }
}

/// For how long callers have waited since the last answer, and until when this was counted.
#[derive(Debug)]
struct Silence {
    lasted: Duration,
    until: Instant,
}

impl Default for Silence {
    fn default() -> Self {
        Self { lasted: Duration::ZERO, until: Instant::from_nanos(0) }
    }
}

/// A caller that waits for an answer. The wait is in vain unless it [ends](Self::ends) with an answer: a caller may also
/// give up waiting before the time limit of the connection.
struct Waiting<'a> {
    live: &'a Live,
    since: Instant,
    is_over: bool,
}

impl Waiting<'_> {
    fn ends(mut self) {
        self.is_over = true;
        if self.live.is_silent.load(Ordering::Relaxed) {
            self.live.is_silent.store(false, Ordering::Relaxed);
            *self.live.silence() = Silence::default();
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.live.waited_since(self.since);
        }
    }
}

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Live")
            .field("connection", &self.connection)
            .field("closed", &self.is_closed())
            .finish_non_exhaustive()
    }
}

/// Starts the task that moves the bytes of a connection, on the present runtime.
///
/// When the runtime goes, the task goes, and the connection counts as ended.
pub(super) fn spawn(
    driver: impl Future<Output = ()> + Send + 'static,
    told: Option<Arc<Told>>,
) -> (Arc<End>, AbortHandle) {
    let end = Arc::new(End::default());
    let ending = Ending { end: Arc::clone(&end), told };
    let task = tokio::spawn(async move {
        let ending = ending;
        driver.await;
        ending.end.refused.store(true, Ordering::Relaxed);
    });
    (end, task.abort_handle())
}

/// The end of a connection, as requests see it.
#[derive(Debug, Default)]
pub(crate) struct End {
    reached: AtomicBool,
    /// The other side ended it, or gave a reason to end it.
    refused: AtomicBool,
    told: Notify,
}

impl End {
    pub(crate) fn is_reached(&self) -> bool {
        self.reached.load(Ordering::Acquire)
    }

    fn reach(&self) {
        self.reached.store(true, Ordering::Release);
        self.told.notify_waiters();
    }

    pub(crate) async fn reached(&self) {
        let told = self.told.notified();
        if !self.is_reached() {
            told.await;
        }
    }
}

/// Marks the connection as ended when its task ends, in whatever way.
struct Ending {
    end: Arc<End>,
    told: Option<Arc<Told>>,
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.end.reach();
        if let Some(told) = &self.told {
            told.disconnected();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use futures::FutureExt as _;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;
    use crate::wire::Version;

    const STRESS: usize = 2_000;

    /// A server that gives this reply to every request, once it has greeted.
    async fn server(said: &'static [u8]) -> (TcpStream, Arc<Endpoint>) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let addr = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut buffer = [0; 4096];
            while let Ok(1..) = stream.read(&mut buffer).await {
                let greets = buffer.starts_with(b"*4\r\n$6\r\nCLIENT");
                let said = if greets { b"+OK\r\n+OK\r\n" } else { said };
                stream.write_all(said).await.unwrap();
                buffer.fill(0);
            }
        });
        let endpoint = Endpoint::parse(&format!("redis://{addr}")).unwrap();
        (TcpStream::connect(addr).await.unwrap(), Arc::new(endpoint))
    }

    /// A connection to such a server.
    async fn live(said: &'static [u8], limit: Duration) -> Live {
        let (stream, endpoint) = server(said).await;
        let opened = Connection::open(stream, &endpoint, Version::Resp2, |_| {}).await;
        let (connection, driver) = opened.map_err(Failure::into_error).unwrap();
        Live::start(connection, driver, &endpoint, limit, &Telling::default()).unwrap()
    }

    #[tokio::test]
    async fn a_connection_whose_answers_go_astray_is_closed_at_once() {
        // The answer may belong to another request.
        for said in [&b":0\r\n"[..], b"*2\r\n:7\r\n:0\r\n", b"-WRONGTYPE odd\r\n", b"+OK\r\n"] {
            let limit = Duration::from_secs(20);
            let live = live(said, limit).await;
            let outcome = live.run(Call::new(&crate::scripts::RENEW, 0, 0)).await;
            let astray = matches!(&outcome, Err(Failure::Astray(_)));
            assert!(astray && live.is_closed(), "{} {outcome:?}", said.escape_ascii());
            tokio::time::timeout(limit, live.closed()).await.unwrap();
        }
    }

    /// A request may be sent while the task of its connection finds out that the server has gone.
    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn a_request_that_is_sent_while_its_connection_ends_fails() {
        for _ in 0..STRESS {
            let live = Arc::new(live(b":0\r\n", Duration::from_secs(3_600)).await);
            let sending = (0..4).map(|_| {
                let live = Arc::clone(&live);
                tokio::spawn(
                    async move { while live.call(&Command::words(&["PING"])).await.is_ok() {} },
                )
            });
            let sending: Vec<_> = sending.collect();
            live.driver.abort();
            for sent in sending {
                tokio::time::timeout(Duration::from_secs(20), sent).await.unwrap().unwrap();
            }
        }
    }

    /// A renewal of a short lease does not wait for as long as the connection would.
    #[tokio::test]
    async fn a_connection_is_given_up_if_no_caller_waits_for_long_either() {
        const LIMIT: Duration = Duration::from_millis(200);
        let ping = Command::words(&["PING"]);
        let mute = live(b"", LIMIT).await;
        let begun = CLOCK.now();
        while !mute.is_closed() {
            let asked = tokio::time::timeout(LIMIT / 8, mute.call(&ping)).await;
            assert!(!matches!(asked, Ok(Ok(_))), "the server is mute");
            let lasts = CLOCK.now().saturating_duration_since(begun);
            assert!(lasts < LIMIT * 100, "{lasts:?}");
        }
        assert!(CLOCK.now().saturating_duration_since(begun) >= LIMIT * STRIKES);

        // An answer ends the silence.
        let live = live(b"+PONG\r\n", LIMIT * 100).await;
        let dropped = live.call(&ping).now_or_never();
        assert!(dropped.is_none() && live.silence().until > begun);
        live.call(&ping).await.map_err(Failure::into_error).unwrap();
        assert_eq!(live.silence().lasted, Duration::ZERO);
    }
}
