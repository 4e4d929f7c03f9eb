//! A backend whose type is erased.

use std::fmt;
use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::{
    Capabilities, Capability, Cell, CellBackend, Committed, ConvertBackend, Convertible,
    InspectBackend, Inspection, JointBackend, List, Page, PermitBackend, Permits, Resize, Resized,
    SharedBackend, Stored,
};
use crate::{
    Acquire, AcquireOutcome, Backend, Claim, ClientMark, Clock, Convert, Error, ErrorKind,
    FencingToken, Key, Label, Limits, Mode, Released, Renew, Renewal, Watch,
};

/// Any backend, behind one type that has every capability trait.
///
/// An app keeps it where it does not want to name the type of its store. In exchange the compiler does not know what
/// the store can do: a request that the store cannot serve fails with
/// [`ErrorKind::Unsupported`](crate::ErrorKind), before anything is sent. Clones share the backend.
///
/// # Examples
///
/// ```
/// use lock_core::memory::MemoryBackend;
/// use lock_core::{AnyBackend, InspectBackend, Key};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> lock_core::Result<()> {
/// let store = AnyBackend::new(MemoryBackend::new());
/// assert_eq!(store.inspect(&Key::new("orders/42")?).await?.holding, 0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct AnyBackend(Arc<dyn Backend>);

type Answer<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

impl AnyBackend {
    /// This backend without its type.
    pub fn new(backend: impl Backend) -> Self {
        Self(Arc::new(backend))
    }

    /// This backend without its type, with the capabilities that `describe` names. It is for a backend whose
    /// capabilities depend on a type parameter, so that [`Backend::capabilities`] cannot name them.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_core::memory::MemoryBackend;
    /// use lock_core::{AnyBackend, Capabilities};
    ///
    /// let store = AnyBackend::describing(MemoryBackend::new(), |store| Capabilities::none().sharing(store));
    /// # let _ = store;
    /// ```
    pub fn describing<B: Backend>(backend: B, describe: fn(&B) -> Capabilities<'_>) -> Self {
        Self(Arc::new(Described { backend, describe }))
    }

    /// An error if the backend does not serve this mode.
    fn check(&self, mode: Mode) -> Result<(), Error> {
        let needed = match mode {
            Mode::Exclusive => return Ok(()),
            Mode::Shared => Capability::Share,
            Mode::Upgradable => Capability::Convert,
            Mode::Permits { .. } => Capability::Count,
            Mode::Joint { .. } => Capability::Join,
        };
        self.require(needed)
    }

    /// The trait object of a capability.
    fn able<'a, T>(
        &'a self,
        needed: Capability,
        capability: impl FnOnce(Capabilities<'a>) -> Option<T>,
    ) -> Result<T, Error> {
        let capabilities = self.0.capabilities();
        capabilities.require(needed)?;
        capability(capabilities)
            .ok_or_else(|| Error::new(ErrorKind::Unsupported, format!("no {needed:?}")))
    }

    fn converter(&self) -> Result<&dyn ConvertBackend, Error> {
        self.able(Capability::Convert, |it| it.converter())
    }

    fn counter(&self) -> Result<&dyn PermitBackend, Error> {
        self.able(Capability::Count, |it| it.counter())
    }

    fn cells(&self) -> Result<&dyn CellBackend, Error> {
        self.able(Capability::Keep, |it| it.cells())
    }

    fn inspector(&self) -> Result<&dyn InspectBackend, Error> {
        self.able(Capability::Inspect, |it| it.inspector())
    }
}

impl From<Arc<dyn Backend>> for AnyBackend {
    fn from(backend: Arc<dyn Backend>) -> Self {
        Self(backend)
    }
}

/// A backend, and what it can do.
struct Described<B> {
    backend: B,
    describe: fn(&B) -> Capabilities<'_>,
}

impl<B> Described<B> {
    fn check(&self, _: Mode) -> Result<(), Error> {
        Ok(())
    }
}

