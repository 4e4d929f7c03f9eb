//! Observers hear what a request has met when its locks are free.

use std::cell::RefCell;

tokio::task_local! {
    static UNTOLD: Untold;
}

type Report = Box<dyn FnOnce() + Send>;

/// The reports that observers have yet to hear. They hear them when this value is dropped.
#[derive(Default)]
struct Untold(RefCell<Vec<Report>>);

impl Drop for Untold {
    fn drop(&mut self) {
        // This work may be part of other work, which still has locks.
        self.0.take().into_iter().for_each(tell);
    }
}

/// Does work that has locks. Observers hear its reports after it, also if the work is given up.
pub(crate) fn unlocked<T>(work: impl Future<Output = T>) -> impl Future<Output = T> {
    UNTOLD.scope(Untold::default(), work)
}

/// Makes a report to observers: now, or as soon as the locks of the present work are free.
pub(super) fn tell(report: impl FnOnce() + Send + 'static) {
    let mut report = Some(report);
    _ = UNTOLD.try_with(|untold| {
        let report = report.take().map(|report| Box::new(report) as Report);
        untold.0.borrow_mut().extend(report);
    });
    if let Some(report) = report {
        report();
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;
    use std::sync::{Arc, Mutex, OnceLock, Weak};
    use std::time::Duration;

    use futures::FutureExt;
    use lock_core::Key;
    use lock_core::observer::{
        Connected, Disconnected, Observer, Observers, StoreAnswered, Telling,
    };
    use tonic::transport::Endpoint;

    use super::*;
    use crate::core::Core;
    use crate::decide::{Ask, Refresh};
    use crate::hub::Hub;
    use crate::link::Link;
    use crate::link::wire::Wire;
    use crate::naming::Names;

    fn key() -> Key {
        Key::new("a").unwrap()
    }

    /// Writes down what it hears, and whether the locks of the client are free meanwhile.
    #[derive(Default)]
    struct Tries(OnceLock<Weak<Core>>, Mutex<Vec<(&'static str, bool)>>);

    impl Tries {
        fn note(&self, event: &'static str) {
            let is_free = self.0.get().and_then(Weak::upgrade).is_none_or(|core| {
                let is_unlocked = core.link.opening.try_lock().is_ok();
                is_unlocked && core.turn(&key()).now_or_never().is_some()
            });
            self.1.lock().unwrap().push((event, is_free));
        }

        fn heard(&self) -> Vec<(&'static str, bool)> {
            self.1.lock().unwrap().clone()
        }
    }

    impl Observer for Tries {
        fn connected(&self, _: &Connected<'_>) {
            self.note("connected");
        }

        fn disconnected(&self, event: &Disconnected<'_>) {
            self.note(if event.error.is_some() { "failed" } else { "disconnected" });
        }

        fn store_answered(&self, _: &StoreAnswered<'_>) {
            self.note("answered");
        }
    }

    fn observed() -> (Arc<Tries>, Telling) {
        let (tries, mut observers) = (Arc::new(Tries::default()), Observers::none());
        observers.add(tries.clone());
        (tries, Telling::new(observers))
    }

    #[tokio::test]
    async fn observers_hear_of_a_request_when_its_locks_are_free() {
        let (tries, telling) = observed();
        let (nothing, limit) =
            (Endpoint::from_static("http://127.0.0.1:1"), Duration::from_secs(9));
        let link = Arc::new(Link::new(vec![nothing; 2], None, true, limit, telling));
        let (names, hub) = (Arc::new(Names::new(String::new())), Arc::new(Hub::new().0));
        let core = Arc::new(Core::new(link, names, hub, NonZeroU32::MIN, limit));
        assert!(tries.0.set(Arc::downgrade(&core)).is_ok());
        let key = key();
        assert!(core.decide(Ask::about(&key), Refresh::Never, |_, _, _| ()).await.is_err());
        assert_eq!(tries.heard(), [("failed", true), ("failed", true), ("answered", true)]);
    }

    #[tokio::test]
    async fn reports_wait_for_the_end_of_the_outermost_work_also_if_it_is_given_up() {
        let (sender, heard) = std::sync::mpsc::channel();
        let say = |what| {
            let sender = sender.clone();
            tell(move || sender.send(what).unwrap());
        };
        unlocked(async {
            unlocked(async { say("inner") }).await;
            say("outer");
            assert!(heard.try_recv().is_err());
        })
        .await;
        assert_eq!(heard.try_iter().collect::<Vec<_>>(), ["inner", "outer"]);
        let given_up = unlocked(async {
            say("given up");
            std::future::pending::<()>().await;
        });
        assert!(given_up.now_or_never().is_none());
        assert_eq!(heard.try_iter().collect::<Vec<_>>(), ["given up"]);
        say("at once");
        assert_eq!(heard.try_iter().collect::<Vec<_>>(), ["at once"]);
    }

    #[tokio::test]
    async fn observers_hear_of_an_end_after_the_opening_and_once() {
        let (tries, telling) = observed();
        let wire = Wire::idle();
        // Another task finds the connection broken before the observers hear of its opening.
        wire.give_up();
        assert!(tries.heard().is_empty());
        wire.tell(&telling);
        wire.give_up();
        drop(wire);
        assert_eq!(tries.heard(), [("connected", true), ("disconnected", true)]);
    }
}
