//! The parts and the methods that all guards have.

/// The parts of a guard. Each public guard is a type of its own around these parts.
///
/// The parts are dropped in the order in which they stand here. So the next holder finds the data free, and
/// a caller that gets the last `Arc` of the lock can take the data out.
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

/// Gives a guard with a field `core` the methods of its lease, `scope`, and the traits that the guards of tokio
/// have as well.
///
/// `mut` means that the guard gives write access. The two literals go into the example of `scope`: the
/// constructor of the lock, and the method that makes the guard.
macro_rules! guard {
    ([$($generics:tt)*] $Guard:ty => mut $target:ty, $make:literal, $lock:literal) => {
        impl<$($generics)*> $Guard {
            crate::guard::lease_methods!();
            crate::lease::lease_scope!($target, $make, $lock);
        }

        crate::guard::reach!([$($generics)*] $Guard => mut $target, |this| this.core.data);
    };

    ([$($generics:tt)*] $Guard:ty => $target:ty, $make:literal, $lock:literal) => {
        impl<$($generics)*> $Guard {
            crate::guard::lease_methods!(shared);
            crate::lease::lease_scope!(shared, $target, $make, $lock);
        }

        crate::guard::reach!([$($generics)*] $Guard => $target, |this| this.core.data);
    };
}

/// Adds the methods of its lease to a guard with a field `core`.
///
/// `shared` is for a guard that can exist at once with other guards of its lock.
macro_rules! lease_methods {
    () => {
        /// The fencing token of this guard. Each exclusive holder's token is higher than every earlier one.
        ///
        /// Send the token with each write to the resource that the lock protects, and let the resource refuse lower
        /// tokens: see [`FencingToken`](lock_core::FencingToken).
        pub fn fencing_token(&self) -> lock_core::FencingToken {
            self.core.hold.fencing_token()
        }

        crate::guard::lease_methods! {
            @every
            "Releases the lock, and waits until the store has confirmed the release or another task of \
             this process has the lock."
        }
    };

    (shared) => {
        /// The fencing token of this guard. It is lower than the token of every later writer, and no lower than
        /// the token of every earlier writer.
        ///
        /// Readers that share a lease have one token, and readers of another process have another. The order
        /// of the tokens of readers that hold the lock at once means nothing. A downgraded guard keeps the token
        /// of the writer. A resource that is only read need not see the token. But you can pass on the token with
        /// what you read: data that is written under a higher token is newer.
        pub fn fencing_token(&self) -> lock_core::FencingToken {
            self.core.hold.fencing_token()
        }

        crate::guard::lease_methods! {
            @every
            "Gives up this guard's part in the lock. If no other reader of this process shares the \
             lease, waits until the store has confirmed the release or another task of this process \
             has the lock."
        }
    };

    (@every $release:literal) => {
        /// The name of the lock.
        pub fn key(&self) -> &lock_core::Key {
            self.core.hold.key()
        }

        crate::lease::lease_questions!("guard", core.hold);
        crate::lease::lease_release!($release, "the lease", self => {
            // The data first: the next holder finds it free.
            let crate::guard::Guarded { data, hold, .. } = self.core;
            drop(data);
            hold.release().await
        });
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

pub(crate) use {guard, lease_methods, narrowing, reach};
