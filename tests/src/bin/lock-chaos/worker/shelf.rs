//! The locks that all workers of a run share, for one client.

use std::sync::Arc;
use std::time::Duration;

use lock_core::memory::MemoryBackend;
use lock_core::{Backend, CellBackend, Convertible, Error, Fixed, JointBackend, PermitBackend};
use lock_core::{SharedBackend, Ttl};
use lock_etcd::EtcdBackend;
use lock_postgres::PostgresBackend;
use lock_redis::{Notifications, Protocol, RedisBackend};
use lock_redlock::Redlock;
use lock_sync::{
    Barrier, Election, Handoff, Locks, Mutex, ReentrantMutex, RwLock, Semaphore, SlotSemaphore,
    StoredMutex,
};
use lock_tests::chaos::Deployment;

use super::cells::{Cells, Series};
use super::options::Options;
use super::pages::{Page, Pages};

/// The names of the locks.
pub(crate) const MUTEXES: [&str; 2] = ["m0", "m1"];
pub(crate) const RWLOCKS: [&str; 2] = ["w0", "w1"];
pub(crate) const REENTRANT: &str = "o0";
pub(crate) const SLOTS: &str = "l0";
pub(crate) const BARRIER: &str = "b0";
pub(crate) const ELECTION: &str = "e0";
pub(crate) const STORED: &str = "v0";

/// The semaphores, and their initial numbers of permits.
pub(crate) const SEMAPHORES: [(&str, u32); 2] = [("s0", 3), ("s1", 8)];

/// The semaphore whose limit changes.
pub(crate) const RESIZED: usize = 1;

/// The slots, each of which is a lock.
pub(crate) const SLOT_KEYS: [&str; SLOT_COUNT] = ["l0#0", "l0#1"];

/// The number of slots.
pub(crate) const SLOT_COUNT: usize = 2;

/// The number of permits under this name, if it never changes.
pub(crate) fn permits(key: &str) -> Option<u32> {
    let semaphores = SEMAPHORES.into_iter().enumerate().filter(|(which, _)| *which != RESIZED);
    let mut all = semaphores.map(|(_, it)| it).chain([(SLOTS, SLOT_COUNT as u32)]);
    all.find(|(name, _)| *name == key).map(|(_, count)| count)
}

/// All of the locks.
pub(crate) struct Shelf {
    pub(crate) locks: Locks,
    pub(crate) mutexes: Vec<Arc<Mutex<()>>>,
    pub(crate) rwlocks: RwLocks,

    pub(crate) reentrant: ReentrantMutex<()>,
    pub(crate) slots: Arc<SlotSemaphore>,
    pub(crate) election: Election,
    pub(crate) cells: Cells,
    pub(crate) stored: Arc<StoredMutex<Page, Pages>>,
    pub(crate) counting: Option<Counting>,
}

/// The reader-writer locks.
pub(crate) enum RwLocks {
    Convertible(Vec<Arc<RwLock<()>>>),
    /// Those of a quorum, whose readers never upgrade.
    Fixed(Vec<Arc<RwLock<(), Fixed>>>),
}

/// The locks that need counted permits. A store that counts has joint holders, too.
pub(crate) struct Counting {
    pub(crate) semaphores: Vec<Arc<Semaphore>>,
    pub(crate) barrier: Barrier,
    /// Asked for the number of permits.
    pub(crate) backend: Arc<dyn PermitBackend>,
}