/// Implements `Backend` by the field with the inner backend. The futures of the inner backend are passed on as they
/// are: an `async fn` would put each into a second box.
macro_rules! forward {
    ([$($generics:tt)*] $Outer:ty, $inner:tt, |$this:ident| $capabilities:expr) => {
        #[deny(clippy::missing_trait_methods)]
        impl<$($generics)*> Backend for $Outer {
            fn try_acquire<'s, 'r, 'a>(&'s self, request: &'r Acquire) -> Answer<'a, Result<AcquireOutcome, Error>>
            where
                's: 'a,
                'r: 'a,
                Self: 'a,
            {
                match self.check(request.claim.mode) {
                    Ok(()) => self.$inner.try_acquire(request),
                    Err(error) => Box::pin(ready(Err(error))),
                }
            }

            fn renew<'s, 'r, 'a>(&'s self, request: &'r Renew) -> Answer<'a, Renewal>
            where
                's: 'a,
                'r: 'a,
                Self: 'a,
            {
                self.$inner.renew(request)
            }

            fn release<'s, 'c, 'a>(&'s self, claim: &'c Claim) -> Answer<'a, Result<Released, Error>>
            where
                's: 'a,
                'c: 'a,
                Self: 'a,
            {
                self.$inner.release(claim)
            }

            fn release_and_requeue<'s, 'c, 'n, 'a>(
                &'s self,
                claim: &'c Claim,
                next: &'n Acquire,
            ) -> Answer<'a, Result<(Released, Option<AcquireOutcome>), Error>>
            where
                's: 'a,
                'c: 'a,
                'n: 'a,
                Self: 'a,
            {
                self.$inner.release_and_requeue(claim, next)
            }

            fn try_acquire_all<'s, 'r, 'a>(
                &'s self,
                requests: &'r [Acquire],
            ) -> Answer<'a, Result<Option<Vec<AcquireOutcome>>, Error>>
            where
                's: 'a,
                'r: 'a,
                Self: 'a,
            {
                match requests.iter().try_for_each(|request| self.check(request.claim.mode)) {
                    Ok(()) => self.$inner.try_acquire_all(requests),
                    Err(error) => Box::pin(ready(Err(error))),
                }
            }

            fn watch<'s, 'k, 'a>(&'s self, key: &'k Key) -> Answer<'a, Result<Watch, Error>>
            where
                's: 'a,
                'k: 'a,
                Self: 'a,
            {
                self.$inner.watch(key)
            }

            fn introduce<'s, 'l, 'a>(
                &'s self,
                client: ClientMark,
                label: &'l Label,
                keep: Duration,
            ) -> Answer<'a, Result<(), Error>>
            where
                's: 'a,
                'l: 'a,
                Self: 'a,
            {
                self.$inner.introduce(client, label, keep)
            }

            fn clock(&self) -> Clock {
                self.$inner.clock()
            }

            fn limits(&self) -> Limits {
                self.$inner.limits()
            }

            fn capabilities(&self) -> Capabilities<'_> {
                let $this = self;
                $capabilities
            }

            fn require(&self, needed: Capability) -> Result<(), Error> {
                self.capabilities().require(needed)
            }
        }
    };
}

forward!([] AnyBackend, 0, |this| this.0.capabilities());
forward!([B: Backend] Described<B>, backend, |this| (this.describe)(&this.backend));

impl SharedBackend for AnyBackend {
    /// The compiler allows a reader to become the writer. Over a backend that cannot convert a lease, the request
    /// fails.
    type Conversion = Convertible;
}

impl JointBackend for AnyBackend {}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl ConvertBackend for AnyBackend {
    async fn convert(&self, request: &Convert) -> Result<AcquireOutcome, Error> {
        self.converter()?.convert(request).await
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl PermitBackend for AnyBackend {
    async fn permits(&self, key: &Key, of: u32) -> Result<Permits, Error> {
        self.counter()?.permits(key, of).await
    }

    async fn resize(&self, key: &Key, of: u32, change: Resize) -> Result<Resized, Error> {
        self.counter()?.resize(key, of, change).await
    }

    async fn forget(&self, claim: &Claim) -> Result<Released, Error> {
        self.counter()?.forget(claim).await
    }

    async fn close(&self, key: &Key, of: u32) -> Result<(), Error> {
        self.counter()?.close(key, of).await
    }

    async fn undeclare(&self, claim: &Claim) -> Result<bool, Error> {
        self.counter()?.undeclare(claim).await
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl CellBackend for AnyBackend {
    async fn load(&self, key: &Key) -> Result<Option<Cell>, Error> {
        self.cells()?.load(key).await
    }

    async fn load_under(&self, claim: &Claim) -> Result<Option<Cell>, Error> {
        self.cells()?.load_under(claim).await
    }

    fn load_is_conclusive(&self) -> bool {
        self.cells().is_ok_and(|cells| cells.load_is_conclusive())
    }

    async fn store(
        &self,
        claim: &Claim,
        token: FencingToken,
        value: Option<&[u8]>,
    ) -> Result<Stored, Error> {
        self.cells()?.store(claim, token, value).await
    }

    async fn commit(
        &self,
        claim: &Claim,
        token: FencingToken,
        value: &[u8],
    ) -> Result<Committed, Error> {
        self.cells()?.commit(claim, token, value).await
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl InspectBackend for AnyBackend {
    async fn inspect(&self, key: &Key) -> Result<Inspection, Error> {
        self.inspector()?.inspect(key).await
    }

    async fn list(&self, list: &List) -> Result<Page, Error> {
        self.inspector()?.list(list).await
    }

    async fn force_release(&self, key: &Key) -> Result<u64, Error> {
        self.inspector()?.force_release(key).await
    }
}

impl fmt::Debug for AnyBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AnyBackend").field(&self.0.capabilities()).finish()
    }
}
