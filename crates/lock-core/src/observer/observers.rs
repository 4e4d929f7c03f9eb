//! The observers of a handle or a backend.

use std::fmt;
use std::sync::Arc;

use super::Observer;
use crate::foreign::survive;

/// The observers that a handle or a backend has: none, one or several. Cheap to clone.
///
/// Code that reports events keeps one of these. Without an observer, [`tell`](Self::tell) costs one branch.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use lock_core::observer::{Connected, Observer, Observers};
///
/// #[derive(Default)]
/// struct Connections(AtomicU64);
///
/// impl Observer for Connections {
///     fn connected(&self, _: &Connected<'_>) {
///         self.0.fetch_add(1, Ordering::Relaxed);
///     }
/// }
///
/// let count = Arc::new(Connections::default());
/// let mut observers = Observers::none();
/// assert!(observers.is_empty());
/// observers.add(count.clone());
/// observers.tell(|observer| observer.connected(&Connected { server: "db:6379", again: false }));
/// assert_eq!(count.0.load(Ordering::Relaxed), 1);
/// ```
#[derive(Clone, Default)]
pub struct Observers(Option<Arc<[Arc<dyn Observer>]>>);

impl Observers {
    /// No observer.
    pub const fn none() -> Self {
        Self(None)
    }

    /// Adds an observer.
    pub fn add(&mut self, observer: Arc<dyn Observer>) {
        let before = self.0.as_deref().unwrap_or_default().iter().cloned();
        self.0 = Some(before.chain([observer]).collect());
    }

    /// Whether there is no observer.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Tells each observer of an event. The caller must hold no lock that an observer may need. This method catches
    /// the panic of an observer, and then tells the other observers.
    #[inline]
    pub fn tell(&self, event: impl Fn(&dyn Observer)) {
        if let Some(observers) = &self.0 {
            tell_all(observers, event);
        }
    }
}

fn tell_all(observers: &[Arc<dyn Observer>], event: impl Fn(&dyn Observer)) {
    for observer in observers {
        survive(|| event(&**observer));
    }
}

impl fmt::Debug for Observers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.0.as_deref().map_or(0, <[_]>::len);
        f.debug_tuple("Observers").field(&count).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    use super::*;
    use crate::observer::DriverStalled;

    struct Panics;

    impl Observer for Panics {
        fn driver_stalled(&self, _: &DriverStalled) {
            panic!("an observer");
        }
    }

    #[derive(Default)]
    struct Counts(AtomicU32);

    impl Observer for Counts {
        fn driver_stalled(&self, _: &DriverStalled) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn an_observer_that_panics_keeps_no_event_from_the_others() {
        let (mut observers, count) = (Observers::none(), Arc::new(Counts::default()));
        assert!(observers.is_empty());
        observers.tell(|_| unreachable!("there is none"));
        observers.add(Arc::new(Panics));
        observers.add(Arc::clone(&count) as _);
        let event = DriverStalled { late: Duration::from_secs(1) };
        for told in 1..=3 {
            observers.tell(|observer| observer.driver_stalled(&event));
            assert_eq!(count.0.load(Ordering::Relaxed), told);
        }
    }
}
