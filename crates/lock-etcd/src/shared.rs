//! What the clones of one backend share.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lock_core::Error;
use lock_core::observer::Telling;
use lock_core::runtime::Thread;
use tonic::transport::Endpoint;

use crate::core::Core;
use crate::hub::{self, Hub};
use crate::link::Link;
use crate::naming::Names;

/// How long a client that ends may take to tell etcd.
const FAREWELL: Duration = Duration::from_millis(500);

/// What the builder has decided.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) endpoints: Vec<Endpoint>,
    pub(crate) prefix: String,
    pub(crate) user: Option<(String, String)>,
    pub(crate) any_version: bool,
    pub(crate) queue_limit: NonZeroU32,
    pub(crate) limit: Duration,
    /// How often to look for what dead holders have left.
    pub(crate) sweep: Duration,
    pub(crate) telling: Telling,
}

/// The client, and the thread on which it lives: it depends on no runtime of the app, and a request goes on when its
/// future is dropped.
pub(crate) struct Shared {
    thread: Thread,
    pub(crate) core: Arc<Core>,
    settings: Settings,
    /// Tells this client from the others of this process.
    pub(crate) me: u64,
}

impl Shared {
    pub(crate) fn start(settings: Settings) -> Result<Arc<Self>, Error> {
        static CLIENTS: AtomicU64 = AtomicU64::new(0);
        let Settings { endpoints, prefix, user, any_version, queue_limit, limit, sweep, telling } =
            settings.clone();
        let link = Arc::new(Link::new(endpoints, user, any_version, limit, telling));
        let names = Arc::new(Names::new(prefix));
        let (hub, commands) = Hub::new();
        let hub = Arc::new(hub);
        let (link_of_core, hub_of_core) = (Arc::clone(&link), Arc::clone(&hub));
        let core = Core::new(link_of_core, Arc::clone(&names), hub_of_core, queue_limit, limit);
        let core = Arc::new(core);

        let ending = Arc::clone(&core);
        let farewell = async move {
            ending.hub.close();
            let _late = tokio::time::timeout(FAREWELL, bid_farewell(&ending)).await;
        };
        let thread = Thread::start("lock-etcd", farewell)?;
        thread.spawn(async move {
            let hearing = tokio::spawn(hub::run(Arc::clone(&hub), link, names, commands));
            if let Err(error) = hearing.await {
                // No hint would come any more.
                tracing::error!(%error, "the task that listens has ended");
                hub.close();
            }
        });
        thread.spawn(Arc::clone(&core).end_places());
        let keeping = Arc::clone(&core);
        thread.spawn(async move { keeping.leases.keep().await });
        thread.spawn(Arc::clone(&core).sweep(sweep));
        let me = CLIENTS.fetch_add(1, Ordering::Relaxed);
        Ok(Arc::new(Self { thread, core, settings, me }))
    }

    /// Whether the client uses members whose version may end renewed leases.
    pub(crate) fn allows_unsafe(&self) -> bool {
        self.settings.any_version
    }

    /// Another client with the same settings, that uses members of any version.
    pub(crate) fn start_another(&self) -> Result<Arc<Self>, Error> {
        let telling = self.settings.telling.of_another();
        Self::start(Settings { any_version: true, telling, ..self.settings.clone() })
    }

    /// Ends after the time that a request may take, which begins with the first poll. The runtime of the caller may
    /// have no timers.
    pub(crate) fn timer(&self) -> impl Future<Output = ()> + Send + 'static {
        self.thread.timer(self.settings.limit)
    }

    /// Runs work to its end on the thread of the client, even if the caller is dropped.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> impl Future<Output = Result<T, Error>> + Send {
        self.thread.run(work)
    }
}

/// Ends the session, so that no grant waits for this client, and the leases that no hold has.
async fn bid_farewell(core: &Core) {
    let session = async {
        if let Some(session) = core.hub.session() {
            let _ends_by_itself = core.link.revoke(session).await;
        }
    };
    tokio::join!(session, core.leases.end());
}
