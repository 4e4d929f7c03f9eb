//! One connection, from its birth to its end.

use std::fmt;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lock_core::{Clock, Error, ErrorKind, Instant};
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use super::manner::Manners;
use super::mover::Mover;
use super::pulse::{Elapsed, Pulse};
use super::settings::STRIKES;
use crate::wire::Script;
use crate::wire::{By, Call, Command, Connection, Driver, Endpoint, Failure, Numbers, Reply};

pub(super) const CLOCK: Clock = Clock::boot();

/// A connection that works, or did until a moment ago.
pub(crate) struct Live {
    connection: Connection,
    numbers: Numbers,
    pub(super) manners: Manners,
    pub(super) endpoint: Arc<Endpoint>,
    limit: Duration,
    pulse: Arc<Pulse>,
    mover: Arc<Mover>,
    end: Arc<End>,
    strikes: Mutex<Strikes>,
    /// Whether there are any, for a look without a lock.
    struck: AtomicBool,
    born: Instant,
    driver: AbortHandle,
}

/// A reply, and when its request was about to be sent.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) sent: Instant,
    pub(crate) reply: Reply,
}

impl Live {
    /// Sets a connection going, on the runtime in whose context this is called.
    pub(super) fn start(
        connection: Connection,
        driver: Driver,
        endpoint: &Arc<Endpoint>,
        limit: Duration,
    ) -> Result<Self, Error> {
        let numbers = Numbers::new()?;
        let pulse = Arc::new(Pulse::new(limit));
        let mover = Mover::new(driver);
        let (end, driver) = spawn(Arc::clone(&mover).run());
        tokio::spawn({
            let (pulse, end) = (Arc::clone(&pulse), Arc::clone(&end));
            async move {
                tokio::select! {
                    () = pulse.run() => {}
                    () = end.reached() => {}
                }
            }
        });
        let endpoint = Arc::clone(endpoint);
        let (strikes, struck, born) = (Mutex::default(), AtomicBool::new(false), CLOCK.now());
        Ok(Self {
            connection,
            numbers,
            manners: Manners::default(),
            endpoint,
            limit,
            pulse,
            mover,
            end,
            strikes,
            struck,
            born,
            driver,
        })
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
        self.ask(pin!(self.connection.run(call, by, self.numbers.next()))).await
    }

    /// Has the server load a script, up to the time limit.
    pub(crate) async fn load(&self, script: &Script) -> Result<(), Failure> {
        let loading = async { self.connection.load(script).await.map(|()| Reply::Nil) };
        self.ask(pin!(loading)).await.map(drop)
    }

    async fn ask(
        &self,
        request: Pin<&mut impl Future<Output = Result<Reply, Failure>>>,
    ) -> Result<Answer, Failure> {
        let sent = CLOCK.now();
        match self.pulse.within(CLOCK, sent, pin!(self.mover.carry(request))).await {
            Ok(Ok(reply)) => {
                self.answered();
                Ok(Answer { sent, reply })
            }
            Ok(Err(failure)) => {
                self.answered();
                self.suffer(&failure);
                Err(failure)
            }
            Err(Elapsed) => Err(self.unanswered().into()),
        }
    }

    /// Gives up a connection to a server that takes no writes, or on which replies go astray. Behind a name
    /// or a virtual address the next one may lead to a server that does.
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

    /// Runs something on the connection that is not a plain command, up to the time limit.
    pub(crate) async fn within<T>(
        &self,
        request: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        match self.pulse.within(CLOCK, CLOCK.now(), pin!(request)).await {
            Ok(outcome) => {
                self.answered();
                outcome
            }
            Err(Elapsed) => Err(self.unanswered()),
        }
    }

    pub(crate) fn connection(&self) -> &Connection {
        &self.connection
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.end.is_reached()
    }

    /// Returns when the connection has ended.
    pub(crate) async fn closed(&self) {
        self.end.reached().await;
    }

