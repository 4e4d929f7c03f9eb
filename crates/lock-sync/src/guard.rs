//! The parts and the methods that all guards have.

/// The parts of a guard. Each public guard is a type of its own around these parts.
///
/// The drop follows the order of the fields. So the next holder finds the data free, and a caller that gets
/// the last `Arc` of the lock can take the data out.
pub(crate) struct Guarded<D, H, L = ()> {
    pub(crate) data: D,
    pub(crate) hold: H,
    pub(crate) lock: L,
}

impl<D, H, L> Guarded<D, H, L> {
    /// Narrows the guard to a part of the data.
    pub(crate) fn map<E>(self, narrow: impl FnOnce(D) -> E) -> Guarded<E, H, L> {
        let Self { data, hold, lock } = self;
        Guarded { data: narrow(data), hold, lock }
    }

    /// As [`map`](Self::map), if the closure succeeds.
    pub(crate) fn try_map<E>(
        self,
        narrow: impl FnOnce(D) -> Result<E, D>,
    ) -> Result<Guarded<E, H, L>, Self> {
        let Self { data, hold, lock } = self;
        match narrow(data) {
            Ok(data) => Ok(Guarded { data, hold, lock }),
            Err(data) => Err(Self { data, hold, lock }),
        }
    }

    /// The parts of a guard that does not keep its lock.
    pub(crate) fn without_lock(self) -> Guarded<D, H> {
        Guarded { data: self.data, hold: self.hold, lock: () }
    }
}

/// Adds `lease` and `release`. The literal says what a release does. For a guard with data, these are functions, so
/// that they hide no methods of the data.
macro_rules! leased {
    (
        $release:literal,
        ($($by_ref:tt)*) => $lease:expr,
        ($($by_value:tt)*) => $released:expr
    ) => {
        /// A handle to the lease, which says whether the lease is valid, and has the fencing token: see
        /// [`Lease`](crate::Lease). The handle does not keep the lock.
        pub fn lease($($by_ref)*) -> crate::Lease {
            $lease
        }

        #[doc = $release]
        ///
        /// # Cancel safety
        ///
        /// Once the future was polled, the driver completes the release even if the future is dropped. Poll the future
        /// to its end, or drop it. If the future is neither polled nor dropped, this process cannot get the lock until
        /// the length of a lease has passed. If the lease was changing its mode when the future was polled, the lease
        /// stays until the future is polled again or dropped.
        ///
        /// # If the lease is lost
        ///
        /// The error is [`ReleaseError::Lost`](crate::ReleaseError::Lost). The release does not
        /// affect the lease of a later holder.
        ///
        /// # Errors
        ///
        /// - [`ReleaseError::Lost`](crate::ReleaseError::Lost) if the lease had ended before;
        /// - [`ReleaseError::Backend`](crate::ReleaseError::Backend) if the store did not confirm the release. If
        ///   another attempt can succeed, the driver goes on trying until the lease has ended by itself.
        pub async fn release($($by_value)*) -> Result<(), crate::ReleaseError> {
            $released
        }
    };
}

/// Gives a guard with a field `core` its lease and its release, and the traits that the guards of tokio have as well.
///
/// `mut` means that the guard gives write access.
macro_rules! guard {
    ([$($generics:tt)*] $Guard:ty => mut $target:ty) => {
        crate::guard::guard! {
            @leased [$($generics)*] $Guard,
            "Releases the lock, and waits until the store has confirmed the release or another task of \
             this process has the lock."
        }
        crate::guard::reach!([$($generics)*] $Guard => mut $target, |this| this.core.data);
    };

    ([$($generics:tt)*] $Guard:ty => $target:ty) => {
        crate::guard::guard! {
            @leased [$($generics)*] $Guard,
            "Gives up this guard's part in the lock. If no other reader of this process shares the \
             lease, waits until the store has confirmed the release or another task of this process \
             has the lock."
        }
        crate::guard::reach!([$($generics)*] $Guard => $target, |this| this.core.data);
    };

    (@leased [$($generics:tt)*] $Guard:ty, $release:literal) => {
        impl<$($generics)*> $Guard {
            crate::guard::leased!(
                $release,
                (this: &Self) => crate::Lease::of(&this.core.hold),
                (this: Self) => {
                    // The data first, so that the next holder finds it free.
                    let crate::guard::Guarded { data, hold, .. } = this.core;
                    drop(data);
                    hold.release().await
                }
            );
        }
    };
}

/// Implements the traits by which a guard reaches its data.
macro_rules! reach {
    ([$($generics:tt)*] $Guard:ty => mut $target:ty, |$this:ident| $data:expr) => {
        crate::guard::reach!([$($generics)*] $Guard => $target, |$this| $data);

        impl<$($generics)*> std::ops::DerefMut for $Guard {
            fn deref_mut(&mut self) -> &mut $target {
                let $this = self;
                &mut $data
            }
        }
    };

    ([$($generics:tt)*] $Guard:ty => $target:ty, |$this:ident| $data:expr) => {
        impl<$($generics)*> std::ops::Deref for $Guard {
            type Target = $target;

            fn deref(&self) -> &$target {
                let $this = self;
                &$data
            }
        }

        impl<$($generics)*> std::fmt::Debug for $Guard
        where
            $target: std::fmt::Debug,
        {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Debug::fmt(&**self, f)
            }
        }

        impl<$($generics)*> std::fmt::Display for $Guard
        where
            $target: std::fmt::Display,
        {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(&**self, f)
            }
        }
    };
}

/// Adds `map` and `try_map` to a guard. `by` is the guard of tokio that narrows the data. `into` is the guard of the
/// part, and `without_lock` means that this guard does not keep the lock.
macro_rules! narrowing {
    (
        $(#[$map:meta])* map,
        $(#[$try_map:meta])* try_map,
        [$($generics:tt)*] $whole:ty => $part:ty,
        by $($by:ident)::+,
        into $Part:ident[$($args:tt)*] $($without_lock:ident)?
    ) => {
        $(#[$map])*
        pub fn map<$($generics)*>(this: Self, f: F) -> $Part<$($args)*>
        where
            F: FnOnce($whole) -> $part,
        {
            let core = this.core.map(|data| $($by)::+::map(data, f));
            $(let core = core.$without_lock();)?
            $Part { core }
        }

        $(#[$try_map])*
        ///
        /// # Errors
        ///
        /// The guard itself, if the closure returns `None`.
        #[allow(clippy::result_large_err, reason = "the error is the guard, as with tokio")]
        pub fn try_map<$($generics)*>(this: Self, f: F) -> Result<$Part<$($args)*>, Self>
        where
            F: FnOnce($whole) -> Option<$part>,
        {
            match this.core.try_map(|data| $($by)::+::try_map(data, f)) {
                Ok(core) => {
                    $(let core = core.$without_lock();)?
                    Ok($Part { core })
                }
                Err(core) => Err(Self { core }),
            }
        }
    };
}

pub(crate) use {guard, leased, narrowing, reach};
