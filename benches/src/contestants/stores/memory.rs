//! The memory of one process.

use std::sync::Arc;

use futures::FutureExt;
use lock_core::AnyBackend;
use lock_core::memory::MemoryBackend;

use super::{Deployment, Reach, Rival, Store};
use crate::Entrant;
use crate::contestants::{Local, TOKIO};

pub(super) const STORE: Store = Store {
    name: "memory",
    reach: Reach::Process,
    has_fast_disk: false,
    rivals: &[Rival {
        name: TOKIO,
        is_floor: true,
        waits: true,
        most: usize::MAX,
        open: |name, _, _| async move { Ok(Entrant::new(name, [Local::default()])) }.boxed(),
    }],
    start: || Ok(Arc::new(Deployment { url: String::new(), meters: Vec::new(), _servers: () })),
    open: |_| async { Ok(AnyBackend::new(MemoryBackend::new())) }.boxed(),
};