    /// Whether the connection was of no use: the server ended it, or turned out to be the wrong one,
    /// soon after it was opened.
    pub(super) fn was_useless(&self) -> bool {
        const SOON: Duration = Duration::from_secs(1);
        let age = CLOCK.now().saturating_duration_since(self.born);
        self.end.refused.load(Ordering::Relaxed) && age < SOON
    }

    fn leave(&self) {
        self.end.refused.store(true, Ordering::Relaxed);
        self.give_up();
    }

    /// Ends the connection. Its task does not end before it is polled, but nobody shall use it until then.
    fn give_up(&self) {
        self.end.reach();
        self.driver.abort();
    }

    fn answered(&self) {
        if self.struck.load(Ordering::Relaxed) {
            self.struck.store(false, Ordering::Relaxed);
            *self.strikes() = Strikes::default();
        }
    }

    /// Counts an unanswered request; returns how many there are in a row.
    fn strike(&self) -> u32 {
        let now = CLOCK.now();
        self.struck.store(true, Ordering::Relaxed);
        let mut strikes = self.strikes();
        let apart = |last| now.saturating_duration_since(last) >= self.limit;
        if strikes.last.is_none_or(apart) {
            strikes.count += 1;
            strikes.last = Some(now);
        }
        strikes.count
    }

    fn strikes(&self) -> MutexGuard<'_, Strikes> {
        self.strikes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A peer that vanished without closing the connection looks like one that is slow. After a few
    /// requests in a row without an answer the connection is given up, and a new one will tell. Those
    /// that overlap count as one: they waited in the same silence.
    fn unanswered(&self) -> Error {
        if self.strike() >= STRIKES && !self.is_closed() {
            tracing::warn!(server = %self.endpoint, "gave up a connection that does not answer");
            self.give_up();
        }
        Error::new(
            ErrorKind::Timeout,
            format!("{} did not answer within {:?}", self.endpoint.address, self.limit),
        )
    }
}

/// Requests in a row without an answer, and when the last of them was given up.
#[derive(Debug, Default)]
struct Strikes {
    count: u32,
    last: Option<Instant>,
}

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Live")
            .field("connection", &self.connection)
            .field("closed", &self.is_closed())
            .finish_non_exhaustive()
    }
}

/// Where the bytes of a connection are moved: on a task of the present runtime.
///
/// When the runtime goes, the task goes, and the connection counts as ended.
pub(crate) fn spawn(driver: impl Future<Output = ()> + Send + 'static) -> (Arc<End>, AbortHandle) {
    let end = Arc::new(End::default());
    let ending = Ending(Arc::clone(&end));
    let task = tokio::spawn(async move {
        let ending = ending;
        driver.await;
        ending.0.refused.store(true, Ordering::Relaxed);
    });
    (end, task.abort_handle())
}

/// The end of a connection, as others see it.
#[derive(Debug, Default)]
pub(crate) struct End {
    reached: AtomicBool,
    /// It was the other side that ended it, or gave reason to.
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

/// Says that a connection has ended when its task does, in whatever way.
struct Ending(Arc<End>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.reach();
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;
    use crate::wire::Version;

    /// A server that says this to whatever comes, once it has greeted.
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

    #[tokio::test]
    async fn a_connection_whose_answers_go_astray_is_closed_at_once() {
        // Such an answer may have been that of somebody else.
        for said in [&b":0\r\n"[..], b"*2\r\n:7\r\n:0\r\n", b"-WRONGTYPE odd\r\n", b"+OK\r\n"] {
            let (stream, endpoint) = server(said).await;
            let opened = Connection::open(stream, &endpoint, Version::Resp2, |_| {}).await;
            let (connection, driver) = opened.map_err(Failure::into_error).unwrap();
            let limit = Duration::from_secs(20);
            let live = Live::start(connection, driver, &endpoint, limit).unwrap();
            let outcome = live.run(Call::new(&crate::scripts::RENEW, 0, 0)).await;
            let astray = matches!(&outcome, Err(Failure::Astray(_)));
            assert!(astray && live.is_closed(), "{} {outcome:?}", said.escape_ascii());
            tokio::time::timeout(limit, live.closed()).await.unwrap();
        }
    }
}
