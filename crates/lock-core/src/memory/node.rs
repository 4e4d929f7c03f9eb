//! Whether the store may have forgotten something that a quorum relies on.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::{Error, ErrorKind, Quarantine, Result, Server, Standing, Ttl};

/// One run of the store, and the mark that it is known.
#[derive(Debug)]
pub(super) struct Node {
    server: Server,
    /// Kept with the data, and so as lost as they are.
    mark: Option<Mark>,
}

#[derive(Debug)]
struct Mark {
    /// The run that was marked. The mark survives it, and then says nothing.
    server: Server,
    quarantine: Quarantine,
    /// The longest lease for which somebody has vouched.
    max_ttl: Option<Ttl>,
}

impl Node {
    pub(super) fn standing(&mut self) -> Standing {
        let Mark { server, quarantine, max_ttl } = self.look();
        Standing::new(server.clone(), quarantine.clone(), *max_ttl)
    }

    /// Why the node abstains from a guarded ballot for such a lease, if it does.
    pub(super) fn abstention(&mut self, ttl: Ttl) -> Result<Option<Quarantine>> {
        let Mark { quarantine, max_ttl, .. } = self.look();
        match *max_ttl {
            None => Ok(Some(quarantine.clone())),
            Some(max) if ttl > max => {
                let (ttl, max) = (ttl.duration(), max.duration());
                Err(Error::new(
                    ErrorKind::InvalidConfig,
                    format!("a lease of {ttl:?} is longer than the {max:?} that were vouched for"),
                ))
            }
            Some(_) => Ok(None),
        }
    }

    /// Ends the quarantine, if it is still the one that is named.
    pub(super) fn vouch(&mut self, quarantine: &Quarantine, max_ttl: Ttl) -> bool {
        let mark = self.look();
        let is_named = mark.quarantine == *quarantine;
        if is_named {
            mark.max_ttl = mark.max_ttl.max(Some(max_ttl));
        }
        is_named
    }

    pub(super) fn forget(&mut self) {
        self.mark = None;
    }

    pub(super) fn restart(&mut self) {
        self.server = Server::new(new_name());
    }

    /// The mark of this run. Whoever looks first after it was lost begins a quarantine.
    fn look(&mut self) -> &mut Mark {
        let server = &self.server;
        if self.mark.as_ref().is_some_and(|mark| mark.server != *server) {
            self.mark = None;
        }
        self.mark.get_or_insert_with(|| Mark {
            server: server.clone(),
            quarantine: Quarantine::new(new_name()),
            max_ttl: None,
        })
    }
}

impl Default for Node {
    fn default() -> Self {
        Self { server: Server::new(new_name()), mark: None }
    }
}

/// A name that nothing else in this process has. No other process sees it.
fn new_name() -> String {
    static LAST: AtomicU64 = AtomicU64::new(0);
    format!("memory-{}", LAST.fetch_add(1, Ordering::Relaxed))
}
