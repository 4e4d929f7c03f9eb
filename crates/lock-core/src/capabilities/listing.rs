//! The locks of a store, in pages.

use std::fmt;
use std::num::NonZeroU32;

use crate::{Inspection, Key};

/// A request for one page of the locks that are held or waited for.
///
/// # Examples
///
/// ```
/// use lock_core::memory::MemoryBackend;
/// use lock_core::{Acquire, Backend, Claim, InspectBackend, Key, List, OwnerToken, Ttl};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> lock_core::Result<()> {
/// let store = MemoryBackend::new();
/// let claim = Claim::exclusive(Key::new("orders/42")?, OwnerToken::generate()?);
/// store.try_acquire(&Acquire::new(claim, Ttl::DEFAULT)).await?;
///
/// let mut list = List::of("orders/");
/// let mut locks = Vec::new();
/// loop {
///     let page = store.list(&list).await?;
///     locks.extend(page.locks.into_iter().map(|lock| lock.key.to_string()));
///     let Some(next) = page.next else { break };
///     list = list.from(next);
/// }
/// assert_eq!(locks, ["orders/42"]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct List {
    /// How the names begin, byte by byte. No character is special.
    pub prefix: Vec<u8>,
    /// Whether these are [exact keys](Key::raw) rather than names.
    pub raw: bool,
    /// Where the page begins; `None` for the first page.
    pub from: Option<Cursor>,
    /// How many locks the page lists, about.
    pub most: NonZeroU32,
}

impl List {
    /// How many locks a page lists by default.
    ///
    /// The [example](List#examples) of a list has such pages.
    pub const MOST: NonZeroU32 = NonZeroU32::new(100).unwrap();

    /// The first page of the locks whose names begin so. With an empty prefix, of all locks that have names.
    pub fn of(prefix: impl AsRef<[u8]>) -> Self {
        let prefix = prefix.as_ref().to_vec();
        Self { prefix, raw: false, from: None, most: Self::MOST }
    }

    /// The first page of the locks whose [exact keys](Key::raw) begin so.
    pub fn of_exact_keys(prefix: impl AsRef<[u8]>) -> Self {
        Self { raw: true, ..Self::of(prefix) }
    }

    /// The page at this cursor, of a list with the prefix of this one.
    #[must_use]
    pub fn from(self, cursor: Cursor) -> Self {
        Self { from: Some(cursor), ..self }
    }

    /// Pages of about so many locks; [`MOST`](Self::MOST) by default. A store that walks through all its keys looks at
    /// so many keys for a page: larger pages need fewer requests, and each request occupies the store for longer.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::num::NonZeroU32;
    ///
    /// use lock_core::List;
    ///
    /// let list = List::of("orders/").pages_of(NonZeroU32::new(20).unwrap());
    /// assert!(list.most < List::MOST);
    /// ```
    #[must_use]
    pub fn pages_of(self, most: NonZeroU32) -> Self {
        Self { most, ..self }
    }

    /// Whether a key belongs to the list.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_core::{Key, List};
    ///
    /// let list = List::of("orders/");
    /// assert!(list.has(&Key::new("orders/42")?));
    /// assert!(!list.has(&Key::new("bills/42")?));
    /// # Ok::<(), lock_core::Error>(())
    /// ```
    pub fn has(&self, key: &Key) -> bool {
        key.is_as_is() == self.raw && key.as_bytes().starts_with(&self.prefix)
    }
}

/// The first page of the locks whose names begin so.
impl<T: AsRef<[u8]> + ?Sized> From<&T> for List {
    fn from(prefix: &T) -> Self {
        Self::of(prefix)
    }
}

impl From<&Self> for List {
    fn from(list: &Self) -> Self {
        list.clone()
    }
}

/// Where a page of a list begins. Only the store that gave it out understands it.
///
/// The [example](List#examples) of a list goes from page to page with it.
#[derive(Clone, PartialEq, Eq)]
pub struct Cursor(Box<[u8]>);

impl Cursor {
    /// A cursor of a store, as bytes of its own.
    pub fn new(bytes: impl Into<Box<[u8]>>) -> Self {
        Self(bytes.into())
    }

    /// The bytes, for the store or for another process that goes on with the list.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_core::Cursor;
    ///
    /// let cursor = Cursor::new(*b"page 2");
    /// assert_eq!(Cursor::new(cursor.as_bytes()), cursor);
    /// ```
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cursor({})", self.0.escape_ascii())
    }
}

/// One page of a list.
///
/// The [example](List#examples) of a list shows one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Page {
    /// The locks, in no particular order. There may be none although more pages follow.
    pub locks: Vec<Listed>,
    /// Where the next page begins; `None` after the last page.
    pub next: Option<Cursor>,
}

impl Page {
    /// A page with these locks.
    pub fn new(locks: Vec<Listed>, next: Option<Cursor>) -> Self {
        Self { locks, next }
    }
}

/// One lock of a list.
///
/// `Display` shows the lock with its first holders, for example
/// `orders/42: held by billing@web-3:71 (exclusive, token 7, 8.2s left)`.
///
/// The [example](List#examples) of a list reads the names of its locks.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Listed {
    /// The lock.
    pub key: Key,
    /// Its holders and its waiters, at the time of the page.
    pub inspection: Inspection,
}

impl Listed {
    /// A lock with these holders and waiters.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_core::{Inspection, Key, Listed};
    ///
    /// let free = Listed::new(Key::new("orders/42")?, Inspection::default());
    /// assert!(free.to_string().starts_with("orders/42: "));
    /// # Ok::<(), lock_core::Error>(())
    /// ```
    pub fn new(key: Key, inspection: Inspection) -> Self {
        Self { key, inspection }
    }
}

impl fmt::Display for Listed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.inspection)
    }
}
