//! Asks the cluster for the facts, before any judgement.

use std::time::Duration;

use lock_core::check::Rehearsal;
use lock_core::{Error, Key, Ttl};

use crate::EtcdBackend;
use crate::link::{Host, Judgement, Survey, judge};

/// The name of the lock of the rehearsal.
const NAME: &str = "lock-etcd/check";

/// What the cluster told.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    /// Hosts, ports and prefix, without secrets.
    pub(super) store: String,
    pub(super) survey: Survey,
    /// `None` if it could not have succeeded.
    pub(super) rehearsal: Option<Rehearsal>,
    /// Whether this client uses members whose version may end renewed leases.
    pub(super) allows_unsafe: bool,
}

pub(super) async fn gather(backend: &EtcdBackend) -> Result<Facts, Error> {
    let allows_unsafe = backend.shared.allows_unsafe();
    let backend = EtcdBackend { shared: backend.shared.start_another()? };
    let survey = backend.ask(|core| async move { core.link.survey().await }).await?;
    let can_lock = survey.hosts.iter().any(can_lock);
    let rehearsal = if can_lock { Some(rehearse(&backend).await?) } else { None };
    let core = &backend.shared.core;
    let store = format!("{}/{}", core.link.hosts().join(","), core.names.prefix());
    Ok(Facts { store, survey, rehearsal, allows_unsafe })
}

/// Whether a client can use this member at all.
fn can_lock(host: &Host) -> bool {
    host.told.as_ref().is_ok_and(|told| {
        let is_usable = matches!(judge(&told.version), Judgement::Safe | Judgement::Unsafe);
        is_usable && told.has_leader && !told.is_learner
    })
}

/// Acquires, renews, watches, inspects and hands over a lock.
async fn rehearse(backend: &EtcdBackend) -> Result<Rehearsal, Error> {
    let (key, ttl) = (Key::new(NAME)?, Ttl::new(Duration::from_secs(10))?);
    Ok(Rehearsal::of(backend, &key, ttl, backend.shared.timer()).await)
}
