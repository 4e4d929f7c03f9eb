//! The options that a single lock can have.

/// Adds the options to a lock. The expression applies a change to the bare lock, or to each of them.
///
/// `$sized` is a bound on the data, for locks that may be unsized.
macro_rules! options {
    ($make:literal, |$this:ident, $change:ident| $apply:expr $(, $T:ident: $bound:ident)?) => {
        /// Sets how long a lease on this lock lives unless it is renewed, in place of the
        /// [`ttl`](crate::Builder::ttl) of its [`Locks`](crate::Locks).
        ///
        /// # Locks of one name with other options
        ///
        /// Handles with one name and different options of this kind (`with_ttl`, `with_max_hold`, `with_renewal`,
        /// `with_outage_limit`, `with_label`) exclude one another as the locks of two processes do: each has a line and a lease of
        /// its own. Set these options where the app makes the lock, once.
        ///
        /// # Examples
        ///
        /// ```
        /// # use std::time::Duration;
        /// # use lock_core::{Ttl, memory::MemoryBackend};
        /// # use lock_sync::Locks;
        /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
        /// # let locks = Locks::new(MemoryBackend::new());
        /// let ttl = Ttl::new(Duration::from_secs(5))?;
        #[doc = concat!("let lock = locks.", $make, "?.with_ttl(ttl);")]
        /// # Ok(())
        /// # }
        /// ```
        #[must_use]
        pub fn with_ttl(mut self, ttl: lock_core::Ttl) -> Self
        $(where $T: $bound)?
        {
            let $change = |lock: crate::bare::BareLock| lock.with_policy(|policy| policy.ttl = ttl);
            let $this = &mut self;
            $apply;
            self
        }

        /// Sets how long a guard of this lock may hold the lock at most, in place of the
        /// [`max_hold`](crate::Builder::max_hold) of its [`Locks`](crate::Locks). When the time is over, the lease is
        /// lost and the lock is released.
        ///
        /// See [`with_ttl`](Self::with_ttl) about other handles with this name.
        ///
        /// # Errors
        ///
        /// [`ErrorKind::InvalidConfig`](lock_core::ErrorKind::InvalidConfig) for a limit of zero.
        ///
        /// # Examples
        ///
        /// ```
        /// # use std::time::Duration;
        /// # use lock_core::memory::MemoryBackend;
        /// # use lock_sync::Locks;
        /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
        /// # let locks = Locks::new(MemoryBackend::new());
        #[doc = concat!("let lock = locks.", $make, "?.with_max_hold(Duration::from_secs(60))?;")]
        /// # Ok(())
        /// # }
        /// ```
        pub fn with_max_hold(mut self, limit: std::time::Duration) -> Result<Self, lock_core::Error>
        $(where $T: $bound)?
        {
            crate::options::check_limit("maximum hold", Some(limit))?;
            let $change = |lock: crate::bare::BareLock| lock.with_policy(|policy| policy.max_hold = Some(limit));
            let $this = &mut self;
            $apply;
            Ok(self)
        }

        /// Sets whether the driver renews the lease while a guard lives, in place of the
        /// [`renewal`](crate::Builder::renewal) of its [`Locks`](crate::Locks).
        ///
        /// Without renewal a guard has an explicit lease: it ends after one [`ttl`](Self::with_ttl), unless the holder
        /// [extends](crate::Lease::extend) it. See [`with_ttl`](Self::with_ttl) about other handles with this name.
        ///
        /// # Examples
        ///
        /// ```
        /// # use lock_core::memory::MemoryBackend;
        /// # use lock_sync::Locks;
        /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
        /// # let locks = Locks::new(MemoryBackend::new());
        #[doc = concat!("let lock = locks.", $make, "?.with_renewal(false);")]
        /// # Ok(())
        /// # }
        /// ```
        #[must_use]
        pub fn with_renewal(mut self, renew: bool) -> Self
        $(where $T: $bound)?
        {
            let $change = |lock: crate::bare::BareLock| lock.with_policy(|policy| policy.renew = renew);
            let $this = &mut self;
            $apply;
            self
        }

        /// Sets the label by which people know the holders and the waiters of this lock, in place of the
        /// [`label`](crate::Builder::label) of its [`Locks`](crate::Locks). An
        /// [inspection](crate::Locks::inspect) shows it.
        ///
        /// The store is told of a label a moment after the lock is made, and for as long as the lock exists: a request in
        /// five minutes for each label of the process. Grants and releases cost no more than without a label. See
        /// [`with_ttl`](Self::with_ttl) about other handles with this name.
        ///
        /// # Examples
        ///
        /// ```
        /// # use lock_core::{Label, memory::MemoryBackend};
        /// # use lock_sync::Locks;
        /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
        /// # let locks = Locks::new(MemoryBackend::new());
        #[doc = concat!("let lock = locks.", $make, "?.with_label(&Label::new(\"import of May\")?);")]
        /// # Ok(())
        /// # }
        /// ```
        #[must_use]
        pub fn with_label(mut self, label: &lock_core::Label) -> Self
        $(where $T: $bound)?
        {
            let $change = |lock: crate::bare::BareLock| lock.with_label(label);
            let $this = &mut self;
            $apply;
            self
        }

        /// Sets how long a caller waits for a store that is out of reach, in place of the
        /// [`outage_limit`](crate::Builder::outage_limit) of its [`Locks`](crate::Locks). With zero, the first request
        /// that fails ends the wait.
        ///
        /// See [`with_ttl`](Self::with_ttl) about other handles with this name.
        ///
        /// # Examples
        ///
        /// ```
        /// # use std::time::Duration;
        /// # use lock_core::memory::MemoryBackend;
        /// # use lock_sync::Locks;
        /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
        /// # let locks = Locks::new(MemoryBackend::new());
        /// // Waits for other holders without end, but not for the store.
        #[doc = concat!("let lock = locks.", $make, "?.with_outage_limit(Duration::ZERO);")]
        /// # Ok(())
        /// # }
        /// ```
        #[must_use]
        pub fn with_outage_limit(mut self, limit: std::time::Duration) -> Self
        $(where $T: $bound)?
        {
            let $change = |lock: crate::bare::BareLock| lock.with_policy(|policy| policy.outage_limit = Some(limit));
            let $this = &mut self;
            $apply;
            self
        }
    };
}

pub(crate) use options;

use std::time::Duration;

use lock_core::{Error, ErrorKind};

/// Refuses a limit of zero.
pub(crate) fn check_limit(name: &str, limit: Option<Duration>) -> Result<(), Error> {
    match limit {
        Some(Duration::ZERO) => Err(Error::new(
            ErrorKind::InvalidConfig,
            format!("a {name} of zero: leave it out, or use try_lock"),
        )),
        _ => Ok(()),
    }
}
