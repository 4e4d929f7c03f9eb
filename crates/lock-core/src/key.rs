//! The name of a lock.

use std::fmt;
use std::sync::Arc;

use crate::{Error, ErrorKind};

/// The name of a lock: any bytes, up to [`Key::MAX_LEN`] of them.
///
/// A backend decides how a name is stored. `lock-redis` adds a prefix and puts the name in braces, so
/// that everything that belongs to one lock shares a slot. A name made with [`Key::raw`] is
/// the exact key in the store, for locks whose names other programs chose.
///
/// Names are compared byte by byte and are not normalised. Cloning is cheap.
///
/// # Examples
///
/// ```
/// use lock_core::{ErrorKind, Key};
///
/// # fn main() -> lock_core::Result<()> {
/// let key = Key::new("stock/apples")?;
/// assert_eq!(key.as_bytes(), b"stock/apples");
/// assert_eq!(Key::try_from("stock/apples")?, key);
/// let long = Key::new("x".repeat(Key::MAX_LEN + 1));
/// assert_eq!(long.unwrap_err().kind(), ErrorKind::InvalidKey);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    bytes: Arc<[u8]>,
    raw: bool,
}

impl Key {
    /// The greatest length of a name, in bytes.
    pub const MAX_LEN: usize = 512;

    /// A name that the backend may decorate.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidKey`] if the name is longer than [`Key::MAX_LEN`].
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_core::Key;
    ///
    /// let key = Key::new("orders/42")?;
    /// assert_eq!(key.as_bytes(), b"orders/42");
    /// assert!(Key::new("x".repeat(4096)).is_err());
    /// # Ok::<(), lock_core::Error>(())
    /// ```
    pub fn new(name: impl AsRef<[u8]>) -> Result<Self, Error> {
        Self::checked(name.as_ref(), false)
    }

    /// The exact key in the store, as clients of other libraries chose it.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidKey`] if the key is empty or longer than [`Key::MAX_LEN`].
    pub fn raw(key: impl AsRef<[u8]>) -> Result<Self, Error> {
        if key.as_ref().is_empty() {
            return Err(Error::new(ErrorKind::InvalidKey, "a key taken as it is cannot be empty"));
        }
        Self::checked(key.as_ref(), true)
    }

    fn checked(bytes: &[u8], raw: bool) -> Result<Self, Error> {
        if bytes.len() > Self::MAX_LEN {
            return Err(Error::new(
                ErrorKind::InvalidKey,
                format!("a key of {} bytes is too long: {} at most", bytes.len(), Self::MAX_LEN),
            ));
        }
        Ok(Self { bytes: bytes.into(), raw })
    }

    /// The bytes of the name.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether the name is the exact key in the store.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_core::Key;
    ///
    /// assert!(Key::raw("resque:lock:mail")?.is_as_is());
    /// assert!(!Key::new("mail")?.is_as_is());
    /// # Ok::<(), lock_core::Error>(())
    /// ```
    pub fn is_as_is(&self) -> bool {
        self.raw
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.bytes.escape_ascii())
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({}\"{}\")", if self.raw { "as is, " } else { "" }, self)
    }
}

macro_rules! try_from {
    ($($from:ty),*) => {$(
        impl TryFrom<$from> for Key {
            type Error = Error;

            fn try_from(name: $from) -> Result<Self, Error> {
                Self::new(name)
            }
        }
    )*};
}

try_from!(&str, String, &String, &[u8], Vec<u8>);

impl From<&Key> for Key {
    fn from(key: &Key) -> Self {
        key.clone()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn odd_names_are_names() {
        for name in [&b""[..], b"\0", b"\r\n", b"{}", b"}{", b"\xff\xfe"] {
            assert_eq!(Key::new(name).unwrap().as_bytes(), name);
        }
    }

    #[test]
    fn a_long_name_is_refused() {
        assert!(Key::new(vec![b'x'; Key::MAX_LEN]).is_ok());
        let error = Key::new(vec![b'x'; 1 << 20]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidKey);
        assert_eq!(error.to_string(), "a key of 1048576 bytes is too long: 512 at most");
    }

    #[test]
    fn a_name_and_an_exact_key_differ() {
        assert_ne!(Key::new("a").unwrap(), Key::raw("a").unwrap());
        assert!(Key::raw("").is_err());
    }

    proptest! {
        #[test]
        fn a_name_is_kept_to_the_byte_or_refused(
            name in prop_oneof![
                prop::collection::vec(any::<u8>(), 0..40),
                prop::collection::vec(any::<u8>(), 505..520),
            ],
        ) {
            let is_short = name.len() <= Key::MAX_LEN;
            for (key, is_key) in
                [(Key::new(&name), is_short), (Key::raw(&name), is_short && !name.is_empty())]
            {
                match key {
                    Ok(key) => {
                        prop_assert!(is_key && key.as_bytes() == name);
                        let shown = format!("{key} {key:?}");
                        prop_assert!(shown.chars().all(|it| it == ' ' || it.is_ascii_graphic()));
                    }
                    Err(error) => {
                        prop_assert_eq!(error.kind(), ErrorKind::InvalidKey);
                        prop_assert!(!is_key);
                    }
                }
            }
        }

        #[test]
        fn what_is_shown_of_a_name_tells_it_from_others(
            one in prop::collection::vec(any::<u8>(), 0..4),
            other in prop::collection::vec(any::<u8>(), 0..4),
        ) {
            let (one, other) = (Key::new(one).unwrap(), Key::new(other).unwrap());
            prop_assert_eq!(one.to_string() == other.to_string(), one == other);
        }
    }
}
