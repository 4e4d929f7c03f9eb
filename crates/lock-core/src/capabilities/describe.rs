//! What a backend can do, for code that does not know its type.

use std::fmt;

use crate::{Error, ErrorKind};

use super::{
    CellBackend, ConvertBackend, InspectBackend, JointBackend, PermitBackend, SharedBackend,
};

/// What a backend can do beside the four verbs of [`Backend`](crate::Backend), for code that does not know its type.
///
/// A backend with such capabilities returns them from [`Backend::capabilities`](crate::Backend::capabilities). Each
/// method that adds one needs the backend's implementation of the trait, so a backend cannot claim what it lacks.
///
/// # Examples
///
/// ```
/// use lock_core::memory::MemoryBackend;
/// use lock_core::{Backend, Capabilities};
///
/// let capabilities = MemoryBackend::new();
/// let capabilities = capabilities.capabilities();
/// assert!(capabilities.shares() && capabilities.counter().is_some());
/// assert!(!Capabilities::none().shares());
/// ```
#[derive(Clone, Copy, Default)]
#[must_use = "a backend returns it from `Backend::capabilities`"]
pub struct Capabilities<'a> {
    shares: bool,
    joins: bool,
    deaf: bool,
    unqueued: bool,
    converter: Option<&'a dyn ConvertBackend>,
    counter: Option<&'a dyn PermitBackend>,
    cells: Option<&'a dyn CellBackend>,
    inspector: Option<&'a dyn InspectBackend>,
}

impl<'a> Capabilities<'a> {
    /// Those of a backend that can do no more than the four verbs.
    pub fn none() -> Self {
        Self::default()
    }

    /// The backend serves [readers beside one another](SharedBackend).
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_core::memory::MemoryBackend;
    /// use lock_core::{Capabilities, Capability};
    ///
    /// let store = MemoryBackend::new();
    /// let capabilities = Capabilities::none()
    ///     .sharing(&store)
    ///     .joining(&store)
    ///     .converting(&store)
    ///     .counting(&store)
    ///     .keeping(&store)
    ///     .inspecting(&store);
    /// assert!(capabilities.joins() && capabilities.converter().is_some());
    /// assert!(capabilities.cells().is_some() && capabilities.inspector().is_some());
    /// assert!(capabilities.require(Capability::Keep).is_ok());
    /// assert!(Capabilities::none().require(Capability::Keep).is_err());
    /// ```
    pub fn sharing<B: SharedBackend + ?Sized>(self, _: &'a B) -> Self {
        Self { shares: true, ..self }
    }

    /// The backend serves [several holders as one](JointBackend).
    pub fn joining<B: JointBackend + ?Sized>(self, _: &'a B) -> Self {
        Self { joins: true, ..self }
    }

    /// The backend [converts leases](ConvertBackend).
    pub fn converting(self, backend: &'a dyn ConvertBackend) -> Self {
        Self { converter: Some(backend), ..self }
    }

    /// The backend [counts permits](PermitBackend).
    pub fn counting(self, backend: &'a dyn PermitBackend) -> Self {
        Self { counter: Some(backend), ..self }
    }

    /// The backend [keeps values](CellBackend) beside its locks.
    pub fn keeping(self, backend: &'a dyn CellBackend) -> Self {
        Self { cells: Some(backend), ..self }
    }

    /// The backend [can be inspected](InspectBackend).
    pub fn inspecting(self, backend: &'a dyn InspectBackend) -> Self {
        Self { inspector: Some(backend), ..self }
    }

    /// This instance gives no hints: its [`watch`](crate::Backend::watch) answers
    /// [`ErrorKind::Unsupported`](crate::ErrorKind). A store whose other instances give hints says so where, for
    /// example, a proxy stands between the client and the server. Waiters then ask at intervals, and no claim is
    /// queued.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_core::{Capabilities, Capability};
    ///
    /// let capabilities = Capabilities::none();
    /// assert!(capabilities.watches() && capabilities.require(Capability::Watch).is_ok());
    /// let capabilities = capabilities.without_watch();
    /// assert!(!capabilities.watches() && capabilities.require(Capability::Watch).is_err());
    /// ```
    pub fn without_watch(self) -> Self {
        Self { deaf: true, ..self }
    }

