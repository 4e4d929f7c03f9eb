//! The holders and the waiters of a lock.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::{List, Page};
use crate::{Backend, Error, ErrorKind, FencingToken, Key, Label};

/// A store that can list the holders and the waiters of a lock, and can be made to end its leases.
///
/// - An inspection MUST show every live lease and every place in the queue, and no other
///   (`an_inspection_shows_holders_and_waiters`), without the secrets that prove ownership
///   (`an_inspection_keeps_secrets`).
/// - It MUST show the [label](Backend::introduce) of a client beside each lease and each place of that client, of
///   whichever client asks (`an_inspection_shows_labels`), for as long as the store was told to keep the label and no
///   longer (`a_label_ends_with_its_time`). A label is nothing else: leases MUST NOT depend on it.
/// - It SHOULD show for how long each claim has been in the queue, by the clock of the store. A claim that came earlier
///   MUST NOT be shown to have waited for less time, and a claim MUST NOT join anew by keeping its place
///   (`an_inspection_shows_how_long_claims_wait`).
/// - A forced release MUST end every lease on the key, including those of other libraries, so that renewals
///   report them lost (`a_forced_release_ends_every_lease`). It MUST serve the queue
///   (`a_forced_release_serves_the_queue`). The tokens of the key MUST go on increasing
///   (`tokens_increase_after_a_forced_release`).
/// - The pages of a list, taken together, MUST show every lock of its prefix that is held or waited for from before
///   the first page until after the last one, with its holders and its waiters, and no lock of another prefix
///   (`a_list_shows_each_lock_of_its_prefix`). No character of a prefix is special. A page MUST be bounded, and the
///   list MUST have an end, whatever locks come and go (`a_list_comes_in_pages`). A lock MAY be on several pages, and
///   a page MAY show locks that are free by now. A store MAY refuse to list, as
///   [`ErrorKind::Unsupported`](crate::ErrorKind).
///
/// # Examples
///
/// An operator ends the lease of a holder that hangs:
///
/// ```
/// use lock_core::memory::MemoryBackend;
/// use lock_core::{Acquire, Backend, Claim, InspectBackend, Key, OwnerToken, Ttl};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> lock_core::Result<()> {
/// let store = MemoryBackend::new();
/// let claim = Claim::exclusive(Key::new("stock/apples")?, OwnerToken::generate()?);
/// store.try_acquire(&Acquire::new(claim.clone(), Ttl::DEFAULT)).await?;
///
/// assert_eq!(store.inspect(&claim.key).await?.holding, 1);
/// assert_eq!(store.force_release(&claim.key).await?, 1);
/// assert_eq!(store.inspect(&claim.key).await?.holding, 0);
/// # Ok(())
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot list the holders of its locks",
    label = "this needs a backend that can be inspected",
    note = "implement `lock_core::InspectBackend` for it"
)]
#[async_trait]
pub trait InspectBackend: Backend {
    /// The holders of a key and its waiters, as the store sees them now.
    ///
    /// The [example](InspectBackend#examples) of the trait looks at a key.
    ///
    /// # Errors
    ///
    /// Any error of the store or of the connection to it.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    async fn inspect(&self, key: &Key) -> Result<Inspection, Error>;

    /// One page of the locks that are held or waited for: see [`List`].
    ///
    /// The default implementation refuses.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`] if the store cannot list its locks; [`ErrorKind::InvalidConfig`] for a cursor of
    /// another store; otherwise any error of the store or of the connection to it.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    async fn list(&self, _list: &List) -> Result<Page, Error> {
        Err(Error::new(ErrorKind::Unsupported, "this backend cannot list its locks"))
    }

    /// Ends every lease on a key, of any owner. Returns how many there were.
    ///
    /// This is for people who clean up: the store does not ask the holders. They learn of the release from a hint,
    /// or from their next renewal. What they write until then is refused only by a resource that compares fencing
    /// tokens.
    ///
    /// The [example](InspectBackend#examples) of the trait ends a lease.
    ///
    /// # Errors
    ///
    /// Any error of the store or of the connection to it. A repetition also ends the leases that were granted in
    /// the meantime.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves open whether the leases have ended.
    async fn force_release(&self, key: &Key) -> Result<u64, Error>;
}

