//! The four verbs.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lock_core::{
    Acquire, AcquireOutcome, Backend, Capabilities, Claim, ClientMark, Clock, Convert, Error,
    ErrorKind, Instant, Key, Label, Released, Renew, Renewal, Ttl, Watch,
};
use tokio_postgres::types::Type;

use crate::answer::{Answer, column};
use crate::builder::Builder;
use crate::inbox::Placed;
use crate::link::{Statement, Told};
use crate::shared::Shared;
use crate::{failure, naming, schema};

/// Locks in a PostgreSQL database.
///
/// `Clone` gives another handle of this client. The first request opens the connections, on a thread of their own.
/// [`init`](Self::init) puts the schema into the database.
///
/// # Examples
///
/// ```no_run
/// use lock_core::{Acquire, AcquireOutcome, Backend, Claim, Key, OwnerToken, Ttl};
/// use lock_postgres::PostgresBackend;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> lock_core::Result<()> {
/// let store = PostgresBackend::open("postgres://app:secret@db.example/shop")?;
/// store.init().await?;
///
/// let claim = Claim::exclusive(Key::new("stock/apples")?, OwnerToken::generate()?);
/// let AcquireOutcome::Granted(grant) = store.try_acquire(&Acquire::new(claim.clone(), Ttl::DEFAULT)).await?
/// else {
///     panic!("another client holds the lock")
/// };
/// println!("every write carries {}", grant.tokens.first());
/// store.release(&claim).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct PostgresBackend {
    pub(crate) shared: Arc<Shared>,
}

impl PostgresBackend {
    /// A client of the database at this URL, with the default options. Opens no connection yet.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`] if the URL is not valid.
    pub fn open(url: impl AsRef<str>) -> Result<Self, Error> {
        Self::builder(url).build()
    }

    /// Options for a client of the database at this URL.
    ///
    /// The [example](Builder#examples) of the builder sets some.
    pub fn builder(url: impl AsRef<str>) -> Builder {
        Builder::new(url)
    }

    pub(crate) fn of(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Creates the schema `lock_v1` in the database, or brings it to the version of this crate. Leaves a newer version
    /// as it is. Any number of processes may call this at once.
    ///
    /// The user needs the right to create a schema, and becomes its owner. Apps need less: see
    /// [`schema`](Self::schema) for a way without that right.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Denied`] without the right; else any error of the database or of the connection to it.
    ///
    /// # Cancel safety
    ///
    /// The change is one transaction. Dropping the future leaves open whether it was made. Repeating is harmless.
    pub async fn init(&self) -> Result<(), Error> {
        let dial = Arc::clone(&self.shared.dial);
        let work = async move {
            let (mut client, mut messages) = dial.open().await?;
            let drive = async {
                use futures::StreamExt as _;
                while let Some(Ok(_)) = messages.next().await {}
            };
            tokio::select! {
                done = schema::init(&mut client) => done,
                () = drive => Err(Error::new(ErrorKind::Unreachable, "the connection has ended")),
            }
        };
        self.shared.thread.run(work).await
    }

    /// Opens the connections, and checks that the schema is there. Without this call, the first requests do both, and
    /// the first wait for a lock takes the time to log in once more.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`] if the database has no schema for locks, or an older one than this crate needs;
    /// [`ErrorKind::Denied`] if the role may not use it; else any error of the database or of the connection to it.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the connections as they are.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn start() -> lock_core::Result<()> {
    /// let store = lock_postgres::PostgresBackend::open("postgres://app:secret@db.example/shop")?;
    /// store.connect().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn connect(&self) -> Result<(), Error> {
        self.shared.listen().await?;
        for row in self.shared.ask_each("SELECT lock_v1.version()").await? {
            let version: i32 = column(&row, 0)?;
            if version < schema::VERSION {
                let message = format!(
                    "the schema of the locks has version {version}, and this client needs {}: call `init`",
                    schema::VERSION
                );
                return Err(Error::new(ErrorKind::InvalidConfig, message));
            }
        }
        Ok(())
    }

    /// The schema as a script in SQL, for people who set up databases themselves: `psql -f`. It creates what
    /// [`init`](Self::init) creates in an empty database.
    ///
    /// # Examples
    ///
    /// ```
    /// let script = lock_postgres::PostgresBackend::schema();
    /// assert!(script.contains("CREATE FUNCTION") || script.contains("CREATE OR REPLACE FUNCTION"));
    /// ```
    pub fn schema() -> String {
        schema::script()
    }

    pub(crate) fn limit(&self) -> i32 {
        self.shared.queue_limit
    }