    /// Whether this instance gives hints about its keys. `true` unless it [says otherwise](Self::without_watch).
    pub fn watches(&self) -> bool {
        !self.deaf
    }

    /// The store keeps no queue: claims wait in their processes alone. So an [inspection](InspectBackend::inspect)
    /// shows no waiter, and the processes are not served in the order in which they came.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_core::{Capabilities, Capability};
    ///
    /// assert!(Capabilities::none().queues());
    /// let capabilities = Capabilities::none().without_queue();
    /// assert!(!capabilities.queues() && capabilities.require(Capability::Queue).is_err());
    /// ```
    pub fn without_queue(self) -> Self {
        Self { unqueued: true, ..self }
    }

    /// Whether the store keeps a queue. `true` unless it [says otherwise](Self::without_queue). A client that
    /// [hears nothing](Self::without_watch) has no place in it.
    pub fn queues(&self) -> bool {
        !self.unqueued
    }

    /// Whether the backend is a [`SharedBackend`].
    pub fn shares(&self) -> bool {
        self.shares
    }

    /// Whether the backend is a [`JointBackend`].
    pub fn joins(&self) -> bool {
        self.joins
    }

    /// The backend, if it converts leases.
    pub fn converter(&self) -> Option<&'a dyn ConvertBackend> {
        self.converter
    }

    /// The backend, if it counts permits.
    pub fn counter(&self) -> Option<&'a dyn PermitBackend> {
        self.counter
    }

    /// The backend, if it keeps values beside its locks.
    pub fn cells(&self) -> Option<&'a dyn CellBackend> {
        self.cells
    }

    /// The backend, if it can be inspected.
    pub fn inspector(&self) -> Option<&'a dyn InspectBackend> {
        self.inspector
    }
}

impl Capabilities<'_> {
    /// Checks that one of them is there.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`] if it is not.
    pub fn require(&self, needed: Capability) -> Result<(), Error> {
        let (is_there, what) = match needed {
            Capability::Share => (self.shares, "share a lock among readers"),
            Capability::Join => (self.joins, "let several processes hold a lock as one"),
            Capability::Convert => (self.converter.is_some(), "make a reader the writer"),
            Capability::Count => (self.counter.is_some(), "count permits"),
            Capability::Keep => (self.cells.is_some(), "keep a value beside a lock"),
            Capability::Queue => (self.queues(), "keep the waiters of all processes in order"),
            Capability::Watch => (self.watches(), "say when a lock becomes free"),
            Capability::Inspect => (self.inspector.is_some(), "list the holders of a lock"),
        };
        let lacking = || Error::new(ErrorKind::Unsupported, format!("this backend cannot {what}"));
        is_there.then_some(()).ok_or_else(lacking)
    }
}

/// One thing that a backend may be able to do beside the four verbs.
///
/// The [example](Capabilities#examples) of capabilities shows one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Capability {
    /// See [`SharedBackend`].
    Share,
    /// See [`JointBackend`].
    Join,
    /// See [`ConvertBackend`].
    Convert,
    /// See [`PermitBackend`].
    Count,
    /// See [`CellBackend`].
    Keep,
    /// See [`InspectBackend`].
    Inspect,
    /// See [`Backend::watch`](crate::Backend::watch).
    Watch,
    /// See [`Capabilities::without_queue`].
    Queue,
}

impl fmt::Debug for Capabilities<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Capabilities")
            .field("shares", &self.shares)
            .field("joins", &self.joins)
            .field("watches", &self.watches())
            .field("queues", &self.queues())
            .field("converts", &self.converter.is_some())
            .field("counts", &self.counter.is_some())
            .field("keeps", &self.cells.is_some())
            .field("can_be_inspected", &self.inspector.is_some())
            .finish()
    }
}