/// The holders and the waiters of a key.
///
/// `Display` names the first few of them, with their labels, for messages and logs.
///
/// # Examples
///
/// ```
/// use lock_core::memory::MemoryBackend;
/// use lock_core::{Acquire, Backend, Claim, InspectBackend, Key, Kind, OwnerToken, Ttl};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> lock_core::Result<()> {
/// let store = MemoryBackend::new();
/// let claim = Claim::exclusive(Key::new("stock/apples")?, OwnerToken::generate()?);
/// let _granted = store.try_acquire(&Acquire::new(claim.clone(), Ttl::DEFAULT)).await?;
///
/// let inspection = store.inspect(&claim.key).await?;
/// assert_eq!((inspection.holding, inspection.waiting), (1, 0));
/// assert_eq!(inspection.holders[0].kind, Kind::Exclusive);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Inspection {
    /// The leases on the key, at most [`MAX`](Self::MAX), in no particular order.
    pub holders: Vec<Holder>,
    /// The number of all leases on the key.
    pub holding: u64,
    /// The places in the store's queue, at most the first [`MAX`](Self::MAX), in their order.
    pub waiters: Vec<Waiter>,
    /// The number of all places in the queue.
    pub waiting: u64,
}

impl Inspection {
    /// The most holders, and the most waiters, that an inspection lists.
    ///
    /// The [example](Inspection#examples) of an inspection shows how to count all of them.
    pub const MAX: usize = 1000;

    /// An inspection of these holders and these waiters, each with the number of all.
    pub fn new(holders: (Vec<Holder>, u64), waiters: (Vec<Waiter>, u64)) -> Self {
        Self { holders: holders.0, holding: holders.1, waiters: waiters.0, waiting: waiters.1 }
    }
}

/// For example `held by billing@web-3:71 (exclusive, token 7, 8.2s left), and 2 wait`.
impl fmt::Display for Inspection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 3;
        f.write_str(if self.holding == 0 { "free" } else { "held by " })?;
        for (index, holder) in self.holders.iter().take(SHOWN).enumerate() {
            write!(f, "{}{holder}", if index == 0 { "" } else { ", " })?;
        }
        let shown = self.holders.len().min(SHOWN) as u64;
        match self.holding.saturating_sub(shown) {
            0 => {}
            others if shown == 0 => write!(f, "{others} holders")?,
            others => write!(f, " and {others} more")?,
        }
        if self.waiting > 0 { write!(f, ", and {} wait", self.waiting) } else { Ok(()) }
    }
}

/// One lease.
///
/// `Display` names its client, for example `billing@web-3:71 (exclusive, token 7, 8.2s left)`.
///
/// The [example](Inspection#examples) of an inspection shows one.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// How the key is held.
    pub kind: Kind,
    /// One of its fencing tokens: the first or the last that its grant reserved. `None` if a client of another
    /// library has the lease.
    pub token: Option<FencingToken>,
    /// How long the lease lives unless it is renewed; `None` if it has no end.
    pub remaining: Option<Duration>,
    /// The label of its client, if the store knows it: see [`Backend::introduce`].
    pub label: Option<Label>,
}

impl Holder {
    /// A lease of this kind.
    pub fn new(kind: Kind, token: Option<FencingToken>, remaining: Option<Duration>) -> Self {
        Self { kind, token, remaining, label: None }
    }

    /// This lease, of a client with this label.
    ///
    /// The [example](Backend::introduce) of a label shows a holder with one.
    #[must_use]
    pub fn labelled(self, label: Option<Label>) -> Self {
        Self { label, ..self }
    }
}

/// One place in the queue.
///
/// `Display` names its client, for example `billing@web-3:71 (exclusive, for 8.2s)`.
///
/// The [example](Inspection#examples) of an inspection shows one.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Waiter {
    /// How the waiter wants to hold the key.
    pub kind: Kind,
    /// How long the place is kept unless the client repeats its request.
    pub remaining: Duration,
    /// For how long the claim has been in the queue, if the store knows that. All waiters of a process share its place,
    /// so this is the time of the first of them, since the process last gave the key back.
    pub waited: Option<Duration>,
    /// The label of its client, if the store knows it: see [`Backend::introduce`].
    pub label: Option<Label>,
}

impl Waiter {
    /// A place for a lease of this kind.
    pub fn new(kind: Kind, remaining: Duration) -> Self {
        Self { kind, remaining, waited: None, label: None }
    }

    /// This place, of a claim that has been in the queue for so long.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use lock_core::{Kind, Waiter};
    /// let waiter = Waiter::new(Kind::Exclusive, Duration::from_secs(30));
    /// let waiter = waiter.waiting_for(Some(Duration::from_millis(8_210)));
    /// assert_eq!(waiter.to_string(), "a client without a label (exclusive, for 8.2s)");
    /// ```
    #[must_use]
    pub fn waiting_for(self, waited: Option<Duration>) -> Self {
        Self { waited, ..self }
    }