    /// A statement about a claim: key, owner and mode are its first parameters.
    pub(crate) fn about(sql: &'static str, claim: &Claim) -> Result<(Vec<u8>, Statement), Error> {
        let key = naming::key(&claim.key);
        let statement = Statement::new(sql)
            .bytes(key.clone())
            .text(naming::owner(&claim.owner))
            .text(naming::mode(claim.mode)?);
        Ok((key, statement))
    }

    /// The outcome of a request, and a note of the time if it has a place now.
    pub(crate) fn outcome(
        &self,
        answer: Answer,
        claim: &Claim,
        sent: Instant,
    ) -> Result<AcquireOutcome, Error> {
        let at = answer.at;
        let outcome = answer.outcome(sent)?;
        if let Some(session) = self.shared.inbox.current() {
            match (&outcome, at) {
                (AcquireOutcome::Queued { .. }, Some(at)) => {
                    session.placed(claim.owner, Placed { sent, at });
                }
                _ => session.unplaced(claim.owner),
            }
        }
        Ok(outcome)
    }

    async fn ask_renewal(&self, request: &Renew) -> Result<Renewal, Error> {
        let sql = "SELECT * FROM lock_v1.renew($1, $2, $3, $4, $5, $6, $7)";
        let (key, statement) = Self::about(sql, &request.claim)?;
        let statement = statement
            .int(millis(request.ttl))
            .int(i32::try_from(request.tokens).unwrap_or(i32::MAX))
            .text(self.shared.inbox.name());
        let (row, sent) = self.shared.ask_renewal(&key, statement).await?;
        Answer::of(&row)?.renewal(request.ttl, sent)
    }

    /// Converts a lease, or asks when that can be done.
    pub(crate) async fn ask_conversion(&self, convert: &Convert) -> Result<AcquireOutcome, Error> {
        convert.check()?;
        let Acquire { claim, ttl, tokens, queue, .. } = &convert.request;
        let key = naming::key(&claim.key);
        let listener = self.shared.inbox.listener(&key);
        let statement = Statement::new(
            "SELECT * FROM lock_v1.convert($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
        )
        .bytes(key.clone())
        .text(naming::owner(&claim.owner))
        .text(naming::mode(convert.from)?)
        .text(naming::mode(claim.mode)?)
        .int(millis(*ttl))
        .int(count(*tokens))
        .bool(*queue)
        .text(listener.name())
        .int(self.limit());
        let (row, sent) = self.shared.ask_lease(&key, statement).await?;
        let answer = Answer::of(&row)?;
        listener.learn(&key, &answer, *queue);
        self.outcome(answer, claim, sent)
    }
}

/// Shows host, port and database.
impl fmt::Debug for PostgresBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PostgresBackend({})", self.shared.dial.name())
    }
}

/// At most a day, so it fits.
pub(crate) fn millis(ttl: Ttl) -> i32 {
    i32::try_from(ttl.as_millis()).unwrap_or(i32::MAX)
}

/// As many tokens as the database can count.
pub(crate) fn count(tokens: std::num::NonZeroU32) -> i32 {
    i32::try_from(tokens.get()).unwrap_or(i32::MAX)
}

/// The number that `let_go` returns.
pub(crate) fn released(row: &tokio_postgres::Row) -> Result<Released, Error> {
    let told: i32 = column(row, 0)?;
    Ok(u32::try_from(told).map_or(Released::NotHeld, |told| Released::Freed { told }))
}

#[async_trait]
impl Backend for PostgresBackend {
    async fn try_acquire(&self, request: &Acquire) -> Result<AcquireOutcome, Error> {
        let sql = "SELECT * FROM lock_v1.acquire($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";
        let (key, statement) = Self::about(sql, &request.claim)?;
        let listener = self.shared.inbox.listener(&key);
        let statement = statement
            .int(millis(request.ttl))
            .int(count(request.tokens))
            .bool(request.queue)
            .bool(request.value)
            .text(listener.name())
            .int(self.limit());
        let (row, sent) = self.shared.ask_lease(&key, statement).await?;
        let answer = Answer::of(&row)?;
        listener.learn(&key, &answer, request.queue);
        self.outcome(answer, &request.claim, sent)
    }

    async fn renew(&self, request: &Renew) -> Renewal {
        self.ask_renewal(request).await.unwrap_or_else(Renewal::Unknown)
    }

