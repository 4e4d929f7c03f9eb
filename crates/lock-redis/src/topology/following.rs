//! Watches in a cluster: they follow the slot of their lock from server to server.
//!
//! A subscription survives the move of its slot and the demotion of its server, and hears nothing any more. So a watch
//! ends its subscription when the map names another server, subscribes there, and says that it may have missed hints.
//! Its stream is that of the server, without a further task between them.
//!
//! One task for each cluster reads the map every few seconds while there are watches, and more often while a server of
//! the map cannot be connected to. Requests that are redirected report changes earlier.

use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::stream;
use lock_core::{Error, Hint, Key, Watch};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::{JoinError, JoinHandle};
use tokio::time;

use super::fleet::Fleet;
use super::node::Site;
use super::roster::Roster;
use crate::keys::Layout;
use crate::slot::slot;
use crate::wire::Failure;

/// How often the map is read while there are watches.
const PERIOD: Duration = Duration::from_secs(2);
/// How often the map is read while a server of the map is away, and how many times before that is given up.
const HURRY: Duration = Duration::from_millis(500);
const HURRIED: u32 = 60;
/// How long a watch waits after it failed to begin anew.
const PAUSE: Duration = Duration::from_millis(100);

/// Starts to watch a lock, and returns once no hint can be missed.
///
/// # Errors
///
/// As of a watch at one server.
pub(crate) async fn watch(fleet: &Fleet, layout: &Arc<Layout>, key: &Key) -> Result<Watch, Error> {
    let Some(roster) = fleet.roster() else {
        return begin(fleet, layout, key).await.map(|(watch, _)| watch);
    };
    let mut changes = roster.changes();
    changes.mark_unchanged();
    let (watch, site) = begin(fleet, layout, key).await?;
    let runtime = Handle::try_current().ok();
    if let Some(runtime) = &runtime
        && let Some(number) = roster.begin_looking(PERIOD * 3)
    {
        runtime.spawn(look_out(Arc::downgrade(roster), number));
    }
    let wanted = Wanted { fleet: fleet.clone(), layout: Arc::clone(layout), key: key.clone() };
    let following = Following { wanted, runtime, changes, watch: Some(watch), site, anew: None };
    Ok(Watch::new(Box::pin(stream::unfold(following, async |mut following| {
        Some((following.next().await?, following))
    }))))
}

/// Watches at the server that has the key.
async fn begin(fleet: &Fleet, layout: &Layout, key: &Key) -> Result<(Watch, Site), Error> {
    let names = layout.names(key)?;
    let names = &names;
    let at = |site: Site| async move {
        let watch = site.hub().watch(names).await?;
        Ok::<_, Failure>((watch, site))
    };
    fleet.route(names.lock(), at).await
}

/// What a watch is to hear.
#[derive(Clone)]
struct Wanted {
    fleet: Fleet,
    layout: Arc<Layout>,
    key: Key,
}

/// A watch, and the server at which it is.
struct Following {
    wanted: Wanted,
    /// A stream may be polled outside of any runtime.
    runtime: Option<Handle>,
    changes: watch::Receiver<u64>,
    /// `None` if there is no subscription at present.
    watch: Option<Watch>,
    site: Site,
    /// The attempt to watch at another server.
    anew: Option<Anew>,
}

/// Ends when it is dropped.
struct Anew(JoinHandle<Result<(Watch, Site), Error>>);

impl Following {
    /// The next hint; `None` if there cannot be any more.
    async fn next(&mut self) -> Option<Hint> {
        loop {
            if let Some(anew) = &mut self.anew {
                let outcome = anew.outcome().await;
                self.anew = None;
                (self.watch, self.site) =
                    outcome.ok()?.ok().map(|(watch, site)| (Some(watch), site))?;
                return Some(Hint::Resync);
            }
            let is_here = self.is_here();
            match self.watch.as_mut().filter(|_| is_here) {
                Some(watch) => tokio::select! {
                    hint = watch.next() => match hint {
                        Some(hint) => return Some(hint),
                        None => self.watch = None,
                    },
                    Ok(()) = self.changes.changed() => {}
                },
                None => {
                    // The subscription at the other server goes first: a claim has one inbox.
                    self.watch = None;
                    let runtime = self.runtime.as_ref()?;
                    self.anew = Some(Anew(runtime.spawn(self.wanted.clone().again())));
                }
            }
        }
    }

    /// Whether the watch is at the server that has the key. A cluster that is down has none.
    fn is_here(&self) -> bool {
        let Wanted { fleet, layout, key } = &self.wanted;
        let (Some(roster), Ok(names)) = (fleet.roster(), layout.names(key)) else { return true };
        let slot = slot(names.lock());
        roster.is_owner(&self.site, slot) || roster.owner(slot).is_none()
    }
}

impl Wanted {
    /// Watches anew, as soon as that is possible.
    async fn again(self) -> Result<(Watch, Site), Error> {
        loop {
            match begin(&self.fleet, &self.layout, &self.key).await {
                Err(error) if error.is_retryable() => {
                    tracing::debug!(%error, "a watch cannot begin yet");
                    time::sleep(PAUSE).await;
                }
                outcome => return outcome,
            }
        }
    }
}

impl Anew {
    async fn outcome(&mut self) -> Result<Result<(Watch, Site), Error>, JoinError> {
        (&mut self.0).await
    }
}

impl Drop for Anew {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Reads the map now and then, until there is no watch, or a later task does it. While a server is away, its waiters
/// may pause between their requests for as long as a second, so the map is read more often then. A server that stays
/// away for longer has no successor.
async fn look_out(roster: Weak<Roster>, number: u64) {
    let (mut age, mut hurried) = (Duration::ZERO, 0);
    loop {
        time::sleep(HURRY).await;
        age += HURRY;
        let Some(roster) = roster.upgrade() else { return };
        if !roster.goes_on_looking(number) {
            return;
        }
        hurried = if roster.lacks_a_server(PERIOD) { hurried + 1 } else { 0 };
        let is_hurried = (1..=HURRIED).contains(&hurried);
        if age < PERIOD && !is_hurried {
            continue;
        }
        age = Duration::ZERO;
        if let Err(error) = roster.refresh().await {
            tracing::debug!(%error, "the slots of the cluster are unknown");
        }
    }
}