    /// This place, of a client with this label.
    ///
    /// The [example](Backend::introduce) of a label shows a holder with one.
    #[must_use]
    pub fn labelled(self, label: Option<Label>) -> Self {
        Self { label, ..self }
    }
}

/// The name of a client, for people.
fn client(label: Option<&Label>) -> &str {
    label.map_or("a client without a label", Label::as_str)
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}", client(self.label.as_ref()), self.kind)?;
        if let Some(token) = self.token {
            write!(f, ", token {token}")?;
        }
        match self.remaining {
            Some(left) => write!(f, ", {:.1}s left)", left.as_secs_f64()),
            None => f.write_str(", without an end)"),
        }
    }
}

impl fmt::Display for Waiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}", client(self.label.as_ref()), self.kind)?;
        match self.waited {
            Some(waited) => write!(f, ", for {:.1}s)", waited.as_secs_f64()),
            None => f.write_str(")"),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exclusive => f.write_str("exclusive"),
            Self::Shared => f.write_str("shared"),
            Self::Upgradable => f.write_str("upgradable"),
            Self::Permits(1) => f.write_str("1 permit"),
            Self::Permits(count) => write!(f, "{count} permits"),
            Self::Joint => f.write_str("joint"),
        }
    }
}

/// A [`Mode`](crate::Mode) without its secrets.
///
/// `Display` names it, for example `shared` or `2 permits`.
///
/// The [example](Inspection#examples) of an inspection shows one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// See [`Mode::Exclusive`](crate::Mode::Exclusive).
    Exclusive,
    /// See [`Mode::Shared`](crate::Mode::Shared).
    Shared,
    /// See [`Mode::Upgradable`](crate::Mode::Upgradable).
    Upgradable,
    /// This number of permits: see [`Mode::Permits`](crate::Mode::Permits).
    Permits(u32),
    /// See [`Mode::Joint`](crate::Mode::Joint).
    Joint,
}

macro_rules! forward {
    ($($pointer:ident),*) => {$(
        #[async_trait]
        impl<B: InspectBackend + ?Sized> InspectBackend for $pointer<B> {
            async fn inspect(&self, key: &Key) -> Result<Inspection, Error> {
                (**self).inspect(key).await
            }

            async fn list(&self, list: &List) -> Result<Page, Error> {
                (**self).list(list).await
            }

            async fn force_release(&self, key: &Key) -> Result<u64, Error> {
                (**self).force_release(key).await
            }
        }
    )*};
}

forward!(Arc, Box);

#[cfg(test)]
mod tests {
    use super::*;

    fn holder(label: Option<&str>, token: Option<u64>, left: Option<u64>) -> Holder {
        let (token, left) = (token.map(FencingToken::new), left.map(Duration::from_millis));
        Holder::new(Kind::Exclusive, token, left).labelled(label.map(|it| Label::new(it).unwrap()))
    }

    #[test]
    fn an_inspection_names_the_first_holders_by_their_labels() {
        let shown = |holders: &[Holder], holding, waiting| {
            Inspection::new((holders.to_vec(), holding), (Vec::new(), waiting)).to_string()
        };
        assert_eq!(shown(&[], 0, 0), "free");
        assert_eq!(shown(&[], 0, 2), "free, and 2 wait");
        assert_eq!(shown(&[], 2, 0), "held by 2 holders");
        let named = holder(Some("web:7"), Some(7), Some(8_210));
        assert_eq!(
            shown(&[named], 1, 1),
            "held by web:7 (exclusive, token 7, 8.2s left), and 1 wait"
        );
        let foreign = holder(None, None, None);
        let foreign_shown = "a client without a label (exclusive, without an end)";
        assert_eq!(foreign.to_string(), foreign_shown);
        let many = vec![foreign; 5];
        let three = [foreign_shown; 3].join(", ");
        assert_eq!(shown(&many, 9, 0), format!("held by {three} and 6 more"));
    }

    #[test]
    fn a_waiter_is_named_by_its_label_and_by_what_it_waits_for() {
        let label = Label::new("web:7").ok();
        let waiter = Waiter::new(Kind::Permits(2), Duration::ZERO).labelled(label);
        assert_eq!(waiter.to_string(), "web:7 (2 permits)");
    }
}
