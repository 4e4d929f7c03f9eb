//! What observers hear of attempts to connect.

use std::sync::Arc;

use lock_core::Error;
use lock_core::observer::Telling;

use super::wire::Wire;

/// What observers have yet to hear of attempts to connect. They hear of it when this value is dropped. A caller that makes it before
/// it locks the attempts drops it after they are unlocked, also if the caller gives up.
pub(super) struct Untold<'a> {
    telling: &'a Telling,
    pub(super) failed: Vec<(String, Error)>,
    pub(super) opened: Option<Arc<Wire>>,
}

impl<'a> Untold<'a> {
    pub(super) fn new(telling: &'a Telling) -> Self {
        Self { telling, failed: Vec::new(), opened: None }
    }
}

impl Drop for Untold<'_> {
    fn drop(&mut self) {
        for (server, error) in &self.failed {
            self.telling.failed(server, error);
        }
        if let Some(wire) = &self.opened {
            wire.tell(self.telling);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, OnceLock, Weak};
    use std::time::Duration;

    use lock_core::observer::{Connected, Disconnected, Observer, Observers};
    use tonic::transport::Endpoint;

    use super::*;
    use crate::link::Link;

    /// Writes down what it hears, and whether the attempts to connect are unlocked meanwhile.
    #[derive(Default)]
    struct Tries(OnceLock<Weak<Link>>, Mutex<Vec<(&'static str, bool)>>);

    impl Tries {
        fn note(&self, event: &'static str) {
            let link = self.0.get().and_then(Weak::upgrade);
            let is_unlocked = link.is_none_or(|link| link.opening.try_lock().is_ok());
            self.1.lock().unwrap().push((event, is_unlocked));
        }
    }

    impl Observer for Tries {
        fn connected(&self, _: &Connected<'_>) {
            self.note("connected");
        }

        fn disconnected(&self, event: &Disconnected<'_>) {
            self.note(if event.error.is_some() { "failed" } else { "disconnected" });
        }
    }

    fn observed() -> (Arc<Tries>, Telling) {
        let (tries, mut observers) = (Arc::new(Tries::default()), Observers::none());
        observers.add(tries.clone());
        (tries, Telling::new(observers))
    }

    #[tokio::test]
    async fn observers_hear_of_attempts_to_connect_outside_the_lock() {
        let (tries, telling) = observed();
        let nothing = Endpoint::from_static("http://127.0.0.1:1");
        let link =
            Arc::new(Link::new(vec![nothing; 2], None, true, Duration::from_secs(1), telling));
        assert!(tries.0.set(Arc::downgrade(&link)).is_ok());
        assert!(link.wire().await.is_err());
        assert_eq!(*tries.1.lock().unwrap(), [("failed", true); 2]);
    }

    #[tokio::test]
    async fn observers_hear_of_an_end_after_the_opening_and_once() {
        let (tries, telling) = observed();
        let wire = Wire::idle();
        // Another task finds the connection broken before the observers hear of its opening.
        wire.give_up();
        assert!(tries.1.lock().unwrap().is_empty());
        wire.tell(&telling);
        wire.give_up();
        drop(wire);
        assert_eq!(*tries.1.lock().unwrap(), [("connected", true), ("disconnected", true)]);
    }
}