    async fn release(&self, claim: &Claim) -> Result<Released, Error> {
        if let Some(session) = self.shared.inbox.current() {
            session.unplaced(claim.owner);
        }
        let (key, statement) = Self::about("SELECT lock_v1.release($1, $2, $3, $4)", claim)?;
        let statement = statement.text(self.shared.inbox.name());
        released(&self.shared.ask_one(&key, statement).await?)
    }

    async fn release_and_requeue(
        &self,
        claim: &Claim,
        next: &Acquire,
    ) -> Result<(Released, Option<AcquireOutcome>), Error> {
        if !next.queue || next.claim.key != claim.key {
            return Ok((self.release(claim).await?, None));
        }
        let sql = "SELECT * FROM lock_v1.requeue($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)";
        let (key, statement) = Self::about(sql, claim)?;
        let statement = statement
            .text(naming::owner(&next.claim.owner))
            .text(naming::mode(next.claim.mode)?)
            .int(millis(next.ttl))
            .int(count(next.tokens))
            .bool(next.value)
            .text(self.shared.inbox.name())
            .int(self.limit());
        // A queue that is full, or another number of permits, keeps the request out. The release goes on.
        let (row, sent) = match self.shared.ask_lease(&key, statement).await {
            Err(error) if !error.is_retryable() => return Ok((self.release(claim).await?, None)),
            answer => answer?,
        };
        let answer = Answer::of(&row)?;
        if answer.verdict.is_none() {
            return Ok((self.release(claim).await?, None));
        }
        let outcome = self.outcome(answer, &next.claim, sent)?;
        Ok((Released::Freed { told: 0 }, Some(outcome)))
    }

    async fn try_acquire_all(
        &self,
        requests: &[Acquire],
    ) -> Result<Option<Vec<AcquireOutcome>>, Error> {
        let keys: Vec<_> = requests.iter().map(|it| naming::key(&it.claim.key)).collect();
        if keys.iter().collect::<HashSet<_>>().len() < keys.len() {
            let message = "two of the leases that were asked for together are for one key";
            return Err(Error::new(ErrorKind::InvalidConfig, message));
        }
        let Some((first, others)) = keys.split_first() else { return Ok(Some(Vec::new())) };
        let modes = requests.iter().map(|it| naming::mode(it.claim.mode));
        let of = |take: fn(&Acquire) -> i32| requests.iter().map(take).collect::<Vec<_>>();
        let owners: Vec<_> = requests.iter().map(|it| naming::owner(&it.claim.owner)).collect();
        let values: Vec<_> = requests.iter().map(|it| it.value).collect();
        let statement =
            Statement::new("SELECT * FROM lock_v1.acquire_all($1, $2, $3, $4, $5, $6, $7, $8)")
                .with(keys.clone(), Type::BYTEA_ARRAY)
                .with(owners, Type::TEXT_ARRAY)
                .with(modes.collect::<Result<Vec<_>, _>>()?, Type::TEXT_ARRAY)
                .with(of(|it| millis(it.ttl)), Type::INT4_ARRAY)
                .with(of(|it| count(it.tokens)), Type::INT4_ARRAY)
                .with(values, Type::BOOL_ARRAY)
                .text(self.shared.inbox.name());
        let Told { rows, sent } = self.shared.ask_leases(first, others, statement).await?;
        if rows.len() != requests.len() {
            return Err(failure::protocol("the number of rows"));
        }
        let answers = rows.iter().zip(requests);
        let outcome = |(row, it): (_, &Acquire)| self.outcome(Answer::of(row)?, &it.claim, sent);
        answers.map(outcome).collect::<Result<Vec<_>, _>>().map(Some)
    }

    async fn watch(&self, key: &Key) -> Result<Watch, Error> {
        self.shared.watch(key).await
    }

    async fn introduce(
        &self,
        client: ClientMark,
        label: &Label,
        keep: Duration,
    ) -> Result<(), Error> {
        let mark = String::from_utf8_lossy(client.digits()).into_owned();
        let keep = i32::try_from(keep.as_millis()).unwrap_or(i32::MAX);
        let statement = Statement::new("SELECT lock_v1.introduce($1, $2, $3)")
            .text(mark.clone())
            .text(label.as_str().to_owned())
            .int(keep);
        self.shared.ask(mark.as_bytes(), statement).await.map(drop)
    }

    fn clock(&self) -> Clock {
        Clock::boot()
    }

    fn capabilities(&self) -> Capabilities<'_> {
        let all = Capabilities::none().sharing(self).joining(self).converting(self);
        let all = all.counting(self).keeping(self).inspecting(self);
        if self.shared.inbox.is_possible() { all } else { all.without_watch() }
    }
}
