//! Readers and writers.

use std::sync::Arc;

use crate::{Backend, Conversion};

/// A store that tells readers from writers. An `RwLock` needs this.
///
/// The trait has no methods. A backend that implements it promises to serve [`Mode::Shared`](crate::Mode::Shared)
/// and [`Mode::Upgradable`](crate::Mode::Upgradable) by the laws under *Sharing* in the contract of [`Backend`].
/// It MUST NOT answer [`ErrorKind::Unsupported`](crate::ErrorKind) to either mode
/// (`every_way_to_share_is_served`).
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not know readers from writers",
    label = "an `RwLock` needs a backend that can share a lock",
    note = "implement `lock_core::SharedBackend` for it, or use a `Mutex`, which every backend can carry",
    note = "over `dyn Backend` only the mutex is left: use `lock_core::AnyBackend` instead"
)]
pub trait SharedBackend: Backend {
    /// [`Convertible`](crate::Convertible) if the backend is a [`ConvertBackend`](crate::ConvertBackend) as
    /// well, and [`Fixed`](crate::Fixed) if it is not.
    ///
    /// The [example](crate::Convert#examples) of a conversion shows what can be converted.
    type Conversion: Conversion;
}

impl<B: SharedBackend + ?Sized> SharedBackend for Arc<B> {
    type Conversion = B::Conversion;
}

impl<B: SharedBackend + ?Sized> SharedBackend for Box<B> {
    type Conversion = B::Conversion;
}
