//! Which server each node is, so that none votes twice.

use std::sync::{Mutex, MutexGuard, PoisonError};

use lock_core::{Error, ErrorKind, Server};

/// The servers behind the nodes, as far as they are known.
#[derive(Debug)]
pub(crate) struct Register(Mutex<Vec<Option<Identity>>>);

#[derive(Clone, Debug)]
pub(crate) enum Identity {
    Known(Server),
    /// It cannot tell, nor whether it has forgotten leases.
    Untold,
}

impl Register {
    pub(crate) fn new(nodes: usize) -> Self {
        Self(Mutex::new(vec![None; nodes]))
    }

    pub(crate) fn get(&self, node: usize) -> Option<Identity> {
        self.lock()[node].clone()
    }

    /// Whether the node can be asked to abstain; `None` if it is not known who it is.
    pub(crate) fn tells(&self, node: usize) -> Option<bool> {
        self.lock()[node].as_ref().map(|identity| matches!(identity, Identity::Known(_)))
    }

    /// Notes which server a node is, unless another is the same: the number of that one.
    pub(crate) fn enter(&self, node: usize, server: &Server) -> Result<(), usize> {
        let mut known = self.lock();
        let is_same = |other: &Option<Identity>| matches!(other, Some(Identity::Known(other)) if other == server);
        let twin = (0..known.len()).find(|&other| other != node && is_same(&known[other]));
        if let Some(twin) = twin {
            known[node] = None;
            return Err(twin);
        }
        known[node] = Some(Identity::Known(server.clone()));
        Ok(())
    }

    /// Notes that a node cannot tell which server it is.
    pub(crate) fn enter_untold(&self, node: usize) {
        self.lock()[node] = Some(Identity::Untold);
    }

    /// Whoever answers next has to say again who it is.
    pub(crate) fn forget(&self, node: usize) {
        self.lock()[node] = None;
    }

    /// A panic under the lock leaves nothing half done.
    fn lock(&self) -> MutexGuard<'_, Vec<Option<Identity>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) fn twins(name: &str, other: &str) -> Error {
    // Nodes answer in any order.
    let (first, second) = (name.min(other), name.max(other));
    let message = format!("the nodes {first} and {second} are the same server, which has one vote");
    Error::new(ErrorKind::InvalidConfig, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_entered_once() {
        let register = Register::new(3);
        let [a, b] = ["a", "b"].map(Server::new);
        assert_eq!(register.enter(0, &a), Ok(()));
        assert_eq!(register.enter(0, &a), Ok(()));
        assert_eq!(register.enter(1, &a), Err(0));
        assert_eq!(register.tells(1), None);
        assert_eq!(register.enter(1, &b), Ok(()));
        assert_eq!(register.tells(1), Some(true));
        register.enter_untold(2);
        assert_eq!(register.tells(2), Some(false));
        // After a failover two names may lead to one server.
        register.forget(1);
        assert_eq!(register.enter(1, &a), Err(0));
        register.forget(0);
        assert_eq!(register.enter(1, &a), Ok(()));
    }
}
