//! The options of a single lock, and of all locks that one handle makes.

/// Adds the options to a type. The expression applies a change to the policy of its locks. A change also takes the
/// labels of the handle.
///
/// `$of` completes the first sentence of each option, and `$make` is an expression that makes such a value of `locks`.
/// `$sized` is a bound on the data, for locks that may be unsized. With `leases`, the type gets the options that make
/// sense for a lease without a guard.
macro_rules! options {
    (leases: $of:literal, $make:literal, |$this:ident, $change:ident| $apply:expr $(, $T:ident: $bound:ident)?) => {
        #[doc = concat!("Sets how long a lease ", $of, " lives unless it is renewed, in place of the")]
        /// [`ttl`](crate::Builder::ttl) of the [`Builder`](crate::Builder).
        ///
        /// # Locks of one name with other options
        ///
        /// Handles with one name and different options of this kind (`with_ttl`, `with_max_hold`, `with_renewal`,
        /// `with_outage_limit`, `with_label`) exclude one another as the locks of two processes do: each has a line and
        /// a lease of its own. So make each lock once, with these options.
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
        #[doc = concat!("let short = ", $make, ".with_ttl(ttl);")]
        /// # Ok(())
        /// # }
        /// ```
        #[must_use]
        pub fn with_ttl(mut self, ttl: lock_core::Ttl) -> Self
        $(where $T: $bound)?
        {
            let $change = |policy: &mut crate::bare::Policy, _: &crate::bare::Labels| policy.ttl = ttl;
            let $this = &mut self;
            $apply;
            self
        }

        /// Sets how long a caller waits for a store that is out of reach, in place of the
        /// [`outage_limit`](crate::Builder::outage_limit) of the [`Builder`](crate::Builder). With zero, the first
        /// failed request ends the wait.
        ///
        /// See [`with_ttl`](Self::with_ttl) about other handles with one name.
        ///
        /// # Examples
        ///
        /// ```
        /// # use std::time::Duration;
        /// # use lock_core::memory::MemoryBackend;
        /// # use lock_sync::Locks;
        /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
        /// # let locks = Locks::new(MemoryBackend::new());
        /// // The call waits for other holders without end, but not for the store.
        #[doc = concat!("let impatient = ", $make, ".with_outage_limit(Duration::ZERO);")]
        /// # Ok(())
        /// # }
        /// ```
        #[must_use]
        pub fn with_outage_limit(mut self, limit: std::time::Duration) -> Self
        $(where $T: $bound)?
        {
            let $change = |policy: &mut crate::bare::Policy, _: &crate::bare::Labels| policy.outage_limit = Some(limit);
            let $this = &mut self;
            $apply;
            self
        }

        #[doc = concat!("Sets the label by which people know the holders and the waiters ", $of, ", in place of the")]
        /// [`label`](crate::Builder::label) of the [`Builder`](crate::Builder). An
        /// [inspection](crate::Locks::inspect) shows it.
        ///
        /// The driver writes the label to the store a moment later, and then every five minutes as long as a handle, a
        /// lock or a guard has it. The label makes no grant and no release slower. See [`with_ttl`](Self::with_ttl)
        /// about other handles with one name.
        ///
        /// # Examples
        ///
        /// ```
        /// # use lock_core::memory::MemoryBackend;
        /// # use lock_sync::{Label, Locks};
        /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
        /// # let locks = Locks::new(MemoryBackend::new());
        /// let label = Label::new("import of May")?;
        #[doc = concat!("let labelled = ", $make, ".with_label(label);")]
        /// # Ok(())
        /// # }
        /// ```
        #[must_use]
        pub fn with_label(mut self, label: lock_core::Label) -> Self
        $(where $T: $bound)?
        {
            let label = &label;
            let $change = |policy: &mut crate::bare::Policy, labels: &crate::bare::Labels| policy.set_label(label, labels);
            let $this = &mut self;
            $apply;
            self
        }
    };
    (holds: $of:literal, $make:literal, |$this:ident, $change:ident| $apply:expr $(, $T:ident: $bound:ident)?) => {
        #[doc = concat!("Sets how long a holder may keep a lease ", $of, " at most, in place of the")]
        /// [`max_hold`](crate::Builder::max_hold) of the [`Builder`](crate::Builder). When the time is over, the lease
        /// is lost and the lock is released.
        ///
        /// See [`with_ttl`](Self::with_ttl) about other handles with one name.
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
        #[doc = concat!("let limited = ", $make, ".with_max_hold(Duration::from_secs(60))?;")]
        /// # Ok(())
        /// # }
        /// ```
        pub fn with_max_hold(mut self, limit: std::time::Duration) -> Result<Self, lock_core::Error>
        $(where $T: $bound)?
        {
            crate::options::check_limit("maximum hold", Some(limit))?;
            let $change = |policy: &mut crate::bare::Policy, _: &crate::bare::Labels| policy.max_hold = Some(limit);
            let $this = &mut self;
            $apply;
            Ok(self)
        }

        #[doc = concat!("Sets whether the driver renews a lease ", $of, " while its holder lives, in place of the")]
        /// [`renewal`](crate::Builder::renewal) of the [`Builder`](crate::Builder).
        ///
        /// Without renewal, the lease ends after one [`ttl`](Self::with_ttl), unless the holder
        /// [extends](crate::Lease::extend) it. See [`with_ttl`](Self::with_ttl) about other handles with one name.
        ///
        /// # Examples
        ///
        /// ```
        /// # use lock_core::memory::MemoryBackend;
        /// # use lock_sync::Locks;
        /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
        /// # let locks = Locks::new(MemoryBackend::new());
        #[doc = concat!("let explicit = ", $make, ".with_renewal(false);")]
        /// # Ok(())
        /// # }
        /// ```
        #[must_use]
        pub fn with_renewal(mut self, renew: bool) -> Self
        $(where $T: $bound)?
        {
            let $change = |policy: &mut crate::bare::Policy, _: &crate::bare::Labels| policy.renew = renew;
            let $this = &mut self;
            $apply;
            self
        }
    };
    ($of:literal, $make:literal, |$this:ident, $change:ident| $apply:expr $(, $T:ident: $bound:ident)?) => {
        crate::options::options!(leases: $of, $make, |$this, $change| $apply $(, $T: $bound)?);
        crate::options::options!(holds: $of, $make, |$this, $change| $apply $(, $T: $bound)?);
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