impl Shelf {
    /// Over the store of the options, or over this client of the memory backend if they say so.
    pub(crate) async fn build(options: &Options, memory: &MemoryBackend) -> Result<Self, Error> {
        match options.deployment {
            Deployment::Memory => Self::counting_over(memory.clone(), options),
            Deployment::Redis
            | Deployment::Plain
            | Deployment::Cluster
            | Deployment::Service
            | Deployment::Unguarded
            | Deployment::Confirmed => {
                Self::counting_over(redis(options, &options.urls[0])?, options)
            }
            Deployment::Postgres => {
                let builder = PostgresBackend::builder(&options.urls[0]);
                Self::counting_over(builder.command_timeout(ANSWER).build()?, options)
            }
            Deployment::Etcd | Deployment::Members => {
                // One member has no leader that others could replace. What old versions of several do, the table says.
                let builder = EtcdBackend::builder(&options.urls[0]).allow_unsafe_version();
                Self::counting_over(builder.command_timeout(ANSWER).build()?, options)
            }
            Deployment::Quorum(_) => {
                let mut quorum = Redlock::builder();
                for url in &options.urls {
                    quorum = quorum.nodes([redis(options, url)?]);
                }
                if let Some(timeout) = options.node_timeout {
                    quorum = quorum.node_timeout(timeout);
                }
                if let Some(max_ttl) = options.max_ttl {
                    quorum = quorum.max_ttl(Ttl::new(max_ttl)?);
                }
                let locks = locks(quorum.build().await?, options)?;
                let rwlock = |key: &str| locks.rwlock(key, ()).map(Arc::new);
                let rwlocks = RWLOCKS.into_iter().map(rwlock).collect::<Result<_, _>>()?;
                Self::over(&locks, RwLocks::Fixed(rwlocks), options)
            }
        }
    }

    fn counting_over<B>(backend: B, options: &Options) -> Result<Self, Error>
    where
        B: SharedBackend<Conversion = Convertible>
            + JointBackend
            + CellBackend
            + PermitBackend
            + Clone,
    {
        let locks = locks(backend.clone(), options)?;
        let semaphore = |(key, of): (&str, u32)| locks.semaphore(key, of as usize).map(Arc::new);
        let rwlock = |key: &str| locks.rwlock(key, ()).map(Arc::new);
        let rwlocks = RWLOCKS.into_iter().map(rwlock).collect::<Result<_, _>>()?;
        let counting = Counting {
            semaphores: SEMAPHORES.into_iter().map(semaphore).collect::<Result<_, _>>()?,
            barrier: locks.barrier(BARRIER, options.party as usize)?,
            backend: Arc::new(backend),
        };
        Ok(Self {
            counting: Some(counting),
            ..Self::over(&locks, RwLocks::Convertible(rwlocks), options)?
        })
    }

    fn over<B>(locks: &Locks<B>, rwlocks: RwLocks, options: &Options) -> Result<Self, Error>
    where
        B: CellBackend,
    {
        let mutex = |key: &str| locks.mutex(key, ()).map(Arc::new);
        Ok(Self {
            mutexes: MUTEXES.into_iter().map(mutex).collect::<Result<_, _>>()?,
            rwlocks,
            reentrant: locks.reentrant_mutex(REENTRANT, ())?,
            slots: Arc::new(locks.slot_semaphore(SLOTS, SLOT_COUNT)?),
            election: locks.election(ELECTION)?,
            stored: Arc::new(locks.stored_mutex_with(STORED, Page::FIRST, Pages)?),
            cells: Cells::new(locks.clone(), Series::new(options.ttl / 2)),
            counting: None,
            locks: locks.erase(),
        })
    }
}

/// How long a server of another kind than Redis may take to answer.
const ANSWER: Duration = Duration::from_secs(2);

/// How long replicas may take to confirm a grant.
const CONFIRMING: Duration = Duration::from_millis(500);

fn redis(options: &Options, url: &str) -> Result<RedisBackend, Error> {
    let mut builder = RedisBackend::builder(url);
    if let Some(timeout) = options.node_timeout {
        builder = builder.connect_timeout(timeout);
    }
    if options.deployment == Deployment::Plain {
        builder = builder.protocol(Protocol::Resp2).notifications(Notifications::Off);
    }
    match options.deployment {
        Deployment::Unguarded => builder.term_quarantine(false),
        Deployment::Confirmed => builder.confirm(2, CONFIRMING),
        _ => builder,
    }
    .build()
}

fn locks<B: Backend>(backend: B, options: &Options) -> Result<Locks<B>, Error> {
    let wait_limit = options.wait_limit.max(Duration::from_millis(1));
    let mut builder = Locks::builder(backend).ttl(options.ttl).wait_limit(wait_limit);
    if options.fair {
        builder = builder.handoff(Handoff::Fair);
    }
    builder.build()
}
